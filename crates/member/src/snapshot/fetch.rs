//! Lets a follower catch up by a snapshot: keeps the offers of a leader, and fetches an offered
//! snapshot.
//!
//! An offer is the replica's own message that installs the snapshot, with the *holder*: the member
//! that has the snapshot's file, either the leader or a lender ([`crate::leader::lending`]). The
//! leader repeats the offer until the follower has the snapshot, or the leader has another one. The
//! follower asks the holder for one piece after the other, for the next one while it writes the
//! one before. So the follower sets the pace, holds two pieces at most, and goes on where a broken
//! link stopped it. Once the file is complete and checked, and has its final
//! name, the replica gets the message. The fetch ends early if the holder no longer has the file,
//! does not answer, or has a file that is not a snapshot; the leader learns this, and offers
//! another snapshot.

use std::collections::BTreeMap;

use bytes::Bytes;
use machine::{Machine, MemberId};
use replica::{PeerStatus, PersistId, SnapshotMeta};

use crate::peer::{Offer, PeerMessage, Piece, SnapshotAt, Want};
use crate::snapshot::limits::{HOLDER_PATIENCE_MS, OFFER_INTERVAL_MS, PIECE_PATIENCE_MS};

/// A snapshot that was fetched completely and checked, and whose file has its final name.
#[derive(Debug)]
pub struct WholeSnapshot {
    /// The index and the term of the last entry that the snapshot holds.
    pub at: SnapshotAt,
    /// The state that the snapshot holds.
    pub machine: Box<Machine>,
}

/// How far this member is with a snapshot that is to replace its log.
pub(crate) enum CatchUp {
    /// No snapshot is needed.
    Idle,
    /// The snapshot is being fetched or checked.
    Fetching(Fetch),
    /// The snapshot is complete, and the replica has not yet installed it.
    Whole(WholeSnapshot),
    /// The disk thread replaces the log by the snapshot; that is done once this job is durable.
    Replacing {
        /// The id of that job.
        job: PersistId,
        /// The snapshot that replaces the log.
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

    /// Like [`CatchUp::fetch`], but mutable.
    pub fn fetch_mut(&mut self) -> Option<&mut Fetch> {
        match self {
            CatchUp::Fetching(fetch) => Some(fetch),
            _ => None,
        }
    }

    /// Ends the fetch under way, if there is one, and returns it.
    pub fn take_fetch(&mut self) -> Option<Fetch> {
        self.take_fetch_if(|_| true)
    }

    /// Ends the fetch under way if `is_over` is true for it, and returns it.
    pub fn take_fetch_if(&mut self, is_over: impl FnOnce(&Fetch) -> bool) -> Option<Fetch> {
        match core::mem::replace(self, CatchUp::Idle) {
            CatchUp::Fetching(fetch) if is_over(&fetch) => Some(fetch),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Takes the complete snapshot if `is_it` is true for it.
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

    /// Takes the snapshot that replaces the log, if the jobs up to `durable` include its job.
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

/// The snapshots that a leader offers, by the member that needs each.
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
    /// Notes an offer that is being sent now, so that it can be repeated.
    pub fn offer(&mut self, to: MemberId, offer: Offer, meta: &SnapshotMeta, now_ms: u64) {
        self.members.insert(to, Offered { at: at(meta), offer, sent_ms: now_ms });
    }

    /// Returns the offers to repeat now. Forgets offers to members that no longer need a snapshot.
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

    /// Whether there is no offer.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Withdraws the offer to member `from`. Returns whether there was one.
    pub fn withdraw(&mut self, from: MemberId) -> bool {
        self.members.remove(&from).is_some()
    }

    /// Withdraws the offer of this snapshot to member `from`. Returns whether there was one.
    pub fn withdraw_at(&mut self, from: MemberId, at: SnapshotAt) -> bool {
        let is_offered = self.members.get(&from).is_some_and(|offered| offered.at == at);
        is_offered && self.withdraw(from)
    }
}

/// The index and term that name the snapshot.
fn at(meta: &SnapshotMeta) -> SnapshotAt {
    SnapshotAt { index: meta.index, term: meta.term }
}

/// A snapshot that this member is fetching.
pub(crate) struct Fetch {
    /// The leader that offered it.
    pub from: MemberId,
    /// The member that has the snapshot's file.
    pub holder: MemberId,
    /// The replica's message that installs the snapshot; the replica gets it once the file is
    /// complete.
    pub message: Bytes,
    /// The snapshot's index and term.
    pub at: SnapshotAt,
    /// How many bytes have arrived.
    offset: u64,
    asking: Asking,
    writing: Writing,
}

/// The state of the question for the next piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    /// The holder was asked for the piece, first at `since_ms` and last at `again_ms`.
    Asked { since_ms: u64, again_ms: u64 },
    /// The holder did not answer. It is asked again if the snapshot is offered again.
    GivenUp,
    /// The last piece that arrived is not being written yet. Then the next one is asked for.
    Held,
    /// All pieces have arrived.
    Over,
}

/// The work of the snapshot thread.
#[derive(Debug, PartialEq, Eq)]
enum Writing {
    /// Nothing is under way.
    Idle,
    /// It writes a piece. `next` is the piece after it, if that has arrived.
    Piece { next: Option<Bytes> },
    /// It reads and checks the complete file.
    Checking,
}

impl Fetch {
    /// Begins the fetch of a snapshot that `from` offers.
    pub fn new(from: MemberId, offer: Offer, meta: &SnapshotMeta, now_ms: u64) -> Fetch {
        let Offer { holder, message } = offer;
        let (asking, writing) = (Asking::at(now_ms), Writing::Idle);
        Fetch { from, holder, message, at: at(meta), offset: 0, asking, writing }
    }

    /// The request for the next piece, to the holder.
    pub fn want(&self) -> PeerMessage {
        PeerMessage::Want(Want { at: self.at, offset: self.offset })
    }

    /// Takes a repeated offer, perhaps from a new leader. Returns false if it offers another
    /// snapshot, or another holder's file of this one: the files of two members need not hold the
    /// same bytes.
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
        if is_same && self.asking == Asking::GivenUp {
            // So the holder is asked again at once.
            self.asking = Asking::Asked { since_ms: now_ms, again_ms: 0 };
        }
        is_same
    }

    /// Whether the snapshot thread is neither writing a piece nor checking the file.
    pub fn is_waiting(&self) -> bool {
        self.writing == Writing::Idle
    }

    /// Asks again for a piece that does not come. If the holder is not the leader, gives up after a
    /// while, so that the leader learns of the holder's silence; a leader that holds the file
    /// itself makes another offer in time.
    pub fn pursue(&mut self, now_ms: u64) -> Option<FetchStep> {
        let Asking::Asked { since_ms, again_ms } = self.asking else { return None };
        if self.holder != self.from && now_ms >= since_ms + HOLDER_PATIENCE_MS {
            self.asking = Asking::GivenUp;
            return Some(FetchStep::GiveUp(self.at));
        }
        if now_ms < again_ms + PIECE_PATIENCE_MS {
            return None;
        }
        self.asking = Asking::Asked { since_ms, again_ms: now_ms };
        Some(FetchStep::Ask(self.want()))
    }

    /// Takes a piece from a holder, if it is the one that was asked for. It is written now, and the
    /// next one is asked for; or it waits for the write of the piece before it.
    pub fn on_piece(&mut self, from: MemberId, piece: Piece, now_ms: u64) -> Vec<FetchStep> {
        let is_asked = matches!(self.asking, Asking::Asked { .. });
        let is_next = from == self.holder && piece.at == self.at && piece.offset == self.offset;
        if !is_asked || !is_next {
            return Vec::new();
        }
        let is_first = self.offset == 0;
        self.offset = piece.offset + piece.bytes.len() as u64;
        self.asking = if self.offset >= piece.total { Asking::Over } else { Asking::Held };
        match &mut self.writing {
            Writing::Piece { next } => {
                *next = Some(piece.bytes);
                Vec::new()
            }
            _ => self.write(is_first, piece.bytes, now_ms),
        }
    }

    /// Notes that a piece is in the file. Returns the next steps: write the next piece, or check
    /// the complete file.
    pub fn on_written(&mut self, now_ms: u64) -> Vec<FetchStep> {
        match core::mem::replace(&mut self.writing, Writing::Idle) {
            Writing::Piece { next: Some(bytes) } => self.write(false, bytes, now_ms),
            Writing::Piece { next: None } if self.asking == Asking::Over => {
                self.writing = Writing::Checking;
                vec![FetchStep::Check(self.at)]
            }
            _ => Vec::new(),
        }
    }

    /// Has the piece written that arrived last, and asks for the next one, if there is one.
    fn write(&mut self, is_first: bool, bytes: Bytes, now_ms: u64) -> Vec<FetchStep> {
        self.writing = Writing::Piece { next: None };
        let mut steps = vec![FetchStep::Write { is_first, bytes }];
        if self.asking == Asking::Held {
            self.asking = Asking::at(now_ms);
            steps.push(FetchStep::Ask(self.want()));
        }
        steps
    }
}

impl Asking {
    fn at(now_ms: u64) -> Asking {
        Asking::Asked { since_ms: now_ms, again_ms: now_ms }
    }
}

/// The next step of a fetch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FetchStep {
    /// Ask the holder for a piece, with this message.
    Ask(PeerMessage),
    /// Append these bytes to the file, or begin it with them.
    Write { is_first: bool, bytes: Bytes },
    /// Check the complete file.
    Check(SnapshotAt),
    /// Report to the leader that the holder does not answer.
    GiveUp(SnapshotAt),
}

#[cfg(test)]
mod tests;
