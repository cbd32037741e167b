//! One call, as its handler sees it.

use std::sync::Arc;

use super::answers::Answers;
use super::deadline::Deadline;
use super::metadata::Metadata;
use super::requests::Requests;
use super::status::{End, Status};

/// A call that a client has opened. A handler that drops it without [`Call::finish`] resets the
/// stream.
pub struct Call<M> {
    /// The method.
    pub method: M,
    /// The metadata of the request.
    pub metadata: Metadata,
    /// The time at which the client waits no longer.
    pub deadline: Deadline,
    /// The messages that the client sends.
    pub requests: Requests,
    /// The messages that the client is sent.
    pub answers: Answers,
    /// One reference to the connection's counter of streams, for as long as the call exists.
    pub(super) _stream: Arc<()>,
}

impl<M> Call<M> {
    /// Waits for work that is neither receiving nor sending, such as a command in the log.
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

    /// Ends the call: with `OK`, with a status, or with a reset.
    pub fn finish(self, outcome: Result<(), End>) {
        self.answers.finish(&outcome.err().unwrap_or(End::Status(Status::ok())));
    }
}
