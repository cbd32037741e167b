//! Named bounds of a member: how much is under way at once, and what happens at the bound.

/// Entries on their way to the disks of a quorum before Loop packs the next one. More would only
/// lengthen the queue: what arrives meanwhile goes into one larger entry.
pub const ENTRIES_TO_DISK_MAX: usize = 4;

/// Requests of one connection that are not yet answered. At the bound the connection is not read.
/// The load test that pipelines deepest keeps 10,000 outstanding on its side of the socket.
pub const WINDOW_REQUESTS_MAX: usize = 1_024;

/// Bytes of commands of one connection that are not yet answered. At the bound the connection is
/// not read; one larger request goes alone.
pub const WINDOW_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Commands of one connection runtime that are not yet answered. At the bound none of its
/// connections is read. It bounds every queue behind it.
pub const FRONT_COMMANDS_MAX: usize = 32 * 1024;

/// Bytes of commands of one connection runtime that are not yet answered. At the bound none of its
/// connections is read.
pub const FRONT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes of unanswered large requests of all clients, unless configured (`largeRequestMaxBytes`,
/// ZooKeeper's default). The bound holds only if the size of a large request is configured. A
/// request beyond it closes its connection.
pub const LARGE_REQUESTS_BYTES_MAX_DEFAULT: u64 = 100 * 1024 * 1024;

/// Bytes of output that a client has not taken. At the bound its requests are not read any more;
/// what is under way is still answered.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of output at which a client that does not read is disconnected. Only events can take it
/// that far: one for each watch it set, and any number for a persistent one. While the room for all
/// replies is full, [`OUTPUT_BYTES_MAX`] is enough for that.
pub const OUTPUT_BYTES_LIMIT: usize = 64 * 1024 * 1024;

/// Bytes of replies of all connections of a member that are built and not yet taken by their
/// clients. At the bound large replies are not built, and a connection with more than
/// [`SMALL_REPLY_BYTES`] of untaken output is not served: both wait until a client takes something,
/// or until slow takers are disconnected ([`OUTPUT_STALL_MS`]). One reply per connection runtime
/// may go beyond. ZooKeeper has no bound.
pub const REPLIES_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bytes of held replies at which Fronts look for slow takers. No reply of more than
/// [`OUTPUT_BYTES_MAX`] goes beyond: the rest is for replies of ordinary size.
pub const REPLIES_BYTES_TIGHT: u64 = REPLIES_BYTES_MAX / 4 * 3;

/// Bytes of held replies up to which a reply of any size is built: a reply that never fits beside
/// others must come through at some time.
pub const REPLIES_BYTES_CALM: u64 = REPLIES_BYTES_MAX / 4;

/// Bytes of a reply that is built even if the room for all replies is full, so that clients with
/// small requests are served although others do not read their replies.
pub const SMALL_REPLY_BYTES: usize = 16 * 1024;

/// How long a client may take to read [`OUTPUT_TAKEN_BYTES_MIN`] while the room for all replies is
/// nearly full. A slower client with more than a small reply unread is disconnected.
pub const OUTPUT_STALL_MS: u64 = 2_000;

/// How long a request waits for room for its reply, or a sixth of its session's timeout if that is
/// less. Then it is refused with a timeout: its client would otherwise take the server for dead,
/// come back and ask again.
pub const ROOM_WAIT_MS_MAX: u64 = 2 * OUTPUT_STALL_MS;

/// Bytes that a client must read within [`OUTPUT_STALL_MS`]: 16 KB a second.
pub const OUTPUT_TAKEN_BYTES_MIN: u64 = 32 * 1024;

/// Bytes by which a connection runtime's share of the room for replies may differ from what it last
/// reported.
pub const REPLIES_TOLD_BYTES: usize = 64 * 1024;

/// Connections that resume at once when there is room for replies again; the others follow later.
pub const PARKED_RESUMED_MAX: usize = 64;

/// How long each Front only counts replies that are too large after it logged one.
pub const REFUSED_REPLY_INTERVAL_MS: u64 = 1_000;

/// Bytes read ahead from a connection beyond its current frame.
pub const INPUT_BYTES_MAX: usize = 64 * 1024;

/// Reads of one connection that travel with its writes. Further ones wait for their turn.
pub const TRAVELLING_READS_MAX: usize = 64;

/// Reads of all connections of a runtime that travel with writes. Further ones wait for their turn.
/// Apply answers each with [`SMALL_REPLY_BYTES`] whether there is room for replies or not, so this
/// bounds what it builds there: 64 MiB.
pub const FRONT_TRAVELLING_READS_MAX: usize = 4_096;

/// Bytes of a write from which on no read travels with it: its reply may be as large.
pub const TRAVELLED_WRITE_BYTES_MAX: usize = SMALL_REPLY_BYTES;

/// Small replies that a connection must get after a large one before its reads travel again.
pub const SMALL_REPLIES_TO_TRAVEL: u32 = 64;

/// Bytes that the answers to one multi-read may have. Beyond, it is refused with a marshalling
/// error. ZooKeeper has no bound; its Java client takes 4 MiB (`jute.maxbuffer` of the client). One
/// such answer never fills the room for all replies.
pub const MULTI_READ_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Bytes that the watches of one connection may take, paths and all. One more disconnects it.
/// ZooKeeper has no bound. Enough for half a million watches with paths of 150 bytes.
pub const WATCH_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Bytes that a watch takes beside its path. Where many watch the same path, a watch takes a third
/// of that and the path is stored once; the bound ignores this, so that it does not depend on other
/// clients.
pub const WATCH_BYTES: usize = 100;

/// Requests that one read hold of the state's lock answers.
pub const READ_HOLD_REQUESTS_MAX: usize = 64;

/// Bytes of replies that one read hold of the state's lock writes, or one reply if larger.
pub const READ_HOLD_BYTES_MAX: usize = 64 * 1024;

/// Slots of the tree that one step of a getAllChildrenNumber looks at. A step takes about as long
/// as a read, and counts as one in the bounds of a hold and of a turn: a count among a million
/// znodes takes some hundred holds, and other requests run in between.
pub const COUNT_STEP_SLOTS_MAX: u32 = 128;

/// Names that one step of a list of children adds, and reads that one step of a multi-read makes: a
/// step takes 0.1 ms or so. Each time that a change makes it begin anew, its steps may be twice as
/// long.
pub const LIST_STEP_NAMES: usize = 1_024;

/// Paths of a setWatches that are handled before the next client's turn. Each counts as a request
/// in the bounds of a hold: a request of a megabyte has fifty thousand.
pub const SET_WATCHES_STEP_PATHS: usize = READ_HOLD_REQUESTS_MAX;

/// Znodes that one step of a getEphemerals looks at. Each counts as a request in the bounds of a
/// hold.
pub const EPHEMERALS_STEP_ZNODES: usize = READ_HOLD_REQUESTS_MAX;

/// Changes, answers and events that a Front takes out of the deliveries of Apply at once.
pub const FEED_PIECE_EVENTS: usize = 256;

/// Bytes of the path of a change that count as one more event: each level above it is looked at for
/// recursive watches.
pub const FEED_PIECE_PATH_BYTES: usize = 256;

/// Places in the tables of closed connections that a Front looks at at once to remove their
/// watches.
pub const CLOSED_PIECE_WATCHES: usize = 256;

/// Requests of one connection that are answered before the next one's turn.
pub const READ_TURN_REQUESTS_MAX: usize = 16;

/// Capacity of an emptied output buffer that is kept for the next replies while requests are under
/// way.
pub const OUTPUT_KEPT_BYTES: usize = 64 * 1024;

/// Capacity of an emptied output buffer that is kept while no request is under way: a reply or two
/// without data fit.
pub const OUTPUT_KEPT_IDLE_BYTES: usize = 512;

/// Requests that an emptied window keeps room for while none is under way.
pub const WINDOW_KEPT_REQUESTS: usize = 8;

/// Bytes of input at which a connection that was idle takes the Front's spare buffers.
pub const SPARE_INPUT_BYTES_MIN: usize = 1024;

/// How long a connection may be without a session, from when it is accepted, unless configured
/// (`nio.sessionlessCnxnTimeout`, ZooKeeper's default). Then it is closed, whatever it has sent.
pub const SESSIONLESS_MS_DEFAULT: u64 = 10_000;

/// How long a member without contact to a leader lets a client wait for its session: an election
/// takes less. Then the connection is closed, and the client tries another server.
pub const CONNECT_HOLD_MS_MAX: u64 = 1_000;

/// The part of a client's timeout that it is made to wait at most: one in this many. The rest is
/// left to find another server.
pub const CONNECT_HOLD_PART: u64 = 6;

/// How old the contact to a reachable leader may be while nothing is written.
pub const CONTACT_MS_USUAL: u64 = 3 * HEARTBEAT_QUIET_MS;

/// How long a connection that is being closed may take to read its last bytes.
pub const CLOSING_MS_MAX: u64 = 5_000;

/// Commands that one write hold of the state's lock applies.
pub const APPLY_HOLD_COMMANDS_MAX: usize = 256;

/// Bytes of answers to travelling reads that one write hold of the state's lock builds, or one
/// answer if larger.
pub const APPLY_HOLD_ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Identities that one connection may collect by auth packets. One more disconnects it.
pub const CONNECTION_IDENTITIES_MAX: usize = 100;

/// Bytes of one connection's identities as they travel with each batch: a name of any length fits
/// an auth packet. ZooKeeper has no bound; a digest takes some 40 bytes and the name. A connection
/// with more is disconnected.
pub const CONNECTION_IDENTITY_BYTES_MAX: usize = 16 * 1024;

/// Bytes of the entries that `auth` may stand for in the ACLs of one request: each `auth` entry
/// becomes as many as the connection has identities. As much as a request has by default; an ACL
/// that goes beyond is refused as invalid. ZooKeeper has no bound.
pub const ACL_AUTH_BYTES_MAX: usize = 1024 * 1024;

/// Connections of one Front that ended before their commands were answered. At the bound the
/// commands of further connections that end are not given up: they are handed over, though nobody
/// waits for them. Each connection had credit for its commands, so only clients that come and go
/// while nothing is committed can reach the bound.
pub const DEPARTED_CONNECTIONS_MAX: usize = 10_000;

/// How often each Front reports the sessions it heard from.
pub const HEARD_INTERVAL_MS: u64 = 200;

/// How long a Front sleeps at most while its clients are at rest.
pub const REST_TICK_MS_MAX: u64 = 5_000;

/// How often the driver lets each Front look at the clock, and Loop while something is under way.
pub const CLOCK_INTERVAL_MS: u64 = 100;

/// Time added to each deadline, so that a client that is never silent for its whole timeout is
/// never expired. A client's bytes are reported at the first look at the clock that ends a report
/// interval, up to one look later than that. A follower's report waits for the answer to the one
/// before, which comes with a heartbeat. The leases' clock stands still between two rounds of Loop,
/// so a deadline is set up to one round too early.
pub const HEARING_MS_MAX: u64 = HEARD_INTERVAL_MS + 2 * CLOCK_INTERVAL_MS + HEARTBEAT_QUIET_MS;

/// How long Loop sleeps at most if nothing arrives and nothing is due: it notices broken links,
/// stalled disks and lost questions by then.
pub const LOOK_MS_MAX: u64 = 500;

/// How late Loop may look at the clock before it assumes that the process was paused.
pub const LATE_MS: u64 = 40;

/// How long before a deadline Loop begins to look at the clock every [`CLOCK_INTERVAL_MS`]: a
/// process that was paused until then hears its clients before it judges them.
pub const EXPIRY_MARGIN_MS: u64 = 600;

/// How far the leases' clock advances at most in one round of Loop while a deadline is near: two
/// rounds. A process that was paused for longer than a session's timeout must hear its clients, who
/// wrote meanwhile, before it judges them; the ticks of the sessions (`tickTime`) are far too long
/// for that, since the shortest timeout is two of them.
pub const LEASE_ADVANCE_MS_MAX: u64 = 200;

/// Length of a tick of the deadlines of etcd's leases: a lease expires at most a tick late, beside
/// [`LEASE_GRACE_MS`] and one look at the clock. etcd looks every 500 ms (`lessor.runLoop`).
pub const LEASE_TICK_MS: u64 = 100;

/// Time added to the deadline of each lease: Loop's clock stands still between two rounds, for up
/// to a tick of the replica, so a deadline is set up to that much too early.
pub const LEASE_GRACE_MS: u64 = 100;

/// Leases whose expiry one round of Loop begins, in commands of
/// [`EXPIRE_LEASES_MAX`](machine::limits::EXPIRE_LEASES_MAX); further ones wait for the next.
/// etcd's rate is 1,000 a second (`defaultLeaseRevokeRate`).
pub const LEASES_EXPIRED_MAX: usize = 1_024;

/// As [`LEASES_EXPIRED_MAX`], of nodes of etcd v2 whose time to live is over.
pub const ETCD_V2_EXPIRED_MAX: usize = 1_024;

/// Questions about leases that a member has for the leader. One more is refused as too many
/// requests.
pub const LEASE_QUESTIONS_MAX: usize = 100_000;

/// Questions about leases that a leader has not answered, those of all members. Further ones are
/// dropped, and asked again.
pub const LEASE_CALLS_MAX: usize = 10 * LEASE_QUESTIONS_MAX;

/// Questions about leases, or answers, in one message to another member.
pub const LEASE_MESSAGE_ITEMS_MAX: usize = 16 * 1024;

/// How long a member waits for the answer to a question about a lease before it asks again. Needed
/// only if a message is lost while the link goes on, or if the leader has dropped the question.
pub const LEASE_RETRY_MS: u64 = 1_000;

/// How long a member waits for all answers to such a question. Then the client is told that there
/// is no leader, or that the request timed out: before its call ends without Loop
/// ([`ETCD_CALL_MS_MAX`]).
pub const LEASE_ANSWER_MS_MAX: u64 = 6_500;

const _: () = assert!(LEASE_ANSWER_MS_MAX + LOOK_MS_MAX <= ETCD_CALL_MS_MAX);
const _: () = assert!(33 * LEASE_MESSAGE_ITEMS_MAX + 64 <= PEER_BODY_BYTES_MAX);

/// Sessions that one call looks at for their deadlines, some 4 ms of work. More wait for the next
/// round of Loop: a new leader finds all of its sessions due at once.
pub const EXPIRY_LOOKS_MAX: usize = 16 * 1024;

/// How long a follower waits for the answer to a report of heard sessions before it reports again.
pub const HEARD_RETRY_MS: u64 = 500;

/// Sessions in one report to the leader. More wait for its answer.
pub const HEARD_SESSIONS_MAX: usize = 64 * 1024;

/// Batches in one piece of what is forwarded to the leader.
pub const FORWARD_BATCHES_MAX: usize = 1_024;

/// Bytes of batches that the leader was given and that are not applied here, or one batch if
/// larger. At the bound further batches wait: this bounds what a leader holds for each follower.
pub const FORWARD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long none of the batches given to the leader may be applied here before they are given
/// again. This is needed only if a message is lost while the link goes on; on a disk that is so
/// slow it costs duplicates.
pub const FORWARD_SILENCE_MS: u64 = 3_000;

/// Entries that a new member may be behind when it is given its vote: some round trips' worth.
pub const CAUGHT_UP_ENTRIES: u64 = 64;

/// How long a command that registers a member, or forgets one, may take before it is handed over
/// again.
pub const REGISTERS_INTERVAL_MS: u64 = 1_000;

/// How often a level that clients need is asked for until the state has it: as often as a person
/// might try.
pub const RAISES_INTERVAL_MS: u64 = 1_000;

/// How often a member whose disk is full says so again, since one message may be lost.
pub const FULL_INTERVAL_MS: u64 = 1_000;

/// How long a member's disk is taken for full after it last said so.
pub const FULL_LASTS_MS: u64 = 3 * FULL_INTERVAL_MS;

/// How long a member must not be heard before another takes its server's place.
pub const REPLACED_SILENCE_MS: u64 = 2_000;

/// How often a leader tells the others that it leads: at least three times within the shortest
/// election timeout.
pub const HEARTBEAT_MS: u64 = 100;

/// How often a leader sends heartbeats while nothing is written: nearly twice within the shortest
/// election timeout. A heartbeat to two followers, and their answers, are most of what an idle
/// ensemble costs. A little longer than [`HEARD_INTERVAL_MS`], so that each heartbeat finds a
/// report due.
pub const HEARTBEAT_QUIET_MS: u64 = 210;

/// How long nothing must be written before a leader sends heartbeats at [`HEARTBEAT_QUIET_MS`].
pub const QUIET_MS: u64 = 1_000;

/// How long a majority of unborn servers waits for the others before it agrees on a birth without
/// them. A server with so many present ones before it, by number, waits as many times longer.
pub const ABSENT_PATIENCE_MS: u64 = 1_000;

/// How long a server that may propose a birth waits for servers whose links are gone: each is gone
/// for a moment when its server says something new of itself.
pub const PROPOSAL_PATIENCE_MS: u64 = 300;

/// How often an unborn server that takes part in an agreement looks at the clock.
pub const AGREEMENT_INTERVAL_MS: u64 = 100;

/// The shortest session timeout with which heartbeats may come at [`HEARTBEAT_QUIET_MS`]: the
/// configuration must admit no shorter one, and no session of a server with another configuration
/// may have one. A follower's contact is up to three such heartbeats old then, or
/// [`HEARD_RETRY_MS`] more if a report is lost; a third of the timeout must be longer, from the
/// moment at which a session is opened.
pub const QUIET_TIMEOUT_MS_MIN: u32 = 4_000;

const _: () = assert!(
    QUIET_TIMEOUT_MS_MIN as u64 / 3 > 3 * HEARTBEAT_QUIET_MS + HEARD_RETRY_MS + CLOCK_INTERVAL_MS
);

/// Ticks of the replica between the heartbeats that raft-rs sends by itself: as few as it allows.
/// Loop sends its own, with the question that proves contact, at [`HEARTBEAT_MS`].
pub const HEARTBEAT_TICKS: u32 = 19;

/// How long a member may be without contact before it must apply everything that is committed, and
/// only then may hand over again what a leader was given: another member may have taken its place
/// meanwhile.
pub const PROOF_SILENCE_MS: u64 = REPLACED_SILENCE_MS / 2;

/// How long the log's disk may take to make something durable before a leader hands over, unless
/// configured (`quorate.diskStallMs`). A disk that is often that slow may take longer.
pub const DISK_STALL_MS: u64 = 1_000;

/// How long a disk may take at most before it stalls, however slow it usually is.
pub const DISK_STALL_MS_MAX: u64 = 10_000;

/// The last minutes from which a disk's usual slowness is computed.
pub const STALL_HISTORY_MINUTES: usize = 8;

/// Minutes that must be known before a usual slowness is computed.
pub const STALL_MINUTES_MIN: usize = 3;

/// Length of a minute of that history.
pub const STALL_MINUTE_MS: u64 = 60_000;

/// Bytes of entries that wait for this member's disk while a quorum of the others has them. A
/// leader packs no more, and a follower takes no more, as if the link had lost them.
pub const PERSISTING_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How often a leader offers a snapshot again to a member that did not take it.
pub const OFFER_INTERVAL_MS: u64 = 1_000;

/// How long a piece of a snapshot may take before it is asked for again.
pub const PIECE_PATIENCE_MS: u64 = 2_000;

/// How long a member asks a holder other than the leader for a piece of a snapshot, before it tells
/// the leader that the piece does not come.
pub const HOLDER_PATIENCE_MS: u64 = 3 * PIECE_PATIENCE_MS;

/// How often a leader asks a member for a snapshot that another one needs, until it has an answer:
/// the first question after the snapshot is durable gets it.
pub const LEND_INTERVAL_MS: u64 = 100;

/// How long a lender may take until its snapshot is durable: enough for a state of several
/// gigabytes.
pub const LEND_PATIENCE_MS: u64 = 120_000;

/// How long a leader waits for a member that can lend, if none of the others can yet, before it
/// takes a snapshot itself: a leader that has just begun does not know the others yet.
pub const LENDER_PATIENCE_MS: u64 = 2_000;

/// How often a lender may fail to supply a snapshot to one member before it is not asked any more.
pub const LEND_FAILURES_MAX: u32 = 2;

/// How long a member that is sent nothing remains known as one that needs a snapshot: it repeats
/// the need with each answer to a heartbeat.
pub const BORROWER_SILENCE_MS_MAX: u64 = 10_000;

/// Bytes of a snapshot's file in one piece to another member.
pub const FETCHED_PIECE_BYTES: usize = 1024 * 1024;

/// How long the disk must be idle until the mark that says "all of this is durable" is written.
pub const DISK_IDLE_MS: u64 = 100;

/// How often a full disk is tried again.
pub const DISK_FULL_RETRY_MS: u64 = 500;

/// Bytes of log that must still fit when the disk is full: commands under way that were accepted
/// before. Below this, writes are refused. A larger request (`jute.maxbuffer` allows it) may find
/// no room after it was accepted; it is answered when there is some.
pub const ROOM_BYTES_MIN: u64 = 2 * 1024 * 1024;

/// How often a failed snapshot is tried again that is to make room on a full disk.
pub const SNAPSHOT_RETRY_MS: u64 = 10_000;

/// Bytes of growth for which room for the next snapshot is set aside at least. Writes are refused
/// when this much is left: the writes under way then need less.
pub const SNAPSHOT_ROOM_STEP_BYTES: u64 = 1024 * 1024;

/// How long writes wait at most for the snapshot thread to say whether the next snapshot has room.
/// A disk that hangs for longer must not stop them: the log may be on another one.
pub const SNAPSHOT_ROOM_ANSWER_MS_MAX: u64 = 3_000;

/// How often room for the next snapshot is looked for while there is none.
pub const SNAPSHOT_ROOM_RETRY_MS: u64 = 500;

/// Snapshots that are kept, the newest included. If there is no room for another beside them, only
/// the newest is kept.
pub const SNAPSHOTS_KEPT: usize = 2;

/// Bytes of a piece of a snapshot's image.
pub const SNAPSHOT_PIECE_BYTES: usize = 1024 * 1024;

/// Slots of the tree that one step of a freeze walks.
pub const SNAPSHOT_STEP_SLOTS_MAX: u32 = 4_096;

/// Bytes of log after which a snapshot is taken, if the configuration does not say. A start holds
/// the log behind its snapshot in memory, and applies this much in half a second. ZooKeeper's
/// `snapSizeLimitInKb` is 4 GiB; there the number of commands decides.
pub const SNAPSHOT_LOG_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;

/// A snapshot for the size of the log is due after the bytes of the state divided by this, where
/// that is more: so such snapshots write at most twice as much as clients do, before compression,
/// however large the state is.
pub const SNAPSHOT_LOG_SHARE: u64 = 2;

/// Largest value that a summary's histogram can tell from larger ones: an hour in ms.
pub const SUMMARY_VALUE_MAX: u64 = 3_600_000;

/// Significant decimal digits of a summary's quantiles; with these a summary takes 36 KiB.
pub const SUMMARY_DIGITS: u8 = 2;

/// How long equal values of a summary are counted as one run.
pub const SUMMARY_RUN_MS: u64 = 1_000;

/// How long values go into one histogram before the other takes its turn: quantiles are of the last
/// five to ten minutes. The client of Prometheus that ZooKeeper uses keeps ten.
pub const SUMMARY_TURN_MS: u64 = 300_000;

/// First elements of paths for which one Front counts reads and writes separately; the others are
/// counted together. ZooKeeper has no bound. A scrape shows six lines of each.
pub const NAMESPACES_MAX: usize = 256;

/// Bytes of a first element of a path. A longer one is counted with the others.
pub const NAMESPACE_BYTES_MAX: usize = 128;

/// How long each Front only counts slow requests after it logged one.
pub const SLOW_REQUEST_INTERVAL_MS: u64 = 1_000;

/// Watches that a runtime looks at in one go for a list of them. Between two pages it serves
/// clients.
pub const WATCH_PAGE_COUNT: usize = 2_048;

/// Bytes of paths in a page of watches, or one path if longer.
pub const WATCH_PAGE_BYTES: usize = 256 * 1024;

/// Connections that a runtime looks at in one go for a list of them.
pub const CONNECTION_PAGE_COUNT: usize = 1_024;

/// Servers that vote, as configured and as an ensemble begins. A configuration with more is
/// refused.
pub const VOTERS_MAX: usize = replica::limits::MEMBERS_MAX;

/// URLs for etcd's clients that a server tells the others. A configuration with more is refused.
pub const CLIENT_URLS_MAX: usize = 8;

/// Bytes of such a URL: a scheme, a DNS name and a port.
pub const CLIENT_URL_BYTES_MAX: usize = 300;

/// Bytes of a hello.
pub const HELLO_BYTES_MAX: usize =
    64 + 2 * 8 * VOTERS_MAX + CLIENT_URLS_MAX * (2 + CLIENT_URL_BYTES_MAX);

/// Bytes of a message to another member: a message of the replica, or batches, of which the last
/// may be as large as an entry.
pub const PEER_BODY_BYTES_MAX: usize = replica::limits::MESSAGE_BYTES_MAX + (1 << 20);

const _: () = assert!(EXPIRY_MARGIN_MS > 2 * LEASE_ADVANCE_MS_MAX);
// A pause must not use up the time that each deadline includes.
const _: () = assert!(LEASE_ADVANCE_MS_MAX < HEARING_MS_MAX);
const _: () = assert!(CONNECTION_IDENTITIES_MAX < machine::limits::IDENTITIES_MAX);
const _: () =
    assert!(FORWARD_BYTES_MAX + machine::limits::ENTRY_BYTES_MAX + 64 <= PEER_BODY_BYTES_MAX);
const _: () = assert!(8 * HEARD_SESSIONS_MAX + 64 <= PEER_BODY_BYTES_MAX);
const _: () = assert!(OUTPUT_BYTES_MAX < OUTPUT_BYTES_LIMIT);
const _: () = assert!(SMALL_REPLY_BYTES < OUTPUT_BYTES_MAX);
const _: () = assert!((OUTPUT_BYTES_MAX as u64) < REPLIES_BYTES_TIGHT);
const _: () = assert!(REPLIES_BYTES_TIGHT < REPLIES_BYTES_MAX);
const _: () = assert!(REPLIES_BYTES_CALM + MULTI_READ_BYTES_MAX < REPLIES_BYTES_MAX);
// A batch fits an entry, however many connections share it, and so does the largest request.
const _: () = assert!(
    machine::limits::BATCH_COMMANDS_MAX * CONNECTION_IDENTITY_BYTES_MAX
        + 2 * machine::limits::BATCH_BYTES_MAX
        <= machine::limits::ENTRY_BYTES_MAX
);

/// Pieces of a snapshot that a start decodes at once while the ones before are installed: enough
/// that handing them over costs nothing, few enough that they take some 20 MB of memory.
pub const START_PIECES: usize = 4;

/// Bytes of entries that a start decodes at once while the ones before are applied: enough that
/// handing them over costs little, few enough that the decoded commands stay in a core's cache.
pub const REPLAY_STEP_BYTES: usize = 1 << 20;

/// Bytes of entries that a start applies before it frees them: the znodes that they create reuse
/// their memory.
pub const REPLAY_WINDOW_BYTES: usize = 16 << 20;

/// Commands that a start looks up in the tree together, as Apply does with the commands of a step.
pub const REPLAY_LOOK_AHEAD_COMMANDS: usize = 32;

/// Entries between two digests that a member compares with others: each whose index is a multiple
/// of this. Often enough to find a state that differs within seconds of writing, and seldom enough
/// to cost nothing.
pub const DIGEST_INTERVAL_ENTRIES: u64 = 128;

/// Indexes at which a leader keeps members' digests; it forgets the oldest. Followers are hardly
/// ever further behind each other, and a comparison that is missed is made at the next index.
pub const DIGEST_CHECKS_MAX: usize = 64;

/// Entries for which a member keeps the digest of its own state. A leader compares the digest of a
/// lent snapshot with it, and asks for a newer snapshot if it is older. More than are written while
/// a large state is, in 4 MiB.
pub const OWN_DIGESTS_MAX: usize = 1 << 18;

/// How long a leader whose state is not that of the majority tries to hand over before it resigns.
pub const DIFFERS_HAND_OVER_MS: u64 = 1_000;

/// Calls of etcd's clients that one Front has under way. One more is refused as too many requests.
pub const ETCD_CALLS_MAX: usize = 100_000;

/// How long a call waits for another member to lead, in ms (`EtcdServer.MoveLeader` waits for an
/// election timeout).
pub const ETCD_TRANSFER_MS_MAX: u64 = 3_000;

/// How long a call of an etcd client may take, in ms: 5 s, and two election timeouts of 1 s, as in
/// etcd 3.6 (`ServerConfig.ReqTimeout`).
pub const ETCD_CALL_MS_MAX: u64 = 7_000;

/// The time, in ms, in which a refused removal of a cancelled call's key is repeated. Then the key
/// goes with its lease.
pub const LOCK_REMOVAL_MS_MAX: u64 = 60_000;

/// Bytes of keys and values after which a piece of a streamed range ends. The value that reaches it
/// is still in the piece, so a piece has up to 1.5 MiB more. etcd 3.7 begins with 10 keys and aims
/// at 1.5 MiB; smaller pieces let more slow clients be served within the room for responses.
pub const ETCD_PIECE_BYTES: usize = 256 * 1024;

/// Bytes of a reference to a version of a key, which a response holds until it is encoded.
pub const ETCD_REFERENCE_BYTES: u64 = 16;

/// Items of a response (versions, keys, leases, operations) that one step of measuring or writing
/// it looks at: some 100 us. A response with more is encoded in steps, and others go on in between.
pub const ETCD_ENCODED_ITEMS_MAX: usize = 2_048;

/// Bytes after which a piece of a response that is encoded in pieces ends. It has up to one version
/// more.
pub const ETCD_ENCODED_BYTES: usize = 64 * 1024;

/// Keys that the reads of one hold of the state's lock look at: some 100 us at most. A longer read
/// of a range goes on in another hold.
pub const ETCD_HOLD_KEYS_MAX: u64 = 1_000;

/// Keys that a transaction may look at, beside its largest single operation. One that looks at more
/// is refused with `request is too large`. etcd has no bound: it does the work while everybody
/// waits.
pub const ETCD_TXN_KEYS_MAX: u64 = 1_000_000;

/// What it costs to look up how many keys a range has, in keys that are looked at.
pub const ETCD_COUNT_COST_KEYS: u64 = 8;

/// Tokens that one hold of the state's lock compares with the state: some 50 us.
pub const ETCD_HOLD_TOKENS_MAX: usize = 256;

/// Keys of a piece of a streamed range: a read hold of the lock stays short.
pub const ETCD_PIECE_KEYS_MAX: usize = 1_000;

/// Bytes of messages that wait on one watch stream. The driver gets as many at a time. A watcher
/// whose stream has no room reads its events from the history later.
pub const ETCD_WATCH_BATCH_BYTES: usize = 64 * 1024;

/// Bytes of messages that wait on all watch streams of a Front, beside one message of each stream.
pub const ETCD_WATCH_QUEUES_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Bytes of encoded events that are kept for all watchers that get the same.
pub const ETCD_WATCH_SHARED_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a message to a watcher that asked for fragments, as in etcd: `max-request-bytes` and
/// 512 KiB (`v3rpc.sendFragments`). A single event may be larger.
pub const ETCD_WATCH_MESSAGE_BYTES: usize = 2 * 1024 * 1024;

/// Requests of a watch stream that are not done. At this limit the client waits.
pub const ETCD_WATCH_REQUESTS_MAX: usize = 64;

/// Revisions in one message to a watcher that reads the history, as in etcd
/// (`mvcc.watchBatchMaxRevs`).
pub const ETCD_WATCH_REVISIONS_MAX: usize = 1_000;

/// Events that are looked at in one hold of the lock for watchers that read the history: some 100
/// us. A request counts as eight.
pub const ETCD_WATCH_HOLD_EVENTS_MAX: usize = 500;

/// New events that a Front matches against its watchers at a time, and watchers that it looks at
/// for them. The events of one revision are matched together.
pub const ETCD_WATCH_MATCHED_EVENTS_MAX: usize = 4_096;

/// Waits of etcd v2 of one Front, so that they leave room for other calls. One more is refused as
/// too many requests.
pub const ETCD_V2_WAITS_MAX: usize = ETCD_CALLS_MAX / 2;

/// Events of etcd v2 that a wait is given at once. The others are read from the history later.
pub const ETCD_V2_WAIT_EVENTS_MAX: usize = 100;

/// Bytes of events after which a wait of etcd v2 is given no more at once.
pub const ETCD_V2_WAIT_BYTES: u64 = 64 * 1024;

/// Waits of etcd v2 that look into the history in one hold of the state's lock, each at up to 1,000
/// events, some 10 us.
pub const ETCD_V2_WAIT_LOOKS_MAX: usize = 16;

/// Watchers of one Front. One more is refused as too many requests.
pub const ETCD_WATCHERS_MAX: usize = 4_000_000;

/// Bytes of the keys that the watchers of a Front have. Beyond it a watcher of further keys is
/// refused as too many requests.
pub const ETCD_WATCH_KEY_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How long a watcher that asked for progress is without events until it is told, in ms, unless
/// `watch-progress-notify-interval` says otherwise (`v3rpc.progressReportInterval`). Up to a tenth
/// is added, so that not all streams are told at once.
pub const ETCD_PROGRESS_MS: u64 = 600_000;

/// How long a member is without contact until its watch streams that require a leader end, in ms:
/// three election timeouts of 1 s, as in etcd (`v3rpc.monitorLeader`).
pub const ETCD_NO_LEADER_MS: u64 = 3_000;
