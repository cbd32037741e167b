//! EtcdFront: the calls of etcd's clients on one connection runtime, as a pure step function.
//!
//! The driver hands over each call with the bytes of its request ([`EtcdFront::on_call`]), and gets
//! the response, or an error, with [`EtcdFront::take_output`]. It encodes a response when it has
//! room for the bytes. A streamed read has several messages: the Front gives the next one when the
//! driver says that the client has taken the one before ([`EtcdFront::on_taken`]).
//!
//! A stream of watches is a call as well ([`EtcdFront::on_watch`]), with any number of requests.
//! Its messages come like the pieces of a streamed read.
//!
//! While [`EtcdFront::is_runnable`], the driver takes the lock for reading, hands over the
//! deliveries that Apply pushed before, and calls [`EtcdFront::run_reads`]. It takes the output
//! while [`EtcdFront::has_more`].
//!
//! Calls are independent of each other: nothing is promised about the order of two calls that are
//! under way at once. A read that is linearizable waits, in an ensemble, until this member has
//! applied what was committed when it was asked for. A write has [`ETCD_CALL_MS_MAX`]. At its end,
//! or when the client cancels, Loop gives up the command, and the client is told whether it may
//! still take effect.

pub mod audit;
mod auth;
mod calls;
pub mod cluster;
mod cluster_call;
mod cost;
mod credentials;
mod hash_call;
pub mod health;
mod lease_call;
mod leases;
pub mod limits;
mod lock_call;
mod locks;
mod method;
mod passwords;
mod range;
mod reply;
mod stream;
pub mod token_times;
mod txn_call;
pub mod v2;
mod watches;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use etcd::Error;
use etcd::convert::{self, Header};
use etcd::pb::{Message, etcdserverpb as pb};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::entry::{NotAdded, encode_identities};
use machine::etcd::Store;
use machine::etcd::auth::ETCD_SCHEME;
use machine::etcd::command::Command as EtcdCommand;
use machine::etcd::lease_list::LeaseList;
use machine::etcd::lease_read::LeaseRead;
use machine::etcd::reply::{Outcome as EtcdOutcome, Refusal};
use machine::{
    Command, ConnectionId, ControlChange, EtcdChange, Identity, Level, Machine, MemberId, Outcome,
};

use crate::commands::Commands;
use crate::fronts::etcd::limits::{ETCD_CALL_MS_MAX, ETCD_CALLS_MAX, ETCD_NO_LEADER_MS};
use crate::fronts::etcd::token_times::TokenTimes;
use crate::lease::LeaseQuestion;
use crate::limits::{FRONT_COMMANDS_MAX, READ_HOLD_REQUESTS_MAX};
use crate::message::{
    Answer, Answered, Caller, Delivery, Fate, FrontId, Ticket, ToLoop, Unavailable, Waiter,
};
use crate::reply_room::ReplyRoom;
use crate::spaces::CommandCounts;
use crate::watch_interest::WatchInterest;
use calls::{Call, Ran, Read, Then};
use cluster::ClusterCalls;
use cost::{Cost, Counted};
use credentials::Asker;
use hash_call::HashCall;
use lease_call::LeaseCall;
use lock_call::Locks;
use range::{AskedRange, Range};
use reply::Found;
use stream::Stream;
use txn_call::{TxnCall, checked_txn, is_read_only};
use v2::waits::V2Waits;
use watches::Watches;

pub use cluster::{ClusterMethod, OwnMember, ReplicaView};
pub use credentials::Credentials;
pub use method::{CallRefused, EtcdMethod, Need};
pub use passwords::{PasswordDone, PasswordTask, PasswordWork};
pub use reply::{Reply, ReplyPieces};
pub use v2::waits::V2Waited;
pub use v2::{V2Found, V2Result};
pub use watches::{WatchBounds, WatchMessage, WatchMessages, WatchPieces};

/// The configuration of an EtcdFront.
#[derive(Clone, Debug)]
pub struct EtcdFrontConfig {
    /// The number of this Front within its member.
    pub id: FrontId,
    /// The connection that all commands of this Front name. No other Front has it.
    pub connection: ConnectionId,
    /// Whether the member is alone: then its state has every acknowledged write.
    pub is_alone: bool,
    /// The cluster and the member, as each response names them.
    pub cluster_id: u64,
    /// See [`EtcdFrontConfig::cluster_id`].
    pub member_id: u64,
    /// This member, as the list of members shows it.
    pub own: OwnMember,
    /// Operations of one level of a transaction (`max-txn-ops`), until the replicated settings
    /// change.
    pub txn_ops_max: usize,
    /// Bytes of a request to write (`max-request-bytes`).
    pub request_bytes_max: usize,
    /// Bytes of keys and values after which a piece of a streamed read ends.
    pub piece_bytes: usize,
    /// Keys that the reads of one hold of the state's lock look at, from 1.
    pub hold_keys_max: u64,
    /// When each simple token was last used, which the Fronts of etcd's clients share.
    pub token_times: Arc<TokenTimes>,
    /// The room for references to versions, which the Fronts of etcd's clients share.
    pub references: Arc<ReplyRoom>,
    /// The level of the state that this Front starts with.
    pub level: Level,
    /// How long a watcher that asked for progress is without events until it is told, in ms.
    pub progress_ms: u64,
    /// The bounds of watch streams.
    pub watch_bounds: WatchBounds,
    /// The seed of the tree that finds watchers of ranges. No client may know it: one who does
    /// could choose ranges that make the tree a list.
    pub watch_seed: u64,
    /// Tells Apply whether this Front has watchers.
    pub watch_interest: Arc<WatchInterest>,
    /// The counts of etcd v2, which the Fronts of etcd's clients share with Apply.
    pub command_counts: Arc<CommandCounts>,
    /// Whether the output names the users that calls are for, as the audit log needs them.
    pub names_users: bool,
}

/// What the driver tells a Front before its calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// A clock that never goes back, in ms.
    pub monotonic_ms: u64,
    /// The Raft term of the member.
    pub raft_term: u64,
    /// When, by that clock, this member last had contact to the members that decide who leads
    /// (`Loop::contact_ms`). `None` if it is alone.
    pub contact_at_ms: Option<u64>,
}

impl Now {
    /// Whether the member knows a leader, as far as its clients must care.
    pub fn has_leader(self) -> bool {
        self.contact_at_ms.is_none_or(|at_ms| {
            at_ms > 0 && self.monotonic_ms.saturating_sub(at_ms) < ETCD_NO_LEADER_MS
        })
    }
}

/// The result of a call: the response, or why there is none.
pub type CallResult = Result<Reply, CallRefused>;

/// The output of an EtcdFront, for the driver to pass on.
#[derive(Debug, Default)]
pub struct EtcdOutput {
    /// Messages for Loop, in order.
    pub to_loop: Vec<ToLoop>,
    /// The users that calls were found to be for, if [`EtcdFrontConfig::names_users`].
    pub users: Vec<(Ticket, Arc<str>)>,
    /// Calls that are done.
    pub results: Vec<(Ticket, CallResult)>,
    /// Messages of streamed reads that have more. The last message of one is its result.
    pub pieces: Vec<(Ticket, Reply)>,
    /// Messages of watch streams; the next ones come when the client has taken these.
    pub watched: Vec<(Ticket, WatchMessages)>,
    /// Results of reads and writes of etcd v2 that the store has answered.
    pub v2_results: Vec<(Ticket, V2Result)>,
    /// What came of waits of etcd v2, in its order.
    pub v2_waited: Vec<(Ticket, V2Waited)>,
    /// Members to which Loop is to hand leadership over, for [`EtcdFront::on_hand_over`].
    pub hand_overs: Vec<(Ticket, MemberId)>,
    /// Work on passwords, for [`EtcdFront::on_password`].
    pub passwords: Vec<(Ticket, PasswordWork)>,
    /// Watch streams for which [`EtcdFront::accepts_request`] was false, and may be true now.
    pub accepting: Vec<Ticket>,
}

/// One connection runtime's step function.
pub struct EtcdFront {
    config: EtcdFrontConfig,
    /// The identities of a command that nobody is named for: none.
    identity_bytes: Vec<u8>,
    /// Whether permissions are enforced, as far as this Front knows. If not, no credentials matter.
    may_be_enforced: bool,
    calls: HashMap<Ticket, Call, FixedState>,
    next_ticket: Ticket,
    commands: Commands,
    /// Questions about leases that the output of this turn hands over.
    lease_questions: Vec<(Caller, LeaseQuestion)>,
    turns: Turns,
    /// Commands that the output of this turn gives up.
    given_up: Vec<(ConnectionId, Ticket)>,
    watches: Watches,
    locks: Locks,
    cluster: ClusterCalls,
    v2_waits: V2Waits,
    /// Whether tokens that have times are to be compared with the state under the lock.
    checks_tokens: bool,
    level: Level,
    now: Now,
    output: EtcdOutput,
}

/// Calls that wait for something, each by its ticket.
#[derive(Default)]
struct Turns {
    /// Calls that wait for the lock.
    runnable: VecDeque<Ticket>,
    /// Reads that wait until there is room for what they may find.
    roomless: Vec<Ticket>,
    /// Ranges that were read, and are not put in order yet.
    read: VecDeque<(Ticket, Range)>,
    /// Writes that wait until the level of the state allows them.
    held: Vec<Ticket>,
    /// Compactions that wait until the memory is freed.
    pruning: Vec<Ticket>,
    /// When each call must be done, in ms, oldest first. Calls that are done stay until then.
    due: VecDeque<(u64, Ticket)>,
}

impl EtcdFront {
    /// A Front without calls.
    pub fn new(config: EtcdFrontConfig) -> EtcdFront {
        EtcdFront {
            identity_bytes: encode_identities([].into_iter()),
            may_be_enforced: true,
            calls: HashMap::with_hasher(FixedState::default()),
            next_ticket: Ticket(0),
            commands: Commands::default(),
            lease_questions: Vec::new(),
            turns: Turns::default(),
            given_up: Vec::new(),
            checks_tokens: false,
            watches: Watches::new(
                config.id,
                config.watch_interest.clone(),
                config.progress_ms,
                config.watch_bounds,
                config.watch_seed,
            ),
            locks: Locks::new(),
            cluster: ClusterCalls::default(),
            v2_waits: V2Waits::new(
                config.id,
                config.watch_interest.clone(),
                config.command_counts.clone(),
            ),
            level: config.level,
            now: Now::default(),
            output: EtcdOutput::default(),
            config,
        }
    }

    // The driver's calls.

    /// Sets the clock and what else changes with time, for the calls that follow.
    pub fn set_now(&mut self, now: Now) {
        self.now = now;
    }

    /// The ticket of a new call; as an error if there are too many, and the call was refused.
    fn admit(&mut self) -> Result<Ticket, Ticket> {
        let ticket = self.new_ticket();
        if self.call_count() >= ETCD_CALLS_MAX {
            self.output.results.push((ticket, Err(Error::TooManyRequests.into())));
            return Err(ticket);
        }
        Ok(ticket)
    }

    fn new_ticket(&mut self) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket.0 += 1;
        ticket
    }

    /// As [`EtcdFront::admit`], of a call that must be done in time.
    fn admit_for_time(&mut self) -> Result<Ticket, Ticket> {
        let ticket = self.admit()?;
        self.turns.due.push_back((self.now.monotonic_ms + ETCD_CALL_MS_MAX, ticket));
        Ok(ticket)
    }

    /// Takes a call. Its result comes with [`EtcdFront::take_output`] under this ticket.
    pub fn on_call(
        &mut self,
        method: EtcdMethod,
        request: Bytes,
        credentials: Credentials,
    ) -> Ticket {
        let waits = matches!(method, EtcdMethod::Lock | EtcdMethod::Campaign);
        let admitted = if waits { self.admit() } else { self.admit_for_time() };
        let ticket = match admitted {
            Ok(ticket) => ticket,
            Err(refused) => return refused,
        };
        let begun = match waits {
            true => self.begin_lock(ticket, method, request, credentials),
            false => {
                let asker = credentials::asker(credentials, self.config.is_alone);
                self.begin(ticket, method, request, asker)
            }
        };
        if let Err(refused) = begun {
            self.output.results.push((ticket, Err(refused)));
        }
        ticket
    }

    /// Opens a stream of watches. It has a result only if the server ends it: because there are too
    /// many calls, or, where the client requires a leader, because there is none.
    ///
    /// What the client says of itself counts for the first request; see
    /// [`EtcdFront::on_watch_request`].
    pub fn on_watch(&mut self, requires_leader: bool, credentials: &Credentials) -> Ticket {
        match self.admit() {
            Ok(ticket) if requires_leader && !self.now.has_leader() => {
                self.output.results.push((ticket, Err(Error::NoLeader.into())));
                ticket
            }
            Ok(ticket) => {
                self.open_watch(ticket, requires_leader, credentials);
                ticket
            }
            Err(refused) => refused,
        }
    }

    fn open_watch(&mut self, ticket: Ticket, requires_leader: bool, credentials: &Credentials) {
        let is_token = matches!(credentials, Credentials::Token(_));
        let waits = is_token && !self.config.is_alone;
        self.watches.open(ticket, requires_leader, waits);
        if waits {
            // This member may lag behind the one that has made the token.
            self.turns.due.push_back((self.now.monotonic_ms + ETCD_CALL_MS_MAX, ticket));
            self.ask_for_sync(ticket);
        }
    }

    /// Whether the client of a watch stream may send another request now. A driver that must wait
    /// asks again when the client has taken messages, and when [`EtcdOutput::accepting`] says so.
    pub fn accepts_request(&self, ticket: Ticket) -> bool {
        self.watches.accepts(ticket)
    }

    /// Takes the next request of a watch stream, of a client that says this of itself now.
    pub fn on_watch_request(&mut self, ticket: Ticket, request: Bytes, credentials: Credentials) {
        match decode(request) {
            Ok(request) => self.watches.request(ticket, request, credentials),
            Err(malformed) => {
                if self.watches.close(ticket) {
                    self.output.results.push((ticket, Err(malformed)));
                }
            }
        }
    }

    /// The client of a call is gone, or waits no longer. The call has no result any more.
    pub fn on_cancel(&mut self, ticket: Ticket) {
        if self.watches.close(ticket) || self.v2_waits.close(ticket) || self.cancel_lock(ticket) {
            return;
        }
        match self.calls.get_mut(&ticket) {
            Some(Call::Command { is_cancelled, .. }) => {
                if !core::mem::replace(is_cancelled, true) {
                    self.given_up.push((self.config.connection, ticket));
                }
            }
            _ => {
                self.calls.remove(&ticket);
                self.forget_cluster_call(ticket);
            }
        }
    }

    /// The client of a streamed read, a watch stream or a stream of etcd v2 has taken what it was
    /// given last. Whether there may be more for it now.
    pub fn on_taken(&mut self, ticket: Ticket) -> bool {
        if let Some(Call::Sent(..)) = self.calls.get(&ticket)
            && let Some(Call::Sent(stream, asker)) = self.calls.remove(&ticket)
        {
            self.calls.insert(ticket, Call::Ready(Read::Stream(stream), asker));
            self.turns.runnable.push_back(ticket);
            return true;
        }
        self.watches.taken(ticket) || self.v2_waits.taken(ticket)
    }

    /// Whether a call waits for the state's lock.
    pub fn is_runnable(&self) -> bool {
        !self.turns.runnable.is_empty()
            || self.watches.is_runnable()
            || self.v2_waits.is_runnable()
            || self.checks_tokens
    }

    /// Whether the driver must come again, though nothing arrives: a call waits for the lock, or
    /// [`EtcdFront::take_output`] left new events for its next call.
    pub fn has_more(&self) -> bool {
        self.is_runnable()
            || !self.turns.read.is_empty()
            || self.watches.has_unmatched()
            || self.v2_waits.has_unmatched()
    }

    /// Whether a call waits for something that no message tells of: memory that is freed, room for
    /// its response, or another leader. The driver must call [`EtcdFront::on_tick`] soon.
    pub fn waits_for_tick(&self) -> bool {
        !(self.turns.pruning.is_empty() && self.turns.roomless.is_empty())
            || self.locks.has_unremoved()
            || self.wants_replica()
    }

    /// Runs the reads that wait for the lock, up to the bounds of one hold. The driver holds the
    /// lock for reading, and has handed over every delivery that was pushed before.
    pub fn run_reads(&mut self, machine: &Machine) {
        let store = machine.etcd();
        if self.checks_tokens {
            let has_token = |made| store.auth().has_token(made);
            self.checks_tokens = self.config.token_times.check(has_token);
        }
        if self.watches.is_runnable() {
            self.watches.run(store, self.now.monotonic_ms, &self.config.token_times);
        }
        self.v2_waits.run(machine.etcd_v2());
        let mut keys_left = self.config.hold_keys_max;
        for _ in 0..READ_HOLD_REQUESTS_MAX {
            if keys_left == 0 {
                return;
            }
            let Some(ticket) = self.turns.runnable.pop_front() else { return };
            self.run_call(ticket, machine, &mut keys_left);
        }
    }

    /// Runs a call that has waited for the lock.
    fn run_call(&mut self, ticket: Ticket, machine: &Machine, keys_left: &mut u64) {
        let (store, header) = (machine.etcd(), self.header());
        if !self.find_user_of_read(ticket, store.auth()) {
            return;
        }
        match self.calls.get_mut(&ticket) {
            Some(Call::Ready(Read::Authenticate(_) | Read::Signed(_) | Read::Change(_), _)) => {
                self.hand_over_read(ticket, store);
            }
            Some(Call::Ready(read @ Read::Cluster(_), asker)) => {
                match read.check(store, credentials::info(asker)) {
                    Ok(()) => self.run_cluster_call(ticket, machine),
                    Err(refusal) => self.end_cluster_call(ticket, Err(refusal.into())),
                }
            }
            Some(Call::Ready(Read::V2(_), _)) => self.run_v2_read(ticket, machine.etcd_v2()),
            Some(Call::Ready(read, asker)) => {
                let ran = read.run((store, header), asker, keys_left, &self.config.references);
                match ran {
                    Ok(Ran::HandOver) => self.hand_over_read(ticket, store),
                    ran => self.on_ran(ticket, ran),
                }
            }
            Some(Call::Finding { .. }) => self.find_user_of_write(ticket, store.auth()),
            Some(Call::Counting { cost, .. }) => {
                let counted = cost.step(store, keys_left);
                self.on_counted(ticket, counted);
            }
            Some(Call::Pruning { .. }) if !store.is_pruned() => self.turns.pruning.push(ticket),
            Some(Call::Pruning { .. }) => {
                if let Some(Call::Pruning { reply }) = self.calls.remove(&ticket) {
                    self.output.results.push((ticket, Ok(reply)));
                }
            }
            _ => {}
        }
    }

    /// Hands over what begins under the lock, and ends elsewhere.
    fn hand_over_read(&mut self, ticket: Ticket, store: &Store) {
        let Some(Call::Ready(read, asker)) = self.calls.remove(&ticket) else { return };
        if let Err(refusal) = read.check(store, credentials::info(&asker)) {
            return self.output.results.push((ticket, Err(Error::from(refusal).into())));
        }
        match read {
            Read::AskLease(call, _) => self.ask_lease(ticket, call, store.revision(), asker),
            Read::Authenticate(request) => self.check_password(ticket, request, store),
            Read::Signed(signed) => self.give_signed(ticket, *signed, store),
            Read::Change(change) => self.go_on_with_change(ticket, *change, asker, store.auth()),
            _ => unreachable!("other reads end under the lock"),
        }
    }

    /// Takes what a turn of a read came to.
    fn on_ran(&mut self, ticket: Ticket, ran: Result<Ran, CallRefused>) {
        match ran {
            Ok(Ran::More) => self.turns.runnable.push_back(ticket),
            Ok(Ran::NoRoom) => self.turns.roomless.push(ticket),
            Ok(Ran::Range) => {
                if let Some(Call::Ready(Read::Range(range), _)) = self.calls.remove(&ticket) {
                    self.turns.read.push_back((ticket, range));
                }
            }
            Ok(Ran::Found(found)) => self.on_found(ticket, found),
            Ok(Ran::HandOver) => {}
            Err(refused) => {
                self.calls.remove(&ticket);
                self.output.results.push((ticket, Err(refused)));
            }
        }
    }

    /// Takes what a read found: all of it, or the next piece.
    fn on_found(&mut self, ticket: Ticket, found: Found) {
        let is_over = !matches!(found, Found::Piece { is_last: false, .. });
        let reply = Reply::from_found(self.header(), found, &self.config.references);
        match self.calls.remove(&ticket) {
            Some(Call::Ready(Read::Stream(stream), asker)) if !is_over => {
                self.calls.insert(ticket, Call::Sent(stream, asker));
                self.output.pieces.push((ticket, reply));
            }
            _ => self.output.results.push((ticket, Ok(reply))),
        }
    }

    /// Takes a delivery of Apply.
    pub fn on_delivery(&mut self, delivery: Delivery) {
        let changes = &delivery.changes;
        for change in changes.control.iter() {
            match change {
                ControlChange::Raised(stated) => self.on_level(stated.level),
                ControlChange::Replaced { .. } => self.on_replaced(),
                ControlChange::Servers(_) => {}
            }
        }
        for change in changes.etcd.iter() {
            match change {
                EtcdChange::HistoryReplaced => {
                    self.watches.on_replaced(false);
                    self.on_other_users();
                }
                EtcdChange::AuthEnabled => self.may_be_enforced = true,
                EtcdChange::Authenticated(token) => {
                    let times = &self.config.token_times;
                    self.checks_tokens = times.on_made(*token, self.now.monotonic_ms);
                }
            }
        }
        if let Some(settings) = changes.etcd.settings() {
            self.config.txn_ops_max = settings.txn_ops_max as usize;
        }
        // Beside another state, the changes of a delivery are not all.
        if changes.control.replaced().is_none() {
            self.watches.on_changes(changes);
            self.v2_waits.on_changes(changes);
        }
        for answer in delivery.answers {
            match answer {
                Answer::Command { ticket, answered, .. } => self.on_answer(ticket, answered),
                Answer::Synced { ticket, .. } => self.on_synced(ticket),
                Answer::Lease { ticket, answered, .. } => self.on_lease_answer(ticket, answered),
            }
        }
    }

    /// Looks at the clock: ends the calls that have taken too long.
    pub fn on_tick(&mut self) {
        while let Some((due_ms, ticket)) = self.turns.due.front().copied()
            && due_ms <= self.now.monotonic_ms
        {
            self.turns.due.pop_front();
            self.end_late(ticket);
        }
        self.tick_cluster_calls();
        self.turns.runnable.extend(self.turns.pruning.drain(..));
        self.turns.runnable.extend(self.turns.roomless.drain(..));
        self.remove_again();
        self.watches.on_tick(self.now.monotonic_ms);
        if !self.now.has_leader() {
            for ticket in self.watches.requiring_leader() {
                self.watches.close(ticket);
                self.output.results.push((ticket, Err(Error::NoLeader.into())));
            }
        }
    }

    /// Takes the output since the last call. Called without the lock: it does the work that needs
    /// none.
    pub fn take_output(&mut self) -> EtcdOutput {
        self.watches.match_changes();
        self.sort_ranges();
        let header = self.header();
        self.watches.take_messages(header, &mut self.output.watched);
        self.run_locks();
        self.hand_over();
        self.hand_over_lease_questions();
        if !self.given_up.is_empty() {
            let given_up = core::mem::take(&mut self.given_up);
            self.output.to_loop.push(ToLoop::GiveUp(self.config.id, given_up));
        }
        self.v2_waits.match_changes();
        self.output.v2_waited = self.v2_waits.take_output();
        self.output.accepting = self.watches.take_accepting();
        core::mem::take(&mut self.output)
    }

    /// Puts what ranges have found in order. A long one takes several turns.
    fn sort_ranges(&mut self) {
        let mut count_left = self.config.hold_keys_max;
        while count_left > 0
            && let Some((ticket, range)) = self.turns.read.front_mut()
        {
            let ticket = *ticket;
            if !range.sort_step(&mut count_left) {
                return;
            }
            let Some((_, range)) = self.turns.read.pop_front() else { return };
            let (found, held) = range.finish();
            let reply = Reply::from_range(self.header(), found, held);
            self.output.results.push((ticket, Ok(reply)));
        }
    }

    /// Whether a ticket is of a part of a `Lock` or a `Campaign`, which the Front began itself.
    pub fn is_part(&self, ticket: Ticket) -> bool {
        self.locks.parts.contains_key(&ticket)
    }

    /// Calls that are not done.
    pub fn call_count(&self) -> usize {
        self.calls.len() + self.watches.stream_count() + self.v2_waits.count()
    }

    /// The level of the state, as this Front has been told.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Commands that were handed over and are not answered, and their bytes.
    pub fn commands_in_flight(&self) -> (usize, usize) {
        (self.commands.count, self.commands.bytes)
    }

    // Beginning a call.

    fn begin(
        &mut self,
        ticket: Ticket,
        method: EtcdMethod,
        request: Bytes,
        asker: Asker,
    ) -> Result<(), CallRefused> {
        match method {
            EtcdMethod::Range => {
                let request: pb::RangeRequest = decode(request)?;
                let is_local = request.serializable;
                let asked = AskedRange::new(request, convert::range)?;
                self.begin_read(ticket, Read::Range(Range::new(asked)), is_local, asker);
                Ok(())
            }
            EtcdMethod::RangeStream => {
                let request: pb::RangeRequest = decode(request)?;
                let is_local = request.serializable;
                let asked = AskedRange::new(request, convert::range_stream)?;
                let stream = Stream::new(asked, self.config.piece_bytes);
                self.begin_read(ticket, Read::Stream(stream), is_local, asker);
                Ok(())
            }
            EtcdMethod::Txn => self.begin_txn(ticket, request, asker),
            EtcdMethod::Put => {
                let (bytes, kept) = (request.len(), (method, request.clone()));
                let request: pb::PutRequest = decode(request)?;
                let put = EtcdCommand::Put(convert::put(&request)?);
                self.begin_write(ticket, put, bytes, kept, asker)
            }
            EtcdMethod::DeleteRange => {
                let (bytes, kept) = (request.len(), (method, request.clone()));
                let request: pb::DeleteRangeRequest = decode(request)?;
                let delete = EtcdCommand::DeleteRange(convert::delete_range(&request)?);
                self.begin_write(ticket, delete, bytes, kept, asker)
            }
            EtcdMethod::Compact => {
                let (bytes, kept) = (request.len(), (method, request.clone()));
                let request: pb::CompactionRequest = decode(request)?;
                let compact = convert::compaction(&request);
                self.begin_write(ticket, compact, bytes, kept, asker)?;
                if let Some(Call::Command { then, .. }) = self.calls.get_mut(&ticket)
                    && request.physical
                {
                    *then = Then::Prune;
                }
                Ok(())
            }
            EtcdMethod::LeaseGrant
            | EtcdMethod::LeaseRevoke
            | EtcdMethod::LeaseKeepAlive
            | EtcdMethod::LeaseTimeToLive
            | EtcdMethod::LeaseLeases => self.begin_of_lease(ticket, method, request, asker),
            EtcdMethod::Cluster(method) => self.begin_of_cluster(ticket, method, request, asker),
            EtcdMethod::Auth(method) => self.begin_of_auth(ticket, method, request, asker),
            EtcdMethod::Need(_) | EtcdMethod::Alarm | EtcdMethod::Hash | EtcdMethod::HashKv => {
                self.begin_of_maintenance(ticket, method, request, asker)
            }
            EtcdMethod::Lock | EtcdMethod::Campaign => unreachable!("it is made of calls"),
        }
    }

    fn begin_txn(
        &mut self,
        ticket: Ticket,
        request: Bytes,
        asker: Asker,
    ) -> Result<(), CallRefused> {
        let (bytes, kept) = (request.len(), (EtcdMethod::Txn, request.clone()));
        let request: pb::TxnRequest = decode(request)?;
        let ops_max = self.config.txn_ops_max;
        if is_read_only(&request) {
            let is_local = is_serializable(&request);
            let read = Read::Txn(Box::new(TxnCall::new(request, ops_max)?));
            self.begin_read(ticket, read, is_local, asker);
            return Ok(());
        }
        let txn = EtcdCommand::Txn(convert::txn(&request, ops_max)?);
        self.begin_write(ticket, txn, bytes, kept, asker)
    }

    /// Begins a call of the service `Maintenance`, or a question that others of it depend on.
    fn begin_of_maintenance(
        &mut self,
        ticket: Ticket,
        method: EtcdMethod,
        request: Bytes,
        asker: Asker,
    ) -> Result<(), CallRefused> {
        let (bytes, kept) = (request.len(), (method, request.clone()));
        let read = match method {
            EtcdMethod::Alarm => {
                let request: pb::AlarmRequest = decode(request)?;
                if let Some(command) = convert::alarm(&request) {
                    return self.begin_write(ticket, command, bytes, kept, asker);
                }
                self.begin_read(ticket, Read::Alarms(request), false, asker);
                return Ok(());
            }
            // As in etcd, the member shows its own state.
            EtcdMethod::HashKv => {
                let request: pb::HashKvRequest = decode(request)?;
                Read::Hash(HashCall::of_keys(request.revision))
            }
            EtcdMethod::Need(need) => Read::Need(need),
            _ => {
                let pb::HashRequest {} = decode(request)?;
                Read::Hash(HashCall::of_all())
            }
        };
        self.begin_read(ticket, read, true, asker);
        Ok(())
    }

    /// Begins a call of the service of leases.
    fn begin_of_lease(
        &mut self,
        ticket: Ticket,
        method: EtcdMethod,
        request: Bytes,
        asker: Asker,
    ) -> Result<(), CallRefused> {
        let (bytes, kept) = (request.len(), (method, request.clone()));
        match method {
            EtcdMethod::LeaseGrant => {
                let grant = convert::grant(&decode(request)?);
                self.begin_write(ticket, grant, bytes, kept, asker)
            }
            EtcdMethod::LeaseRevoke => {
                let revoke = convert::revoke(&decode(request)?);
                self.begin_write(ticket, revoke, bytes, kept, asker)
            }
            EtcdMethod::LeaseKeepAlive => {
                let call = LeaseCall::keep_alive(&decode(request)?);
                self.begin_lease_call(ticket, call, kept, asker)
            }
            EtcdMethod::LeaseTimeToLive => {
                let call = LeaseCall::time_to_live(&decode(request)?);
                self.begin_lease_call(ticket, call, kept, asker)
            }
            _ => {
                let pb::LeaseLeasesRequest {} = decode(request)?;
                // As in etcd, the member shows its own state.
                self.begin_read(ticket, Read::Leases(LeaseList::default()), true, asker);
                Ok(())
            }
        }
    }

    fn begin_read(&mut self, ticket: Ticket, read: Read, is_local: bool, asker: Asker) {
        if is_local || self.config.is_alone {
            self.calls.insert(ticket, Call::Ready(read, asker));
            self.turns.runnable.push_back(ticket);
        } else {
            self.calls.insert(ticket, Call::Confirming(read, asker));
            self.ask_for_sync(ticket);
        }
    }

    /// Asks to be told when this member has applied what is committed now.
    fn ask_for_sync(&mut self, ticket: Ticket) {
        let (front, connection) = (self.config.id, self.config.connection);
        self.output.to_loop.push(ToLoop::Sync(Caller { front, connection, ticket }));
    }

    /// Adds a command to the batch. `bytes` is the size of its request, which is kept if the
    /// command must wait for the level.
    fn begin_write(
        &mut self,
        ticket: Ticket,
        command: EtcdCommand<'_>,
        bytes: usize,
        kept: (EtcdMethod, Bytes),
        asker: Asker,
    ) -> Result<(), CallRefused> {
        if bytes > self.config.request_bytes_max {
            return Err(Error::RequestTooLarge.into());
        }
        let asker = match asker {
            Some(client) if client.must_be_found(self.may_be_enforced) => {
                self.queue_user_lookup(ticket, kept, client);
                return Ok(());
            }
            asker => asker,
        };
        if let EtcdCommand::Txn(txn) = &command {
            let cost = Cost::of(txn);
            if !cost.is_small() {
                let (_, request) = kept;
                self.calls.insert(ticket, Call::Counting { request, asker, cost });
                self.turns.runnable.push_back(ticket);
                return Ok(());
            }
        }
        self.begin_counted(ticket, command, bytes, kept, asker)
    }

    /// Begins a write whose user is known, and whose cost was counted.
    fn begin_counted(
        &mut self,
        ticket: Ticket,
        command: EtcdCommand<'_>,
        bytes: usize,
        kept: (EtcdMethod, Bytes),
        asker: Asker,
    ) -> Result<(), CallRefused> {
        let command = Command::Etcd(command);
        if command.level() > self.level {
            self.hold(ticket, command.level(), kept, asker);
            return Ok(());
        }
        let id = credentials::info(&asker).map(|who| who.to_id());
        let identity = id.as_deref().map(|id| Identity { scheme: ETCD_SCHEME, id });
        self.push_command(ticket, &command, bytes, identity)
    }

    /// Takes a step of the count of what a transaction with writes costs.
    fn on_counted(&mut self, ticket: Ticket, counted: Counted) {
        if counted == Counted::More {
            return self.turns.runnable.push_back(ticket);
        }
        let Some(Call::Counting { request, asker, .. }) = self.calls.remove(&ticket) else {
            return;
        };
        let begun = match counted {
            Counted::TooMany => Err(Error::RequestTooLarge.into()),
            _ => self.begin_counted_txn(ticket, request, asker),
        };
        if let Err(refused) = begun {
            self.output.results.push((ticket, Err(refused)));
        }
    }

    fn begin_counted_txn(
        &mut self,
        ticket: Ticket,
        request: Bytes,
        asker: Asker,
    ) -> Result<(), CallRefused> {
        let (bytes, kept) = (request.len(), (EtcdMethod::Txn, request.clone()));
        let request: pb::TxnRequest = decode(request)?;
        let txn = EtcdCommand::Txn(checked_txn(&request));
        self.begin_counted(ticket, txn, bytes, kept, asker)
    }

    /// Adds a command, for this client, to the batch. `bytes` is the size of its request.
    fn push_command(
        &mut self,
        ticket: Ticket,
        command: &Command<'_>,
        bytes: usize,
        who: Option<Identity<'_>>,
    ) -> Result<(), CallRefused> {
        if !self.commands.has_credit(FRONT_COMMANDS_MAX) {
            return Err(Error::TooManyRequests.into());
        }
        let connection = self.config.connection;
        let named = who.map(|who| encode_identities([who].into_iter()));
        let identities = named.as_ref().unwrap_or(&self.identity_bytes);
        let mut added = self.commands.batch.push(connection, identities, command);
        if added == Err(NotAdded::Full) {
            let submission = self.commands.finish(self.config.id);
            self.output.to_loop.extend(submission.map(ToLoop::Submit));
            added = self.commands.batch.push(connection, identities, command);
        }
        added.map_err(|_| Error::RequestTooLarge)?;
        self.commands.waiters.push(Waiter::new(connection, ticket));
        self.commands.take(bytes);
        let call = Call::Command { bytes, then: Then::Reply, is_cancelled: false };
        self.calls.insert(ticket, call);
        Ok(())
    }

    /// Keeps a call until the level of the state allows it.
    fn hold(&mut self, ticket: Ticket, level: Level, kept: (EtcdMethod, Bytes), asker: Asker) {
        self.output.to_loop.push(ToLoop::Need(level));
        let (method, request) = kept;
        self.calls.insert(ticket, Call::Held { method, request, asker });
        self.turns.held.push(ticket);
    }

    /// Ends the batch and passes it on.
    fn hand_over(&mut self) {
        let submission = self.commands.finish(self.config.id);
        self.output.to_loop.extend(submission.map(ToLoop::Submit));
    }

    // Deliveries of Apply.

    fn on_answer(&mut self, ticket: Ticket, answered: Answered) {
        let Some(Call::Command { .. }) = self.calls.get(&ticket) else { return };
        let Some(Call::Command { bytes, then, is_cancelled }) = self.calls.remove(&ticket) else {
            return;
        };
        self.commands.give_back(bytes);
        if is_cancelled {
            return;
        }
        let outcome = match answered {
            Ok(Outcome::Etcd(outcome)) => outcome,
            Ok(Outcome::EtcdV2(outcome)) => return self.on_v2_outcome(ticket, outcome),
            Ok(_) => unreachable!("etcd's clients ask for no others"),
            Err(unavailable) => {
                let error = error_of_unavailable(unavailable, self.now.has_leader());
                return self.output.results.push((ticket, Err(error.into())));
            }
        };
        let result = match outcome {
            Ok(EtcdOutcome::TooLarge) => Err(Error::AnswerTooLarge.into()),
            Ok(outcome) => Ok(Reply::from_outcome(self.header(), outcome, &self.config.references)),
            Err(Refusal::AuthOldRevision) if matches!(then, Then::Token(_)) => {
                let Then::Token(request) = then else { return };
                return self.authenticate_again(ticket, *request);
            }
            Err(refusal) => Err(Error::from(refusal).into()),
        };
        match (result, then) {
            (Ok(reply), Then::Prune) => {
                self.calls.insert(ticket, Call::Pruning { reply });
                self.turns.runnable.push_back(ticket);
            }
            (result, _) => self.output.results.push((ticket, result)),
        }
    }

    fn on_synced(&mut self, ticket: Ticket) {
        let Some(call) = self.calls.remove(&ticket) else {
            return self.watches.on_synced(ticket);
        };
        let call = match call {
            Call::Confirming(read, mut asker) => {
                asker.iter_mut().for_each(|client| client.on_synced());
                self.turns.runnable.push_back(ticket);
                Call::Ready(read, asker)
            }
            call @ Call::Finding { .. } => {
                self.turns.runnable.push_back(ticket);
                call
            }
            other => other,
        };
        self.calls.insert(ticket, call);
    }

    fn on_level(&mut self, level: Level) {
        self.level = self.level.max(level);
        for ticket in core::mem::take(&mut self.turns.held) {
            let begun = match self.calls.remove(&ticket) {
                Some(Call::Held { method, request, asker }) => {
                    self.begin(ticket, method, request, asker)
                }
                Some(Call::HeldV2(request)) => self.begin_v2(ticket, *request),
                _ => Ok(()),
            };
            if let Err(refused) = begun {
                self.output.results.push((ticket, Err(refused)));
            }
        }
    }

    /// Another state took the place of the one before. Nobody knows which commands under way it
    /// contains.
    fn on_replaced(&mut self) {
        self.watches.on_replaced(true);
        self.v2_waits.on_replaced();
        self.on_other_users();
        for call in self.calls.values_mut() {
            if let Call::Ready(_, Some(client)) | Call::Confirming(_, Some(client)) = call {
                client.forget();
            }
            match call {
                Call::Ready(Read::Stream(stream), _) | Call::Sent(stream, _) => {
                    stream.on_replaced();
                }
                Call::Ready(Read::Range(range), _) => range.on_replaced(),
                Call::Ready(Read::Txn(call), _) => call.on_replaced(),
                Call::Ready(Read::AskLease(_, read) | Read::TimeToLive { read, .. }, _) => {
                    *read = LeaseRead::default();
                }
                Call::Ready(Read::Hash(call), _) => call.on_replaced(),
                Call::Ready(Read::Leases(list), _) => *list = LeaseList::default(),
                _ => {}
            }
        }
        let is_command = |call: &Call| matches!(call, Call::Command { .. });
        let mut tickets: Vec<Ticket> = self
            .calls
            .iter()
            .filter(|(_, call)| is_command(call))
            .map(|(ticket, _)| *ticket)
            .collect();
        tickets.sort_unstable();
        for ticket in tickets {
            // Commands that no leader has yet must not take effect in a later term.
            self.given_up.push((self.config.connection, ticket));
            self.on_answer(ticket, Err(Unavailable::GivenUp(Fate::Unknown)));
        }
    }

    /// Other users and tokens took the place of those before.
    fn on_other_users(&mut self) {
        self.may_be_enforced = true;
        self.config.token_times.on_replaced(self.now.monotonic_ms);
    }

    // Ends.

    fn end_late(&mut self, ticket: Ticket) {
        let error = match self.calls.get_mut(&ticket) {
            None => return self.watches.on_synced(ticket),
            // Loop answers, and knows the fate. If its answer is late itself, the client has its
            // own deadline.
            Some(Call::Command { is_cancelled: false, .. }) => {
                return self.given_up.push((self.config.connection, ticket));
            }
            Some(Call::Command { .. } | Call::Pruning { .. } | Call::Sent(..)) => return,
            // It has a deadline of its own.
            Some(Call::Moving(_)) => return,
            // Pieces go as slowly as the client takes them.
            Some(Call::Ready(Read::Stream(stream), _)) if stream.has_begun() => return,
            Some(Call::Held { .. } | Call::HeldV2(_)) => Error::NotCapable,
            Some(
                Call::Confirming(..)
                | Call::Ready(..)
                | Call::Asking(..)
                | Call::Finding { .. }
                | Call::Counting { .. }
                | Call::Password(_),
            ) => Error::TimedOut,
        };
        self.calls.remove(&ticket);
        self.forget_cluster_call(ticket);
        self.turns.held.retain(|held| *held != ticket);
        self.output.results.push((ticket, Err(error.into())));
    }

    fn header(&self) -> Header {
        let EtcdFrontConfig { cluster_id, member_id, .. } = self.config;
        Header { cluster_id, member_id, raft_term: self.now.raft_term }
    }
}

fn decode<M: Message + Default>(request: Bytes) -> Result<M, CallRefused> {
    M::decode(request).map_err(|_| CallRefused::Malformed)
}

/// Whether a transaction that only reads may be answered from the state of this member as it is
/// (`txn.IsTxnSerializable`).
fn is_serializable(request: &pb::TxnRequest) -> bool {
    request.success.iter().chain(&request.failure).all(|op| match &op.request {
        Some(pb::request_op::Request::RequestRange(range)) => range.serializable,
        _ => false,
    })
}

/// A command that no leader had in time: there is none, or it is slow, as its disk may be.
fn error_of_unavailable(unavailable: Unavailable, has_leader: bool) -> Error {
    match unavailable {
        Unavailable::DiskFull => Error::NoSpace,
        Unavailable::NotLeader => Error::NoLeader,
        Unavailable::GivenUp(Fate::Definite) if !has_leader => Error::NoLeader,
        Unavailable::GivenUp(_) => Error::TimedOut,
    }
}

#[cfg(test)]
mod tests;
