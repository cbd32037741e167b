//! The etcd face's view of its member: the configuration, and a handle to read the state. All
//! connection runtimes share it.

use std::sync::Arc;

use config::ServeConfig;
use config::etcd::EtcdConfig;
use config::tls::ClientAuth;
use grpc::{CallCounts, CallNumbers};
use hyper::header::HeaderValue;
use machine::{Machine, MemberId};
use member::CommandCounts;
use member::fronts::etcd::ReplicaView;
use member::fronts::etcd::cluster::Site;
use member::fronts::etcd::health::{HealthCounts, MemberHealth};
use member::fronts::etcd::v2::members::MembersView;
use node::{MonitorHandle, Node, ReplicaFacts};

use super::backup_file::Backups;
use super::http_head::common_headers;
use super::methods::FaceMethod;
use super::tokens::Tokens;

/// The member behind the etcd face.
pub struct MemberView {
    /// The configuration of the face.
    pub config: EtcdConfig,
    /// Reads the state of the member, including that of its Loop.
    pub node: MonitorHandle,
    /// The cluster id in the header of each response.
    pub cluster_id: u64,
    /// The id of the member. Clients see [`MemberView::shown_id`] of it.
    pub member_id: u64,
    /// Whether the member is a standalone server.
    pub is_alone: bool,
    /// Signs and verifies the tokens of users.
    pub(super) tokens: Arc<Tokens>,
    /// Whether the common name of a client's certificate counts as a user.
    pub(super) has_certificate_users: bool,
    /// The backups that clients ask for.
    pub(super) backups: Backups,
    /// Whether the audit log is on (`audit.enable`).
    pub(super) has_audit_log: bool,
    /// The cluster id as etcd v2 shows it.
    pub(super) v2_cluster_id: HeaderValue,
    /// The header lines of answers to short requests of etcd v2 for keys; `None` if the HTTP
    /// library must handle every request.
    pub(super) short_headers: Option<String>,
    /// Counts of etcd v2's commands.
    pub(super) command_counts: Arc<CommandCounts>,
    /// Counts of health checks.
    pub(super) health_counts: HealthCounts,
    /// For each connection runtime, the methods with the counts of their calls.
    pub(super) calls: Vec<Vec<(Counted, Arc<CallCounts>)>>,
}

/// Whether every client must have a certificate.
fn needs_certificates(server: &ServeConfig) -> bool {
    server.tls.as_ref().is_some_and(|tls| tls.client_auth == ClientAuth::Need)
}

/// A gRPC method whose calls are counted.
type Counted = grpc::Method<FaceMethod>;

impl MemberView {
    /// The view of a started member.
    pub fn of(config: EtcdConfig, tokens: Tokens, node: &Node, server: &ServeConfig) -> MemberView {
        let cluster_id = format!("{:x}", node.cluster_id() as u64);
        let short_headers = common_headers(&config.about, &cluster_id);
        MemberView {
            short_headers: short_headers.filter(|_| config.has_v2),
            config,
            node: node.monitor_handle(),
            cluster_id: node.cluster_id() as u64,
            member_id: node.origin().member.0,
            is_alone: server.cluster.is_none(),
            tokens: Arc::new(tokens),
            has_certificate_users: needs_certificates(server),
            backups: Backups::new(server.storage.data_dir.clone()),
            has_audit_log: server.logging.audit,
            v2_cluster_id: HeaderValue::from_str(&cluster_id)
                .expect("digits are the value of a header"),
            command_counts: node.command_counts(),
            health_counts: HealthCounts::default(),
            calls: Vec::new(),
        }
    }

    /// The state of the replica at this moment.
    pub(super) fn replica(&self) -> ReplicaView {
        let ReplicaFacts { status, voters, learners, .. } = self.node.replica();
        ReplicaView {
            leader: status.leader,
            term: status.term,
            commit_index: status.commit_index,
            applied_index: status.applied_index,
            voters,
            learners,
        }
    }

    /// Calls `with` with the facts about this member and its cluster, and with the state.
    fn at_site<T>(&self, with: impl FnOnce(&Site<'_>, &Machine) -> T) -> T {
        let (own, replica) = (self.config.about.own(), self.replica());
        let site = Site {
            is_alone: self.is_alone,
            cluster_id: self.cluster_id,
            member_id: self.member_id,
            own: &own,
            replica: &replica,
        };
        with(&site, &self.node.machine().read())
    }

    /// The id that etcd's clients see of a member.
    pub(super) fn shown_id(&self, member: u64) -> u64 {
        self.node.machine().read().control().etcd_id_of(MemberId(member))
    }

    /// The members of the cluster, as etcd v2 shows them to clients.
    pub(super) fn members(&self) -> MembersView {
        self.at_site(|site, machine| MembersView::new(site, machine.control()))
    }

    /// The facts about the member that health checks need.
    pub(super) fn health(&self) -> MemberHealth {
        self.at_site(|site, machine| MemberHealth::new(site, machine.etcd()))
    }

    /// The counts of each method, summed over all connection runtimes.
    pub(super) fn call_numbers(&self) -> Vec<(Counted, CallNumbers)> {
        let methods = self.calls.first().into_iter().flatten().map(|(method, _)| *method);
        let numbers = |(at, method): (usize, Counted)| {
            let mut sum = CallNumbers::default();
            for runtime in &self.calls {
                runtime[at].1.add_to(&mut sum);
            }
            (method, sum)
        };
        methods.enumerate().map(numbers).collect()
    }
}
