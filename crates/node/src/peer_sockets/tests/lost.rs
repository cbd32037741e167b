//! Members that know too little of the others, over real sockets: one that knows no leader, and one
//! that does not know its own new address.

use super::*;

/// A server of an ensemble at level 5.
fn of_level_5(number: u64, cluster_id: u128) -> Hello {
    let (level, known) = (Some(Level::MEMBERS.into()), Known::up_to(Level::MEMBERS));
    Hello { level, known, ..born(number, cluster_id) }
}

/// A server of an ensemble at level 5, which says that it listens there.
fn member(number: u64, cluster_id: u128, at: &std::net::TcpListener) -> Hello {
    let url = format!("http://127.0.0.1:{}", port(at));
    of_level_5(number, cluster_id)
        .with_peer_urls(vec![url], String::new())
        .expect("it has room for them")
}

/// Server 3, whose list has server 1 only, and server 4, whose list has server 3.
fn lost_and_newcomer(
    auth: impl Fn() -> PeerAuth,
    (is_lost, cluster_id): (bool, u128),
) -> (Peers, Peers) {
    let (of_lost, of_new) = (listener(), listener());
    let gone = server(1, port(&listener()));
    let lost_at = server(3, port(&of_lost));
    let hello = of_level_5(3, 7);
    let lost = Peers::start_with(hello, of_lost, &[gone], auth(), Duration::ZERO);
    lost.handle.set_open(is_lost, false);
    let hello = member(4, cluster_id, &of_new);
    let newcomer = Peers::start(hello, of_new, &[lost_at], auth());
    (lost, newcomer)
}

#[test]
fn a_member_without_a_leader_takes_servers_of_its_ensemble_that_it_does_not_know() {
    let auths: [fn() -> PeerAuth; 3] = [|| PeerAuth::None, secret, || tls(MEMBER)];
    for auth in auths {
        let (lost, newcomer) = lost_and_newcomer(auth, (true, 7));
        lost.wait_linked(&[4]);
        newcomer.wait_linked(&[3]);
        // The list that it learns decides again.
        lost.handle.set_servers(vec![server(1, port(&listener()))], BTreeSet::new());
        lost.handle.set_open(false, false);
        lost.wait_unlinked(4);
        lost.sockets.stop();
        newcomer.sockets.stop();
    }
}

#[test]
fn a_member_with_a_leader_and_one_of_another_ensemble_take_no_strangers() {
    for (case, reason) in [
        ((false, 7), "server 4 is not configured here"),
        ((true, 8), "server 4 is not configured here"),
    ] {
        let (lost, newcomer) = lost_and_newcomer(secret, case);
        let url = vec!["http://127.0.0.1:1".to_string()];
        let hello =
            of_level_5(4, case.1).with_peer_urls(url, String::new()).expect("it has room for them");
        assert_eq!(refused(&lost, Offer { wanted: 3, ..offer(hello) }), reason);
        assert!(lost.handle.links().is_empty());
        lost.sockets.stop();
        newcomer.sockets.stop();
    }
}

#[test]
fn a_member_is_dialled_back_where_it_says_that_it_listens() {
    let (of_moved, of_other) = (listener(), listener());
    let (old, other) = (port(&of_moved), server(2, port(&of_other)));
    let moved = Peers::start(member(1, 7, &of_moved), of_moved, &[other], secret());
    // The other one has the address to which server 1 was moved; nobody listens there yet.
    let nowhere = server(1, port(&listener()));
    let other = Peers::start(of_level_5(2, 7), of_other, &[nowhere], secret());
    other.wait_linked(&[1]);
    moved.wait_linked(&[2]);
    assert_eq!(moved.port, old);
    moved.sockets.stop();
    other.sockets.stop();
}

/// Server 5 has no data.
#[test]
fn an_ensemble_that_takes_guests_lets_in_a_server_without_data() {
    let (here, guest) = (listener(), listener());
    let (at, url) = (server(1, port(&here)), format!("http://127.0.0.1:{}", port(&guest)));
    let here = Peers::start(of_level_5(1, 7), here, &[server(1, 1)], secret());
    let unborn = Hello { known: Known::up_to(Level::MEMBERS), ..hello(5) };
    let unborn = unborn.with_peer_urls(vec![url], String::new()).expect("it has room for them");
    let asks = || Offer { wanted: 1, ..offer(unborn.clone()) };
    assert_eq!(refused(&here, asks()), "server 5 is not configured here");
    here.handle.set_open(true, false);
    assert_eq!(refused(&here, asks()), "server 5 is not configured here");
    here.handle.set_open(false, true);
    let mut stranger = Stranger::connect(&here);
    let key = stranger.agree(4).key;
    stranger.knock_with(asks(), &key, b"another key");
    assert_eq!(stranger.refusal(), "it does not know the shared secret");
    assert!(here.handle.links().is_empty());
    let guest = Peers::start(unborn, guest, std::slice::from_ref(&at), secret());
    here.wait_linked(&[5]);
    guest.wait_linked(&[1]);
    guest.sockets.stop();
    here.wait_unlinked(5);
    // The list of the state may not have it yet. Born, it is at the level of the birth at first.
    here.handle.set_servers(Vec::new(), BTreeSet::new());
    let guest = listener();
    let url = format!("http://127.0.0.1:{}", port(&guest));
    let level = Some(Level::FIRST.into());
    let newborn = Hello { level, known: Known::up_to(Level::MEMBERS), ..born(5, 7) };
    let newborn = newborn.with_peer_urls(vec![url], String::new()).expect("it has room for them");
    let guest = Peers::start(newborn, guest, &[at], secret());
    here.wait_linked(&[5]);
    guest.wait_linked(&[1]);
    guest.sockets.stop();
    here.sockets.stop();
}
