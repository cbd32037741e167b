//! Serves one stream: executes its requests as they come and sends the answers in the same order.
//! Most clients send a single request and close their side.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chunk::wire::{Handler, Measured, RequestError, Rest, Step, pb};
use grpc::{Call, End, Message, Room, Status, framed};
use grpc_code::Code;
use storage::disk::RealDisk;

use super::log_disk::Turn;
use super::service::{ChunkConnection, Service, log_failure};

/// A request with at most this many bytes of data may be executed on the thread that read it:
/// copying them takes less time than handing the request to another thread.
const QUICK_BYTES_MAX: usize = 64 * 1024;

/// Serves a stream until it ends.
pub(super) async fn serve(client: &ChunkConnection, mut call: Box<Call<()>>) {
    let outcome = answer_all(client, &mut call).await;
    call.finish(outcome);
}

/// Answers requests until the client closes its side.
async fn answer_all(client: &ChunkConnection, call: &mut Call<()>) -> Result<(), End> {
    while let Some(message) = call.requests.next().await? {
        answer(client, message, call).await?;
    }
    Ok(())
}

/// The status that ends a stream after a malformed request.
fn refused(error: RequestError) -> End {
    let code = match error {
        RequestError::TooLarge { .. } | RequestError::TooManyParts { .. } => {
            Code::ResourceExhausted
        }
        RequestError::CutOff | RequestError::Unreadable(_) | RequestError::NoType => Code::Internal,
    };
    End::Status(Status::new(code, error.to_string()))
}

/// Executes the request in a message and sends its answers. Each step that waits for the disk runs
/// on a pool thread and makes at most one answer. The thread is free again before the answer is
/// sent, so a client that is slow to take it occupies no thread.
async fn answer(
    client: &ChunkConnection,
    message: Message,
    call: &mut Call<()>,
) -> Result<(), End> {
    let service = &client.service;
    let Message { bytes, mut room, .. } = message;
    let measured = Measured::of(bytes).map_err(refused)?;
    room.grow_to(measured.memory_bytes()).await;
    let request = measured.decode().map_err(refused)?;
    service.counts.request(request.kind, request.data_bytes());
    if request.pause_ms() > 0 {
        let pause = Duration::from_millis(request.pause_ms().into());
        call.unless_ended(tokio::time::sleep(pause)).await?;
    }
    let mut held = Room::new(&client.answers);
    if service.handler.is_quick(&request, QUICK_BYTES_MAX) {
        let answer = service.handler.begin(request).answer;
        drop(room);
        let encoded = answer.map(|answer| encode(service, &answer)).transpose()?;
        let encoded = encoded.unwrap_or_default();
        held.grow_to(encoded.len()).await;
        return call.answers.send(encoded, Some(held)).await;
    }
    let answer_bytes = service.handler.answer_bytes(&request);
    held.grow_to(answer_bytes).await;
    let is_large = request.data_bytes().max(answer_bytes) > QUICK_BYTES_MAX;
    let turn = match service.log.as_ref().filter(|_| is_large) {
        Some(log) => log.turn().await,
        None => Turn::default(),
    };
    let (encoded, mut rest) = in_pool(service, move |handler| {
        let step = handler.begin(request);
        drop((room, turn));
        step
    })
    .await?;
    if let Some(encoded) = encoded {
        return call.answers.send(encoded, Some(held)).await;
    }
    // A block is sent in parts. Each holds memory until the client has taken it.
    while let Some(mut found) = rest {
        let mut part = held.beside();
        part.grow_to(found.answer_bytes()).await;
        let (encoded, left) = in_pool(service, move |handler| handler.go_on(found)).await?;
        if let Some(encoded) = encoded {
            call.answers.send(encoded, Some(part)).await?;
        }
        rest = left;
    }
    Ok(())
}

/// Runs a step of a request on a thread that may wait for the disk. Returns the encoded answer, and
/// what remains to be done.
async fn in_pool(
    service: &Arc<Service>,
    step: impl FnOnce(&Handler<RealDisk>) -> Step + Send + 'static,
) -> Result<(Option<Bytes>, Option<Rest>), End> {
    let service = service.clone();
    let done = tokio::task::spawn_blocking(move || {
        let Step { answer, rest } = step(&service.handler);
        (answer.map(|answer| encode(&service, &answer)), rest)
    });
    // This fails only if the step panicked, and a panic ends the process.
    let (encoded, rest) = done.await.map_err(|_| End::Gone)?;
    Ok((encoded.transpose()?, rest))
}

/// Encodes an answer with its gRPC prefix. Counts it, and logs it if it is a failure that no client
/// caused.
fn encode(service: &Service, answer: &pb::ContainerCommandResponseProto) -> Result<Bytes, Status> {
    service.counts.answer(answer);
    if matches!(answer.result(), pb::Result::IoException | pb::Result::DiskOutOfSpace) {
        let what = answer.cmd_type().as_str_name();
        let why = answer.message.as_deref().unwrap_or_default();
        log_failure(&format!("{what}: {why}"));
    }
    framed(|out| chunk::wire::encode(answer, out))
}
