//! The messages about leases between members, and their encoding.

use machine::codec::{DecodeError, Reader, Write};
use machine::{BootId, LeaseId, LogIndex};

use crate::lease::{LeaseQuestion, LeaseTime};
use crate::limits::LEASE_MESSAGE_ITEMS_MAX;

/// Questions of a follower's clients about leases, to the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskLeases {
    /// The boot of the sender.
    pub boot: BootId,
    /// The questions with their numbers, which rise within a boot; at most
    /// [`LEASE_MESSAGE_ITEMS_MAX`].
    pub questions: Vec<(u64, LeaseQuestion)>,
}

/// A leader's answers to questions about leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    /// The boot of the receiver, from its questions.
    pub boot: BootId,
    /// The last entry that the leader has applied: the receiver answers its clients once it has
    /// applied that, too.
    pub index: LogIndex,
    /// The answers with the numbers of their questions; at most [`LEASE_MESSAGE_ITEMS_MAX`]. `None`
    /// if the lease does not exist.
    pub answers: Vec<(u64, Option<LeaseTime>)>,
}

impl AskLeases {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.questions.len() <= LEASE_MESSAGE_ITEMS_MAX);
        out.put_u64(self.boot.0);
        out.put_u32(self.questions.len() as u32);
        for (number, question) in &self.questions {
            out.put_u64(*number);
            out.put_i64(question.lease.0);
            out.put_u8(u8::from(question.renews));
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<AskLeases, DecodeError> {
        let boot = BootId(reader.u64()?);
        let count = reader.count("question count", LEASE_MESSAGE_ITEMS_MAX)?;
        let mut questions = Vec::new();
        for _ in 0..count {
            let (number, lease) = (reader.u64()?, LeaseId(reader.i64()?));
            questions.push((number, LeaseQuestion { lease, renews: decode_flag(reader)? }));
        }
        reader.finish()?;
        Ok(AskLeases { boot, questions })
    }
}

impl LeaseTimes {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.answers.len() <= LEASE_MESSAGE_ITEMS_MAX);
        out.put_u64(self.boot.0);
        out.put_u64(self.index.0);
        out.put_u32(self.answers.len() as u32);
        for (number, time) in &self.answers {
            out.put_u64(*number);
            out.put_u8(u8::from(time.is_some()));
            if let Some(LeaseTime { granted_s, left_ms }) = time {
                out.put_i64(*granted_s);
                out.put_u64(*left_ms);
            }
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<LeaseTimes, DecodeError> {
        let (boot, index) = (BootId(reader.u64()?), LogIndex(reader.u64()?));
        let count = reader.count("answer count", LEASE_MESSAGE_ITEMS_MAX)?;
        let mut answers = Vec::new();
        for _ in 0..count {
            let number = reader.u64()?;
            let time = match decode_flag(reader)? {
                false => None,
                true => Some(LeaseTime { granted_s: reader.i64()?, left_ms: reader.u64()? }),
            };
            answers.push((number, time));
        }
        reader.finish()?;
        Ok(LeaseTimes { boot, index, answers })
    }
}

fn decode_flag(reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(reader.bad("flag", u64::from(value))),
    }
}
