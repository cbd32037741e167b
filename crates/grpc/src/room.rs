//! Room: memory that is counted for clients, for the bytes of requests that have arrived, and for
//! answers until the socket has taken them.
//!
//! Room is taken as bytes arrive, not as they are announced, from three shares: the share of the
//! connection, the share of the client's address, and the share of all clients. So several requests
//! may each have a part of their room while none can get the rest. To let them go on, one waiter of
//! a share becomes its *finisher*, which needs no more room there, but gets little time. The shares
//! are asked in that order, and a finisher in the share of all is the finisher of its address and
//! its connection, too. So one request never waits for another, and all requests together hold at
//! most the share of all plus one request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit of room: small enough for small requests, and large enough for a semaphore.
const UNIT_BYTES: usize = 1024;

/// Bytes of memory for some clients, first come, first served.
#[derive(Debug)]
pub struct Share {
    free: Arc<Semaphore>,
    units_max: u32,
    /// One permit, for the finisher, which needs no room.
    finisher: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Share {
    /// A share of so many bytes.
    pub fn new(bytes: usize) -> Arc<Share> {
        let units_max = units(bytes);
        Arc::new(Share {
            free: Arc::new(Semaphore::new(units_max as usize)),
            units_max,
            finisher: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
        })
    }

    /// Bytes that no request holds.
    pub fn free_bytes(&self) -> usize {
        self.free.available_permits() * UNIT_BYTES
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

/// The shares that a connection takes its room from, the smallest first.
pub type Shares = Arc<[Arc<Share>; 3]>;

/// The shares of a connection, by the size of a request or an answer: small ones have shares of
/// their own, so that they do not wait behind large ones that somebody takes slowly.
#[derive(Clone, Debug)]
pub struct SharesBySize {
    small: Shares,
    large: Shares,
    /// Bytes of the largest small one.
    small_bytes_max: usize,
}

impl SharesBySize {
    /// One pair of shares for requests up to `small_bytes_max`, and one for larger ones.
    pub fn new(small: Shares, large: Shares, small_bytes_max: usize) -> SharesBySize {
        SharesBySize { small, large, small_bytes_max }
    }

    /// Shares that do not depend on the size.
    pub fn of_all_sizes(shares: Shares) -> SharesBySize {
        SharesBySize { small: shares.clone(), large: shares, small_bytes_max: 0 }
    }

    /// The shares for one of so many bytes.
    pub fn of(&self, bytes: usize) -> &Shares {
        if bytes <= self.small_bytes_max { &self.small } else { &self.large }
    }
}

/// Room of one request or answer. Dropping it gives the room back.
#[derive(Debug)]
pub struct Room {
    shares: Shares,
    permits: [Option<OwnedSemaphorePermit>; 3],
    /// How many of the first shares have as finisher another room of this client; see
    /// [`Room::beside`].
    exempt: usize,
    /// The finisher permits of the shares after these.
    finishing: Vec<OwnedSemaphorePermit>,
}

impl Room {
    /// An empty room.
    pub fn new(shares: &Shares) -> Room {
        let permits = [const { None }; 3];
        Room { shares: shares.clone(), permits, exempt: 0, finishing: Vec::new() }
    }

    /// An empty room for a client that also keeps this one: it needs no room where this one is
    /// finisher.
    pub fn beside(&self) -> Room {
        Room { exempt: self.exempt_count(), ..Room::new(&self.shares) }
    }

    /// How many shares are not asked for room, counted from the smallest.
    fn exempt_count(&self) -> usize {
        self.exempt + self.finishing.len()
    }

    /// Whether it has no bytes, and is not a finisher.
    pub fn is_empty(&self) -> bool {
        self.permits.iter().all(Option::is_none) && !self.is_finisher()
    }

    /// Whether this room is a finisher, so that others wait until it is given back.
    pub fn is_finisher(&self) -> bool {
        self.exempt_count() > 0
    }

    /// Grows to `bytes` in all, if so much is free. More than a whole share counts as the whole
    /// share. If not all is free, it keeps the part that it got.
    pub fn try_grow_to(&mut self, bytes: usize) -> bool {
        for number in self.exempt_count()..self.shares.len() {
            let missing = self.missing(number, bytes);
            if missing == 0 {
                continue;
            }
            match self.shares[number].free.clone().try_acquire_many_owned(missing) {
                Ok(permit) => self.add(number, permit),
                Err(_) => return false,
            }
        }
        true
    }

    /// Like [`Room::try_grow_to`], but waits until the room is free.
    pub async fn grow_to(&mut self, bytes: usize) {
        if self.try_grow_to(bytes) {
            return;
        }
        for number in 0..self.shares.len() {
            let missing = self.missing(number, bytes);
            if number < self.exempt_count() || missing == 0 {
                continue;
            }
            // A wait is rare, so it is boxed and does not make the futures of all calls larger.
            if let Some(permit) = Box::pin(self.wait(number, missing)).await {
                self.add(number, permit);
            }
        }
    }

    /// Units of a share that this room lacks to have `bytes`.
    fn missing(&self, number: usize, bytes: usize) -> u32 {
        let had = self.permits[number].as_ref().map_or(0, |permit| permit.num_permits());
        units(bytes).min(self.shares[number].units_max).saturating_sub(had as u32)
    }

    fn add(&mut self, number: usize, permit: OwnedSemaphorePermit) {
        match &mut self.permits[number] {
            Some(all) => all.merge(permit),
            none => *none = Some(permit),
        }
    }

    /// Waits for units of a share, or to become its finisher.
    async fn wait(&mut self, number: usize, missing: u32) -> Option<OwnedSemaphorePermit> {
        let share = self.shares[number].clone();
        let _waiting = Waiting::in_share(&share);
        let shares = self.shares.clone();
        let begun = self.exempt_count();
        let finish = async {
            let mut taken = Vec::new();
            for share in &shares[begun..=number] {
                taken.extend(share.finisher.clone().acquire_owned().await);
            }
            taken
        };
        tokio::select! {
            biased;
            permit = share.free.clone().acquire_many_owned(missing) => permit.ok(),
            taken = finish => {
                self.finishing.extend(taken);
                None
            }
        }
    }

    /// Gives back all room beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        for permit in self.permits.iter_mut().flatten() {
            let surplus = permit.num_permits().saturating_sub(units(bytes) as usize);
            if surplus > 0 {
                drop(permit.split(surplus));
            }
        }
    }

    /// Splits off all room beyond `bytes`. The rest stays what it is, a finisher if it is one.
    pub fn split_beyond(&mut self, bytes: usize) -> Room {
        let mut beyond = Room::new(&self.shares);
        for (number, permit) in self.permits.iter_mut().enumerate() {
            let Some(permit) = permit else { continue };
            let surplus = permit.num_permits().saturating_sub(units(bytes) as usize);
            if surplus > 0 {
                beyond.permits[number] = permit.split(surplus);
            }
        }
        beyond
    }

    /// Whether other requests wait for room in one of the shares.
    pub fn is_waited_for(&self) -> bool {
        self.shares.iter().any(|share| share.waiting.load(Ordering::Relaxed) > 0)
    }
}

/// Counts a waiter of a share, for as long as it exists.
struct Waiting<'a>(&'a Share);

impl Waiting<'_> {
    fn in_share(share: &Share) -> Waiting<'_> {
        share.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(share)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
