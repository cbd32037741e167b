//! A turn of a connection runtime for etcd's clients.

use member::etcd_front::{CallResult, EtcdOutput};
use member::message::{FrontId, LoopInput, Ticket};

use super::Server;
use crate::etcd_clients::network::{EtcdNetwork, FromServer};
use crate::witness::Witness;
use crate::world::{Actor, World};

impl Server {
    /// A client of etcd connected.
    pub fn accept_etcd(&mut self, number: usize, network: &mut EtcdNetwork) {
        let front = number % self.etcd_runtimes.len();
        network.connections[number].front = front;
    }

    /// Something came for a connection.
    pub fn on_etcd(&mut self, number: usize, world: &mut World, network: &EtcdNetwork) {
        let front = network.connections[number].front;
        self.etcd_runtimes[front].woken.insert(number);
        let actor = self.etcd_actor(front);
        self.wake(world, actor);
    }

    /// Whether the runtimes for etcd's clients have nothing to do.
    pub fn is_etcd_quiet(&self) -> bool {
        self.etcd_runtimes.iter().all(|runtime| runtime.is_quiet())
    }

    pub(super) fn etcd_actor(&self, front: usize) -> Actor {
        Actor::Front((self.runtimes.len() + front) as u32)
    }

    pub(super) fn run_etcd_front(
        &mut self,
        front: usize,
        world: &mut World,
        network: &mut EtcdNetwork,
        witness: &mut Witness,
    ) {
        if !self.is_open {
            return;
        }
        let (clock, term) = (self.clock, self.seen.status.term);
        let runtime = &mut self.etcd_runtimes[front];
        runtime.set_now(world, clock, term);
        if !runtime.is_driving {
            if world.now_us >= runtime.next_tick_us {
                runtime.tick(world, clock);
            } else if let Some(number) = runtime.woken.pop_first() {
                let connection = &mut network.connections[number];
                let (begun, is_left) = runtime.take_input(number, connection, world);
                if is_left {
                    runtime.woken.insert(number);
                }
                let id = self.etcd_front_id(front);
                for (ticket, call) in begun {
                    witness.etcd.on_call(self.origin, id, ticket, call);
                }
            }
        }
        if let Some(output) = self.etcd_runtimes[front].drive(&self.machine, world) {
            self.pass_on(front, output, world, network);
        }
        let (runtime, actor) = (&self.etcd_runtimes[front], self.etcd_actor(front));
        let (is_quiet, tick_us) = (runtime.is_quiet(), runtime.next_tick_us);
        if !is_quiet {
            self.wake(world, actor);
        }
        self.wake_at(world, actor, tick_us);
    }

    fn etcd_front_id(&self, front: usize) -> FrontId {
        FrontId((self.runtimes.len() + front) as u32)
    }

    fn pass_on(
        &mut self,
        front: usize,
        output: EtcdOutput,
        world: &mut World,
        network: &mut EtcdNetwork,
    ) {
        let to_loop = output.to_loop.into_iter().map(LoopInput::Front);
        self.push_loop(world, to_loop);
        for (ticket, result) in output.results {
            self.send_result(front, ticket, result, world, network);
        }
    }

    fn send_result(
        &mut self,
        front: usize,
        ticket: Ticket,
        result: CallResult,
        world: &mut World,
        network: &mut EtcdNetwork,
    ) {
        let Some((number, id)) = self.etcd_runtimes[front].done(ticket) else { return };
        network.send_down(world, number, FromServer { id, result });
    }
}
