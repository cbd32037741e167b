//! The watch of one kind by one apiserver. It checks that no event is missing: the versions of a
//! key go up by one, revisions never go down, and the watch sees as many puts as were acknowledged.
//! In the end it must have the same keys as the server. It also keeps how many keys there were at
//! each revision.

use std::collections::HashMap;
use std::time::Instant;

use bytes::Bytes;
use etcd::pb::{Message, etcdserverpb as pb, mvccpb};
use mvccpb::event::EventType;
use pb::watch_request::RequestUnion;

use super::cluster::Kind;
use super::value::Head;
use crate::limits::KUBE_SIZES_MAX;
use crate::measure::stats::Latencies;
use crate::workloads::etcd::client::EtcdClient;
use crate::workloads::etcd::grpc::{Received, Stream};

/// A summary of the events that one watch has seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// The version of each key that exists.
    versions: HashMap<Bytes, i64>,
    /// The number of keys after each revision that changed that number; only the first
    /// [`KUBE_SIZES_MAX`] changes.
    sizes: Vec<(i64, u64)>,
    last_revision: i64,
    /// The number of puts.
    pub puts: u64,
    /// The sum of the revisions of all puts.
    pub revision_sum: i64,
    /// Versions of a key that were skipped or came twice, and deletes of keys that did not exist.
    pub missed: u64,
    /// Events whose revision is lower than that of an earlier event.
    pub out_of_order: u64,
    /// Whether the server ended the watch before the last put.
    pub has_ended: bool,
    /// For each put, the time from its send to its event.
    pub delays: Latencies,
}

/// The results of all watches.
pub struct Watched {
    /// For each watch its kind, and what it has seen.
    pub seen: Vec<(Kind, Seen)>,
    /// For each kind the revision of its last put, which ended its watches.
    pub revisions: [i64; Kind::ALL.len()],
}

impl Seen {
    fn on_event(&mut self, event: &mvccpb::Event, now_ns: u64) {
        let Some(kv) = &event.kv else { return };
        self.out_of_order += u64::from(kv.mod_revision < self.last_revision);
        self.last_revision = self.last_revision.max(kv.mod_revision);
        if event.r#type == i32::from(EventType::Delete) {
            self.missed += u64::from(self.versions.remove(&kv.key).is_none());
            self.note_size(kv.mod_revision);
            return;
        }
        self.puts += 1;
        self.revision_sum = self.revision_sum.wrapping_add(kv.mod_revision);
        let version = self.versions.entry(kv.key.clone()).or_default();
        self.missed += u64::from(kv.version != *version + 1);
        *version = kv.version;
        self.note_size(kv.mod_revision);
        // Puts from before the run have no send time.
        if let Some(head) = Head::of(&kv.value).filter(|head| head.sent_ns > 0) {
            self.delays.record(now_ns.saturating_sub(head.sent_ns));
        }
    }

    fn note_size(&mut self, revision: i64) {
        let keys = self.versions.len() as u64;
        let is_full = self.sizes.len() == KUBE_SIZES_MAX;
        match self.sizes.last_mut() {
            // One revision may have several events.
            Some((newest, count)) if *newest == revision => *count = keys,
            Some((_, count)) if *count == keys => {}
            _ if is_full => {}
            _ => self.sizes.push((revision, keys)),
        }
    }

    /// How many keys there were at a revision; `None` if the watcher did not keep all changes up to
    /// that revision.
    pub fn keys_at(&self, revision: i64) -> Option<u64> {
        let behind = self.sizes.partition_point(|(at, _)| *at <= revision);
        let is_full = self.sizes.len() == KUBE_SIZES_MAX;
        let keys = behind.checked_sub(1).map_or(0, |place| self.sizes[place].1);
        (behind < self.sizes.len() || !is_full).then_some(keys)
    }

    /// On how many keys the watch and the server disagree: keys that only one of them has, or that
    /// have another version. The server has `count` keys; `version` returns the version of a key
    /// there.
    pub fn differences(&self, count: usize, version: impl Fn(&Bytes) -> Option<i64>) -> u64 {
        let versions = self.versions.iter();
        let both = versions.clone().filter(|(key, _)| version(key).is_some()).count();
        let same = versions.filter(|(key, own)| version(key) == Some(**own)).count();
        ((self.versions.len() - both) + (count - both) + (both - same)) as u64
    }
}

/// A watch that is set, and ends when `last_key` is put.
pub struct Watcher {
    stream: Stream,
    last_key: Bytes,
    started: Instant,
}

impl Watcher {
    /// Sets a watch on a range, from now on, with the options that apiservers use; waits until the
    /// server has set it. It ends when `last_key` is put. Times count from `started`.
    ///
    /// # Errors
    /// The server refuses the watch, or the connection ends.
    pub async fn open(
        client: &mut EtcdClient,
        (key, range_end): (Bytes, Bytes),
        last_key: Bytes,
        started: Instant,
    ) -> anyhow::Result<Watcher> {
        let create = pb::WatchCreateRequest {
            key,
            range_end,
            prev_kv: true,
            progress_notify: true,
            ..Default::default()
        };
        let request = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        let mut stream = client.open_watches(true).await?;
        stream.send(&request.encode_to_vec())?;
        let Received::Message(message) = stream.next().await? else {
            anyhow::bail!("a watch is refused");
        };
        anyhow::ensure!(pb::WatchResponse::decode(message)?.created, "a watch is refused");
        Ok(Watcher { stream, last_key, started })
    }

    /// Reads events until the last key is put or the server ends the watch.
    pub async fn watch(mut self) -> Seen {
        let mut seen = Seen::default();
        // An error means that the stream has ended.
        while let Ok(Received::Message(message)) = self.stream.next().await {
            let Ok(response) = pb::WatchResponse::decode(message) else { break };
            if response.canceled {
                break;
            }
            let now_ns = self.started.elapsed().as_nanos() as u64;
            for event in &response.events {
                seen.on_event(event, now_ns);
                if event.kv.as_ref().is_some_and(|kv| kv.key == self.last_key) {
                    return seen;
                }
            }
        }
        seen.has_ended = true;
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(events: &[(EventType, &'static str, i64, i64)]) -> Seen {
        let mut seen = Seen::default();
        for (kind, key, version, mod_revision) in events {
            let (version, mod_revision) = (*version, *mod_revision);
            let kv = mvccpb::KeyValue {
                key: Bytes::from_static(key.as_bytes()),
                version,
                mod_revision,
                ..Default::default()
            };
            let event =
                mvccpb::Event { r#type: (*kind).into(), kv: Some(kv), ..Default::default() };
            seen.on_event(&event, 0);
        }
        seen
    }

    fn seen(events: &[(EventType, &'static str, i64, i64)]) -> (u64, u64, u64) {
        let seen = watched(events);
        (seen.puts, seen.missed, seen.out_of_order)
    }

    #[test]
    fn a_version_that_is_skipped_and_a_revision_that_goes_down_are_seen() {
        use EventType::{Delete, Put};
        assert_eq!(
            seen(&[(Put, "a", 1, 2), (Put, "a", 2, 3), (Put, "b", 1, 3), (Delete, "a", 0, 4)]),
            (3, 0, 0)
        );
        assert_eq!(seen(&[(Put, "a", 1, 2), (Put, "a", 3, 4)]), (2, 1, 0));
        assert_eq!(seen(&[(Put, "a", 1, 2), (Put, "a", 1, 2)]), (2, 1, 0));
        assert_eq!(seen(&[(Put, "a", 1, 5), (Put, "b", 1, 4)]), (2, 0, 1));
        assert_eq!(seen(&[(Delete, "a", 0, 5)]), (0, 1, 0));
        assert_eq!(seen(&[(Put, "a", 1, 2), (Delete, "a", 0, 3), (Put, "a", 2, 4)]), (2, 1, 0));
    }

    #[test]
    fn the_number_of_keys_at_each_revision_is_known() {
        use EventType::{Delete, Put};
        // Revision 7 removes two keys.
        let seen = watched(&[
            (Put, "a", 1, 2),
            (Put, "b", 1, 4),
            (Put, "b", 2, 5),
            (Delete, "a", 0, 7),
            (Delete, "b", 0, 7),
        ]);
        let keys = [1, 2, 3, 4, 6, 7, 9].map(|revision| seen.keys_at(revision).unwrap());
        assert_eq!(keys, [0, 1, 1, 2, 2, 0, 0]);
        let full = Seen { sizes: vec![(2, 1); KUBE_SIZES_MAX], ..Seen::default() };
        assert_eq!([1, 2, 3].map(|revision| full.keys_at(revision)), [Some(0), None, None]);
    }

    #[test]
    fn a_delete_that_the_watch_misses_is_a_difference() {
        use EventType::Put;
        let seen = watched(&[(Put, "a", 1, 2), (Put, "b", 1, 3), (Put, "b", 2, 4)]);
        let differences = |found: &[(&str, i64)]| {
            let version = |key: &Bytes| found.iter().find(|it| *key == it.0).map(|it| it.1);
            seen.differences(found.len(), version)
        };
        assert_eq!(differences(&[("a", 1), ("b", 2)]), 0);
        assert_eq!(differences(&[("b", 2)]), 1, "the delete of a was missed");
        assert_eq!(differences(&[("a", 1), ("b", 2), ("c", 1)]), 1, "the put of c was missed");
        assert_eq!(differences(&[("a", 1), ("b", 3)]), 1, "a put of b was missed");
        assert_eq!(differences(&[("c", 1)]), 3);
    }
}
