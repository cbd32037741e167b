//! The membership of a group and changes to it: types of our own, and their encoding.
//!
//! Inside raft-rs, a membership entry is a protobuf `ConfChangeV2`. Protobuf must never parse bytes
//! from a disk or a peer (the version that raft-rs uses has an open advisory). So outside of
//! raft-rs such an entry has this module's encoding, which is translated when it enters or leaves
//! raft-rs.

use bytes::{BufMut, Bytes, BytesMut};
use protobuf::Message as _;
use raft::eraftpb::{self, ConfChangeTransition, ConfChangeType};

use crate::codec::{MessageError, Reader};
use crate::limits::{MEMBERS_MAX, MEMBERSHIP_CHANGES_MAX, MEMBERSHIP_CONTEXT_BYTES_MAX};

const MEMBERSHIP_VERSION: u8 = 1;
const CHANGE_VERSION: u8 = 1;

/// The members of a group. Each list is sorted, without duplicates.
///
/// In a joint state (Raft thesis, section 4.3) a quorum needs a majority of `voters` and a majority
/// of `voters_outgoing`. Outside of one, `voters_outgoing` is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    pub voters: Vec<u64>,
    pub voters_outgoing: Vec<u64>,
    pub learners: Vec<u64>,
    /// Outgoing voters that become learners when the joint state is left.
    pub learners_next: Vec<u64>,
    /// Whether raft-rs leaves the joint state without a proposal, once the change is applied.
    pub auto_leave: bool,
}

/// One step of a membership change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// Adds a voter, or promotes a learner.
    AddVoter(u64),
    /// Adds a learner, or demotes a voter.
    AddLearner(u64),
    Remove(u64),
}

/// How a membership change is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// Makes a single change directly, and several changes by joint consensus that ends on its own.
    Auto,
    /// Joint consensus that ends on its own.
    Joint,
    /// Joint consensus that ends when `Leave` is proposed.
    JointExplicit,
    /// Leaves the joint state. Has no changes.
    Leave,
}

/// A proposal to change the membership; the payload of a membership entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipChange {
    pub transition: Transition,
    /// At most `limits::MEMBERSHIP_CHANGES_MAX`; empty for `Leave`, and only then.
    pub changes: Vec<MemberChange>,
    /// The caller's own bytes, for instance addresses; at most
    /// `limits::MEMBERSHIP_CONTEXT_BYTES_MAX`.
    pub context: Bytes,
}

impl Membership {
    /// A membership with voters only, for a new ensemble.
    pub fn from_voters(voters: impl IntoIterator<Item = u64>) -> Membership {
        let mut voters: Vec<u64> = voters.into_iter().collect();
        voters.sort_unstable();
        voters.dedup();
        Membership { voters, ..Membership::default() }
    }

    /// Whether the group is in a joint state.
    pub fn is_joint(&self) -> bool {
        !self.voters_outgoing.is_empty()
    }

    /// Whether `member_id` votes, on either side of a joint state.
    pub fn is_voter(&self, member_id: u64) -> bool {
        self.voters.contains(&member_id) || self.voters_outgoing.contains(&member_id)
    }

    /// Whether `member_id` is in the group, in any role.
    pub fn contains(&self, member_id: u64) -> bool {
        self.is_voter(member_id) || self.learners.contains(&member_id)
    }

    /// Whether `member_id` alone is a quorum.
    pub fn is_lone_voter(&self, member_id: u64) -> bool {
        self.voters == [member_id] && self.voters_outgoing.iter().all(|id| *id == member_id)
    }

    /// Writes, little-endian: version u8 (1), flags u8 (bit 0: auto_leave), then voters,
    /// voters_outgoing, learners, learners_next, each as count u16 and that many ids u64,
    /// ascending.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        self.encode_into(&mut out);
        out.freeze()
    }

    pub(crate) fn encode_into(&self, out: &mut BytesMut) {
        out.put_u8(MEMBERSHIP_VERSION);
        out.put_u8(u8::from(self.auto_leave));
        for list in [&self.voters, &self.voters_outgoing, &self.learners, &self.learners_next] {
            assert!(list.len() <= MEMBERS_MAX, "a membership larger than its limit");
            out.put_u16_le(u16::try_from(list.len()).expect("the limit is below 2^16"));
            list.iter().for_each(|id| out.put_u64_le(*id));
        }
    }

    /// Decodes all of what `encode` wrote.
    ///
    /// # Errors
    /// The bytes are cut off, too many, of another version, or no membership at all.
    pub fn decode(bytes: &[u8]) -> Result<Membership, MessageError> {
        let mut reader = Reader::new(bytes);
        let membership = Membership::decode_from(&mut reader)?;
        reader.end()?;
        Ok(membership)
    }

    pub(crate) fn decode_from(reader: &mut Reader<'_>) -> Result<Membership, MessageError> {
        let offset = reader.offset();
        reader.version(MEMBERSHIP_VERSION)?;
        let auto_leave = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return Err(MessageError::Malformed { offset, what: "membership flags" }),
        };
        let membership = Membership {
            auto_leave,
            voters: decode_ids(reader)?,
            voters_outgoing: decode_ids(reader)?,
            learners: decode_ids(reader)?,
            learners_next: decode_ids(reader)?,
        };
        match membership.fault() {
            None => Ok(membership),
            Some(what) => Err(MessageError::Malformed { offset, what }),
        }
    }

    /// Describes the problem if these lists are invalid. The rules are those of raft-rs (`Changer`,
    /// `check_invariants`), which ends the process if they are broken. `voters` may be empty: a
    /// member that is about to join knows no other member yet.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let lists = [&self.voters, &self.voters_outgoing, &self.learners, &self.learners_next];
        let ascending = |list: &&Vec<u64>| list.is_sorted_by(|left, right| left < right);
        let disjoint = |left: &[u64], right: &[u64]| !left.iter().any(|id| right.contains(id));
        if lists.iter().any(|list| list.len() > MEMBERS_MAX) {
            Some("too many members")
        } else if !lists.iter().all(ascending) {
            Some("member ids are not ascending")
        } else if lists.iter().any(|list| list.first() == Some(&0)) {
            Some("member id 0")
        } else if !disjoint(&self.learners, &self.voters)
            || !disjoint(&self.learners, &self.voters_outgoing)
            || !disjoint(&self.learners_next, &self.voters)
        {
            Some("a member is both voter and learner")
        } else if !self.learners_next.iter().all(|id| self.voters_outgoing.contains(id)) {
            Some("a next learner is not an outgoing voter")
        } else if self.auto_leave && !self.is_joint() {
            Some("auto_leave outside of a joint state")
        } else if self.voters.is_empty() && (self.is_joint() || !self.learners.is_empty()) {
            Some("members without a voter")
        } else {
            None
        }
    }

    /// Converts raft-rs's lists, which are in random order, and sorts them.
    pub(crate) fn from_raft(state: &eraftpb::ConfState) -> Membership {
        let sorted = |ids: &[u64]| {
            let mut ids = ids.to_vec();
            ids.sort_unstable();
            ids
        };
        Membership {
            voters: sorted(state.get_voters()),
            voters_outgoing: sorted(state.get_voters_outgoing()),
            learners: sorted(state.get_learners()),
            learners_next: sorted(state.get_learners_next()),
            auto_leave: state.auto_leave,
        }
    }

    pub(crate) fn to_raft(&self) -> eraftpb::ConfState {
        let mut state = eraftpb::ConfState::default();
        state.set_voters(self.voters.clone());
        state.set_voters_outgoing(self.voters_outgoing.clone());
        state.set_learners(self.learners.clone());
        state.set_learners_next(self.learners_next.clone());
        state.auto_leave = self.auto_leave;
        state
    }
}

fn decode_ids(reader: &mut Reader<'_>) -> Result<Vec<u64>, MessageError> {
    let offset = reader.offset();
    let count = usize::from(reader.u16()?);
    if count > MEMBERS_MAX {
        return Err(MessageError::TooMany { offset, count, count_max: MEMBERS_MAX });
    }
    (0..count).map(|_| reader.u64()).collect()
}

impl MembershipChange {
    /// A change that leaves the joint state of an earlier `JointExplicit` change.
    pub fn leave() -> MembershipChange {
        MembershipChange {
            transition: Transition::Leave,
            changes: Vec::new(),
            context: Bytes::new(),
        }
    }

    /// Writes, little-endian: version u8 (1), transition u8 (0 auto, 1 joint, 2 joint explicit,
    /// 3 leave), count u16 and that many changes of kind u8 (0 add voter, 1 add learner,
    /// 2 remove) and id u64, then context length u16 and context.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u8(CHANGE_VERSION);
        out.put_u8(match self.transition {
            Transition::Auto => 0,
            Transition::Joint => 1,
            Transition::JointExplicit => 2,
            Transition::Leave => 3,
        });
        let count = u16::try_from(self.changes.len()).expect("checked by fault()");
        out.put_u16_le(count);
        for change in &self.changes {
            let (kind, id) = match *change {
                MemberChange::AddVoter(id) => (0, id),
                MemberChange::AddLearner(id) => (1, id),
                MemberChange::Remove(id) => (2, id),
            };
            out.put_u8(kind);
            out.put_u64_le(id);
        }
        out.put_u16_le(u16::try_from(self.context.len()).expect("checked by fault()"));
        out.put_slice(&self.context);
        out.freeze()
    }

    /// Decodes all of what `encode` wrote. Callers use it for committed membership entries.
    ///
    /// # Errors
    /// The bytes are cut off, too many, of another version, or no change at all.
    pub fn decode(bytes: &[u8]) -> Result<MembershipChange, MessageError> {
        let mut reader = Reader::new(bytes);
        reader.version(CHANGE_VERSION)?;
        let offset = reader.offset();
        let transition = match reader.u8()? {
            0 => Transition::Auto,
            1 => Transition::Joint,
            2 => Transition::JointExplicit,
            3 => Transition::Leave,
            kind => return Err(MessageError::UnknownKind { offset, kind }),
        };
        let count_offset = reader.offset();
        let count = usize::from(reader.u16()?);
        let count_max = MEMBERSHIP_CHANGES_MAX;
        if count > count_max {
            return Err(MessageError::TooMany { offset: count_offset, count, count_max });
        }
        let changes = (0..count).map(|_| decode_change(&mut reader)).collect::<Result<_, _>>()?;
        let context_bytes = usize::from(reader.u16()?);
        let context = Bytes::copy_from_slice(reader.take(context_bytes)?);
        reader.end()?;
        let change = MembershipChange { transition, changes, context };
        match change.fault() {
            None => Ok(change),
            Some(what) => Err(MessageError::Malformed { offset, what }),
        }
    }

    /// Describes the problem if the shape of this change is invalid. Whether the change fits the
    /// membership is checked when it is proposed and when it is applied.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let id_of = |change: &MemberChange| match *change {
            MemberChange::AddVoter(id)
            | MemberChange::AddLearner(id)
            | MemberChange::Remove(id) => id,
        };
        if self.changes.len() > MEMBERSHIP_CHANGES_MAX {
            Some("too many changes")
        } else if self.context.len() > MEMBERSHIP_CONTEXT_BYTES_MAX {
            Some("context too long")
        } else if self.changes.iter().any(|change| id_of(change) == 0) {
            Some("member id 0")
        } else if self.changes.is_empty() != (self.transition == Transition::Leave) {
            Some("changes are missing, or come with a leave")
        } else {
            None
        }
    }

    /// Reads an entry of raft-rs: protobuf that `to_raft_entry` wrote in this process, or the empty
    /// change that raft-rs makes to leave a joint state on its own.
    pub(crate) fn from_raft(entry: &eraftpb::Entry) -> MembershipChange {
        let proto = conf_change(entry);
        let transition = match proto.get_transition() {
            ConfChangeTransition::Auto if proto.changes.is_empty() => Transition::Leave,
            ConfChangeTransition::Auto => Transition::Auto,
            ConfChangeTransition::Implicit => Transition::Joint,
            ConfChangeTransition::Explicit => Transition::JointExplicit,
        };
        let changes = proto.get_changes().iter().map(|single| match single.get_change_type() {
            ConfChangeType::AddNode => MemberChange::AddVoter(single.node_id),
            ConfChangeType::AddLearnerNode => MemberChange::AddLearner(single.node_id),
            ConfChangeType::RemoveNode => MemberChange::Remove(single.node_id),
        });
        MembershipChange { transition, changes: changes.collect(), context: proto.context.clone() }
    }

    pub(crate) fn to_raft(&self) -> eraftpb::ConfChangeV2 {
        let mut proto = eraftpb::ConfChangeV2::default();
        proto.set_transition(match self.transition {
            Transition::Auto | Transition::Leave => ConfChangeTransition::Auto,
            Transition::Joint => ConfChangeTransition::Implicit,
            Transition::JointExplicit => ConfChangeTransition::Explicit,
        });
        for change in &self.changes {
            let mut single = eraftpb::ConfChangeSingle::default();
            let (kind, id) = match *change {
                MemberChange::AddVoter(id) => (ConfChangeType::AddNode, id),
                MemberChange::AddLearner(id) => (ConfChangeType::AddLearnerNode, id),
                MemberChange::Remove(id) => (ConfChangeType::RemoveNode, id),
            };
            single.set_change_type(kind);
            single.node_id = id;
            proto.mut_changes().push(single);
        }
        proto.context = self.context.clone();
        proto
    }

    pub(crate) fn to_raft_entry(&self) -> eraftpb::Entry {
        let mut entry = eraftpb::Entry::default();
        entry.set_entry_type(eraftpb::EntryType::EntryConfChangeV2);
        entry.data = self
            .to_raft()
            .write_to_bytes()
            .expect("writing protobuf to memory fails only without required fields: none here")
            .into();
        entry
    }
}

/// Decodes the protobuf in an entry of raft-rs. This process wrote it; it is never from outside.
pub(crate) fn conf_change(entry: &eraftpb::Entry) -> eraftpb::ConfChangeV2 {
    let mut proto = eraftpb::ConfChangeV2::default();
    proto.merge_from_bytes(&entry.data).expect("written by this process, in to_raft_entry");
    proto
}

fn decode_change(reader: &mut Reader<'_>) -> Result<MemberChange, MessageError> {
    let offset = reader.offset();
    let kind = reader.u8()?;
    let id = reader.u64()?;
    match kind {
        0 => Ok(MemberChange::AddVoter(id)),
        1 => Ok(MemberChange::AddLearner(id)),
        2 => Ok(MemberChange::Remove(id)),
        _ => Err(MessageError::UnknownKind { offset, kind }),
    }
}

#[cfg(test)]
mod tests;
