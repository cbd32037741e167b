//! Limits the memory of requests and answers. *Room* is the memory counted for one of them: for a
//! request as its bytes arrive, for an answer until the socket has taken it.
//!
//! Room is taken from three *shares*, in this order: the share of the connection, the share of the
//! client's address, and the share of all clients. It is taken as bytes arrive, not as they are
//! announced. So several requests may each hold a part of their room while none can get the rest.
//! To let them go on, one of the requests that wait for a share becomes the share's *finisher*: it
//! needs no more room there, but gets little time. A finisher of the share of all clients is also
//! the finisher of its address and of its connection. So no two requests wait for each other, and
//! all requests together hold at most the share of all clients plus one request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit in which room is counted. It is small enough for small requests, and large enough that
/// a semaphore can count the units of a share.
const UNIT_BYTES: usize = 1024;

/// A limit on memory that several rooms have in common, given out first come, first served.
#[derive(Debug)]
pub struct Share {
    free: Arc<Semaphore>,
    units_max: u32,
    /// Has one permit. The finisher holds it.
    finisher: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Share {
    /// A share of this many bytes.
    pub fn new(bytes: usize) -> Arc<Share> {
        let units_max = units(bytes);
        Arc::new(Share {
            free: Arc::new(Semaphore::new(units_max as usize)),
            units_max,
            finisher: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
        })
    }

    /// Bytes that no room holds.
    pub fn free_bytes(&self) -> usize {
        self.free.available_permits() * UNIT_BYTES
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

/// The three shares of a connection: its own, that of its client's address, and that of all
/// clients.
pub type Shares = Arc<[Arc<Share>; 3]>;

/// The shares of a connection, chosen by the size of a request or an answer. Small ones have
/// separate shares, so that they do not wait behind large ones that a slow client holds.
#[derive(Clone, Debug)]
pub struct SharesBySize {
    small: Shares,
    large: Shares,
    /// The largest size that counts as small, in bytes.
    small_bytes_max: usize,
}

impl SharesBySize {
    /// The shares `small` for sizes up to `small_bytes_max`, and the shares `large` for larger
    /// ones.
    pub fn new(small: Shares, large: Shares, small_bytes_max: usize) -> SharesBySize {
        SharesBySize { small, large, small_bytes_max }
    }

    /// Uses the same shares for all sizes.
    pub fn of_all_sizes(shares: Shares) -> SharesBySize {
        SharesBySize { small: shares.clone(), large: shares, small_bytes_max: 0 }
    }

    /// The shares for a request or an answer of this many bytes.
    pub fn of(&self, bytes: usize) -> &Shares {
        if bytes <= self.small_bytes_max { &self.small } else { &self.large }
    }
}

/// The memory counted for one request or answer. Dropping it gives the memory back to the shares.
#[derive(Debug)]
pub struct Room {
    shares: Shares,
    permits: [Option<OwnedSemaphorePermit>; 3],
    /// In how many shares, counted from the connection's, another room of the same client is the
    /// finisher; see [`Room::beside`].
    exempt: usize,
    /// The permits of the shares in which this room is the finisher: those that follow the exempt
    /// ones.
    finishing: Vec<OwnedSemaphorePermit>,
}

impl Room {
    /// Room of no bytes.
    pub fn new(shares: &Shares) -> Room {
        let permits = [const { None }; 3];
        Room { shares: shares.clone(), permits, exempt: 0, finishing: Vec::new() }
    }

    /// Room of no bytes, for another request or answer of the client that keeps this room. In a
    /// share where this room is the finisher, the new room needs nothing either.
    pub fn beside(&self) -> Room {
        Room { exempt: self.exempt_count(), ..Room::new(&self.shares) }
    }

    /// How many shares need not give room, counted from the connection's.
    fn exempt_count(&self) -> usize {
        self.exempt + self.finishing.len()
    }

    /// Whether this room has no bytes and is no finisher.
    pub fn is_empty(&self) -> bool {
        self.permits.iter().all(Option::is_none) && !self.is_finisher()
    }

    /// Whether this room is a finisher, so that others wait until it is given back.
    pub fn is_finisher(&self) -> bool {
        self.exempt_count() > 0
    }

    /// Grows to a total of `bytes`, if all shares have enough. More than a whole share counts as
    /// the whole share. Returns false if a share has too little; the room keeps what it got from
    /// the others.
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

    /// Like [`Room::try_grow_to`], but waits until the shares have enough, or this room is a
    /// finisher.
    pub async fn grow_to(&mut self, bytes: usize) {
        if self.try_grow_to(bytes) {
            return;
        }
        for number in 0..self.shares.len() {
            let missing = self.missing(number, bytes);
            if number < self.exempt_count() || missing == 0 {
                continue;
            }
            // A wait is rare, so its future is boxed, and calls that never wait have smaller ones.
            if let Some(permit) = Box::pin(self.wait(number, missing)).await {
                self.add(number, permit);
            }
        }
    }

    /// How many units of a share this room lacks to have `bytes`.
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

    /// Waits for units of a share; `None` if this room becomes the share's finisher instead.
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

    /// Gives back everything beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        for permit in self.permits.iter_mut().flatten() {
            let surplus = permit.num_permits().saturating_sub(units(bytes) as usize);
            if surplus > 0 {
                drop(permit.split(surplus));
            }
        }
    }

    /// Splits off everything beyond `bytes`. If this room is a finisher, it stays one, and the part
    /// that is split off is not.
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

    /// Whether others wait for one of this room's shares.
    pub fn is_waited_for(&self) -> bool {
        self.shares.iter().any(|share| share.waiting.load(Ordering::Relaxed) > 0)
    }
}

/// Counts as a waiter of a share while it exists.
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
