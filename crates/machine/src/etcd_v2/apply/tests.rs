use std::collections::BTreeMap;

use super::*;
use crate::etcd_v2::store::FIRST_INDEX;
use crate::etcd_v2::tests::{Rig, assert_same, check_invariants, deadline_text};
use crate::limits::ETCD_V2_TTL_S_MAX;
use crate::machine::tests::rig::Random;

/// Checks the answer to the last line of a script. A line has a method, a key and parameters.
fn check(script: &str, expected: &str) {
    let mut rig = Rig::default();
    let script = script.trim();
    let (before, last) = script.rsplit_once('\n').unwrap_or(("", script));
    rig.script(before);
    let unchanged = rig.store.index();
    let mut words = last.trim().split(' ');
    let mut next = || words.next().unwrap_or_default();
    let (method, key, parameters) = (next(), next(), next());
    let answer = rig.run(method, if key == "/" { "" } else { key }, parameters);
    assert_eq!(answer, expected, "{script}");
    let is_refusal = answer.starts_with(|first: char| first.is_ascii_digit());
    if method != "GET" {
        assert_eq!(rig.store.index() == unchanged, is_refusal, "{script}");
    }
    check_invariants(&mut rig);
}

#[test]
fn a_new_store_has_an_index_and_is_unused() {
    let rig = Rig::default();
    assert_eq!((rig.store.index(), rig.store.is_unused()), (FIRST_INDEX, true));
    assert_eq!(rig.store.digest(), Default::default());
    check("PUT /a", "set /a= +1/+1");
}

#[test]
fn a_set_replaces_files_and_no_directories() {
    check("PUT /a value=1\nPUT /a value=2", "set /a=2 +2/+2 < /a=1 +1/+1");
    check("PUT /a value=1\nPUT /a dir=true", "set /a/ +2/+2 < /a=1 +1/+1");
    check("PUT /a dir=true\nPUT /a value=2", "102 /a +1");
    check("PUT /a dir=true\nPUT /a dir=true", "102 /a +1");
    check("PUT /a value=1\nPUT /a/b/c value=2", "104 /a +1");
    check("PUT / value=1", "107 / +0");
    check("PUT / dir=true", "107 / +0");
    check("PUT /a dir=true&value=1", "set /a/ +1/+1");
    check(
        "PUT /a/b/c dir=true\nGET /a recursive=true",
        "get /a/ +1/+1 [/a/b/ +1/+1 [/a/b/c/ +1/+1]]",
    );
}

#[test]
fn a_refreshing_set_keeps_the_value() {
    check(
        "PUT /a value=1&ttl=5\nPUT /a ttl=7&refresh=true",
        "set /a=1 +2/+2 ttl 7 < /a=1 +1/+1 ttl 5",
    );
    check("PUT /a ttl=7&refresh=true", "100 /a +0");
    check("PUT /a value=1\nPUT /a/b ttl=7&refresh=true", "104 /a +1");
    check("PUT /a dir=true\nPUT /a ttl=7&refresh=true", "102 /a +1");
    check("PUT / ttl=7&refresh=true", "107 / +0");
}

#[test]
fn a_create_needs_a_key_that_does_not_exist() {
    check("PUT /a/b prevExist=false&value=1", "create /a/b=1 +1/+1");
    check("PUT /a prevExist=false&dir=true", "create /a/ +1/+1");
    check("PUT /a/b value=1\nPUT /a prevExist=false", "105 /a +1");
    check("PUT /a value=1\nPUT /a/b/c prevExist=false", "104 /a +1");
    check("PUT / prevExist=false", "107 / +0");
    check("PUT /a value=1\nPUT /a prevExist=false&prevValue=1", "105 /a +1");
}

#[test]
fn a_key_in_order_is_named_by_its_index() {
    check("POST /q value=1", "create /q/ORD+1=1 +1/+1");
    check("POST / value=1", "create /ORD+1=1 +1/+1");
    check("POST /q/r dir=true&ttl=5", "create /q/r/ORD+1/ +1/+1 ttl 5");
    check("PUT /q value=1\nPOST /q value=1", "104 /q +1");
    check("PUT /q/00000000000000000005 value=1\nPOST /q value=2", "105 /q/00000000000000000005 +1");
    check(
        "POST /q value=1\nPUT /x\nPOST /q value=2\nGET /q",
        "get /q/ +1/+1 [/q/ORD+1=1 +1/+1, /q/ORD+3=2 +3/+3]",
    );
}

#[test]
fn an_update_keeps_the_index_of_creation() {
    check("PUT /a value=1\nPUT /a prevExist=true&value=2", "update /a=2 +1/+2 < /a=1 +1/+1");
    check("PUT /a value=1\nPUT /a prevExist=true", "update /a= +1/+2 < /a=1 +1/+1");
    check("PUT /a prevExist=true&value=2", "100 /a +0");
    check("PUT /a value=1\nPUT /a/b prevExist=true", "104 /a +1");
    check("PUT /a dir=true\nPUT /a prevExist=true&value=2", "102 /a +1");
    check("PUT / prevExist=true", "107 / +0");
    // If the request does not say that the key is a directory, it still updates the directory.
    check("PUT /a dir=true\nPUT /a prevExist=true", "update /a/ +1/+2 < /a/ +1/+1");
    // A directory shows its new index only in the event.
    check("PUT /a/b\nPUT /a prevExist=true&ttl=5\nGET /a", "get /a/ +1/+1 ttl 5 [/a/b= +1/+1]");
}

#[test]
fn a_comparison_must_hold_in_all_its_parts() {
    let swap = |parameters: &str, expected: &str| {
        check(&format!("PUT /a value=1\nPUT /a {parameters}&value=2"), expected);
    };
    let swapped = "compareAndSwap /a=2 +1/+2 < /a=1 +1/+1";
    swap("prevValue=1", swapped);
    swap("prevIndex=4", swapped);
    swap("prevValue=1&prevIndex=4", swapped);
    swap("prevValue=1&prevExist=true", swapped);
    swap("prevValue=x", "101 [x != 1] +1");
    swap("prevIndex=5", "101 [5 != +1] +1");
    swap("prevValue=1&prevIndex=5", "101 [5 != +1] +1");
    swap("prevValue=x&prevIndex=4", "101 [x != 1] +1");
    swap("prevValue=x&prevIndex=5", "101 [x != 1] [5 != +1] +1");
    check("PUT /a prevIndex=4", "100 /a +0");
    check("PUT /a dir=true\nPUT /a prevIndex=4", "102 /a +1");
    check("PUT / prevIndex=4", "107 / +0");
    check(
        "PUT /a value=1&ttl=5\nPUT /a prevValue=1&refresh=true&ttl=6",
        "compareAndSwap /a=1 +1/+2 ttl 6 < /a=1 +1/+1 ttl 5",
    );
}

#[test]
fn a_removal_of_a_directory_must_be_asked_for() {
    check("PUT /a value=1\nDELETE /a", "delete /a +1/+2 < /a=1 +1/+1");
    check("PUT /a value=1\nDELETE /a dir=true", "delete /a +1/+2 < /a=1 +1/+1");
    check("PUT /a dir=true\nDELETE /a", "102 /a +1");
    check("PUT /a dir=true\nDELETE /a dir=true", "delete /a/ +1/+2 < /a/ +1/+1");
    check("PUT /a/b\nDELETE /a dir=true", "108 /a +1");
    check("PUT /a/_h\nDELETE /a dir=true", "108 /a +1");
    check("PUT /a/b\nDELETE /a recursive=true", "delete /a/ +1/+2 < /a/ +1/+1");
    check("PUT /a/b\nDELETE /a recursive=true\nGET /a/b", "100 /a +2");
    check("DELETE /a", "100 /a +0");
    check("PUT /a value=1\nDELETE /a/b", "104 /a +1");
    check("DELETE / recursive=true", "107 / +0");
}

#[test]
fn a_file_is_deleted_if_a_comparison_holds() {
    let deleted = "compareAndDelete /a +1/+2 < /a=1 +1/+1";
    check("PUT /a value=1\nDELETE /a prevValue=1", deleted);
    check("PUT /a value=1\nDELETE /a prevIndex=4&recursive=true", deleted);
    check("PUT /a value=1\nDELETE /a prevIndex=3", "101 [3 != +1] +1");
    check("DELETE /a prevIndex=3", "100 /a +0");
    check("PUT /a dir=true\nDELETE /a prevIndex=4&dir=true", "102 /a +1");
    // Here etcd treats the root like any directory, and its error names no key.
    check("DELETE / prevIndex=4", "102  +0");
}

#[test]
fn a_listing_leaves_hidden_keys_out() {
    let script = "PUT /a/_h/x\nPUT /a/b\nPUT /_r\nGET ";
    let get = |what: &str, expected: &str| check(&format!("{script}{what}"), expected);
    get("/", "get / [/a/ +1/+1]");
    get("/ recursive=true", "get / [/a/ +1/+1 [/a/b= +2/+2]]");
    get("/a/_h recursive=true", "get /a/_h/ +1/+1 [/a/_h/x= +1/+1]");
    get("/_r", "get /_r= +3/+3");
}

#[test]
fn a_time_to_live_is_shown_from_its_stamp_on() {
    let mut rig = Rig { time_ms: 5_000, ..Rig::default() };
    assert_eq!(rig.run("PUT", "/a", "value=1&ttl=10"), "set /a=1 +1/+1 ttl 10");
    rig.time_ms = 5_001;
    assert_eq!(rig.run("GET", "/a", ""), "get /a=1 +1/+1 ttl 10");
    rig.time_ms = 14_001;
    assert_eq!(rig.run("GET", "/a", ""), "get /a=1 +1/+1 ttl 1");
    // Nothing expires because a stamp or a reader's clock says so.
    rig.time_ms = 100_000;
    assert_eq!(rig.run("GET", "/a", ""), "get /a=1 +1/+1 ttl -85");
    assert_eq!(rig.run("PUT", "/b", "ttl=0"), "set /b= +2/+2 ttl 0");
    rig.time_ms = 0;
    let updated = "update /a=2 +1/+3 ttl 10 < /a=1 +1/+1 ttl 15";
    assert_eq!(rig.run("PUT", "/a", "prevExist=true&value=2&ttl=10"), updated);
    rig.time_ms = i64::MAX;
    let longest = format!("ttl={ETCD_V2_TTL_S_MAX}");
    assert_eq!(rig.run("PUT", "/c", &longest), "set /c= +4/+4 ttl 0");
    let node = rig.store.tree().find(Key::new("/a").unwrap()).unwrap();
    assert_eq!(node.stat.ttl, Some(Ttl { ttl_s: 10, expires_ms: 10_000, since: 6 }));
    check_invariants(&mut rig);
}

#[test]
fn an_expiry_names_the_write_that_gave_the_time_to_live() {
    let mut rig = Rig::default();
    rig.script("PUT /a value=1&ttl=5");
    let judged = rig.since("/a");
    rig.script("PUT /a value=2&prevExist=true&ttl=5");
    assert_eq!(rig.expire(&[("/a", judged)]), "expired 0");
    assert_eq!(rig.expire(&[("/b", judged)]), "expired 0");
    let later = rig.since("/a");
    assert_eq!(rig.expire(&[("/a", later), ("/a", later)]), "expired 1");
    assert_eq!(rig.store.index(), FIRST_INDEX + 3);
    assert_eq!(rig.run("GET", "/a", ""), "100 /a +3");
    rig.script("PUT /c value=1");
    let modified = rig.store.index();
    assert_eq!(rig.expire(&[("/c", modified)]), "expired 0", "it has no time to live");
    check_invariants(&mut rig);
}

#[test]
fn an_expiry_of_a_directory_names_the_write_that_its_index_does_not_show() {
    let mut rig = Rig::default();
    rig.script("PUT /d dir=true&ttl=5");
    let first = rig.since("/d");
    rig.script("PUT /d dir=true&prevExist=true&ttl=9");
    assert_eq!(rig.run("GET", "/d", ""), "get /d/ +1/+1 ttl 9");
    assert_eq!(rig.expire(&[("/d", first)]), "expired 0");
    assert_eq!(rig.expire(&[("/d", first + 1)]), "expired 1");
    check_invariants(&mut rig);
}

#[test]
fn keys_expire_at_an_index_each_and_in_the_order_of_the_command() {
    let mut rig = Rig::default();
    rig.script("PUT /b value=1&ttl=1\nPUT /a value=2&ttl=9\nPUT /d dir=true&ttl=1");
    rig.script("PUT /d/x value=3&ttl=1");
    rig.told();
    let keys = ["/b", "/d", "/d/x", "/a"].map(|key| (key, rig.since(key)));
    assert_eq!(rig.expire(&keys), "expired 3");
    let told = "expire /b +1/+5 < /b=1 +1/+1 ttl 1; expire /d/ +3/+6 < /d/ +3/+3 ttl 1; \
                expire /a +2/+7 < /a=2 +2/+2 ttl 9";
    assert_eq!(rig.told(), told);
    assert_eq!(rig.run("GET", "", ""), "get /");
    check_invariants(&mut rig);
}

#[test]
fn deadlines_begin_and_end_with_the_writes_of_their_keys() {
    let mut rig = Rig::default();
    let mut check = |line: &str, expected: &str| {
        rig.script(line);
        assert_eq!(rig.deadlines(), expected, "{line}");
        check_invariants(&mut rig);
    };
    check("PUT /a value=1", "");
    check("PUT /a value=1&ttl=5", "/a +2 5s");
    check("PUT /a value=1&ttl=6", "no +2, /a +3 6s");
    check("PUT /a prevExist=true&refresh=true&ttl=7", "no +3, /a +4 7s");
    check("PUT /a prevExist=true&value=2", "no +4");
    check("PUT /a prevValue=2&ttl=0", "/a +6 0s");
    check("PUT /a prevValue=x&ttl=9", "");
    check("DELETE /a", "no +6");
    check("PUT /d dir=true&ttl=8", "/d +8 8s");
    check("PUT /d/x ttl=9", "/d/x +9 9s");
    check("PUT /d/y/z ttl=9", "/d/y/z +10 9s");
    check("PUT /d dir=true&prevExist=true&ttl=3", "no +8, /d +11 3s");
    check("DELETE /d recursive=true", "no +11, no +9, no +10");
}

#[test]
fn watchers_are_told_of_each_write_but_refreshes() {
    let mut rig = Rig::default();
    let mut check = |line: &str, expected: &str| {
        rig.script(line);
        assert_eq!(rig.told(), expected, "{line}");
    };
    check("PUT /a value=1&ttl=5", "set /a=1 +1/+1 ttl 5");
    check("PUT /a prevExist=true&refresh=true&ttl=7", "");
    check("PUT /a refresh=true&ttl=7", "");
    check("PUT /a prevValue=1&refresh=true&ttl=7", "");
    check("PUT /a prevExist=false", "");
    check("EXPIRE /a", "expire /a +3/+5 < /a=1 +3/+4 ttl 7");
    let kept: Vec<_> = rig.store.history().events().map(|event| event.is_refresh).collect();
    assert_eq!(kept, [false, true, true, true, false]);
    check_invariants(&mut rig);
}

#[test]
fn a_wait_begins_above_the_index_or_where_it_is_asked_to() {
    let mut rig = Rig::default();
    rig.script("PUT /a value=1\nPUT /a value=2");
    assert_eq!(rig.wait("/a", false, 0), "none");
    assert_eq!(rig.wait("/a", false, 1), "set /a=1 +1/+1");
    assert_eq!(rig.wait("/a", false, FIRST_INDEX + 2), "set /a=2 +2/+2 < /a=1 +1/+1");
    assert_eq!(rig.wait("/a", false, FIRST_INDEX + 3), "none");
    assert_eq!(rig.wait("/b", false, 1), "none");
    let first = |from| rig.store.wait(Key::new("/a").unwrap(), false, from).unwrap().first;
    let next = FIRST_INDEX + 3;
    assert_eq!([0, 1, next, next + 1].map(first), [next, next, next, next + 1]);
    for _ in 0..1_000 {
        rig.script("PUT /b");
    }
    assert_eq!(rig.wait("/a", false, FIRST_INDEX + 2), "401 [6/5] +1002");
    assert_eq!(rig.wait("/a", false, FIRST_INDEX + 3), "none");
}

/// A node of the model: the value if it is a file, and its two indexes.
type Modelled = (Option<String>, u64, u64);

/// A plain model: a map from keys to nodes, for sets, creates, updates and removals.
#[derive(Default)]
struct Model {
    nodes: BTreeMap<String, Modelled>,
    index: u64,
}

impl Model {
    fn below(&self, key: &str) -> Vec<String> {
        let below = format!("{key}/");
        self.nodes.keys().filter(|found| found.starts_with(&below)).cloned().collect()
    }

    fn is_file(&self, key: &str) -> bool {
        matches!(self.nodes.get(key), Some((Some(_), ..)))
    }

    /// Applies a request to the model. True if it takes effect.
    fn run(&mut self, method: &str, key: &str, is_dir: bool, value: &str) -> bool {
        let ancestors = key.match_indices('/').skip(1).map(|(end, _)| &key[..end]);
        let ancestors: Vec<&str> = ancestors.collect();
        if ancestors.iter().any(|above| self.is_file(above)) {
            return false;
        }
        let index = self.index + 1;
        let found = self.nodes.get(key).cloned();
        let is_done = match (method, &found) {
            ("SET", None | Some((Some(_), ..))) | ("CREATE", None) => {
                for above in ancestors {
                    self.nodes.entry(above.to_string()).or_insert((None, index, index));
                }
                let value = (!is_dir).then(|| value.to_string());
                self.nodes.insert(key.to_string(), (value, index, index));
                true
            }
            ("UPDATE", Some((Some(_), created, _))) => {
                let node = (Some(value.to_string()), *created, index);
                self.nodes.insert(key.to_string(), node);
                true
            }
            ("DELETE", Some(_)) => {
                for gone in self.below(key).iter().map(String::as_str).chain([key]) {
                    self.nodes.remove(gone);
                }
                true
            }
            _ => false,
        };
        self.index += u64::from(is_done);
        is_done
    }
}

fn flat(rig: &Rig) -> BTreeMap<String, Modelled> {
    fn add(key: &str, node: &Node, nodes: &mut BTreeMap<String, Modelled>) {
        for (name, child) in node.children() {
            let key = format!("{key}/{name}");
            let value = child.value().map(|value| String::from_utf8(value.to_vec()).unwrap());
            add(&key, child, nodes);
            nodes.insert(key, (value, child.stat.created, child.stat.modified));
        }
    }
    let mut nodes = BTreeMap::new();
    add("", rig.store.tree().root(), &mut nodes);
    nodes
}

#[test]
fn the_tree_is_that_of_a_simple_model() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let mut rig = Rig::default();
        let mut model = Model { index: FIRST_INDEX, ..Model::default() };
        for number in 0..300 {
            let levels = 1 + random.below(3);
            let key: String =
                (0..levels).map(|_| format!("/{}", ["a", "b", "_c"][random.below(3)])).collect();
            let value = number.to_string();
            let (method, is_dir) =
                (["SET", "CREATE", "UPDATE", "DELETE"][random.below(4)], random.below(4) == 0);
            let dir = if is_dir { "&dir=true" } else { "" };
            let (verb, parameters) = match method {
                "SET" => ("PUT", format!("value={value}{dir}")),
                "CREATE" => ("PUT", format!("value={value}{dir}&prevExist=false")),
                "UPDATE" => ("PUT", format!("value={value}&prevExist=true")),
                _ => ("DELETE", "recursive=true".to_string()),
            };
            let answer = rig.run(verb, &key, &parameters);
            let is_done = model.run(method, &key, is_dir, &value);
            let is_refused = answer.starts_with(|first: char| first.is_ascii_digit());
            assert_eq!(is_done, !is_refused, "{seed}: {verb} {key} {parameters}: {answer}");
            assert_eq!(rig.store.index(), model.index);
        }
        assert_eq!(flat(&rig), model.nodes, "{seed}");
        check_invariants(&mut rig);
    }
}

#[test]
fn a_state_that_takes_the_place_of_another_gives_full_times() {
    let mut rig = Rig::default();
    rig.script("PUT /d dir=true&ttl=9\nPUT /a value=1&ttl=5\nPUT /b value=2");
    let judged = rig.since("/a");
    rig.store.take_place_of(FIRST_INDEX + 50);
    assert_eq!(rig.store.index(), FIRST_INDEX + 53);
    rig.deadlines.clear();
    for change in rig.store.deadlines() {
        let DeadlineChange::Began { key, since, ttl_s } = change else { panic!("{change:?}") };
        rig.deadlines.insert(since, (key, ttl_s));
    }
    check_invariants(&mut rig);
    let texts = rig.store.deadlines();
    let texts: Vec<String> = texts.iter().map(deadline_text).collect();
    assert_eq!(texts, ["/a +52 5s", "/d +53 9s"]);
    assert_eq!(rig.expire(&[("/a", judged)]), "expired 0");
    assert_eq!(rig.run("GET", "/a", ""), "get /a=1 +2/+2 ttl 5");
    assert_eq!(rig.wait("/a", false, FIRST_INDEX + 1), "401 [57/4] +53");
    assert_eq!(
        rig.run("PUT", "/a", "prevIndex=5&value=3"),
        "compareAndSwap /a=3 +2/+54 < /a=1 +2/+2 ttl 5"
    );
    assert_eq!(rig.expire(&[("/d", FIRST_INDEX + 53)]), "expired 1");
    check_invariants(&mut rig);
    // The replaced state may have a lower index.
    rig.store.take_place_of(FIRST_INDEX);
    assert_eq!(rig.store.index(), FIRST_INDEX + 56);
}

#[test]
fn equal_commands_give_equal_stores() {
    let script = "PUT /a/b value=1&ttl=5\nPOST /q\nDELETE /a recursive=true\nPUT /c prevIndex=7";
    let (mut one, mut other) = (Rig::default(), Rig::default());
    one.script(script);
    other.script(script);
    assert_same(&one.store, &other.store);
    other.script("PUT /c");
    assert_ne!(one.store.digest(), other.store.digest());
}
