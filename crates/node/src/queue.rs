//! The queues between threads. They have no bound of their own, because a bounded one would make
//! Loop wait: what can be in them is bounded by the credits of the Fronts (`member::limits`), by
//! `ENTRIES_TO_DISK_MAX`, and for deliveries by `MAIL_MAX`.
//!
//! A consumer takes everything at once, so a burst costs one wake-up.

use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

/// A queue whose consumer is a thread.
pub struct Inbox<T> {
    state: Mutex<InboxState<T>>,
    arrived: Condvar,
}

struct InboxState<T> {
    items: Vec<T>,
    /// Whether the consumer sleeps: nobody is woken in vain.
    waiting: bool,
    closed: bool,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        let state = InboxState { items: Vec::new(), waiting: false, closed: false };
        Inbox { state: Mutex::new(state), arrived: Condvar::new() }
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

    /// No more items will come: the consumer ends after those that are there.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        self.arrived.notify_one();
    }

    /// Moves everything to `items` (which is empty), waiting for something until `deadline`.
    /// False once the queue is closed and empty.
    pub fn take(&self, items: &mut Vec<T>, deadline: Option<Instant>) -> bool {
        let mut state = self.state.lock();
        while state.items.is_empty() && !state.closed {
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
        std::mem::swap(&mut state.items, items);
        !(items.is_empty() && state.closed)
    }
}

/// A queue whose consumer is a task of a connection runtime.
pub struct Mail<T> {
    items: Mutex<Vec<T>>,
    arrived: Notify,
}

impl<T> Default for Mail<T> {
    fn default() -> Self {
        Mail { items: Mutex::new(Vec::new()), arrived: Notify::new() }
    }
}

impl<T> Mail<T> {
    /// Appends an item; wakes the consumer if it had taken everything before.
    pub fn push(&self, item: T) {
        let was_empty = {
            let mut items = self.items.lock();
            items.push(item);
            items.len() == 1
        };
        if was_empty {
            self.arrived.notify_one();
        }
    }

    /// Moves everything out, without waiting.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.items.lock())
    }

    /// Number of items waiting.
    pub fn len(&self) -> usize {
        self.items.lock().len()
    }

    /// Whether none is waiting.
    pub fn is_empty(&self) -> bool {
        self.items.lock().is_empty()
    }

    /// Waits until something may have arrived.
    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }
}
