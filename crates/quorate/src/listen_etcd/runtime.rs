//! One connection runtime: its Front, and the calls that wait for results.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use member::EtcdFront;
use member::etcd_front::{CallRefused, CallResult, Method};
use member::message::Ticket;
use node::FrontHandle;
use tokio::sync::{Notify, oneshot};

use super::limits::{CONNECTION_SHARE, REQUESTS_BYTES_MAX, RESPONSES_BYTES_MAX, TICK, TICK_IDLE};
use crate::grpc::{Call, Code, End, Room, Server, Share, Shares, Status, framed};

pub(super) struct Runtime {
    handle: FrontHandle,
    front: RefCell<EtcdFront>,
    /// The tasks of the calls that are not done.
    waiting: RefCell<HashMap<Ticket, oneshot::Sender<CallResult>>>,
    /// Notified when the Front has got something to do.
    stirred: Notify,
    pub(super) server: Server<Method>,
    /// The room for requests of all connections, and for their responses.
    room: (Arc<Share>, Arc<Share>),
}

/// A call that the Front has. Dropping it cancels the call, unless it is done.
struct Waiting {
    runtime: Rc<Runtime>,
    ticket: Ticket,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.runtime.waiting.borrow_mut().remove(&self.ticket).is_some() {
            self.runtime.front.borrow_mut().on_cancel(self.ticket);
            self.runtime.stirred.notify_one();
        }
    }
}

impl Runtime {
    pub fn new(
        handle: FrontHandle,
        front: EtcdFront,
        server: Server<Method>,
        room: (Arc<Share>, Arc<Share>),
    ) -> Runtime {
        // Changes for this Front are few, and calls may wait for one.
        handle.mail().set_wakes_always(true);
        Runtime {
            handle,
            front: RefCell::new(front),
            waiting: RefCell::default(),
            stirred: Notify::new(),
            server,
            room,
        }
    }

    /// The shares that room for the requests of a new connection comes from, and for its responses:
    /// two of its own, since addresses have no bound here, and the one of all connections.
    pub fn shares_of_connection(&self) -> (Shares, Shares) {
        let own = |bytes| Share::new(bytes / CONNECTION_SHARE);
        let (requests, responses) = &self.room;
        let of = |bytes, all: &Arc<Share>| Arc::new([own(bytes), own(bytes), all.clone()]);
        (of(REQUESTS_BYTES_MAX, requests), of(RESPONSES_BYTES_MAX, responses))
    }

    /// Serves a call until it ends.
    pub async fn serve_call(self: Rc<Self>, mut call: Box<Call<Method>>, answers: Shares) {
        let outcome = self.answer(&mut call, &answers).await;
        call.finish(outcome);
    }

    async fn answer(self: &Rc<Self>, call: &mut Call<Method>, answers: &Shares) -> Result<(), End> {
        let message = call.requests.only().await?;
        let work = self.run(call.method, message.bytes);
        let reply = call.unless_ended(work).await?.map_err(status_of)?;
        let mut room = Room::new(answers);
        let bytes = reply.bytes();
        if !room.try_grow_to(bytes) {
            call.unless_ended(room.grow_to(bytes)).await?;
        }
        call.answers.send(framed(|out| reply.write(out)), Some(room)).await
    }

    /// Runs a call. Dropping the future cancels it.
    pub async fn run(self: &Rc<Self>, method: Method, request: Bytes) -> CallResult {
        let (sender, result) = oneshot::channel();
        let ticket = {
            let mut front = self.front.borrow_mut();
            front.set_now(self.handle.monotonic_ms(), self.handle.raft_term());
            front.on_call(method, request)
        };
        self.waiting.borrow_mut().insert(ticket, sender);
        self.stirred.notify_one();
        let _waiting = Waiting { runtime: self.clone(), ticket };
        result.await.expect("each call gets a result")
    }

    /// Runs the Front when calls have come, or Apply has sent mail.
    pub async fn drive_when_stirred(self: Rc<Self>) {
        loop {
            tokio::select! {
                () = self.stirred.notified() => {}
                () = self.handle.mail().arrived() => {}
            }
            self.drive();
        }
    }

    /// Lets the Front look at the clock, more often while it has calls.
    pub async fn tick(self: Rc<Self>) {
        loop {
            let has_calls = self.front.borrow().call_count() > 0;
            tokio::time::sleep(if has_calls { TICK } else { TICK_IDLE }).await;
            if self.front.borrow().call_count() > 0 {
                self.front.borrow_mut().on_tick();
                self.drive();
            }
        }
    }

    /// Runs the Front until it has nothing more to do, and passes on its output.
    fn drive(&self) {
        let mut front = self.front.borrow_mut();
        let mail = self.handle.mail();
        front.set_now(self.handle.monotonic_ms(), self.handle.raft_term());
        for delivery in mail.take() {
            front.on_delivery(delivery);
        }
        while front.is_runnable() {
            let machine = self.handle.machine().read();
            for delivery in mail.take() {
                front.on_delivery(delivery);
            }
            front.run_reads(&machine);
        }
        let output = front.take_output();
        drop(front);
        if !output.to_loop.is_empty() {
            self.handle.send(output.to_loop);
        }
        let mut waiting = self.waiting.borrow_mut();
        for (ticket, result) in output.results {
            if let Some(sender) = waiting.remove(&ticket) {
                // A call whose client has just gone needs no result.
                let _ = sender.send(result);
            }
        }
    }
}

/// The status for a call without a response. The text for a malformed request begins as grpc-go's.
fn status_of(refused: CallRefused) -> Status {
    match refused {
        CallRefused::Error(error) => Status::new(Code::of_etcd(error.code()), error.text()),
        CallRefused::Malformed => {
            Status::new(Code::Internal, "grpc: error unmarshalling request: it is malformed")
        }
    }
}
