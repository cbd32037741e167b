//! The service `etcdserverpb.Cluster`.
//!
//! The members do not change yet: calls that ask for it are refused with errors that etcd has for
//! clusters that cannot change now.

use std::rc::Rc;

use bytes::Bytes;
use etcd::Error;
use etcd::pb::{Message, etcdserverpb as pb};
use member::fronts::etcd::{CallRefused, Method as KvMethod, Need};

use super::audit::Operation;
use super::client::Client;
use super::maintenance;
use super::methods::ClusterMethod;
use super::runtime::Runtime;

/// Runs a call, and has it in the audit log if it asks for a change. Returns the message of its
/// response.
///
/// # Errors
/// The request is malformed, or cannot be served now.
pub(super) async fn run(
    client: &Client,
    method: ClusterMethod,
    request: Bytes,
) -> Result<Vec<u8>, CallRefused> {
    let mut line = client.begin_line(|| Operation::of_cluster(method, &request));
    let result = answer(client, method, request).await;
    if let Some(line) = &mut line {
        line.tell_result(result.as_ref().map(drop).map_err(|refused| *refused));
    }
    result
}

async fn answer(
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
        ClusterMethod::Maintain(method) => maintenance::run(client, method, request).await,
    }
}

pub(super) fn decoded<M: Message + Default>(request: Bytes) -> Result<M, CallRefused> {
    M::decode(request).map_err(|_| CallRefused::Malformed)
}

/// Waits until this member has applied what was committed when the call came.
async fn read(runtime: &Rc<Runtime>) -> Result<(), CallRefused> {
    let request =
        pb::RangeRequest { key: "members".into(), count_only: true, ..Default::default() };
    let member = Client::of_member(runtime);
    member.run(KvMethod::Range, request.encode_to_vec().into()).await.map(drop)
}

pub(super) fn revision(runtime: &Rc<Runtime>) -> i64 {
    runtime.member.node.machine().read().etcd().revision()
}

/// etcd names no revision in responses about members.
pub(super) fn header(runtime: &Rc<Runtime>, revision: Option<i64>) -> pb::ResponseHeader {
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
pub(super) fn members(runtime: &Rc<Runtime>) -> Vec<pb::Member> {
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
