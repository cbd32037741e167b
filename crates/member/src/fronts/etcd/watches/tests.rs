use std::collections::BTreeMap;

use etcd::pb::Message;
use etcd::pb::etcdserverpb as pb;
use machine::etcd::command::{Command, DeleteRange, Op, Put, Txn};
use machine::{BootId, Changes, ConnectionId, Machine, MemberId, Origin, Stamp};

use super::*;
use crate::fronts::etcd::limits::ETCD_WATCH_MESSAGE_BYTES;
use crate::fronts::zk::tests::rig::Random;

/// The watches of a Front over a machine.
struct Rig {
    machine: Machine,
    watches: Watches,
    interest: Arc<WatchInterest>,
    /// Changes that were applied and not handed to the watches yet.
    batches: Vec<SharedChanges>,
    /// The messages that each stream got.
    sent: BTreeMap<Ticket, Vec<pb::WatchResponse>>,
    /// Streams that have not taken their last messages.
    untaken: Vec<Ticket>,
}

const FRONT: FrontId = FrontId(2);
const PROGRESS_MS: u64 = 10_000;
const HEADER: Header = Header { cluster_id: 1, member_id: 2, raft_term: 3 };

fn put<'a>(key: &'a str, value: &'a str) -> Put<'a> {
    let (ignore_value, ignore_lease, prev_kv) = (false, false, false);
    let (key, value) = (key.as_bytes(), value.as_bytes());
    Put { key, value, lease: 0, prev_kv, ignore_value, ignore_lease }
}

fn delete<'a>(key: &'a str, end: &'a str) -> DeleteRange<'a> {
    let range = KeyRange { key: key.as_bytes(), end: end.as_bytes() };
    DeleteRange { range, prev_kv: false }
}

fn watch(key: &str, end: &str) -> pb::WatchCreateRequest {
    let (key, range_end) = (key.to_string().into(), end.to_string().into());
    pb::WatchCreateRequest { key, range_end, ..Default::default() }
}

impl Rig {
    fn new() -> Rig {
        let interest = Arc::<WatchInterest>::default();
        Rig {
            machine: Machine::default(),
            watches: Watches::new(FRONT, interest.clone(), PROGRESS_MS, WatchBounds::default(), 1),
            interest,
            batches: Vec::new(),
            sent: BTreeMap::new(),
            untaken: Vec::new(),
        }
    }

    fn open(&mut self, number: u64) -> Ticket {
        self.watches.open(Ticket(number), false, false);
        self.sent.insert(Ticket(number), Vec::new());
        Ticket(number)
    }

    fn request(&mut self, ticket: Ticket, request: RequestUnion) {
        let request = WatchRequest { request_union: Some(request) };
        self.watches.request(ticket, request, Credentials::Nobody);
    }

    fn create(&mut self, ticket: Ticket, request: pb::WatchCreateRequest) {
        self.request(ticket, RequestUnion::CreateRequest(request));
        self.run();
    }

    /// Applies a command as Apply does. [`Rig::run`] hands its changes over.
    fn apply(&mut self, command: Command<'_>) -> SharedChanges {
        let origin = Origin { member: MemberId(1), boot: BootId(1) };
        let stamp = Stamp { time_ms: 0, origin, connection: ConnectionId(0), identities: &[] };
        let mut changes = Changes::default();
        changes.etcd.set_wants_keys(self.interest.is_any());
        self.machine.apply(&stamp, &machine::Command::Etcd(command), &mut changes);
        self.machine.prune();
        let changes = SharedChanges::from(changes);
        if self.interest.has(FRONT) {
            self.batches.push(changes.clone());
        }
        changes
    }

    /// Hands over what was applied, serves the streams, and takes their messages.
    fn run(&mut self) {
        for batch in core::mem::take(&mut self.batches) {
            self.watches.on_changes(&batch);
        }
        while self.watches.is_runnable() || self.watches.has_unmatched() {
            self.watches.match_changes();
            self.watches.run(self.machine.etcd(), 0, &TokenTimes::new(1_000, 0));
        }
        self.take();
    }

    fn take(&mut self) {
        let mut messages = Vec::new();
        self.watches.take_messages(HEADER, &mut messages);
        for (ticket, messages) in messages {
            assert!(!self.untaken.contains(&ticket), "one set of messages at a time");
            self.untaken.push(ticket);
            for message in messages.iter() {
                let mut bytes = Vec::new();
                message.write(&mut bytes);
                assert_eq!(bytes.len(), message.bytes());
                let response = pb::WatchResponse::decode(&bytes[..]).expect("it is a message");
                self.sent.get_mut(&ticket).expect("it is open").push(response);
            }
        }
    }

    /// Lets all clients take everything.
    fn settle(&mut self) {
        self.run();
        while !self.untaken.is_empty() {
            for ticket in core::mem::take(&mut self.untaken) {
                self.watches.taken(ticket);
            }
            self.run();
        }
    }

    /// The messages that a stream got since the last call, as texts.
    fn texts(&mut self, ticket: Ticket) -> Vec<String> {
        self.settle();
        let sent = self.sent.get_mut(&ticket).expect("it is open");
        core::mem::take(sent).iter().map(text).collect()
    }
}

fn text(response: &pb::WatchResponse) -> String {
    let revision = response.header.as_ref().map_or(0, |header| header.revision);
    let mut text = format!("{}@{revision}", response.watch_id);
    for (name, is_set) in [
        ("created", response.created),
        ("canceled", response.canceled),
        ("fragment", response.fragment),
    ] {
        if is_set {
            text += &format!(" {name}");
        }
    }
    if response.compact_revision != 0 {
        text += &format!(" compacted {}", response.compact_revision);
    }
    if !response.cancel_reason.is_empty() {
        text += &format!(" ({})", response.cancel_reason);
    }
    for event in &response.events {
        let kv = event.kv.as_ref().expect("each event has a key");
        let sign = if event.r#type == 1 { '-' } else { '+' };
        let (key, value) = (kv.key.escape_ascii(), kv.value.escape_ascii());
        text += &format!(" {sign}{key}={value}@{}", kv.mod_revision);
        if let Some(before) = &event.prev_kv {
            text += &format!("<{}@{}", before.value.escape_ascii(), before.mod_revision);
        }
    }
    text
}

#[test]
fn a_watch_gets_the_events_of_its_keys_from_its_revision_on() {
    let mut rig = Rig::new();
    rig.apply(Command::Put(put("a", "1")));
    rig.apply(Command::Put(put("b", "2")));
    let ticket = rig.open(1);
    rig.create(ticket, pb::WatchCreateRequest { prev_kv: true, ..watch("a", "") });
    rig.create(ticket, pb::WatchCreateRequest { start_revision: 2, ..watch("a", "c") });
    rig.create(ticket, pb::WatchCreateRequest { start_revision: 5, ..watch("\0", "\0") });
    let created = ["0@3 created", "1@3 created", "1@3 +a=1@2 +b=2@3", "2@3 created"];
    assert_eq!(rig.texts(ticket), created);
    rig.apply(Command::Put(put("a", "3")));
    assert_eq!(rig.texts(ticket), ["0@4 +a=3@4<1@2", "1@4 +a=3@4"]);
    rig.apply(Command::DeleteRange(delete("a", "z")));
    let deleted = ["0@5 -a=@5<3@4", "1@5 -a=@5 -b=@5", "2@5 -a=@5 -b=@5"];
    assert_eq!(rig.texts(ticket), deleted);
    rig.request(ticket, RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id: 1 }));
    rig.request(ticket, RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id: 9 }));
    assert_eq!(rig.texts(ticket), ["1@5 canceled"]);
    rig.apply(Command::Put(put("b", "5")));
    assert_eq!(rig.texts(ticket), ["2@6 +b=5@6"]);
    assert!(rig.watches.close(ticket));
    assert!(!rig.interest.is_any(), "nobody watches any more");
    rig.apply(Command::Put(put("b", "6")));
    assert!(rig.batches.is_empty());
    assert_eq!((rig.watches.groups.key_bytes(), rig.watches.queues.bytes), (0, 0));
}

#[test]
fn requests_that_are_refused_say_why() {
    let mut rig = Rig::new();
    let ticket = rig.open(1);
    let refused = |request: pb::WatchCreateRequest, reason: &str| {
        (request, format!("-1@1 created canceled ({reason})"))
    };
    let id = |watch_id, request| pb::WatchCreateRequest { watch_id, ..request };
    let negative = pb::WatchCreateRequest { start_revision: -1, ..watch("a", "") };
    let cases = [
        refused(watch("b", "a"), EMPTY_RANGE),
        refused(watch("a", "a"), EMPTY_RANGE),
        refused(negative, "etcdserver: mvcc: required revision has been compacted"),
        (id(7, watch("a", "")), "7@1 created".to_string()),
        refused(id(7, watch("a", "")), DUPLICATE_ID),
        (id(1, watch("a", "")), "1@1 created".to_string()),
        (watch("", ""), "0@1 created".to_string()),
        // The id 1 is taken.
        (watch("", "\0"), "2@1 created".to_string()),
    ];
    for (request, expected) in cases {
        rig.create(ticket, request);
        assert_eq!(rig.texts(ticket), [expected]);
    }
    rig.apply(Command::Put(put("k", "v")));
    assert_eq!(rig.texts(ticket), ["2@2 +k=v@2"]);
}

#[test]
fn a_watch_of_compacted_history_ends_and_one_at_the_compacted_revision_does_not() {
    let mut rig = Rig::new();
    for value in ["1", "2", "3"] {
        rig.apply(Command::Put(put("a", value)));
    }
    rig.apply(Command::DeleteRange(delete("a", "")));
    rig.apply(Command::Put(put("b", "4")));
    rig.apply(Command::Compact { revision: 5 });
    let ticket = rig.open(1);
    for (start_revision, end) in [(4, ""), (5, ""), (5, "b")] {
        rig.create(ticket, pb::WatchCreateRequest { start_revision, ..watch("a", end) });
    }
    let (one, other) = (["0@6 created", "0@0 canceled compacted 5"], ["1@6 created", "1@6 -a=@5"]);
    let last = ["2@6 created", "2@6 -a=@5"];
    assert_eq!(rig.texts(ticket), [one, other, last].concat());
}

#[test]
fn progress_is_promised_when_all_events_were_given() {
    let mut rig = Rig::new();
    let ticket = rig.open(1);
    let progress = || RequestUnion::ProgressRequest(pb::WatchProgressRequest {});
    rig.request(ticket, progress());
    assert!(rig.texts(ticket).is_empty(), "there is no watch");
    rig.create(ticket, pb::WatchCreateRequest { progress_notify: true, ..watch("a", "") });
    rig.apply(Command::Put(put("x", "1")));
    rig.request(ticket, progress());
    assert_eq!(rig.texts(ticket), ["0@1 created", "-1@2"]);
    // A client that takes nothing falls behind. Its progress notice comes after the events it
    // missed.
    for _ in 0..2_000 {
        rig.apply(Command::Put(put("a", "v")));
        rig.run();
    }
    rig.request(ticket, progress());
    let texts = rig.texts(ticket);
    assert_eq!(texts.iter().position(|text| text == "-1@2002"), Some(texts.len() - 1));
    assert_eq!(texts.iter().map(|text| text.matches('+').count()).sum::<usize>(), 2_000);
    // No event comes for long, then one does.
    rig.watches.on_tick(2 * PROGRESS_MS);
    assert!(rig.texts(ticket).is_empty(), "there were events");
    rig.watches.on_tick(4 * PROGRESS_MS);
    assert_eq!(rig.texts(ticket), ["0@2002"]);
    rig.create(ticket, pb::WatchCreateRequest { start_revision: 9_999, ..watch("a", "") });
    rig.request(ticket, progress());
    assert_eq!(rig.texts(ticket), ["1@2002 created"]);
}

#[test]
fn a_large_response_goes_in_fragments_if_the_client_asked_for_them() {
    let mut rig = Rig::new();
    let ticket = rig.open(1);
    rig.create(ticket, pb::WatchCreateRequest { fragment: true, ..watch("a", "b") });
    rig.create(ticket, watch("a", "b"));
    let value = "v".repeat(900_000);
    let keys = ["a1", "a2", "a3", "a4", "a5"];
    let success = keys.iter().map(|key| Op::Put(put(key, &value))).collect();
    rig.apply(Command::Txn(Txn { compares: vec![], success, failure: vec![] }));
    rig.settle();
    let sent = &rig.sent[&ticket];
    let shape = |it: &pb::WatchResponse| (it.watch_id, it.fragment, it.events.len());
    let parts: Vec<_> = sent[2..].iter().map(shape).collect();
    assert_eq!(parts, [(0, true, 2), (0, true, 2), (0, false, 1), (1, false, 5)]);
    let is_short = |it: &pb::WatchResponse| it.encoded_len() <= ETCD_WATCH_MESSAGE_BYTES;
    assert!(sent[..5].iter().all(is_short));
}

#[test]
fn another_state_goes_on_with_the_cursors_or_ends_the_watches() {
    let mut rig = Rig::new();
    let ticket = rig.open(1);
    rig.create(ticket, watch("a", "c"));
    rig.apply(Command::Put(put("a", "1")));
    rig.run();
    // The changes of this command are lost, as if they came with a snapshot from another member.
    rig.apply(Command::Put(put("b", "2")));
    rig.batches.clear();
    rig.watches.on_replaced(true);
    rig.apply(Command::Put(put("b", "3")));
    assert_eq!(rig.texts(ticket), ["0@1 created", "0@2 +a=1@2", "0@4 +b=2@3 +b=3@4"]);
    rig.watches.on_replaced(false);
    assert_eq!(rig.texts(ticket), ["0@0 canceled compacted 1"]);
    rig.apply(Command::Put(put("b", "4")));
    assert!(rig.texts(ticket).is_empty());
}

/// A watch of the random test.
struct Plain {
    ticket: Ticket,
    request: pb::WatchCreateRequest,
    start: i64,
    seen: Vec<String>,
    is_over: bool,
}

fn random_command<'a>(random: &mut Random, names: &'a [String], revision: i64) -> Command<'a> {
    let mut name = || names[random.below(names.len())].as_str();
    let (key, other) = (name(), name());
    match random.below(12) {
        0 => Command::DeleteRange(delete(key, "")),
        1 => Command::DeleteRange(delete(key, other)),
        2 => Command::Compact { revision: revision - random.below(40) as i64 },
        3 if key != other => {
            let success = vec![Op::Put(put(key, "t")), Op::DeleteRange(delete(other, ""))];
            Command::Txn(Txn { compares: vec![], success, failure: vec![] })
        }
        _ => Command::Put(put(key, other)),
    }
}

/// Appends the events of a batch, each with its text.
fn note(all: &mut Vec<(Event, String)>, batch: &Changes) {
    for change in batch.etcd.keys() {
        let sign = if change.event.is_delete() { '-' } else { '+' };
        let (key, value) = (change.event.key(), change.event.value());
        let text = format!("{sign}{}={}", key.escape_ascii(), value.escape_ascii());
        all.push((change.event.clone(), format!("{text}@{}", change.event.revision())));
    }
}

#[test]
fn random_watches_see_each_event_once_in_order_or_end_as_compacted() {
    let names: Vec<String> = (0..30).map(|number| format!("{number:02}")).collect();
    for seed in 0..150 {
        let (mut random, mut rig) = (Random(seed), Rig::new());
        let (mut all, mut watches) = (Vec::new(), Vec::<Plain>::new());
        // A watcher of another Front makes Apply collect all events.
        let _other = Watching::begin(&rig.interest, FrontId(1));
        let tickets: Vec<Ticket> = (0..4).map(|number| rig.open(number)).collect();
        for _ in 0..400 {
            match random.below(10) {
                0 => {
                    let ticket = tickets[random.below(4)];
                    let request = random_watch(&mut random, &names, rig.machine.etcd().revision());
                    let start = match request.start_revision {
                        0 => rig.machine.etcd().revision() + 1,
                        start => start,
                    };
                    let watch_id = 1 + watches.len() as i64;
                    let request = pb::WatchCreateRequest { watch_id, ..request };
                    rig.create(ticket, request.clone());
                    watches.push(Plain { ticket, request, start, seen: vec![], is_over: false });
                }
                1 | 2 => {
                    let untaken = core::mem::take(&mut rig.untaken);
                    for ticket in untaken {
                        match random.below(2) {
                            0 => drop(rig.watches.taken(ticket)),
                            _ => rig.untaken.push(ticket),
                        }
                    }
                    rig.run();
                }
                3 if random.below(8) == 0 => {
                    rig.batches.clear();
                    rig.watches.on_replaced(true);
                }
                4 => rig.run(),
                _ => {
                    let revision = rig.machine.etcd().revision();
                    let command = random_command(&mut random, &names, revision);
                    note(&mut all, &rig.apply(command));
                }
            }
        }
        rig.settle();
        check_random(&rig, &mut watches, &all, seed);
    }
}

fn random_watch(random: &mut Random, names: &[String], revision: i64) -> pb::WatchCreateRequest {
    let mut name = || names[random.below(30)].clone();
    let (key, other) = (name(), name());
    let (first, last) = (key.clone().min(other.clone()), key.max(other));
    let end = match random.below(4) {
        0 => String::new(),
        1 => "\0".to_string(),
        _ if first == last => String::new(),
        _ => last,
    };
    let start_revision = match random.below(3) {
        0 => 0,
        1 => revision + random.below(5) as i64,
        _ => 1 + random.below(revision as usize) as i64,
    };
    let filters = match random.below(5) {
        0 => vec![FilterType::Noput as i32],
        1 => vec![FilterType::Nodelete as i32],
        _ => vec![],
    };
    let prev_kv = random.below(2) == 0;
    pb::WatchCreateRequest { start_revision, filters, prev_kv, ..watch(&first, &end) }
}

fn check_random(rig: &Rig, watches: &mut [Plain], all: &[(Event, String)], seed: u64) {
    for (ticket, responses) in &rig.sent {
        for response in responses {
            let Some(watch) =
                watches.iter_mut().find(|it| it.request.watch_id == response.watch_id)
            else {
                continue;
            };
            assert_eq!(watch.ticket, *ticket);
            assert!(!watch.is_over, "seed {seed}: nothing comes behind the end");
            watch.is_over = response.canceled;
            let shown = text(response);
            watch.seen.extend(
                shown
                    .split(' ')
                    .filter(|it| it.starts_with(['+', '-']))
                    .map(|it| it.split('<').next().expect("a split has a first part").to_string()),
            );
        }
    }
    for watch in watches {
        let request = &watch.request;
        let range = KeyRange { key: &request.key, end: &request.range_end };
        let flags = flags_of(request);
        let wanted = all.iter().filter(|(event, _)| {
            let change = KeyChange { event: event.clone(), before: None };
            event.revision() >= watch.start && range.contains(event.key()) && flags.admits(&change)
        });
        let wanted: Vec<&String> = wanted.map(|(_, text)| text).collect();
        let seen: Vec<&String> = watch.seen.iter().collect();
        match watch.is_over {
            // The watch began too early, or fell behind: it has all events up to its end.
            true => assert!(wanted.starts_with(&seen), "seed {seed}: {seen:?} of {wanted:?}"),
            false => assert_eq!(seen, wanted, "seed {seed}: {request:?}"),
        }
    }
}
