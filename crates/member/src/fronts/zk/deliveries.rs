//! Takes Apply's deliveries in pieces.
//!
//! One delivery may have the changes of a multi with ten thousand operations, and one change may
//! concern as many connections. So a Front takes a bounded number of changes, answers and events at
//! a time, and serves its other clients in between. Only reads wait until the delivery is taken to
//! its end: the state already shows all of its changes, and events must come before replies that
//! show them.

use machine::{Acl, ConnectionId, ControlChange, Zxid};
use zk::response::EventType;

use super::ZkFront;
use super::feed::{Firing, Incoming, Next};
use crate::fronts::zk::limits::{FEED_PIECE_EVENTS, FEED_PIECE_PATH_BYTES};
use crate::message::Delivery;

impl ZkFront {
    /// Takes a delivery of Apply: changes and answers, in the order of ordinals. Later calls, or
    /// [`ZkFront::resume`], take the rest of a long delivery.
    pub fn on_delivery(&mut self, delivery: Delivery) {
        let Delivery { changes, answers } = delivery;
        self.feed.waits_for_tree &= changes.zk.open_transaction().is_some();
        self.feed.deliveries.push_back(Incoming::new(changes, answers));
        self.take_feed();
    }

    /// Takes the next piece of the waiting deliveries.
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

    /// Takes the next changes and answers of a delivery. Returns true if it has no more.
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
                    self.take_control_changes(incoming);
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

    /// Takes the changes of the list of servers, behind everything else of the delivery: the answer
    /// to a request comes before the end of its change.
    fn take_control_changes(&mut self, incoming: &Incoming) {
        for change in incoming.changes.control.iter() {
            match change {
                ControlChange::Servers(servers) => {
                    if servers.may_be_reconfigured() {
                        self.turns.resumable.extend(self.turns.reconfigs.on_possible());
                    }
                }
                ControlChange::ListChangeEnded { id, result } => {
                    self.on_change_ended(*id, *result);
                }
                ControlChange::Raised(_) | ControlChange::Replaced { .. } => {}
            }
        }
    }

    /// Notes that changes of this zxid begin: all changes of earlier zxids were taken.
    fn pass_zxid(&mut self, zxid: Zxid) {
        if zxid.0 > self.feed.zxid {
            self.last_zxid = self.last_zxid.max(self.feed.zxid);
            self.feed.zxid = zxid.0;
        }
    }

    /// Sends an event to the connections whose watches fired, as many as the present piece allows.
    /// Later pieces send it to the others.
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

    /// Sends the oldest unfinished event to its next connection.
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
