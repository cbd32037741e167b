//! Named bounds of a simulated run. Times are in virtual time unless a comment says otherwise.

/// Length of a Raft tick in an ensemble of one, as in the real server.
pub const RAFT_TICK_ALONE_MS: u64 = 100;

/// Length of a Raft tick in an ensemble of several members.
pub const RAFT_TICK_MS: u64 = 20;

/// How often the timer of a ZooKeeper connection runtime fires, as in the real server.
pub const FRONT_TICK_US: u64 = 100_000;

/// If a runtime's timer fires at most this late, the next firing is planned as if this one had been
/// on time. So two firings may be less than a tick apart (as in `tokio::time::Interval`).
pub const FRONT_TICK_LATE_US_MAX: u64 = 5_000;

/// How often the timer of an etcd connection runtime fires while it has calls, as in the real
/// server.
pub const ETCD_TICK_US: u64 = 100_000;

/// How often the timer of an etcd connection runtime fires while it has no calls, as in the real
/// server.
pub const ETCD_TICK_IDLE_US: u64 = 5_000_000;

/// The longest that an etcd client waits for an answer once the faults have stopped: the members'
/// own bound, plus a timer, Loop's answer, the network, and slow syncs in between.
pub const ETCD_ANSWER_US_MAX: u64 =
    member::fronts::etcd::limits::ETCD_CALL_MS_MAX * 1_000 + 5_000_000;

/// After a client has seen a revision in a linearizable read of a member, the longest that it waits
/// until that member promises progress of all its watches up to the revision. The client asks every
/// 100 ms, and may handle earlier messages late.
pub const ETCD_PROGRESS_US_MAX: u64 = crate::etcd_clients::watcher::TAKEN_LATE_US_MAX + 1_000_000;

/// How long a member must be without a leader until it ends the watch streams that require a
/// leader.
pub const ETCD_NO_LEADER_US: u64 = member::fronts::etcd::limits::ETCD_NO_LEADER_MS * 1_000;

/// How much later than [`ETCD_NO_LEADER_US`], at most, the client learns that its stream has ended
/// for want of a leader: messages of the leader may have been in flight, the member's timer must
/// fire, and the client may handle earlier messages late.
pub const ETCD_LEADERLESS_US_MAX: u64 = crate::etcd_clients::watcher::TAKEN_LATE_US_MAX + 2_000_000;

/// The longest that a client waits for a lock once its key comes first in the states of all members
/// and the faults have stopped: a leader is elected, the event arrives behind messages that the
/// client handles late, and the client reads at most twice.
pub const LOCK_PASSED_US_MAX: u64 =
    READY_US_MAX + crate::etcd_clients::watcher::TAKEN_LATE_US_MAX + 2 * ETCD_ANSWER_US_MAX;

/// The longest that a key outlives its session once the faults have stopped: a leader is elected,
/// and a new leader gives each lease its full time again.
pub const KEY_OUTLIVES_US_MAX: u64 = READY_US_MAX + LEASES_END_US_MAX;

/// The most keys that etcd reads look at under one hold of the state's lock: small, so that some
/// ranges take several holds.
pub const ETCD_HOLD_KEYS_MAX: u64 = 3;

/// The size at which a piece of a streamed read ends: one or two keys, so that most reads have
/// several pieces.
pub const ETCD_PIECE_BYTES: usize = 20;

/// How long after a member gave a command up the term of a leader may begin that still proposes the
/// command: as long as a message to the new leader takes.
pub const ETCD_FENCE_US_MAX: u64 = 2_000_000;

/// How long after its member gave it up a command may take effect, if nothing went wrong during all
/// that time: the message to the leader, slow syncs and a round of messages.
pub const ETCD_LATE_US_MAX: u64 = 3_000_000;

/// The largest request of a ZooKeeper client that a member accepts, as with ZooKeeper's
/// `jute.maxbuffer`.
pub const FRAME_BYTES_MAX: u32 = 0xf_ffff;

/// The lowest drawn throttle of concurrent commands per connection runtime. With fewer, ten clients
/// do not finish within [`FINISH_US_MAX`].
pub const COMMANDS_MAX_LEAST: u64 = 4;

/// The lowest drawn threshold above which a request counts as large. A client that sets all its
/// watches again on each connection would never get on if that request were too large.
pub const LARGE_REQUEST_BYTES_LEAST: u64 = 8_000;

/// How long a member that is configured for read-only mode must be without a leader before it
/// serves reads: as long as in the real server with a `tickTime` of at most two seconds.
pub const READ_ONLY_AFTER_MS: u64 = 2_000;

/// The least number of operations per client in a run with read-only mode.
pub const READ_ONLY_OPS: u64 = 100;

/// In a run with read-only mode, a client's longest pause between two bursts is at least this.
pub const READ_ONLY_THINK_US: u64 = 1_000_000;

/// How long a partition lasts in a run with read-only mode: several times as long as members wait
/// for a leader.
pub const SECLUDED_US: core::ops::RangeInclusive<u64> = 4_000_000..=25_000_000;

/// The longest that a client stays with a member in read-only mode before it looks for another.
pub const READ_ONLY_US_MAX: u64 = 20_000_000;

/// Bytes that one read takes from a socket, as in the real server.
pub const READ_BYTES: u64 = 16 * 1024;

/// The longest that a started server takes to serve clients, once the faults have stopped.
pub const READY_US_MAX: u64 = 30_000_000;

/// The longest that clients take to get all their answers, once the faults have stopped.
pub const FINISH_US_MAX: u64 = 600_000_000;

/// How long a client that visits a member at the end of a run waits for its session. If it loses
/// the connection, it dials again.
pub const VISIT_PATIENCE_US: u64 = 20_000_000;

/// The lowest session timeout that a client asks for when it visits a member. A follower serves no
/// session if its last contact with the leader is older than a third of the timeout, and with the
/// latencies here contact is up to half a second old in good times.
pub const VISIT_TIMEOUT_MS_MIN: u32 = 3_000;

/// The most events of one run. A run with more is assumed to loop.
pub const EVENTS_MAX: u64 = 20_000_000;

/// The most disk operations of the fixed script at which tests try a crash.
pub const SCRIPT_OPS_MAX: u64 = 5_000;

/// How long Apply waits until it checks again whether a runtime has taken its messages, as in the
/// real server.
pub const MAIL_WAIT_US: u64 = 1_000;

/// The total scheduling delay of all threads that handle a client's bytes: each thread wakes up at
/// most about 5 ms late ([`crate::world::World::hop_us`]).
pub const LATE_US_MAX: u64 = 50_000;

/// The longest that a server takes to note that it heard a client, from the arrival of the bytes,
/// not counting pauses of the process: a report interval, the timer that ends it, and the delays of
/// threads.
pub const HEARING_US_MAX: u64 =
    (member::limits::HEARD_INTERVAL_MS * 1_000) + FRONT_TICK_US + LATE_US_MAX;

/// How long after its timeout plus a tick the session of a silent client may still exist. That time
/// covers the last report about the client, what Loop adds to deadlines, a timer, syncs of the log,
/// and 1 % of some seconds, since each reading of the clock drops a fraction of a millisecond.
pub const LINGER_US_MAX: u64 = 3_000_000;

/// How much of a pause of the process may count as silence of its clients: the longest sleep that
/// Loop may have planned. Near a deadline Loop sleeps less
/// (`member::order::limits::EXPIRY_MARGIN_MS`), so no client that sent something counts as silent.
pub const PAUSE_COUNTS_US: u64 = member::order::limits::LOOK_MS_MAX * 1_000;
const _: () =
    assert!(member::order::limits::LOOK_MS_MAX >= member::spaces::limits::LEASE_ADVANCE_MS_MAX);

/// The longest that all syncs of one step of a thread take together, however slow the disk is.
pub const SYNC_US_MAX: u64 = 3_000_000;

/// The longest sync of a disk that is not slow. During a longer sync the other members may conclude
/// that the leader is gone.
pub const USUAL_SYNC_US_MAX: u64 = 100_000;

/// The longest hang of a disk: many times as long as a leader tolerates.
pub const HANG_US_MAX: u64 = 18 * member::order::limits::DISK_STALL_MS * 1_000;

/// The longest period of a stuttering process.
pub const STUTTER_US_MAX: u64 = 5_000_000;

/// How long a process that was asked to stop waits for another member to lead, as in the real
/// server.
pub const LEAVE_US_MAX: u64 = 1_500_000;

/// How often a process that was asked to stop checks whether another member leads.
pub const LEAVE_LOOK_US: u64 = 5_000;

/// An operator removes the directories that were set aside once there are this many.
pub const SET_ASIDE_MAX: usize = 3;

/// How many times the simulation flips bits in a random byte, to find a byte whose damage the next
/// start notices.
pub const ROT_TRIES_MAX: u64 = 8;

/// The most rounds, in each of which every client does one more operation, until members must have
/// detected a wrong state: two intervals between digests.
pub const FIND_OUT_TRIES_MAX: u64 = 2 * member::leader::limits::DIGEST_INTERVAL_ENTRIES;

/// A state is made wrong only if at least this many entries are left until digests are compared.
pub const WRONG_ENTRIES_MIN: u64 = 2;

/// A state is made wrong only if at most this many entries are left until digests are compared.
/// Small, since no other fault comes until the wrong state is detected.
pub const WRONG_ENTRIES_MAX: u64 = 24;

/// How long after its start a member that has recovered everything it forgot counts as honest
/// again: messages that it sent before may still be in flight.
pub const HONEST_US_MIN: u64 = 2_000_000;

/// Bytes per piece of a snapshot that an operator restores.
pub const RECEIVED_PIECE_BYTES: usize = 16 * 1024;

/// The largest base latency of the links between members: the least time that a frame takes.
pub const LINK_LATENCY_US_MAX: u64 = 20_000;

/// The longest wait before a member dials again.
pub const DIAL_US_MAX: u64 = 1_000_000;

/// The most bytes in flight on one channel of a link. Frames beyond it are dropped.
pub const LINK_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The least time after which a member gives up a link that carries nothing.
pub const LINK_PATIENCE_US_MIN: u64 = 500_000;

/// The longest time after which a member gives up a link that carries nothing; also the longest
/// until one end notices that the other's machine is gone.
pub const LINK_PATIENCE_US_MAX: u64 = 15_000_000;

/// How much faster or slower than the world's clock a machine's clock runs at most, in millionths:
/// ten times the error of a common server's quartz.
pub const CLOCK_PPM_MAX: u64 = 500;

/// How much longer than [`HEARING_US_MAX`] it takes at most until the leader learns that a member
/// heard a client: a timer of each Loop, the heartbeat that answers the previous report, the
/// latency both ways, and the delays of threads.
pub const HEARD_AT_LEADER_US_MAX: u64 = HEARING_US_MAX
    + (2 * RAFT_TICK_MS + member::limits::HEARTBEAT_QUIET_MS) * 1_000
    + 4 * LINK_LATENCY_US_MAX;

/// A member that has not applied the end of a session may write to the client for a third of the
/// session's timeout and this much longer: a timer, a report of heard sessions, and some syncs of
/// its disk of up to 400 ms each.
pub const FALLS_SILENT_US_MAX: u64 = 2_500_000;

/// How long after a lost, duplicated or reordered frame members may lack information because of it:
/// the report of heard sessions, or its answer, is missed and sent again, and each Loop's timer
/// must fire.
pub const HARM_LASTS_US: u64 =
    (member::order::limits::HEARD_RETRY_MS + 2 * RAFT_TICK_MS) * 1_000 + 4 * LINK_LATENCY_US_MAX;

/// The most input bytes that a connection runtime holds in an idle server: part of a ping of 12
/// bytes from each of ten clients.
pub const FRONT_INPUT_IDLE_MAX: usize = 120;

/// The most output bytes that a connection runtime holds in an idle server: ten answers to pings,
/// of 20 bytes each.
pub const FRONT_OUTPUT_IDLE_MAX: usize = 200;

/// The most batches of Loop's own commands, such as the removal of containers, in flight in an idle
/// server.
pub const OWN_BATCHES_IDLE_MAX: usize = 4;

/// The most bytes of Loop's own batches in flight in an idle server.
pub const OWN_BYTES_IDLE_MAX: usize = 64 * 1024;

/// The most inputs, such as heartbeats and reports, that Loop has not handled in an idle server.
pub const LOOP_INPUTS_IDLE_MAX: usize = 64;

/// The largest number of members of an ensemble.
pub const MEMBERS_MAX: usize = 5;

/// How long the links of a server that has left the list stay, as in the real server
/// (`node::limits::DEPARTED_LINKS_STAY`).
pub const DEPARTED_LINKS_US: u64 = 10_000_000;

/// How long a member that was removed serves on, as in the real server.
pub const REMOVED_SERVES_US: u64 = 1_000_000;

/// How many entries more than a leader allows a member may be behind when it gets its vote: the
/// entry that gives the vote is one of them.
pub const VOTE_LAG_MAX: u64 = 2;

/// How long Loop may not know that its member has lost its leave to hand over commands, in us.
pub const SERVES_ON_US_MAX: u64 = 2_000_000;

/// How long a process that may only join waits for an ensemble, as in the real server
/// (`node::limits::JOIN_LIMIT`).
pub const JOIN_US_MAX: u64 = 10_000_000;

/// The longest time between two attempts of a new server to learn its number.
pub const DISCOVERY_US_MAX: u64 = 3_000_000;

/// The longest time until a machine comes back whose server is listed again, in us.
pub const RETURN_US_MAX: u64 = 20_000_000;

/// How long a machine stays away at least before an operator removes its directory, in us. No
/// leader counts on a member that was silent for so long.
pub const SILENT_US_MIN: u64 = 5_000_000;

/// The longest that an operator leaves the machine of a removed server while faults come.
pub const TAKEN_AWAY_US_MAX: u64 = 60_000_000;

/// How long an operator leaves the machine of a removed server after the faults have stopped.
pub const TAKEN_AWAY_CALM_US: u64 = 2_000_000;

/// The largest mean time between two random requests for a higher level.
pub const ASK_INTERVAL_US_MAX: u64 = 8_000_000;

/// The longest time from a request for a higher level to the fault that is to meet the raise: about
/// as long as a raise takes in a slow network.
pub const STRIKE_US_MAX: u64 = 1_000_000;

/// The longest that a server runs a build below the ensemble's level while faults come. Then an
/// operator installs a newer build.
pub const TOO_OLD_US_MAX: u64 = 20_000_000;

/// The longest that a server runs a build below the ensemble's level after the faults have stopped.
pub const TOO_OLD_CALM_US_MAX: u64 = 3_000_000;

/// The longest that a requested raise takes once the faults have stopped and every member knows the
/// level: a lost learner is removed only after it was silent for a while under a leader that has
/// listened for as long, and a member asks the leader once a second.
pub const RAISE_US_MAX: u64 = (2 * member::order::limits::REPLACED_SILENCE_MS
    + 5 * member::membership::limits::RAISES_INTERVAL_MS)
    * 1_000;

/// How long a run checks that the level does not rise while a member does not know it.
pub const NO_RAISE_US: u64 = 4 * member::membership::limits::RAISES_INTERVAL_MS * 1_000;

/// How much before its time a lease may end on the world's clock, since the leader's clock may run
/// up to 500 millionths fast: that is enough for leases of a few seconds.
pub const LEASE_SLACK_US: u64 = 10_000;

/// How much of a lease's time a jump of the leader's clock may cost: one sleep of Loop.
pub const LEASE_JUMP_US_MAX: u64 = (member::order::limits::LOOK_MS_MAX + 50) * 1_000;

/// All leases must have ended this long after the last call that may keep one alive: the longest
/// drawn time to live, plus time to end it and to elect a leader.
pub const LEASES_END_US_MAX: u64 = 15_000_000;

/// The longest that hashing or checking a password takes: as long as several in a queue do in the
/// real server.
pub const PASSWORD_US_MAX: u64 = 1_000_000;

/// The longest that the body of an HTTP request arrives after its head.
pub const HTTP_BODY_US_MAX: u64 = 500_000;

/// How long an unused simple token of etcd's users stays valid, in ms: short, so that long runs
/// reach its end.
pub const TOKEN_TTL_MS: u64 = 20_000;

/// The longest time, in us, for which another member may still believe that a deposed leader leads:
/// until the member learns of the next leader, or stops leading itself.
pub const MOVED_LATE_US_MAX: u64 = 5_000_000;
