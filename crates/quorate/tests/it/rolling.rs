//! Real servers that become more and fewer because their files are changed, one server after the
//! other, without any request of a client.

use crate::ensemble::{Members, open};
use crate::server::wait_until;

/// Waits until exactly the first `count` servers vote.
fn wait_for_votes(members: &Members, count: usize) {
    wait_until("the servers of the files vote", || {
        let (said, _) = members.cluster(&["status"]);
        let rows = said.lines().filter(|line| line.starts_with(|it: char| it.is_ascii_digit()));
        let rows: Vec<&str> = rows.collect();
        let vote = rows.iter().filter(|row| row.contains(" leader ") || row.contains(" follower "));
        rows.len() == count && vote.count() == count
    });
}

#[test]
fn three_servers_become_five_and_three_again_by_their_files() {
    let mut members = Members::prepare_all("rolling", 5, "");
    let all = members.listed(0);
    for place in 0..3 {
        members.list(place, &all[..3]);
        members.start(place);
    }
    members.leader();
    assert_eq!(open(members.clients[0]).create("/three", b"", 0).as_deref(), Ok("/three"));

    members.start(3);
    members.start(4);
    for place in 0..3 {
        members.stop_one(place);
        members.list(place, &all);
        members.start(place);
        members.leader();
    }
    wait_for_votes(&members, 5);
    // Two of five may be away.
    members.kill_nine(0);
    members.kill_nine(1);
    members.leader();
    let mut client = open(members.clients[4]);
    assert!(client.exists("/three"));
    assert_eq!(client.create("/five", b"", 0).as_deref(), Ok("/five"));
    members.start(0);
    members.start(1);
    wait_until("they are there", || open(members.clients[0]).exists("/five"));

    members.stop_one(3);
    members.stop_one(4);
    for place in 0..3 {
        members.stop_one(place);
        members.list(place, &all[..3]);
        members.start(place);
        members.leader();
    }
    wait_for_votes(&members, 3);
    // One of three may be away.
    members.kill_nine(2);
    members.leader();
    let mut client = open(members.clients[0]);
    assert!(client.exists("/five"));
    assert_eq!(client.create("/again", b"", 0).as_deref(), Ok("/again"));
    members.start(2);
    wait_until("it is there", || open(members.clients[2]).exists("/again"));
    members.stop();
}
