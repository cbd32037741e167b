//! Compares watches on both servers: equal requests go to a stream on each, and the responses must
//! be equal.
//!
//! How events are spread over responses depends on time, in etcd as well, because a background loop
//! serves watches that start at an old revision. So the events of each watch are compared as one
//! list, and the responses without events as another. Numbers in headers are compared only where
//! nothing else happens meanwhile. What etcd guarantees for each response is checked on each side:
//! no header has a lower revision than its events, and a revision is in one response, except for
//! fragments that were asked for.
//!
//! The sides are compared once both are *settled*. A side is settled when the first watch of each
//! stream, which covers all keys, has shown the newest revision. The tested server must also have
//! promised progress: it must have answered a progress request with a revision that all watches
//! have reached. (etcd may drop all such requests, so its promise is not required.) Two kinds of
//! streams have no promise to wait for. etcd gives none on a stream with a watch that starts in the
//! future, so these watches have their own stream. And etcd gives none on a stream with a watch
//! that ended because its start was compacted, since it keeps the id of that watch; Quorate does
//! give one there, so such a stream is closed soon. A compaction waits until all streams are
//! settled, because what a watch still has to read would otherwise depend on time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use etcd::pb::etcdserverpb as pb;
use etcd::pb::etcdserverpb::watch_request::RequestUnion;
use etcd::pb::{Message, mvccpb};
use tokio::time::{Instant, sleep_until};

use super::generate::Generator;
use crate::limits::DIFFERENTIAL_SILENCE;
use crate::random::Random;
use crate::workloads::etcd::client::EtcdClient;
use crate::workloads::etcd::grpc::{Received, Stream};

/// The time between two progress requests. etcd drops those that come too early.
const ASK: Duration = Duration::from_millis(30);

/// How long to wait for a watch with an old start revision, where no promise says that it has shown
/// everything. etcd's background loop runs every 100 ms.
const BEHIND: Duration = Duration::from_millis(250);

/// How long a watch that seems to start below the compacted revision may take to end.
const COMPACTED: Duration = Duration::from_secs(1);

/// The most watches of one stream.
const WATCHES_MAX: usize = 12;

/// The id of the first watch of each stream, which covers all keys.
const EVERYTHING: i64 = 0;

/// The id of a watch that does not exist.
const UNKNOWN_WATCH: i64 = 99;

/// A difference between the sides.
#[derive(Debug)]
pub struct Difference {
    /// The last request on the stream.
    pub asked: String,
    /// The responses and events of the reference server, as text.
    pub expected: String,
    /// The responses and events of the server in question, as text.
    pub got: String,
}

/// All watch streams of a seed.
pub struct Watches {
    random: Random,
    /// Draws the keys of watches.
    keys: Generator,
    streams: Vec<Both>,
    /// How many events were equal; the caller takes the number out from time to time.
    pub event_count: usize,
}

/// A stream to each of the two servers.
struct Both {
    /// Whether watches of this stream may start in the future; the server then promises no
    /// progress.
    is_late: bool,
    /// Whether a watch has ended because its start revision was compacted.
    is_spent: bool,
    /// The reference server, then the other.
    sides: [Side; 2],
    /// The ids of the open watches, except [`EVERYTHING`].
    open: Vec<i64>,
    /// The last request on the stream, as text.
    asked: String,
}

/// The stream to one server.
struct Side {
    stream: Stream,
    sent: Sent,
}

/// The responses and events that a server has sent on a stream.
#[derive(Default)]
struct Sent {
    /// Since the last comparison, the responses without events, except those to progress requests.
    controls: Vec<pb::WatchResponse>,
    /// Since the last comparison, the events of each watch.
    events: BTreeMap<i64, Vec<mvccpb::Event>>,
    /// The newest revision that watch [`EVERYTHING`] has shown; at first the one at which it was
    /// created.
    shown: i64,
    /// The newest revision in a response to a progress request.
    promised: i64,
    /// For each watch the last revision that it has shown, and whether more fragments of it follow.
    last: BTreeMap<i64, (i64, bool)>,
    /// The watches that asked for fragments; and whether the request for a watch that is not
    /// answered yet asks for them.
    fragmenting: BTreeSet<i64>,
    asks_for_fragments: bool,
}

impl Side {
    fn send(&mut self, union: &RequestUnion) -> anyhow::Result<()> {
        let request = pb::WatchRequest { request_union: Some(union.clone()) };
        self.stream.send(&request.encode_to_vec())
    }
}

impl Sent {
    /// Takes in a response, and checks the rules that etcd guarantees for every response.
    fn take(&mut self, received: Received) -> anyhow::Result<()> {
        let Received::Message(message) = received else { anyhow::bail!("{received:?}") };
        let mut response = pb::WatchResponse::decode(message)?;
        let header = response.header.as_mut().context("a response without a header")?;
        let revision = header.revision;
        // These numbers differ between servers, so only whether they are set is compared.
        header.cluster_id = header.cluster_id.min(1);
        header.member_id = header.member_id.min(1);
        header.raft_term = header.raft_term.min(1);
        if response.created && response.watch_id == EVERYTHING {
            self.shown = revision;
        }
        if response.created {
            // The id may have been that of a watch that has ended.
            self.last.remove(&response.watch_id);
            match self.asks_for_fragments {
                true => self.fragmenting.insert(response.watch_id),
                false => self.fragmenting.remove(&response.watch_id),
            };
        }
        if response.created || response.canceled {
            self.controls.push(response);
            return Ok(());
        }
        if response.events.is_empty() && !response.fragment {
            anyhow::ensure!(response.watch_id == -1, "progress that nobody asked for");
            self.promised = self.promised.max(revision);
            return Ok(());
        }
        let id = response.watch_id;
        let may_be_fragment = !response.fragment || self.fragmenting.contains(&id);
        anyhow::ensure!(may_be_fragment, "a fragment that nobody asked for");
        let first = response.events.first().and_then(|event| event.kv.as_ref());
        let first = first.map_or(i64::MAX, |kv| kv.mod_revision);
        let (shown, has_more) = self.last.get(&id).copied().unwrap_or_default();
        anyhow::ensure!(first > shown || has_more, "revision {first} is in two responses");
        for event in response.events {
            let of_event = event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
            anyhow::ensure!(of_event <= revision, "header {revision} is below {event:?}");
            if id == EVERYTHING {
                self.shown = self.shown.max(of_event);
            }
            self.last.insert(id, (of_event, response.fragment));
            self.events.entry(id).or_default().push(event);
        }
        Ok(())
    }

    fn has_same(&self, other: &Sent) -> bool {
        self.controls == other.controls && self.events == other.events
    }

    fn describe(&self) -> String {
        let Sent { controls, events, shown, promised, .. } = self;
        format!("shown {shown}, promised {promised}, {controls:?}, {events:?}")
    }
}

impl Both {
    /// Opens a stream to each server, with a watch of all keys as the first watch.
    async fn open(servers: &mut (EtcdClient, EtcdClient), is_late: bool) -> anyhow::Result<Both> {
        let side = |stream| Side { stream, sent: Sent::default() };
        let sides = [
            side(servers.0.open_watches(false).await?),
            side(servers.1.open_watches(false).await?),
        ];
        let (open, asked) = (Vec::new(), String::new());
        let mut both = Both { is_late, is_spent: false, sides, open, asked };
        let all = Bytes::from_static(b"\0");
        let create =
            pb::WatchCreateRequest { key: all.clone(), range_end: all, ..Default::default() };
        both.create(create, 0).await?;
        Ok(both)
    }

    fn send(&mut self, union: &RequestUnion) -> anyhow::Result<()> {
        self.asked = format!("{union:?}");
        self.sides.iter_mut().try_for_each(|side| side.send(union))
    }

    /// Reads from both servers until `is_so` is true. Returns false if it does not become true
    /// within [`DIFFERENTIAL_SILENCE`].
    async fn read_until(&mut self, is_so: impl Fn(&Both) -> bool) -> anyhow::Result<bool> {
        self.read_for(DIFFERENTIAL_SILENCE, is_so).await
    }

    async fn read_for(
        &mut self,
        time: Duration,
        is_so: impl Fn(&Both) -> bool,
    ) -> anyhow::Result<bool> {
        let until = Instant::now() + time;
        while !is_so(self) {
            let [expected, got] = &mut self.sides;
            tokio::select! {
                biased;
                received = expected.stream.next() => expected.sent.take(received?)?,
                received = got.stream.next() => got.sent.take(received?)?,
                () = sleep_until(until) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Creates a watch on both servers, and waits for the answers.
    async fn create(
        &mut self,
        create: pb::WatchCreateRequest,
        compacted: i64,
    ) -> anyhow::Result<()> {
        let is_compacted = (1..compacted).contains(&create.start_revision);
        self.sides.iter_mut().for_each(|side| side.sent.asks_for_fragments = create.fragment);
        let count = |side: &Side| side.sent.controls.iter().filter(|it| it.created).count();
        let before = count(&self.sides[0]);
        self.send(&RequestUnion::CreateRequest(create))?;
        let is_answered = |both: &Both| both.sides.iter().all(|side| count(side) > before);
        let is_created = self.read_until(is_answered).await?;
        anyhow::ensure!(is_created, "a watch is not created: {}", self.asked);
        let created = self.sides[0].sent.controls.iter().rfind(|it| it.created);
        let created = created.expect("it was created");
        if created.canceled || created.watch_id == EVERYTHING {
            return Ok(());
        }
        let id = created.watch_id;
        if !is_compacted {
            self.open.push(id);
            return Ok(());
        }
        // At the start of a seed the compacted revision is not known exactly, so the watch may not
        // end.
        self.is_spent = self.read_for(COMPACTED, |both| both.has_ended(id)).await?;
        if !self.is_spent {
            self.open.push(id);
        }
        Ok(())
    }

    /// Whether a watch has ended on both sides.
    fn has_ended(&self, id: i64) -> bool {
        let is_it = |it: &pb::WatchResponse| it.canceled && it.watch_id == id;
        self.sides.iter().all(|side| side.sent.controls.iter().any(is_it))
    }

    async fn read_until_cancelled(&mut self, id: i64) -> anyhow::Result<()> {
        let ends = self.read_until(|both| both.has_ended(id)).await?;
        let asked = &self.asked;
        let sides = self.sides.each_ref().map(|side| side.sent.describe());
        anyhow::ensure!(ends, "watch {id} does not end: {asked}; {sides:#?}");
        Ok(())
    }

    /// Cancels a watch on both servers, and waits for the answers.
    async fn cancel(&mut self, watch_id: i64) -> anyhow::Result<()> {
        self.send(&RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id }))?;
        if watch_id == UNKNOWN_WATCH {
            return Ok(());
        }
        self.read_until_cancelled(watch_id).await
    }

    /// Waits until both sides are settled at revision `newest`, and compares what they have sent.
    async fn settle(
        &mut self,
        newest: i64,
        event_count: &mut usize,
    ) -> anyhow::Result<Option<Difference>> {
        let asked = self.asked.clone();
        let has_shown = |both: &Both| both.sides.iter().all(|side| side.sent.shown >= newest);
        let mut is_settled = self.read_until(has_shown).await?;
        if self.is_spent {
            self.read_for(BEHIND, |_| false).await?;
        } else if is_settled && !self.is_late {
            let deadline = Instant::now() + DIFFERENTIAL_SILENCE;
            let is_promised = |both: &Both| both.sides.iter().all(|it| it.sent.promised >= newest);
            while !is_promised(self) && Instant::now() < deadline {
                self.send(&RequestUnion::ProgressRequest(pb::WatchProgressRequest {}))?;
                self.read_for(ASK, is_promised).await?;
            }
            // etcd may drop all requests, so only the other side must have promised.
            is_settled = self.sides[1].sent.promised >= newest;
            if !is_promised(self) {
                self.read_for(BEHIND, |_| false).await?;
            }
        }
        let is_same = |both: &Both| both.sides[0].sent.has_same(&both.sides[1].sent);
        if !is_settled || !self.read_until(is_same).await? {
            let [expected, got] = self.sides.each_ref().map(|side| side.sent.describe());
            return Ok(Some(Difference { asked, expected, got }));
        }
        for control in self.sides[0].sent.controls.iter().filter(|it| it.canceled) {
            self.open.retain(|id| *id != control.watch_id);
        }
        *event_count += self.sides[0].sent.events.values().map(Vec::len).sum::<usize>();
        for side in &mut self.sides {
            (side.sent.controls, side.sent.events) = (Vec::new(), BTreeMap::new());
        }
        Ok(None)
    }
}

impl Watches {
    /// No streams yet. `revision` is the revision at the start of the seed.
    pub fn new(seed: u64, revision: i64) -> Watches {
        let apart = seed ^ 0x77_61_74_63_68;
        let (random, keys) = (Random::new(apart), Generator::new(seed, revision));
        Watches { random, keys, streams: Vec::new(), event_count: 0 }
    }

    /// Waits until all streams are settled at revision `newest`, and compares them.
    ///
    /// # Errors
    /// A server does not answer, or its answer is not etcd's protocol.
    pub async fn settle(&mut self, newest: i64) -> anyhow::Result<Option<Difference>> {
        for both in &mut self.streams {
            if let Some(difference) = both.settle(newest, &mut self.event_count).await? {
                return Ok(Some(difference));
            }
        }
        Ok(None)
    }

    /// Makes a random step, such as creating or cancelling a watch. `servers` are connections to
    /// the reference server and to the other.
    ///
    /// # Errors
    /// A server does not answer, or its answer is not etcd's protocol.
    pub async fn act(
        &mut self,
        servers: &mut (EtcdClient, EtcdClient),
        (newest, compacted): (i64, i64),
    ) -> anyhow::Result<Option<Difference>> {
        if !self.random.chance(20) {
            return Ok(None);
        }
        if self.streams.len() < 2 {
            let is_late = self.streams.iter().any(|both| !both.is_late);
            self.streams.push(Both::open(servers, is_late).await?);
        }
        let at = self.random.below(self.streams.len() as u64) as usize;
        if self.streams[at].is_spent {
            return self.streams.swap_remove(at).settle(newest, &mut self.event_count).await;
        }
        match self.random.below(20) {
            0..=11 if self.streams[at].open.len() < WATCHES_MAX => {
                let create = self.draw(at, newest, compacted);
                self.streams[at].create(create, compacted).await?;
            }
            // The events that a watch has shown when it is cancelled depend on time if the watch is
            // behind, so the stream settles first.
            0..=15 => {
                if let Some(difference) =
                    self.streams[at].settle(newest, &mut self.event_count).await?
                {
                    return Ok(Some(difference));
                }
                let both = &mut self.streams[at];
                let id = match both.open.is_empty() || self.random.chance(10) {
                    true => UNKNOWN_WATCH,
                    false => *self.random.pick(&both.open),
                };
                both.cancel(id).await?;
            }
            16..=18 => return self.streams[at].settle(newest, &mut self.event_count).await,
            _ => return self.streams.swap_remove(at).settle(newest, &mut self.event_count).await,
        }
        Ok(None)
    }

    fn draw(&mut self, at: usize, newest: i64, compacted: i64) -> pb::WatchCreateRequest {
        let (key, range_end) = self.keys.keys(true);
        let (random, both) = (&mut self.random, &self.streams[at]);
        let back = random.below(40) as i64;
        let start_revision = match random.below(20) {
            0..=2 if both.is_late => newest + 1 + back,
            3 if both.is_late => i64::MAX,
            _ if both.is_late => 0,
            0 => compacted - 1 - back * random.below(2) as i64,
            1 => compacted,
            2 | 3 => compacted + 1,
            4 => *random.pick(&[-1, i64::MIN, 1]),
            5..=12 => (newest - back).max(compacted),
            _ => 0,
        };
        let mut filters = Vec::new();
        for _ in 0..random.below(3) {
            filters.push(if random.chance(95) { random.below(2) as i32 } else { 7 });
        }
        if random.chance(60) {
            filters.clear();
        }
        let watch_id = match random.below(20) {
            0..=13 => 0,
            14 if !both.open.is_empty() => *random.pick(&both.open),
            15 => -5,
            _ => 1 + random.below(8) as i64,
        };
        pb::WatchCreateRequest {
            key: if random.chance(3) { Bytes::new() } else { key },
            range_end,
            start_revision,
            progress_notify: random.chance(30),
            filters,
            // A compaction may come before the pair before the newest event is read.
            prev_kv: !both.is_late && random.chance(50),
            watch_id,
            fragment: random.chance(50),
        }
    }
}

#[cfg(test)]
mod tests;
