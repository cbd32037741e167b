//! Tests of `Lock` and `Campaign`: single cases, and random clients of one Front. The random
//! clients cancel at any moment, ask again for what they hold, and lose their leases; and the log
//! may lose outcomes.

use std::collections::BTreeMap;

use etcd::pb::{v3electionpb as election, v3lockpb as lock};
use etcd::recipe;
use machine::etcd::command::{DeleteRange, KeyRange, RangeOp};
use machine::etcd::event::Event;

use super::*;
use crate::fronts::zk::tests::rig::Random;

/// The fate of a batch that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fortune {
    /// The batch is applied, and its callers get the outcomes.
    Applied,
    /// The batch is applied, but its callers only learn that the fate is unknown.
    Lost,
    /// The batch is given up before any leader has it.
    NeverLogged,
    /// The batch is never applied, but its callers only learn that the fate is unknown.
    Vanished,
}

impl Rig {
    /// A Front of a member of an ensemble whose state has these leases.
    fn with_leases(leases: impl IntoIterator<Item = i64>) -> Rig {
        let mut rig = Rig::new(false, Level::ETCD);
        for id in leases {
            rig.grant(id);
        }
        rig
    }

    fn grant(&mut self, id: i64) {
        let request = pb::LeaseGrantRequest { id, ttl: 100 };
        let ticket = self.call(EtcdMethod::LeaseGrant, &request);
        self.go_on();
        assert!(self.result::<pb::LeaseGrantResponse>(ticket).is_ok());
    }

    fn lock(&mut self, name: &'static str, lease: i64) -> Ticket {
        self.call(EtcdMethod::Lock, &lock::LockRequest { name: name.into(), lease })
    }

    fn campaign(&mut self, name: &'static str, lease: i64, value: &'static str) -> Ticket {
        let value = value.into();
        let request = election::CampaignRequest { name: name.into(), lease, value };
        self.call(EtcdMethod::Campaign, &request)
    }

    /// Gives the oldest batch under way this fate.
    fn settle_first(&mut self, fortune: Fortune) {
        let submission = self.submitted.remove(0);
        let (level, waiters) = (submission.batch.level, submission.waiters);
        let payload = entry::encode(1, 0, level, &[submission.batch.stamp(ORIGIN, 1)]);
        let batch = entry::decode_batch(&payload, entry::HEADER_BYTES).unwrap();
        let (mut answers, mut changes) = (Vec::new(), Changes::default());
        changes.etcd.set_wants_keys(true);
        for (framed, waiter) in batch.commands(0, usize::MAX).unwrap().iter().zip(waiters) {
            let Waiter { connection, ticket, .. } = waiter;
            let identities = &batch.identities[framed.identity_list][..];
            let stamp = Stamp { time_ms: 0, origin: ORIGIN, connection, identities };
            let is_applied = matches!(fortune, Fortune::Applied | Fortune::Lost);
            let reply =
                is_applied.then(|| self.machine.apply(&stamp, &framed.command, &mut changes));
            let answered = match (fortune, reply) {
                (Fortune::Applied, Some(reply)) => Ok(reply.outcome),
                (Fortune::NeverLogged, _) => Err(Unavailable::GivenUp(Fate::Definite)),
                _ => Err(Unavailable::GivenUp(Fate::Unknown)),
            };
            let (mark, reads) = (self.machine.mark(), Vec::new());
            answers.push(Answer::Command { connection, ticket, mark, answered, reads });
        }
        self.deliver(changes, answers);
    }

    /// Applies a command that no client sent, such as Loop's command that ends a lease.
    fn run(&mut self, command: EtcdCommand<'_>) {
        self.run_etcd(command);
        self.take();
    }

    /// Answers the oldest sync under way.
    fn sync_first(&mut self) {
        let ticket = self.synced.remove(0);
        self.sync(ticket);
    }

    /// Answers everything until only calls that wait for a lock are under way.
    fn go_on(&mut self) {
        self.take();
        while !(self.submitted.is_empty() && self.synced.is_empty()) || self.front.has_more() {
            self.take();
            while !self.synced.is_empty() {
                self.sync_first();
            }
            while !self.submitted.is_empty() {
                self.settle_first(Fortune::Applied);
            }
        }
    }

    fn is_done(&self, ticket: Ticket) -> bool {
        self.results.iter().any(|(of, _)| *of == ticket)
    }

    /// The key of a lease for the lock with this name.
    fn key(&self, name: &str, lease: i64) -> Option<Event> {
        let key = recipe::key_of(name.as_bytes(), lease);
        let range = RangeOp::of(KeyRange { key: &key, end: &[] });
        let found = self.machine.etcd().range(&range).expect("the newest revision is there");
        found.events.into_iter().next()
    }

    /// The revision at which the key of this lease for the lock with this name was created.
    fn created(&self, name: &str, lease: i64) -> Option<i64> {
        Some(self.key(name, lease)?.numbers().create_revision)
    }

    /// Unlocks by deleting the key, as a client does.
    fn unlock(&mut self, name: &'static str, lease: i64) {
        let key = recipe::key_of(name.as_bytes(), lease).into();
        let request = pb::DeleteRangeRequest { key, ..Default::default() };
        let ticket = self.call(EtcdMethod::DeleteRange, &request);
        self.go_on();
        assert!(self.result::<pb::DeleteRangeResponse>(ticket).is_ok());
    }
}

#[test]
fn a_lock_is_passed_on_in_the_order_of_asking() {
    let mut rig = Rig::with_leases([1, 2, 3]);
    let tickets = [1, 2, 3].map(|lease| {
        let ticket = rig.lock("l", lease);
        rig.go_on();
        ticket
    });
    for (position, lease) in [1, 2, 3].into_iter().enumerate() {
        let waits = tickets.iter().skip(position + 1);
        assert!(waits.clone().all(|ticket| !rig.is_done(*ticket)));
        let locked: lock::LockResponse = rig.result(tickets[position]).unwrap();
        assert_eq!(locked.key, recipe::key_of(b"l", lease));
        assert_eq!(rig.front.call_count(), waits.count());
        rig.unlock("l", lease);
    }
    rig.check_empty();
}

/// A regression: a cancelled call removed its lease's key although that key held the lock.
#[test]
fn a_call_of_the_holder_that_is_cancelled_removes_nothing() {
    for settles_first in [false, true] {
        for is_lock in [false, true] {
            let mut rig = Rig::with_leases([1]);
            let ask = |rig: &mut Rig| match is_lock {
                true => rig.lock("l", 1),
                false => rig.campaign("l", 1, "x"),
            };
            let first = ask(&mut rig);
            rig.go_on();
            assert!(rig.is_done(first));
            let created = rig.created("l", 1).expect("it holds");
            let again = ask(&mut rig);
            if settles_first {
                rig.settle_first(Fortune::Applied);
            }
            rig.front.on_cancel(again);
            rig.go_on();
            assert_eq!(rig.created("l", 1), Some(created));
            rig.results.clear();
            rig.check_empty();
        }
    }
}

#[test]
fn a_client_that_waits_no_longer_leaves_nothing_behind() {
    // Cancel before the transaction is applied, then after.
    for settles_first in [false, true] {
        let mut rig = Rig::with_leases([1, 2, 3]);
        let first = rig.lock("l", 1);
        rig.go_on();
        let second = rig.lock("l", 2);
        if settles_first {
            rig.go_on();
            assert!(rig.created("l", 2).is_some());
        }
        let third = rig.lock("l", 3);
        rig.front.on_cancel(second);
        rig.go_on();
        assert_eq!(rig.created("l", 2), None);
        assert!(rig.is_done(first) && !rig.is_done(third));
        rig.unlock("l", 1);
        assert!(rig.is_done(third));
        rig.results.clear();
        rig.check_empty();
    }
}

/// A removal that is refused is tried again at each tick.
#[test]
fn a_removal_is_tried_again_until_it_takes_effect() {
    let mut rig = Rig::with_leases([1, 2]);
    rig.lock("l", 1);
    rig.go_on();
    let second = rig.lock("l", 2);
    rig.go_on();
    rig.front.on_cancel(second);
    rig.take();
    for _ in 0..3 {
        rig.settle_first(Fortune::NeverLogged);
        assert!(rig.front.waits_for_tick());
        assert!(rig.created("l", 2).is_some());
        rig.front.on_tick();
        rig.take();
    }
    rig.settle_first(Fortune::Applied);
    assert_eq!(rig.created("l", 2), None);
    assert!(!rig.front.waits_for_tick());
    rig.results.clear();
    rig.check_empty();
}

#[test]
fn the_lease_of_a_waiter_that_ends_ends_its_wait() {
    let mut rig = Rig::with_leases([1, 2]);
    rig.lock("l", 1);
    rig.go_on();
    let second = rig.lock("l", 2);
    rig.go_on();
    rig.run(EtcdCommand::Revoke { lease: LeaseId(2) });
    rig.run(EtcdCommand::Revoke { lease: LeaseId(1) });
    rig.go_on();
    let ended = rig.result::<lock::LockResponse>(second);
    assert_eq!(ended, Err(CallRefused::Unknown("mutex: session is expired")));
    rig.results.clear();
    rig.check_empty();
}

/// Two calls of one lease at two members. One call is cancelled, and its removal takes effect after
/// the other call holds the lock.
#[test]
fn a_removal_that_comes_late_does_not_hit_a_key_that_holds() {
    for is_lock in [false, true] {
        let mut rig = Rig::with_leases([1, 2]);
        rig.lock("l", 1);
        rig.go_on();
        let mut ask = || {
            let ticket = if is_lock { rig.lock("l", 2) } else { rig.campaign("l", 2, "x") };
            rig.go_on();
            ticket
        };
        let (waits, cancelled) = (ask(), ask());
        rig.front.on_cancel(cancelled);
        rig.take();
        let removal = rig.submitted.remove(0);
        rig.unlock("l", 1);
        assert!(rig.is_done(waits));
        rig.submitted.push(removal);
        rig.go_on();
        assert!(rig.created("l", 2).is_some(), "the lock that is held was lost");
        rig.results.clear();
        rig.check_empty();
    }
}

/// etcd reports this candidate as the leader.
#[test]
fn a_candidate_whose_key_is_gone_does_not_lead() {
    let mut rig = Rig::with_leases([1, 2]);
    rig.campaign("l", 1, "x");
    rig.go_on();
    let second = rig.campaign("l", 2, "y");
    rig.go_on();
    rig.unlock("l", 2);
    rig.unlock("l", 1);
    let ended = rig.result::<election::CampaignResponse>(second);
    assert_eq!(ended, Err(CallRefused::Unknown("election: not leader")));
    rig.results.clear();
    rig.check_empty();
}

const NAMES: [&str; 2] = ["a", "b"];
const CLIENTS: i64 = 4;

/// The activity of a random client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    /// The client waits for the result of a call.
    Asking {
        name: &'static str,
        ticket: Ticket,
        is_lock: bool,
    },
}

/// Random clients, each with a lease of its own.
struct World {
    rig: Rig,
    random: Random,
    /// The present lease of each client. When it ends, the client gets a new one.
    leases: BTreeMap<i64, i64>,
    doing: BTreeMap<i64, Doing>,
    /// The locks that clients know they hold, by name: the lease, and the revision of its key.
    holds: BTreeMap<&'static str, (i64, i64)>,
    /// Whether outcomes are lost. Keys may then remain until their leases end.
    is_rough: bool,
    next_lease: i64,
    now_ms: u64,
    /// How many locks were gained, calls cancelled, and calls of a holder cancelled.
    counts: [usize; 3],
}

impl World {
    fn new(seed: u64) -> World {
        let mut world = World {
            rig: Rig::new(false, Level::ETCD),
            random: Random(seed),
            leases: BTreeMap::new(),
            doing: (1..=CLIENTS).map(|client| (client, Doing::Nothing)).collect(),
            holds: BTreeMap::new(),
            is_rough: seed % 2 == 1,
            next_lease: 1,
            now_ms: 0,
            counts: [0; 3],
        };
        (1..=CLIENTS).for_each(|client| world.renew(client));
        world
    }

    /// Gives a client a new lease.
    fn renew(&mut self, client: i64) {
        self.rig.run(EtcdCommand::Grant { lease: LeaseId(self.next_lease), ttl_s: 100 });
        self.leases.insert(client, self.next_lease);
        self.next_lease += 1;
    }

    fn client(&mut self) -> i64 {
        1 + self.random.below(CLIENTS as usize) as i64
    }

    /// Makes one random thing happen: to a client, to its lease, or on the way to the log and back.
    fn step(&mut self) {
        let (client, choice) = (self.client(), self.random.below(20));
        match (choice, self.doing[&client]) {
            (0..=2, Doing::Nothing) => self.ask(client),
            (3, Doing::Asking { name, ticket, .. }) => {
                self.cancel(client, name, ticket);
            }
            (4, Doing::Nothing) => self.unlock(client),
            (5, _) if self.random.below(4) == 0 => self.end_lease(client),
            (6, _) => {
                self.now_ms += self.random.below(500) as u64;
                let (monotonic_ms, contact_at_ms) = (self.now_ms, Some(self.now_ms.max(1)));
                self.rig.front.set_now(Now { monotonic_ms, raft_term: 1, contact_at_ms });
                self.rig.front.on_tick();
            }
            (7..=12, _) if !self.rig.submitted.is_empty() => {
                let fortune = match self.random.below(16) {
                    0 if self.is_rough => Fortune::Lost,
                    1 if self.is_rough => Fortune::NeverLogged,
                    2 if self.is_rough => Fortune::Vanished,
                    _ => Fortune::Applied,
                };
                self.rig.settle_first(fortune);
            }
            (13..=16, _) if !self.rig.synced.is_empty() => self.rig.sync_first(),
            _ => {}
        }
        self.rig.take();
        self.take_results();
        self.check_holds();
    }

    /// Asks for a lock or an election, perhaps one that the client holds already.
    fn ask(&mut self, client: i64) {
        let lease = self.leases[&client];
        let name = NAMES[self.random.below(2)];
        // A lock and an election of the same name would share keys.
        let is_lock = name == "a";
        let values = ["x", "y"];
        let ticket = match is_lock {
            true => self.rig.lock(name, lease),
            false => self.rig.campaign(name, lease, values[self.random.below(2)]),
        };
        self.doing.insert(client, Doing::Asking { name, ticket, is_lock });
    }

    fn cancel(&mut self, client: i64, name: &'static str, ticket: Ticket) {
        let is_holder = self.holds.get(name).is_some_and(|(of, _)| *of == self.leases[&client]);
        self.counts[1] += 1;
        self.counts[2] += usize::from(is_holder);
        self.rig.front.on_cancel(ticket);
        self.doing.insert(client, Doing::Nothing);
    }

    /// A client releases what it holds, with a call that is always applied.
    fn unlock(&mut self, client: i64) {
        let lease = self.leases[&client];
        let held = self.holds.iter().find(|(_, (of, _))| *of == lease).map(|(name, _)| *name);
        let Some(name) = held else { return };
        self.holds.remove(name);
        let key = recipe::key_of(name.as_bytes(), lease);
        let range = KeyRange { key: &key, end: &[] };
        let delete = DeleteRange { range, prev_kv: false };
        self.rig.run(EtcdCommand::DeleteRange(delete));
    }

    fn end_lease(&mut self, client: i64) {
        let lease = self.leases[&client];
        self.holds.retain(|_, (of, _)| *of != lease);
        self.rig.run(EtcdCommand::Revoke { lease: LeaseId(lease) });
        // The lease's client knows that it has ended, and waits no longer.
        if let Doing::Asking { name, ticket, .. } = self.doing[&client] {
            self.cancel(client, name, ticket);
        }
        self.renew(client);
    }

    fn take_results(&mut self) {
        for client in 1..=CLIENTS {
            let Doing::Asking { name, ticket, is_lock } = self.doing[&client] else { continue };
            if !self.rig.is_done(ticket) {
                continue;
            }
            self.doing.insert(client, Doing::Nothing);
            let lease = self.leases[&client];
            let key = match is_lock {
                true => self.rig.result::<lock::LockResponse>(ticket).map(|it| it.key),
                false => self.rig.result::<election::CampaignResponse>(ticket).map(|response| {
                    let leader = response.leader.expect("a campaign that is won has it");
                    assert_eq!(Some(leader.rev), self.rig.created(name, lease));
                    leader.key
                }),
            };
            match key {
                Err(refused) => {
                    assert!(self.is_rough, "{refused:?}");
                }
                Ok(key) => {
                    assert_eq!(key, recipe::key_of(name.as_bytes(), lease));
                    let created = self.rig.created(name, lease).expect("the key is there");
                    let before = self.holds.insert(name, (lease, created));
                    assert!(before.is_none_or(|(of, _)| of == lease), "{name} is held twice");
                    self.counts[0] += 1;
                }
            }
        }
    }

    /// Checks that no client has lost what it holds.
    fn check_holds(&self) {
        for (name, (lease, created)) in &self.holds {
            assert_eq!(self.rig.created(name, *lease), Some(*created), "{name} of {lease} is lost");
        }
    }

    /// Lets everything finish, and checks that no client has left a key behind.
    fn finish(mut self) -> [usize; 3] {
        for client in 1..=CLIENTS {
            if let Doing::Asking { name, ticket, .. } = self.doing[&client] {
                self.cancel(client, name, ticket);
            }
        }
        for _ in 0..20 {
            self.rig.go_on();
            self.rig.front.on_tick();
        }
        self.rig.results.clear();
        self.rig.check_empty();
        self.check_holds();
        for (name, lease) in (1..self.next_lease).flat_map(|of| NAMES.map(|name| (name, of))) {
            let may_be = self.is_rough || self.holds.get(name).is_some_and(|(of, _)| *of == lease);
            assert!(may_be || self.rig.key(name, lease).is_none(), "{name} of {lease} is left");
        }
        self.counts
    }
}

#[test]
fn no_client_loses_what_it_holds_and_none_leaves_a_key_behind() {
    let mut all = [0; 3];
    for seed in 0..600 {
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.step();
        }
        let counts = world.finish();
        all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
    }
    let [holds, cancelled, of_holders] = all;
    assert!(holds > 2_000 && cancelled > 1_000 && of_holders > 100, "{all:?}");
}
