//! The watch streams of an etcd connection runtime: `listen_etcd::watch` on virtual connections. A
//! stream sends its next messages when the client has taken the ones before. Requests of a stream
//! wait until the Front accepts one.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use member::EtcdFront;
use member::fronts::etcd::{CallResult, Credentials, WatchMessages};
use member::message::Ticket;

use super::etcd_sabotage::{WatchForger, WatchSabotage};
use crate::etcd_clients::network::{FromWatcher, ToWatcher};
use crate::world::World;

/// A message to the client of a stream.
pub(super) struct Sent {
    pub number: usize,
    pub stream: usize,
    pub message: ToWatcher,
}

/// One open stream.
struct Slot {
    /// The number of the stream's connection.
    number: usize,
    /// The stream's number in the history.
    stream: usize,
    /// The client's credentials.
    credentials: Credentials,
    /// Whether the client has not yet taken the last message.
    is_sending: bool,
    /// The next message of the Front for the client.
    left: Option<ToWatcher>,
    /// Requests that the Front has not accepted yet.
    requests: VecDeque<Bytes>,
}

/// All streams of a runtime, by ticket.
#[derive(Default)]
pub(super) struct Slots {
    slots: BTreeMap<Ticket, Slot>,
    pub outbox: Vec<Sent>,
    forger: WatchForger,
}

impl Slots {
    /// The number of open streams.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// Makes this mistake from now on.
    pub fn sabotage(&mut self, sabotage: WatchSabotage) {
        self.forger = WatchForger::new(sabotage);
    }

    /// Handles a client's message about a stream.
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
        // The server may already have ended the stream.
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

    /// The client has taken the last message of a stream.
    pub fn on_taken(&mut self, number: usize, stream: usize, front: &mut EtcdFront) {
        let Some(ticket) = self.ticket_of(number, stream) else { return };
        self.slots.get_mut(&ticket).expect("it was found").is_sending = false;
        front.on_taken(ticket);
        self.go_on(ticket, front);
    }

    /// A connection has ended, and so have its streams.
    pub fn on_over(&mut self, number: usize, front: &mut EtcdFront) {
        let over = self.slots.extract_if(.., |_, slot| slot.number == number);
        over.for_each(|(ticket, _)| front.on_cancel(ticket));
    }

    /// Passes on what the Front gives to streams, and removes the ends of streams from `results`.
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

    /// Does what the task of a stream does until it must wait.
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
