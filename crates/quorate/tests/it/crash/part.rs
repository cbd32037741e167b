//! A model of the part of the tree that a single worker writes: its znodes after the acknowledged
//! writes, and how each further write changes them.
//!
//! A worker's writes take effect in the order in which it sent them. So after a crash, its part
//! shows all acknowledged writes, and then a first few of the others: each of these completely, and
//! none after one that is missing.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::Stat;
use workload::generate::Random;
use zk::ErrorCode;
use zk::request::{Request, WriteRequest};

use crate::client::{self, EPHEMERAL, SEQUENTIAL};

/// The parent of sequential znodes of all workers.
pub const SHARED: &str = "/shared";

/// How many digits a sequential name ends with.
const DIGITS: usize = 10;

/// Length of a large value.
const LARGE_BYTES: usize = 200 * 1024;

/// How many znodes of each kind there are at most, because all are read after each crash.
const NAMES: u64 = 12;
const SEQUENTIALS_MAX: usize = 12;
const SHARED_MAX: usize = 12;

/// A znode. Values that the server chooses are `None` until an answer or a read has shown them.
#[derive(Clone, Debug)]
pub struct Znode {
    data: Arc<Vec<u8>>,
    version: i32,
    is_ephemeral: bool,
    czxid: Option<i64>,
    mzxid: Option<i64>,
    /// For a znode below [`SHARED`], the number at the end of its name. The znode's key in the
    /// model leaves this number out.
    number: Option<String>,
}

/// All znodes of one worker, by path; those below [`SHARED`] by their key.
#[derive(Clone, Debug, Default)]
pub struct Part {
    worker: usize,
    znodes: BTreeMap<String, Znode>,
    /// How many creates there were below the worker's own parent of sequential znodes.
    sequence: u32,
}

/// An operation.
#[derive(Clone, Debug)]
enum Op {
    Create {
        path: String,
        data: Arc<Vec<u8>>,
        is_ephemeral: bool,
    },
    Sequential {
        data: Arc<Vec<u8>>,
    },
    /// Creates a sequential znode beside those of other workers. Its key begins with the worker's
    /// number.
    Shared {
        key: String,
        data: Arc<Vec<u8>>,
    },
    Set {
        path: String,
        data: Arc<Vec<u8>>,
        version: i32,
    },
    /// Deletes a znode; `path` is its full path, with the number if it has one.
    Delete {
        key: String,
        path: String,
        version: i32,
    },
    Check {
        path: String,
        version: i32,
    },
}

/// A request: one write, or a multi.
#[derive(Clone, Debug)]
pub struct Step {
    ops: Vec<Op>,
    is_multi: bool,
}

/// The answer that a step must get.
#[derive(Debug, PartialEq, Eq)]
pub enum Expected {
    /// The names of the created znodes; `None` for a name that the server chooses.
    Done(Vec<Option<String>>),
    /// The operation at this position is refused, and no operation takes effect.
    Refused(usize, ErrorCode),
}

/// A znode as the server shows it.
pub struct Seen {
    pub data: Vec<u8>,
    pub stat: Stat,
}

impl Part {
    /// The part of a worker that has written nothing.
    pub fn new(worker: usize) -> Part {
        Part { worker, ..Part::default() }
    }

    /// The parent of the worker's own znodes that are not sequential.
    pub fn parent(worker: usize) -> String {
        format!("/w{worker}")
    }

    /// The parent of the worker's own sequential znodes.
    pub fn sequential_parent(worker: usize) -> String {
        format!("/w{worker}/s")
    }

    /// Whether a name below [`SHARED`] belongs to this worker.
    pub fn owns(&self, name: &str) -> bool {
        name.starts_with(&format!("{}-", self.worker))
    }

    /// Applies a step to the model, and returns the answer that the server must give. `zxid` is
    /// `None` if the step was not acknowledged.
    pub fn apply(&mut self, step: &Step, zxid: Option<i64>) -> Expected {
        let mut after = self.clone();
        let mut names = Vec::new();
        for (position, op) in step.ops.iter().enumerate() {
            match after.apply_op(op, zxid) {
                Ok(name) => names.push(name),
                Err(error) => return Expected::Refused(position, error),
            }
        }
        *self = after;
        Expected::Done(names)
    }

    fn apply_op(&mut self, op: &Op, zxid: Option<i64>) -> Result<Option<String>, ErrorCode> {
        match op {
            Op::Create { path, data, is_ephemeral } => {
                if self.znodes.contains_key(path) {
                    return Err(ErrorCode::NODE_EXISTS);
                }
                self.insert(path, data, *is_ephemeral, zxid);
                Ok(Some(path.clone()))
            }
            Op::Sequential { data } => {
                let parent = Part::sequential_parent(self.worker);
                let path = format!("{parent}/q-{:010}", self.sequence);
                self.sequence += 1;
                self.insert(&path, data, false, zxid);
                Ok(Some(path))
            }
            Op::Shared { key, data } => {
                self.insert(key, data, false, zxid);
                Ok(None)
            }
            Op::Set { path, data, version } => {
                let znode = self.find(path, *version)?;
                znode.data = data.clone();
                znode.version += 1;
                znode.mzxid = zxid;
                Ok(None)
            }
            Op::Delete { key, version, .. } => {
                self.find(key, *version)?;
                self.znodes.remove(key);
                Ok(None)
            }
            Op::Check { path, version } => self.find(path, *version).map(|_| None),
        }
    }

    fn insert(&mut self, path: &str, data: &Arc<Vec<u8>>, is_ephemeral: bool, zxid: Option<i64>) {
        let data = data.clone();
        let (czxid, mzxid) = (zxid, zxid);
        let znode = Znode { data, version: 0, is_ephemeral, czxid, mzxid, number: None };
        self.znodes.insert(path.to_string(), znode);
    }

    fn find(&mut self, path: &str, version: i32) -> Result<&mut Znode, ErrorCode> {
        let znode = self.znodes.get_mut(path).ok_or(ErrorCode::NO_NODE)?;
        match version == -1 || version == znode.version {
            true => Ok(znode),
            false => Err(ErrorCode::BAD_VERSION),
        }
    }

    /// Records the path that the server gave the znode that `step` created below [`SHARED`].
    pub fn on_shared_name(&mut self, step: &Step, path: &str) {
        let [Op::Shared { key, .. }] = &step.ops[..] else { panic!("{step:?} made {path}") };
        let number = path.strip_prefix(key.as_str()).unwrap_or_else(|| panic!("{key} is {path}"));
        let znode = self.znodes.get_mut(key).expect("it was just created");
        znode.number = Some(number.to_string());
    }

    /// A difference between the server's znodes and the model; `None` if they agree.
    pub fn difference(
        &self,
        seen: &BTreeMap<String, Seen>,
        session: i64,
        zxid_min: i64,
    ) -> Option<String> {
        let keys: Vec<&str> = seen.keys().map(|path| key_of(path)).collect();
        if let Some(extra) = keys.iter().find(|key| !self.znodes.contains_key(**key)) {
            return Some(format!("{extra} should not be there"));
        }
        for (key, znode) in &self.znodes {
            let found = seen.iter().find(|(path, _)| key_of(path) == key);
            let Some((path, seen)) = found else { return Some(format!("{key} is missing")) };
            if let Some(difference) = znode.difference(path, seen, session, zxid_min) {
                return Some(format!("{path}: {difference}"));
            }
        }
        None
    }

    /// Records the values that the server has chosen.
    pub fn learn(&mut self, seen: &BTreeMap<String, Seen>) {
        for (path, seen) in seen {
            let znode = self.znodes.get_mut(key_of(path)).expect("there is no difference");
            znode.czxid = Some(seen.stat.czxid);
            znode.mzxid = Some(seen.stat.mzxid);
            znode.number = path.strip_prefix(key_of(path)).map(str::to_string);
        }
    }

    /// Draws a step that makes sense after all steps sent so far. `acked` is the part after the
    /// acknowledged steps; `unique` is a number that no other step has.
    pub fn draw(&self, acked: &Part, random: &mut Random, unique: u64) -> Step {
        let is_multi = random.one_in(6);
        let count = if is_multi { random.between(1, 6) } else { 1 };
        let ops = (0..count)
            .map(|position| self.draw_op(acked, random, unique * 10 + position, is_multi))
            .collect();
        Step { ops, is_multi }
    }

    fn draw_op(&self, acked: &Part, random: &mut Random, unique: u64, is_multi: bool) -> Op {
        let worker = self.worker;
        let name = random.below(NAMES);
        // Ephemeral znodes have names of their own, so that a znode that is created again stays
        // ephemeral.
        let is_ephemeral = name < 4;
        let path = format!("{}/n{name}", Part::parent(worker));
        let version = match self.znodes.get(&path) {
            Some(znode) if random.one_in(3) => znode.version,
            _ if random.one_in(20) => 1_000_000,
            _ => -1,
        };
        let data = || Arc::new(value(worker, unique, unique.is_multiple_of(97)));
        let first = |parent: &str, part: &Part| {
            let mut own = part.znodes.iter().filter(|(path, _)| path.starts_with(parent));
            own.next().map(|(key, znode)| (key.clone(), znode.number.clone()))
        };
        let count = |parent: &str| self.znodes.keys().filter(|key| key.starts_with(parent)).count();
        let sequential = Part::sequential_parent(worker);
        match random.below(10) {
            0..=2 => Op::Create { path, data: data(), is_ephemeral },
            3..=4 => Op::Set { path, data: data(), version },
            5 => Op::Delete { key: path.clone(), path, version },
            6 if count(&sequential) < SEQUENTIALS_MAX => Op::Sequential { data: data() },
            6 => {
                let (key, _) = first(&sequential, self).expect("they are many");
                Op::Delete { path: key.clone(), key, version: -1 }
            }
            7 if !is_multi && count(SHARED) < SHARED_MAX => {
                Op::Shared { key: format!("{SHARED}/{worker}-{unique}-"), data: data() }
            }
            7 => match first(SHARED, acked) {
                Some((key, Some(number))) => {
                    Op::Delete { path: format!("{key}{number}"), key, version: -1 }
                }
                _ => Op::Create { path, data: data(), is_ephemeral },
            },
            8 if is_multi => Op::Check { path, version },
            _ => Op::Set { path, data: data(), version: -1 },
        }
    }
}

impl Znode {
    fn difference(&self, path: &str, seen: &Seen, session: i64, zxid_min: i64) -> Option<String> {
        let stat = &seen.stat;
        if *self.data != seen.data {
            let of = |data: &[u8]| {
                let start = &data[..data.len().min(24)];
                format!("{:?} ({} bytes)", String::from_utf8_lossy(start), data.len())
            };
            return Some(format!("holds {}, not {}", of(&seen.data), of(&self.data)));
        }
        if self.version != stat.version {
            return Some(format!("has version {}, not {}", stat.version, self.version));
        }
        let owner = if self.is_ephemeral { session } else { 0 };
        if owner != stat.ephemeral_owner {
            return Some(format!("is owned by {:#x}, not {owner:#x}", stat.ephemeral_owner));
        }
        for (what, known, seen) in
            [("czxid", self.czxid, stat.czxid), ("mzxid", self.mzxid, stat.mzxid)]
        {
            // The zxid of an unacknowledged write is higher than that of any acknowledged one.
            if known.map_or(seen <= zxid_min, |known| known != seen) {
                return Some(format!("has {what} {seen:#x}, not {known:x?}, floor {zxid_min:#x}"));
            }
        }
        let number = path.strip_prefix(key_of(path)).unwrap_or_default();
        match &self.number {
            Some(known) if known != number => Some(format!("had the number {known}")),
            _ => None,
        }
    }
}

impl Step {
    /// Calls `with` with the request of this step. Sends nothing.
    pub fn with_request<T>(&self, worker: usize, with: impl FnOnce(&Request<'_>) -> T) -> T {
        let parent = format!("{}/q-", Part::sequential_parent(worker));
        let writes: Vec<WriteRequest<'_>> = self.ops.iter().map(|op| op.request(&parent)).collect();
        match <[WriteRequest<'_>; 1]>::try_from(writes) {
            Ok([write]) if !self.is_multi => with(&Request::Write(write)),
            Ok(writes) => with(&Request::Multi(writes.into())),
            Err(writes) => with(&Request::Multi(writes)),
        }
    }

    /// Whether the step is a multi.
    pub fn is_multi(&self) -> bool {
        self.is_multi
    }

    /// Whether the answer is a path: the step is a single create.
    pub fn is_create(&self) -> bool {
        let creates =
            |op| matches!(op, &Op::Create { .. } | &Op::Sequential { .. } | &Op::Shared { .. });
        !self.is_multi && self.ops.iter().all(creates)
    }
}

impl Op {
    fn request<'a>(&'a self, sequential: &'a str) -> WriteRequest<'a> {
        match self {
            Op::Create { path, data, is_ephemeral } => {
                client::create(path, data, if *is_ephemeral { EPHEMERAL } else { 0 })
            }
            Op::Sequential { data } => client::create(sequential, data, SEQUENTIAL),
            Op::Shared { key, data } => client::create(key, data, SEQUENTIAL),
            Op::Set { path, data, version } => {
                WriteRequest::SetData { path, data: Some(data), version: *version }
            }
            Op::Delete { path, version, .. } => WriteRequest::Delete { path, version: *version },
            Op::Check { path, version } => WriteRequest::Check { path, version: *version },
        }
    }
}

/// The path without the number that the server chose.
fn key_of(path: &str) -> &str {
    if path.starts_with(SHARED) { &path[..path.len() - DIGITS] } else { path }
}

fn value(worker: usize, unique: u64, is_large: bool) -> Vec<u8> {
    let mut value = format!("{worker}:{unique}:").into_bytes();
    let bytes = if is_large { LARGE_BYTES } else { value.len() + (unique % 200) as usize };
    value.resize(bytes, b'a' + (unique % 26) as u8);
    value
}
