//! Random streams of ZooKeeper operations from a seed. All clients work on the same small tree, so
//! conflicts, version mismatches and fired watches are common.

use crate::limits::{
    DATA_BYTES_MAX, LARGE_DATA_BYTES_MAX, LASTING_ONE_IN, MULTI_OPS_MAX, PRIVATE_ONE_IN,
    QUOTA_BYTES_MAX, QUOTA_COUNT_MAX, TTL_MS_MAX, USERS_ONE_IN,
};
use crate::op::{CreateRequest, Op, Owner, USERS, Watching, flag, perms};

/// A small random generator (splitmix64): the same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator with this seed.
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

    /// A random number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// A random number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high);
        low + self.below(high - low + 1)
    }

    /// True with a probability of one in `count`.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// A random number from `low` to `high` with an evenly distributed magnitude: small numbers are
    /// as frequent as large ones. `low` must not be 0.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        assert!(low > 0);
        assert!(low <= high);
        let doublings = u64::from((high / low).ilog2());
        let reach = low << self.between(0, doublings);
        self.between(low, reach.saturating_mul(2).min(high))
    }

    /// A random element of `items`.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let index = self.below(items.len() as u64);
        &items[index as usize]
    }

    /// Splits off another generator, so that a part does not depend on how often others draw.
    pub fn fork(&mut self) -> Random {
        Random::new(self.bits())
    }
}

const PARENTS: [&str; 3] = ["/a", "/b", "/c"];
const NAMES: [&str; 4] = ["x", "y", "z", "n-"];

/// The names that containers, and znodes with a time to live, have below their parent. The server
/// removes such znodes by itself.
const GOING: [&str; 2] = ["k", "t"];
/// The name of znodes with owners, below a parent.
pub const OWNED: &str = "o";
/// Paths that get a quota: also one inside another, one without a znode, and the root, whose quota
/// has no effect.
const UNDER_QUOTA: [&str; 5] = ["/a", "/a", "/b", "/a/k", ""];

/// The stream of operations of one client.
#[derive(Clone, Debug)]
pub struct Generator {
    random: Random,
    client: u32,
    drawn: u64,
    /// How many of 100 operations are writes, on average.
    write_percent: u64,
    /// One in so many writes is large.
    large_one_in: u64,
    /// The generator for operations on containers, times to live and quotas; `None` if the stream
    /// has none. It is separate, so that streams without these operations do not change.
    more: Option<Random>,
    /// The generator for operations on persistent watches; `None` if the stream has none. Separate,
    /// too.
    lasting: Option<Random>,
    /// The generator for operations on users and their znodes; `None` if the stream has none.
    /// Separate, too.
    users: Option<Random>,
    /// The generator for znodes that only some users may read; `None` if the stream has none.
    /// Separate, too.
    private: Option<Random>,
}

impl Generator {
    /// The stream of `client`. One in `large_one_in` of its writes is large.
    pub fn new(mut random: Random, client: u32, large_one_in: u64) -> Generator {
        let write_percent = random.between(20, 80);
        Generator {
            random,
            client,
            drawn: 0,
            write_percent,
            large_one_in,
            more: None,
            lasting: None,
            users: None,
            private: None,
        }
    }

    /// Adds containers, znodes with a time to live, and quotas to the stream.
    pub fn add_more(&mut self, random: Random) {
        self.more = Some(random);
    }

    /// Adds persistent watches to the stream: operations that set, look for and remove such
    /// watches.
    pub fn add_lasting(&mut self, random: Random) {
        self.lasting = Some(random);
    }

    /// Makes the stream authenticate as users, and create znodes that only some users may change.
    pub fn add_users(&mut self, random: Random) {
        self.users = Some(random);
    }

    /// Makes the stream authenticate as users, if it does not yet, and create znodes that only some
    /// users may read.
    pub fn add_private(&mut self, mut random: Random) {
        let users = random.fork();
        self.users.get_or_insert(users);
        self.private = Some(random);
    }

    /// Draws the next operation: any but connecting, pings and closing the session.
    pub fn next_op(&mut self) -> Op {
        if let Some(lasting) = self.lasting.as_mut()
            && lasting.one_in(LASTING_ONE_IN)
        {
            return about_lasting(lasting);
        }
        if let Some(private) = self.private.as_mut()
            && private.one_in(PRIVATE_ONE_IN)
        {
            return watch_owned(private);
        }
        if let Some(mut users) = self.users.take() {
            let op = users.one_in(USERS_ONE_IN).then(|| self.about_users(&mut users));
            self.users = Some(users);
            if let Some(op) = op {
                return op;
            }
        }
        if let Some(mut more) = self.more.take() {
            let op = more.one_in(2).then(|| self.one_more(&mut more));
            self.more = Some(more);
            if let Some(op) = op {
                return op;
            }
        }
        if self.random.below(100) < self.write_percent { self.write() } else { self.read() }
    }

    fn path(&mut self) -> String {
        let parent = *self.random.pick(&PARENTS);
        if self.random.below(4) == 0 {
            return parent.to_string();
        }
        let name = self.random.pick(&NAMES[..3]);
        let path = format!("{parent}/{name}");
        // Some paths are below znodes that may be ephemeral.
        if self.random.one_in(20) { format!("{path}/x") } else { path }
    }

    /// Unique data, so that a read names the write that it shows; sometimes null.
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
        let path = match flag::is_sequential(flag) {
            true => format!("{}/{}", self.random.pick(&PARENTS), NAMES[3]),
            false if self.random.one_in(40) => format!("{}/", self.random.pick(&PARENTS)),
            false => self.path(),
        };
        // The parents are seldom ephemeral.
        let is_parent = PARENTS.contains(&path.as_str());
        let flag = if is_parent && !self.random.one_in(8) { flag::PERSISTENT } else { flag };
        let perms = if self.random.one_in(6) { self.perms() } else { perms::ALL };
        let data = self.data();
        let request = match self.random.one_in(2) {
            true => CreateRequest::Create2,
            false => CreateRequest::Create,
        };
        Op::Create { path, data, perms, flag, request }
    }

    // Containers, times to live, quotas.

    fn one_more(&mut self, more: &mut Random) -> Op {
        match more.below(8) {
            0..=3 => self.about_going(more),
            4 => {
                let count = more.between(1, MULTI_OPS_MAX);
                Op::Multi((0..count).map(|_| self.one_more_write(more)).collect())
            }
            5 => read_of_quota(more),
            _ => about_quota(more),
        }
    }

    /// A write for a multi; not a multi itself.
    fn one_more_write(&mut self, more: &mut Random) -> Op {
        loop {
            let op = match more.one_in(2) {
                true => self.about_going(more),
                false => about_quota(more),
            };
            if op.is_write() && !matches!(op, Op::Multi(_)) {
                return op;
            }
        }
    }

    /// Creates a znode that the server will remove by itself, or an operation that keeps such a
    /// znode or makes it due.
    fn about_going(&mut self, more: &mut Random) -> Op {
        // There are few paths, so a znode is often written to while it is about to be removed.
        let parent = format!("{}/{}", more.pick(&PARENTS[..2]), more.pick(&GOING));
        let child = format!("{parent}/x");
        let (perms, version) = (perms::ALL, -1);
        match more.below(10) {
            0..=1 => {
                // The request and not the flag makes it a container.
                let flag = *more.pick(&[flag::CONTAINER, flag::PERSISTENT_SEQUENTIAL]);
                let request = CreateRequest::Container;
                Op::Create { path: parent, data: self.data(), perms, flag, request }
            }
            2..=3 => {
                let flag = *more.pick(&[flag::TTL, flag::TTL, flag::SEQUENTIAL_TTL]);
                let ttl_ms = match more.below(20) {
                    0 => 0,
                    1 => 1 << 40,
                    _ => more.magnitude(1, TTL_MS_MAX) as i64,
                };
                let request = CreateRequest::Ttl { ttl_ms };
                Op::Create { path: parent, data: self.data(), perms, flag, request }
            }
            4..=5 => {
                let flag = *more.pick(&[flag::PERSISTENT, flag::EPHEMERAL]);
                let request = CreateRequest::Create;
                Op::Create { path: child, data: self.data(), perms, flag, request }
            }
            6 => Op::Delete { path: child, version },
            7..=8 => Op::SetData { path: parent, data: self.data(), version },
            _ => Op::Exists { path: parent, watch: more.one_in(2) },
        }
    }

    // Users and their znodes.

    fn about_users(&mut self, users: &mut Random) -> Op {
        match users.below(12) {
            0 | 1 => Op::Auth { user: users.below(USERS.len() as u64) as usize },
            2 => Op::GetAcl { path: owned_path(users) },
            3 => Op::GetData { path: owned_path(users), watch: users.one_in(2) },
            4 => {
                let count = users.between(1, MULTI_OPS_MAX);
                let mut write = || loop {
                    let op = self.write_owned(users);
                    if !matches!(op, Op::SetAcl { .. } | Op::SetAclOwned { .. }) {
                        return op;
                    }
                };
                Op::Multi((0..count).map(|_| write()).collect())
            }
            _ => self.write_owned(users),
        }
    }

    fn write_owned(&mut self, users: &mut Random) -> Op {
        let (path, version) = (owned_path(users), -1);
        let owner = match users.one_in(4) {
            true => Owner::Asker,
            false => Owner::User(users.below(USERS.len() as u64) as usize),
        };
        let mut others =
            *users.pick(&[perms::READ, perms::READ, perms::READ | perms::CREATE | perms::DELETE]);
        if let Some(private) = self.private.as_mut()
            && private.one_in(2)
        {
            others &= !perms::READ;
        }
        match users.below(8) {
            0..=2 => {
                let flag = *users.pick(&[flag::PERSISTENT, flag::PERSISTENT, flag::EPHEMERAL]);
                Op::CreateOwned { path, data: self.data(), owner, others, flag }
            }
            3 | 4 => Op::SetData { path, data: self.data(), version },
            5 => Op::SetAclOwned { path, owner, others, version },
            6 => Op::SetAcl { path, perms: perms::ALL, version },
            _ => Op::Delete { path, version },
        }
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

/// A path of a znode with owners. There are few such paths, so that users often interfere.
fn owned_path(users: &mut Random) -> String {
    let path = format!("{}/{OWNED}", users.pick(&PARENTS[..2]));
    if users.one_in(3) { format!("{path}/x") } else { path }
}

/// Sets a watch on a znode that may be hidden from this client.
fn watch_owned(private: &mut Random) -> Op {
    let path = owned_path(private);
    match private.below(5) {
        0 => Op::GetData { path, watch: true },
        1 => Op::Exists { path, watch: true },
        2 => Op::GetChildren { path, watch: true, with_stat: false },
        _ => Op::AddWatch { path, is_recursive: private.one_in(2) },
    }
}

/// Mostly sets a persistent watch; otherwise looks for or removes one.
fn about_lasting(lasting: &mut Random) -> Op {
    let parent = *lasting.pick(&PARENTS);
    let path = match lasting.below(6) {
        0 => "/".to_string(),
        1 | 2 => parent.to_string(),
        _ => format!("{parent}/{}", lasting.pick(&NAMES[..3])),
    };
    if lasting.below(3) > 0 {
        return Op::AddWatch { path, is_recursive: lasting.one_in(2) };
    }
    let which = *lasting.pick(&[
        Watching::Children,
        Watching::Data,
        Watching::Persistent,
        Watching::Recursive,
        Watching::Any,
    ]);
    Op::FindWatch { path, which, removes: lasting.one_in(2) }
}

/// Creates, changes or removes a part of a quota.
fn about_quota(more: &mut Random) -> Op {
    let holder = format!("/zookeeper/quota{}", more.pick(&UNDER_QUOTA));
    let (limits, usage) =
        (format!("{holder}/zookeeper_limits"), format!("{holder}/zookeeper_stats"));
    let create = |path: String, data: Option<Vec<u8>>| {
        let (perms, flag, request) = (perms::ALL, flag::PERSISTENT, CreateRequest::Create);
        Op::Create { path, data, perms, flag, request }
    };
    let none = Some(b"count=0,bytes=0".to_vec());
    match more.below(10) {
        0 => create(holder, None),
        // Like `setquota`, but in one transaction.
        1..=3 => {
            let mut ops = vec![create(limits, Some(limits_text(more))), create(usage, none)];
            if more.one_in(2) {
                ops.insert(0, create(holder, None));
            }
            Op::Multi(ops)
        }
        4 => create(limits, Some(limits_text(more))),
        5 => create(usage, none),
        6..=7 => Op::SetData { path: limits, data: Some(limits_text(more)), version: -1 },
        8 => Op::SetData { path: usage, data: Some(b"count=3,bytes=99".to_vec()), version: -1 },
        _ => Op::Delete { path: more.pick(&[limits, usage, holder]).clone(), version: -1 },
    }
}

fn limits_text(more: &mut Random) -> Vec<u8> {
    let mut limit = |max| if more.one_in(2) { more.between(0, max) as i64 } else { -1 };
    let (count, bytes) = (limit(QUOTA_COUNT_MAX), limit(QUOTA_BYTES_MAX));
    let (hard_count, hard_bytes) = (limit(QUOTA_COUNT_MAX), limit(QUOTA_BYTES_MAX));
    let text = match more.one_in(3) {
        true => format!("count={count},bytes={bytes}"),
        false => format!(
            "count={count},bytes={bytes}=;byteHardLimit={hard_bytes};countHardLimit={hard_count}"
        ),
    };
    text.into_bytes()
}

fn read_of_quota(more: &mut Random) -> Op {
    let path = format!("/zookeeper/quota{}/zookeeper_stats", more.pick(&UNDER_QUOTA));
    Op::GetData { path, watch: more.one_in(2) }
}

/// Makes an operation fit for a multi, where flags beyond the first four have another meaning
/// (`MultiOperationRecord`).
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
