//! `quorate inspect`: verifies a data directory or a backup file and prints a summary of its
//! content. It changes nothing, unless `--repair` asks for it.

use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use etcd::backup::Imported;
use machine::Machine;
use storage::disk::RealDisk;

use crate::cli::{EtcdPart, InspectArgs};
use crate::inspect_etcd;
use crate::listen_chunk::CHUNKS_DIR;
use crate::restore::read_backup_file;

/// Verifies and prints a data directory with its chunk store, or a backup file. The exit status is
/// 1 if the directory is damaged; a damaged file is an error.
pub fn run(args: &InspectArgs) -> anyhow::Result<ExitCode> {
    let dir = args.data_dir.display();
    if args.data_dir.is_file() {
        let Imported { machine, differences } =
            read_backup_file(&args.data_dir, "read as a backup", true)?;
        println!("{dir}: sound, entry {}", machine.index().0);
        for line in differences {
            println!("{line}");
        }
        println!("{} znodes", machine.zk().tree().znode_count());
        print_etcd(&machine, args.etcd.as_deref().unwrap_or_default())?;
        return Ok(ExitCode::SUCCESS);
    }
    anyhow::ensure!(args.data_dir.is_dir(), "{dir} is not a directory");
    let mut disk = RealDisk::existing(&args.data_dir);
    if let Some(log_dir) = &args.log_dir {
        disk = disk.with_existing_log(log_dir);
    }
    let report = member::inspect::inspect(&disk);
    print!("{report}");
    let mut is_sound = report.is_sound();
    if let Some(parts) = &args.etcd {
        let held = member::inspect::held_state(&disk).map_err(|error| anyhow!("{dir}: {error}"))?;
        println!("state as of entry {}", held.index);
        print_etcd(&held.machine, parts)?;
        if let Some(why) = held.ended {
            println!("later entries are not in this state: {why}");
            is_sound = false;
        } else if held.index < held.last_index {
            println!("entries up to {} are not known to be committed", held.last_index);
        }
    }
    let below = || args.data_dir.join(CHUNKS_DIR);
    let chunks = args.chunk_dir.clone().unwrap_or_else(below);
    anyhow::ensure!(
        chunks.is_dir() || !args.repair && args.chunk_dir.is_none(),
        "there is no chunk store in {}",
        chunks.display()
    );
    if chunks.is_dir() {
        if args.repair {
            repair(&chunks)?;
        }
        let report = chunk::store::inspect(RealDisk::existing(&chunks));
        let report = report.with_context(|| chunks.display().to_string())?;
        print!("{report}");
        is_sound &= report.is_sound();
    }
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_etcd(machine: &Machine, parts: &[EtcdPart]) -> anyhow::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let printed = inspect_etcd::print(machine, parts, &mut out).and_then(|()| out.flush());
    match printed {
        // The program that reads the output has closed the pipe.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => Ok(printed?),
    }
}

/// Marks the damage that the chunk store has recorded as accepted, and prints it.
fn repair(chunks: &Path) -> anyhow::Result<()> {
    let shown = chunks.display();
    let repaired = chunk::store::repair(&RealDisk::existing(chunks));
    let noted = repaired.with_context(|| format!("{shown}: is the server stopped?"))?;
    for line in &noted {
        println!("accepted: {line}");
    }
    match noted.len() {
        0 => println!("{shown}: no damage is noted"),
        _ => println!("{shown}: from the next start on, the store frees space again"),
    }
    Ok(())
}
