//! Records the levels that the log states and raises to, and the levels that members claim to know.
//!
//! A raise needs the consent of every member: when the leader decided it, each member must have had
//! a link to the leader, and have said on it that it knows the level. And a directory on which no
//! build that knows a level ever ran must never get an entry that needs that level.

use std::collections::BTreeMap;

use bytes::Bytes;
use machine::codec::DecodeError;
use machine::entry::{self, HEADER_BYTES};
use machine::{Command, ControlCommand, Level, MemberId, Origin};

/// The levels that other members have claimed to know on their links to one process, with the times
/// at which its Loop learned the claims.
#[derive(Default)]
pub struct Heard {
    /// The claims of each member, by member id, oldest first.
    said: BTreeMap<MemberId, Vec<Said>>,
}

/// The claim of a member on one link.
struct Said {
    level_max: Level,
    from_us: u64,
    /// When Loop learned that the link had ended, in us; `None` while it is up.
    until_us: Option<u64>,
}

impl Heard {
    /// Loop learns that a link from a member is up, on which the member said that it knows levels
    /// up to `level_max`; `None` if the link has ended.
    pub fn on_linked(&mut self, peer: MemberId, level_max: Option<Level>, now_us: u64) {
        let said = self.said.entry(peer).or_default();
        if let Some(last) = said.last_mut() {
            last.until_us.get_or_insert(now_us);
        }
        said.extend(level_max.map(|level_max| Said { level_max, from_us: now_us, until_us: None }));
    }

    /// Whether at some time from `from_us` to `until_us` a link was up on which the member had said
    /// that it knows this level.
    pub fn knew(&self, peer: MemberId, level: Level, from_us: u64, until_us: u64) -> bool {
        let is_it = |said: &Said| {
            let is_then = said.from_us <= until_us && said.until_us.is_none_or(|it| it >= from_us);
            is_then && said.level_max >= level
        };
        self.said.get(&peer).is_some_and(|said| said.iter().any(is_it))
    }
}

/// The record of levels, in all process runs.
#[derive(Default)]
pub struct Levels {
    /// The highest level to which an entry in Apply raises, and when that entry was first handed to
    /// Apply, in us.
    raised: Option<(Level, u64)>,
    /// The highest level that any build that ran on a directory knows, by member id.
    ran: BTreeMap<MemberId, Level>,
    /// The highest level that a member ever claimed to know, by member id.
    said: BTreeMap<MemberId, Level>,
}

impl Levels {
    /// The level of the ensemble.
    pub fn level(&self) -> Level {
        self.raised.map_or(Level::FIRST, |(level, _)| level)
    }

    /// When the entry that raised the ensemble to its level was first handed to Apply, in us;
    /// `None` at the first level.
    pub fn raised_us(&self) -> Option<u64> {
        self.raised.map(|(_, at_us)| at_us)
    }

    /// A process starts on this directory, with a build that knows levels up to `level_max`.
    pub fn on_life(&mut self, member: MemberId, level_max: Level) {
        let ran = self.ran.entry(member).or_insert(level_max);
        *ran = level_max.max(*ran);
    }

    /// Whether a build that knows levels above `level_max` ever ran on a directory.
    pub fn ran_above(&self, member: MemberId, level_max: Level) -> bool {
        self.ran.get(&member).is_some_and(|ran| *ran > level_max)
    }

    /// A member claims on a link to know levels up to `level_max`.
    pub fn on_said(&mut self, member: MemberId, level_max: Level) {
        let said = self.said.entry(member).or_insert(level_max);
        *said = level_max.max(*said);
    }

    /// Checks an entry that raises the level, when it is first handed to Apply. `members` are the
    /// ids of the members then.
    ///
    /// # Errors
    /// A member never claimed to know the level.
    pub fn check_members(&self, level: Level, members: &[u64]) -> Result<(), String> {
        let has_said = |id: &u64| self.said.get(&MemberId(*id)).is_some_and(|it| *it >= level);
        match members.iter().find(|id| !has_said(id)) {
            Some(id) => Err(format!(
                "the level is raised to {level}, and member {id} never said that it knows that"
            )),
            None => Ok(()),
        }
    }

    /// An entry with commands is handed to Apply for the first time.
    pub fn on_handed(&mut self, payload: &Bytes, now_us: u64) {
        // A later check reports an entry that does not decode.
        if let Some(level) = raise_of(payload)
            && level > self.level()
        {
            self.raised = Some((level, now_us));
        }
    }
}

/// The highest level to which an entry raises; `None` if it raises none.
pub fn raise_of(payload: &Bytes) -> Option<Level> {
    let header = entry::decode_header(payload).ok()?;
    if header.level == Level::FIRST {
        return None;
    }
    let batches = raises(payload).ok()?;
    batches.into_iter().filter_map(|(_, _, level)| level).max()
}

/// The origin and the sequence of each batch in an entry, and the level to which it raises, if any.
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
