//! Alarms. An alarm names a member and its problem, and makes every member refuse some kinds of
//! writes ([`AlarmKind`]) until a client disarms the alarm. As in etcd 3.6 `v3alarm.AlarmStore`.

use std::collections::BTreeSet;

use crate::codec::{DecodeError, Reader, Write};
use crate::digest::Digest;
use crate::etcd::reply::Refusal;
use crate::limits::ETCD_ALARMS_MAX;

/// A kind of alarm (`etcdserverpb.AlarmType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlarmKind {
    /// The store has reached its quota: writes that would make it larger are refused. A put, grant
    /// or transaction that the quota refuses raises this alarm.
    NoSpace = 1,
    /// The member's data is corrupt: writes of keys, compactions, grants and revocations are
    /// refused.
    Corrupt = 2,
}

impl AlarmKind {
    /// The name of the kind in etcd's messages.
    pub fn name(self) -> &'static str {
        match self {
            AlarmKind::NoSpace => "NOSPACE",
            AlarmKind::Corrupt => "CORRUPT",
        }
    }
}

/// A problem of a member that was raised as an alarm: its kind, and the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alarm {
    /// The kind.
    pub kind: AlarmKind,
    /// The id of the member that has the problem, as etcd's clients see it. If a refused write
    /// raised the alarm, this is [`crate::Control::etcd_id_of`] of the member that handed the write
    /// over; else the id in the client's request, 0 if the client named no member.
    pub member: u64,
}

/// All alarms that are raised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alarms(BTreeSet<Alarm>);

impl Alarms {
    /// The alarms, ordered by kind and then by member.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Alarm> {
        self.0.iter().copied()
    }

    /// Whether any member has an alarm of this kind.
    pub fn has(&self, kind: AlarmKind) -> bool {
        self.0.iter().any(|alarm| alarm.kind == kind)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Raises an alarm. Does nothing if the same alarm is raised already.
    ///
    /// # Errors
    /// `NoSpace` if there are [`ETCD_ALARMS_MAX`] alarms already.
    pub(crate) fn raise(&mut self, alarm: Alarm) -> Result<(), Refusal> {
        if self.0.len() >= ETCD_ALARMS_MAX && !self.0.contains(&alarm) {
            return Err(Refusal::NoSpace);
        }
        self.0.insert(alarm);
        Ok(())
    }

    /// Disarms an alarm. False if it was not raised.
    pub(crate) fn disarm(&mut self, alarm: Alarm) -> bool {
        self.0.remove(&alarm)
    }

    /// The sum of the alarms' contributions to the digest.
    pub(crate) fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        for alarm in &self.0 {
            let mut bytes = Vec::new();
            alarm.encode(&mut bytes);
            digest.add(Digest::from_bytes(b'N', &bytes));
        }
        digest
    }
}

impl Alarm {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.kind as u8);
        out.put_u64(self.member);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Alarm, DecodeError> {
        let kind = match reader.u8()? {
            1 => AlarmKind::NoSpace,
            2 => AlarmKind::Corrupt,
            kind => return Err(reader.bad("kind of alarm", u64::from(kind))),
        };
        Ok(Alarm { kind, member: reader.u64()? })
    }
}

/// Bytes of an encoded alarm, in a command and in an image.
pub(crate) const ALARM_BYTES: u64 = 1 + 8;
