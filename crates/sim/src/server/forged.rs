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

/// Bytes of the frame of a connect request with the flag for read-only mode.
const CONNECT_BYTES: usize = 4 + 45;

/// Where that frame has the newest zxid that the client has seen, and the session that it asks for.
const SEEN_ZXID: core::ops::Range<usize> = 8..16;
const SESSION: core::ops::Range<usize> = 20..28;

/// Changes a whole connect request, and returns the session that it asks for. Returns 0 for a new
/// session, and if the request is not whole yet.
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

/// Changes the request of an etcd call, for a sabotage of etcd calls.
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
            // The response is empty, too.
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

/// The writes among the whole frames of a client, as a Front that does not check for read-only mode
/// would hand them to Loop. No client waits for their answers.
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
            // The batch takes as many as fit.
            let _ = batch.push(connection, &identities, &write_command(session, &write));
        }
        input = rest;
    }
    (batch.command_count() > 0).then(|| {
        let (batch, waiters) = (batch.finish(), Vec::new());
        ToLoop::Submit(Submission { front, batch, waiters })
    })
}
