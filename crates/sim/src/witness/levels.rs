//! The levels that the log states and raises to, and what members have said that they know.
//!
//! A raise must come behind the word of every member: the leader that proposed it had a link from
//! each of them then, on which the member said that it knows the level. A member that never ran a
//! build that knows a level must not be given an entry that needs it.

use std::collections::BTreeMap;

use bytes::Bytes;
use machine::codec::DecodeError;
use machine::entry::{self, HEADER_BYTES};
use machine::{Command, ControlCommand, Level, MemberId, Origin};

/// What one process was told on links, at the times when its Loop took it.
#[derive(Default)]
pub struct Heard {
    /// What each member said, by member id, the oldest first.
    said: BTreeMap<MemberId, Vec<Said>>,
}

/// What a member said on one link.
struct Said {
    level_max: Level,
    from_us: u64,
    /// When Loop took note that the link had ended; none as long as it has not.
    until_us: Option<u64>,
}

impl Heard {
    /// Loop takes note that a link from a member is up, on which the member said that it knows the
    /// levels up to `level_max`; `None` if the link has ended.
    pub fn on_linked(&mut self, peer: MemberId, level_max: Option<Level>, now_us: u64) {
        let said = self.said.entry(peer).or_default();
        if let Some(last) = said.last_mut() {
            last.until_us.get_or_insert(now_us);
        }
        said.extend(level_max.map(|level_max| Said { level_max, from_us: now_us, until_us: None }));
    }

    /// Whether a link was up between these times on which the member said that it knows this level.
    pub fn knew(&self, peer: MemberId, level: Level, from_us: u64, until_us: u64) -> bool {
        let is_it = |said: &Said| {
            let is_then = said.from_us <= until_us && said.until_us.is_none_or(|it| it >= from_us);
            is_then && said.level_max >= level
        };
        self.said.get(&peer).is_some_and(|said| said.iter().any(is_it))
    }
}

/// The record of levels, in all lives of the processes.
#[derive(Default)]
pub struct Levels {
    /// The highest level to which an entry that was handed over raises, and when it was first
    /// handed over.
    raised: Option<(Level, u64)>,
    /// The highest level that any build that ran on a directory knew, by member id.
    ran: BTreeMap<MemberId, Level>,
    /// The highest level that a member said on a link to know, by member id.
    said: BTreeMap<MemberId, Level>,
}

impl Levels {
    /// The level of the ensemble.
    pub fn level(&self) -> Level {
        self.raised.map_or(Level::FIRST, |(level, _)| level)
    }

    /// When the entry that raised the level was first handed over.
    pub fn raised_us(&self) -> Option<u64> {
        self.raised.map(|(_, at_us)| at_us)
    }

    /// A process starts on this directory, of a build that knows the levels up to that one.
    pub fn on_life(&mut self, member: MemberId, level_max: Level) {
        let ran = self.ran.entry(member).or_insert(level_max);
        *ran = level_max.max(*ran);
    }

    /// Whether a build that knows levels above this one ever ran on a directory.
    pub fn ran_above(&self, member: MemberId, level_max: Level) -> bool {
        self.ran.get(&member).is_some_and(|ran| *ran > level_max)
    }

    /// A member says on a link that it knows the levels up to that one.
    pub fn on_said(&mut self, member: MemberId, level_max: Level) {
        let said = self.said.entry(member).or_insert(level_max);
        *said = level_max.max(*said);
    }

    /// A raise is handed over for the first time, while these are the members.
    ///
    /// # Errors
    /// One of them never said that it knows the level.
    pub fn check_members(&self, level: Level, members: &[u64]) -> Result<(), String> {
        let has_said = |id: &u64| self.said.get(&MemberId(*id)).is_some_and(|it| *it >= level);
        match members.iter().find(|id| !has_said(id)) {
            Some(id) => Err(format!(
                "the level is raised to {level}, and member {id} never said that it knows that"
            )),
            None => Ok(()),
        }
    }

    /// An entry with commands is handed over for the first time.
    pub fn on_handed(&mut self, payload: &Bytes, now_us: u64) {
        // An entry that does not decode is found when the order is made.
        if let Some(level) = raise_of(payload)
            && level > self.level()
        {
            self.raised = Some((level, now_us));
        }
    }
}

/// The highest level to which an entry raises, if it does.
pub fn raise_of(payload: &Bytes) -> Option<Level> {
    let header = entry::decode_header(payload).ok()?;
    if header.level == Level::FIRST {
        return None;
    }
    let batches = raises(payload).ok()?;
    batches.into_iter().filter_map(|(_, _, level)| level).max()
}

/// The name of each batch of an entry, with the level that it raises to, if it does.
pub fn raises(payload: &Bytes) -> Result<Vec<(Origin, u64, Option<Level>)>, DecodeError> {
    let header = entry::decode_header(payload)?;
    let (mut batches, mut offset) = (Vec::new(), HEADER_BYTES);
    for _ in 0..header.batch_count {
        let batch = entry::decode_batch(payload, offset)?;
        offset = batch.end;
        let (mut at, mut level) = (0, None);
        while let Some(framed) = batch.command(at)? {
            at = framed.end;
            if let Command::Control(ControlCommand::Raise(stated)) = framed.command {
                level = Some(stated.level);
            }
        }
        batches.push((batch.origin, batch.sequence, level));
    }
    Ok(batches)
}

#[cfg(test)]
mod tests;
