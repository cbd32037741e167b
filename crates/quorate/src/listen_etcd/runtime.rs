//! A connection runtime of the etcd face: its Front, and the tasks that wait for the Front's
//! results. Each call, watch stream and wait of etcd v2 is a task that hands its request to the
//! Front, gets a ticket, and waits for messages with that ticket.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use etcd::limits::MESSAGE_OVERHEAD_BYTES;
use etcd::v2::Request as V2Request;
use grpc::{Server, Share, Shares, SharesBySize, Status};
use grpc_code::Code;
use member::EtcdFront;
use member::fronts::etcd::{
    CallRefused, CallResult, EtcdMethod, Now, PasswordTask, PasswordWork, Reply, V2Result,
    V2Waited, WatchMessages,
};
use member::message::Ticket;
use node::FrontHandle;
use token::VerifiedTokens;
use tokio::sync::{Notify, oneshot};

use super::audit::AuditedClient;
use super::client::CallingClient;
use super::http_head::Date;
use super::limits::{
    CONNECTION_SHARE, REQUESTS_BYTES_MAX, RESPONSES_BYTES_MAX, SMALL_BYTES_MAX, SMALL_ROOM_BYTES,
    TICK, TICK_IDLE, TURN_HOLDS_MAX,
};
use super::member_view::MemberView;
use super::methods::FaceMethod;
use super::passwords::{For, Passwords};
use super::slow::SlowLog;
use super::v2::proven::ProvenPasswords;

/// One connection runtime of the etcd face.
pub(super) struct Runtime {
    handle: FrontHandle,
    front: RefCell<EtcdFront>,
    /// The tasks that wait for a message of the Front, by ticket.
    waiting: RefCell<HashMap<Ticket, oneshot::Sender<FromFront>>>,
    /// The open watch streams.
    watching: RefCell<Streams<FromWatch>>,
    /// The open waits of etcd v2.
    v2_waiting: RefCell<Streams<FromV2Wait>>,
    /// Notified when the Front has something to do.
    stirred: Notify,
    /// Notified when the leader has been lost for long. Streams whose clients require a leader wait
    /// for this, except watches: their Front ends them.
    leader_lost: Notify,
    /// Notified when a call waits for the next [`Runtime::tick`].
    tick_wanted: Notify,
    /// Each stream that waits for `leader_lost` holds a reference, so the number of references
    /// counts them.
    requiring_leader: Rc<()>,
    pub(super) server: Server<FaceMethod>,
    /// The bounds on the memory for requests and responses of all connections.
    room: RoomOfAll,
    /// The view of the member, which all runtimes share.
    pub(super) member: Arc<MemberView>,
    pub(super) passwords: Passwords,
    /// The passwords of etcd v2 users that were verified recently.
    pub(super) proven_passwords: ProvenPasswords,
    /// The text of the header `Date` in answers of etcd v2.
    pub(super) date: Date,
    /// A buffer for the JSON of small answers of etcd v2.
    pub(super) text: RefCell<Vec<u8>>,
    /// Signed tokens that were verified recently.
    pub(super) verified: RefCell<VerifiedTokens>,
    pub(super) slow: SlowLog,
    /// The clients of the calls that the Front has, for the audit log; empty if there is none. When
    /// the Front has found the user of a call, the user is stored in the client.
    audited: RefCell<HashMap<Ticket, Rc<AuditedClient>>>,
    /// The addresses of the clients whose calls are about users and roles. The queue of work on
    /// passwords needs them, because it gives addresses turns.
    asking_auth: RefCell<HashMap<Ticket, IpAddr>>,
}

/// The bounds on the memory of all connections: for requests and for answers, small ones and
/// others.
#[derive(Clone)]
pub(super) struct RoomOfAll {
    requests: Arc<Share>,
    small_requests: Arc<Share>,
    answers: Arc<Share>,
    small_answers: Arc<Share>,
}

impl RoomOfAll {
    pub fn new() -> RoomOfAll {
        RoomOfAll {
            requests: Share::new(REQUESTS_BYTES_MAX),
            small_requests: Share::new(SMALL_ROOM_BYTES),
            answers: Share::new(RESPONSES_BYTES_MAX),
            small_answers: Share::new(SMALL_ROOM_BYTES),
        }
    }
}

/// The bounds on memory that apply to a connection: its own, and those that all connections share.
#[derive(Clone)]
pub(super) struct ConnectionShares {
    pub(super) requests: SharesBySize,
    pub(super) answers: SharesBySize,
}

/// A message from the Front to the task of a call.
pub(super) enum FromFront {
    /// A part of a streamed response; more follow.
    Piece(Reply),
    /// The result of the call.
    Done(CallResult),
    /// The store's result for a read or write of etcd v2.
    V2(V2Result),
}

/// A call that was handed to the Front. Dropping this cancels the call if it is not done.
pub(super) struct FrontCall {
    runtime: Rc<Runtime>,
    ticket: Ticket,
    is_done: bool,
    /// Whether `Runtime::audited` has an entry for the call.
    is_audited: bool,
    /// Whether the call is about users and roles.
    is_of_auth: bool,
}

impl FrontCall {
    /// Hands a client's call to the Front.
    pub fn begin(client: &CallingClient, method: EtcdMethod, request: Bytes) -> FrontCall {
        let runtime = client.runtime.clone();
        let credentials = client.credentials();
        let audited = client.audited();
        if let Some(audited) = audited {
            audited.set_claimed_user(&credentials);
        }
        let ticket = {
            let mut front = runtime.front.borrow_mut();
            front.set_now(runtime.now());
            front.on_call(method, request, credentials)
        };
        if let Some(audited) = audited {
            runtime.audited.borrow_mut().insert(ticket, audited.clone());
        }
        let (is_audited, is_of_auth) = (audited.is_some(), matches!(method, EtcdMethod::Auth(_)));
        if is_of_auth && let Some(address) = client.address() {
            runtime.asking_auth.borrow_mut().insert(ticket, address);
        }
        FrontCall { runtime, ticket, is_done: false, is_audited, is_of_auth }
    }

    /// Waits for the next message from the Front.
    pub async fn next(&mut self) -> FromFront {
        let (sender, message) = oneshot::channel();
        self.runtime.waiting.borrow_mut().insert(self.ticket, sender);
        self.runtime.stirred.notify_one();
        let message = message.await.expect("each call gets a result");
        self.is_done = !matches!(message, FromFront::Piece(_));
        message
    }

    /// Tells the Front that the client has taken the last part.
    pub fn taken(&mut self) {
        self.runtime.front.borrow_mut().on_taken(self.ticket);
    }
}

impl Drop for FrontCall {
    fn drop(&mut self) {
        if !self.is_done {
            self.runtime.waiting.borrow_mut().remove(&self.ticket);
            self.runtime.front.borrow_mut().on_cancel(self.ticket);
            self.runtime.stirred.notify_one();
        }
        if self.is_audited {
            self.runtime.audited.borrow_mut().remove(&self.ticket);
        }
        if self.is_of_auth {
            self.runtime.asking_auth.borrow_mut().remove(&self.ticket);
        }
    }
}

impl Runtime {
    pub fn new(
        handle: FrontHandle,
        front: EtcdFront,
        server: Server<FaceMethod>,
        room: RoomOfAll,
        member: Arc<MemberView>,
        passwords: Passwords,
    ) -> Runtime {
        // Apply then wakes this runtime at every change. Changes for this Front are few, and a call
        // may be waiting for one.
        handle.mail().set_wakes_always(true);
        Runtime {
            handle,
            front: RefCell::new(front),
            waiting: RefCell::default(),
            watching: RefCell::default(),
            v2_waiting: RefCell::default(),
            stirred: Notify::new(),
            leader_lost: Notify::new(),
            tick_wanted: Notify::new(),
            requiring_leader: Rc::default(),
            server,
            room,
            slow: SlowLog::new(Duration::from_millis(member.config.slow_request_ms)),
            member,
            passwords,
            proven_passwords: ProvenPasswords::default(),
            date: Date::default(),
            text: RefCell::default(),
            verified: RefCell::default(),
            audited: RefCell::default(),
            asking_auth: RefCell::default(),
        }
    }

    /// The bounds for a new connection. A bound consists of three shares: one for the connection,
    /// one for its address, one for all connections. Addresses have no bound here, so the second
    /// one is the connection's, too.
    pub fn shares_of_connection(&self) -> ConnectionShares {
        let own = |bytes| Share::new(bytes / CONNECTION_SHARE);
        let of =
            |bytes, all: &Arc<Share>| -> Shares { Arc::new([own(bytes), own(bytes), all.clone()]) };
        let by_size = |small: &Arc<Share>, large: Shares| {
            SharesBySize::new(of(SMALL_ROOM_BYTES, small), large, SMALL_BYTES_MAX)
        };
        let room = &self.room;
        ConnectionShares {
            requests: by_size(&room.small_requests, of(REQUESTS_BYTES_MAX, &room.requests)),
            answers: by_size(&room.small_answers, of(RESPONSES_BYTES_MAX, &room.answers)),
        }
    }

    /// The longest JSON text of a request, in bytes. Base64 and escapes make JSON longer than the
    /// message.
    pub(super) fn json_bytes_max(&self) -> usize {
        2 * (self.member.config.request_bytes_max + MESSAGE_OVERHEAD_BYTES)
    }

    /// Hands a read or write of etcd v2 to the Front.
    fn begin_v2(self: &Rc<Self>, request: V2Request) -> FrontCall {
        let mut front = self.front.borrow_mut();
        front.set_now(self.now());
        let ticket = front.on_v2_call(request);
        let (is_audited, is_of_auth) = (false, false);
        FrontCall { runtime: self.clone(), ticket, is_done: false, is_audited, is_of_auth }
    }

    /// Reads a key of etcd v2 at once. `None` if the request is no such read, or would have to wait
    /// for other requests or for the lock of the state.
    pub fn get_v2(&self, request: &V2Request) -> Option<V2Result> {
        let machine = self.handle.machine().try_read()?;
        self.front.borrow().get_v2(request, machine.etcd_v2())
    }

    /// Runs a read or write of etcd v2. Dropping the future cancels it.
    ///
    /// # Errors
    /// The request did not get as far as the store, or its result is not known.
    pub async fn run_v2(self: &Rc<Self>, request: V2Request) -> Result<V2Result, CallRefused> {
        match self.begin_v2(request).next().await {
            FromFront::V2(result) => Ok(result),
            FromFront::Done(Err(refused)) => Err(refused),
            FromFront::Done(Ok(_)) | FromFront::Piece(_) => {
                unreachable!("etcd v2 has results of its own")
            }
        }
    }

    fn now(&self) -> Now {
        Now {
            monotonic_ms: self.handle.monotonic_ms(),
            raft_term: self.handle.raft_term(),
            contact_at_ms: self.handle.contact_at_ms(),
        }
    }

    /// The index of the last entry that this member knows to be committed, and the Raft term.
    pub(super) fn raft_position(&self) -> (u64, u64) {
        (self.handle.commit_index(), self.handle.raft_term())
    }

    /// Whether this member counts as having a leader: its last contact is not long ago
    /// ([`Now::has_leader`]).
    pub(super) fn has_leader(&self) -> bool {
        self.now().has_leader()
    }

    /// Waits until a [`Runtime::tick`] finds that this member has no leader
    /// ([`Runtime::has_leader`]).
    pub(super) async fn leaderless(&self) {
        let _counted = self.requiring_leader.clone();
        self.leader_lost.notified().await;
    }

    /// Lets the password threads do this work, and passes the result to the Front.
    fn work_on_password(self: &Rc<Self>, ticket: Ticket, work: PasswordWork) {
        let user = match &work.task {
            PasswordTask::Check { user, .. } => Some(user.clone()),
            _ => None,
        };
        let address = self.asking_auth.borrow().get(&ticket).copied();
        let done = self.passwords.submit(For { address, user }, work);
        let runtime = self.clone();
        tokio::task::spawn_local(async move {
            // If the call is gone, no result comes.
            if let Ok(done) = done.await {
                let mut front = runtime.front.borrow_mut();
                front.set_now(runtime.now());
                front.on_password(ticket, done);
                runtime.stirred.notify_one();
            }
        });
    }

    /// Runs the Front whenever a call has come, or Apply has sent mail.
    pub async fn drive_when_stirred(self: Rc<Self>) {
        loop {
            tokio::select! {
                () = self.stirred.notified() => {}
                () = self.handle.mail().arrived() => {}
            }
            if self.drive() {
                // Long reads need many turns; other tasks of the thread may run in between.
                self.stirred.notify_one();
                tokio::task::yield_now().await;
            }
        }
    }

    /// Tells the Front the time at an interval, which is short while it has calls. Ends streams
    /// that require a leader if there is none.
    pub async fn tick(self: Rc<Self>) {
        loop {
            let is_required = Rc::strong_count(&self.requiring_leader) > 1;
            let has_calls = self.front.borrow().call_count() > 0;
            if has_calls || is_required {
                tokio::time::sleep(TICK).await;
            } else {
                // A call that begins during this long pause has its deadline after the end of the
                // pause.
                tokio::select! {
                    () = tokio::time::sleep(TICK_IDLE) => {}
                    () = self.tick_wanted.notified() => continue,
                }
            }
            if is_required && !self.has_leader() {
                self.leader_lost.notify_waiters();
            }
            if self.front.borrow().call_count() > 0 {
                self.front.borrow_mut().on_tick();
                self.stirred.notify_one();
            }
        }
    }

    /// Tells these watch streams that they may take another request.
    fn let_go_on(&self, accepting: &[Ticket]) {
        for ticket in accepting {
            let watching = self.watching.borrow();
            // A stream that has messages to take checks this by itself.
            if let Some(slot) = watching.get(ticket).filter(|slot| slot.is_empty()) {
                slot.push(FromWatch::Accepts);
            }
        }
    }

    /// Runs the Front until it has nothing to do, or has taken the lock of the state
    /// [`TURN_HOLDS_MAX`] times, and distributes its output. Returns whether there is more to do.
    fn drive(self: &Rc<Self>) -> bool {
        let mut front = self.front.borrow_mut();
        let mail = self.handle.mail();
        front.set_now(self.now());
        for delivery in mail.take() {
            front.on_delivery(delivery);
        }
        for _ in 0..TURN_HOLDS_MAX {
            if front.wants_replica() {
                front.set_replica(self.member.replica());
            }
            if !front.is_runnable() {
                break;
            }
            let machine = self.handle.machine().read();
            for delivery in mail.take() {
                front.on_delivery(delivery);
            }
            front.run_reads(&machine);
        }
        let mut output = front.take_output();
        let has_more = front.has_more();
        if front.waits_for_tick() {
            self.tick_wanted.notify_one();
        }
        drop(front);
        if !output.to_loop.is_empty() {
            self.handle.send(output.to_loop);
        }
        for (ticket, user) in output.users {
            if let Some(client) = self.audited.borrow().get(&ticket) {
                client.set_user(user);
            }
        }
        for (ticket, work) in output.passwords {
            self.work_on_password(ticket, work);
        }
        for (ticket, to) in output.hand_overs {
            let is_begun = self.member.node.hand_over(Some(to));
            self.front.borrow_mut().on_hand_over(ticket, is_begun);
            self.stirred.notify_one();
        }
        let watched = output.watched.into_iter().map(|(of, it)| (of, FromWatch::Messages(it)));
        pass_on(&self.watching, watched, &mut output.results);
        let waited = output.v2_waited.into_iter().map(|(of, it)| (of, FromV2Wait::Waited(it)));
        pass_on(&self.v2_waiting, waited, &mut output.results);
        self.let_go_on(&output.accepting);
        let done = output.results.into_iter().map(|(of, result)| (of, FromFront::Done(result)));
        let pieces = output.pieces.into_iter().map(|(of, piece)| (of, FromFront::Piece(piece)));
        let of_v2 = output.v2_results.into_iter().map(|(of, result)| (of, FromFront::V2(result)));
        let mut waiting = self.waiting.borrow_mut();
        for (ticket, message) in done.chain(pieces).chain(of_v2) {
            if let Some(sender) = waiting.remove(&ticket) {
                // If sending fails, the client is gone and needs no result.
                let _ = sender.send(message);
            }
        }
        has_more
    }
}

/// The open streams of one kind, by ticket.
type Streams<T> = HashMap<Ticket, Rc<Slot<T>>>;

/// A queue of items from the Front to a stream's task. The Front gives messages only once the last
/// ones were taken, so the queue stays short.
struct Slot<T> {
    left: RefCell<VecDeque<T>>,
    filled: Notify,
}

impl<T> Slot<T> {
    fn new() -> Slot<T> {
        Slot { left: RefCell::default(), filled: Notify::new() }
    }

    fn is_empty(&self) -> bool {
        self.left.borrow().is_empty()
    }

    fn push(&self, left: T) {
        self.left.borrow_mut().push_back(left);
        self.filled.notify_one();
    }

    async fn next(&self) -> T {
        loop {
            if let Some(left) = self.left.borrow_mut().pop_front() {
                return left;
            }
            self.filled.notified().await;
        }
    }
}

/// Passes items from the Front to the tasks of streams. Moves results that end a stream from
/// `results` to that stream.
fn pass_on<T: From<CallRefused>>(
    streams: &RefCell<Streams<T>>,
    messages: impl Iterator<Item = (Ticket, T)>,
    results: &mut Vec<(Ticket, CallResult)>,
) {
    let streams = streams.borrow();
    if streams.is_empty() {
        return;
    }
    for (ticket, message) in messages {
        if let Some(slot) = streams.get(&ticket) {
            slot.push(message);
        }
    }
    results.retain(|(ticket, result)| match (streams.get(ticket), result) {
        (Some(slot), Err(refused)) => {
            slot.push((*refused).into());
            false
        }
        _ => true,
    });
}

/// An item from the Front for a watch stream.
pub(super) enum FromWatch {
    /// Messages for the client.
    Messages(WatchMessages),
    /// The stream may take another request.
    Accepts,
    /// The stream has ended for this reason.
    Ended(CallRefused),
}

impl From<CallRefused> for FromWatch {
    fn from(refused: CallRefused) -> FromWatch {
        FromWatch::Ended(refused)
    }
}

/// A watch stream that the Front has. Dropping this ends the stream.
pub(super) struct WatchCall {
    client: CallingClient,
    ticket: Ticket,
    slot: Rc<Slot<FromWatch>>,
}

impl WatchCall {
    /// Opens a stream for a client.
    pub fn open(client: CallingClient, requires_leader: bool) -> WatchCall {
        let runtime = &client.runtime;
        let mut front = runtime.front.borrow_mut();
        front.set_now(runtime.now());
        let ticket = front.on_watch(requires_leader, &client.credentials());
        drop(front);
        let slot = Rc::new(Slot::new());
        runtime.watching.borrow_mut().insert(ticket, slot.clone());
        runtime.stirred.notify_one();
        WatchCall { client, ticket, slot }
    }

    /// Waits for the next item from the Front. A caller may drop the future and call this again.
    pub async fn next(&self) -> FromWatch {
        self.slot.next().await
    }

    /// Whether the Front takes another request of the stream now. If not, an item comes when it
    /// does: [`FromWatch::Accepts`] or messages.
    pub fn accepts(&self) -> bool {
        self.client.runtime.front.borrow().accepts_request(self.ticket)
    }

    /// Hands a request of the client to the Front.
    pub fn request(&self, request: Bytes) {
        let (runtime, credentials) = (&self.client.runtime, self.client.credentials());
        runtime.front.borrow_mut().on_watch_request(self.ticket, request, credentials);
        runtime.stirred.notify_one();
    }

    /// Tells the Front that the client has taken the last messages.
    pub fn taken(&self) {
        let runtime = &self.client.runtime;
        if runtime.front.borrow_mut().on_taken(self.ticket) {
            runtime.stirred.notify_one();
        }
    }
}

impl Drop for WatchCall {
    fn drop(&mut self) {
        let runtime = &self.client.runtime;
        runtime.watching.borrow_mut().remove(&self.ticket);
        runtime.front.borrow_mut().on_cancel(self.ticket);
    }
}

/// The Front's answer to a wait of etcd v2.
pub(super) enum FromV2Wait {
    /// The awaited events, or why the wait failed.
    Waited(V2Waited),
    /// The Front refuses the wait.
    Refused(CallRefused),
}

impl From<CallRefused> for FromV2Wait {
    fn from(refused: CallRefused) -> FromV2Wait {
        FromV2Wait::Refused(refused)
    }
}

/// A wait of etcd v2 that the Front has. Dropping this ends the wait.
pub(super) struct V2Wait {
    runtime: Rc<Runtime>,
    ticket: Ticket,
    slot: Rc<Slot<FromV2Wait>>,
}

impl V2Wait {
    /// Begins to wait for what the request names.
    pub fn open(runtime: &Rc<Runtime>, request: V2Request) -> V2Wait {
        let mut front = runtime.front.borrow_mut();
        front.set_now(runtime.now());
        let ticket = front.on_v2_wait(request);
        drop(front);
        let slot = Rc::new(Slot::new());
        runtime.v2_waiting.borrow_mut().insert(ticket, slot.clone());
        runtime.stirred.notify_one();
        V2Wait { runtime: runtime.clone(), ticket, slot }
    }

    /// Waits for the next answer from the Front.
    pub async fn next(&self) -> FromV2Wait {
        self.slot.next().await
    }

    /// Tells the Front that the client has taken the last events.
    pub fn taken(&self) {
        if self.runtime.front.borrow_mut().on_taken(self.ticket) {
            self.runtime.stirred.notify_one();
        }
    }
}

impl Drop for V2Wait {
    fn drop(&mut self) {
        self.runtime.v2_waiting.borrow_mut().remove(&self.ticket);
        self.runtime.front.borrow_mut().on_cancel(self.ticket);
    }
}

/// The gRPC status for a call that was refused.
pub(super) fn status_of(refused: CallRefused) -> Status {
    match refused {
        CallRefused::Error(error) => Status::new(error.code(), error.text()),
        CallRefused::Malformed => malformed(),
        CallRefused::Unimplemented(text) => Status::new(Code::Unimplemented, text),
        CallRefused::Unknown(text) => Status::new(Code::Unknown, text),
    }
}

/// The status for a malformed request. Its text begins as grpc-go's does.
pub(super) fn malformed() -> Status {
    Status::new(Code::Internal, "grpc: error unmarshalling request: it is malformed")
}
