//! Records which Fronts have watches on etcd's keys, or waits of etcd v2. Apply collects changes of
//! etcd's keys only while a Front has any, and sends such changes only to such Fronts: otherwise
//! each put would wake up every Front.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::message::FrontId;

/// Number of counters. A Front's counter is its number modulo this; two Fronts with the same
/// counter get each other's changes, which does no harm.
const SLOTS: usize = 64;

/// The Fronts with watches on etcd's keys, or waits of etcd v2. Apply and the Fronts of a member
/// share it.
#[derive(Debug)]
pub struct WatchInterest {
    /// How many Fronts with watches share each counter.
    watching: [AtomicU32; SLOTS],
    /// How many Fronts have watches.
    total: AtomicU32,
}

impl Default for WatchInterest {
    fn default() -> Self {
        WatchInterest { watching: [const { AtomicU32::new(0) }; SLOTS], total: AtomicU32::new(0) }
    }
}

impl WatchInterest {
    /// Whether any Front has watches.
    pub fn is_any(&self) -> bool {
        self.total.load(Ordering::Acquire) > 0
    }

    /// Whether this Front, or one with the same counter, has watches.
    pub fn has(&self, front: FrontId) -> bool {
        self.watching[slot(front)].load(Ordering::Acquire) > 0
    }
}

fn slot(front: FrontId) -> usize {
    front.0 as usize % SLOTS
}

/// Counts a Front as one with watches, while this value exists. It must be created under the lock
/// of the state: then Apply sends the Front each change of the state after that.
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
