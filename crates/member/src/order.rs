//! Loop: decides the order of commands. It packs clients' batches into log entries, proposes them
//! to Raft, sends what must be durable to the disk thread and what is committed to Apply, and keeps
//! the deadlines of sessions and leases.
//!
//! It never waits: not for the disk, nor for Apply. The driver feeds it whatever has arrived, then
//! calls [`Loop::finish`] and passes on the output. The credits of the Fronts bound what can wait
//! here.

mod clock;
mod contact;
mod counts;
mod disk;
pub(crate) mod forward;
pub(crate) mod hearing;
mod intake;
pub mod limits;
mod members;
mod memberships;
mod options;
mod output;
mod peers;
pub(crate) mod persisting;
mod progress;
mod questions;
mod reads;
mod records;
mod refused;
mod role;
mod room;
mod transfers;

use std::collections::BTreeSet;

use machine::{
    Command, ConnectionId, ControlCommand, LogIndex, MemberId, Origin, Owner, PreparedImage,
};
use replica::{
    Config, Outgoing, PeerStatus, Refused, Replica, ReplicaError, RoleChange, SnapshotMeta, Status,
};

use crate::leader::Leading;
use crate::leader::digests::OwnDigests;
use crate::limits::CLOCK_INTERVAL_MS;
use crate::membership::levels::Levels;
use crate::membership::servers::Servers;
use crate::message::{
    FromApply, FromSnapshot, FrontId, GivenUp, GivenUpAt, LoopInput, SnapshotJob, Ticket, ToApply,
    ToLoop, Unavailable,
};
use crate::order::hearing::Hearing;
use crate::order::limits::{
    ENTRIES_TO_DISK_MAX, EXPIRY_MARGIN_MS, HEARTBEAT_TICKS, LOOK_MS_MAX, PERSISTING_BYTES_MAX,
};
use crate::order::persisting::Persisting;
use crate::peer::{Offer, PeerMessage};
use crate::snapshot::fetch::CatchUp;
use crate::snapshot::schedule::Snapshots;
use crate::spaces::Spaces;
use crate::spaces::look::Look;

use clock::{Clock, Passed};
use contact::Contact;
use intake::Intake;
use members::Members;
use memberships::Memberships;
use progress::Progress;
use reads::Reads;
use records::to_replica;
use role::OwnRole;
use room::Room;

pub use counts::{LoopCounts, LoopHeld};
pub use options::{DiskOptions, Options, Start};
pub use output::{BadPeer, Fetching, Leadership, LoopOutput};
pub use records::{to_restored, to_storage};
pub use refused::{Condemned, InstallRefused};

/// Loop's state. Each field is a part with a module of its own.
pub struct Loop {
    origin: Origin,
    clock: Clock,
    replica: Replica,
    role: OwnRole,
    reads: Reads,
    progress: Progress,
    contact: Contact,
    /// As a follower: the reports to the leader about sessions whose clients were heard from.
    hearing: Hearing,
    intake: Intake,
    persisting: Persisting,
    room: Room,
    spaces: Spaces,
    snapshots: Snapshots,
    /// The snapshot of another member that this one fetches, to replace its own log.
    catch_up: CatchUp,
    members: Members,
    own_digests: OwnDigests,
    counts: LoopCounts,
    output: LoopOutput,
}

impl Loop {
    /// Creates Loop from what a start restored. It is not a leader yet.
    ///
    /// # Errors
    /// The restored state contradicts itself.
    pub fn new(start: Start) -> Result<Loop, ReplicaError> {
        let applied = LogIndex(start.restored.applied_index);
        let options = start.options;
        let (index, term) = (start.restored.snapshot_index, start.restored.snapshot_term);
        let snapshots = Snapshots::new(
            options.disk.snapshot_commands,
            options.disk.snapshot_log,
            storage::wal::SnapshotPoint { index, term },
            start.log_bytes,
        );
        // A replay ends before the first entry that changes the membership, so the membership is
        // still that of the snapshot.
        let memberships = Memberships::new(LogIndex(index), to_storage(&start.restored.membership));
        let config = Config {
            log_memory: options.log_memory,
            heartbeat_ticks: HEARTBEAT_TICKS,
            ..Config::new(start.origin.member.0, start.seed, start.origin.boot.0)
        };
        let replica = Replica::new(config, start.restored)?;
        let own = start.origin.member;
        let servers = Servers::new((own, options.server), start.servers_restored)
            .described_by(&options.name, &options.servers);
        let mut levels = Levels::new(options.known, start.level);
        if !options.servers.servers.is_empty() {
            let needed = start.spaces.level_needed().max(members::level_needed(&options.servers));
            levels.need(needed.min(levels.own_max()));
        }
        let wanted = (options.servers, options.servers_are_kept);
        Ok(Loop {
            origin: start.origin,
            clock: Clock::new(options.raft_tick_ms),
            progress: Progress::new(applied, LogIndex(replica.commit_index())),
            replica,
            role: OwnRole::new(own),
            reads: Reads::default(),
            contact: Contact::new(options.session_timeout_ms_min),
            hearing: Hearing::new(start.origin.boot),
            intake: Intake::new(start.origin),
            persisting: Persisting::new(&options.disk),
            room: Room::new(start.image_bytes_max),
            spaces: start.spaces,
            snapshots,
            catch_up: CatchUp::Idle,
            members: Members::new(servers, wanted, memberships, levels),
            own_digests: OwnDigests::new(applied.0, start.digest),
            counts: LoopCounts::at_start(),
            output: LoopOutput::default(),
        })
    }

    // Input.

    /// Takes one input. The driver calls it for each input in order, then [`Loop::finish`].
    ///
    /// # Errors
    /// A member sent something that no correct member sends: its links are to be closed.
    pub fn handle(&mut self, input: LoopInput) -> Result<(), BadPeer> {
        match input {
            LoopInput::Front(message) => self.on_front(message),
            LoopInput::Apply(message) => self.on_apply(message),
            LoopInput::Persisted(id) => self.on_persisted(id),
            LoopInput::DiskRoom { is_full } => self.on_disk_room(is_full),
            LoopInput::SnapshotRoom(kept) => self.on_snapshot_room(kept),
            LoopInput::Snapshot(message) => self.on_snapshot(message),
            LoopInput::Transfer(message) => self.on_transfer(message),
            LoopInput::Peer { from, frame } => {
                self.on_peer(from, frame).map_err(|error| BadPeer { from, error })?;
            }
            LoopInput::Link { peer, is_up } => self.on_link(peer, is_up),
            LoopInput::Linked { peer, server } => self.on_linked(peer, server),
        }
        Ok(())
    }

    /// Takes a message of a Front.
    fn on_front(&mut self, message: ToLoop) {
        match message {
            ToLoop::Submit(submission) if self.room.is_full() || self.leader_is_full() => {
                let (front, waiters) = (submission.front, submission.waiters);
                let reason = Unavailable::DiskFull;
                self.output.apply.push(ToApply::Refuse { front, waiters, reason });
            }
            ToLoop::Submit(submission) => self.intake.submit(submission),
            ToLoop::Sync(caller) => self.reads.want_sync(caller),
            ToLoop::AskLeases(questions) => {
                self.spaces.etcd.questions.ask(questions, self.clock.now_ms());
            }
            ToLoop::Heard(owners) if self.role.leads() => {
                owners.into_iter().for_each(|owner| self.spaces.zk.heard(owner));
            }
            ToLoop::Heard(owners) => self.hearing.heard(owners),
            ToLoop::GiveUp(front, callers) => self.give_up_requests(front, callers),
            ToLoop::Withdraw(front, connections) => self.give_up_connections(front, &connections),
            ToLoop::Need(level) => self.members.need_level(level),
        }
    }

    /// How many batches no leader was given yet.
    pub fn waiting_count(&self) -> usize {
        self.intake.waiting_count()
    }

    /// Gives up the commands of these requests of a Front. Apply answers each caller.
    fn give_up_requests(&mut self, front: FrontId, mut callers: Vec<(ConnectionId, Ticket)>) {
        callers.sort_unstable();
        callers.dedup();
        let mut given_up = self.intake.give_up(front, |connection, ticket| {
            callers.binary_search(&(connection, ticket)).is_ok()
        });
        let found: BTreeSet<_> = given_up.iter().map(|it| (it.connection, it.ticket)).collect();
        callers.retain(|caller| !found.contains(caller));
        let at = GivenUpAt::Nowhere;
        let nowhere = |(connection, ticket)| GivenUp { connection, ticket, at };
        given_up.extend(callers.into_iter().map(nowhere));
        if !given_up.is_empty() {
            self.output.apply.push(ToApply::GiveUp { front, given_up, is_told: true });
        }
    }

    /// Gives up all commands of these ended connections of a Front, ascending, without an answer.
    /// Otherwise a client that reconnects again and again while there is no leader would leave more
    /// commands each time. If a leader opens a session for such a command all the same, the session
    /// expires.
    fn give_up_connections(&mut self, front: FrontId, connections: &[ConnectionId]) {
        let is_over = |connection, _| connections.binary_search(&connection).is_ok();
        let mut given_up = self.intake.give_up(front, is_over);
        given_up.retain(|it| it.at != GivenUpAt::Waiting);
        if !given_up.is_empty() {
            self.output.apply.push(ToApply::GiveUp { front, given_up, is_told: false });
        }
    }

    /// Takes a message of Apply.
    fn on_apply(&mut self, message: FromApply) {
        match message {
            FromApply::Applied { index, news, installed, image_bytes_max, own_sequence } => {
                self.progress.on_applied(index);
                self.intake.on_applied(own_sequence);
                self.room.snapshot.on_applied(index, image_bytes_max);
                self.replica.on_applied(index.0);
                if news.zk.settings.is_some() || news.etcd.settings.is_some() {
                    // The other settings may have to follow.
                    let leading = self.role.leading_mut().into_iter();
                    leading.for_each(|leading| leading.is_configuring = false);
                }
                self.spaces.on_applied(news);
                if installed.is_some() {
                    self.output.installed = installed;
                    self.snapshots.on_install_applied();
                }
            }
            FromApply::Digest { index, digest } => self.on_own_digest(index.0, digest),
            FromApply::Outlived { boot } => {
                let (boot, own) = (boot.count(), self.origin.boot.count());
                self.condemn(Condemned::Outlived { boot, own });
            }
            FromApply::Forgotten => self.condemn(Condemned::Forgotten),
            FromApply::Raised(stated) => self.on_raised(stated),
            FromApply::Unknown(entry) => self.output.unknown = Some(entry),
            FromApply::Unreadable(entry) => self.output.unreadable = Some(entry),
            FromApply::Servers(servers) => self.on_registered(servers),
            FromApply::Found(found) => {
                if let Some(command) = self.spaces.zk.on_found(&found) {
                    self.intake.submit_own(&command);
                }
            }
            message => {
                if let FromApply::Frozen { image_bytes_max, .. } = message {
                    self.output.snapshot.push(self.room.snapshot.on_begin(image_bytes_max));
                }
                let membership = self.membership_of(&message);
                self.output.snapshot.extend(self.snapshots.on_apply(message, &membership));
            }
        }
    }

    /// The membership as of the snapshot that begins, or the newest for any other message.
    fn membership_of(&self, message: &FromApply) -> storage::wal::Membership {
        match message {
            FromApply::Frozen { index, .. } => self.members.memberships().at(*index).clone(),
            _ => self.members.newest().clone(),
        }
    }

    fn condemn(&mut self, why: Condemned) {
        self.output.condemned.get_or_insert(why);
    }

    /// Takes a message of the snapshot thread about the snapshot that it writes.
    fn on_snapshot(&mut self, message: FromSnapshot) {
        if let FromSnapshot::Finished { index, term } = message {
            self.room.snapshot.on_finished();
            let membership = to_replica(self.members.memberships().at(LogIndex(index)));
            self.members.forget_before(LogIndex(index));
            self.replica.on_snapshot_taken(SnapshotMeta { index, term, membership });
        }
        if message == FromSnapshot::Failed {
            self.snapshots.on_failed(self.clock.now_ms());
        }
        let asked = self.snapshots.on_snapshot(message);
        if let Some(ToApply::Thaw) = asked {
            self.output.snapshot.push(SnapshotJob::Abort);
        }
        self.output.apply.extend(asked);
        if matches!(message, FromSnapshot::Finished { .. }) {
            if self.snapshots.take_covered() {
                self.output.snapshot.push(SnapshotJob::DiscardReceived);
            }
            let is_short = self.room.is_short();
            self.output.release = Some(self.snapshots.release(is_short));
        }
    }

    /// Checks whether a snapshot that somebody is about to send could be installed.
    ///
    /// # Errors
    /// The reason why it could not be installed now.
    pub fn check_install(&self) -> Result<(), InstallRefused> {
        match () {
            () if !self.members.is_standalone() => Err(InstallRefused::Ensemble),
            () if !self.role.leads() || !self.progress.is_ready() => Err(InstallRefused::NotLeader),
            () if self.room.is_full() => Err(InstallRefused::DiskFull),
            () if self.snapshots.is_installing() => Err(InstallRefused::UnderWay),
            () => Ok(()),
        }
    }

    /// Replaces the state by that of a snapshot, whose file the data directory holds, after
    /// everything that was handed over so far. [`LoopOutput::installed`] reports when it is done.
    ///
    /// # Errors
    /// The snapshot cannot be installed now. Nothing has changed, and no entry names the snapshot.
    pub fn install(&mut self, image: PreparedImage) -> Result<(), InstallRefused> {
        self.check_install()?;
        let level = image.machine.control().level().level;
        let level_max = self.members.levels().own_max();
        if level > level_max {
            return Err(InstallRefused::Level { level, level_max });
        }
        self.snapshots.on_install_submitted();
        let command = ControlCommand::InstallImage { hash: image.hash };
        self.intake.submit_own(&Command::Control(command));
        self.output.apply.push(ToApply::Prepare(image));
        Ok(())
    }

    // Time.

    /// Lets time pass. The driver then hands over what arrived meanwhile, and calls
    /// [`Loop::on_time`].
    ///
    /// The replica gets the time at once, except for the tick that would start an election. If a
    /// heartbeat has arrived meanwhile, the election timeout starts anew at that heartbeat, so the
    /// time before the heartbeat must not count.
    pub fn advance(&mut self, elapsed_ms: u64) {
        self.spaces.advance(elapsed_ms, self.clock.planned_ms());
        self.clock.advance(elapsed_ms);
        if let Some(ticks) = self.replica.ticks_until_election() {
            let ticks = self.clock.take_ticks(ticks.saturating_sub(1));
            (0..ticks).for_each(|_| self.replica.tick());
        }
    }

    /// Does what is due after the time that [`Loop::advance`] added.
    pub fn on_time(&mut self) {
        let ticks = self.clock.take_ticks(u64::MAX);
        (0..ticks).for_each(|_| self.replica.tick());
        let passed = self.clock.take_passed();
        self.pursue(&passed);
    }

    /// How long after the last [`Loop::advance`] the next call is due, in ms, if nothing arrives
    /// before.
    pub fn due_ms(&mut self) -> u64 {
        let mut due_ms = if self.is_busy() { CLOCK_INTERVAL_MS } else { LOOK_MS_MAX };
        if let Some(ticks) = self.replica.ticks_until_election() {
            due_ms = due_ms.min(self.clock.until_ticks(ticks));
        }
        let now_ms = self.clock.now_ms();
        let compaction_ms = self.spaces.etcd.compaction_due_ms().saturating_sub(now_ms);
        due_ms = due_ms.min(compaction_ms.max(CLOCK_INTERVAL_MS));
        if self.role.leads() {
            due_ms = due_ms.min(self.leading_due_ms());
        }
        self.clock.plan(due_ms)
    }

    /// Lets time pass without any input in between.
    #[cfg(test)]
    pub(crate) fn pass(&mut self, elapsed_ms: u64) {
        self.advance(elapsed_ms);
        self.on_time();
    }

    /// In how many ms a leader's own work is due: heartbeats, deadlines and searches for
    /// containers.
    fn leading_due_ms(&self) -> u64 {
        let beat_ms = self.contact.beat_in_ms(self.clock.now_ms());
        let beat_ms = if self.members.is_alone() { u64::MAX } else { beat_ms };
        let expiry_ms = match self.spaces.deadline_ms() {
            Some(ms) if ms > EXPIRY_MARGIN_MS => ms - EXPIRY_MARGIN_MS,
            Some(_) => CLOCK_INTERVAL_MS,
            None => u64::MAX,
        };
        beat_ms.min(expiry_ms.max(CLOCK_INTERVAL_MS)).min(self.spaces.zk.search_due_ms())
    }

    /// Whether work is under way that frequent looks at the clock move on. Messages that are lost
    /// only with their link, or whose loss takes a second to be noticed, can wait for
    /// [`LOOK_MS_MAX`].
    fn is_busy(&self) -> bool {
        let has_transfers = |it: &Leading| !it.offers.is_empty() || !it.lending.is_empty();
        !self.progress.is_ready()
            || (self.role.leads() && self.is_changing_members())
            || (self.members.is_alone() && !self.role.leads())
            || self.role.leading().is_some_and(has_transfers)
            || self.catch_up.fetch().is_some()
            || self.own_digests.wrong().is_some()
            || self.room.is_full()
            || self.room.snapshot.is_scarce()
            || self.room.snapshot.must_wait()
    }

    /// Does the work that is due by now.
    fn pursue(&mut self, passed: &Passed) {
        if !self.role.leads() {
            self.intake.pass(passed.counted_ms);
        }
        self.pursue_contact();
        self.pursue_snapshots();
        self.pursue_joining();
        self.pursue_level();
        let is_leader_known = self.role.is_leader_known();
        self.spaces.etcd.questions.on_time(self.clock.now_ms(), is_leader_known);
        self.pursue_difference();
        self.check_stall(passed.counted_ms);
        self.pursue_room(passed.elapsed_ms);
        self.pursue_spaces(passed.elapsed_ms);
    }

    /// Submits the commands that are due for the spaces, such as to end an expired session.
    fn pursue_spaces(&mut self, elapsed_ms: u64) {
        let look = Look {
            now_ms: self.clock.now_ms(),
            elapsed_ms,
            leads: self.is_caught_up() && self.progress.is_ready(),
            has_room: !self.room.is_full(),
            level: self.level(),
        };
        let intake = &mut self.intake;
        self.spaces.due(&look, &mut |command| intake.submit_own(command));
        self.output.compacting = self.spaces.etcd.take_compacting().or(self.output.compacting);
    }

    /// Asks for a snapshot of the state as it is now. Returns the number of that snapshot: the
    /// request is done once the snapshot with this number, or a later one, was finished or has
    /// failed.
    pub fn want_snapshot(&mut self) -> u64 {
        self.snapshots.want()
    }

    /// This member's id.
    pub fn id(&self) -> MemberId {
        self.origin.member
    }

    /// The replica's term, role and indexes.
    pub fn status(&self) -> Status {
        self.replica.status()
    }

    /// The Raft term.
    pub fn term(&self) -> u64 {
        self.replica.term()
    }

    /// The index of the last entry that is known to be committed.
    pub fn commit_index(&self) -> u64 {
        self.replica.commit_index()
    }

    /// The ids of the members whose votes count, ascending. While a change of the membership is
    /// under way, the voters that are to leave are among them.
    pub fn voters(&self) -> Vec<u64> {
        let membership = self.replica.membership();
        let mut voters = [&membership.voters[..], &membership.voters_outgoing].concat();
        voters.sort_unstable();
        voters.dedup();
        voters
    }

    /// The memberships of the log as far back as they are kept, each with the first entry at which
    /// it is active; the last one is the active one. For the simulator's judge.
    pub fn memberships(&self) -> impl DoubleEndedIterator<Item = (u64, &storage::wal::Membership)> {
        self.members.memberships().iter()
    }

    /// The ids of the members that receive the log and have no vote.
    pub fn learners(&self) -> Vec<u64> {
        self.replica.membership().learners.clone()
    }

    /// The other members as a leader knows them; empty at a follower.
    pub fn peers(&self) -> Vec<PeerStatus> {
        self.replica.peers()
    }

    /// The member that supplies the snapshot that this member is fetching; `None` if it fetches
    /// none.
    pub fn fetches_from(&self) -> Option<MemberId> {
        self.catch_up.fetch().map(|fetch| fetch.holder)
    }

    /// All counts since the start.
    pub fn counts(&self) -> LoopCounts {
        let mut counts = self.counts;
        counts.spaces = self.spaces.counts();
        counts
    }

    /// At most `max` sessions with the time that each has left, in ms, and the number of all
    /// sessions.
    pub fn sessions(&self, max: usize) -> (Vec<(Owner, u64)>, usize) {
        self.spaces.zk.sessions(max)
    }

    /// How much Loop keeps, for tests of its bounds. The call takes time in proportion to the
    /// deadlines.
    pub fn held(&self) -> LoopHeld {
        let spaces = self.spaces.held();
        LoopHeld {
            batches: self.intake.waiting_count(),
            unapplied_bytes: self.intake.unapplied_bytes(),
            waiting_reads: self.reads.sync_count() + spaces.questions,
            deadlines: spaces.deadlines,
            deadline_places: spaces.deadline_places,
        }
    }

    // Output.

    /// Does the work that became possible with the messages since the last call, and returns the
    /// output for the driver. `wall_ms`, in ms since 1970, is the timestamp of new entries.
    pub fn finish(&mut self, wall_ms: i64) -> LoopOutput {
        self.maybe_campaign();
        self.maybe_configure();
        self.tell_servers();
        if self.members.take_news() || self.is_changing_members() {
            self.pursue_joining();
        }
        self.report_heard();
        self.ask_leases();
        self.read_indexes();
        self.output.apply.extend(self.spaces.zk.search(wall_ms).map(ToApply::Search));
        self.check_room();
        self.pack(wall_ms);
        while self.replica.has_effects() {
            self.take_effects();
        }
        // Effects of the replica may have made room for more entries, or made this member the
        // leader.
        self.pack(wall_ms);
        while self.replica.has_effects() {
            self.take_effects();
        }
        self.maybe_begin_snapshot();
        let persisted_index = self.replica.status().persisted_index;
        self.output.snapshot.extend(self.snapshots.maybe_finish(persisted_index));
        self.output.snapshot.extend(self.room.snapshot.maybe_ask());
        self.maybe_ready();
        self.answer_leases();
        self.answer_reports();
        self.note_availability();
        core::mem::take(&mut self.output)
    }

    /// Begins a snapshot if one is due. It begins none while a start replays the log: that snapshot
    /// would hold only what is applied so far, and the log that made it due would remain.
    fn maybe_begin_snapshot(&mut self) {
        if !self.progress.is_replaying() {
            let state_bytes = self.room.snapshot.state_bytes();
            self.output.apply.extend(self.snapshots.maybe_begin(state_bytes));
        }
    }

    /// Makes a lone voter the leader without waiting for an election timeout.
    fn maybe_campaign(&mut self) {
        if self.members.is_alone() && !self.role.leads() {
            // A refused campaign is tried again after every message.
            let _ = self.replica.campaign();
        }
    }

    /// Whether this member leads and has applied everything that earlier leaders committed.
    fn is_caught_up(&self) -> bool {
        self.role.is_caught_up(self.progress.applied())
    }

    fn report_heard(&mut self) {
        if let Some(leader) = self.role.leader()
            && let Some(report) = self.hearing.report(self.clock.now_ms())
        {
            self.send(leader, report);
        }
    }

    fn maybe_ready(&mut self) {
        if self.progress.is_ready() {
            return;
        }
        let is_ready = if self.role.leads() {
            self.is_caught_up() && self.configuration().is_none()
        } else {
            // A learner that is to replace a voter takes no commands. If it did, and then installed
            // a snapshot in which none of them is applied, it would conclude that the ensemble has
            // forgotten it.
            self.members.serves() && self.progress.has_caught_up()
        };
        if is_ready {
            self.progress.set_ready();
            self.output.ready = true;
            self.counts.on_ready(self.clock.now_ms());
            self.spaces.renew_all();
        }
    }

    /// Gives the waiting batches to the leader: packs them into entries if this member leads, else
    /// forwards them. A member that waits for a vote forwards nothing: it serves no clients yet,
    /// except read-only ones.
    fn pack(&mut self, wall_ms: i64) {
        match self.role.leader() {
            _ if self.role.leads() => self.pack_entries(wall_ms),
            Some(leader) if self.members.serves() => {
                let applied = self.progress.applied();
                let pieces: Vec<_> = self.intake.forward(applied, &mut self.output.apply).collect();
                pieces.into_iter().for_each(|piece| self.send(leader, piece));
            }
            _ => {}
        }
    }

    /// Packs waiting batches into entries, as long as few enough entries are not durable yet.
    fn pack_entries(&mut self, wall_ms: i64) {
        if !self.intake.may_give(self.progress.applied()) {
            return;
        }
        while self.may_pack() {
            let kept = self.role.leading_mut().and_then(|leading| leading.unproposed.take());
            let expected = &mut self.output.apply;
            let entry =
                kept.or_else(|| self.intake.next_entry(wall_ms, &mut self.counts, expected));
            let Some(payload) = entry else { return };
            match self.replica.propose(payload.clone()) {
                Ok(_) => {}
                Err(Refused::Overloaded | Refused::Transferring { .. }) => {
                    let leading = self.role.leading_mut().into_iter();
                    leading.for_each(|leading| leading.unproposed = Some(payload.clone()));
                    return;
                }
                // The next effects report the new leader. This member's own batches go to it then.
                Err(Refused::NotLeader { .. }) => return,
                Err(refused) => unreachable!("a leader's own entry is not refused: {refused}"),
            }
            self.take_effects();
        }
    }

    /// Whether there is room for the next snapshot, as far as is known, and few enough entries are
    /// not durable. The count is that of this member's disk, which usually makes an entry durable
    /// before a quorum of the others does. If this disk stalls, the count of uncommitted entries is
    /// enough.
    fn may_pack(&self) -> bool {
        let persisting = &self.persisting;
        if self.room.snapshot.must_wait() {
            return false;
        }
        persisting.awaited_count() < ENTRIES_TO_DISK_MAX
            || (self.replica.uncommitted_count() < ENTRIES_TO_DISK_MAX as u64
                && persisting.bytes() < PERSISTING_BYTES_MAX)
    }

    fn take_effects(&mut self) {
        let effects = self.replica.effects();
        if let Some(change) = effects.role_change {
            self.on_role(change);
        }
        for at in &effects.memberships {
            self.members.on_membership(LogIndex(at.index), to_storage(&at.membership));
        }
        if let Some(persist) = effects.persist {
            let changed = effects.memberships.last().map(|at| to_storage(&at.membership));
            self.persist(persist, changed);
        }
        if !effects.committed.is_empty() {
            self.output.apply.push(ToApply::Entries(effects.committed));
        }
        for (read, index) in effects.reads {
            self.on_read(read, Some(LogIndex(index)));
        }
        for read in effects.reads_failed {
            self.on_read(read, None);
        }
        for message in effects.messages {
            self.send_replicas(message);
        }
        for wanted in effects.snapshots_wanted {
            self.on_snapshot_wanted(wanted);
        }
    }

    /// Sends a message of the replica. A message with a snapshot is sent as an offer: the receiver
    /// fetches the snapshot first, from this member or from its lender.
    fn send_replicas(&mut self, message: Outgoing) {
        let to = MemberId(message.to);
        let Some(meta) = message.snapshot else {
            return self.send(to, PeerMessage::Raft(message.bytes));
        };
        let leading = self.role.leading_mut();
        let lender = leading.as_ref().and_then(|it| it.lending.lender_of(to, meta.index));
        let offer = Offer { holder: lender.unwrap_or(self.origin.member), message: message.bytes };
        if let Some(leading) = leading {
            leading.offers.offer(to, offer.clone(), &meta, self.clock.now_ms());
        }
        self.send(to, PeerMessage::Offer(offer));
    }

    /// Takes a change of role, term or leader. Batches that the previous leader was given may be
    /// lost, so they are given to the next one again.
    fn on_role(&mut self, change: RoleChange) {
        let leader = change.leader.map(MemberId);
        let server = leader.and_then(|leader| self.members.servers().server_of(leader));
        let leadership = self.role.report(&change, server);
        self.output.leadership.extend(leadership.filter(|_| !self.members.is_alone()));
        let now_ms = self.clock.now_ms();
        let last_index = self.replica.status().last_index;
        let has_led = self.role.on_change(&change, now_ms, last_index);
        self.counts.on_role(self.role.leads(), leader.is_some(), now_ms);
        if has_led {
            self.spaces.end_leading();
            self.intake.end_leading();
        }
        self.intake.restart();
        self.hearing.restart();
        self.spaces.etcd.questions.restart(now_ms);
        if self.role.leads() {
            self.ask_contact();
            self.spaces.begin_leading();
            self.hearing.take();
        }
        if self.role.leader().is_some() {
            self.give_newest_digest();
        }
        if self.leader_is_full() {
            self.refuse_waiting();
        }
    }

    fn note_availability(&mut self) {
        if !self.counts.is_unavailable() {
            return;
        }
        let takes_part = if self.role.leads() {
            self.replica.status().has_committed_in_term
        } else {
            self.role.leader().is_some()
        };
        if takes_part && self.progress.is_ready() {
            self.counts.on_available(self.clock.now_ms());
        }
    }
}

#[cfg(test)]
mod tests;
