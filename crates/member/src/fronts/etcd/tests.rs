use etcd::pb::etcdserverpb::request_op::Request;
use machine::change::SharedChanges;
use machine::entry;
use machine::{
    BootId, Changes, ControlCommand, LeaseId, LogIndex, MemberId, Origin, Stamp, StatedLevel,
};

use super::*;

mod auth;
mod cluster;
mod locks;
mod v2;
mod v2_users;
use crate::lease::{LeaseTime, NoLeaseTime};
use crate::message::{LeaseAnswered, Submission};
use crate::reply_room::HeldReply;

/// A Front over a machine that applies submitted commands when the test says so.
struct Rig {
    front: EtcdFront,
    machine: Machine,
    submitted: Vec<Submission>,
    /// Messages to Loop, except submissions, syncs and questions about leases, as texts.
    told: Vec<String>,
    results: Vec<(Ticket, CallResult)>,
    pieces: Vec<(Ticket, Reply)>,
    synced: Vec<Ticket>,
    /// Questions about leases that were handed to Loop.
    asked: Vec<(Ticket, LeaseQuestion)>,
    passwords: Vec<(Ticket, PasswordWork)>,
    watched: Vec<(Ticket, WatchMessages)>,
    users: Vec<(Ticket, Arc<str>)>,
    hand_overs: Vec<(Ticket, MemberId)>,
    v2_results: Vec<(Ticket, V2Result)>,
    v2_waited: Vec<(Ticket, V2Waited)>,
}

const ORIGIN: Origin = Origin { member: MemberId(1), boot: BootId(1) };
const CONNECTION: ConnectionId = ConnectionId(9);

impl Rig {
    fn new(is_alone: bool, level: Level) -> Rig {
        let front = EtcdFront::new(EtcdFrontConfig {
            id: FrontId(3),
            connection: CONNECTION,
            is_alone,
            cluster_id: 5,
            member_id: 6,
            shown_id: 6,
            own: OwnMember::default(),
            txn_ops_max: 128,
            request_bytes_max: 1_000,
            piece_bytes: crate::fronts::etcd::limits::ETCD_PIECE_BYTES,
            hold_keys_max: 3,
            token_times: Arc::new(TokenTimes::new(300_000, 0)),
            references: Arc::default(),
            level,
            progress_ms: 10_000,
            watch_bounds: Default::default(),
            watch_seed: 1,
            watch_interest: Arc::default(),
            command_counts: Arc::default(),
            names_users: true,
        });
        let (machine, results) = (Machine::default(), Vec::new());
        let (submitted, told, synced, pieces, asked, passwords, watched) = Default::default();
        Rig {
            front,
            machine,
            submitted,
            told,
            results,
            pieces,
            synced,
            asked,
            passwords,
            watched,
            users: Vec::new(),
            hand_overs: Vec::new(),
            v2_results: Vec::new(),
            v2_waited: Vec::new(),
        }
    }

    fn call(&mut self, method: EtcdMethod, request: &impl Message) -> Ticket {
        self.call_by(Credentials::Nobody, method, request)
    }

    fn call_by(
        &mut self,
        credentials: Credentials,
        method: EtcdMethod,
        request: &impl Message,
    ) -> Ticket {
        let ticket = self.front.on_call(method, request.encode_to_vec().into(), credentials);
        self.take();
        ticket
    }

    /// Runs reads and takes the output.
    fn take(&mut self) {
        while self.front.is_runnable() {
            self.front.run_reads(&self.machine);
        }
        let output = self.front.take_output();
        self.results.extend(output.results);
        self.pieces.extend(output.pieces);
        self.hand_overs.extend(output.hand_overs);
        self.passwords.extend(output.passwords);
        self.users.extend(output.users);
        self.watched.extend(output.watched);
        self.v2_results.extend(output.v2_results);
        self.v2_waited.extend(output.v2_waited);
        for message in output.to_loop {
            match message {
                ToLoop::Submit(submission) => self.submitted.push(submission),
                ToLoop::Sync(caller) => self.synced.push(caller.ticket),
                ToLoop::AskLeases(questions) => {
                    let asked = questions.into_iter().map(|(of, question)| (of.ticket, question));
                    self.asked.extend(asked);
                }
                other => self.told.push(format!("{other:?}")),
            }
        }
    }

    fn deliver(&mut self, changes: Changes, answers: Vec<Answer>) {
        self.front.on_delivery(Delivery { changes: SharedChanges::new(changes), answers });
        self.take();
    }

    /// Applies everything that was submitted, and delivers the answers.
    fn apply(&mut self) {
        let (mut answers, mut changes) = (Vec::new(), Changes::default());
        for submission in core::mem::take(&mut self.submitted) {
            assert_eq!(submission.front, FrontId(3));
            let level = submission.batch.level;
            let payload = entry::encode(1, 0, level, &[submission.batch.stamp(ORIGIN, 1)]);
            let batch = entry::decode_batch(&payload, entry::HEADER_BYTES).unwrap();
            let commands = batch.commands(0, usize::MAX).unwrap();
            assert_eq!(commands.len(), submission.waiters.len());
            for (framed, waiter) in commands.iter().zip(submission.waiters) {
                let Waiter { connection, ticket, .. } = waiter;
                let identities = &batch.identities[framed.identity_list][..];
                let stamp = Stamp { time_ms: 0, origin: ORIGIN, connection, identities };
                let reply = self.machine.apply(&stamp, &framed.command, &mut changes);
                let (mark, reads) = (reply.mark, Vec::new());
                let answered = Ok(reply.outcome);
                answers.push(Answer::Command { connection, ticket, mark, answered, reads });
            }
        }
        self.deliver(changes, answers);
    }

    /// Applies a command of another member, and delivers its changes.
    fn run_etcd(&mut self, command: EtcdCommand<'_>) {
        let connection = ConnectionId(0);
        let stamp = Stamp { time_ms: 0, origin: ORIGIN, connection, identities: &[] };
        let mut changes = Changes::default();
        changes.etcd.set_wants_keys(true);
        let reply = self.machine.apply(&stamp, &Command::Etcd(command), &mut changes);
        assert!(matches!(reply.outcome, Outcome::Etcd(Ok(_))), "{:?}", reply.outcome);
        self.front.on_delivery(Delivery { changes: SharedChanges::new(changes), answers: vec![] });
    }

    /// Delivers the answer to a sync: this member has applied what the call waits for.
    fn sync(&mut self, ticket: Ticket) {
        let mark = self.machine.mark();
        let synced = Answer::Synced { connection: CONNECTION, ticket, mark };
        self.deliver(Changes::default(), vec![synced]);
    }

    /// Delivers the leader's answer to a question about a lease.
    fn answer_lease(&mut self, ticket: Ticket, answered: LeaseAnswered) {
        let (connection, mark) = (CONNECTION, self.machine.mark());
        let answer = Answer::Lease { connection, ticket, mark, answered };
        self.deliver(Changes::default(), vec![answer]);
    }

    /// Delivers the error of a command without an outcome.
    fn fail(&mut self, ticket: Ticket, why: Unavailable) {
        let (connection, mark, reads) = (CONNECTION, self.machine.mark(), Vec::new());
        let answer = Answer::Command { connection, ticket, mark, answered: Err(why), reads };
        self.deliver(Changes::default(), vec![answer]);
    }

    fn result<M: Message + Default>(&mut self, ticket: Ticket) -> Result<M, CallRefused> {
        let at = self.results.iter().position(|(of, _)| *of == ticket).expect("it is done");
        self.results.remove(at).1.map(|reply| decoded(&reply))
    }

    /// The message of a streamed read; the flag says whether it is the last one.
    fn piece(&mut self, ticket: Ticket) -> Result<(pb::RangeResponse, bool), CallRefused> {
        let at = self.pieces.iter().position(|(of, _)| *of == ticket);
        let response: pb::RangeStreamResponse = match at {
            Some(at) => decoded(&self.pieces.remove(at).1),
            None => self.result(ticket)?,
        };
        Ok((response.range_response.expect("each piece has it"), at.is_none()))
    }

    /// Takes a streamed read piece by piece up to its end, and merges the pieces as a client does.
    /// `between` runs before each further piece is asked for. Also returns the number of pieces.
    fn stream(
        &mut self,
        ticket: Ticket,
        mut between: impl FnMut(&mut Rig),
    ) -> (pb::RangeResponse, usize) {
        let mut merged = pb::RangeResponse::default();
        for count in 1.. {
            let (piece, is_last) = self.piece(ticket).expect("it is not refused");
            assert_eq!(piece.header.is_some(), is_last);
            merged.kvs.extend(piece.kvs);
            if is_last {
                let pb::RangeResponse { header, more, count: keys, .. } = piece;
                return (pb::RangeResponse { header, more, count: keys, ..merged }, count);
            }
            assert!((piece.more, piece.count) == (false, 0));
            self.take();
            assert!(self.pieces.is_empty(), "one message is under way");
            between(self);
            self.front.on_taken(ticket);
            self.take();
        }
        unreachable!()
    }

    fn put(&mut self, key: &'static str, value: &'static str) -> pb::PutResponse {
        let ticket = self.call(EtcdMethod::Put, &a_put(key, value));
        self.apply();
        self.result(ticket).expect("it is not refused")
    }

    /// Checks that no call is left and no credit is taken.
    fn check_empty(&self) {
        assert_eq!(self.front.call_count(), 0);
        assert_eq!((self.front.commands.count, self.front.commands.bytes), (0, 0));
        assert!(self.results.is_empty() && self.submitted.is_empty() && self.pieces.is_empty());
    }
}

fn decoded<M: Message + Default>(reply: &Reply) -> M {
    let mut bytes = Vec::new();
    reply.write(&mut bytes);
    assert_eq!(bytes.len(), reply.bytes());
    M::decode(&bytes[..]).expect("it is a response")
}

fn a_put(key: &'static str, value: &'static str) -> pb::PutRequest {
    pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() }
}

fn a_range(key: &'static str, serializable: bool) -> pb::RangeRequest {
    pb::RangeRequest { key: key.into(), serializable, ..Default::default() }
}

#[test]
fn a_put_and_a_range_have_their_responses() {
    let mut rig = Rig::new(true, Level::ETCD);
    rig.front.set_now(Now { monotonic_ms: 0, raft_term: 7, contact_at_ms: None });
    let header = rig.put("a", "1").header.unwrap();
    let expected = pb::ResponseHeader { cluster_id: 5, member_id: 6, revision: 2, raft_term: 7 };
    assert_eq!(header, expected);
    let ticket = rig.call(EtcdMethod::Range, &a_range("a", false));
    let found: pb::RangeResponse = rig.result(ticket).unwrap();
    assert_eq!((found.count, &found.kvs[0].value[..]), (1, &b"1"[..]));
    assert!(rig.synced.is_empty(), "a member that is alone has every write");
    rig.check_empty();
}

#[test]
fn a_linearizable_read_of_a_member_of_an_ensemble_waits_for_what_is_committed() {
    let mut rig = Rig::new(false, Level::ETCD);
    let local = rig.call(EtcdMethod::Range, &a_range("a", true));
    assert!(rig.result::<pb::RangeResponse>(local).is_ok());
    let range = |serializable| pb::RequestOp {
        request: Some(Request::RequestRange(a_range("a", serializable))),
    };
    let of = |success| pb::TxnRequest { success, ..Default::default() };
    let local = rig.call(EtcdMethod::Txn, &of(vec![range(true), range(true)]));
    assert!(rig.result::<pb::TxnResponse>(local).is_ok());
    let ticket = rig.call(EtcdMethod::Range, &a_range("a", false));
    let txn = rig.call(EtcdMethod::Txn, &of(vec![range(true), range(false)]));
    assert_eq!(rig.synced, [ticket, txn]);
    assert!(rig.results.is_empty());
    for ticket in [ticket, txn] {
        let mark = rig.machine.mark();
        let synced = Answer::Synced { connection: CONNECTION, ticket, mark };
        rig.deliver(Changes::default(), vec![synced]);
    }
    assert!(rig.result::<pb::RangeResponse>(ticket).is_ok());
    assert!(rig.result::<pb::TxnResponse>(txn).is_ok());
    rig.check_empty();
}

#[test]
fn a_write_waits_until_the_level_allows_it() {
    let mut rig = Rig::new(true, Level::FIRST);
    let ticket = rig.call(EtcdMethod::Put, &a_put("a", "1"));
    let refused = rig.call(EtcdMethod::Put, &a_put("", "1"));
    assert_eq!(rig.result::<pb::PutResponse>(refused), Err(Error::EmptyKey.into()));
    assert_eq!(rig.told, ["Need(Level(2))"]);
    assert!(rig.submitted.is_empty());
    let mut changes = Changes::default();
    changes.control.push(ControlChange::Raised(StatedLevel::from(Level::ETCD)));
    rig.deliver(changes, Vec::new());
    rig.apply();
    assert!(rig.result::<pb::PutResponse>(ticket).is_ok());
    rig.check_empty();
    // A snapshot may raise the level.
    let mut rig = Rig::new(true, Level::FIRST);
    let ticket = rig.call(EtcdMethod::Put, &a_put("a", "1"));
    rig.raise(Level::ETCD);
    let mut changes = Changes::default();
    changes.on_snapshot(&rig.machine);
    rig.deliver(changes, Vec::new());
    rig.apply();
    assert!(rig.result::<pb::PutResponse>(ticket).is_ok());
    rig.check_empty();
    // If the level never rises, the call fails as not capable.
    let mut rig = Rig::new(true, Level::FIRST);
    let ticket = rig.call(EtcdMethod::Put, &a_put("a", "1"));
    rig.front.set_now(Now { monotonic_ms: ETCD_CALL_MS_MAX, raft_term: 1, contact_at_ms: None });
    rig.front.on_tick();
    rig.take();
    assert_eq!(rig.result::<pb::PutResponse>(ticket), Err(Error::NotCapable.into()));
    rig.check_empty();
}

#[test]
fn a_cancelled_write_is_given_up_once_and_has_no_result() {
    let mut rig = Rig::new(true, Level::ETCD);
    let ticket = rig.call(EtcdMethod::Put, &a_put("a", "1"));
    for _ in 0..2 {
        rig.front.on_cancel(ticket);
        rig.take();
    }
    assert_eq!(rig.told, ["GiveUp(FrontId(3), [(ConnectionId(9), Ticket(0))])"]);
    rig.submitted.clear();
    rig.fail(ticket, Unavailable::GivenUp(Fate::Unknown));
    rig.check_empty();
}

#[test]
fn a_late_call_is_told_whether_it_may_still_take_effect() {
    let mut rig = Rig::new(false, Level::ETCD);
    let tickets = ["a", "b", "c"].map(|key| rig.call(EtcdMethod::Put, &a_put(key, "1")));
    let read = rig.call(EtcdMethod::Range, &a_range("a", false));
    for (now_ms, told) in [(ETCD_CALL_MS_MAX - 1, 0), (ETCD_CALL_MS_MAX, 1)] {
        rig.front.set_now(Now { monotonic_ms: now_ms, raft_term: 1, contact_at_ms: None });
        rig.front.on_tick();
        rig.take();
        assert_eq!(rig.told.len(), told);
    }
    assert_eq!(rig.result::<pb::RangeResponse>(read), Err(Error::TimedOut.into()));
    let leaderless = ETCD_CALL_MS_MAX - ETCD_NO_LEADER_MS;
    for (ticket, fate, contact_at_ms, error) in [
        (tickets[0], Fate::Definite, leaderless, Error::NoLeader),
        (tickets[1], Fate::Definite, leaderless + 1, Error::TimedOut),
        (tickets[2], Fate::Unknown, leaderless, Error::TimedOut),
    ] {
        let contact_at_ms = Some(contact_at_ms);
        rig.front.set_now(Now { monotonic_ms: ETCD_CALL_MS_MAX, raft_term: 1, contact_at_ms });
        rig.fail(ticket, Unavailable::GivenUp(fate));
        assert_eq!(rig.result::<pb::PutResponse>(ticket), Err(error.into()));
    }
    rig.submitted.clear();
    rig.check_empty();
}

#[test]
fn a_refused_request_is_told_why_and_harms_no_other() {
    let mut rig = Rig::new(true, Level::ETCD);
    let garbage =
        rig.front.on_call(EtcdMethod::Put, Bytes::from_static(&[0xff, 0xff]), Credentials::Nobody);
    rig.take();
    assert_eq!(rig.result::<pb::PutResponse>(garbage), Err(CallRefused::Malformed));
    let put =
        pb::PutRequest { key: "a".into(), value: vec![0; 1_000].into(), ..Default::default() };
    let large = rig.call(EtcdMethod::Put, &put);
    assert_eq!(rig.result::<pb::PutResponse>(large), Err(Error::RequestTooLarge.into()));
    let range = pb::RangeRequest { revision: 2, ..a_range("a", false) };
    let future = rig.call(EtcdMethod::Range, &range);
    assert_eq!(rig.result::<pb::RangeResponse>(future), Err(Error::FutureRevision.into()));
    let compact = pb::CompactionRequest { revision: 9, physical: false };
    let compact = rig.call(EtcdMethod::Compact, &compact);
    rig.apply();
    assert_eq!(rig.result::<pb::CompactionResponse>(compact), Err(Error::FutureRevision.into()));
    rig.put("a", "1");
    rig.check_empty();
}

#[test]
fn a_physical_compaction_is_done_when_the_memory_is_free() {
    let mut rig = Rig::new(true, Level::ETCD);
    rig.put("a", "1");
    rig.put("a", "2");
    let compact = pb::CompactionRequest { revision: 3, physical: true };
    let ticket = rig.call(EtcdMethod::Compact, &compact);
    rig.apply();
    assert!(rig.results.is_empty());
    assert!(rig.front.waits_for_tick());
    rig.machine.prune();
    rig.front.on_tick();
    rig.take();
    assert!(!rig.front.waits_for_tick());
    assert!(rig.result::<pb::CompactionResponse>(ticket).is_ok());
    rig.check_empty();
}

#[test]
fn a_physical_compaction_beside_a_snapshot_is_done_when_the_memory_is_free() {
    let mut rig = Rig::new(true, Level::ETCD);
    rig.put("a", "1");
    rig.put("a", "2");
    rig.machine.freeze();
    let compact = pb::CompactionRequest { revision: 3, physical: true };
    let ticket = rig.call(EtcdMethod::Compact, &compact);
    rig.apply();
    rig.machine.prune();
    rig.front.on_tick();
    rig.take();
    assert!(rig.results.is_empty(), "the snapshot holds the versions");
    rig.machine.thaw();
    rig.machine.prune();
    rig.front.on_tick();
    rig.take();
    assert!(rig.result::<pb::CompactionResponse>(ticket).is_ok());
    rig.check_empty();
}

#[test]
fn commands_under_way_when_the_state_is_replaced_have_an_unknown_fate() {
    let mut rig = Rig::new(false, Level::ETCD);
    let ticket = rig.call(EtcdMethod::Put, &a_put("a", "1"));
    let mut changes = Changes::default();
    changes.on_snapshot(&rig.machine);
    rig.deliver(changes, Vec::new());
    assert_eq!(rig.result::<pb::PutResponse>(ticket), Err(Error::TimedOut.into()));
    // A command that no leader has yet must not take effect in a later term.
    assert_eq!(rig.told, ["GiveUp(FrontId(3), [(ConnectionId(9), Ticket(0))])"]);
    // An answer that comes all the same is ignored.
    rig.apply();
    rig.machine.finish_entry(LogIndex(2));
    rig.check_empty();
}

/// A rig whose store has `count` keys, each with a value of `value_bytes` bytes.
fn rig_with_keys(count: usize, value_bytes: usize) -> Rig {
    let mut rig = Rig::new(true, Level::ETCD);
    rig.front.config.request_bytes_max = 1 << 20;
    for number in 0..count {
        let (key, value) = (format!("k{number:05}").into(), vec![7; value_bytes].into());
        let ticket =
            rig.call(EtcdMethod::Put, &pb::PutRequest { key, value, ..Default::default() });
        rig.apply();
        assert!(rig.result::<pb::PutResponse>(ticket).is_ok());
    }
    rig
}

fn all_keys() -> pb::RangeRequest {
    let everything = Bytes::from_static(b"\0");
    pb::RangeRequest { key: everything.clone(), range_end: everything, ..Default::default() }
}

#[test]
fn the_pieces_of_a_streamed_read_merge_to_the_response_of_the_read() {
    let mut rig = rig_with_keys(2_500, 900);
    let check = |rig: &mut Rig, request: &pb::RangeRequest, pieces: usize| {
        let whole = rig.call(EtcdMethod::Range, request);
        let whole: pb::RangeResponse = rig.result(whole).unwrap();
        let ticket = rig.call(EtcdMethod::RangeStream, request);
        let (merged, count) = rig.stream(ticket, |_| {});
        assert!(merged == whole, "{request:?}");
        assert_eq!(count, pieces, "{request:?}");
        rig.check_empty();
    };
    // With 900 bytes and a short key, 282 keys exceed 256 KiB. Without values, a piece has 1,000
    // keys.
    let of = |limit: i64| pb::RangeRequest { limit, ..all_keys() };
    check(&mut rig, &all_keys(), 9);
    check(&mut rig, &pb::RangeRequest { keys_only: true, ..all_keys() }, 3);
    check(&mut rig, &of(-1), 9);
    check(&mut rig, &of(1), 1);
    check(&mut rig, &of(2_499), 9);
    check(&mut rig, &of(2_500), 9);
    check(&mut rig, &pb::RangeRequest { limit: 1_000, keys_only: true, ..all_keys() }, 1);
    check(&mut rig, &pb::RangeRequest { limit: 2_001, keys_only: true, ..all_keys() }, 3);
    check(&mut rig, &pb::RangeRequest { count_only: true, ..all_keys() }, 1);
    check(&mut rig, &pb::RangeRequest { revision: 700, ..all_keys() }, 3);
    check(&mut rig, &pb::RangeRequest { sort_order: 1, ..all_keys() }, 9);
    check(&mut rig, &a_range("k00007", false), 1);
    check(&mut rig, &a_range("absent", true), 1);
    let between =
        pb::RangeRequest { key: "k00100".into(), range_end: "k00900".into(), ..all_keys() };
    check(&mut rig, &between, 3);
    check(&mut rig, &pb::RangeRequest { key: "z".into(), range_end: "a".into(), ..all_keys() }, 1);
}

#[test]
fn a_streamed_read_shows_one_revision_whatever_is_written_meanwhile() {
    let mut rig = rig_with_keys(30, 100_000);
    let whole = rig.call(EtcdMethod::Range, &all_keys());
    let whole: pb::RangeResponse = rig.result(whole).unwrap();
    let ticket = rig.call(EtcdMethod::RangeStream, &all_keys());
    let (merged, count) = rig.stream(ticket, |rig| {
        rig.put("k00029", "changed");
        rig.put("k000295", "new");
        let end = pb::DeleteRangeRequest { key: "k00028".into(), ..Default::default() };
        let end = rig.call(EtcdMethod::DeleteRange, &end);
        rig.apply();
        assert!(rig.result::<pb::DeleteRangeResponse>(end).is_ok());
    });
    assert!(merged == whole);
    assert_eq!(count, 10);
}

/// The first piece takes several holds, so no client has seen its revision yet (seed 1000004719
/// with three members).
#[test]
fn a_streamed_read_begins_anew_where_the_revision_of_its_first_piece_is_gone() {
    let mut rig = Rig::new(true, Level::ETCD);
    for key in ["a", "b", "c", "d", "e", "f"] {
        rig.put(key, "1");
    }
    let ticket = rig.front.on_call(
        EtcdMethod::RangeStream,
        all_keys().encode_to_vec().into(),
        Credentials::Nobody,
    );
    rig.front.run_reads(&rig.machine);
    assert!(rig.front.is_runnable(), "three keys are read in a hold");
    for key in ["a", "g"] {
        let request = a_put(key, "2");
        let put = convert::put(&request).unwrap();
        rig.run_etcd(EtcdCommand::Put(put));
    }
    let revision = rig.machine.etcd().revision();
    rig.run_etcd(EtcdCommand::Compact { revision });
    rig.take();
    let (found, _) = rig.stream(ticket, |_| {});
    assert_eq!((found.count, found.kvs.len()), (7, 7));
    assert_eq!(found.kvs[0].value, "2");
    rig.check_empty();
}

#[test]
fn a_streamed_read_ends_as_compacted_where_its_revision_is_gone() {
    let mut rig = rig_with_keys(30, 100_000);
    let ticket = rig.call(EtcdMethod::RangeStream, &all_keys());
    assert!(!rig.piece(ticket).unwrap().1);
    rig.put("a", "1");
    let compact =
        rig.call(EtcdMethod::Compact, &pb::CompactionRequest { revision: 32, physical: false });
    rig.apply();
    assert!(rig.result::<pb::CompactionResponse>(compact).is_ok());
    rig.front.on_taken(ticket);
    rig.take();
    assert_eq!(rig.piece(ticket).unwrap_err(), Error::Compacted.into());
    rig.check_empty();
    // After a replacement of the state, a stream does not go on with the new state's keys.
    let tickets = [(); 2].map(|()| rig.call(EtcdMethod::RangeStream, &all_keys()));
    for ticket in tickets {
        assert!(!rig.piece(ticket).unwrap().1);
    }
    rig.front.on_taken(tickets[1]);
    let mut changes = Changes::default();
    changes.on_snapshot(&rig.machine);
    rig.deliver(changes, Vec::new());
    rig.front.on_taken(tickets[0]);
    rig.take();
    for ticket in tickets {
        assert_eq!(rig.piece(ticket).unwrap_err(), Error::Compacted.into());
    }
    rig.check_empty();
}

#[test]
fn a_streamed_read_is_refused_as_the_read_is_and_cancelled_at_any_time() {
    let mut rig = rig_with_keys(30, 100_000);
    let check = |rig: &mut Rig, request: &pb::RangeRequest, expected: CallRefused| {
        let ticket = rig.call(EtcdMethod::RangeStream, request);
        assert_eq!(rig.piece(ticket).unwrap_err(), expected);
        rig.check_empty();
    };
    check(&mut rig, &a_range("", false), Error::EmptyKey.into());
    let future = pb::RangeRequest { revision: 99, ..all_keys() };
    check(&mut rig, &future, Error::FutureRevision.into());
    let order = "RangeStream does not support custom sort orders";
    let descending = pb::RangeRequest { sort_order: 2, ..all_keys() };
    check(&mut rig, &descending, CallRefused::Unimplemented(order));
    let ticket = rig.call(EtcdMethod::RangeStream, &all_keys());
    assert!(!rig.piece(ticket).unwrap().1);
    rig.front.on_cancel(ticket);
    rig.check_empty();
    // The driver may report a cancelled call's message as taken, because it is late.
    rig.front.on_taken(ticket);
    rig.take();
    rig.check_empty();
    let ticket = rig.call(EtcdMethod::RangeStream, &all_keys());
    assert!(!rig.piece(ticket).unwrap().1);
    rig.front.on_taken(ticket);
    rig.front.on_cancel(ticket);
    rig.take();
    rig.check_empty();
}

#[test]
fn a_streamed_read_waits_for_the_sync_in_time_and_for_its_client_for_ever() {
    let mut rig = Rig::new(false, Level::ETCD);
    let late = rig.call(EtcdMethod::RangeStream, &all_keys());
    assert_eq!(rig.synced, [late]);
    rig.front.set_now(Now { monotonic_ms: ETCD_CALL_MS_MAX, raft_term: 1, contact_at_ms: None });
    rig.front.on_tick();
    rig.take();
    assert_eq!(rig.piece(late).unwrap_err(), Error::TimedOut.into());
    let mut rig = rig_with_keys(30, 100_000);
    let ticket = rig.call(EtcdMethod::RangeStream, &all_keys());
    let mut now_ms = 0;
    let (merged, _) = rig.stream(ticket, |rig| {
        now_ms += ETCD_CALL_MS_MAX;
        rig.front.set_now(Now { monotonic_ms: now_ms, raft_term: 1, contact_at_ms: None });
        rig.front.on_tick();
    });
    assert_eq!(merged.kvs.len(), 30);
}

fn grant(rig: &mut Rig, id: i64, ttl: i64) -> Result<pb::LeaseGrantResponse, CallRefused> {
    let ticket = rig.call(EtcdMethod::LeaseGrant, &pb::LeaseGrantRequest { id, ttl });
    rig.apply();
    rig.result(ticket)
}

/// The leader's answer for a lease with this granted time and this time left.
fn left(granted_s: i64, left_ms: u64) -> LeaseAnswered {
    Ok(Some(LeaseTime { granted_s, left_ms }))
}

#[test]
fn leases_are_granted_and_revoked_with_the_responses_of_etcd() {
    let mut rig = Rig::new(true, Level::ETCD);
    rig.put("a", "1");
    let granted = grant(&mut rig, 7, 1).unwrap();
    assert_eq!((granted.id, granted.ttl, granted.header.unwrap().revision), (7, 2, 2));
    assert_eq!(grant(&mut rig, 7, 60), Err(Error::LeaseExists.into()));
    assert_eq!(grant(&mut rig, 8, 9_000_000_001), Err(Error::LeaseTtlTooLarge.into()));
    let chosen = grant(&mut rig, 0, 60).unwrap();
    assert!(chosen.id > 0);
    let put = pb::PutRequest { lease: 7, ..a_put("b", "2") };
    let ticket = rig.call(EtcdMethod::Put, &put);
    rig.apply();
    assert!(rig.result::<pb::PutResponse>(ticket).is_ok());
    let leases = rig.call(EtcdMethod::LeaseLeases, &pb::LeaseLeasesRequest {});
    let leases: pb::LeaseLeasesResponse = rig.result(leases).unwrap();
    let mut ids: Vec<i64> = leases.leases.iter().map(|lease| lease.id).collect();
    ids.sort_unstable();
    assert_eq!((ids, leases.header.unwrap().revision), (vec![7, chosen.id], 3));
    let mut revoke = |id| {
        let ticket = rig.call(EtcdMethod::LeaseRevoke, &pb::LeaseRevokeRequest { id });
        rig.apply();
        rig.result::<pb::LeaseRevokeResponse>(ticket)
    };
    assert_eq!(revoke(7).unwrap().header.unwrap().revision, 4, "it took a key with it");
    assert_eq!(revoke(7), Err(Error::LeaseNotFound.into()));
    rig.check_empty();
}

#[test]
fn a_keep_alive_has_the_revision_of_the_moment_at_which_it_came() {
    let mut rig = Rig::new(false, Level::ETCD);
    grant(&mut rig, 7, 60).unwrap();
    let keep = |rig: &mut Rig, id| {
        let ticket = rig.call(EtcdMethod::LeaseKeepAlive, &pb::LeaseKeepAliveRequest { id });
        assert_eq!(
            rig.asked.pop().unwrap(),
            (ticket, LeaseQuestion { lease: LeaseId(id), renews: true })
        );
        ticket
    };
    let (known, unknown) = (keep(&mut rig, 7), keep(&mut rig, 8));
    rig.put("a", "1");
    rig.answer_lease(unknown, Ok(None));
    rig.answer_lease(known, left(60, 60_000));
    let kept: pb::LeaseKeepAliveResponse = rig.result(known).unwrap();
    assert_eq!((kept.id, kept.ttl, kept.header.unwrap().revision), (7, 60, 1));
    let gone: pb::LeaseKeepAliveResponse = rig.result(unknown).unwrap();
    assert_eq!((gone.id, gone.ttl), (8, 0), "that is no error");
    for (why, error) in [
        (NoLeaseTime::NoLeader, Error::NoLeader),
        (NoLeaseTime::TimedOut, Error::TimedOut),
        (NoLeaseTime::TooManyRequests, Error::TooManyRequests),
    ] {
        let ticket = keep(&mut rig, 7);
        rig.answer_lease(ticket, Err(why));
        assert_eq!(rig.result::<pb::LeaseKeepAliveResponse>(ticket), Err(error.into()));
    }
    // One call that is cancelled, and one that is late.
    let cancelled = keep(&mut rig, 7);
    rig.front.on_cancel(cancelled);
    rig.answer_lease(cancelled, left(60, 60_000));
    let late = keep(&mut rig, 7);
    rig.front.set_now(Now { monotonic_ms: ETCD_CALL_MS_MAX, raft_term: 1, contact_at_ms: None });
    rig.front.on_tick();
    rig.take();
    assert_eq!(rig.result::<pb::LeaseKeepAliveResponse>(late), Err(Error::TimedOut.into()));
    rig.check_empty();
}

#[test]
fn the_time_to_live_is_told_in_whole_seconds_with_the_keys_if_they_are_wanted() {
    let mut rig = Rig::new(false, Level::ETCD);
    grant(&mut rig, 7, 60).unwrap();
    for key in ["b", "a"] {
        let ticket = rig.call(EtcdMethod::Put, &pb::PutRequest { lease: 7, ..a_put(key, "1") });
        rig.apply();
        assert!(rig.result::<pb::PutResponse>(ticket).is_ok());
    }
    let mut check = |id, keys, answered, expected: (i64, i64, &[&str])| {
        let ticket =
            rig.call(EtcdMethod::LeaseTimeToLive, &pb::LeaseTimeToLiveRequest { id, keys });
        let question = LeaseQuestion { lease: LeaseId(id), renews: false };
        assert_eq!(rig.asked.pop(), Some((ticket, question)));
        rig.answer_lease(ticket, answered);
        let found: pb::LeaseTimeToLiveResponse = rig.result(ticket).unwrap();
        assert_eq!((found.id, found.header.unwrap().revision), (id, 3));
        assert_eq!(
            (found.ttl, found.granted_ttl, &found.keys[..]),
            (
                expected.0,
                expected.1,
                &expected
                    .2
                    .iter()
                    .map(|key| Bytes::copy_from_slice(key.as_bytes()))
                    .collect::<Vec<_>>()[..]
            )
        );
    };
    check(7, false, left(60, 60_000), (59, 60, &[]));
    check(7, true, left(60, 1_001), (1, 60, &["a", "b"]));
    check(7, true, left(60, 0), (0, 60, &["a", "b"]));
    check(7, true, Ok(None), (-1, 0, &[]));
    // The leader knew the lease, but it has ended on this member.
    check(8, true, left(60, 1_001), (-1, 0, &[]));
    rig.check_empty();
}

#[test]
fn questions_about_leases_wait_until_the_level_has_them() {
    let mut rig = Rig::new(false, Level::FIRST);
    let ticket = rig.call(EtcdMethod::LeaseKeepAlive, &pb::LeaseKeepAliveRequest { id: 7 });
    assert_eq!(rig.told, ["Need(Level(2))"]);
    assert!(rig.asked.is_empty());
    let mut changes = Changes::default();
    changes.control.push(ControlChange::Raised(StatedLevel::from(Level::ETCD)));
    rig.deliver(changes, Vec::new());
    assert_eq!(rig.asked.len(), 1);
    rig.answer_lease(ticket, Ok(None));
    let gone: pb::LeaseKeepAliveResponse = rig.result(ticket).unwrap();
    assert_eq!(gone.ttl, 0);
    rig.check_empty();
}

impl Rig {
    /// Begins a read of a range, and runs one hold of it.
    fn begin_range(&mut self, request: &pb::RangeRequest) -> Ticket {
        let ticket = self.front.on_call(
            EtcdMethod::Range,
            request.encode_to_vec().into(),
            Credentials::Nobody,
        );
        self.front.run_reads(&self.machine);
        ticket
    }

    /// Raises the level of the state. The Front does not learn of it.
    fn raise(&mut self, level: Level) {
        let stamp = Stamp { time_ms: 0, origin: ORIGIN, connection: CONNECTION, identities: &[] };
        let raise = Command::Control(ControlCommand::Raise(level.into()));
        self.machine.apply(&stamp, &raise, &mut Changes::default());
    }

    /// Applies a command of another Front.
    fn apply_command(&mut self, command: EtcdCommand<'_>) {
        let stamp = Stamp { time_ms: 0, origin: ORIGIN, connection: CONNECTION, identities: &[] };
        self.machine.apply(&stamp, &Command::Etcd(command), &mut Changes::default());
    }
}

#[test]
fn a_long_read_shows_one_revision_or_begins_anew_once_that_is_compacted() {
    let texts = |response: &pb::RangeResponse| {
        let kvs = response.kvs.iter();
        kvs.map(|kv| format!("{}@{}", kv.key.escape_ascii(), kv.mod_revision)).collect::<Vec<_>>()
    };
    // The last hold looks at the seventh key only.
    let mut rig = rig_with_keys(7, 1);
    let whole = rig.call(EtcdMethod::Range, &all_keys());
    let whole: pb::RangeResponse = rig.result(whole).unwrap();
    let change = |rig: &mut Rig| {
        for key in ["k00000", "k00006"] {
            rig.apply_command(EtcdCommand::Put(convert::put(&a_put(key, "new")).unwrap()));
        }
    };
    let ticket = rig.begin_range(&all_keys());
    change(&mut rig);
    rig.take();
    assert_eq!(rig.result::<pb::RangeResponse>(ticket), Ok(whole.clone()));
    // A page ends where it would in a read of one hold, and counts the remaining keys at its
    // revision.
    let page = pb::RangeRequest { limit: 4, revision: 8, ..all_keys() };
    let ticket = rig.begin_range(&page);
    change(&mut rig);
    rig.take();
    let shown: pb::RangeResponse = rig.result(ticket).unwrap();
    assert_eq!((texts(&shown), shown.count, shown.more), (texts(&whole)[..4].to_vec(), 7, true));
    // The present revision advances: the read without a revision begins anew, and the read at that
    // revision is refused.
    let tickets = [8, 0].map(|revision| {
        rig.begin_range(&pb::RangeRequest { revision, sort_order: 2, ..all_keys() })
    });
    change(&mut rig);
    let newest = rig.machine.etcd().revision();
    rig.apply_command(EtcdCommand::Compact { revision: newest });
    rig.take();
    assert_eq!(rig.result::<pb::RangeResponse>(tickets[0]), Err(Error::Compacted.into()));
    let anew: pb::RangeResponse = rig.result(tickets[1]).unwrap();
    assert_eq!(anew.header.as_ref().map(|header| header.revision), Some(newest));
    let again = rig.call(EtcdMethod::Range, &pb::RangeRequest { sort_order: 2, ..all_keys() });
    assert_eq!(rig.result::<pb::RangeResponse>(again), Ok(anew));
    rig.check_empty();
}

#[test]
fn long_reads_wait_for_room_for_what_they_may_find_and_short_ones_do_not() {
    let mut rig = rig_with_keys(1_100, 1);
    rig.front.config.hold_keys_max = 1_000;
    let room = rig.front.config.references.clone();
    let full = crate::limits::REPLIES_BYTES_MAX as usize;
    let others = HeldReply::new(&room, full);
    let txn = pb::TxnRequest {
        success: vec![pb::RequestOp { request: Some(Request::RequestRange(all_keys())) }],
        ..Default::default()
    };
    let long = rig.call(EtcdMethod::Range, &all_keys());
    let long_txn = rig.call(EtcdMethod::Txn, &txn);
    let page = rig.call(EtcdMethod::Range, &pb::RangeRequest { limit: 500, ..all_keys() });
    assert_eq!(rig.result::<pb::RangeResponse>(page).unwrap().kvs.len(), 500);
    let count = rig.call(EtcdMethod::Range, &pb::RangeRequest { count_only: true, ..all_keys() });
    assert_eq!(rig.result::<pb::RangeResponse>(count).unwrap().count, 1_100);
    rig.front.on_tick();
    rig.take();
    assert!(rig.results.is_empty());
    drop(others);
    rig.front.on_tick();
    rig.take();
    // Room for the references is taken until the response is encoded.
    assert_eq!(room.bytes(), 2 * 16 * 1_100);
    assert_eq!(rig.result::<pb::RangeResponse>(long).unwrap().kvs.len(), 1_100);
    assert!(rig.result::<pb::TxnResponse>(long_txn).is_ok());
    assert_eq!(room.bytes(), 0);
    // If there is no room within the deadline, the read is refused.
    let others = HeldReply::new(&room, full);
    let late = rig.call(EtcdMethod::Range, &all_keys());
    let now = Now { monotonic_ms: 7_000, ..rig.front.now };
    rig.front.set_now(now);
    rig.front.on_tick();
    rig.take();
    assert_eq!(rig.result::<pb::RangeResponse>(late), Err(Error::TimedOut.into()));
    drop(others);
    rig.check_empty();
}
