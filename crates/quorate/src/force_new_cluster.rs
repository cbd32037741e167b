//! A start under etcd's name with `--force-new-cluster`: before the member starts, its data
//! directory becomes the only member of a new cluster. For a cluster that has lost its quorum for
//! good. The other members are refused if they come back, and `etcdctl member add` adds new ones.
//!
//! Unlike etcd, the start keeps the entries that are not known to be committed, since some of them
//! may have been acknowledged, and it gives the cluster another id.

use anyhow::{Context, anyhow};
use config::{ServeArgs, ServeConfig, etcd_program};
use member::recovery::survivors::{Completeness, Survivor, completeness};
use storage::datadir::{IDENTITY_FILE, keep_servers};
use storage::disk::RealDisk;

use crate::random::random_bytes;

/// Makes the data directory the only member of a new cluster, if the options ask for that. Returns
/// the options without the other servers; `None` if nothing was done, because the directory has no
/// data, or its member is alone already.
///
/// # Errors
/// The directory is in use or damaged, or cannot be written.
pub fn force(args: &ServeArgs, config: &ServeConfig) -> anyhow::Result<Option<ServeArgs>> {
    let is_wanted = args.etcd.as_ref().is_some_and(|given| given.force_new_cluster);
    let dir = &config.storage.data_dir;
    // Without an identity the directory is empty, or an earlier start was interrupted here, and
    // this one completes its work.
    if !is_wanted || !dir.join(IDENTITY_FILE).is_file() {
        return Ok(None);
    }
    let shown = dir.display();
    let disk = disk_of(config);
    let refused = |error| anyhow!("{shown}: --force-new-cluster: {error}");
    let survivor = Survivor::open(disk).map_err(refused)?;
    if survivor.is_alone() {
        tracing::info!("--force-new-cluster: this member is the only one of its cluster already");
        return Ok(None);
    }
    let last = survivor.last().index;
    if completeness(std::slice::from_ref(&survivor)) != Completeness::Complete {
        tracing::warn!(
            "--force-new-cluster: writes behind entry {last} are lost, if other members have \
             acknowledged any without this one"
        );
    }
    let drawn = random_bytes().context("random bytes")?;
    let kept = survivor.begin_anew(&drawn, config.storage.level_max).map_err(refused)?;
    tracing::warn!(
        "--force-new-cluster: this member begins a new cluster alone, with its state after entry \
         {last}; {kept} has what was here before"
    );
    let mut args = args.clone();
    if let Some(servers) = args.etcd.as_mut().and_then(|given| given.cluster.as_mut()) {
        servers.servers.retain(|server| server.number == servers.own);
    }
    Ok(Some(args))
}

/// Stores the list of the configuration, which has no other server any more, in the data directory:
/// later starts read it there.
///
/// # Errors
/// The directory cannot be written.
pub fn keep_list(config: &ServeConfig) -> anyhow::Result<()> {
    let text = etcd_program::text_of_servers(config.cluster.as_ref());
    Ok(keep_servers(&disk_of(config), &text)?)
}

fn disk_of(config: &ServeConfig) -> RealDisk {
    let disk = RealDisk::existing(&config.storage.data_dir);
    match &config.storage.log_dir {
        Some(log_dir) => disk.with_existing_log(log_dir),
        None => disk,
    }
}
