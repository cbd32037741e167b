//! The queues between threads. They have no bound of their own, because Loop would have to wait at
//! a full queue. Other limits bound their content: the credits of the Fronts (`member::limits`),
//! `ENTRIES_TO_DISK_MAX`, `PEER_INPUT_BYTES_MAX` for frames of other members, and `MAIL_MAX` for
//! deliveries.
//!
//! A consumer takes everything at once, so a burst costs one wake-up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use crate::limits::QUIET_MAIL_MAX;

/// A queue with a thread as its consumer.
pub struct Inbox<T> {
    state: Mutex<InboxState<T>>,
    arrived: Condvar,
}

struct InboxState<T> {
    items: Vec<T>,
    /// Whether the consumer sleeps. A producer wakes it only then.
    waiting: bool,
    /// Whether the consumer must return from its wait once, even if the queue is empty.
    nudged: bool,
    closed: bool,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        let (items, waiting, nudged, closed) = (Vec::new(), false, false, false);
        Inbox {
            state: Mutex::new(InboxState { items, waiting, nudged, closed }),
            arrived: Condvar::new(),
        }
    }
}

impl<T> Inbox<T> {
    /// Appends items, in order.
    pub fn push(&self, items: impl IntoIterator<Item = T>) {
        let mut state = self.state.lock();
        state.items.extend(items);
        if state.waiting && !state.items.is_empty() {
            state.waiting = false;
            self.arrived.notify_one();
        }
    }

    /// Appends items, in order, without waking a thread: the caller runs the consumer itself.
    pub fn push_quietly(&self, items: impl IntoIterator<Item = T>) {
        self.state.lock().items.extend(items);
    }

    /// Makes the consumer return from its present or next wait.
    pub fn wake_consumer(&self) {
        let mut state = self.state.lock();
        state.nudged = true;
        if state.waiting {
            state.waiting = false;
            self.arrived.notify_one();
        }
    }

    /// Closes the queue: no more items will be pushed, and the consumer ends after the last one.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        self.arrived.notify_one();
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.state.lock().items.is_empty()
    }

    /// Moves all items of the queue to the end of `items`, without waiting.
    pub fn take_now(&self, items: &mut Vec<T>) {
        items.append(&mut self.state.lock().items);
    }

    /// Waits until there are items, until [`Inbox::wake_consumer`] is called, or until `deadline`.
    /// False once the queue is closed and empty.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        let mut state = self.state.lock();
        while state.items.is_empty() && !state.nudged && !state.closed {
            state.waiting = true;
            match deadline {
                None => self.arrived.wait(&mut state),
                Some(deadline) => {
                    if self.arrived.wait_until(&mut state, deadline).timed_out() {
                        break;
                    }
                }
            }
        }
        state.waiting = false;
        state.nudged = false;
        !(state.items.is_empty() && state.closed)
    }

    /// Waits as [`Inbox::wait`] does, and then moves all items to `items`, which must be empty.
    /// False once the queue is closed and empty.
    pub fn take(&self, items: &mut Vec<T>, deadline: Option<Instant>) -> bool {
        let is_open = self.wait(deadline);
        self.take_now(items);
        is_open || !items.is_empty()
    }
}

/// A queue with a task of a connection runtime as its consumer.
pub struct Mail<T> {
    items: Mutex<Vec<T>>,
    arrived: Notify,
    /// Whether the consumer wants to be woken for every item.
    wakes_always: AtomicBool,
}

impl<T> Default for Mail<T> {
    fn default() -> Self {
        let (items, arrived) = (Mutex::new(Vec::new()), Notify::new());
        Mail { items, arrived, wakes_always: AtomicBool::new(false) }
    }
}

impl<T> Mail<T> {
    /// Appends an item. Wakes the consumer if the item is urgent, if the consumer wants to be woken
    /// for every item, or if many items wait. Otherwise the consumer finds the item at its next
    /// tick at the latest.
    pub fn push(&self, item: T, is_urgent: bool) {
        let count = {
            let mut items = self.items.lock();
            items.push(item);
            items.len()
        };
        // The consumer sets `wakes_always` before it checks for mail. This thread checks
        // `wakes_always` after the push. So at least one of the two notices the other.
        if is_urgent || count >= QUIET_MAIL_MAX || self.wakes_always.load(Ordering::SeqCst) {
            self.arrived.notify_one();
        }
    }

    /// Sets whether the consumer is woken for every item, including those in the queue now.
    pub fn set_wakes_always(&self, wakes_always: bool) {
        let did_wake_always = self.wakes_always.swap(wakes_always, Ordering::SeqCst);
        if wakes_always && !did_wake_always && !self.is_empty() {
            self.arrived.notify_one();
        }
    }

    /// Takes all items, without waiting.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.items.lock())
    }

    /// Number of items in the queue.
    pub fn len(&self) -> usize {
        self.items.lock().len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.items.lock().is_empty()
    }

    /// Waits until an item may have arrived.
    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }
}

#[cfg(test)]
mod tests;
