//! Catching up by a snapshot: what a leader offers, and how a member fetches it, piece by piece.
//!
//! The replica's own message that installs the snapshot is the offer, and says who has its file:
//! the leader, or another that lends it ([`crate::leader::lending`]). It is sent again until the
//! member has it, or the leader has another. The member asks the holder for the pieces itself, one
//! at a time, so that it goes on where a broken link stopped, at its own pace; when the file is
//! whole, checked and has its name, the message is stepped. A file that its holder has no more ends
//! that, and so does a holder that does not answer, or whose file is none; the leader is told, and
//! then offers another.

use std::collections::BTreeMap;

use bytes::Bytes;
use machine::{Machine, MemberId};
use replica::{PeerStatus, PersistId, SnapshotMeta};

use crate::limits::{HOLDER_PATIENCE_MS, OFFER_INTERVAL_MS, PIECE_PATIENCE_MS};
use crate::message::SnapshotJob;
use crate::peer::{Offer, PeerMessage, Piece, SnapshotAt, Want};

/// A snapshot that was received whole, checked, and has its name in the data directory.
#[derive(Debug)]
pub struct WholeSnapshot {
    /// What it is of.
    pub at: SnapshotAt,
    /// The state.
    pub machine: Box<Machine>,
}

/// Where this member stands with a snapshot that takes the place of its log.
pub(crate) enum CatchUp {
    /// It needs none.
    Idle,
    /// It is fetched, or checked.
    Fetching(Fetch),
    /// It is there, on its way into the log.
    Whole(WholeSnapshot),
    /// The log takes it, and says so once this job is durable.
    Replacing {
        /// The job.
        job: PersistId,
        /// The snapshot.
        image: WholeSnapshot,
    },
}

impl CatchUp {
    /// The snapshot that is fetched.
    pub fn fetch(&self) -> Option<&Fetch> {
        match self {
            CatchUp::Fetching(fetch) => Some(fetch),
            _ => None,
        }
    }

    /// As [`CatchUp::fetch`], to go on with it.
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

    /// Ends the fetch, if it is such a one.
    pub fn take_fetch_if(&mut self, is_over: impl FnOnce(&Fetch) -> bool) -> Option<Fetch> {
        match core::mem::replace(self, CatchUp::Idle) {
            CatchUp::Fetching(fetch) if is_over(&fetch) => Some(fetch),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Takes the snapshot that is there, if it is such a one.
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

    /// Takes the snapshot that the log has taken, once every job up to this one is durable.
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

/// What a leader offers to members that its log does not reach.
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
    /// An offer that the replica wants sent, and is sent now.
    pub fn offer(&mut self, to: MemberId, offer: Offer, meta: &SnapshotMeta, now_ms: u64) {
        self.members.insert(to, Offered { at: at(meta), offer, sent_ms: now_ms });
    }

    /// What is to be said again. What is not wanted any more is forgotten.
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

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// It did not arrive, or perhaps not. True if there was one.
    pub fn withdraw(&mut self, from: MemberId) -> bool {
        self.members.remove(&from).is_some()
    }

    /// That snapshot cannot be had. True if it was offered.
    pub fn withdraw_at(&mut self, from: MemberId, at: SnapshotAt) -> bool {
        let is_offered = self.members.get(&from).is_some_and(|offered| offered.at == at);
        is_offered && self.withdraw(from)
    }
}

/// Names the snapshot.
fn at(meta: &SnapshotMeta) -> SnapshotAt {
    SnapshotAt { index: meta.index, term: meta.term }
}

/// A snapshot on its way to this member.
pub(crate) struct Fetch {
    /// Who offered it.
    pub from: MemberId,
    /// Who has it.
    pub holder: MemberId,
    /// To be stepped once it is there.
    pub message: Bytes,
    /// Which it is.
    pub at: SnapshotAt,
    offset: u64,
    state: FetchState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FetchState {
    /// A piece was asked for, and again.
    Asked { since_ms: u64, again_ms: u64 },
    /// The holder did not answer. If it is offered again, it is asked again.
    GivenUp,
    /// It is being written.
    Writing { is_last: bool },
    /// All of it is being read.
    Checking,
}

impl Fetch {
    /// Begins with nothing.
    pub fn new(from: MemberId, offer: Offer, meta: &SnapshotMeta, now_ms: u64) -> Fetch {
        let Offer { holder, message } = offer;
        let state = FetchState::Asked { since_ms: now_ms, again_ms: now_ms };
        Fetch { from, holder, message, at: at(meta), offset: 0, state }
    }

    /// What to ask for next.
    pub fn want(&self) -> PeerMessage {
        PeerMessage::Want(Want { at: self.at, offset: self.offset })
    }

    /// It is offered again, perhaps by another leader. False if this is another snapshot, or
    /// another's file of it: such files need not be the same bytes.
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
            // It is asked at once.
            self.state = FetchState::Asked { since_ms: now_ms, again_ms: 0 };
        }
        is_same
    }

    /// Whether nothing is being done with what came.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, FetchState::Asked { .. } | FetchState::GivenUp)
    }

    /// Asks again for what does not come. A leader that has the file itself offers another when it
    /// is time to; of another holder it has to be told.
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

    /// A piece came. What to do with it, if it is the next one.
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

    /// The piece is in the file: the next is asked for, or all of it is checked.
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

/// What comes next of a snapshot that is fetched.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FetchStep {
    /// Another piece, from the one who has it.
    Ask(PeerMessage),
    /// All of it is there.
    Check(SnapshotAt),
    /// The holder does not answer: the one who offered it is told.
    GiveUp(SnapshotAt),
}

#[cfg(test)]
mod tests;
