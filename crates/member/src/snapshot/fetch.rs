//! Catching up by a snapshot: what a leader offers, and how a member fetches it, piece by piece.
//!
//! The offer is the replica's own message that installs the snapshot, with the member that has its
//! file, the *holder*: the leader, or a member that lends it ([`crate::leader::lending`]). It is
//! sent again until the member has the snapshot, or the leader has another. The member asks the
//! holder for the pieces, one at a time, so it resumes where a broken link stopped, and at its own
//! pace. Once the file is whole, checked and has its name, the message is stepped. The fetch ends
//! early if the holder no longer has the file, does not answer, or has a file that is no snapshot;
//! the leader is told, and offers another.

use std::collections::BTreeMap;

use bytes::Bytes;
use machine::{Machine, MemberId};
use replica::{PeerStatus, PersistId, SnapshotMeta};

use crate::message::SnapshotJob;
use crate::peer::{Offer, PeerMessage, Piece, SnapshotAt, Want};
use crate::snapshot::limits::{HOLDER_PATIENCE_MS, OFFER_INTERVAL_MS, PIECE_PATIENCE_MS};

/// A snapshot that was received whole, checked, and has its name in the data directory.
#[derive(Debug)]
pub struct WholeSnapshot {
    /// The last entry that it holds, with its term.
    pub at: SnapshotAt,
    /// The state.
    pub machine: Box<Machine>,
}

/// This member's progress with a snapshot that takes the place of its log.
pub(crate) enum CatchUp {
    /// No snapshot is needed.
    Idle,
    /// The snapshot is being fetched, or checked.
    Fetching(Fetch),
    /// The snapshot is whole, and the replica is to install it.
    Whole(WholeSnapshot),
    /// The log is being replaced by the snapshot, which is done once this job is durable.
    Replacing {
        /// The job.
        job: PersistId,
        /// The snapshot.
        image: WholeSnapshot,
    },
}

impl CatchUp {
    /// The fetch under way, if there is one.
    pub fn fetch(&self) -> Option<&Fetch> {
        match self {
            CatchUp::Fetching(fetch) => Some(fetch),
            _ => None,
        }
    }

    /// As [`CatchUp::fetch`], to change it.
    pub fn fetch_mut(&mut self) -> Option<&mut Fetch> {
        match self {
            CatchUp::Fetching(fetch) => Some(fetch),
            _ => None,
        }
    }

    /// Ends the fetch, if there is one.
    pub fn take_fetch(&mut self) -> Option<Fetch> {
        self.take_fetch_if(|_| true)
    }

    /// Ends the fetch if `is_over` says so.
    pub fn take_fetch_if(&mut self, is_over: impl FnOnce(&Fetch) -> bool) -> Option<Fetch> {
        match core::mem::replace(self, CatchUp::Idle) {
            CatchUp::Fetching(fetch) if is_over(&fetch) => Some(fetch),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Takes the whole snapshot if `is_it` says so.
    pub fn take_whole_if(
        &mut self,
        is_it: impl FnOnce(&WholeSnapshot) -> bool,
    ) -> Option<WholeSnapshot> {
        match core::mem::replace(self, CatchUp::Idle) {
            CatchUp::Whole(image) if is_it(&image) => Some(image),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Takes the snapshot that has replaced the log, once every job up to `durable` is durable.
    pub fn take_replacing(&mut self, durable: PersistId) -> Option<WholeSnapshot> {
        match core::mem::replace(self, CatchUp::Idle) {
            CatchUp::Replacing { job, image } if job <= durable => Some(image),
            other => {
                *self = other;
                None
            }
        }
    }
}

/// The snapshots that a leader offers to members that have fallen off its log.
#[derive(Default)]
pub(crate) struct Offers {
    members: BTreeMap<MemberId, Offered>,
}

struct Offered {
    at: SnapshotAt,
    offer: Offer,
    sent_ms: u64,
}

impl Offers {
    /// Notes an offer that is sent now, for the replica.
    pub fn offer(&mut self, to: MemberId, offer: Offer, meta: &SnapshotMeta, now_ms: u64) {
        self.members.insert(to, Offered { at: at(meta), offer, sent_ms: now_ms });
    }

    /// The offers that are due to be sent again. Offers that the replica no longer wants are
    /// forgotten.
    pub fn due(&mut self, peers: &[PeerStatus], now_ms: u64) -> Vec<(MemberId, PeerMessage)> {
        let is_wanted = |member: &MemberId| {
            peers.iter().any(|peer| peer.member_id == member.0 && peer.snapshot_index.is_some())
        };
        self.members.retain(|member, _| is_wanted(member));
        let mut due = Vec::new();
        for (member, offered) in &mut self.members {
            if now_ms >= offered.sent_ms + OFFER_INTERVAL_MS {
                offered.sent_ms = now_ms;
                due.push((*member, PeerMessage::Offer(offered.offer.clone())));
            }
        }
        due
    }

    /// Whether nothing is offered.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Withdraws the offer to this member, which may not have arrived. True if there was one.
    pub fn withdraw(&mut self, from: MemberId) -> bool {
        self.members.remove(&from).is_some()
    }

    /// Withdraws the offer of a snapshot that is gone. True if it was offered.
    pub fn withdraw_at(&mut self, from: MemberId, at: SnapshotAt) -> bool {
        let is_offered = self.members.get(&from).is_some_and(|offered| offered.at == at);
        is_offered && self.withdraw(from)
    }
}

/// The index and term that name the snapshot.
fn at(meta: &SnapshotMeta) -> SnapshotAt {
    SnapshotAt { index: meta.index, term: meta.term }
}

/// A snapshot on its way to this member.
pub(crate) struct Fetch {
    /// The member that offered it, as leader.
    pub from: MemberId,
    /// The member that has the file.
    pub holder: MemberId,
    /// The replica's message that installs the snapshot, stepped once the file is whole.
    pub message: Bytes,
    /// The snapshot's index and term.
    pub at: SnapshotAt,
    offset: u64,
    state: FetchState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FetchState {
    /// A piece was asked for, first at `since_ms` and last at `again_ms`.
    Asked { since_ms: u64, again_ms: u64 },
    /// The holder did not answer. If the snapshot is offered again, the holder is asked again.
    GivenUp,
    /// A piece is being written.
    Writing { is_last: bool },
    /// The whole file is being read and checked.
    Checking,
}

impl Fetch {
    /// Begins with nothing.
    pub fn new(from: MemberId, offer: Offer, meta: &SnapshotMeta, now_ms: u64) -> Fetch {
        let Offer { holder, message } = offer;
        let state = FetchState::Asked { since_ms: now_ms, again_ms: now_ms };
        Fetch { from, holder, message, at: at(meta), offset: 0, state }
    }

    /// The request for the next piece.
    pub fn want(&self) -> PeerMessage {
        PeerMessage::Want(Want { at: self.at, offset: self.offset })
    }

    /// Takes a repeated offer, perhaps of another leader. False if the offer is of another
    /// snapshot, or of another member's file of it: such files need not hold the same bytes.
    pub fn is_of(
        &mut self,
        from: MemberId,
        offer: &Offer,
        meta: &SnapshotMeta,
        now_ms: u64,
    ) -> bool {
        let is_same = self.at == at(meta) && self.holder == offer.holder;
        if is_same {
            self.from = from;
            self.message = offer.message.clone();
        }
        if is_same && self.state == FetchState::GivenUp {
            // The holder is asked at once.
            self.state = FetchState::Asked { since_ms: now_ms, again_ms: 0 };
        }
        is_same
    }

    /// Whether no received piece is being written or checked.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, FetchState::Asked { .. } | FetchState::GivenUp)
    }

    /// Asks again for a piece that does not come. If the holder is not the leader, the leader must
    /// be told of its silence; a leader that has the file itself makes another offer in time.
    pub fn pursue(&mut self, now_ms: u64) -> Option<FetchStep> {
        let FetchState::Asked { since_ms, again_ms } = self.state else { return None };
        if self.holder != self.from && now_ms >= since_ms + HOLDER_PATIENCE_MS {
            self.state = FetchState::GivenUp;
            return Some(FetchStep::GiveUp(self.at));
        }
        if now_ms < again_ms + PIECE_PATIENCE_MS {
            return None;
        }
        self.state = FetchState::Asked { since_ms, again_ms: now_ms };
        Some(FetchStep::Ask(self.want()))
    }

    /// Takes a piece. Returns the job that writes it, if it is the next one.
    pub fn on_piece(&mut self, from: MemberId, piece: Piece) -> Option<SnapshotJob> {
        let is_asked = matches!(self.state, FetchState::Asked { .. });
        let is_next = from == self.holder && piece.at == self.at && piece.offset == self.offset;
        if !is_asked || !is_next {
            return None;
        }
        let end = piece.offset + piece.bytes.len() as u64;
        self.state = FetchState::Writing { is_last: end >= piece.total };
        let is_first = self.offset == 0;
        self.offset = end;
        Some(SnapshotJob::Receive { is_first, bytes: piece.bytes })
    }

    /// The piece is in the file. Asks for the next one, or has the whole file checked.
    pub fn on_written(&mut self, now_ms: u64) -> FetchStep {
        match self.state {
            FetchState::Writing { is_last: true } => {
                self.state = FetchState::Checking;
                FetchStep::Check(self.at)
            }
            _ => {
                self.state = FetchState::Asked { since_ms: now_ms, again_ms: now_ms };
                FetchStep::Ask(self.want())
            }
        }
    }
}

/// The next step of a fetch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FetchStep {
    /// Ask the holder for a piece.
    Ask(PeerMessage),
    /// Check the file, which is whole.
    Check(SnapshotAt),
    /// Tell the leader that the holder does not answer.
    GiveUp(SnapshotAt),
}

#[cfg(test)]
mod tests;
