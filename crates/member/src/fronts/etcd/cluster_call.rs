//! The Front's part in calls about the members. The Front answers each call under the lock, from
//! the state and from the driver's view of the replica. A transfer of leadership then waits until
//! the target leads.

use bytes::Bytes;
use etcd::Error;
use machine::{Machine, MemberId};

use super::EtcdFront;
use super::calls::{Call, Read};
use super::cluster::{ClusterAnswer, ClusterCall, ClusterMethod, Moving, ReplicaView, Site, moved};
use super::credentials::Asker;
use super::method::CallRefused;
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
}
