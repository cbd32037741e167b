//! Runs in which the simulated shell (the code around a member) or a client's messages have a
//! deliberate mistake: the judges must notice each mistake.

use member::membership::bootstrap::Attendance;
use replica::LogMemory;
use sim::build::{Ask, Build, Builds};
use sim::etcd_clients::EtcdLoad;
use sim::fault::{Fault, FaultMix, Whom};
use sim::links::Roughness;
use sim::server::{AuditSabotage, HttpSabotage, Sabotage, UserSabotage, V2Sabotage, WatchSabotage};
use sim::{LaterOps, Options};
use workload::generate::Random;

/// The seeds that are tried until one run notices the mistake. At present one of the first two
/// hundred does; which one depends on the times that elections take.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=1_000;

fn check_noticed(sabotage: Sabotage, why: &str) {
    check_noticed_where(sabotage, why, |_| {});
}

fn check_noticed_where(sabotage: Sabotage, why: &str, adapt: fn(&mut Options)) {
    let mut seeds = SEEDS;
    let noticed = seeds.find_map(|seed| {
        let mut options = Options::draw_ensemble(seed, 3);
        adapt(&mut options);
        options.member.sabotage = Some(sabotage);
        sim::run(options).err().filter(|failure| failure.reason.contains(why))
    });
    assert!(noticed.is_some(), "{sabotage:?} is not noticed");
}

#[test]
fn an_entry_that_is_acknowledged_before_it_is_durable_is_noticed() {
    check_noticed(Sabotage::PersistedTooEarly, "disks only");
}

#[test]
fn a_vote_that_is_forgotten_is_noticed() {
    // Processes end in turn, so that some end between two elections of one term.
    check_noticed_where(Sabotage::VotesForgotten, "both lead in term", |options| {
        options.begins_unborn = false;
        let kill = |number: usize| (600_000, Whom::one(number % 3), Fault::Kill);
        options.faults = FaultMix::planned_for((0..100).map(kill).collect());
        options.faults_us = 60_000_000;
        for client in &mut options.clients {
            client.ops = 400;
            client.think_us_max = 4_000_000;
        }
    });
}

#[test]
fn a_sync_that_is_answered_from_local_state_is_noticed() {
    check_noticed(Sabotage::SyncFromLocalState, "a sync is answered at ordinal");
}

#[test]
fn a_member_that_answers_without_contact_is_noticed() {
    // One member is cut off for longer than a session lives, and its clients hardly ever write: a
    // client that writes notices that it gets no answer.
    check_noticed_where(Sabotage::ContactIgnored, "was written to at", |options| {
        options.begins_unborn = false;
        let cut = Fault::Partition { is_one_way: false, for_us: 60_000_000 };
        options.faults = FaultMix::planned_for(vec![(3_000_000, Whom::one(0), cut)]);
        options.faults_us = 60_000_000;
        for client in &mut options.clients {
            client.ops = 20;
            client.think_us_max = 60_000_000;
            client.timeout_ms = 4 * options.member.options.spaces.zk.tick_ms as u32;
            client.is_erratic = false;
        }
    });
}

#[test]
fn a_batch_that_is_applied_twice_is_noticed() {
    check_noticed(Sabotage::BatchesDoubled, "which the client did not send");
}

/// Makes the disk of each member full for a while, one after the other, with room before and after.
fn with_full_disks(options: &mut Options) {
    options.begins_unborn = false;
    let full = Fault::DiskFull { bytes: 0, for_us: 5_000_000 };
    let of = |member: usize| (5_000_000, Whom::one(member), full);
    options.faults = FaultMix::planned_for((0..3).map(of).collect());
    options.faults_us = 60_000_000;
    for client in &mut options.clients {
        client.ops = 400;
        client.think_us_max = 1_000_000;
    }
}

#[test]
fn a_write_that_is_refused_though_there_is_room_is_noticed() {
    check_noticed_where(Sabotage::RoomDenied, "was refused without need", with_full_disks);
}

#[test]
fn a_call_of_etcd_that_is_refused_though_there_is_room_is_noticed() {
    let why = "was refused for want of space at";
    check_noticed_where(Sabotage::RoomDenied, why, |options| {
        with_full_disks(options);
        // A ZooKeeper write would be found first.
        options.clients.clear();
        options.etcd = Some(EtcdLoad::new(Random::new(options.seed)));
    });
}

#[test]
fn a_condemned_member_that_goes_on_is_noticed() {
    check_noticed_where(Sabotage::CondemnedIgnored, "is not found out", |options| {
        options.begins_unborn = false;
        options.faults = FaultMix::planned_for(vec![(3_000_000, Whom::one(0), Fault::WrongState)]);
        options.faults_us = 60_000_000;
        for client in &mut options.clients {
            client.ops = 400;
            client.think_us_max = 400_000;
        }
    });
}

#[test]
fn a_vote_of_a_directory_that_was_emptied_is_noticed() {
    // One member is cut off, a second one loses its directory, the third is paused. The first two
    // must not form a quorum without all entries; they could only if the second one voted as if it
    // still had its own.
    check_noticed_where(Sabotage::OldIdAgain, "leads in term", |options| {
        let cut = Fault::Partition { is_one_way: false, for_us: 5_000_000 };
        let sleeps = Fault::Pause { for_us: 30_000_000 };
        options.begins_unborn = false;
        options.faults = FaultMix::planned_for(vec![
            (3_000_000, Whom::one(0), cut),
            (4_500_000, Whom::one(2), sleeps),
            (100_000, Whom::one(1), Fault::EmptiedDisk),
        ]);
        options.faults_us = 60_000_000;
        for client in &mut options.clients {
            client.ops = 400;
            client.think_us_max = 400_000;
        }
    });
}

/// Options for servers that agree on a birth. The first one, which makes the attempt, ends at one
/// of its disk operations and stays away for a while; later the others end.
fn begin_in_trouble(options: &mut Options) {
    options.begins_unborn = true;
    options.member.attendance = Attendance::AnyMajority;
    options.stop_at = Some((1 + options.seed % 80, options.seed.is_multiple_of(3)));
    let trouble = |number: usize| match number % 2 {
        0 => (500_000, Whom::one(number / 2 % 3), Fault::Kill),
        _ => (500_000, Whom::one(number / 4 % 3), Fault::PowerLoss),
    };
    options.faults = FaultMix::planned_for((0..40).map(trouble).collect());
    options.faults_us = 60_000_000;
}

#[test]
fn an_ensemble_that_begins_in_trouble_begins_once() {
    for seed in 1..=200 {
        let mut options = Options::draw_ensemble(seed, 3);
        begin_in_trouble(&mut options);
        sim::run(options).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn two_births_are_noticed() {
    let why = "is born to another ensemble";
    check_noticed_where(Sabotage::TwoBirths, why, begin_in_trouble);
}

/// Clients ping and hardly ever write, so only their pings keep the sessions alive. The network
/// sometimes loses a frame; the judge must not take that as an excuse for a session that expires
/// too early.
#[test]
fn a_renewal_that_is_omitted_is_noticed_in_a_rough_network() {
    check_noticed_where(Sabotage::RenewalsOmitted, "us of silence", |options| {
        let roughness = Roughness { lost_one_in: 100, doubled_one_in: 100, early_one_in: 100 };
        let rough = Fault::RoughLinks { roughness, for_us: 60_000_000 };
        options.begins_unborn = false;
        options.faults = FaultMix::planned_for(vec![(1_000_000, Whom::one(0), rough)]);
        options.faults_us = 60_000_000;
        for client in &mut options.clients {
            client.ops = 20;
            client.think_us_max = 60_000_000;
            client.timeout_ms = 4 * options.member.options.spaces.zk.tick_ms as u32;
            client.is_erratic = false;
        }
    });
}

/// A member that is cut off must stop answering. A slow link between the two other members is no
/// excuse if it does not.
#[test]
fn a_member_that_answers_without_contact_is_noticed_beside_a_slow_link() {
    check_noticed_where(Sabotage::ContactIgnored, "was written to at", |options| {
        options.begins_unborn = false;
        let cut = Fault::Partition { is_one_way: false, for_us: 60_000_000 };
        let slow = Fault::SlowLinks {
            one_in: 4,
            bytes_per_s: 1_000_000,
            latency_us: 1_000,
            for_us: 60_000_000,
        };
        let all = Whom::Members(0b111);
        options.faults =
            FaultMix::planned_for(vec![(2_000_000, all, slow), (1_000_000, Whom::one(0), cut)]);
        options.faults_us = 60_000_000;
        for client in &mut options.clients {
            client.ops = 20;
            client.think_us_max = 60_000_000;
            client.timeout_ms = 4 * options.member.options.spaces.zk.tick_ms as u32;
            client.is_erratic = false;
        }
    });
}

#[test]
fn a_change_that_a_watch_is_not_told_is_noticed() {
    check_noticed(Sabotage::ChangesLost, "the reply to operation");
}

#[test]
fn a_reply_before_the_event_that_it_shows_is_noticed() {
    check_noticed(Sabotage::AnswersFirst, "the reply to operation");
}

/// The clients set persistent watches, because no other watch can fire twice.
#[test]
fn a_change_that_a_watch_is_told_twice_is_noticed() {
    check_noticed_where(Sabotage::ChangesDoubled, "came, due was", |options| {
        options.later_ops = LaterOps { lasting_watches: Some(options.seed), ..LaterOps::default() };
    });
}

#[test]
fn a_write_without_permission_that_is_done_is_noticed() {
    check_noticed_where(Sabotage::EveryoneIdentified, "error -102", |options| {
        options.later_ops = LaterOps { users: Some(options.seed), ..LaterOps::default() };
    });
}

#[test]
fn an_event_that_the_watcher_may_not_see_is_noticed() {
    check_noticed_where(Sabotage::EveryoneIdentified, "came, due was", |options| {
        options.later_ops = LaterOps { private_znodes: Some(options.seed), ..LaterOps::default() };
    });
}

#[test]
fn a_member_that_takes_more_than_it_may_is_noticed() {
    check_noticed_where(Sabotage::CreditIgnored, "commands are under way, at most", |options| {
        options.later_ops = LaterOps { throttles: Some(options.seed), ..LaterOps::default() };
    });
}

/// The member takes the length in the frame for good and waits for bytes that never come, and the
/// client waits for the end of the connection; so the run does not finish.
#[test]
fn a_frame_that_is_too_long_and_does_not_end_the_connection_is_noticed() {
    check_noticed_where(Sabotage::FrameBoundIgnored, "do not finish", |options| {
        options.later_ops = LaterOps { bad_frames: Some(options.seed), ..LaterOps::default() };
        options.faults = FaultMix::none();
        options.faults_us = 1;
    });
}

/// Such a connection shows because its Front still holds the part of a frame that arrived last, or
/// output that cannot be sent.
#[test]
fn a_connection_that_is_kept_when_its_client_is_gone_is_noticed() {
    check_noticed(Sabotage::ClosesUntold, "put of a connection runtime, at most");
}

/// Many reads travel behind writes, and their answers are large; so the bytes of answers that stay
/// counted exceed the bound.
#[test]
fn an_answer_whose_room_is_not_given_back_is_noticed() {
    check_noticed_where(Sabotage::AnswersKept, "bytes of replies, at most", |options| {
        for client in &mut options.clients {
            client.ops = 400;
            client.pipeline_max = 40;
            client.large_one_in = 3;
        }
    });
}

/// One member is cut off for a minute, and clients accept read-only mode.
fn cut_off_with_readers(options: &mut Options) {
    options.later_ops = LaterOps { read_only: Some(options.seed), ..LaterOps::default() };
    options.begins_unborn = false;
    let cut = Fault::Partition { is_one_way: false, for_us: 60_000_000 };
    options.faults = FaultMix::planned_for(vec![(3_000_000, Whom::one(0), cut)]);
    options.faults_us = 60_000_000;
    for client in &mut options.clients {
        client.ops = 400;
        client.think_us_max = 400_000;
    }
}

#[test]
fn a_client_that_is_served_reads_only_and_did_not_ask_for_that_is_noticed() {
    let why = "did not say that it can do with reads";
    check_noticed_where(Sabotage::ReadsDoForAll, why, cut_off_with_readers);
}

#[test]
fn a_write_of_a_client_that_is_served_reads_only_is_noticed() {
    let why = "is served reads only, the order holds";
    check_noticed_where(Sabotage::WritesWithoutLeader, why, cut_off_with_readers);
}

/// A member without a leader has an old state, which it must not show to a client that has seen a
/// newer state elsewhere.
#[test]
fn a_read_that_shows_less_than_the_client_has_seen_is_noticed() {
    let why = "was seen or applied when it connected";
    check_noticed_where(Sabotage::SeenZxidForgotten, why, cut_off_with_readers);
}

/// A member that was replaced and removed returns in the middle of its work. It should condemn its
/// directory. If it continues, no member accepts what it submits.
#[test]
fn a_forgotten_member_that_goes_on_is_noticed() {
    check_noticed_where(Sabotage::CondemnedIgnored, "do not finish", |options| {
        let other = |wait_us| (wait_us, Whom::one(1), Fault::OtherMachine);
        options.begins_unborn = false;
        options.faults = FaultMix::planned_for(vec![other(5_000_000), other(30_000_000)]);
        options.faults_us = 40_000_000;
        for client in &mut options.clients {
            client.ops = 2_000;
            client.think_us_max = 6_000_000;
        }
    });
}

/// Servers with different builds, and clients that ask for a higher level. The servers with the old
/// build keep it.
fn with_mixed_builds(options: &mut Options) {
    let first = vec![Build::New, Build::New, Build::Old];
    let asks = (1..=5).map(|at| (at * 3_000_000, Ask::Client(at as usize % 2))).collect();
    options.builds = Some(Builds::planned(first, asks));
    options.begins_unborn = false;
    options.faults = FaultMix::none();
    options.faults_us = 20_000_000;
    for client in &mut options.clients {
        client.ops = 400;
        client.think_us_max = 400_000;
    }
}

#[test]
fn a_raise_that_ignores_what_a_member_knows_is_noticed() {
    let why = "has not said to it that it knows that";
    check_noticed_where(Sabotage::LevelsIgnored, why, with_mixed_builds);
}

#[test]
fn a_build_that_says_that_it_knows_more_than_it_does_is_noticed() {
    let why = "no newer build ever ran on the directory";
    check_noticed_where(Sabotage::LevelsOverstated, why, with_mixed_builds);
}

/// Runs with options drawn from a seed notice these mistakes, too.
#[test]
fn a_raise_that_ignores_what_a_member_knows_is_noticed_by_chance() {
    check_noticed(Sabotage::LevelsIgnored, "has not said to it that it knows that");
    check_noticed(Sabotage::LevelsOverstated, "no newer build ever ran on the directory");
}

/// Adds etcd clients that make many calls, and wait for each result until a member gives up.
fn with_etcd(options: &mut Options) {
    let mut load = EtcdLoad::new(Random::new(options.seed));
    for client in &mut load.clients {
        client.ops = 400;
        client.think_us_max = 400_000;
        client.patience_us_max = 20_000_000;
    }
    options.etcd = Some(load);
}

#[test]
fn a_put_of_etcd_beyond_the_quota_that_is_answered_is_noticed() {
    check_noticed_where(Sabotage::QuotaIgnored, "Err(NoSpace)", |options| {
        with_etcd(options);
        options.builds = None;
        if let Some(load) = &mut options.etcd {
            load.limit_space(Random::new(options.seed));
        }
    });
}

/// Like [`with_etcd`], with a client that changes users and roles.
fn with_users(options: &mut Options) {
    with_etcd(options);
    if let Some(load) = &mut options.etcd {
        load.add_users(Random::new(options.seed));
    }
}

/// Like [`with_users`], with a second such client with its own users.
fn with_two_actors(options: &mut Options) {
    with_users(options);
    if let Some(load) = &mut options.etcd {
        load.add_users(Random::new(options.seed + 1_000));
    }
}

/// Mistakes with users, each with a part of the actor's message.
const USER_MISTAKES: [(UserSabotage, &str); 6] = [
    (UserSabotage::WritesUnchecked, "None, due is Some(PermissionDenied)"),
    (UserSabotage::WatchesUnchecked, "etcd's users: Watch of"),
    (UserSabotage::NobodyIsRoot, "None, due is Some(UserEmpty)"),
    (UserSabotage::UnknownRefused, "Some(InvalidAuthToken), due is None"),
    (UserSabotage::TokensSurvive, "due is Some(InvalidAuthToken)"),
    (UserSabotage::PasswordsIgnored, "the error due is Some(AuthFailed)"),
];

#[test]
fn mistakes_with_users_and_permissions_are_noticed() {
    for (sabotage, why) in USER_MISTAKES {
        check_noticed_where(Sabotage::EtcdUsers(sabotage), why, with_users);
    }
}

#[test]
fn mistakes_with_users_are_noticed_where_two_actors_change_them() {
    for (sabotage, why) in USER_MISTAKES {
        check_noticed_where(Sabotage::EtcdUsers(sabotage), why, with_two_actors);
    }
}

/// Adds etcd v2 clients that often interfere.
fn with_v2(options: &mut Options) {
    with_etcd(options);
    options.builds = None;
    if let Some(load) = &mut options.etcd {
        load.clients.clear();
        load.add_v2(Random::new(options.seed));
        for client in &mut load.clients {
            client.patience_us_max = 20_000_000;
            if let Some(v2) = &mut client.v2 {
                (v2.ops, v2.rest_us_max) = (130, 200_000);
            }
        }
    }
}

#[test]
fn a_wait_that_is_refused_though_its_event_is_there_is_noticed() {
    let why = "its event is in the history";
    check_noticed_where(Sabotage::EtcdV2(V2Sabotage::WaitsRefused), why, with_v2);
}

/// Each line has a mistake, and a part of the judge's message about it.
#[test]
fn mistakes_with_etcd_v2_are_noticed() {
    for (sabotage, why) in [
        (V2Sabotage::EventsLost, "etcd v2: Line"),
        (V2Sabotage::EventsDoubled, "etcd v2: Line"),
        (V2Sabotage::ReadsUnconfirmed, "was known before"),
        (V2Sabotage::WritesRefused, "or it was refused"),
        (V2Sabotage::IndexesForged, "an acknowledged write is lost"),
        (V2Sabotage::ReadIndexesForged, "there was"),
        (V2Sabotage::LivesShortened, "and is due at"),
        (V2Sabotage::LivesUntold, "a lease does not end in time"),
    ] {
        check_noticed_where(Sabotage::EtcdV2(sabotage), why, with_v2);
    }
}

#[test]
fn a_line_of_the_audit_log_that_is_lost_is_noticed() {
    let lost = Sabotage::EtcdAudit(AuditSabotage::LinesLost);
    check_noticed_where(lost, "etcd: the audit log", with_etcd);
    check_noticed_where(lost, "etcd v2: the audit log", with_v2);
}

#[test]
fn a_line_of_the_audit_log_that_calls_a_done_write_failed_is_noticed() {
    let failed = Sabotage::EtcdAudit(AuditSabotage::UnknownFailed);
    check_noticed_where(failed, "done: Some(true), logged: Some", with_etcd);
    check_noticed_where(failed, "or it was refused", with_v2);
}

/// Adds two clients of plain HTTP requests, about health and members and users of etcd v2.
fn with_http(options: &mut Options) {
    with_etcd(options);
    options.builds = None;
    if let Some(load) = &mut options.etcd {
        load.clients.clear();
        load.add_http(Random::new(options.seed));
        load.add_http(Random::new(options.seed + 1_000));
        for client in &mut load.clients {
            client.patience_us_max = 20_000_000;
            if let Some(http) = &mut client.http {
                (http.calls, http.rest_us_max, http.has_users) = (400, 200_000, true);
            }
        }
    }
}

/// Each line has a mistake, and a part of the judge's message about it.
#[test]
fn mistakes_with_requests_of_http_are_noticed() {
    for (sabotage, why) in [
        (HttpSabotage::ReadsFeigned, "healthy, and hears no other one"),
        (HttpSabotage::ChangesFeigned, "it was answered as done, and is lost"),
        (HttpSabotage::ChangesDenied, "due is Ok"),
        (HttpSabotage::PasswordsIgnored, "whom it never was"),
        (HttpSabotage::QuorumIgnored, "no state gives that answer"),
        (HttpSabotage::MembersPermitted, "gives that answer"),
        (HttpSabotage::LeaderForged, "that member never led"),
    ] {
        check_noticed_where(Sabotage::EtcdHttp(sabotage), why, with_http);
    }
}

#[test]
fn a_wrong_line_of_the_audit_log_about_users_is_noticed() {
    for sabotage in [AuditSabotage::LinesLost, AuditSabotage::UnknownFailed] {
        let why = ") }: the audit log";
        check_noticed_where(Sabotage::EtcdAudit(sabotage), why, with_http);
    }
}

/// Like [`with_etcd`], with leases and without other faults.
fn with_leases(options: &mut Options) {
    with_etcd(options);
    options.faults = FaultMix::none();
    options.builds = None;
    if let Some(load) = &mut options.etcd {
        load.leases = true;
    }
}

/// A member that is cut off has an old state. It must not answer a linearizable read from that
/// state.
#[test]
fn a_linearizable_read_of_etcd_that_is_not_confirmed_is_noticed() {
    check_noticed_where(Sabotage::EtcdReadsUnconfirmed, "etcd: RealTime: no state", with_etcd);
}

#[test]
fn a_write_of_etcd_that_is_answered_before_it_is_durable_is_noticed() {
    let why = "syncs cover its entry since";
    check_noticed_where(Sabotage::EtcdAnsweredEarly, why, with_etcd);
}

#[test]
fn a_write_of_etcd_that_is_answered_and_lost_is_noticed() {
    check_noticed_where(Sabotage::EtcdWritesLost, "it is not in the claim", with_etcd);
}

/// For longer than a call may take there is no majority, so calls time out with an unknown fate.
/// When there is a majority again, some of them take effect, although the member has reported all
/// as certainly failed.
#[test]
fn a_failure_of_etcd_that_is_called_definite_and_took_effect_is_noticed() {
    let why = "it stands in the claim, and was refused before the log";
    check_noticed_where(Sabotage::EtcdFatesDefinite, why, |options| {
        with_etcd(options);
        let cut = Fault::Partition { is_one_way: false, for_us: 9_000_000 };
        let cuts = vec![(6_000_000, Whom::one(0), cut), (1, Whom::one(1), cut)];
        options.begins_unborn = false;
        options.faults = FaultMix::planned_for(cuts);
        options.faults_us = 30_000_000;
        options.builds = None;
    });
}

/// For longer than a call may take there is no majority, and calls time out. Afterwards the member
/// must not give their commands to the next leader, but with this mistake it does.
#[test]
fn a_write_of_etcd_that_is_given_up_and_takes_effect_later_is_noticed() {
    let why = "in a term that began at";
    check_noticed_where(Sabotage::EtcdGiveUpsLost, why, |options| {
        with_etcd(options);
        let cut = Fault::Partition { is_one_way: false, for_us: 15_000_000 };
        let cuts = vec![(6_000_000, Whom::one(0), cut), (1, Whom::one(1), cut)];
        options.begins_unborn = false;
        options.faults = FaultMix::planned_for(cuts);
        options.faults_us = 30_000_000;
        options.builds = None;
    });
}

#[test]
fn a_streamed_read_of_etcd_without_one_of_its_pieces_is_noticed() {
    check_noticed_where(Sabotage::EtcdPiecesLost, "etcd: Read: no state", with_etcd);
}

#[test]
fn a_streamed_read_of_etcd_that_ends_as_compacted_without_a_compaction_is_noticed() {
    check_noticed_where(Sabotage::EtcdStreamsCut, "passed it", with_etcd);
}

#[test]
fn a_read_of_etcd_at_a_compacted_revision_that_is_answered_is_noticed() {
    check_noticed_where(Sabotage::EtcdCompactedAnswered, "etcd: Read: no state", with_etcd);
}

#[test]
fn a_call_of_etcd_that_is_never_answered_is_noticed() {
    check_noticed_where(Sabotage::EtcdAnswersLost, "a call is not answered", with_etcd);
}

/// Like [`with_etcd`], with an operator.
fn with_operator(options: &mut Options) {
    with_etcd(options);
    if let Some(load) = &mut options.etcd {
        load.add_operator(Random::new(options.seed));
    }
}

#[test]
fn leadership_that_is_said_to_have_moved_and_has_not_is_noticed() {
    check_noticed_where(Sabotage::MovesFeigned, "which never led then", with_operator);
}

#[test]
fn a_hash_of_keys_that_is_not_that_of_another_member_is_noticed() {
    check_noticed_where(Sabotage::HashesForged, "the hash is not that of member", with_operator);
}

#[test]
fn a_lease_whose_keep_alive_is_answered_as_by_an_unknown_one_is_noticed() {
    check_noticed_where(Sabotage::LeasesUntold, "etcd: Lease: the lease existed", with_leases);
}

#[test]
fn a_lease_that_never_ends_is_noticed() {
    check_noticed_where(Sabotage::LeasesUntold, "a lease does not end in time", |options| {
        with_leases(options);
        // Clients soon stop asking about leases, so only the missing end is wrong.
        for client in options.etcd.iter_mut().flat_map(|load| &mut load.clients) {
            client.ops = 12;
        }
    });
}

#[test]
fn a_lease_that_ends_before_its_time_is_noticed() {
    let why = "us after it was granted or kept alive";
    check_noticed_where(Sabotage::LeasesShortened, why, with_leases);
}

#[test]
fn a_keep_alive_that_is_answered_and_not_kept_to_is_noticed() {
    let why = "us after it was granted or kept alive";
    check_noticed_where(Sabotage::KeepAlivesLost, why, with_leases);
}

#[test]
fn a_put_with_a_lease_that_does_not_exist_is_noticed() {
    check_noticed_where(Sabotage::UnknownLeasesTaken, "etcd: Answer", with_leases);
}

/// Adds etcd clients with many watches, and members that soon serve watches from the history.
fn with_watches(options: &mut Options) {
    with_etcd(options);
    let load = options.etcd.as_mut().expect("there are clients of etcd");
    load.progress_ms = 1_000;
    for client in &mut load.clients {
        client.watches_max = 8;
        client.think_us_max = 200_000;
    }
}

fn check_watches_noticed(sabotage: WatchSabotage, why: &str) {
    check_noticed_where(Sabotage::EtcdWatches(sabotage), why, with_watches);
}

#[test]
fn an_event_of_etcd_that_is_lost_is_noticed() {
    check_watches_noticed(WatchSabotage::EventsLost, "etcd: watch: Reliable");
}

#[test]
fn an_event_of_etcd_that_comes_twice_is_noticed() {
    check_watches_noticed(WatchSabotage::EventsDoubled, "etcd: watch: Unique");
}

#[test]
fn revisions_of_etcd_in_the_wrong_order_are_noticed() {
    check_watches_noticed(WatchSabotage::EventsSwapped, "etcd: watch: Ordered");
}

#[test]
fn a_revision_of_etcd_in_two_responses_is_noticed() {
    check_watches_noticed(WatchSabotage::RevisionsSplit, "etcd: watch: Atomic");
}

#[test]
fn a_promise_of_etcd_that_comes_before_an_event_is_noticed() {
    check_watches_noticed(WatchSabotage::PromisesEarly, "etcd: watch: Progress");
}

#[test]
fn a_promise_of_etcd_that_does_not_come_is_noticed() {
    check_watches_noticed(WatchSabotage::PromisesLost, "a promise of progress does not come");
}

#[test]
fn a_watch_of_etcd_that_ends_as_compacted_without_a_compaction_is_noticed() {
    check_watches_noticed(WatchSabotage::EndedAsCompacted, "etcd: watch: Compacted");
}

#[test]
fn a_watch_of_etcd_that_is_resumed_too_late_is_noticed() {
    check_watches_noticed(WatchSabotage::StartsSkip, "etcd: watch: Resumable");
}

#[test]
fn a_watch_of_etcd_that_shows_what_is_before_its_start_is_noticed() {
    check_watches_noticed(WatchSabotage::StartsEarly, "etcd: watch: Bookmarkable");
}

#[test]
fn an_event_of_etcd_without_the_pair_before_is_noticed() {
    check_watches_noticed(WatchSabotage::PrevKvLost, "etcd: watch: PrevKv");
}

#[test]
fn an_event_of_etcd_that_the_watch_does_not_want_is_noticed() {
    check_watches_noticed(WatchSabotage::FiltersIgnored, "etcd: watch: Filtered");
}

#[test]
fn a_header_of_etcd_that_is_older_than_its_events_is_noticed() {
    check_watches_noticed(WatchSabotage::HeadersOld, "etcd: watch: Header");
}

#[test]
fn an_answer_to_a_request_for_a_watch_that_comes_twice_is_noticed() {
    check_watches_noticed(WatchSabotage::CreatedTwice, "etcd: watch: Created");
}

#[test]
fn an_answer_to_a_request_for_a_watch_that_does_not_come_is_noticed() {
    check_watches_noticed(WatchSabotage::CreatedLost, "etcd: watch: Created");
}

#[test]
fn an_event_of_etcd_with_another_value_is_noticed() {
    check_watches_noticed(WatchSabotage::ValuesChanged, "etcd: watch: Content");
}

/// A member that was away for long fetches a snapshot. Watches that began there before must
/// continue without a gap.
#[test]
fn watches_of_etcd_that_do_not_survive_another_state_are_noticed() {
    let sabotage = Sabotage::EtcdWatches(WatchSabotage::InstallsForgotten);
    check_noticed_where(sabotage, "etcd: watch: ", |options| {
        with_watches(options);
        options.begins_unborn = false;
        options.builds = None;
        let cut = Fault::Partition { is_one_way: false, for_us: 15_000_000 };
        options.faults = FaultMix::planned_for(vec![(6_000_000, Whom::one(0), cut)]);
        options.faults_us = 40_000_000;
        options.member.options.order.log_memory =
            LogMemory { bytes_max: 1_000, away_bytes_max: 1_000, pinned_bytes_max: 20_000 };
    });
}

#[test]
fn a_stream_of_etcd_that_ends_without_a_leader_where_there_is_one_is_noticed() {
    let why = "ended without a leader, and there was one";
    check_noticed_where(Sabotage::EtcdWatches(WatchSabotage::EndedAsLeaderless), why, |options| {
        with_watches(options);
        options.begins_unborn = false;
        options.faults = FaultMix::none();
    });
}

#[test]
fn a_stream_of_etcd_that_goes_on_without_a_leader_is_noticed() {
    let sabotage = Sabotage::EtcdWatches(WatchSabotage::LeaderlessIgnored);
    check_noticed_where(sabotage, "goes on though cut off", |options| {
        with_watches(options);
        options.begins_unborn = false;
        options.builds = None;
        let cut = Fault::Partition { is_one_way: false, for_us: 40_000_000 };
        options.faults = FaultMix::planned_for(vec![(6_000_000, Whom::one(0), cut)]);
        options.faults_us = 60_000_000;
        for client in &mut options.etcd.as_mut().expect("there are some").clients {
            client.is_erratic = false;
            client.patience_us_max = 60_000_000;
        }
    });
}

/// Adds clients that want a lock or an election, often die or pause, and make many guarded writes.
fn with_locks(options: &mut Options) {
    with_etcd(options);
    options.builds = None;
    let load = options.etcd.as_mut().expect("there are clients of etcd");
    load.add_contenders(Random::new(options.seed));
    for contends in load.clients.iter_mut().filter_map(|client| client.contends.as_mut()) {
        contends.turns = 30;
        contends.ttl_s = 2;
        contends.accident_us_max = Some(6_000_000);
    }
}

#[test]
fn two_clients_that_hold_a_lock_since_a_lease_ends_early_are_noticed() {
    check_noticed_where(Sabotage::LeasesShortened, "etcd: Alone", |options| {
        with_locks(options);
        let load = options.etcd.as_mut().expect("there are some");
        for contends in load.clients.iter_mut().filter_map(|client| client.contends.as_mut()) {
            contends.ttl_s = 6;
        }
    });
}

#[test]
fn two_clients_that_hold_a_lock_since_a_keep_alive_is_not_kept_to_are_noticed() {
    check_noticed_where(Sabotage::KeepAlivesLost, "etcd: Alone", with_locks);
}

#[test]
fn a_client_that_holds_a_lock_before_its_turn_is_noticed() {
    check_noticed_where(Sabotage::EtcdNeighboursHidden, "etcd: Turns", with_locks);
}

/// After a pause, clients write before they notice how much time has passed. By then another client
/// may hold the lock.
#[test]
fn a_guarded_write_of_a_client_that_holds_no_more_is_noticed() {
    check_noticed_where(Sabotage::EtcdGuardsIgnored, "etcd: Fence", with_locks);
}

/// A member that is cut off has an old state, and shows its clients a leader who has been replaced
/// since.
#[test]
fn an_election_that_goes_back_to_an_older_leader_is_noticed() {
    check_noticed_where(Sabotage::EtcdReadsUnconfirmed, "etcd: Leaders", with_locks);
}

#[test]
fn a_lock_that_is_not_passed_on_is_noticed() {
    let sabotage = Sabotage::EtcdWatches(WatchSabotage::EventsLost);
    check_noticed_where(sabotage, "a lock is not passed on", with_locks);
}

#[test]
fn a_lock_of_a_client_that_is_gone_and_keeps_it_is_noticed() {
    check_noticed_where(Sabotage::LeasesUntold, "a key outlives its session", with_locks);
}
