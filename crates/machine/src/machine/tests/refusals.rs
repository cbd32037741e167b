//! Tests of the refusals of each operation, and of the order of its checks, which is that of
//! `PrepRequestProcessor.pRequest2Txn` and `pRequest2TxnCreate`, ZooKeeper 3.9.5.

use super::check;

#[test]
fn create_makes_every_kind_of_znode() {
    check("create /a", "created /a");
    check("create /a mode=1", "created /a");
    check("create /a mode=2", "created /a0000000000");
    check("create /a mode=3", "created /a0000000000");
    check("create /a mode=4", "created /a");
    check("configure extended; create /a mode=5 ttl=1", "created /a");
    check("configure extended; create /a mode=6 ttl=1", "created /a0000000000");
    check("create /a; create /a/b", "created /a/b");
    check("create /a; create /a/ mode=2", "created /a/0000000000");
}

#[test]
fn a_ttl_needs_the_setting_and_a_value_in_range() {
    check("create /a mode=5 ttl=1", "Unimplemented");
    check("create /a mode=6 ttl=0", "Unimplemented");
    check("configure extended; create /a mode=5 ttl=0", "BadArguments");
    check("configure extended; create /a mode=5 ttl=-1", "BadArguments");
    check("configure extended; create /a mode=5 ttl=1099511627775", "created /a");
    check("configure extended; create /a mode=5 ttl=1099511627776", "BadArguments");
}

#[test]
fn a_ttl_for_a_mode_without_one_is_refused() {
    check("create /a ttl=0", "BadArguments");
    check("create /a mode=1 ttl=5", "BadArguments");
    check("create /a mode=4 ttl=5", "BadArguments");
    check("create /a ttl=-2", "created /a");
}

#[test]
fn create_looks_at_ttl_then_slash_then_acl() {
    check("create no_slash mode=5 ttl=1", "Unimplemented");
    check("create no_slash acl=none", "BadArguments");
    check("create '' acl=none", "BadArguments");
    check("create /a\0b acl=none", "BadArguments");
    check("create /missing/a acl=none", "InvalidAcl");
    check("create /a bad acl=none", "InvalidAcl");
}

#[test]
fn create_looks_at_parent_then_permission_then_path_form() {
    check("create /missing/a bad", "NoNode");
    check("create relative/a bad", "NoNode");
    check("create //a bad", "BadArguments");
    check("create /p acl=world:anyone=rwda; create /p/a bad", "NoAuth");
    check("create /a bad", "BadArguments");
    check("create /a; create /a bad", "BadArguments");
}

#[test]
fn create_looks_at_existence_before_the_parents_kind() {
    check("create /a; create /a", "NodeExists");
    check("create /", "NodeExists");
    check("create /zookeeper", "NodeExists");
    check("create /e mode=1; create /e/a", "NoChildrenForEphemerals");
    check("create /e mode=1; create /e/a mode=2", "NoChildrenForEphemerals");
    check("create /c mode=4; create /c/a", "created /c/a");
    check("configure extended; create /t mode=5 ttl=1; create /t/a", "created /t/a");
}

#[test]
fn a_sequential_create_may_meet_an_existing_name() {
    check("create /p; create /p/s0000000001; create /p/s mode=2", "NodeExists");
}

#[test]
fn delete_removes_a_leaf() {
    check("create /a; delete /a", "deleted");
    check("create /a; delete /a v0", "deleted");
    check("create /a mode=1; delete /a", "deleted");
}

#[test]
fn delete_looks_at_path_form_then_parent_then_permission() {
    check("delete no_slash", "BadArguments");
    check("delete ''", "BadArguments");
    check("delete /a\0b", "BadArguments");
    check("delete /", "BadArguments");
    check("delete /zookeeper", "BadArguments");
    check("delete /zookeeper/quota", "BadArguments");
    check("delete /zookeeper/config", "BadArguments");
    check("delete /missing/a", "NoNode");
    check("delete relative/a", "NoNode");
    check("create /p acl=world:anyone=rwca; delete /p/missing", "NoAuth");
    check("create /p acl=world:anyone=d; delete /p/missing", "NoNode");
    check("create /a; delete /a/", "NoNode");
    check("delete //", "NoNode");
}

#[test]
fn delete_needs_permission_on_the_parent_only() {
    check("create /p; create /p/a acl=world:anyone=r; delete /p/a", "deleted");
}

#[test]
fn delete_looks_at_version_before_children() {
    check("create /a; delete /a v1", "BadVersion");
    check("create /a; create /a/b; delete /a v1", "BadVersion");
    check("create /a; set /a x; delete /a v0", "BadVersion");
    check("create /a; set /a x; delete /a v1", "deleted");
}

#[test]
fn delete_of_parent_with_children_is_refused() {
    check("create /a; create /a/b; delete /a", "NotEmpty");
    check("create /a; create /a/b; delete /a/b; delete /a", "deleted");
}

#[test]
fn set_looks_at_path_form_then_existence_then_permission_then_version() {
    check("create /a; set /a x v0", "set 1");
    check("create /a; set /a x", "set 1");
    check("set / x", "set 1");
    check("set /missing x bad", "BadArguments");
    check("set '' x", "BadArguments");
    check("set /missing x", "NoNode");
    check("create /a acl=world:anyone=rcda; set /a x v7", "NoAuth");
    check("create /a; set /a x v7", "BadVersion");
    check("create /a; set /a x v-2", "BadVersion");
    check("set /zookeeper/config x", "NoAuth");
}

#[test]
fn set_acl_looks_at_form_then_acl_then_existence_then_permission_then_version() {
    let cases = [
        ("acl /missing bad acl=none", "BadArguments"),
        ("acl '' acl=none", "InvalidAcl"),
        ("acl ''", "BadArguments"),
        ("acl /missing acl=none", "InvalidAcl"),
        ("acl /missing acl=nonsense:x=r", "InvalidAcl"),
        ("acl /missing", "NoNode"),
        ("create /a acl=world:anyone=rwcd; acl /a v7", "NoAuth"),
        ("create /a; acl /a v7", "BadVersion"),
        ("create /a; acl /a v0", "acl 1"),
        ("create /a; set /a x; acl /a v0", "acl 1"),
        ("create /a; acl /a; acl /a v1", "acl 2"),
        ("acl /", "acl 1"),
    ];
    cases.iter().for_each(|(script, expected)| check(script, expected));
}

#[test]
fn check_looks_at_form_then_existence_then_permission_then_version() {
    check("check /", "checked");
    check("check / v0", "checked");
    check("check /missing bad", "BadArguments");
    check("check ''", "BadArguments");
    check("check /missing", "NoNode");
    check("create /a acl=world:anyone=wcda; check /a v7", "NoAuth");
    check("create /a; check /a v7", "BadVersion");
}

#[test]
fn a_malformed_operation_is_refused_after_the_session_check() {
    check("malformed", "BadArguments");
    check("@9 malformed", "SessionMoved");
    check("#9 malformed", "SessionExpired");
    check("multi create /a + malformed", "BadArguments at 1 of 2");
}

#[test]
fn the_super_user_and_skip_acl_pass_every_acl() {
    let locked = "create /a acl=world:anyone=r";
    check(&format!("{locked}; set /a x"), "NoAuth");
    check(&format!("{locked}; ~super| set /a x"), "set 1");
    check(&format!("{locked}; configure skip_acl; set /a x"), "set 1");
    check(&format!("{locked}; ~super| create /a/b"), "created /a/b");
    check(&format!("{locked}; configure skip_acl; acl /a"), "acl 1");
    check("~super| set /zookeeper/config x", "set 1");
}

#[test]
fn skip_acl_still_refuses_a_malformed_acl() {
    check("configure skip_acl; create /a acl=none", "InvalidAcl");
    check("configure skip_acl; create /a acl=auth:=r", "InvalidAcl");
}
