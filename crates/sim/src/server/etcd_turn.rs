//! Drives the etcd connection runtimes of a process: gives them the clients' messages, Apply's
//! deliveries and the state, and sends their output to Loop and to the clients.

use etcd::Error;
use etcd::pb::{Message, etcdserverpb as pb};
use machine::change::SharedChanges;
use machine::{LeaseChange, Machine, MemberId};
use member::fronts::etcd::cluster::Site;
use member::fronts::etcd::health::MemberHealth;
use member::fronts::etcd::v2::members::MembersView;
use member::fronts::etcd::{
    CallRefused, CallResult, EtcdFrontConfig, EtcdOutput, ReplicaView, Reply,
};
use member::message::{Delivery, FromApply, FrontId, LoopInput, Ticket, ToLoop};

use super::change_sabotage::forge_answers;
use super::etcd_sabotage::WatchSabotage;
use super::etcd_steps::{Around, HttpSabotage, StepResult};
use super::etcd_watches::Sent;
use super::forged::forge_call;
use super::{Sabotage, Server};
use crate::etcd_clients::network::{EtcdNetwork, FromServer, SentResult, ToV2};
use crate::witness::Witness;
use crate::world::{Actor, World};

impl Server {
    /// An etcd client connected.
    pub fn accept_etcd(&mut self, number: usize, network: &mut EtcdNetwork) {
        let front = number % self.fronts.etcd.len();
        network.connections[number].front = front;
    }

    /// A message arrived on an etcd connection.
    pub fn on_etcd(&mut self, number: usize, world: &mut World, network: &EtcdNetwork) {
        let front = network.connections[number].front;
        self.fronts.etcd[front].woken.insert(number);
        let actor = self.etcd_actor(front);
        self.wake(world, actor);
    }

    /// Whether the etcd runtimes have nothing to do.
    pub fn is_etcd_quiet(&self) -> bool {
        self.fronts.is_etcd_quiet()
    }

    /// Checks that each idle etcd Front knows the level of the state; otherwise it would refuse
    /// what the level allows.
    pub fn check_levels_of_fronts(&self) -> Result<(), String> {
        self.fronts.check_levels(self.machine.control().level().level)
    }

    pub(super) fn etcd_actor(&self, front: usize) -> Actor {
        Actor::Front(self.fronts.etcd_id(front).0)
    }

    pub(super) fn run_etcd_front(
        &mut self,
        front: usize,
        world: &mut World,
        network: &mut EtcdNetwork,
        witness: &mut Witness,
    ) {
        if !self.fronts.are_open() {
            return;
        }
        let (clock, term) = (self.clock, self.seen.status.term);
        let is_ignored = self.has_sabotage(WatchSabotage::LeaderlessIgnored);
        let contact_at_ms = self.fronts.contact_at_ms.filter(|_| !is_ignored);
        let of_users = match self.conditions.sabotage {
            Some(Sabotage::EtcdUsers(sabotage)) => Some(sabotage),
            _ => None,
        };
        let of_audit = match self.conditions.sabotage {
            Some(Sabotage::EtcdAudit(sabotage)) => Some(sabotage),
            _ => None,
        };
        let runtime = &mut self.fronts.etcd[front];
        runtime.set_now(world, clock, term, contact_at_ms);
        if !runtime.is_driving {
            runtime.take_passwords(world.now_us, of_users);
            if world.now_us >= runtime.next_tick_us {
                runtime.tick(world, clock);
            } else if let Some(number) = runtime.woken.pop_first() {
                self.take_etcd_input(front, number, world, network, witness);
            }
        }
        self.take_steps(front, world);
        self.pass_on_v2_reads(front, world, network);
        self.tell_of_replica(front);
        if let Some(output) = self.fronts.etcd[front].drive(&self.machine, world) {
            let handed_over = output.to_loop.iter().flat_map(tickets_of);
            for part in handed_over.filter(|ticket| self.fronts.etcd[front].is_part(*ticket)) {
                witness.etcd.on_part(self.origin, self.etcd_front_id(front), part);
            }
            self.pass_on(front, output, world, network);
        }
        self.end_steps(front, world, network, witness);
        let runtime = &mut self.fronts.etcd[front];
        for Sent { number, stream, message } in core::mem::take(&mut runtime.slots.outbox) {
            network.send_to_watcher(world, number, stream, message);
        }
        for (call, line) in runtime.audit.take(of_audit, world) {
            witness.etcd.audit.on_line(call, line);
        }
        for call in runtime.take_ended() {
            witness.etcd.on_end(call, world.now_us);
        }
        if runtime.take_installed() {
            witness.etcd.on_installed(self.number, world.now_us);
        }
        let (runtime, actor) = (&self.fronts.etcd[front], self.etcd_actor(front));
        let (is_quiet, tick_us) = (runtime.is_quiet(), runtime.next_tick_us);
        if !is_quiet {
            self.wake(world, actor);
        }
        self.wake_at(world, actor, tick_us);
    }

    /// Gives a Front the state of the replica, if the Front has calls about members.
    fn tell_of_replica(&mut self, front: usize) {
        if !self.fronts.etcd[front].front().wants_replica() {
            return;
        }
        let replica = self.replica_view();
        let runtime = &mut self.fronts.etcd[front];
        runtime.front_mut().set_replica(replica);
    }

    /// The state of the replica, as the Front sees it.
    fn replica_view(&self) -> ReplicaView {
        let status = self.member.status();
        ReplicaView {
            leader: status.leader,
            term: status.term,
            commit_index: status.commit_index,
            applied_index: status.applied_index,
            voters: self.member.voters(),
            learners: self.member.learners(),
        }
    }

    fn http_sabotage(&self) -> Option<HttpSabotage> {
        match self.conditions.sabotage {
            Some(Sabotage::EtcdHttp(sabotage)) => Some(sabotage),
            _ => None,
        }
    }

    /// Continues the HTTP requests that can go on.
    fn take_steps(&mut self, front: usize, world: &mut World) {
        let runtime = &self.fronts.etcd[front];
        if !runtime.is_driving && runtime.steps.is_ready(world.now_us) {
            let (replica, sabotage) = (self.replica_view(), self.http_sabotage());
            let runtime = &mut self.fronts.etcd[front];
            let around = around(&runtime.config, &replica, &self.machine, sabotage);
            runtime.take_steps(&around, world);
        }
    }

    /// Moves the results that belong to HTTP requests from `output` to these requests.
    fn keep_step_results(&mut self, front: usize, output: &mut EtcdOutput, world: &mut World) {
        let steps = &mut self.fronts.etcd[front].steps;
        let results = output.results.extract_if(.., |(ticket, _)| steps.has(*ticket));
        let mut kept: Vec<(Ticket, StepResult)> =
            results.map(|(ticket, result)| (ticket, StepResult::Call(result))).collect();
        let results = output.v2_results.extract_if(.., |(ticket, _)| steps.has(*ticket));
        kept.extend(results.map(|(ticket, result)| (ticket, StepResult::V2(result))));
        if kept.is_empty() {
            return;
        }
        kept.into_iter().for_each(|(ticket, result)| steps.add_result(ticket, result));
        self.wake(world, self.etcd_actor(front));
    }

    /// Sends the answers to HTTP requests, and notes the calls begun for them.
    fn end_steps(
        &mut self,
        front: usize,
        world: &mut World,
        network: &mut EtcdNetwork,
        witness: &mut Witness,
    ) {
        let (id, actor) = (self.etcd_front_id(front), self.etcd_actor(front));
        let runtime = &mut self.fronts.etcd[front];
        for (ticket, call) in core::mem::take(&mut runtime.steps.begun) {
            witness.etcd.on_call(self.origin, id, ticket, call);
        }
        for (number, call, answer) in core::mem::take(&mut runtime.steps.answered) {
            network.send_http(world, number, call, answer);
        }
        let password_us = runtime.passwords.next_us().filter(|_| runtime.steps.has_any());
        for at_us in password_us.into_iter().chain(runtime.steps.body_us()) {
            self.wake_at(world, actor, at_us);
        }
    }

    /// Makes Loop hand over leadership for the calls that ask for it.
    fn hand_over_for(&mut self, front: usize, moves: Vec<(Ticket, MemberId)>, world: &mut World) {
        for (ticket, to) in moves {
            let is_begun = self.hand_over(Some(to), world);
            self.fronts.etcd[front].front_mut().on_hand_over(ticket, is_begun);
            self.wake(world, self.etcd_actor(front));
        }
    }

    /// Handles messages that have arrived on a connection; a sabotage may change them first.
    fn take_etcd_input(
        &mut self,
        front: usize,
        number: usize,
        world: &mut World,
        network: &mut EtcdNetwork,
        witness: &mut Witness,
    ) {
        let runtime = &mut self.fronts.etcd[front];
        let connection = &mut network.connections[number];
        if let Some(sabotage) = self.conditions.sabotage {
            let messages = connection.at_server.iter_mut();
            messages.for_each(|message| forge_call(sabotage, message, world));
        }
        if let Some(Sabotage::EtcdV2(sabotage)) = self.conditions.sabotage {
            connection.at_server.iter_mut().for_each(|it| sabotage.message(it));
        }
        if let Some(Sabotage::EtcdUsers(sabotage)) = self.conditions.sabotage {
            let auth = self.machine.etcd().auth();
            for message in &mut connection.at_server {
                runtime.user_forger.message(sabotage, message, auth);
            }
        }
        let (begun, is_left) = runtime.take_input(number, connection, &self.machine, world);
        if is_left {
            runtime.woken.insert(number);
        }
        let id = self.etcd_front_id(front);
        for (ticket, call) in begun {
            witness.etcd.on_call(self.origin, id, ticket, call);
        }
    }

    fn etcd_front_id(&self, front: usize) -> FrontId {
        self.fronts.etcd_id(front)
    }

    fn has_sabotage(&self, sabotage: WatchSabotage) -> bool {
        self.conditions.sabotage == Some(Sabotage::EtcdWatches(sabotage))
    }

    /// Apply pushes a delivery to an etcd runtime.
    pub(super) fn push_etcd_mail(
        &mut self,
        front: usize,
        mut delivery: Delivery,
        world: &mut World,
    ) {
        if self.conditions.sabotage == Some(Sabotage::EtcdAnswersLost) && world.random.one_in(10) {
            delivery.answers.clear();
        }
        if self.has_sabotage(WatchSabotage::InstallsForgotten)
            && delivery.changes.control.replaced().is_some()
        {
            delivery.changes = SharedChanges::default();
        }
        self.fronts.etcd[front].mail.push_back(delivery);
        let actor = self.etcd_actor(front);
        self.wake(world, actor);
    }

    fn pass_on(
        &mut self,
        front: usize,
        mut output: EtcdOutput,
        world: &mut World,
        network: &mut EtcdNetwork,
    ) {
        self.keep_step_results(front, &mut output, world);
        self.fronts.etcd[front].pass_on_watched(&mut output, world);
        let password_us = self.fronts.etcd[front].work_on_passwords(&mut output, world);
        self.pass_on_v2(front, &mut output, world, network);
        self.hand_over_for(front, core::mem::take(&mut output.hand_overs), world);
        let EtcdOutput { mut to_loop, results, mut pieces, .. } = output;
        for (ticket, result) in &results {
            self.fronts.etcd[front].audit.tell(*ticket, result);
        }
        let mut cut = self.forge_pieces(front, &mut pieces, world);
        for (ticket, piece) in pieces {
            if let Some((number, id)) = self.fronts.etcd[front].waiting_for(ticket) {
                let result = encoded(Ok(piece));
                network.send_down(world, number, FromServer { id, result, has_more: true });
            }
        }
        let results = results.into_iter().map(|(ticket, result)| (ticket, encoded(result)));
        let mut results: Vec<(Ticket, SentResult)> = results.collect();
        results.append(&mut cut);
        self.forge_etcd(front, &mut to_loop, &mut results, world);
        if let Some(Sabotage::Changes(sabotage)) = self.conditions.sabotage {
            forge_answers(sabotage, &to_loop, &mut results);
        }
        self.push_loop(world, to_loop.into_iter().map(LoopInput::Front));
        for (ticket, result) in results {
            // A cancelled call needs no result.
            if let Some((number, id)) = self.fronts.etcd[front].done(ticket) {
                network.send_down(world, number, FromServer { id, result, has_more: false });
            }
        }
        if let Some(at_us) = password_us {
            self.wake_at(world, self.etcd_actor(front), at_us);
        }
    }

    /// Sends the results of etcd v2 reads that needed no waiting.
    fn pass_on_v2_reads(&mut self, front: usize, world: &mut World, network: &mut EtcdNetwork) {
        for (number, id, mut result) in core::mem::take(&mut self.fronts.etcd[front].got) {
            if let Some(Sabotage::EtcdV2(sabotage)) = self.conditions.sabotage {
                sabotage.result(&mut result, world);
            }
            network.send_to_v2(world, number, id, ToV2::Result(result));
        }
    }

    /// Sends the Front's answers to etcd v2 clients; other results stay in `output`.
    fn pass_on_v2(
        &mut self,
        front: usize,
        output: &mut EtcdOutput,
        world: &mut World,
        network: &mut EtcdNetwork,
    ) {
        if let Some(Sabotage::EtcdV2(sabotage)) = self.conditions.sabotage {
            sabotage.output(output, world);
        }
        let runtime = &mut self.fronts.etcd[front];
        for (ticket, result) in core::mem::take(&mut output.v2_results) {
            runtime.audit.tell_v2(ticket, &result);
            if let Some((number, id)) = runtime.done(ticket) {
                network.send_to_v2(world, number, id, ToV2::Result(result));
            }
        }
        for (ticket, waited) in core::mem::take(&mut output.v2_waited) {
            if let Some((number, id)) = runtime.v2_waited(ticket, &waited) {
                network.send_to_v2(world, number, id, ToV2::Waited(waited));
            }
        }
    }

    /// For a sabotage of streamed reads, removes some pieces, and returns the errors to send
    /// instead.
    fn forge_pieces(
        &mut self,
        front: usize,
        pieces: &mut Vec<(Ticket, Reply)>,
        world: &mut World,
    ) -> Vec<(Ticket, SentResult)> {
        let sabotage = self.conditions.sabotage;
        let is_cut = sabotage == Some(Sabotage::EtcdStreamsCut);
        let mut results = Vec::new();
        if !is_cut && sabotage != Some(Sabotage::EtcdPiecesLost) {
            return results;
        }
        let actor = self.etcd_actor(front);
        let runtime = &mut self.fronts.etcd[front];
        pieces.retain(|(ticket, _)| {
            if !world.random.one_in(10) {
                return true;
            }
            if is_cut {
                runtime.front_mut().on_cancel(*ticket);
                results.push((*ticket, Err(Error::Compacted.into())));
            } else {
                runtime.front_mut().on_taken(*ticket);
            }
            false
        });
        self.wake(world, actor);
        results
    }

    /// For a sabotage of leases, changes what Apply tells Loop about leases.
    pub(super) fn forge_leases(&self, to_loop: &mut [FromApply]) {
        for message in to_loop {
            let FromApply::Applied { news, .. } = message else { continue };
            match self.conditions.sabotage {
                Some(Sabotage::LeasesUntold) => news.etcd.leases.clear(),
                Some(Sabotage::EtcdV2(sabotage)) => sabotage.deadlines(&mut news.etcd_v2),
                Some(Sabotage::LeasesShortened) => {
                    for change in &mut news.etcd.leases {
                        if let LeaseChange::Granted { ttl_s, .. } = change {
                            *ttl_s = 1;
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// For a sabotage of keep-alives, answers some of those for existing leases, and removes them
    /// from `to_loop`.
    fn answer_keep_alives(
        &self,
        front: usize,
        to_loop: &mut [ToLoop],
        results: &mut Vec<(Ticket, SentResult)>,
        world: &mut World,
    ) {
        let config = &self.fronts.etcd[front].config;
        let (cluster_id, member_id, raft_term) = (config.cluster_id, config.shown_id, 0);
        let store = self.machine.etcd();
        let header =
            pb::ResponseHeader { cluster_id, member_id, revision: store.revision(), raft_term };
        for message in to_loop {
            let ToLoop::AskLeases(questions) = message else { continue };
            questions.retain(|(caller, question)| {
                let lease = store.leases().get(question.lease).filter(|_| question.renews);
                let Some(lease) = lease.filter(|_| world.random.one_in(2)) else { return true };
                let (id, ttl) = (question.lease.0, lease.grant().ttl_s);
                let kept = pb::LeaseKeepAliveResponse { header: Some(header), id, ttl };
                results.push((caller.ticket, Ok(kept.encode_to_vec())));
                false
            });
        }
    }

    /// For a sabotage of hashes, changes some hashes in `results`.
    fn forge_hashes(&self, front: usize, results: &mut [(Ticket, SentResult)], world: &mut World) {
        for (ticket, result) in results {
            let is_hash = self.fronts.etcd[front].hash_calls.contains(ticket);
            if let Ok(bytes) = result
                && is_hash
                && world.random.one_in(4)
            {
                let response = pb::HashKvResponse::decode(&bytes[..]).expect("the Front made it");
                let hash = !response.hash;
                *bytes = pb::HashKvResponse { hash, ..response }.encode_to_vec();
            }
        }
    }

    /// For a sabotage of etcd calls, changes what a Front sends to Loop and to clients.
    fn forge_etcd(
        &mut self,
        front: usize,
        to_loop: &mut Vec<ToLoop>,
        results: &mut Vec<(Ticket, SentResult)>,
        world: &mut World,
    ) {
        let Some(sabotage) = self.conditions.sabotage else { return };
        let revision = self.machine.etcd().revision();
        let config = &self.fronts.etcd[front].config;
        let (cluster_id, member_id, raft_term) = (config.cluster_id, config.shown_id, 0);
        let response = |revision| -> SentResult {
            let header = pb::ResponseHeader { cluster_id, member_id, revision, raft_term };
            let header = Some(header);
            Ok(pb::PutResponse { header, prev_kv: None }.encode_to_vec())
        };
        let is_one =
            |message: &ToLoop| matches!(message, ToLoop::Submit(it) if it.waiters.len() == 1);
        if sabotage == Sabotage::HashesForged {
            self.forge_hashes(front, results, world);
        }
        if sabotage == Sabotage::KeepAlivesLost {
            self.answer_keep_alives(front, to_loop, results, world);
        }
        let is_early = matches!(sabotage, Sabotage::EtcdAnsweredEarly | Sabotage::EtcdWritesLost);
        if is_early && to_loop.iter().any(is_one) && world.random.one_in(20) {
            let early = to_loop.iter().filter(|message| is_one(message));
            let tickets: Vec<Ticket> = early.flat_map(tickets_of).collect();
            results.extend(tickets.into_iter().map(|it| (it, response(revision + 1))));
            if sabotage == Sabotage::EtcdWritesLost {
                to_loop.retain(|message| !is_one(message));
            }
        }
        if sabotage == Sabotage::EtcdGiveUpsLost {
            to_loop.retain(|message| {
                let ToLoop::GiveUp(_, callers) = message else { return true };
                let given_up = |ticket: Ticket| (ticket, Err(Error::TimedOut.into()));
                results.extend(callers.iter().map(|(_, ticket)| given_up(*ticket)));
                false
            });
        }
        for (_, result) in results.iter_mut() {
            match (sabotage, &result) {
                (Sabotage::EtcdFatesDefinite, Err(CallRefused::Error(Error::TimedOut))) => {
                    *result = Err(Error::NoLeader.into());
                }
                (Sabotage::EtcdCompactedAnswered, Err(CallRefused::Error(Error::Compacted))) => {
                    *result = response(revision);
                }
                (Sabotage::QuotaIgnored, Err(CallRefused::Error(Error::NoSpace))) => {
                    *result = response(revision + 1);
                }
                (Sabotage::UnknownLeasesTaken, Err(CallRefused::Error(Error::LeaseNotFound))) => {
                    *result = response(revision + 1);
                }
                _ => {}
            }
        }
    }
}

/// The view of the member that HTTP requests get.
fn around<'m>(
    config: &EtcdFrontConfig,
    replica: &ReplicaView,
    machine: &'m Machine,
    sabotage: Option<HttpSabotage>,
) -> Around<'m> {
    let EtcdFrontConfig { is_alone, cluster_id, member_id, own, .. } = config;
    let site =
        Site { is_alone: *is_alone, cluster_id: *cluster_id, member_id: *member_id, own, replica };
    let health = MemberHealth::new(&site, machine.etcd());
    let mut members = MembersView::new(&site, machine.control());
    if sabotage == Some(HttpSabotage::LeaderForged) {
        let mut ids = members.members.iter().map(|member| member.id);
        members.leader = ids.find(|id| Some(*id) != replica.leader);
    }
    Around { health, members, machine, sabotage }
}

fn encoded(result: CallResult) -> SentResult {
    result.map(|reply| {
        let mut bytes = Vec::new();
        reply.write(&mut bytes);
        let (mut pieces, mut of_pieces) = (reply.into_pieces(), Vec::new());
        while pieces.measure().is_none() {}
        while pieces.write(&mut of_pieces) {}
        assert!(of_pieces == bytes, "pieces are the bytes of the whole response");
        bytes
    })
}

fn tickets_of(message: &ToLoop) -> Vec<Ticket> {
    match message {
        ToLoop::Submit(submission) => submission.waiters.iter().map(|it| it.ticket).collect(),
        _ => Vec::new(),
    }
}
