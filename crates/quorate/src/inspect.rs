//! `quorate inspect`: what is in a data directory, verified, read-only.

use std::process::ExitCode;

use storage::disk::RealDisk;

use crate::cli::InspectArgs;

/// Prints what the directory holds. Fails unless all of it is sound.
pub fn run(args: &InspectArgs) -> anyhow::Result<ExitCode> {
    let dir = args.data_dir.display();
    anyhow::ensure!(args.data_dir.is_dir(), "{dir} is not a directory");
    let mut disk = RealDisk::existing(&args.data_dir);
    if let Some(log_dir) = &args.log_dir {
        disk = disk.with_existing_log(log_dir);
    }
    let mut verify = |_index: u64, kind: u8, payload: &[u8]| {
        if kind != storage::wal::EntryKind::Normal.as_u8() || payload.is_empty() {
            return Ok(());
        }
        machine::entry::verify(payload).map(|_| ()).map_err(|error| error.to_string())
    };
    let report = storage::inspect::inspect(&disk, &mut verify);
    print!("{report}");
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
