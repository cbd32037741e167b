//! Deliveries of Apply, taken in pieces.
//!
//! One delivery may have the changes of a multi with ten thousand operations, and one change may
//! concern as many connections. So a Front takes a bounded number of changes, answers and events at
//! once, and its other clients are served in between; but for reads, since the state shows all of a
//! delivery already, and events come before the replies that show their changes.

use machine::{Acl, ConnectionId, Zxid};
use zk::response::EventType;

use super::ZkFront;
use super::feed::{Firing, Incoming, Next};
use crate::fronts::zk::limits::{FEED_PIECE_EVENTS, FEED_PIECE_PATH_BYTES};
use crate::message::Delivery;

impl ZkFront {
    /// Takes a delivery of Apply: events and answers, merged by ordinal. The rest of a long one is
    /// taken by later calls, and by [`ZkFront::resume`].
    pub fn on_delivery(&mut self, delivery: Delivery) {
        let Delivery { changes, answers } = delivery;
        self.feed.waits_for_tree &= changes.zk.open_transaction().is_some();
        self.feed.deliveries.push_back(Incoming::new(changes, answers));
        self.take_feed();
    }

    /// Takes a piece of the deliveries.
    pub(super) fn take_feed(&mut self) {
        self.feed.left = FEED_PIECE_EVENTS;
        while self.feed.left > 0 {
            if !self.feed.firing.is_empty() {
                self.feed.spend(1);
                self.send_next();
                continue;
            }
            let Some(mut incoming) = self.feed.deliveries.pop_front() else { return };
            if !self.take_from(&mut incoming) {
                self.feed.deliveries.push_front(incoming);
            }
        }
    }

    /// Takes the next changes and answers of a delivery. Whether these were all.
    fn take_from(&mut self, incoming: &mut Incoming) -> bool {
        while self.feed.left > 0 && self.feed.firing.is_empty() {
            self.feed.spend(1);
            match incoming.next() {
                Next::Change => {
                    let (made, path) = incoming.take_change();
                    self.feed.spend(path.len() / FEED_PIECE_PATH_BYTES);
                    self.pass_zxid(made.mark.zxid);
                    self.on_change(made, path);
                }
                Next::Replaced(mark) => {
                    incoming.replaced = None;
                    self.pass_zxid(mark.zxid);
                    self.on_replaced();
                }
                Next::Answer(answer) => self.on_answer(answer),
                Next::Nothing => {
                    let changes = &incoming.changes.zk;
                    if changes.open_transaction().is_none() && !changes.is_empty() {
                        self.last_zxid = self.last_zxid.max(self.feed.zxid);
                    }
                    return true;
                }
            }
        }
        false
    }

    /// Notes the zxid of a change. All changes of the one before were taken.
    fn pass_zxid(&mut self, zxid: Zxid) {
        if zxid.0 > self.feed.zxid {
            self.last_zxid = self.last_zxid.max(self.feed.zxid);
            self.feed.zxid = zxid.0;
        }
    }

    /// Sends an event to the connections whose watches fired: to a few at once, to many in pieces.
    pub(super) fn send_to_all(
        &mut self,
        (zxid, event): (i64, EventType),
        path: &str,
        acl: &Option<Acl>,
        fired: Vec<ConnectionId>,
    ) {
        let mut connections = fired.into_iter();
        while self.feed.left > 0
            && self.feed.firing.is_empty()
            && let Some(connection) = connections.next()
        {
            self.feed.spend(1);
            self.send_permitted_event(connection, zxid, event, path, acl);
        }
        if !connections.as_slice().is_empty() {
            let (path, acl) = (path.into(), acl.clone());
            self.feed.firing.push_back(Firing { zxid, event, path, acl, connections });
        }
    }

    /// Sends the next event to the next connection.
    fn send_next(&mut self) {
        let Some(firing) = self.feed.firing.front_mut() else { return };
        let Some(connection) = firing.connections.next() else {
            self.feed.firing.pop_front();
            return;
        };
        let (zxid, event) = (firing.zxid, firing.event);
        let (path, acl) = (core::mem::take(&mut firing.path), firing.acl.take());
        self.send_permitted_event(connection, zxid, event, &path, &acl);
        if let Some(firing) = self.feed.firing.front_mut() {
            (firing.path, firing.acl) = (path, acl);
        }
    }
}
