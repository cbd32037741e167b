//! Tests the table that `quorate cluster status` prints.

use super::*;

fn check(view: &str, expected: &str) {
    let view = serde_json::from_str(view).expect("it is JSON");
    assert_eq!(shown(&view), expected);
}

#[test]
fn a_leader_knows_how_far_each_server_is() {
    check(
        r#"{"server_id": 1, "member_id": "a1", "state": "leading", "leader_id": 1, "term": 4,
            "commit_index": 70, "contact_ms": 12, "members": [
            {"server_id": 1, "member_id": "a1", "address": "zk1:2888", "voting": true,
             "entries_behind": 0, "silent_ms": null, "fetches_snapshot": false,
             "version": "0.2.0", "level_max": 2},
            {"server_id": 2, "member_id": "b2", "address": "zk2:2888", "voting": true,
             "version": "0.1.0", "level_max": 1,
             "entries_behind": 1234, "silent_ms": 2345, "fetches_snapshot": false},
            {"server_id": -1, "member_id": "c3", "address": null, "voting": true,
             "entries_behind": 70, "silent_ms": null, "fetches_snapshot": false},
            {"server_id": 3, "member_id": "d4", "address": "zk3:2888", "voting": false,
             "entries_behind": 70, "silent_ms": 20, "fetches_snapshot": true}],
            "level": 1, "level_max": 2, "servers": [
            {"server_id": 1, "address": "zk1:2888"}, {"server_id": 2, "address": "zk2:2888"},
            {"server_id": 3, "address": "zk3:2888"}, {"server_id": 4, "address": "zk4:2888"}]}"#,
        "\
SERVER  ADDRESS   ROLE      BEHIND    HEARD       VERSION  MEMBER
1       zk1:2888  leader    0         it answers  0.2.0    a1
2       zk2:2888  follower  1234      2.3 s ago   0.1.0    b2
3       zk3:2888  joining   snapshot  20 ms ago   -        d4
?       ?         follower  70        never       -        c3
4       zk4:2888  absent    -         -           -        -
term 4, 70 entries committed, a quorum heard 12 ms ago
level 1
",
    );
}

#[test]
fn whoever_follows_names_the_leader_to_ask() {
    check(
        r#"{"server_id": 2, "member_id": "b2", "state": "following", "leader_id": 1, "term": 4,
            "commit_index": 70, "contact_ms": 150, "level": 1, "members": [
            {"server_id": 1, "member_id": "a1", "address": "zk1:2888", "voting": true,
             "version": "0.2.0", "level_max": 2, "entries_behind": null, "silent_ms": null, "fetches_snapshot": false},
            {"server_id": 2, "member_id": "b2", "address": "zk2:2888", "voting": true,
             "version": "0.2.0", "level_max": 2,
             "entries_behind": 0, "silent_ms": null, "fetches_snapshot": false}]}"#,
        "\
SERVER  ADDRESS   ROLE      BEHIND  HEARD       VERSION  MEMBER
1       zk1:2888  leader    -       -           0.2.0    a1
2       zk2:2888  follower  0       it answers  0.2.0    b2
as server 2 sees it, which follows server 1: term 4, 70 entries committed, a leader heard 150 ms ago; \
ask server 1 for the rest
level 1; all servers know level 2: `quorate cluster upgrade` raises it
",
    );
}

#[test]
fn whoever_knows_no_leader_says_so() {
    check(
        r#"{"server_id": 2, "member_id": "b2", "state": "looking", "leader_id": -1, "term": 5,
            "commit_index": 70, "contact_ms": null, "members": []}"#,
        "\
SERVER  ADDRESS  ROLE  BEHIND  HEARD  VERSION  MEMBER
as server 2 sees it, which knows no leader: term 5, 70 entries committed, a leader not heard
",
    );
}
