//! Renders a run as a Markdown document, for sites that show Markdown and no HTML: the tables, the
//! systems and the machine. Curves and courses are only in the HTML page.

use crate::number::{bytes, duration, shown};
use crate::rows::{Group, TestRows, groups, reservations, warnings};
use crate::schema::{Disk, Machine, Results, Role, System};
use crate::text::{cells, header, summary};

/// The Markdown document of a run.
pub fn document(results: &Results) -> String {
    let took = duration(results.seconds);
    let mut parts = vec![
        format!("# {}", results.title),
        format!("{}, began {}, took {took}.", results.workload, results.began_at),
    ];
    if !results.command.is_empty() {
        parts.push(format!("    {}", results.command));
    }
    parts.extend(warnings(results).iter().map(|warning| format!("> {warning}")));
    parts.extend(results.about.iter().cloned());
    parts.push(list(results.systems.iter().map(system).chain([machine(&results.machine)])));
    let is_quotable = reservations(results).is_empty();
    for group in groups(results) {
        if !group.name.is_empty() {
            parts.push(format!("## {}", group.name));
        }
        parts.push(table(results, &group));
        parts.extend(summary(&group).filter(|_| is_quotable));
    }
    let lists = [
        ("What differs from the method of the document", &results.deviations),
        ("Traps of the document", &results.traps),
    ];
    for (heading, entries) in lists.into_iter().filter(|(_, entries)| !entries.is_empty()) {
        parts.push(format!("## {heading}"));
        parts.push(list(entries.iter().cloned()));
    }
    parts.join("\n\n") + "\n"
}

fn list(entries: impl Iterator<Item = String>) -> String {
    entries.map(|entry| format!("- {entry}")).collect::<Vec<_>>().join("\n")
}

fn system(system: &System) -> String {
    let role = match system.role {
        Role::Ours => "ours",
        Role::Peer => "real server",
        Role::Null => "null server",
    };
    let about = [&system.build, &system.configuration.join(", ")].map(String::clone);
    let about: Vec<String> = about.into_iter().filter(|text| !text.is_empty()).collect();
    let about = if about.is_empty() { String::new() } else { format!(": {}", about.join("; ")) };
    format!("{} ({role}){about}", system.name)
}

fn machine(machine: &Machine) -> String {
    let Machine { processor, cores, memory_bytes, kernel, stolen_ms, .. } = machine;
    let memory = bytes(*memory_bytes);
    let stolen = shown(*stolen_ms as f64);
    let disk = machine.disk.as_ref().map(disk).unwrap_or_default();
    format!("{processor}, {cores} cores, {memory}, {kernel}; {disk}stolen CPU {stolen} ms")
}

fn disk(disk: &Disk) -> String {
    let p50 = disk.before.points.iter().find(|(percent, _)| *percent >= 50.0);
    let p50 = p50.map(|(_, ms)| format!(" of {} ms", shown(*ms))).unwrap_or_default();
    format!("{}, median fdatasync{p50} before the run; ", disk.file_system)
}

/// The table of a group.
fn table(results: &Results, group: &Group) -> String {
    let mut lines = vec![line(&header(results)), line(&["---"; 7].map(str::to_string))];
    for TestRows { test, rows } in &group.tests {
        let alone = |text: String| line(&[text].into_iter().chain(blanks()).collect::<Vec<_>>());
        let title = &test.title;
        lines.extend(test.skipped.iter().map(|why| alone(format!("{title}: skipped, {why}"))));
        if rows.len() > 1 {
            lines.push(alone(format!("**{title}**")));
        }
        let name = if rows.len() > 1 { String::new() } else { format!("{title}: ") };
        lines.extend(rows.iter().map(|row| line(&cells(&name, row))));
    }
    lines.join("\n")
}

/// The empty cells of a line that has only a first cell.
fn blanks() -> impl Iterator<Item = String> {
    std::iter::repeat_n(String::new(), 6)
}

fn line(cells: &[String]) -> String {
    let cell = |text: &String| text.trim_end().replace('\u{a0}', " ").replace('|', "\\|");
    let cells: Vec<String> = cells.iter().map(cell).collect();
    format!("| {} |", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{large, run};

    #[test]
    fn each_row_of_a_table_has_as_many_cells_as_its_header() {
        for mut results in [run(), large()] {
            results.tests[0].title = "a|b".into();
            let document = document(&results);
            assert!(document.contains("a\\|b"), "{document}");
            let rows = document.lines().filter(|line| line.starts_with('|'));
            let counts: Vec<usize> =
                rows.map(|row| row.replace("\\|", "").matches('|').count()).collect();
            assert!(counts.len() > 4 && counts.iter().all(|count| *count == 8), "{document}");
        }
    }

    #[test]
    fn it_says_what_the_text_says() {
        let document = document(&run());
        for part in ["# Latencies", "    quorate bench", "## znodes", "21,700", "[1.52x, 1.53x]"] {
            assert!(document.contains(part), "{part}\n{document}");
        }
        for part in ["geometric mean of 2 tests", "7 servers: skipped", "- All servers share"] {
            assert!(document.contains(part), "{part}\n{document}");
        }
    }

    #[test]
    fn doubts_stand_before_the_tables() {
        let doubtful = Results { doubts: vec!["CPU was stolen".into()], ..run() };
        let document = document(&doubtful);
        let at = |text: &str| document.find(text).expect("it is there");
        assert!(at("> No figure of this run is to be quoted") < at("| test |"), "{document}");
        assert!(!document.contains("geometric mean"), "{document}");
    }
}
