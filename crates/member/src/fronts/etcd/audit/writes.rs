//! Writes the keys that a transaction may put or delete as one text, for a line of the audit log.
//!
//! The text has the writes of both branches. The writes of a nested transaction come at the place
//! of the nested transaction, so no form of request hides a key. At [`WRITES_BYTES_MAX`] the text
//! ends, and the line shows how many writes it leaves out. Reads and comparisons have no place in
//! the text, because they would take the space of writes.

use etcd::pb::etcdserverpb as pb;
use etcd::pb::etcdserverpb::request_op::Request;

use super::{key_text, lease};

/// The most bytes of writes in a line. A transaction with as many operations as are allowed by
/// default (128 on each branch) fits if each has a key of 230 plain bytes.
pub(super) const WRITES_BYTES_MAX: usize = 64 * 1024;

/// The writes of a transaction, as text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Writes {
    /// The writes as text, in the order of the request.
    pub shown: String,
    /// How many writes did not fit. They are the last ones of the request.
    pub unshown_count: usize,
}

impl Writes {
    /// The writes of a transaction in at most `bytes_max` bytes; `None` if the transaction only
    /// reads.
    pub fn of(txn: &pb::TxnRequest, bytes_max: usize) -> Option<Writes> {
        let mut found = Writes::default();
        for (branch, ops) in [("success:", &txn.success), (" failure:", &txn.failure)] {
            let mut label = branch;
            found.add_all(ops, &mut label, bytes_max);
        }
        assert!(found.shown.len() <= bytes_max, "each write was added where it had room");
        let any = !found.shown.is_empty() || found.unshown_count > 0;
        any.then_some(found)
    }

    /// Adds the writes of a branch. The label goes before the first write of the branch that is
    /// shown.
    fn add_all(&mut self, ops: &[pb::RequestOp], label: &mut &'static str, bytes_max: usize) {
        for op in ops {
            match &op.request {
                // One write did not fit, so no later one is shown. Only counting them saves the
                // time of making their texts.
                Some(Request::RequestPut(_) | Request::RequestDeleteRange(_))
                    if self.unshown_count > 0 =>
                {
                    self.unshown_count += 1;
                }
                Some(Request::RequestPut(put)) => {
                    let on_lease = match put.lease {
                        0 => String::new(),
                        id => format!(" lease:{}", lease(id)),
                    };
                    let write = format!("<put key:{}{on_lease}>", key_text(&put.key));
                    self.add(&write, label, bytes_max);
                }
                Some(Request::RequestDeleteRange(range)) => {
                    let end = match &range.range_end[..] {
                        [] => String::new(),
                        end => format!(" range_end:{}", key_text(end)),
                    };
                    let write = format!("<delete_range key:{}{end}>", key_text(&range.key));
                    self.add(&write, label, bytes_max);
                }
                Some(Request::RequestTxn(txn)) => {
                    self.add_all(&txn.success, label, bytes_max);
                    self.add_all(&txn.failure, label, bytes_max);
                }
                Some(Request::RequestRange(_)) | None => {}
            }
        }
    }

    /// Adds a write if it fits. All earlier writes did.
    fn add(&mut self, write: &str, label: &mut &'static str, bytes_max: usize) {
        let before = if self.shown.is_empty() { label.trim_start() } else { *label };
        let bytes = self.shown.len() + before.len() + write.len();
        if bytes > bytes_max {
            self.unshown_count += 1;
            return;
        }
        self.shown.push_str(before);
        self.shown.push_str(write);
        *label = "";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str) -> pb::RequestOp {
        let put = pb::PutRequest {
            key: key.to_string().into(),
            value: "secret".into(),
            ..<_>::default()
        };
        pb::RequestOp { request: Some(Request::RequestPut(put)) }
    }

    fn delete(key: &str, end: &str) -> pb::RequestOp {
        let (key, range_end) = (key.to_string().into(), end.to_string().into());
        let delete = pb::DeleteRangeRequest { key, range_end, ..<_>::default() };
        pb::RequestOp { request: Some(Request::RequestDeleteRange(delete)) }
    }

    fn read(key: &str) -> pb::RequestOp {
        let range = pb::RangeRequest { key: key.to_string().into(), ..<_>::default() };
        pb::RequestOp { request: Some(Request::RequestRange(range)) }
    }

    fn nested(success: Vec<pb::RequestOp>, failure: Vec<pb::RequestOp>) -> pb::RequestOp {
        pb::RequestOp { request: Some(Request::RequestTxn(txn(success, failure))) }
    }

    fn txn(success: Vec<pb::RequestOp>, failure: Vec<pb::RequestOp>) -> pb::TxnRequest {
        let compare = vec![pb::Compare { key: "compared".into(), ..<_>::default() }];
        pb::TxnRequest { compare, success, failure }
    }

    fn check(success: Vec<pb::RequestOp>, failure: Vec<pb::RequestOp>, expected: &str) {
        let found = Writes::of(&txn(success, failure), WRITES_BYTES_MAX).unwrap();
        assert_eq!((found.shown.as_str(), found.unshown_count), (expected, 0));
    }

    #[test]
    fn each_write_of_both_branches_is_shown() {
        check(vec![put("a")], vec![], "success:<put key:\"a\">");
        check(vec![], vec![delete("a", "")], "failure:<delete_range key:\"a\">");
        check(
            vec![put("a"), delete("b", "c")],
            vec![read("r"), put("\n")],
            "success:<put key:\"a\"><delete_range key:\"b\" range_end:\"c\"> \
             failure:<put key:\"\\n\">",
        );
        let leased = pb::PutRequest { key: "a".into(), lease: 255, ..<_>::default() };
        let leased = pb::RequestOp { request: Some(Request::RequestPut(leased)) };
        check(vec![leased], vec![], "success:<put key:\"a\" lease:00000000000000ff>");
    }

    #[test]
    fn no_write_hides_behind_reads_or_in_a_nested_transaction() {
        let mut ops: Vec<_> = (0..1_000).map(|_| read("r")).collect();
        ops.push(put("a"));
        check(ops, vec![], "success:<put key:\"a\">");
        let deep = nested(vec![read("r")], vec![nested(vec![delete("b", "")], vec![put("c")])]);
        check(
            vec![put("a"), deep, put("d")],
            vec![nested(vec![], vec![put("e")])],
            "success:<put key:\"a\"><delete_range key:\"b\"><put key:\"c\"><put key:\"d\"> \
             failure:<put key:\"e\">",
        );
    }

    #[test]
    fn a_transaction_that_only_reads_has_no_writes() {
        let reads = txn(vec![read("r"), nested(vec![read("r")], vec![])], vec![read("r")]);
        assert_eq!(Writes::of(&reads, WRITES_BYTES_MAX), None);
    }

    #[test]
    fn a_line_is_cut_between_writes_and_counts_those_behind() {
        let request = txn(vec![put("a"), nested(vec![put("bb")], vec![])], vec![put("c")]);
        let all = "success:<put key:\"a\"><put key:\"bb\"> failure:<put key:\"c\">";
        let found = |bytes_max| {
            let found = Writes::of(&request, bytes_max).unwrap();
            (found.shown, found.unshown_count)
        };
        assert_eq!(found(all.len()), (all.to_string(), 0));
        // The last write does not fit.
        let two = "success:<put key:\"a\"><put key:\"bb\">";
        assert_eq!(found(all.len() - 1), (two.to_string(), 1));
        // The write behind the one that does not fit would fit, and is not shown without it.
        assert_eq!(found(two.len() - 1), ("success:<put key:\"a\">".to_string(), 2));
        assert_eq!(found(0), (String::new(), 3));
    }
}
