//! The service `grpc.health.v1.Health`, as etcd 3.6 registers it (`v3rpc/health.go`): the server as
//! a whole is serving from the first connection on, and no other service is known. Source: the
//! package `health` of grpc-go 1.83.

use std::future::pending;

use etcd::pb::Message;
use etcd::pb::health::health_check_response::ServingStatus;
use etcd::pb::health::{HealthCheckRequest, HealthCheckResponse};

use super::methods::{HealthMethod, Method as FaceMethod};
use super::runtime::malformed;
use crate::grpc::{Call, Code, End, Status, framed};

/// The `HealthListResponse`: a map with the entry "": serving. Our `health.proto` does not have
/// the message.
const LIST: [u8; 8] = [0x0a, 6, 0x0a, 0, 0x12, 2, 0x08, ServingStatus::Serving as u8];

/// Answers a call of the service.
///
/// # Errors
/// The call ends with a status, or its client is gone.
pub(super) async fn answer(call: &mut Call<FaceMethod>, method: HealthMethod) -> Result<(), End> {
    let message = call.requests.only().await?;
    // `HealthListRequest` is empty, and any message is one with fields that are not known.
    let request = HealthCheckRequest::decode(message.bytes).map_err(|_| malformed())?;
    let is_server = request.service.is_empty();
    match method {
        HealthMethod::Check if is_server => send(call, ServingStatus::Serving).await,
        HealthMethod::Check => Err(Status::new(Code::NotFound, "unknown service").into()),
        HealthMethod::Watch => {
            let status =
                if is_server { ServingStatus::Serving } else { ServingStatus::ServiceUnknown };
            send(call, status).await?;
            // The status never changes.
            call.unless_ended(pending()).await
        }
        HealthMethod::List => call.answers.send(framed(|out| out.extend(LIST))?, None).await,
    }
}

async fn send(call: &mut Call<FaceMethod>, status: ServingStatus) -> Result<(), End> {
    let response = HealthCheckResponse { status: status.into() };
    let message = framed(|out| out.extend(response.encode_to_vec()))?;
    call.answers.send(message, None).await
}
