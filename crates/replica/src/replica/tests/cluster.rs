//! A cluster of replicas for tests: its network, disks and state machines are in memory, and one
//! seed drives it.
//!
//! It also checks that each term has one leader, that each index has one entry everywhere and for
//! ever, and that no read gets an index below one that was acknowledged when the read was asked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use crate::{
    Config, Effects, Entry, EntryKind, HardState, LogMemory, Membership, MembershipAt, Outgoing,
    Persist, PersistId, ReadId, Replica, Restored, Role, SnapshotMeta, SnapshotWanted, peek,
};

/// A random generator (splitmix64).
#[derive(Clone)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True with a probability of `percent` in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A state machine: every entry that it applied, and the membership after the last one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    pub index: u64,
    pub term: u64,
    pub membership: Membership,
    pub entries: Vec<Entry>,
}

impl Machine {
    fn meta(&self) -> SnapshotMeta {
        SnapshotMeta { index: self.index, term: self.term, membership: self.membership.clone() }
    }
}

/// The data that survive a crash of a member.
#[derive(Clone, Debug)]
pub struct Disk {
    pub hard_state: HardState,
    pub snapshot: Machine,
    pub entries: Vec<Entry>,
}

impl Disk {
    fn write_entries(&mut self, entries: &[Entry]) {
        if let Some(first) = entries.first() {
            self.entries.retain(|entry| entry.index < first.index);
            self.entries.extend_from_slice(entries);
        }
    }

    fn restored(&self) -> Restored {
        Restored {
            hard_state: self.hard_state,
            membership: self.snapshot.membership.clone(),
            snapshot_index: self.snapshot.index,
            snapshot_term: self.snapshot.term,
            entries: self.entries.clone(),
            left_out: None,
            applied_index: self.snapshot.index,
        }
    }
}

pub struct Member {
    pub id: u64,
    pub replica: Option<Replica>,
    pub disk: Disk,
    pub jobs: VecDeque<Persist>,
    pub machine: Machine,
    pub to_apply: VecDeque<Entry>,
    pub memberships: VecDeque<MembershipAt>,
    /// Data of snapshots that have arrived, by index.
    incoming: BTreeMap<u64, Machine>,
    pub boot_id: u64,
    pub reads: BTreeMap<ReadId, u64>,
    pub served: Vec<(ReadId, u64)>,
    pub failed: Vec<ReadId>,
}

struct Flight {
    at: u64,
    from: u64,
    message: Outgoing,
    data: Option<Machine>,
}

/// Probabilities of faults in percent; the delay is in steps.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    pub drop: u64,
    pub double: u64,
    pub delay_max: u64,
}

pub struct Cluster {
    pub members: BTreeMap<u64, Member>,
    pub rng: Rng,
    pub faults: Faults,
    pub step: u64,
    flights: Vec<Flight>,
    pub cut: BTreeSet<(u64, u64)>,
    pub leaders: BTreeMap<u64, u64>,
    pub committed: BTreeMap<u64, Entry>,
    pub trace: Vec<u8>,
    pub snapshots_installed: u64,
    pub reads_served: u64,
    pub log_memory: LogMemory,
    /// Members that supply snapshots while they are alive. If none is, the leader's own are sent.
    pub lenders: Vec<u64>,
    /// The member that supplied the last snapshot sent, by receiver and index.
    pub holders: BTreeMap<(u64, u64), u64>,
    /// If set, wanted snapshots are collected here and not served.
    pub wanted: Option<Vec<SnapshotWanted>>,
    /// Number of steps that snapshots take longer than messages.
    pub snapshot_delay: u64,
    contexts: BTreeSet<Bytes>,
    seed: u64,
}

impl Cluster {
    /// Members 1 to `member_count`, of which only `voters` are in the membership. All start with
    /// the same snapshot at index 1.
    pub fn new(seed: u64, member_count: u64, voters: &[u64]) -> Cluster {
        let mut cluster = Cluster {
            members: BTreeMap::new(),
            rng: Rng(seed),
            faults: Faults::default(),
            step: 0,
            flights: Vec::new(),
            cut: BTreeSet::new(),
            leaders: BTreeMap::new(),
            committed: BTreeMap::new(),
            trace: Vec::new(),
            snapshots_installed: 0,
            reads_served: 0,
            log_memory: LogMemory { bytes_max: 1 << 20, away_bytes_max: 0, ..LogMemory::default() },
            lenders: Vec::new(),
            holders: BTreeMap::new(),
            wanted: None,
            snapshot_delay: 0,
            contexts: BTreeSet::new(),
            seed,
        };
        for id in 1..=member_count {
            let membership = Membership::from_voters(voters.iter().copied());
            let machine = Machine { index: 1, term: 1, membership, entries: Vec::new() };
            let disk =
                Disk { hard_state: HardState::default(), snapshot: machine, entries: Vec::new() };
            cluster.members.insert(id, Member::new(id, disk));
            cluster.start(id);
        }
        cluster
    }

    pub fn start(&mut self, id: u64) {
        let (seed, log_memory) = (self.seed, self.log_memory);
        let member = self.member(id);
        member.boot_id += 1;
        let mut config = Config::new(id, seed, member.boot_id);
        config.election_ticks = 10;
        config.log_memory = log_memory;
        member.replica = Some(Replica::new(config, member.disk.restored()).unwrap());
        member.machine = member.disk.snapshot.clone();
        self.work(id);
    }

    /// Crashes a member. Everything that was not on disk is lost; the first job under way may have
    /// been written in part.
    pub fn crash(&mut self, id: u64) {
        let written = self.rng.below(3);
        let torn = self.rng.chance(50);
        let member = self.member(id);
        for _ in 0..written.min(member.jobs.len() as u64) {
            member.write_job();
        }
        if let Some(job) = member.jobs.front().filter(|job| torn && job.install.is_none()) {
            let entries = job.entries.clone();
            let kept = if entries.is_empty() { 0 } else { entries.len().div_ceil(2) };
            member.disk.write_entries(&entries[..kept]);
        }
        let disk = member.disk.clone();
        let boot_id = member.boot_id;
        self.members.insert(id, Member { boot_id, ..Member::new(id, disk) });
    }

    pub fn member(&mut self, id: u64) -> &mut Member {
        self.members.get_mut(&id).unwrap()
    }

    pub fn replica(&mut self, id: u64) -> &mut Replica {
        self.member(id).replica.as_mut().unwrap()
    }

    pub fn ids(&self) -> Vec<u64> {
        self.members.keys().copied().collect()
    }

    pub fn alive(&self) -> Vec<u64> {
        let alive = self.members.values().filter(|member| member.replica.is_some());
        alive.map(|member| member.id).collect()
    }

    /// Takes a member's effects: sends its messages, and queues its jobs and committed entries.
    pub fn drain(&mut self, id: u64) {
        while self.members[&id].replica.as_ref().is_some_and(Replica::has_effects) {
            let effects = self.replica(id).effects();
            assert!(!effects.is_empty() || !self.replica(id).has_effects(), "promised effects");
            self.judge(id, &effects);
            self.record(id, &effects);
            let member = self.members.get_mut(&id).unwrap();
            member.jobs.extend(effects.persist);
            member.to_apply.extend(effects.committed);
            member.memberships.extend(effects.memberships);
            for (read, index) in effects.reads {
                let floor = member.reads.remove(&read).unwrap();
                assert!(index >= floor, "stale read: {index} below {floor}");
                member.served.push((read, index));
                self.reads_served += 1;
            }
            for read in effects.reads_failed {
                member.reads.remove(&read).unwrap();
                member.failed.push(read);
            }
            for wanted in effects.snapshots_wanted {
                match &mut self.wanted {
                    Some(all) => all.push(wanted),
                    None => self.serve(id, &wanted),
                }
            }
            for message in effects.messages {
                self.send(id, message);
            }
        }
    }

    /// Sends a snapshot of this member or of a lender, or makes one of them take a snapshot.
    fn serve(&mut self, id: u64, wanted: &SnapshotWanted) {
        let alive = self.alive();
        let lenders = self.lenders.iter().filter(|lender| alive.contains(lender));
        let lenders: Vec<u64> = lenders.copied().collect();
        if lenders.is_empty() {
            let serves = |own: &SnapshotMeta| {
                own.index >= wanted.index_min && own.membership.contains(wanted.to)
            };
            let own = self.replica(id).newest_snapshot().cloned().filter(serves);
            match own {
                Some(own) => {
                    self.replica(id).send_snapshot(wanted.to, &own);
                }
                None => self.take_snapshot(id),
            }
            return;
        }
        let holder = lenders[self.rng.below(lenders.len() as u64) as usize];
        let meta = self.replica(holder).newest_snapshot().cloned();
        let serves = |meta: &SnapshotMeta| {
            meta.index >= wanted.index_fresh && meta.membership.contains(wanted.to)
        };
        match meta.filter(serves) {
            Some(meta) => {
                self.holders.insert((wanted.to, meta.index), holder);
                self.replica(id).send_snapshot(wanted.to, &meta);
            }
            None => self.take_snapshot(holder),
        }
    }

    fn judge(&mut self, id: u64, effects: &Effects) {
        if let Some(change) = effects.role_change.filter(|change| change.role == Role::Leader) {
            let first = *self.leaders.entry(change.term).or_insert(id);
            assert_eq!(first, id, "two leaders in term {}", change.term);
        }
        for entry in &effects.committed {
            let first = self.committed.entry(entry.index).or_insert_with(|| entry.clone());
            assert_eq!(first, entry, "two entries committed at one index");
        }
    }

    fn record(&mut self, id: u64, effects: &Effects) {
        for message in &effects.messages {
            self.trace.extend([id, message.to].iter().flat_map(|id| id.to_le_bytes()));
            self.trace.extend_from_slice(&message.bytes);
        }
        self.trace.extend(format!("{:?}", effects.persist).bytes());
    }

    fn send(&mut self, from: u64, message: Outgoing) {
        self.note_context(&message);
        let data = message.snapshot.as_ref().map(|meta| {
            let holder = self.holders.get(&(message.to, meta.index)).copied().unwrap_or(from);
            let data = self.members[&holder].disk.snapshot.clone();
            // The holder may have taken a newer snapshot since; then the transfer fails.
            (data.index == meta.index).then_some(data)
        });
        let lost = self.cut.contains(&(from, message.to))
            || self.rng.chance(self.faults.drop)
            || data == Some(None);
        if lost {
            if message.snapshot.is_some() {
                self.replica(from).report_snapshot(message.to, false);
            }
            return;
        }
        let copies = if self.rng.chance(self.faults.double) { 2 } else { 1 };
        for _ in 0..copies {
            let more = if data.is_some() { self.snapshot_delay } else { 0 };
            let at = self.step + 1 + more + self.rng.below(self.faults.delay_max + 1);
            let data = data.clone().flatten();
            self.flights.push(Flight { at, from, message: message.clone(), data });
        }
    }

    /// Checks that no two requests for a read index have the same context.
    fn note_context(&mut self, message: &Outgoing) {
        const KIND_READ_INDEX: u8 = 15;
        if message.bytes[1] == KIND_READ_INDEX {
            assert!(self.contexts.insert(message.bytes.slice(message.bytes.len() - 24..)));
        }
    }

    /// Number of messages on their way from one member to another.
    pub fn in_flight(&self, from: u64, to: u64) -> usize {
        let is_between = |flight: &&Flight| (flight.from, flight.message.to) == (from, to);
        self.flights.iter().filter(is_between).count()
    }

    /// Delivers the messages that are due in this step.
    pub fn deliver(&mut self) {
        let step = self.step;
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.flights).into_iter().partition(|flight| flight.at <= step);
        self.flights = later;
        for flight in due {
            let to = flight.message.to;
            let arrives = self.members.get(&to).is_some_and(|member| member.replica.is_some())
                && !self.cut.contains(&(flight.from, to));
            if arrives {
                let member = self.member(to);
                member.receive(flight.from, &flight.message.bytes, flight.data);
                self.drain(to);
            }
            if flight.message.snapshot.is_some() && self.members[&flight.from].replica.is_some() {
                self.replica(flight.from).report_snapshot(to, arrives);
            }
        }
    }

    /// Writes up to `count` jobs of the disk and reports them.
    pub fn run_disk(&mut self, id: u64, count: u64) {
        for _ in 0..count {
            let member = self.member(id);
            let Some(done) = member.write_job() else {
                break;
            };
            member.replica.as_mut().unwrap().on_persisted(done.id);
            if let Some(meta) = done.install {
                member.machine = member.disk.snapshot.clone();
                member.to_apply.clear();
                member.replica.as_mut().unwrap().on_snapshot_installed(meta.index);
                self.snapshots_installed += 1;
            }
            self.drain(id);
        }
    }

    pub fn apply(&mut self, id: u64, count: u64) {
        let member = self.member(id);
        if !member.jobs.iter().any(|job| job.install.is_some()) {
            member.apply(count);
        }
        self.drain(id);
    }

    /// Does all the work of one member until nothing is left.
    pub fn work(&mut self, id: u64) {
        self.drain(id);
        while !self.members[&id].jobs.is_empty() || !self.members[&id].to_apply.is_empty() {
            self.run_disk(id, u64::MAX);
            self.apply(id, u64::MAX);
        }
    }

    /// One step without faults: messages, disks, one tick.
    pub fn round(&mut self) {
        self.step += 1;
        self.deliver();
        for id in self.alive() {
            self.replica(id).tick();
            self.work(id);
        }
    }

    pub fn rounds(&mut self, count: u64) {
        (0..count).for_each(|_| self.round());
    }

    pub fn take_snapshot(&mut self, id: u64) {
        let member = self.member(id);
        let busy = member.jobs.iter().any(|job| job.install.is_some());
        let persisted_index = member.replica.as_ref().unwrap().status().persisted_index;
        let is_ahead = member.machine.index > persisted_index;
        if busy || is_ahead || member.machine.index <= member.disk.snapshot.index {
            return;
        }
        member.disk.snapshot = member.machine.clone();
        let index = member.machine.index;
        member.disk.entries.retain(|entry| entry.index > index);
        let meta = member.machine.meta();
        member.replica.as_mut().unwrap().on_snapshot_taken(meta);
    }

    pub fn read(&mut self, id: u64) -> ReadId {
        let floor = self.committed.keys().next_back().copied().unwrap_or(0);
        let read = self.replica(id).read_index().unwrap();
        self.member(id).reads.insert(read, floor);
        read
    }

    /// The leader of the newest term, if it is alive and knows that it leads.
    pub fn leader(&self) -> Option<u64> {
        let leaders = self.members.values().filter_map(|member| {
            let status = member.replica.as_ref()?.status();
            (status.role == Role::Leader).then_some((status.term, member.id))
        });
        leaders.max().map(|(_, id)| id)
    }

    /// Runs until a leader has committed in its term and every member follows it.
    pub fn elect(&mut self) -> u64 {
        for _ in 0..400 {
            self.round();
            if let Some(leader) = self.leader() {
                let status = self.replica(leader).status();
                if status.has_committed_in_term && status.applied_index == status.last_index {
                    return leader;
                }
            }
        }
        let states = self.members.values().filter_map(|member| {
            let replica = member.replica.as_ref()?;
            let (status, membership) = (replica.status(), replica.membership());
            Some(format!("{}: {status:?} {membership:?}\n", member.id))
        });
        panic!("no leader after 400 rounds\n{}", states.collect::<String>());
    }

    pub fn isolate(&mut self, id: u64) {
        for other in self.ids() {
            self.cut.extend([(id, other), (other, id)]);
        }
    }

    pub fn heal(&mut self) {
        self.cut.clear();
    }

    pub fn propose(&mut self, id: u64, payload: &str) -> crate::Position {
        let payload = Bytes::copy_from_slice(payload.as_bytes());
        let position = self.replica(id).propose(payload).unwrap();
        self.drain(id);
        position
    }

    /// Payloads that a member has applied, without those of membership entries and empty entries.
    pub fn applied(&self, id: u64) -> Vec<String> {
        let entries = self.members[&id].machine.entries.iter();
        entries
            .filter(|entry| entry.kind == EntryKind::Normal && !entry.payload.is_empty())
            .map(|entry| String::from_utf8(entry.payload.to_vec()).unwrap())
            .collect()
    }

    /// Checks that all members of the current membership have applied the same entries: all that
    /// were ever committed.
    pub fn check_converged(&mut self) {
        let leader = self.leader().unwrap();
        let membership = self.replica(leader).membership().clone();
        let everything: Vec<Entry> = self.committed.values().cloned().collect();
        for id in self.ids() {
            if membership.contains(id) {
                let machine = self.members[&id].machine.index;
                let state = (self.replica(leader).peers(), &membership, everything.len());
                let state = format!("{state:?}");
                let status = self.replica(id).status();
                let entries = &self.members[&id].machine.entries;
                assert!(*entries == everything, "{id} at {machine}: {status:?}, {state}");
            }
        }
    }
}

impl Member {
    fn new(id: u64, disk: Disk) -> Member {
        Member {
            id,
            replica: None,
            machine: disk.snapshot.clone(),
            disk,
            jobs: VecDeque::new(),
            to_apply: VecDeque::new(),
            memberships: VecDeque::new(),
            incoming: BTreeMap::new(),
            boot_id: 0,
            reads: BTreeMap::new(),
            served: Vec::new(),
            failed: Vec::new(),
        }
    }

    fn receive(&mut self, from: u64, bytes: &Bytes, data: Option<Machine>) {
        if let Some(meta) = peek(bytes).unwrap().snapshot {
            self.incoming.insert(meta.index, data.unwrap());
        }
        self.replica.as_mut().unwrap().step(from, bytes).unwrap();
    }

    fn write_job(&mut self) -> Option<Done> {
        let job = self.jobs.pop_front()?;
        if let Some(meta) = &job.install {
            self.disk.snapshot = self.incoming[&meta.index].clone();
            assert_eq!(self.disk.snapshot.meta(), *meta);
            self.disk.entries.clear();
            self.memberships.retain(|at| at.index > meta.index);
        }
        self.disk.write_entries(&job.entries);
        self.disk.hard_state = job.hard_state.unwrap_or(self.disk.hard_state);
        Some(Done { id: job.id, install: job.install })
    }

    fn apply(&mut self, count: u64) {
        let count = count.min(self.to_apply.len() as u64) as usize;
        for entry in self.to_apply.drain(..count) {
            assert_eq!(entry.index, self.machine.index + 1);
            self.machine.index = entry.index;
            self.machine.term = entry.term;
            while let Some(at) = self.memberships.pop_front_if(|at| at.index <= entry.index) {
                self.machine.membership = at.membership;
            }
            self.machine.entries.push(entry);
        }
        if count > 0 {
            self.replica.as_mut().unwrap().on_applied(self.machine.index);
        }
    }
}

struct Done {
    id: PersistId,
    install: Option<SnapshotMeta>,
}
