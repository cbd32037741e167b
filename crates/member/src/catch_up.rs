//! Catching up by a snapshot: what a leader offers, and how a member fetches it, piece by piece.
//!
//! The replica's own message that installs the snapshot is the offer. It is sent again until the member
//! has it, or the leader has another. The member asks for the pieces itself, one at a time, so that it
//! goes on where a broken link stopped, at its own pace; when the file is whole, checked and has its
//! name, the message is stepped. A file that the leader has no more ends that: it is then offered its
//! next.

use std::collections::BTreeMap;

use bytes::Bytes;
use machine::{Machine, MemberId};
use replica::{PeerStatus, SnapshotMeta};

use crate::limits::{OFFER_INTERVAL_MS, PIECE_PATIENCE_MS};
use crate::message::SnapshotJob;
use crate::peer::{PeerMessage, Piece, SnapshotAt, Want};

/// A snapshot that was received whole, checked, and has its name in the data directory.
#[derive(Debug)]
pub struct WholeImage {
    /// What it is of.
    pub at: SnapshotAt,
    /// The state.
    pub machine: Box<Machine>,
}

/// What a leader offers to members that its log does not reach.
#[derive(Default)]
pub(crate) struct Offers {
    members: BTreeMap<MemberId, Offer>,
}

struct Offer {
    message: Bytes,
    sent_ms: u64,
}

impl Offers {
    /// The replica wants this sent. Returns the offer.
    pub fn offer(&mut self, to: MemberId, message: Bytes, now_ms: u64) -> PeerMessage {
        self.members.insert(to, Offer { message: message.clone(), sent_ms: now_ms });
        PeerMessage::Offer(message)
    }

    /// What is to be said again. What is not wanted any more is forgotten.
    pub fn due(&mut self, peers: &[PeerStatus], now_ms: u64) -> Vec<(MemberId, PeerMessage)> {
        let is_wanted = |member: &MemberId| {
            peers.iter().any(|peer| peer.member_id == member.0 && peer.snapshot_index.is_some())
        };
        self.members.retain(|member, _| is_wanted(member));
        let mut due = Vec::new();
        for (member, offer) in &mut self.members {
            if now_ms >= offer.sent_ms + OFFER_INTERVAL_MS {
                offer.sent_ms = now_ms;
                due.push((*member, PeerMessage::Offer(offer.message.clone())));
            }
        }
        due
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// It cannot be had, or did not arrive. True if there was one.
    pub fn withdraw(&mut self, from: MemberId) -> bool {
        self.members.remove(&from).is_some()
    }

    /// This member leads no longer.
    pub fn clear(&mut self) {
        self.members.clear();
    }
}

/// A snapshot on its way to this member.
pub(crate) struct Fetch {
    /// Who offered it and has it.
    pub from: MemberId,
    /// To be stepped once it is there.
    pub message: Bytes,
    at: SnapshotAt,
    offset: u64,
    state: FetchState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FetchState {
    /// A piece was asked for.
    Asked { since_ms: u64 },
    /// It is being written.
    Writing { is_last: bool },
    /// All of it is being read.
    Checking,
}

impl Fetch {
    /// Begins with nothing.
    pub fn new(from: MemberId, message: Bytes, meta: &SnapshotMeta, now_ms: u64) -> Fetch {
        let at = SnapshotAt { index: meta.index, term: meta.term };
        Fetch { from, message, at, offset: 0, state: FetchState::Asked { since_ms: now_ms } }
    }

    /// What to ask for next.
    pub fn want(&self) -> PeerMessage {
        PeerMessage::Want(Want { at: self.at, offset: self.offset })
    }

    /// It is offered again, perhaps by another leader. False if this is another snapshot.
    pub fn is_of(&mut self, from: MemberId, message: &Bytes, meta: &SnapshotMeta) -> bool {
        let is_same = self.at == SnapshotAt { index: meta.index, term: meta.term };
        if is_same && self.from == from {
            self.message = message.clone();
        }
        is_same && self.from == from
    }

    /// Asks again for what does not come.
    pub fn maybe_ask(&mut self, now_ms: u64) -> Option<PeerMessage> {
        let FetchState::Asked { since_ms } = self.state else { return None };
        if now_ms < since_ms + PIECE_PATIENCE_MS {
            return None;
        }
        self.state = FetchState::Asked { since_ms: now_ms };
        Some(self.want())
    }

    /// A piece came. What to do with it, if it is the next one.
    pub fn on_piece(&mut self, from: MemberId, piece: Piece) -> Option<SnapshotJob> {
        let is_asked = matches!(self.state, FetchState::Asked { .. });
        let is_next = from == self.from && piece.at == self.at && piece.offset == self.offset;
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
                self.state = FetchState::Asked { since_ms: now_ms };
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
}

#[cfg(test)]
mod tests;
