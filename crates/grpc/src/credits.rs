//! Credits limit how many requests may be under way, on one stream and on a whole face. A request
//! that finds no free credit is refused at once, so no request queues behind a store that is too
//! slow.

use std::sync::Arc;

use grpc_code::Code;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::status::Status;

/// Limits the requests under way on one face.
#[derive(Debug)]
pub struct Credits {
    all: Arc<Semaphore>,
    per_stream_max: usize,
    /// The message of the status for a request that finds no credit.
    refusal: &'static str,
}

impl Credits {
    /// At most `all_max` requests on the face, and `per_stream_max` on one stream.
    pub fn new(all_max: usize, per_stream_max: usize, refusal: &'static str) -> Credits {
        Credits { all: Arc::new(Semaphore::new(all_max)), per_stream_max, refusal }
    }
}

/// One credit, held by a request under way. Dropping it frees the credit.
#[derive(Debug)]
pub struct Credit {
    _of_all: OwnedSemaphorePermit,
    _of_stream: Arc<()>,
}

/// Hands out the credits of one stream.
#[derive(Debug)]
pub(super) struct StreamCredits {
    shared: Arc<Credits>,
    /// Each credit of the stream holds a clone, so the reference count is the number of credits
    /// plus 1.
    taken: Arc<()>,
}

impl StreamCredits {
    pub(super) fn new(shared: &Arc<Credits>) -> StreamCredits {
        StreamCredits { shared: shared.clone(), taken: Arc::new(()) }
    }

    /// Takes a credit for one request.
    ///
    /// # Errors
    /// No credit is free; the code is `RESOURCE_EXHAUSTED`.
    pub(super) fn take(&self) -> Result<Credit, Status> {
        let is_free = Arc::strong_count(&self.taken) - 1 < self.shared.per_stream_max;
        let permit = is_free.then(|| self.shared.all.clone().try_acquire_owned().ok()).flatten();
        match permit {
            Some(of_all) => Ok(Credit { _of_all: of_all, _of_stream: self.taken.clone() }),
            None => Err(Status::new(Code::ResourceExhausted, self.shared.refusal)),
        }
    }
}
