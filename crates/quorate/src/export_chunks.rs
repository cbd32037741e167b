//! `quorate export-chunks`: writes the blocks in a chunk store to files, in a folder per container.

use std::process::ExitCode;

use anyhow::Context;
use chunk::ChunkError;
use chunk::block::BlockId;
use chunk::container::ContainerInfo;
use chunk::layout::Layout;
use chunk::store::{Store, StoreOptions};
use storage::disk::RealDisk;

use crate::cli::ExportChunksArgs;
use crate::listen_chunk::CHUNKS_DIR;

/// Exports each container that is not already in files, and prints where its files are. Damage to
/// the store or to a block is printed and makes the command fail; the other blocks are exported
/// nevertheless.
pub fn run(args: &ExportChunksArgs) -> anyhow::Result<ExitCode> {
    let below = || args.data_dir.join(CHUNKS_DIR);
    let folder = args.chunk_dir.clone().unwrap_or_else(below);
    anyhow::ensure!(folder.is_dir(), "there is no chunk store in {}", folder.display());
    let store = Store::open_existing(RealDisk::existing(&folder), StoreOptions::default())
        .with_context(|| format!("{}, which no server may have open", folder.display()))?;
    let ids = match args.container.is_empty() {
        true => store.container_ids(),
        false => args.container.clone(),
    };
    let containers: Vec<ContainerInfo> =
        ids.into_iter().map(|id| store.container(id)).collect::<Result<_, _>>()?;
    let to = RealDisk::new(&args.to).with_context(|| args.to.display().to_string())?;
    let mut lost: Vec<String> = store.damage().iter().map(ToString::to_string).collect();
    let noted = store.noted_damage().iter().filter(|noted| !lost.contains(noted));
    let noted: Vec<String> = noted.cloned().collect();
    lost.extend(noted);
    let mut is_whole = lost.is_empty();
    lost.iter().for_each(|what| println!("PROBLEM: {what}"));
    let mut tell = |damaged: Vec<(BlockId, String)>| {
        is_whole &= damaged.is_empty();
        damaged.iter().for_each(|(_, what)| println!("PROBLEM: {what}"));
    };
    for ContainerInfo { id, layout, path, .. } in containers {
        if layout != Layout::Log {
            println!("container {id}: its files are {}", folder.join(path).display());
            tell(store.damaged_blocks(id)?);
            continue;
        }
        let exported = match store.export_container(id, &to) {
            Err(ChunkError::ContainerExists { .. }) => {
                println!("container {id}: it is in {} already", args.to.display());
                // The earlier export left the damaged blocks out.
                tell(store.damaged_blocks(id)?);
                continue;
            }
            other => other.with_context(|| args.to.display().to_string())?,
        };
        let (blocks, bytes) = (exported.blocks, exported.bytes);
        let dir = args.to.join(&exported.dir);
        println!("container {id}: {blocks} blocks, {bytes} bytes, in {}", dir.display());
        tell(exported.damaged);
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
