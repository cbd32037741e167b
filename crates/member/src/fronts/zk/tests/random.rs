//! Tests with random clients, packets, holds, stalls and closes: what each client sees must obey
//! the invariants of order.

use std::collections::BTreeMap;

use super::super::*;
use super::rig::*;

const KEYS: [&str; 4] = ["/a", "/b", "/c", "/c/d"];

/// The values of every key with the zxids of their changes, read from the machine after each
/// command.
#[derive(Default)]
struct History {
    values: BTreeMap<&'static str, Vec<(i64, String)>>,
}

impl History {
    fn note(&mut self, machine: &Machine) {
        if machine.zk().is_amid_change() {
            return;
        }
        for key in KEYS {
            let Some(znode) = machine.zk().tree().find(key) else { continue };
            let value = String::from_utf8(znode.data().unwrap().to_vec()).unwrap();
            let values = self.values.entry(key).or_default();
            if values.last().is_none_or(|(_, last)| *last != value) {
                values.push((machine.mark().zxid.0, value));
            }
        }
    }

    fn value_at(&self, key: &str, zxid: i64) -> &str {
        let values = &self.values[key];
        let at = values.partition_point(|(changed, _)| *changed <= zxid);
        &values[at - 1].1
    }

    fn first_change_after(&self, key: &str, zxid: i64) -> Option<i64> {
        let values = &self.values[key];
        values.get(values.partition_point(|(changed, _)| *changed <= zxid)).map(|(at, _)| *at)
    }
}

/// A client's watches, each with the zxid at which the client set it.
#[derive(Default)]
struct View {
    watches: BTreeMap<String, i64>,
}

impl View {
    /// Checks one line that the client saw against the history.
    fn see(&mut self, text: &str, history: &History) {
        if text.starts_with("connected") || text == "closed" || text == "refused" {
            self.watches.clear();
            return;
        }
        let (text, zxid) = text.rsplit_once(" @").unwrap();
        let zxid: i64 = zxid.parse().unwrap();
        if let Some(key) = text.strip_prefix("event changed ") {
            let since = self.watches.remove(key).expect("only a watch that is set fires");
            assert_eq!(history.first_change_after(key, since), Some(zxid), "{key} since {since}");
            return;
        }
        let (request, answer) = text.split_once(" ->").unwrap();
        // The events of all changes that a reply shows have come before it.
        for (key, since) in &self.watches {
            let missed = history.first_change_after(key, *since).filter(|at| *at <= zxid);
            assert_eq!(missed, None, "{request} came before the event of {key}");
        }
        let words: Vec<&str> = request.split(' ').collect();
        if words[0] == "get" {
            let value = answer.trim().split(' ').next().unwrap();
            assert_eq!(value, history.value_at(words[1], zxid), "{request} at {zxid}");
        }
        if matches!(words[0], "get" | "exists") && words.get(2) == Some(&"w") {
            self.watches.entry(words[1].to_string()).or_insert(zxid);
        }
    }
}

struct Chaos {
    rig: Rig,
    random: Random,
    history: History,
    views: BTreeMap<u32, View>,
    next_value: u32,
}

impl Chaos {
    fn new(mut rig: Rig, seed: u64) -> Chaos {
        rig.play(
            "c9: connect\nc9: create /a 0 | create /b 0 | create /c 0 | create /c/d 0\nclose c9",
        );
        let mut history = History::default();
        history.note(&rig.machine);
        rig.notices.clear();
        Chaos { rig, random: Random(seed), history, views: BTreeMap::new(), next_value: 1 }
    }

    fn request(&mut self) -> String {
        let key = self.random.pick(&KEYS);
        let watch = if self.random.percent(40) { " w" } else { "" };
        self.next_value += 1;
        let value = self.next_value;
        match self.random.below(12) {
            0..=2 => format!("set {key} {value}"),
            3..=5 => format!("get {key}{watch}"),
            6 => format!("exists {key}{watch}"),
            7 if self.random.percent(50) => {
                let undone = self.random.pick(&["check,/a,-1", "delete,/missing,-1"]);
                format!("multi set,{key},{value} create,/m,x {undone} delete,/m,-1")
            }
            7 => format!("multi set,{key},{value} check,/a,-1"),
            8 => format!("set {key} {value} 0"),
            9 => "sync /".to_string(),
            10 => "ping".to_string(),
            _ => self
                .random
                .pick(&["ls /", "multiread get,/b", "delete /n", "op 106", "sasl"])
                .to_string(),
        }
    }

    fn client_acts(&mut self) {
        let number = 1 + self.random.below(5) as u32;
        let known = self.rig.clients.get(&number);
        if known.is_none_or(|client| client.closed) {
            let front = self.random.below(2);
            self.rig.accept(number, front);
            let again = if self.random.percent(10) { "connect session=5" } else { "connect" };
            let bytes = self.rig.encode(number, again);
            self.views.insert(number, View::default());
            self.rig.send(number, &bytes);
            return;
        }
        match self.random.below(100) {
            0..=1 => self.rig.close(number),
            2 => self.send(number, "bye"),
            3 => self.send(number, "op 99"),
            4..=8 => self.rig.client(number).reads = false,
            9..=20 => self.rig.unstall(number),
            21 => {
                // Another connection takes the session over.
                let session = self.rig.client(number).session.clone();
                if let Some(other) = self.rig.clients.get_mut(&(number % 5 + 1)) {
                    other.session = session;
                }
            }
            _ => {
                let count = 1 + self.random.below(6);
                let requests: Vec<String> = (0..count).map(|_| self.request()).collect();
                self.send(number, &requests.join(" | "));
            }
        }
    }

    fn send(&mut self, number: u32, requests: &str) {
        self.rig.read_bytes = self.random.pick(&[1, 7, 30, 1_000, 16 * 1024]);
        let bytes = self.rig.encode(number, requests);
        self.rig.send(number, &bytes);
    }

    fn step(&mut self) {
        match self.random.below(14) {
            0..=4 => self.client_acts(),
            5 => drop(self.rig.step_loop()),
            6 => {
                let count = 1 + self.random.below(3);
                self.rig.step_disk(count);
            }
            7..=9 => {
                self.rig.step_apply(1);
                self.history.note(&self.rig.machine);
            }
            10 => drop(self.rig.step_deliver()),
            11 => drop(self.rig.step_reads()),
            12 => self.rig.line(self.random.pick(&["resume", "write", "resume"])),
            _ if self.random.percent(10) => self.rig.line(self.random.pick(&["full", "room"])),
            _ => drop(self.rig.flush()),
        }
        self.look();
    }

    fn look(&mut self) {
        self.rig.flush();
        self.rig.check();
        for line in self.rig.take_log() {
            let (number, text) = line.split_once(": ").unwrap();
            let number: u32 = number[1..].parse().unwrap();
            self.views.entry(number).or_default().see(text, &self.history);
        }
    }

    /// Runs everything to its end, one command at a time.
    fn settle(&mut self) {
        self.rig.line("room");
        let numbers: Vec<u32> = self.rig.clients.keys().copied().collect();
        for _ in 0..100_000 {
            for number in &numbers {
                if !self.rig.clients[number].closed {
                    self.rig.unstall(*number);
                    self.rig.pump(*number);
                }
            }
            let mut progress = self.rig.step_loop() | self.rig.step_disk(usize::MAX);
            progress |= self.rig.step_apply(1);
            self.history.note(&self.rig.machine);
            progress |= self.rig.step_deliver() | self.rig.step_reads();
            self.rig.line("resume");
            self.look();
            progress |= !self.rig.to_loop.is_empty();
            if !progress {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    fn finish(mut self) {
        self.settle();
        self.rig.run();
        self.look();
        let numbers: Vec<u32> = self.rig.clients.keys().copied().collect();
        for number in numbers {
            let client = &self.rig.clients[&number];
            let front = &self.rig.fronts[client.front];
            if let Some(open) = front.connections.get(&client.id) {
                assert!(open.window.is_empty(), "every request is answered");
                assert_eq!(open.input.len(), 0);
            }
            if !client.closed {
                self.rig.close(number);
            }
        }
        self.rig.run();
        self.rig.assert_idle();
    }
}

#[test]
fn every_view_is_in_order_under_random_schedules() {
    for seed in 0..100 {
        let mut chaos = Chaos::new(Rig::default(), seed);
        for _ in 0..600 {
            chaos.step();
        }
        chaos.finish();
    }
}

#[test]
fn every_view_is_in_order_with_the_real_loop() {
    for seed in 0..60 {
        let mut chaos = Chaos::new(Rig::with_loop(start()), 1_000_000 + seed);
        for _ in 0..600 {
            chaos.step();
        }
        chaos.finish();
    }
}

#[test]
fn connections_that_go_with_things_under_way_leave_nothing_behind() {
    for seed in 0..150 {
        let mut chaos = Chaos::new(Rig::default(), 2_000_000 + seed);
        for _ in 0..chaos.random.below(200) {
            chaos.step();
        }
        let numbers: Vec<u32> = chaos.rig.clients.keys().copied().collect();
        for number in numbers {
            if !chaos.rig.clients[&number].closed {
                chaos.rig.close(number);
            }
        }
        chaos.rig.assert_idle();
        chaos.rig.run();
        chaos.rig.assert_idle();
    }
}
