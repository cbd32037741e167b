//! Credits: how many requests may be under way, on one stream and in all. A request that finds no
//! credit is refused at once, so no request queues behind a store that is too slow.

use grpc_code::Code;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::status::Status;

/// The credits of a face.
#[derive(Debug)]
pub struct Credits {
    all: Arc<Semaphore>,
    per_stream_max: usize,
    /// The message of the status for a request that finds no credit.
    refusal: &'static str,
}

impl Credits {
    /// Credits for so many requests in all, and so many on one stream.
    pub fn new(all_max: usize, per_stream_max: usize, refusal: &'static str) -> Credits {
        Credits { all: Arc::new(Semaphore::new(all_max)), per_stream_max, refusal }
    }
}

/// The right of one request to be under way. Dropping it frees the credit.
#[derive(Debug)]
pub struct Credit {
    _of_all: OwnedSemaphorePermit,
    _of_stream: Arc<()>,
}

/// The credits that one stream has taken.
#[derive(Debug)]
pub(super) struct StreamCredits {
    shared: Arc<Credits>,
    /// The count of credits: each credit of the stream holds one reference more.
    taken: Arc<()>,
}

impl StreamCredits {
    pub(super) fn new(shared: &Arc<Credits>) -> StreamCredits {
        StreamCredits { shared: shared.clone(), taken: Arc::new(()) }
    }

    /// Takes a credit for one more request.
    ///
    /// # Errors
    /// No credit is free; `RESOURCE_EXHAUSTED`.
    pub(super) fn take(&self) -> Result<Credit, Status> {
        let is_free = Arc::strong_count(&self.taken) - 1 < self.shared.per_stream_max;
        let permit = is_free.then(|| self.shared.all.clone().try_acquire_owned().ok()).flatten();
        match permit {
            Some(of_all) => Ok(Credit { _of_all: of_all, _of_stream: self.taken.clone() }),
            None => Err(Status::new(Code::ResourceExhausted, self.shared.refusal)),
        }
    }
}
