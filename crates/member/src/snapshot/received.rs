//! Receives a snapshot that an operator gives to be installed: writes its bytes to a file, checks
//! the file completely, and keeps it as the *received* snapshot, so that an entry of the log may
//! name it.

use machine::codec::DecodeError;
use machine::entry::{HEADER_BYTES, decode_batch, decode_header};
use machine::{Command, ControlCommand, Machine, PreparedImage};
use storage::StorageError;
use storage::disk::Disk;
use storage::snapshot::{
    RECEIVED_NAME, RECEIVING_NAME, ReceivedWriter, SNAPSHOT_DIR, SnapshotReader, has_received,
    keep_received, remove_received,
};
use storage::wal::{EntryKind, LogEntry};

use crate::recovery::{Reading, RecoveryError, read_image};

/// Writes a snapshot to a file as its bytes arrive.
pub struct ImageReceiver<D: Disk + Clone> {
    disk: D,
    writer: ReceivedWriter<D>,
}

impl<D: Disk + Clone> ImageReceiver<D> {
    /// Creates the file in the data directory whose root is `disk`. There must be no other received
    /// snapshot, neither under way nor kept.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn new(disk: D) -> Result<ImageReceiver<D>, StorageError> {
        let writer = ReceivedWriter::create(disk.clone())?;
        Ok(ImageReceiver { disk, writer })
    }

    /// Appends the next bytes.
    ///
    /// # Errors
    /// The disk has no room for them, or the snapshot is too large.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.writer.write(bytes)
    }

    /// Checks the complete snapshot and keeps it durably, so that the next start finds it.
    ///
    /// # Errors
    /// The file is not a snapshot, or is damaged; or the disk failed.
    pub fn finish(self) -> Result<PreparedImage, RecoveryError> {
        self.writer.finish()?;
        let image = load(&self.disk, RECEIVING_NAME)?;
        keep_received(&self.disk)?;
        Ok(image)
    }
}

/// Prepares the machine for the entries behind the restored snapshot, before they are applied. If
/// an entry installs a received snapshot, that snapshot is read. If none does, a received snapshot
/// is removed: it was never installed, or the restored snapshot covers its installation. The
/// machine also reserves memory for the znodes that the entries create.
///
/// # Errors
/// The received snapshot is missing, is not the one that the entry names, cannot be read, or has a
/// level that this server does not know.
pub(crate) fn prepare<D: Disk + Clone>(
    disk: &D,
    entries: &[LogEntry],
    machine: &mut Machine,
    reading: &Reading,
) -> Result<(), RecoveryError> {
    let together = reading.together;
    let (lower, upper) = entries.split_at(entries.len() / 2);
    let (mut survey, mut of_upper) = (Survey::default(), Survey::default());
    together(&mut || survey = Survey::of(lower), &mut || of_upper = Survey::of(upper));
    survey.add(of_upper);
    machine.reserve_znodes(survey.znodes_more());
    let (index, hash) = match survey.named {
        Some(named) => named,
        None if !survey.is_unreadable => return Ok(discard(disk)?),
        // An entry that cannot be decoded may name the received snapshot, so that one is not
        // removed.
        None => return Ok(()),
    };
    let image = read_received(disk, index, hash)?;
    let unknown = |cause| RecoveryError::Snapshot { name: RECEIVED_NAME.to_string(), cause };
    image.machine.check_level(reading.level_max).map_err(unknown)?;
    machine.prepare_image(image);
    Ok(())
}

/// Reads the received snapshot, which entry `index` installs and names by its hash.
///
/// # Errors
/// The snapshot is missing, is another one, or cannot be read.
pub(crate) fn read_received<D: Disk + Clone>(
    disk: &D,
    index: u64,
    hash: u128,
) -> Result<PreparedImage, RecoveryError> {
    let image = match has_received(disk)? {
        true => Some(load(disk, RECEIVED_NAME)?),
        false => None,
    };
    check_named(index, hash, image.as_ref().map(|image| image.hash))?;
    Ok(image.expect("its hash was compared"))
}

/// A survey of the commands of some entries, made before any of them is applied.
#[derive(Default)]
struct Survey {
    /// The last entry that installs an image, and the hash of that image.
    named: Option<(u64, u128)>,
    /// Whether an entry cannot be decoded. Apply will report what is wrong with it.
    is_unreadable: bool,
    /// How many znodes the commands create and delete, if all of them succeed.
    create_count: u64,
    delete_count: u64,
}

impl Survey {
    fn of(entries: &[LogEntry]) -> Survey {
        let mut survey = Survey::default();
        for entry in entries.iter().filter(|entry| holds_commands(entry)) {
            let visited = visit_commands(&entry.payload, |command| {
                survey.count(command);
                survey.named = hash_named(command).map(|hash| (entry.index, hash)).or(survey.named);
            });
            survey.is_unreadable |= visited.is_err();
        }
        survey
    }

    fn count(&mut self, command: &Command<'_>) {
        let [creates, deletes] = command.creates_and_deletes();
        self.create_count += creates;
        self.delete_count += deletes;
    }

    /// Adds the survey of later entries.
    fn add(&mut self, later: Survey) {
        self.named = later.named.or(self.named);
        self.is_unreadable |= later.is_unreadable;
        self.create_count += later.create_count;
        self.delete_count += later.delete_count;
    }

    /// About how many znodes the entries add; 0 if they remove some.
    fn znodes_more(&self) -> u32 {
        u32::try_from(self.create_count.saturating_sub(self.delete_count)).unwrap_or(u32::MAX)
    }
}

/// The hash of the image that an entry installs; `None` if it installs none.
///
/// # Errors
/// The payload does not decode as an entry.
pub(crate) fn image_named(kind: u8, payload: &[u8]) -> Result<Option<u128>, DecodeError> {
    if kind != EntryKind::Normal.as_u8() || payload.is_empty() {
        return Ok(None);
    }
    let mut named = None;
    visit_commands(payload, |command| named = hash_named(command).or(named))?;
    Ok(named)
}

fn holds_commands(entry: &LogEntry) -> bool {
    entry.kind == EntryKind::Normal && !entry.payload.is_empty()
}

fn hash_named(command: &Command<'_>) -> Option<u128> {
    match command {
        Command::Control(ControlCommand::InstallImage { hash }) => Some(*hash),
        _ => None,
    }
}

/// Decodes the commands of an entry, and passes each to `visit` in order.
fn visit_commands(payload: &[u8], mut visit: impl FnMut(&Command<'_>)) -> Result<(), DecodeError> {
    let header = decode_header(payload)?;
    let mut offset = HEADER_BYTES;
    for _ in 0..header.batch_count {
        let batch = decode_batch(payload, offset)?;
        let mut command_offset = 0;
        while let Some(framed) = batch.command(command_offset)? {
            visit(&framed.command);
            command_offset = framed.end;
        }
        offset = batch.end;
    }
    Ok(())
}

/// Checks that the hash of the received snapshot is `hash`, which entry `index` names.
///
/// # Errors
/// No snapshot was received, or it is another one.
pub(crate) fn check_named(
    index: u64,
    hash: u128,
    received: Option<u128>,
) -> Result<(), StorageError> {
    let what = match received {
        None => "it is missing",
        Some(found) if found != hash => "it is another one",
        Some(_) => return Ok(()),
    };
    let file = format!("{SNAPSHOT_DIR}/{RECEIVED_NAME}");
    Err(StorageError::corrupt(&file, 0, format!("{what}: entry {index} of the log installs it")))
}

/// Removes the received snapshot, complete or not. To be called when no entry that may be applied
/// names it.
///
/// # Errors
/// The disk failed. The next start tries again.
pub fn discard<D: Disk>(disk: &D) -> Result<(), StorageError> {
    remove_received(disk)
}

/// Reads and checks a snapshot file that is in no data directory, and returns its state.
///
/// # Errors
/// The file cannot be read, is not a snapshot, or is damaged.
pub fn read_backup<D: Disk + Clone>(disk: &D, path: &str) -> Result<Machine, RecoveryError> {
    let mut reader = SnapshotReader::open_backup(disk.clone(), path.to_string())?;
    read_image(&mut reader, path, || ())
}

fn load<D: Disk + Clone>(disk: &D, name: &str) -> Result<PreparedImage, RecoveryError> {
    let mut reader = SnapshotReader::open_received(disk.clone(), name)?;
    let machine = Box::new(read_image(&mut reader, name, || ())?);
    Ok(PreparedImage { hash: reader.hash(), machine })
}

#[cfg(test)]
mod tests;
