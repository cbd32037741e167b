//! Reads a range in pieces (`RangeStream` of etcd 3.7). Each piece is read only after the client
//! has taken the piece before, so a slow client costs the memory of one piece.
//!
//! All pieces are of one revision. If that revision is compacted before the last piece, the read
//! fails as compacted, and the client must begin anew (`EtcdServer.rangeStream` of etcd 3.7).

use bytes::Bytes;
use etcd::convert::{Piece, PieceEnd};
use machine::etcd::Store;
use machine::etcd::command::{KeyRange, RangeOp};
use machine::etcd::range::RangeRead;
use machine::etcd::reply::Refusal;

use super::range::AskedRange;
use crate::fronts::etcd::limits::ETCD_PIECE_KEYS_MAX;

/// A range read that is answered in pieces.
pub(super) struct Stream {
    asked: AskedRange,
    /// A piece ends at this many bytes of keys and values.
    piece_bytes: usize,
    /// The state between two steps; `None` before the first step.
    begun: Option<Begun>,
    /// Whether a piece was handed out: the client may have it.
    has_given: bool,
    /// Whether the state was replaced after a piece was handed out. The read then ends as
    /// compacted.
    is_cut: bool,
}

struct Begun {
    /// The revision that all pieces are read at.
    revision: i64,
    /// The store's revision when the read began; the header of the last piece shows it.
    revision_then: i64,
    /// The start of the rest of the range: the first key that may be in the next piece.
    next_key: Bytes,
    /// How many keys the finished pieces have.
    key_count: u64,
    /// The piece that the steps fill.
    piece: Option<Piece>,
    /// Counts the keys that the client's limit left out. The last piece shows the count.
    counting: Option<RangeRead>,
}

impl Stream {
    pub fn new(asked: AskedRange, piece_bytes: usize) -> Stream {
        Stream { asked, piece_bytes, begun: None, has_given: false, is_cut: false }
    }

    /// The key range that the client asked for.
    pub fn range(&self) -> KeyRange<'_> {
        self.asked.op().range
    }

    /// Whether a piece was handed out: the client may have it.
    pub fn has_begun(&self) -> bool {
        self.has_given
    }

    /// Notes that another state has replaced the old one. A read that has handed out a piece ends
    /// as compacted, with its next step. A read without a piece begins anew.
    pub fn on_replaced(&mut self) {
        self.is_cut = self.has_given;
        self.begun = None;
    }

    /// Fills the next piece, and subtracts the number of keys that it looks at from `keys_left`.
    /// Returns the piece once it is full, and whether it is the last one; `None` if another step
    /// must follow.
    ///
    /// # Errors
    /// The revision is above the store's, or was compacted meanwhile.
    pub fn step(
        &mut self,
        store: &Store,
        keys_left: &mut u64,
    ) -> Result<Option<(Piece, bool)>, Refusal> {
        if self.is_cut {
            return Err(Refusal::Compacted);
        }
        match self.go_on(store, keys_left) {
            // The client asked for the present state and has no piece yet, so a later revision is
            // as good.
            Err(Refusal::Compacted) if self.asked.op().revision <= 0 && !self.has_given => {
                self.begun = None;
                Ok(None)
            }
            stepped => {
                self.has_given |= matches!(stepped, Ok(Some(_)));
                stepped
            }
        }
    }

    fn go_on(
        &mut self,
        store: &Store,
        keys_left: &mut u64,
    ) -> Result<Option<(Piece, bool)>, Refusal> {
        let op = self.asked.op();
        let begun = self.begun.get_or_insert_with(|| Begun {
            revision: if op.revision > 0 { op.revision } else { store.revision() },
            revision_then: store.revision(),
            next_key: self.asked.key().clone(),
            key_count: 0,
            piece: None,
            counting: None,
        });
        if begun.counting.is_none() && !op.count_only {
            let Some(more) = begun.fill(&op, self.piece_bytes, store, keys_left)? else {
                return Ok(None);
            };
            if more != More::BehindLimit {
                let is_last = more == More::No;
                let mut piece = begun.piece.take().unwrap_or_else(|| Piece::new(op.keys_only));
                if is_last {
                    let (revision, count) = (begun.revision_then, begun.key_count);
                    piece.finish(PieceEnd { revision, more: false, count });
                }
                return Ok(Some((piece, is_last)));
            }
        }
        let Some(count) = begun.count(&op, store, keys_left)? else { return Ok(None) };
        let mut piece = begun.piece.take().unwrap_or_else(|| Piece::new(op.keys_only));
        let (revision, more) = (begun.revision_then, !op.count_only);
        piece.finish(PieceEnd { revision, more, count: begun.key_count + count });
        Ok(Some((piece, true)))
    }
}

/// Whether keys of the range are left behind a full piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    No,
    ForNextPiece,
    /// Keys are left, but the client's limit is reached.
    BehindLimit,
}

impl Begun {
    /// Fills the piece further. `None` if `keys_left` is used up first.
    fn fill(
        &mut self,
        op: &RangeOp<'_>,
        piece_bytes: usize,
        store: &Store,
        keys_left: &mut u64,
    ) -> Result<Option<More>, Refusal> {
        let wanted = match u64::try_from(op.limit) {
            Ok(limit @ 1..) => limit - self.key_count,
            _ => u64::MAX,
        };
        let keys_max = usize::try_from(wanted).unwrap_or(usize::MAX).min(ETCD_PIECE_KEYS_MAX);
        let piece = self.piece.get_or_insert_with(|| Piece::new(op.keys_only));
        let range = KeyRange { key: &self.next_key, end: op.range.end };
        let mut more = false;
        let next = store.walk_range_step(range, self.revision, keys_left, |event| {
            more = piece.events().len() >= keys_max || piece.kvs_bytes() >= piece_bytes;
            if !more {
                piece.push(event.clone());
            }
            !more
        })?;
        if let Some(next) = next {
            self.next_key = next.into();
            return Ok(None);
        }
        let key_count = piece.events().len() as u64;
        self.key_count += key_count;
        if let Some(last) = piece.events().last().filter(|_| more) {
            // No other key is between a key and the key with one zero more.
            self.next_key = [last.key(), &[0]].concat().into();
        }
        Ok(Some(match more {
            false => More::No,
            true if key_count < wanted => More::ForNextPiece,
            true => More::BehindLimit,
        }))
    }

    /// Counts the keys behind the last piece further. `None` if `keys_left` is used up first.
    fn count(
        &mut self,
        op: &RangeOp<'_>,
        store: &Store,
        keys_left: &mut u64,
    ) -> Result<Option<u64>, Refusal> {
        let range = KeyRange { key: &self.next_key, end: op.range.end };
        let rest = RangeOp { range, revision: self.revision, count_only: true, ..*op };
        let mut counting = match self.counting.take() {
            Some(counting) => counting,
            None => store.begin_range(&rest)?,
        };
        if !store.range_step(&rest, &mut counting, keys_left)? {
            self.counting = Some(counting);
            return Ok(None);
        }
        Ok(Some(counting.finish(&rest).count))
    }
}
