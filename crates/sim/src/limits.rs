//! Named bounds of a simulated run. Times are virtual unless they say otherwise.

/// Length of a tick of the replica in an ensemble of one, as in the shell that ships.
pub const RAFT_TICK_ALONE_MS: u64 = 100;

/// Length of a tick of the replica in an ensemble of several members.
pub const RAFT_TICK_MS: u64 = 20;

/// How often a connection runtime looks at the clock, as in the shell that ships.
pub const FRONT_TICK_US: u64 = 100_000;

/// A runtime that is no later than this looks at the clock again as if it had been in time, so that
/// two looks may be closer to each other than a tick (`tokio::time::Interval`).
pub const FRONT_TICK_LATE_US_MAX: u64 = 5_000;

/// How often a connection runtime with calls of etcd's clients looks at the clock, as in the shell
/// that ships.
pub const ETCD_TICK_US: u64 = 100_000;

/// How often a connection runtime without such calls looks at the clock, as in the shell that
/// ships.
pub const ETCD_TICK_IDLE_US: u64 = 5_000_000;

/// How long a call of an etcd client may take when nothing goes wrong any more, beside the members'
/// own bound: a look at the clock, Loop's answer and the network, with slow syncs in between.
pub const ETCD_ANSWER_US_MAX: u64 =
    member::fronts::etcd::limits::ETCD_CALL_MS_MAX * 1_000 + 5_000_000;

/// How long a client may wait for the promise of a revision for all its watches, at a member that
/// has answered a linearizable read with that revision: the client asks every 100 ms. Beside that
/// it may still be late to take earlier messages.
pub const ETCD_PROGRESS_US_MAX: u64 = crate::etcd_clients::watcher::TAKEN_LATE_US_MAX + 1_000_000;

/// How long a member is without contact until the watch streams end that require a leader.
pub const ETCD_NO_LEADER_US: u64 = member::fronts::etcd::limits::ETCD_NO_LEADER_MS * 1_000;

/// How much later the client of such a stream knows, at most: contact is counted from what was
/// still on its way, the member looks at the clock, and the client takes earlier messages late.
pub const ETCD_LEADERLESS_US_MAX: u64 = crate::etcd_clients::watcher::TAKEN_LATE_US_MAX + 2_000_000;

/// How long a client may wait for a lock when its key is the first in the states of all members and
/// nothing goes wrong any more: there is a leader again, the event comes, beside messages that the
/// client is late to take, and then it reads, twice at most.
pub const LOCK_PASSED_US_MAX: u64 =
    READY_US_MAX + crate::etcd_clients::watcher::TAKEN_LATE_US_MAX + 2 * ETCD_ANSWER_US_MAX;

/// How long the key of a session that is over may be there when nothing goes wrong any more: there
/// is a leader again, which gives each lease its whole time.
pub const KEY_OUTLIVES_US_MAX: u64 = READY_US_MAX + LEASES_END_US_MAX;

/// Keys that the reads of one hold of the state's lock look at: some ranges take several holds.
pub const ETCD_HOLD_KEYS_MAX: u64 = 3;

/// Bytes after which a piece of a streamed read ends: a key or two, so that most reads have several
/// pieces.
pub const ETCD_PIECE_BYTES: usize = 20;

/// How long before a term begins a member may have given up a command that is proposed in it: the
/// time that a message to the new leader was under way.
pub const ETCD_FENCE_US_MAX: u64 = 2_000_000;

/// How long after its member has given it up a command may take effect, and how long nothing must
/// have gone wrong then: the message to the leader, syncs that are slow, and a round of messages.
pub const ETCD_LATE_US_MAX: u64 = 3_000_000;

/// Bytes of a request that a member takes at most, as with ZooKeeper's `jute.maxbuffer`.
pub const FRAME_BYTES_MAX: u32 = 0xf_ffff;

/// The least number of commands that a drawn throttle lets one connection runtime have under way.
/// With fewer, ten clients do not finish within [`FINISH_US_MAX`].
pub const COMMANDS_MAX_LEAST: u64 = 4;

/// Bytes of a request that a drawn throttle takes for large, at least. A client whose watches, set
/// again on each connection, are too large a request never gets on.
pub const LARGE_REQUEST_BYTES_LEAST: u64 = 8_000;

/// How long a member that is configured for that is without a leader before it serves reads, as in
/// the shell that ships with a `tickTime` of two seconds at most.
pub const READ_ONLY_AFTER_MS: u64 = 2_000;

/// Operations of a client in a run in which members serve reads without a leader, at least.
pub const READ_ONLY_OPS: u64 = 100;

/// The longest pause between two bursts of such a client is at least this long.
pub const READ_ONLY_THINK_US: u64 = 1_000_000;

/// How long such a run cuts members off: several times as long as members wait for a leader.
pub const SECLUDED_US: core::ops::RangeInclusive<u64> = 4_000_000..=25_000_000;

/// The longest that a client stays with a member that serves it reads only, before it looks for
/// another one.
pub const READ_ONLY_US_MAX: u64 = 20_000_000;

/// Bytes read from a socket at once, as in the shell that ships.
pub const READ_BYTES: u64 = 16 * 1024;

/// After the faults have stopped, a started server serves clients within this time.
pub const READY_US_MAX: u64 = 30_000_000;

/// After the faults have stopped, all clients have all answers within this time.
pub const FINISH_US_MAX: u64 = 600_000_000;

/// How long a client that visits a member waits for its session, at the end of a run. Where the
/// connection is lost it dials again.
pub const VISIT_PATIENCE_US: u64 = 20_000_000;

/// The least timeout that a client asks for when it visits a member. A follower serves no session
/// while its contact is older than a third of the timeout, and with the latencies here contact is
/// up to half a second old although nothing is wrong.
pub const VISIT_TIMEOUT_MS_MIN: u32 = 3_000;

/// Events of one run. A run that needs more goes round in circles.
pub const EVENTS_MAX: u64 = 20_000_000;

/// Disk operations of the fixed script at which a crash is tried, at most.
pub const SCRIPT_OPS_MAX: u64 = 5_000;

/// How long Apply waits before it looks again whether a runtime has taken its mail, as in the shell
/// that ships.
pub const MAIL_WAIT_US: u64 = 1_000;

/// How late the threads of a process run, summed over all threads that a client's bytes pass: each
/// of them is woken some 5 ms late at most ([`crate::world::World::hop_us`]).
pub const LATE_US_MAX: u64 = 50_000;

/// How long a server may take to hear a client whose bytes have arrived, in its own waking time:
/// a report interval, the look at the clock that ends it, and what its threads are late.
pub const HEARING_US_MAX: u64 =
    (member::limits::HEARD_INTERVAL_MS * 1_000) + FRONT_TICK_US + LATE_US_MAX;

/// How long a session may live on when its client is silent, beside its timeout and a tick: its
/// last report, what the deadline includes, a look at the clock, the log's syncs, and 1 % of some
/// seconds because each look at the clock drops a fraction of a millisecond.
pub const LINGER_US_MAX: u64 = 3_000_000;

/// How much of a pause of the process may count as silence of its clients: the longest rest that
/// Loop may have planned. Near a deadline its rests are shorter
/// (`member::order::limits::EXPIRY_MARGIN_MS`), so no client that spoke is taken for silent.
pub const PAUSE_COUNTS_US: u64 = member::order::limits::LOOK_MS_MAX * 1_000;
const _: () =
    assert!(member::order::limits::LOOK_MS_MAX >= member::spaces::limits::LEASE_ADVANCE_MS_MAX);

/// The longest that the syncs of one round of a thread take, however slow the disk is.
pub const SYNC_US_MAX: u64 = 3_000_000;

/// The longest sync of a usual disk. While a longer one lasts, the others may hear that a leader is
/// gone.
pub const USUAL_SYNC_US_MAX: u64 = 100_000;

/// The longest that a disk hangs: some times as long as a leader bears it.
pub const HANG_US_MAX: u64 = 18 * member::order::limits::DISK_STALL_MS * 1_000;

/// The longest period of a process that stutters.
pub const STUTTER_US_MAX: u64 = 5_000_000;

/// How long a process that is told to stop waits for another member to lead, as in the shell that
/// ships.
pub const LEAVE_US_MAX: u64 = 1_500_000;

/// How often a process that is told to stop looks whether another member leads.
pub const LEAVE_LOOK_US: u64 = 5_000;

/// The number of directories that were set aside at which someone looks at them and removes them.
pub const SET_ASIDE_MAX: usize = 3;

/// How many bytes are damaged, one after the other, to find one whose damage the next start
/// notices.
pub const ROT_TRIES_MAX: u64 = 8;

/// Rounds in which each client does one more operation. After them a wrong state must have been
/// found out: they are two intervals of digests.
pub const FIND_OUT_TRIES_MAX: u64 = 2 * member::leader::limits::DIGEST_INTERVAL_ENTRIES;

/// The least number of entries that must still come before digests are compared when a state is
/// made wrong.
pub const WRONG_ENTRIES_MIN: u64 = 2;

/// The largest number of such entries. It is small because nothing else goes wrong until the wrong
/// state is found out.
pub const WRONG_ENTRIES_MAX: u64 = 24;

/// How long a member that has all of what it forgot is watched before it counts as honest: what it
/// sent before may still be on its way into the log.
pub const HONEST_US_MIN: u64 = 2_000_000;

/// Bytes of one piece of a snapshot that someone brings to restore it.
pub const RECEIVED_PIECE_BYTES: usize = 16 * 1024;

/// The upper bound of a network's latency. The latency is the least time that a frame takes between
/// two members.
pub const LINK_LATENCY_US_MAX: u64 = 20_000;

/// How long a member waits until it dials again, at most.
pub const DIAL_US_MAX: u64 = 1_000_000;

/// Bytes on their way on one link. What is sent beyond is dropped.
pub const LINK_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How long a link that carries nothing is taken for alive, at least.
pub const LINK_PATIENCE_US_MIN: u64 = 500_000;

/// The longest that a link that carries nothing is taken for alive; also how late one end may learn
/// that the other's machine is gone.
pub const LINK_PATIENCE_US_MAX: u64 = 15_000_000;

/// How much faster or slower than the world's the clock of a machine goes at most, in millionths:
/// ten times what a quartz of a common server does.
pub const CLOCK_PPM_MAX: u64 = 500;

/// How long the news that a client was heard may take from its member to the leader, beside
/// [`HEARING_US_MAX`]: a look at the clock of each Loop, the heartbeat with which the report before
/// is answered, twice the latency and what threads are late.
pub const HEARD_AT_LEADER_US_MAX: u64 = HEARING_US_MAX
    + (2 * RAFT_TICK_MS + member::limits::HEARTBEAT_QUIET_MS) * 1_000
    + 4 * LINK_LATENCY_US_MAX;

/// How late a member may fall silent for a session that the others have ended, beside a third of
/// its timeout: a look at the clock, a report of who was heard, and some syncs of its disk, each of
/// which may take 400 ms.
pub const FALLS_SILENT_US_MAX: u64 = 2_500_000;

/// How long a frame that was lost, came twice or overtook another one explains that others do not
/// know what they should: a report of who was heard, or its answer, is missed and sent again, and
/// each Loop looks at the clock.
pub const HARM_LASTS_US: u64 =
    (member::order::limits::HEARD_RETRY_MS + 2 * RAFT_TICK_MS) * 1_000 + 4 * LINK_LATENCY_US_MAX;

/// Bytes of input that a connection runtime may hold in a server whose clients wait for nothing. A
/// ping of 12 bytes may have arrived in part from each of ten clients.
pub const FRONT_INPUT_IDLE_MAX: usize = 120;

/// Bytes of output that a connection runtime may hold in such a server: ten answers to pings, of 20
/// bytes each.
pub const FRONT_OUTPUT_IDLE_MAX: usize = 200;

/// Batches of Loop itself, such as a removal of containers, that may be under way in a server whose
/// clients wait for nothing.
pub const OWN_BATCHES_IDLE_MAX: usize = 4;

/// Bytes of such batches.
pub const OWN_BYTES_IDLE_MAX: usize = 64 * 1024;

/// Inputs that Loop has not looked at in a server that is idle: heartbeats and reports.
pub const LOOP_INPUTS_IDLE_MAX: usize = 64;

/// The largest number of members of an ensemble.
pub const MEMBERS_MAX: usize = 5;

/// The mean time between two questions for a higher level, at most.
pub const ASK_INTERVAL_US_MAX: u64 = 8_000_000;

/// The longest time from a question for a higher level to a fault beside it: about as long as a
/// raise takes in a slow network.
pub const STRIKE_US_MAX: u64 = 1_000_000;

/// The longest that a server stays with a build that does not know the ensemble's level while
/// faults come. Then somebody installs a newer build.
pub const TOO_OLD_US_MAX: u64 = 20_000_000;

/// The longest that a server stays with such a build when no faults come any more.
pub const TOO_OLD_CALM_US_MAX: u64 = 3_000_000;

/// How long a raise takes that somebody asked for when all is well and every member knows the
/// level: a learner that is gone must be silent for a while before it is removed, by a leader that
/// has listened for as long, and a member asks the leader once a second.
pub const RAISE_US_MAX: u64 = (2 * member::order::limits::REPLACED_SILENCE_MS
    + 5 * member::membership::limits::RAISES_INTERVAL_MS)
    * 1_000;

/// How long a run checks that the level does not rise while a member does not know it.
pub const NO_RAISE_US: u64 = 4 * member::membership::limits::RAISES_INTERVAL_MS * 1_000;

/// How much earlier than the world's clock a leader's clock may say that a lease has lived for its
/// time of a few seconds: it goes up to 500 millionths faster.
pub const LEASE_SLACK_US: u64 = 10_000;

/// How much a clock that jumps ahead takes from the time of a lease: one look at the clock.
pub const LEASE_JUMP_US_MAX: u64 = (member::order::limits::LOOK_MS_MAX + 50) * 1_000;

/// How long after the last call that may keep one alive all leases must be over: the longest time
/// to live that is drawn, and some time for the end and for a new leader.
pub const LEASES_END_US_MAX: u64 = 15_000_000;

/// The longest that work on a password takes: as long as some in a queue, in the server that ships.
pub const PASSWORD_US_MAX: u64 = 1_000_000;

/// The longest that the body of a request of HTTP comes behind its head.
pub const HTTP_BODY_US_MAX: u64 = 500_000;

/// How long a simple token of etcd's users may stay unused, in ms. Long runs reach it.
pub const TOKEN_TTL_MS: u64 = 20_000;

/// How long after the end of its leadership a member may be taken for the leader by another one, in
/// us: until the other hears of the next, or stops leading itself.
pub const MOVED_LATE_US_MAX: u64 = 5_000_000;
