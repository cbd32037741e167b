//! The watch of one kind by one apiserver, which checks that no event is missing: the versions of a
//! key go up by one, revisions never go down, and the puts are as many as were acknowledged.

use std::collections::HashMap;
use std::time::Instant;

use bytes::Bytes;
use etcd::pb::{Message, etcdserverpb as pb, mvccpb};
use mvccpb::event::EventType;
use pb::watch_request::RequestUnion;

use super::value::Head;
use crate::client_etcd::Client;
use crate::grpc::{Received, Stream};
use crate::stats::Latencies;

/// What a watch has seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// The version of each key that is there.
    versions: HashMap<Bytes, i64>,
    last_revision: i64,
    /// Puts.
    pub puts: u64,
    /// The sum of the revisions of all puts.
    pub revision_sum: i64,
    /// Versions of a key that were skipped or came twice.
    pub missed: u64,
    /// Events with an older revision than the event before.
    pub out_of_order: u64,
    /// Whether the server ended the watch before the last put.
    pub has_ended: bool,
    /// The time from the send of each put to its event.
    pub delays: Latencies,
}

impl Seen {
    fn on_event(&mut self, event: &mvccpb::Event, now_ns: u64) {
        let Some(kv) = &event.kv else { return };
        self.out_of_order += u64::from(kv.mod_revision < self.last_revision);
        self.last_revision = self.last_revision.max(kv.mod_revision);
        if event.r#type == i32::from(EventType::Delete) {
            self.missed += u64::from(self.versions.remove(&kv.key).is_none());
            return;
        }
        self.puts += 1;
        self.revision_sum = self.revision_sum.wrapping_add(kv.mod_revision);
        let version = self.versions.entry(kv.key.clone()).or_default();
        self.missed += u64::from(kv.version != *version + 1);
        *version = kv.version;
        // Objects of the fill have no time.
        if let Some(head) = Head::of(&kv.value).filter(|head| head.sent_ns > 0) {
            self.delays.record(now_ns.saturating_sub(head.sent_ns));
        }
    }
}

/// A watch that has begun.
pub struct Watcher {
    stream: Stream,
    last_key: Bytes,
    started: Instant,
}

impl Watcher {
    /// Asks for the events of a range from now on, as apiservers do, and waits until the watch is
    /// there. It is over when `last_key` is put. Times count from `started`.
    ///
    /// # Errors
    /// The server refuses the watch.
    pub async fn open(
        client: &mut Client,
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

    /// Reads events until the last key is put, or the server ends the watch.
    pub async fn watch(mut self) -> Seen {
        let mut seen = Seen::default();
        // An error ends the stream as its end does.
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

    fn seen(events: &[(EventType, &'static str, i64, i64)]) -> (u64, u64, u64) {
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
}
