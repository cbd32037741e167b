//! Calls of the service `etcdserverpb.Maintenance` that are about this member.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use etcd::Error;
use etcd::pb::{Message, etcdserverpb as pb};
use machine::MemberId;
use machine::etcd::alarm::Alarm;
use member::fronts::etcd::{CallRefused, Need};

use super::client::Client;
use super::cluster::{decoded, header, revision};
use super::methods::MaintenanceMethod;
use super::runtime::Runtime;
use super::versions::{CLUSTER_VERSION, ETCD_VERSION};

/// Runs a call. Returns the message of its response.
///
/// # Errors
/// The request is malformed, not permitted, or cannot be served now.
pub(super) async fn run(
    client: &Client,
    method: MaintenanceMethod,
    request: Bytes,
) -> Result<Vec<u8>, CallRefused> {
    let runtime = &client.runtime;
    match method {
        MaintenanceMethod::Status => {
            decoded::<pb::StatusRequest>(request)?;
            client.require(Need::User).await?;
            Ok(status(runtime).encode_to_vec())
        }
        // Compactions free memory by themselves, and there is no file to make smaller.
        MaintenanceMethod::Defragment => {
            decoded::<pb::DefragmentRequest>(request)?;
            client.require(Need::Root).await?;
            Ok(pb::DefragmentResponse::default().encode_to_vec())
        }
        MaintenanceMethod::MoveLeader => {
            let request: pb::MoveLeaderRequest = decoded(request)?;
            client.require(Need::Root).await?;
            move_leader(runtime, request.target_id).await?;
            // `maintenanceServer.MoveLeader` fills in no header.
            Ok(pb::MoveLeaderResponse::default().encode_to_vec())
        }
        MaintenanceMethod::Downgrade => {
            let request: pb::DowngradeRequest = decoded(request)?;
            client.require(Need::Root).await?;
            check_downgrade(&request)?;
            let header = Some(header(runtime, Some(revision(runtime))));
            // `version.Cluster`: the first two numbers.
            let version = CLUSTER_VERSION.rsplit_once('.').map_or("", |(version, _)| version);
            let version = version.to_string();
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

/// An alarm as text, as Go's protobuf prints a message.
fn shown(alarm: Alarm) -> String {
    let name = alarm.kind.name();
    match alarm.member {
        0 => format!("alarm:{name} "),
        member => format!("memberID:{member} alarm:{name} "),
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
        let alarms: Vec<String> = store.alarms().iter().map(shown).collect();
        // `etcdctl endpoint status` divides by the size.
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
