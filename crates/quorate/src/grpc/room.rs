//! Room in memory for what is held for clients: what arrived of their requests, and their answers
//! until the socket took them.
//!
//! Room is taken as bytes arrive, not as they are announced, from three shares: of the connection,
//! of the address that it comes from, and of all. So there may be requests of which each has a part
//! and none can have the rest. They go on all the same: one of those that wait in a share is its
//! *finisher*, who needs no room there, but has little time. A finisher in the share of all is one
//! in those of its address and its connection, which are asked in that order; so there is always
//! one that waits for nobody, and what is held is at most the share of all and one request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What room is counted in: small enough for small requests, and large enough for a semaphore.
const UNIT_BYTES: usize = 1024;

/// Bytes of memory for some clients, first come, first served.
#[derive(Debug)]
pub struct Share {
    free: Arc<Semaphore>,
    units_max: u32,
    /// One permit, for the one that needs no room.
    finisher: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Share {
    pub fn new(bytes: usize) -> Arc<Share> {
        let units_max = units(bytes);
        Arc::new(Share {
            free: Arc::new(Semaphore::new(units_max as usize)),
            units_max,
            finisher: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
        })
    }
}

#[cfg(test)]
impl Share {
    pub fn free_bytes(&self) -> usize {
        self.free.available_permits() * UNIT_BYTES
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

/// The shares that a connection takes its room from, the smallest first.
pub type Shares = Arc<[Arc<Share>; 3]>;

/// Room that somebody has. It is free again when this is dropped.
#[derive(Debug)]
pub struct Room {
    shares: Shares,
    permits: [Option<OwnedSemaphorePermit>; 3],
    /// Of the first so many shares somebody is the finisher who has this as well.
    exempt: usize,
    /// Of the shares that follow this is the finisher.
    finishing: Vec<OwnedSemaphorePermit>,
}

impl Room {
    /// No room yet.
    pub fn new(shares: &Shares) -> Room {
        let permits = [const { None }; 3];
        Room { shares: shares.clone(), permits, exempt: 0, finishing: Vec::new() }
    }

    /// No room yet, of one who keeps this room meanwhile: its rights are the other's, too.
    pub fn beside(&self) -> Room {
        Room { exempt: self.exempt_count(), ..Room::new(&self.shares) }
    }

    /// How many shares are not asked, counted from the smallest.
    fn exempt_count(&self) -> usize {
        self.exempt + self.finishing.len()
    }

    /// Whether others wait for just this to be given back.
    pub fn is_finisher(&self) -> bool {
        self.exempt_count() > 0
    }

    /// Takes room for so many bytes together with what there is, if it is free. More than a share
    /// has is counted as the whole of it. Keeps what it got where it did not get all.
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

    /// Like [`Room::try_grow_to`], but waits for what is not free.
    pub async fn grow_to(&mut self, bytes: usize) {
        if self.try_grow_to(bytes) {
            return;
        }
        for number in 0..self.shares.len() {
            let missing = self.missing(number, bytes);
            if number < self.exempt_count() || missing == 0 {
                continue;
            }
            // Seldom needed, so it does not make the futures of all calls larger.
            if let Some(permit) = Box::pin(self.wait(number, missing)).await {
                self.add(number, permit);
            }
        }
    }

    /// Units of a share that room for so many bytes lacks.
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

    /// Waits for units of a share, or to be its finisher.
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

    /// Gives back what is more than so many bytes.
    pub fn shrink_to(&mut self, bytes: usize) {
        for permit in self.permits.iter_mut().flatten() {
            let surplus = permit.num_permits().saturating_sub(units(bytes) as usize);
            if surplus > 0 {
                drop(permit.split(surplus));
            }
        }
    }

    /// Whether somebody waits for room in a share that this is taken from.
    pub fn is_waited_for(&self) -> bool {
        self.shares.iter().any(|share| share.waiting.load(Ordering::Relaxed) > 0)
    }
}

/// Counts one that waits, for as long as it does.
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
