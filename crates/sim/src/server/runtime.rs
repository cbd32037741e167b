//! A ZooKeeper connection runtime: `listen_zk` on virtual sockets. It owns one `ZkFront`.
//!
//! Each time it runs, it handles one event: a socket that can be read or written, deliveries of
//! Apply, or its timer. Then it drives its Front: it runs the Front's reads until nothing is left
//! to do. Apply may run between two holds of the state's lock. To allow that, a drive may stop in
//! the middle and continue the next time the runtime runs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use machine::{ConnectionId, Machine, Origin, SessionId, Settings};
use member::ZkFront;
use member::fronts::zk::{HeldBytes, Now, ZkFrontConfig};
use member::message::{Delivery, ToLoop};
use workload::op::USERS;

use super::forged::{forge_connect, forge_writes};
use super::sabotage::Sabotage;
use crate::limits::{FRONT_TICK_LATE_US_MAX, FRONT_TICK_US, READ_BYTES};
use crate::network::{End, Network};
use crate::witness::Witness;
use crate::world::{Clock, World};

/// Parts of the notices of a Front that closes a connection because of a throttle.
const THROTTLED: [&str; 2] = ["too many ask for a session at once", "beside other large ones"];

/// One ZooKeeper connection runtime.
pub(super) struct Runtime {
    config: ZkFrontConfig,
    front: ZkFront,
    /// Deliveries of Apply that the Front has not got yet, oldest first.
    pub mail: VecDeque<Delivery>,
    /// Accepted connections that the Front does not know yet.
    accepted: VecDeque<usize>,
    woken: VecDeque<ConnectionId>,
    sockets: BTreeMap<ConnectionId, Socket>,
    next_connection: u64,
    is_driving: bool,
    next_tick_us: u64,
    /// When the runtime was created, on the clock of its machine.
    started_local_us: u64,
}

/// The server's end of a connection.
struct Socket {
    /// The number of the connection.
    number: usize,
    /// Whether the socket's buffer is full.
    is_blocked: bool,
    /// Whether the Front wants no input for now.
    is_paused: bool,
    /// Whether everything is written and the connection can be closed.
    is_done: bool,
    /// The session that the client asked for while the member had no leader; 0 if it asked for a
    /// new session, or the member had a leader. `None` before the client has asked. Used only by a
    /// sabotage.
    session_asked: Option<i64>,
}

/// The facts about its process that a runtime needs.
pub(super) struct Ground {
    /// The member's id, and the number of this start.
    pub origin: Origin,
    pub clock: Clock,
    /// When the member last had contact with those that decide who leads: see
    /// `Fronts::contact_at_ms`.
    pub contact_at_ms: Option<u64>,
    /// Whether the member serves reads without a leader. Used only by a sabotage.
    pub is_leaderless: bool,
    pub sabotage: Option<Sabotage>,
}

/// The output of a driven Front.
#[derive(Default)]
pub(super) struct Driven {
    pub to_loop: Vec<ToLoop>,
    /// Connections that a throttle refused.
    pub turned_away_count: usize,
}

impl Runtime {
    pub fn new(config: ZkFrontConfig, now_us: u64, clock: Clock) -> Runtime {
        let first_connection = u64::from(config.id.0) << 48 | 1;
        Runtime {
            front: ZkFront::new(config.clone()),
            config,
            mail: VecDeque::new(),
            accepted: VecDeque::new(),
            woken: VecDeque::new(),
            sockets: BTreeMap::new(),
            next_connection: first_connection,
            is_driving: false,
            next_tick_us: now_us,
            started_local_us: clock.local_us(now_us),
        }
    }

    /// Opens the runtime with a new Front: connections come from now on.
    pub fn open(&mut self, settings: &Arc<Settings>) {
        self.config.settings = settings.clone();
        self.front = ZkFront::new(self.config.clone());
    }

    /// Whether clients have watches, so that each change must wake the runtime.
    pub fn has_watches(&self) -> bool {
        self.front.has_watches()
    }

    /// Connections that are accepted or about to be.
    pub fn connection_count(&self) -> usize {
        self.sockets.len() + self.accepted.len()
    }

    /// Commands that were handed to Loop and not answered.
    pub fn commands_in_flight(&self) -> usize {
        self.front.commands_in_flight()
    }

    /// Closed connections with unanswered commands, which may still take effect.
    pub fn departed_count(&self) -> usize {
        self.front.departed_count()
    }

    /// Bytes that its Front holds for clients.
    pub fn held_bytes(&self) -> HeldBytes {
        self.front.held_bytes()
    }

    fn set_now(&mut self, world: &World, clock: Clock, contact_at_ms: Option<u64>) {
        let monotonic_us = clock.local_us(world.now_us) - self.started_local_us;
        let wall_ms = clock.wall_ms(world.now_us);
        self.front.set_now(Now { monotonic_ms: monotonic_us / 1000, wall_ms, contact_at_ms });
    }

    /// Writes the output of a connection, as far as the socket takes it.
    fn write(&mut self, id: ConnectionId, world: &mut World, network: &mut Network) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        loop {
            let Some((bytes, closing)) = self.front.pending_output(id) else { return };
            if closing {
                network.connections[socket.number].ended_us.get_or_insert(world.now_us);
            }
            if bytes.is_empty() {
                if closing {
                    socket.is_done = true;
                    self.woken.push_back(id);
                }
                break;
            }
            if socket.is_blocked {
                break;
            }
            let count = network.send_down(world, socket.number, bytes);
            if count == 0 {
                socket.is_blocked = true;
                self.woken.push_back(id);
                break;
            }
            self.front.on_written(id, count);
        }
        if socket.is_paused && self.front.input(id).is_some() {
            self.woken.push_back(id);
        }
    }

    /// A connection was accepted.
    pub fn accept(&mut self, number: usize) {
        self.accepted.push_back(number);
    }

    /// A socket can be read or written again. Returns false if it is closed.
    pub fn wake_socket(&mut self, id: ConnectionId) -> bool {
        let is_there = self.sockets.contains_key(&id);
        if is_there {
            self.woken.push_back(id);
        }
        is_there
    }

    /// Whether the runtime has work before its timer fires.
    pub fn has_more(&self) -> bool {
        self.is_driving
            || self.front.may_go_on()
            || !self.mail.is_empty()
            || !self.accepted.is_empty()
            || !self.woken.is_empty()
    }

    /// When the runtime's timer fires next, in us.
    pub fn next_tick_us(&self) -> u64 {
        self.next_tick_us
    }

    /// Handles one event, unless a drive is unfinished. Returns the writes that a sabotage forges;
    /// `None` if there was no work, so that the Front is not driven.
    pub fn take_one(
        &mut self,
        ground: &Ground,
        world: &mut World,
        network: &mut Network,
        witness: &mut Witness,
    ) -> Option<Vec<ToLoop>> {
        if self.is_driving {
            return Some(Vec::new());
        }
        self.set_now(world, ground.clock, ground.contact_at_ms);
        if world.now_us >= self.next_tick_us {
            let was_late = world.now_us > self.next_tick_us + FRONT_TICK_LATE_US_MAX;
            let since_us = if was_late { world.now_us } else { self.next_tick_us };
            self.next_tick_us = since_us + ground.clock.world_us(FRONT_TICK_US);
            self.front.on_tick();
        } else if let Some(number) = self.accepted.pop_front() {
            let id = ConnectionId(self.next_connection);
            self.next_connection += 1;
            witness.on_accept(ground.origin, id.0, number);
            network.connections[number].server_id = id.0;
            let socket = Socket {
                number,
                is_blocked: false,
                is_paused: false,
                is_done: false,
                session_asked: None,
            };
            self.sockets.insert(id, socket);
            let client = network.connections[number].client;
            self.front.on_accept(id, "10.0.0.1", format!("10.0.0.1:{client}"));
            if ground.sabotage == Some(Sabotage::EveryoneIdentified) {
                self.front.on_identified(id, &[("digest", USERS[0].id)]);
            }
            self.woken.push_back(id);
        } else if let Some(id) = self.woken.pop_front() {
            return self.poll(id, ground, world, network);
        }
        Some(Vec::new())
    }

    /// Does what a socket's task does when woken. Returns the writes that a sabotage forges; `None`
    /// if there was no work.
    fn poll(
        &mut self,
        id: ConnectionId,
        ground: &Ground,
        world: &mut World,
        network: &mut Network,
    ) -> Option<Vec<ToLoop>> {
        let socket = self.sockets.get_mut(&id)?;
        let number = socket.number;
        if socket.is_done {
            network.close_by_server(world, number);
            self.sockets.remove(&id);
            self.front.on_closed(id);
            return Some(Vec::new());
        }
        if socket.is_blocked && network.has_room_down(number) {
            socket.is_blocked = false;
            self.write(id, world, network);
            self.woken.push_back(id);
            return Some(Vec::new());
        }
        let Some(input) = self.front.input(id) else {
            socket.is_paused = true;
            return None;
        };
        socket.is_paused = false;
        let connection = &mut network.connections[number];
        // The server reads again, so the bytes that it read before did not end the connection.
        connection.read_us = connection.handed_us;
        if connection.server_buffer.is_empty() {
            if connection.server_end == End::Open {
                return None;
            }
            network.close_by_server(world, number);
            self.sockets.remove(&id);
            if ground.sabotage != Some(Sabotage::ClosesUntold) {
                self.front.on_closed(id);
            }
            return Some(Vec::new());
        }
        connection.handed_us = world.now_us;
        let there = connection.server_buffer.len() as u64;
        let count = match world.random.one_in(6) {
            true => world.random.between(1, there.min(READ_BYTES)),
            false => there.min(READ_BYTES),
        };
        // Whole slices are copied, since copying byte by byte is slow.
        let (first, second) = connection.server_buffer.as_slices();
        let of_first = first.len().min(count as usize);
        input.extend_from_slice(&first[..of_first]);
        input.extend_from_slice(&second[..count as usize - of_first]);
        connection.server_buffer.drain(..count as usize);
        let forged = match ground.sabotage {
            Some(sabotage) => self.forge_input(sabotage, id, ground.is_leaderless),
            None => Vec::new(),
        };
        self.front.on_input(id);
        self.woken.push_back(id);
        Some(forged)
    }

    /// For a sabotage of client bytes: changes what a client sent. Returns writes for Loop.
    fn forge_input(
        &mut self,
        sabotage: Sabotage,
        id: ConnectionId,
        is_leaderless: bool,
    ) -> Vec<ToLoop> {
        let Some(socket) = self.sockets.get_mut(&id) else { return Vec::new() };
        let Some(input) = self.front.input(id) else { return Vec::new() };
        let Some(session) = socket.session_asked else {
            let session = forge_connect(sabotage, input);
            socket.session_asked = Some(if is_leaderless { session } else { 0 });
            return Vec::new();
        };
        if sabotage != Sabotage::WritesWithoutLeader || session == 0 {
            return Vec::new();
        }
        forge_writes(self.config.id, id, SessionId(session), input).into_iter().collect()
    }

    /// Runs the Front until it has nothing to do, then writes its output. Returns nothing if Apply
    /// may run first: the drive continues later.
    pub fn drive(
        &mut self,
        ground: &Ground,
        machine: &Machine,
        world: &mut World,
        network: &mut Network,
    ) -> Driven {
        self.set_now(world, ground.clock, ground.contact_at_ms);
        if !self.is_driving {
            for delivery in core::mem::take(&mut self.mail) {
                self.front.on_delivery(delivery);
            }
            self.front.resume();
        }
        self.is_driving = true;
        while self.front.is_runnable() {
            // Apply pushed all deliveries about the visible state before it released the lock.
            for delivery in core::mem::take(&mut self.mail) {
                self.front.on_delivery(delivery);
            }
            self.front.run_reads(machine);
            self.front.resume();
            if world.random.one_in(3) {
                return Driven::default();
            }
        }
        self.is_driving = false;
        let output = self.front.take_output();
        for id in output.dirty {
            self.write(id, world, network);
        }
        let mut turned_away_count = 0;
        for notice in &output.notices {
            let is_throttled = THROTTLED.iter().any(|why| notice.what.contains(why));
            turned_away_count += usize::from(is_throttled);
            world.note_text(notice);
        }
        for (id, _) in output.words {
            self.front.answer_four_letter_word(id, "imok");
        }
        Driven { to_loop: output.to_loop, turned_away_count }
    }
}
