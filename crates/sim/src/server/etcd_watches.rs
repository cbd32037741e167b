//! The watch streams of a connection runtime for etcd's clients: `listen_etcd::watch` on virtual
//! connections. A stream is sent the next messages when its client has taken those before, and its
//! requests wait until the Front accepts one.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use member::EtcdFront;
use member::fronts::etcd::{CallResult, Credentials, WatchMessages};
use member::message::Ticket;

use super::etcd_sabotage::{WatchForger, WatchSabotage};
use crate::etcd_clients::network::{FromWatcher, ToWatcher};
use crate::world::World;

/// A message for a stream of a connection.
pub(super) struct Sent {
    pub number: usize,
    pub stream: usize,
    pub message: ToWatcher,
}

/// One stream that the Front has.
struct Slot {
    /// The number of its connection.
    number: usize,
    /// Its number in the history.
    stream: usize,
    /// What its client says of itself.
    credentials: Credentials,
    /// Whether the client has not taken what it was sent last.
    is_sending: bool,
    /// What the Front has left for it.
    left: Option<ToWatcher>,
    /// Requests that the Front has not accepted.
    requests: VecDeque<Bytes>,
}

/// All streams of a runtime.
#[derive(Default)]
pub(super) struct Slots {
    slots: BTreeMap<Ticket, Slot>,
    pub outbox: Vec<Sent>,
    forger: WatchForger,
}

impl Slots {
    /// The number of streams.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// The shell makes this mistake from now on.
    pub fn sabotage(&mut self, sabotage: WatchSabotage) {
        self.forger = WatchForger::new(sabotage);
    }

    /// Something came from a client on a stream.
    pub fn on_message(
        &mut self,
        (number, stream): (usize, usize),
        message: FromWatcher,
        front: &mut EtcdFront,
        world: &mut World,
    ) {
        if let FromWatcher::Open { requires_leader, credentials } = message {
            let ticket = front.on_watch(requires_leader, &credentials);
            let (left, requests) = (None, VecDeque::new());
            let slot = Slot { number, stream, credentials, is_sending: false, left, requests };
            self.slots.insert(ticket, slot);
            return;
        }
        // The server may have ended the stream.
        let Some(ticket) = self.ticket_of(number, stream) else { return };
        match message {
            FromWatcher::Request(request) => {
                let slot = self.slots.get_mut(&ticket).expect("it was found");
                slot.requests.push_back(self.forger.request(request, world));
                self.go_on(ticket, front);
            }
            _ => {
                self.slots.remove(&ticket);
                front.on_cancel(ticket);
            }
        }
    }

    /// The client has taken the last messages of a stream.
    pub fn on_taken(&mut self, number: usize, stream: usize, front: &mut EtcdFront) {
        let Some(ticket) = self.ticket_of(number, stream) else { return };
        self.slots.get_mut(&ticket).expect("it was found").is_sending = false;
        front.on_taken(ticket);
        self.go_on(ticket, front);
    }

    /// A connection is over.
    pub fn on_over(&mut self, number: usize, front: &mut EtcdFront) {
        let over = self.slots.extract_if(.., |_, slot| slot.number == number);
        over.for_each(|(ticket, _)| front.on_cancel(ticket));
    }

    /// Passes on what the Front gives, and takes the ends of streams out of the results.
    pub fn pass_on(
        &mut self,
        watched: Vec<(Ticket, WatchMessages)>,
        results: &mut Vec<(Ticket, CallResult)>,
        accepting: Vec<Ticket>,
        front: &mut EtcdFront,
        world: &mut World,
    ) {
        let mut stirred = accepting;
        for (ticket, messages) in watched {
            if let Some(slot) = self.slots.get_mut(&ticket) {
                let messages = self.forger.messages(encoded(&messages), world);
                slot.left = Some(ToWatcher::Messages(messages));
                stirred.push(ticket);
            }
        }
        results.retain(|(ticket, result)| match (self.slots.get_mut(ticket), result) {
            (Some(slot), Err(refused)) => {
                slot.left = Some(ToWatcher::Ended(*refused));
                stirred.push(*ticket);
                false
            }
            _ => true,
        });
        if let Some(refused) = self.forger.end(world)
            && let Some((ticket, slot)) = self.slots.iter_mut().next()
        {
            slot.left = Some(ToWatcher::Ended(refused));
            stirred.push(*ticket);
        }
        stirred.into_iter().for_each(|ticket| self.go_on(ticket, front));
    }

    /// What the task of a stream does until it must wait.
    fn go_on(&mut self, ticket: Ticket, front: &mut EtcdFront) {
        let Some(slot) = self.slots.get_mut(&ticket) else { return };
        let (number, stream) = (slot.number, slot.stream);
        if !slot.is_sending
            && let Some(message) = slot.left.take()
        {
            slot.is_sending = true;
            let is_end = matches!(message, ToWatcher::Ended(_));
            self.outbox.push(Sent { number, stream, message });
            if is_end {
                self.slots.remove(&ticket);
                return front.on_cancel(ticket);
            }
        }
        while front.accepts_request(ticket)
            && let Some(request) = slot.requests.pop_front()
        {
            front.on_watch_request(ticket, request, slot.credentials.clone());
        }
    }

    fn ticket_of(&self, number: usize, stream: usize) -> Option<Ticket> {
        let is_it = |slot: &Slot| (slot.number, slot.stream) == (number, stream);
        self.slots.iter().find(|(_, slot)| is_it(slot)).map(|(ticket, _)| *ticket)
    }
}

fn encoded(messages: &WatchMessages) -> Vec<Vec<u8>> {
    let one = |message: member::fronts::etcd::WatchMessage<'_>| {
        let mut bytes = Vec::with_capacity(message.bytes());
        message.write(&mut bytes);
        assert_eq!(bytes.len(), message.bytes(), "a message has the length that it says");
        bytes
    };
    messages.iter().map(one).collect()
}
