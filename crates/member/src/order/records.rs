//! Converts the values of `replica` to those of `storage`, and back.

pub(super) fn to_log_entry(entry: replica::Entry) -> storage::wal::LogEntry {
    let kind = match entry.kind {
        replica::EntryKind::Normal => storage::wal::EntryKind::Normal,
        replica::EntryKind::Membership => storage::wal::EntryKind::MembershipChange,
    };
    storage::wal::LogEntry { index: entry.index, term: entry.term, kind, payload: entry.payload }
}

/// The replica's membership in the form that the disk stores.
pub fn to_storage(membership: &replica::Membership) -> storage::wal::Membership {
    storage::wal::Membership {
        voters: membership.voters.clone(),
        voters_outgoing: membership.voters_outgoing.clone(),
        learners: membership.learners.clone(),
        learners_next: membership.learners_next.clone(),
        auto_leave: membership.auto_leave,
    }
}

/// The disk's membership in the form that the replica takes.
pub(super) fn to_replica(membership: &storage::wal::Membership) -> replica::Membership {
    replica::Membership {
        voters: membership.voters.clone(),
        voters_outgoing: membership.voters_outgoing.clone(),
        learners: membership.learners.clone(),
        learners_next: membership.learners_next.clone(),
        auto_leave: membership.auto_leave,
    }
}

/// The Raft state of a data directory in the form that the replica takes.
pub fn to_restored(
    hard_state: storage::wal::HardState,
    membership: storage::wal::Membership,
    snapshot: storage::wal::SnapshotPoint,
    entries: Vec<storage::wal::LogEntry>,
) -> replica::Restored {
    let kind = |kind| match kind {
        storage::wal::EntryKind::Normal => replica::EntryKind::Normal,
        storage::wal::EntryKind::MembershipChange => replica::EntryKind::Membership,
    };
    replica::Restored {
        hard_state: replica::HardState {
            term: hard_state.term,
            vote: hard_state.vote,
            commit: hard_state.commit,
        },
        membership: to_replica(&membership),
        snapshot_index: snapshot.index,
        snapshot_term: snapshot.term,
        entries: entries
            .into_iter()
            .map(|entry| replica::Entry {
                index: entry.index,
                term: entry.term,
                kind: kind(entry.kind),
                payload: entry.payload,
            })
            .collect(),
        left_out: None,
        applied_index: snapshot.index,
    }
}
