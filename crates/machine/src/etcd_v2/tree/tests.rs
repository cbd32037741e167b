use super::*;
use crate::codec::Reader;
use crate::limits::ETCD_V2_LEVELS_MAX;

impl Tree {
    /// Compares the sums of each directory with the nodes below it.
    pub(crate) fn check_sums(&self) {
        check_sums_below(&mut String::new(), &self.root);
    }
}

fn check_sums_below(key: &mut String, node: &Node) {
    let mut sums = Sums::default();
    for (name, child) in node.children() {
        let end = key.len();
        key.push('/');
        key.push_str(name);
        sums.add(child.sums(Key::new(key).unwrap()));
        check_sums_below(key, child);
        key.truncate(end);
    }
    assert_eq!(node.below(), sums, "below {key:?}");
}

fn key(text: &str) -> Key<'_> {
    Key::new(text).unwrap()
}

fn stat(index: u64) -> NodeStat {
    NodeStat { created: index, modified: index, ttl: None }
}

fn file(index: u64, value: &str) -> Node {
    Node::file(stat(index), value.as_bytes())
}

/// A tree of files. The value of each file is its key.
fn tree_of(keys: &[&str]) -> Tree {
    let mut tree = Tree::default();
    for (number, text) in keys.iter().enumerate() {
        let index = number as u64 + 1;
        tree.insert(key(text), file(index, text), index);
        tree.check_sums();
    }
    tree
}

/// The names of a directory's children.
fn names(tree: &Tree, text: &str) -> String {
    let node = tree.find(key(text)).unwrap();
    node.children().map(|(name, _)| &**name).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_search_says_where_it_became_clear() {
    let tree = tree_of(&["/a/b/c"]);
    let check = |text, expected: Result<(), Missing<'_>>| {
        assert_eq!(tree.find(key(text)).map(|_| ()), expected, "{text}");
    };
    check("", Ok(()));
    check("/a", Ok(()));
    check("/a/b/c", Ok(()));
    check("/b", Err(Missing::NoNode(key("/b"))));
    check("/b/c/d", Err(Missing::NoNode(key("/b"))));
    check("/a/b/d", Err(Missing::NoNode(key("/a/b/d"))));
    check("/a/b/c/d", Err(Missing::IsFile(key("/a/b/c"))));
    check("/a/b/c/d/e", Err(Missing::IsFile(key("/a/b/c"))));
}

#[test]
fn an_insert_makes_the_directories_on_the_way() {
    let tree = tree_of(&["/a/b/c", "/a/x/y/z", "/b"]);
    assert_eq!(tree.sums().node_count, 7);
    for (text, index) in [("/a", 1), ("/a/b", 1), ("/a/x", 2), ("/a/x/y", 2)] {
        let node = tree.find(key(text)).unwrap();
        assert!(node.is_dir());
        assert_eq!(node.stat, stat(index), "{text}");
    }
}

#[test]
fn children_stand_by_name() {
    let tree = tree_of(&["/d/b", "/d/_h", "/d/a-b", "/d/a/x", "/d/a", "/d/ab", "/d/B"]);
    assert_eq!(names(&tree, "/d"), "B _h a a-b ab b");
    let node = tree.find(key("/d")).unwrap();
    let listed: Vec<_> = node.listed().map(|(name, _)| &**name).collect();
    assert_eq!(listed, ["B", "a", "a-b", "ab", "b"]);
    let behind: Vec<_> = node.children_behind(Some("a")).map(|(name, _)| &**name).collect();
    assert_eq!(behind, ["a-b", "ab", "b"]);
}

#[test]
fn an_insert_replaces_the_node() {
    let mut tree = tree_of(&["/a/b"]);
    let replaced = tree.insert(key("/a/b"), file(9, "new"), 9).unwrap();
    assert_eq!(*replaced, file(1, "/a/b"));
    assert_eq!(**tree.find(key("/a/b")).unwrap(), file(9, "new"));
    assert_eq!(tree.find(key("/a")).unwrap().stat, stat(1));
    tree.check_sums();
}

#[test]
fn a_removal_takes_all_that_is_below() {
    let mut tree = tree_of(&["/a/b/c", "/a/b/d", "/a/e", "/f"]);
    let removed = tree.remove(key("/a/b"));
    assert_eq!(removed.below().node_count, 2);
    assert_eq!(names(&tree, "/a"), "e");
    assert_eq!(tree.sums().node_count, 3);
    tree.check_sums();
    tree.remove(key("/a"));
    tree.remove(key("/f"));
    assert_eq!(tree, Tree::default());
}

#[test]
fn a_node_that_is_held_does_not_change() {
    let mut tree = tree_of(&["/a/b/c", "/a/b/d"]);
    let held = tree.clone();
    let before = format!("{held:?}");
    tree.insert(key("/a/b/c"), file(9, "new"), 9);
    tree.remove(key("/a/b/d"));
    let ttl = Some(Ttl { ttl_s: 1, expires_ms: 1_000, since: 10 });
    tree.change(key("/a"), NodeStat { ttl, ..stat(1) }, None);
    assert_eq!(format!("{held:?}"), before);
    held.check_sums();
    tree.check_sums();
    assert_ne!(tree.sums(), held.sums());
}

#[test]
fn the_sums_depend_on_every_field() {
    let ttl = Ttl { ttl_s: 1, expires_ms: 2, since: 3 };
    let with = |ttl| Node { stat: NodeStat { ttl: Some(ttl), ..stat(3) }, ..file(3, "v") };
    let nodes = [
        file(3, "v"),
        file(3, "w"),
        file(4, "v"),
        Node::dir(stat(3)),
        Node::file(NodeStat { created: 2, ..stat(3) }, *b"v"),
        with(ttl),
        with(Ttl { ttl_s: 2, ..ttl }),
        with(Ttl { expires_ms: 3, ..ttl }),
        with(Ttl { since: 4, ..ttl }),
    ];
    let mut digests: Vec<_> = nodes.iter().map(|node| node.sums(key("/a")).digest.0).collect();
    digests.push(nodes[0].sums(key("/b")).digest.0);
    let count = digests.len();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), count);
}

#[test]
fn the_seconds_that_are_left_are_rounded_up() {
    let check = |left_ms: i64, expected: i64| {
        let ttl = Ttl { ttl_s: 9, expires_ms: 5_000, since: 1 };
        let shown = ttl.shown(5_000 - left_ms);
        assert_eq!(shown, Expiration { at_ms: 5_000, ttl_s: expected }, "{left_ms}");
    };
    check(2_001, 3);
    check(2_000, 2);
    check(1, 1);
    check(0, 0);
    check(-1, 0);
    check(-999, 0);
    check(-1_000, -1);
    check(-1_001, -1);
    let ttl = Ttl { ttl_s: 9, expires_ms: i64::MIN, since: 1 };
    assert_eq!(ttl.shown(i64::MAX).ttl_s, -(i64::MAX / 1_000));
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let ttl = Ttl { ttl_s: ETCD_V2_TTL_S_MAX, expires_ms: -1, since: 7 };
    for node in [
        file(7, "value"),
        file(1, ""),
        Node { stat: NodeStat { ttl: Some(ttl), ..stat(7) }, ..file(7, "v") },
        Node { stat: NodeStat { created: 1, modified: 6, ttl: Some(ttl) }, ..file(6, "v") },
        Node::dir(stat(3)),
        Node::dir(NodeStat { ttl: Some(ttl), ..stat(3) }),
    ] {
        let mut bytes = Vec::new();
        encode(key("/a/b"), &node.stat, node.value().map(Arc::as_ref), &mut bytes);
        let read = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes);
            assert_eq!(reader.u8()?, TAG_NODE);
            let (key, node) = decode(&mut reader, 7)?;
            reader.finish()?;
            Ok::<_, DecodeError>((key.text().to_string(), node))
        };
        assert_eq!(read(&bytes), Ok(("/a/b".to_string(), node)));
        for end in 1..bytes.len() {
            assert!(read(&bytes[..end]).is_err(), "cut at {end}");
        }
    }
}

#[test]
fn a_record_that_no_store_has_is_refused() {
    let check = |text: &str, stat: NodeStat, value: Option<&[u8]>, what: &str| {
        let mut bytes = Vec::new();
        let key = Key::new(text).unwrap();
        encode(key, &stat, value, &mut bytes);
        let read = decode(&mut Reader::new(&bytes[1..]), 9);
        let Err(DecodeError::Bad { what: found, .. }) = read else { panic!("{read:?}") };
        assert_eq!(found, what);
    };
    let with =
        |ttl_s, since| NodeStat { ttl: Some(Ttl { ttl_s, expires_ms: 0, since }), ..stat(5) };
    let value = Some(b"v".as_slice());
    check("", stat(1), None, "record of the root");
    check("/a", stat(0), value, "indexes of a node");
    check("/a", NodeStat { created: 6, ..stat(5) }, value, "indexes of a node");
    check("/a", stat(10), value, "indexes of a node");
    check("/a", with(1, 4), value, "index of a time to live");
    check("/a", with(1, 4), None, "index of a time to live");
    check("/a", with(1, 10), None, "index of a time to live");
    check("/a", with(ETCD_V2_TTL_S_MAX + 1, 5), value, "time to live");
    let flags = decode(&mut Reader::new(&[4]), 9);
    assert_eq!(flags, Err(DecodeError::Bad { what: "flags of a node", offset: 1, value: 4 }));
}

#[test]
fn a_tree_of_the_greatest_depth_can_be_walked_and_dropped() {
    let text = "/k".repeat(ETCD_V2_LEVELS_MAX);
    let tree = tree_of(&[&text]);
    assert_eq!(tree.sums().node_count, ETCD_V2_LEVELS_MAX as u64);
    assert!(tree.root().at(key(&text)).is_some());
}
