//! A read that is answered in pieces, as etcd 3.7 streams a range: each piece is read when the
//! client has taken the one before, so a slow client costs the memory of one piece. All pieces are
//! of one revision. Where that is compacted meanwhile, the read ends as compacted: the client
//! begins anew (`EtcdServer.rangeStream` of etcd 3.7).

use bytes::Bytes;
use etcd::convert::{self, Piece, PieceEnd};
use etcd::pb::etcdserverpb as pb;
use machine::etcd::Store;
use machine::etcd::command::{KeyRange, RangeOp};
use machine::etcd::reply::Refusal;

use crate::limits::ETCD_PIECE_KEYS_MAX;

/// A read that is answered in pieces. Its form was checked.
#[derive(Default)]
pub(super) struct Stream {
    request: pb::RangeRequest,
    /// Bytes of keys and values after which a piece ends.
    piece_bytes: usize,
    /// The state between two pieces; none before the first.
    begun: Option<Begun>,
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
}

impl Stream {
    pub fn new(request: pb::RangeRequest, piece_bytes: usize) -> Stream {
        Stream { request, piece_bytes, begun: None, is_cut: false }
    }

    /// The keys that it reads.
    pub fn range(&self) -> KeyRange<'_> {
        KeyRange { key: &self.request.key, end: &self.request.range_end }
    }

    /// Whether a client may have got a piece.
    pub fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Another state took the place of the one before. A read with pieces of that one ends as
    /// compacted; the driver learns it when it asks for the next piece.
    pub fn on_installed(&mut self) {
        self.is_cut = self.has_begun();
    }

    /// Reads the next piece. The flag says whether it is the last one.
    ///
    /// # Errors
    /// The revision is above the store's, or is compacted by now.
    pub fn next(&mut self, store: &Store) -> Result<(Piece, bool), Refusal> {
        if self.is_cut {
            return Err(Refusal::Compacted);
        }
        let op = convert::range_stream(&self.request).expect("the request was checked");
        let mut piece = Piece::new(op.keys_only);
        if op.count_only {
            let found = store.range(&op)?;
            piece.finish(PieceEnd { revision: found.revision, more: false, count: found.count });
            return Ok((piece, true));
        }
        let mut begun = self.begun.take().unwrap_or_else(|| Begun {
            revision: if op.revision > 0 { op.revision } else { store.revision() },
            revision_then: store.revision(),
            next_key: self.request.key.clone(),
            key_count: 0,
        });
        let keys_left = match u64::try_from(op.limit) {
            Ok(limit @ 1..) => limit - begun.key_count,
            _ => u64::MAX,
        };
        let keys_max = usize::try_from(keys_left).unwrap_or(usize::MAX).min(ETCD_PIECE_KEYS_MAX);
        let is_full = |piece: &Piece| {
            piece.events().len() >= keys_max || piece.kvs_bytes() >= self.piece_bytes
        };
        let more = fill(&mut piece, store, begun.range(&op), begun.revision, is_full)?;
        let key_count = piece.events().len() as u64;
        begun.key_count += key_count;
        if let Some(last) = piece.events().last().filter(|_| more) {
            // No other key is between a key and the key with one zero more.
            begun.next_key = [last.key(), &[0]].concat().into();
        }
        if more && key_count < keys_left {
            self.begun = Some(begun);
            return Ok((piece, false));
        }
        let mut count = begun.key_count;
        if more {
            let (range, revision) = (begun.range(&op), begun.revision);
            count += store.range(&RangeOp { range, revision, count_only: true, ..op })?.count;
        }
        piece.finish(PieceEnd { revision: begun.revision_then, more, count });
        Ok((piece, true))
    }
}

impl Begun {
    /// The keys that no piece had yet.
    fn range<'a>(&'a self, op: &RangeOp<'a>) -> KeyRange<'a> {
        KeyRange { key: &self.next_key, end: op.range.end }
    }
}

/// Fills a piece with keys of a range until it is full. Whether the range has more.
fn fill(
    piece: &mut Piece,
    store: &Store,
    range: KeyRange<'_>,
    revision: i64,
    is_full: impl Fn(&Piece) -> bool,
) -> Result<bool, Refusal> {
    let mut more = false;
    store.walk_range(range, revision, |event| {
        more = is_full(piece);
        if !more {
            piece.push(event.clone());
        }
        !more
    })?;
    Ok(more)
}
