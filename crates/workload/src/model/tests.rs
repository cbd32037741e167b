//! The model against what ZooKeeper's documentation promises.

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
    Op::Create { path: path.to_string(), data, perms: perms::ALL, flag, with_stat: false }
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
    assert_eq!(model.expire(&[(SESSION, 99)]), Vec::<i64>::new());
    assert_eq!(model.expire(&[(SESSION, 1)]), [SESSION]);
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
