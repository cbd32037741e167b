use super::*;
use crate::machine::tests::rig::{Random, Rig, check_invariants};

impl Tree {
    /// All ACLs in use, with their counts.
    pub(crate) fn acl_usage(&self) -> Vec<(Acl, u64)> {
        self.acls.usage()
    }

    /// Checks that exactly the znodes that need them have a directory, an extra or a place among
    /// the container znodes.
    pub(crate) fn check_sides(&self) {
        let slots = || self.chunks.iter().flatten();
        let directories = slots().filter(|slot| slot.parent != VACANT && slot.directory != NONE);
        assert_eq!(self.directories.len(), directories.count());
        assert_eq!(self.extras.len(), slots().filter(|slot| slot.extra != NONE).count());
        let by_themselves = (0..self.slot_count)
            .filter(|id| self.slot(*id).parent != VACANT)
            .filter(|id| goes_by_itself(self.extra(self.slot(*id)).owner));
        assert!(self.container_znodes(ROOT).eq(by_themselves.map(ZnodeId)));
    }
}

/// Checks the stat of `path` after a script, in the form `czxid mzxid pzxid | version cversion
/// aversion | owner bytes children`.
fn check(script: &str, path: &str, expected: &str) {
    let mut rig = Rig::default();
    rig.run(script);
    assert_eq!(text(&rig.stat(path)), expected, "{path} after {script}");
    check_invariants(&mut rig.machine);
}

fn text(stat: &Stat) -> String {
    format!(
        "{} {} {} | {} {} {} | {} {} {}",
        stat.czxid,
        stat.mzxid,
        stat.pzxid,
        stat.version,
        stat.cversion,
        stat.aversion,
        stat.ephemeral_owner,
        stat.data_bytes,
        stat.child_count
    )
}

#[test]
fn a_new_tree_has_the_znodes_and_counters_of_zookeepers() {
    check("check /", "/", "0 0 0 | 0 -1 0 | 0 0 1");
    check("check /", "/zookeeper", "0 0 0 | 0 -2 0 | 0 0 2");
    check("check /", "/zookeeper/quota", "0 0 0 | 0 0 0 | 0 0 0");
    check("check /", "/zookeeper/config", "0 0 0 | 0 0 -1 | 0 0 0");
    let tree = Tree::default();
    assert_eq!((tree.znode_count(), tree.data_bytes()), (4, 44));
    let config = tree.find("/zookeeper/config").unwrap();
    assert_eq!(config.acl(), &*acl::world(perms::READ));
    assert_eq!(config.data(), Some(b"".as_slice()));
}

#[test]
fn a_new_znode_stands_at_its_zxid() {
    check("create /a x", "/a", "2 2 2 | 0 0 0 | 0 1 0");
    check("create /a x", "/", "0 0 2 | 0 0 0 | 0 0 2");
    check("create /a null", "/a", "2 2 2 | 0 0 0 | 0 0 0");
    check("create /a mode=1", "/a", "2 2 2 | 0 0 0 | 1 0 0");
}

#[test]
fn containers_and_ttl_znodes_show_no_owner() {
    check("create /a mode=4", "/a", "2 2 2 | 0 0 0 | 0 0 0");
    check("configure extended; create /a mode=5 ttl=9", "/a", "2 2 2 | 0 0 0 | 0 0 0");
}

#[test]
fn owner_words_are_zookeepers() {
    let mut rig = Rig::default();
    rig.run("configure extended; create /c mode=4; create /t mode=5 ttl=9; create /e mode=1");
    let owner = |path| rig.machine.zk.tree.find(path).unwrap().owner();
    assert_eq!(owner("/c"), i64::MIN);
    assert_eq!(owner("/t") as u64, 0xff00_0000_0000_0009);
    assert_eq!(owner("/e"), 1);
    assert_eq!(ephemeral_session(0), None);
    assert_eq!(ephemeral_session(i64::MIN), None);
    assert_eq!(ephemeral_session(0x0100_0000_0000_0000), Some(0x0100_0000_0000_0000));
    assert_eq!(ttl_ms(owner("/t")), Some(9));
    assert_eq!(ttl_ms(owner("/c")), None);
    assert_eq!(ttl_ms(-1), Some((1 << 40) - 1));
}

#[test]
fn cversion_counts_creates_and_deletes_of_children() {
    check("create /a; create /a/b", "/a", "2 2 3 | 0 1 0 | 0 0 1");
    check("create /a; create /a/b; delete /a/b", "/a", "2 2 4 | 0 2 0 | 0 0 0");
    check("create /a; create /a/b; create /a/c; delete /a/b", "/a", "2 2 5 | 0 3 0 | 0 0 1");
    check("create /a; create /a/b; delete /a/c", "/a", "2 2 3 | 0 1 0 | 0 0 1");
}

#[test]
fn data_and_acl_and_children_each_move_their_own_counter() {
    check("create /a; set /a xyz", "/a", "2 3 2 | 1 0 0 | 0 3 0");
    check("create /a; acl /a", "/a", "2 2 2 | 0 0 1 | 0 0 0");
    check("create /a; create /a/b; set /a/b x", "/a", "2 2 3 | 0 1 0 | 0 0 1");
    check("~super| acl /zookeeper/config", "/zookeeper/config", "0 0 0 | 0 0 0 | 0 0 0");
}

#[test]
fn times_are_those_of_creation_and_last_data() {
    let mut rig = Rig::default();
    rig.run("create /a; set /a x; acl /a; create /a/b");
    assert_eq!((rig.stat("/a").ctime, rig.stat("/a").mtime), (2000, 3000));
}

#[test]
fn null_data_is_not_empty_data() {
    let mut rig = Rig::default();
    rig.run("create /null null; create /empty ''; create /full x");
    let data = |rig: &Rig, path| rig.machine.zk.tree.find(path).unwrap().data().map(<[u8]>::to_vec);
    assert_eq!(data(&rig, "/null"), None);
    assert_eq!(data(&rig, "/empty"), Some(vec![]));
    let digest = rig.machine.zk.tree.digest();
    rig.run("multi set /null '' + set /full null");
    assert_eq!(data(&rig, "/null"), Some(vec![]));
    assert_eq!(data(&rig, "/full"), None);
    assert_ne!(rig.machine.zk.tree.digest(), digest);
}

#[test]
fn sequential_names_count_every_create_and_no_delete() {
    let cases = [
        ("create /s mode=2", "created /s0000000000"),
        ("create /a; create /b; create /s mode=2", "created /s0000000002"),
        ("create /a; delete /a; create /s mode=2", "created /s0000000001"),
        ("create /a; create /a; create /s mode=2", "created /s0000000001"),
        ("create /e mode=1; create /s mode=3", "created /s0000000001"),
        ("create /s mode=2; delete /s0000000000; create /s mode=2", "created /s0000000001"),
        ("create /a; create /a/s mode=2; create /a/s mode=2", "created /a/s0000000001"),
        (
            "create /a; create /a/x; delete /a/x; delete /a; create /a; create /a/ mode=2",
            "created /a/0000000000",
        ),
    ];
    for (script, expected) in cases {
        assert_eq!(Rig::default().run(script), expected, "{script}");
    }
}

/// A rig with a znode `/a` that claims this many creates below it.
fn with_creates(creates: i32) -> Rig {
    let mut rig = Rig::default();
    rig.run("create /a");
    let id = rig.machine.zk.tree.find("/a").unwrap().id();
    rig.machine.zk.tree.directory_mut(id.0).cversion = creates;
    rig.machine.zk.tree.recount();
    rig
}

#[test]
fn sequence_numbers_are_signed_and_wrap() {
    let mut rig = with_creates(i32::MAX);
    assert_eq!(rig.run("create /a/s mode=2"), "created /a/s2147483647");
    assert_eq!(rig.run("create /a/s mode=2"), "created /a/s-2147483648");
    assert_eq!(rig.run("create /a/s mode=2"), "created /a/s-2147483647");
    check_invariants(&mut rig.machine);
    let mut rig = with_creates(-1);
    assert_eq!(rig.run("create /a/s mode=2"), "created /a/s-000000001");
    assert_eq!(rig.run("create /a/s mode=2"), "created /a/s0000000000");
}

#[test]
fn cversion_as_shown_wraps() {
    let mut rig = with_creates(i32::MAX);
    assert_eq!(rig.stat("/a").cversion, -2);
    rig.run("create /a/b");
    assert_eq!(rig.stat("/a").cversion, -1);
}

#[test]
fn versions_wrap_and_minus_one_matches_any() {
    let mut rig = Rig::default();
    rig.run("create /a");
    let id = rig.machine.zk.tree.find("/a").unwrap().id();
    let extra = rig.machine.zk.tree.extra_mut(id.0);
    (extra.version, extra.aversion) = (i32::MAX, i32::MAX);
    rig.machine.zk.tree.recount();
    assert_eq!(rig.run("set /a x v2147483647"), "set -2147483648");
    assert_eq!(rig.run("acl /a v2147483647"), "acl -2147483648");
    assert_eq!(rig.run("set /a x v-2147483648"), "set -2147483647");
    assert_eq!(rig.run("set /a x v0"), "BadVersion");
    assert_eq!(rig.run("set /a x"), "set -2147483646");
    check_invariants(&mut rig.machine);
}

/// Checks the path of the znode that `find` returns for a path; `-` if it returns none.
fn check_find(path: &str, expected: &str) {
    let mut rig = Rig::default();
    rig.run("create /a; create /a/b; create /ü");
    let tree = &rig.machine.zk.tree;
    let found = tree.find(path).map_or("-".to_string(), |znode| tree.path(znode.id()));
    assert_eq!(found, expected, "{path}");
}

#[test]
fn znodes_are_found_by_their_path_only() {
    check_find("/", "/");
    check_find("", "/");
    check_find("/a", "/a");
    check_find("/a/b", "/a/b");
    check_find("/ü", "/ü");
    for path in ["a", "/a/", "//a", "/a//b", "/b", "/a/b/", "/a/c", "//", "/A", "x/a", "/a/b/c"] {
        check_find(path, "-");
    }
}

#[test]
fn children_are_listed_with_the_bytes_of_their_names() {
    let mut rig = Rig::default();
    rig.run("create /a; create /a/one; create /a/three; create /a/two; delete /a/three");
    let znode = rig.machine.zk.tree.find("/a").unwrap();
    let mut names: Vec<&str> = znode.child_names().collect();
    names.sort_unstable();
    assert_eq!(names, ["one", "two"]);
    assert_eq!((znode.child_count(), znode.child_name_bytes()), (2, 6));
    let tree = &rig.machine.zk.tree;
    assert!(tree.find_child(znode.id(), "one").is_some());
    assert!(tree.find_child(znode.id(), "three").is_none());
    assert_eq!(tree.parent(znode.id()), ROOT);
}

#[test]
fn data_bytes_are_those_of_paths_and_data() {
    let mut rig = Rig::default();
    rig.run("create /abc 12345; create /n null");
    assert_eq!(rig.machine.zk.tree.data_bytes(), 44 + 4 + 5 + 2);
    rig.run("set /abc 1; delete /n");
    assert_eq!(rig.machine.zk.tree.data_bytes(), 44 + 4 + 1);
}

#[test]
fn data_longer_than_the_digest_buffer_counts_in_the_digest() {
    let digest = |last: &str| {
        let mut rig = Rig::default();
        rig.run(&format!("create /a {}{last}", "x".repeat(5000)));
        check_invariants(&mut rig.machine);
        rig.machine.zk.tree.digest()
    };
    assert_ne!(digest("a"), digest("b"));
    assert_eq!(digest("a"), digest("a"));
}

#[test]
fn the_digest_does_not_depend_on_slots_or_the_order_of_children() {
    let mut rig = Rig::default();
    let before = rig.machine.zk.tree.digest();
    let paths: Vec<String> = (0..50).map(|number| format!("/z{number}")).collect();
    let acl = acl::world(perms::ALL);
    let mut tree = Tree::default();
    let mut other = Tree::default();
    for (tree, reverse) in [(&mut tree, false), (&mut other, true)] {
        let mut order: Vec<&String> = paths.iter().collect();
        if reverse {
            order.reverse();
        }
        for path in order {
            let (name, data, acl) = (&path[1..], Some(b"x".as_slice()), &acl);
            let new = NewZnode { name, data, acl, owner: 0, zxid: 5, time_ms: 6 };
            tree.create(ROOT, path, &new);
        }
    }
    assert_eq!(tree.digest(), other.digest());
    assert_ne!(tree.digest(), before);
    rig.run("check /");
    assert_eq!(rig.machine.zk.tree.digest(), before);
}

#[test]
fn slots_are_used_again_across_chunks() {
    let mut rig = Rig::default();
    let mut random = Random(5);
    let path = |number: usize| format!("/n{number}");
    let count = CHUNK_SLOTS + 50;
    for number in 0..count {
        rig.run(&format!("create {} x{number}", path(number)));
    }
    let slots = rig.machine.zk.tree.slot_count();
    let mut gone = Vec::new();
    for _ in 0..500 {
        let number = random.below(count);
        if rig.run(&format!("delete {}", path(number))) == "deleted" {
            gone.push(number);
        }
    }
    for number in &gone {
        assert_eq!(
            rig.run(&format!("create {}", path(*number))),
            format!("created {}", path(*number))
        );
    }
    assert_eq!(rig.machine.zk.tree.slot_count(), slots, "no slot was added");
    assert_eq!(rig.machine.zk.tree.znode_count() as usize, count + 4);
    check_invariants(&mut rig.machine);
}

#[test]
fn tables_with_room_for_their_znodes_do_not_grow() {
    let mut tree = Tree::default();
    tree.reserve(SHARDS as u32 * 20);
    let capacities = |tree: &Tree| tree.shards.iter().map(HashTable::capacity).collect::<Vec<_>>();
    let before = capacities(&tree);
    assert!(before.iter().all(|capacity| *capacity >= 20));
    let acl = acl::world(perms::ALL);
    for number in 0..SHARDS {
        let name = &number.to_string();
        let new = NewZnode { name, data: None, acl: &acl, owner: 0, zxid: 5, time_ms: 6 };
        tree.create(ROOT, &format!("/{name}"), &new);
    }
    assert_eq!(capacities(&tree), before);
    assert!(tree.find("/17").is_some());
}

#[test]
fn a_parents_kept_digest_follows_every_change_of_it() {
    let mut rig = Rig::default();
    let parents: Vec<String> = (0..=PARENT_STANDINGS).map(|it| format!("/p{it}")).collect();
    for round in 0..3 {
        for parent in &parents {
            if round == 0 {
                rig.run(&format!("create {parent}"));
            }
            rig.run(&format!("create {parent}/{round}; create {parent}/x; delete {parent}/x"));
            rig.run(&format!("set {parent} {round}; acl {parent} acl=world:anyone=cdwa"));
        }
        check_invariants(&mut rig.machine);
    }
    for parent in &parents {
        rig.run(&format!("delete {parent}/0; delete {parent}/1; delete {parent}/2"));
        rig.run(&format!("delete {parent}; create {parent}; create {parent}/again"));
    }
    check_invariants(&mut rig.machine);
}

#[test]
fn the_halves_of_a_set_of_slots_hold_each_slot_once() {
    for ids in [&[][..], &[0], &[63, 64], &[1, 2, 3, 700], &[5, 64, 65, 128, 4096, 4097]] {
        let mut set = SlotSet::default();
        assert!(ids.iter().all(|id| set.insert(*id)));
        assert!(!ids.iter().any(|id| set.insert(*id)));
        let middle = set.middle();
        assert!(set.below(middle).chain(set.from(middle)).eq(ids.iter().copied()), "{ids:?}");
        assert!(set.below(middle).count() <= ids.len() / 2, "{ids:?}");
    }
}
