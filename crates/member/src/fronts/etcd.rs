//! `EtcdFront`: serves the calls of etcd's clients on one connection runtime. It is a pure step
//! function: no I/O, no clock.
//!
//! The driver (the runtime's thread) hands over each call with the bytes of its request
//! ([`EtcdFront::on_call`]), and gets the response, or an error, with [`EtcdFront::take_output`].
//! It encodes a response when it has room for the bytes. A streamed read has several messages: the
//! Front gives the next message when the driver reports that the client has taken the last one
//! ([`EtcdFront::on_taken`]).
//!
//! A watch stream is a call as well ([`EtcdFront::on_watch`]), with any number of requests. Its
//! messages come like the messages of a streamed read.
//!
//! While [`EtcdFront::is_runnable`], the driver takes the lock of the state for reading, hands over
//! the deliveries that Apply has pushed, and calls [`EtcdFront::run_reads`]. It takes the output
//! while [`EtcdFront::has_more`].
//!
//! Calls are independent of each other: two calls under way at once may run in any order. In an
//! ensemble, a linearizable read first waits until this member has applied everything that was
//! committed when the read came (a *sync*). A write must be done within [`ETCD_CALL_MS_MAX`]. After
//! that time, or when the client cancels, Loop drops the command, and the error tells the client
//! whether the command may still take effect.

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
mod member_change;
mod method;
mod passwords;
mod peer_urls;
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
use machine::reply::ControlOutcome;
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
pub use member_change::MemberChanges;
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
    /// The connection id in all commands of this Front. It is the Front's own, and all clients of
    /// the Front share it.
    pub connection: ConnectionId,
    /// Whether the member is the whole ensemble. Its own state then has every acknowledged write,
    /// so no read needs a sync.
    pub is_alone: bool,
    /// The id of the cluster in the header of each response.
    pub cluster_id: u64,
    /// The id of this member.
    pub member_id: u64,
    /// The id of this member in the header of each response ([`machine::Control::etcd_id_of`]). A
    /// delivery with other servers changes it.
    pub shown_id: u64,
    /// The name and URLs of this member in the list of members, and its settings for changes.
    pub own: OwnMember,
    /// The most operations in one level of a transaction (`max-txn-ops`). A delivery with new
    /// replicated settings changes it.
    pub txn_ops_max: usize,
    /// The most bytes of a request to write (`max-request-bytes`).
    pub request_bytes_max: usize,
    /// A piece of a streamed read ends at this many bytes of keys and values.
    pub piece_bytes: usize,
    /// The most keys that reads look at during one hold of the state's lock, at least 1.
    pub hold_keys_max: u64,
    /// When each simple token was last used. All Fronts of etcd's clients share it.
    pub token_times: Arc<TokenTimes>,
    /// The byte budget for the references to key versions that responses keep until they are
    /// encoded. All Fronts of etcd's clients share it.
    pub references: Arc<ReplyRoom>,
    /// The level of the state that this Front starts with.
    pub level: Level,
    /// A watcher that asked for progress notices gets one after this time without events, in ms.
    pub progress_ms: u64,
    /// The bounds of watch streams.
    pub watch_bounds: WatchBounds,
    /// The seed of the treap that finds the watchers of a key range. It must be secret: a client
    /// that knows it could choose ranges that make the tree degenerate into a list.
    pub watch_seed: u64,
    /// Tells Apply whether this Front has watchers.
    pub watch_interest: Arc<WatchInterest>,
    /// Counts of etcd v2's commands. Apply and all Fronts of etcd's clients add to them.
    pub command_counts: Arc<CommandCounts>,
    /// Whether the output names the user of each call ([`EtcdOutput::users`]), for the audit log.
    pub names_users: bool,
}

/// The time and the member's place in its ensemble, set by the driver before its other calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// A clock that never goes back, in ms.
    pub monotonic_ms: u64,
    /// The Raft term of the member.
    pub raft_term: u64,
    /// When, on this clock, the member last had contact with the members that decide who leads
    /// (`Loop::contact_ms`): a leader with a quorum, a follower with such a leader. 0 if it has no
    /// contact, `None` if it is alone.
    pub contact_at_ms: Option<u64>,
}

impl Now {
    /// Whether the member counts as having a leader: it is alone, or its last contact was less than
    /// [`ETCD_NO_LEADER_MS`] ago.
    pub fn has_leader(self) -> bool {
        self.contact_at_ms.is_none_or(|at_ms| {
            at_ms > 0 && self.monotonic_ms.saturating_sub(at_ms) < ETCD_NO_LEADER_MS
        })
    }
}

/// The result of a call: the response, or why there is none.
pub type CallResult = Result<Reply, CallRefused>;

/// The output of an EtcdFront. The driver passes it on to Loop, to the clients and to other
/// threads.
#[derive(Debug, Default)]
pub struct EtcdOutput {
    /// Messages for Loop, in order.
    pub to_loop: Vec<ToLoop>,
    /// Users that were found, each with the ticket of its call. Empty unless
    /// [`EtcdFrontConfig::names_users`].
    pub users: Vec<(Ticket, Arc<str>)>,
    /// Calls that are done, with their results.
    pub results: Vec<(Ticket, CallResult)>,
    /// Messages of streamed reads. The last message of a read comes in `results` instead.
    pub pieces: Vec<(Ticket, Reply)>,
    /// Messages of watch streams. A stream gives more once the client has taken these.
    pub watched: Vec<(Ticket, WatchMessages)>,
    /// Results of reads and writes of etcd v2, from the store.
    pub v2_results: Vec<(Ticket, V2Result)>,
    /// Steps of waits of etcd v2, in order.
    pub v2_waited: Vec<(Ticket, V2Waited)>,
    /// Members that Loop is to hand leadership to. The driver reports with
    /// [`EtcdFront::on_hand_over`] whether the transfer has begun.
    pub hand_overs: Vec<(Ticket, MemberId)>,
    /// Work on passwords. The driver reports the result with [`EtcdFront::on_password`].
    pub passwords: Vec<(Ticket, PasswordWork)>,
    /// Watch streams that can take requests again, after [`EtcdFront::accepts_request`] was false.
    pub accepting: Vec<Ticket>,
}

/// The step function that serves the etcd clients of one connection runtime.
pub struct EtcdFront {
    config: EtcdFrontConfig,
    /// The encoded identities of a command without a user: an empty list.
    identity_bytes: Vec<u8>,
    /// False once the Front has seen that permissions are not enforced: credentials then do not
    /// matter.
    may_be_enforced: bool,
    calls: HashMap<Ticket, Call, FixedState>,
    next_ticket: Ticket,
    commands: Commands,
    /// Questions about leases that the next output passes to Loop.
    lease_questions: Vec<(Caller, LeaseQuestion)>,
    turns: Turns,
    /// Commands that the next output asks Loop to give up.
    given_up: Vec<(ConnectionId, Ticket)>,
    watches: Watches,
    locks: Locks,
    cluster: ClusterCalls,
    v2_waits: V2Waits,
    /// Whether token times wait for a comparison with the state's tokens ([`TokenTimes`]).
    checks_tokens: bool,
    level: Level,
    now: Now,
    output: EtcdOutput,
}

/// Queues of waiting calls, one for each thing that a call waits for.
#[derive(Default)]
struct Turns {
    /// Calls that wait for the lock of the state.
    runnable: VecDeque<Ticket>,
    /// Reads that wait for room for the references that they may find.
    roomless: Vec<Ticket>,
    /// Ranges that were read. Their results still have to be sorted.
    read: VecDeque<(Ticket, Range)>,
    /// Writes that wait until the level of the state allows them.
    held: Vec<Ticket>,
    /// Compactions that wait until the memory of the compacted versions is freed.
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

    /// Sets the time and the member's place in its ensemble, for the calls that follow.
    pub fn set_now(&mut self, now: Now) {
        self.now = now;
    }

    /// Takes a ticket for a new call. If too many calls are under way, refuses the call and returns
    /// the ticket as the `Err`.
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

    /// Like [`EtcdFront::admit`], and gives the call the deadline [`ETCD_CALL_MS_MAX`].
    fn admit_for_time(&mut self) -> Result<Ticket, Ticket> {
        let ticket = self.admit()?;
        self.turns.due.push_back((self.now.monotonic_ms + ETCD_CALL_MS_MAX, ticket));
        Ok(ticket)
    }

    /// Takes a call and returns its ticket. The result comes with [`EtcdFront::take_output`].
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

    /// Opens a watch stream. The stream gets a result only if the server ends it: there are too
    /// many calls, or the client requires a leader and there is none.
    ///
    /// The first request brings its own credentials ([`EtcdFront::on_watch_request`]). The
    /// credentials here only decide whether the stream first waits for a sync.
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

    /// Whether the client of a watch stream may send another request now. If not, the driver asks
    /// again when the client has taken messages, and when [`EtcdOutput::accepting`] has the stream.
    pub fn accepts_request(&self, ticket: Ticket) -> bool {
        self.watches.accepts(ticket)
    }

    /// Takes the next request of a watch stream, with the client's credentials of this moment.
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

    /// Cancels a call: its client is gone or waits no longer. The call gets no result any more.
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

    /// Notes that the client of a streamed read, a watch stream or a stream of etcd v2 has taken
    /// the last messages. Returns whether there may be more for the client now.
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

    /// Whether the driver must come again without new input: a call waits for the lock, or
    /// [`EtcdFront::take_output`] left new events for its next call.
    pub fn has_more(&self) -> bool {
        self.is_runnable()
            || !self.turns.read.is_empty()
            || self.watches.has_unmatched()
            || self.v2_waits.has_unmatched()
    }

    /// Whether a call waits for a thing that no message announces: freed memory, room for its
    /// response, or another leader. The driver must then call [`EtcdFront::on_tick`] soon.
    pub fn waits_for_tick(&self) -> bool {
        !(self.turns.pruning.is_empty() && self.turns.roomless.is_empty())
            || self.locks.has_unremoved()
            || self.wants_replica()
    }

    /// Runs the reads that wait for the lock, up to the bounds of one hold. The driver holds the
    /// lock for reading, and has handed over every delivery that Apply pushed earlier.
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

    /// Runs one call under the lock.
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

    /// Hands over a call that begins under the lock and ends elsewhere: in Loop, or in work on a
    /// password.
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

    /// Takes the result of one step of a read.
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

    /// Takes the result of a read, or the next piece of the result.
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

    /// Takes a delivery of Apply: answers to calls, and changes of the state.
    pub fn on_delivery(&mut self, delivery: Delivery) {
        let changes = &delivery.changes;
        for change in changes.control.iter() {
            match change {
                ControlChange::Raised(stated) => self.on_level(stated.level),
                ControlChange::Replaced { .. } => self.on_replaced(),
                ControlChange::Servers(servers) => {
                    let own = MemberId(self.config.member_id);
                    self.config.shown_id = servers.etcd_id_of(own, self.level);
                }
                // The answer to the request, in this delivery or an earlier one, comes first.
                ControlChange::ListChangeEnded { .. } => {}
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
        // The changes of a delivery that replaces the state are not all there are: `on_replaced`
        // has told the watches to look into the new state.
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
        for change in changes.control.iter() {
            if let ControlChange::ListChangeEnded { id, result } = change {
                self.on_change_ended(*id, *result);
            }
        }
    }

    /// Ends the calls that have taken too long, and tries again what waits for a tick.
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

    /// Takes the output since the last call. The driver does not hold the lock here, so the Front
    /// does the work that needs no state: it matches events with watchers, and sorts ranges.
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

    /// Sorts the results of ranges that were read. Each call sorts a bounded number of keys, so a
    /// long result takes several calls.
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

    /// Whether a ticket names a part of a `Lock` or `Campaign`: a call that the Front itself began.
    pub fn is_part(&self, ticket: Ticket) -> bool {
        self.locks.parts.contains_key(&ticket)
    }

    /// The number of calls that are not done, watch streams and waits of etcd v2 included.
    pub fn call_count(&self) -> usize {
        self.calls.len() + self.watches.stream_count() + self.v2_waits.count()
    }

    /// The level of the state, as of the last delivery.
    pub fn level(&self) -> Level {
        self.level
    }

    /// How many commands are handed over and not answered, and their bytes.
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

    /// Begins a call of the service `Maintenance`, or the check of a right ([`EtcdMethod::Need`])
    /// for a call that the driver serves itself.
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

    /// Begins a call of etcd's service `Lease`.
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

    /// Asks Loop for a sync: Apply answers it once this member has applied everything that is
    /// committed by now.
    fn ask_for_sync(&mut self, ticket: Ticket) {
        let (front, connection) = (self.config.id, self.config.connection);
        self.output.to_loop.push(ToLoop::Sync(Caller { front, connection, ticket }));
    }

    /// Begins a write. Its command goes into the batch, unless its user must be found or its cost
    /// counted first. `bytes` is the size of the request. `kept` is the method and the request, to
    /// begin the call anew.
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

    /// Begins a write after its user was found and its cost was counted, or neither was needed.
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

    /// Takes the result of one step of counting the cost of a transaction with writes.
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

    /// Adds a command to the batch, in the name of user `who`. `bytes` is the size of its request,
    /// and counts against the Front's credit for commands under way.
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

    /// Keeps a write until the state has this level, and asks Loop to raise the level.
    fn hold(&mut self, ticket: Ticket, level: Level, kept: (EtcdMethod, Bytes), asker: Asker) {
        self.output.to_loop.push(ToLoop::Need(level));
        let (method, request) = kept;
        self.calls.insert(ticket, Call::Held { method, request, asker });
        self.turns.held.push(ticket);
    }

    /// Ends the batch and passes it to Loop.
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
            return self.forget_cluster_call(ticket);
        }
        let outcome = match answered {
            Ok(Outcome::Etcd(outcome)) => outcome,
            Ok(Outcome::EtcdV2(outcome)) => return self.on_v2_outcome(ticket, outcome),
            Ok(Outcome::Control(ControlOutcome::Requested(outcome))) => {
                let Then::ChangeMembers(requested) = then else { return };
                return self.on_requested(ticket, *requested, outcome);
            }
            Ok(_) => unreachable!("etcd's clients ask for no others"),
            Err(unavailable) => {
                self.forget_cluster_call(ticket);
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

    /// Restarts calls after the state of a snapshot has replaced the old state. Commands under way
    /// fail with an unknown fate, because the new state may have them or not.
    fn on_replaced(&mut self) {
        self.watches.on_replaced(true);
        self.v2_waits.on_replaced();
        self.on_other_users();
        self.on_changes_replaced();
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
            // A command that no leader has yet must not take effect in a later term.
            self.given_up.push((self.config.connection, ticket));
            self.on_answer(ticket, Err(Unavailable::GivenUp(Fate::Unknown)));
        }
    }

    /// Notes that users and tokens were replaced. Permissions may be enforced from now on.
    fn on_other_users(&mut self) {
        self.may_be_enforced = true;
        self.config.token_times.on_replaced(self.now.monotonic_ms);
    }

    // Ends.

    fn end_late(&mut self, ticket: Ticket) {
        let error = match self.calls.get_mut(&ticket) {
            None => return self.watches.on_synced(ticket),
            // Loop answers, because Loop knows the command's fate. If that answer is late too, the
            // client has its own deadline.
            Some(Call::Command { is_cancelled: false, .. }) => {
                return self.given_up.push((self.config.connection, ticket));
            }
            Some(Call::Command { .. } | Call::Pruning { .. } | Call::Sent(..)) => return,
            // A transfer of leadership has its own deadline.
            Some(Call::Moving(_)) => return,
            // Pieces go as slowly as the client takes them.
            Some(Call::Ready(Read::Stream(stream), _)) if stream.has_begun() => return,
            Some(Call::Held { .. }) if self.cluster.behind_another.contains(&ticket) => {
                Error::TimedOut
            }
            Some(Call::Held { .. } | Call::HeldV2(_)) => Error::NotCapable,
            Some(
                Call::Changing(..)
                | Call::Confirming(..)
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
        let EtcdFrontConfig { cluster_id, shown_id, .. } = self.config;
        Header { cluster_id, member_id: shown_id, raft_term: self.now.raft_term }
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

/// The error for a command without an outcome. If no leader took the command in time, there is no
/// leader, or the leader is slow, for example because of its disk.
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
