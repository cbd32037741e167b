//! Which Fronts have watchers of etcd's keys. Apply collects the changes of keys only while one
//! has, and sends them to those Fronts only: else each put would cost every Front a wake-up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::message::FrontId;

/// Fronts are counted by their number modulo this; two with the same remainder get each other's
/// changes, which harms nobody.
const SLOTS: usize = 64;

/// The Fronts that watch etcd's keys, shared by Apply and the Fronts of a member.
#[derive(Debug)]
pub struct WatchInterest {
    /// Fronts with watchers, by slot.
    watching: [AtomicU32; SLOTS],
    /// Fronts with watchers in all.
    total: AtomicU32,
}

impl Default for WatchInterest {
    fn default() -> Self {
        WatchInterest { watching: [const { AtomicU32::new(0) }; SLOTS], total: AtomicU32::new(0) }
    }
}

impl WatchInterest {
    /// Whether any Front watches.
    pub fn is_any(&self) -> bool {
        self.total.load(Ordering::Acquire) > 0
    }

    /// Whether this Front watches.
    pub fn has(&self, front: FrontId) -> bool {
        self.watching[slot(front)].load(Ordering::Acquire) > 0
    }
}

fn slot(front: FrontId) -> usize {
    front.0 as usize % SLOTS
}

/// The interest of one Front while it has watchers. It must begin under the lock of the state: then
/// Apply sends each change after the state that was locked.
#[derive(Debug)]
pub(crate) struct Watching {
    interest: Arc<WatchInterest>,
    front: FrontId,
}

impl Watching {
    pub fn begin(interest: &Arc<WatchInterest>, front: FrontId) -> Watching {
        interest.watching[slot(front)].fetch_add(1, Ordering::AcqRel);
        interest.total.fetch_add(1, Ordering::AcqRel);
        Watching { interest: interest.clone(), front }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.interest.watching[slot(self.front)].fetch_sub(1, Ordering::AcqRel);
        self.interest.total.fetch_sub(1, Ordering::AcqRel);
    }
}
