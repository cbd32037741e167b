use super::*;
use crate::change::Changes;
use crate::control::change::Change;
use crate::control::command::Command as ControlCommand;
use crate::ids::{BootId, ConnectionId, Origin, SessionId};
use crate::level::Level;
use crate::limits::SERVER_TEXT_BYTES_MAX;
use crate::reply::{ControlOutcome, Outcome};
use crate::stamp::Stamp;
use crate::zk::acl::Identity;
use crate::zk::settings::Settings;
use crate::{Command, Machine, ZkCommand};

/// A server of a reconfig on `host`, with the ports of ZooKeeper's examples.
fn server(host: &str) -> JoiningServer {
    let servers = format!("{host}:2888:3888");
    let clients = Some(format!("{host}:2181"));
    JoiningServer { role: ServerRole::Voter, zk: ZkAddresses { servers, clients } }
}

fn observer(host: &str) -> JoiningServer {
    JoiningServer { role: ServerRole::Observer, ..server(host) }
}

/// A request of ZooKeeper's for any version of the list.
fn zk(change: ListChange) -> ChangeRequest {
    let flags = ChangeFlags::default();
    ChangeRequest { by: Asker::Zk(SessionId(0)), version: None, flags, learners_max: 1, change }
}

fn etcd(change: ListChange) -> ChangeRequest {
    ChangeRequest { by: Asker::Etcd, ..zk(change) }
}

fn joining(all: &[(u64, JoiningServer)]) -> BTreeMap<u64, JoiningServer> {
    all.iter().cloned().collect()
}

fn incremental(leaving: &[u64], all: &[(u64, JoiningServer)]) -> ListChange {
    ListChange::Incremental { leaving: leaving.to_vec(), joining: joining(all) }
}

/// An ensemble of servers 1 to 3 at level 5 in which reconfig is on and permissions are off.
struct Ensemble {
    machine: Machine,
    changes: Vec<Change>,
    identities: Vec<(&'static str, &'static str)>,
}

impl Ensemble {
    fn new() -> Ensemble {
        let mut ensemble = Ensemble::at(Level::MEMBERS);
        ensemble.changes.clear();
        ensemble
    }

    fn at(level: Level) -> Ensemble {
        let mut ensemble =
            Ensemble { machine: Machine::default(), changes: Vec::new(), identities: Vec::new() };
        let record = |number: u64| (number, server(&format!("s{number}")));
        let all: Vec<_> = (1..=3).map(record).collect();
        let list = ServerList {
            version: 0,
            servers: all
                .iter()
                .map(|(it, server)| (*it, server.record(&ServerList::default(), *it)))
                .collect(),
        };
        ensemble.apply(ControlCommand::SetServers(list));
        for number in 1..=3 {
            let member = MemberId(100 + number);
            ensemble.apply(ControlCommand::Register { member, server: number });
        }
        ensemble.configure(Settings {
            reconfig_enabled: true,
            skip_acl: true,
            ..Settings::default()
        });
        if level > Level::FIRST {
            ensemble.apply(ControlCommand::Raise(level.into()));
        }
        ensemble
    }

    fn configure(&mut self, settings: Settings) {
        self.run(&Command::Zk(ZkCommand::Configure(settings)));
    }

    fn apply(&mut self, command: ControlCommand) -> ControlOutcome {
        match self.run(&Command::Control(command)) {
            Outcome::Control(outcome) => outcome,
            other => unreachable!("{other:?} is of another space"),
        }
    }

    fn run(&mut self, command: &Command<'_>) -> Outcome {
        let identities: Vec<Identity<'_>> =
            self.identities.iter().map(|(scheme, id)| Identity { scheme, id }).collect();
        let origin = Origin { member: MemberId(101), boot: BootId(1) };
        let stamp =
            Stamp { time_ms: 7, origin, connection: ConnectionId(5), identities: &identities };
        let mut changes = Changes::default();
        let reply = self.machine.apply(&stamp, command, &mut changes);
        self.changes.extend(changes.control.iter().cloned());
        reply.outcome
    }

    fn ask(&mut self, request: ChangeRequest) -> Result<ChangeId, ChangeRefused> {
        match self.apply(ControlCommand::Request(request)) {
            ControlOutcome::Requested(result) => result,
            ControlOutcome::Done => unreachable!("a request has a result"),
        }
    }

    /// Asks for a change that the state must allow, and takes it to its end.
    fn change(&mut self, request: ChangeRequest) {
        let id = self.ask(request).unwrap();
        self.apply(ControlCommand::Accept(id));
        self.apply(ControlCommand::Finish(id));
        assert_eq!(self.machine.control().servers().open_change(), None);
    }

    fn numbers(&self) -> Vec<u64> {
        self.list().servers.keys().copied().collect()
    }

    fn list(&self) -> &ServerList {
        self.machine.control().servers().list()
    }

    fn id_of(&self, number: u64) -> ServerId {
        self.machine.control().servers().id_of(number).unwrap()
    }

    /// How the changes so far have ended.
    fn ends(&self) -> Vec<Result<u64, LeaderRefused>> {
        let end = |change: &Change| match change {
            Change::ListChangeEnded { result, .. } => Some(*result),
            _ => None,
        };
        self.changes.iter().filter_map(end).collect()
    }
}

#[test]
fn the_list_changes_at_the_finish_and_its_version_is_that_zxid() {
    let mut ensemble = Ensemble::new();
    let before = ensemble.machine.mark().zxid;
    let id = ensemble.ask(zk(incremental(&[1], &[(4, observer("s4"))]))).unwrap();
    assert_eq!(ensemble.numbers(), [1, 2, 3]);
    ensemble.apply(ControlCommand::Accept(id));
    assert!(ensemble.machine.control().servers().open_change().unwrap().is_accepted);
    assert_eq!((ensemble.numbers(), ensemble.machine.mark().zxid), (vec![1, 2, 3], before));
    assert!(!ensemble.machine.control().servers().is_managed());
    ensemble.apply(ControlCommand::Finish(id));
    let version = ensemble.machine.mark().zxid.0 as u64;
    assert_eq!(version, before.0 as u64 + 1);
    assert_eq!((ensemble.numbers(), ensemble.list().version), (vec![2, 3, 4], version));
    assert_eq!(ensemble.list().servers[&4].role, ServerRole::Observer);
    assert_eq!(ensemble.ends(), [Ok(version)]);
    assert!(ensemble.machine.control().servers().is_managed());
    let config = ensemble.machine.zk().tree().find("/zookeeper/config").unwrap();
    let text = std::str::from_utf8(config.data().unwrap()).unwrap();
    assert!(text.ends_with(&format!("version={version:x}")), "{text}");
    assert!(text.contains("server.4=s4:2888:3888:observer;s4:2181\n"), "{text}");
    assert_eq!(config.stat().mzxid as u64, version);
}

#[test]
fn a_configuration_sets_the_list_only_until_a_change_has_finished() {
    let mut ensemble = Ensemble::new();
    let list = ensemble.list().clone();
    let id = ensemble.ask(zk(incremental(&[1], &[]))).unwrap();
    let emptied = ServerList { servers: BTreeMap::new(), ..list.clone() };
    ensemble.apply(ControlCommand::SetServers(emptied));
    assert_eq!(ensemble.numbers(), [1, 2, 3]);
    ensemble.apply(ControlCommand::Accept(id));
    ensemble.apply(ControlCommand::Finish(id));
    ensemble.apply(ControlCommand::SetServers(list));
    assert_eq!(ensemble.numbers(), [2, 3]);
}

#[test]
fn only_one_change_is_open_and_a_refusal_ends_it_unless_it_is_accepted() {
    let mut ensemble = Ensemble::new();
    let id = ensemble.ask(zk(incremental(&[1], &[]))).unwrap();
    let another = || zk(incremental(&[2], &[]));
    assert_eq!(ensemble.ask(another()), Err(ChangeRefused::InProgress));
    let refuse = |change| ControlCommand::Refuse { change, reason: LeaderRefused::NoQuorum };
    // A refusal of another change does nothing.
    ensemble.apply(refuse(ChangeId(id.0 + 1)));
    ensemble.apply(ControlCommand::Finish(id));
    assert!(ensemble.machine.control().servers().open_change().is_some());
    ensemble.apply(refuse(id));
    assert_eq!(ensemble.ends(), [Err(LeaderRefused::NoQuorum)]);
    let id = ensemble.ask(another()).unwrap();
    ensemble.apply(ControlCommand::Accept(id));
    ensemble.apply(refuse(id));
    assert!(ensemble.machine.control().servers().open_change().is_some());
    ensemble.apply(ControlCommand::GiveUp(id));
    assert_eq!(ensemble.ends(), [Err(LeaderRefused::NoQuorum), Err(LeaderRefused::GivenUp)]);
    assert_eq!(ensemble.numbers(), [1, 2, 3]);
    // Neither an old acceptance nor an old finish has an effect.
    ensemble.apply(ControlCommand::Accept(id));
    ensemble.apply(ControlCommand::Finish(id));
    assert_eq!(
        (ensemble.numbers(), ensemble.machine.control().servers().is_managed()),
        (vec![1, 2, 3], false)
    );
}

#[test]
fn requests_of_zookeepers_clients_are_judged_in_its_order() {
    let check = |ensemble: &mut Ensemble, request: ChangeRequest, expected| {
        assert_eq!(ensemble.ask(request), Err(expected));
    };
    let wrong = || ChangeRequest { version: Some(77), ..zk(ListChange::Malformed) };
    let mut ensemble = Ensemble::new();
    let settings =
        |reconfig_enabled, skip_acl| Settings { reconfig_enabled, skip_acl, ..Settings::default() };
    ensemble.configure(settings(false, true));
    check(&mut ensemble, wrong(), ChangeRefused::Disabled);
    ensemble.configure(settings(true, false));
    let open = ensemble.ask(etcd(ListChange::Remove(ensemble.id_of(1)))).unwrap();
    check(&mut ensemble, wrong(), ChangeRefused::InProgress);
    ensemble.apply(ControlCommand::GiveUp(open));
    check(&mut ensemble, wrong(), ChangeRefused::BadVersion);
    let version = Some(ensemble.list().version);
    check(&mut ensemble, ChangeRequest { version, ..wrong() }, ChangeRefused::BadArguments);
    check(&mut ensemble, zk(incremental(&[1], &[])), ChangeRefused::NotPermitted);
    ensemble.identities = vec![("super", "")];
    assert!(ensemble.ask(zk(incremental(&[1], &[]))).is_ok());
    let mut alone = Ensemble::new();
    alone.machine = Machine::default();
    alone.apply(ControlCommand::Raise(Level::MEMBERS.into()));
    alone.configure(settings(true, true));
    check(&mut alone, wrong(), ChangeRefused::NoEnsemble);
}

#[test]
fn lists_that_no_reconfig_may_lead_to_are_bad_arguments() {
    let mut ensemble = Ensemble::new();
    let mut check = |change| {
        assert_eq!(ensemble.ask(zk(change)), Err(ChangeRefused::BadArguments));
    };
    check(ListChange::Malformed);
    // One voter is too few while a server may be a standalone one.
    check(incremental(&[1, 2], &[]));
    check(ListChange::Whole(joining(&[(1, server("s1")), (2, observer("s2"))])));
    check(ListChange::Whole(BTreeMap::new()));
    // Another server has the address: the peers' port, or that of elections or of clients.
    check(incremental(&[], &[(4, server("s1"))]));
    let mut other = server("s4");
    other.zk.clients = Some("s2:3888".to_string());
    check(incremental(&[], &[(4, other)]));
    let many: Vec<_> = (1..=33).map(|number| (number, server(&format!("n{number}")))).collect();
    check(ListChange::Whole(joining(&many)));
    let mut ensemble = Ensemble::new();
    ensemble.change(zk(ListChange::Whole(joining(&many[..32]))));
    assert_eq!(ensemble.numbers().len(), 32);
    // A server may keep its own address, and every interface is nobody's.
    let mut ensemble = Ensemble::new();
    let everywhere = |host: &str| {
        let mut server = server(host);
        server.zk.clients = Some("0.0.0.0:2181".to_string());
        server
    };
    ensemble.change(zk(incremental(&[], &[(1, everywhere("s1")), (2, everywhere("s2"))])));
    let settings = Settings {
        reconfig_enabled: true,
        skip_acl: true,
        standalone_enabled: false,
        ..Settings::default()
    };
    ensemble.configure(settings);
    ensemble.change(zk(incremental(&[1, 2], &[])));
    assert_eq!(ensemble.numbers(), [3]);
}

#[test]
fn numbers_of_servers_that_etcds_clients_add_are_never_used_again() {
    let mut ensemble = Ensemble::new();
    let add = |url: &str, role| ListChange::Add { peer_urls: vec![url.to_string()], role };
    ensemble.change(etcd(add("http://new:2380", ServerRole::Voter)));
    assert_eq!(ensemble.numbers(), [1, 2, 3, 4]);
    let first = ensemble.id_of(4);
    assert_eq!(ensemble.list().servers[&4].zk, None);
    ensemble.change(etcd(ListChange::Remove(first)));
    ensemble.change(etcd(add("http://new:2380", ServerRole::Learner)));
    assert_eq!(ensemble.numbers(), [1, 2, 3, 5]);
    assert_ne!(ensemble.id_of(5), first);
    let refused = |ensemble: &mut Ensemble, change, expected| {
        assert_eq!(ensemble.ask(etcd(change)), Err(expected));
    };
    let third = add("http://x:1", ServerRole::Learner);
    refused(&mut ensemble, third, ChangeRefused::TooManyLearners);
    refused(&mut ensemble, add("http://new:2380", ServerRole::Voter), ChangeRefused::UrlExists);
    refused(&mut ensemble, ListChange::Remove(first), ChangeRefused::NotFound);
    let voter = ensemble.id_of(1);
    refused(&mut ensemble, ListChange::Promote(voter), ChangeRefused::NotLearner);
    let learner = ensemble.id_of(5);
    ensemble.change(etcd(ListChange::Promote(learner)));
    assert_eq!(ensemble.list().servers[&5].role, ServerRole::Voter);
    assert_eq!(ensemble.id_of(5), learner);
}

#[test]
fn an_updated_server_moves_for_both_protocols() {
    let mut ensemble = Ensemble::new();
    let server = ensemble.id_of(2);
    let update = |url: &str| ListChange::Update { server, peer_urls: vec![url.to_string()] };
    assert_eq!(ensemble.ask(etcd(update("http://s3:2888"))), Err(ChangeRefused::UrlExists));
    // Its own URL is no other server's.
    ensemble.change(etcd(update("http://s2:2888")));
    ensemble.change(etcd(update("http://moved:2999")));
    let record = &ensemble.list().servers[&2];
    assert_eq!(record.peer_urls, ["http://moved:2999"]);
    assert_eq!(record.zk.as_ref().unwrap().servers, "moved:2999:3888");
    assert_eq!(ensemble.id_of(2), server);
}

#[test]
fn the_last_voter_cannot_be_removed() {
    let mut ensemble = Ensemble::new();
    for number in [1, 2] {
        let server = ensemble.id_of(number);
        ensemble.change(etcd(ListChange::Remove(server)));
    }
    let last = ensemble.id_of(3);
    assert_eq!(ensemble.ask(etcd(ListChange::Remove(last))), Err(ChangeRefused::BadArguments));
}

#[test]
fn servers_keep_the_ids_of_their_members_when_the_level_rises() {
    let mut ensemble = Ensemble::at(Level::TOKENS);
    let drawn = ensemble.id_of(3);
    // Server 3 has lost its directory: two members are registered for it.
    ensemble.apply(ControlCommand::Register { member: MemberId(203), server: 3 });
    ensemble.apply(ControlCommand::Raise(Level::MEMBERS.into()));
    let ids = [1, 2, 3].map(|number| ensemble.id_of(number));
    assert_eq!(ids, [ServerId(101), ServerId(102), drawn]);
}

#[test]
fn a_server_that_begins_a_new_cluster_alone_keeps_its_place_and_its_id() {
    let mut ensemble = Ensemble::new();
    let add = |url: &str| {
        let (peer_urls, role) = (vec![url.to_string()], ServerRole::Voter);
        etcd(ListChange::Add { peer_urls, role })
    };
    ensemble.change(add("http://s4:2380"));
    ensemble.apply(ControlCommand::Retire(MemberId(103)));
    let id = ensemble.id_of(2);
    let opened = ensemble.ask(zk(incremental(&[1], &[]))).unwrap();
    ensemble.apply(ControlCommand::Accept(opened));
    let before = ensemble.machine.mark().zxid;
    let old = core::mem::take(&mut ensemble.machine);
    let alone = Machine::begin_alone_with(old, MemberId(102));
    let servers = alone.control().servers();
    assert_eq!(servers.list().servers.keys().copied().collect::<Vec<_>>(), [2]);
    assert_eq!((servers.id_of(2), servers.id_of(1)), (Some(id), None));
    assert!(servers.is_managed() && servers.open_change().is_none());
    assert_eq!((servers.retired().count(), servers.members().len()), (0, 0));
    assert!(alone.mark().zxid > before);
    let config = alone.zk().tree().find("/zookeeper/config").unwrap();
    let text = std::str::from_utf8(config.data().unwrap()).unwrap();
    assert!(text.starts_with("server.2=") && text.lines().count() == 2, "{text}");
    // A server that is added later gets a number that no server ever had.
    let mut ensemble = Ensemble { machine: alone, changes: Vec::new(), identities: Vec::new() };
    ensemble.change(add("http://s5:2380"));
    assert_eq!(ensemble.numbers(), [2, 5]);
}

/// Below level 5 the state has no list afterwards, and neither if no server is the member's.
#[test]
fn without_a_place_in_the_list_a_new_cluster_has_no_list() {
    for (level, member) in [(Level::TOKENS, 102), (Level::MEMBERS, 9)] {
        let alone = Machine::begin_alone_with(Ensemble::at(level).machine, MemberId(member));
        assert!(alone.control().servers().list().servers.is_empty());
        assert!(!alone.control().servers().is_managed());
    }
}

#[test]
fn retired_members_are_forgotten_and_remembered_up_to_a_bound() {
    let mut ensemble = Ensemble::new();
    ensemble.apply(ControlCommand::Retire(MemberId(101)));
    assert_eq!(ensemble.machine.control().servers().number_of(MemberId(101)), None);
    assert!(ensemble.machine.control().servers().is_retired(MemberId(101)));
    assert!(!ensemble.machine.control().servers().is_retired(MemberId(102)));
    for member in 0..RETIRED_MAX as u64 - 1 {
        ensemble.apply(ControlCommand::Retire(MemberId(10_000 + member)));
    }
    assert!(ensemble.machine.control().servers().is_retired(MemberId(101)));
    ensemble.apply(ControlCommand::Retire(MemberId(7)));
    let is_retired = |member| ensemble.machine.control().servers().is_retired(MemberId(member));
    assert_eq!([101, 7, 10_000].map(is_retired), [false, true, true]);
    let retired: Vec<_> = ensemble.machine.control().servers().retired().collect();
    assert_eq!(
        (retired.len(), retired[0], retired[1]),
        (RETIRED_MAX, MemberId(7), MemberId(10_000))
    );
}

/// A request after which removed servers serve on.
fn staying(change: ListChange) -> ChangeRequest {
    ChangeRequest { flags: ChangeFlags { stay: true, ..ChangeFlags::default() }, ..zk(change) }
}

#[test]
fn removed_servers_are_guests_until_they_are_gone_or_listed_again() {
    let mut ensemble = Ensemble::new();
    ensemble.change(zk(incremental(&[], &[(4, server("s4")), (5, server("s5"))])));
    ensemble.change(staying(incremental(&[2, 3, 4], &[])));
    let guests = |ensemble: &Ensemble| {
        let servers = ensemble.machine.control().servers();
        let guests: Vec<u64> = (1..=5).filter(|number| servers.is_guest(*number)).collect();
        (guests, servers.to_reach().into_keys().collect::<Vec<_>>())
    };
    // Server 4 has never come.
    assert_eq!(guests(&ensemble), (vec![2, 3], vec![1, 2, 3, 5]));
    ensemble.apply(ControlCommand::Register { member: MemberId(203), server: 3 });
    ensemble.apply(ControlCommand::Retire(MemberId(103)));
    assert_eq!(guests(&ensemble), (vec![2, 3], vec![1, 2, 3, 5]), "another member is server 3");
    ensemble.apply(ControlCommand::Retire(MemberId(203)));
    assert_eq!(guests(&ensemble), (vec![2], vec![1, 2, 5]));
    ensemble.change(zk(incremental(&[], &[(2, server("moved"))])));
    assert_eq!(guests(&ensemble), (vec![], vec![1, 2, 5]));
    assert_eq!(ensemble.list().servers[&2].peer_urls, ["http://moved:2888"]);
    ensemble.change(zk(incremental(&[2], &[])));
    assert_eq!(guests(&ensemble), (vec![], vec![1, 5]));
}

#[test]
fn servers_that_come_by_themselves_are_guests_up_to_a_bound() {
    let mut ensemble = Ensemble::new();
    let admit = |ensemble: &mut Ensemble, member: u64, server: u64| {
        let peer_urls = vec![format!("http://new{member}:1")];
        ensemble.apply(ControlCommand::Admit { member: MemberId(member), server, peer_urls });
        let servers = ensemble.machine.control().servers();
        let is_registered = servers.number_of(MemberId(member)) == Some(server);
        (is_registered && servers.is_guest(server)).then(|| {
            assert!(servers.serves_without_vote(MemberId(member)));
            servers.to_reach()[&server].peer_urls[0].clone()
        })
    };
    assert_eq!(admit(&mut ensemble, 202, 2), None, "it is listed");
    for number in 4..11 {
        let url = format!("http://new{}:1", 200 + number);
        assert_eq!(admit(&mut ensemble, 200 + number, number), Some(url));
    }
    assert_eq!(admit(&mut ensemble, 211, 11), None, "there are as many as there may be");
    assert_eq!(admit(&mut ensemble, 304, 4), Some("http://new304:1".to_string()));
    ensemble.apply(ControlCommand::Retire(MemberId(305)));
    assert_eq!(admit(&mut ensemble, 305, 5), None, "it is retired");
    ensemble.change(zk(incremental(&[1, 2, 3], &[(4, server("s4")), (5, server("s5"))])));
    let servers = ensemble.machine.control().servers();
    assert!(!servers.is_guest(4) && servers.is_guest(6) && !servers.is_guest(1));
    assert_eq!(servers.number_of(MemberId(304)), Some(4));
    assert_eq!(servers.list().servers[&4].peer_urls, ["http://s4:2888"]);
}

#[test]
fn observers_and_servers_that_stay_hand_over_commands_without_a_vote() {
    let mut ensemble = Ensemble::new();
    ensemble.change(zk(incremental(&[], &[(3, observer("s3"))])));
    let serving = |ensemble: &Ensemble| {
        let servers = ensemble.machine.control().servers();
        let serves = |number: &u64| servers.serves_without_vote(MemberId(100 + number));
        (1..=3).filter(serves).collect::<Vec<u64>>()
    };
    assert_eq!(serving(&ensemble), [3]);
    // Already the accepted change takes server 2's vote.
    let id = ensemble.ask(staying(incremental(&[2], &[(4, server("s4"))]))).unwrap();
    assert_eq!(serving(&ensemble), [3]);
    ensemble.apply(ControlCommand::Accept(id));
    assert_eq!(serving(&ensemble), [2, 3]);
    ensemble.apply(ControlCommand::Finish(id));
    assert_eq!(serving(&ensemble), [2, 3]);
    // Server 3 is to vote again: it waits for its vote.
    let id = ensemble.ask(zk(incremental(&[], &[(3, server("s3"))]))).unwrap();
    ensemble.apply(ControlCommand::Accept(id));
    assert_eq!(serving(&ensemble), [2]);
    ensemble.apply(ControlCommand::Retire(MemberId(102)));
    ensemble.apply(ControlCommand::Register { member: MemberId(102), server: 2 });
    assert_eq!(ensemble.machine.control().servers().number_of(MemberId(102)), None);
    assert_eq!(serving(&ensemble), []);
}

#[test]
fn below_its_level_nothing_is_asked_for_and_nothing_is_written() {
    let mut ensemble = Ensemble::at(Level::TOKENS);
    let bytes = |machine: &Machine| {
        let mut out = Vec::new();
        machine.control().encode(&mut out);
        out.len()
    };
    let before = bytes(&ensemble.machine);
    assert_eq!(ensemble.ask(zk(incremental(&[1], &[]))), Err(ChangeRefused::Disabled));
    ensemble.apply(ControlCommand::Retire(MemberId(55)));
    assert_eq!(bytes(&ensemble.machine), before);
}

/// A state with every part of the section.
fn full() -> Ensemble {
    let mut ensemble = Ensemble::new();
    ensemble.change(zk(incremental(&[1], &[(4, observer("s4"))])));
    ensemble.apply(ControlCommand::Retire(MemberId(101)));
    ensemble.change(staying(incremental(&[3], &[(5, server("s5"))])));
    let (member, peer_urls) = (MemberId(206), vec!["http://s6:1".to_string()]);
    ensemble.apply(ControlCommand::Admit { member, server: 6, peer_urls });
    let flags = ChangeFlags { is_strict: true, is_forced: false, stay: true };
    let server = ensemble.id_of(2);
    let request = ChangeRequest { flags, ..etcd(ListChange::Remove(server)) };
    let id = ensemble.ask(request).unwrap();
    ensemble.apply(ControlCommand::Accept(id));
    ensemble
}

#[test]
fn the_section_is_read_back_and_refused_when_it_is_cut() {
    let ensemble = full();
    let mut bytes = Vec::new();
    ensemble.machine.control().encode(&mut bytes);
    assert_eq!(bytes.len() as u64, ensemble.machine.control().encoded_bytes());
    let decode = |bytes: &[u8]| {
        let mut reader = Reader::new(bytes);
        let control = crate::Control::decode(&mut reader)?;
        reader.finish().map(|()| control)
    };
    let again = decode(&bytes).unwrap();
    assert_eq!(again.servers().open_change(), ensemble.machine.control().servers().open_change());
    assert!(again.servers().is_managed() && again.servers().is_retired(MemberId(101)));
    assert!(again.servers().is_guest(3));
    let mut written = Vec::new();
    again.encode(&mut written);
    assert_eq!(written, bytes);
    for cut in 0..bytes.len() {
        assert!(decode(&bytes[..cut]).is_err(), "{cut} bytes");
    }
}

#[test]
fn requests_are_read_back_and_refused_when_they_are_cut() {
    let flags = ChangeFlags { is_strict: true, is_forced: true, stay: true };
    let urls = vec!["http://a:1".to_string(), "http://b:2".to_string()];
    let server_id = ServerId(9);
    let mut without_clients = server("s5");
    without_clients.zk.clients = None;
    let changes = [
        ListChange::Malformed,
        incremental(&[3, 1], &[(4, observer("s4")), (5, without_clients)]),
        ListChange::Whole(joining(&[(7, server("s7"))])),
        ListChange::Add { peer_urls: urls.clone(), role: ServerRole::Learner },
        ListChange::Remove(server_id),
        ListChange::Update { server: server_id, peer_urls: urls },
        ListChange::Promote(server_id),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let by = [Asker::Zk(SessionId(0)), Asker::Etcd, Asker::Operator][at % 3];
        let version = (at % 2 == 0).then_some(at as u64);
        let request = ChangeRequest { by, version, flags, learners_max: 3, change };
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        let decode = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes);
            let request = ChangeRequest::decode(&mut reader)?;
            reader.finish().map(|()| request)
        };
        assert_eq!(decode(&bytes), Ok(request));
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_err(), "{cut} bytes of {at}");
        }
    }
}

/// Only a member of another build, or a broken one, forwards such requests. They must not end the
/// process.
#[test]
fn a_request_that_leads_past_a_limit_is_refused() {
    let mut ensemble = Ensemble::new();
    let mut long = server("h");
    long.zk.servers = format!("{}:1:2", "h".repeat(SERVER_TEXT_BYTES_MAX - 4));
    let refused = ensemble.ask(zk(incremental(&[], &[(4, long)])));
    assert_eq!(refused, Err(ChangeRefused::BadArguments));
    ensemble.change(zk(incremental(&[], &[(u64::MAX, observer("last"))])));
    let peer_urls = vec!["http://new:1".to_string()];
    let refused = ensemble.ask(etcd(ListChange::Add { peer_urls, role: ServerRole::Learner }));
    assert_eq!(refused, Err(ChangeRefused::TooManyServers));
}

/// A file with such a list is refused at the next start.
#[test]
fn no_two_servers_get_one_address() {
    let mut ensemble = Ensemble::new();
    let twice = joining(&[(1, server("a")), (2, server("b")), (3, server("A"))]);
    let refused = ensemble.ask(zk(ListChange::Whole(twice)));
    assert_eq!(refused, Err(ChangeRefused::BadArguments));
    let refused = ensemble.ask(zk(incremental(&[], &[(4, server("S1"))])));
    assert_eq!(refused, Err(ChangeRefused::BadArguments));
    let every = joining(&[(1, server("0.0.0.0")), (2, server("0.0.0.0"))]);
    assert!(ensemble.ask(zk(ListChange::Whole(every))).is_ok());
}
