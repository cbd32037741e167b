//! Serves the gRPC calls of a connection: hands each to the code for its method, and sends the
//! responses.

use std::pin::pin;

use etcd::Error;
use grpc::{Call, End, Outgoing, Room, SharesBySize, framed_of};
use member::fronts::etcd::{EtcdMethod, Reply};

use super::client::CallingClient;
use super::large::{bytes_if_short, measured};
use super::limits::WHOLE_BYTES_MAX;
use super::methods::FaceMethod;
use super::runtime::{FromFront, FrontCall, status_of};
use super::{backup, concurrency, health, watch};

/// Serves a call until it ends.
pub(super) async fn serve(
    client: CallingClient,
    mut call: Box<Call<FaceMethod>>,
    answers: SharesBySize,
) {
    let outcome = answer(&client, &mut call, &answers).await;
    call.finish(outcome);
}

/// Refuses the call if its client requires a leader and there is none. If the client requires a
/// leader, a streaming call also ends when the leader is lost for long; a call with one response
/// does not (`v3rpc.newStreamInterceptor`).
async fn answer(
    client: &CallingClient,
    call: &mut Call<FaceMethod>,
    answers: &SharesBySize,
) -> Result<(), End> {
    let runtime = &client.runtime;
    let ends_later = call.method.is_stream_without_front();
    if client.misses_leader() {
        return Err(status_of(Error::NoLeader.into()).into());
    }
    let mut work = pin!(answer_by_method(client, call, answers));
    if !(client.requires_leader && ends_later) {
        return work.await;
    }
    tokio::select! {
        biased;
        outcome = &mut work => outcome,
        () = runtime.leaderless() => Err(status_of(Error::NoLeader.into()).into()),
    }
}

async fn answer_by_method(
    client: &CallingClient,
    call: &mut Call<FaceMethod>,
    answers: &SharesBySize,
) -> Result<(), End> {
    match call.method {
        // Streams and rare calls have large futures. In boxes, they do not enlarge the future that
        // is made and moved for every other call.
        FaceMethod::Kv(EtcdMethod::RangeStream) => {
            Box::pin(answer_in_pieces(client, call, answers)).await
        }
        FaceMethod::Kv(EtcdMethod::LeaseKeepAlive) => {
            Box::pin(keep_alive(client, call, answers)).await
        }
        FaceMethod::Watch => Box::pin(watch::answer(client, call, answers)).await,
        FaceMethod::Concurrency(method) => {
            Box::pin(concurrency::answer(client, call, answers, method)).await
        }
        FaceMethod::Kv(method) => {
            let message = call.requests.only().await?;
            // Pinned here, this future is not moved into other futures, which would each need space
            // for it.
            let work = pin!(client.run(method, message.bytes));
            let reply = call.unless_ended(work).await?.map_err(status_of)?;
            send(call, answers, reply).await
        }
        FaceMethod::Snapshot => Box::pin(backup::answer(client, call, answers)).await,
        FaceMethod::Health(method) => Box::pin(health::answer_call(call, method)).await,
    }
}

/// Answers a streamed read. The next piece is requested from the Front once the socket has taken
/// the last one.
async fn answer_in_pieces(
    client: &CallingClient,
    call: &mut Call<FaceMethod>,
    answers: &SharesBySize,
) -> Result<(), End> {
    let message = call.requests.only().await?;
    let mut front_call = FrontCall::begin(client, EtcdMethod::RangeStream, message.bytes);
    loop {
        match call.unless_ended(front_call.next()).await? {
            FromFront::Done(result) => {
                return send(call, answers, result.map_err(status_of)?).await;
            }
            FromFront::Piece(reply) => {
                send(call, answers, reply).await?;
                call.answers.taken().await?;
                front_call.taken();
            }
            FromFront::V2(_) => unreachable!("this is no call of etcd v2"),
        }
    }
}

/// Answers a stream of keep-alives. The next message is read once the socket has taken the answer
/// to the last one, so a stream uses memory for one message in each direction.
async fn keep_alive(
    client: &CallingClient,
    call: &mut Call<FaceMethod>,
    answers: &SharesBySize,
) -> Result<(), End> {
    while let Some(message) = call.requests.next().await? {
        let work = client.run(EtcdMethod::LeaseKeepAlive, message.bytes);
        let reply = call.unless_ended(work).await?.map_err(status_of)?;
        send(call, answers, reply).await?;
        call.answers.taken().await?;
    }
    Ok(())
}

/// Sends a message once there is room, that is, memory that the face may still use. After encoding,
/// the versions of keys that the message shows are released.
async fn send(
    call: &mut Call<FaceMethod>,
    answers: &SharesBySize,
    reply: Reply,
) -> Result<(), End> {
    let Some(bytes) = bytes_if_short(&reply, WHOLE_BYTES_MAX) else {
        return Box::pin(send_in_pieces(call, answers, reply)).await;
    };
    let mut room = Room::new(answers.of(bytes));
    if !room.try_grow_to(bytes) {
        call.unless_ended(pin!(room.grow_to(bytes))).await?;
    }
    let message = framed_of(bytes, |out| reply.write(out))?;
    drop(reply);
    call.answers.send(message, Some(room)).await
}

/// Sends a message that is encoded in pieces as the client takes them. The versions of keys in
/// pieces not sent yet stay in memory.
async fn send_in_pieces(
    call: &mut Call<FaceMethod>,
    answers: &SharesBySize,
    reply: Reply,
) -> Result<(), End> {
    let mut pieces = reply.into_pieces();
    let bytes = call.unless_ended(measured(&mut pieces)).await?;
    let encode = move |out: &mut Vec<u8>| {
        pieces.write(out);
    };
    let message = Outgoing::in_pieces(bytes, Box::new(encode))?;
    let mut room = Room::new(answers.of(bytes));
    if !room.try_grow_to(bytes) {
        call.unless_ended(room.grow_to(bytes)).await?;
    }
    call.answers.send(message, Some(room)).await
}
