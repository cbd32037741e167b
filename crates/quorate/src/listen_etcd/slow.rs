//! Logs requests that took long, with their keys (etcd's "request stats", `v3rpc/interceptor.go`).

use std::cell::Cell;
use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use etcd::pb::{Message, etcdserverpb as pb};
use member::fronts::etcd::EtcdMethod;
use member::fronts::etcd::audit::quoted;
use tokio::time::Instant;

/// How many lines a connection runtime writes in each [`INTERVAL`]. Further slow requests are only
/// counted: if a disk hangs, all requests are slow.
const LINES_MAX: u32 = 10;
const INTERVAL: Duration = Duration::from_secs(1);

/// How many bytes of a key a line shows.
const KEY_BYTES_MAX: usize = 256;

/// How many operations of a transaction a line shows.
const OPS_MAX: usize = 8;

/// The log of slow requests of one connection runtime.
pub(super) struct SlowLog {
    threshold: Duration,
    /// When the present interval began, and how many slow requests it has had.
    interval: Cell<Option<(Instant, u32)>>,
}

impl SlowLog {
    /// Requests that take longer than `threshold` are slow.
    pub fn new(threshold: Duration) -> SlowLog {
        SlowLog { threshold, interval: Cell::new(None) }
    }

    /// Logs a request if it was slow, unless this interval already has [`LINES_MAX`] lines.
    pub fn note(&self, method: EtcdMethod, request: &Bytes, begun_at: Instant, is_good: bool) {
        self.note_if_slow(begun_at, is_good, || {
            (format!("{method:?}"), request.len(), content(method, request))
        });
    }

    /// Like [`SlowLog::note`], for a request of etcd v2.
    pub fn note_v2(
        &self,
        name: &str,
        key: &str,
        bytes: usize,
        (begun_at, is_good): (Instant, bool),
    ) {
        self.note_if_slow(begun_at, is_good, || {
            (format!("v2 {name}"), bytes, format!("key:{}", text(key.as_bytes())))
        });
    }

    /// `describe` returns the kind of the request, its length in bytes, and its content.
    fn note_if_slow(
        &self,
        begun_at: Instant,
        is_good: bool,
        describe: impl FnOnce() -> (String, usize, String),
    ) {
        let took = begun_at.elapsed();
        if took <= self.threshold {
            return;
        }
        let now = begun_at + took;
        let (since, count) = match self.interval.get() {
            Some((since, count)) if now < since + INTERVAL => (since, count),
            last => {
                let unlogged = last.map_or(0, |(_, count)| count.saturating_sub(LINES_MAX));
                if unlogged > 0 {
                    tracing::warn!("{unlogged} more requests took long");
                }
                (now, 0)
            }
        };
        self.interval.set(Some((since, count + 1)));
        if count < LINES_MAX {
            let ((kind, bytes, content), spent) = (describe(), format!("{took:?}"));
            tracing::warn!(
                time_spent = spent.as_str(),
                response_type = kind.as_str(),
                request_size = bytes,
                request_content = content.as_str(),
                success = is_good,
                "request stats"
            );
        }
    }
}

/// The content of a request as a line shows it: keys and sizes, never values.
fn content(method: EtcdMethod, request: &Bytes) -> String {
    let shown = match method {
        EtcdMethod::Range | EtcdMethod::RangeStream => pb::RangeRequest::decode(request.clone())
            .map(|it| format!("{} limit:{}", range(&it.key, &it.range_end), it.limit)),
        EtcdMethod::Put => pb::PutRequest::decode(request.clone()).map(|it| put(&it)),
        EtcdMethod::DeleteRange => {
            pb::DeleteRangeRequest::decode(request.clone()).map(|it| range(&it.key, &it.range_end))
        }
        EtcdMethod::Txn => pb::TxnRequest::decode(request.clone()).map(|it| txn(&it)),
        EtcdMethod::Compact => pb::CompactionRequest::decode(request.clone())
            .map(|it| format!("revision:{}", it.revision)),
        EtcdMethod::LeaseGrant
        | EtcdMethod::LeaseRevoke
        | EtcdMethod::LeaseKeepAlive
        | EtcdMethod::LeaseTimeToLive
        | EtcdMethod::LeaseLeases
        | EtcdMethod::Need(_)
        | EtcdMethod::Cluster(_)
        | EtcdMethod::Alarm
        | EtcdMethod::Hash
        | EtcdMethod::HashKv
        | EtcdMethod::Lock
        | EtcdMethod::Campaign
        // Such a request may contain a password.
        | EtcdMethod::Auth(_) => return String::new(),
    };
    shown.unwrap_or_else(|_| "malformed".to_string())
}

fn range(key: &[u8], range_end: &[u8]) -> String {
    match range_end {
        [] => format!("key:{}", text(key)),
        end => format!("key:{} range_end:{}", text(key), text(end)),
    }
}

fn put(request: &pb::PutRequest) -> String {
    format!("key:{} value_size:{}", text(&request.key), request.value.len())
}

/// The comparisons and operations of a transaction, at most [`OPS_MAX`] of each kind.
fn txn(request: &pb::TxnRequest) -> String {
    use pb::request_op::Request;
    let mut out = "compare:".to_string();
    for compare in request.compare.iter().take(OPS_MAX) {
        let _ = write!(out, "<{}>", range(&compare.key, &compare.range_end));
    }
    for (name, ops) in [("success", &request.success), ("failure", &request.failure)] {
        let _ = write!(out, " {name}:{}", ops.len());
        for op in ops.iter().take(OPS_MAX) {
            let _ = match &op.request {
                Some(Request::RequestRange(it)) => {
                    write!(out, "<range {}>", range(&it.key, &it.range_end))
                }
                Some(Request::RequestPut(it)) => write!(out, "<put {}>", put(it)),
                Some(Request::RequestDeleteRange(it)) => {
                    write!(out, "<delete_range {}>", range(&it.key, &it.range_end))
                }
                Some(Request::RequestTxn(_)) => write!(out, "<txn>"),
                None => Ok(()),
            };
        }
    }
    out
}

fn text(key: &[u8]) -> String {
    quoted(key, KEY_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_have_keys_and_no_values() {
        let put = pb::PutRequest { key: "a\"\n".into(), value: "secret".into(), ..<_>::default() };
        let range = pb::RangeRequest {
            key: vec![b'k'; KEY_BYTES_MAX + 1].into(),
            range_end: "l".into(),
            ..<_>::default()
        };
        let op = |request| pb::RequestOp { request: Some(request) };
        let txn = pb::TxnRequest {
            compare: vec![pb::Compare { key: "c".into(), ..<_>::default() }],
            success: vec![op(pb::request_op::Request::RequestPut(put.clone()))],
            failure: vec![op(pb::request_op::Request::RequestRange(range.clone()))],
        };
        let shown = |method, message: Vec<u8>| content(method, &message.into());
        let of_put = "key:\"a\\\"\\n\" value_size:6";
        assert_eq!(shown(EtcdMethod::Put, put.encode_to_vec()), of_put);
        let of_range =
            format!("key:\"{}\"...(257 bytes) range_end:\"l\"", "k".repeat(KEY_BYTES_MAX));
        assert_eq!(shown(EtcdMethod::Range, range.encode_to_vec()), format!("{of_range} limit:0"));
        let expected =
            format!("compare:<key:\"c\"> success:1<put {of_put}> failure:1<range {of_range}>");
        assert_eq!(shown(EtcdMethod::Txn, txn.encode_to_vec()), expected);
        assert_eq!(shown(EtcdMethod::Txn, vec![0xff]), "malformed");
    }
}
