//! The commands of etcd's space, the operations in their transactions, and their bytes in the log.
//!
//! An operation means what its request means in etcd 3.6 (`etcdserverpb.KV`, applied by
//! `server/etcdserver/txn`). The face checks the form of a request before it becomes a command: for
//! example, no key is empty, and no transaction puts a key twice.

use crate::codec::{DecodeError, Reader, Write};
use crate::etcd::alarm::Alarm;
use crate::etcd::auth::AuthCommand;
use crate::etcd::settings::Settings;
use crate::ids::{LeaseId, Ordinal};
use crate::limits::{ETCD_OPS_MAX, ETCD_TXN_DEPTH_MAX, EXPIRE_LEASES_MAX};

/// A replicated write of etcd's space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Set the value of a key.
    Put(Put<'a>),
    /// Delete the keys of a range.
    DeleteRange(DeleteRange<'a>),
    /// Evaluate comparisons, and then run the operations of one branch, all at one revision.
    Txn(Txn<'a>),
    /// Drop the history up to a revision: of each key, keep only the versions that exist at this
    /// revision or later.
    Compact {
        /// The revision. It must be above the compacted revision, and not above the store's.
        revision: i64,
    },
    /// Set the replicated settings. Only Loop makes this command.
    Configure(Settings),
    /// Grant a lease.
    Grant {
        /// The id of the lease; 0 if the machine is to choose one.
        lease: LeaseId,
        /// The time to live that the client asks for, in seconds.
        ttl_s: i64,
    },
    /// Revoke a lease, and delete its keys.
    Revoke {
        /// The lease.
        lease: LeaseId,
    },
    /// Expire leases that nobody kept alive, and delete their keys. The keys of each lease are
    /// deleted at a revision of their own. At most [`EXPIRE_LEASES_MAX`] leases. Only Loop makes
    /// this command.
    Expire {
        /// The leases, each with the ordinal of the grant that the leader judged. A lease granted
        /// again since then stays.
        leases: Vec<(LeaseId, Ordinal)>,
    },
    /// Change users, roles or permissions.
    Auth(AuthCommand<'a>),
    /// Raise an alarm.
    RaiseAlarm(Alarm),
    /// Disarm an alarm.
    DisarmAlarm(Alarm),
}

/// A range of keys, in the form that etcd's requests use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange<'a> {
    /// The first key.
    pub key: &'a [u8],
    /// The end, which is not in the range. Empty: the range is `key` alone. One zero byte: the
    /// range has no end.
    pub end: &'a [u8],
}

/// A read of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeOp<'a> {
    /// The keys.
    pub range: KeyRange<'a>,
    /// The most keys to return; 0 or less means no limit.
    pub limit: i64,
    /// The revision to read at; 0 or less means the present one.
    pub revision: i64,
    /// The order of the result.
    pub order: SortOrder,
    /// The field to sort by.
    pub target: SortTarget,
    /// Whether values are left out.
    pub keys_only: bool,
    /// Whether to return only the number of keys.
    pub count_only: bool,
    /// Return only keys whose last change is within these revisions.
    pub mod_revision: Bounds,
    /// Return only keys that were created within these revisions.
    pub create_revision: Bounds,
}

impl<'a> RangeOp<'a> {
    /// A read of a whole range at the present revision, sorted by key.
    pub fn of(range: KeyRange<'a>) -> RangeOp<'a> {
        RangeOp {
            range,
            limit: 0,
            revision: 0,
            order: SortOrder::None,
            target: SortTarget::Key,
            keys_only: false,
            count_only: false,
            mod_revision: Bounds::default(),
            create_revision: Bounds::default(),
        }
    }
}

/// Two inclusive bounds on a revision. 0 means no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The lowest revision.
    pub min: i64,
    /// The highest revision.
    pub max: i64,
}

/// How the result of a range is sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortOrder {
    /// Ascending by the field. But a limit takes the first keys by key before they are sorted,
    /// unless the read has bounds on revisions.
    #[default]
    None,
    /// Ascending by the field.
    Ascend,
    /// Descending by the field.
    Descend,
}

/// The field to sort the result of a range by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortTarget {
    /// The key.
    #[default]
    Key,
    /// The version: how many puts since the key was created.
    Version,
    /// The revision at which the key was created.
    Create,
    /// The revision of the key's last change.
    Mod,
    /// The value.
    Value,
}

/// A write of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// The lease to attach the key to; 0 means no lease.
    pub lease: i64,
    /// Whether the reply shows the key's version before the put.
    pub prev_kv: bool,
    /// Whether the key keeps its value. The key must exist.
    pub ignore_value: bool,
    /// Whether the key keeps its lease. The key must exist.
    pub ignore_lease: bool,
}

/// A deletion of the keys of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteRange<'a> {
    /// The keys.
    pub range: KeyRange<'a>,
    /// Whether the reply shows the deleted versions.
    pub prev_kv: bool,
}

/// A transaction: comparisons that choose one of two branches of operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Txn<'a> {
    /// The comparisons. If all hold, the first branch runs, else the second.
    pub compares: Vec<Compare<'a>>,
    /// The first branch.
    pub success: Vec<Op<'a>>,
    /// The second branch.
    pub failure: Vec<Op<'a>>,
}

/// An operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// A read.
    Range(RangeOp<'a>),
    /// A write.
    Put(Put<'a>),
    /// A removal.
    DeleteRange(DeleteRange<'a>),
    /// A nested transaction.
    Txn(Txn<'a>),
}

/// A comparison. It holds if, for every key of a range, the key's field has the wanted relation to
/// the operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare<'a> {
    /// The keys.
    pub range: KeyRange<'a>,
    /// How each key's field must compare to the operand.
    pub relation: Relation,
    /// The field to compare, with the operand.
    pub target: CompareTarget<'a>,
}

/// How a field must compare to an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The field equals the operand.
    Equal,
    /// The field is greater.
    Greater,
    /// The field is less.
    Less,
    /// The field differs.
    NotEqual,
}

/// The field that a comparison looks at, with the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareTarget<'a> {
    /// The version: how many puts since the key was created.
    Version(i64),
    /// The revision at which the key was created.
    Create(i64),
    /// The revision of the key's last change.
    Mod(i64),
    /// The value.
    Value(&'a [u8]),
    /// The lease.
    Lease(i64),
}

const KIND_PUT: u8 = 1;
const KIND_DELETE_RANGE: u8 = 2;
const KIND_TXN: u8 = 3;
const KIND_COMPACT: u8 = 4;
const KIND_CONFIGURE: u8 = 5;
const KIND_GRANT: u8 = 6;
const KIND_REVOKE: u8 = 7;
const KIND_EXPIRE: u8 = 8;
const KIND_AUTH: u8 = 9;
const KIND_RAISE_ALARM: u8 = 10;
const KIND_DISARM_ALARM: u8 = 11;

const OP_RANGE: u8 = 0;

const FLAG_PREV_KV: u8 = 1;
const FLAG_IGNORE_VALUE: u8 = 2;
const FLAG_IGNORE_LEASE: u8 = 4;
const FLAG_KEYS_ONLY: u8 = 1;
const FLAG_COUNT_ONLY: u8 = 2;

/// Bytes of the smallest comparison or operation. A decoder refuses a list that claims more items
/// than the remaining bytes can hold.
const ITEM_BYTES_MIN: usize = 10;

impl Command<'_> {
    /// Writes the command; `docs/formats.md` gives the bytes. `in_space` holds the first bytes of
    /// all commands of this space.
    pub(crate) fn encode(&self, in_space: [u8; 2], out: &mut Vec<u8>) {
        out.extend_from_slice(&in_space);
        match self {
            Command::Put(put) => {
                out.put_u8(KIND_PUT);
                put.encode(out);
            }
            Command::DeleteRange(delete) => {
                out.put_u8(KIND_DELETE_RANGE);
                delete.encode(out);
            }
            Command::Txn(txn) => {
                out.put_u8(KIND_TXN);
                txn.encode(out);
            }
            Command::Compact { revision } => {
                out.put_u8(KIND_COMPACT);
                out.put_i64(*revision);
            }
            Command::Configure(settings) => {
                out.put_u8(KIND_CONFIGURE);
                settings.encode(out);
            }
            Command::Grant { lease, ttl_s } => {
                out.put_u8(KIND_GRANT);
                out.put_i64(lease.0);
                out.put_i64(*ttl_s);
            }
            Command::Revoke { lease } => {
                out.put_u8(KIND_REVOKE);
                out.put_i64(lease.0);
            }
            Command::Expire { leases } => {
                out.put_u8(KIND_EXPIRE);
                encode_judged(leases, out);
            }
            Command::Auth(command) => {
                out.put_u8(KIND_AUTH);
                command.encode(out);
            }
            Command::RaiseAlarm(alarm) => {
                out.put_u8(KIND_RAISE_ALARM);
                alarm.encode(out);
            }
            Command::DisarmAlarm(alarm) => {
                out.put_u8(KIND_DISARM_ALARM);
                alarm.encode(out);
            }
        }
    }

    /// Reads the rest of a command, behind the number of the space.
    pub(crate) fn decode<'a>(reader: &mut Reader<'a>) -> Result<Command<'a>, DecodeError> {
        let mut ops_left = ETCD_OPS_MAX;
        Ok(match reader.u8()? {
            KIND_PUT => Command::Put(Put::decode(reader)?),
            KIND_DELETE_RANGE => Command::DeleteRange(DeleteRange::decode(reader)?),
            KIND_TXN => Command::Txn(Txn::decode(reader, ETCD_TXN_DEPTH_MAX, &mut ops_left)?),
            KIND_COMPACT => Command::Compact { revision: reader.i64()? },
            KIND_CONFIGURE => Command::Configure(Settings::decode(reader)?),
            KIND_GRANT => Command::Grant { lease: LeaseId(reader.i64()?), ttl_s: reader.i64()? },
            KIND_REVOKE => Command::Revoke { lease: LeaseId(reader.i64()?) },
            KIND_EXPIRE => Command::Expire { leases: decode_judged(reader)? },
            KIND_AUTH => Command::Auth(AuthCommand::decode(reader)?),
            KIND_RAISE_ALARM => Command::RaiseAlarm(Alarm::decode(reader)?),
            KIND_DISARM_ALARM => Command::DisarmAlarm(Alarm::decode(reader)?),
            kind => return Err(reader.bad("command of etcd", u64::from(kind))),
        })
    }
}

fn encode_judged(leases: &[(LeaseId, Ordinal)], out: &mut Vec<u8>) {
    assert!(leases.len() <= EXPIRE_LEASES_MAX);
    out.put_u32(leases.len() as u32);
    for (lease, granted) in leases {
        out.put_i64(lease.0);
        out.put_u64(granted.0);
    }
}

fn decode_judged(reader: &mut Reader<'_>) -> Result<Vec<(LeaseId, Ordinal)>, DecodeError> {
    let count = reader.count("count of leases", EXPIRE_LEASES_MAX)?;
    (0..count).map(|_| Ok((LeaseId(reader.i64()?), Ordinal(reader.u64()?)))).collect()
}

impl KeyRange<'_> {
    /// Whether every possible key is in the range.
    pub fn is_everything(&self) -> bool {
        self.key == [0] && self.end == [0]
    }

    /// Whether a key is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        match self.end {
            [] => key == self.key,
            [0] => key >= self.key,
            end => key >= self.key && key < end,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_bytes(self.key);
        out.put_bytes(self.end);
    }

    fn decode<'a>(reader: &mut Reader<'a>) -> Result<KeyRange<'a>, DecodeError> {
        Ok(KeyRange { key: reader.bytes()?, end: reader.bytes()? })
    }
}

impl Put<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let flags = if self.prev_kv { FLAG_PREV_KV } else { 0 }
            | if self.ignore_value { FLAG_IGNORE_VALUE } else { 0 }
            | if self.ignore_lease { FLAG_IGNORE_LEASE } else { 0 };
        out.put_u8(flags);
        out.put_i64(self.lease);
        out.put_bytes(self.key);
        out.put_bytes(self.value);
    }

    fn decode<'a>(reader: &mut Reader<'a>) -> Result<Put<'a>, DecodeError> {
        let flags = decode_flags(reader, FLAG_PREV_KV | FLAG_IGNORE_VALUE | FLAG_IGNORE_LEASE)?;
        Ok(Put {
            lease: reader.i64()?,
            key: reader.bytes()?,
            value: reader.bytes()?,
            prev_kv: flags & FLAG_PREV_KV != 0,
            ignore_value: flags & FLAG_IGNORE_VALUE != 0,
            ignore_lease: flags & FLAG_IGNORE_LEASE != 0,
        })
    }
}

impl DeleteRange<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(if self.prev_kv { FLAG_PREV_KV } else { 0 });
        self.range.encode(out);
    }

    fn decode<'a>(reader: &mut Reader<'a>) -> Result<DeleteRange<'a>, DecodeError> {
        let flags = decode_flags(reader, FLAG_PREV_KV)?;
        Ok(DeleteRange { prev_kv: flags != 0, range: KeyRange::decode(reader)? })
    }
}

impl RangeOp<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(
            if self.keys_only { FLAG_KEYS_ONLY } else { 0 }
                | if self.count_only { FLAG_COUNT_ONLY } else { 0 },
        );
        out.put_u8(self.order as u8);
        out.put_u8(self.target as u8);
        self.range.encode(out);
        for number in [self.limit, self.revision] {
            out.put_i64(number);
        }
        for Bounds { min, max } in [self.mod_revision, self.create_revision] {
            out.put_i64(min);
            out.put_i64(max);
        }
    }

    fn decode<'a>(reader: &mut Reader<'a>) -> Result<RangeOp<'a>, DecodeError> {
        let flags = decode_flags(reader, FLAG_KEYS_ONLY | FLAG_COUNT_ONLY)?;
        let order = match reader.u8()? {
            0 => SortOrder::None,
            1 => SortOrder::Ascend,
            2 => SortOrder::Descend,
            order => return Err(reader.bad("order of a range", u64::from(order))),
        };
        let target = match reader.u8()? {
            0 => SortTarget::Key,
            1 => SortTarget::Version,
            2 => SortTarget::Create,
            3 => SortTarget::Mod,
            4 => SortTarget::Value,
            target => return Err(reader.bad("field of an order", u64::from(target))),
        };
        let bounds = |reader: &mut Reader<'_>| -> Result<Bounds, DecodeError> {
            Ok(Bounds { min: reader.i64()?, max: reader.i64()? })
        };
        Ok(RangeOp {
            order,
            target,
            keys_only: flags & FLAG_KEYS_ONLY != 0,
            count_only: flags & FLAG_COUNT_ONLY != 0,
            range: KeyRange::decode(reader)?,
            limit: reader.i64()?,
            revision: reader.i64()?,
            mod_revision: bounds(reader)?,
            create_revision: bounds(reader)?,
        })
    }
}

impl Txn<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        for count in [self.compares.len(), self.success.len(), self.failure.len()] {
            out.put_u32(u32::try_from(count).expect("lists are bounded far below 2^32"));
        }
        self.compares.iter().for_each(|compare| compare.encode(out));
        for op in self.success.iter().chain(&self.failure) {
            op.encode(out);
        }
    }

    /// Reads a transaction. `depth_left` is how deep it may nest transactions; `ops_left` is how
    /// many comparisons and operations the whole command may still have.
    fn decode<'a>(
        reader: &mut Reader<'a>,
        depth_left: usize,
        ops_left: &mut usize,
    ) -> Result<Txn<'a>, DecodeError> {
        let mut counts = [0; 3];
        for count in &mut counts {
            *count = reader
                .count("count in a txn", (*ops_left).min(reader.remaining() / ITEM_BYTES_MIN))?;
            *ops_left -= *count;
        }
        let [compares, success, failure] = counts;
        let compares =
            (0..compares).map(|_| Compare::decode(reader)).collect::<Result<Vec<_>, _>>()?;
        let mut ops = |count: usize, reader: &mut Reader<'a>| {
            (0..count)
                .map(|_| Op::decode(reader, depth_left, ops_left))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Txn { compares, success: ops(success, reader)?, failure: ops(failure, reader)? })
    }
}

impl Op<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Op::Range(range) => {
                out.put_u8(OP_RANGE);
                range.encode(out);
            }
            Op::Put(put) => {
                out.put_u8(KIND_PUT);
                put.encode(out);
            }
            Op::DeleteRange(delete) => {
                out.put_u8(KIND_DELETE_RANGE);
                delete.encode(out);
            }
            Op::Txn(txn) => {
                out.put_u8(KIND_TXN);
                txn.encode(out);
            }
        }
    }

    fn decode<'a>(
        reader: &mut Reader<'a>,
        depth_left: usize,
        ops_left: &mut usize,
    ) -> Result<Op<'a>, DecodeError> {
        Ok(match reader.u8()? {
            OP_RANGE => Op::Range(RangeOp::decode(reader)?),
            KIND_PUT => Op::Put(Put::decode(reader)?),
            KIND_DELETE_RANGE => Op::DeleteRange(DeleteRange::decode(reader)?),
            KIND_TXN if depth_left > 0 => Op::Txn(Txn::decode(reader, depth_left - 1, ops_left)?),
            kind => return Err(reader.bad("operation of a txn", u64::from(kind))),
        })
    }
}

const TARGET_VALUE: u8 = 3;

impl Compare<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.relation as u8);
        self.range.encode(out);
        let (target, number) = match self.target {
            CompareTarget::Version(number) => (0, number),
            CompareTarget::Create(number) => (1, number),
            CompareTarget::Mod(number) => (2, number),
            CompareTarget::Lease(number) => (4, number),
            CompareTarget::Value(value) => {
                out.put_u8(TARGET_VALUE);
                return out.put_bytes(value);
            }
        };
        out.put_u8(target);
        out.put_i64(number);
    }

    fn decode<'a>(reader: &mut Reader<'a>) -> Result<Compare<'a>, DecodeError> {
        let relation = match reader.u8()? {
            0 => Relation::Equal,
            1 => Relation::Greater,
            2 => Relation::Less,
            3 => Relation::NotEqual,
            relation => return Err(reader.bad("relation", u64::from(relation))),
        };
        let range = KeyRange::decode(reader)?;
        let target = match reader.u8()? {
            0 => CompareTarget::Version(reader.i64()?),
            1 => CompareTarget::Create(reader.i64()?),
            2 => CompareTarget::Mod(reader.i64()?),
            TARGET_VALUE => CompareTarget::Value(reader.bytes()?),
            4 => CompareTarget::Lease(reader.i64()?),
            target => return Err(reader.bad("field of a comparison", u64::from(target))),
        };
        Ok(Compare { range, relation, target })
    }
}

/// Reads a byte of flags. Fails if a flag is set that is not in `known`.
fn decode_flags(reader: &mut Reader<'_>, known: u8) -> Result<u8, DecodeError> {
    let flags = reader.u8()?;
    if flags & !known != 0 {
        return Err(reader.bad("flags", u64::from(flags)));
    }
    Ok(flags)
}
