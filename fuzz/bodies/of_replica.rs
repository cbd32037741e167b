//! Bodies for what a Raft replica decodes: messages of its peers, memberships and their changes.

use replica::{
    Config, Effects, Entry, EntryKind, HardState, MemberChange, Membership, MembershipChange,
    Replica, Restored, Transition, peek,
};

/// A membership. If it decodes, it must encode to the same bytes.
pub fn membership(bytes: &[u8]) {
    let Ok(membership) = Membership::decode(bytes) else { return };
    assert_eq!(membership.encode(), bytes);
}

/// A change of the membership. If it decodes, it must encode to the same bytes.
pub fn membership_change(bytes: &[u8]) {
    let Ok(change) = MembershipChange::decode(bytes) else { return };
    assert_eq!(change.encode(), bytes);
}

/// A Raft message. The replica either refuses it, or steps it and goes on working. The body steps
/// it twice, because a network may duplicate messages.
pub fn peer_message(bytes: &[u8]) {
    let peeked = peek(bytes);
    let mut replica = replica();
    for _ in 0..2 {
        if replica.step(2, bytes).is_ok() {
            let peeked = peeked.as_ref().expect("a message that is taken in can be looked at");
            assert_eq!((peeked.group_id, peeked.from, peeked.to), (0, 2, 1));
        }
        drain(&mut replica);
    }
    replica.tick();
    drain(&mut replica);
}

/// A replica that is member 1 of three, with a log of a few entries, some of them committed.
fn replica() -> Replica {
    let entry = |index| Entry {
        index,
        term: 2,
        kind: EntryKind::Normal,
        payload: b"payload".to_vec().into(),
    };
    let restored = Restored {
        hard_state: HardState { term: 2, vote: 2, commit: 3 },
        membership: Membership::from_voters([1, 2, 3]),
        snapshot_index: 1,
        snapshot_term: 1,
        entries: (2..=5).map(entry).collect(),
        left_out: None,
        applied_index: 1,
    };
    let mut replica = Replica::new(Config::new(1, 7, 1), restored).expect("the state is sound");
    drain(&mut replica);
    replica
}

/// Carries out at once all effects that the replica asks for.
fn drain(replica: &mut Replica) {
    while replica.has_effects() {
        let Effects { persist, committed, .. } = replica.effects();
        if let Some(job) = persist {
            replica.on_persisted(job.id);
            if let Some(snapshot) = job.install {
                replica.on_snapshot_installed(snapshot.index);
            }
        }
        if let Some(last) = committed.last() {
            replica.on_applied(last.index);
        }
    }
}

fn joint() -> Membership {
    Membership {
        voters: vec![1, 2, 5],
        voters_outgoing: vec![1, 2, 3],
        learners: vec![7],
        learners_next: vec![3],
        auto_leave: true,
    }
}

fn change() -> MembershipChange {
    MembershipChange {
        transition: Transition::Joint,
        changes: vec![MemberChange::AddVoter(4), MemberChange::AddLearner(3)],
        context: b"host:1".to_vec().into(),
    }
}

pub fn membership_seeds() -> Vec<Vec<u8>> {
    [Membership::default(), Membership::from_voters([1, 2, 3]), joint()]
        .iter()
        .map(|membership| membership.encode().to_vec())
        .collect()
}

pub fn membership_change_seeds() -> Vec<Vec<u8>> {
    let remove = MembershipChange {
        transition: Transition::Auto,
        changes: vec![MemberChange::Remove(3)],
        context: Vec::new().into(),
    };
    [change(), remove, MembershipChange::leave()]
        .iter()
        .map(|change| change.encode().to_vec())
        .collect()
}

/// The fields in which the kinds of message differ; `docs/formats.md` has the layout.
#[derive(Default)]
struct Message<'a> {
    kind: u8,
    term: u64,
    log_term: u64,
    index: u64,
    commit: u64,
    context: &'a [u8],
    /// Index, term, kind and payload.
    entries: &'a [(u64, u64, u8, &'a [u8])],
    snapshot: &'a [u8],
}

impl Message<'_> {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![1, self.kind, 0, self.context.len() as u8, 0, 0, 0, 0];
        let (to, from) = (1, 2);
        for field in [to, from, self.term, self.log_term, self.index, self.commit, 0, 0] {
            out.extend_from_slice(&u64::to_le_bytes(field));
        }
        out.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        out.extend_from_slice(self.context);
        for (index, term, kind, payload) in self.entries {
            out.extend_from_slice(&index.to_le_bytes());
            out.extend_from_slice(&term.to_le_bytes());
            out.push(*kind);
            out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            out.extend_from_slice(payload);
        }
        out.extend_from_slice(self.snapshot);
        out
    }
}

pub fn peer_message_seeds() -> Vec<Vec<u8>> {
    let change = change().encode();
    let read = [3; 24];
    let entries = [(6, 3, 0, &b"hello"[..]), (7, 3, 1, &change), (8, 3, 0, &[])];
    let mut snapshot = Vec::new();
    snapshot.extend_from_slice(&50_u64.to_le_bytes());
    snapshot.extend_from_slice(&3_u64.to_le_bytes());
    snapshot.extend_from_slice(&joint().encode());
    let of = |kind| Message { kind, term: 3, ..Message::default() };
    let read_entry = [(0, 0, 0, &read[..])];
    vec![
        Message { log_term: 2, index: 5, commit: 7, entries: &entries, ..of(3) }.encode(),
        of(3).encode(),
        // The raft crate takes an entry of term 0 beyond its log for one that matches, and ends the
        // process.
        Message { index: 257, commit: 64, ..of(3) }.encode(),
        Message { index: 5, ..of(4) }.encode(),
        Message { index: 9, log_term: 2, ..of(5) }.encode(),
        Message { index: 9, log_term: 2, context: b"CampaignTransfer", ..of(5) }.encode(),
        of(6).encode(),
        Message { snapshot: &snapshot, ..of(7) }.encode(),
        Message { commit: 4, context: &read, ..of(8) }.encode(),
        Message { commit: 4, context: &read, ..of(9) }.encode(),
        of(14).encode(),
        Message { term: 0, entries: &read_entry, ..of(15) }.encode(),
        Message { index: 4, entries: &read_entry, ..of(16) }.encode(),
        Message { index: 9, log_term: 2, ..of(17) }.encode(),
        of(18).encode(),
    ]
}
