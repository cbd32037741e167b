//! One stream: requests as they come, and their answers in the same order. Real clients send one
//! request and say that it was the last.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chunk::wire::{Request, pb};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::grpc::{self, Assembly, Status};
use super::{STALL_TIME_MAX, Service};

/// Bytes that a request may have to be done where it was read: copying them takes less than handing
/// them to another thread would.
const QUICK_BYTES_MAX: usize = 64 * 1024;

/// Answers of one request that wait for the one before to be sent. Then the reading of them waits.
const ANSWERS_WAITING_MAX: usize = 1;

/// Why a stream ends before its client said so.
enum End {
    /// The client is told.
    Status(Status),
    /// The client is gone, or takes nothing any more.
    Gone,
}

impl From<h2::Error> for End {
    fn from(_: h2::Error) -> End {
        End::Gone
    }
}

/// Serves a stream until it ends.
pub(super) async fn serve(
    service: &Arc<Service>,
    request: hyper::Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    if let Err(response) = grpc::check_head(&request) {
        // A client that is gone needs no answer.
        let _ = respond.send_response(*response, true);
        return;
    }
    let mut requests = Requests { body: request.into_body(), assembly: Assembly::default() };
    let mut answers = Answers::Waiting(respond);
    let end = loop {
        match requests.next(service).await {
            Err(end) => break end,
            Ok(None) => break End::Status(Status::ok()),
            Ok(Some((message, room))) => {
                if let Err(end) = answer(service, message, room, &mut answers).await {
                    break end;
                }
            }
        }
    };
    match end {
        End::Status(status) => answers.finish(&status),
        End::Gone => answers.reset(),
    }
}

/// The receiving half of a stream.
struct Requests {
    body: RecvStream,
    assembly: Assembly,
}

impl Requests {
    /// The next message with the room that it takes; none when there will be no more.
    async fn next(
        &mut self,
        service: &Service,
    ) -> Result<Option<(Bytes, OwnedSemaphorePermit)>, End> {
        let length = loop {
            if let Some(length) = self.assembly.length().map_err(End::Status)? {
                break length;
            }
            let has_begun = !self.assembly.is_between();
            let received = match has_begun {
                true => in_time(self.receive()).await?,
                false => self.receive().await?,
            };
            match (received, has_begun) {
                (true, _) => {}
                (false, true) => return Err(End::Status(Status::cut_off())),
                (false, false) => return Ok(None),
            }
        };
        let room = service.requests.take(length).await.ok_or(End::Gone)?;
        if let Some(message) = self.assembly.take() {
            return Ok(Some((message, room)));
        }
        let message = tokio::time::timeout(STALL_TIME_MAX, self.rest());
        Ok(Some((message.await.unwrap_or(Err(End::Gone))?, room)))
    }

    async fn rest(&mut self) -> Result<Bytes, End> {
        loop {
            if !self.receive().await? {
                return Err(End::Status(Status::cut_off()));
            }
            if let Some(message) = self.assembly.take() {
                return Ok(message);
            }
        }
    }

    /// Takes a frame, if there is one more.
    async fn receive(&mut self) -> Result<bool, End> {
        let Some(frame) = self.body.data().await.transpose()? else { return Ok(false) };
        self.body.flow_control().release_capacity(frame.len())?;
        self.assembly.push(frame);
        Ok(true)
    }
}

/// What has to be done before long.
async fn in_time<T>(what: impl Future<Output = Result<T, End>>) -> Result<T, End> {
    tokio::time::timeout(STALL_TIME_MAX, what).await.unwrap_or(Err(End::Gone))
}

/// Does what a message says and sends the answers to it.
async fn answer(
    service: &Arc<Service>,
    message: Bytes,
    room: OwnedSemaphorePermit,
    answers: &mut Answers,
) -> Result<(), End> {
    let request = Request::decode(message).map_err(|error| End::Status(error.into()))?;
    service.counts.request(request.kind, request.data_bytes());
    if request.pause_ms() > 0 {
        tokio::time::sleep(Duration::from_millis(request.pause_ms().into())).await;
    }
    if service.handler.is_quick(&request, QUICK_BYTES_MAX) {
        let mut encoded = Bytes::new();
        service.handler.handle(request, &mut |answer| {
            encoded = encode(service, &answer);
            true
        });
        drop(room);
        return answers.send(encoded).await;
    }
    // Nobody who holds room for an answer waits for room for a request, so all get theirs.
    let answer_room = service.answers.take(request.answer_bytes_max()).await.ok_or(End::Gone)?;
    let (sender, mut encoded) = mpsc::channel(ANSWERS_WAITING_MAX);
    let waiting = service.clone();
    tokio::task::spawn_blocking(move || {
        waiting
            .handler
            .handle(request, &mut |answer| sender.blocking_send(encode(&waiting, &answer)).is_ok());
        drop(room);
    });
    while let Some(encoded) = encoded.recv().await {
        answers.send(encoded).await?;
    }
    drop(answer_room);
    Ok(())
}

/// An answer with its prefix. People are told of what is not the client's doing.
fn encode(service: &Service, answer: &pb::ContainerCommandResponseProto) -> Bytes {
    service.counts.answer(answer);
    if matches!(answer.result(), pb::Result::IoException | pb::Result::DiskOutOfSpace) {
        let what = answer.cmd_type().as_str_name();
        let why = answer.message.as_deref().unwrap_or_default();
        service.failures.report(&format!("{what}: {why}"));
    }
    grpc::encode(answer)
}

/// The sending half of a stream.
enum Answers {
    /// Nothing was sent yet.
    Waiting(SendResponse<Bytes>),
    Sending(SendStream<Bytes>),
}

impl Answers {
    /// The stream, with the head of the response sent.
    fn stream(&mut self) -> Result<&mut SendStream<Bytes>, End> {
        if let Answers::Waiting(respond) = self {
            *self = Answers::Sending(respond.send_response(grpc::response_head(), false)?);
        }
        match self {
            Answers::Sending(stream) => Ok(stream),
            Answers::Waiting(_) => unreachable!("it was replaced"),
        }
    }

    /// Sends one answer, as fast as the client takes it.
    async fn send(&mut self, mut bytes: Bytes) -> Result<(), End> {
        let stream = self.stream()?;
        while !bytes.is_empty() {
            stream.reserve_capacity(bytes.len());
            if stream.capacity() == 0 {
                let capacity = poll_fn(|context| stream.poll_capacity(context));
                in_time(async { Ok(capacity.await.ok_or(End::Gone)??) }).await?;
            }
            let piece = bytes.split_to(stream.capacity().min(bytes.len()));
            if !piece.is_empty() {
                stream.send_data(piece, false)?;
            }
        }
        Ok(())
    }

    /// Whoever is gone needs no status.
    fn finish(self, status: &Status) {
        let _ = match self {
            Answers::Waiting(mut respond) => {
                respond.send_response(status.response(), true).map(drop)
            }
            Answers::Sending(mut stream) => stream.send_trailers(status.trailers()),
        };
    }

    fn reset(self) {
        match self {
            Answers::Waiting(mut respond) => respond.send_reset(Reason::CANCEL),
            Answers::Sending(mut stream) => stream.send_reset(Reason::CANCEL),
        }
    }
}
