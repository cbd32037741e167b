use super::*;
use crate::servers::null_server::NullServer;
use crate::workloads::zk::client::SessionError;
use crate::workloads::zk::tree::TreeArgs;

#[test]
fn a_gap_counts_for_the_stages_that_it_touches() {
    let mut gaps = ClientGaps::new(2, 100);
    gaps.on_reply(0, 0, 130);
    gaps.on_reply(1, 0, 110);
    gaps.on_reply(1, 0, 150);
    // Client 0 has no answer from 130 to 220; the first stage ends at 170.
    gaps.end_stage(0, 170);
    gaps.on_reply(1, 1, 180);
    gaps.on_reply(0, 1, 220);
    gaps.end_stage(1, 225);
    let of = |stage, client| gaps.longest_ns(stage, |it| it == client);
    assert_eq!([of(0, 0), of(0, 1)], [Some(40), Some(40)]);
    assert_eq!([of(1, 0), of(1, 1)], [Some(90), Some(45)]);
    assert_eq!(gaps.longest_ns(1, |_| true), Some(90));
    assert_eq!(gaps.longest_ns(1, |_| false), None);
}

#[test]
fn a_client_that_is_never_answered_has_a_gap_in_each_stage() {
    let mut gaps = ClientGaps::new(1, 0);
    gaps.end_stage(0, 50);
    gaps.end_stage(1, 80);
    assert_eq!([0, 1, 2].map(|stage| gaps.longest_ns(stage, |_| true)), [50, 80, 0].map(Some));
}

/// Two clients and 1,000 requests a second. Client 0 sends the requests 0, 2 and 4, client 1 sends
/// request 1, and its connection ends before the answer. The first stage ends when request 2 is
/// due, the second when request 5 is.
#[test]
fn requests_are_sent_when_they_are_due_until_the_last_stage_is_over() {
    const TREE: TreeArgs = TreeArgs { parents: 1, children: 9, size: 10, clients: 2, keep: false };
    let null = NullServer::with_children(TREE.size, TREE.children).unwrap();
    let driver = Driver::connect(&null.target().addresses, 2, 10_000).unwrap();
    let (tree, stages) = (Tree::new(&TREE, "t"), Stages::start());
    let mut steady = Steady::new(&tree, &stages, 1_000, (&driver, 3));
    let due_ns = core::array::from_fn::<u64, 7, _>(|index| steady.pace.due_ns(index as u64));
    let mut sessions = [Session::connect(1), Session::connect(1)];
    let mut next = |steady: &mut Steady<'_>, client: usize, now_ns| {
        steady.next(client, &mut sessions[client], now_ns)
    };
    assert_eq!(next(&mut steady, 0, due_ns[0] - 1), Next::At(due_ns[0]));
    assert_eq!(next(&mut steady, 0, due_ns[0]), Next::Sent);
    assert_eq!(next(&mut steady, 1, due_ns[1]), Next::Sent);
    let error = SessionError::Lost("by the server".to_string());
    steady.on_lost(1, &Loss { error, was_open: true, unanswered: 1 }, due_ns[1]);
    stages.next();
    assert!(!steady.is_given_up(due_ns[2]));
    let header = ReplyHeader { xid: 1, zxid: 1, error: ErrorCode::OK };
    steady.on_reply(0, header, JuteReader::new(&[]), 3_000_000, due_ns[3]);
    stages.end(true);
    assert!(!steady.is_given_up(due_ns[5]));
    // It could not send for a while.
    for expected in [Next::Sent, Next::Sent, Next::Finished] {
        assert_eq!(next(&mut steady, 0, due_ns[6]), expected);
    }
    assert_eq!((steady.unanswered, steady.places_at.clone()), (1, vec![vec![0, 0], vec![0, 1]]));
    assert_eq!([0, 1].map(|stage| steady.answers[stage].acknowledged), [0, 1]);
    assert_eq!(steady.gap_ns(1, |place| place == 0), Some(due_ns[3] - due_ns[0]));
    assert_eq!(steady.gap_ns(1, |place| place == 1), Some(due_ns[5] - due_ns[0]));
    assert_eq!([steady.gap_ns(1, |place| place == 2), steady.gap_ns(2, |_| true)], [None, None]);
}
