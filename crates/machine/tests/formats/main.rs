//! Reads files that earlier versions wrote at each level: entries with every command and operation,
//! and images of machines with a history. `fixtures/README.md` says how the files were made. These
//! files are never written again: a later version of a format gets files of its own. Level 1 is
//! here, level 2 in `etcd`, level 3 in `etcd_v2`, level 4 in `level_4`.

mod etcd;
mod etcd_v2;
mod level_4;

use bytes::Bytes;
use machine::entry::{self, BatchBuilder, decode_batch, decode_header, encode_identities};
use machine::image::FreezeStep;
use machine::image::restore::Restore;
use machine::zk::acl::perms;
use machine::zk::command::AskedAcl;
use machine::{
    AclEntry, BootId, Changes, Command, ConnectionId, ControlCommand, CreateMode, Identity, Level,
    LogIndex, Machine, MemberId, Op, Ordinal, Origin, ServerList, ServerRecord, ServerRole,
    SessionId, Settings, Stamp, StatedLevel, ZkAddresses, ZkCommand,
};

const ENTRY: &[u8] = include_bytes!("../fixtures/entry-v1.bin");
const CONTROL_ENTRY: &[u8] = include_bytes!("../fixtures/entry-control-v1.bin");
const IMAGE: &[u8] = include_bytes!("../fixtures/image-v4.bin");
const IMAGE_AGAIN: &[u8] = include_bytes!("../fixtures/image-again-v4.bin");
const IMAGE_TEXT: &str = include_str!("../fixtures/image-v4.txt");

const TIME_MS: i64 = 1_700_000_000_123;
const GROUP: u32 = 0;
const HERE: Origin = Origin { member: MemberId(0x1111_2222_3333_4444), boot: BootId(3) };
const THERE: Origin = Origin { member: MemberId(7), boot: BootId(1) };
const FIRST: SessionId = SessionId(0x0100_0000_0000_0001);
const SECOND: SessionId = SessionId(0x0200_0000_0000_0002);
const THIRD: SessionId = SessionId(3);
const NOBODY: &[Identity<'static>] = &[];
const ALICE: &[Identity<'static>] = &[
    Identity { scheme: "ip", id: "127.0.0.1" },
    Identity { scheme: "digest", id: "alice:6MNk2ErJPqYcDnqpdnqzqFkhUJA=" },
];

/// A command, with the connection and the identities that send it.
type Sent = (ConnectionId, &'static [Identity<'static>], Command<'static>);

fn batch(origin: Origin, sequence: u64, sent: &[Sent]) -> Bytes {
    let mut builder = BatchBuilder::default();
    for (connection, identities, command) in sent {
        builder
            .push(*connection, &encode_identities(identities.iter().copied()), command)
            .expect("it fits");
    }
    builder.finish().stamp(origin, sequence)
}

fn entry_of(batches: &[(Origin, u64, Vec<Sent>)]) -> Vec<u8> {
    entry_at(Level::FIRST, batches)
}

fn entry_at(level: Level, batches: &[(Origin, u64, Vec<Sent>)]) -> Vec<u8> {
    let batches: Vec<Bytes> =
        batches.iter().map(|(origin, sequence, sent)| batch(*origin, *sequence, sent)).collect();
    entry::encode(TIME_MS, GROUP, level, &batches).to_vec()
}

fn acl(perms: u32, scheme: &str, id: &str) -> AclEntry {
    AclEntry { perms, scheme: scheme.into(), id: id.into() }
}

fn settings() -> Settings {
    Settings {
        skip_acl: false,
        digest_enabled: true,
        extended_types: true,
        enforce_quota: true,
        reconfig_enabled: true,
        standalone_enabled: true,
        x509_enabled: false,
        super_digest: Some("super:D/InIHSb7yEEbrWz8b9l71RjZJU=".to_string()),
        digest_algorithm: "SHA-256".to_string(),
        sasl_enabled: false,
        sasl_any_user: None,
    }
}

fn create(path: &'static str, mode: CreateMode) -> Op<'static> {
    let ttl_ms = if mode.is_ttl() { 60_000 } else { -1 };
    let (malformed, data) = (false, Some(&b"data"[..]));
    Op::Create { path, malformed, data, acl: AskedAcl::Open, mode, ttl_ms }
}

fn set(path: &'static str, data: Option<&'static [u8]>, version: i32) -> Op<'static> {
    Op::SetData { path, malformed: false, data, version }
}

fn delete(path: &'static str) -> Op<'static> {
    Op::Delete { path, version: -1 }
}

fn write(session: SessionId, op: Op<'static>) -> Command<'static> {
    Command::Zk(ZkCommand::Write { session, op })
}

/// One create for every create mode.
fn creates() -> Vec<Op<'static>> {
    vec![
        create("/a", CreateMode::Persistent),
        create("/a/ephemeral", CreateMode::Ephemeral),
        create("/a/sequential-", CreateMode::PersistentSequential),
        create("/a/both-", CreateMode::EphemeralSequential),
        create("/container", CreateMode::Container),
        create("/ttl", CreateMode::PersistentTtl),
        create("/ttl-", CreateMode::PersistentSequentialTtl),
    ]
}

/// Every operation that is not a create, and creates with unusual fields.
fn other_ops() -> Vec<Op<'static>> {
    let entries = vec![acl(perms::READ, "world", "anyone"), acl(perms::ALL, "auth", "")];
    vec![
        Op::Create {
            path: "/private",
            malformed: false,
            data: None,
            acl: AskedAcl::Entries(entries),
            mode: CreateMode::Persistent,
            ttl_ms: -1,
        },
        Op::Create {
            path: "/bad//path",
            malformed: true,
            data: Some(b""),
            acl: AskedAcl::Entries(Vec::new()),
            mode: CreateMode::Ephemeral,
            ttl_ms: i64::MIN,
        },
        set("/a", Some(b"other"), 0),
        set("/a", None, -1),
        Op::SetData { path: "", malformed: true, data: Some(b""), version: i32::MAX },
        Op::SetAcl {
            path: "/container",
            malformed: false,
            acl: AskedAcl::Entries(vec![acl(perms::ALL, "ip", "10.0.0.0/8")]),
            version: 0,
        },
        Op::SetAcl { path: "\u{e9}", malformed: true, acl: AskedAcl::Open, version: -1 },
        Op::Check { path: "/a", malformed: false, version: 2 },
        Op::Check { path: "a", malformed: true, version: i32::MIN },
        delete("/ttl"),
        Op::Delete { path: "/none", version: 5 },
        Op::Malformed,
    ]
}

/// The batches of an entry that has every command and operation.
fn everything() -> Vec<(Origin, u64, Vec<Sent>)> {
    let alice = |command| (ConnectionId(1), ALICE, command);
    let nobody = |command| (ConnectionId(0), NOBODY, command);
    let mut here = vec![
        nobody(Command::Zk(ZkCommand::Configure(settings()))),
        alice(Command::Zk(ZkCommand::OpenSession {
            session: FIRST,
            password: [1; 16],
            timeout_ms: 30_000,
        })),
    ];
    here.extend(creates().into_iter().map(|op| alice(write(FIRST, op))));
    here.extend(other_ops().into_iter().map(|op| alice(write(FIRST, op))));
    here.push(alice(Command::Zk(ZkCommand::Multi { session: FIRST, ops: creates() })));
    here.push(alice(Command::Zk(ZkCommand::Multi { session: FIRST, ops: other_ops() })));
    here.push(alice(Command::Zk(ZkCommand::Multi { session: FIRST, ops: Vec::new() })));
    let second = |command| (ConnectionId(u64::MAX), &ALICE[..1], command);
    let there = vec![
        second(Command::Zk(ZkCommand::OpenSession {
            session: SECOND,
            password: [2; 16],
            timeout_ms: 4_000,
        })),
        second(Command::Zk(ZkCommand::OpenSession {
            session: THIRD,
            password: [3; 16],
            timeout_ms: u32::MAX,
        })),
        second(Command::Zk(ZkCommand::Attach {
            session: SECOND,
            password: [2; 16],
            timeout_ms: 5_000,
        })),
        second(write(SECOND, create("/second", CreateMode::Ephemeral))),
        nobody(Command::Zk(ZkCommand::ExpireSessions {
            sessions: vec![(THIRD, Ordinal(26)), (FIRST, Ordinal(0))],
        })),
        nobody(Command::Zk(ZkCommand::ExpireSessions { sessions: Vec::new() })),
        second(Command::Zk(ZkCommand::CloseSession { session: THIRD })),
    ];
    vec![(HERE, 1, here), (THERE, 1, there)]
}

fn server(role: ServerRole, name: &str, zk: Option<ZkAddresses>) -> ServerRecord {
    let urls = |port: u16| vec![format!("http://{name}:{port}")];
    let (peer_urls, client_urls) = match name {
        "" => (Vec::new(), Vec::new()),
        _ => (urls(2888), urls(2379)),
    };
    ServerRecord { name: name.to_string(), role, peer_urls, client_urls, zk }
}

fn servers() -> ServerList {
    let zk = |clients: Option<&str>| {
        let clients = clients.map(str::to_string);
        Some(ZkAddresses { servers: "10.0.0.1:2888:3888".to_string(), clients })
    };
    let servers = [
        (1, server(ServerRole::Voter, "one", zk(Some("0.0.0.0:2181")))),
        (2, server(ServerRole::Learner, "", zk(None))),
        (3, server(ServerRole::Observer, "three", None)),
    ];
    ServerList { version: 0x100000001, servers: servers.into_iter().collect() }
}

/// Every command of the ensemble's space.
fn control_commands() -> Vec<ControlCommand> {
    let member = MemberId(0x1111_2222_3333_4444);
    vec![
        ControlCommand::InstallImage { hash: u128::MAX - 5 },
        ControlCommand::Register { member, server: 9 },
        ControlCommand::Forget { member },
        ControlCommand::Nothing,
        ControlCommand::Raise(StatedLevel { level: Level::FIRST, version: "0.1.0".to_string() }),
        ControlCommand::SetServers(servers()),
        ControlCommand::SetServers(ServerList::default()),
    ]
}

fn control_entry() -> Vec<u8> {
    let nobody = |command| (ConnectionId(0), NOBODY, Command::Control(command));
    entry_of(&[(HERE, 7, control_commands().into_iter().map(nobody).collect())])
}

/// Decodes an entry, and passes each command with its batch's origin and sequence to `visit`.
fn visit(entry: &[u8], visit: &mut dyn FnMut(Origin, u64, &Stamp<'_>, &Command<'_>)) {
    let header = decode_header(entry).expect("a good header");
    let mut offset = entry::HEADER_BYTES;
    for _ in 0..header.batch_count {
        let batch = decode_batch(entry, offset).expect("a good batch");
        let mut at = 0;
        while let Some(framed) = batch.command(at).expect("a good command") {
            let identities = &batch.identities[framed.identity_list];
            let (time_ms, origin) = (header.time_ms, batch.origin);
            let stamp = Stamp { time_ms, origin, connection: framed.connection, identities };
            visit(origin, batch.sequence, &stamp, &framed.command);
            at = framed.end;
        }
        offset = batch.end;
    }
}

fn apply(machine: &mut Machine, entry: &[u8]) {
    let mut changes = Changes::default();
    let mut begun = None;
    visit(entry, &mut |origin, sequence, stamp, command| {
        if begun.replace((origin, sequence)) != Some((origin, sequence)) {
            assert!(machine.begin_batch(origin, sequence));
        }
        machine.apply(stamp, command, &mut changes);
    });
    let index = machine.index();
    machine.finish_entry(LogIndex(index.0 + 1));
}

/// A machine with registered servers, sessions, ephemerals, several ACLs, and znodes that were
/// deleted and created again.
fn machine_with_a_past() -> Machine {
    let mut machine = Machine::default();
    apply(&mut machine, &entry_of(&everything()));
    let sent = [
        delete("/a/ephemeral"),
        delete("/container"),
        create("/again", CreateMode::Persistent),
        create("/again/child", CreateMode::Ephemeral),
        create("/again/child2", CreateMode::Persistent),
        create("/gone", CreateMode::Persistent),
        create("/secret", CreateMode::Persistent),
        Op::SetAcl {
            path: "/secret",
            malformed: false,
            acl: AskedAcl::Entries(vec![acl(perms::ALL, "auth", "")]),
            version: -1,
        },
        delete("/gone"),
    ];
    let mut sent: Vec<Sent> =
        sent.into_iter().map(|op| (ConnectionId(1), ALICE, write(FIRST, op))).collect();
    let ops = vec![create("/multi", CreateMode::Ephemeral), delete("/multi")];
    sent.push((ConnectionId(1), ALICE, Command::Zk(ZkCommand::Multi { session: FIRST, ops })));
    for (member, server) in [(HERE.member, 1), (THERE.member, 2)] {
        let register = Command::Control(ControlCommand::Register { member, server });
        sent.push((ConnectionId(0), NOBODY, register));
    }
    let set = Command::Control(ControlCommand::SetServers(servers()));
    sent.push((ConnectionId(0), NOBODY, set));
    apply(&mut machine, &entry_of(&[(HERE, 2, sent)]));
    machine
}

/// An image of the machine's present state, taken while the machine changes. The first step walks
/// no slots, so the old images of znodes that change then come first in the image.
fn image_while_it_changes(machine: &mut Machine) -> Vec<u8> {
    machine.freeze();
    let FreezeStep::Piece(mut image) = machine.freeze_step(usize::MAX, 0) else {
        panic!("there are znodes left");
    };
    let sent = [delete("/again/child"), set("/a", Some(b"later"), -1)];
    let sent = sent.into_iter().map(|op| (ConnectionId(1), ALICE, write(FIRST, op))).collect();
    apply(machine, &entry_of(&[(HERE, 3, sent)]));
    let FreezeStep::Last(rest) = machine.freeze_step(usize::MAX, u32::MAX) else {
        panic!("one step is enough");
    };
    image.extend(rest);
    image
}

fn image_of(machine: &mut Machine) -> Vec<u8> {
    machine.freeze();
    let mut image = Vec::new();
    loop {
        match machine.freeze_step(usize::MAX, u32::MAX) {
            FreezeStep::Piece(piece) => image.extend(piece),
            FreezeStep::Last(piece) => {
                image.extend(piece);
                return image;
            }
            FreezeStep::Aborted => panic!("nothing changes the machine"),
        }
    }
}

fn restore(image: &[u8]) -> Machine {
    let mut restore = Restore::default();
    restore.piece(image).expect("a good image");
    restore.finish().expect("a whole image")
}

/// The settings that the first files of level 1 contain. All newer settings are off in them.
fn describe_settings(settings: &Settings) -> String {
    let Settings { skip_acl, digest_enabled, extended_types, enforce_quota, .. } = settings;
    let Settings { reconfig_enabled, super_digest, digest_algorithm, .. } = settings;
    format!(
        "Settings {{ skip_acl: {skip_acl}, digest_enabled: {digest_enabled}, \
         extended_types: {extended_types}, enforce_quota: {enforce_quota}, \
         reconfig_enabled: {reconfig_enabled}, super_digest: {super_digest:?}, \
         digest_algorithm: {digest_algorithm:?} }}"
    )
}

/// The whole replicated state as text.
fn describe(machine: &Machine) -> String {
    let level = machine.control().level();
    let mut lines = vec![
        format!("digest {:032x}", machine.digest().0),
        format!(
            "Counters {{ index: {:?}, ordinal: {:?}, zxid: {:?} }}",
            machine.index(),
            machine.mark().ordinal,
            machine.mark().zxid
        ),
        describe_settings(machine.zk().settings()),
        format!("{:?} {:?}", HERE.member, machine.control().last_batch(HERE.member)),
        format!("{:?} {:?}", THERE.member, machine.control().last_batch(THERE.member)),
        format!("level {} of {}", level.level, level.version),
        // The text is older than the mark of lists that no configuration decides.
        format!("{:?}", machine.control().servers()).replace(", changes: None", ""),
    ];
    let mut sessions: Vec<String> = machine
        .zk()
        .sessions()
        .iter()
        .map(|(id, session)| {
            let (timeout_ms, owner) = (session.timeout_ms, session.owner);
            let (origin, connection) = (owner.origin, owner.connection);
            let owner = format!("Owner {{ origin: {origin:?}, connection: {connection:?} }}");
            let (password, attached) = (session.password, session.attached);
            let ephemerals = machine.zk().ephemeral_paths(id);
            format!("{id:?} {timeout_ms} ms {password:?} {owner} {attached:?} {ephemerals:?}")
        })
        .collect();
    sessions.sort();
    lines.append(&mut sessions);
    let mut waiting = vec![machine.zk().tree().find("/").expect("the root")];
    let mut znodes = Vec::new();
    while let Some(znode) = waiting.pop() {
        let path = machine.zk().tree().path(znode.id());
        let data = znode.data().map(String::from_utf8_lossy);
        let (owner, stat) = (znode.owner(), znode.stat());
        znodes.push(format!("{path} {data:?} {owner:#x} {stat:?} {:?}", znode.acl()));
        waiting.extend(znode.children());
    }
    znodes.sort();
    lines.append(&mut znodes);
    lines.join("\n") + "\n"
}

#[test]
fn an_entry_of_version_1_holds_the_commands_it_was_made_of() {
    let header = decode_header(ENTRY).expect("a good header");
    assert_eq!((header.level, header.group, header.time_ms), (Level::FIRST, GROUP, TIME_MS));
    assert_eq!(entry::verify(ENTRY), Ok(header));
    let expected = everything();
    assert_eq!(header.batch_count as usize, expected.len());
    let mut expected = expected.iter().flat_map(|(origin, sequence, sent)| {
        sent.iter().map(move |(connection, identities, command)| {
            (*origin, *sequence, *connection, *identities, command)
        })
    });
    visit(ENTRY, &mut |origin, sequence, stamp, command| {
        let found = (origin, sequence, stamp.connection, stamp.identities, command);
        assert_eq!(Some(found), expected.next());
    });
    assert_eq!(expected.next(), None);
}

#[test]
fn an_entry_of_version_1_is_written_with_the_same_bytes() {
    assert_eq!(entry_of(&everything()), ENTRY);
}

#[test]
fn an_entry_of_version_1_holds_the_commands_of_the_ensemble() {
    assert_eq!(entry::verify(CONTROL_ENTRY).map(|header| header.level), Ok(Level::FIRST));
    let mut expected = control_commands().into_iter();
    visit(CONTROL_ENTRY, &mut |_, _, _, command| {
        assert_eq!(Some(command), expected.next().map(Command::Control).as_ref());
    });
    assert_eq!(expected.next(), None);
    assert_eq!(control_entry(), CONTROL_ENTRY);
}

#[test]
fn an_image_of_version_4_gives_the_machine_it_was_taken_of() {
    assert_eq!(describe(&restore(IMAGE)), IMAGE_TEXT);
    assert_eq!(describe(&machine_with_a_past()), IMAGE_TEXT);
}

#[test]
fn an_image_of_version_4_is_written_with_the_same_bytes() {
    assert_eq!(image_while_it_changes(&mut machine_with_a_past()), IMAGE);
    // A restored machine has no vacant slots, so its image has other ids.
    assert_eq!(image_of(&mut restore(IMAGE)), IMAGE_AGAIN);
    assert_eq!(image_of(&mut restore(IMAGE_AGAIN)), IMAGE_AGAIN);
    assert_eq!(describe(&restore(IMAGE_AGAIN)), IMAGE_TEXT);
}

/// The entry that the example in `docs/formats.md` explains.
fn example() -> Vec<u8> {
    let op = Op::Create {
        path: "/a",
        malformed: false,
        data: Some(b"hi"),
        acl: AskedAcl::Open,
        mode: CreateMode::Persistent,
        ttl_ms: -1,
    };
    let identities: &[Identity<'_>] = &[Identity { scheme: "ip", id: "127.0.0.1" }];
    let origin = Origin { member: MemberId(5), boot: BootId(2) };
    let sent = (ConnectionId(9), identities, write(SessionId(0x0100_0000_0000_0001), op));
    entry_of(&[(origin, 1, vec![sent])])
}

#[test]
fn the_worked_example_of_the_description_is_what_is_written() {
    let text = include_str!("../../../../docs/formats.md");
    let (_, example_text) = text.split_once("```hex\n").expect("the description has an example");
    let (example_text, _) = example_text.split_once("```").expect("the example ends");
    let mut described = Vec::new();
    for line in example_text.lines() {
        let (offset, rest) = line.split_once(' ').expect("a line starts with its offset");
        assert_eq!(offset.parse(), Ok(described.len()), "{line}");
        let (bytes, _) = rest.split_once('|').expect("a line says what its bytes are");
        let bytes = bytes.split_whitespace().map(|byte| u8::from_str_radix(byte, 16));
        described.extend(bytes.map(|byte| byte.expect("a byte is two digits")));
    }
    assert_eq!(described, example());
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "writes the fixtures, only when a person asks for it by a variable"
)]
fn fixtures_are_written_only_when_asked_for() {
    if std::env::var_os("QUORATE_WRITE_FIXTURES").is_none() {
        return;
    }
    let write = |name: &str, bytes: &[u8]| {
        let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(path, bytes).expect("writes");
    };
    write("entry-v1.bin", &entry_of(&everything()));
    write("entry-control-v1.bin", &control_entry());
    let mut machine = machine_with_a_past();
    write("image-v4.txt", describe(&machine).as_bytes());
    let image = image_while_it_changes(&mut machine);
    write("image-v4.bin", &image);
    write("image-again-v4.bin", &image_of(&mut restore(&image)));
    etcd::write_fixtures(write);
    etcd_v2::write_fixtures(write);
    level_4::write_fixtures(write);
}
