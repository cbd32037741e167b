//! The Front's part in calls about the members. The Front answers each call under the lock, from
//! the state and from the driver's view of the replica. A transfer of leadership then waits until
//! the target leads, and a change of the members until it has ended.

use bytes::Bytes;
use etcd::Error;
use machine::control::list_change::{
    Asker as ChangeAsker, ChangeFlags, ChangeId, ChangeRefused, ChangeRequest, LeaderRefused,
};
use machine::etcd::auth::ETCD_SCHEME;
use machine::{Command, ControlCommand, Identity, Level, Machine, MemberId};

use super::EtcdFront;
use super::calls::{Call, Read, Then};
use super::cluster::{ClusterAnswer, ClusterCall, ClusterMethod, Moving, ReplicaView, Site, moved};
use super::credentials::{self, Asker};
use super::member_change::{MemberChange, MemberChanges, error_of_leader, error_of_request};
use super::method::{CallRefused, EtcdMethod};
use super::reply::{Found, Reply};
use crate::caller::Ticket;
use crate::fronts::etcd::limits::ETCD_TRANSFER_MS_MAX;

/// `errors.ErrTimeoutLeaderTransfer`, whose code is `Unknown`.
const TRANSFER_TOO_LONG: &str = "etcdserver: request timed out, leader transfer took too long";

impl EtcdFront {
    /// Whether calls about the members are under way. If so, the driver calls
    /// [`EtcdFront::set_replica`] before it lets the Front run.
    pub fn wants_replica(&self) -> bool {
        !self.cluster.pending.is_empty()
    }

    /// Takes the driver's view of the replica. Ends the transfers whose target leads now.
    pub fn set_replica(&mut self, replica: ReplicaView) {
        let leader = replica.leader;
        self.cluster.replica = replica;
        for ticket in self.moving_where(|moving| leader == Some(moving.target)) {
            self.end_cluster_call(ticket, Ok(moved()));
        }
    }

    /// Begins a call about the members.
    pub(super) fn begin_of_cluster(
        &mut self,
        ticket: Ticket,
        method: ClusterMethod,
        request: Bytes,
        asker: Asker,
    ) -> Result<(), CallRefused> {
        let (call, is_local) = ClusterCall::decode(method, request)?;
        self.cluster.pending.insert(ticket);
        self.begin_read(ticket, Read::Cluster(call), is_local, asker);
        Ok(())
    }

    /// Answers a call about the members under the lock. The caller has checked the user's right.
    pub(super) fn run_cluster_call(&mut self, ticket: Ticket, machine: &Machine) {
        let Some(Call::Ready(Read::Cluster(call), _)) = self.calls.get(&ticket) else { return };
        let site = Site {
            is_alone: self.config.is_alone,
            cluster_id: self.config.cluster_id,
            member_id: self.config.member_id,
            own: &self.config.own,
            replica: &self.cluster.replica,
        };
        match call.answer(&site, machine) {
            Ok(ClusterAnswer::Response(response)) => {
                self.end_cluster_call(ticket, Ok(response));
            }
            Ok(ClusterAnswer::HandOver(target)) => {
                let until_ms = self.now.monotonic_ms + ETCD_TRANSFER_MS_MAX;
                self.calls.insert(ticket, Call::Moving(Moving { target, until_ms }));
                self.output.hand_overs.push((ticket, MemberId(target)));
            }
            Ok(ClusterAnswer::Request) => self.request_change(ticket),
            Err(refused) => self.end_cluster_call(ticket, Err(refused)),
        }
    }

    /// Takes Loop's reply to a transfer. `is_begun` is false if the target cannot take leadership;
    /// the call fails then.
    pub fn on_hand_over(&mut self, ticket: Ticket, is_begun: bool) {
        if !is_begun && matches!(self.calls.get(&ticket), Some(Call::Moving(_))) {
            self.end_cluster_call(ticket, Err(Error::BadLeaderTransferee.into()));
        }
    }

    /// Forgets a call that has ended. Does nothing if the call was not about members.
    pub(super) fn forget_cluster_call(&mut self, ticket: Ticket) {
        self.cluster.pending.remove(&ticket);
        self.cluster.behind_another.retain(|waiting| *waiting != ticket);
    }

    /// Fails the transfers that have waited too long for their target to lead.
    pub(super) fn tick_cluster_calls(&mut self) {
        let now_ms = self.now.monotonic_ms;
        for ticket in self.moving_where(|moving| moving.until_ms <= now_ms) {
            self.end_cluster_call(ticket, Err(CallRefused::Unknown(TRANSFER_TOO_LONG)));
        }
    }

    /// The transfers under way for which `holds` is true.
    fn moving_where(&self, holds: impl Fn(&Moving) -> bool) -> Vec<Ticket> {
        let is_it = |ticket: &&Ticket| match self.calls.get(*ticket) {
            Some(Call::Moving(moving)) => holds(moving),
            _ => false,
        };
        self.cluster.pending.iter().filter(is_it).copied().collect()
    }

    /// Ends a call about the members with this result.
    pub(super) fn end_cluster_call(
        &mut self,
        ticket: Ticket,
        result: Result<Vec<u8>, CallRefused>,
    ) {
        self.calls.remove(&ticket);
        self.forget_cluster_call(ticket);
        let encoded = |response| {
            Reply::from_found(self.header(), Found::Encoded(response), &self.config.references)
        };
        let result = result.map(encoded);
        self.output.results.push((ticket, result));
    }

    // Changes of the members.

    /// Turns a call that waits for the lock into a command. The client's right was checked.
    pub(super) fn request_change(&mut self, ticket: Ticket) {
        let Some(Call::Ready(Read::Cluster(call), asker)) = self.calls.remove(&ticket) else {
            return;
        };
        let ClusterCall::Change(change, kept) = call else { return };
        if self.level < Level::MEMBERS {
            let (method, request) = kept;
            return self.hold(
                ticket,
                Level::MEMBERS,
                (EtcdMethod::Cluster(method), request),
                asker,
            );
        }
        let MemberChanges { is_strict, learners_max } = self.config.own.changes.unwrap_or_default();
        let request = ChangeRequest {
            by: ChangeAsker::Etcd,
            version: None,
            flags: ChangeFlags { is_strict, ..ChangeFlags::default() },
            learners_max,
            change: change.clone(),
        };
        let id = credentials::info(&asker).map(|who| who.to_id());
        let identity = id.as_deref().map(|id| Identity { scheme: ETCD_SCHEME, id });
        let (bytes, command) = (kept.1.len(), Command::Control(ControlCommand::Request(request)));
        if let Err(refused) = self.push_command(ticket, &command, bytes, identity) {
            return self.end_cluster_call(ticket, Err(refused));
        }
        if let Some(Call::Command { then, .. }) = self.calls.get_mut(&ticket) {
            *then = Then::ChangeMembers(Box::new(MemberChange { change, kept, asker }));
        }
    }

    /// Takes the outcome of a request: the change is open, or it was refused.
    pub(super) fn on_requested(
        &mut self,
        ticket: Ticket,
        requested: MemberChange,
        outcome: Result<ChangeId, ChangeRefused>,
    ) {
        match outcome {
            Ok(id) => {
                self.calls.insert(ticket, Call::Changing(id, Box::new(requested)));
            }
            Err(ChangeRefused::InProgress) => {
                let MemberChange { kept: (method, request), asker, .. } = requested;
                let method = EtcdMethod::Cluster(method);
                self.calls.insert(ticket, Call::Held { method, request, asker });
                self.cluster.behind_another.push(ticket);
            }
            Err(refused) => self.end_cluster_call(ticket, Err(error_of_request(refused))),
        }
    }

    /// Takes the end of a change: the calls that asked for it get their results, and the calls that
    /// waited for its end begin anew.
    pub(super) fn on_change_ended(&mut self, id: ChangeId, result: Result<u64, LeaderRefused>) {
        let is_it = |ticket: &&Ticket| matches!(self.calls.get(*ticket), Some(Call::Changing(other, _)) if *other == id);
        let ended: Vec<Ticket> = self.cluster.pending.iter().filter(is_it).copied().collect();
        for ticket in ended {
            let Some(Call::Changing(_, requested)) = self.calls.remove(&ticket) else { continue };
            match result {
                Ok(_) => {
                    let MemberChange { change, asker, .. } = *requested;
                    let read = Read::Cluster(ClusterCall::Changed(change));
                    self.calls.insert(ticket, Call::Ready(read, asker));
                    self.turns.runnable.push_back(ticket);
                }
                Err(refused) => self.end_cluster_call(ticket, Err(error_of_leader(refused).into())),
            }
        }
        for ticket in core::mem::take(&mut self.cluster.behind_another) {
            let Some(Call::Held { method, request, asker }) = self.calls.remove(&ticket) else {
                continue;
            };
            if let Err(refused) = self.begin(ticket, method, request, asker) {
                self.end_cluster_call(ticket, Err(refused));
            }
        }
    }

    /// Ends the calls whose change may have ended in a state that another one replaced. Their
    /// clients do not learn the result.
    pub(super) fn on_changes_replaced(&mut self) {
        let is_open =
            |ticket: &&Ticket| matches!(self.calls.get(*ticket), Some(Call::Changing(..)));
        let open: Vec<Ticket> = self.cluster.pending.iter().filter(is_open).copied().collect();
        for ticket in open {
            self.end_cluster_call(ticket, Err(Error::TimedOut.into()));
        }
    }
}
