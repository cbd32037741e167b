//! Records what all members did: every entry that a member handed to Apply, by its index. A member
//! hands only committed entries to Apply. In this file "handed over" always means handed to Apply.
//!
//! The witness checks, across all process runs: once any member has handed an entry over, that
//! entry keeps its index and its bytes for ever, and syncs of a quorum cover it (the member itself
//! need not belong to that quorum). From the entries it derives the committed order for the judges.
//! In an ensemble it also checks that each term has one leader, which has all entries handed over
//! in earlier terms; that an index and a term never name two entries; that states at one index are
//! equal; and that levels rise by the rules (`levels`).

pub mod audit;
mod changes;
mod etcd;
pub mod etcd_v2;
mod giving_up;
pub mod levels;
pub mod members;
pub mod renewals;

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use machine::codec::DecodeError;
use machine::digest::Digest;
use machine::entry::{self, Batch, Framed};
use machine::etcd::command::Command as MachineCommand;
use machine::etcd::reply::Refusal;
use machine::etcd_v2::auth::{AuthCommand, ETCD_V2_SCHEME};
use machine::etcd_v2::command::Command as V2Command;
use machine::zk::command::Op as MachineOp;
use machine::{
    Changes, Command, ControlCommand, Level, LogIndex, Machine, MemberId, Ordinal, Origin, Outcome,
    Settings, Stamp, ZkCommand,
};
use replica::{Entry, EntryKind, Restored, Role, Status};
use workload::etcd::history as etcd_history;
use workload::etcd::history::CallId;
use workload::etcd::order::Claimed;
use workload::model;
use workload::op::Signature;
use workload::order::Committed;

use self::etcd::{EtcdCalls, is_asked_for, op_of_part};
use self::etcd_v2::V2Events;
use crate::check::Trouble;
use crate::disk::SimDisk;
use crate::etcd_clients::changer::ChangeCall;
use crate::etcd_clients::operator::Moved;
use crate::limits::MOVED_LATE_US_MAX;
use crate::member_changes::ChangeCounts;
use changes::{ChangeJudge, ChangeLog, Ended};
use giving_up::GivenUpCommands;
use levels::Levels;
use members::{MembersSeen, Shown};
use renewals::Renewals;

pub use giving_up::GivenUpCounts;

struct Handed {
    term: u64,
    payload: Bytes,
    /// Whether the entry holds commands or a membership.
    kind: EntryKind,
    /// How many commands this entry and all entries before it hold, not counting commands of
    /// skipped batches.
    ordinal: u64,
    /// The last batch of each member in this entry and all entries before it.
    last_batches: LastBatches,
    /// When and by which member the entry was proposed, as far as known.
    proposed: Proposed,
    /// When a member first handed the entry to Apply, in us. Syncs of a quorum covered the entry by
    /// then.
    handed_us: u64,
    /// The highest term that had a leader when the entry was first handed to Apply. So no leader of
    /// a later term has committed the entry.
    led_term: u64,
}

impl Handed {
    fn times(&self) -> Times {
        let Proposed { member, judged_us, at_us: proposed_us } = self.proposed;
        Times { member, judged_us, proposed_us, handed_us: self.handed_us }
    }
}

/// For each member id, the boot and the sequence number of the member's last batch.
type LastBatches = BTreeMap<u64, (u64, u64)>;

#[derive(Clone, Copy)]
struct Proposed {
    /// The number of the member that proposed it.
    member: usize,
    /// The earliest time at which the member may have decided to propose it, in us.
    judged_us: u64,
    /// When the entry went to the disk, in us.
    at_us: u64,
}

/// When the entry of a command was proposed, and when a member first handed it to Apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The number of the member that proposed it.
    pub member: usize,
    /// The earliest time at which the member may have decided to propose it, in us. From then on it
    /// may have waited in Loop.
    pub judged_us: u64,
    /// When the entry went to the disk, in us.
    pub proposed_us: u64,
    /// When a member first handed the entry to Apply, in us. Syncs of a quorum covered the entry by
    /// then.
    pub handed_us: u64,
}

/// The record of one member.
#[derive(Default)]
struct Seen {
    /// The last entry that the member handed to Apply, in any process run, and that its own disk
    /// had synced then. A later process run must have it.
    handed: u64,
    /// The last entry that any member had handed to Apply when this member's process started.
    handed_in_earlier_lives: u64,
    /// Whether the member serves clients.
    is_ready: bool,
    is_full: bool,
    /// When the member may have refused writes, since its disk or that of its leader was full.
    refusing: Trouble,
    /// Each change of whether clients can attach to the member, in order: its time in us, and
    /// whether they can from then on.
    doors: Vec<(u64, bool)>,
    /// For each machine that took the member's place, in order: when it did, in us, and the number
    /// of its disk.
    machines: Vec<(u64, usize)>,
    /// For each time that the member gave all sessions a full timeout: when, in us, and the number
    /// of its machine's disk.
    renewals: Vec<(u64, usize)>,
}

impl Seen {
    fn machine_at(&self, at_us: u64) -> Option<usize> {
        self.machines.iter().rfind(|(since_us, _)| *since_us <= at_us).map(|(_, disk)| *disk)
    }

    fn renew(&mut self, now_us: u64) {
        self.renewals.extend(self.machine_at(now_us).map(|disk| (now_us, disk)));
    }
}

/// The record of all members, in all process runs.
pub struct Witness {
    /// Whether the witness checks what members do inside, and not only what clients see.
    looks_inside: bool,
    /// The disk that each member uses now.
    disks: Vec<SimDisk>,
    /// All disks that a member has ever used, each with the member's number. The position is the
    /// disk's number.
    all_disks: Vec<(usize, SimDisk)>,
    seen: Vec<Seen>,
    /// [`Seen::handed_in_earlier_lives`] for the frozen process of each machine that was replaced,
    /// by the number of the machine's disk.
    handed_before_start: BTreeMap<usize, u64>,
    entries: BTreeMap<u64, Handed>,
    /// When and by which member each entry was proposed, by index and term.
    proposed: BTreeMap<(u64, u64), Proposed>,
    payloads: BTreeMap<(u64, u64), Bytes>,
    /// The leader of each term: the number of the member, and the member id of its directory.
    leaders: BTreeMap<u64, (usize, MemberId)>,
    /// When each term was first seen to have a leader, in us.
    led_since_us: BTreeMap<u64, u64>,
    /// The digest of the state at the end of each entry, by index.
    digests: BTreeMap<u64, Digest>,
    /// For each connection, by the member id, the boot and the id that the process gave it, its
    /// number in the network.
    connections: BTreeMap<(u64, u64, u64), usize>,
    /// For each snapshot that an operator restores, the ordinal of its state, by the hash of its
    /// bytes.
    images: BTreeMap<u128, u64>,
    /// All settings that processes started with.
    configured: Vec<Settings>,
    /// Commands that were given up: their clients no longer wait for them.
    given_up: GivenUpCommands,
    /// The levels that members claim to know, and those that entries raise to.
    pub levels: Levels,
    /// The memberships, and the lists of servers.
    pub members: MembersSeen,
    /// Which commands belong to which calls of etcd clients.
    pub etcd: EtcdCalls,
    /// The lease renewals that have reached leaders.
    pub renewals: Renewals,
    /// All events of etcd v2.
    pub v2: V2Events,
}

/// A command in the committed order that changes etcd's keys.
#[derive(Clone, Debug)]
pub struct EtcdCommand {
    /// The call that the command belongs to, or the act of a member without a call.
    pub claimed: Claimed,
    /// When the entry of the command was proposed and handed over.
    pub times: Times,
    /// The id of the member that submitted it, as etcd's clients see it.
    pub origin: u64,
    /// The term of the entry.
    pub term: u64,
    /// When that term was first seen to have a leader, in us.
    pub led_since_us: u64,
}

impl Witness {
    /// The record of members with these disks that have done nothing yet.
    pub fn new(looks_inside: bool, disks: Vec<SimDisk>, members_change: bool) -> Witness {
        Witness {
            looks_inside,
            seen: (0..disks.len())
                .map(|disk| Seen { machines: vec![(0, disk)], ..Seen::default() })
                .collect(),
            all_disks: disks.iter().cloned().enumerate().collect(),
            disks,
            handed_before_start: BTreeMap::new(),
            entries: BTreeMap::new(),
            proposed: BTreeMap::new(),
            payloads: BTreeMap::new(),
            leaders: BTreeMap::new(),
            led_since_us: BTreeMap::new(),
            digests: BTreeMap::new(),
            connections: BTreeMap::new(),
            images: BTreeMap::new(),
            configured: Vec::new(),
            given_up: GivenUpCommands::default(),
            levels: Levels::default(),
            members: MembersSeen::new(members_change),
            etcd: EtcdCalls::default(),
            renewals: Renewals::default(),
            v2: V2Events::default(),
        }
    }

    fn is_ensemble(&self) -> bool {
        self.seen.len() > 1
    }

    /// A process starts with these settings.
    pub fn on_configuration(&mut self, settings: &Settings) {
        if !self.configured.contains(settings) {
            self.configured.push(settings.clone());
        }
    }

    /// A process has started: `restored` is what its directory holds, and `machine` the state with
    /// all applied entries. If `is_wrong`, the state was made wrong on purpose and is not compared,
    /// so that the other members can detect it.
    ///
    /// # Errors
    /// The directory lacks something that was committed, or holds something else.
    pub fn on_recovered(
        &mut self,
        member: usize,
        restored: &Restored,
        machine: &Machine,
        now_us: u64,
        is_wrong: bool,
    ) -> Result<(), String> {
        self.on_start(member, restored.applied_index, &restored.entries, now_us)?;
        self.on_committed(member, restored.applied_entries(), now_us)?;
        self.v2.on_history(machine.etcd_v2().history(), now_us)?;
        if is_wrong { Ok(()) } else { self.on_applied(machine) }
    }

    /// A process has started with a state up to `index` and with these entries behind it.
    fn on_start(
        &mut self,
        member: usize,
        index: u64,
        entries: &[Entry],
        now_us: u64,
    ) -> Result<(), String> {
        let last = entries.last().map_or(index, |entry| entry.index);
        let newest = self.newest_index();
        let seen = &mut self.seen[member];
        seen.handed_in_earlier_lives = newest;
        (seen.is_ready, seen.is_full) = (false, false);
        seen.refusing.note(false, now_us);
        let handed = seen.handed;
        self.note_door(member, now_us);
        if !self.looks_inside {
            self.entries.split_off(&(last + 1));
            return Ok(());
        }
        if handed > last {
            return Err(format!(
                "entry {handed} was applied, and after a restart the log ends at {last}"
            ));
        }
        for entry in entries {
            // Entries behind that may have been replaced by another leader's.
            if entry.index <= handed {
                self.check_same(entry)?;
            }
            self.check_payload((entry.index, entry.term), &entry.payload)?;
        }
        Ok(())
    }

    /// A member has lost its directory, with the entries that it had handed to Apply. The other
    /// members still have these entries.
    pub fn on_lost(&mut self, member: usize) {
        self.seen[member].handed = 0;
    }

    /// A machine with this disk takes a member's place. `is_ready`: its process already serves
    /// clients.
    pub fn on_machine(&mut self, member: usize, disk: SimDisk, is_ready: bool, now_us: u64) {
        self.on_lost(member);
        let found = self.all_disks.iter().position(|(_, old)| old.is(&disk));
        let number = found.unwrap_or(self.all_disks.len());
        if found.is_none() {
            self.all_disks.push((member, disk.clone()));
        }
        self.disks[member] = disk;
        let seen = &mut self.seen[member];
        // If the replaced machine's process continues later, it still has the index from its own
        // start.
        if let Some((_, before)) = seen.machines.last() {
            self.handed_before_start.insert(*before, seen.handed_in_earlier_lives);
        }
        let handed = self.handed_before_start.get(&number).copied();
        seen.handed_in_earlier_lives = handed.unwrap_or(0);
        seen.machines.push((now_us, number));
        (seen.is_ready, seen.is_full) = (is_ready, false);
        // A process that continues renews no sessions.
        seen.doors.push((now_us, is_ready));
    }

    /// Checks that an index and a term name the same entry on all members.
    fn check_payload(&mut self, at: (u64, u64), payload: &Bytes) -> Result<(), String> {
        let found = self.payloads.entry(at).or_insert_with(|| payload.clone());
        match !self.looks_inside || found == payload {
            true => Ok(()),
            false => Err(format!("entry {} of term {} is two different ones", at.0, at.1)),
        }
    }

    fn check_same(&self, entry: &Entry) -> Result<(), String> {
        match self.entries.get(&entry.index) {
            Some(handed) if handed.term != entry.term || handed.payload != entry.payload => {
                Err(format!("entry {} was applied, and is another one now", entry.index))
            }
            _ => Ok(()),
        }
    }

    /// An entry, given by index and term, goes to the disk of a member. If no other member had it
    /// before, this member proposes it, and its commands may have waited since `judged_us`.
    pub fn on_proposed(
        &mut self,
        member: usize,
        at: (u64, u64),
        payload: &Bytes,
        judged_us: u64,
        now_us: u64,
    ) -> Result<(), String> {
        let proposed = Proposed { member, judged_us, at_us: now_us };
        let first = *self.proposed.entry(at).or_insert(proposed);
        if self.members.is_watched && first.member != member {
            self.members.copied.insert(at);
        }
        // A lone voter that ends before its term is durable leads in that term again. Nothing of
        // what it proposed has left it.
        if self.members.is_watched && !self.members.copied.contains(&at) {
            self.payloads.insert(at, payload.clone());
            self.proposed.insert(at, proposed);
        }
        self.check_payload(at, payload)
    }

    /// An entry that changes the membership goes to the disk of a member.
    pub fn on_membership(&mut self, index: u64) {
        self.members.changed_at.insert(index);
    }

    /// Whether a quorum knows durably that the last change of the membership is committed: an entry
    /// that was proposed after the change had been applied is committed, too.
    pub fn is_membership_settled(&self) -> bool {
        let is_change = |(_, handed): &(&u64, &Handed)| handed.kind == EntryKind::Membership;
        let last = self.entries.iter().rev().find(is_change);
        let Some((index, change)) = last else { return true };
        let is_behind = |handed: &Handed| handed.proposed.at_us > change.handed_us;
        self.members.changed_at.range(index + 1..).next().is_none()
            && self.entries.range(index + 1..).any(|(_, handed)| is_behind(handed))
    }

    /// Whether a member's log may hold a change of the membership that the member has not applied.
    pub fn may_change_membership(&self, status: &Status) -> bool {
        let mut behind = self.members.changed_at.range(status.applied_index + 1..);
        behind.next().is_some_and(|index| *index <= status.last_index)
    }

    /// Notes the status of a member's replica. Checks that each term has one leader, and that this
    /// leader has everything that was committed in earlier terms.
    pub fn on_status(
        &mut self,
        member: usize,
        id: MemberId,
        status: &Status,
        now_us: u64,
    ) -> Result<(), String> {
        // A lone voter leads before its term is durable, and has told nobody yet.
        if status.role != Role::Leader || !status.is_term_durable {
            return Ok(());
        }
        let term = status.term;
        let has_begun = !self.leaders.contains_key(&term);
        let leader = *self.leaders.entry(term).or_insert((member, id));
        if leader != (member, id) {
            let (leader, _) = leader;
            return Err(format!("members {leader} and {member} both lead in term {term}"));
        }
        if has_begun {
            self.led_since_us.insert(term, now_us);
            self.seen[member].renew(now_us);
            // A leader that learns late of its votes may lack an entry of an earlier term that the
            // leader of a later term has committed.
            let is_earlier = |handed: &Handed| handed.term < term && handed.led_term < term;
            let mut earlier = self.entries.iter().rev().filter(|(_, handed)| is_earlier(handed));
            if let Some((index, _)) = earlier.next()
                && *index > status.last_index
            {
                return Err(format!(
                    "member {member} leads in term {term} with a log up to {}, and entry {index} \
                     was applied",
                    status.last_index
                ));
            }
        }
        Ok(())
    }

    /// Checks that all members have the same state at the end of an entry.
    pub fn on_applied(&mut self, machine: &Machine) -> Result<(), String> {
        let (index, ordinal) = (machine.index(), machine.mark().ordinal);
        // States are compared only at the ends of entries.
        let is_inside = ordinal.0 != self.ordinal_at(index.0) || machine.is_amid_command();
        if !self.looks_inside || is_inside {
            return Ok(());
        }
        self.members.on_state(machine)?;
        let digest = machine.digest();
        match *self.digests.entry(index.0).or_insert(digest) == digest {
            true => Ok(()),
            false => Err(format!("two members have different states at entry {}", index.0)),
        }
    }

    /// The index of the last entry that any member has handed over.
    pub fn newest_index(&self) -> u64 {
        self.entries.last_key_value().map_or(0, |(index, _)| *index)
    }

    /// Whether the witness checks what members do inside.
    pub fn looks_inside(&self) -> bool {
        self.looks_inside
    }

    /// The last entry that the member has handed to Apply with its own disk having synced it.
    pub fn handed(&self, member: usize) -> u64 {
        self.seen[member].handed
    }

    /// The digest of the state at the end of the entry with this index and term, if it is committed
    /// and a member was seen there.
    pub fn digest_at(&self, index: u64, term: u64) -> Option<Digest> {
        let handed = self.entries.get(&index).filter(|handed| handed.term == term);
        handed.and_then(|_| self.digests.get(&index).copied())
    }

    /// How many commands all entries up to this one hold: the ordinal of the state there.
    pub fn ordinal_at(&self, index: u64) -> u64 {
        self.entries.range(..=index).next_back().map_or(0, |(_, handed)| handed.ordinal)
    }

    /// A process becomes ready, with everything up to `index` applied. Checks that it has applied
    /// every entry that any member had handed to Apply before the process started.
    pub fn on_ready(&mut self, member: usize, index: u64, now_us: u64) -> Result<(), String> {
        self.seen[member].is_ready = true;
        self.note_door(member, now_us);
        let earlier = self.seen[member].handed_in_earlier_lives;
        match self.looks_inside && earlier > index {
            true => Err(format!("ready at entry {index}, and entry {earlier} was applied before")),
            false => Ok(()),
        }
    }

    /// Checks the answer to a client's sync: at `ordinal`, everything up to `index`, the last
    /// committed entry when the request came, must be applied.
    pub fn check_sync(&self, index: u64, ordinal: u64) -> Result<(), String> {
        let wanted = self.ordinal_at(index);
        match self.looks_inside && ordinal < wanted {
            true => Err(format!(
                "a sync is answered at ordinal {ordinal}; when it came, entry {index} was \
                 committed, which ends at ordinal {wanted}"
            )),
            false => Ok(()),
        }
    }

    /// Checks that a durable snapshot holds the state at the end of entry `index`.
    pub fn check_snapshot(&self, index: u64, found: (LogIndex, Ordinal)) -> Result<(), String> {
        let wanted = (index, self.ordinal_at(index));
        let found = (found.0.0, found.1.0);
        match self.looks_inside && found != wanted {
            true => Err(format!(
                "a snapshot of entry and ordinal {wanted:?} holds the state at {found:?}"
            )),
            false => Ok(()),
        }
    }

    /// A member hands entries to Apply: from now on they may be acknowledged to clients.
    pub fn on_committed(
        &mut self,
        member: usize,
        entries: &[Entry],
        now_us: u64,
    ) -> Result<(), String> {
        for entry in entries {
            if self.looks_inside {
                self.check_same(entry)?;
                if !self.entries.is_empty() && entry.index > self.newest_index() + 1 {
                    return Err(format!("entry {} leaves a gap", entry.index));
                }
                self.check_synced(entry)?;
            }
            // An entry that only other disks have may be missing here after a restart.
            if self.disks[member].has_synced(entry.index, &entry.payload) {
                let seen = &mut self.seen[member];
                seen.handed = seen.handed.max(entry.index);
            }
            self.hand_over(member, entry, now_us);
        }
        Ok(())
    }

    /// A member installs a durable snapshot that it fetched.
    pub fn on_replaced(
        &mut self,
        member: usize,
        index: u64,
        found: (LogIndex, Ordinal),
    ) -> Result<(), String> {
        let seen = &mut self.seen[member];
        seen.handed = seen.handed.max(index);
        self.check_snapshot(index, found)
    }

    /// Checks that syncs of a quorum cover an entry.
    fn check_synced(&self, entry: &Entry) -> Result<(), String> {
        let Entry { index, payload, .. } = entry;
        if payload.is_empty() || entry.kind == EntryKind::Membership {
            return Ok(());
        }
        if self.entries.contains_key(index) {
            return Ok(());
        }
        let has =
            |(member, disk): &(usize, SimDisk)| disk.has_synced(*index, payload).then_some(*member);
        let synced: BTreeSet<usize> = self.all_disks.iter().filter_map(has).collect();
        if self.members.is_watched {
            return self.members.check_quorum(*index, &synced);
        }
        let synced = synced.len();
        match synced > self.disks.len() / 2 {
            true => Ok(()),
            false => Err(format!("entry {index} is applied, and on {synced} disks only")),
        }
    }

    fn hand_over(&mut self, member: usize, entry: &Entry, now_us: u64) {
        let proposed = self.proposed.get(&(entry.index, entry.term)).copied();
        let proposed = proposed.unwrap_or(Proposed { member, judged_us: now_us, at_us: now_us });
        let (term, handed_us) = (entry.term, now_us);
        let (kind, payload) = (entry.kind, entry.payload.clone());
        let before = self.entries.range(..entry.index).next_back().map(|(_, handed)| handed);
        let mut ordinal = before.map_or(0, |handed| handed.ordinal);
        let mut last_batches = before.map_or_else(LastBatches::new, |it| it.last_batches.clone());
        // A later check reports an entry that does not decode.
        if kind == EntryKind::Normal {
            ordinal += command_count(&payload, &mut last_batches).unwrap_or(0);
        }
        let led_term = self.leaders.last_key_value().map_or(0, |(term, _)| *term);
        let new =
            Handed { term, payload, kind, ordinal, last_batches, proposed, handed_us, led_term };
        match self.entries.entry(entry.index) {
            // Another member, or a later process run, hands it over again.
            Slot::Occupied(old) if old.get().payload == new.payload => {}
            Slot::Occupied(mut old) => {
                old.insert(new);
            }
            Slot::Vacant(vacant) => {
                if kind == EntryKind::Normal {
                    self.levels.on_handed(&new.payload, now_us);
                }
                vacant.insert(new);
            }
        }
    }

    /// A member learns that its disk is full, or that it has room again.
    pub fn on_room(&mut self, member: usize, is_full: bool, now_us: u64) {
        self.seen[member].is_full = is_full;
        self.note_door(member, now_us);
    }

    /// A member ends a turn of Loop: whether there was a reason to refuse writes in it, and whether
    /// there still is one.
    pub fn on_refusing(&mut self, member: usize, (in_turn, from_now): (bool, bool), now_us: u64) {
        let refusing = &mut self.seen[member].refusing;
        refusing.note(in_turn || from_now, now_us);
        refusing.note(from_now, now_us);
    }

    /// When a member may have refused writes for want of disk space.
    pub fn refusing(&self, member: usize) -> &Trouble {
        &self.seen[member].refusing
    }

    fn note_door(&mut self, member: usize, now_us: u64) {
        let seen = &mut self.seen[member];
        let is_open = seen.is_ready && !seen.is_full;
        seen.doors.push((now_us, is_open));
        if is_open {
            seen.renew(now_us);
        }
    }

    /// When the machine in a member's place at `until_us` last gave all sessions a full timeout:
    /// when clients became able to attach, or when it began to lead. In us; 0 if never.
    pub fn renewed_us(&self, member: usize, until_us: u64) -> u64 {
        let seen = &self.seen[member];
        let machine = seen.machine_at(until_us);
        let is_its = |(at_us, disk): &&(u64, usize)| *at_us <= until_us && Some(*disk) == machine;
        seen.renewals.iter().rfind(is_its).map_or(0, |(at_us, _)| *at_us)
    }

    /// Whether no client could attach to a member between two times.
    pub fn is_shut_between(&self, member: usize, from_us: u64, until_us: u64) -> bool {
        let doors = &self.seen[member].doors;
        let before = doors.iter().take_while(|(at_us, _)| *at_us <= until_us);
        before.last().is_some_and(|(at_us, is_open)| !is_open && *at_us <= from_us)
    }

    /// A process gives a connection its id.
    pub fn on_accept(&mut self, origin: Origin, connection: u64, number: usize) {
        self.connections.insert((origin.member.0, origin.boot.0, connection), number);
    }

    /// The terms that had a leader, each with the leader's number.
    #[cfg(test)]
    pub fn leaders(&self) -> impl Iterator<Item = (u64, usize)> {
        self.leaders.iter().map(|(term, (member, _))| (*term, *member))
    }

    /// Checks an answered move of leadership: the target must have led at some time between the
    /// request and the answer. If it stopped leading shortly before the request, that counts too,
    /// because the member that answered may still have believed in it.
    ///
    /// # Errors
    /// The target did not lead then.
    pub fn check_moved(&self, moved: &Moved) -> Result<(), String> {
        let Moved { target, asked_us, answered_us } = *moved;
        let led = |(term, (_, id)): (&u64, &(usize, MemberId))| {
            let since_us = self.led_since_us.get(term).copied().unwrap_or(0);
            let next = self.leaders.range(term + 1..).next();
            let until_us = next.and_then(|(next, _)| self.led_since_us.get(next)).copied();
            let until_us = until_us.map_or(u64::MAX, |at_us| at_us + MOVED_LATE_US_MAX);
            self.members.is_shown_as(*id, target) && since_us <= answered_us && until_us >= asked_us
        };
        match self.leaders.iter().any(led) {
            true => Ok(()),
            false => Err(format!("leadership was moved to {target:x}, which never led then")),
        }
    }

    /// Whether the directory with this member id began to lead at `before_us` or earlier.
    pub fn has_led(&self, id: u64, before_us: u64) -> bool {
        let led = |(term, (_, leader)): (&u64, &(usize, MemberId))| {
            let since_us = self.led_since_us.get(term).copied().unwrap_or(0);
            self.members.is_shown_as(*leader, id) && since_us <= before_us
        };
        self.leaders.iter().any(led)
    }

    /// How many terms had a leader.
    pub fn led_count(&self) -> usize {
        self.leaders.len()
    }

    /// An operator restores a snapshot whose bytes have this hash; the snapshot holds the state at
    /// this ordinal.
    pub fn on_image(&mut self, hash: u128, ordinal: u64) {
        self.images.insert(hash, ordinal);
    }

    /// How many entries were handed over.
    pub fn entry_count(&self) -> usize {
        self.entries.len()
    }

    /// The committed order of all commands, and the times of each command's entry.
    ///
    /// # Errors
    /// An ensemble of one has a batch twice, or lacks one. (Larger ensembles may send batches
    /// again; they skip a batch that is not the next of its origin.)
    pub fn order(&self) -> Result<(Vec<Committed>, Vec<Times>), String> {
        let (mut committed, mut times) = (Vec::new(), Vec::new());
        let (mut changes, mut shown) = (ChangeLog::default(), Shown::new(&self.members));
        self.each_command(|handed, time_ms, batch, _, framed| {
            let ended = changes.on_command(&framed.command);
            shown.next(&stamp(time_ms, batch, framed), &framed.command);
            committed.push(match ended {
                Some((_, Ended::Finished)) => {
                    Committed::ListChange { servers: shown.list(), time_ms }
                }
                _ => self.translate(batch.origin, time_ms, framed)?,
            });
            times.push(handed.times());
            Ok(())
        })?;
        Ok((committed, times))
    }

    /// Judges the changes of the list of servers. `calls` are all calls that asked for one.
    ///
    /// # Errors
    /// Like [`Witness::order`], or a list is not what the changes lead to, or a call was answered
    /// otherwise than its change ended.
    pub fn check_changes<'c>(
        &self,
        calls: impl Iterator<Item = &'c ChangeCall>,
    ) -> Result<ChangeCounts, String> {
        self.members.check_demotions()?;
        let mut judge = ChangeJudge::new(calls, &self.members);
        self.each_command(|handed, time_ms, batch, position, framed| {
            let leader = self.leaders.get(&handed.term).map(|(member, _)| *member as u64 + 1);
            let call = || self.etcd.call_of(batch.origin, batch.sequence, position);
            let of = (&self.members, &stamp(time_ms, batch, framed));
            judge.on_command(&framed.command, (leader, handed.handed_us), of, call)
        })?;
        judge.finish(&self.members)
    }

    /// The committed order of the commands that change etcd's keys.
    ///
    /// # Errors
    /// Like [`Witness::order`], or a command belongs to no client's call.
    pub fn etcd_order(&self, history: &etcd_history::History) -> Result<Vec<EtcdCommand>, String> {
        let mut order = Vec::new();
        // The ordinals of commands that grant a lease, each with the command's position in the
        // order.
        let (mut ordinal, mut grants) = (0, BTreeMap::new());
        // A copy of the machine that decides about permissions, from the first change of users or
        // roles on.
        let (mut permits, mut ids): (Option<Machine>, _) = (None, Shown::new(&self.members));
        self.each_command(|handed, time_ms, batch, position, framed| {
            ordinal += 1;
            let times = handed.times();
            let led_since_us = self.led_since_us.get(&handed.term).copied().unwrap_or(0);
            let (term, origin) =
                (handed.term, ids.next(&stamp(time_ms, batch, framed), &framed.command));
            let of = |claimed| EtcdCommand { claimed, times, origin, term, led_since_us };
            if let Some(claimed) = self.claim_of_space(batch, position, &framed.command)? {
                order.push(of(claimed));
            }
            let Command::Etcd(command) = &framed.command else { return Ok(()) };
            if matches!(command, MachineCommand::Configure(_) | MachineCommand::DisarmAlarm(_)) {
                return Ok(());
            }
            if matches!(command, MachineCommand::Auth(_)) {
                permits.get_or_insert_default();
            }
            let is_denied = permits.as_mut().is_some_and(|it| is_denied(it, batch, framed));
            if matches!(command, MachineCommand::Auth(_)) {
                return Ok(());
            }
            if let MachineCommand::Grant { .. } = command {
                grants.insert(ordinal, order.len());
            }
            let mut add = |claimed| order.push(of(claimed));
            if let MachineCommand::Compact { revision } = command
                && !self.etcd.is_of_front(batch.origin, batch.sequence)
            {
                add(Claimed::Compaction { revision: *revision });
                return Ok(());
            }
            if let MachineCommand::Expire { leases } = command {
                for (lease, judged) in leases {
                    // The end of a lease that no command granted has no effect.
                    let granted = grants.get(&judged.0).copied().unwrap_or(usize::MAX);
                    add(Claimed::Expire { lease: lease.0, granted });
                }
                return Ok(());
            }
            if self.etcd.is_part(batch.origin, batch.sequence, position) {
                let op = op_of_part(command)?;
                if !is_denied {
                    add(Claimed::Part(op));
                }
                return Ok(());
            }
            let call = self.etcd.call_of(batch.origin, batch.sequence, position)?;
            let asked = history.position(call).map(|at| &history.calls[at].op);
            if !asked.is_some_and(|op| is_asked_for(command, op)) {
                return Err(format!("{command:?} is logged for {call:?}, which is {asked:?}"));
            }
            // Another judge (the client that manages users) checks the permissions.
            if !is_denied {
                add(Claimed::Call(call));
            }
            Ok(())
        })?;
        Ok(order)
    }

    /// Calls `with` for each committed change of etcd v2's users: with its call, its user (`None`
    /// for a guest), and when its entry was first handed over, in us.
    ///
    /// # Errors
    /// Like [`Witness::order`], or a change belongs to no client's call, or `with` fails.
    pub fn each_change_of_v2_users(
        &self,
        mut with: impl FnMut((CallId, Option<&str>), &AuthCommand<'_>, u64) -> Result<(), String>,
    ) -> Result<(), String> {
        self.each_command(|handed, _, batch, position, framed| {
            let Command::EtcdV2(V2Command::Auth(command)) = &framed.command else { return Ok(()) };
            let call = self.etcd.call_of(batch.origin, batch.sequence, position)?;
            let identities = &batch.identities[framed.identity_list];
            let user = identities.iter().find(|it| it.scheme == ETCD_V2_SCHEME);
            with((call, user.map(|user| user.id)), command, handed.times().handed_us)
        })
    }

    /// The change that a command makes to the store's space: its quota or its alarm; `None` if
    /// none.
    fn claim_of_space(
        &self,
        batch: &Batch<'_>,
        position: usize,
        command: &Command<'_>,
    ) -> Result<Option<Claimed>, String> {
        Ok(match command {
            Command::Control(ControlCommand::Raise(stated)) => {
                (stated.level >= Level::TOKENS).then_some(Claimed::Bound)
            }
            Command::Etcd(MachineCommand::Configure(settings)) => {
                Some(Claimed::Quota { bytes: settings.quota_bytes })
            }
            Command::Etcd(MachineCommand::DisarmAlarm(alarm)) => {
                self.etcd.call_of(batch.origin, batch.sequence, position)?;
                Some(Claimed::Disarm { member: alarm.member })
            }
            _ => None,
        })
    }

    /// Calls `with` for each command in the committed order: with its entry, the entry's wall clock
    /// in ms, its batch and its position in the batch.
    fn each_command(
        &self,
        mut with: impl FnMut(&Handed, i64, &Batch<'_>, usize, &Framed<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut last_batches = LastBatches::new();
        for (index, handed) in &self.entries {
            if handed.payload.is_empty() || handed.kind == EntryKind::Membership {
                continue;
            }
            let bad = |error| format!("entry {index} does not decode: {error}");
            let header = entry::decode_header(&handed.payload).map_err(bad)?;
            let mut offset = entry::HEADER_BYTES;
            for _ in 0..header.batch_count {
                let batch = entry::decode_batch(&handed.payload, offset).map_err(bad)?;
                offset = batch.end;
                if !is_next(&mut last_batches, batch.origin, batch.sequence) {
                    if !self.is_ensemble() {
                        let (origin, sequence) = (batch.origin, batch.sequence);
                        return Err(format!(
                            "entry {index} holds batch {sequence} of {origin:?} after \
                             {last_batches:?}"
                        ));
                    }
                    continue;
                }
                let (mut command_offset, mut position) = (0, 0);
                while let Some(framed) = batch.command(command_offset).map_err(bad)? {
                    command_offset = framed.end;
                    forget(&mut last_batches, &framed.command);
                    with(handed, header.time_ms, &batch, position, &framed)?;
                    position += 1;
                }
            }
        }
        Ok(())
    }

    /// Checks that the level only rises in the committed order, and that no entry states a level
    /// above the one raised to so far, except the entry that raises it. Returns the last level.
    ///
    /// # Errors
    /// An entry breaks these rules, or does not decode.
    pub fn check_levels(&self) -> Result<Level, String> {
        let mut level = Level::FIRST;
        let mut last_batches = LastBatches::new();
        for (index, handed) in &self.entries {
            if handed.payload.is_empty() || handed.kind == EntryKind::Membership {
                continue;
            }
            let bad = |error| format!("entry {index} does not decode: {error}");
            let stated = entry::decode_header(&handed.payload).map_err(bad)?.level;
            for (origin, sequence, raised) in levels::raises(&handed.payload).map_err(bad)? {
                let is_next = is_next(&mut last_batches, origin, sequence);
                let Some(raised) = raised.filter(|_| is_next) else { continue };
                // A member that does not know the level must be able to tell from the header alone.
                if raised <= level || raised > stated {
                    return Err(format!(
                        "entry {index} states level {stated} and raises level {level} to {raised}"
                    ));
                }
                level = raised;
            }
            last_batches = handed.last_batches.clone();
            if stated > level {
                return Err(format!("entry {index} states level {stated}, and it is {level}"));
            }
        }
        Ok(level)
    }

    fn translate(
        &self,
        origin: Origin,
        time_ms: i64,
        framed: &Framed<'_>,
    ) -> Result<Committed, String> {
        let number = || {
            let (member, boot) = (origin.member.0, origin.boot.0);
            let found = self.connections.get(&(member, boot, framed.connection.0));
            found.copied().ok_or_else(|| {
                format!("a command of connection {} of {origin:?}", framed.connection.0)
            })
        };
        Ok(match &framed.command {
            Command::Zk(ZkCommand::OpenSession { session, password, .. }) => {
                Committed::Open { session: session.0, password: *password, connection: number()? }
            }
            Command::Zk(ZkCommand::Attach { session, password, .. }) => {
                Committed::Attach { session: session.0, password: *password, connection: number()? }
            }
            Command::Zk(ZkCommand::CloseSession { session }) => Committed::Write {
                session: session.0,
                connection: number()?,
                signature: Signature(vec![('x', String::new(), None)]),
                time_ms,
            },
            Command::Zk(ZkCommand::ExpireSessions { sessions }) => Committed::Expire(
                sessions.iter().map(|(session, attached)| (session.0, attached.0)).collect(),
            ),
            Command::Zk(ZkCommand::Configure(settings)) => {
                if !self.configured.contains(settings) {
                    return Err(format!("nobody configured {settings:?}"));
                }
                let (extended_types, enforce_quota) =
                    (settings.extended_types, settings.enforce_quota);
                Committed::Configure(model::Settings { extended_types, enforce_quota })
            }
            Command::Zk(ZkCommand::DeleteContainers { paths, never_used_ms_max }) => {
                Committed::RemoveDue {
                    paths: paths.iter().map(ToString::to_string).collect(),
                    time_ms,
                    never_used_ms_max: i64::try_from(*never_used_ms_max).unwrap_or(i64::MAX),
                }
            }
            Command::Control(ControlCommand::InstallImage { hash }) => {
                let ordinal = self.images.get(hash);
                let unknown = || format!("image {hash:032x}, which nobody brought");
                Committed::Install { ordinal: *ordinal.ok_or_else(unknown)? }
            }
            // Commands that ZooKeeper clients do not see.
            Command::Control(_) | Command::Etcd(_) | Command::EtcdV2(_) => {
                Committed::Expire(Vec::new())
            }
            Command::Zk(ZkCommand::Write { session, op }) => Committed::Write {
                session: session.0,
                connection: number()?,
                signature: signature(core::slice::from_ref(op)),
                time_ms,
            },
            Command::Zk(ZkCommand::Multi { session, ops }) => Committed::Write {
                session: session.0,
                connection: number()?,
                signature: signature(ops),
                time_ms,
            },
        })
    }
}

/// The stamp of a command in the log.
fn stamp<'b>(time_ms: i64, batch: &'b Batch<'_>, framed: &Framed<'_>) -> Stamp<'b> {
    let identities = &batch.identities[framed.identity_list];
    Stamp { time_ms, origin: batch.origin, connection: framed.connection, identities }
}

/// Applies a command of etcd's space to `permits`, a copy of the machine that decides about
/// permissions. Returns whether the command's user lacks the permission.
fn is_denied(permits: &mut Machine, batch: &Batch<'_>, framed: &Framed<'_>) -> bool {
    let identities = &batch.identities[framed.identity_list];
    let (origin, connection) = (batch.origin, framed.connection);
    let stamp = Stamp { time_ms: 0, origin, connection, identities };
    let reply = permits.apply(&stamp, &framed.command, &mut Changes::default());
    let denials = [Refusal::UserEmpty, Refusal::AuthOldRevision, Refusal::PermissionDenied];
    matches!(reply.outcome, Outcome::Etcd(Err(refusal)) if denials.contains(&refusal))
}

/// Whether a batch is the next one of its origin, by the machine's rule. If it is, notes it.
fn is_next(last_batches: &mut LastBatches, origin: Origin, sequence: u64) -> bool {
    let (member, boot) = (origin.member.0, origin.boot.0);
    let expected = match last_batches.get(&member) {
        Some((newest, _)) if *newest > boot => return false,
        Some((newest, last)) if *newest == boot => last + 1,
        _ => 1,
    };
    if sequence == expected {
        last_batches.insert(member, (boot, sequence));
    }
    sequence == expected
}

/// If the command makes the ensemble forget a member, forgets the last batch of that member, which
/// would begin with its first batch again.
fn forget(last_batches: &mut LastBatches, command: &Command<'_>) {
    if let Command::Control(ControlCommand::Forget { member } | ControlCommand::Retire(member)) =
        command
    {
        last_batches.remove(&member.0);
    }
}

/// How many commands of an entry are not skipped.
fn command_count(payload: &Bytes, last_batches: &mut LastBatches) -> Result<u64, DecodeError> {
    if payload.is_empty() {
        return Ok(0);
    }
    let header = entry::decode_header(payload)?;
    let (mut offset, mut count) = (entry::HEADER_BYTES, 0);
    for _ in 0..header.batch_count {
        let batch = entry::decode_batch(payload, offset)?;
        offset = batch.end;
        if !is_next(last_batches, batch.origin, batch.sequence) {
            continue;
        }
        let mut command_offset = 0;
        while let Some(framed) = batch.command(command_offset)? {
            command_offset = framed.end;
            forget(last_batches, &framed.command);
            count += 1;
        }
    }
    Ok(count)
}

fn signature(ops: &[MachineOp<'_>]) -> Signature {
    let data = |data: &Option<&[u8]>| data.map(<[u8]>::to_vec);
    let one = |op: &MachineOp<'_>| match op {
        MachineOp::Create { path, data: bytes, .. } => ('c', path.to_string(), data(bytes)),
        MachineOp::Delete { path, .. } => ('d', path.to_string(), None),
        MachineOp::SetData { path, data: bytes, .. } => ('s', path.to_string(), data(bytes)),
        MachineOp::SetAcl { path, .. } => ('a', path.to_string(), None),
        MachineOp::Check { path, .. } => ('v', path.to_string(), None),
        MachineOp::Malformed => ('?', String::new(), None),
    };
    Signature(ops.iter().map(one).collect())
}

#[cfg(test)]
mod tests;
