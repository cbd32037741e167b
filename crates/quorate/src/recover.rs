//! `quorate recover`: creates data directories with the state of the servers that survive, for an
//! ensemble that has lost its quorum for good.
//!
//! The new servers are another cluster with new ids, as after `quorate restore`. So a lost server
//! that comes back is refused, and cannot bring its old votes along.

use std::process::ExitCode;

use anyhow::{Context, anyhow, ensure};
use machine::{Machine, MemberId};
use member::recovery::survivors::{Completeness, Survivor, completeness, furthest};
use storage::disk::RealDisk;
use storage::wal::WAL_DIR;

use crate::cli::RecoverArgs;
use crate::restore::{bump, make_directories, new_folders};

/// Creates the directories that the options name, or only says what they would hold.
pub fn run(args: &RecoverArgs) -> anyhow::Result<ExitCode> {
    let folders = new_folders(&args.at)?;
    let survivors = open_all(args)?;
    let place = furthest(&survivors);
    let (taken, dir) = (&survivors[place], args.dirs[place].display());
    for (dir, survivor) in args.dirs.iter().zip(&survivors) {
        println!(
            "{}: member {:016x}, up to entry {} of term {}, known to be committed up to {}",
            dir.display(),
            survivor.identity().member_id,
            survivor.last().index,
            survivor.last().term,
            survivor.commit()
        );
    }
    let read = || {
        let mut state = taken.state().map_err(|error| anyhow!("{dir}: {error}"))?;
        bump(&mut state, &args.at)?;
        Ok(state)
    };
    let state = read()?;
    println!("{dir} goes furthest: the new servers begin with its state after that entry");
    println!("{}", shown_completeness(&completeness(&survivors), taken.last().index, &state));
    if args.dry_run {
        println!("a dry run: nothing was made");
        return Ok(ExitCode::SUCCESS);
    }
    make_directories(&folders, state, read)?;
    Ok(ExitCode::SUCCESS)
}

/// Opens all directories that survive.
fn open_all(args: &RecoverArgs) -> anyhow::Result<Vec<Survivor<RealDisk>>> {
    let count = args.log_dir.len();
    ensure!(
        count == 0 || count == args.dirs.len(),
        "--log-dir names {count} directories, and there are {} data directories",
        args.dirs.len()
    );
    let (mut survivors, mut logs) = (Vec::<Survivor<RealDisk>>::new(), Vec::new());
    for (place, dir) in args.dirs.iter().enumerate() {
        let shown = dir.display();
        ensure!(dir.is_dir(), "{shown} is not a directory");
        // A path that a symbolic link names is used as it is.
        let root = dir.canonicalize().with_context(|| format!("{shown}"))?;
        let mut disk = RealDisk::existing(&root);
        let log_dir = args.log_dir.get(place).map(|it| it.canonicalize()).transpose();
        let log_dir = log_dir.with_context(|| format!("{shown}: --log-dir"))?;
        let log = log_dir.as_ref().unwrap_or(&root).join(WAL_DIR);
        ensure!(
            log.is_dir(),
            "{shown}: there is no log at {}: if it has a directory of its own (dataLogDir), name it \
             by --log-dir",
            log.display()
        );
        // The log of another server would pass for this one's.
        ensure!(!logs.contains(&log), "{shown}: {} is named twice", log.display());
        logs.push(log);
        if let Some(log_dir) = log_dir {
            disk = disk.with_existing_log(log_dir);
        }
        let survivor = Survivor::open(disk).map_err(|error| {
            let hint = match (error.is_in_use(), error.is_of_content()) {
                (true, _) => "; stop its server first",
                (false, true) => "; leave it out to recover from the others",
                (false, false) => "",
            };
            anyhow!("{shown}: {error}{hint}")
        })?;
        if let Some(first) = survivors.first() {
            ensure!(
                first.identity().cluster_id == survivor.identity().cluster_id,
                "{} and {shown} are of different clusters",
                args.dirs[0].display()
            );
        }
        survivors.push(survivor);
    }
    Ok(survivors)
}

/// A line about the writes that the directories lack. `state` knows the servers of lost members.
fn shown_completeness(completeness: &Completeness, last: u64, state: &Machine) -> String {
    match completeness {
        Completeness::Complete => {
            "no acknowledged write is missing: each quorum has one of these servers".to_string()
        }
        Completeness::Unknown { lost } => {
            let name = |member: &MemberId| match state.control().servers().number_of(*member) {
                Some(number) => format!("server {number}"),
                None => format!("member {:016x}", member.0),
            };
            let lost: Vec<String> = lost.iter().map(name).collect();
            format!(
                "writes behind entry {last} are lost, if there are any: other servers may have \
                 acknowledged them without these (lost: {})",
                lost.join(", ")
            )
        }
    }
}
