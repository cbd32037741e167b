//! A read that is answered in pieces, as etcd 3.7 streams a range: each piece is read when the
//! client has taken the one before, so a slow client costs the memory of one piece. All pieces are
//! of one revision. Where that is compacted meanwhile, the read ends as compacted: the client
//! begins anew (`EtcdServer.rangeStream` of etcd 3.7).

use bytes::Bytes;
use etcd::convert::{Piece, PieceEnd};
use machine::etcd::Store;
use machine::etcd::command::{KeyRange, RangeOp};
use machine::etcd::range::RangeRead;
use machine::etcd::reply::Refusal;

use super::range::AskedRange;
use crate::fronts::etcd::limits::ETCD_PIECE_KEYS_MAX;

/// A read that is answered in pieces.
pub(super) struct Stream {
    asked: AskedRange,
    /// Bytes of keys and values after which a piece ends.
    piece_bytes: usize,
    /// The state between two steps; none before the first.
    begun: Option<Begun>,
    /// Whether a client may have got a piece.
    has_given: bool,
    /// Whether another state took the place of the one that the pieces so far came from.
    is_cut: bool,
}

struct Begun {
    /// The revision of all pieces.
    revision: i64,
    /// The revision that the store had when the read began.
    revision_then: i64,
    /// The first key of the next piece.
    next_key: Bytes,
    /// Keys of the pieces so far.
    key_count: u64,
    /// The piece that is being filled.
    piece: Option<Piece>,
    /// The count of the keys behind the last piece.
    counting: Option<RangeRead>,
}

impl Stream {
    pub fn new(asked: AskedRange, piece_bytes: usize) -> Stream {
        Stream { asked, piece_bytes, begun: None, has_given: false, is_cut: false }
    }

    /// The keys that it reads.
    pub fn range(&self) -> KeyRange<'_> {
        self.asked.op().range
    }

    /// Whether a client may have got a piece.
    pub fn has_begun(&self) -> bool {
        self.has_given
    }

    /// Another state took the place of the one before. A read with pieces of that one ends as
    /// compacted; the driver learns it when it asks for the next piece. One without begins anew.
    pub fn on_replaced(&mut self) {
        self.is_cut = self.has_given;
        self.begun = None;
    }

    /// Goes on with the next piece, and takes the keys that it looks at off `keys_left`. The piece,
    /// once it is read; the flag says whether it is the last one.
    ///
    /// # Errors
    /// The revision is above the store's, or is compacted by now.
    pub fn step(
        &mut self,
        store: &Store,
        keys_left: &mut u64,
    ) -> Result<Option<(Piece, bool)>, Refusal> {
        if self.is_cut {
            return Err(Refusal::Compacted);
        }
        match self.go_on(store, keys_left) {
            // Nobody has seen that revision, and the client wants the present one.
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

/// Whether a range has keys behind a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    No,
    ForNextPiece,
    /// The client wants no more of them.
    BehindLimit,
}

impl Begun {
    /// Goes on filling the piece. `None` if the step may do no more.
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

    /// Goes on counting the keys behind the pieces. `None` if the step may do no more.
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
