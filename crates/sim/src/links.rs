//! The links between members. Each link is one-way: it carries frames from the member that dialled
//! to the member that accepted.
//!
//! Frames on a link arrive in order until the link ends. When it ends, a random part of the frames
//! in flight still arrives, and each end learns of the end at its own time. While a fault blocks a
//! direction, frames wait, as in a kernel that retransmits, until the fault is over or an end gives
//! the link up. Pieces of snapshots have their own channel, so other frames never wait behind them.
//!
//! Members must tolerate worse than TCP, so in a rough network single frames are lost, duplicated
//! or reordered.
//!
//! A link remembers the hello of both ends (`node::peer_sockets`). Frames are addressed to a member
//! id, not to a machine. If a member's hello changes because the member gets another id, its links
//! end and are dialled again. If the hello changes only because the member announces a higher
//! level, then only its links to servers that do not know the level end.

use std::collections::VecDeque;
use std::sync::Arc;

use machine::{Level, MemberId};
use member::Hello;
use member::membership::hello::{Handshakes, Incompatibility};
use member::peer::PeerFrame;
use workload::generate::Random;

use crate::limits::{
    DIAL_US_MAX, LINK_BYTES_MAX, LINK_LATENCY_US_MAX, LINK_PATIENCE_US_MAX, LINK_PATIENCE_US_MIN,
};
use crate::world::{Event, World};

/// A direction between two members, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The number of the member that dials and sends.
    pub from: usize,
    /// The number of the member that accepts and receives.
    pub to: usize,
}

/// A notice from the links to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A frame came from another member.
    Frame {
        /// The number of the member that receives it.
        member: usize,
        /// The id of the member that sent it.
        from: MemberId,
        /// The frame.
        frame: PeerFrame,
    },
    /// A link that the member accepted is up, or has ended.
    Linked {
        /// The number of the notified member.
        member: usize,
        /// The hello of the other end.
        peer: Arc<Hello>,
        /// Whether the link is up.
        is_up: bool,
    },
    /// A link that the member dialled is up, or has ended.
    Link {
        /// The number of the notified member.
        member: usize,
        /// The hello of the other end.
        peer: Arc<Hello>,
        /// Whether the link is up.
        is_up: bool,
    },
}

/// How often single frames are lost, duplicated or reordered in a rough network. 0 means never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roughness {
    /// One of so many frames is lost.
    pub lost_one_in: u64,
    /// One of so many frames is delivered twice.
    pub doubled_one_in: u64,
    /// One of so many frames overtakes frames sent before it.
    pub early_one_in: u64,
}

#[derive(Debug)]
enum Parcel {
    Frame(PeerFrame),
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No member has dialled the link, or the dialling member knows that it has ended.
    Down,
    /// The link takes frames.
    Up,
    /// The link has ended, and the dialling member does not know it yet.
    Over,
}

#[derive(Debug, Default)]
struct Channel {
    in_flight: VecDeque<Parcel>,
    /// When each parcel arrives unless the link is blocked. The times ascend even if frames are
    /// reordered.
    due_us: VecDeque<u64>,
    /// When the last parcel in flight arrives, in us.
    last_us: u64,
    /// How many arrival events fell due while the link was blocked. They are scheduled again when
    /// the link is unblocked.
    held_count: usize,
}

#[derive(Debug)]
struct Link {
    pair: Pair,
    state: State,
    /// Counts the times that the link came up.
    epoch: u64,
    /// The channel for small frames, then the channel for pieces of snapshots.
    channels: [Channel; 2],
    /// Whether a fault blocks the link.
    is_blocked: bool,
    /// Whether the receiver refuses new connections, as if its handshakes failed.
    is_refused: bool,
    /// The bytes per second that a slow link carries; `None` if the link is not slow.
    bytes_per_s: Option<u64>,
    more_latency_us: u64,
    /// Whether the receiver knows that the link came up, and not yet that it ended.
    is_known: bool,
    /// When a frame of this link was last lost, duplicated or reordered; `None` if never.
    harmed_us: Option<u64>,
    /// The hellos of both ends when the link last came up; `None` before.
    ends: Option<Ends>,
}

#[derive(Clone, Debug)]
struct Ends {
    from: Arc<Hello>,
    to: Arc<Hello>,
}

impl Link {
    fn ends(&self) -> &Ends {
        self.ends.as_ref().expect("it was up")
    }

    fn told_at_sender(&self, is_up: bool) -> Told {
        Told::Link { member: self.pair.from, peer: self.ends().to.clone(), is_up }
    }

    fn told_at_receiver(&self, is_up: bool) -> Told {
        Told::Linked { member: self.pair.to, peer: self.ends().from.clone(), is_up }
    }
}

/// All links of an ensemble.
pub struct Links {
    member_count: usize,
    links: Vec<Link>,
    random: Random,
    latency_us: u64,
    roughness: Roughness,
    /// Attempts to dial that were refused because one end does not know the other ensemble's level.
    refused_by_level: Vec<Pair>,
}

impl Links {
    /// The links of an ensemble of `member_count` members, all down.
    pub fn new(member_count: usize, mut random: Random) -> Links {
        let pairs = (0..member_count).flat_map(|from| (0..member_count).map(move |to| (from, to)));
        let links = pairs
            .map(|(from, to)| Link {
                pair: Pair { from, to },
                state: State::Down,
                epoch: 0,
                channels: Default::default(),
                is_blocked: false,
                is_refused: false,
                bytes_per_s: None,
                more_latency_us: 0,
                is_known: false,
                harmed_us: None,
                ends: None,
            })
            .collect();
        let latency_us = random.magnitude(20, LINK_LATENCY_US_MAX);
        let (roughness, refused_by_level) = (Roughness::default(), Vec::new());
        Links { member_count, links, random, latency_us, roughness, refused_by_level }
    }

    fn at(&self, pair: Pair) -> usize {
        pair.from * self.member_count + pair.to
    }

    /// The ends of a link.
    pub fn pair(&self, link: usize) -> Pair {
        self.links[link].pair
    }

    /// All ordered pairs of two different members.
    pub fn pairs(&self) -> Vec<Pair> {
        let pairs = self.links.iter().map(|link| link.pair);
        pairs.filter(|pair| pair.from != pair.to).collect()
    }

    /// The link that is up from `from` to the member with id `to`; `None` if none is.
    pub fn pair_to(&self, from: usize, to: MemberId) -> Option<Pair> {
        let leads_there = |link: &&Link| {
            let is_to = |ends: &Ends| ends.to.member == to;
            link.state == State::Up && link.ends.as_ref().is_some_and(is_to)
        };
        let links = &self.links[from * self.member_count..(from + 1) * self.member_count];
        links.iter().find(leads_there).map(|link| link.pair)
    }

    /// Whether a frame sent now arrives, and without extra delay.
    pub fn is_good(&self, pair: Pair) -> bool {
        let link = &self.links[self.at(pair)];
        link.state == State::Up
            && !link.is_blocked
            && link.channels.iter().all(|channel| channel.held_count == 0)
            && !self.is_slow(pair)
            && self.roughness == Roughness::default()
    }

    /// Whether no frame gets through between a member and any other, in either direction.
    pub fn is_cut_off(&self, member: usize) -> bool {
        let is_its = |link: &&Link| (link.pair.from == member) != (link.pair.to == member);
        let is_cut = |link: &Link| link.state != State::Up || link.is_blocked;
        self.links.iter().filter(is_its).all(is_cut)
    }

    /// Whether frames between two members, in both directions, get through at normal speed: both
    /// links are up and quick, and no frame was lost, duplicated or reordered since `since_us`.
    pub fn were_good(&self, one: usize, other: usize, since_us: u64) -> bool {
        [Pair { from: one, to: other }, Pair { from: other, to: one }].into_iter().all(|pair| {
            let link = &self.links[self.at(pair)];
            link.state == State::Up
                && !link.is_blocked
                && link.channels.iter().all(|channel| channel.held_count == 0)
                && !self.is_slow(pair)
                && !self.was_harmed(pair, since_us)
        })
    }

    /// Whether a link between two members is slow, or a frame was lost, duplicated or reordered
    /// since `since_us`. Unlike the end of a link, the members do not learn of either.
    pub fn were_slow(&self, one: usize, other: usize, since_us: u64) -> bool {
        let pairs = [Pair { from: one, to: other }, Pair { from: other, to: one }];
        pairs.into_iter().any(|pair| self.is_slow(pair) || self.was_harmed(pair, since_us))
    }

    fn is_slow(&self, pair: Pair) -> bool {
        let link = &self.links[self.at(pair)];
        link.bytes_per_s.is_some() || link.more_latency_us > 0
    }

    fn was_harmed(&self, pair: Pair, since_us: u64) -> bool {
        self.links[self.at(pair)].harmed_us.is_some_and(|at_us| at_us >= since_us)
    }

    // The life of a link.

    /// Called when a process starts: it dials all other members.
    pub fn on_start(&mut self, world: &mut World, member: usize) {
        for to in (0..self.member_count).filter(|to| *to != member) {
            let link = self.at(Pair { from: member, to });
            self.dial_later(world, link);
        }
    }

    fn dial_later(&mut self, world: &mut World, link: usize) {
        let wait_us = self.random.magnitude(100, DIAL_US_MAX);
        world.schedule(world.now_us + wait_us, Event::Dial { link });
    }

    /// Whether a link is down, and no fault keeps a member from dialling it.
    pub fn may_dial(&self, link: usize) -> bool {
        let Link { pair: Pair { from, to }, state, is_blocked, is_refused, .. } = self.links[link];
        let back = self.at(Pair { from: to, to: from });
        state == State::Down && !is_blocked && !is_refused && !self.links[back].is_blocked
    }

    /// A member dials, unless the link is up or ending. `hello` returns the hello of a member's
    /// process, `None` if none runs or it cannot answer, or if the other end's list of servers does
    /// not have the member.
    pub fn dial(
        &mut self,
        world: &mut World,
        link: usize,
        hello: impl Fn(usize) -> Option<Arc<Hello>>,
    ) -> Vec<Told> {
        let Pair { from, to } = self.links[link].pair;
        if self.links[link].state != State::Down {
            return Vec::new();
        }
        let may_dial = self.may_dial(link);
        let ends = match (hello(from), hello(to)) {
            (Some(from), Some(to)) if may_dial => Some(Ends { from, to }),
            _ => None,
        };
        let is_accepted = |ends: &Ends| match refusal(&ends.to, &ends.from) {
            Some(Refusal::Versions(
                Incompatibility::Older { .. } | Incompatibility::Newer { .. },
            )) => {
                self.refused_by_level.push(Pair { from, to });
                false
            }
            refusal => refusal.is_none(),
        };
        let Some(ends) = ends.filter(is_accepted) else {
            self.dial_later(world, link);
            return Vec::new();
        };
        let found = &mut self.links[link];
        let mut told = Vec::new();
        // If the receiver has not noticed the end of the previous link, it learns it now.
        if found.is_known {
            told.push(found.told_at_receiver(false));
        }
        found.state = State::Up;
        found.epoch += 1;
        found.channels = Default::default();
        found.is_known = true;
        found.ends = Some(ends);
        told.extend([found.told_at_receiver(true), found.told_at_sender(true)]);
        told
    }

    /// Ends all links of a member, because its hello changes.
    pub fn renew(&mut self, world: &mut World, member: usize) {
        for other in (0..self.member_count).filter(|other| *other != member) {
            for pair in [Pair { from: member, to: other }, Pair { from: other, to: member }] {
                let link = self.at(pair);
                self.end(world, link, false);
            }
        }
    }

    /// Called when a member begins to announce a higher level. Its links to servers that do not
    /// know that level end; the others stay (`node::peer_sockets`).
    pub fn on_level(&mut self, world: &mut World, member: usize, level: Level) {
        for other in (0..self.member_count).filter(|other| *other != member) {
            for pair in [Pair { from: member, to: other }, Pair { from: other, to: member }] {
                let link = self.at(pair);
                let is_below = self.links[link].ends.as_ref().is_some_and(|ends| {
                    let peer = if pair.from == member { &ends.to } else { &ends.from };
                    peer.known.level_max < level
                });
                if is_below {
                    self.end(world, link, false);
                }
            }
        }
    }

    /// Takes the attempts to dial that were refused, since the last call, because one end does not
    /// know the other ensemble's level.
    pub fn take_refused_by_level(&mut self) -> Vec<Pair> {
        core::mem::take(&mut self.refused_by_level)
    }

    /// The notices that a member will get once its links have timed out, when it is cut off.
    pub fn told_when_cut_off(&self, member: usize) -> Vec<Told> {
        let mut told = Vec::new();
        for link in &self.links {
            let Pair { from, to } = link.pair;
            if from == member && link.state != State::Down {
                told.push(link.told_at_sender(false));
            }
            if to == member && link.is_known {
                told.push(link.told_at_receiver(false));
            }
        }
        told
    }

    /// Ends the links of a process that has ended. The other members notice it soon, or late if
    /// `power_is_cut`: then its machine sends no more packets.
    pub fn on_end(&mut self, world: &mut World, member: usize, power_is_cut: bool) {
        for other in (0..self.member_count).filter(|other| *other != member) {
            let (out, back) = (
                self.at(Pair { from: member, to: other }),
                self.at(Pair { from: other, to: member }),
            );
            self.end(world, out, power_is_cut);
            self.links[out].state = State::Down;
            self.end(world, back, power_is_cut);
            // A process that has ended gets no notices.
            self.links[back].is_known = false;
            self.links[back].channels = Default::default();
        }
    }

    /// Breaks a link. A random part of what is in flight still arrives.
    pub fn break_off(&mut self, world: &mut World, pair: Pair) {
        let is_late = self.random.one_in(3);
        let link = self.at(pair);
        self.end(world, link, is_late);
    }

    fn end(&mut self, world: &mut World, link: usize, is_late: bool) {
        if self.links[link].state != State::Up {
            return;
        }
        let wait_us = |random: &mut Random| match is_late {
            true => random.magnitude(1_000, LINK_PATIENCE_US_MAX),
            false => random.magnitude(10, 10_000),
        };
        let (sender_us, receiver_us) = (wait_us(&mut self.random), wait_us(&mut self.random));
        let found = &mut self.links[link];
        found.state = State::Over;
        let epoch = found.epoch;
        for channel in &mut found.channels {
            let kept = self.random.below(channel.in_flight.len() as u64 + 1) as usize;
            channel.in_flight.truncate(kept);
            channel.due_us.truncate(kept);
        }
        let channel = &mut found.channels[0];
        let at_us = channel.last_us.max(world.now_us + receiver_us);
        channel.in_flight.push_back(Parcel::Over);
        channel.due_us.push_back(at_us);
        channel.last_us = at_us;
        world.schedule(at_us, Event::Frame { link, epoch, is_bulk: false });
        world.schedule(world.now_us + sender_us, Event::LinkOver { link, epoch });
    }

    /// The dialling member learns that the link has ended, and schedules another dial.
    pub fn over(&mut self, world: &mut World, link: usize, epoch: u64) -> Option<Told> {
        let found = &mut self.links[link];
        if found.epoch != epoch || found.state != State::Over {
            return None;
        }
        found.state = State::Down;
        let told = found.told_at_sender(false);
        self.dial_later(world, link);
        Some(told)
    }

    /// One end gives up a link that is still blocked.
    pub fn lose_patience(&mut self, world: &mut World, link: usize, epoch: u64) {
        let found = &self.links[link];
        if found.epoch == epoch && found.is_blocked {
            self.end(world, link, true);
        }
    }

    // Frames.

    /// Sends a frame. The frame is dropped if the link is down or its channel holds too many bytes.
    pub fn send(&mut self, world: &mut World, pair: Pair, frame: PeerFrame) {
        let link = self.at(pair);
        let found = &self.links[link];
        let channel = &found.channels[usize::from(frame.is_bulk())];
        let waiting: usize = channel.in_flight.iter().map(Parcel::byte_count).sum();
        if found.state != State::Up || waiting > LINK_BYTES_MAX {
            return;
        }
        let Roughness { lost_one_in, doubled_one_in, early_one_in } = self.roughness;
        let chance = |random: &mut Random, one_in: u64| one_in > 0 && random.one_in(one_in);
        if chance(&mut self.random, lost_one_in) {
            self.links[link].harmed_us = Some(world.now_us);
            return;
        }
        let count = if chance(&mut self.random, doubled_one_in) { 2 } else { 1 };
        for _ in 0..count {
            let is_early = chance(&mut self.random, early_one_in);
            if is_early || count > 1 {
                self.links[link].harmed_us = Some(world.now_us);
            }
            self.post(world, link, frame.clone(), is_early);
        }
    }

    fn post(&mut self, world: &mut World, link: usize, frame: PeerFrame, is_early: bool) {
        let jitter_us = self.random.magnitude(1, self.latency_us);
        let found = &mut self.links[link];
        let bytes = frame.body.len() as u64;
        let transfer_us = found.bytes_per_s.map_or(0, |per_s| bytes * 1_000_000 / per_s);
        let arrival_us = world.now_us + self.latency_us + found.more_latency_us + jitter_us;
        let is_bulk = frame.is_bulk();
        let epoch = found.epoch;
        let channel = &mut found.channels[usize::from(is_bulk)];
        let at_us = arrival_us.max(channel.last_us) + transfer_us;
        channel.last_us = at_us;
        let position = match is_early {
            true => self.random.below(channel.in_flight.len() as u64 + 1) as usize,
            false => channel.in_flight.len(),
        };
        channel.in_flight.insert(position, Parcel::Frame(frame));
        channel.due_us.push_back(at_us);
        world.schedule(at_us, Event::Frame { link, epoch, is_bulk });
    }

    /// Handles an [`Event::Frame`]: the next parcel of a channel arrives, unless the link is
    /// blocked.
    pub fn arrive(
        &mut self,
        world: &mut World,
        link: usize,
        epoch: u64,
        is_bulk: bool,
    ) -> Option<Told> {
        let found = &mut self.links[link];
        if found.epoch != epoch {
            return None;
        }
        let channel = &mut found.channels[usize::from(is_bulk)];
        // This event is out of date: the parcel arrived earlier, since the link is no longer slow.
        if channel.due_us.front().is_none_or(|due_us| *due_us > world.now_us) {
            return None;
        }
        if found.is_blocked && found.state == State::Up {
            channel.held_count += 1;
            return None;
        }
        if found.is_blocked {
            channel.in_flight.retain(|parcel| matches!(parcel, Parcel::Over));
        }
        channel.due_us.pop_front();
        match channel.in_flight.pop_front()? {
            Parcel::Frame(frame) => {
                world.note(u64::from(frame.kind));
                world.note_bytes(&frame.body);
                let (member, from) = (found.pair.to, found.ends().from.member);
                Some(Told::Frame { member, from, frame })
            }
            Parcel::Over => {
                let was_known = core::mem::take(&mut found.is_known);
                was_known.then(|| found.told_at_receiver(false))
            }
        }
    }

    // Faults.

    /// Blocks or unblocks a link. A blocked link delivers nothing; when unblocked it delivers
    /// everything that waited.
    pub fn block(&mut self, world: &mut World, pair: Pair, is_blocked: bool) {
        let link = self.at(pair);
        if self.links[link].is_blocked == is_blocked {
            return;
        }
        let patience_us = self.random.between(LINK_PATIENCE_US_MIN, LINK_PATIENCE_US_MAX);
        let found = &mut self.links[link];
        found.is_blocked = is_blocked;
        let epoch = found.epoch;
        if is_blocked {
            world.schedule(world.now_us + patience_us, Event::LinkPatience { link, epoch });
            return;
        }
        for (channel, is_bulk) in found.channels.iter_mut().zip([false, true]) {
            for _ in 0..core::mem::take(&mut channel.held_count) {
                world.schedule(world.now_us, Event::Frame { link, epoch, is_bulk });
            }
        }
    }

    /// Breaks a link and makes the receiver refuse new ones, or ends the refusal.
    pub fn refuse(&mut self, world: &mut World, pair: Pair, is_refused: bool) {
        if is_refused {
            self.break_off(world, pair);
        }
        let link = self.at(pair);
        self.links[link].is_refused = is_refused;
    }

    /// Makes a link slow, until `speed_up`.
    pub fn slow_down(&mut self, pair: Pair, bytes_per_s: u64, more_latency_us: u64) {
        let link = self.at(pair);
        let found = &mut self.links[link];
        found.bytes_per_s = Some(bytes_per_s);
        found.more_latency_us = more_latency_us;
    }

    /// Ends the slowness of a link. Frames in flight arrive within the normal latency.
    pub fn speed_up(&mut self, world: &mut World, pair: Pair) {
        let link = self.at(pair);
        let latency_us = self.latency_us;
        let found = &mut self.links[link];
        found.bytes_per_s = None;
        found.more_latency_us = 0;
        let (epoch, soon_us) = (found.epoch, world.now_us + latency_us);
        for (channel, is_bulk) in found.channels.iter_mut().zip([false, true]) {
            for due_us in channel.due_us.iter_mut().filter(|due_us| **due_us > soon_us) {
                *due_us = soon_us;
                world.schedule(soon_us, Event::Frame { link, epoch, is_bulk });
            }
            channel.last_us = channel.last_us.min(soon_us);
        }
    }

    /// Sets how often single frames are lost, duplicated or reordered, on all links.
    pub fn roughen(&mut self, roughness: Roughness) {
        self.roughness = roughness;
    }
}

/// Why a server refuses a link from another server.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Refusal {
    OtherCluster,
    Handshake,
    Versions(Incompatibility),
}

/// Whether the server `own` refuses a link from `other`, and why; `None` if it accepts. A copy of
/// the rules of `node`'s handshake about ensembles and versions; no other rule can fail here.
fn refusal(own: &Hello, other: &Hello) -> Option<Refusal> {
    let taken = handshakes(own);
    let is_taken = || handshakes(other).dialled().any(|version| taken.takes(version));
    match (&own.birth, &other.birth) {
        (Some(own), Some(other)) if own.cluster_id != other.cluster_id => {
            Some(Refusal::OtherCluster)
        }
        _ => match own.agree(other) {
            Err(incompatibility) => Some(Refusal::Versions(incompatibility)),
            // Cannot happen while each side knows the other's level.
            Ok(_) => (!is_taken()).then_some(Refusal::Handshake),
        },
    }
}

/// The handshakes that a server supports. Builds that know [`Level::TOKENS`] (level 4) know the new
/// handshake.
fn handshakes(hello: &Hello) -> Handshakes {
    let knows_new = hello.known.level_max >= Level::TOKENS;
    Handshakes::of(knows_new, true, hello.level.as_ref().map(|stated| stated.level))
}

impl Parcel {
    fn byte_count(&self) -> usize {
        match self {
            Parcel::Frame(frame) => frame.body.len(),
            Parcel::Over => 0,
        }
    }
}

#[cfg(test)]
mod tests;
