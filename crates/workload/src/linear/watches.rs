//! Checks that each connection's watches fire as they must: once, at the first known change, and
//! before any reply that shows the change.

use super::*;

/// The table in which ZooKeeper keeps a watch (`DataTree.dataWatches`, `childWatches`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Table {
    Data,
    Child,
}

/// The watches of one connection.
struct Stream<'t> {
    timelines: &'t Timelines,
    /// For each watch, the zxid at which it was set, and the zxid at which it must fire, if known.
    watches: BTreeMap<(Table, String), (i64, Option<i64>)>,
    reply_zxid: i64,
    event_zxid: i64,
    /// Events about missed changes that came since the last reply. They are explained once a reply
    /// to a request that sets watches again arrives.
    made_up: BTreeSet<(EventKind, String)>,
}

impl Judge<'_> {
    pub(super) fn check_watches(&mut self, timelines: &Timelines) {
        let history = self.history;
        for (number, connection) in history.connections.iter().enumerate() {
            let mut stream = Stream {
                timelines,
                watches: BTreeMap::new(),
                reply_zxid: 0,
                event_zxid: 0,
                made_up: BTreeSet::new(),
            };
            for received in &connection.received {
                let result = match received {
                    Received::Event { zxid, kind, path } => stream.on_event(*zxid, *kind, path),
                    Received::Reply(op) => {
                        let result = stream.on_reply(*op, history);
                        result.map_err(|what| format!("{}: {what}", self.describe(*op)))
                    }
                    Received::Connected { .. }
                    | Received::ConnectedReadOnly { .. }
                    | Received::Refused => Ok(()),
                };
                if let Err(what) = result {
                    let client = connection.client;
                    let what = format!("connection {number} of client {client}: {what}");
                    self.complain(Rule::Watch, what);
                    break;
                }
            }
        }
    }
}

impl Stream<'_> {
    /// The first known change after a zxid at which a watch of this table on this path fires.
    fn next_change(&self, table: Table, path: &str, zxid: i64) -> Option<i64> {
        let after = (core::ops::Bound::Excluded(zxid), core::ops::Bound::Unbounded);
        let mut facts = self.timelines.facts.get(path).into_iter().flat_map(|it| it.range(after));
        match table {
            Table::Data => facts.next().map(|(zxid, _)| *zxid),
            Table::Child => {
                let gone = facts.find(|(_, fact)| fact.kind == FactKind::Deleted);
                let children = self.timelines.child_changes.get(path);
                let changed = children.and_then(|it| it.range(after).next()).copied();
                let gone = gone.map(|(zxid, _)| *zxid);
                [gone, changed].into_iter().flatten().min()
            }
        }
    }

    /// The zxid of the last fact before the given zxid, if the znode certainly exists then: that
    /// fact is not its deletion, and the next fact is not its creation.
    fn made_at(&self, path: &str, zxid: i64) -> Option<i64> {
        let line = self.timelines.facts.get(path)?;
        let (at, before) = line.range(..=zxid).next_back()?;
        let (_, behind) = line.range(zxid + 1..).next()?;
        let is_there = before.kind != FactKind::Deleted && behind.kind != FactKind::Created;
        is_there.then_some(*at)
    }

    fn set(&mut self, table: Table, path: &str, zxid: i64) {
        let fires = self.next_change(table, path, zxid);
        self.watches.entry((table, path.to_string())).or_insert((zxid, fires));
    }

    fn on_event(&mut self, zxid: i64, kind: EventKind, path: &str) -> Result<(), String> {
        // ZooKeeper 3.9 sends -1 for a missed change (`WatcherEvent` of `DataTree.setWatches`).
        if zxid == -1 {
            self.made_up.insert((kind, path.to_string()));
            return Ok(());
        }
        let event = format!("event {kind:?} {path} of zxid {zxid:#x}");
        if zxid <= self.reply_zxid {
            let reply = self.reply_zxid;
            return Err(format!("{event} came after a reply with zxid {reply:#x}"));
        }
        if zxid < self.event_zxid {
            return Err(format!("{event} came after one of zxid {:#x}", self.event_zxid));
        }
        self.event_zxid = zxid;
        let tables: &[Table] = match kind {
            EventKind::Deleted => &[Table::Data, Table::Child],
            EventKind::Created | EventKind::DataChanged => &[Table::Data],
            EventKind::ChildrenChanged => &[Table::Child],
        };
        let mut is_watched = false;
        for table in tables {
            let Some((set_at, fires)) = self.watches.remove(&(*table, path.to_string())) else {
                continue;
            };
            if fires.is_some_and(|fires| fires < zxid) {
                return Err(format!(
                    "{event} came, but the watch of zxid {set_at:#x} was to fire at {fires:x?}"
                ));
            }
            is_watched |= set_at < zxid;
        }
        if !is_watched {
            return Err(format!("{event} came, and there was no such watch"));
        }
        Ok(())
    }

    fn on_reply(&mut self, number: usize, history: &History) -> Result<(), String> {
        let record = &history.ops[number];
        let Some(completed) = &record.completed else { return Ok(()) };
        if record.op == Op::Ping || record.op == Op::CloseSession || is_refusal(completed.error) {
            return Ok(());
        }
        let zxid = completed.zxid;
        self.reply_zxid = self.reply_zxid.max(zxid);
        let late = self.watches.iter().find(|(_, (_, fires))| fires.is_some_and(|it| it <= zxid));
        if let Some(((table, path), (set_at, fires))) = late {
            return Err(format!(
                "the reply came before the event of the {table:?} watch on {path}, set at zxid \
                 {set_at:#x}, to fire at {fires:x?}"
            ));
        }
        let made_up = core::mem::take(&mut self.made_up);
        if let Op::SetWatches { relative_zxid, data, exist, child } = &record.op {
            return self.set_again(*relative_zxid, zxid, [data, exist, child], made_up);
        }
        if let Some((kind, path)) = made_up.first() {
            return Err(format!("a missed {kind:?} {path} was told, and no watch was set again"));
        }
        match (&record.op, completed.error) {
            (Op::Exists { path, watch: true }, error::OK | error::NO_NODE)
            | (Op::GetData { path, watch: true }, error::OK) => self.set(Table::Data, path, zxid),
            (Op::GetChildren { path, watch: true, .. }, error::OK) => {
                self.set(Table::Child, path, zxid);
            }
            _ => {}
        }
        Ok(())
    }

    /// Sets watches again like `DataTree.setWatches`: missed changes must have been reported, and
    /// the other watches are set.
    fn set_again(
        &mut self,
        relative_zxid: i64,
        zxid: i64,
        [data, exist, child]: [&Vec<String>; 3],
        mut told: BTreeSet<(EventKind, String)>,
    ) -> Result<(), String> {
        let mut take = |kinds: &[EventKind], path: &str| {
            let count = told.len();
            told.retain(|(kind, of)| !(of == path && kinds.contains(kind)));
            told.len() < count
        };
        let of_children = [EventKind::ChildrenChanged, EventKind::Deleted];
        // A znode may be in several lists, but its deletion is reported once.
        let mut gone = BTreeSet::new();
        let mut missed = Vec::new();
        for path in data {
            if take(&[EventKind::Deleted], path) {
                gone.insert(path);
            } else if !take(&[EventKind::DataChanged], path) {
                let changed = self.next_change(Table::Data, path, relative_zxid);
                self.set(Table::Data, path, zxid);
                missed.extend(changed.filter(|at| *at <= zxid).map(|at| (path, at)));
            }
        }
        for path in exist {
            if !take(&[EventKind::Created], path) {
                self.set(Table::Data, path, zxid);
                missed.extend(self.made_at(path, zxid).map(|at| (path, at)));
            }
        }
        for path in child {
            let is_told = take(&of_children, path) || gone.contains(path);
            let changed = self.next_change(Table::Child, path, relative_zxid);
            if !is_told {
                self.set(Table::Child, path, zxid);
                missed.extend(changed.filter(|at| *at <= zxid).map(|at| (path, at)));
            }
        }
        if let Some((path, at)) = missed.first() {
            return Err(format!("{path} changed at zxid {at:#x}, and it was not told"));
        }
        match told.first() {
            None => Ok(()),
            Some((kind, path)) => {
                Err(format!("a missed {kind:?} {path} was told, which nobody watched"))
            }
        }
    }
}
