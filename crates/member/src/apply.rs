//! Apply: runs committed commands on the machine, in order, and answers their waiters.
//!
//! The driver holds the machine's write lock while [`Apply::step`] runs, pushes the output of
//! [`Apply::take_output`] to the Fronts and to Loop, and only then releases the lock: so a reader
//! never sees a state whose changes are not in its feed already.
//!
//! A hold may end inside an entry, within a command that changes many of etcd's keys, and between
//! the reads that travelled with a command: nothing else changes the state meanwhile. Images are
//! taken between entries only.

mod amid;
mod giving_up;

use std::collections::VecDeque;
use std::sync::Arc;

use machine::change::SharedChanges;
use machine::codec::{DecodeError, Reader};
use machine::entry::{self, EntryHeader, Framed};
use machine::image::FreezeStep;
use machine::{
    ApplyStep, BootId, Changes, Command, ControlChange, ControlCommand, Level, LogIndex, Machine,
    Mark, Origin, PreparedImage, Replacement, Reply, Stamp,
};
use replica::{Entry, EntryKind};

use crate::limits::{APPLY_HOLD_ANSWER_BYTES_MAX, SNAPSHOT_PIECE_BYTES, SNAPSHOT_STEP_SLOTS_MAX};
use crate::local_read::{LocalRead, ReadAnswer};
use crate::message::{
    Answer, Answered, Caller, Delivery, FromApply, FrontCounts, FrontId, LeaseAnswered, Ticket,
    ToApply, Unavailable, UnknownEntry, Unreadable, UnreadableEntry, Waiter,
};
use crate::reply_room::ReplyRoom;
use crate::snapshot::fetch::WholeSnapshot;
use crate::spaces::{CommandCounts, News, Search};
use crate::watch_interest::WatchInterest;
use amid::Amid;
use giving_up::GiveUp;

/// The third of a member's step functions.
pub struct Apply {
    origin: Origin,
    /// Committed entries that are not applied yet. Bounded by the credits of the Fronts and by what
    /// the replica hands out.
    entries: VecDeque<Entry>,
    at: Option<Position>,
    /// The command that is done in part.
    amid: Option<Amid>,
    /// Own batches under way, in the order of their sequences.
    expected: VecDeque<Expected>,
    /// Commands that were given up since the last step.
    give_ups: Vec<GiveUp>,
    /// Syncs by index, ascending.
    syncs: VecDeque<(LogIndex, Caller)>,
    /// Answers about leases by the index that they wait for, ascending.
    lease_times: VecDeque<(LogIndex, Vec<(Caller, LeaseAnswered)>)>,
    freeze_wanted: bool,
    freeze_step_wanted: bool,
    thaw_wanted: bool,
    search_wanted: Option<Search>,
    /// Whether the machine has memory to free that no read needs any more.
    has_garbage: bool,
    prepared: Option<PreparedImage>,
    /// A snapshot that is to replace the state, and whether this member may be forgotten in it.
    replacement: Option<(WholeSnapshot, bool)>,
    /// Index and term of the last whole entry.
    last_index: LogIndex,
    last_term: u64,
    /// The sequence of the last own batch that was applied.
    own_sequence: u64,
    /// The sequence of the last own batch that Loop announced.
    announced: u64,
    /// The highest level that this build knows.
    level_max: Level,
    /// Whether the directory must not be used any more, or not by this build. Loop was told, and
    /// nothing more is applied.
    is_ended: bool,
    /// The applied index that Loop was last told.
    reported_index: LogIndex,
    /// The most bytes that an image of the machine can have after the last step.
    image_bytes_max: u64,
    output: ApplyOutput,
    changes: Changes,
    answers: Vec<(FrontId, Vec<Answer>)>,
    /// A command whose travelling reads are not all run yet; none between two commands.
    pending: Option<Pending>,
    /// Bytes of answers to travelling reads since the last call of [`Apply::take_output`].
    answer_bytes: u64,
    /// The room for replies, shared with the Fronts.
    replies: Arc<ReplyRoom>,
    /// Which Fronts watch etcd's keys.
    watch_interest: Arc<WatchInterest>,
    command_counts: Arc<CommandCounts>,
}

/// A command that was applied or refused, while the reads that travelled with it are run.
struct Pending {
    front: FrontId,
    connection: machine::ConnectionId,
    ticket: Ticket,
    mark: Mark,
    answered: Answered,
    /// The reads that are not run yet.
    reads: std::vec::IntoIter<LocalRead>,
    /// Answers to the reads that were run.
    done: Vec<ReadAnswer>,
}

impl Pending {
    fn new(front: FrontId, waiter: Waiter, mark: Mark, answered: Answered) -> Pending {
        let Waiter { connection, ticket, reads, .. } = waiter;
        let (reads, done) = (reads.into_iter(), Vec::new());
        Pending { front, connection, ticket, mark, answered, reads, done }
    }
}

/// The command that takes the place of one that was given up.
const NOTHING: Command<'static> = Command::Control(ControlCommand::Nothing);

/// The position of the next command in the first entry.
struct Position {
    header: EntryHeader,
    batches_left: u32,
    batch_offset: usize,
    /// The position in the batch, while one is begun.
    batch: Option<BatchPosition>,
}

struct BatchPosition {
    skipped: bool,
    command_offset: usize,
    expected: Option<Expecting>,
}

/// The waiters of the batch being applied that were not answered yet.
struct Expecting {
    /// The sequence of the batch.
    sequence: u64,
    /// The number of waiters when the batch was begun.
    count: usize,
    front: Option<FrontId>,
    waiters: std::vec::IntoIter<Waiter>,
}

impl Expecting {
    /// Whether somebody takes the outcome of the next command.
    fn takes_next(&self) -> bool {
        self.waiters.as_slice().first().is_some_and(|waiter| !waiter.is_given_up)
    }

    /// Whether the next command of the batch is the one that its waiter handed over. Apply is told
    /// before a command is replaced.
    fn is_for_next(&self, framed: &Framed<'_>) -> bool {
        self.waiters.as_slice().first().is_none_or(|waiter| {
            waiter.connection == framed.connection
                && (waiter.is_given_up || framed.command != NOTHING)
        })
    }

    /// Takes the waiter of the next command of the batch, and its Front. None: there is no waiter,
    /// or it gave the command up.
    fn next(&mut self) -> Option<(FrontId, Waiter)> {
        let waiter = self.waiters.next()?;
        (!waiter.is_given_up).then_some((self.front?, waiter))
    }
}

enum Expected {
    Batch { sequence: u64, front: Option<FrontId>, waiters: Vec<Waiter> },
    Refused { front: FrontId, waiters: VecDeque<Waiter>, reason: Unavailable },
}

/// The output of one hold of the lock, to be passed on before the lock is released.
#[derive(Debug, Default)]
pub struct ApplyOutput {
    /// Answers by Front. A Front without any still gets the changes.
    pub answers: Vec<(FrontId, Vec<Answer>)>,
    /// Changes for every Front, unless empty.
    pub changes: SharedChanges,
    /// Messages for Loop.
    pub to_loop: Vec<FromApply>,
    /// The state that was replaced. It is large, so the driver drops it where nobody waits for
    /// that.
    pub replaced: Option<Box<Machine>>,
    /// The leader's stamp of the last entry from which a command was applied, in ms since 1970.
    pub stamped_ms: Option<i64>,
}

impl ApplyOutput {
    /// Splits the output into a delivery for each Front that gets any. Fronts of etcd's clients get
    /// the changes only if one concerns them.
    pub fn deliveries(
        &mut self,
        fronts: FrontCounts,
        interest: &WatchInterest,
    ) -> Vec<(FrontId, Delivery)> {
        let mut deliveries = Vec::new();
        let none = SharedChanges::default();
        let Changes { control, zk, etcd, etcd_v2 } = &*self.changes;
        let is_watched = !etcd.keys().is_empty() || !etcd_v2.is_empty();
        let concerns_etcd = !control.is_empty() || etcd.concerns_all();
        let concerns_zk = !control.is_empty() || !zk.is_empty();
        let for_zk = if concerns_zk { &self.changes } else { &none };
        let zk = fronts.zk_fronts().map(|front| (front, for_zk));
        let etcd = fronts.etcd_fronts().map(|front| {
            let concerns = concerns_etcd || (is_watched && interest.has(front));
            (front, if concerns { &self.changes } else { &none })
        });
        for (front, changes) in zk.chain(etcd) {
            let at = self.answers.iter().position(|(for_front, _)| *for_front == front);
            let answers = at.map(|at| self.answers.swap_remove(at).1).unwrap_or_default();
            if !answers.is_empty() || !changes.is_empty() {
                deliveries.push((front, Delivery { changes: changes.clone(), answers }));
            }
        }
        assert!(self.answers.is_empty(), "every answer is for a Front that exists");
        deliveries
    }
}

impl Apply {
    /// Starts after the entry at `index`, which the restored machine holds. `level_max` is the
    /// highest level that this build knows.
    pub fn new(origin: Origin, index: LogIndex, term: u64, level_max: Level) -> Apply {
        Apply {
            origin,
            entries: VecDeque::new(),
            at: None,
            amid: None,
            expected: VecDeque::new(),
            give_ups: Vec::new(),
            syncs: VecDeque::new(),
            lease_times: VecDeque::new(),
            freeze_wanted: false,
            freeze_step_wanted: false,
            thaw_wanted: false,
            search_wanted: None,
            has_garbage: false,
            prepared: None,
            replacement: None,
            last_index: index,
            last_term: term,
            own_sequence: 0,
            announced: 0,
            level_max,
            is_ended: false,
            reported_index: index,
            image_bytes_max: 0,
            output: ApplyOutput::default(),
            changes: Changes::default(),
            answers: Vec::new(),
            pending: None,
            answer_bytes: 0,
            replies: Arc::default(),
            watch_interest: Arc::default(),
            command_counts: Arc::default(),
        }
    }

    /// What the Fronts of this member say about watchers.
    pub fn watch_interest(&self) -> &Arc<WatchInterest> {
        &self.watch_interest
    }

    /// The counts of commands, which it shares with the Fronts.
    pub fn command_counts(&self) -> &Arc<CommandCounts> {
        &self.command_counts
    }

    /// The room for replies, which the Fronts of this member share.
    pub fn replies(&self) -> Arc<ReplyRoom> {
        self.replies.clone()
    }

    /// Bytes of answers to travelling reads that [`Apply::take_output`] has not given yet.
    pub fn held_bytes(&self) -> u64 {
        self.answer_bytes
    }

    /// Takes a message of Loop. The machine does not change yet.
    pub fn receive(&mut self, input: ToApply) {
        match input {
            ToApply::Expect { sequence, front, waiters } => {
                self.announced = sequence;
                self.expected.push_back(Expected::Batch { sequence, front, waiters });
            }
            ToApply::Refuse { front, waiters, reason } => {
                let waiters = waiters.into();
                self.expected.push_back(Expected::Refused { front, waiters, reason });
            }
            ToApply::GiveUp { front, given_up, is_told } => {
                self.give_ups.push(GiveUp { front, given_up, is_told });
            }
            ToApply::Entries(entries) => self.entries.extend(entries),
            ToApply::Sync { index, caller } => {
                // A leader's answers may come in another order than they were asked for.
                let at = self.syncs.partition_point(|(other, ..)| *other <= index);
                self.syncs.insert(at, (index, caller));
            }
            ToApply::LeaseTimes { index, answers } => {
                let at = self.lease_times.partition_point(|(other, ..)| *other <= index);
                self.lease_times.insert(at, (index, answers));
            }
            ToApply::Freeze => self.freeze_wanted = true,
            ToApply::FreezeStep => self.freeze_step_wanted = true,
            ToApply::Thaw => self.thaw_wanted = true,
            ToApply::Search(search) => self.search_wanted = Some(search),
            ToApply::Prepare(image) => self.prepared = Some(image),
            ToApply::Replace { image, is_voter } => {
                // The snapshot holds these entries; later ones follow.
                self.entries.clear();
                self.at = None;
                self.amid = None;
                // A member becomes a voter before it hands any batch over. A batch handed over
                // after this message comes from a membership that is newer than the snapshot.
                let may_be_forgotten = !is_voter && self.expects_own();
                self.replacement = Some((image, may_be_forgotten));
            }
        }
    }

    /// Whether [`Apply::step`] has work to do. False while its answers must be taken first.
    pub fn has_work(&self) -> bool {
        !self.is_output_full() && self.has_work_waiting()
    }

    /// Whether this hold has built as many answers to travelling reads as it may.
    fn is_output_full(&self) -> bool {
        self.answer_bytes >= APPLY_HOLD_ANSWER_BYTES_MAX
    }

    /// Whether another command may be applied in this hold.
    fn may_go_on(&self) -> bool {
        self.pending.is_none() && !self.is_output_full()
    }

    fn has_work_waiting(&self) -> bool {
        self.pending.is_some()
            || !self.give_ups.is_empty()
            || self.has_entries()
            || self.freeze_wanted
            || self.freeze_step_wanted
            || self.thaw_wanted
            || self.search_wanted.is_some()
            || self.replacement.is_some()
            || self.has_garbage
            || matches!(self.expected.front(), Some(Expected::Refused { .. }))
            || self.syncs.front().is_some_and(|(index, ..)| *index <= self.last_index)
            || self.lease_times.front().is_some_and(|(index, ..)| *index <= self.last_index)
    }

    /// Whether nothing more is applied: the directory must not be used any more, or not by this
    /// build. The state may then be inside an entry.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    fn has_entries(&self) -> bool {
        !self.entries.is_empty() && !self.is_ended
    }

    /// Applies up to `commands_max` commands and returns how many it did. Each key that one of etcd
    /// looks at counts as a command; one that is not done with them goes on in the next step.
    pub fn step(&mut self, machine: &mut Machine, commands_max: usize) -> usize {
        let mut count = 0;
        self.changes.etcd.set_wants_keys(self.watch_interest.is_any());
        if core::mem::take(&mut self.thaw_wanted) {
            machine.thaw();
        }
        // Waiters go before anything is applied: `Nothing` may stand in the place of their
        // commands.
        self.give_up(machine.mark());
        if let Some(image) = self.prepared.take() {
            machine.prepare_image(image);
        }
        if let Some((image, may_be_forgotten)) = self.replacement.take() {
            self.replace(machine, image, may_be_forgotten);
        }
        self.run_pending(machine);
        // Inside a batch, the batch's own waiters come first.
        if self.at.as_ref().is_none_or(|at| at.batch.is_none()) {
            self.answer_refused(machine);
        }
        while count < commands_max && self.has_entries() && self.may_go_on() {
            count += self.apply_entry(machine, commands_max - count);
            if self.at.is_none() && self.freeze_wanted {
                break;
            }
        }
        if self.at.is_none() && self.freeze_wanted {
            self.freeze_wanted = false;
            let index = machine.freeze();
            assert!(index == self.last_index);
            let (term, mark) = (self.last_term, machine.mark());
            let image_bytes_max = machine.image_bytes_max();
            self.output.to_loop.push(FromApply::Frozen { index, term, mark, image_bytes_max });
        }
        if core::mem::take(&mut self.freeze_step_wanted) {
            self.freeze_step(machine);
        }
        if let Some(search) = self.search_wanted.take() {
            self.output.to_loop.push(FromApply::Found(search.run(machine)));
        }
        self.answer_syncs(machine);
        self.answer_lease_times(machine);
        machine.prune();
        self.has_garbage = machine.has_garbage();
        self.output.replaced = machine.take_replaced().or(self.output.replaced.take());
        self.image_bytes_max = machine.image_bytes_max();
        count
    }

    /// Takes the output of the steps since the last call.
    pub fn take_output(&mut self) -> ApplyOutput {
        let mut output = core::mem::take(&mut self.output);
        output.answers = core::mem::take(&mut self.answers);
        self.answer_bytes = 0;
        output.changes = core::mem::take(&mut self.changes).into();
        let mut installed = None;
        for change in output.changes.control.iter() {
            match change {
                ControlChange::Servers(servers) => {
                    output.to_loop.push(FromApply::Servers(servers.clone()));
                }
                ControlChange::Raised(level) => {
                    output.to_loop.push(FromApply::Raised(level.clone()));
                }
                ControlChange::Replaced { mark, by: Replacement::Image } => installed = Some(*mark),
                ControlChange::Replaced { by: Replacement::Snapshot, .. } => {}
            }
        }
        let news = News::from_changes(&output.changes);
        if self.last_index != self.reported_index || !news.is_empty() {
            self.reported_index = self.last_index;
            let (index, image_bytes_max) = (self.last_index, self.image_bytes_max);
            let own_sequence = self.own_sequence;
            let applied =
                FromApply::Applied { index, news, installed, image_bytes_max, own_sequence };
            output.to_loop.insert(0, applied);
        }
        output
    }

    /// Replaces the state by that of a snapshot. All clients are disconnected: the events between
    /// the two states are not known, nor the outcomes of this member's commands that the snapshot
    /// contains. The sessions live on.
    fn replace(&mut self, machine: &mut Machine, image: WholeSnapshot, may_be_forgotten: bool) {
        if let Some((boot, sequence)) = image.machine.control().last_batch(self.origin.member)
            && self.is_of_unknown_start(boot, sequence)
        {
            self.on_outlived(boot);
            return;
        }
        if !self.is_known(&image.machine) && (self.is_known(machine) || may_be_forgotten) {
            self.on_forgotten();
            return;
        }
        // The pending command's connection is disconnected like the others.
        self.pending = None;
        let replaced = core::mem::replace(machine, *image.machine);
        if replaced.is_freezing() {
            self.output.to_loop.push(FromApply::FreezeAborted);
        }
        self.output.replaced = Some(Box::new(replaced));
        (self.last_index, self.last_term) = (LogIndex(image.at.index), image.at.term);
        if let Some((boot, sequence)) = machine.control().last_batch(self.origin.member)
            && boot == self.origin.boot
        {
            self.forget_expected(sequence);
            self.own_sequence = sequence;
        }
        self.changes.on_snapshot(machine);
        let (index, digest) = (self.last_index, machine.digest());
        self.output.to_loop.push(FromApply::Digest { index, digest });
    }

    /// Forgets the waiters of own batches up to this one, which are in the snapshot: their outcomes
    /// are not known.
    fn forget_expected(&mut self, sequence: u64) {
        let last = self.expected.iter().rposition(|expected| {
            matches!(expected, Expected::Batch { sequence: own, .. } if *own <= sequence)
        });
        self.expected.drain(..last.map_or(0, |last| last + 1));
    }

    /// Applies the rest of the first entry, at most `commands_max` commands.
    fn apply_entry(&mut self, machine: &mut Machine, commands_max: usize) -> usize {
        let entry = self.entries.front().expect("the caller checked that it exists").clone();
        if entry.kind == EntryKind::Membership || entry.payload.is_empty() {
            self.finish_entry(machine);
            return 0;
        }
        let mut position = match self.at.take() {
            Some(position) => position,
            None => {
                if let Err(unknown) =
                    UnknownEntry::check(entry.index, &entry.payload, self.level_max)
                {
                    self.is_ended = true;
                    self.output.to_loop.push(FromApply::Unknown(unknown));
                    return 0;
                }
                let header = entry::decode_header(&entry.payload);
                let Some(header) = self.readable(&entry, header) else { return 0 };
                Position::at_start(header)
            }
        };
        let mut count = 0;
        while position.batches_left > 0
            && count < commands_max
            && !self.is_ended
            && self.may_go_on()
        {
            count += self.apply_batch(machine, &entry, &mut position, commands_max - count);
        }
        if position.batches_left == 0 {
            let ended = Reader::new(&entry.payload[position.batch_offset..]).finish();
            if self.readable(&entry, ended).is_some() {
                self.finish_entry(machine);
            }
        } else {
            self.at = Some(position);
        }
        count
    }

    /// Ends if this member cannot apply the command, or may not, or if it is not the one that the
    /// batch's next waiter handed over.
    fn ends_at(
        &mut self,
        machine: &Machine,
        entry: &Entry,
        expected: Option<&Expecting>,
        framed: &Framed<'_>,
    ) -> bool {
        let own = self.origin.member;
        match framed.command {
            _ if let Some(of) = expected.filter(|expected| !expected.is_for_next(framed)) => {
                self.end_at(entry, Unreadable::NotOwn { sequence: of.sequence });
            }
            Command::Control(ControlCommand::Forget { member })
                if member == own && self.is_known(machine) =>
            {
                self.on_forgotten();
            }
            Command::Control(ControlCommand::InstallImage { hash }) if !machine.has_image(hash) => {
                self.end_at(entry, Unreadable::NoImage { hash });
            }
            _ => {}
        }
        self.is_ended
    }

    fn end_at(&mut self, entry: &Entry, cause: Unreadable) {
        self.is_ended = true;
        let unreadable = UnreadableEntry { index: entry.index, cause };
        self.output.to_loop.push(FromApply::Unreadable(unreadable));
    }

    /// What was read of an entry. If it cannot be read, this member ends: an entry was checked when
    /// it was made and by checksums since, so a newer program wrote it, or somebody is wrong, and
    /// going on would make this member differ from the others.
    fn readable<T>(&mut self, entry: &Entry, decoded: Result<T, DecodeError>) -> Option<T> {
        match decoded {
            Ok(decoded) => Some(decoded),
            Err(cause) => {
                self.end_at(entry, cause.into());
                None
            }
        }
    }

    fn finish_entry(&mut self, machine: &mut Machine) {
        let entry = self.entries.pop_front().expect("the entry being applied is the first");
        machine.finish_entry(LogIndex(entry.index));
        self.last_index = LogIndex(entry.index);
        self.last_term = entry.term;
        let (index, digest) = (self.last_index, machine.digest());
        self.output.to_loop.push(FromApply::Digest { index, digest });
    }

    /// Begins a batch. None if this member ends because of it.
    fn begin_batch(
        &mut self,
        machine: &mut Machine,
        entry: &Entry,
        origin: Origin,
        sequence: u64,
    ) -> Option<BatchPosition> {
        let Origin { member, boot } = origin;
        if member == self.origin.member && self.is_of_unknown_start(boot, sequence) {
            self.on_outlived(boot);
            return None;
        }
        let skipped = !machine.begin_batch(origin, sequence);
        let own = origin == self.origin && !skipped;
        let expected = if own { Some(self.expect(entry, sequence)?) } else { None };
        Some(BatchPosition { skipped, command_offset: 0, expected })
    }

    /// Applies the rest of the batch at the position, and moves past it once it is done.
    fn apply_batch(
        &mut self,
        machine: &mut Machine,
        entry: &Entry,
        position: &mut Position,
        commands_max: usize,
    ) -> usize {
        if let Some(amid) = self.amid.take() {
            return self.go_on(machine, amid, position, commands_max);
        }
        let batch = entry::decode_batch(&entry.payload, position.batch_offset);
        let Some(batch) = self.readable(entry, batch) else { return 0 };
        if position.batch.is_none() {
            position.batch = self.begin_batch(machine, entry, batch.origin, batch.sequence);
        }
        let Some(at) = &mut position.batch else { return 0 };
        let mut count = 0;
        let mut done = at.skipped;
        self.output.stamped_ms = Some(position.header.time_ms);
        let ahead_max = if at.skipped { 0 } else { commands_max };
        let ahead = batch.commands(at.command_offset, ahead_max);
        let Some(ahead) = self.readable(entry, ahead) else { return 0 };
        machine.look_ahead(&ahead);
        let is_rest = ahead.len() < ahead_max;
        let mut ahead = ahead.into_iter();
        while !done && count < commands_max && self.may_go_on() {
            let Some(framed) = ahead.next() else {
                done = is_rest;
                break;
            };
            count += 1;
            let stamp = Stamp {
                time_ms: position.header.time_ms,
                origin: batch.origin,
                connection: framed.connection,
                identities: &batch.identities[framed.identity_list],
            };
            if self.ends_at(machine, entry, at.expected.as_ref(), &framed) {
                break;
            }
            let keys_max = (commands_max - count + 1) as u64;
            let is_taken = at.expected.as_ref().is_some_and(Expecting::takes_next);
            let step = ApplyStep { keys_max, is_taken };
            let reply = machine.apply_step(&stamp, &framed.command, step, &mut self.changes);
            let Some(reply) = reply else {
                let (time_ms, offset) = (position.header.time_ms, position.batch_offset);
                self.amid = Some(Amid::new(entry, time_ms, offset, at.command_offset));
                // A command that is not done uses up the step.
                return commands_max;
            };
            let pending = on_applied(&self.command_counts, at, &framed, reply);
            self.pending = pending;
            self.run_pending(machine);
        }
        if done {
            if at.expected.take().is_some_and(|mut expected| expected.waiters.next().is_some()) {
                self.end_at(entry, Unreadable::NotOwn { sequence: batch.sequence });
                return count;
            }
            if batch.origin == self.origin && !at.skipped {
                self.own_sequence = batch.sequence;
            }
            position.batch = None;
            position.batches_left -= 1;
            position.batch_offset = batch.end;
            self.answer_refused(machine);
        }
        count
    }

    /// Goes on with a command that is done in part. Returns how many commands that counts as.
    fn go_on(
        &mut self,
        machine: &mut Machine,
        amid: Amid,
        position: &mut Position,
        commands_max: usize,
    ) -> usize {
        let at = position.batch.as_mut().expect("the command's batch was begun");
        let is_taken = at.expected.as_ref().is_some_and(Expecting::takes_next);
        let step = ApplyStep { keys_max: commands_max as u64, is_taken };
        let Some(reply) = amid.step(machine, step, &mut self.changes) else {
            self.amid = Some(amid);
            return commands_max;
        };
        self.pending = on_applied(&self.command_counts, at, amid.framed(), reply);
        self.run_pending(machine);
        1
    }

    /// Whether an own batch was handed over by a start of this member that this one does not know
    /// of: a later start, or another one with the same number. The directory is then an old copy.
    fn is_of_unknown_start(&self, boot: BootId, sequence: u64) -> bool {
        (boot, sequence) > (self.origin.boot, self.announced)
    }

    /// Whether the state holds a batch of this member. A member that came and went before any of
    /// its batches was applied is forgotten, too, which does no harm: it may have come back since,
    /// and may have a vote before its state has come to the entry that forgets it. The batches that
    /// it has handed over are all behind that entry.
    fn is_known(&self, machine: &Machine) -> bool {
        machine.control().last_batch(self.origin.member).is_some()
    }

    /// Whether commands of clients were handed over, or are about to be, and are not applied.
    /// Loop's own commands do no harm if they are handed over again.
    fn expects_own(&self) -> bool {
        let of_clients =
            |it: &Expected| matches!(it, Expected::Batch { front, .. } if front.is_some());
        self.expected.iter().any(of_clients)
    }

    fn on_outlived(&mut self, boot: BootId) {
        self.is_ended = true;
        self.output.to_loop.push(FromApply::Outlived { boot });
    }

    /// Ends, since another member took this one's place and the state has forgotten which of this
    /// member's batches it holds: a batch that is handed over again could be applied twice, or
    /// never.
    fn on_forgotten(&mut self) {
        self.is_ended = true;
        self.output.to_loop.push(FromApply::Forgotten);
    }

    /// Takes the waiters of an own batch, which was announced before its entry was proposed. None
    /// if it was not: this member ends. A batch of an earlier boot is never expected: it has no
    /// waiters left, and its origin differs.
    fn expect(&mut self, entry: &Entry, wanted: u64) -> Option<Expecting> {
        match self.expected.pop_front() {
            Some(Expected::Batch { sequence, front, waiters }) if sequence == wanted => {
                let count = waiters.len();
                Some(Expecting { sequence, count, front, waiters: waiters.into_iter() })
            }
            _ => {
                self.end_at(entry, Unreadable::NotOwn { sequence: wanted });
                None
            }
        }
    }

    /// Answers refused commands once everything handed over before them is answered.
    fn answer_refused(&mut self, machine: &Machine) {
        while self.may_go_on()
            && let Some(Expected::Refused { front, waiters, reason }) = self.expected.front_mut()
        {
            let (front, reason) = (*front, *reason);
            let Some(waiter) = waiters.pop_front() else {
                self.expected.pop_front();
                continue;
            };
            if waiter.is_given_up {
                continue;
            }
            self.pending = Some(Pending::new(front, waiter, machine.mark(), Err(reason)));
            self.run_pending(machine);
        }
    }

    /// Runs the reads behind a command on the state right after it, as many as one hold may answer,
    /// and answers the command once all have run. If one is handed back, so are the ones behind it:
    /// their replies come after its own.
    fn run_pending(&mut self, machine: &Machine) {
        let Some(mut pending) = self.pending.take() else { return };
        while !pending.reads.as_slice().is_empty() {
            if self.is_output_full() {
                self.pending = Some(pending);
                return;
            }
            let travelling = pending.reads.next().expect("the loop checked that it exists");
            let answer = match pending.done.last() {
                Some(ReadAnswer::HandedBack) => ReadAnswer::HandedBack,
                _ => travelling.run(machine, &self.replies),
            };
            self.answer_bytes += answer.byte_count();
            pending.done.push(answer);
        }
        let Pending { front, connection, ticket, mark, answered, done, .. } = pending;
        let answer = Answer::Command { connection, ticket, mark, answered, reads: done };
        push_answer(&mut self.answers, front, answer);
    }

    fn answer_syncs(&mut self, machine: &Machine) {
        while let Some(&(index, caller)) = self.syncs.front() {
            if index > self.last_index {
                break;
            }
            self.syncs.pop_front();
            let Caller { front, connection, ticket } = caller;
            let answer = Answer::Synced { connection, ticket, mark: machine.mark() };
            push_answer(&mut self.answers, front, answer);
        }
    }

    fn answer_lease_times(&mut self, machine: &Machine) {
        while let Some((index, _)) = self.lease_times.front()
            && *index <= self.last_index
        {
            let told = self.lease_times.pop_front();
            for (caller, answered) in told.into_iter().flat_map(|(_, told)| told) {
                let Caller { front, connection, ticket } = caller;
                let answer = Answer::Lease { connection, ticket, mark: machine.mark(), answered };
                push_answer(&mut self.answers, front, answer);
            }
        }
    }

    fn freeze_step(&mut self, machine: &mut Machine) {
        if !machine.is_freezing() {
            return;
        }
        let message = match machine.freeze_step(SNAPSHOT_PIECE_BYTES, SNAPSHOT_STEP_SLOTS_MAX) {
            FreezeStep::Piece(bytes) => FromApply::Piece { bytes, last: false },
            FreezeStep::Last(bytes) => FromApply::Piece { bytes, last: true },
            FreezeStep::Aborted => FromApply::FreezeAborted,
        };
        self.output.to_loop.push(message);
    }
}

/// Moves past a command that was applied. What is left to do for its waiter, if it has one.
fn on_applied(
    counts: &CommandCounts,
    at: &mut BatchPosition,
    framed: &Framed<'_>,
    reply: Reply,
) -> Option<Pending> {
    counts.on_command(&framed.command, &reply.outcome);
    at.command_offset = framed.end;
    let (front, waiter) = at.expected.as_mut()?.next()?;
    Some(Pending::new(front, waiter, reply.mark, Ok(reply.outcome)))
}

impl Position {
    fn at_start(header: EntryHeader) -> Position {
        Position {
            header,
            batches_left: header.batch_count,
            batch_offset: entry::HEADER_BYTES,
            batch: None,
        }
    }
}

fn push_answer(answers: &mut Vec<(FrontId, Vec<Answer>)>, front: FrontId, answer: Answer) {
    match answers.iter_mut().find(|(other, _)| *other == front) {
        Some((_, list)) => list.push(answer),
        None => answers.push((front, vec![answer])),
    }
}

#[cfg(test)]
mod tests;
