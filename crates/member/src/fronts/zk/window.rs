//! Holds the window of a connection: its unanswered requests, each in a slot, in the order in which
//! they came.
//!
//! The window keeps the order of a session exact. Requests enter at its back as they are decoded,
//! and leave at its front as they are answered. A request that is done while an older one is not
//! answered waits in the window.
//!
//! The small methods are `#[inline]`, here and in the other parts of a connection and of Loop: they
//! run for each request, and the release build compiles their callers in other units.

use std::collections::VecDeque;

use zk::request::opcode as op;

use super::connection::{Slot, SlotKind};
use crate::fronts::zk::limits::{
    TRAVELLED_WRITE_BYTES_MAX, TRAVELLING_READS_MAX, WINDOW_BYTES_MAX, WINDOW_KEPT_REQUESTS,
    WINDOW_REQUESTS_MAX,
};
use crate::message::Ticket;

/// The unanswered requests of a connection, oldest first.
#[derive(Default)]
pub(super) struct Window {
    slots: VecDeque<Slot>,
    /// The bytes of the commands in the window.
    bytes: usize,
    /// How many reads in the window this Front runs itself.
    local_reads: usize,
    /// How many reads in the window travel with a write.
    travelling_reads: usize,
    /// How many syncs in the window are not answered.
    open_syncs: usize,
    /// Whether a change of the servers is in the window; it is the newest request then.
    has_reconfig: bool,
    next_ticket: u64,
}

impl Window {
    /// Returns a new ticket, for the next request. No two requests of a connection have the same
    /// ticket.
    #[inline]
    pub fn draw_ticket(&mut self) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        ticket
    }

    /// The number of requests.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether every request is answered.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether no further request may enter the window.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.slots.len() >= WINDOW_REQUESTS_MAX || self.bytes >= WINDOW_BYTES_MAX
    }

    /// The requests, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Slot> {
        self.slots.iter()
    }

    /// The oldest request.
    #[inline]
    pub fn front(&self) -> Option<&SlotKind> {
        self.slots.front().map(|slot| &slot.kind)
    }

    /// The oldest request, for a step of it. The caller must not change its kind.
    #[inline]
    pub fn front_mut(&mut self) -> Option<&mut SlotKind> {
        self.slots.front_mut().map(|slot| &mut slot.kind)
    }

    /// The newest request.
    #[inline]
    pub fn back(&self) -> Option<&SlotKind> {
        self.slots.back().map(|slot| &slot.kind)
    }

    /// The newest request, to add details to it.
    #[inline]
    pub fn back_mut(&mut self) -> Option<&mut Slot> {
        self.slots.back_mut()
    }

    /// Adds a request.
    #[inline]
    pub fn push(&mut self, slot: Slot) {
        self.count(&slot.kind);
        self.slots.push_back(slot);
    }

    /// Removes the oldest request.
    #[inline]
    pub fn pop(&mut self) -> Option<Slot> {
        let slot = self.slots.pop_front()?;
        self.discount(&slot.kind);
        Some(slot)
    }

    /// Removes all requests, because the connection has ended.
    pub fn take_all(&mut self) -> VecDeque<Slot> {
        (self.bytes, self.local_reads, self.travelling_reads, self.open_syncs) = (0, 0, 0, 0);
        self.has_reconfig = false;
        core::mem::take(&mut self.slots)
    }

    /// Replaces the kind of the oldest request.
    pub fn replace_front(&mut self, kind: SlotKind) {
        self.replace(0, |_| kind);
    }

    /// Turns the oldest `count` requests, reads that travelled and that Apply handed back, into
    /// reads that this Front runs.
    pub fn take_back(&mut self, count: usize) {
        for at in 0..count {
            self.replace(at, |kind| match kind {
                SlotKind::TravellingRead(read) => SlotKind::Read(read),
                _ => unreachable!("reads that travelled stand behind their write"),
            });
        }
    }

    fn replace(&mut self, at: usize, change: impl FnOnce(SlotKind) -> SlotKind) {
        let Some(slot) = self.slots.get_mut(at) else { return };
        let old = core::mem::replace(&mut slot.kind, SlotKind::Ping);
        self.discount(&old);
        let new = change(old);
        self.count(&new);
        self.slots[at].kind = new;
    }

    #[inline]
    fn count(&mut self, kind: &SlotKind) {
        match kind {
            SlotKind::Write { bytes, .. } | SlotKind::Close { bytes } => self.bytes += bytes,
            SlotKind::Reconfig { bytes } => {
                self.bytes += bytes;
                self.has_reconfig = true;
            }
            SlotKind::Reconfiguring => self.has_reconfig = true,
            SlotKind::Sync { done: false, .. } => self.open_syncs += 1,
            SlotKind::TravellingRead(_) => self.travelling_reads += 1,
            kind if kind.runs_here() => self.local_reads += 1,
            _ => {}
        }
    }

    #[inline]
    fn discount(&mut self, kind: &SlotKind) {
        match kind {
            SlotKind::Write { bytes, .. } | SlotKind::Close { bytes } => self.bytes -= bytes,
            SlotKind::Reconfig { bytes } => {
                self.bytes -= bytes;
                self.has_reconfig = false;
            }
            SlotKind::Reconfiguring => self.has_reconfig = false,
            SlotKind::Sync { done: false, .. } => self.open_syncs -= 1,
            SlotKind::TravellingRead(_) => self.travelling_reads -= 1,
            kind if kind.runs_here() => self.local_reads -= 1,
            _ => {}
        }
    }

    /// Notes that the sync with this ticket is answered.
    pub fn on_synced(&mut self, ticket: Ticket) {
        let sync = self.slots.iter_mut().find_map(|slot| match &mut slot.kind {
            SlotKind::Sync { done, .. } if slot.ticket == ticket => Some(done),
            _ => None,
        });
        if let Some(done) = sync {
            *done = true;
            self.open_syncs -= 1;
        }
    }

    /// Whether a request with this opcode must wait before it is decoded. A read that this Front
    /// still has to run holds back all later commands and syncs, and also auth and SASL packets,
    /// which would let it see more than it may. A sync holds back commands: a sync does not go
    /// through the log, so the answer to a later command could come first. A change of the servers
    /// holds back everything, because it ends with another command than its own.
    #[inline]
    pub fn holds_back(&self, opcode: i32) -> bool {
        let behind_read = self.local_reads > 0;
        match opcode {
            _ if self.has_reconfig => true,
            op::SYNC | op::AUTH | op::SASL => behind_read,
            op::CREATE
            | op::CREATE2
            | op::CREATE_CONTAINER
            | op::CREATE_TTL
            | op::DELETE
            | op::SET_DATA
            | op::SET_ACL
            | op::MULTI
            | op::RECONFIG
            | op::CLOSE_SESSION => behind_read || self.open_syncs > 0,
            _ => false,
        }
    }

    /// Whether another read may travel with the newest request, which must be a small write or a
    /// read that travels with one.
    #[inline]
    pub fn lets_travel(&self) -> bool {
        let behind_write = match self.back() {
            Some(SlotKind::Write { bytes, .. }) => *bytes <= TRAVELLED_WRITE_BYTES_MAX,
            Some(SlotKind::TravellingRead(_)) => true,
            _ => false,
        };
        behind_write && self.local_reads == 0 && self.travelling_reads < TRAVELLING_READS_MAX
    }

    /// Replaces an empty, small buffer by the spare one.
    pub fn take_spare(&mut self, spare: &mut VecDeque<Slot>) {
        if self.slots.is_empty() && self.slots.capacity() <= WINDOW_KEPT_REQUESTS {
            self.slots = core::mem::take(spare);
        }
    }

    /// Gives a large buffer away as the spare one. The buffer must be empty.
    pub fn give_spare(&mut self, spare: &mut VecDeque<Slot>) {
        if self.slots.capacity() > WINDOW_KEPT_REQUESTS {
            *spare = core::mem::take(&mut self.slots);
        }
    }
}

/// How much a window holds, for tests of its bounds.
#[cfg(test)]
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WindowCounts {
    pub bytes: usize,
    pub local_reads: usize,
    pub travelling_reads: usize,
    pub open_syncs: usize,
}

#[cfg(test)]
impl Window {
    pub fn counts(&self) -> WindowCounts {
        let Window { bytes, local_reads, travelling_reads, open_syncs, .. } = *self;
        WindowCounts { bytes, local_reads, travelling_reads, open_syncs }
    }

    /// The capacity of the buffer, in requests.
    pub fn capacity(&self) -> usize {
        self.slots.capacity()
    }
}
