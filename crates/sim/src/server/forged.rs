//! Changes that a sabotage makes to the bytes of clients on their way to a Front.

use bytes::Bytes;
use etcd::pb::Message;
use etcd::pb::etcdserverpb::compare::TargetUnion;
use etcd::pb::etcdserverpb::{RangeRequest, TxnRequest};
use machine::entry::{BatchBuilder, encode_identities};
use machine::zk::acl::Identity;
use machine::{ConnectionId, SessionId};
use member::fronts::etcd::{ClusterMethod, EtcdMethod};
use member::message::{FrontId, Submission, ToLoop};
use zk::jute::JuteReader;
use zk::ops::write_command;
use zk::request::{Request, RequestHeader};

use super::sabotage::Sabotage;
use crate::etcd_clients::network::FromClient;
use crate::world::World;

/// Bytes of the frame of a connect request that says whether the client can do with reads.
const CONNECT_BYTES: usize = 4 + 45;

/// The places in that frame of the newest zxid that the client has seen and of the session that it
/// asks for.
const SEEN_ZXID: core::ops::Range<usize> = 8..16;
const SESSION: core::ops::Range<usize> = 20..28;

/// Changes a connect request that came whole, and gives the session that it asks for: 0 for a new
/// one, and where it did not come whole.
pub(super) fn forge_connect(sabotage: Sabotage, input: &mut [u8]) -> i64 {
    let Some(frame) = input.get_mut(..CONNECT_BYTES) else { return 0 };
    match sabotage {
        Sabotage::ReadsDoForAll => frame[CONNECT_BYTES - 1] = 1,
        Sabotage::SeenZxidForgotten => frame[SEEN_ZXID].fill(0),
        _ => {}
    }
    let session = frame[SESSION].try_into().expect("it has eight bytes");
    i64::from_be_bytes(session)
}

/// Changes the request of a call of an etcd client, if the sabotage is one of these.
pub(super) fn forge_call(sabotage: Sabotage, message: &mut FromClient, world: &mut World) {
    let FromClient::Call { method, request, .. } = message else { return };
    let decoded = "a client encoded it";
    match (sabotage, *method) {
        (Sabotage::EtcdGuardsIgnored, EtcdMethod::Txn) => {
            let mut txn = TxnRequest::decode(request.clone()).expect(decoded);
            txn.compare.retain(|compare| match compare.target_union {
                Some(TargetUnion::CreateRevision(revision)) => revision == 0,
                _ => true,
            });
            *request = Bytes::from(txn.encode_to_vec());
        }
        (Sabotage::MovesFeigned, EtcdMethod::Cluster(ClusterMethod::MoveLeader)) => {
            // The response is as empty.
            (*method, *request) = (EtcdMethod::Cluster(ClusterMethod::Defragment), Bytes::new());
        }
        (Sabotage::EtcdNeighboursHidden, EtcdMethod::Range) => {
            let mut range = RangeRequest::decode(request.clone()).expect(decoded);
            if range.max_create_revision > 0 && world.random.one_in(2) {
                range.max_create_revision = 1;
                *request = Bytes::from(range.encode_to_vec());
            }
        }
        _ => {}
    }
}

/// The writes among whole frames of a client. A Front hands them over so if it does not look
/// whether the client is served reads only. No client waits for their answers.
pub(super) fn forge_writes(
    front: FrontId,
    connection: ConnectionId,
    session: SessionId,
    mut input: &[u8],
) -> Option<ToLoop> {
    let identities = encode_identities([Identity { scheme: "ip", id: "10.0.0.1" }].into_iter());
    let mut batch = BatchBuilder::default();
    while let Some((length, rest)) = input.split_first_chunk::<4>() {
        let Some((body, rest)) = rest.split_at_checked(u32::from_be_bytes(*length) as usize) else {
            break;
        };
        let mut reader = JuteReader::new(body);
        if let Ok(header) = RequestHeader::decode(&mut reader)
            && let Ok(Request::Write(write)) = Request::decode(header.opcode, &mut reader)
        {
            // As many as one batch takes.
            let _ = batch.push(connection, &identities, &write_command(session, &write));
        }
        input = rest;
    }
    (batch.command_count() > 0).then(|| {
        let (batch, waiters) = (batch.finish(), Vec::new());
        ToLoop::Submit(Submission { front, batch, waiters })
    })
}
