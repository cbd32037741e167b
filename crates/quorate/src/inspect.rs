//! `quorate inspect`: verifies a data directory and prints its contents, read-only.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use storage::disk::RealDisk;

use crate::cli::InspectArgs;
use crate::listen_chunk::CHUNKS_DIR;

/// Prints the contents of the directory, with its chunk store. Fails unless all of it is sound.
pub fn run(args: &InspectArgs) -> anyhow::Result<ExitCode> {
    let dir = args.data_dir.display();
    anyhow::ensure!(args.data_dir.is_dir(), "{dir} is not a directory");
    let mut disk = RealDisk::existing(&args.data_dir);
    if let Some(log_dir) = &args.log_dir {
        disk = disk.with_existing_log(log_dir);
    }
    let report = member::inspect::inspect(&disk);
    print!("{report}");
    let mut is_sound = report.is_sound();
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

/// Accepts the damage that the chunk store has noted, and prints it.
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
