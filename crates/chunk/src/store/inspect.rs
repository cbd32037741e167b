//! Checks a store without changing it: reads everything that its index names and compares it with
//! its checksums, as the scrubber does. If a container still takes writes, only the lengths of its
//! files are checked, not their bytes.

use core::fmt;

use storage::disk::Disk;

use crate::block::BlockId;
use crate::chain::list_segments;
use crate::checkpoint::{checkpoint_bytes, list_checkpoints};
use crate::container::ContainerInfo;
use crate::error::ChunkError;
use crate::record::Position;
use crate::segment::segment_path;
use crate::store::Store;

/// The content of a store, and its problems.
#[derive(Clone, Debug)]
pub struct Report {
    /// The uuid of the store.
    pub datanode_uuid: String,
    /// The positions of its checkpoints, sorted, each with the size of its file in bytes.
    pub checkpoints: Vec<(Position, u64)>,
    /// Number of the log's segments, and the sum of their sizes in bytes.
    pub segments: (usize, u64),
    /// The position where its log ends.
    pub end: Position,
    /// The containers, sorted by id.
    pub containers: Vec<ContainerInfo>,
    /// Number of blocks.
    pub blocks: u64,
    /// Bytes of blocks that were read. Those in the log, and those of chunks with checksums, were
    /// compared with their checksums.
    pub bytes: u64,
    /// The torn end of the log, if any. It was never acknowledged as durable.
    pub cut: Option<String>,
    /// Damage that a person has accepted.
    pub accepted: Vec<String>,
    /// Damage that nobody has accepted, found now or at an earlier start. Empty if the store is
    /// sound.
    pub problems: Vec<String>,
}

/// Inspects a store that another process may have open. Writes of that process may look torn, and
/// space that it gives back may look missing. So a store with problems is read twice, and only
/// problems found both times are reported.
///
/// # Errors
/// There is no store, or it cannot be read.
pub fn inspect<D: Disk + Clone>(disk: D) -> Result<Report, ChunkError> {
    let first = look(disk.clone());
    if first.as_ref().is_ok_and(|first| first.is_sound() && first.cut.is_none()) {
        return first;
    }
    let mut report = look(disk)?;
    if let Ok(first) = first {
        report.problems.retain(|problem| first.problems.contains(problem));
        report.cut = report.cut.filter(|cut| first.cut.as_ref() == Some(cut));
    }
    Ok(report)
}

fn look<D: Disk + Clone>(disk: D) -> Result<Report, ChunkError> {
    let store = Store::open_to_look(disk)?;
    let disk = &store.disk;
    // If the folder is missing, that is among the damage.
    let checkpoints = list_checkpoints(disk).or_else(unless_missing)?.into_iter();
    let checkpoints = checkpoints.map(|at| Ok((at, checkpoint_bytes(disk, at)?)));
    let segments = list_segments(disk).or_else(unless_missing)?;
    let mut segment_bytes = 0;
    for number in &segments {
        let path = segment_path(*number);
        let length = disk.open_read_only(&path).and_then(|file| disk.len(&file));
        segment_bytes += length.map_err(|error| ChunkError::io(&path, "open", error))?;
    }
    let mut report = Report {
        datanode_uuid: store.datanode_uuid(),
        checkpoints: checkpoints.collect::<Result<_, ChunkError>>()?,
        segments: (segments.len(), segment_bytes),
        end: store.log.end(),
        containers: store.container_ids().into_iter().flat_map(|id| store.container(id)).collect(),
        blocks: 0,
        bytes: 0,
        accepted: Vec::new(),
        cut: store.cut().map(ToString::to_string),
        problems: store.damage().iter().map(ToString::to_string).collect(),
    };
    report.problems.retain(|problem| !store.accepted_damage().contains(problem));
    report.accepted = store.accepted_damage().to_vec();
    for noted in store.noted_damage() {
        if !report.problems.contains(noted) {
            report.problems.push(format!("found at an earlier start: {noted}"));
        }
    }
    for container_id in store.container_ids() {
        let container = store.find(container_id)?;
        let local_ids: Vec<u64> = container.index.lock().blocks.keys().copied().collect();
        for local_id in local_ids {
            report.blocks += 1;
            let checked = store.check_block(BlockId { container_id, local_id }, &mut report.bytes);
            if let Err(error) = checked {
                let what = format!("block {local_id} of container {container_id}: {error}");
                report.problems.push(what);
            }
        }
    }
    Ok(report)
}

/// The default value if the folder is missing.
fn unless_missing<T: Default>(error: ChunkError) -> Result<T, ChunkError> {
    match error {
        ChunkError::Io { error, .. } if error.kind() == std::io::ErrorKind::NotFound => {
            Ok(T::default())
        }
        error => Err(error),
    }
}

impl Report {
    /// Whether no problem was found.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "chunk store {}", self.datanode_uuid)?;
        for (at, bytes) in &self.checkpoints {
            writeln!(out, "checkpoint at {at}: {bytes} bytes")?;
        }
        let (segments, segment_bytes) = self.segments;
        writeln!(out, "log: {segments} segments, {segment_bytes} bytes, ends at {}", self.end)?;
        for container in &self.containers {
            let ContainerInfo { id, layout, state, block_count, bytes_used, .. } = container;
            let name = layout.name();
            writeln!(
                out,
                "container {id}: {name}, {state:?}, {block_count} blocks committed, \
                 {bytes_used} bytes"
            )?;
        }
        let (blocks, bytes) = (self.blocks, self.bytes);
        writeln!(out, "{blocks} blocks, {bytes} bytes of them read")?;
        for accepted in &self.accepted {
            writeln!(out, "accepted: {accepted}")?;
        }
        if let Some(cut) = &self.cut {
            writeln!(out, "{cut}")?;
        }
        for problem in &self.problems {
            writeln!(out, "PROBLEM: {problem}")?;
        }
        match self.is_sound() {
            true => writeln!(out, "sound"),
            false => writeln!(out, "NOT SOUND"),
        }
    }
}
