//! Makes revisions so large that a watch gets each in fragments, and compares the fragments: both
//! servers must cut a revision at the same events.
//!
//! A request is smaller than a fragment. So only two things make a revision larger than a fragment:
//! the previous values (`prev_kv`) of its events, or a delete that removes many pairs. The watches
//! here are up to date, so each gets a revision as soon as it is made; therefore the responses
//! themselves can be compared, and not only their events. etcd counts the bytes of a response's
//! header and Quorate does not; the sizes of values are such that no cut depends on that.

use std::collections::BTreeMap;

use anyhow::Context;
use bytes::Bytes;
use etcd::pb::Message;
use etcd::pb::etcdserverpb as pb;
use pb::request_op::Request as Op;
use pb::watch_request::RequestUnion;
use tokio::time::timeout;

use super::request::{Request, everything};
use super::watches::Difference;
use crate::limits::DIFFERENTIAL_SILENCE;
use crate::random::Random;
use crate::workloads::etcd::client::EtcdClient;
use crate::workloads::etcd::grpc::{Received, Stream};

/// The unit of the sizes of values, bytes. All other bytes of a response together are fewer.
const UNIT_BYTES: u64 = 4_096;

/// The least and the most [`UNIT_BYTES`] that the values of one transaction have together. Even the
/// most are below etcd's limit for a request (1.5 MiB), and even the least are more than half of
/// the limit for a fragment (2 MiB).
const UNITS_MIN: u64 = 280;
const UNITS_MAX: u64 = 360;

/// The most keys of a transaction.
const KEYS_MAX: u64 = 30;

/// The watches of a stream. For each of them this says whether it asks for fragments, and whether
/// it asks for the previous values of events.
const WATCHES: [(bool, bool); 4] = [(true, true), (true, false), (false, true), (false, false)];

/// The writes of a seed: transactions that put large values, then a delete of all keys.
pub fn writes(seed: u64) -> Vec<Request> {
    let mut random = Random::new(seed ^ 0x66_72_61_67);
    // The second put replaces the values of the first. The third is about other keys.
    let mut names = vec!["a", "a", "b"];
    for _ in 0..random.below(3) {
        names.push(*random.pick(&["a", "b"]));
    }
    let mut writes: Vec<_> = names.iter().map(|name| put(&mut random, name)).collect();
    writes.push(Request::DeleteRange(everything()));
    writes
}

/// A transaction that puts large values.
fn put(random: &mut Random, name: &str) -> Request {
    let count = 1 + random.below(KEYS_MAX);
    let mut units = vec![0; count as usize];
    let mut left = UNITS_MIN + random.below(UNITS_MAX - UNITS_MIN + 1);
    while left > 0 {
        let some = 1 + random.below(left.min(100));
        units[random.below(count) as usize] += some;
        left -= some;
    }
    let put = |(number, units)| {
        let (key, value) =
            (format!("{name}{number:02}"), vec![b'x'; (units * UNIT_BYTES) as usize]);
        let put = pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() };
        pb::RequestOp { request: Some(Op::RequestPut(put)) }
    };
    let success = units.into_iter().enumerate().map(put).collect();
    Request::Txn(pb::TxnRequest { success, ..Default::default() })
}

/// A stream to each server, with watches of all keys.
pub struct Fragments {
    /// The reference server, then the other.
    sides: [Side; 2],
    /// How many fragments were equal, not counting the last one of each revision.
    pub count: usize,
}

struct Side {
    stream: Stream,
    /// For each watch, its responses with events since the last comparison.
    responses: BTreeMap<i64, Vec<pb::WatchResponse>>,
}

impl Side {
    async fn open(server: &mut EtcdClient) -> anyhow::Result<Side> {
        let mut stream = server.open_watches(false).await?;
        let all = Bytes::from_static(b"\0");
        for (fragment, prev_kv) in WATCHES {
            let (key, range_end) = (all.clone(), all.clone());
            let create =
                pb::WatchCreateRequest { key, range_end, fragment, prev_kv, ..Default::default() };
            let request_union = Some(RequestUnion::CreateRequest(create));
            stream.send(&pb::WatchRequest { request_union }.encode_to_vec())?;
        }
        let mut side = Side { stream, responses: BTreeMap::new() };
        for _ in WATCHES {
            let created = side.next().await?;
            anyhow::ensure!(created.created && !created.canceled, "no watch: {created:?}");
        }
        Ok(side)
    }

    async fn next(&mut self) -> anyhow::Result<pb::WatchResponse> {
        let received = timeout(DIFFERENTIAL_SILENCE, self.stream.next()).await.context("silent")?;
        let Received::Message(message) = received? else { anyhow::bail!("the stream has ended") };
        let mut response = pb::WatchResponse::decode(message)?;
        // The other numbers of the header differ between servers.
        let revision = response.header.context("a response without a header")?.revision;
        response.header = Some(pb::ResponseHeader { revision, ..Default::default() });
        Ok(response)
    }

    /// Reads until each watch has shown one revision.
    async fn read(&mut self) -> anyhow::Result<()> {
        let mut open_count = WATCHES.len();
        while open_count > 0 {
            let response = self.next().await?;
            open_count -= usize::from(!response.fragment);
            self.responses.entry(response.watch_id).or_default().push(response);
        }
        Ok(())
    }

    fn describe(&self) -> String {
        let of = |it: &pb::WatchResponse| {
            let revision = it.header.map_or(0, |header| header.revision);
            let (count, fragment) = (it.events.len(), it.fragment);
            format!("{{ at {revision}: {count} events, fragment: {fragment} }}")
        };
        let of_watch = |(id, responses): (&i64, &Vec<_>)| {
            format!("watch {id}: {}", responses.iter().map(of).collect::<Vec<_>>().join(", "))
        };
        self.responses.iter().map(of_watch).collect::<Vec<_>>().join("; ")
    }
}

impl Fragments {
    /// Opens the streams. `servers` are connections to the reference server and to the other.
    ///
    /// # Errors
    /// A server does not answer, or its answer is not etcd's protocol.
    pub async fn open(servers: &mut (EtcdClient, EtcdClient)) -> anyhow::Result<Fragments> {
        let sides = [Side::open(&mut servers.0).await?, Side::open(&mut servers.1).await?];
        Ok(Fragments { sides, count: 0 })
    }

    /// Reads the responses to one revision, and compares them.
    ///
    /// # Errors
    /// See [`Fragments::open`].
    pub async fn compare(&mut self) -> anyhow::Result<Option<Difference>> {
        for side in &mut self.sides {
            let read = side.read().await;
            read.with_context(|| format!("a large revision; so far {}", side.describe()))?;
        }
        let [expected, got] = &self.sides;
        if expected.responses != got.responses {
            let asked = "what comes in fragments".to_string();
            let (expected, got) = (expected.describe(), got.describe());
            return Ok(Some(Difference { asked, expected, got }));
        }
        self.count += expected.responses.values().flatten().filter(|it| it.fragment).count();
        self.sides.iter_mut().for_each(|side| side.responses.clear());
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
