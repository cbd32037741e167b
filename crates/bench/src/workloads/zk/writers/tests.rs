use super::*;
use crate::servers::null_server::NullServer;
use crate::servers::target::Target;
use crate::workloads::zk::tree::TreeArgs;

const ARGS: TreeArgs = TreeArgs { parents: 1, children: 3, size: 20, clients: 1, keep: false };

fn found(number: u64, version: u64) -> Option<Found> {
    Some(Found { number, version })
}

/// Three sets were acknowledged, the newest with number 4; two sets had no answer.
#[test]
fn what_is_there_is_held_against_what_was_acknowledged() {
    let writer = Writer { sent: 5, acknowledged: 3, newest: 4, unknown: 2, ..Writer::default() };
    let due = Account { acknowledged: 3, unknown: 2, ..Account::default() };
    for (found, expected) in [
        (found(4, 3), due),
        (found(4, 4), Account { unknown_that_happened: 1, ..due }),
        (found(5, 5), Account { unknown_that_happened: 2, ..due }),
        (found(5, 6), Account { unknown_that_happened: 2, surplus: 1, ..due }),
        (found(4, 2), Account { lost: 1, ..due }),
        (found(0, 0), Account { lost: 3, ..due }),
        // A set without an answer was executed after the newest acknowledged one, and with an older
        // number.
        (found(3, 4), Account { lost: 1, unknown_that_happened: 1, ..due }),
        (None, Account { silent: 1, ..due }),
    ] {
        let account = add(Account::default(), &Writer { found, ..writer.clone() });
        assert_eq!(account, expected, "{found:?}");
        assert_eq!(account.trouble() > 0, account.note().is_some());
    }
}

fn target() -> (NullServer, Target) {
    let null = NullServer::start(ARGS.size).unwrap();
    let target = null.target();
    (null, target)
}

/// The null server acknowledges every set and keeps none.
#[test]
fn a_server_that_keeps_nothing_is_found_out() {
    let (_null, target) = target();
    let mut driver = Driver::connect(&target.addresses, 3, 10_000).unwrap();
    let tree = Tree::new(&ARGS, "t");
    let stages = Stages::start();
    let mut writers = Writers::new(&tree, &stages);
    stages.next();
    stages.end(true);
    let account = writers.run(&mut driver).unwrap();
    assert_eq!((account.acknowledged, account.lost), (3, 3));
    assert_eq!((account.unknown, account.surplus, account.silent), (0, 0, 0));
    assert_eq!((writers.tallies[0].acknowledged, writers.tallies[1].acknowledged), (0, 3));
    assert_eq!(writers.gaps(1).count(), 3);
    assert_eq!(stages.durations().len(), 2);
}

#[test]
fn nobody_waits_when_what_was_planned_fails() {
    let (_null, target) = target();
    let mut driver = Driver::connect(&target.addresses, 3, 10_000).unwrap();
    let tree = Tree::new(&ARGS, "t");
    let stages = Stages::start();
    stages.end(false);
    let account = Writers::new(&tree, &stages).run(&mut driver).unwrap();
    assert_eq!(account, Account { silent: 3, ..Account::default() });
}

#[test]
fn what_goes_wrong_is_counted_by_its_kind() {
    let lost = |why: &str| SessionError::Lost(why.to_string());
    let mut troubles = Troubles::default();
    for (error, was_open) in [
        (lost("by the server"), true),
        (lost("by the server"), true),
        (lost("refused"), false),
        (SessionError::Refused, false),
    ] {
        troubles.add(&Loss { error, was_open, unanswered: 1 });
    }
    assert_eq!(troubles.connections_lost, 2);
    assert_eq!((troubles.attempts_failed, troubles.sessions_expired), (1, 1));
    let kinds = "attempt failed (refused) 1, connection lost (by the server) 2, session expired 1";
    assert_eq!(troubles.kinds(), kinds);
    let mut twice = troubles.clone();
    twice.add_all(&troubles);
    assert_eq!(twice.by_kind["connection lost (by the server)"], 4);
    assert_eq!(Troubles::default().kinds(), "none");
}

/// Sessions that began at servers 0, 1 and 2 are acknowledged in turn. Server 0 is silent from 20
/// to 90 ns.
#[test]
fn gaps_are_told_apart_by_the_server_where_a_session_began() {
    let stages = Stages::start();
    let tree = Tree::new(&ARGS, "t");
    let mut writers = Writers::new(&tree, &stages);
    writers.places = vec![0, 1, 2];
    writers.last_ns = vec![None; 3];
    writers.tallies[0].server_gaps = vec![ServerGap::default(); 3];
    for (at, now_ns) in [(0, 20), (1, 30), (2, 55), (1, 60), (0, 90)] {
        writers.note_gaps(0, at, now_ns);
    }
    assert_eq!(writers.tallies[0].gap_ns, 30);
    let gap = |here_ns, elsewhere_ns| ServerGap { here_ns, elsewhere_ns };
    assert_eq!(writers.tallies[0].server_gaps, [gap(70, 25), gap(30, 35), gap(0, 30)]);
    for (writer, gap_ns) in writers.writers.iter_mut().zip([70, 30, 0]) {
        writer.gap_ns[0] = gap_ns;
    }
    assert_eq!(writers.gaps_of(0, |place| place == 0).max_us(), 0.07);
    assert_eq!(writers.gaps_of(0, |place| place != 0).count(), 2);
}
