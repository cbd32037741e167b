//! The service `etcdserverpb.Cluster`, and those calls of the service `Maintenance` that are about
//! this member.
//!
//! The members do not change yet: calls that ask for it are refused with errors that etcd has for
//! clusters that cannot change now.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use etcd::Error;
use etcd::pb::{Message, etcdserverpb as pb};
use machine::MemberId;
use machine::etcd::alarm::{Alarm, AlarmKind};
use member::etcd_front::{CallRefused, Method as KvMethod, Need};

use super::client::Client;
use super::methods::ClusterMethod;
use super::runtime::Runtime;
use super::versions::{CLUSTER_VERSION, ETCD_VERSION};

/// Runs a call. Returns the message of its response.
///
/// # Errors
/// The request is malformed, or cannot be served now.
pub(super) async fn run(
    client: &Client,
    method: ClusterMethod,
    request: Bytes,
) -> Result<Vec<u8>, CallRefused> {
    let runtime = &client.runtime;
    match method {
        ClusterMethod::MemberList => {
            let request: pb::MemberListRequest = decoded(request)?;
            if request.linearizable {
                read(runtime).await?;
            }
            client.require(Need::User).await?;
            let header = Some(header(runtime, None));
            Ok(pb::MemberListResponse { header, members: members(runtime) }.encode_to_vec())
        }
        ClusterMethod::MemberAdd => {
            let request: pb::MemberAddRequest = decoded(request)?;
            check_urls(&request.peer_ur_ls)?;
            client.require(Need::Root).await?;
            let is_known = |member: pb::Member| {
                member.peer_ur_ls.iter().any(|url| request.peer_ur_ls.contains(url))
            };
            match members(runtime).into_iter().any(is_known) {
                true => Err(Error::PeerUrlExists.into()),
                false => Err(Error::MemberNotEnoughStarted.into()),
            }
        }
        ClusterMethod::MemberRemove => {
            let request: pb::MemberRemoveRequest = decoded(request)?;
            client.require(Need::Root).await?;
            check_member(runtime, request.id)?;
            Err(Error::MemberNotEnoughStarted.into())
        }
        ClusterMethod::MemberUpdate => {
            let request: pb::MemberUpdateRequest = decoded(request)?;
            check_urls(&request.peer_ur_ls)?;
            client.require(Need::Root).await?;
            check_member(runtime, request.id)?;
            Err(Error::MemberNotEnoughStarted.into())
        }
        ClusterMethod::MemberPromote => {
            let request: pb::MemberPromoteRequest = decoded(request)?;
            client.require(Need::Root).await?;
            check_member(runtime, request.id)?;
            Err(Error::MemberNotLearner.into())
        }
        ClusterMethod::Status => {
            decoded::<pb::StatusRequest>(request)?;
            client.require(Need::User).await?;
            Ok(status(runtime).encode_to_vec())
        }
        // Compactions free memory by themselves, and there is no file to make smaller.
        ClusterMethod::Defragment => {
            decoded::<pb::DefragmentRequest>(request)?;
            client.require(Need::Root).await?;
            Ok(pb::DefragmentResponse::default().encode_to_vec())
        }
        ClusterMethod::MoveLeader => {
            let request: pb::MoveLeaderRequest = decoded(request)?;
            client.require(Need::Root).await?;
            move_leader(runtime, request.target_id).await?;
            let header = Some(header(runtime, Some(revision(runtime))));
            Ok(pb::MoveLeaderResponse { header }.encode_to_vec())
        }
        ClusterMethod::Downgrade => {
            let request: pb::DowngradeRequest = decoded(request)?;
            client.require(Need::Root).await?;
            check_downgrade(&request)?;
            let header = Some(header(runtime, Some(revision(runtime))));
            let version = CLUSTER_VERSION.to_string();
            Ok(pb::DowngradeResponse { header, version }.encode_to_vec())
        }
    }
}

/// Hands leadership over, and waits until the other member leads (`EtcdServer.MoveLeader`).
async fn move_leader(runtime: &Rc<Runtime>, target: u64) -> Result<(), CallRefused> {
    let member = &runtime.member;
    let leader = || member.node.replica().0.leader;
    if leader() != Some(member.member_id) {
        return Err(Error::NotLeader.into());
    }
    if !member.is_alone && !member.node.voters().contains(&target) {
        return Err(Error::BadLeaderTransferee.into());
    }
    if target == member.member_id {
        return Ok(());
    }
    // Alone there is no other member.
    if member.is_alone || !member.node.hand_over(Some(MemberId(target))) {
        return Err(Error::BadLeaderTransferee.into());
    }
    let moved = async {
        while leader() != Some(target) {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    };
    let in_time = tokio::time::timeout(TRANSFER_LIMIT, moved).await;
    in_time.map_err(|_| CallRefused::Unknown(TRANSFER_TOO_LONG))
}

/// How long another member may take to lead.
const TRANSFER_LIMIT: Duration = Duration::from_secs(3);

/// The interval at which a call looks for the new leader.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// `errors.ErrTimeoutLeaderTransfer`, whose code is `Unknown`.
const TRANSFER_TOO_LONG: &str = "etcdserver: request timed out, leader transfer took too long";

/// No version of etcd can go on with the data here, so no downgrade is valid, and none is under
/// way. To cancel one is no error in etcd either (`EtcdServer.downgradeCancel`).
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

fn decoded<M: Message + Default>(request: Bytes) -> Result<M, CallRefused> {
    M::decode(request).map_err(|_| CallRefused::Malformed)
}

/// Waits until this member has applied what was committed when the call came.
async fn read(runtime: &Rc<Runtime>) -> Result<(), CallRefused> {
    let request =
        pb::RangeRequest { key: "members".into(), count_only: true, ..Default::default() };
    let member = Client::of_member(runtime);
    member.run(KvMethod::Range, request.encode_to_vec().into()).await.map(drop)
}

fn revision(runtime: &Rc<Runtime>) -> i64 {
    runtime.member.node.machine().read().etcd().revision()
}

/// etcd names no revision in responses about members.
fn header(runtime: &Rc<Runtime>, revision: Option<i64>) -> pb::ResponseHeader {
    let member = &runtime.member;
    pb::ResponseHeader {
        cluster_id: member.cluster_id,
        member_id: member.member_id,
        revision: revision.unwrap_or(0),
        raft_term: member.node.replica().0.term,
    }
}

/// The members: this one, and those that the ensemble's state knows. A server that was never there
/// has no member yet; it is shown by its own id, and without a name, as in etcd.
fn members(runtime: &Rc<Runtime>) -> Vec<pb::Member> {
    let member = &runtime.member;
    let about = &member.config.about;
    let own = pb::Member {
        id: member.member_id,
        name: about.name.clone(),
        peer_ur_ls: about.peer_urls.clone(),
        client_ur_ls: about.client_urls.clone(),
        is_learner: member.is_learner(),
    };
    if member.is_alone {
        return vec![own];
    }
    let servers = member.node.machine().read().control().servers().clone();
    let (voters, learners) = (member.node.voters(), member.node.learners());
    let of_server = |number: u64| {
        let of_number = servers.members().iter().filter(|(_, server)| **server == number);
        let ids = of_number.map(|(id, _)| id.0);
        // A server that has lost its directory is two members until one of them has the vote.
        ids.max_by_key(|id| voters.contains(id))
    };
    let shown = servers.list().servers.iter().map(|(number, record)| {
        let id = of_server(*number);
        if id == Some(member.member_id) {
            return own.clone();
        }
        let own_id = || servers.id_of(*number).map(|id| id.0);
        pb::Member {
            id: id.or_else(own_id).unwrap_or(*number),
            name: id.map(|_| record.name.clone()).unwrap_or_default(),
            peer_ur_ls: record.peer_urls.clone(),
            client_ur_ls: record.client_urls.clone(),
            is_learner: id.is_some_and(|id| learners.contains(&id)),
        }
    });
    shown.collect()
}

fn check_member(runtime: &Rc<Runtime>, id: u64) -> Result<(), CallRefused> {
    match members(runtime).iter().any(|member| member.id == id) {
        true => Ok(()),
        false => Err(Error::MemberNotFound.into()),
    }
}

/// `types.NewURLs`: each is a scheme, a host and a port.
fn check_urls(urls: &[String]) -> Result<(), CallRefused> {
    let is_url = |url: &String| {
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        let port = rest.and_then(|rest| rest.rsplit_once(':')).map(|(_, port)| port);
        port.is_some_and(|port| port.parse::<u16>().is_ok())
    };
    match !urls.is_empty() && urls.iter().all(is_url) {
        true => Ok(()),
        false => Err(Error::MemberBadUrls.into()),
    }
}

/// An alarm as text, as Go's protobuf prints a message.
fn shown(alarm: Alarm) -> String {
    let name = alarm_name(alarm.kind);
    match alarm.member {
        0 => format!("alarm:{name} "),
        member => format!("memberID:{member} alarm:{name} "),
    }
}

/// The name of a kind of alarm in etcd's texts.
pub(super) fn alarm_name(kind: AlarmKind) -> &'static str {
    match kind {
        AlarmKind::NoSpace => "NOSPACE",
        AlarmKind::Corrupt => "CORRUPT",
    }
}

/// `Maintenance.Status`: the figures of this member. Bytes are those of the versions that can be
/// read.
fn status(runtime: &Rc<Runtime>) -> pb::StatusResponse {
    let member = &runtime.member;
    let (replica, _) = member.node.replica();
    let (revision, bytes, quota, alarms) = {
        let machine = member.node.machine().read();
        let store = machine.etcd();
        // `etcdctl endpoint status` divides by it.
        let alarms: Vec<String> = store.alarms().iter().map(shown).collect();
        (store.revision(), store.bytes().max(1), store.settings().quota_bytes, alarms)
    };
    let leader = replica.leader.map_or(0, |leader| MemberId(leader).0);
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let no_leader = (leader == 0).then(|| Error::NoLeader.text().to_string());
    let errors = no_leader.into_iter().chain(alarms).collect();
    pb::StatusResponse {
        header: Some(header(runtime, Some(revision))),
        version: ETCD_VERSION.to_string(),
        db_size: signed(bytes),
        leader,
        raft_index: replica.commit_index,
        raft_term: replica.term,
        raft_applied_index: replica.applied_index,
        errors,
        db_size_in_use: signed(bytes),
        is_learner: member.is_learner(),
        storage_version: CLUSTER_VERSION.to_string(),
        db_size_quota: signed(quota),
        downgrade_info: Some(pb::DowngradeInfo::default()),
    }
}
