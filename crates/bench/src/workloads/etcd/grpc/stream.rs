//! A gRPC call with a stream of messages in both directions. The caller reads one message at a
//! time.

use std::future::poll_fn;

use anyhow::Context;
use bytes::{Buf, Bytes, BytesMut};
use h2::client::ResponseFuture;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request};

use super::{PREFIX_BYTES, Sender, message, text};

/// A message or the end of the call, as a server has sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message, without its prefix.
    Message(Bytes),
    /// The end of the call.
    Ended {
        /// The gRPC status code; 0 is success.
        code: u32,
        /// The message of the status as the server sent it: percent-encoded.
        message: String,
    },
}

/// A call whose stream is open.
#[derive(Debug)]
pub struct Stream {
    requests: SendStream<Bytes>,
    /// The answer's head, which has not arrived yet; `None` once it has.
    head: Option<ResponseFuture>,
    answers: Option<RecvStream>,
    /// Received bytes that were not yet returned as messages.
    bytes: BytesMut,
}

impl Stream {
    /// Starts a call. The server may send its head only after the first message.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn open(requests: &mut Sender, head: Request<()>) -> anyhow::Result<Stream> {
        poll_fn(|context| requests.poll_ready(context)).await?;
        let (head, requests) = requests.send_request(head, false)?;
        Ok(Stream { requests, head: Some(head), answers: None, bytes: BytesMut::new() })
    }

    /// Sends a message on the stream.
    ///
    /// # Errors
    /// The stream has ended, or the message is too long for gRPC.
    pub fn send(&mut self, request: &[u8]) -> anyhow::Result<()> {
        let framed = message(|out| out.extend_from_slice(request))?;
        Ok(self.requests.send_data(framed, false)?)
    }

    /// Waits for the next message or the end of the call. The wait may be cancelled and repeated.
    /// After the end this must not be called again.
    ///
    /// # Errors
    /// The connection has ended, the server has reset the stream, or its answer is not gRPC.
    pub async fn next(&mut self) -> anyhow::Result<Received> {
        if let Some(head) = &mut self.head {
            let response = head.await?;
            self.head = None;
            if response.headers().contains_key("grpc-status") {
                return ended(response.headers());
            }
            self.answers = Some(response.into_body());
        }
        let answers = self.answers.as_mut().context("the call has ended")?;
        loop {
            if let Some(message) = take_message(&mut self.bytes)? {
                return Ok(Received::Message(message));
            }
            let Some(frame) = answers.data().await else {
                let trailers = answers.trailers().await?.context("no trailers")?;
                return ended(&trailers);
            };
            let frame = frame?;
            answers.flow_control().release_capacity(frame.len())?;
            self.bytes.extend_from_slice(&frame);
        }
    }
}

/// Takes the first message out of `bytes`; `None` if it has not arrived whole.
fn take_message(bytes: &mut BytesMut) -> anyhow::Result<Option<Bytes>> {
    let Some(prefix) = bytes.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
    let [0, length @ ..] = *prefix else { anyhow::bail!("a message is compressed") };
    let length = PREFIX_BYTES + u32::from_be_bytes(length) as usize;
    if bytes.len() < length {
        return Ok(None);
    }
    let mut message = bytes.split_to(length);
    message.advance(PREFIX_BYTES);
    Ok(Some(message.freeze()))
}

fn ended(headers: &HeaderMap) -> anyhow::Result<Received> {
    let code = text(headers, "grpc-status").parse().context("no gRPC status")?;
    Ok(Received::Ended { code, message: text(headers, "grpc-message").to_string() })
}
