//! A watch stream on a connection of its own, over HTTP/2. A connection that breaks ends it.

use std::future::poll_fn;
use std::net::SocketAddr;

use bench::grpc::{self, Sender, message};
use bytes::{Buf, Bytes, BytesMut};
use h2::client::ResponseFuture;
use h2::{RecvStream, SendStream};
use hyper::header::HeaderValue;
use member::etcd_front::CallRefused;
use sim::etcd_clients::{watch_wire, wire};
use tokio::net::TcpStream;
use workload::etcd::op::Error;
use workload::etcd::watch::Response;

use crate::etcd_client::{error_of, header_of};
use sim::etcd_clients::wire::Served;

const WATCH: &str = "/etcdserverpb.Watch/Watch";
/// Bytes that the server may send before they are taken: a few messages.
const WINDOW_BYTES: u32 = 64 * 1024;

/// A message of the server, or the end of the stream.
pub enum FromServer {
    Message(Response),
    Ended(Error),
}

pub struct Stream {
    requests: SendStream<Bytes>,
    head: Option<ResponseFuture>,
    answers: Option<RecvStream>,
    /// Bytes that arrived and were not taken.
    bytes: BytesMut,
    served: Option<Served>,
    /// Keeps the connection open.
    _connection: Sender,
}

impl Stream {
    /// Opens a stream. None if no server listens.
    pub async fn open(address: SocketAddr, requires_leader: bool) -> Option<Stream> {
        let socket = TcpStream::connect(address).await.ok()?;
        socket.set_nodelay(true).ok()?;
        let mut connection = grpc::open(socket, WINDOW_BYTES).await.ok()?;
        poll_fn(|context| connection.poll_ready(context)).await.ok()?;
        let mut head = grpc::head(WATCH).unwrap();
        if requires_leader {
            head.headers_mut().insert("hasleader", HeaderValue::from_static("true"));
        }
        let (head, requests) = connection.send_request(head, false).ok()?;
        Some(Stream {
            requests,
            head: Some(head),
            answers: None,
            bytes: BytesMut::new(),
            served: None,
            _connection: connection,
        })
    }

    /// Sends a request. None if the stream is over.
    pub fn send(&mut self, request: &Bytes) -> Option<()> {
        let framed = message(|out| out.extend_from_slice(request)).unwrap();
        self.requests.send_data(framed, false).ok()
    }

    /// The cluster and the member that the first message named.
    pub fn served(&self) -> Option<Served> {
        self.served
    }

    /// The next message, or the end. None if the connection broke. A caller may stop waiting and
    /// call this again.
    pub async fn next(&mut self) -> Option<FromServer> {
        if let Some(head) = &mut self.head {
            let response = head.await.ok()?;
            self.head = None;
            if let Some(status) = response.headers().get("grpc-status") {
                let text = response.headers().get("grpc-message");
                return Some(ended(status, text));
            }
            self.answers = Some(response.into_body());
        }
        loop {
            if let Some(message) = self.take_message() {
                let by = *self.served.get_or_insert_with(|| header_of(message.clone()));
                let response = watch_wire::decode(&message, by).unwrap();
                return Some(FromServer::Message(response));
            }
            let answers = self.answers.as_mut()?;
            let Some(frame) = answers.data().await else {
                let trailers = answers.trailers().await.ok()??;
                return Some(ended(trailers.get("grpc-status")?, trailers.get("grpc-message")));
            };
            let frame = frame.ok()?;
            answers.flow_control().release_capacity(frame.len()).ok()?;
            self.bytes.extend_from_slice(&frame);
        }
    }

    fn take_message(&mut self) -> Option<Bytes> {
        let [0, length @ ..] = *self.bytes.first_chunk::<5>()? else {
            panic!("a message is compressed");
        };
        let bytes = grpc::PREFIX_BYTES + u32::from_be_bytes(length) as usize;
        (self.bytes.len() >= bytes).then(|| {
            let mut message = self.bytes.split_to(bytes);
            message.advance(grpc::PREFIX_BYTES);
            message.freeze()
        })
    }
}

fn ended(status: &HeaderValue, text: Option<&HeaderValue>) -> FromServer {
    let text = text.map(|text| text.to_str().unwrap()).unwrap_or_default();
    let code = status.to_str().unwrap().parse().unwrap();
    let error = wire::decode_error(&CallRefused::Error(error_of(code, text))).unwrap();
    FromServer::Ended(error)
}
