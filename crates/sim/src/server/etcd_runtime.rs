//! An etcd connection runtime: `listen_etcd` on virtual connections. It owns one `EtcdFront`.
//!
//! Each time it runs, it hands the arrived calls to the Front and then drives the Front: it runs
//! the Front's reads until nothing is left to do. Apply may run between two holds of the state's
//! lock. To allow that, a drive may stop in the middle and continue the next time the runtime runs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use etcd::v2::Ask;
use machine::{Level, Machine};
use member::fronts::etcd::audit::Operation;
use member::fronts::etcd::{EtcdFrontConfig, EtcdMethod, EtcdOutput, Now, V2Result, V2Waited};
use member::message::{Delivery, Ticket};
use member::{EtcdFront, TokenTimes};
use workload::etcd::history::CallId;

use super::etcd_audit::AuditLog;
use super::etcd_passwords::Passwords;
use super::etcd_steps::{StepResult, Steps};
use super::etcd_user_sabotage::{UserForger, UserSabotage, forge_password};
use super::etcd_watches::Slots;
use crate::etcd_clients::network::{EtcdConnection, FromClient};
use crate::limits::{ETCD_TICK_IDLE_US, ETCD_TICK_US};
use crate::network::End;
use crate::world::{Clock, World};

/// One etcd connection runtime.
pub(super) struct EtcdRuntime {
    pub config: EtcdFrontConfig,
    front: EtcdFront,
    /// Deliveries of Apply that the Front has not got yet, oldest first.
    pub mail: VecDeque<Delivery>,
    /// Connections with input that was not handled yet.
    pub woken: BTreeSet<usize>,
    /// The unfinished calls, each with its connection.
    waiting: BTreeMap<Ticket, (usize, CallId)>,
    /// The waits of etcd v2 in progress, and for each whether it is a stream. A wait may last for
    /// ever.
    v2_waits: BTreeMap<Ticket, bool>,
    /// Calls that ask for a hash of the keys, for a sabotage.
    pub hash_calls: BTreeSet<Ticket>,
    /// The audit log.
    pub audit: AuditLog,
    /// The HTTP requests that take several steps.
    pub steps: Steps,
    /// The watch streams.
    pub slots: Slots,
    /// The unfinished password work.
    pub passwords: Passwords,
    /// Makes deliberate mistakes with users.
    pub user_forger: UserForger,
    /// Results of etcd v2 reads that needed no waiting, each with its connection.
    pub got: Vec<(usize, CallId, V2Result)>,
    /// The calls that have ended since `take_ended`.
    ended: Vec<CallId>,
    /// Whether a snapshot was installed since `take_installed`.
    has_installed: bool,
    pub is_driving: bool,
    pub next_tick_us: u64,
    /// When the runtime was created, on the clock of its machine.
    started_local_us: u64,
}

impl EtcdRuntime {
    pub fn new(config: EtcdFrontConfig, now_us: u64, clock: Clock) -> EtcdRuntime {
        EtcdRuntime {
            front: EtcdFront::new(config.clone()),
            config,
            mail: VecDeque::new(),
            woken: BTreeSet::new(),
            waiting: BTreeMap::new(),
            v2_waits: BTreeMap::new(),
            hash_calls: BTreeSet::new(),
            audit: AuditLog::default(),
            steps: Steps::default(),
            slots: Slots::default(),
            passwords: Passwords::default(),
            user_forger: UserForger::default(),
            got: Vec::new(),
            ended: Vec::new(),
            has_installed: false,
            is_driving: false,
            next_tick_us: now_us,
            started_local_us: clock.local_us(now_us),
        }
    }

    /// The time that the Front is given, in ms since the runtime was created.
    pub fn monotonic_ms(&self, now_us: u64, clock: Clock) -> u64 {
        (clock.local_us(now_us) - self.started_local_us) / 1000
    }

    /// Opens the runtime: connections come from now on. Makes a new Front, since the state may have
    /// got users' tokens meanwhile, whose times to live begin now.
    pub fn open(&mut self, level: Level, token_times: &Arc<TokenTimes>) {
        self.config.level = level;
        self.config.token_times = token_times.clone();
        self.front = EtcdFront::new(self.config.clone());
    }

    /// Whether no message waits for the runtime, and no drive is unfinished.
    pub fn is_quiet(&self) -> bool {
        let has_work = self.is_driving || self.front.has_more() || self.steps.is_ready(0);
        self.mail.is_empty() && self.woken.is_empty() && !has_work
    }

    /// How many calls, commands and bytes of commands its Front holds, not counting watch streams
    /// and waits of etcd v2.
    pub fn held(&self) -> [usize; 3] {
        let (commands, bytes) = self.front.commands_in_flight();
        let lasting = self.slots.count() + self.v2_waits.len();
        let calls = self.front.call_count().abs_diff(lasting);
        [calls.max(self.waiting.len() - self.v2_waits.len()), commands, bytes]
    }

    /// Tells the Front the time. `contact_at_ms` is when the member last had contact with those
    /// that decide who leads: see `Fronts::contact_at_ms`.
    pub fn set_now(
        &mut self,
        world: &World,
        clock: Clock,
        raft_term: u64,
        contact_at_ms: Option<u64>,
    ) {
        let monotonic_ms = self.monotonic_ms(world.now_us, clock);
        self.front.set_now(Now { monotonic_ms, raft_term, contact_at_ms });
    }

    /// Runs the Front's timer and plans the next firing, sooner if the Front has calls.
    pub fn tick(&mut self, world: &World, clock: Clock) {
        self.front.on_tick();
        let has_calls = self.front.call_count() > 0;
        let tick_us = if has_calls { ETCD_TICK_US } else { ETCD_TICK_IDLE_US };
        self.next_tick_us = world.now_us + clock.world_us(tick_us);
    }

    /// Handles all, or a random part, of the messages that have arrived on a connection. Returns
    /// the calls that began, and whether messages are left.
    pub fn take_input(
        &mut self,
        number: usize,
        connection: &mut EtcdConnection,
        machine: &Machine,
        world: &mut World,
    ) -> (Vec<(Ticket, CallId)>, bool) {
        let mut begun = Vec::new();
        let there = connection.at_server.len();
        let count = match world.random.one_in(4) && there > 1 {
            true => world.random.between(1, there as u64) as usize,
            false => there,
        };
        for message in connection.at_server.drain(..count) {
            match message {
                FromClient::Watch(stream, message) => {
                    self.slots.on_message((number, stream), message, &mut self.front, world);
                }
                FromClient::WatchTaken(stream) => {
                    self.slots.on_taken(number, stream, &mut self.front);
                }
                FromClient::Call { id, method, request, credentials } => {
                    let operation = Operation::from_front(method, &request);
                    let ticket = self.front.on_call(method, request, credentials);
                    self.audit.begin(ticket, Some(method), operation);
                    self.waiting.insert(ticket, (number, id));
                    if method == EtcdMethod::HashKv {
                        self.hash_calls.insert(ticket);
                    }
                    begun.push((ticket, id));
                }
                FromClient::V2(id, request) => {
                    // For every other read, as if the lock of the state were free.
                    let is_free = id.number.is_multiple_of(2);
                    let got = is_free.then(|| self.front.get_v2(&request, machine.etcd_v2()));
                    if let Some(result) = got.flatten() {
                        self.got.push((number, id, result));
                        self.ended.push(id);
                    } else {
                        let operation = Operation::from_v2(&request);
                        let ticket = self.front.on_v2_call(request);
                        self.audit.begin(ticket, None, operation);
                        self.waiting.insert(ticket, (number, id));
                        begun.push((ticket, id));
                    }
                }
                FromClient::V2Wait(id, request) => {
                    let is_stream = matches!(request.ask, Ask::Wait(ask) if ask.is_stream);
                    let ticket = self.front.on_v2_wait(request);
                    self.waiting.insert(ticket, (number, id));
                    self.v2_waits.insert(ticket, is_stream);
                }
                FromClient::Http(id, request) => self.steps.arrived.push((number, id, request)),
                FromClient::Cancel(id) => self.cancel(|waiting| waiting == (number, id)),
                FromClient::Taken(id) => {
                    let is_it = |(_, of): &(&Ticket, &(usize, CallId))| **of == (number, id);
                    if let Some(ticket) = self.waiting.iter().find(is_it).map(|(it, _)| *it) {
                        self.front.on_taken(ticket);
                    }
                }
            }
        }
        let is_left = !connection.at_server.is_empty();
        if !is_left && connection.server_end == End::Over {
            self.cancel(|(of, _)| of == number);
            self.slots.on_over(number, &mut self.front);
        }
        (begun, is_left)
    }

    /// Cancels the unfinished calls that `is_over` accepts, since their clients have gone.
    fn cancel(&mut self, is_over: impl Fn((usize, CallId)) -> bool) {
        self.steps.arrived.retain(|(number, id, _)| !is_over((*number, *id)));
        let over = self.waiting.iter().filter(|(_, waiting)| is_over(**waiting));
        for ticket in over.map(|(ticket, _)| *ticket).collect::<Vec<_>>() {
            self.steps.forget(ticket);
            self.done(ticket);
            self.front.on_cancel(ticket);
        }
    }

    /// Runs the Front until it has nothing to do. `None` if Apply may run first: the drive
    /// continues later.
    pub fn drive(&mut self, machine: &Machine, world: &mut World) -> Option<EtcdOutput> {
        if !self.is_driving {
            self.take_mail();
        }
        self.is_driving = true;
        while self.front.is_runnable() {
            // Apply pushed all deliveries about the visible state before it released the lock.
            self.take_mail();
            self.front.run_reads(machine);
            if world.random.one_in(3) {
                return None;
            }
        }
        self.is_driving = false;
        Some(self.front.take_output())
    }

    fn take_mail(&mut self) {
        for delivery in core::mem::take(&mut self.mail) {
            self.has_installed |= delivery.changes.control.replaced().is_some();
            self.front.on_delivery(delivery);
        }
    }

    /// Ends the call of a ticket. Returns its connection and its id; `None` if it was cancelled.
    pub fn done(&mut self, ticket: Ticket) -> Option<(usize, CallId)> {
        let found = self.waiting.remove(&ticket);
        self.v2_waits.remove(&ticket);
        self.audit.end(ticket, found.map(|(_, call)| call));
        self.ended.extend(found.map(|(_, call)| call));
        found
    }

    /// Notes that an HTTP request's step waits for the result under this ticket.
    pub(super) fn add_waiting(&mut self, ticket: Ticket, at: (usize, CallId)) {
        self.waiting.insert(ticket, at);
    }

    /// Ends the wait of a step. Returns the connection and the request; `None` if it was cancelled.
    pub(super) fn end_step(&mut self, ticket: Ticket) -> Option<(usize, CallId)> {
        let found = self.waiting.remove(&ticket);
        self.audit.end(ticket, found.map(|(_, call)| call));
        found
    }

    /// Notes that a request is answered.
    pub(super) fn note_end(&mut self, call: CallId) {
        self.ended.push(call);
    }

    /// Whether the Front itself made this call, as a part of a call that waits in a queue.
    pub fn is_part(&self, ticket: Ticket) -> bool {
        self.front.is_part(ticket)
    }

    /// The connection and the call that a piece of a result belongs to; `None` if the call was
    /// cancelled.
    pub fn waiting_for(&self, ticket: Ticket) -> Option<(usize, CallId)> {
        self.waiting.get(&ticket).copied()
    }

    /// Begins the password work that the Front asks for. Returns when the next work finishes, in
    /// us.
    pub fn work_on_passwords(&mut self, output: &mut EtcdOutput, world: &mut World) -> Option<u64> {
        self.passwords.begin(core::mem::take(&mut output.passwords), world);
        self.passwords.next_us()
    }

    /// Passes on the results of finished password work, to the Front or to HTTP requests.
    pub fn take_passwords(&mut self, now_us: u64, sabotage: Option<UserSabotage>) {
        for (ticket, mut done) in self.passwords.take_done(now_us) {
            sabotage.into_iter().for_each(|sabotage| forge_password(sabotage, &mut done));
            if self.steps.has(ticket) {
                self.steps.add_result(ticket, StepResult::Password(done));
            } else {
                self.front.on_password(ticket, done);
            }
        }
    }

    /// Passes the Front's messages, and the ends of streams, to the watch streams; other results
    /// stay in `output`.
    pub fn pass_on_watched(&mut self, output: &mut EtcdOutput, world: &mut World) {
        let watched = core::mem::take(&mut output.watched);
        let accepting = core::mem::take(&mut output.accepting);
        self.slots.pass_on(watched, &mut output.results, accepting, &mut self.front, world);
    }

    /// The connection and the call that an answer to an etcd v2 wait belongs to; `None` if the wait
    /// was cancelled. Ends the wait if this is its last answer.
    pub fn v2_waited(&mut self, ticket: Ticket, waited: &V2Waited) -> Option<(usize, CallId)> {
        let is_last = match waited {
            V2Waited::Begun { .. } => false,
            V2Waited::Events(_) => self.v2_waits.get(&ticket) == Some(&false),
            V2Waited::Refused(_) | V2Waited::Ended => true,
        };
        if is_last { self.done(ticket) } else { self.waiting_for(ticket) }
    }

    /// The Front, for reading.
    pub fn front(&self) -> &EtcdFront {
        &self.front
    }

    pub fn front_mut(&mut self) -> &mut EtcdFront {
        &mut self.front
    }

    /// Whether a snapshot was installed since the last call.
    pub fn take_installed(&mut self) -> bool {
        core::mem::take(&mut self.has_installed)
    }

    /// Takes the calls that have ended since the last call.
    pub fn take_ended(&mut self) -> Vec<CallId> {
        core::mem::take(&mut self.ended)
    }
}
