//! Passes changes of the state on to this Front's connections: fires watches, and closes
//! connections whose session has ended or moved.

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use machine::zk::acl::{self, perms};
use machine::zk::change::Made;
use machine::zk::path::parent_path;
use machine::{Acl, Attachment, ConnectionId, Ordinal, SessionId, ZkChange};
use zk::response::{EventType, encode_event};

use super::connection::{Connection, State};
use super::watches::WatchKind;
use super::{LENGTH_BYTES, ZkFront};
use crate::fronts::zk::limits::OUTPUT_BYTES_LIMIT;
use crate::identities::borrow;
use crate::limits::OUTPUT_BYTES_MAX;

impl ZkFront {
    pub(super) fn on_change(&mut self, made: &Made, path: &str) {
        let (zxid, at) = (made.mark.zxid.0, made.mark.ordinal);
        match &made.change {
            ZkChange::Created { acl, parent_acl } => {
                self.fire(WatchKind::Data, EventType::Created, path, zxid, at, acl);
                let parent = parent_path(path);
                let event = EventType::ChildrenChanged;
                self.fire(WatchKind::Child, event, parent, zxid, at, parent_acl);
            }
            ZkChange::Deleted { acl, parent_acl } => {
                self.fire_deleted(path, zxid, at, acl);
                let parent = parent_path(path);
                let event = EventType::ChildrenChanged;
                self.fire(WatchKind::Child, event, parent, zxid, at, parent_acl);
            }
            ZkChange::DataSet { acl } => {
                self.fire(WatchKind::Data, EventType::DataChanged, path, zxid, at, acl);
            }
            ZkChange::SessionClosed { session } => self.on_session_closed(*session),
            ZkChange::SessionAttached { session, owner, .. } => {
                self.on_session_attached(*session, *owner);
            }
            ZkChange::Configured(settings) => {
                self.settings = settings.clone();
                let leaves_one = !settings.standalone_enabled;
                self.turns.resumable.extend(self.turns.reconfigs.on_settings(leaves_one));
            }
        }
    }

    fn fire(
        &mut self,
        kind: WatchKind,
        event: EventType,
        path: &str,
        zxid: i64,
        at: Ordinal,
        acl: &Option<Acl>,
    ) {
        let fired = self.watches.fire(kind, path, at);
        if fired.is_empty() {
            return;
        }
        let count = fired.len() as u64;
        match event {
            EventType::Created => &mut self.metrics.node_created_watch_count,
            EventType::DataChanged => &mut self.metrics.node_changed_watch_count,
            _ => &mut self.metrics.node_children_watch_count,
        }
        .record(count, self.now.monotonic_ms);
        self.send_to_all((zxid, event), path, acl, fired);
    }

    /// Fires the data and child watches of a removed znode. Each connection gets one event.
    fn fire_deleted(&mut self, path: &str, zxid: i64, at: Ordinal, acl: &Option<Acl>) {
        let data = self.watches.fire(WatchKind::Data, path, at);
        let child = self.watches.fire(WatchKind::Child, path, at);
        if data.is_empty() && child.is_empty() {
            return;
        }
        let told: HashSet<ConnectionId, FixedState> = data.iter().copied().collect();
        let rest = child.into_iter().filter(|connection| !told.contains(connection));
        let mut fired = data;
        fired.extend(rest);
        let count = fired.len() as u64;
        self.metrics.node_deleted_watch_count.record(count, self.now.monotonic_ms);
        self.send_to_all((zxid, EventType::Deleted), path, acl, fired);
    }

    /// Sends an event if the watcher may read the znode, as ZooKeeper does since 3.9
    /// (`NIOServerCnxn.process`).
    pub(super) fn send_permitted_event(
        &mut self,
        id: ConnectionId,
        zxid: i64,
        event: EventType,
        path: &str,
        acl: &Option<Acl>,
    ) {
        let Some(connection) = self.connections.get(&id) else { return };
        let permitted = acl.as_ref().is_none_or(|acl| {
            let identities = borrow(connection.identity.proved());
            acl::allows(&self.settings, acl, perms::READ, &identities)
        });
        if permitted {
            self.send_event(id, zxid, event, path);
        }
    }

    pub(super) fn send_event(&mut self, id: ConnectionId, zxid: i64, event: EventType, path: &str) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if matches!(connection.state, State::Closing) {
            return;
        }
        let bytes = connection.output.append(|out| encode_event(zxid, event, path, out));
        self.metrics.watch_bytes += (bytes - LENGTH_BYTES) as u64;
        connection.stats.sent += 1;
        self.traffic.sent += 1;
        let bytes_max = match self.config.replies.is_full() {
            true => OUTPUT_BYTES_MAX,
            false => OUTPUT_BYTES_LIMIT,
        };
        if connection.output.bytes() > bytes_max {
            let what = format!("it leaves {} bytes unread", connection.output.bytes());
            connection.output.forget();
            self.disconnect(id, &what);
            return;
        }
        self.mark_dirty(id);
    }

    fn on_session_closed(&mut self, session: SessionId) {
        if let Some(&id) = self.sessions.get(&session) {
            self.heard.sessions.remove(&session);
            let ending = self.connections.get(&id).is_none_or(Connection::is_ending);
            if !ending {
                self.close_after_output(id);
                self.notice(id, "its session expired");
            }
        }
        self.withdraw_departed(session);
    }

    /// Disconnects all clients, because they have read another state. Their sessions live on if the
    /// new state has them. Connecting clients are disconnected too: the new state may have their
    /// sessions already, and then no answer comes.
    pub(super) fn on_replaced(&mut self) {
        let attached = |(_, of): &(&ConnectionId, &Connection)| {
            matches!(of.state, State::Attached | State::Connecting { .. })
        };
        let connections = self.connections.iter().filter(attached);
        let mut connections: Vec<ConnectionId> = connections.map(|(id, _)| *id).collect();
        connections.sort_unstable();
        for id in connections {
            self.disconnect(id, "the state was replaced by a snapshot");
        }
        self.departed.clear();
        self.turns.reconfiguring = None;
    }

    /// Closes the session's older connection here, if the session is now attached to another one.
    fn on_session_attached(&mut self, session: SessionId, owner: Attachment) {
        if let Some(&id) = self.sessions.get(&session) {
            let own = Attachment { origin: self.config.origin, connection: id };
            if own != owner {
                self.sessions.remove(&session);
                self.disconnect(id, "its session moved to another connection");
            }
        }
        self.withdraw_departed(session);
    }
}
