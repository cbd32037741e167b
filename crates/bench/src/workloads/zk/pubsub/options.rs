//! The options that `quorate bench pubsub` and `zk-notify` share, and the number of connections of
//! a test.

use clap::Args;

use crate::limits::{CLIENTS_MAX, DATA_BYTES_MAX, ITEMS_MAX, RATE_MAX};
use crate::workloads::zk::pubsub::item::ITEM_BYTES;

/// Options of workloads in which clients publish items.
#[derive(Clone, Debug, Args)]
pub struct PublishArgs {
    /// Bytes of data in an item
    #[arg(
        long,
        value_name = "BYTES,...",
        value_delimiter = ',',
        default_value = "256,1024,2048,4096"
    )]
    pub size: Vec<usize>,
    /// Connections that publish, each to paths of its own
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub publishers: usize,
    /// Connections that watch the publishers' paths, in turn
    #[arg(long, value_name = "N", default_value_t = 3_000)]
    pub subscribers: usize,
    /// Items in all; the document's number is 200000
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub items: u64,
    /// Items before the counted ones, on the same connections, to warm the servers
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    pub warmup_items: u64,
    /// Items a second, all publishers together, in open loop [default: closed loop]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=RATE_MAX))]
    pub rate: Option<u64>,
}

impl PublishArgs {
    /// Checks the options, and names the first one that is impossible.
    ///
    /// # Errors
    /// An option asks for something impossible.
    pub fn check(&self) -> anyhow::Result<()> {
        for (name, number, min, max) in [
            ("publishers", self.publishers, 1, CLIENTS_MAX),
            ("subscribers", self.subscribers, 1, CLIENTS_MAX),
            ("items", self.items as usize, 1, ITEMS_MAX as usize),
            ("warmup-items", self.warmup_items as usize, 0, ITEMS_MAX as usize),
        ] {
            anyhow::ensure!(
                (min..=max).contains(&number),
                "--{name}: {number} is not in {min}..={max}"
            );
        }
        for size in &self.size {
            let (min, max) = (ITEM_BYTES, DATA_BYTES_MAX);
            anyhow::ensure!((min..=max).contains(size), "--size: {size} is not in {min}..={max}");
        }
        Ok(())
    }

    /// Describes how many items there are and how they are sent.
    pub fn about(&self) -> String {
        let sent = match self.rate {
            Some(rate) => {
                format!("open loop at {rate} items per s, latency from the intended start")
            }
            None => "closed loop, latency from the write to the socket".to_string(),
        };
        format!("{} items after {} that warm up; {sent}", self.items, self.warmup_items)
    }
}

/// The numbers of connections of a test. Clients are numbered publishers first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// Connections that publish.
    pub publishers: usize,
    /// Connections that watch what is published; 0 in some tests.
    pub subscribers: usize,
}

impl Connections {
    /// The number of all connections.
    pub fn count(&self) -> usize {
        self.publishers + self.subscribers
    }

    /// At most `max` connections, with publishers and subscribers in the same proportion.
    pub fn at_most(&self, max: usize) -> Connections {
        if self.count() <= max {
            return *self;
        }
        let publishers = (self.publishers * max / self.count()).max(1);
        // If the number of subscribers is a multiple of the publishers, each publisher keeps as
        // many.
        let subscribers = self.subscribers * publishers / self.publishers;
        Connections { publishers, subscribers }
    }

    /// The remark that there are only this many connections.
    pub fn remark(&self) -> String {
        let Connections { publishers, subscribers } = self;
        format!("with {publishers} publishers, {subscribers} subscribers: RLIMIT_NOFILE")
    }
}

/// How many of `count` items publisher `publisher` has, where item `i` belongs to publisher `i %
/// publishers`.
pub fn share(count: u64, publishers: usize, publisher: usize) -> usize {
    let (publishers, publisher) = (publishers as u64, publisher as u64);
    (count / publishers + u64::from(publisher < count % publishers)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_connections_are_shared_out() {
        let all = Connections { publishers: 1_000, subscribers: 3_000 };
        assert_eq!(all.at_most(4_000), all);
        assert_eq!(all.at_most(403), Connections { publishers: 100, subscribers: 300 });
        let none = Connections { subscribers: 0, ..all }.at_most(10);
        assert_eq!(none, Connections { publishers: 10, subscribers: 0 });
    }

    #[test]
    fn shares_add_up_and_differ_by_one_at_most() {
        let shares = |count| [0, 1, 2].map(|publisher| share(count, 3, publisher));
        assert_eq!([0, 2, 3, 7].map(shares), [[0, 0, 0], [1, 1, 0], [1, 1, 1], [3, 2, 2]]);
    }
}
