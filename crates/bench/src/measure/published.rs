//! Figures from the documents that the workloads come from. Their hardware differs from this
//! machine's, so reports show them beside the figures of a real server on this machine, never
//! instead of those.

/// A row of P. Hunt's "ZooKeeper service latencies under various loads & configurations" (ZooKeeper
/// 3.2.1; two 4-core Xeons at 2.5 GHz limited to the cores of the row, one 7200 rpm SATA disk for
/// log and data, 1 GbE). Each client did 50,000 writes and 60,000 reads, pipelined.
#[derive(Clone, Copy, Debug)]
pub struct HuntRow {
    /// Cores that the document limited each server to.
    pub cores: u32,
    /// Clients that run at the same time.
    pub clients: usize,
    /// Seconds of the whole test on one standalone server.
    pub standalone_s: u32,
    /// Seconds of the whole test on an ensemble of three servers.
    pub three_servers_s: u32,
}

/// Operations of each client in Hunt's test.
pub const HUNT_OPERATIONS: u64 = 110_000;

const fn hunt(cores: u32, clients: usize, standalone_s: u32, three_servers_s: u32) -> HuntRow {
    HuntRow { cores, clients, standalone_s, three_servers_s }
}

/// The whole table of Hunt's document. The rates that the document prints are those of the slowest
/// client; the rate of all clients together follows from the seconds.
pub const HUNT: [HuntRow; 9] = [
    hunt(1, 1, 18, 22),
    hunt(1, 10, 58, 52),
    hunt(1, 20, 150, 93),
    hunt(2, 1, 20, 20),
    hunt(2, 10, 53, 35),
    hunt(2, 20, 108, 65),
    hunt(4, 1, 20, 20),
    hunt(4, 10, 43, 30),
    hunt(4, 20, 95, 53),
];

impl HuntRow {
    /// The rates of all clients together, in operations a second: standalone, and with three
    /// servers.
    pub fn rates(&self) -> (f64, f64) {
        let all = (self.clients as u64 * HUNT_OPERATIONS) as f64;
        (all / f64::from(self.standalone_s), all / f64::from(self.three_servers_s))
    }
}

/// A row of Alibaba's publish/subscribe load test (2011-07-15): three servers of 8 cores with JDK
/// 1.6, log and snapshots on separate disks. Rates and times are text, as the document has them.
#[derive(Clone, Copy, Debug)]
pub struct PubsubRow {
    /// The number of the scenario: 1 ephemerals, 2 items with subscribers, 3 setData.
    pub scenario: u32,
    /// Bytes of data in a znode.
    pub bytes: usize,
    /// How many hosts the clients were on, and what they did.
    pub setting: &'static str,
    /// Transactions or items a second.
    pub rate: &'static str,
    /// The response times in ms.
    pub response_ms: &'static str,
}

const fn pubsub(
    scenario: u32,
    bytes: usize,
    setting: &'static str,
    rate: &'static str,
    response_ms: &'static str,
) -> PubsubRow {
    PubsubRow { scenario, bytes, setting, rate, response_ms }
}

const EVENT: &str = "event only, 5 client hosts";
const READ: &str = "event, then read, 5 client hosts";
const READ_ONE_HOST: &str = "event, then read, 1 client host";

/// The whole table of Alibaba's document.
pub const PUBSUB: [PubsubRow; 16] = [
    pubsub(1, 4096, "create and delete", "2037", "1585"),
    pubsub(1, 1024, "create and delete", "7677", "280"),
    pubsub(1, 255, "create and delete", "14723", "82"),
    pubsub(2, 4096, EVENT, "8000+", "520"),
    pubsub(2, 2048, EVENT, "1W+", "270"),
    pubsub(2, 1024, EVENT, "1W+", "256"),
    pubsub(2, 255, EVENT, "1W+", "256"),
    pubsub(2, 4096, READ, "8000+ (a second run 3200)", "event 1000 (2200-2600), data 4000-4300"),
    pubsub(2, 1024, READ, "9500", "event 400-900, data 700-1100"),
    pubsub(2, 256, READ, "8500", "event 200-1000, data 300-1400"),
    pubsub(2, 4096, READ_ONE_HOST, "5771 (5558)", "event 9604 (10633), data 10743"),
    pubsub(2, 1024, READ_ONE_HOST, "6000", "event 9400, data 10000"),
    pubsub(2, 256, READ_ONE_HOST, "6374", "event 10050, data 10138"),
    pubsub(3, 4096, "setData", "2037", "1585"),
    pubsub(3, 1024, "setData", "7677", "280"),
    pubsub(3, 255, "setData", "14723", "82"),
];

/// Known doubts about [`PUBSUB`].
pub const PUBSUB_DOUBTS: [&str; 5] = [
    "published in 2011: 3 servers of 8 cores, JDK 1.6, log and snapshots on separate disks",
    "scenarios 1 and 3 have identical figures though what they do differs, and the heading over 3 is \
     that of 2, event only: one is likely a mistake",
    "scenario 2 answers 10 to 30 times slower to 1 client host than to 5: that is the clients' time",
    "\"1W+\" is more than 10,000; the smallest znodes have 255 bytes in some rows and 256 in others",
    "the document says that its writes take 50 to 60 ms at least, since they come in batches of 1000",
];

/// The passage on leader failures in ZooKeeper's overview ("Reliability"), and how it was measured.
pub const FAILOVER: [&str; 2] = [
    "\"less than 200ms to elect a new leader\": 7 servers, saturated with 30 % writes, looked at by the \
     second (ZooKeeper 3.9, overview, \"Reliability\")",
    "that is the election; a gap here is also the end of the process, the connections, and the first \
     write of each session",
];

impl PubsubRow {
    /// Whether all clients were on one host (the other rows have five).
    pub fn is_of_one_host(&self) -> bool {
        self.setting == READ_ONE_HOST
    }

    /// Whether the row belongs to a test of this scenario and size. In scenario 2 `is_event_only`
    /// must match, too: whether subscribers only receive events, or also read the data. The
    /// document has sizes of 255 bytes in some rows and 256 in others; they count as equal.
    pub fn is_about(&self, scenario: u32, bytes: usize, is_event_only: bool) -> bool {
        let one = |bytes: usize| if bytes == 255 { 256 } else { bytes };
        let is_size = one(self.bytes) == one(bytes);
        let is_same = scenario != 2 || (self.setting == EVENT) == is_event_only;
        self.scenario == scenario && is_size && is_same
    }
}

impl core::fmt::Display for PubsubRow {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let PubsubRow { bytes, setting, rate, response_ms, .. } = self;
        write!(f, "{bytes} bytes, {setting}: {rate} per s, mean response in ms: {response_ms}")
    }
}

/// A row of etcd's "Benchmarking etcd v2.2.0-rc": the HTTP API, three servers on Google's 2-core
/// machines (n1-highcpu-2).
#[derive(Clone, Copy, Debug)]
pub struct Etcd22Row {
    /// Whether the requests are writes; else they are reads.
    pub is_write: bool,
    /// Bytes of the value; the document has the heading "key size in bytes".
    pub bytes: usize,
    /// Clients that run at the same time.
    pub clients: usize,
    /// Whether the clients spread over all servers; else they send to the leader only.
    pub is_at_all: bool,
    /// Requests a second.
    pub rate: &'static str,
    /// The latency that 90 % of the requests do not exceed, in ms.
    pub p90_ms: &'static str,
}

const fn etcd22(
    is_write: bool,
    bytes: usize,
    clients: usize,
    is_at_all: bool,
    rate: &'static str,
    p90_ms: &'static str,
) -> Etcd22Row {
    Etcd22Row { is_write, bytes, clients, is_at_all, rate, p90_ms }
}

/// The whole table of etcd's document.
pub const ETCD22: [Etcd22Row; 20] = [
    etcd22(false, 64, 1, false, "2804", "0.4"),
    etcd22(false, 64, 64, false, "17816", "5.7"),
    etcd22(false, 64, 256, false, "18667", "20.4"),
    etcd22(false, 256, 1, false, "2181", "0.5"),
    etcd22(false, 256, 64, false, "17435", "6.0"),
    etcd22(false, 256, 256, false, "18180", "21.3"),
    etcd22(false, 64, 64, true, "46965", "2.1"),
    etcd22(false, 64, 256, true, "55286", "7.4"),
    etcd22(false, 256, 64, true, "46603", "2.1"),
    etcd22(false, 256, 256, true, "55291", "7.3"),
    etcd22(true, 64, 1, false, "76", "19.4"),
    etcd22(true, 64, 64, false, "2461", "31.8"),
    etcd22(true, 64, 256, false, "4275", "69.6"),
    etcd22(true, 256, 1, false, "64", "16.7"),
    etcd22(true, 256, 64, false, "2385", "31.5"),
    etcd22(true, 256, 256, false, "4353", "74.0"),
    etcd22(true, 64, 64, true, "2005", "49.8"),
    etcd22(true, 64, 256, true, "4868", "81.5"),
    etcd22(true, 256, 64, true, "1925", "47.7"),
    etcd22(true, 256, 256, true, "4975", "70.3"),
];

/// Known doubts about [`ETCD22`].
///
/// Source: `hack/benchmark/bench.sh` of etcd 2.2.0-rc.0, which the document refers to.
pub const ETCD22_DOUBTS: [&str; 4] = [
    "published in 2015: etcd 2.2.0-rc built with Go 1.4, 3 servers of 2 cores each (GCE \
     n1-highcpu-2) with an SSD of its own, the generator on another machine",
    "the document's script sends 10 writes or 100 reads for each client of a row, so that beginning \
     is a part of its latencies; here a row has its seconds, behind a warm-up",
    "reads of all servers were made at one server after the other, with a third of the clients \
     each, and presumably added up: a server never had the clients of a row at once, unlike here",
    "the script's writes do not say that their body is a form, so etcd may have written empty values",
];

/// A row of the report on Ozone's chunk layouts: freon's chunk writer (`cmdw`) with 16 threads and
/// 16 chunks to a block, buffered, followed by `sync`. The figures are medians of six machines,
/// each with a Xeon E5-2630v3 and one 7200 rpm disk of 10 TB (HGST).
#[derive(Clone, Copy, Debug)]
pub struct CmdwRow {
    /// Bytes of a chunk: the document's 1k, 10k, 100k, 1M (1000 KiB), 4M (4000 KiB).
    pub chunk_bytes: u64,
    /// The layout, in Ozone's spelling.
    pub layout: &'static str,
    /// Chunks that the test writes.
    pub chunks: u64,
    /// Chunks a second before the sync, as printed.
    pub rate: f64,
    /// Seconds that `sync` took after the writes.
    pub sync_s: f64,
}

const fn cmdw(
    chunk_bytes: u64,
    layout: &'static str,
    chunks: u64,
    rate: f64,
    sync_s: f64,
) -> CmdwRow {
    CmdwRow { chunk_bytes, layout, chunks, rate, sync_s }
}

const PER_CHUNK: &str = "FILE_PER_CHUNK";
const PER_BLOCK: &str = "FILE_PER_BLOCK";

/// The whole table of Ozone's report.
pub const CMDW: [CmdwRow; 10] = [
    cmdw(1_024, PER_CHUNK, 1_000_000, 114_000.0, 82.5),
    cmdw(1_024, PER_BLOCK, 1_000_000, 330_000.0, 16.3),
    cmdw(10_240, PER_CHUNK, 100_000, 64_900.0, 19.6),
    cmdw(10_240, PER_BLOCK, 100_000, 93_600.0, 16.3),
    cmdw(102_400, PER_CHUNK, 10_000, 9_740.0, 16.1),
    cmdw(102_400, PER_BLOCK, 10_000, 9_730.0, 17.9),
    cmdw(1_024_000, PER_CHUNK, 1_000, 975.0, 16.0),
    cmdw(1_024_000, PER_BLOCK, 1_000, 972.0, 10.8),
    cmdw(4_096_000, PER_CHUNK, 100, 97.7, 6.3),
    cmdw(4_096_000, PER_BLOCK, 100, 97.7, 4.2),
];

/// Known doubts about [`CMDW`], and about what it measures.
pub const CMDW_DOUBTS: [&str; 4] = [
    "published: freon cmdw, 16 threads, medians of six machines with one 7200 rpm disk each; what \
     this disk can do stands there as the limits",
    "the published rates at 100 KiB and above are n / 1.02 s (9744, 975, 97.7; the same for both \
     layouts): the generator ends on the tick of a progress bar that sleeps 1 s. They say nothing; \
     what remains is the sync, and so the rate that includes it. Here time is exact",
    "acknowledged is not durable in Ozone's default: nothing it does to a chunk, PutBlock and \
     CloseContainer included, ends in an fsync (hdds.container.chunk.write.sync is false). \
     --durability group-synced compares durable writes",
    "CPU is that of the process. What its own fdatasync writes back is in it; what syncfs lets the \
     kernel's threads write back is in nobody's",
];

impl CmdwRow {
    /// Seconds that the writes took before the sync. They follow from the rate, which is exact; the
    /// document's own column counts whole ticks.
    pub fn write_s(&self) -> f64 {
        self.chunks as f64 / self.rate
    }

    /// Chunks a second, the sync included.
    pub fn rate_with_sync(&self) -> f64 {
        self.chunks as f64 / (self.write_s() + self.sync_s)
    }
}
