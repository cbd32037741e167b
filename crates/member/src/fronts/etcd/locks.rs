//! Runs the calls of `Lock` and `Campaign`. Each consists of *parts*, which are calls of their own,
//! such as a transaction or a watch ([`super::lock_call`]). This module begins each part, and feeds
//! its result to the next step of the `Lock` or `Campaign`.

use bytes::Bytes;
use etcd::pb::Message;
use etcd::recipe;

use super::calls::Call;
use super::lock_call::{LockCall, Next, PartOf, Removal, Stage, own};
use super::method::{CallRefused, EtcdMethod};
use super::reply::Reply;
use super::{CallResult, Credentials, EtcdFront, WatchMessages, credentials};
use crate::fronts::etcd::limits::{ETCD_CALL_MS_MAX, LOCK_REMOVAL_MS_MAX};
use crate::message::Ticket;

impl EtcdFront {
    /// Begins a call of `Lock` or `Campaign`.
    pub(super) fn begin_lock(
        &mut self,
        ticket: Ticket,
        method: EtcdMethod,
        request: Bytes,
        credentials: Credentials,
    ) -> Result<(), CallRefused> {
        let (call, next) = LockCall::begin(method, request, credentials)?;
        self.go_on_with_lock(ticket, call, Ok(next));
        Ok(())
    }

    fn go_on_with_lock(
        &mut self,
        ticket: Ticket,
        mut call: LockCall,
        next: Result<Next, CallRefused>,
    ) {
        match next {
            Ok(Next::Events) => {}
            Ok(Next::Call(method, request)) => {
                call.part = self.begin_part(method, request.into(), call.credentials.clone());
            }
            Ok(Next::Watch(request)) => {
                call.part = self.new_ticket();
                // If the client requires a leader, the call itself ends without one, and then ends
                // this watch.
                self.open_watch(call.part, false, &call.credentials);
                self.on_watch_request(call.part, request.into(), call.credentials.clone());
            }
            Ok(Next::Done(response)) => {
                let reply = Reply::from_bytes(self.header(), response);
                return self.output.results.push((ticket, Ok(reply)));
            }
            Err(refused) => {
                self.leave_lock(&call);
                return self.output.results.push((ticket, Err(refused)));
            }
        }
        self.locks.parts.insert(call.part, PartOf::Call(ticket));
        self.locks.calls.insert(ticket, call);
    }

    /// Begins a part that is a unary call. It does not count as a call of its own for the bound on
    /// calls.
    fn begin_part(
        &mut self,
        method: EtcdMethod,
        request: Bytes,
        credentials: Credentials,
    ) -> Ticket {
        let part = self.new_ticket();
        self.turns.due.push_back((self.now.monotonic_ms + ETCD_CALL_MS_MAX, part));
        let asker = credentials::asker(credentials, self.config.is_alone);
        if let Err(refused) = self.begin(part, method, request, asker) {
            self.output.results.push((part, Err(refused)));
        }
        part
    }

    /// Removes the key of a call that has failed or was cancelled, if the key is the call's own.
    fn leave_lock(&mut self, call: &LockCall) {
        if call.is_own {
            let LockCall { created, changed, .. } = *call;
            let until_ms = self.now.monotonic_ms + LOCK_REMOVAL_MS_MAX;
            self.remove_key(Removal { key: call.key.clone(), created, changed, until_ms });
        }
    }

    /// Removes a key with the rights of the member itself, because the client's token may have
    /// expired.
    fn remove_key(&mut self, removal: Removal) {
        let txn = recipe::delete_unchanged(&removal.key, removal.created, removal.changed);
        let part =
            self.begin_part(EtcdMethod::Txn, txn.encode_to_vec().into(), Credentials::Member);
        self.locks.parts.insert(part, PartOf::Removal(removal));
    }

    /// Cancels a call of `Lock` or `Campaign`. Returns false if the ticket names another call.
    pub(super) fn cancel_lock(&mut self, ticket: Ticket) -> bool {
        let Some(call) = self.locks.calls.remove(&ticket) else { return false };
        let part = call.part;
        // `None` if the part has its outcome already, still to be passed on.
        let may_create = matches!(self.calls.get(&part), Some(Call::Command { .. }) | None);
        if call.stage == Stage::Creating && may_create {
            self.locks.parts.insert(part, PartOf::Cancelled(Box::new(call)));
            return true;
        }
        self.locks.parts.remove(&part);
        self.on_cancel(part);
        self.output.results.retain(|(ticket, _)| *ticket != part);
        self.output.watched.retain(|(ticket, _)| *ticket != part);
        self.leave_lock(&call);
        true
    }

    /// Takes the results and watch messages of parts out of the output, and begins the next parts,
    /// until none is left.
    pub(super) fn run_locks(&mut self) {
        while !self.locks.parts.is_empty() {
            self.name_users_of_parts();
            let parts = &self.locks.parts;
            let is_part = |part: &Ticket| parts.contains_key(part);
            let results: Vec<(Ticket, CallResult)> =
                self.output.results.extract_if(.., |(part, _)| is_part(part)).collect();
            let watched: Vec<(Ticket, WatchMessages)> =
                self.output.watched.extract_if(.., |(part, _)| is_part(part)).collect();
            if results.is_empty() && watched.is_empty() {
                return;
            }
            for (part, messages) in watched {
                self.on_part_messages(part, &messages);
            }
            for (part, result) in results {
                self.on_part_result(part, result);
            }
        }
    }

    /// Replaces the ticket of a part by the ticket of its call, in the output's users.
    fn name_users_of_parts(&mut self) {
        let parts = &self.locks.parts;
        self.output.users.retain_mut(|(ticket, _)| match parts.get(ticket) {
            None => true,
            Some(PartOf::Call(call)) => {
                *ticket = *call;
                true
            }
            Some(PartOf::Cancelled(_) | PartOf::Removal(_)) => false,
        });
    }

    fn on_part_messages(&mut self, part: Ticket, messages: &WatchMessages) {
        let Some(PartOf::Call(ticket)) = self.locks.parts.remove(&part) else { return };
        let Some(mut call) = self.locks.calls.remove(&ticket) else { return };
        let next = call.on_messages(messages);
        match next {
            Ok(Next::Events) => drop(self.on_taken(part)),
            _ => self.on_cancel(part),
        }
        self.go_on_with_lock(ticket, call, next);
    }

    fn on_part_result(&mut self, part: Ticket, result: CallResult) {
        let result = result.map(|reply| {
            let mut response = Vec::new();
            reply.write(&mut response);
            response
        });
        match self.locks.parts.remove(&part) {
            Some(PartOf::Call(ticket)) => {
                let Some(mut call) = self.locks.calls.remove(&ticket) else { return };
                let next = result.and_then(|response| call.on_response(&response));
                self.go_on_with_lock(ticket, call, next);
            }
            Some(PartOf::Cancelled(mut call)) => {
                if let Ok(response) = result {
                    call.on_created(own(&response));
                    self.leave_lock(&call);
                }
            }
            Some(PartOf::Removal(removal))
                if result.is_err() && self.now.monotonic_ms < removal.until_ms =>
            {
                self.locks.unremoved.push(removal);
            }
            Some(PartOf::Removal(_)) | None => {}
        }
    }

    /// Tries the refused removals again.
    pub(super) fn remove_again(&mut self) {
        for removal in core::mem::take(&mut self.locks.unremoved) {
            self.remove_key(removal);
        }
    }
}
