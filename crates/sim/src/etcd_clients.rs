//! Simulated etcd clients: their behaviour, their connections, and the bytes of their messages.
//!
//! HTTP/2 is not simulated. The boundary is the one between the shell and the Front: a call is a
//! method with the bytes of a request, and gets the bytes of a response or an error. The calls of
//! one connection are independent of each other.

mod calls;
pub mod changer;
pub mod client;
pub mod contender;
pub mod http;
mod ledger;
pub mod network;
mod observer;
pub mod operator;
pub mod recipe;
mod rights;
mod roles;
pub mod users;
pub mod v2;
pub mod watch_wire;
pub mod watcher;
pub mod wire;

use machine::etcd::Settings;
use member::fronts::etcd::WatchBounds;
use member::spaces::etcd::auto_compaction::AutoCompaction;
use workload::etcd::history::History;
use workload::generate::Random;

use changer::ChangerConfig;
use client::{EtcdClient, EtcdClientConfig, Uses};
use contender::{ContenderConfig, Prize};
use http::HttpConfig;
use ledger::Share;
use network::EtcdNetwork;
use operator::OperatorConfig;
use users::UsersConfig;
use v2::V2Config;

/// XORed into a seed to draw the etcd clients. With this number the kept seeds (those in the tests)
/// have no etcd clients and keep their meaning.
const ETCD_SEED: u64 = 0x6574_6364_0129_db12;

/// XORed into a seed to draw whether the clients use leases. Runs without leases keep their
/// meaning.
const LEASE_SEED: u64 = 0x6c65_6173_6529_db13;

/// XORed into a seed to draw whether some clients want locks. Runs without locks keep their
/// meaning; with this number no kept seed has any.
const LOCK_SEED: u64 = 0x6c6f_636b_6529_db17;

/// XORed into a seed to draw which of these clients use the `Lock` and `Election` services. Runs
/// without them keep their meaning.
const SERVED_SEED: u64 = 0x7365_7276_6529_db53;

/// XORed into a seed to draw whether there are users with permissions. Runs without users keep
/// their meaning; with this number no kept seed has any.
const USERS_SEED: u64 = 0x7573_6572_000b_ad19;

/// XORed into a seed to draw whether two clients change users at once. Runs with one such client
/// keep their meaning.
const SECOND_USERS_SEED: u64 = 0x7573_6572_0002_db84;

/// XORed into a seed to draw whether there are etcd v2 clients. Runs without them keep their
/// meaning; with this number no kept seed has any.
const V2_SEED: u64 = 0x7632_6c61_7374_0026;

/// XORed into a seed to draw whether etcd v2 clients make more events than the history keeps. A run
/// in which they do not is the same as it would be without this draw.
const LONG_V2_SEED: u64 = 0x7632_6c6f_6e67_db84;

/// XORed into a seed to draw whether the quota is reached. Other runs keep their meaning.
const QUOTA_SEED: u64 = 0x7175_6f74_6129_db84;

/// XORed into a seed to draw whether there is an operator. Runs without one keep their meaning;
/// with this number no kept seed has one.
const OPERATOR_SEED: u64 = 0x6f70_6572_6129_db71;

/// XORed into a seed to draw whether there is a client of plain HTTP requests. Runs without one
/// keep their meaning; with this number no kept seed has one.
const HTTP_SEED: u64 = 0x6874_7470_0029_db85;

/// The lease ids of clients: few, so that clients often grant a lease that exists.
const LEASES: [i64; 4] = [1, 2, 3, 1 << 40];

/// The etcd clients of a run, and the members' settings for them.
#[derive(Clone, Debug)]
pub struct EtcdLoad {
    /// The seed of the clients' random choices.
    pub seed: u64,
    /// The number of etcd connection runtimes per member.
    pub front_count: u32,
    /// The configuration of each client.
    pub clients: Vec<EtcdClientConfig>,
    /// How leaders compact automatically.
    pub auto_compaction: AutoCompaction,
    /// Whether clients grant leases, keep them alive, and attach keys to them.
    pub leases: bool,
    /// The replicated settings. The quota is out of reach unless [`EtcdLoad::limit_space`] sets it.
    pub settings: Settings,
    /// The limits of watch streams.
    pub watch_bounds: WatchBounds,
    /// How long a watch is without events until it gets a notice of progress, in ms.
    pub progress_ms: u64,
}

impl EtcdLoad {
    /// Draws the etcd clients of a run; `None` in half of the runs.
    pub fn draw(seed: u64) -> Option<EtcdLoad> {
        let mut random = Random::new(seed ^ ETCD_SEED);
        let leases = Random::new(seed ^ LEASE_SEED).one_in(2);
        let mut locks = Random::new(seed ^ LOCK_SEED);
        let has_locks = locks.one_in(3);
        let mut users = Random::new(seed ^ USERS_SEED);
        let has_users = users.one_in(4);
        let mut load = (!random.one_in(2)).then(|| EtcdLoad { leases, ..EtcdLoad::new(random) })?;
        if has_locks {
            load.add_contenders(locks);
            load.serve_contenders(Random::new(seed ^ SERVED_SEED));
        }
        if has_users {
            load.add_users(users);
        }
        let mut v2 = Random::new(seed ^ V2_SEED);
        if v2.one_in(3) {
            load.add_v2(v2);
            let mut long = Random::new(seed ^ LONG_V2_SEED);
            if long.one_in(4) {
                load.lengthen_v2(long);
            }
        }
        let mut operator = Random::new(seed ^ OPERATOR_SEED);
        if operator.one_in(4) {
            load.add_operator(operator);
        }
        let mut http = Random::new(seed ^ HTTP_SEED);
        if http.one_in(4) {
            let second = http.one_in(2).then(|| http.fork());
            load.add_http(http);
            second.into_iter().for_each(|second| load.add_http(second));
        }
        let mut second = Random::new(seed ^ SECOND_USERS_SEED);
        if has_users && second.one_in(2) {
            load.add_users(second);
        }
        // The other kinds of clients need each of their writes to succeed, or do not record them.
        let is_plain = !(has_locks || has_users || load.has_v2());
        let mut quota = Random::new(seed ^ QUOTA_SEED);
        if is_plain && quota.one_in(3) {
            load.limit_space(quota);
        }
        Some(load)
    }

    /// Adds an operator: a client that asks about members and moves leadership.
    pub fn add_operator(&mut self, mut random: Random) {
        let operates = OperatorConfig {
            seed: random.bits(),
            calls: random.magnitude(10, 300),
            rest_us_max: random.magnitude(10_000, 2_000_000),
            disarms: false,
            changes: None,
        };
        let patience_us_max = random.magnitude(500_000, 20_000_000);
        let is_erratic = !random.one_in(4);
        let client = EtcdClientConfig::without_calls(patience_us_max, is_erratic);
        self.clients.push(EtcdClientConfig { operates: Some(operates), ..client });
    }

    /// Adds an operator that changes the members. The operators that are there already make such
    /// calls, too, and note their outcomes.
    pub fn add_changer(&mut self, changes: ChangerConfig, mut random: Random) {
        let operators = self.clients.iter_mut().filter_map(|client| client.operates.as_mut());
        for (position, operates) in operators.enumerate() {
            let number = 100 + position as u64;
            let like = ChangerConfig { number, seed: random.bits(), ..changes.clone() };
            operates.changes.get_or_insert(like);
        }
        let mut operators = self.clients.iter().filter_map(|client| client.operates.as_ref());
        let disarms = operators.any(|operates| operates.disarms);
        let operates = OperatorConfig {
            seed: random.bits(),
            calls: changes.calls,
            rest_us_max: changes.rest_us_max,
            disarms,
            changes: Some(changes),
        };
        let patience_us_max = random.magnitude(500_000, 20_000_000);
        let is_erratic = !random.one_in(4);
        let client = EtcdClientConfig::without_calls(patience_us_max, is_erratic);
        self.clients.push(EtcdClientConfig { operates: Some(operates), ..client });
    }

    /// Adds a client of plain HTTP requests about health and members; in half of the cases it also
    /// changes users of etcd v2.
    pub fn add_http(&mut self, mut random: Random) {
        let http = HttpConfig {
            seed: random.bits(),
            calls: random.magnitude(30, 400),
            rest_us_max: random.magnitude(10_000, 1_000_000),
            has_users: random.one_in(2),
        };
        let patience_us_max = random.magnitude(500_000, 20_000_000);
        let client = EtcdClientConfig::without_calls(patience_us_max, true);
        self.clients.push(EtcdClientConfig { http: Some(http), ..client });
    }

    /// Sets a quota that the clients reach, and makes an operator disarm the alarms.
    pub fn limit_space(&mut self, mut random: Random) {
        self.settings.quota_bytes = random.magnitude(600, 8_000);
        for client in self.clients.iter_mut().filter(|client| client.ops > 0) {
            client.ops = client.ops.max(150);
        }
        self.add_operator(random.fork());
        for operates in self.clients.iter_mut().filter_map(|client| client.operates.as_mut()) {
            operates.disarms = true;
            operates.calls = operates.calls.max(100);
            operates.rest_us_max = operates.rest_us_max.min(500_000);
        }
    }

    /// Whether there are etcd v2 clients.
    pub fn has_v2(&self) -> bool {
        self.clients.iter().any(|client| client.v2.is_some())
    }

    /// Adds etcd v2 clients. Together they make fewer events than the history keeps, unless
    /// [`EtcdLoad::lengthen_v2`] changes that.
    pub fn add_v2(&mut self, mut random: Random) {
        let patience_us_max = random.magnitude(500_000, 20_000_000);
        for _ in 0..random.between(1, 3) {
            let v2 = V2Config {
                seed: random.bits(),
                ops: random.magnitude(10, 130),
                calls_max: random.between(1, 6) as usize,
                rest_us_max: random.magnitude(1_000, 1_000_000),
                wait_one_in: 3,
                sets_more: false,
            };
            let is_erratic = !random.one_in(4);
            let client = EtcdClientConfig::without_calls(patience_us_max, is_erratic);
            self.clients.push(EtcdClientConfig { v2: Some(v2), ..client });
        }
    }

    /// Makes etcd v2 clients make more events than the history keeps, and some of them wait so
    /// seldom that they ask for events that are gone.
    pub fn lengthen_v2(&mut self, mut random: Random) {
        for v2 in self.clients.iter_mut().filter_map(|client| client.v2.as_mut()) {
            v2.ops = random.between(1_200, 3_000);
            v2.calls_max = random.between(4, 12) as usize;
            v2.rest_us_max = random.magnitude(1_000, 20_000);
            v2.wait_one_in = *random.pick(&[3, 1_500, 4_000]);
            v2.sets_more = true;
        }
    }

    /// Adds a client that changes users, roles and permissions, and makes calls as these users. A
    /// run has at most two of them.
    pub fn add_users(&mut self, mut random: Random) {
        let users = UsersConfig {
            seed: random.bits(),
            calls: random.magnitude(100, 600),
            rest_us_max: random.magnitude(10_000, 1_000_000),
        };
        let patience_us_max = random.magnitude(2_000_000, 30_000_000);
        let client = EtcdClientConfig::without_calls(patience_us_max, false);
        self.clients.push(EtcdClientConfig { users: Some(users), ..client });
    }

    /// Adds clients that want a lock or to lead an election, and do nothing else.
    pub fn add_contenders(&mut self, mut random: Random) {
        let is_erratic = !random.one_in(4);
        let prizes = *random.pick(&[
            [Prize::Lock, Prize::Lock],
            [Prize::Election, Prize::Election],
            [Prize::Lock, Prize::Election],
        ]);
        let patience_us_max = random.magnitude(500_000, 20_000_000);
        for number in 0..random.between(2, 5) {
            let contends = ContenderConfig {
                seed: random.bits(),
                prize: prizes[number as usize % 2],
                turns: random.magnitude(2, 30),
                ttl_s: random.between(2, 6) as i64,
                hold_us_max: random.magnitude(20_000, 4_000_000),
                rest_us_max: random.magnitude(20_000, 4_000_000),
                accident_us_max: is_erratic.then(|| random.magnitude(1_000_000, 15_000_000)),
                is_served: false,
            };
            let client = EtcdClientConfig::without_calls(patience_us_max, is_erratic);
            self.clients.push(EtcdClientConfig { contends: Some(contends), ..client });
        }
    }

    /// Makes some of these clients use the `Lock` and `Election` services; none in half of the
    /// runs.
    pub fn serve_contenders(&mut self, mut random: Random) {
        let has_served = random.one_in(2);
        for contends in self.clients.iter_mut().filter_map(|client| client.contends.as_mut()) {
            contends.is_served = has_served && !random.one_in(4);
        }
    }

    /// Draws the clients that make plain calls, and the settings.
    pub fn new(mut random: Random) -> EtcdLoad {
        let is_erratic = !random.one_in(4);
        // A separate generator, so that the calls are the same with and without watches.
        let mut apart = Random::new(random.clone().bits());
        let has_watches = !apart.one_in(4);
        let clients = (0..random.between(1, 4)).map(|_| EtcdClientConfig {
            ops: random.magnitude(5, 400),
            calls_max: random.magnitude(1, 20),
            think_us_max: random.magnitude(100, 4_000_000),
            patience_us_max: match random.one_in(3) {
                true => random.magnitude(50_000, 5_000_000),
                false => random.magnitude(8_000_000, 60_000_000),
            },
            is_erratic,
            watches_max: if has_watches { apart.between(1, 8) as usize } else { 0 },
            contends: None,
            users: None,
            v2: None,
            operates: None,
            http: None,
        });
        let clients = clients.collect();
        let front_count = random.between(1, 2) as u32;
        let seed = random.bits();
        let auto_compaction = match random.below(3) {
            0 => AutoCompaction::Periodic { ms: random.magnitude(100, 20_000) },
            _ => AutoCompaction::Off,
        };
        let settings =
            Settings { quota_bytes: random.magnitude(1 << 30, 1 << 40), ..Settings::default() };
        let watch_bounds = draw_bounds(&mut apart);
        let progress_ms = apart.magnitude(100, 30_000);
        EtcdLoad {
            seed,
            front_count,
            clients,
            auto_compaction,
            leases: false,
            settings,
            watch_bounds,
            progress_ms,
        }
    }
}

/// Draws the limits of watch streams. Each is the real server's in half of the cases, or so small
/// that it is reached.
fn draw_bounds(random: &mut Random) -> WatchBounds {
    let mut draw = |low: u64, ships: usize| match random.one_in(2) {
        true => ships,
        false => random.magnitude(low, ships as u64) as usize,
    };
    let ships = WatchBounds::default();
    WatchBounds {
        batch_bytes: draw(200, ships.batch_bytes).min(draw(200, ships.batch_bytes)),
        message_bytes: draw(60, ships.message_bytes).min(draw(60, ships.message_bytes)),
        requests_max: draw(1, ships.requests_max),
        revisions_max: draw(1, ships.revisions_max),
        hold_events_max: draw(1, ships.hold_events_max),
        matched_events_max: draw(1, ships.matched_events_max),
    }
}

/// All etcd clients of a run, their connections and their history.
pub struct EtcdClients {
    /// The clients, by number.
    pub clients: Vec<EtcdClient>,
    /// All connections of the run.
    pub network: EtcdNetwork,
    /// The clients' calls and watches, for the judges.
    pub history: History,
}

impl EtcdClients {
    /// Clients without connections. Without a load there are none.
    pub fn new(load: Option<&EtcdLoad>) -> EtcdClients {
        let mut random = Random::new(load.map_or(0, |load| load.seed));
        let network = EtcdNetwork::new(random.fork());
        let configs = load.map(|load| load.clients.as_slice()).unwrap_or_default();
        let leases = load.is_some_and(|load| load.leases);
        let locks = configs.iter().any(|it| it.contends.is_some());
        let users = configs.iter().any(|it| it.users.is_some());
        let uses = Uses { leases, locks, users };
        let client = |(number, config): (usize, &EtcdClientConfig)| {
            EtcdClient::new((number as u32, uses), config.clone(), random.fork())
        };
        let mut clients: Vec<EtcdClient> = configs.iter().enumerate().map(client).collect();
        let of_users = clients.iter_mut().filter(|client| client.users().is_some());
        of_users.zip(Share::all()).for_each(|(client, share)| client.set_share(share));
        EtcdClients { clients, network, history: History::default() }
    }
}
