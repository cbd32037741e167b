//! One gRPC call, in the form in which its handler gets it.

use std::sync::Arc;

use super::answers::Answers;
use super::deadline::Deadline;
use super::metadata::Metadata;
use super::requests::Requests;
use super::status::{End, Status};

/// A call that a client has opened. Dropping it without [`Call::finish`] resets the stream.
pub struct Call<M> {
    /// The method.
    pub method: M,
    /// The headers that the client chose, as far as the face reads them.
    pub metadata: Metadata,
    /// When the client stops waiting.
    pub deadline: Deadline,
    /// Receives the client's messages.
    pub requests: Requests,
    /// Sends messages to the client.
    pub answers: Answers,
    /// A reference that counts this call among the streams of its connection while it exists.
    pub(super) _stream: Arc<()>,
}

impl<M> Call<M> {
    /// Waits for work that neither receives nor sends messages, such as a command in the log.
    ///
    /// # Errors
    /// The client has reset the stream or gone away, or the deadline has passed. The work may
    /// still take effect.
    pub async fn unless_ended<T>(&mut self, work: impl Future<Output = T>) -> Result<T, End> {
        tokio::select! {
            biased;
            done = self.deadline.bound(work) => done,
            end = self.answers.gone() => Err(end),
        }
    }

    /// Ends the call: with the status `OK` if `outcome` is `Ok`, otherwise with its status or a
    /// reset.
    pub fn finish(self, outcome: Result<(), End>) {
        self.answers.finish(&outcome.err().unwrap_or(End::Status(Status::ok())));
    }
}
