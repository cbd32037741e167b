//! The connection runtimes: `listen_zk` on virtual sockets.
//!
//! A runtime does one thing at a time: a socket that can be read or written, the mail of Apply, its
//! clock. After each it drives its Front until nothing is left to do. Between two holds of the
//! state's lock, Apply may run; here that is a drive that goes on the next time the runtime runs.

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

/// Parts of the notices that a Front gives when a throttle closes a connection.
const THROTTLED: [&str; 2] = ["too many ask for a session at once", "beside other large ones"];

/// One connection runtime.
pub(super) struct Runtime {
    config: ZkFrontConfig,
    front: ZkFront,
    /// Deliveries that Apply pushed, the oldest first.
    pub mail: VecDeque<Delivery>,
    /// Connections that were accepted, and sockets that may have something to do.
    accepted: VecDeque<usize>,
    woken: VecDeque<ConnectionId>,
    sockets: BTreeMap<ConnectionId, Socket>,
    next_connection: u64,
    is_driving: bool,
    next_tick_us: u64,
    /// When the runtime was made, by the clock of its machine.
    started_local_us: u64,
}

/// The server's side of a connection.
struct Socket {
    /// The number of the connection.
    number: usize,
    /// Whether the kernel's buffer is full.
    is_blocked: bool,
    /// Whether the Front wants no input for now: then the task waits until it is woken.
    is_paused: bool,
    /// Whether everything is written and the connection is over.
    is_done: bool,
    /// The session that its client asked for while there was no leader; none before it asked. Known
    /// only to a sabotage.
    session_asked: Option<i64>,
}

/// What a turn of a runtime depends on in its process.
pub(super) struct Ground {
    /// The member, and this start of it.
    pub origin: Origin,
    pub clock: Clock,
    /// `Now::contact_at_ms`, by the clock of the runtimes.
    pub contact_at_ms: Option<u64>,
    /// Whether reads are served without a leader. Known only to a sabotage.
    pub is_leaderless: bool,
    pub sabotage: Option<Sabotage>,
}

/// What a Front gave when it was driven.
#[derive(Default)]
pub(super) struct Driven {
    pub to_loop: Vec<ToLoop>,
    /// Connections that a throttle closed.
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

    /// The runtime starts, and connections come from now on.
    pub fn open(&mut self, settings: &Arc<Settings>) {
        self.config.settings = settings.clone();
        self.front = ZkFront::new(self.config.clone());
    }

    /// Whether clients have watches, so that it must be woken for every change.
    pub fn has_watches(&self) -> bool {
        self.front.has_watches()
    }

    /// Connections that are accepted, or about to be.
    pub fn connection_count(&self) -> usize {
        self.sockets.len() + self.accepted.len()
    }

    /// Commands that were handed over and not answered.
    pub fn commands_in_flight(&self) -> usize {
        self.front.commands_in_flight()
    }

    /// Connections that are over, whose commands are not answered and may take effect.
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

    /// Writes what a connection has to say, as far as the socket takes it.
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

    /// Something came for a socket, or there is room to write again. Returns false if the socket is
    /// closed.
    pub fn wake_socket(&mut self, id: ConnectionId) -> bool {
        let is_there = self.sockets.contains_key(&id);
        if is_there {
            self.woken.push_back(id);
        }
        is_there
    }

    /// Whether it has something to do before its next tick.
    pub fn has_more(&self) -> bool {
        self.is_driving
            || self.front.may_go_on()
            || !self.mail.is_empty()
            || !self.accepted.is_empty()
            || !self.woken.is_empty()
    }

    /// When its clock ticks next.
    pub fn next_tick_us(&self) -> u64 {
        self.next_tick_us
    }

    /// Takes one thing that has come, unless it is still driving its Front. Returns writes that a
    /// sabotage forges; `None` if there was nothing to do, so that the Front is not driven.
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

    /// Does what the task of a socket does when it is woken. Returns writes that a sabotage forges;
    /// `None` if there was nothing to do.
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
        // The server reads on, so what it read before did not end the connection.
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
        // Whole slices are copied, because a copy byte for byte takes long.
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

    /// Changes what a client sent, if the sabotage is one of client bytes. Returns writes for Loop.
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

    /// Runs the Front until it has nothing more to do, and passes on what it gives.
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
            // Everything that the state shows was pushed before the lock was let go.
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
