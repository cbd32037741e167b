//! Answers health checks over HTTP and gRPC. `member/fronts/etcd/health.rs` decides what makes a
//! member healthy.

use std::future::pending;
use std::rc::Rc;

use grpc::{Call, End, Status, framed};
use grpc_code::Code;
use hyper::StatusCode;
use member::fronts::etcd::EtcdMethod;
use member::fronts::etcd::health::{
    HealthAnswer, HealthCall, HealthMethod, HealthStep, Serving, serving,
};

use super::answer::{Answer, of};
use super::client::CallingClient;
use super::methods::FaceMethod;
use super::routes::{PLAIN_TEXT, sniffed};
use super::runtime::{Runtime, status_of};

/// Answers a health check over HTTP.
pub(super) async fn answer(runtime: &Rc<Runtime>, call: HealthCall) -> Answer {
    let counts = &runtime.member.health_counts;
    let mut step = call.begin();
    loop {
        step = match step {
            HealthStep::Look(call) => call.on_member(&runtime.member.health(), counts),
            HealthStep::Read(call, request) => {
                let member = CallingClient::of_member(runtime);
                let result = member.run(EtcdMethod::Range, request).await;
                call.on_read(result.map(drop), counts)
            }
            HealthStep::Answer(HealthAnswer { is_good, text, forbids_guesses }) => {
                let status = if is_good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                let answer = of(status, PLAIN_TEXT, text);
                return if forbids_guesses { sniffed(answer) } else { answer };
            }
        };
    }
}

/// Answers a call to the service `grpc.health.v1.Health`.
///
/// # Errors
/// The call ends with a status, or its client is gone.
pub(super) async fn answer_call(
    call: &mut Call<FaceMethod>,
    method: HealthMethod,
) -> Result<(), End> {
    let message = call.requests.only().await?;
    match serving(method, message.bytes).map_err(status_of)? {
        Serving::Once(response) => send(call, response).await,
        Serving::UnknownService => Err(Status::new(Code::NotFound, "unknown service").into()),
        Serving::Lasting(response) => {
            send(call, response).await?;
            call.unless_ended(pending()).await
        }
    }
}

async fn send(call: &mut Call<FaceMethod>, response: Vec<u8>) -> Result<(), End> {
    call.answers.send(framed(|out| out.extend(response))?, None).await
}
