//! Shows the machine that a run was made on, and the systems that were measured.

use maud::{Markup, html};

use super::{plots, shell};
use crate::number::{bytes, shown};
use crate::schema::{Disk, Results, Role};

/// The section about the machine and its disk.
pub fn machine(results: &Results) -> Markup {
    let machine = &results.machine;
    let cores = if machine.cores == 0 { String::new() } else { machine.cores.to_string() };
    let memory = machine.memory_bytes;
    let facts = [
        ("processor", machine.processor.clone()),
        ("cores", cores),
        ("memory", if memory == 0 { String::new() } else { bytes(memory) }),
        ("kernel", machine.kernel.clone()),
        ("limits", machine.limits.join(", ")),
        ("stolen CPU", format!("{} ms", shown(machine.stolen_ms as f64))),
    ];
    html! {
        h2 { "Machine" }
        (shell::facts(&facts))
        @if let Some(one) = &machine.disk { (disk(one)) }
    }
}

fn disk(disk: &Disk) -> Markup {
    let facts = [("disk", disk.folder.clone()), ("file system", disk.file_system.clone())];
    html! {
        (shell::facts(&facts))
        (plots::disk(&disk.before, disk.after.as_ref()))
    }
}

/// The section about the systems and their configurations.
pub fn systems(results: &Results) -> Markup {
    let role = |role| match role {
        Role::Ours => "ours",
        Role::Peer => "real server",
        Role::Null => "null server: the ceiling of the generator",
    };
    html! {
        @if !results.systems.is_empty() { h2 { "Systems" } }
        @for system in &results.systems {
            h3 { (system.name) " " span.chip { (role(system.role)) } }
            (shell::facts(&[("address", system.address.clone()), ("build", system.build.clone())]))
            @if !system.configuration.is_empty() { pre { (system.configuration.join("\n")) } }
        }
    }
}
