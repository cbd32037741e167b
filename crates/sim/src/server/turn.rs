//! One turn of Loop in a simulated process, as in `node`: gives Loop its inputs, carries out its
//! output, and checks the result.

use std::sync::Arc;

use bytes::Bytes;
use machine::{Level, MemberId, Servers, StatedLevel};
use member::log_writer::LogInput;
use member::message::{DiskJob, LoopInput, Submission, ToApply, ToLoop, Unavailable};
use member::order::LoopOutput;
use member::order::limits::ENTRIES_TO_DISK_MAX;
use member::peer::{AskLeases, PeerFrame, PeerMessage};
use member::{BadPeer, Hello, Role};
use storage::datadir;
use storage::record::{EntryKind, SnapshotPoint};

use super::change_sabotage::forged_finish;
use super::{ChangeSabotage, Death, Lived, Sabotage, Server, disk_failed};
use crate::limits::SERVES_ON_US_MAX;
use crate::witness::Witness;
use crate::witness::levels::raise_of;
use crate::witness::renewals::{Asked, Leader};
use crate::world::{Actor, World};

impl Server {
    /// Tells Loop how much time has passed, if that is due. Returns whether it was due.
    fn advance_loop(&mut self, world: &World) -> bool {
        let elapsed_us = self.clock.local_us(world.now_us) - self.times.last_us;
        let is_time =
            world.now_us >= self.times.next_tick_us || elapsed_us >= self.times.raft_tick_us;
        if is_time {
            let elapsed_ms = elapsed_us / 1000;
            self.times.last_us += elapsed_ms * 1000;
            self.member.advance(elapsed_ms);
        }
        is_time
    }

    /// Runs one turn of Loop.
    ///
    /// # Errors
    /// The process has ended.
    pub(super) fn run_loop(&mut self, world: &mut World, witness: &mut Witness) -> Lived {
        let since_us = *self.judged.waiting_since_us.get_or_insert(world.now_us);
        self.judged.refusing.begin_turn(self.disk.may_lack_room());
        if self.has_change_sabotage(ChangeSabotage::FinishedBeforeVotesMoved)
            && self.seen.status.role == Role::Leader
        {
            self.queues.to_loop.extend(forged_finish(&self.machine));
        }
        let some = self.some_inputs(world);
        let is_time = self.advance_loop(world);
        let unheard_of = self.take_inputs(some, world, witness);
        if is_time {
            self.member.on_time();
        }
        self.note_contact();
        self.note_raising(world.now_us);
        let output = self.member.finish(self.clock.wall_ms(world.now_us));
        self.note_refusing(output.disk_is_full, world, witness)?;
        self.note_renewed(&output, world, witness);
        self.plan_tick(world);
        // No correct member sends frames without meaning. If this member condemns its directory
        // now, it caused them itself.
        let is_explained = output.condemned.is_some() || self.conditions.sabotage.is_some();
        if let Some(what) = unheard_of.filter(|_| !is_explained) {
            return Err(Death::Bug(what));
        }
        self.seen.fetching.extend(output.fetching);
        self.seen.status = self.member.status();
        self.note_transfer(since_us, !output.disk.is_empty());
        if !self.is_alone {
            witness
                .on_status(self.number, self.origin.member, &self.seen.status, world.now_us)
                .map_err(Death::Bug)?;
        }
        self.give_disk(output.disk, since_us, world, witness)?;
        self.judge_memberships(witness, world.now_us)?;
        self.give_apply(output.apply, world, witness)?;
        self.give_peers(output.peers, witness)?;
        if !output.snapshot.is_empty() {
            self.queues.to_snapshot.extend(output.snapshot);
            if self.queues.snapshot_report.is_none() {
                self.wake(world, Actor::Snapshot);
            }
        }
        self.release_log(output.release, world)?;
        if let Some(is_yielding) = output.yield_room {
            self.queues.to_disk.push_back(LogInput::YieldRoom(is_yielding));
            self.wake_disk(world);
        }
        self.seen.differences.extend(output.differences);
        if let Some(why) = output.condemned.filter(|_| self.conditions.sabotage.is_none()) {
            datadir::condemn(&self.disk, &why.to_string()).map_err(disk_failed)?;
            return Err(Death::Condemned(why));
        }
        let unknown = output.unknown.map(|entry| Death::TooOld(entry.to_string()));
        let unreadable = output.unreadable.map(|entry| Death::Bug(entry.to_string()));
        unknown.or(unreadable).map_or(Ok(()), Err)?;
        self.note_servers(output.servers, output.removed);
        if let Some(stated) = output.raised {
            self.tell_level(stated);
        }
        if output.ready {
            self.become_ready(world, witness)?;
        }
        if !self.queues.to_loop.is_empty() {
            self.wake(world, Actor::Loop);
        }
        self.wake_at(world, Actor::Loop, self.times.next_tick_us);
        Ok(())
    }

    fn has_change_sabotage(&self, sabotage: ChangeSabotage) -> bool {
        self.conditions.sabotage == Some(Sabotage::Changes(sabotage))
    }

    /// Judges the memberships that Loop knows, and the votes of a leader.
    fn judge_memberships(&mut self, witness: &mut Witness, now_us: u64) -> Lived {
        self.note_serving(now_us);
        let members = &mut witness.members;
        members.on_memberships(self.member.memberships()).map_err(Death::Bug)?;
        let replica::Status { role, term, .. } = self.seen.status;
        match role {
            Role::Leader => {
                let leader = (self.origin.member, term);
                members.check_votes(leader, self.member.memberships()).map_err(Death::Bug)
            }
            _ => Ok(()),
        }
    }

    /// Notes when the member may hand over commands of its clients.
    fn note_serving(&mut self, now_us: u64) {
        let (own, servers) = (self.origin.member, self.machine.control().servers());
        if self.member.voters().contains(&own.0) || servers.serves_without_vote(own) {
            self.judged.served_us = Some(now_us);
        }
    }

    /// Checks that the member may hand over commands of its clients. It learns late that it may not
    /// any more.
    fn check_serving(&self, world: &World, witness: &Witness) -> Lived {
        let is_known = |at_us: u64| world.now_us <= at_us + SERVES_ON_US_MAX;
        match !witness.members.is_watched || self.judged.served_us.is_some_and(is_known) {
            true => Ok(()),
            false => {
                Err(Death::Bug("hands over commands, and has no vote and no leave".to_string()))
            }
        }
    }

    /// Notes the list of servers that Loop tells, and whether this member was removed.
    fn note_servers(&mut self, servers: Option<Arc<Servers>>, is_removed: bool) {
        let is_ignored = self.has_change_sabotage(ChangeSabotage::RemovalIgnored);
        self.seen.news.extend(servers.map(|servers| (servers, is_removed && !is_ignored)));
    }

    /// If Loop asks for it, lets the log release the entries that a durable snapshot covers.
    fn release_log(&mut self, point: Option<SnapshotPoint>, world: &mut World) -> Lived {
        let Some(point) = point else { return Ok(()) };
        if point.index > self.judged.snapshot_index {
            return Err(Death::Bug(format!(
                "the log is released up to entry {}, a durable snapshot holds {}",
                point.index, self.judged.snapshot_index
            )));
        }
        self.queues.to_disk.push_back(LogInput::Release(point));
        self.wake_disk(world);
        Ok(())
    }

    /// Plans the latest time at which Loop must learn the time again.
    fn plan_tick(&mut self, world: &World) {
        let due_us = self.times.last_us + self.member.due_ms() * 1000;
        let due_in_us = due_us.saturating_sub(self.clock.local_us(world.now_us));
        self.times.next_tick_us = world.now_us + self.clock.world_us(due_in_us);
    }

    /// Takes all, or a random part, of the inputs that wait for Loop.
    fn some_inputs(&mut self, world: &mut World) -> Vec<LoopInput> {
        // A thread takes the inputs that have arrived by then, and the later ones in its next turn.
        let some = match world.random.one_in(4) {
            true => world.random.below(self.queues.to_loop.len() as u64 + 1) as usize,
            false => self.queues.to_loop.len(),
        };
        self.queues.to_loop.drain(..some).collect()
    }

    /// Whether a sabotage keeps this input from Loop. If the sabotage is [`Sabotage::RoomDenied`],
    /// also makes Apply refuse the input's commands.
    fn is_kept_from_loop(&mut self, input: &mut LoopInput, world: &mut World) -> bool {
        match (self.conditions.sabotage, input) {
            (Some(Sabotage::RenewalsOmitted), LoopInput::Front(ToLoop::Heard(_))) => true,
            (Some(Sabotage::RoomDenied), LoopInput::Front(ToLoop::Submit(submission)))
                if world.random.one_in(20) =>
            {
                let (front, reason) = (submission.front, Unavailable::DiskFull);
                let waiters = core::mem::take(&mut submission.waiters);
                self.queues.to_apply.push_back(ToApply::Refuse { front, waiters, reason });
                self.wake(world, Actor::Apply);
                true
            }
            _ => false,
        }
    }

    /// Gives Loop its inputs. Returns a description of the first frame without meaning; `None` if
    /// there was none.
    fn take_inputs(
        &mut self,
        inputs: Vec<LoopInput>,
        world: &mut World,
        witness: &mut Witness,
    ) -> Option<String> {
        let mut unheard_of = None;
        for mut input in inputs {
            if self.is_kept_from_loop(&mut input, world) {
                continue;
            }
            match &mut input {
                LoopInput::Front(message) => {
                    if let ToLoop::Sync(caller) = *message {
                        self.judged.syncs.insert(caller, witness.newest_index());
                        if self.conditions.sabotage == Some(Sabotage::SyncFromLocalState) {
                            let index = self.machine.index();
                            self.queues.to_apply.push_back(ToApply::Sync { index, caller });
                            self.wake(world, Actor::Apply);
                            continue;
                        }
                    }
                    if let ToLoop::Withdraw(_, connections) = message {
                        let last = self.judged.announced;
                        witness.on_connections_given_up(self.origin, connections, last);
                    }
                    if let Some(again) = self.doubled(message, world) {
                        let taken = self.member.handle(LoopInput::Front(again));
                        taken.expect("a Front is no other member");
                    }
                }
                LoopInput::Peer { from, frame } => {
                    if let Some(is_full) = fullness_in(*from, frame) {
                        self.note_full(*from, is_full, world);
                    }
                }
                LoopInput::Persisted(id) => self.judged.persisting.retain(|job| job > id),
                LoopInput::DiskRoom { is_full } => {
                    witness.on_room(self.number, *is_full, world.now_us);
                }
                LoopInput::Linked { peer, server } => {
                    // On a new link, the member reports a full disk again.
                    self.note_full(*peer, false, world);
                    let level_max = server.as_ref().map(|server| server.level_max);
                    self.judged.heard.on_linked(*peer, level_max, world.now_us);
                    level_max.into_iter().for_each(|it| witness.levels.on_said(*peer, it));
                    if self.conditions.sabotage == Some(Sabotage::LevelsIgnored)
                        && let Some(server) = server
                    {
                        server.level_max = Level::NEWEST;
                    }
                }
                _ => {}
            }
            self.note_renewals(&input, world, witness);
            let gives_up = matches!(input, LoopInput::Front(ToLoop::Withdraw(..)));
            let waiting_count = self.member.waiting_count();
            if let Err(BadPeer { from, error }) = self.member.handle(input) {
                unheard_of.get_or_insert_with(|| format!("from {from:?}: {error}"));
                self.seen.refused.push(from);
            }
            if gives_up {
                witness.on_batches_gone(waiting_count - self.member.waiting_count());
            }
        }
        unheard_of
    }

    /// This member's number and the term that it leads in; `None` if it does not lead.
    fn led(&self) -> Option<Leader> {
        let status = &self.seen.status;
        (status.role == Role::Leader).then_some((self.number, status.term))
    }

    /// Notes the lease renewals that reach this leader.
    fn note_renewals(&self, input: &LoopInput, world: &World, witness: &mut Witness) {
        let Some(leader) = self.led() else { return };
        match input {
            LoopInput::Front(ToLoop::AskLeases(questions)) => {
                for (caller, question) in questions {
                    let asked = Asked::from(caller);
                    witness.renewals.on_question(leader, asked, *question, world.now_us);
                }
            }
            LoopInput::Peer { from, frame } => {
                let message = PeerMessage::decode(*from, frame.clone());
                let Ok(PeerMessage::AskLeases(AskLeases { boot, questions })) = message else {
                    return;
                };
                for (number, question) in questions {
                    let asked = Asked::By(*from, boot, number);
                    witness.renewals.on_question(leader, asked, question, world.now_us);
                }
            }
            _ => {}
        }
    }

    /// Notes the lease renewals that this leader answers.
    fn note_renewed(&self, output: &LoopOutput, world: &World, witness: &mut Witness) {
        let Some(leader) = self.led() else { return };
        for message in &output.apply {
            let ToApply::LeaseTimes { answers, .. } = message else { continue };
            for (caller, _) in answers.iter().filter(|(_, answered)| answered.is_ok()) {
                witness.renewals.on_answer(leader, Asked::from(caller), world.now_us);
            }
        }
        for (member, frame) in &output.peers {
            let message = PeerMessage::decode(self.origin.member, frame.clone());
            let Ok(PeerMessage::LeaseTimes(times)) = message else { continue };
            for (number, _) in times.answers {
                let asked = Asked::By(*member, times.boot, number);
                witness.renewals.on_answer(leader, asked, world.now_us);
            }
        }
    }

    /// Notes that another member reports whether its disk is full.
    fn note_full(&mut self, from: MemberId, is_full: bool, world: &World) {
        let leader = self.seen.status.leader;
        // The inputs handled so far depended on its previous report.
        self.look_at_leader(leader, world);
        self.judged.refusing.on_said(from, is_full, self.clock.local_us(world.now_us));
        self.look_at_leader(leader, world);
    }

    /// Returns whether this member's leader has recently reported a full disk.
    fn look_at_leader(&mut self, leader: Option<u64>, world: &World) -> bool {
        let local_us = self.clock.local_us(world.now_us);
        self.judged.refusing.look(leader, local_us, self.times.raft_tick_us)
    }

    /// At the end of a turn, notes whether there was a reason to refuse writes in it, and whether
    /// there still is one.
    fn note_refusing(&mut self, own: Option<bool>, world: &World, witness: &mut Witness) -> Lived {
        self.judged.refusing.on_own(own).map_err(Death::Bug)?;
        // Only at the end of a turn does Loop know of a new leader.
        self.look_at_leader(self.seen.status.leader, world);
        let is_told = self.look_at_leader(self.member.status().leader, world);
        let refusing = &self.judged.refusing;
        let is_now = is_told || refusing.is_full();
        witness.on_refusing(self.number, (refusing.has_reason(), is_now), world.now_us);
        Ok(())
    }

    /// Notes when Loop last had contact with the leader, for the connection runtimes.
    fn note_contact(&mut self) {
        let told_ms = (self.times.last_us - self.times.started_local_us) / 1000;
        let is_ignored = self.conditions.sabotage == Some(Sabotage::ContactIgnored);
        let silent_ms = self.member.contact_ms().filter(|_| !is_ignored);
        self.fronts.contact_at_ms = silent_ms.map(|silent_ms| match silent_ms {
            u64::MAX => 0,
            silent_ms => told_ms.saturating_sub(silent_ms).max(1),
        });
    }

    /// Notes since when a transfer of leadership delays proposals. After the transfer the delay
    /// ends with the first turn that gives the log nothing (`is_proposing` is false), because
    /// delayed proposals come before that.
    fn note_transfer(&mut self, since_us: u64, is_proposing: bool) {
        let transferring_since_us = &mut self.judged.transferring_since_us;
        match self.seen.status.transferring_to {
            Some(_) => _ = transferring_since_us.get_or_insert(since_us),
            None if !is_proposing => *transferring_since_us = None,
            None => {}
        }
    }

    /// Announces this level to other members from now on.
    fn tell_level(&mut self, stated: StatedLevel) {
        self.seen.raised = Some(stated.level);
        self.hello = Arc::new(Hello { level: Some(stated), ..Hello::clone(&self.hello) });
    }

    /// Gives the log its jobs, and checks them. Their entries may have waited since `since_us`.
    fn give_disk(
        &mut self,
        jobs: Vec<DiskJob>,
        since_us: u64,
        world: &mut World,
        witness: &mut Witness,
    ) -> Lived {
        for mut job in jobs {
            let changes = job.entries.iter().filter(|it| it.kind == EntryKind::MembershipChange);
            changes.for_each(|entry| witness.on_membership(entry.index));
            if let Some(hard_state) = job.hard_state {
                let (term, vote) = (hard_state.term, hard_state.vote);
                witness.members.on_vote(self.origin.member, term, vote);
            }
            for entry in job.entries.iter().filter(|entry| !entry.payload.is_empty()) {
                self.disk.announce(entry.index, &entry.payload);
                let at = (entry.index, entry.term);
                let replica::Status { role, term, .. } = self.seen.status;
                let has_commands = entry.kind != EntryKind::MembershipChange;
                if role == Role::Leader && term == entry.term && has_commands {
                    let proposed = witness.check_proposed(self.origin, term, &entry.payload);
                    proposed.map_err(Death::Bug)?;
                }
                if entry.kind == EntryKind::Normal && entry.term == self.seen.status.term {
                    self.check_raise(&entry.payload, since_us, world, witness)?;
                }
                witness
                    .on_proposed(self.number, at, &entry.payload, since_us, world.now_us)
                    .map_err(Death::Bug)?;
            }
            match self.conditions.sabotage {
                Some(Sabotage::PersistedTooEarly) => {
                    self.queues.to_loop.push_back(LoopInput::Persisted(job.id));
                }
                Some(Sabotage::VotesForgotten) => job.hard_state = None,
                _ => {}
            }
            self.judged.persisting.push_back(job.id);
            self.queues.to_disk.push_back(LogInput::Job(job));
            self.wake_disk(world);
        }
        if self.judged.persisting.len() < ENTRIES_TO_DISK_MAX {
            self.judged.waiting_since_us = None;
        }
        Ok(())
    }

    /// Notes when this leader decides to raise the level.
    pub(super) fn note_raising(&mut self, now_us: u64) {
        let before = self.judged.raising.take();
        let raising = self.member.raising();
        self.judged.raising = raising.map(|level| match before {
            Some((of, at_us)) if of == level => (level, at_us),
            _ => (level, now_us),
        });
    }

    /// Checks an entry that raises the level. Every member must have had a link to the leader, on
    /// which it had said that it knows the level, at some time at which the leader may have decided
    /// the raise; that is `since_us` or later.
    fn check_raise(
        &self,
        payload: &Bytes,
        since_us: u64,
        world: &World,
        witness: &mut Witness,
    ) -> Lived {
        let Some(level) = raise_of(payload).filter(|_| self.seen.status.role == Role::Leader)
        else {
            return Ok(());
        };
        let own = self.origin.member;
        witness.levels.on_said(own, level);
        let decided_us = self.judged.raising.map(|(_, at_us)| at_us);
        let waited = [self.judged.transferring_since_us, decided_us];
        let since_us = waited.into_iter().flatten().fold(since_us, u64::min);
        let knew = |id: &u64| {
            *id == own.0 || self.judged.heard.knew(MemberId(*id), level, since_us, world.now_us)
        };
        match self.members().iter().find(|id| !knew(id)) {
            Some(id) => Err(Death::Bug(format!(
                "member {} raises the level to {level}, and member {id} has not said to it that it \
                 knows that",
                own.0
            ))),
            None => Ok(()),
        }
    }

    fn give_peers(&mut self, peers: Vec<(MemberId, PeerFrame)>, witness: &mut Witness) -> Lived {
        let says_full = |frame| fullness_in(self.origin.member, frame) == Some(true);
        if peers.iter().any(|(_, frame)| says_full(frame)) && !self.judged.refusing.was_full() {
            return Err(Death::Bug("says that its disk is full, and it is not".to_string()));
        }
        let frames = peers.iter().map(|(_, frame)| frame);
        witness.check_sent(self.origin, frames).map_err(Death::Bug)?;
        self.queues.outbox.extend(peers);
        Ok(())
    }

    fn give_apply(
        &mut self,
        messages: Vec<ToApply>,
        world: &mut World,
        witness: &mut Witness,
    ) -> Lived {
        for message in messages {
            match &message {
                ToApply::Entries(entries) => {
                    let level = witness.levels.level();
                    let committed = witness.on_committed(self.number, entries, world.now_us);
                    committed.map_err(Death::Bug)?;
                    if witness.levels.level() > level {
                        let (level, members) = (witness.levels.level(), self.members());
                        witness.levels.check_members(level, &members).map_err(Death::Bug)?;
                    }
                }
                ToApply::Refuse { .. } if !self.judged.refusing.has_reason() => {
                    let what = "refuses writes, and no disk that matters is full";
                    return Err(Death::Bug(what.to_string()));
                }
                ToApply::Expect { sequence, front, waiters } => {
                    self.judged.announced = *sequence;
                    if front.is_some() {
                        self.check_serving(world, witness)?;
                    }
                    if let Some(front) = front.filter(|it| self.fronts.etcd_position(*it).is_some())
                    {
                        let tickets = waiters.iter().map(|waiter| waiter.ticket).collect();
                        witness.etcd.on_batch(self.origin, *sequence, front, tickets);
                    }
                }
                ToApply::GiveUp { given_up, .. } => {
                    witness.on_given_up(self.origin, given_up, self.seen.status.term);
                }
                ToApply::Replace { image, .. } => {
                    let found = (image.machine.index(), image.machine.mark().ordinal);
                    let replaced = witness.on_replaced(self.number, image.at.index, found);
                    replaced.map_err(Death::Bug)?;
                    self.seen.counts.snapshots.fetched += 1;
                }
                _ => {}
            }
            self.queues.to_apply.push_back(message);
            self.wake(world, Actor::Apply);
        }
        Ok(())
    }

    fn become_ready(&mut self, world: &mut World, witness: &mut Witness) -> Lived {
        assert!(!self.is_ready, "a member becomes ready once");
        self.is_ready = true;
        let index = self.machine.index().0;
        witness.on_ready(self.number, index, world.now_us).map_err(Death::Bug)?;
        // An ensemble uses the settings of its leader.
        if self.is_alone && *self.machine.zk().settings() != self.conditions.settings {
            return Err(Death::Bug("ready without the settings that are wanted".to_string()));
        }
        self.open(world);
        Ok(())
    }

    /// For a sabotage: sometimes returns a copy of a batch, to be handed over again. No client
    /// waits for the copy's answers.
    fn doubled(&self, message: &ToLoop, world: &mut World) -> Option<ToLoop> {
        let ToLoop::Submit(Submission { front, batch, .. }) = message else { return None };
        if self.conditions.sabotage != Some(Sabotage::BatchesDoubled) || !world.random.one_in(20) {
            return None;
        }
        let (front, batch) = (*front, batch.clone());
        let waiters = Vec::new();
        Some(ToLoop::Submit(Submission { front, batch, waiters }))
    }
}

/// Whether the frame reports a full disk, or room again; `None` if it is another message.
fn fullness_in(from: MemberId, frame: &PeerFrame) -> Option<bool> {
    // All other messages are longer; decoding them would cost more.
    if frame.body.len() != 1 {
        return None;
    }
    match PeerMessage::decode(from, frame.clone()) {
        Ok(PeerMessage::Full(is_full)) => Some(is_full),
        _ => None,
    }
}
