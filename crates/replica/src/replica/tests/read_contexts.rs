//! Shows why a ReadIndex context must be used only once, ever: raft-rs 0.7 mishandles a context
//! that is used again, and this crate never uses one again.
//!
//! One sequence of events is run twice: with raft-rs alone, and with this crate. Member 1 leads and
//! serves a read, for which member 2's acknowledgement is enough; member 3's acknowledgement is
//! delayed. Then member 1 is cut off, and member 2 leads and commits an entry. Member 1 does not
//! know that, is asked again, and gets the delayed acknowledgement.

use std::collections::BTreeSet;

use bytes::Bytes;
use raft::RawNode;
use raft::eraftpb::{Message, MessageType};
use raft::storage::MemStorage;

use crate::{Config, Membership, Replica, Restored, Role, message};

const GROUP_ID: u32 = 0;

/// Three members, and for each one the indexes of the reads that it served.
struct Three<M> {
    members: [M; 3],
    served: [Vec<u64>; 3],
}

trait Member {
    /// Takes the messages to send and the indexes of served reads. Disk jobs are done at once.
    fn take(&mut self) -> (Vec<Message>, Vec<u64>);
    fn step(&mut self, message: &Message);
}

impl Member for RawNode<MemStorage> {
    fn take(&mut self) -> (Vec<Message>, Vec<u64>) {
        let (mut messages, mut served) = (Vec::new(), Vec::new());
        while self.has_ready() {
            let mut ready = self.ready();
            messages.extend(ready.take_messages());
            served.extend(ready.take_read_states().into_iter().map(|read| read.index));
            self.mut_store().wl().append(ready.entries()).unwrap();
            messages.extend(ready.take_persisted_messages());
            let mut light = self.advance(ready);
            messages.extend(light.take_messages());
            self.advance_apply();
        }
        (messages, served)
    }

    fn step(&mut self, message: &Message) {
        self.step(message.clone()).unwrap();
    }
}

impl Member for Replica {
    fn take(&mut self) -> (Vec<Message>, Vec<u64>) {
        let (mut messages, mut served) = (Vec::new(), Vec::new());
        while self.has_effects() {
            let effects = self.effects();
            let sent = effects.messages.iter();
            messages.extend(sent.map(|it| message::decode(GROUP_ID, &it.bytes).unwrap().message));
            served.extend(effects.reads.iter().map(|(_, index)| *index));
            if let Some(persist) = effects.persist {
                self.on_persisted(persist.id);
            }
            if let Some(last) = effects.committed.last() {
                self.on_applied(last.index);
            }
        }
        (messages, served)
    }

    fn step(&mut self, message: &Message) {
        self.step(message.from, &message::encode(GROUP_ID, message, false)).unwrap();
    }
}

impl<M: Member> Three<M> {
    fn member(&mut self, id: u64) -> &mut M {
        &mut self.members[id as usize - 1]
    }

    /// Delivers messages until no member sends any more; returns those that `arrives` held back.
    fn settle(&mut self, arrives: impl Fn(&Message) -> bool) -> Vec<Message> {
        let mut late = Vec::new();
        loop {
            let mut sent = Vec::new();
            for (member, served) in self.members.iter_mut().zip(&mut self.served) {
                let (messages, now_served) = member.take();
                sent.extend(messages);
                served.extend(now_served);
            }
            if sent.is_empty() {
                return late;
            }
            for message in sent {
                match arrives(&message) {
                    true => self.member(message.to).step(&message),
                    false => late.push(message),
                }
            }
        }
    }
}

fn is_from_or_to(message: &Message, member: u64) -> bool {
    message.from == member || message.to == member
}

fn is_late_acknowledgement(message: &Message) -> bool {
    let acknowledges = message.get_msg_type() == MessageType::MsgHeartbeatResponse;
    acknowledges && message.from == 3 && !message.context.is_empty()
}

/// Three raft-rs nodes with the settings that our replicas use.
fn three_of_raft() -> Three<RawNode<MemStorage>> {
    let logger = slog::Logger::root(slog::Discard, slog::o!());
    let members = [1, 2, 3].map(|id| {
        let storage = MemStorage::new_with_conf_state((vec![1, 2, 3], vec![]));
        RawNode::new(&Config::new(id, 42, 1).to_raft(0), storage, &logger).unwrap()
    });
    let mut three = Three { members, served: Default::default() };
    three.member(1).campaign().unwrap();
    three.settle(|_| true);
    three
}

/// The indexes that member 1 serves if its two reads have these contexts, and the commit index
/// before the second read was asked.
fn reads_of_raft(contexts: [&str; 2]) -> (Vec<u64>, u64) {
    let mut three = three_of_raft();
    three.member(1).read_index(contexts[0].into());
    let late = three.settle(|message| !is_late_acknowledgement(message));
    // Member 1 is cut off, and the others have not heard from it for long.
    let raft = &mut three.member(3).raft;
    raft.election_elapsed = raft.election_timeout();
    three.member(2).campaign().unwrap();
    three.settle(|message| !is_from_or_to(message, 1));
    three.member(2).propose(Vec::new(), b"new".to_vec()).unwrap();
    three.settle(|message| !is_from_or_to(message, 1));
    let committed = three.member(2).raft.raft_log.committed;
    // Member 1 does not know that, and is asked again.
    three.member(1).read_index(contexts[1].into());
    three.settle(|message| !is_from_or_to(message, 1));
    late.iter().for_each(|message| Member::step(three.member(1), message));
    three.settle(|message| !is_from_or_to(message, 1));
    (three.served[0].clone(), committed)
}

#[test]
fn raft_serves_a_stale_read_for_a_context_that_comes_again() {
    let (served, committed) = reads_of_raft(["again", "again"]);
    assert_eq!(served.len(), 2);
    assert!(served[1] < committed, "{served:?}, {committed} was committed before");
}

#[test]
fn raft_serves_none_for_a_context_of_its_own() {
    let (served, committed) = reads_of_raft(["one", "another"]);
    assert_eq!(served.len(), 1);
    assert!(served[0] < committed);
}

fn restored() -> Restored {
    Restored {
        membership: Membership::from_voters([1, 2, 3]),
        snapshot_index: 1,
        snapshot_term: 1,
        applied_index: 1,
        ..Restored::default()
    }
}

/// Three of our replicas, each with this boot id.
fn three_of_ours(boot_id: u64) -> Three<Replica> {
    let start = |id| Replica::new(Config::new(id, 42, boot_id), restored()).unwrap();
    let members = [1, 2, 3].map(start);
    let mut three = Three { members, served: Default::default() };
    three.member(1).campaign().unwrap();
    three.settle(|_| true);
    three
}

#[test]
fn ours_serves_no_stale_read_when_an_acknowledgement_is_late() {
    let mut three = three_of_ours(1);
    three.member(1).read_index().unwrap();
    let late = three.settle(|message| !is_late_acknowledgement(message));
    assert_eq!((three.served[0].len(), late.len()), (1, 1));
    three.member(3).miss_leader(1);
    three.member(2).campaign().unwrap();
    three.settle(|message| !is_from_or_to(message, 1));
    three.member(2).propose(Bytes::from("new")).unwrap();
    three.settle(|message| !is_from_or_to(message, 1));
    assert_eq!(three.member(2).status().role, Role::Leader);
    three.member(1).read_index().unwrap();
    // The index is asked for repeatedly, until the election timeout is nearly over.
    for _ in 0..Config::new(1, 42, 1).election_ticks - 1 {
        three.member(1).tick();
        three.settle(|message| !is_from_or_to(message, 1));
    }
    assert_eq!(three.member(1).status().role, Role::Leader);
    late.iter().for_each(|message| Member::step(three.member(1), message));
    three.settle(|message| !is_from_or_to(message, 1));
    assert_eq!(three.served[0].len(), 1, "a read is served that a deposed leader was asked");
}

/// The contexts of what member 2 asks its leader in one boot: for reads that are answered, and for
/// some that get no answer and are asked again.
fn contexts_of_boot(boot_id: u64) -> Vec<Bytes> {
    let mut three = three_of_ours(boot_id);
    let mut contexts = Vec::new();
    for round in 0..60 {
        // Member 2 hears from the leader, so it keeps asking.
        three.member(1).tick();
        three.member(2).tick();
        if round % 3 == 0 {
            three.member(2).read_index().unwrap();
        }
        let is_answered = round % 20 < 10;
        let asked = core::cell::RefCell::new(Vec::new());
        three.settle(|message| {
            let is_request = message.get_msg_type() == MessageType::MsgReadIndex;
            if is_request && message.from == 2 {
                asked.borrow_mut().push(message.entries[0].data.clone());
            }
            is_answered || !is_request
        });
        contexts.extend(asked.into_inner());
    }
    contexts
}

#[test]
fn contexts_of_ours_are_unique_over_retries_and_restarts() {
    let mut seen = BTreeSet::new();
    for boot_id in 1..=3 {
        let contexts = contexts_of_boot(boot_id);
        assert!(contexts.len() > 30, "{} contexts", contexts.len());
        for context in contexts {
            assert!(seen.insert(context), "boot {boot_id} uses a context again");
        }
    }
}
