//! Streams of operations from a seed: a small tree that everybody fights over, so that conflicts,
//! versions that do not match and watches that fire are common.

use crate::limits::{DATA_BYTES_MAX, LARGE_DATA_BYTES_MAX, MULTI_OPS_MAX};
use crate::op::{Op, flag, perms};

/// A small generator of random numbers (splitmix64): same seed, same numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Starts from `seed`.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high);
        low + self.below(high - low + 1)
    }

    /// True once in `count` times.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// A number from `low` to `high` whose magnitude is evenly spread: small ones are as frequent as
    /// large ones.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        assert!(low > 0);
        assert!(low <= high);
        let doublings = u64::from((high / low).ilog2());
        let reach = low << self.between(0, doublings);
        self.between(low, reach.saturating_mul(2).min(high))
    }

    /// One of `items`.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let index = self.below(items.len() as u64);
        &items[index as usize]
    }

    /// Another generator, for a part that must not depend on how often others draw.
    pub fn fork(&mut self) -> Random {
        Random::new(self.bits())
    }
}

const PARENTS: [&str; 3] = ["/a", "/b", "/c"];
const NAMES: [&str; 4] = ["x", "y", "z", "n-"];

/// One client's stream.
#[derive(Clone, Debug)]
pub struct Generator {
    random: Random,
    client: u32,
    drawn: u64,
    /// How many in 100 are writes.
    write_percent: u64,
    /// One in so many writes is large.
    large_one_in: u64,
}

impl Generator {
    /// The stream of `client`, of whose writes one in `large_one_in` is large.
    pub fn new(mut random: Random, client: u32, large_one_in: u64) -> Generator {
        let write_percent = random.between(20, 80);
        Generator { random, client, drawn: 0, write_percent, large_one_in }
    }

    /// The next operation: everything but connecting, pings and the end of the session.
    pub fn next_op(&mut self) -> Op {
        if self.random.below(100) < self.write_percent { self.write() } else { self.read() }
    }

    fn path(&mut self) -> String {
        let parent = *self.random.pick(&PARENTS);
        if self.random.below(4) == 0 {
            return parent.to_string();
        }
        let name = self.random.pick(&NAMES[..3]);
        let path = format!("{parent}/{name}");
        // Children of what may be ephemeral.
        if self.random.one_in(20) { format!("{path}/x") } else { path }
    }

    /// Unique, so that what was read says which write it was.
    fn data(&mut self) -> Option<Vec<u8>> {
        if self.random.one_in(30) {
            return None;
        }
        self.drawn += 1;
        let mut data = format!("{}:{};", self.client, self.drawn).into_bytes();
        let is_large = self.random.one_in(self.large_one_in);
        let bytes = match self.random.below(6) {
            _ if is_large => self.random.magnitude(1_000, LARGE_DATA_BYTES_MAX),
            0 => self.random.between(1, DATA_BYTES_MAX),
            _ => 0,
        };
        let fill = self.random.bits() as u8;
        data.resize(data.len() + bytes as usize, fill);
        Some(data)
    }

    fn version(&mut self) -> i32 {
        match self.random.below(4) {
            0 => self.random.below(4) as i32,
            _ => -1,
        }
    }

    fn perms(&mut self) -> u32 {
        match self.random.below(8) {
            0 => perms::ALL & !perms::READ,
            1 => perms::ALL & !(perms::WRITE | perms::CREATE),
            2 => perms::ALL & !perms::DELETE,
            _ => perms::ALL,
        }
    }

    fn create(&mut self) -> Op {
        let flag = match self.random.below(24) {
            0..=9 => flag::PERSISTENT,
            10..=14 => flag::EPHEMERAL,
            15..=18 => flag::PERSISTENT_SEQUENTIAL,
            19..=21 => flag::EPHEMERAL_SEQUENTIAL,
            22 => flag::CONTAINER,
            _ if self.random.one_in(2) => flag::TTL,
            _ => flag::PERSISTENT,
        };
        let is_sequential =
            matches!(flag, flag::PERSISTENT_SEQUENTIAL | flag::EPHEMERAL_SEQUENTIAL);
        let path = match is_sequential {
            true => format!("{}/{}", self.random.pick(&PARENTS), NAMES[3]),
            false if self.random.one_in(40) => format!("{}/", self.random.pick(&PARENTS)),
            false => self.path(),
        };
        // The parents are rarely made for one session only.
        let is_parent = PARENTS.contains(&path.as_str());
        let flag = if is_parent && !self.random.one_in(8) { flag::PERSISTENT } else { flag };
        let perms = if self.random.one_in(6) { self.perms() } else { perms::ALL };
        Op::Create { path, data: self.data(), perms, flag, with_stat: self.random.one_in(2) }
    }

    fn simple_write(&mut self) -> Op {
        match self.random.below(10) {
            0..=3 => self.create(),
            4..=6 => Op::Delete { path: self.path(), version: self.version() },
            _ => Op::SetData { path: self.path(), data: self.data(), version: self.version() },
        }
    }

    fn write(&mut self) -> Op {
        match self.random.below(12) {
            0 => {
                let count = self.random.between(1, MULTI_OPS_MAX);
                Op::Multi(
                    (0..count)
                        .map(|_| match self.random.below(6) {
                            0 => Op::Check { path: self.path(), version: self.version() },
                            _ => plain(self.simple_write()),
                        })
                        .collect(),
                )
            }
            1 => Op::SetAcl { path: self.path(), perms: self.perms(), version: self.version() },
            _ => self.simple_write(),
        }
    }

    fn parent(&mut self) -> String {
        match self.random.one_in(6) {
            true => "/".to_string(),
            false => (*self.random.pick(&PARENTS)).to_string(),
        }
    }

    fn read(&mut self) -> Op {
        let watch = self.random.one_in(3);
        match self.random.below(16) {
            0..=3 => Op::Exists { path: self.path(), watch },
            4..=8 => Op::GetData { path: self.path(), watch },
            9..=12 => {
                Op::GetChildren { path: self.parent(), watch, with_stat: self.random.one_in(2) }
            }
            13 => Op::GetAcl { path: self.path() },
            14 => Op::MultiRead(vec![
                Op::GetData { path: self.path(), watch },
                Op::GetChildren { path: self.parent(), watch: false, with_stat: false },
            ]),
            _ => Op::Sync { path: self.path() },
        }
    }
}

/// In a multi the flags beyond the first four mean something else (`MultiOperationRecord`).
fn plain(mut op: Op) -> Op {
    if let Op::Create { flag, .. } = &mut op
        && *flag > flag::EPHEMERAL_SEQUENTIAL
    {
        *flag = flag::PERSISTENT;
    }
    op
}

#[cfg(test)]
mod tests;
