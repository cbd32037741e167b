//! The calls of which a lock or an election is made, as in etcd's Go package
//! `client/v3/concurrency` (3.6).

use machine::etcd::command as machine_command;
use machine_command::CompareTarget as MachineTarget;
use machine_command::Op as MachineOp;
use workload::etcd::locks::guarded_value;
use workload::etcd::op::{
    Compare, CompareResult, CompareTarget, DeleteRange, KeyValue, Op, Put, Range, Response,
    SortOrder, SortTarget, Txn, TxnOp,
};

/// The names of the lock and of the election that all contenders want. All keys about them are
/// behind those that other clients delete.
pub const LOCK: &[u8] = b"lock";
/// See [`LOCK`].
pub const ELECTION: &[u8] = b"vote";

/// The prefix of the keys of those who want a name.
pub fn prefix(name: &[u8]) -> Vec<u8> {
    [name, b"/"].concat()
}

/// The end of the range of these keys: the byte behind `/`.
pub fn prefix_end(name: &[u8]) -> Vec<u8> {
    [name, b"0"].concat()
}

/// The key of a session below a name.
pub fn own_key(name: &[u8], lease: i64) -> Vec<u8> {
    [prefix(name).as_slice(), format!("{lease:x}").as_bytes()].concat()
}

/// The key that only the holder of a name writes.
fn guarded_key(name: &[u8]) -> Vec<u8> {
    [b"of-", name].concat()
}

/// The read of one key.
pub fn get(key: &[u8]) -> Range {
    Range { key: key.to_vec(), ..Range::default() }
}

/// The read of the key that was created first.
pub fn first_created(name: &[u8]) -> Range {
    Range {
        key: prefix(name),
        range_end: prefix_end(name),
        limit: 1,
        sort_order: SortOrder::Ascend,
        sort_target: SortTarget::Create,
        ..Range::default()
    }
}

/// The read of the last key that was created before this revision.
pub fn last_created_before(name: &[u8], token: i64) -> Range {
    let sort_order = SortOrder::Descend;
    Range { max_create_revision: token - 1, sort_order, ..first_created(name) }
}

/// The put of the key of a session, unless it exists. A lock reads the holder as well.
pub fn enter(name: &[u8], lease: i64, value: &[u8], reads_holder: bool) -> Op {
    let key = own_key(name, lease);
    let put = Put { key: key.clone(), value: value.to_vec(), lease, ..Put::default() };
    let holder = || reads_holder.then(|| TxnOp::Range(first_created(name)));
    Op::Txn(Txn {
        compares: vec![is_created_at(&key, 0)],
        success: [TxnOp::Put(put)].into_iter().chain(holder()).collect(),
        failure: [TxnOp::Range(get(&key))].into_iter().chain(holder()).collect(),
    })
}

/// What a member does for a `Lock` or a `Campaign` that waits for its turn, read off its command:
/// the put of the key, or the key's removal. The caller compares the whole of it.
pub fn of_part(txn: &machine_command::Txn<'_>) -> Option<Op> {
    let compared: Vec<_> = txn.compares.iter().map(|it| (it.range.key, &it.target)).collect();
    match (&compared[..], &txn.success[..]) {
        ([(_, MachineTarget::Create(0))], [MachineOp::Put(put), _]) => {
            Some(enter_by_service(put.key, put.lease, put.value))
        }
        ([(key, MachineTarget::Create(created))], [MachineOp::Put(put)]) => {
            Some(claim_by_service(key, *created, put.lease, put.value))
        }
        (
            [(key, MachineTarget::Create(created)), (_, MachineTarget::Mod(changed))],
            [MachineOp::DeleteRange(_)],
        ) => Some(leave_by_service(key, *created, *changed)),
        _ => None,
    }
}

/// The put of the key of a lease, also where it exists, and the read of the key that holds.
fn enter_by_service(key: &[u8], lease: i64, value: &[u8]) -> Op {
    let put = Put { key: key.to_vec(), value: value.to_vec(), lease, ..Put::default() };
    let name = if is_of_lock(key) { LOCK } else { ELECTION };
    let holder = || TxnOp::Range(first_created(name));
    Op::Txn(Txn {
        compares: vec![is_created_at(key, 0)],
        success: vec![TxnOp::Put(put), holder()],
        failure: vec![TxnOp::Put(put_again(key, lease, value)), holder()],
    })
}

/// The put of the key of a lease that was created at this revision.
fn claim_by_service(key: &[u8], created: i64, lease: i64, value: &[u8]) -> Op {
    guarded(key, created, vec![TxnOp::Put(put_again(key, lease, value))])
}

fn put_again(key: &[u8], lease: i64, value: &[u8]) -> Put {
    let put = Put { key: key.to_vec(), prev_kv: true, ..Put::default() };
    match is_of_lock(key) {
        true => Put { ignore_value: true, ignore_lease: true, ..put },
        false => Put { value: value.to_vec(), lease, ..put },
    }
}

fn is_of_lock(key: &[u8]) -> bool {
    key.starts_with(&prefix(LOCK))
}

/// The removal of a key that was created and changed last at these revisions.
fn leave_by_service(key: &[u8], created: i64, changed: i64) -> Op {
    let target = CompareTarget::Mod(changed);
    let is_unchanged = Compare { target, ..is_created_at(key, created) };
    let delete = DeleteRange { key: key.to_vec(), ..DeleteRange::default() };
    Op::Txn(Txn {
        compares: vec![is_created_at(key, created), is_unchanged],
        success: vec![TxnOp::DeleteRange(delete)],
        failure: Vec::new(),
    })
}

/// A put that the key of a session guards: a read of the guarded key, and its next value.
pub fn guarded_write(name: &[u8], lease: i64, token: i64, number: u64) -> Op {
    let key = guarded_key(name);
    let value = guarded_value(token, number);
    let read = TxnOp::Range(get(&key));
    let put = TxnOp::Put(Put { key, value, ..Put::default() });
    guarded(&own_key(name, lease), token, vec![read, put])
}

/// The put of another value of a leader.
pub fn proclaim(name: &[u8], lease: i64, token: i64, value: &[u8]) -> Op {
    let key = own_key(name, lease);
    let put = Put { key: key.clone(), value: value.to_vec(), lease, ..Put::default() };
    guarded(&key, token, vec![TxnOp::Put(put)])
}

/// The end of a leadership.
pub fn resign(name: &[u8], lease: i64, token: i64) -> Op {
    let key = own_key(name, lease);
    let delete = DeleteRange { key: key.clone(), ..DeleteRange::default() };
    guarded(&key, token, vec![TxnOp::DeleteRange(delete)])
}

/// The end of a lock, or of the wait for it.
pub fn unlock(name: &[u8], lease: i64) -> Op {
    Op::DeleteRange(DeleteRange { key: own_key(name, lease), ..DeleteRange::default() })
}

fn guarded(key: &[u8], token: i64, success: Vec<TxnOp>) -> Op {
    Op::Txn(Txn { compares: vec![is_created_at(key, token)], success, failure: Vec::new() })
}

fn is_created_at(key: &[u8], revision: i64) -> Compare {
    Compare {
        key: key.to_vec(),
        range_end: Vec::new(),
        result: CompareResult::Equal,
        target: CompareTarget::Create(revision),
    }
}

/// The first pair that a read of a transaction found, or a read alone.
pub fn first_pair(response: &Response) -> Option<&KeyValue> {
    match response {
        Response::Range(answer) => answer.kvs.first(),
        _ => None,
    }
}
