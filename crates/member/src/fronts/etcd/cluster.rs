//! Answers calls about the members: the service `etcdserverpb.Cluster`, and the methods of
//! `Maintenance` that are about this member.
//!
//! From level 5 on, a call to change the members becomes a command
//! ([`member_change`](super::member_change)). If this build does not use level 5, the call is
//! refused after the checks that etcd makes first, for example that the member exists. The error is
//! then one that etcd has for a change that is not possible now.

use std::collections::BTreeSet;

use bytes::Bytes;
use etcd::Error;
use etcd::pb::{Message, etcdserverpb as pb};
use etcd::versions::{CLUSTER_VERSION, ETCD_VERSION};
use machine::control::list_change::ListChange;
use machine::control::servers::{ServerId, ServerRole};
use machine::etcd::alarm::Alarm;
use machine::{Control, Machine, MemberId};

use super::member_change::MemberChanges;
use super::method::{CallRefused, Need};
use super::peer_urls;
use crate::caller::Ticket;

/// A method of the service `etcdserverpb.Cluster`, or one of `Maintenance` about this member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterMethod {
    /// `Cluster.MemberAdd`.
    MemberAdd,
    /// `Cluster.MemberRemove`.
    MemberRemove,
    /// `Cluster.MemberUpdate`.
    MemberUpdate,
    /// `Cluster.MemberList`.
    MemberList,
    /// `Cluster.MemberPromote`.
    MemberPromote,
    /// `Maintenance.Status`.
    Status,
    /// `Maintenance.Defragment`.
    Defragment,
    /// `Maintenance.MoveLeader`.
    MoveLeader,
    /// `Maintenance.Downgrade`.
    Downgrade,
}

/// The name and the URLs of this member, and its settings for calls about the members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnMember {
    /// The name.
    pub name: String,
    /// The URLs for other members.
    pub peer_urls: Vec<String>,
    /// The URLs for clients.
    pub client_urls: Vec<String>,
    /// The settings for changes of the members; `None` if this member does not use level 5.
    pub changes: Option<MemberChanges>,
}

/// The state of this member's replica as the driver last told it, for calls about the members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaView {
    /// The member id of the leader; `None` if no leader is known.
    pub leader: Option<u64>,
    /// The Raft term.
    pub term: u64,
    /// The index of the last entry that is known to be committed.
    pub commit_index: u64,
    /// The index of the last entry that was applied.
    pub applied_index: u64,
    /// The member ids of the voters.
    pub voters: Vec<u64>,
    /// The member ids of the members without a vote.
    pub learners: Vec<u64>,
}

/// The facts about this member that answers about the members need.
#[derive(Clone, Copy, Debug)]
pub struct Site<'s> {
    /// Whether the member is the whole ensemble: the list then has no other member.
    pub is_alone: bool,
    /// The id of the cluster.
    pub cluster_id: u64,
    /// The id of this member.
    pub member_id: u64,
    /// The name and the URLs of this member.
    pub own: &'s OwnMember,
    /// The state of its replica as the driver last told it.
    pub replica: &'s ReplicaView,
}

/// A call about the members whose form was checked.
pub(super) enum ClusterCall {
    List,
    /// A change of the members, with the method and the request, to begin the call anew.
    Change(ListChange, (ClusterMethod, Bytes)),
    /// A change of the members that is done. The response lists the members.
    Changed(ListChange),
    Status,
    Defragment,
    MoveLeader(u64),
    Downgrade(Box<pb::DowngradeRequest>),
}

/// A transfer of leadership that waits until the target leads.
pub(super) struct Moving {
    /// The member that is to lead.
    pub target: u64,
    /// When the call fails if the target does not lead, by the clock of the Front, in ms.
    pub until_ms: u64,
}

/// The answer to a call, found under the lock.
pub(super) enum ClusterAnswer {
    Response(Vec<u8>),
    /// Loop is to hand leadership to this member; the call then waits as a [`Moving`].
    HandOver(u64),
    /// The call becomes a command.
    Request,
}

/// The calls about the members that are not done, and what the driver last told of the replica.
#[derive(Default)]
pub(super) struct ClusterCalls {
    pub pending: BTreeSet<Ticket>,
    /// Calls to change the members that wait for the end of another change.
    pub behind_another: Vec<Ticket>,
    pub replica: ReplicaView,
}

impl ClusterCall {
    /// Decodes a request. The flag is true if this member may answer it without a sync.
    pub fn decode(
        method: ClusterMethod,
        request: Bytes,
    ) -> Result<(ClusterCall, bool), CallRefused> {
        let call = match method {
            ClusterMethod::MemberList => {
                let request: pb::MemberListRequest = decoded(request)?;
                return Ok((ClusterCall::List, !request.linearizable));
            }
            ClusterMethod::MemberAdd
            | ClusterMethod::MemberRemove
            | ClusterMethod::MemberUpdate
            | ClusterMethod::MemberPromote => {
                let change = list_change(method, request.clone())?;
                ClusterCall::Change(change, (method, request))
            }
            ClusterMethod::Status => {
                let _: pb::StatusRequest = decoded(request)?;
                ClusterCall::Status
            }
            ClusterMethod::Defragment => {
                let _: pb::DefragmentRequest = decoded(request)?;
                ClusterCall::Defragment
            }
            ClusterMethod::MoveLeader => {
                let request: pb::MoveLeaderRequest = decoded(request)?;
                ClusterCall::MoveLeader(request.target_id)
            }
            ClusterMethod::Downgrade => ClusterCall::Downgrade(Box::new(decoded(request)?)),
        };
        Ok((call, true))
    }

    /// The right that the call needs.
    pub fn need(&self) -> Need {
        match self {
            // The right to a change was checked when it became a command.
            ClusterCall::List | ClusterCall::Status | ClusterCall::Changed(_) => Need::User,
            ClusterCall::Change(..)
            | ClusterCall::Defragment
            | ClusterCall::MoveLeader(_)
            | ClusterCall::Downgrade(_) => Need::Root,
        }
    }

    /// Answers the call from the state and from the driver's view of the replica.
    ///
    /// # Errors
    /// etcd's error for a call that cannot be served now.
    pub fn answer(&self, site: &Site<'_>, machine: &Machine) -> Result<ClusterAnswer, CallRefused> {
        let control = machine.control();
        let header = |revision: i64| {
            Some(pb::ResponseHeader {
                cluster_id: site.cluster_id,
                member_id: control.etcd_id_of(MemberId(site.member_id)),
                revision,
                raft_term: site.replica.term,
            })
        };
        let members = || members(site, control);
        Ok(ClusterAnswer::Response(match self {
            // As in etcd, a response about members has no revision.
            ClusterCall::List => {
                pb::MemberListResponse { header: header(0), members: members() }.encode_to_vec()
            }
            ClusterCall::Change(..) if site.own.changes.is_some() => {
                return Ok(ClusterAnswer::Request);
            }
            ClusterCall::Change(change, _) => return Err(refusal(change, &members()).into()),
            ClusterCall::Changed(change) => changed(change, header(0), members()),
            ClusterCall::Status => status(site, machine, header).encode_to_vec(),
            // Compacted versions are freed without a call, and there is no file to make smaller.
            ClusterCall::Defragment => pb::DefragmentResponse::default().encode_to_vec(),
            ClusterCall::MoveLeader(target) => return move_leader(site, control, *target),
            ClusterCall::Downgrade(request) => {
                check_downgrade(request)?;
                // The first two numbers of the version, as `version.Cluster` of etcd gives them.
                let version = CLUSTER_VERSION.rsplit_once('.').map_or("", |(version, _)| version);
                let (header, version) = (header(machine.etcd().revision()), version.to_string());
                pb::DowngradeResponse { header, version }.encode_to_vec()
            }
        }))
    }
}

/// Decodes a request to change the members, and checks its URLs.
fn list_change(method: ClusterMethod, request: Bytes) -> Result<ListChange, CallRefused> {
    let checked =
        |peer_urls: &[String]| peer_urls::checked(peer_urls).map_err(|_| Error::MemberBadUrls);
    Ok(match method {
        ClusterMethod::MemberAdd => {
            let request: pb::MemberAddRequest = decoded(request)?;
            let role = if request.is_learner { ServerRole::Learner } else { ServerRole::Voter };
            // Only a new member's URLs are sorted, as in etcd.
            let mut peer_urls = checked(&request.peer_ur_ls)?;
            peer_urls.sort_unstable();
            ListChange::Add { peer_urls, role }
        }
        ClusterMethod::MemberUpdate => {
            let request: pb::MemberUpdateRequest = decoded(request)?;
            let server = ServerId(request.id);
            ListChange::Update { server, peer_urls: checked(&request.peer_ur_ls)? }
        }
        ClusterMethod::MemberPromote => {
            let request: pb::MemberPromoteRequest = decoded(request)?;
            ListChange::Promote(ServerId(request.id))
        }
        _ => {
            let request: pb::MemberRemoveRequest = decoded(request)?;
            ListChange::Remove(ServerId(request.id))
        }
    })
}

/// The error for a change that is not possible, because the members cannot be changed.
fn refusal(change: &ListChange, members: &[pb::Member]) -> Error {
    let is_known = |id: &ServerId| members.iter().any(|member| member.id == id.0);
    match change {
        ListChange::Add { peer_urls, .. } => {
            let has_one =
                |member: &pb::Member| member.peer_ur_ls.iter().any(|url| peer_urls.contains(url));
            match members.iter().any(has_one) {
                true => Error::PeerUrlExists,
                false => Error::MemberNotEnoughStarted,
            }
        }
        ListChange::Promote(id) if is_known(id) => Error::MemberNotLearner,
        ListChange::Remove(id) | ListChange::Update { server: id, .. } if is_known(id) => {
            Error::MemberNotEnoughStarted
        }
        _ => Error::MemberNotFound,
    }
}

/// The response to a change of the members that is done.
fn changed(
    change: &ListChange,
    header: Option<pb::ResponseHeader>,
    members: Vec<pb::Member>,
) -> Vec<u8> {
    match change {
        ListChange::Add { peer_urls, .. } => {
            let is_new = |member: &&pb::Member| member.peer_ur_ls == *peer_urls;
            let member = members.iter().find(is_new).cloned();
            pb::MemberAddResponse { header, member, members }.encode_to_vec()
        }
        ListChange::Update { .. } => pb::MemberUpdateResponse { header, members }.encode_to_vec(),
        ListChange::Promote(_) => pb::MemberPromoteResponse { header, members }.encode_to_vec(),
        _ => pb::MemberRemoveResponse { header, members }.encode_to_vec(),
    }
}

fn decoded<M: Message + Default>(request: Bytes) -> Result<M, CallRefused> {
    M::decode(request).map_err(|_| CallRefused::Malformed)
}

/// Checks a transfer of leadership (`EtcdServer.MoveLeader`): this member must lead, and the target
/// must be a voter.
fn move_leader(
    site: &Site<'_>,
    control: &Control,
    target: u64,
) -> Result<ClusterAnswer, CallRefused> {
    if site.replica.leader != Some(site.member_id) {
        return Err(Error::NotLeader.into());
    }
    if target == control.etcd_id_of(MemberId(site.member_id)) {
        return Ok(ClusterAnswer::Response(moved()));
    }
    let may_lead = |member: &MemberId| !site.is_alone && site.replica.voters.contains(&member.0);
    let named = control.members_with_etcd_id(target).find(may_lead);
    // Below level 5 a voter that is not registered has an id, too.
    let target = named.or_else(|| Some(MemberId(target)).filter(may_lead));
    let target = target.ok_or(Error::BadLeaderTransferee)?;
    Ok(ClusterAnswer::HandOver(target.0))
}

/// The response to a transfer. Its header is empty, as in `maintenanceServer.MoveLeader`.
pub(super) fn moved() -> Vec<u8> {
    pb::MoveLeaderResponse::default().encode_to_vec()
}

/// Refuses a downgrade, because no version of etcd can read the data here. To cancel one is no
/// error, as in etcd when none is under way (`EtcdServer.downgradeCancel`).
fn check_downgrade(request: &pb::DowngradeRequest) -> Result<(), CallRefused> {
    if request.action() == pb::downgrade_request::DowngradeAction::Cancel {
        return Ok(());
    }
    let numbers: Vec<&str> = request.version.split('.').collect();
    let is_number = |text: &&str| text.parse::<u32>().is_ok();
    Err(match (2..=3).contains(&numbers.len()) && numbers.iter().all(is_number) {
        true => Error::InvalidDowngradeTargetVersion.into(),
        false => Error::WrongDowngradeVersionFormat.into(),
    })
}

/// An alarm as text, in the form in which Go's protobuf prints a message.
fn shown(alarm: Alarm) -> String {
    let name = alarm.kind.name();
    match alarm.member {
        0 => format!("alarm:{name} "),
        member => format!("memberID:{member} alarm:{name} "),
    }
}

/// The answer of `Maintenance.Status`: the figures of this member. The size is the bytes of the
/// versions of keys that are not compacted.
fn status(
    site: &Site<'_>,
    machine: &Machine,
    header: impl Fn(i64) -> Option<pb::ResponseHeader>,
) -> pb::StatusResponse {
    let (store, replica) = (machine.etcd(), site.replica);
    // At least 1, because `etcdctl endpoint status` divides by the size.
    let bytes = signed(store.bytes().max(1));
    let no_leader = replica.leader.is_none().then(|| Error::NoLeader.text().to_string());
    let errors = no_leader.into_iter().chain(store.alarms().iter().map(shown)).collect();
    pb::StatusResponse {
        header: header(store.revision()),
        version: ETCD_VERSION.to_string(),
        db_size: bytes,
        leader: replica.leader.map_or(0, |leader| machine.control().etcd_id_of(MemberId(leader))),
        raft_index: replica.commit_index,
        raft_term: replica.term,
        raft_applied_index: replica.applied_index,
        errors,
        db_size_in_use: bytes,
        is_learner: !site.is_alone && !replica.voters.contains(&site.member_id),
        storage_version: CLUSTER_VERSION.to_string(),
        db_size_quota: signed(store.settings().quota_bytes),
        downgrade_info: Some(pb::DowngradeInfo::default()),
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The list of members: this one, and the servers that the replicated state knows. A server that
/// has never started has no member yet: it is listed by its server's id and without a name, as in
/// etcd. The list is never empty.
pub fn members(site: &Site<'_>, control: &Control) -> Vec<pb::Member> {
    let Site { own, replica, .. } = site;
    let own = pb::Member {
        id: control.etcd_id_of(MemberId(site.member_id)),
        name: own.name.clone(),
        peer_ur_ls: own.peer_urls.clone(),
        client_ur_ls: own.client_urls.clone(),
        is_learner: !site.is_alone && !replica.voters.contains(&site.member_id),
    };
    let servers = control.servers();
    // Before an ensemble's first leader has put the servers into the state, a member knows only
    // itself.
    if site.is_alone || servers.list().servers.is_empty() {
        return vec![own];
    }
    let of_server = |number: u64| {
        let of_number = servers.members().iter().filter(|(_, server)| **server == number);
        let ids = of_number.map(|(id, _)| id.0);
        // A server that has lost its directory is two members until one of them has the vote.
        ids.max_by_key(|id| replica.voters.contains(id))
    };
    let shown = servers.list().servers.iter().map(|(number, record)| {
        let id = of_server(*number);
        if id == Some(site.member_id) && !servers.is_managed() {
            return own.clone();
        }
        let shown_id = id.map(|id| control.etcd_id_of(MemberId(id)));
        let own_id = || servers.id_of(*number).map(|id| id.0);
        let is_learner = match servers.is_managed() {
            true => record.role != ServerRole::Voter,
            false => id.is_some_and(|id| replica.learners.contains(&id)),
        };
        pb::Member {
            id: shown_id.or_else(own_id).unwrap_or(*number),
            name: id.map(|_| record.name.clone()).unwrap_or_default(),
            peer_ur_ls: record.peer_urls.clone(),
            client_ur_ls: record.client_urls.clone(),
            is_learner,
        }
    });
    shown.collect()
}
