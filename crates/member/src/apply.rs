//! Apply: runs committed commands on the machine (the replicated state), in the order of the log,
//! and answers the callers that wait for their outcomes.
//!
//! The driver locks the machine for writing (a *hold*) while [`Apply::step`] runs. Before it
//! releases the lock, it pushes the output of [`Apply::take_output`] to the Fronts and to Loop. So
//! a Front that reads the state has been sent every change that it can see there.
//!
//! A hold may end inside an entry: between two commands, within a command that looks at many keys
//! or znodes, or between the reads that travelled with a command. The next hold goes on at that
//! place, and nothing but Apply changes the state. An image begins only between two entries.

mod amid;
mod giving_up;
mod hold;
mod own;
mod waits;

use std::collections::VecDeque;
use std::sync::Arc;

use machine::codec::{DecodeError, Reader};
use machine::entry::{self, EntryHeader, Framed};
use machine::image::FreezeStep;
use machine::{
    ApplyStep, BootId, Command, ControlCommand, Level, LogIndex, Machine, Mark, Origin,
    PreparedImage, Reply, Stamp,
};
use replica::{Entry, EntryKind};

use crate::limits::{SNAPSHOT_PIECE_BYTES, SNAPSHOT_STEP_SLOTS_MAX};
use crate::local_read::{LocalRead, ReadAnswer};
use crate::message::{
    Answer, Answered, FromApply, FrontId, Ticket, ToApply, UnknownEntry, Unreadable,
    UnreadableEntry, Waiter,
};
use crate::reply_room::ReplyRoom;
use crate::snapshot::fetch::WholeSnapshot;
use crate::spaces::{CommandCounts, Search};
use crate::watch_interest::WatchInterest;
use amid::Amid;
use giving_up::GiveUp;
use hold::Hold;
use own::{Expecting, OwnBatches, Refusal};
use waits::Waits;

pub use hold::ApplyOutput;

/// Apply's state: committed entries that wait, waiters of this member's own batches, other requests
/// of Loop's, and the output of the current hold.
pub struct Apply {
    own: OwnBatches,
    log: Committed,
    asked: Asked,
    waits: Waits,
    /// Commands that were given up since the last step.
    give_ups: Vec<GiveUp>,
    /// A command whose travelling reads are not all run yet; `None` between two commands.
    pending: Option<Pending>,
    hold: Hold,
    shared: Shared,
    /// The highest level that this build knows.
    level_max: Level,
    /// Whether Apply has ended: the data directory must not be used any more, or this build cannot
    /// read an entry. Loop was told the reason, and nothing more is applied.
    is_ended: bool,
    /// Whether the machine has memory to free that no read needs any more.
    has_garbage: bool,
}

/// The committed entries, and how far they are applied.
struct Committed {
    /// Entries that are not applied yet. Bounded by the credits of the Fronts and by what the
    /// replica hands out.
    entries: VecDeque<Entry>,
    /// The position in the first entry of `entries`; `None` while that entry is not begun.
    at: Option<Position>,
    /// The command that is applied in part; `None` if there is none.
    amid: Option<Amid>,
    /// Index and term of the last whole entry.
    last_index: LogIndex,
    last_term: u64,
}

/// The work that Loop has asked for, beside applying entries. The next step does it.
#[derive(Default)]
struct Asked {
    /// Whether to begin an image, once the entry being applied is done.
    freeze: bool,
    freeze_step: bool,
    thaw: bool,
    search: Option<Search>,
    prepared: Option<PreparedImage>,
    /// A snapshot that is to replace the state, and whether the snapshot may have forgotten this
    /// member.
    replacement: Option<(WholeSnapshot, bool)>,
}

impl Asked {
    /// Whether work is left for the next step or a later one.
    fn is_any(&self) -> bool {
        let Asked { freeze, freeze_step, thaw, search, prepared: _, replacement } = self;
        *freeze || *freeze_step || *thaw || search.is_some() || replacement.is_some()
    }
}

/// The parts that the Fronts share with Apply.
#[derive(Default)]
struct Shared {
    replies: Arc<ReplyRoom>,
    watch_interest: Arc<WatchInterest>,
    command_counts: Arc<CommandCounts>,
}

/// A command that was applied or refused, and that is not answered before the reads that travelled
/// with it are run.
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

/// The position of the next command within the entry being applied.
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

impl Apply {
    /// Starts after the entry at `index`, which the restored machine holds. `level_max` is the
    /// highest level that this build knows.
    pub fn new(origin: Origin, index: LogIndex, term: u64, level_max: Level) -> Apply {
        let (entries, at, amid) = (VecDeque::new(), None, None);
        Apply {
            own: OwnBatches::new(origin),
            log: Committed { entries, at, amid, last_index: index, last_term: term },
            asked: Asked::default(),
            waits: Waits::default(),
            give_ups: Vec::new(),
            pending: None,
            hold: Hold::new(index),
            shared: Shared::default(),
            level_max,
            is_ended: false,
            has_garbage: false,
        }
    }

    /// The record of the Fronts of this member that have watches on keys of etcd.
    pub fn watch_interest(&self) -> &Arc<WatchInterest> {
        &self.shared.watch_interest
    }

    /// The counts of commands, which Apply shares with the Fronts.
    pub fn command_counts(&self) -> &Arc<CommandCounts> {
        &self.shared.command_counts
    }

    /// The room for replies, which Apply shares with the Fronts of ZooKeeper's clients.
    pub fn replies(&self) -> Arc<ReplyRoom> {
        self.shared.replies.clone()
    }

    /// Bytes of answers to travelling reads that [`Apply::take_output`] has not given yet.
    pub fn held_bytes(&self) -> u64 {
        self.hold.answer_bytes()
    }

    /// Takes a message of Loop. The machine does not change yet.
    pub fn receive(&mut self, input: ToApply) {
        match input {
            ToApply::Expect { sequence, front, waiters } => {
                self.own.announce(sequence, front, waiters);
            }
            ToApply::Refuse { front, waiters, reason } => {
                self.own.refuse(front, waiters, reason);
            }
            ToApply::GiveUp { front, given_up, is_told } => {
                self.give_ups.push(GiveUp { front, given_up, is_told });
            }
            ToApply::Entries(entries) => self.log.entries.extend(entries),
            ToApply::Sync { index, caller } => self.waits.sync(index, caller),
            ToApply::LeaseTimes { index, answers } => self.waits.tell_leases(index, answers),
            ToApply::Freeze => self.asked.freeze = true,
            ToApply::FreezeStep => self.asked.freeze_step = true,
            ToApply::Thaw => self.asked.thaw = true,
            ToApply::Search(search) => self.asked.search = Some(search),
            ToApply::Prepare(image) => self.asked.prepared = Some(image),
            ToApply::Replace { image, is_voter } => {
                // The snapshot holds these entries; later ones follow.
                self.log.entries.clear();
                self.log.at = None;
                self.log.amid = None;
                // A member becomes a voter before it hands any batch over. A batch handed over
                // after this message comes from a membership that is newer than the snapshot.
                let may_be_forgotten = !is_voter && self.own.has_clients();
                self.asked.replacement = Some((image, may_be_forgotten));
            }
        }
    }

    /// Whether [`Apply::step`] has work to do. False while the output is full:
    /// [`Apply::take_output`] must be called first.
    pub fn has_work(&self) -> bool {
        !self.hold.is_full() && self.has_work_waiting()
    }

    /// Whether another command may be applied or answered in this hold.
    fn may_go_on(&self) -> bool {
        self.pending.is_none() && !self.hold.is_full()
    }

    fn has_work_waiting(&self) -> bool {
        self.pending.is_some()
            || !self.give_ups.is_empty()
            || self.has_entries()
            || self.asked.is_any()
            || self.has_garbage
            || self.own.has_refusal()
            || self.waits.are_due(self.log.last_index)
    }

    /// Whether Apply has ended, so nothing more is applied: the directory must not be used any
    /// more, or this build cannot read an entry. The state may then be inside an entry.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    fn has_entries(&self) -> bool {
        !self.log.entries.is_empty() && !self.is_ended
    }

    /// Applies up to `commands_max` commands and returns how many it applied. Each key, node or
    /// znode that a command looks at counts as a command; a command that needs more of them goes on
    /// in the next step.
    pub fn step(&mut self, machine: &mut Machine, commands_max: usize) -> usize {
        let mut count = 0;
        self.hold.changes().etcd.set_wants_keys(self.shared.watch_interest.is_any());
        if core::mem::take(&mut self.asked.thaw) {
            machine.thaw();
        }
        // Give up waiters before anything is applied: an entry may have `Nothing` in the place of
        // their commands.
        self.give_up(machine.mark());
        if let Some(image) = self.asked.prepared.take() {
            machine.prepare_image(image);
        }
        if let Some((image, may_be_forgotten)) = self.asked.replacement.take() {
            self.replace(machine, image, may_be_forgotten);
        }
        self.run_pending(machine);
        // Inside a batch, the waiters of that batch are answered before refused commands.
        if self.log.at.as_ref().is_none_or(|at| at.batch.is_none()) {
            self.answer_refused(machine);
        }
        while count < commands_max && self.has_entries() && self.may_go_on() {
            count += self.apply_entry(machine, commands_max - count);
            if self.log.at.is_none() && self.asked.freeze {
                break;
            }
        }
        if self.log.at.is_none() && self.asked.freeze {
            self.asked.freeze = false;
            let index = machine.freeze();
            assert!(index == self.log.last_index);
            let (term, mark) = (self.log.last_term, machine.mark());
            let image_bytes_max = machine.image_bytes_max();
            // A state that was spoiled since its last entry must not be lent to another member.
            self.hold.tell(FromApply::Digest { index, digest: machine.digest() });
            self.hold.tell(FromApply::Frozen { index, term, mark, image_bytes_max });
        }
        if core::mem::take(&mut self.asked.freeze_step) {
            self.freeze_step(machine);
        }
        if let Some(search) = self.asked.search.take() {
            self.hold.tell(FromApply::Found(search.run(machine)));
        }
        self.waits.answer(self.log.last_index, machine.mark(), &mut self.hold);
        machine.prune();
        self.has_garbage = machine.has_garbage();
        self.hold.replaced(machine.take_replaced());
        self.hold.set_image_bytes_max(machine.image_bytes_max());
        count
    }

    /// Takes the output of the steps since the last call.
    pub fn take_output(&mut self) -> ApplyOutput {
        self.hold.take(self.log.last_index, self.own.applied())
    }

    /// Replaces the state by that of a snapshot. All clients are disconnected: the events between
    /// the two states are not known, nor the outcomes of this member's commands that the snapshot
    /// contains. The sessions live on.
    fn replace(&mut self, machine: &mut Machine, image: WholeSnapshot, may_be_forgotten: bool) {
        if let Some((boot, sequence)) = image.machine.control().last_batch(self.own.origin().member)
            && self.own.is_of_unknown_start(boot, sequence)
        {
            self.on_outlived(boot);
            return;
        }
        // A member that serves without a vote is registered first, and if it is forgotten it is
        // never registered again.
        let servers = image.machine.control().servers();
        let is_registered = servers.serves_without_vote(self.own.origin().member);
        let may_be_forgotten = may_be_forgotten && !is_registered;
        if !self.own.is_known(&image.machine) && (self.own.is_known(machine) || may_be_forgotten) {
            self.on_forgotten();
            return;
        }
        // The pending command's connection is disconnected like the others.
        self.pending = None;
        let replaced = core::mem::replace(machine, *image.machine);
        if replaced.is_freezing() {
            self.hold.tell(FromApply::FreezeAborted);
        }
        self.hold.replaced(Some(Box::new(replaced)));
        (self.log.last_index, self.log.last_term) = (LogIndex(image.at.index), image.at.term);
        if let Some((boot, sequence)) = machine.control().last_batch(self.own.origin().member)
            && boot == self.own.origin().boot
        {
            self.own.forget_up_to(sequence);
        }
        self.hold.changes().on_snapshot(machine);
        let (index, digest) = (self.log.last_index, machine.digest());
        self.hold.tell(FromApply::Digest { index, digest });
    }

    /// Applies the rest of the first entry, at most `commands_max` commands. Returns how many.
    fn apply_entry(&mut self, machine: &mut Machine, commands_max: usize) -> usize {
        let entry = self.log.entries.front().expect("the caller checked that it exists").clone();
        if entry.kind == EntryKind::Membership || entry.payload.is_empty() {
            self.finish_entry(machine);
            return 0;
        }
        let mut position = match self.log.at.take() {
            Some(position) => position,
            None => {
                if let Err(unknown) =
                    UnknownEntry::check(entry.index, &entry.payload, self.level_max)
                {
                    self.is_ended = true;
                    self.hold.tell(FromApply::Unknown(unknown));
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
            self.log.at = Some(position);
        }
        count
    }

    /// Ends Apply if this member cannot apply the command or must not, or if the command is not the
    /// one that the batch's next waiter handed over. Returns whether Apply has ended.
    fn ends_at(
        &mut self,
        machine: &Machine,
        entry: &Entry,
        expected: Option<&Expecting>,
        framed: &Framed<'_>,
    ) -> bool {
        let own = self.own.origin().member;
        match framed.command {
            _ if let Some(of) = expected.filter(|expected| !expected.is_for_next(framed)) => {
                self.end_at(entry, Unreadable::NotOwn { sequence: of.sequence() });
            }
            Command::Control(ControlCommand::Forget { member })
                if member == own && self.own.is_known(machine) =>
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
        self.hold.tell(FromApply::Unreadable(unreadable));
    }

    /// Returns what was decoded from an entry. If decoding failed, ends Apply and returns `None`:
    /// an entry was checked when it was made and by checksums since, so a newer program wrote it,
    /// or a program has a bug, and going on would make this member differ from the others.
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
        let entry = self.log.entries.pop_front().expect("the entry being applied is the first");
        machine.finish_entry(LogIndex(entry.index));
        self.log.last_index = LogIndex(entry.index);
        self.log.last_term = entry.term;
        let (index, digest) = (self.log.last_index, machine.digest());
        self.hold.tell(FromApply::Digest { index, digest });
    }

    /// Begins a batch. `None` if it makes Apply end.
    fn begin_batch(
        &mut self,
        machine: &mut Machine,
        entry: &Entry,
        origin: Origin,
        sequence: u64,
    ) -> Option<BatchPosition> {
        let Origin { member, boot } = origin;
        if member == self.own.origin().member && self.own.is_of_unknown_start(boot, sequence) {
            self.on_outlived(boot);
            return None;
        }
        let skipped = !machine.begin_batch(origin, sequence);
        let is_own = origin == self.own.origin() && !skipped;
        let expected = if is_own { Some(self.expect(entry, sequence)?) } else { None };
        Some(BatchPosition { skipped, command_offset: 0, expected })
    }

    /// Applies the rest of the batch at the position, at most `commands_max` commands, and moves
    /// past the batch once it is done. Returns how many commands it applied.
    fn apply_batch(
        &mut self,
        machine: &mut Machine,
        entry: &Entry,
        position: &mut Position,
        commands_max: usize,
    ) -> usize {
        if let Some(amid) = self.log.amid.take() {
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
        self.hold.stamp(position.header.time_ms);
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
            let reply = machine.apply_step(&stamp, &framed.command, step, self.hold.changes());
            let Some(reply) = reply else {
                let (time_ms, offset) = (position.header.time_ms, position.batch_offset);
                self.log.amid = Some(Amid::new(entry, time_ms, offset, at.command_offset));
                // A command that is not done uses up the step.
                return commands_max;
            };
            let pending = on_applied(&self.shared.command_counts, at, &framed, reply);
            self.pending = pending;
            self.run_pending(machine);
        }
        if done {
            if at.expected.take().is_some_and(|expected| !expected.is_complete()) {
                self.end_at(entry, Unreadable::NotOwn { sequence: batch.sequence });
                return count;
            }
            if batch.origin == self.own.origin() && !at.skipped {
                self.own.on_applied(batch.sequence);
            }
            position.batch = None;
            position.batches_left -= 1;
            position.batch_offset = batch.end;
            self.answer_refused(machine);
        }
        count
    }

    /// Goes on with a command that is applied in part. Returns the number of commands that this
    /// part of it counts as.
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
        let Some(reply) = amid.step(machine, step, self.hold.changes()) else {
            self.log.amid = Some(amid);
            return commands_max;
        };
        self.pending = on_applied(&self.shared.command_counts, at, amid.framed(), reply);
        self.run_pending(machine);
        1
    }

    fn on_outlived(&mut self, boot: BootId) {
        self.is_ended = true;
        self.hold.tell(FromApply::Outlived { boot });
    }

    /// Ends Apply: another member took this one's place, and the state has forgotten which of this
    /// member's batches it holds. A batch that is handed over again could be applied twice, or
    /// never.
    fn on_forgotten(&mut self) {
        self.is_ended = true;
        self.hold.tell(FromApply::Forgotten);
    }

    /// Takes the waiters of this member's batch `sequence`. If it was not announced, ends Apply and
    /// returns `None`.
    fn expect(&mut self, entry: &Entry, sequence: u64) -> Option<Expecting> {
        let expecting = self.own.begin(sequence);
        if expecting.is_none() {
            self.end_at(entry, Unreadable::NotOwn { sequence });
        }
        expecting
    }

    /// Answers refused commands once everything handed over before them is answered.
    fn answer_refused(&mut self, machine: &Machine) {
        while self.may_go_on()
            && let Some(Refusal { front, waiter, reason }) = self.own.next_refusal()
        {
            self.pending = Some(Pending::new(front, waiter, machine.mark(), Err(reason)));
            self.run_pending(machine);
        }
    }

    /// Runs the reads behind a command on the state right after it, as many as one hold may answer,
    /// and answers the command once all have run. If one read is handed back to its Front, all
    /// reads behind it are, too: replies must keep their order.
    fn run_pending(&mut self, machine: &Machine) {
        let Some(mut pending) = self.pending.take() else { return };
        while !pending.reads.as_slice().is_empty() {
            if self.hold.is_full() {
                self.pending = Some(pending);
                return;
            }
            let travelling = pending.reads.next().expect("the loop checked that it exists");
            let answer = match pending.done.last() {
                Some(ReadAnswer::HandedBack) => ReadAnswer::HandedBack,
                _ => travelling.run(machine, &self.shared.replies),
            };
            self.hold.count_answer(answer.byte_count());
            pending.done.push(answer);
        }
        let Pending { front, connection, ticket, mark, answered, done, .. } = pending;
        let answer = Answer::Command { connection, ticket, mark, answered, reads: done };
        self.hold.answer(front, answer);
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
        self.hold.tell(message);
    }
}

/// Moves past a command that was applied. Returns what is left to do for its waiter; `None` if
/// nobody waits.
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

#[cfg(test)]
mod tests;
