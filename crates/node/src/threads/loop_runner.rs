//! Runs Loop on a thread of the node. One turn gives Loop the input that has arrived and passes on
//! its output.

use std::mem;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use member::log_writer::LogInput;
use member::message::{LoopInput, ToApply, UnknownEntry, UnreadableEntry};
use member::{BadPeer, Condemned, Loop, LoopOutput};

use super::announce::announce;
use super::{Shared, fail, peer_bytes, wall_ms};
use crate::ack_latency::AckClock;
use crate::listed::{ListNews, peers_of};
use crate::peer_hello::Channel;

/// Loop, and when it was last told the time.
pub(crate) struct LoopRunner {
    pub member: Loop,
    inputs: Vec<LoopInput>,
    last: Instant,
    /// When Loop must be told the time again at the latest.
    due: Instant,
    /// How often Loop is told the time when it runs anyway.
    tick: Duration,
    /// When Loop's own thread will wake up; `None` while it is awake.
    sleeps_until: Option<Instant>,
    acks: AckClock,
}

impl LoopRunner {
    /// `tick` is the length of a tick of the replica.
    pub fn new(member: Loop, tick: Duration) -> LoopRunner {
        let last = Instant::now();
        let acks = AckClock::default();
        let (inputs, sleeps_until) = (Vec::new(), None);
        LoopRunner { member, inputs, last, due: last, tick, sleeps_until, acks }
    }

    /// Gives Loop the input that has arrived and passes on its output. Wakes Apply's thread if
    /// `wakes_apply`; otherwise the caller runs Apply. Returns whether frames are queued for other
    /// members.
    pub fn turn(&mut self, shared: &Shared, wakes_apply: bool) -> bool {
        let mut inputs = mem::take(&mut self.inputs);
        shared.to_loop.take_now(&mut inputs);
        shared.peer_input_bytes.fetch_sub(peer_bytes(&inputs), Ordering::Relaxed);
        let is_time = self.advance();
        for input in inputs.drain(..) {
            if let Err(BadPeer { from, error }) = self.member.handle(input)
                && let Some(peers) = &shared.peers
            {
                peers.end_links_from(from, &error);
            }
        }
        self.inputs = inputs;
        if is_time {
            self.member.on_time();
        }
        self.tell_contact(shared);
        let output = self.member.finish(wall_ms());
        self.due = self.last + Duration::from_millis(self.member.due_ms());
        if self.sleeps_until.is_some_and(|until| until > self.due) {
            self.sleeps_until = Some(self.due);
            shared.to_loop.wake_consumer();
        }
        if shared.peers.is_some() {
            let given = output.disk.last().and_then(|job| job.entries.last());
            let given = given.map(|entry| entry.index);
            shared.count_acks(&self.acks.look(&self.member, given));
        }
        hand_out(shared, output, wakes_apply)
    }

    /// Tells Loop the time that has passed, if that is due. Returns whether it was.
    fn advance(&mut self) -> bool {
        let now = Instant::now();
        let elapsed = now - self.last;
        let is_time = now >= self.due || elapsed >= self.tick;
        if is_time {
            let elapsed_ms = elapsed.as_millis() as u64;
            self.last += Duration::from_millis(elapsed_ms);
            self.member.advance(elapsed_ms);
        }
        is_time
    }

    /// Publishes the term, the commit index and the time of the last contact for the connection
    /// runtimes. Runs after each turn, since there may be new contact in a turn in which Loop is
    /// not told the time.
    fn tell_contact(&self, shared: &Shared) {
        let contact_at_ms = match self.member.contact_ms() {
            Some(u64::MAX) => 0,
            Some(silent_ms) => {
                let told_ms =
                    self.last.saturating_duration_since(shared.started).as_millis() as u64;
                told_ms.saturating_sub(silent_ms).max(1)
            }
            None => u64::MAX,
        };
        shared.contact_at_ms.store(contact_at_ms, Ordering::Release);
        shared.raft_term.store(self.member.term(), Ordering::Release);
        shared.commit_index.store(self.member.commit_index(), Ordering::Release);
        if let Some(peers) = &shared.peers {
            peers.set_open(!self.member.knows_leader(), self.member.takes_guests());
        }
    }

    /// Records that Loop's own thread goes to sleep; returns when it must wake up.
    pub fn sleep(&mut self) -> Instant {
        self.sleeps_until = Some(self.due);
        self.due
    }
}

/// Passes Loop's output to its receivers. Returns whether frames are queued for other members.
fn hand_out(shared: &Shared, mut output: LoopOutput, wakes_apply: bool) -> bool {
    if !output.disk.is_empty() {
        shared.to_disk.push(mem::take(&mut output.disk).into_iter().map(LogInput::Job));
    }
    let is_work = output.apply.iter().any(ToApply::is_work);
    let to_apply = mem::take(&mut output.apply);
    match wakes_apply && is_work {
        true => shared.to_apply.push(to_apply),
        false => shared.to_apply.push_quietly(to_apply),
    }
    let is_sending = !output.peers.is_empty();
    if let Some(peers) = &shared.peers {
        for (to, frame) in mem::take(&mut output.peers) {
            let channel = if frame.is_bulk() { Channel::Bulk } else { Channel::Log };
            peers.send(to, channel, frame);
        }
    }
    if !output.snapshot.is_empty() {
        shared.to_snapshot.push(mem::take(&mut output.snapshot));
    }
    if let Some(point) = output.release {
        shared.to_disk.push([LogInput::Release(point)]);
    }
    announce(&output);
    if let Some(why) = output.condemned {
        condemn(shared, why);
    }
    if let Some(entry) = output.unknown {
        end_at_unknown(&entry);
    }
    if let Some(entry) = output.unreadable {
        end_at_unreadable(&entry);
    }
    if let Some(servers) = output.servers {
        if let Some(peers) = &shared.peers {
            peers.set_servers(peers_of(&servers), servers.retired().collect());
        }
        let is_removed = output.removed;
        shared.listed.send_replace(Some(ListNews { servers, is_removed }));
    }
    if let (Some(stated), Some(peers)) = (output.raised, &shared.peers) {
        peers.set_level(stated);
    }
    if let Some(mark) = output.installed
        && let Some(waiter) = shared.waiters.install.lock().take()
    {
        // A caller that gave up needs no answer.
        let _ = waiter.send(mark);
    }
    if let Some(is_yielding) = output.yield_room {
        shared.to_disk.push([LogInput::YieldRoom(is_yielding)]);
    }
    if let Some(stamped_ms) = output.proposed_ms {
        shared.note_proposal(stamped_ms);
    }
    if output.ready {
        shared.ready.push([()]);
    }
    is_sending
}

/// Ends the process, because a later version wrote the log. Changes nothing on disk.
fn end_at_unknown(entry: &UnknownEntry) -> ! {
    tracing::error!("{entry}; this server stops, and its data directory stays as it is");
    std::process::exit(70);
}

/// Ends the process, because an entry of the log cannot be read. Changes nothing on disk.
fn end_at_unreadable(entry: &UnreadableEntry) -> ! {
    tracing::error!("{entry}; this server stops, and its data directory stays as it is");
    std::process::exit(70);
}

/// Marks the data directory as condemned, because it does not hold what it should, and ends the
/// process.
fn condemn(shared: &Shared, why: Condemned) -> ! {
    let reason = why.to_string();
    if let Err(error) = storage::datadir::condemn(&shared.disk, &reason) {
        fail("the data directory cannot be condemned", &error);
    }
    tracing::error!(
        "{reason}; this server stops. At its next start it sets its data directory aside and \
         fetches the state from the other servers"
    );
    std::process::exit(70);
}
