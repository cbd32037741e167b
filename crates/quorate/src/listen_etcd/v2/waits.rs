//! Answers requests of etcd v2 that wait for a change of a key. The headers of the answer are sent
//! at once, each event when it happens.

use std::rc::Rc;

use bytes::Bytes;
use etcd::v2::{Ask, Request};
use grpc::Room;
use member::fronts::etcd::V2Waited;
use member::fronts::etcd::v2::failure_of;
use tokio::sync::mpsc;

use super::super::answer::Lines;
use super::super::large::send_while_wanted;
use super::super::runtime::{ConnectionShares, FromV2Wait, Runtime, V2Wait};
use super::keys::{KeysAnswer, KeysBody, failed, line, refused, succeeded};

/// Answers a request to wait. The wait ends when the client disconnects.
pub(super) async fn answer(
    runtime: &Rc<Runtime>,
    shares: &ConnectionShares,
    request: Request,
) -> KeysAnswer {
    let is_stream = matches!(request.ask, Ask::Wait(ask) if ask.is_stream);
    let wait = V2Wait::open(runtime, request);
    let index = match wait.next().await {
        FromV2Wait::Waited(V2Waited::Begun { index }) => index,
        FromV2Wait::Waited(V2Waited::Refused(refusal)) => return refused(shares, &refusal).await,
        FromV2Wait::Refused(refused) => return failed(&failure_of(refused)),
        FromV2Wait::Waited(V2Waited::Events(_) | V2Waited::Ended) => {
            unreachable!("a wait begins before")
        }
    };
    let (lines, body) = mpsc::channel(1);
    let shares = shares.clone();
    tokio::task::spawn_local(async move {
        tokio::select! {
            () = lines.closed() => {}
            () = send_events(&wait, is_stream, &shares, &lines) => {}
        }
    });
    succeeded(runtime, index, KeysBody::Lines(Lines::of_stream(body)))
}

/// Sends the events of a wait until it ends, or until the client takes nothing while others wait
/// for memory. As in etcd, a stream that is cut off gives no reason.
async fn send_events(
    wait: &V2Wait,
    is_stream: bool,
    shares: &ConnectionShares,
    lines: &mpsc::Sender<Bytes>,
) {
    while let FromV2Wait::Waited(V2Waited::Events(events)) = wait.next().await {
        for event in events {
            let line = line(shares, &event, false).await;
            let beside = Room::new(shares.answers.of(line.len()));
            if !send_while_wanted(lines, line, &beside).await {
                return;
            }
        }
        if !is_stream {
            return;
        }
        wait.taken();
    }
}
