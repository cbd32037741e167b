//! Makes lists of connections, sessions and watches, for four-letter words and admin commands. A
//! list is fetched in pages and cut off at a bound; the number of items left out is reported with
//! it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use machine::{Machine, Owner, SessionId};
use member::fronts::zk::limits::CONNECTION_PAGE_COUNT;
use member::fronts::zk::{WatchCursor, WatchPage};
use zk::four_letter::{ConnectionReport, DumpReport, WatchSummary, WatchesReport};

use super::Observer;
use super::replica::Part;
use crate::listen_zk::ToRuntime;

/// The approximate size at which a list is cut off, in bytes. Further items are only counted.
const LIST_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How many bytes a connection in a list counts as.
const CONNECTION_BYTES: usize = 256;

/// How many bytes a session id in a list counts as.
const SESSION_BYTES: usize = 20;

/// How many sessions `dump` shows. Loop cannot run while they are copied.
const DUMP_SESSIONS_MAX: usize = 10_000;

/// How many ephemerals `dump` shows for each session.
const DUMP_EPHEMERALS_MAX: usize = 4_096;

/// How many ephemerals are read while the lock of the state is held once. The ephemerals of the
/// last session are all read, even beyond this.
const EPHEMERALS_HOLD_MAX: usize = 1_024;

/// How many sessions are read while the lock of the state is held once.
const SESSIONS_HOLD_MAX: usize = 256;

impl Observer {
    /// The connections, and how many were left out.
    pub async fn connections(&self) -> (Vec<ConnectionReport>, u64) {
        let _alone = self.listing.acquire().await;
        let (mut shown, mut missing) = (Vec::new(), 0);
        for runtime in 0..self.face.runtimes.len() {
            let ids = self.ask(runtime, ToRuntime::ConnectionIds).await.unwrap_or_default();
            for page in ids.chunks(CONNECTION_PAGE_COUNT) {
                if shown.len() * CONNECTION_BYTES >= LIST_BYTES_MAX {
                    missing += page.len() as u64;
                    continue;
                }
                let ask = |sender| ToRuntime::Connections(page.to_vec(), sender);
                shown.extend(self.ask(runtime, ask).await.unwrap_or_default());
            }
        }
        (shown, missing)
    }

    pub async fn dump(&self) -> DumpReport {
        let (connections, connections_missing) = self.connections().await;
        let _alone = self.listing.acquire().await;
        let (now_ms, wall_ms) = (self.node.monotonic_ms(), node::wall_ms());
        let (leases, session_count) = self.node.session_deadlines(DUMP_SESSIONS_MAX);
        let sessions_missing = (session_count - leases.len()) as u64;
        let mut expiring: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        let mut deadlines = HashMap::new();
        for (Owner::Session(session), left_ms) in &leases {
            let at_ms = self.end_of_tick(now_ms, wall_ms, *left_ms);
            expiring.entry(at_ms).or_default().push(session.0);
            deadlines.insert(session.0, at_ms);
        }
        expiring.values_mut().for_each(|sessions| sessions.sort_unstable());
        let mut closing: BTreeMap<i64, Vec<(String, i64)>> = BTreeMap::new();
        for ConnectionReport { peer, session, established_ms, .. } in connections {
            let session = session.map_or(0, |session| session.id);
            let sessionless = || established_ms + self.settings.sessionless_ms_max as i64;
            let at_ms = deadlines.get(&session).copied().unwrap_or_else(sessionless);
            closing.entry(at_ms / 1_000 * 1_000).or_default().push((peer, session));
        }
        let mut ids: Vec<SessionId> =
            leases.into_iter().map(|(Owner::Session(session), _)| session).collect();
        ids.sort_unstable();
        let (ephemerals, ephemerals_missing) = self.ephemerals(&ids).await;
        let follows = self.part().is_some_and(|part| part != Part::Leading);
        let followed_sessions = if follows { Some(self.timeouts(&ids).await) } else { None };
        DumpReport {
            sessions: if follows { Vec::new() } else { expiring.into_iter().collect() },
            followed_sessions,
            sessions_missing,
            ephemerals,
            ephemerals_missing,
            connections: closing.into_iter().collect(),
            connections_missing,
        }
    }

    /// The wall time, in ms, of the end of the tick during which `left_ms` will have passed:
    /// sessions expire only at the ends of ticks.
    fn end_of_tick(&self, now_ms: u64, wall_ms: i64, left_ms: u64) -> i64 {
        let tick_ms = self.settings.tick_ms;
        let end_ms = (now_ms + left_ms).div_ceil(tick_ms) * tick_ms;
        wall_ms + (end_ms - now_ms) as i64
    }

    /// The sessions among these that still exist, each with its timeout in ms.
    async fn timeouts(&self, sessions: &[SessionId]) -> Vec<(i64, u32)> {
        let mut found = Vec::new();
        for page in sessions.chunks(SESSIONS_HOLD_MAX) {
            self.look(|machine| {
                let timeout =
                    |id: &SessionId| Some((id.0, machine.zk().sessions().get(*id)?.timeout_ms));
                found.extend(page.iter().filter_map(timeout));
            });
            tokio::task::yield_now().await;
        }
        found
    }

    /// The ephemerals of these sessions, and how many ephemerals of all sessions were left out.
    async fn ephemerals(&self, sessions: &[SessionId]) -> (Vec<(i64, Vec<String>)>, u64) {
        let (mut found, mut count, mut bytes) = (Vec::new(), 0, 0);
        let mut sessions = sessions.iter().peekable();
        while sessions.peek().is_some() && bytes < LIST_BYTES_MAX {
            self.look_at_tree(|_| ()).await;
            let machine = self.node.machine().read();
            if machine.zk().is_amid_change() {
                continue;
            }
            let mut held = 0;
            for session in sessions.by_ref().take(SESSIONS_HOLD_MAX) {
                let paths = paths_of(&machine, *session);
                held += paths.len();
                if !paths.is_empty() {
                    bytes += paths.iter().map(String::len).sum::<usize>();
                    found.push((session.0, paths));
                }
                if held >= EPHEMERALS_HOLD_MAX {
                    break;
                }
            }
            count += held;
        }
        let all = self.node.machine().read().zk().sessions().ephemeral_count();
        (found, all.saturating_sub(count) as u64)
    }

    pub async fn watches(&self) -> WatchesReport {
        let _alone = self.listing.acquire().await;
        let (mut watches, mut bytes, mut shown) = (Vec::new(), 0, 0);
        let all = self.zk_fronts().await.data_watches;
        for runtime in 0..self.face.runtimes.len() {
            let mut next = Some(WatchCursor::default());
            while let Some(from) = next.filter(|_| bytes < LIST_BYTES_MAX) {
                let page = self.watch_page(runtime, from).await;
                next = page.next;
                for (path, sessions) in page.watches {
                    // A list by session prints the path once for each session.
                    bytes += sessions.len() * (path.len() + SESSION_BYTES);
                    shown += sessions.len() as u64;
                    watches.push((path, sessions));
                    if bytes >= LIST_BYTES_MAX {
                        break;
                    }
                }
            }
        }
        let missing = if bytes >= LIST_BYTES_MAX { all.saturating_sub(shown) } else { 0 };
        WatchesReport { watches, missing }
    }

    pub async fn watch_summary(&self) -> WatchSummary {
        let _alone = self.listing.acquire().await;
        let hasher = RandomState::new();
        let (mut sessions, mut paths) = (HashSet::<i64>::new(), HashSet::new());
        let mut count = 0;
        for runtime in 0..self.face.runtimes.len() {
            let mut next = Some(WatchCursor::default());
            while let Some(from) = next {
                let page = self.watch_page(runtime, from).await;
                next = page.next;
                for (path, watching) in page.watches.iter().filter(|(_, ids)| !ids.is_empty()) {
                    count += watching.len() as u64;
                    sessions.extend(watching);
                    // The set holds hashes of paths, eight bytes each, because there may be
                    // millions of paths.
                    paths.insert(hasher.hash_one(path));
                }
            }
        }
        WatchSummary {
            connections: sessions.len() as u64,
            paths: paths.len() as u64,
            watches: count,
        }
    }

    async fn watch_page(&self, runtime: usize, from: WatchCursor) -> WatchPage {
        self.ask(runtime, |sender| ToRuntime::Watches(from, sender)).await.unwrap_or_default()
    }
}

/// The paths of a session's ephemerals, sorted; at most [`DUMP_EPHEMERALS_MAX`].
fn paths_of(machine: &Machine, session: SessionId) -> Vec<String> {
    let Some(session) = machine.zk().sessions().get(session) else { return Vec::new() };
    let own = session.ephemerals.iter().take(DUMP_EPHEMERALS_MAX);
    let mut paths: Vec<String> = own.map(|znode| machine.zk().tree().path(*znode)).collect();
    paths.sort_unstable();
    paths
}
