//! Runs with etcd clients: all seeds pass, and together they reach everything that can happen to a
//! call.

use member::membership::bootstrap::Attendance;
use member::spaces::etcd::auto_compaction::AutoCompaction;
use sim::check::{HttpCounts, V2Counts};
use sim::etcd_clients::EtcdLoad;
use sim::etcd_clients::contender::{ContenderCounts, Prize};
use sim::etcd_clients::operator::OperatorCounts;
use sim::etcd_clients::users::UsersCounts;
use sim::fault::{Fault, FaultMix, Whom};
use sim::{EtcdCounts, Options, Summary};
use workload::generate::Random;

/// Seeds of one member.
const SEEDS_OF_ONE: std::ops::RangeInclusive<u64> = 5_001..=5_060;
const SEEDS_OF_THREE: std::ops::RangeInclusive<u64> = 2_001..=2_060;
const SEEDS_OF_FIVE: std::ops::RangeInclusive<u64> = 2_001..=2_040;

#[test]
fn runs_with_etcd_clients_reach_what_they_are_meant_to_reach() {
    let ones = SEEDS_OF_ONE.map(|seed| (seed, 1));
    let threes = SEEDS_OF_THREE.map(|seed| (seed, 3));
    let seeds = ones.chain(threes).chain(SEEDS_OF_FIVE.map(|seed| (seed, 5)));
    let (mut summaries, mut failures) = (Vec::new(), Vec::new());
    for (seed, member_count) in seeds.filter(|(seed, _)| EtcdLoad::draw(*seed).is_some()) {
        match sim::run_ensemble(seed, member_count) {
            Ok(summary) => summaries.push(summary),
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let of_all = |of: fn(&Summary) -> u64| summaries.iter().map(of).sum::<u64>();
    let count =
        |of: fn(&EtcdCounts) -> usize| summaries.iter().map(|it| of(&it.etcd) as u64).sum::<u64>();
    for (what, count) in [
        ("elections", of_all(|it| it.led_count as u64)),
        ("snapshots installed", of_all(|it| it.snapshots.fetched)),
        ("levels raised", of_all(|it| it.levels.raised_us.is_some().into())),
        ("writes", count(|it| it.writes.done)),
        ("transactions", count(|it| it.writes.txns)),
        ("compactions", count(|it| it.writes.compactions)),
        ("writes that the store refused", count(|it| it.writes.refused)),
        ("calls refused before the log", count(|it| it.writes.never_logged)),
        ("reads", count(|it| it.reads.done)),
        ("reads that the store refused", count(|it| it.reads.refused)),
        ("writes of unknown fate that took effect", count(|it| it.writes.unknown_done)),
        ("writes of unknown fate that did not", count(|it| it.writes.unknown_not_done)),
        ("calls that a low level refuses", count(|it| it.failures.not_capable)),
        ("reads in several pieces", count(|it| it.reads.streamed)),
        ("reads that a compaction ended between two pieces", count(|it| it.reads.streams_cut)),
        ("leases", count(|it| it.leases.granted)),
        ("leases that ended by time", count(|it| it.leases.expired)),
        ("keep-alives with a time", count(|it| it.leases.kept)),
        ("questions about leases that do not exist", count(|it| it.leases.unknown)),
        ("lists of members", count(|it| it.operator.lists)),
        ("answers of members about themselves", count(|it| it.operator.statuses)),
        ("moves of leadership", count(|it| it.operator.moves)),
        ("moves that were refused", count(|it| it.operator.moves_refused)),
        ("hashes that were compared", count(|it| it.operator.hashes_compared)),
        ("refused changes of members", count(|it| it.operator.unchangeable)),
        ("questions of operators without an answer", count(|it| it.operator.lost)),
        ("watches", count(|it| it.watches.created)),
        ("refused watches", count(|it| it.watches.refused)),
        ("resumed watches", count(|it| it.watches.resumed)),
        ("cancelled watches", count(|it| it.watches.cancelled)),
        ("events", count(|it| it.watches.events)),
        ("responses in fragments", count(|it| it.watches.fragmented)),
        ("watches that fell behind", count(|it| it.watches.behind)),
        ("watches that end as compacted", count(|it| it.watches.compacted)),
        ("watches that a compaction overtook", count(|it| it.watches.overtaken)),
        ("promises to one watch", count(|it| it.watches.promises)),
        ("promises to a stream", count(|it| it.watches.promises_of_all)),
        ("watches that outlived an install", count(|it| it.watches.outlived_installs)),
        ("streams that ended without a leader", count(|it| it.watches.leaderless)),
        ("locks held", count(|it| it.locks.holds)),
        ("holds that outlived their session", count(|it| it.locks.outlived)),
        ("guarded writes", count(|it| it.locks.guarded)),
        ("guarded writes without a hold", count(|it| it.locks.fenced)),
        ("leaders shown", count(|it| it.locks.shown)),
        ("waits for a lock", count(|it| it.contenders.waits)),
        ("turns that a service waited for", count(|it| it.contenders.served)),
        ("calls of services that were given up", count(|it| it.contenders.given_up)),
        ("calls of services by holders", count(|it| it.contenders.repeated)),
        ("waits for a lock that a compaction ended", count(|it| it.contenders.waits_compacted)),
        ("sessions that are over", count(|it| it.contenders.sessions_over)),
        ("deaths", count(|it| it.contenders.deaths)),
        ("changes of users and roles", count(|it| it.users.changes)),
        ("calls that users may not make", count(|it| it.users.denied)),
        ("pauses", count(|it| it.contenders.pauses)),
    ] {
        assert!(count > 0, "no {what}");
    }
}

/// A run of three members with etcd clients that wait for each result. Only these faults come.
fn calling(seed: u64, faults: Vec<(u64, Whom, Fault)>) -> EtcdCounts {
    let options = options_of_calls(seed, faults);
    sim::run(options).unwrap_or_else(|failure| panic!("{failure}")).etcd
}

fn options_of_calls(seed: u64, faults: Vec<(u64, Whom, Fault)>) -> Options {
    let mut options = Options::draw_ensemble(seed, 3);
    options.begins_unborn = false;
    options.member.attendance = Attendance::All;
    options.builds = None;
    let mut load = EtcdLoad::new(Random::new(seed));
    load.clients.truncate(1);
    load.clients.resize(4, load.clients[0].clone());
    for client in &mut load.clients {
        client.ops = 300;
        client.calls_max = 4;
        client.think_us_max = 2_000_000;
        client.patience_us_max = 60_000_000;
        client.is_erratic = false;
        client.watches_max = 6;
    }
    load.auto_compaction = AutoCompaction::Periodic { ms: 3_000 };
    options.etcd = Some(load);
    options.faults = FaultMix::planned_for(faults);
    options.faults_us = 60_000_000;
    options
}

/// Without faults, an operator moves leadership and members give equal hashes.
#[test]
fn an_operator_moves_leadership_and_compares_hashes() {
    let run = |seed| {
        let mut options = options_of_calls(seed, Vec::new());
        let load = options.etcd.as_mut().expect("it was just made");
        load.add_operator(Random::new(seed));
        load.clients.iter_mut().filter_map(|it| it.operates.as_mut()).for_each(|operates| {
            operates.calls = 200;
            operates.rest_us_max = 200_000;
        });
        sim::run(options).unwrap_or_else(|failure| panic!("{failure}")).etcd.operator
    };
    let mut counts = OperatorCounts::default();
    (1..=5).for_each(|seed| counts.add(&run(seed)));
    assert!(counts.moves > 10, "{counts:?}");
    assert!(counts.moves_refused > 10, "{counts:?}");
    assert!(counts.hashes_compared > 10, "{counts:?}");
    assert!(counts.unchangeable > 10, "{counts:?}");
}

/// Full disks make members refuse the writes of etcd clients until there is room.
#[test]
fn writes_are_refused_while_the_disks_are_full() {
    let full = Fault::DiskFull { bytes: 0, for_us: 20_000_000 };
    let faults = || (0..3).map(|at| (6_000_000 * u64::from(at == 0) + 1, Whom::one(at), full));
    let counts = (1..=5).map(|seed| calling(seed, faults().collect()));
    let counts: Vec<EtcdCounts> = counts.collect();
    assert!(counts.iter().any(|counts| counts.failures.no_space > 0));
    assert!(counts.iter().all(|counts| counts.writes.done > 0));
}

/// Without a quorum, a call ends after 7 s. A write that no leader got certainly failed; the fate
/// of a write that a leader got is unknown.
#[test]
fn calls_without_a_quorum_are_given_up_with_their_fates() {
    let cut = Fault::Partition { is_one_way: false, for_us: 20_000_000 };
    let (one, other) = ((6_000_000, Whom::one(0), cut), (1, Whom::one(1), cut));
    let counts: Vec<EtcdCounts> = (1..=5).map(|seed| calling(seed, vec![one, other])).collect();
    let count = |of: fn(&EtcdCounts) -> usize| counts.iter().map(of).sum::<usize>();
    assert!(count(|it| it.failures.no_leader) > 0);
    assert!(count(|it| it.failures.timed_out) > 0);
    assert!(count(|it| it.writes.done) > 0);
}

/// Streams that require a leader end at a member that is cut off, and only there.
#[test]
fn streams_that_require_a_leader_end_at_a_member_that_is_cut_off() {
    let cut = Fault::Partition { is_one_way: false, for_us: 30_000_000 };
    let counts = (1..=5).map(|seed| calling(seed, vec![(6_000_000, Whom::one(0), cut)]).watches);
    assert!(counts.map(|it| it.leaderless).sum::<usize>() > 0);
    let counts = (1..=5).map(|seed| calling(seed, Vec::new()).watches);
    assert_eq!(counts.map(|it| it.leaderless).sum::<usize>(), 0);
}

/// When the leader pauses, clients of the next leader wait only for a moment, and their calls are
/// answered.
#[test]
fn calls_go_on_under_the_next_leader() {
    let pause = Fault::Pause { for_us: 30_000_000 };
    for seed in 1..=5 {
        let counts = calling(seed, vec![(6_000_000, Whom::Leader, pause)]);
        assert!(counts.writes.done > 100, "seed {seed}: {counts:?}");
        // Clients compact, too, and more often than leaders.
        assert!(counts.writes.own_compactions > 0, "seed {seed}: {counts:?}");
    }
}

/// For a while a member hears its leader but nothing that it sends gets through. Its link holds
/// messages with calls that clients give up meanwhile, and delivers them to the leader seconds
/// later.
#[test]
fn a_call_that_a_link_holds_may_take_effect_when_the_link_carries_again() {
    for seed in 1..=20 {
        let cut = Fault::Partition { is_one_way: true, for_us: 5_000_000 };
        let mut options = options_of_calls(seed, vec![(6_000_000, Whom::Follower, cut)]);
        for client in &mut options.etcd.as_mut().unwrap().clients {
            client.patience_us_max = 500_000;
            client.is_erratic = true;
        }
        let counts = sim::run(options).unwrap_or_else(|failure| panic!("{failure}")).etcd;
        assert!(counts.writes.unknown_done > 0, "seed {seed}: {counts:?}");
    }
}

/// Seeds that found a bug in runs where all clients had leases: the seed and the number of members.
/// `quorate sim` cannot repeat them.
const SEEDS_WITH_LEASES: [(u64, usize); 3] = [
    // A sync hung for 15 s after the faults had stopped, and the judge expected all leases to end
    // before.
    (301_061, 5),
    // A link held a message with a given-up call, and the judge considered only the leader's
    // trouble.
    (301_707, 5),
    // A leader ended a lease while a renewal of it waited for Apply.
    (109, 3),
];

#[test]
fn seeds_with_leases_that_found_something_pass() {
    for (seed, member_count) in SEEDS_WITH_LEASES {
        let mut options = Options::draw_ensemble(seed, member_count);
        options.etcd = Some(EtcdLoad { leases: true, ..EtcdLoad::new(Random::new(seed)) });
        sim::run(options).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// Seeds that found a bug in runs where some clients wanted locks: the seed, the number of members,
/// and the seed of these clients. `quorate sim` cannot repeat them.
const SEEDS_WITH_LOCKS: [(u64, usize, u64); 3] = [
    // After a link broke, the leader had a learner removed and then added again. The learner got a
    // vote and submitted a command before it applied its removal.
    (11_335, 5, 11_274),
    // A stream ended at a member without a leader after its client had all promises, and the judge
    // counted the wait for the next promise from an earlier time.
    (31_710, 3, 31_710),
    // A member became leader 9 s after the faults had stopped, and the judge expected all leases
    // without a client to end 6 s later.
    (30_627, 5, 30_627),
];

#[test]
fn seeds_with_locks_that_found_something_pass() {
    for (seed, member_count, of_contenders) in SEEDS_WITH_LOCKS {
        let mut options = Options::draw_ensemble(seed, member_count);
        let mut load = EtcdLoad::new(Random::new(seed));
        load.add_contenders(Random::new(of_contenders));
        options.etcd = Some(load);
        sim::run(options).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// A run in which some clients get their locks through the `Lock` and `Election` services.
fn served(seed: u64, member_count: usize) -> Result<Summary, String> {
    let mut options = Options::draw_ensemble(seed, member_count);
    let mut load = EtcdLoad::new(Random::new(seed));
    load.add_contenders(Random::new(seed));
    for contends in load.clients.iter_mut().filter_map(|client| client.contends.as_mut()) {
        contends.is_served = true;
    }
    options.etcd = Some(load);
    sim::run(options).map_err(|failure| failure.to_string())
}

/// Seeds that found a bug in runs of [`served`]: the seed and the number of members. `quorate sim`
/// cannot repeat them.
const SEEDS_SERVED: [(u64, usize); 1] = [
    // A cancelled `Campaign` call deleted a key that a later call of the same lease, at another
    // member, was waiting with. That later call then reported that its client leads.
    (1_115, 5),
];

#[test]
fn seeds_with_services_that_found_something_pass() {
    for (seed, member_count) in SEEDS_SERVED {
        served(seed, member_count).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// Clients cancel calls at any moment, repeat them at another member, and repeat calls while they
/// hold. No hold is lost.
#[test]
fn services_pass_locks_on_though_clients_give_up_and_repeat_calls() {
    let mut all = [0; 4];
    for seed in 1..=12 {
        let summary = served(seed, [1, 3, 5][seed as usize % 3]);
        let EtcdCounts { contenders, locks, .. } = summary.unwrap_or_else(|it| panic!("{it}")).etcd;
        let ContenderCounts { served, given_up, repeated, .. } = contenders;
        let counts = [served, given_up, repeated, locks.guarded];
        all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
    }
    assert!(all.iter().all(|count| *count > 20), "{all:?}");
}

/// A run of three members with four clients that want one lock (or, for every other seed, one
/// election) and hold for at most `hold_us_max`. Only these faults come.
fn contending(seed: u64, hold_us_max: u64, faults: Vec<(u64, Whom, Fault)>) -> EtcdCounts {
    let mut options = options_of_calls(seed, faults);
    let load = options.etcd.as_mut().expect("there are clients of etcd");
    load.clients.clear();
    load.add_contenders(Random::new(seed));
    load.clients.resize(4, load.clients[0].clone());
    for (number, client) in load.clients.iter_mut().enumerate() {
        client.is_erratic = false;
        client.patience_us_max = 60_000_000;
        let contends = client.contends.as_mut().expect("each client wants a lock");
        contends.seed ^= number as u64;
        contends.prize = if seed.is_multiple_of(2) { Prize::Lock } else { Prize::Election };
        contends.turns = 100;
        contends.ttl_s = 4;
        contends.hold_us_max = hold_us_max;
        contends.accident_us_max = None;
    }
    sim::run(options).unwrap_or_else(|failure| panic!("{failure}")).etcd
}

/// A new leader gives each lease its full time again, so holders keep their locks, and locks are
/// passed on under it.
#[test]
fn locks_are_passed_on_under_the_next_leader() {
    for seed in 1..=10 {
        let kill = |wait_us: u64| (wait_us, Whom::Leader, Fault::Kill);
        let kills = vec![kill(6_000_000), kill(15_000_000), kill(15_000_000)];
        let counts = contending(seed, 1_000_000, kills);
        assert!(counts.locks.holds > 50, "seed {seed}: {counts:?}");
        assert!(counts.contenders.waits > 50, "seed {seed}: {counts:?}");
    }
}

/// A client at a member that is cut off for longer than its lease stops believing that it holds,
/// and its later writes fail.
#[test]
fn a_holder_at_a_member_that_is_cut_off_loses_its_lock_to_another() {
    let cut = |number: usize| {
        let cut = Fault::Partition { is_one_way: false, for_us: 9_000_000 };
        (10_000_000, Whom::one(number), cut)
    };
    let cuts = vec![cut(0), cut(1), cut(2), cut(0)];
    let counts = (1..=20).map(|seed| contending(seed, 20_000_000, cuts.clone()));
    let counts: Vec<EtcdCounts> = counts.collect();
    let count = |of: fn(&EtcdCounts) -> usize| counts.iter().map(of).sum::<usize>();
    let found = [
        count(|it| it.locks.holds),
        count(|it| it.locks.outlived),
        count(|it| it.locks.fenced),
        count(|it| it.contenders.sessions_over),
    ];
    assert!(found.iter().all(|count| *count > 5), "{found:?}");
}

/// Options for three members with etcd clients, one of which changes users and roles and makes
/// calls as them. The drawn faults come as well.
fn with_users(seed: u64) -> Options {
    let mut options = Options::draw_ensemble(seed, 3);
    let mut load = EtcdLoad::new(Random::new(seed));
    load.add_users(Random::new(seed));
    options.etcd = Some(load);
    options
}

#[test]
fn users_may_do_what_they_are_permitted_to() {
    let mut all = UsersCounts::default();
    // Some things happen in few runs only.
    for seed in 1..=1_000 {
        let summary = sim::run(with_users(seed)).unwrap_or_else(|failure| panic!("{failure}"));
        all.add(&summary.etcd.users);
        if seed >= 40 && users_met(&all).iter().all(|(_, count)| *count > 0) {
            return;
        }
    }
    panic!("something has not happened: {:?}", users_met(&all));
}

/// Everything that should happen to users, with its count.
fn users_met(all: &UsersCounts) -> [(&'static str, usize); 9] {
    [
        ("changes", all.changes),
        ("tokens", all.tokens),
        ("permitted calls", all.permitted),
        ("denied calls", all.denied),
        ("calls of nobody", all.nobody),
        ("calls with tokens of before", all.invalid),
        ("calls with tokens that were unused for long", all.expired),
        ("refused watches", all.watches_refused),
        ("changes of unknown fate", all.unknown),
    ]
}

/// The first of two actors switches the enforcement of permissions, and the second one must find
/// that out.
#[test]
fn two_actors_change_users_at_once() {
    let mut all = UsersCounts::default();
    for seed in 1..=60 {
        let mut options = with_users(seed);
        let load = options.etcd.as_mut().expect("there are clients of etcd");
        load.add_users(Random::new(seed + 1_000));
        let summary = sim::run(options).unwrap_or_else(|failure| panic!("{failure}"));
        all.add(&summary.etcd.users);
    }
    let common = [all.changes, all.tokens, all.permitted, all.denied, all.nobody, all.invalid];
    assert!(common.iter().all(|count| *count > 300) && all.unknown > 20, "{all:?}");
    // Few doubts are dropped because of what the other actor may have done.
    assert!(all.unsure > 0 && all.unsure < all.denied / 4, "{all:?}");
}

/// A member that applies everything late gets calls of users that it does not know yet, or knows in
/// an older state.
#[test]
fn users_have_their_permissions_at_a_member_that_lags() {
    let mut all = UsersCounts::default();
    for seed in 1..=10 {
        let slow = Fault::SlowApply { lag_us: 3_000_000, for_us: 60_000_000 };
        let mut options = options_of_calls(seed, vec![(3_000_000, Whom::one(1), slow)]);
        let load = options.etcd.as_mut().expect("there are clients of etcd");
        load.add_users(Random::new(seed));
        for client in &mut load.clients {
            if let Some(users) = &mut client.users {
                (users.calls, users.rest_us_max) = (600, 100_000);
            }
        }
        let summary = sim::run(options).unwrap_or_else(|failure| panic!("{failure}"));
        all.add(&summary.etcd.users);
    }
    assert!(all.old > 5 && all.permitted > 100 && all.invalid > 100, "{all:?}");
}

/// Options with etcd v2 clients beside those of v3. The drawn faults come as well.
fn with_v2(seed: u64, member_count: usize) -> Options {
    let mut options = match member_count {
        1 => Options::draw(seed),
        _ => Options::draw_ensemble(seed, member_count),
    };
    let mut load = EtcdLoad::new(Random::new(seed));
    load.add_v2(Random::new(seed));
    (options.etcd, options.builds) = (Some(load), None);
    options
}

#[test]
fn clients_of_etcd_v2_meet_all_that_may_happen() {
    let mut all = V2Counts::default();
    for (seed, member_count) in (1..=100).map(|seed| (seed, [1, 3, 5][seed as usize % 3])) {
        let summary = sim::run(with_v2(seed, member_count));
        let counts = summary.unwrap_or_else(|failure| panic!("{failure}")).etcd.v2;
        all.add(&counts);
    }
    for (what, count) in [
        ("writes", all.written),
        ("comparisons", all.compared),
        ("refusals", all.refused),
        ("reads", all.read),
        ("writes of unknown fate", all.unknown_done),
        ("ends of times to live", all.expired),
        ("events of waits", all.shown),
    ] {
        assert!(count > 20, "{what}: {all:?}");
    }
}

/// Etcd v2 clients make more events than the history keeps, and some of them wait so seldom that
/// the history no longer has the next event that they ask for.
#[test]
fn waits_of_etcd_v2_are_refused_for_events_that_are_gone() {
    let mut all = V2Counts::default();
    for (seed, member_count) in (1..=30).map(|seed| (seed, [1, 3, 5][seed as usize % 3])) {
        let mut options = with_v2(seed, member_count);
        options.faults_us = options.faults_us.max(60_000_000);
        let load = options.etcd.as_mut().expect("there are clients of etcd");
        load.lengthen_v2(Random::new(seed));
        let summary = sim::run(options).unwrap_or_else(|failure| panic!("{failure}"));
        all.add(&summary.etcd.v2);
    }
    assert!(all.gone > 1_000 && all.cleared > 5 && all.shown > 1_000, "{all:?}");
}

/// Clients of plain HTTP requests ask for health and members, and change users of etcd v2. Together
/// the runs must reach every kind of answer.
#[test]
fn requests_of_http_meet_all_that_may_happen() {
    let mut all = HttpCounts::default();
    for (seed, member_count) in (8_201..=8_240).zip([1, 3].into_iter().cycle()) {
        let mut options = Options::draw_ensemble(seed, member_count);
        let mut load = EtcdLoad::new(Random::new(seed));
        load.add_http(Random::new(seed));
        load.add_http(Random::new(seed + 1_000));
        let clients = load.clients.iter_mut().filter_map(|client| client.http.as_mut());
        clients.for_each(|http| http.has_users = true);
        (options.etcd, options.builds) = (Some(load), None);
        let summary = sim::run(options).unwrap_or_else(|failure| panic!("{failure}"));
        all.add(&summary.etcd.http);
    }
    let HttpCounts { health, members, changes, refused, denied, reads, unknown_done, .. } = all;
    let counts = [health.0, members, changes, refused, denied, reads];
    assert!(counts.iter().all(|count| *count > 10), "{all:?}");
    assert!(health.1 > 0 && unknown_done > 0 && all.overtaken > 0, "{all:?}");
}

/// Clients reach the quota, by bytes or by the limit of memory. An operator disarms the alarms, and
/// clients delete and compact.
#[test]
fn puts_are_refused_beyond_the_quota_until_there_is_room() {
    let (mut refused, mut alarms, mut disarmed, mut written) = (0, 0, 0, 0);
    for (seed, member_count) in (1..=40).map(|seed| (seed, [1, 3, 5][seed as usize % 3])) {
        let mut options = match member_count {
            1 => Options::draw(seed),
            _ => Options::draw_ensemble(seed, member_count),
        };
        let mut load = EtcdLoad { leases: true, ..EtcdLoad::new(Random::new(seed)) };
        load.limit_space(Random::new(seed));
        (options.etcd, options.builds) = (Some(load), None);
        let counts = sim::run(options).unwrap_or_else(|failure| panic!("{failure}")).etcd;
        refused += counts.failures.no_quota;
        alarms += counts.failures.alarms;
        disarmed += counts.failures.disarmed;
        written += counts.writes.done;
    }
    let found = [refused, alarms, disarmed, written];
    assert!(refused > 300 && alarms > 10 && disarmed > 5 && written > 1_000, "{found:?}");
}
