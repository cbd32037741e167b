//! The face's view of its member: the configuration of the face, and the state of the member.
//! All connection runtimes share it.

use std::sync::Arc;

use config::ServeConfig;
use config::etcd::EtcdConfig;
use config::tls::ClientAuth;
use grpc::{CallCounts, CallNumbers};
use hyper::header::HeaderValue;
use machine::Machine;
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

/// The member behind the face.
pub struct MemberView {
    /// The settings of the face.
    pub config: EtcdConfig,
    /// Reads the state of the member, its Loop's among it.
    pub node: MonitorHandle,
    /// The cluster, as each response names it.
    pub cluster_id: u64,
    /// The member, as each response names it.
    pub member_id: u64,
    /// Whether the member is alone.
    pub is_alone: bool,
    /// The tokens of users.
    pub(super) tokens: Arc<Tokens>,
    /// Whether the common name of a client's certificate is a user.
    pub(super) has_certificate_users: bool,
    /// The backups that clients ask for.
    pub(super) backups: Backups,
    /// Whether changes that clients ask for are lines in the log (`audit.enable`).
    pub(super) has_audit_log: bool,
    /// The cluster, as the answers of etcd v2 name it.
    pub(super) v2_cluster_id: HeaderValue,
    /// The headers of answers about keys of etcd v2 to short requests; none where none is short.
    pub(super) short_headers: Option<String>,
    /// The counts of etcd v2.
    pub(super) command_counts: Arc<CommandCounts>,
    /// The checks of its health.
    pub(super) health_counts: HealthCounts,
    /// The methods of each connection runtime, with the counts of their calls.
    pub(super) calls: Vec<Vec<(Counted, Arc<CallCounts>)>>,
}

/// Whether every client must have a certificate.
fn needs_certificates(server: &ServeConfig) -> bool {
    server.tls.as_ref().is_some_and(|tls| tls.client_auth == ClientAuth::Need)
}

/// A method whose calls are counted.
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

    /// The state of the replica now.
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

    /// Runs `with` for the place of this member in its cluster, and the state.
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

    /// The cluster, as clients of etcd v2 are shown it.
    pub(super) fn members(&self) -> MembersView {
        self.at_site(|site, machine| MembersView::new(site, machine.control()))
    }

    /// The state of the member, as far as questions about its health look at it.
    pub(super) fn health(&self) -> MemberHealth {
        self.at_site(|site, machine| MemberHealth::new(site, machine.etcd()))
    }

    /// The counts of each method, of all connection runtimes together.
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
