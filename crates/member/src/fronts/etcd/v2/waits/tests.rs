use etcd::v2::{Ask, Form, Request, Verb};
use machine::{BootId, Changes, Command, ConnectionId, Machine, MemberId, Origin, Stamp};

use super::*;

const FRONT: FrontId = FrontId(2);

/// The waits of a Front over a machine.
struct Rig {
    machine: Machine,
    waits: V2Waits,
    interest: Arc<WatchInterest>,
    /// Changes that were applied and not handed to the waits yet.
    batches: Vec<SharedChanges>,
    tickets: u64,
}

fn request(verb: Verb, key: &str, parameters: &str) -> Request {
    let mut form = Form::default();
    form.add(parameters.as_bytes()).unwrap();
    Request::new(verb, key, form).unwrap()
}

/// A step of a wait as a short text.
fn text(waited: &V2Waited) -> String {
    match waited {
        V2Waited::Begun { index } => format!("begun {index}"),
        V2Waited::Refused(refusal) => format!("{:?}", refusal.reason),
        V2Waited::Events(events) => {
            let shown = events.iter().map(|it| format!("{} {}", it.action.name(), it.key));
            shown.collect::<Vec<_>>().join(", ")
        }
        V2Waited::Ended => "ended".to_string(),
    }
}

impl Rig {
    fn new() -> Rig {
        let interest = Arc::<WatchInterest>::default();
        let waits = V2Waits::new(FRONT, interest.clone(), Arc::default());
        Rig { machine: Machine::default(), waits, interest, batches: Vec::new(), tickets: 0 }
    }

    fn open(&mut self, key: &str, parameters: &str) -> Ticket {
        let request = request(Verb::Get, key, &format!("wait=true&{parameters}"));
        let Ask::Wait(ask) = request.ask else { unreachable!() };
        self.tickets += 1;
        self.waits.open(Ticket(self.tickets), &request, ask);
        Ticket(self.tickets)
    }

    /// Applies a write as Apply does. [`Rig::run`] hands its changes over.
    fn write(&mut self, verb: Verb, key: &str, parameters: &str) {
        let request = request(verb, key, parameters);
        let origin = Origin { member: MemberId(1), boot: BootId(1) };
        let stamp = Stamp { time_ms: 0, origin, connection: ConnectionId(0), identities: &[] };
        let mut changes = Changes::default();
        let command = Command::EtcdV2(request.command().unwrap());
        self.machine.apply(&stamp, &command, &mut changes);
        if self.interest.has(FRONT) {
            self.batches.push(changes.into());
        }
    }

    fn put(&mut self, key: &str) {
        self.write(Verb::Put, key, "value=x");
    }

    /// Hands over what was applied, and takes the steps of the waits.
    fn run(&mut self) -> Vec<(u64, String)> {
        for batch in core::mem::take(&mut self.batches) {
            self.waits.on_changes(&batch);
        }
        while self.waits.is_runnable() {
            self.waits.run(self.machine.etcd_v2());
        }
        self.waits.match_changes();
        let output = self.waits.take_output();
        assert!(!self.waits.has_unmatched());
        output.iter().map(|(ticket, waited)| (ticket.0, text(waited))).collect()
    }
}

fn told(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
    expected.iter().map(|(ticket, text)| (*ticket, text.to_string())).collect()
}

#[test]
fn a_wait_is_over_with_the_first_write_of_its_key() {
    let mut rig = Rig::new();
    rig.open("/a", "");
    rig.open("/d", "recursive=true");
    rig.open("/d", "");
    assert_eq!(rig.run(), told(&[(1, "begun 3"), (2, "begun 3"), (3, "begun 3")]));
    rig.put("/ab");
    rig.put("/d/x/y");
    rig.put("/a");
    rig.put("/a");
    assert_eq!(rig.run(), told(&[(2, "set /d/x/y"), (1, "set /a")]));
    assert_eq!(rig.waits.count(), 1);
    assert!(rig.waits.close(Ticket(3)) && !rig.waits.close(Ticket(3)));
    assert!(!rig.interest.is_any(), "nobody waits any more");
}

#[test]
fn hidden_keys_and_refreshes_wake_nobody_else() {
    let mut rig = Rig::new();
    rig.open("", "recursive=true");
    rig.open("/d/_h", "");
    rig.run();
    rig.write(Verb::Put, "/d/_h", "value=x&ttl=9");
    assert_eq!(rig.run(), told(&[(2, "set /d/_h")]));
    rig.write(Verb::Put, "/d/_h", "ttl=90&refresh=true&prevExist=true");
    rig.put("/_top/x");
    assert_eq!(rig.run(), told(&[]));
    rig.put("/seen");
    assert_eq!(rig.run(), told(&[(1, "set /seen")]));
}

#[test]
fn a_directory_that_goes_tells_those_that_wait_below_it() {
    let mut rig = Rig::new();
    rig.put("/d/x/y");
    for key in ["/d/x/y", "/d/x", "/d/none", "/dx"] {
        rig.open(key, "");
    }
    rig.run();
    rig.write(Verb::Delete, "/d", "recursive=true");
    let mut over = rig.run();
    over.sort();
    assert_eq!(over, told(&[(1, "delete /d"), (2, "delete /d")]));
}

#[test]
fn a_wait_from_an_index_on_is_answered_from_the_history() {
    let mut rig = Rig::new();
    rig.put("/a");
    rig.put("/_b");
    rig.put("/c");
    rig.open("", "recursive=true&waitIndex=5");
    rig.open("/a", "waitIndex=4");
    rig.open("/a", "waitIndex=5");
    rig.open("/a", "waitIndex=8");
    let answers = rig.run();
    let expected = [
        (1, "begun 6"),
        (2, "begun 6"),
        (3, "begun 6"),
        (4, "begun 6"),
        (1, "set /_b"),
        (2, "set /a"),
    ];
    assert_eq!(answers, told(&expected), "the history shows hidden keys, too");
    rig.put("/a");
    assert_eq!(rig.run(), told(&[(3, "set /a")]), "index 7 is before 8");
    rig.put("/a");
    assert_eq!(rig.run(), told(&[(4, "set /a")]));
}

#[test]
fn a_wait_for_an_event_that_is_gone_is_refused() {
    let mut rig = Rig::new();
    (0..1_001).for_each(|_| rig.put("/a"));
    rig.open("/a", "waitIndex=4");
    rig.open("/a", "waitIndex=5");
    let answers = rig.run();
    let refused = "HistoryCleared { first: 5, asked: 4 }";
    assert_eq!(answers, told(&[(1, refused), (2, "begun 1004"), (2, "set /a")]));
    assert_eq!(rig.waits.count(), 0);
}

#[test]
fn a_stream_goes_on_from_the_history_to_what_comes() {
    let mut rig = Rig::new();
    rig.put("/a");
    rig.put("/b");
    rig.put("/a");
    rig.open("/a", "waitIndex=4&stream=true");
    assert_eq!(rig.run(), told(&[(1, "begun 6"), (1, "set /a, set /a")]));
    rig.put("/a");
    rig.write(Verb::Delete, "/a", "");
    assert_eq!(rig.run(), told(&[]), "the client has not taken the first ones");
    assert!(rig.waits.taken(Ticket(1)));
    assert_eq!(rig.run(), told(&[(1, "set /a, delete /a")]));
    assert!(!rig.waits.taken(Ticket(1)), "there is nothing more");
    rig.put("/a");
    assert_eq!(rig.run(), told(&[(1, "set /a")]));
}

#[test]
fn a_slow_stream_misses_nothing_or_ends() {
    let mut rig = Rig::new();
    rig.open("", "recursive=true&stream=true");
    rig.run();
    for number in 0..500 {
        rig.put(&format!("/{number}"));
    }
    let mut seen = 0;
    loop {
        let answers = rig.run();
        let [(1, events)] = answers.as_slice() else { break };
        for event in events.split(", ") {
            assert_eq!(event, format!("set /{seen}"));
            seen += 1;
        }
        rig.waits.taken(Ticket(1));
    }
    assert_eq!(seen, 500);
    rig.put("/more");
    rig.run();
    for _ in 0..1_100 {
        rig.put("/x");
    }
    assert_eq!(rig.run(), told(&[]));
    rig.waits.taken(Ticket(1));
    assert_eq!(rig.run(), told(&[(1, "ended")]));
    assert_eq!(rig.waits.count(), 0);
}

#[test]
fn a_set_of_events_is_bounded_by_its_bytes() {
    let mut rig = Rig::new();
    rig.open("", "recursive=true&stream=true");
    rig.run();
    let large = format!("value={}", "x".repeat(ETCD_V2_WAIT_BYTES as usize / 2));
    for key in ["/a", "/b", "/c"] {
        rig.write(Verb::Put, key, &large);
    }
    assert_eq!(rig.run(), told(&[(1, "set /a, set /b")]));
    rig.waits.taken(Ticket(1));
    assert_eq!(rig.run(), told(&[(1, "set /c")]));
}

#[test]
fn waits_go_on_in_another_state_from_their_index() {
    let mut rig = Rig::new();
    rig.open("/a", "");
    rig.open("/a", "stream=true");
    rig.run();
    // Writes that only the new state has come without a delivery.
    rig.put("/b");
    rig.put("/a");
    rig.batches.clear();
    rig.waits.on_replaced();
    assert_eq!(rig.run(), told(&[(1, "set /a"), (2, "set /a")]));
    rig.waits.taken(Ticket(2));
    for _ in 0..1_001 {
        rig.put("/c");
    }
    rig.batches.clear();
    rig.waits.on_replaced();
    assert_eq!(rig.run(), told(&[(2, "ended")]));
}

/// The history keeps fewer events than these 1,001 writes of another key.
#[test]
fn a_wait_that_nothing_concerned_for_long_goes_on() {
    let mut rig = Rig::new();
    rig.open("/a", "");
    rig.open("/a", "stream=true");
    rig.run();
    for _ in 0..1_001 {
        rig.put("/c");
    }
    assert_eq!(rig.run(), told(&[]));
    rig.waits.on_replaced();
    assert_eq!(rig.run(), told(&[]), "their events are not gone");
    // A stream that is behind reads from the first event for which it had no room.
    rig.put("/a");
    assert_eq!(rig.run(), told(&[(1, "set /a"), (2, "set /a")]));
    for _ in 0..900 {
        rig.put("/c");
    }
    rig.put("/a");
    for _ in 0..900 {
        rig.put("/c");
    }
    assert_eq!(rig.run(), told(&[]));
    rig.waits.taken(Ticket(2));
    assert_eq!(rig.run(), told(&[(2, "set /a")]));
}

#[test]
fn many_waits_for_one_key_are_told_of_one_write() {
    let mut rig = Rig::new();
    for _ in 0..10_000 {
        rig.open("/a", "");
    }
    assert_eq!(rig.run().len(), 10_000);
    rig.put("/a");
    assert_eq!(rig.run().len(), 10_000);
    assert_eq!((rig.waits.count(), rig.waits.by_key.len()), (0, 0));
}
