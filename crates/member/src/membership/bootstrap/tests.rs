use std::collections::BTreeSet;

use machine::BootId;
use storage::datadir::Ballot;
use storage::fault_disk::Chance;

use super::*;
use machine::Level;

const CLUSTER: u128 = 1000;

fn known() -> Known {
    Known::up_to(Level::FIRST)
}

fn bootstrap(server: u64, servers: &[u64], attendance: Attendance) -> Bootstrap {
    let directory = (MemberId(10 * server), Acceptor::default());
    Bootstrap::new(server, directory, servers, attendance, known())
}

/// The hello of an unborn server with this number. Its member id is ten times its number.
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

/// The decision of an unborn server of an ensemble of three, after these links came up.
fn decided(server: u64, links: &[Hello]) -> Decision {
    let mut bootstrap = bootstrap(server, &[3, 1, 2], Attendance::All);
    links.iter().for_each(|link| bootstrap.on_link_up(link.clone()));
    bootstrap.decide(CLUSTER, 0)
}

fn check(server: u64, links: &[Hello], expected: Waiting, said: &str) {
    let decision = decided(server, links);
    assert_eq!(decision, Decision::Wait(expected.clone()), "{links:?}");
    assert_eq!(expected.to_string(), said);
    // More servers end a wait, but they do not end a contradiction.
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
    for attendance in [Attendance::All, Attendance::Majority, Attendance::AnyMajority] {
        let mut alone = bootstrap(4, &[4], attendance);
        assert_eq!(alone.decide(CLUSTER, 0), Decision::BeBorn(birth(&[40])));
    }
}

#[test]
fn a_server_that_died_before_the_decision_is_waited_for() {
    let mut bootstrap = bootstrap(1, &ALL, Attendance::All);
    // Each server has two links: one that it dialled, and one that it accepted.
    for server in [2, 2, 3, 3] {
        bootstrap.on_link_up(unborn(server, &ALL));
    }
    bootstrap.on_link_down(&unborn(2, &ALL));
    assert!(matches!(bootstrap.decide(CLUSTER, 0), Decision::BeBorn(_)));
    bootstrap.on_link_down(&unborn(2, &ALL));
    assert_eq!(bootstrap.decide(CLUSTER, 0), Decision::Wait(Waiting::ForServers(vec![2])));
    // Server 2 comes back with another directory.
    bootstrap.on_link_up(Hello { member: MemberId(21), ..unborn(2, &ALL) });
    assert_eq!(bootstrap.decide(CLUSTER, 0), Decision::BeBorn(birth(&[10, 21, 30])));
}

#[test]
fn where_a_majority_is_enough_nobody_votes_for_those_that_are_absent() {
    let numbers = [1, 2, 3, 4, 5];
    let decided = |server, links: &[u64]| {
        let mut bootstrap = bootstrap(server, &numbers, Attendance::Majority);
        links.iter().for_each(|link| bootstrap.on_link_up(unborn(*link, &numbers)));
        bootstrap.decide(CLUSTER, 0)
    };
    let waiting = Waiting::ForMajority { count: 1, servers: vec![2, 3, 5] };
    assert_eq!(waiting.to_string(), "waiting for 1 of servers 2, 3, 5 to begin an ensemble");
    assert_eq!(decided(1, &[4, 4]), Decision::Wait(waiting));
    let nobody = |server| absent_voter(server).unwrap();
    let voters = [10, 30, 40, nobody(2), nobody(5)];
    assert_eq!(decided(1, &[4, 3]), Decision::BeBorn(birth(&voters)));
    assert_eq!(decided(1, &[2, 3, 4, 5]), Decision::BeBorn(birth(&[10, 20, 30, 40, 50])));
    // A server that does not have the lowest number does not decide, even with a majority.
    assert_eq!(decided(2, &[3, 4, 5]), Decision::Wait(Waiting::ForDecision(1)));
    // Half of an even number of servers is not enough.
    let mut of_two = bootstrap(1, &[1, 2], Attendance::Majority);
    let waiting = Waiting::ForMajority { count: 1, servers: vec![2] };
    assert_eq!(of_two.decide(CLUSTER, 0), Decision::Wait(waiting));
    of_two.on_link_up(unborn(2, &[1, 2]));
    assert_eq!(of_two.decide(CLUSTER, 0), Decision::BeBorn(birth(&[10, 20])));
    // A server that comes after the birth is not a voter yet; this holds for the one that would
    // decide, too.
    let mut late = bootstrap(1, &ALL, Attendance::Majority);
    late.on_link_up(unborn(2, &ALL));
    late.on_link_up(born(3, &[11, 30, nobody(2)]));
    assert_eq!(late.decide(CLUSTER, 0), Decision::BeBorn(birth(&[11, 30, nobody(2)])));
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
    // The deciding server died before all others had its birth; another born server has it.
    assert_eq!(decided(3, &[born(1, &voters)]), Decision::BeBorn(birth(&voters)));
    assert_eq!(decided(3, &[born(2, &voters)]), Decision::BeBorn(birth(&voters)));
    assert_eq!(decided(3, &[unborn(2, &ALL), born(1, &voters)]), Decision::BeBorn(birth(&voters)));
    // A server that lost its directory is not a voter, even if it is the deciding one.
    assert_eq!(decided(3, &[born(1, &[10, 20, 31])]), Decision::BeBorn(birth(&[10, 20, 31])));
    assert_eq!(
        decided(1, &[unborn(3, &ALL), born(2, &[11, 20, 30])]),
        Decision::BeBorn(birth(&[11, 20, 30]))
    );
    // The ensemble began as a standalone server.
    assert_eq!(decided(1, &[born(2, &[20]), unborn(3, &ALL)]), Decision::BeBorn(birth(&[20])));
}

#[test]
fn servers_that_are_configured_differently_begin_nothing() {
    let other = unborn(3, &[1, 3]);
    let waiting = Waiting::Configurations { server: 3, servers: vec![1, 3] };
    let said = "server 3 is configured differently: for it the servers that vote are 1, 3";
    check(1, &[unborn(2, &ALL), other.clone()], waiting.clone(), said);
    check(1, &[other], waiting, said);
    // A server joins an ensemble that has begun, whatever that one's configuration is.
    let mut of_two = born(3, &[20, 30]);
    of_two.servers = vec![2, 3];
    assert_eq!(decided(1, &[of_two]), Decision::BeBorn(birth(&[20, 30])));
}

#[test]
fn an_observer_joins_and_is_not_waited_for() {
    let mut observer = bootstrap(4, &ALL, Attendance::Majority);
    let expected = Decision::Wait(Waiting::ForEnsemble);
    assert_eq!(observer.decide(CLUSTER, 0), expected);
    ALL.iter().for_each(|server| observer.on_link_up(unborn(*server, &ALL)));
    assert_eq!(observer.decide(CLUSTER, 0), expected);
    assert_eq!(Waiting::ForEnsemble.to_string(), "waiting for an ensemble to join");
    observer.on_link_up(born(1, &[10, 20, 30]));
    assert_eq!(observer.decide(CLUSTER, 0), Decision::BeBorn(birth(&[10, 20, 30])));
    let links = [unborn(2, &ALL), unborn(3, &ALL), unborn(4, &ALL)];
    assert_eq!(decided(1, &links), Decision::BeBorn(birth(&[10, 20, 30])));
}

#[test]
fn a_server_that_only_joins_begins_nothing() {
    for server in ALL {
        let mut joining = bootstrap(server, &ALL, Attendance::Existing);
        let others = ALL.iter().filter(|other| **other != server);
        others.for_each(|other| joining.on_link_up(unborn(*other, &ALL)));
        assert_eq!(joining.decide(CLUSTER, 0), Decision::Wait(Waiting::ForEnsemble));
        joining.on_link_up(born(2, &[10, 20, 30]));
        assert_eq!(joining.decide(CLUSTER, 0), Decision::BeBorn(birth(&[10, 20, 30])));
    }
    let mut alone = bootstrap(1, &[1], Attendance::Existing);
    assert_eq!(alone.decide(CLUSTER, 0), Decision::Wait(Waiting::ForEnsemble));
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

/// An unborn server of three that has promised and accepted `own`, and sees servers that have
/// promised and accepted what `links` says.
fn agreeing(server: u64, own: &Acceptor, links: &[(u64, &Acceptor)]) -> Bootstrap {
    let directory = (MemberId(10 * server), own.clone());
    let mut bootstrap = Bootstrap::new(server, directory, &ALL, Attendance::AnyMajority, known());
    for (other, acceptor) in links {
        bootstrap.on_link_up(unborn(*other, &ALL).agreeing(Acceptor::clone(acceptor)));
    }
    bootstrap
}

fn ballot(round: u64, server: u64) -> Ballot {
    Ballot { round, member: 10 * server }
}

fn promised(round: u64, server: u64) -> Acceptor {
    Acceptor { promised: ballot(round, server), accepted: None }
}

/// The record of a server that has accepted a birth with these voters in a ballot, and promised no
/// later ballot.
fn accepted(round: u64, server: u64, voters: &[u64]) -> Acceptor {
    let promised = ballot(round, server);
    Acceptor { promised, accepted: Some((promised, birth(voters))) }
}

#[test]
fn any_majority_agrees_on_one_birth() {
    let nothing = Acceptor::default();
    let decide = |mut it: Bootstrap, now_ms: u64| {
        let first = it.decide(CLUSTER, 0);
        if now_ms == 0 { first } else { it.decide(CLUSTER, now_ms) }
    };
    // The first server makes an attempt, at once if all are present, else after a while. The others
    // wait for it to do so.
    let attempt = Decision::Keep(promised(1, 1));
    assert_eq!(decide(agreeing(1, &nothing, &[(2, &nothing), (3, &nothing)]), 0), attempt);
    for (server, other, first) in [(1, 2, 1), (1, 3, 1), (2, 3, 2), (3, 2, 2)] {
        let new = || agreeing(server, &nothing, &[(other, &nothing)]);
        let rank = if server == first { 1 } else { 2 };
        let patience_ms = rank * crate::membership::limits::ABSENT_PATIENCE_MS;
        assert!(matches!(decide(new(), patience_ms - 1), Decision::Wait(_)));
        assert_eq!(decide(new(), patience_ms), Decision::Keep(promised(1, server)));
    }
    let alone = Waiting::ForMajority { count: 1, servers: vec![1, 3] };
    assert_eq!(decide(agreeing(2, &nothing, &[]), 9_000), Decision::Wait(alone));
    // The others promise its ballot, unless they have promised a later one.
    let new = agreeing(3, &nothing, &[(1, &promised(1, 1))]);
    assert_eq!(decide(new, 0), Decision::Keep(promised(1, 1)));
    for later in [promised(1, 3), promised(2, 2)] {
        let new = agreeing(3, &later, &[(1, &promised(1, 1))]);
        assert!(matches!(decide(new, 0), Decision::Wait(_)));
    }
    // Once a majority has promised, it proposes a birth with the present servers, and the others
    // accept that.
    let nobody = absent_voter(2).unwrap();
    let proposal = accepted(1, 1, &[10, 30, nobody]);
    let new = || agreeing(1, &promised(1, 1), &[(3, &promised(1, 1))]);
    let patience_ms = crate::membership::limits::PROPOSAL_PATIENCE_MS;
    assert!(matches!(decide(new(), patience_ms - 1), Decision::Wait(_)));
    assert_eq!(decide(new(), patience_ms), Decision::Keep(proposal.clone()));
    let new = agreeing(3, &promised(1, 1), &[(1, &proposal)]);
    assert_eq!(decide(new, 0), Decision::Keep(proposal.clone()));
    let new = agreeing(3, &promised(2, 2), &[(1, &proposal)]);
    assert!(matches!(decide(new, 0), Decision::Wait(_)));
    // A birth is chosen once a majority has accepted it in one ballot.
    let born = Decision::BeBorn(birth(&[10, 30, nobody]));
    assert_eq!(decide(agreeing(1, &proposal, &[(3, &proposal)]), 0), born);
    assert_eq!(decide(agreeing(2, &nothing, &[(1, &proposal), (3, &proposal)]), 0), born);
    let other = accepted(2, 2, &[10, 30, nobody]);
    assert!(!matches!(decide(agreeing(1, &proposal, &[(2, &other)]), 0), Decision::BeBorn(_)));
}

#[test]
fn a_later_attempt_takes_the_birth_that_may_be_chosen() {
    let before = accepted(1, 1, &[10, 30, 50]);
    let promise = Acceptor { promised: ballot(2, 2), ..before.clone() };
    let mut second = agreeing(2, &promised(2, 2), &[(3, &promise)]);
    assert!(matches!(second.decide(CLUSTER, 0), Decision::Wait(_)));
    assert_eq!(second.decide(CLUSTER, 500), Decision::Keep(accepted(2, 2, &[10, 30, 50])));
    // If two births were accepted before, the one of the later ballot is proposed.
    let later = Acceptor { promised: ballot(3, 3), ..accepted(2, 2, &[10, 20, 60]) };
    let own = Acceptor { promised: ballot(3, 3), ..before };
    let mut third = agreeing(3, &own, &[(2, &later), (1, &Acceptor::default())]);
    assert_eq!(third.decide(CLUSTER, 0), Decision::Keep(accepted(3, 3, &[10, 20, 60])));
    // A server that has proposed a birth in its ballot proposes no other one.
    let proposed = accepted(3, 3, &[10, 20, 60]);
    let mut again = agreeing(3, &proposed, &[(2, &later)]);
    assert!(matches!(again.decide(CLUSTER, 9_000), Decision::Wait(_)));
}

#[test]
fn a_server_that_begins_by_another_rule_takes_no_part() {
    let nothing = Acceptor::default();
    let mut agreeing = agreeing(1, &nothing, &[]);
    agreeing.on_link_up(unborn(2, &ALL));
    agreeing.on_link_up(unborn(3, &ALL));
    assert_eq!(agreeing.decide(CLUSTER, 0), Decision::Keep(promised(1, 1)));
    agreeing.on_kept(promised(1, 1));
    assert_eq!(agreeing.decide(CLUSTER, 9_000), Decision::Wait(Waiting::ForDecision(1)));
    let links = [unborn(2, &ALL).agreeing(nothing), unborn(3, &ALL)];
    let said = "server 2 is configured differently: it begins an ensemble with any majority";
    check(1, &links, Waiting::Attendances(2), said);
}

/// The content of a server's directory: the member id, what the server has promised and accepted,
/// and the birth.
#[derive(Clone)]
struct Directory {
    member: u64,
    acceptor: Acceptor,
    birth: Option<Birth>,
}

/// A server whose process may stop, and whose directory may get lost.
#[derive(Default)]
struct Server {
    directory: Option<Directory>,
    /// The process of the server while it is unborn.
    bootstrap: Option<Bootstrap>,
    is_up: bool,
    /// All hellos that the server has sent since it has this directory.
    hellos: Vec<Hello>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    /// A server takes its own proposal as chosen.
    Haste,
    /// A server forgets its promises and acceptances when its process stops.
    Oblivion,
}

/// Servers that see links to each other from time to time.
struct World {
    chance: Chance,
    attendance: Attendance,
    servers: Vec<Server>,
    numbers: Vec<u64>,
    drawn: u64,
    now_ms: u64,
    /// Pairs of a server and another one that it does not hear now.
    cut: BTreeSet<(usize, usize)>,
    /// The birth of the first server that was born; `None` before.
    birth: Option<Birth>,
    /// The mistake that the servers make on purpose; `None` if they make none.
    mistake: Option<Mistake>,
    /// Whether some server was born with another birth than the first.
    is_born_twice: bool,
}

impl World {
    fn new(seed: u64, count: u64, attendance: Attendance) -> World {
        let numbers: Vec<u64> = (1..=count).collect();
        let servers = numbers.iter().map(|_| Server::default()).collect();
        let (chance, drawn, birth) = (Chance::new(seed), 0, None);
        let (now_ms, cut, mistake, is_born_twice) = (0, BTreeSet::new(), None, false);
        World {
            chance,
            attendance,
            servers,
            numbers,
            drawn,
            now_ms,
            cut,
            birth,
            mistake,
            is_born_twice,
        }
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }

    fn start(&mut self, at: usize) {
        if self.servers[at].is_up {
            return;
        }
        let member = self.draw();
        let server = &mut self.servers[at];
        let new = || Directory { member, acceptor: Acceptor::default(), birth: None };
        let Directory { member, acceptor, birth } =
            server.directory.get_or_insert_with(new).clone();
        let (number, numbers) = (at as u64 + 1, &self.numbers);
        let directory = (MemberId(member), acceptor);
        let unborn = || Bootstrap::new(number, directory, numbers, self.attendance, known());
        server.bootstrap = birth.is_none().then(unborn);
        server.is_up = true;
        self.note_hello(at);
    }

    fn stop(&mut self, at: usize) {
        self.servers[at].bootstrap = None;
        self.servers[at].is_up = false;
    }

    fn note_hello(&mut self, at: usize) {
        let server = &self.servers[at];
        let Directory { member, birth, .. } = server.directory.clone().expect("its process runs");
        let unborn = Hello::unborn(at as u64 + 1, MemberId(member), self.numbers.clone(), known());
        let hello = match &server.bootstrap {
            Some(bootstrap) => bootstrap.hello().clone(),
            None => unborn.born(BootId(1), birth.expect("is born"), Level::FIRST.into()),
        };
        self.servers[at].hellos.push(hello);
    }

    /// The newest hello of a running server, or sometimes an older one: hellos may be late.
    fn hello(&mut self, at: usize, is_news: bool) -> Option<Hello> {
        let server = &self.servers[at];
        // Unless servers agree by ballots, a new link always brings the newest hello.
        let is_news = is_news || self.attendance != Attendance::AnyMajority;
        let back = if is_news { 0 } else { self.chance.below(2) * self.chance.below(3) };
        let last = server.hellos.len().checked_sub(1).filter(|_| server.is_up)?;
        server.hellos.get(last.saturating_sub(back as usize)).cloned()
    }

    /// Lets an unborn server hear some of the running servers, and act on its decision.
    fn look(&mut self, at: usize, sees_all: bool) {
        let cluster_id = u128::from(self.draw());
        let Some(mut bootstrap) = self.servers[at].bootstrap.clone() else { return };
        bootstrap.links.clear();
        for other in (0..self.servers.len()).filter(|other| *other != at) {
            let is_seen = sees_all || !self.cut.contains(&(at, other));
            if let Some(hello) = self.hello(other, sees_all).filter(|_| is_seen) {
                bootstrap.on_link_up(hello);
            }
        }
        let decision = bootstrap.decide(cluster_id, self.now_ms);
        self.servers[at].bootstrap = Some(bootstrap);
        match decision {
            Decision::BeBorn(birth) => self.be_born(at, birth),
            Decision::Keep(acceptor) => {
                let server = &mut self.servers[at];
                let directory = server.directory.as_mut().expect("its process runs");
                let is_own = acceptor.promised.member == directory.member;
                let proposed = acceptor.accepted.clone().filter(|_| is_own);
                assert!(directory.acceptor.promised <= acceptor.promised);
                if self.mistake != Some(Mistake::Oblivion) {
                    directory.acceptor = acceptor.clone();
                }
                // A process may be killed before any other server learns what it keeps.
                if self.chance.below(8) == 0 {
                    return self.stop(at);
                }
                server.bootstrap.as_mut().expect("was there").on_kept(acceptor);
                self.note_hello(at);
                if let Some((_, birth)) = proposed
                    && self.mistake == Some(Mistake::Haste)
                {
                    self.be_born(at, birth);
                }
            }
            Decision::Wait(_) => {}
        }
    }

    fn be_born(&mut self, at: usize, birth: Birth) {
        self.is_born_twice |= *self.birth.get_or_insert_with(|| birth.clone()) != birth;
        let server = &mut self.servers[at];
        server.directory.as_mut().expect("its process runs").birth = Some(birth);
        server.bootstrap = None;
        self.note_hello(at);
    }

    fn step(&mut self) {
        self.now_ms += self.chance.below(2_000);
        let at = self.chance.below(self.servers.len() as u64) as usize;
        match self.chance.below(20) {
            0 => {
                self.stop(at);
                if self.may_lose(at) {
                    self.servers[at] = Server::default();
                }
            }
            1..3 => self.stop(at),
            3..7 => self.start(at),
            7..10 => {
                let link = (at, self.chance.below(self.servers.len() as u64) as usize);
                if !self.cut.remove(&link) {
                    self.cut.insert(link);
                }
            }
            _ => self.look(at, false),
        }
    }

    /// Whether a server may lose its directory without a chance of two births.
    fn may_lose(&self, at: usize) -> bool {
        let is_born = |it: &Server| it.directory.as_ref().is_some_and(|it| it.birth.is_some());
        let others = self.servers.iter().enumerate().filter(|(other, _)| *other != at);
        let born = others.filter(|(_, it)| is_born(it)).count();
        match self.attendance {
            // The deciding server must not forget that it has decided.
            Attendance::Majority => at > 0,
            Attendance::AnyMajority => born > self.servers.len() / 2,
            // All servers are present at the birth. If the last born one is lost, the ensemble is
            // lost with it.
            Attendance::All | Attendance::Existing => true,
        }
    }
}

/// Runs one random history, in which all servers must end in one ensemble. Returns whether no
/// server lost its directory and every server votes at the end.
fn is_whole_at_last(seed: u64, attendance: Attendance) -> bool {
    let mut world = World::new(seed, 1 + seed % 5, attendance);
    live(&mut world, seed)
}

fn live(world: &mut World, seed: u64) -> bool {
    (0..200).for_each(|_| {
        world.step();
        // If all must be present at the birth, and all born servers are lost, the ensemble may
        // begin anew.
        let is_born = |it: &Server| it.directory.as_ref().is_some_and(|it| it.birth.is_some());
        if world.attendance == Attendance::All && !world.servers.iter().any(is_born) {
            world.birth = None;
        }
    });
    let servers = 0..world.servers.len();
    for at in servers.clone() {
        world.start(at);
    }
    for _ in 0..30 {
        world.now_ms += 500;
        for at in servers.clone() {
            world.look(at, true);
            world.start(at);
        }
    }
    assert!(!world.is_born_twice, "seed {seed}");
    let births: Vec<_> = servers.map(|at| world.hello(at, true).and_then(|it| it.birth)).collect();
    assert!(births.iter().all(|birth| birth.is_some() && *birth == births[0]), "seed {seed}");
    let voters = &births[0].as_ref().expect("was just looked at").voters;
    assert_eq!(voters.len(), world.servers.len());
    let is_voter =
        |it: &Server| it.directory.as_ref().is_some_and(|it| voters.contains(&it.member));
    world.servers.iter().all(is_voter)
}

#[test]
fn whatever_is_killed_or_lost_there_is_one_ensemble_and_all_find_it() {
    for attendance in [Attendance::All, Attendance::Majority, Attendance::AnyMajority] {
        let whole = (0..3_000).filter(|seed| is_whole_at_last(*seed, attendance)).count();
        assert!((100..2_900).contains(&whole), "{whole} lost nothing");
    }
}

/// The check above does find two births when servers make mistakes.
#[test]
fn servers_that_agree_in_a_wrong_way_are_born_twice() {
    for mistake in [Mistake::Haste, Mistake::Oblivion] {
        let is_born_twice = |seed| {
            let mut world = World::new(seed, 3, Attendance::AnyMajority);
            world.mistake = Some(mistake);
            (0..200).for_each(|_| world.step());
            world.is_born_twice
        };
        assert!((0..20_000).any(is_born_twice));
    }
}
