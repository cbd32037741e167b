//! The connection runtimes: `listen_zk` on virtual sockets.
//!
//! A runtime does one thing at a time: a socket that can be read or written, the mail of Apply, its
//! clock. After each it drives its Front until nothing is left to do. Between two holds of the
//! state's lock, Apply may run; here that is a drive that goes on the next time the runtime runs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use machine::{ConnectionId, SessionId, Settings};
use member::ZkFront;
use member::fronts::zk::{FrontConfig, HeldBytes, Now};
use member::message::{Delivery, LoopInput};
use workload::op::USERS;

use super::forged::{forge_connect, forge_writes};
use super::{Sabotage, Server};
use crate::limits::{FRONT_TICK_LATE_US_MAX, FRONT_TICK_US, READ_BYTES};
use crate::network::{End, Network};
use crate::witness::Witness;
use crate::world::{Actor, Clock, World};

/// Parts of the notices that a Front gives when a throttle closes a connection.
const THROTTLED: [&str; 2] = ["too many ask for a session at once", "beside other large ones"];

/// One connection runtime.
pub(super) struct Runtime {
    config: FrontConfig,
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

impl Runtime {
    pub fn new(config: FrontConfig, now_us: u64, clock: Clock) -> Runtime {
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
}

impl Server {
    /// A client connected.
    pub fn accept(&mut self, number: usize, world: &mut World, network: &mut Network) {
        self.next_front = (self.next_front + 1) % self.runtimes.len() as u32;
        let front = self.next_front;
        network.connections[number].front = front;
        self.runtimes[front as usize].accepted.push_back(number);
        self.wake(world, Actor::Front(front));
    }

    /// Something came for a connection, or there is room to write again.
    pub fn on_socket(&mut self, number: usize, world: &mut World, network: &Network) {
        let connection = &network.connections[number];
        let id = ConnectionId(connection.server_id);
        let front = connection.front;
        let runtime = &mut self.runtimes[front as usize];
        if runtime.sockets.contains_key(&id) {
            runtime.woken.push_back(id);
            self.wake(world, Actor::Front(front));
        }
    }

    pub(super) fn run_front(
        &mut self,
        front: usize,
        world: &mut World,
        network: &mut Network,
        witness: &mut Witness,
    ) {
        if !self.is_open {
            match self.times.opens_us {
                Some(at_us) if at_us <= world.now_us => self.open(world),
                Some(at_us) => self.wake_at(world, Actor::Front(front as u32), at_us),
                None => {}
            }
            return;
        }
        if self.runtimes[front].is_driving {
            self.drive(front, world, network);
        } else {
            self.turn(front, world, network, witness);
        }
        let runtime = &self.runtimes[front];
        let has_more = runtime.is_driving
            || runtime.front.may_go_on()
            || !runtime.mail.is_empty()
            || !runtime.accepted.is_empty()
            || !runtime.woken.is_empty();
        let (actor, tick_us) = (Actor::Front(front as u32), runtime.next_tick_us);
        if has_more {
            self.wake(world, actor);
        }
        self.wake_at(world, actor, tick_us);
    }

    /// Does one thing, then drives the Front.
    fn turn(
        &mut self,
        front: usize,
        world: &mut World,
        network: &mut Network,
        witness: &mut Witness,
    ) {
        let runtime = &mut self.runtimes[front];
        runtime.set_now(world, self.clock, self.contact_at_ms);
        if world.now_us >= runtime.next_tick_us {
            let was_late = world.now_us > runtime.next_tick_us + FRONT_TICK_LATE_US_MAX;
            let since_us = if was_late { world.now_us } else { runtime.next_tick_us };
            runtime.next_tick_us = since_us + self.clock.world_us(FRONT_TICK_US);
            runtime.front.on_tick();
        } else if let Some(number) = runtime.accepted.pop_front() {
            let id = ConnectionId(runtime.next_connection);
            runtime.next_connection += 1;
            witness.on_accept(self.origin, id.0, number);
            network.connections[number].server_id = id.0;
            let socket = Socket {
                number,
                is_blocked: false,
                is_paused: false,
                is_done: false,
                session_asked: None,
            };
            runtime.sockets.insert(id, socket);
            let client = network.connections[number].client;
            runtime.front.on_accept(id, "10.0.0.1", format!("10.0.0.1:{client}"));
            if self.conditions.sabotage == Some(Sabotage::EveryoneIdentified) {
                runtime.front.on_identified(id, &[("digest", USERS[0].id)]);
            }
            runtime.woken.push_back(id);
        } else if let Some(id) = runtime.woken.pop_front()
            && !self.poll(front, id, world, network)
        {
            return;
        }
        self.drive(front, world, network);
    }

    /// Does what the task of a socket does when it is woken. Returns false if there was nothing to
    /// do.
    fn poll(
        &mut self,
        front: usize,
        id: ConnectionId,
        world: &mut World,
        network: &mut Network,
    ) -> bool {
        let runtime = &mut self.runtimes[front];
        let Some(socket) = runtime.sockets.get_mut(&id) else { return false };
        let number = socket.number;
        if socket.is_done {
            network.close_by_server(world, number);
            runtime.sockets.remove(&id);
            runtime.front.on_closed(id);
            return true;
        }
        if socket.is_blocked && network.has_room_down(number) {
            socket.is_blocked = false;
            runtime.write(id, world, network);
            runtime.woken.push_back(id);
            return true;
        }
        let Some(input) = runtime.front.input(id) else {
            socket.is_paused = true;
            return false;
        };
        socket.is_paused = false;
        let connection = &mut network.connections[number];
        // The server reads on, so what it read before did not end the connection.
        connection.read_us = connection.handed_us;
        if connection.server_buffer.is_empty() {
            if connection.server_end == End::Open {
                return false;
            }
            network.close_by_server(world, number);
            runtime.sockets.remove(&id);
            if self.conditions.sabotage != Some(Sabotage::ClosesUntold) {
                runtime.front.on_closed(id);
            }
            return true;
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
        if let Some(sabotage) = self.conditions.sabotage {
            self.forge_input(sabotage, front, id, world);
        }
        let runtime = &mut self.runtimes[front];
        runtime.front.on_input(id);
        runtime.woken.push_back(id);
        true
    }

    /// Changes what a client sent, if the sabotage is one of client bytes.
    fn forge_input(
        &mut self,
        sabotage: Sabotage,
        front: usize,
        id: ConnectionId,
        world: &mut World,
    ) {
        let is_leaderless = self.is_leaderless(world);
        let runtime = &mut self.runtimes[front];
        let Some(socket) = runtime.sockets.get_mut(&id) else { return };
        let Some(input) = runtime.front.input(id) else { return };
        let Some(session) = socket.session_asked else {
            let session = forge_connect(sabotage, input);
            socket.session_asked = Some(if is_leaderless { session } else { 0 });
            return;
        };
        if sabotage == Sabotage::WritesWithoutLeader && session != 0 {
            let writes = forge_writes(runtime.config.id, id, SessionId(session), input);
            self.push_loop(world, writes.map(LoopInput::Front));
        }
    }

    /// Whether reads are served without a leader.
    fn is_leaderless(&self, world: &World) -> bool {
        let now_us = self.clock.local_us(world.now_us) - self.times.started_local_us;
        let is_silent = |at_ms, after_ms| at_ms == 0 || now_us / 1000 >= at_ms + after_ms;
        let contact = self.contact_at_ms.zip(self.conditions.read_only_after_ms);
        contact.is_some_and(|(at_ms, after_ms)| is_silent(at_ms, after_ms))
    }

    /// Runs the Front until it has nothing more to do, and passes on what it gives.
    fn drive(&mut self, front: usize, world: &mut World, network: &mut Network) {
        let runtime = &mut self.runtimes[front];
        runtime.set_now(world, self.clock, self.contact_at_ms);
        if !runtime.is_driving {
            for delivery in core::mem::take(&mut runtime.mail) {
                runtime.front.on_delivery(delivery);
            }
            runtime.front.resume();
        }
        runtime.is_driving = true;
        while runtime.front.is_runnable() {
            // Everything that the state shows was pushed before the lock was let go.
            for delivery in core::mem::take(&mut runtime.mail) {
                runtime.front.on_delivery(delivery);
            }
            runtime.front.run_reads(&self.machine);
            runtime.front.resume();
            if world.random.one_in(3) {
                return;
            }
        }
        runtime.is_driving = false;
        let output = runtime.front.take_output();
        for id in output.dirty {
            runtime.write(id, world, network);
        }
        for notice in &output.notices {
            let is_throttled = THROTTLED.iter().any(|why| notice.what.contains(why));
            self.seen.counts.turned_away_count += usize::from(is_throttled);
            world.note_text(notice);
        }
        for (id, _) in output.words {
            runtime.front.answer_four_letter_word(id, "imok");
        }
        self.push_loop(world, output.to_loop.into_iter().map(LoopInput::Front));
    }
}
