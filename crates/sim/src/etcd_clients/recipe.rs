//! The calls that make up a lock or an election, as in etcd's Go package `client/v3/concurrency`
//! (3.6).

use machine::etcd::command as machine_command;
use machine_command::CompareTarget as MachineTarget;
use machine_command::Op as MachineOp;
use workload::etcd::locks::guarded_value;
use workload::etcd::op::{
    Compare, CompareResult, CompareTarget, DeleteRange, KeyValue, Op, Put, Range, Response,
    SortOrder, SortTarget, Txn, TxnOp,
};

/// The name of the lock that all contenders want. The keys below it sort after all keys that other
/// clients delete.
pub const LOCK: &[u8] = b"lock";
/// The name of the election that all contenders want. See [`LOCK`].
pub const ELECTION: &[u8] = b"vote";

/// The prefix of all keys below a name.
pub fn prefix(name: &[u8]) -> Vec<u8> {
    [name, b"/"].concat()
}

/// The end of the range of these keys: the prefix with the byte after `/`.
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

/// Reads one key.
pub fn get(key: &[u8]) -> Range {
    Range { key: key.to_vec(), ..Range::default() }
}

/// Reads the oldest key below a name: the holder's.
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

/// Reads the newest key below a name that was created before this revision.
pub fn last_created_before(name: &[u8], token: i64) -> Range {
    let sort_order = SortOrder::Descend;
    Range { max_create_revision: token - 1, sort_order, ..first_created(name) }
}

/// Puts the key of a session, unless it exists. For a lock the transaction also reads the holder.
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

/// The operation of a command that a member makes for a `Lock` or `Campaign` call: it puts the key
/// or deletes it. `None` if the command is neither. The caller compares the result with the whole
/// command.
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

/// Puts the key of a lease, even if it exists, and reads the holder's key.
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

/// Puts the key of a lease again, if it was created at this revision.
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

/// Deletes a key if it was created and last changed at these revisions.
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

/// A write guarded by the session's key: reads the guarded key and puts its next value.
pub fn guarded_write(name: &[u8], lease: i64, token: i64, number: u64) -> Op {
    let key = guarded_key(name);
    let value = guarded_value(token, number);
    let read = TxnOp::Range(get(&key));
    let put = TxnOp::Put(Put { key, value, ..Put::default() });
    guarded(&own_key(name, lease), token, vec![read, put])
}

/// Puts another value of the leader.
pub fn proclaim(name: &[u8], lease: i64, token: i64, value: &[u8]) -> Op {
    let key = own_key(name, lease);
    let put = Put { key: key.clone(), value: value.to_vec(), lease, ..Put::default() };
    guarded(&key, token, vec![TxnOp::Put(put)])
}

/// Ends a leadership.
pub fn resign(name: &[u8], lease: i64, token: i64) -> Op {
    let key = own_key(name, lease);
    let delete = DeleteRange { key: key.clone(), ..DeleteRange::default() };
    guarded(&key, token, vec![TxnOp::DeleteRange(delete)])
}

/// Releases a lock, or ends the wait for it.
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

/// The first pair that a read found, alone or in a transaction.
pub fn first_pair(response: &Response) -> Option<&KeyValue> {
    match response {
        Response::Range(answer) => answer.kvs.first(),
        _ => None,
    }
}
