use super::*;

/// Code and text of each error in `api/v3rpc/rpctypes/error.go` of etcd 3.6.16, in the order of
/// that file. The texts are without the `etcdserver: ` that all begin with.
const IN_ETCD: [(u8, &str); 63] = [
    (3, "key is not provided"),
    (3, "key not found"),
    (3, "value is provided"),
    (3, "lease is provided"),
    (3, "too many operations in txn request"),
    (3, "duplicate key given in txn request"),
    (3, "invalid client api version"),
    (3, "invalid sort option"),
    (11, "mvcc: required revision has been compacted"),
    (11, "mvcc: required revision is a future revision"),
    (8, "mvcc: database space exceeded"),
    (5, "requested lease not found"),
    (9, "lease already exists"),
    (11, "too large lease TTL"),
    (1, "watch canceled"),
    (9, "member ID already exist"),
    (9, "Peer URLs already exists"),
    (2, "re-configuration failed due to not enough started members"),
    (3, "given member URLs are invalid"),
    (5, "member not found"),
    (9, "can only promote a learner member"),
    (9, "can only promote a learner member which is in sync with leader"),
    (9, "too many learner members in cluster"),
    (9, "cluster ID mismatch"),
    (3, "request is too large"),
    (8, "too many requests"),
    (9, "root user does not exist"),
    (9, "root user does not have root role"),
    (9, "user name already exists"),
    (3, "user name is empty"),
    (9, "user name not found"),
    (9, "role name already exists"),
    (9, "role name not found"),
    (3, "role name is empty"),
    (3, "authentication failed, invalid user ID or password"),
    (3, "permission not given"),
    (7, "permission denied"),
    (9, "role is not granted to the user"),
    (9, "permission is not granted to the role"),
    (9, "authentication is not enabled"),
    (16, "invalid auth token"),
    (3, "invalid auth management"),
    (3, "revision of auth store is old"),
    (14, "no leader"),
    (9, "not leader"),
    (14, "leader changed"),
    (9, "not capable"),
    (14, "server stopped"),
    (14, "request timed out"),
    (14, "request timed out, possibly due to previous leader failure"),
    (14, "request timed out, possibly due to connection lost"),
    (14, "request timed out, waiting for the applied index took too long"),
    (14, "unhealthy cluster"),
    (15, "corrupt cluster"),
    (9, "rpc not supported for learner"),
    (9, "bad leader transferee"),
    (3, "wrong downgrade target version format"),
    (3, "invalid downgrade target version"),
    (9, "cluster version not found during downgrade"),
    (9, "cluster has a downgrade job in progress"),
    (9, "no inflight downgrade job"),
    (1, "request canceled"),
    (4, "context deadline exceeded"),
];

#[test]
fn texts_and_codes_are_those_of_etcd() {
    let ours: Vec<_> = Error::all().map(|error| (error.code().number(), error.text())).collect();
    let etcds: Vec<_> =
        IN_ETCD.iter().map(|(code, text)| (*code, format!("etcdserver: {text}"))).collect();
    assert_eq!(ours.len(), etcds.len() + 1, "one more is grpc-go's");
    for (ours, etcds) in ours.iter().zip(&etcds) {
        assert_eq!((ours.0, ours.1), (etcds.0, etcds.1.as_str()));
    }
}

#[test]
fn the_table_is_in_the_order_of_the_errors() {
    for (index, row) in TABLE.iter().enumerate() {
        assert_eq!(row.error as usize, index, "{}", row.text);
    }
}

#[test]
fn no_two_errors_have_one_text() {
    let mut texts: Vec<_> = Error::all().map(Error::text).collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), COUNT);
}

#[test]
fn refusals_have_the_errors_of_etcd() {
    let check = |refusal: Refusal, code: u8, text: &str| {
        let error = Error::from(refusal);
        assert_eq!((error.code().number(), error.to_string().as_str()), (code, text));
    };
    check(Refusal::Compacted, 11, "etcdserver: mvcc: required revision has been compacted");
    check(Refusal::FutureRevision, 11, "etcdserver: mvcc: required revision is a future revision");
    check(Refusal::KeyNotFound, 3, "etcdserver: key not found");
    check(Refusal::LeaseNotFound, 5, "etcdserver: requested lease not found");
}
