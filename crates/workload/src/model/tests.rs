//! The model, against what ZooKeeper's documentation promises.

use super::*;

const SESSION: i64 = 7;
const CONNECTION: usize = 0;
const PASSWORD: [u8; 16] = [7; 16];

fn opened() -> Model {
    let mut model = Model::new();
    assert!(model.open(SESSION, PASSWORD, CONNECTION));
    model
}

fn create(path: &str, flag: i32) -> Op {
    let data = Some(b"d".to_vec());
    Op::Create {
        path: path.to_string(),
        data,
        perms: perms::ALL,
        flag,
        request: CreateRequest::Create,
    }
}

fn delete(path: &str, version: i32) -> Op {
    Op::Delete { path: path.to_string(), version }
}

fn set(path: &str, data: &str, version: i32) -> Op {
    Op::SetData { path: path.to_string(), data: Some(data.as_bytes().to_vec()), version }
}

fn do_all(model: &mut Model, ops: &[Op]) -> Vec<i32> {
    ops.iter().map(|op| model.write(SESSION, CONNECTION, op, 1_000).0).collect()
}

#[test]
fn a_sequential_name_counts_creates_and_not_children() {
    let mut model = opened();
    do_all(&mut model, &[create("/a", 0), create("/a/x", 0), delete("/a/x", -1)]);
    let (code, answer) =
        model.write(SESSION, CONNECTION, &create("/a/n-", flag::PERSISTENT_SEQUENTIAL), 0);
    assert_eq!((code, answer), (0, Answer::Path("/a/n-0000000001".to_string())));
    assert_eq!(model.stat("/a").cversion, 3);
}

#[test]
fn refused_writes_consume_a_zxid_and_change_nothing() {
    let mut model = opened();
    let codes = do_all(
        &mut model,
        &[
            create("/a/x", 0),
            create("/a", flag::EPHEMERAL),
            create("/a", 0),
            create("/a/x", 0),
            create("/b/", 0),
            create("/b", flag::TTL),
            set("/a", "v", 5),
            delete("/b", -1),
        ],
    );
    assert_eq!(codes, [-101, 0, -110, -108, -101, -6, -103, -101]);
    assert_eq!(model.zxid, 9);
    assert_eq!(model.stat("/").child_count, 2);
}

#[test]
fn a_multi_is_done_whole_or_not_at_all() {
    let mut model = opened();
    do_all(&mut model, &[create("/a", 0)]);
    model.take_changes();
    let ops = vec![set("/a", "new", -1), delete("/zz", -1), create("/b", 0)];
    let (code, answer) = model.write(SESSION, CONNECTION, &Op::Multi(ops), 0);
    assert_eq!((code, answer), (0, Answer::Multi(vec![Err(0), Err(-101), Err(-2)])));
    assert_eq!(model.stat("/a").version, 0);
    assert!(model.take_changes().is_empty());
    let ops = vec![create("/b", 0), create("/b/c", 0), delete("/b/c", 0)];
    model.write(SESSION, CONNECTION, &Op::Multi(ops), 0);
    assert_eq!(model.take_changes().len(), 3);
    assert_eq!(model.children("/b"), Vec::<String>::new());
}

#[test]
fn ephemerals_go_with_their_session() {
    let mut model = opened();
    do_all(&mut model, &[create("/a", 0), create("/a/e", flag::EPHEMERAL)]);
    assert_eq!(model.stat("/a/e").ephemeral_owner, SESSION);
    assert!(!model.expire(SESSION, 99));
    assert!(model.expire(SESSION, 1));
    assert!(!model.znodes.contains_key("/a/e"));
    assert_eq!(model.stat("/a").pzxid, model.zxid);
}

#[test]
fn only_the_last_connection_to_attach_may_write() {
    let mut model = opened();
    assert_eq!(model.attach(SESSION, PASSWORD, 1), Some(CONNECTION));
    assert_eq!(model.write(SESSION, 0, &create("/a", 0), 0).0, -118);
    assert_eq!(model.write(SESSION, 1, &create("/a", 0), 0).0, 0);
    assert_eq!(model.write(SESSION, 1, &Op::CloseSession, 0).0, 0);
    assert_eq!(model.write(SESSION, 1, &create("/b", 0), 0).0, -112);
    assert_eq!(model.attach(SESSION, PASSWORD, 2), None);
}

#[test]
fn permissions_are_asked_where_zookeeper_asks_them() {
    let mut model = opened();
    do_all(&mut model, &[create("/a", 0), create("/a/x", 0)]);
    let lock = |path: &str, perms: u32| Op::SetAcl { path: path.to_string(), perms, version: -1 };
    do_all(&mut model, &[lock("/a", perms::ADMIN), lock("/a/x", perms::ADMIN)]);
    let codes = do_all(&mut model, &[create("/a/y", 0), delete("/a/x", -1), set("/a/x", "", -1)]);
    assert_eq!(codes, [-102, -102, -102]);
    let path = "/a".to_string();
    assert_eq!(model.read(&Op::GetData { path: path.clone(), watch: false }).0, -102);
    assert_eq!(model.read(&Op::Exists { path: path.clone(), watch: false }).0, -102);
    assert_eq!(model.read(&Op::GetAcl { path }).0, 0);
}

fn going(path: &str, flag: i32, request: CreateRequest) -> Op {
    Op::Create { path: path.to_string(), data: None, perms: perms::ALL, flag, request }
}

#[test]
fn a_container_goes_once_it_lost_its_last_child() {
    let mut model = opened();
    let container = going("/c", flag::CONTAINER, CreateRequest::Container);
    do_all(&mut model, &[container, create("/p", flag::CONTAINER)]);
    let gone = |model: &mut Model, time_ms: i64| {
        ["/c", "/p", "/none"].map(|path| model.remove_due(path, time_ms, 0))
    };
    assert_eq!(gone(&mut model, 1 << 40), [false; 3]);
    do_all(&mut model, &[create("/c/x", 0)]);
    assert_eq!(gone(&mut model, 0), [false; 3]);
    do_all(&mut model, &[delete("/c/x", -1)]);
    let zxid = model.zxid;
    assert_eq!(gone(&mut model, 0), [true, false, false]);
    assert_eq!((model.zxid, model.znodes.contains_key("/c")), (zxid + 1, false));
    assert!(model.znodes.contains_key("/p"));
}

#[test]
fn a_container_that_was_never_used_goes_where_that_is_wanted() {
    let mut model = opened();
    do_all(&mut model, &[going("/c", flag::CONTAINER, CreateRequest::Container)]);
    assert!(!model.remove_due("/c", 1_100, 100));
    assert!(model.remove_due("/c", 1_101, 100));
}

#[test]
fn a_time_to_live_needs_a_setting_and_begins_anew_with_each_set() {
    let mut model = opened();
    let ttl = |ttl_ms| going("/t", flag::TTL, CreateRequest::Ttl { ttl_ms });
    assert_eq!(do_all(&mut model, &[ttl(50)]), [error::UNIMPLEMENTED]);
    model.configure(Settings { extended_types: true, enforce_quota: false });
    let codes = do_all(&mut model, &[ttl(0), ttl(1 << 40), create("/t", flag::TTL), ttl(50)]);
    assert_eq!(codes, [-8, -8, -8, 0]);
    assert!(!model.remove_due("/t", 1_050, 0));
    model.write(SESSION, CONNECTION, &set("/t", "v", -1), 1_051);
    assert!(!model.remove_due("/t", 1_100, 0));
    do_all(&mut model, &[create("/t/x", 0)]);
    assert!(!model.remove_due("/t", 9_000, 0));
    do_all(&mut model, &[delete("/t/x", -1)]);
    assert!(model.remove_due("/t", 1_102, 0));
}

fn usage(model: &Model, of: &str) -> String {
    let znode = &model.znodes[&format!("/zookeeper/quota{of}/zookeeper_stats")];
    String::from_utf8(znode.data.clone().unwrap()).unwrap()
}

fn with_data(path: &str, data: &str) -> Op {
    let (data, request) = (Some(data.as_bytes().to_vec()), CreateRequest::Create);
    Op::Create { path: path.to_string(), data, perms: perms::ALL, flag: flag::PERSISTENT, request }
}

/// A state with a quota on `/a`, which has a child.
fn limited(limits: &str) -> Model {
    let mut model = opened();
    let ops = [
        with_data("/a", "four"),
        with_data("/a/x", "xx"),
        with_data("/zookeeper/quota/a", ""),
        with_data("/zookeeper/quota/a/zookeeper_limits", limits),
        with_data("/zookeeper/quota/a/zookeeper_stats", "count=0,bytes=0"),
    ];
    assert_eq!(do_all(&mut model, &ops), [0; 5]);
    model
}

#[test]
fn what_is_under_a_quota_is_counted_and_nobody_is_told() {
    let mut model = limited("count=1,bytes=1");
    assert_eq!(usage(&model, "/a"), "count=2,bytes=6");
    model.take_changes();
    let before = model.stat("/zookeeper/quota/a/zookeeper_stats");
    let ops = [set("/a/x", "longer", -1), with_data("/a/y", "y"), with_data("/ab", "no")];
    assert_eq!(do_all(&mut model, &ops), [0; 3]);
    assert_eq!(usage(&model, "/a"), "count=3,bytes=11");
    assert_eq!(model.stat("/zookeeper/quota/a/zookeeper_stats").mzxid, before.mzxid);
    assert_eq!(model.take_changes().len(), 3);
    do_all(&mut model, &[delete("/a/x", -1), delete("/a/y", -1), delete("/a", -1)]);
    assert_eq!(usage(&model, "/a"), "count=0,bytes=0");
}

#[test]
fn a_multi_that_is_refused_leaves_the_usage_as_it_was() {
    let mut model = limited("count=9");
    let ops = vec![with_data("/a/y", "y"), delete("/none", -1)];
    model.write(SESSION, CONNECTION, &Op::Multi(ops), 0);
    assert_eq!(usage(&model, "/a"), "count=2,bytes=6");
}

#[test]
fn only_a_hard_limit_refuses_and_only_where_it_is_enforced() {
    let over = [with_data("/a/y", "y"), set("/a", "much too long", -1), set("/a", "fine", -1)];
    let hard = "count=1,bytes=1=;byteHardLimit=9;countHardLimit=2";
    for (limits, enforce_quota, codes) in [
        ("count=1,bytes=1", true, [0, 0, 0]),
        (hard, false, [0, 0, 0]),
        (hard, true, [error::QUOTA_EXCEEDED, error::QUOTA_EXCEEDED, 0]),
    ] {
        let mut model = limited(limits);
        model.configure(Settings { extended_types: false, enforce_quota });
        assert_eq!(do_all(&mut model, &over), codes, "{limits}");
    }
}

#[test]
fn the_deepest_quota_counts_and_that_of_the_root_for_nobody() {
    let mut model = limited("count=9");
    let ops = [
        with_data("/zookeeper/quota/zookeeper_limits", "count=9"),
        with_data("/zookeeper/quota/zookeeper_stats", "count=0,bytes=0"),
        with_data("/zookeeper/quota/a/x", ""),
        with_data("/zookeeper/quota/a/x/zookeeper_limits", "count=9"),
        with_data("/zookeeper/quota/a/x/zookeeper_stats", "count=0,bytes=0"),
        with_data("/a/x/z", "z"),
        with_data("/b", "b"),
    ];
    assert_eq!(do_all(&mut model, &ops), [0; 7]);
    assert_eq!(usage(&model, "/a"), "count=2,bytes=6");
    assert_eq!(usage(&model, "/a/x"), "count=2,bytes=3");
    assert_eq!(usage(&model, ""), "count=0,bytes=0");
}
