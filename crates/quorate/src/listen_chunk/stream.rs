//! One stream: requests as they come, and their answers in the same order. Real clients send one
//! request and say that it was the last.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use chunk::wire::{Handler, Measured, Rest, Step, pb};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use storage::disk::RealDisk;
use tokio::time::{Instant, timeout, timeout_at};

use super::grpc::{self, Assembly, Status};
use super::service::{Client, Service};
use crate::grpc::Room;

/// Bytes that a request may have to be done where it was read: copying them takes less than handing
/// them to another thread would.
const QUICK_BYTES_MAX: usize = 64 * 1024;

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

/// A piece of an answer on its way to the socket, with the room that the answer takes until its
/// last piece is there.
pub(super) struct Piece {
    bytes: Bytes,
    _room: Arc<Room>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

/// Serves a stream until it ends.
pub(super) async fn serve(
    client: &Client,
    request: hyper::Request<RecvStream>,
    mut respond: SendResponse<Piece>,
) {
    if let Err(response) = grpc::check_head(&request) {
        // A client that is gone needs no answer.
        let _ = respond.send_response(*response, true);
        return;
    }
    let (body, assembly) = (request.into_body(), Assembly::default());
    let mut requests = Requests { body, assembly, unreleased: 0, has_had_one: false };
    let mut answers = Answers::Waiting(respond);
    let end = loop {
        match requests.next(client).await {
            Err(end) => break end,
            Ok(None) => break End::Status(Status::ok()),
            Ok(Some((message, room))) => {
                if let Err(end) = answer(client, message, room, &mut answers).await {
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
    /// Bytes of the last frame. They count against the window until there is room for them.
    unreleased: usize,
    /// Whether a whole message came.
    has_had_one: bool,
}

impl Requests {
    /// The next message with the room that it takes; none when there will be no more.
    async fn next(&mut self, client: &Client) -> Result<Option<(Bytes, Room)>, End> {
        let limits = &client.service.limits;
        let mut room = Room::new(&client.requests);
        let mut deadline = None;
        loop {
            if self.assembly.length().map_err(End::Status)?.is_some() {
                let asked_at = Instant::now();
                room.grow_to(self.assembly.memory_bytes()).await;
                // That it had to wait is not the client's fault.
                deadline = deadline.map(|at: Instant| at + asked_at.elapsed());
                if let Some(message) = self.assembly.take() {
                    self.has_had_one = true;
                    return Ok(Some((message, room)));
                }
            }
            let has_begun = !self.assembly.is_between();
            let received = if has_begun {
                let time_max =
                    if room.is_finisher() { limits.finish_time } else { limits.stall_time };
                let at = *deadline.get_or_insert_with(|| Instant::now() + limits.stall_time);
                self.receive_more(client, &room, at.min(Instant::now() + time_max)).await?
            } else {
                let time_max = if self.has_had_one { limits.idle_time } else { limits.stall_time };
                let idle = |_| Err(End::Status(Status::idle()));
                timeout(time_max, self.receive()).await.unwrap_or_else(idle)?
            };
            match (received, has_begun) {
                (true, _) => {}
                (false, true) => return Err(End::Status(Status::cut_off())),
                (false, false) => return Ok(None),
            }
        }
    }

    /// Takes a frame of a message that has begun, before the deadline; and before long, where
    /// others wait for the room that it has.
    async fn receive_more(
        &mut self,
        client: &Client,
        room: &Room,
        deadline: Instant,
    ) -> Result<bool, End> {
        loop {
            let look_at = Instant::now() + client.service.limits.waited_time;
            match timeout_at(deadline.min(look_at), self.receive()).await {
                Ok(received) => return received,
                Err(_) if Instant::now() >= deadline || room.is_waited_for() => {
                    return Err(End::Gone);
                }
                Err(_) => {}
            }
        }
    }

    /// Takes a frame, if there is one more.
    async fn receive(&mut self) -> Result<bool, End> {
        self.body.flow_control().release_capacity(std::mem::take(&mut self.unreleased))?;
        let Some(frame) = self.body.data().await.transpose()? else { return Ok(false) };
        self.unreleased = frame.len();
        self.assembly.push(frame);
        Ok(true)
    }
}

/// Does what a message says and sends the answers to it. Whatever waits for the disk is done by a
/// thread that may, for one answer and no longer: a client that takes its time with it has no
/// thread.
async fn answer(
    client: &Client,
    message: Bytes,
    mut room: Room,
    answers: &mut Answers,
) -> Result<(), End> {
    let refused = |error| End::Status(Status::from(error));
    let service = &client.service;
    let measured = Measured::of(message).map_err(refused)?;
    room.grow_to(measured.memory_bytes()).await;
    let request = measured.decode().map_err(refused)?;
    service.counts.request(request.kind, request.data_bytes());
    if request.pause_ms() > 0 {
        tokio::time::sleep(Duration::from_millis(request.pause_ms().into())).await;
    }
    let mut held = Room::new(&client.answers);
    if service.handler.is_quick(&request, QUICK_BYTES_MAX) {
        let encoded = service.handler.begin(request).answer.map(|answer| encode(service, &answer));
        drop(room);
        let encoded = encoded.unwrap_or_default();
        held.grow_to(encoded.len()).await;
        return answers.send(client, encoded, held).await;
    }
    held.grow_to(service.handler.answer_bytes(&request)).await;
    let (encoded, mut rest) = in_pool(service, move |handler| {
        let step = handler.begin(request);
        drop(room);
        step
    })
    .await?;
    if let Some(encoded) = encoded {
        return answers.send(client, encoded, held).await;
    }
    // What was found of a block takes room until it is read.
    while let Some(mut found) = rest {
        let mut part = held.beside();
        part.grow_to(found.answer_bytes()).await;
        let (encoded, left) = in_pool(service, move |handler| handler.go_on(found)).await?;
        if let Some(encoded) = encoded {
            answers.send(client, encoded, part).await?;
        }
        rest = left;
    }
    Ok(())
}

/// Does a step on a thread that may wait for the disk.
async fn in_pool(
    service: &Arc<Service>,
    step: impl FnOnce(&Handler<RealDisk>) -> Step + Send + 'static,
) -> Result<(Option<Bytes>, Option<Rest>), End> {
    let service = service.clone();
    let done = tokio::task::spawn_blocking(move || {
        let Step { answer, rest } = step(&service.handler);
        (answer.map(|answer| encode(&service, &answer)), rest)
    });
    // A panic has ended the process.
    done.await.map_err(|_| End::Gone)
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
    Waiting(SendResponse<Piece>),
    Sending(SendStream<Piece>),
}

impl Answers {
    /// The stream, with the head of the response sent.
    fn stream(&mut self) -> Result<&mut SendStream<Piece>, End> {
        if let Answers::Waiting(respond) = self {
            *self = Answers::Sending(respond.send_response(grpc::response_head(), false)?);
        }
        match self {
            Answers::Sending(stream) => Ok(stream),
            Answers::Waiting(_) => unreachable!("it was replaced"),
        }
    }

    /// Sends one answer, as fast as the client takes it. What its room is larger is given back.
    async fn send(&mut self, client: &Client, mut bytes: Bytes, room: Room) -> Result<(), End> {
        let limits = &client.service.limits;
        let mut room = room;
        room.shrink_to(bytes.len());
        let room = Arc::new(room);
        let time_max = if room.is_finisher() { limits.finish_time } else { limits.stall_time };
        let deadline_if_waited_for = Instant::now() + time_max;
        let stream = self.stream()?;
        while !bytes.is_empty() {
            if Instant::now() >= deadline_if_waited_for && room.is_waited_for() {
                return Err(End::Gone);
            }
            stream.reserve_capacity(bytes.len());
            if stream.capacity() == 0 {
                wait_for_capacity(stream, client, &room).await?;
            }
            let bytes = bytes.split_to(stream.capacity().min(bytes.len()));
            if !bytes.is_empty() {
                stream.send_data(Piece { bytes, _room: room.clone() }, false)?;
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

/// Waits until the client takes more; not for long where others wait for the room of the answer.
async fn wait_for_capacity(
    stream: &mut SendStream<Piece>,
    client: &Client,
    room: &Room,
) -> Result<(), End> {
    let limits = &client.service.limits;
    let deadline = Instant::now() + limits.stall_time;
    loop {
        let look_at = Instant::now() + limits.waited_time;
        let capacity = poll_fn(|context| stream.poll_capacity(context));
        match timeout_at(deadline.min(look_at), capacity).await {
            Ok(capacity) => return capacity.ok_or(End::Gone)?.map(drop).map_err(End::from),
            Err(_) if Instant::now() >= deadline || room.is_waited_for() => return Err(End::Gone),
            Err(_) => {}
        }
    }
}
