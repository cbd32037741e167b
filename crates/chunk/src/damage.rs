//! The damage that a start found, and a note about it that stays until a person accepts it.
//!
//! The store keeps what it cannot read. If a part of the log is damaged, the index may lack records
//! about bytes that are still in the files. So a store that was damaged once removes no segment, no
//! folder, no block's file and no checkpoint of an earlier start on its own, at this start and at
//! later ones, until a person calls [`accept`]. The note is the file `damaged`, with one line of
//! text for each piece of damage; the store only looks whether the file exists. Accepted damage is
//! kept in another file. If a start finds accepted damage again, it reports that damage, but the
//! store removes files as usual.

use storage::disk::Disk;

use crate::error::ChunkError;
use crate::limits::DAMAGE_LINES_MAX;
use crate::record::Position;
use crate::segment_reader::read_fully;

/// The file with the noted damage.
pub const NOTE_NAME: &str = "damaged";

/// The file with the accepted damage.
pub const ACCEPTED_NAME: &str = "damaged.accepted";

const TEMPORARY: &str = "damaged.tmp";

/// Something that was written and is lost or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A damaged part of the log that was durable.
    Log {
        /// The position where the damage starts.
        start: Position,
        /// The position where the log is intact again.
        end: Position,
        /// A description of the damage, for people.
        what: String,
    },
    /// A damaged or missing file.
    File {
        /// The file's path, relative to the store's directory.
        file: String,
        /// A description of the damage, for people.
        what: String,
    },
    /// A container that the log mentions, but whose first record is lost.
    Container {
        /// The container's id.
        container_id: u64,
    },
}

impl Damage {
    pub(crate) fn file(file: String, what: impl Into<String>) -> Damage {
        Damage::File { file, what: what.into() }
    }
}

impl core::fmt::Display for Damage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Damage::Log { start, end, what } => {
                write!(f, "the log is damaged from {start} to {end}: {what}")
            }
            Damage::File { file, what } => write!(f, "{file}: {what}"),
            Damage::Container { container_id } => write!(
                f,
                "container {container_id}: the record that made it is lost; what is known of its \
                 blocks is served, and it is unhealthy"
            ),
        }
    }
}

/// Damage noted at earlier starts, and damage that a person has accepted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    /// The lines of the note; `None` if there is no note.
    pub noted: Option<Vec<String>>,
    /// The lines that a person has accepted.
    pub accepted: Vec<String>,
}

impl Notes {
    /// Reads both files.
    pub fn read<D: Disk>(disk: &D) -> Result<Notes, ChunkError> {
        let accepted = read_lines(disk, ACCEPTED_NAME)?.unwrap_or_default();
        Ok(Notes { noted: read_lines(disk, NOTE_NAME)?, accepted })
    }

    /// Whether there is damage that nobody has accepted.
    pub fn is_damaged(&self, found: &[Damage]) -> bool {
        self.noted.is_some() || !self.is_accepted(found)
    }

    fn is_accepted(&self, found: &[Damage]) -> bool {
        found.iter().all(|damage| self.accepted.contains(&damage.to_string()))
    }

    /// Adds damage that is in neither file to the note, durably.
    pub fn note<D: Disk>(&self, disk: &D, found: &[Damage]) -> Result<(), ChunkError> {
        if self.is_accepted(found) {
            return Ok(());
        }
        let mut lines = self.noted.clone().unwrap_or_default();
        add(&mut lines, found.iter().map(ToString::to_string));
        match self.noted.as_ref() == Some(&lines) {
            true => Ok(()),
            false => write_lines(disk, NOTE_NAME, &lines),
        }
    }
}

/// Accepts the noted damage: from the next start on, the store gives space back again. Returns the
/// lines of the note.
pub(crate) fn accept<D: Disk>(disk: &D) -> Result<Vec<String>, ChunkError> {
    let Notes { noted, mut accepted } = Notes::read(disk)?;
    let Some(noted) = noted else { return Ok(Vec::new()) };
    add(&mut accepted, noted.iter().cloned());
    write_lines(disk, ACCEPTED_NAME, &accepted)?;
    let io = |op| move |error| ChunkError::io(NOTE_NAME, op, error);
    disk.remove(NOTE_NAME).map_err(io("remove"))?;
    disk.sync_dir("").map_err(io("sync"))?;
    Ok(noted)
}

/// Adds lines that are not there yet, up to [`DAMAGE_LINES_MAX`] lines.
fn add(lines: &mut Vec<String>, more: impl Iterator<Item = String>) {
    for line in more {
        if lines.len() < DAMAGE_LINES_MAX && !lines.contains(&line) {
            lines.push(line);
        }
    }
}

/// Most bytes that are read of a file with lines about damage.
const BYTES_MAX: usize = DAMAGE_LINES_MAX * 1024;

fn read_lines<D: Disk>(disk: &D, name: &str) -> Result<Option<Vec<String>>, ChunkError> {
    let io = |op| move |error| ChunkError::io(name, op, error);
    let file = match disk.open_read_only(name) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(io("open"))?,
    };
    let length = disk.len(&file).map_err(io("read"))?;
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(BYTES_MAX).min(BYTES_MAX)];
    let count = read_fully(disk, &file, 0, &mut bytes).map_err(io("read"))?;
    let text = String::from_utf8_lossy(&bytes[..count]);
    Ok(Some(text.lines().map(str::to_owned).take(DAMAGE_LINES_MAX).collect()))
}

fn write_lines<D: Disk>(disk: &D, name: &str, lines: &[String]) -> Result<(), ChunkError> {
    let io = |op| move |error| ChunkError::io(name, op, error);
    let text = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>();
    let file = disk.create(TEMPORARY).map_err(io("create"))?;
    disk.write_at(&file, 0, text.as_bytes()).map_err(io("write"))?;
    disk.sync_data(&file).map_err(io("sync"))?;
    disk.rename(TEMPORARY, name).map_err(io("rename"))?;
    disk.sync_dir("").map_err(io("sync"))
}
