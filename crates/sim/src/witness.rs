//! What the member claims to have done: every entry that was handed to Apply, by its index.
//!
//! What was handed over once is there for ever, under the same index and with the same bytes, and
//! is covered by a sync. That is checked here, in all lives of the process. From the entries comes
//! the committed order that the judge is given.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;

use bytes::Bytes;
use machine::codec::DecodeError;
use machine::command::Op as MachineOp;
use machine::entry::{self, Framed};
use machine::{Command, Counters, Settings};
use replica::{Entry, EntryKind};
use workload::model;
use workload::op::Signature;
use workload::order::Committed;

use crate::disk::SimDisk;

struct Handed {
    term: u64,
    payload: Bytes,
    /// Commands in this entry and all before it.
    ordinal: u64,
    /// When it may have been thought of first, as far as is known.
    judged_us: u64,
    /// When it was proposed, as far as is known.
    proposed_us: u64,
    /// When it was handed over first; a sync covered it then.
    handed_us: u64,
}

/// When the entry of a command was proposed and when it was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The earliest that the member can have had it in mind: later than this it was waiting.
    pub judged_us: u64,
    /// On its way to the disk.
    pub proposed_us: u64,
    /// Covered by a sync.
    pub handed_us: u64,
}

/// The record of all lives.
pub struct Witness {
    /// Whether what the member does inside is checked, and not only what clients see.
    looks_inside: bool,
    entries: BTreeMap<u64, Handed>,
    /// The last entry that was handed over before the process was started.
    handed_in_earlier_lives: u64,
    /// When it may have been thought of, and when it was proposed, by index.
    proposed_us: BTreeMap<u64, (u64, u64)>,
    /// Whether the member serves clients, and whether it knows the disk to be full.
    is_ready: bool,
    is_full: bool,
    /// When clients could attach from then on, or could not.
    doors: Vec<(u64, bool)>,
    /// By boot and connection.
    connections: BTreeMap<(u64, u64), usize>,
    /// The ordinal of the state of each image that was to be installed, by its hash.
    images: BTreeMap<u128, u64>,
    /// What processes were started with.
    configured: Vec<Settings>,
}

impl Witness {
    /// Nothing happened yet.
    pub fn new(looks_inside: bool) -> Witness {
        Witness {
            looks_inside,
            entries: BTreeMap::new(),
            handed_in_earlier_lives: 0,
            proposed_us: BTreeMap::new(),
            is_ready: false,
            is_full: false,
            doors: Vec::new(),
            connections: BTreeMap::new(),
            images: BTreeMap::new(),
            configured: Vec::new(),
        }
    }

    /// A process is started with these settings.
    pub fn on_configuration(&mut self, settings: &Settings) {
        if !self.configured.contains(settings) {
            self.configured.push(settings.clone());
        }
    }

    /// A process was started with a state up to `index` and these entries behind it.
    pub fn on_start(&mut self, index: u64, entries: &[Entry], now_us: u64) -> Result<(), String> {
        let last = entries.last().map_or(index, |entry| entry.index);
        let handed = self.newest_index();
        self.handed_in_earlier_lives = handed;
        (self.is_ready, self.is_full) = (false, false);
        self.note_door(now_us);
        if !self.looks_inside {
            self.entries.split_off(&(last + 1));
            return Ok(());
        }
        if handed > last {
            return Err(format!(
                "entry {handed} was applied, and after a restart the log ends at {last}"
            ));
        }
        for entry in entries {
            self.check_same(entry)?;
        }
        Ok(())
    }

    fn check_same(&self, entry: &Entry) -> Result<(), String> {
        match self.entries.get(&entry.index) {
            Some(handed) if handed.term != entry.term || handed.payload != entry.payload => {
                Err(format!("entry {} was applied, and is another one now", entry.index))
            }
            _ => Ok(()),
        }
    }

    /// An entry goes to the disk. What is in it waits since `judged_us` at the earliest.
    pub fn on_proposed(&mut self, index: u64, judged_us: u64, now_us: u64) {
        self.proposed_us.insert(index, (judged_us, now_us));
    }

    /// The last entry that was handed over, in any life.
    pub fn newest_index(&self) -> u64 {
        self.entries.last_key_value().map_or(0, |(index, _)| *index)
    }

    /// Commands in all entries up to this one: the ordinal of the state there.
    pub fn ordinal_at(&self, index: u64) -> u64 {
        self.entries.range(..=index).next_back().map_or(0, |(_, handed)| handed.ordinal)
    }

    /// A process says that it serves clients, with everything up to `index` applied.
    pub fn on_ready(&mut self, index: u64, now_us: u64) -> Result<(), String> {
        self.is_ready = true;
        self.note_door(now_us);
        let earlier = self.handed_in_earlier_lives;
        match self.looks_inside && earlier > index {
            true => Err(format!("ready at entry {index}, and entry {earlier} was applied before")),
            false => Ok(()),
        }
    }

    /// A sync is answered at `ordinal`; `index` was the last entry handed over when it arrived.
    pub fn check_sync(&self, index: u64, ordinal: u64) -> Result<(), String> {
        let wanted = self.ordinal_at(index);
        match self.looks_inside && ordinal < wanted {
            true => Err(format!(
                "a sync is answered at ordinal {ordinal}; when it came, entry {index} was \
                 committed, which ends at ordinal {wanted}"
            )),
            false => Ok(()),
        }
    }

    /// A snapshot that is durable says that it is the state at the end of entry `index`.
    pub fn check_snapshot(&self, index: u64, counters: Counters) -> Result<(), String> {
        let wanted = (index, self.ordinal_at(index));
        let found = (counters.index.0, counters.ordinal.0);
        match self.looks_inside && found != wanted {
            true => Err(format!(
                "a snapshot of entry and ordinal {wanted:?} holds the state at {found:?}"
            )),
            false => Ok(()),
        }
    }

    /// Entries are handed to Apply: from now on they may be acknowledged.
    pub fn on_committed(
        &mut self,
        entries: &[Entry],
        disk: &SimDisk,
        now_us: u64,
    ) -> Result<(), String> {
        for entry in entries {
            if self.looks_inside {
                self.check_same(entry)?;
                if !self.entries.is_empty() && entry.index > self.newest_index() + 1 {
                    return Err(format!("entry {} leaves a gap", entry.index));
                }
                if !entry.payload.is_empty() && !disk.is_synced(entry.index) {
                    return Err(format!(
                        "entry {} is applied before a sync covers it",
                        entry.index
                    ));
                }
            }
            let proposed = self.proposed_us.get(&entry.index).copied();
            let (judged_us, proposed_us) = proposed.unwrap_or((now_us, now_us));
            let (term, payload) = (entry.term, entry.payload.clone());
            let is_membership = entry.kind == EntryKind::Membership;
            let payload = if is_membership { Bytes::new() } else { payload };
            let ordinal = self.ordinal_at(entry.index - 1) + command_count(&payload).unwrap_or(0);
            let handed_us = now_us;
            let new = Handed { term, payload, ordinal, judged_us, proposed_us, handed_us };
            match self.entries.entry(entry.index) {
                // A later life hands it over again.
                Slot::Occupied(old) if old.get().payload == new.payload => {}
                Slot::Occupied(mut old) => {
                    old.insert(new);
                }
                Slot::Vacant(vacant) => {
                    vacant.insert(new);
                }
            }
        }
        Ok(())
    }

    /// The member learns that the disk is full, or that it has room again.
    pub fn on_room(&mut self, is_full: bool, now_us: u64) {
        self.is_full = is_full;
        self.note_door(now_us);
    }

    fn note_door(&mut self, now_us: u64) {
        self.doors.push((now_us, self.is_ready && !self.is_full));
    }

    /// When clients could attach again that could not before.
    pub fn opened_us(&self) -> impl Iterator<Item = u64> {
        self.doors.iter().filter(|(_, is_open)| *is_open).map(|(at_us, _)| *at_us)
    }

    /// Whether no client could attach from one point in time to another.
    pub fn is_shut_between(&self, from_us: u64, until_us: u64) -> bool {
        let before = self.doors.iter().take_while(|(at_us, _)| *at_us <= until_us);
        before.last().is_some_and(|(at_us, is_open)| !is_open && *at_us <= from_us)
    }

    /// A connection got its name in a life of the process.
    pub fn on_accept(&mut self, boot: u64, connection: u64, number: usize) {
        self.connections.insert((boot, connection), number);
    }

    /// An image is to be installed: the state at this ordinal.
    pub fn on_image(&mut self, hash: u128, ordinal: u64) {
        self.images.insert(hash, ordinal);
    }

    /// Entries handed over.
    pub fn entry_count(&self) -> usize {
        self.entries.len()
    }

    /// The committed order, and the times of each command's entry.
    ///
    /// # Errors
    /// A batch is there twice, or is missing.
    pub fn order(&self) -> Result<(Vec<Committed>, Vec<Times>), String> {
        let mut committed = Vec::new();
        let mut times = Vec::new();
        let mut last: Option<(u64, u64)> = None;
        for (index, handed) in &self.entries {
            if handed.payload.is_empty() {
                continue;
            }
            let bad = |error| format!("entry {index} does not decode: {error}");
            let header = entry::decode_header(&handed.payload).map_err(bad)?;
            let mut offset = entry::HEADER_BYTES;
            for _ in 0..header.batch_count {
                let batch = entry::decode_batch(&handed.payload, offset).map_err(bad)?;
                let at = (batch.origin.boot.0, batch.sequence);
                let expected = match last {
                    Some((boot, sequence)) if boot == at.0 => (boot, sequence + 1),
                    _ => (at.0, 1),
                };
                if at != expected || last.is_some_and(|(boot, _)| boot > at.0) {
                    return Err(format!("entry {index} holds batch {at:?} after {last:?}"));
                }
                last = Some(at);
                let mut command_offset = 0;
                while let Some(framed) = batch.command(command_offset).map_err(bad)? {
                    command_offset = framed.end;
                    committed.push(self.translate(at.0, header.time_ms, &framed)?);
                    let Handed { judged_us, proposed_us, handed_us, .. } = *handed;
                    times.push(Times { judged_us, proposed_us, handed_us });
                }
                offset = batch.end;
            }
        }
        Ok((committed, times))
    }

    fn translate(&self, boot: u64, time_ms: i64, framed: &Framed<'_>) -> Result<Committed, String> {
        let number = || {
            let found = self.connections.get(&(boot, framed.connection.0));
            found.copied().ok_or_else(|| {
                format!("a command of connection {} of boot {boot}", framed.connection.0)
            })
        };
        Ok(match &framed.command {
            Command::OpenSession { session, password, .. } => {
                Committed::Open { session: session.0, password: *password, connection: number()? }
            }
            Command::Attach { session, password, .. } => {
                Committed::Attach { session: session.0, password: *password, connection: number()? }
            }
            Command::CloseSession { session } => Committed::Write {
                session: session.0,
                connection: number()?,
                signature: Signature(vec![('x', String::new(), None)]),
                time_ms,
            },
            Command::ExpireSessions { sessions } => Committed::Expire(
                sessions.iter().map(|(session, attached)| (session.0, attached.0)).collect(),
            ),
            Command::Configure(settings) => {
                if !self.configured.contains(settings) {
                    return Err(format!("nobody configured {settings:?}"));
                }
                let (extended_types, enforce_quota) =
                    (settings.extended_types, settings.enforce_quota);
                Committed::Configure(model::Settings { extended_types, enforce_quota })
            }
            Command::DeleteContainers { paths, never_used_ms_max } => Committed::RemoveDue {
                paths: paths.iter().map(ToString::to_string).collect(),
                time_ms,
                never_used_ms_max: i64::try_from(*never_used_ms_max).unwrap_or(i64::MAX),
            },
            // No client can tell.
            Command::Register { .. } | Command::Forget { .. } => Committed::Expire(Vec::new()),
            Command::InstallImage { hash } => {
                let ordinal = self.images.get(hash);
                let unknown = || format!("image {hash:032x}, which nobody brought");
                Committed::Install { ordinal: *ordinal.ok_or_else(unknown)? }
            }
            Command::Write { session, op } => Committed::Write {
                session: session.0,
                connection: number()?,
                signature: signature(core::slice::from_ref(op)),
                time_ms,
            },
            Command::Multi { session, ops } => Committed::Write {
                session: session.0,
                connection: number()?,
                signature: signature(ops),
                time_ms,
            },
        })
    }
}

/// Commands of an entry. What does not decode is found when the order is made.
fn command_count(payload: &Bytes) -> Result<u64, DecodeError> {
    if payload.is_empty() {
        return Ok(0);
    }
    let header = entry::decode_header(payload)?;
    let (mut offset, mut count) = (entry::HEADER_BYTES, 0);
    for _ in 0..header.batch_count {
        let batch = entry::decode_batch(payload, offset)?;
        let mut command_offset = 0;
        while let Some(framed) = batch.command(command_offset)? {
            command_offset = framed.end;
            count += 1;
        }
        offset = batch.end;
    }
    Ok(count)
}

fn signature(ops: &[MachineOp<'_>]) -> Signature {
    let data = |data: &Option<&[u8]>| data.map(<[u8]>::to_vec);
    let one = |op: &MachineOp<'_>| match op {
        MachineOp::Create { path, data: bytes, .. } => ('c', path.to_string(), data(bytes)),
        MachineOp::Delete { path, .. } => ('d', path.to_string(), None),
        MachineOp::SetData { path, data: bytes, .. } => ('s', path.to_string(), data(bytes)),
        MachineOp::SetAcl { path, .. } => ('a', path.to_string(), None),
        MachineOp::Check { path, .. } => ('v', path.to_string(), None),
        MachineOp::Malformed => ('?', String::new(), None),
    };
    Signature(ops.iter().map(one).collect())
}

#[cfg(test)]
mod tests;
