//! `quorate restore`: creates data directories that begin with the state of a backup.
//!
//! All servers of an ensemble must begin with the same state and as one cluster, so one run creates
//! all their directories. Each run draws new ids for the cluster and its members. So servers left
//! over from the old ensemble belong to another cluster, and are refused.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, ensure};
use etcd::backup::Imported;
use machine::{Machine, MemberId};
use member::recovery::{be_born_with, draw_ids};
use member::snapshot::received::read_backup;
use storage::datadir::{Birth, IDENTITY_FILE};
use storage::disk::RealDisk;

use crate::cli::{NewDirArgs, RestoreArgs};
use crate::etcd_database::EtcdDatabase;
use crate::random::random_bytes;

/// Creates the directories that the options name.
pub fn run(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let folders = new_folders(&args.at)?;
    // The backup is read before anything is created, so an unusable file leaves nothing behind.
    let Imported { machine: backup, differences } = read_restored(args)?;
    for line in differences {
        println!("{}: {line}", args.backup.display());
    }
    make_directories(&folders, backup, || Ok(read_restored(args)?.machine))?;
    Ok(ExitCode::SUCCESS)
}

/// The directories to create, in the order of the servers' numbers.
///
/// # Errors
/// The numbers make no ensemble, or a directory is a server's already.
pub fn new_folders(at: &NewDirArgs) -> anyhow::Result<Vec<PathBuf>> {
    let numbers: BTreeSet<u32> = at.servers.iter().copied().collect();
    ensure!(numbers.len() == at.servers.len(), "--servers names a server twice");
    ensure!(numbers.len() != 1, "an ensemble has several servers; without --servers there is one");
    let folders: Vec<PathBuf> = match numbers.is_empty() {
        true => vec![at.data_dir.clone()],
        false => numbers.iter().map(|number| at.data_dir.join(number.to_string())).collect(),
    };
    for folder in &folders {
        let is_used = folder.join(IDENTITY_FILE).exists();
        ensure!(!is_used, "{}: it is the data directory of a server", folder.display());
    }
    Ok(folders)
}

/// Creates the directories of the members of a new ensemble, all with the same state, and prints a
/// line for each. The first gets `state`, and each further one what `again` reads: two states at
/// once might not fit into the memory.
///
/// # Errors
/// A directory cannot be written, or the state cannot be read again.
pub fn make_directories(
    folders: &[PathBuf],
    state: Machine,
    mut again: impl FnMut() -> anyhow::Result<Machine>,
) -> anyhow::Result<()> {
    let (znodes, keys) = (state.zk().tree().znode_count(), state.etcd().key_count());
    let revision = state.etcd().revision();
    let (cluster_id, _) = draw_ids(&random_bytes()?);
    let members = folders.iter().map(|_| Ok(draw_ids(&random_bytes()?).1));
    let mut members: Vec<MemberId> = members.collect::<anyhow::Result<_>>()?;
    members.sort_unstable();
    let birth = Birth { cluster_id, voters: members.iter().map(|member| member.0).collect() };
    let mut first = Some(state);
    for (folder, member) in folders.iter().zip(members) {
        let state = match first.take() {
            Some(state) => state,
            None => again()?,
        };
        let shown = folder.display();
        let disk = RealDisk::new(folder).with_context(|| format!("{shown}"))?;
        be_born_with(&disk, member, &birth, state).map_err(|error| anyhow!("{shown}: {error}"))?;
        println!(
            "{shown}: {znodes} znodes, {keys} keys of etcd at revision {revision}, member {:016x}",
            member.0
        );
    }
    Ok(())
}

/// Reads the backup, with its revision raised if the options ask for that.
fn read_restored(args: &RestoreArgs) -> anyhow::Result<Imported> {
    let mut backup = read_backup_file(&args.backup, "restored", args.skip_hash_check)?;
    bump(&mut backup.machine, &args.at)?;
    Ok(backup)
}

/// Raises the revision of etcd's keys, if the options ask for that.
///
/// # Errors
/// The revision would be too high.
pub fn bump(machine: &mut Machine, at: &NewDirArgs) -> anyhow::Result<()> {
    let is_bumped = at.bump_revision.is_none_or(|by| machine.bump_etcd_revision(by));
    ensure!(is_bumped, "--bump-revision: the revision would be too high");
    Ok(())
}

/// Reads and checks a backup: a snapshot, or a database file of etcd. `wanted` is a past participle
/// that completes the error "FILE cannot be ...".
///
/// # Errors
/// The file cannot be read, is damaged, or is not a backup; or it is a database without a hash, and
/// `without_hash` is false.
pub fn read_backup_file(
    backup: &Path,
    wanted: &str,
    without_hash: bool,
) -> anyhow::Result<Imported> {
    let shown = backup.display();
    let file = File::open(backup).with_context(|| format!("{shown}"))?;
    let database = EtcdDatabase::open(file).with_context(|| format!("{shown}"))?;
    let Some(database) = database else {
        let machine = read_snapshot(backup, wanted)?;
        return Ok(Imported { machine, differences: Vec::new() });
    };
    ensure!(
        without_hash || database.has_hash(),
        "{shown} has no hash, so damage cannot be noticed; --skip-hash-check takes it as it is"
    );
    database.read().map_err(|error| anyhow!("{shown} cannot be {wanted}: {error:#}"))
}

fn read_snapshot(backup: &Path, wanted: &str) -> anyhow::Result<Machine> {
    let shown = backup.display();
    // The path may be a symbolic link with another name.
    let backup = &backup.canonicalize().with_context(|| format!("{shown}"))?;
    let name = backup.file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("{shown} is not the name of a file"))?;
    let disk = RealDisk::existing(backup.parent().unwrap_or(Path::new("/")));
    // The error's text already includes its causes.
    read_backup(&disk, name).map_err(|error| anyhow!("{shown} cannot be {wanted}: {error}"))
}
