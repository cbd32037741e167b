//! What the documents published that the workloads come from. Their hardware is not ours: they stand
//! beside the figures of a real server on the same machine, never instead of them.

/// A row of P. Hunt's "ZooKeeper service latencies under various loads & configurations"
/// (ZooKeeper 3.2.1; two 4-core Xeons at 2.5 GHz limited to so many cores, one 7200 rpm SATA disk
/// for log and data, 1 GbE). Each client did 50,000 writes and 60,000 reads, pipelined.
#[derive(Clone, Copy, Debug)]
pub struct HuntRow {
    /// That the server was limited to.
    pub cores: u32,
    /// At once.
    pub clients: usize,
    /// Seconds on one standalone server.
    pub standalone_s: u32,
    /// Seconds on three servers.
    pub three_servers_s: u32,
}

/// Operations of each client in that test.
pub const HUNT_OPERATIONS: u64 = 110_000;

const fn hunt(cores: u32, clients: usize, standalone_s: u32, three_servers_s: u32) -> HuntRow {
    HuntRow { cores, clients, standalone_s, three_servers_s }
}

/// The whole table. The rates printed beside it are those of the slowest client; operations a second
/// of all clients have to be worked out from the seconds.
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
    /// Operations a second of all clients, standalone and with three servers.
    pub fn rates(&self) -> (f64, f64) {
        let all = (self.clients as u64 * HUNT_OPERATIONS) as f64;
        (all / f64::from(self.standalone_s), all / f64::from(self.three_servers_s))
    }
}
