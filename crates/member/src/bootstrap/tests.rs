use machine::BootId;
use storage::fault_disk::Chance;

use super::*;
use machine::Level;

const CLUSTER: u128 = 1000;

fn known() -> Known {
    Known::up_to(Level::FIRST)
}

fn bootstrap(server: u64, servers: &[u64], attendance: Attendance) -> Bootstrap {
    Bootstrap::new(server, MemberId(10 * server), servers, attendance, known())
}

/// The hello of an unborn server with this number, whose member id is ten times as much.
fn unborn(server: u64, servers: &[u64]) -> Hello {
    bootstrap(server, servers, Attendance::All).own
}

fn born(server: u64, voters: &[u64]) -> Hello {
    let birth = Some(birth(voters));
    Hello { birth, boot: BootId(1), ..unborn(server, &[1, 2, 3]) }
}

fn birth(voters: &[u64]) -> Birth {
    Birth { cluster_id: CLUSTER, voters: voters.to_vec() }
}

/// The decision of an unborn server of three after links came up.
fn decided(server: u64, links: &[Hello]) -> Decision {
    let mut bootstrap = bootstrap(server, &[3, 1, 2], Attendance::All);
    links.iter().for_each(|link| bootstrap.on_link_up(link.clone()));
    bootstrap.decide(CLUSTER)
}

fn check(server: u64, links: &[Hello], expected: Waiting, said: &str) {
    let decision = decided(server, links);
    assert_eq!(decision, Decision::Wait(expected.clone()), "{links:?}");
    assert_eq!(expected.to_string(), said);
    // More servers end a wait, but not a contradiction.
    assert_eq!(expected.is_for_servers(), said.starts_with("waiting"));
}

const ALL: [u64; 3] = [1, 2, 3];

#[test]
fn the_lowest_number_decides_when_all_are_there_in_any_order() {
    for order in [[2, 3], [3, 2]] {
        let links = order.map(|server| unborn(server, &ALL));
        let said = format!("waiting for server {} to begin an ensemble", order[1]);
        check(1, &links[..1], Waiting::ForServers(vec![order[1]]), &said);
        assert_eq!(decided(1, &links), Decision::BeBorn(birth(&[10, 20, 30])));
    }
    check(1, &[], Waiting::ForServers(vec![2, 3]), "waiting for servers 2, 3 to begin an ensemble");
    for server in [2, 3] {
        let links = ALL.iter().filter(|it| **it != server).map(|it| unborn(*it, &ALL));
        let links: Vec<_> = links.collect();
        let said = "waiting for server 1 to begin an ensemble";
        check(server, &links, Waiting::ForDecision(1), said);
        check(server, &[], Waiting::ForDecision(1), said);
    }
}

#[test]
fn a_lone_server_begins_alone() {
    for attendance in [Attendance::All, Attendance::Majority] {
        let alone = bootstrap(4, &[4], attendance);
        assert_eq!(alone.decide(CLUSTER), Decision::BeBorn(birth(&[40])));
    }
}

#[test]
fn a_server_that_died_before_the_decision_is_waited_for() {
    let mut bootstrap = bootstrap(1, &ALL, Attendance::All);
    // Two links each: one that was dialled, and one that was accepted.
    for server in [2, 2, 3, 3] {
        bootstrap.on_link_up(unborn(server, &ALL));
    }
    bootstrap.on_link_down(&unborn(2, &ALL));
    assert!(matches!(bootstrap.decide(CLUSTER), Decision::BeBorn(_)));
    bootstrap.on_link_down(&unborn(2, &ALL));
    assert_eq!(bootstrap.decide(CLUSTER), Decision::Wait(Waiting::ForServers(vec![2])));
    // The server comes with another directory.
    bootstrap.on_link_up(Hello { member: MemberId(21), ..unborn(2, &ALL) });
    assert_eq!(bootstrap.decide(CLUSTER), Decision::BeBorn(birth(&[10, 21, 30])));
}

#[test]
fn where_a_majority_is_enough_nobody_votes_for_those_that_are_absent() {
    let numbers = [1, 2, 3, 4, 5];
    let decided = |server, links: &[u64]| {
        let mut bootstrap = bootstrap(server, &numbers, Attendance::Majority);
        links.iter().for_each(|link| bootstrap.on_link_up(unborn(*link, &numbers)));
        bootstrap.decide(CLUSTER)
    };
    let waiting = Waiting::ForMajority { count: 1, servers: vec![2, 3, 5] };
    assert_eq!(waiting.to_string(), "waiting for 1 of servers 2, 3, 5 to begin an ensemble");
    assert_eq!(decided(1, &[4, 4]), Decision::Wait(waiting));
    let nobody = |server| absent_voter(server).unwrap();
    let voters = [10, 30, 40, nobody(2), nobody(5)];
    assert_eq!(decided(1, &[4, 3]), Decision::BeBorn(birth(&voters)));
    assert_eq!(decided(1, &[2, 3, 4, 5]), Decision::BeBorn(birth(&[10, 20, 30, 40, 50])));
    // Another server does not decide, even with a majority.
    assert_eq!(decided(2, &[3, 4, 5]), Decision::Wait(Waiting::ForDecision(1)));
    // Half of an even number is not enough.
    let mut of_two = bootstrap(1, &[1, 2], Attendance::Majority);
    let waiting = Waiting::ForMajority { count: 1, servers: vec![2] };
    assert_eq!(of_two.decide(CLUSTER), Decision::Wait(waiting));
    of_two.on_link_up(unborn(2, &[1, 2]));
    assert_eq!(of_two.decide(CLUSTER), Decision::BeBorn(birth(&[10, 20])));
    // A server that comes later is no voter yet, the deciding one included.
    let mut late = bootstrap(1, &ALL, Attendance::Majority);
    late.on_link_up(unborn(2, &ALL));
    late.on_link_up(born(3, &[11, 30, nobody(2)]));
    assert_eq!(late.decide(CLUSTER), Decision::BeBorn(birth(&[11, 30, nobody(2)])));
}

#[test]
fn nobodys_ids_are_apart_for_any_two_servers_and_no_number_is_too_large() {
    assert_eq!(absent_voter(0), Some(ABSENT_VOTERS_FROM));
    assert_eq!(absent_voter(u64::from(u32::MAX)), Some(u64::MAX));
    assert_eq!(absent_voter(1 << 32), None);
    assert_eq!(absent_server(absent_voter(7).unwrap()), Some(7));
    assert_eq!(absent_server(ABSENT_VOTERS_FROM - 1), None);
}

#[test]
fn whoever_finds_an_ensemble_is_born_into_it_as_a_voter_or_not() {
    let voters = [10, 20, 30];
    // The decider died before it told all; another one tells.
    assert_eq!(decided(3, &[born(1, &voters)]), Decision::BeBorn(birth(&voters)));
    assert_eq!(decided(3, &[born(2, &voters)]), Decision::BeBorn(birth(&voters)));
    assert_eq!(decided(3, &[unborn(2, &ALL), born(1, &voters)]), Decision::BeBorn(birth(&voters)));
    // A server that lost its directory is no voter, the deciding one included.
    assert_eq!(decided(3, &[born(1, &[10, 20, 31])]), Decision::BeBorn(birth(&[10, 20, 31])));
    assert_eq!(
        decided(1, &[unborn(3, &ALL), born(2, &[11, 20, 30])]),
        Decision::BeBorn(birth(&[11, 20, 30]))
    );
    // The ensemble grew from a standalone server.
    assert_eq!(decided(1, &[born(2, &[20]), unborn(3, &ALL)]), Decision::BeBorn(birth(&[20])));
}

#[test]
fn servers_that_are_configured_differently_begin_nothing() {
    let other = unborn(3, &[1, 3]);
    let waiting = Waiting::Configurations { server: 3, servers: vec![1, 3] };
    let said = "server 3 is configured differently: for it the servers that vote are 1, 3";
    check(1, &[unborn(2, &ALL), other.clone()], waiting.clone(), said);
    check(1, &[other], waiting, said);
    // An ensemble that has begun is joined, whatever its configuration.
    let mut of_two = born(3, &[20, 30]);
    of_two.servers = vec![2, 3];
    assert_eq!(decided(1, &[of_two]), Decision::BeBorn(birth(&[20, 30])));
}

#[test]
fn an_observer_joins_and_is_not_waited_for() {
    let mut observer = bootstrap(4, &ALL, Attendance::Majority);
    let expected = Decision::Wait(Waiting::ForEnsemble);
    assert_eq!(observer.decide(CLUSTER), expected);
    ALL.iter().for_each(|server| observer.on_link_up(unborn(*server, &ALL)));
    assert_eq!(observer.decide(CLUSTER), expected);
    assert_eq!(Waiting::ForEnsemble.to_string(), "waiting for an ensemble to join");
    observer.on_link_up(born(1, &[10, 20, 30]));
    assert_eq!(observer.decide(CLUSTER), Decision::BeBorn(birth(&[10, 20, 30])));
    let links = [unborn(2, &ALL), unborn(3, &ALL), unborn(4, &ALL)];
    assert_eq!(decided(1, &links), Decision::BeBorn(birth(&[10, 20, 30])));
}

#[test]
fn a_server_that_only_joins_begins_nothing() {
    for server in ALL {
        let mut joining = bootstrap(server, &ALL, Attendance::Existing);
        let others = ALL.iter().filter(|other| **other != server);
        others.for_each(|other| joining.on_link_up(unborn(*other, &ALL)));
        assert_eq!(joining.decide(CLUSTER), Decision::Wait(Waiting::ForEnsemble));
        joining.on_link_up(born(2, &[10, 20, 30]));
        assert_eq!(joining.decide(CLUSTER), Decision::BeBorn(birth(&[10, 20, 30])));
    }
    let alone = bootstrap(1, &[1], Attendance::Existing);
    assert_eq!(alone.decide(CLUSTER), Decision::Wait(Waiting::ForEnsemble));
}

#[test]
fn two_of_one_number_or_one_directory_begin_nothing() {
    let second = Hello { member: MemberId(21), ..unborn(2, &ALL) };
    let links = [unborn(2, &ALL), second, unborn(3, &ALL)];
    check(1, &links, Waiting::TwoOfOneNumber(2), "there are two servers 2");
    let own = Hello { member: MemberId(11), ..unborn(1, &ALL) };
    let links = [own, unborn(2, &ALL), unborn(3, &ALL)];
    check(1, &links, Waiting::TwoOfOneNumber(1), "there are two servers 1");
    let copy = Hello { member: MemberId(20), ..unborn(3, &ALL) };
    let said = "the data directories of servers 2 and 3 are copies of each other";
    check(1, &[unborn(2, &ALL), copy], Waiting::TwoOfOneDirectory(2, 3), said);
}

#[test]
fn between_two_ensembles_nothing_is_chosen_but_ones_own() {
    let other = |server| {
        let birth = Birth { cluster_id: 7, voters: vec![99] };
        Hello { birth: Some(birth), ..born(server, &[]) }
    };
    let said = "servers 2 and 3 are of different ensembles: keep the data of one, and empty the data \
                directories of the other";
    check(1, &[born(2, &[20]), other(3)], Waiting::TwoEnsembles(2, 3), said);
    let ours = [10, 20, 30];
    for links in [[born(2, &ours), other(3)], [other(3), born(2, &ours)]] {
        assert_eq!(decided(1, &links), Decision::BeBorn(birth(&ours)));
    }
    let both = Hello { birth: Some(Birth { cluster_id: 7, voters: vec![10] }), ..other(3) };
    let waiting = Decision::Wait(Waiting::TwoEnsembles(2, 3));
    assert_eq!(decided(1, &[born(2, &ours), both]), waiting);
}

/// A server whose process and directory come and go.
#[derive(Default)]
struct Server {
    /// The member id that it keeps, and its birth.
    directory: Option<(u64, Option<Birth>)>,
    /// Its process, while it is unborn.
    bootstrap: Option<Bootstrap>,
    is_up: bool,
}

/// Servers, each of which sees links to the others now and then.
struct World {
    chance: Chance,
    attendance: Attendance,
    servers: Vec<Server>,
    numbers: Vec<u64>,
    drawn: u64,
}

impl World {
    fn new(seed: u64, count: u64, attendance: Attendance) -> World {
        let numbers: Vec<u64> = (1..=count).collect();
        let servers = numbers.iter().map(|_| Server::default()).collect();
        World { chance: Chance::new(seed), attendance, servers, numbers, drawn: 0 }
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }

    fn start(&mut self, at: usize) {
        let drawn = self.draw();
        let server = &mut self.servers[at];
        let (member, birth) = server.directory.get_or_insert((drawn, None)).clone();
        let (number, numbers) = (at as u64 + 1, &self.numbers);
        let unborn = || Bootstrap::new(number, MemberId(member), numbers, self.attendance, known());
        server.bootstrap = birth.is_none().then(unborn);
        server.is_up = true;
    }

    fn stop(&mut self, at: usize) {
        self.servers[at].bootstrap = None;
        self.servers[at].is_up = false;
    }

    fn hello(&self, at: usize) -> Option<Hello> {
        let server = &self.servers[at];
        let (member, birth) = server.directory.clone().filter(|_| server.is_up)?;
        let (number, servers) = (at as u64 + 1, self.numbers.clone());
        let boot = BootId(u64::from(birth.is_some()));
        Some(Hello { boot, birth, ..Hello::unborn(number, MemberId(member), servers, known()) })
    }

    /// An unborn server hears some of the running servers, and acts on its decision.
    fn look(&mut self, at: usize, sees_all: bool) {
        let cluster_id = u128::from(self.draw());
        let Some(mut bootstrap) = self.servers[at].bootstrap.clone() else { return };
        for other in (0..self.servers.len()).filter(|other| *other != at) {
            let is_seen = sees_all || self.chance.below(4) > 0;
            if let Some(hello) = self.hello(other).filter(|_| is_seen) {
                bootstrap.on_link_up(hello);
            }
        }
        if let Decision::BeBorn(birth) = bootstrap.decide(cluster_id) {
            let directory = self.servers[at].directory.as_mut().expect("its process runs");
            directory.1 = Some(birth);
            self.servers[at].bootstrap = None;
            self.check();
        }
    }

    /// Checks that all born servers are of one ensemble and know the same first voters.
    fn check(&self) {
        let births = self.servers.iter().filter_map(|it| it.directory.as_ref()?.1.as_ref());
        let mut births: Vec<&Birth> = births.collect();
        births.dedup();
        assert!(births.len() <= 1, "{births:?}");
    }

    fn step(&mut self) {
        let at = self.chance.below(self.servers.len() as u64) as usize;
        match self.chance.below(20) {
            0 => {
                self.stop(at);
                // If a majority may begin, the deciding server must not forget that it decided.
                if self.attendance == Attendance::All || at > 0 {
                    self.servers[at].directory = None;
                }
            }
            1..4 => self.stop(at),
            4..10 => self.start(at),
            _ => self.look(at, false),
        }
    }
}

/// Runs one history, in which there must be one ensemble that all servers find. True if no server
/// lost its directory and all vote at its end.
fn is_whole_at_last(seed: u64, attendance: Attendance) -> bool {
    let count = 1 + seed % 5;
    let mut world = World::new(seed, count, attendance);
    (0..60).for_each(|_| world.step());
    let servers = 0..world.servers.len();
    for at in servers.clone() {
        if !world.servers[at].is_up {
            world.start(at);
        }
    }
    for _ in 0..2 {
        servers.clone().for_each(|at| world.look(at, true));
    }
    let births: Vec<_> = servers.map(|at| world.hello(at).and_then(|it| it.birth)).collect();
    assert!(births.iter().all(|birth| birth.is_some() && *birth == births[0]), "seed {seed}");
    let voters = &births[0].as_ref().expect("was just looked at").voters;
    assert_eq!(voters.len() as u64, count);
    let is_voter = |it: &Server| it.directory.as_ref().is_some_and(|it| voters.contains(&it.0));
    world.servers.iter().all(is_voter)
}

#[test]
fn whatever_is_killed_or_lost_there_is_one_ensemble_and_all_find_it() {
    for attendance in [Attendance::All, Attendance::Majority] {
        let whole = (0..3_000).filter(|seed| is_whole_at_last(*seed, attendance)).count();
        assert!((100..2_900).contains(&whole), "{whole} lost nothing");
    }
}
