//! Runs the steps of long lists and of several reads in one request ([`super::long_reads`]).

use machine::{ConnectionId, ListPlace, ListStep, Machine};
use zk::ErrorCode;
use zk::response::{
    ChildNames, ReplyHeader, encode_children, encode_empty, encode_multi_read, encode_read,
};

use super::ZkFront;
use super::connection::SlotKind;
use super::long_reads::{Bounds, Ended, List};
use super::reads::reserve;
use crate::fronts::zk::limits::MULTI_READ_BYTES_MAX;
use crate::identities::borrow;
use crate::limits::READ_HOLD_REQUESTS_MAX;
use crate::reply_room::HeldReply;

impl ZkFront {
    /// Turns the read at the front of the window into a list that is made in steps. `bytes` is the
    /// size of its result, as far as it is known.
    pub(super) fn begin_list(&mut self, id: ConnectionId, bytes: u64) {
        let held = HeldReply::new(&self.config.replies, bytes as usize);
        let bounds = Bounds::new(self.config.list_step_names);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if let Some(SlotKind::Read(read)) = connection.window.front() {
            let (read, place, names) = (read.clone(), ListPlace::default(), ChildNames::default());
            let list = Box::new(List { read, place, names, bounds, held });
            connection.window.replace_front(SlotKind::List(list));
        }
    }

    /// Runs a step of the list at the front of the window. Returns for how many requests the step
    /// counts; `None` if the connection has ended.
    pub(super) fn run_list(&mut self, id: ConnectionId, machine: &Machine) -> Option<usize> {
        let mark = machine.mark();
        let bytes_max = self.result_bytes_max();
        let connection = self.connections.get_mut(&id)?;
        let identities = borrow(connection.identity.proved());
        let Some(SlotKind::List(list)) = connection.window.front_mut() else {
            unreachable!("the caller checked that it exists");
        };
        let List { read, place, names, bounds, held } = &mut **list;
        let each = |name: &str| names.push(name);
        let step_max = (bounds.looks, bounds.bytes);
        let step = machine.zk().list_children(&read.path, &identities, step_max, place, each);
        let bytes = names.bytes() as u64;
        if step == Ok(ListStep::Outdated) {
            names.clear();
            bounds.double();
            return Some(READ_HOLD_REQUESTS_MAX);
        }
        if step == Ok(ListStep::Part) && bytes <= bytes_max {
            held.grow_to(bytes as usize);
            return Some(READ_HOLD_REQUESTS_MAX);
        }
        let slot = self.pop_slot(id);
        let SlotKind::List(list) = &slot.kind else { unreachable!("it was just looked at") };
        let (xid, zxid, kind) = (slot.xid, mark.zxid.0, list.read.kind);
        match step {
            _ if bytes > bytes_max => self.refuse_reply(id, &slot, zxid, &list.read.path, bytes),
            Ok(ListStep::Whole(stat)) => {
                self.reply(id, &slot, zxid, |out| {
                    reserve(bytes, out);
                    encode_children((xid, zxid), kind, &list.names, &stat, out);
                });
                self.note_reply(id, bytes as usize);
                self.watch(id, &list.read, ErrorCode::OK, mark.ordinal);
            }
            Ok(_) => unreachable!("it has ended"),
            Err(refusal) => {
                self.reply(id, &slot, zxid, |out| {
                    encode_read(xid, zxid, kind, &Err(refusal), out);
                });
            }
        }
        self.settle(id);
        Some(READ_HOLD_REQUESTS_MAX)
    }

    /// Runs a step of the several reads at the front of the window. Returns for how many requests
    /// the step counts; `None` if the connection cannot go on now.
    pub(super) fn run_several(&mut self, id: ConnectionId, machine: &Machine) -> Option<usize> {
        let zxid = machine.mark().zxid.0;
        let bytes_max = self.result_bytes_max().min(MULTI_READ_BYTES_MAX);
        let connection = self.connections.get_mut(&id)?;
        let identities = borrow(connection.identity.proved());
        let Some(SlotKind::MultiRead(several)) = connection.window.front_mut() else {
            unreachable!("the caller checked that it exists");
        };
        let ended = several.step(machine, &identities, bytes_max, &self.config.replies);
        match ended {
            Ended::Part => return Some(READ_HOLD_REQUESTS_MAX),
            Ended::NoRoom(bytes) => return self.wait_for_room(id, bytes, zxid).then_some(1),
            Ended::Whole | Ended::TooLarge(_) => {}
        }
        let slot = self.pop_slot(id);
        let SlotKind::MultiRead(several) = &slot.kind else {
            unreachable!("it was just looked at");
        };
        let xid = slot.xid;
        match ended {
            Ended::TooLarge(bytes) if self.is_too_large_a_reply(bytes) => {
                let path = several.reads.first().map_or("", |read| &read.path);
                self.refuse_reply(id, &slot, zxid, path, bytes);
            }
            Ended::TooLarge(bytes) => {
                self.notice(id, &format!("a multi-read of {bytes} bytes is refused"));
                let header = ReplyHeader { xid, zxid, error: ErrorCode::MARSHALLING_ERROR };
                self.reply(id, &slot, zxid, |out| encode_empty(header, out));
            }
            _ => self.reply(id, &slot, zxid, |out| {
                reserve(several.results.len() as u64, out);
                encode_multi_read(xid, zxid, &several.results, out);
            }),
        }
        let count = several.reads.len().clamp(1, READ_HOLD_REQUESTS_MAX);
        self.settle(id);
        Some(count)
    }
}
