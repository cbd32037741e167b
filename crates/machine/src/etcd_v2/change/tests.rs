use super::*;
use crate::etcd_v2::tests::Rig;

/// Checks whether the last write of a script concerns a watcher of a key: one of the key alone
/// (`one`), and a recursive one.
fn check(script: &str, watched: &str, one: bool, recursive: bool) {
    let mut rig = Rig::default();
    rig.script(script);
    let change = rig.changes.keys().last().unwrap();
    let watched = Key::new(watched).unwrap();
    let found = (change.concerns(watched, false), change.concerns(watched, true));
    assert_eq!(found, (one, recursive), "{} after {script}", watched.text());
}

#[test]
fn a_watcher_is_told_of_its_key_and_recursively_of_keys_below() {
    let script = "PUT /a/b value=1";
    check(script, "/a/b", true, true);
    check(script, "/a", false, true);
    check(script, "", false, true);
    check(script, "/a/b/c", false, false);
    check(script, "/a/bc", false, false);
    check(script, "/c", false, false);
}

#[test]
fn a_watcher_is_not_told_of_keys_that_are_hidden_from_it() {
    let script = "PUT /a/_h/b value=1";
    check(script, "/a/_h/b", true, true);
    check(script, "/a/_h", false, true);
    check(script, "/a", false, false);
    check(script, "", false, false);
    check("PUT /_h value=1", "", false, false);
    check("PUT /a_h value=1", "", false, true);
}

#[test]
fn the_removal_of_a_directory_is_told_to_watchers_of_what_was_in_it() {
    let script = "PUT /a/b/c value=1
                  PUT /a/_h value=1
                  DELETE /a recursive=true";
    check(script, "/a", true, true);
    check(script, "", false, true);
    check(script, "/a/b", true, true);
    check(script, "/a/b/c", true, true);
    check(script, "/a/_h", true, true);
    check(script, "/a/b/d", false, false);
    check(script, "/a/b/c/d", false, false);
    check(script, "/ab", false, false);
    let expired = "PUT /d dir=true&ttl=5
                   PUT /d/x value=1
                   EXPIRE /d";
    check(expired, "/d/x", true, true);
    check(expired, "/d/y", false, false);
}

#[test]
fn the_removal_of_a_file_is_told_to_watchers_of_its_key() {
    for removal in ["DELETE /a/b", "DELETE /a/b prevValue=1"] {
        let script = format!("PUT /a/b value=1\n{removal}");
        check(&script, "/a/b", true, true);
        check(&script, "/a", false, true);
        check(&script, "/a/b/c", false, false);
    }
}
