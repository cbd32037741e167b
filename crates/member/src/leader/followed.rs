//! A leader's record of the batches that followers forward to it, so that the leader takes each
//! batch once and in order.

use std::collections::BTreeMap;

use machine::{BootId, MemberId};

use crate::peer::{Forward, ForwardedBatch, PeerMessage};

/// The position in each follower's stream of batches, in this leader's term. A follower begins a
/// new stream when it forwards its batches again from the first one that is not applied.
#[derive(Default)]
pub(crate) struct Followed {
    members: BTreeMap<MemberId, Stream>,
}

struct Stream {
    boot: BootId,
    stream: u64,
    next_position: u64,
    /// The last sequence taken from any stream of this boot: its batch is in the log or will be.
    /// Batches up to it are dropped if they come again.
    taken: u64,
}

impl Followed {
    /// Takes one piece of a follower's stream. Returns the batches that are new. On an error,
    /// returns the answer to send: [`PeerMessage::Restart`] if pieces are missing, none if the
    /// piece is old.
    pub fn take(
        &mut self,
        from: MemberId,
        forward: Forward,
    ) -> Result<Vec<ForwardedBatch>, Option<PeerMessage>> {
        let Forward { boot, stream, position, batches } = forward;
        let restart = || Some(PeerMessage::Restart { boot, stream });
        let known = self.members.get(&from).filter(|known| known.boot >= boot);
        let (expected, taken) = match known {
            Some(known) if known.boot > boot || known.stream > stream => return Err(None),
            Some(known) if known.stream == stream => (known.next_position, known.taken),
            Some(known) => (0, known.taken),
            None => (0, 0),
        };
        if position < expected {
            return Err(None);
        }
        if position > expected {
            return Err(restart());
        }
        let last = batches.last().map_or(taken, |batch| batch.header.sequence.max(taken));
        let next_position = position + 1;
        self.members.insert(from, Stream { boot, stream, next_position, taken: last });
        Ok(batches.into_iter().filter(|batch| batch.header.sequence > taken).collect())
    }
}
