use super::*;
use crate::peer_sockets::PeerAddress;

fn server(number: u64, port: u16) -> PeerServer {
    let addresses = vec![PeerAddress { host: "h".to_string(), port }];
    PeerServer { number, addresses, peer_urls: vec![format!("http://h:{port}")] }
}

#[test]
fn a_list_that_is_equal_changes_nothing_and_kept_servers_stay_the_same() {
    let list = ServerList::new(1);
    let replace = |servers: &[PeerServer]| {
        let mut has_changed = false;
        list.replace(servers.to_vec(), |_| has_changed = true);
        has_changed
    };
    assert!(!replace(&[]));
    assert!(replace(&[server(2, 1), server(3, 1)]));
    let (second, third) = (list.get(2).expect("is listed"), list.get(3).expect("is listed"));
    let followed = list.subscribe();
    assert!(!replace(&[server(3, 1), server(2, 1)]));
    assert!(!followed.has_changed().expect("the list is there"));
    assert!(replace(&[server(2, 2), server(3, 1)]));
    assert!(followed.has_changed().expect("the list is there"));
    let moved = list.get(2).expect("is listed");
    assert_eq!(moved.server, server(2, 2));
    assert!(Arc::ptr_eq(&moved.seen, &second.seen), "whoever waits is still notified");
    assert!(Arc::ptr_eq(&list.get(3).expect("is listed"), &third));
    assert!(replace(&[server(4, 1)]));
    assert_eq!((list.numbers(), list.has(3)), (vec![4], false));
    // This server may be on its list, and is not among the others.
    assert!(replace(&[server(1, 1), server(4, 1)]));
    assert_eq!((list.numbers(), list.has(1), list.peer_urls().len()), (vec![4], false, 2));
}

#[test]
fn links_end_in_time_unless_their_server_is_listed_again() {
    let begin = Instant::now();
    let at = |seconds| begin + Duration::from_secs(seconds);
    let mut departures = Departures::new(Duration::from_secs(10));
    let mut due = |unlisted: &[u64], now| {
        let due = departures.due(&unlisted.iter().copied().collect(), at(now));
        (due, departures.next_end())
    };
    assert_eq!(due(&[], 0), (vec![], None));
    assert_eq!(due(&[2, 3], 1), (vec![], Some(at(11))));
    assert_eq!(due(&[2, 3, 4], 5), (vec![], Some(at(11))));
    // Server 2 is listed again.
    assert_eq!(due(&[3, 4], 6), (vec![], Some(at(11))));
    assert_eq!(due(&[2, 3, 4], 7), (vec![], Some(at(11))));
    assert_eq!(due(&[2, 3, 4], 11), (vec![3], Some(at(15))));
    // The links of server 3 are gone.
    assert_eq!(due(&[2, 4], 17), (vec![2, 4], None));
}
