//! Bodies for what the state machine decodes: commands, log entries, and images of the state.

use machine::control::list_change::{
    Asker, ChangeFlags, ChangeId, ChangeRequest, JoiningServer, LeaderRefused, ListChange,
};
use machine::entry::{
    self, BatchBuilder, NotAdded, decode_batch, decode_header, decode_identities, encode_identities,
};
use machine::etcd::command::{
    Command as EtcdCommand, Compare as EtcdCompare, CompareTarget, DeleteRange, KeyRange,
    Op as EtcdOp, Put, RangeOp, Relation, SortOrder, Txn as EtcdTxn,
};
use machine::etcd_v2::command::{Compare, Judged, Write};
use machine::etcd_v2::key::Key;
use machine::image::FreezeStep;
use machine::image::restore::{Restore, RestoreError};
use machine::zk::command::AskedAcl;
use machine::{
    AclEntry, ApplyStep, BootId, Changes, Command, ConnectionId, ControlCommand, CreateMode,
    EtcdV2Command, Identity, LeaseId, Level, LogIndex, Machine, MemberId, Op, Ordinal, Origin,
    ServerList, ServerRecord, ServerRole, SessionId, Settings, Stamp, ZkAddresses, ZkCommand,
};

const SESSION: SessionId = SessionId(0x0100_0000_0000_0001);
const IDENTITIES: [Identity<'static>; 2] =
    [Identity { scheme: "ip", id: "::1" }, Identity { scheme: "digest", id: "a:b" }];

/// A command. If it decodes, it must encode and decode again to an equal one.
pub fn command(bytes: &[u8]) {
    let Ok(command) = Command::decode(bytes) else { return };
    let mut encoded = Vec::new();
    command.encode(&mut encoded);
    assert_eq!(Command::decode(&encoded), Ok(command));
}

/// How many steps the body runs a command for; a command that needs more is not judged.
const STEPS_MAX: u32 = 20_000;

/// Applies a command in steps. Whatever the command asks for, each step may look at only a few
/// keys, the state must not depend on the size of the steps, and no outcome may keep versions of
/// keys alive. (`Machine::apply_step` counts the keys if debug assertions are on.)
pub fn steps(bytes: &[u8]) {
    let Some((&keys_max, bytes)) = bytes.split_first() else { return };
    let Ok(command) = Command::decode(bytes) else { return };
    // A control command may end the process, for instance if it installs an image that was not
    // prepared. A peer may forward only those of clients.
    if let Command::Control(control) = &command
        && !matches!(control, ControlCommand::Request(_))
    {
        return;
    }
    let mut encoded = Vec::new();
    command.encode(&mut encoded);
    assert!(encoded.len() <= bytes.len(), "a command in the log is as large as it was decoded");
    let (mut whole, stamp, _) = machine_with_keys();
    let (mut stepped, ..) = machine_with_keys();
    whole.apply(&stamp, &command, &mut Changes::default());
    let step = ApplyStep { keys_max: 1 + u64::from(keys_max % 16), is_taken: keys_max < 128 };
    for _ in 0..STEPS_MAX {
        let reply = stepped.apply_step(&stamp, &command, step, &mut Changes::default());
        assert_eq!(reply.is_none(), stepped.is_amid_command());
        if reply.is_some() {
            assert_eq!(stepped.digest(), whole.digest());
            return;
        }
    }
}

/// Commands of the ensemble, each behind its length in two bytes. They are applied to an ensemble
/// whose list of servers may change; a command about the change 0 is about the open one. Then the
/// state must have a faithful image.
pub fn list_changes(mut bytes: &[u8]) {
    let mut commands = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (command, rest) = rest.split_at(rest.len().min(u16::from_be_bytes(*length).into()));
        bytes = rest;
        // An image must be prepared before it is installed.
        if let Ok(Command::Control(command)) = Command::decode(command)
            && !matches!(command, ControlCommand::InstallImage { .. })
        {
            commands.push(command);
        }
    }
    if commands.is_empty() {
        return;
    }
    let mut ensemble = ensemble();
    commands.into_iter().for_each(|command| apply_of_ensemble(&mut ensemble, command));
    ensemble.finish_entry(LogIndex(2));
    assert_image_is_faithful(&mut ensemble);
}

/// Applies a command of the ensemble. Instead of the change with number 0, it names the open one.
fn apply_of_ensemble(ensemble: &mut Machine, mut command: ControlCommand) {
    let open = ensemble.control().servers().open_change().map(|open| open.id);
    match &mut command {
        ControlCommand::Accept(change)
        | ControlCommand::Refuse { change, .. }
        | ControlCommand::Finish(change)
        | ControlCommand::GiveUp(change)
            if *change == ChangeId(0) =>
        {
            *change = open.unwrap_or(ChangeId(0));
        }
        _ => {}
    }
    let command = Command::Control(command);
    let mut encoded = Vec::new();
    command.encode(&mut encoded);
    assert_eq!(Command::decode(&encoded).as_ref(), Ok(&command));
    ensemble.apply(&STAMP, &command, &mut Changes::default());
}

/// A log entry, with all its batches and commands. If it is valid, the entry built from its batches
/// and commands must be valid and have an equal header.
pub fn entry(bytes: &[u8]) {
    let Ok(header) = entry::verify(bytes) else { return };
    let again = encode_again(bytes);
    assert_eq!(entry::verify(&again), Ok(header));
    assert_eq!(encode_again(&again), again);
}

/// Builds an equal entry from the batches and commands in `bytes`, which must be a valid entry.
fn encode_again(bytes: &[u8]) -> Vec<u8> {
    let header = decode_header(bytes).expect("the entry was verified");
    let mut batches = Vec::new();
    let mut offset = entry::HEADER_BYTES;
    for _ in 0..header.batch_count {
        let batch = decode_batch(bytes, offset).expect("the entry was verified");
        let mut builder = BatchBuilder::default();
        let mut at = 0;
        while let Some(framed) = batch.command(at).expect("the entry was verified") {
            let identities = batch.identities[framed.identity_list].iter().copied();
            let identities = encode_identities(identities);
            let added = builder.push(framed.connection, &identities, &framed.command);
            if let Err(NotAdded::Full | NotAdded::TooLarge { .. }) = added {
                // No Front builds such a batch: several commands that together are too large.
                return bytes.to_vec();
            }
            at = framed.end;
        }
        assert_eq!(builder.command_count(), batch.command_count as usize);
        batches.push(builder.finish().stamp(batch.origin, batch.sequence));
        offset = batch.end;
    }
    entry::encode(header.time_ms, header.group, header.level, &batches).to_vec()
}

/// A list of identities from a batch. If it decodes, it must encode to the same bytes.
pub fn identities(bytes: &[u8]) {
    let Ok(identities) = decode_identities(bytes) else { return };
    assert_eq!(encode_identities(identities.into_iter()), bytes);
}

/// An image is either refused, or restores a machine whose own image restores the same state.
pub fn image(bytes: &[u8]) {
    if let Ok(mut machine) = restore(bytes) {
        assert_image_is_faithful(&mut machine);
    }
}

pub fn assert_image_is_faithful(machine: &mut Machine) {
    let restored = restore(&image_of(machine, u32::MAX)).expect("what was written is whole");
    assert_eq!(restored.digest(), machine.digest());
    assert_eq!((restored.index(), restored.mark()), (machine.index(), machine.mark()));
}

fn restore(image: &[u8]) -> Result<Machine, RestoreError> {
    let mut restore = Restore::default();
    restore.piece(image)?;
    restore.finish()
}

/// The machine's image, frozen in steps of at most `slots_max` slots.
fn image_of(machine: &mut Machine, slots_max: u32) -> Vec<u8> {
    machine.freeze();
    let mut image = Vec::new();
    loop {
        match machine.freeze_step(usize::MAX, slots_max) {
            FreezeStep::Piece(piece) => image.extend(piece),
            FreezeStep::Last(piece) => {
                image.extend(piece);
                return image;
            }
            FreezeStep::Aborted => unreachable!("nothing changes meanwhile"),
        }
    }
}

/// A machine with one open session, the stamp of that session's connection, and the session's id.
pub fn machine_with_session() -> (Machine, Stamp<'static>, SessionId) {
    let mut machine = Machine::default();
    let origin = Origin { member: MemberId(1), boot: BootId(1) };
    let stamp = Stamp { time_ms: 5, origin, connection: ConnectionId(1), identities: &IDENTITIES };
    assert!(machine.begin_batch(origin, 1));
    let open =
        Command::Zk(ZkCommand::OpenSession { session: SESSION, password: [7; 16], timeout_ms: 9 });
    machine.apply(&stamp, &open, &mut Changes::default());
    (machine, stamp, SESSION)
}

fn ops() -> Vec<Op<'static>> {
    let acl = vec![AclEntry { perms: 31, scheme: "digest".into(), id: "a:b".into() }];
    let (malformed, version) = (false, -1);
    let create = |path, mode, acl| Op::Create {
        path,
        malformed,
        data: Some(b"data"),
        acl,
        mode,
        ttl_ms: -1,
    };
    vec![
        create("/a", CreateMode::Persistent, AskedAcl::Open),
        create("/a/b", CreateMode::Ephemeral, AskedAcl::Entries(acl.clone())),
        create("/a/c-", CreateMode::PersistentSequential, AskedAcl::Open),
        create("/a/d-", CreateMode::ContainerSequential, AskedAcl::Open),
        Op::SetData { path: "/a", malformed, data: None, version },
        Op::SetAcl { path: "/a", malformed, acl: AskedAcl::Entries(acl), version },
        Op::Check { path: "/a", malformed, version },
        Op::Delete { path: "/a/c-0000000001", version },
        Op::Malformed,
    ]
}

fn servers() -> ServerList {
    let record = |number: u64, role| ServerRecord {
        name: "one".to_string(),
        role,
        peer_urls: vec![format!("http://s{number}:1")],
        client_urls: vec!["http://c:2379".to_string()],
        zk: Some(addresses(number)),
    };
    let servers = [(1, ServerRole::Voter), (2, ServerRole::Voter), (3, ServerRole::Observer)];
    let servers = servers.map(|(number, role)| (number, record(number, role)));
    ServerList { version: 1, servers: servers.into_iter().collect() }
}

fn addresses(number: u64) -> ZkAddresses {
    let clients = Some(format!("s{number}:3"));
    ZkAddresses { servers: format!("s{number}:1:2"), clients }
}

/// The stamp of a command that no client has sent.
const STAMP: Stamp<'_> = Stamp {
    time_ms: 5,
    origin: Origin { member: MemberId(1), boot: BootId(1) },
    connection: ConnectionId(0),
    identities: &[],
};

/// A machine with servers 1 to 3, whose list may change.
pub fn ensemble() -> Machine {
    let mut machine = Machine::default();
    let settings = Settings { reconfig_enabled: true, skip_acl: true, ..Settings::default() };
    let member = |server: u64| ControlCommand::Register { member: MemberId(100 + server), server };
    let commands = [
        Command::Zk(ZkCommand::Configure(settings)),
        Command::Control(ControlCommand::SetServers(servers())),
        Command::Control(member(1)),
        Command::Control(member(2)),
        Command::Control(member(3)),
        Command::Control(ControlCommand::Raise(Level::MEMBERS.into())),
    ];
    for command in commands {
        machine.apply(&STAMP, &command, &mut Changes::default());
    }
    machine
}

/// Makes a client's change of the list, and takes it to its end if the state allows it.
pub fn change_list(ensemble: &mut Machine, by: Asker, change: ListChange) {
    let commands = [request(by, change), accept(), ControlCommand::Finish(ChangeId(0))];
    commands.into_iter().for_each(|command| apply_of_ensemble(ensemble, command));
}

fn accept() -> ControlCommand {
    ControlCommand::Accept(ChangeId(0))
}

fn request(by: Asker, change: ListChange) -> ControlCommand {
    let flags = ChangeFlags { is_strict: true, is_forced: false, stay: by != Asker::Etcd };
    ControlCommand::Request(ChangeRequest { by, version: None, flags, learners_max: 1, change })
}

/// A request of each kind, with its client. Session 0 is no session: such requests are tests' own.
fn requests() -> Vec<ControlCommand> {
    let zk = Asker::Zk(SessionId(0));
    let joining = |number: u64, role| (number, JoiningServer { role, zk: addresses(number) });
    let joining = |all: &[(u64, ServerRole)]| {
        all.iter().map(|(number, role)| joining(*number, *role)).collect()
    };
    let whole = joining(&[(1, ServerRole::Voter), (2, ServerRole::Voter)]);
    let joining = joining(&[(4, ServerRole::Voter), (5, ServerRole::Observer)]);
    let servers = ensemble();
    let id = |number| servers.control().servers().id_of(number).expect("it is listed");
    let peer_urls = || vec!["http://n:1".to_string(), "https://[::1]:2".to_string()];
    let add = |role| ListChange::Add { peer_urls: peer_urls(), role };
    vec![
        request(zk, ListChange::Malformed),
        request(zk, ListChange::Incremental { leaving: vec![3, 9], joining }),
        request(zk, ListChange::Whole(whole)),
        request(Asker::Etcd, add(ServerRole::Learner)),
        request(Asker::Etcd, add(ServerRole::Voter)),
        request(Asker::Operator, ListChange::Promote(id(3))),
        request(Asker::Etcd, ListChange::Remove(id(2))),
        request(Asker::Etcd, ListChange::Update { server: id(1), peer_urls: peer_urls() }),
    ]
}

/// The commands about changes of the list that are no requests.
fn commands_about_changes() -> Vec<ControlCommand> {
    let urls = || vec!["http://g:1".to_string(), "http://g:2".to_string()];
    let (member, change) = (MemberId(7), ChangeId(0));
    vec![
        accept(),
        ControlCommand::Refuse { change, reason: LeaderRefused::LearnerNotReady },
        ControlCommand::Finish(change),
        ControlCommand::Retire(MemberId(9)),
        ControlCommand::GiveUp(change),
        ControlCommand::Admit { member, server: 8, peer_urls: urls() },
        ControlCommand::Describe { server: 1, name: "n".to_string(), client_urls: urls() },
    ]
}

fn commands() -> Vec<Command<'static>> {
    let (session, password, timeout_ms) = (SessionId(2), [9; 16], 6_000);
    let mut commands = vec![
        Command::Zk(ZkCommand::OpenSession { session, password, timeout_ms }),
        Command::Zk(ZkCommand::Attach { session, password, timeout_ms }),
        Command::Zk(ZkCommand::CloseSession { session }),
        Command::Zk(ZkCommand::ExpireSessions {
            sessions: vec![(session, Ordinal(1)), (session, Ordinal(2))],
        }),
        Command::Zk(ZkCommand::DeleteContainers {
            paths: vec!["/a", "/a/b"],
            never_used_ms_max: 1,
        }),
        Command::Zk(ZkCommand::Configure(Settings {
            super_digest: Some("super:hash".to_string()),
            ..Settings::default()
        })),
        Command::Zk(ZkCommand::Multi { session: SESSION, ops: ops() }),
        Command::Control(ControlCommand::InstallImage { hash: 5 }),
        Command::Control(ControlCommand::Register { member: MemberId(1), server: 2 }),
        Command::Control(ControlCommand::Forget { member: MemberId(1) }),
        Command::Control(ControlCommand::Nothing),
        Command::Control(ControlCommand::Raise(Level::ETCD.into())),
        Command::Control(ControlCommand::SetServers(servers())),
        Command::Etcd(EtcdCommand::Grant { lease: LeaseId(3), ttl_s: 60 }),
        Command::Etcd(EtcdCommand::Revoke { lease: LeaseId(3) }),
        Command::Etcd(EtcdCommand::Expire {
            leases: vec![(LeaseId(3), Ordinal(1)), (LeaseId(-4), Ordinal(2))],
        }),
    ];
    let of_changes = requests().into_iter().chain(commands_about_changes());
    commands.extend(of_changes.map(Command::Control));
    commands.extend(v2_commands().into_iter().map(Command::EtcdV2));
    commands
        .extend(ops().into_iter().map(|op| Command::Zk(ZkCommand::Write { session: SESSION, op })));
    commands
}

fn v2_commands() -> Vec<EtcdV2Command<'static>> {
    let key = |text| Key::new(text).expect("it is a key");
    let write = Write { key: key("/d/a"), value: b"v", ttl_s: Some(60) };
    let compare = Compare { value: b"v", index: 0 };
    let (is_dir, is_refresh) = (false, false);
    vec![
        EtcdV2Command::Set { write, is_dir, is_refresh },
        EtcdV2Command::Create {
            write: Write { key: key("/d"), ..write },
            is_dir,
            is_in_order: true,
        },
        EtcdV2Command::Update { write: Write { value: b"", ..write }, is_refresh: true },
        EtcdV2Command::CompareAndSwap { write, compare, is_refresh },
        EtcdV2Command::CompareAndDelete { key: key("/d/a"), compare },
        EtcdV2Command::Expire { keys: vec![Judged { key: key("/d/a"), since: 4 }] },
        EtcdV2Command::Delete { key: key("/e"), is_dir, is_recursive: true },
    ]
}

/// Each request with an accept and a finish behind it, and a few that end otherwise.
pub fn list_changes_seeds() -> Vec<Vec<u8>> {
    let framed = |commands: &[ControlCommand]| {
        let mut out = Vec::new();
        for command in commands {
            let mut encoded = Vec::new();
            Command::Control(command.clone()).encode(&mut encoded);
            out.extend((encoded.len() as u16).to_be_bytes());
            out.extend(encoded);
        }
        out
    };
    let requests = requests();
    let finish = ControlCommand::Finish(ChangeId(0));
    let done = requests.iter().map(|request| framed(&[request.clone(), accept(), finish.clone()]));
    let begun = framed(&[&requests[3..4], &commands_about_changes()].concat());
    let others = commands_about_changes().into_iter().rev().collect::<Vec<_>>();
    let open = framed(&[&others[..], &requests[1..2], &[accept()]].concat());
    done.chain([begun, open]).collect()
}

pub fn command_seeds() -> Vec<Vec<u8>> {
    let encode = |command: &Command<'_>| {
        let mut out = Vec::new();
        command.encode(&mut out);
        out
    };
    commands().iter().map(encode).collect()
}

pub fn steps_seeds() -> Vec<Vec<u8>> {
    let everything = KeyRange { key: b"\0", end: b"\0" };
    let read = |order| RangeOp { order, limit: 2, ..RangeOp::of(everything) };
    let (relation, target) = (Relation::Greater, CompareTarget::Version(0));
    let compares = vec![EtcdCompare { range: everything, relation, target }; 3];
    let put = |key| Put {
        key,
        value: b"w",
        lease: 3,
        prev_kv: true,
        ignore_value: false,
        ignore_lease: false,
    };
    let innermost = EtcdTxn {
        compares: compares.clone(),
        success: vec![EtcdOp::Range(read(SortOrder::Descend)); 4],
        failure: vec![EtcdOp::Put(put(b"f"))],
    };
    let nested = EtcdTxn {
        compares: compares.clone(),
        success: vec![EtcdOp::Txn(innermost.clone()), EtcdOp::Txn(innermost)],
        failure: vec![],
    };
    let delete = DeleteRange { range: KeyRange { key: b"k1", end: b"k4" }, prev_kv: true };
    let txn = EtcdTxn {
        compares,
        success: vec![
            EtcdOp::Put(put(b"k0")),
            EtcdOp::Txn(nested.clone()),
            EtcdOp::DeleteRange(delete.clone()),
            EtcdOp::Txn(nested),
            EtcdOp::Put(put(b"k2")),
        ],
        failure: vec![EtcdOp::Range(read(SortOrder::None))],
    };
    let etcd = [
        EtcdCommand::Txn(txn),
        EtcdCommand::DeleteRange(delete),
        EtcdCommand::Compact { revision: 5 },
        EtcdCommand::Revoke { lease: LeaseId(3) },
    ];
    let encode = |command: &Command<'_>| {
        let mut out = vec![2];
        command.encode(&mut out);
        out
    };
    etcd.map(Command::Etcd).iter().chain(&commands()).map(encode).collect()
}

/// A machine with a session, a lease, and six keys, half of them attached to the lease.
fn machine_with_keys() -> (Machine, Stamp<'static>, SessionId) {
    let (mut machine, stamp, session) = machine_with_session();
    let mut apply = |command| {
        machine.apply(&stamp, &Command::Etcd(command), &mut Changes::default());
    };
    apply(EtcdCommand::Grant { lease: LeaseId(3), ttl_s: 60 });
    for key in [b"k0", b"k1", b"k2", b"k3", b"k4", b"k5"] {
        let lease = i64::from(key[1] % 2) * 3;
        let (prev_kv, ignore_value, ignore_lease) = (false, false, false);
        let put = Put { key, value: b"v", lease, prev_kv, ignore_value, ignore_lease };
        apply(EtcdCommand::Put(put));
    }
    (machine, stamp, session)
}

pub fn identities_seeds() -> Vec<Vec<u8>> {
    vec![encode_identities(IDENTITIES.into_iter()), encode_identities([].into_iter())]
}

pub fn entry_seeds() -> Vec<Vec<u8>> {
    let batch = |commands: &[Command<'_>], sequence| {
        let mut builder = BatchBuilder::default();
        for (position, command) in commands.iter().enumerate() {
            let identities = IDENTITIES.into_iter().take(position % 3);
            let identities: Vec<Identity<'_>> = identities.collect();
            let identities = encode_identities(identities.into_iter());
            builder.push(ConnectionId(1), &identities, command).expect("it fits");
        }
        let origin = Origin { member: MemberId(1), boot: BootId(1) };
        builder.finish().stamp(origin, sequence)
    };
    let all = commands();
    vec![
        entry::encode(1_700_000_000_000, 0, Level::FIRST, &[batch(&all, 1), batch(&all[..2], 2)])
            .to_vec(),
        entry::encode(0, 0, Level::FIRST, &[batch(&[], 1)]).to_vec(),
        entry::encode(0, 0, Level::FIRST, &[]).to_vec(),
    ]
}

pub fn image_seeds() -> Vec<Vec<u8>> {
    let (mut machine, stamp, session) = machine_with_session();
    for op in ops() {
        machine.apply(
            &stamp,
            &Command::Zk(ZkCommand::Write { session, op }),
            &mut Changes::default(),
        );
    }
    for lease in [LeaseId(3), LeaseId(4)] {
        let grant = Command::Etcd(EtcdCommand::Grant { lease, ttl_s: 60 });
        machine.apply(&stamp, &grant, &mut Changes::default());
    }
    let put = Put {
        key: b"k",
        value: b"v",
        lease: 3,
        prev_kv: false,
        ignore_value: false,
        ignore_lease: false,
    };
    let put = Command::Etcd(EtcdCommand::Put(put));
    machine.apply(&stamp, &put, &mut Changes::default());
    for command in v2_commands().into_iter().take(4) {
        machine.apply(&stamp, &Command::EtcdV2(command), &mut Changes::default());
    }
    machine.finish_entry(LogIndex(2));
    vec![
        image_of(&mut machine, u32::MAX),
        image_of(&mut machine, 1),
        image_of(&mut Machine::default(), u32::MAX),
        image_of(&mut changed_ensemble(), u32::MAX),
    ]
}

/// An ensemble whose list was changed: with guests, a retired member and an open change.
fn changed_ensemble() -> Machine {
    let mut ensemble = ensemble();
    let requests = requests();
    let removal = [requests[1].clone(), accept(), ControlCommand::Finish(ChangeId(0))];
    let then = [commands_about_changes(), vec![requests[3].clone(), accept()]].concat();
    for command in removal.into_iter().chain(then) {
        apply_of_ensemble(&mut ensemble, command);
    }
    let servers = ensemble.control().servers();
    assert!(servers.is_guest(3) && servers.is_guest(8) && servers.is_retired(MemberId(9)));
    assert!(servers.open_change().is_some_and(|open| open.is_accepted));
    ensemble.finish_entry(LogIndex(2));
    ensemble
}
