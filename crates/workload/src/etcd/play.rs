//! A simulated cluster made of the model, for tests of the judges: several clients with several
//! open calls each, members that lag, lost answers, and writes that take effect after their client
//! gave up.

use crate::etcd::generate::{Generator, Options};
use crate::etcd::history::{CallId, History};
use crate::etcd::model::{Model, View};
use crate::etcd::op::{Answer, Error};
use crate::etcd::order::Claimed;
use crate::generate::Random;

const CLIENT_COUNT: u32 = 4;
const MEMBER_COUNT: u64 = 3;
/// The most open calls of one client.
const OPEN_MAX: usize = 3;

/// A run of this cluster, with the history of its clients and the claim.
pub struct Play {
    pub history: History,
    pub claim: Vec<Claimed>,
    pub model: Model,
    random: Random,
    options: Options,
    clients: Vec<Client>,
    /// The state at each place of the claim.
    views: Vec<View>,
    /// How many commands of the claim each member has applied.
    applied: Vec<usize>,
}

struct Client {
    generator: Generator,
    connection: usize,
    /// Calls whose answer has not arrived. The answer is `Some` once it is in flight.
    open: Vec<(CallId, Option<Answer>)>,
    /// Calls that the client gave up and that may still take effect.
    late: Vec<CallId>,
}

/// Runs the cluster for a number of steps.
pub fn play(seed: u64, options: &Options, step_count: usize) -> Play {
    let mut random = Random::new(seed);
    let mut history = History::default();
    let clients = (0..CLIENT_COUNT)
        .map(|number| Client {
            generator: Generator::new(random.fork(), number, options.clone()),
            connection: history.connect(number, number % MEMBER_COUNT as u32),
            open: Vec::new(),
            late: Vec::new(),
        })
        .collect();
    let model = Model::new();
    let (views, applied) = (vec![model.view()], vec![0; MEMBER_COUNT as usize]);
    let (claim, options) = (Vec::new(), options.clone());
    let mut play = Play { history, claim, model, random, options, clients, views, applied };
    (0..step_count).for_each(|_| play.step());
    play
}

impl Play {
    fn step(&mut self) {
        let client = self.random.below(self.clients.len() as u64) as usize;
        match self.random.below(20) {
            0..=6 => self.ask(client),
            7..=12 => self.serve(client),
            13..=17 => self.deliver(client),
            18 => {
                let member = self.random.below(MEMBER_COUNT) as usize;
                let place =
                    self.random.between(self.applied[member] as u64, self.claim.len() as u64);
                self.applied[member] = place as usize;
            }
            _ if self.random.one_in(4) => self.connect(client),
            _ if self.random.one_in(3) => self.change_leases(),
            _ => self.serve_late(client),
        }
    }

    fn ask(&mut self, client: usize) {
        let client = &mut self.clients[client];
        if client.open.len() < OPEN_MAX {
            let op = client.generator.next_op();
            client.open.push((self.history.ask(client.connection, op, 0), None));
        }
    }

    /// Reconnects a client. The calls on its old connection get no answer.
    fn connect(&mut self, client: usize) {
        let member = self.random.below(MEMBER_COUNT) as u32;
        let number = client as u32;
        let client = &mut self.clients[client];
        client.connection = self.history.connect(number, member);
        let open = std::mem::take(&mut client.open);
        client.late.extend(open.iter().filter(|(_, answer)| answer.is_none()).map(|(id, _)| *id));
    }

    fn change_leases(&mut self) {
        if self.options.leases.is_empty() {
            return;
        }
        let lease = *self.random.pick(&self.options.leases);
        let command = match self.random.below(5) {
            0 => Claimed::Revoke { lease },
            1 => Claimed::NoSpace { is_raised: self.random.one_in(2) },
            _ => Claimed::Grant { lease },
        };
        match command {
            Claimed::Grant { lease } => self.model.grant(lease),
            Claimed::Revoke { lease } => self.model.revoke(lease),
            Claimed::NoSpace { is_raised } => self.model.set_no_space(is_raised),
            Claimed::Call(_)
            | Claimed::Part(_)
            | Claimed::Compaction { .. }
            | Claimed::Quota { .. }
            | Claimed::Bound
            | Claimed::Disarm { .. }
            | Claimed::Expire { .. } => {}
        }
        self.commit(command);
    }

    fn commit(&mut self, command: Claimed) {
        self.claim.push(command);
        self.views.push(self.model.view());
    }

    /// Does one of the client's open calls, or fails to.
    fn serve(&mut self, client: usize) {
        let open = &self.clients[client].open;
        let waiting: Vec<usize> = (0..open.len()).filter(|it| open[*it].1.is_none()).collect();
        if waiting.is_empty() {
            return;
        }
        let index = *self.random.pick(&waiting);
        let id = open[index].0;
        let answer = match self.random.below(25) {
            0 => Err(*self.random.pick(&[Error::NoLeader, Error::TooManyRequests])),
            1 => {
                self.clients[client].late.push(id);
                Err(*self.random.pick(&[Error::TimedOut, Error::LeaderChanged]))
            }
            2 => {
                let _ = self.answer(id);
                Err(Error::TimedOut)
            }
            _ => self.answer(id),
        };
        self.clients[client].open[index].1 = Some(answer);
    }

    /// Does a call that its client gave up, or drops it.
    fn serve_late(&mut self, client: usize) {
        if let Some(id) = self.clients[client].late.pop()
            && self.random.one_in(2)
        {
            let _ = self.answer(id);
        }
    }

    fn answer(&mut self, id: CallId) -> Answer {
        let record = self.history.calls[self.history.position(id).unwrap()].clone();
        let member = self.history.connections[record.connection].member as usize;
        let place = match crate::etcd::form::check(&record.op) {
            Err(error) => return Err(error),
            Ok(()) if record.op.is_read() && record.op.is_serializable() => self.applied[member],
            Ok(()) => self.claim.len(),
        };
        if record.op.is_read() {
            self.applied[member] = place;
            return self.model.answer_at(&record.op, self.views[place]);
        }
        let answer = self.model.apply(&record.op);
        self.commit(Claimed::Call(id));
        self.applied[member] = self.claim.len();
        answer
    }

    /// Delivers one of the answers in flight to the client.
    fn deliver(&mut self, client: usize) {
        let client = &mut self.clients[client];
        let Some(index) = client.open.iter().position(|(_, answer)| answer.is_some()) else {
            return;
        };
        let (id, answer) = client.open.swap_remove(index);
        let Some(answer) = answer else { return };
        if let Ok(response) = &answer {
            client.generator.observe(response.revision());
        }
        self.history.answer(id, answer, 0);
    }
}
