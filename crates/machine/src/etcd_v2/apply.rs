//! Applies etcd v2's commands to the store. Each command checks everything first. Then it is
//! refused with a reason, or makes all its changes at once. Two commands take several steps
//! ([`super::removal`]): the removal of a directory, which first finds the times to live in it, and
//! an expiry of keys, which removes one key after the other.

use std::sync::Arc;

use crate::etcd_v2::auth::{Auth, Who};
use crate::etcd_v2::change::{Changes, DeadlineChange, KeyChange};
use crate::etcd_v2::command::{Command, Compare, Judged, Write};
use crate::etcd_v2::event::{Action, Event, NodeState};
use crate::etcd_v2::key::Key;
use crate::etcd_v2::removal::{self, Budget, Paused, Stop, Walk};
use crate::etcd_v2::reply::{Mismatch, OtherIndex, OtherValue, Outcome, Reason, Refusal};
use crate::etcd_v2::store::Store;
use crate::etcd_v2::tree::{Missing, Node, NodeStat, RECORD_BYTES_MAX, TTL_BYTES, Ttl};
use crate::held::{ETCD_V2_NODE_HELD_BYTES, ETCD_V2_TTL_HELD_BYTES};

impl Store {
    /// Applies a command. `whose` holds the client for which the command acts, and the leader's
    /// stamp in ms since 1970.
    ///
    /// # Errors
    /// The command is refused, and nothing has changed.
    pub fn apply(
        &mut self,
        whose: (Who<'_>, i64),
        command: &Command<'_>,
        changes: &mut Changes,
    ) -> Result<Outcome, Refusal> {
        let mut whole = Budget::new(u64::MAX);
        let done = self.apply_step(whose, command, &mut whole, changes);
        done.expect("a step without a bound is whole")
    }

    /// As [`Store::apply`], but does only a part of a command that needs more than the budget.
    /// Returns `None` if more is left: the caller must then pass the same command again, before any
    /// other.
    pub(crate) fn apply_step(
        &mut self,
        (who, time_ms): (Who<'_>, i64),
        command: &Command<'_>,
        budget: &mut Budget,
        changes: &mut Changes,
    ) -> Option<Result<Outcome, Refusal>> {
        let begun = self.paused.take().map(|paused| *paused);
        let is_permitted =
            begun.is_some() || command.access().is_none_or(|access| self.auth.permits(who, access));
        if !is_permitted {
            return Some(Err(Refusal::UNAUTHORIZED));
        }
        let mut call = Call { store: self, time_ms, budget, changes };
        match call.run(who, command, begun) {
            Ok(outcome) => Some(Ok(outcome)),
            Err(Stop::Refused(reason)) => Some(Err(self.refusal(reason))),
            Err(Stop::Paused(paused)) => {
                self.paused = Some(Box::new(paused));
                None
            }
        }
    }
}

/// The context of one step of a command: the store, the leader's stamp in ms since 1970, the step's
/// budget, and where changes go.
struct Call<'c> {
    store: &'c mut Store,
    time_ms: i64,
    budget: &'c mut Budget,
    changes: &'c mut Changes,
}

impl Call<'_> {
    /// Starts a command, or continues it from `begun`, where its last step stopped.
    fn run(
        &mut self,
        who: Who<'_>,
        command: &Command<'_>,
        begun: Option<Paused>,
    ) -> Result<Outcome, Stop> {
        let may_pause = matches!(command, Command::Delete { .. } | Command::Expire { .. });
        assert!(begun.is_none() || may_pause, "the same command comes again");
        let written = match command {
            Command::Set { write, is_dir, is_refresh } => self.set(write, *is_dir, *is_refresh)?,
            Command::Create { write, is_dir, is_in_order } => {
                self.create(write, *is_dir, *is_in_order)?
            }
            Command::Update { write, is_refresh } => self.update(write, *is_refresh)?,
            Command::CompareAndSwap { write, compare, is_refresh } => {
                self.compare_and_swap(write, compare, *is_refresh)?
            }
            Command::Delete { key, is_dir, is_recursive } => {
                self.delete(*key, *is_dir, *is_recursive, begun)?
            }
            Command::CompareAndDelete { key, compare } => self.compare_and_delete(*key, compare)?,
            Command::Expire { keys } => {
                let count = self.expire(keys, begun.unwrap_or_default())?;
                return Ok(Outcome::Expired { count });
            }
            Command::Auth(command) => {
                let done = Auth::apply(&mut self.store.auth, who, command);
                return Ok(Outcome::AuthDone(done.map_err(Reason::Auth)?));
            }
        };
        Ok(Outcome::Written(written))
    }

    /// etcd 3.4 `v2store.store.Set`.
    fn set(
        &mut self,
        write: &Write<'_>,
        is_dir: bool,
        is_refresh: bool,
    ) -> Result<Arc<Event>, Reason> {
        let before = match self.store.tree.find(write.key) {
            Ok(node) => Some(node),
            Err(Missing::NoNode(_)) if !is_refresh => None,
            Err(missing) => return Err(missing.into()),
        };
        if write.key.is_root() {
            return Err(Reason::RootReadOnly);
        }
        if before.is_some_and(|node| node.is_dir()) {
            return Err(Reason::not_file(write.key));
        }
        self.check_room(write, before, is_refresh)?;
        let kept = before.and_then(|node| node.value().cloned()).filter(|_| is_refresh);
        let prev = before.map(|node| node.shown(self.time_ms));
        let node = self.new_node(write, is_dir, kept);
        Ok(self.put_node(Action::Set, write.key, node, prev, is_refresh))
    }

    /// etcd 3.4 `v2store.store.Create`.
    fn create(
        &mut self,
        write: &Write<'_>,
        is_dir: bool,
        is_in_order: bool,
    ) -> Result<Arc<Event>, Reason> {
        let in_order;
        let key = if is_in_order {
            in_order = write.key.in_order(self.next_index());
            Key::new(&in_order).expect("the directory has room for a key in order")
        } else {
            write.key
        };
        if key.is_root() {
            return Err(Reason::RootReadOnly);
        }
        match self.store.tree.find(key) {
            Ok(_) => return Err(Reason::KeyExists(key.text().into())),
            Err(Missing::NoNode(_)) => {}
            Err(missing) => return Err(missing.into()),
        }
        self.check_room(&Write { key, ..*write }, None, false)?;
        let node = self.new_node(write, is_dir, None);
        Ok(self.put_node(Action::Create, key, node, None, false))
    }

    /// etcd 3.4 `v2store.store.Update`.
    fn update(&mut self, write: &Write<'_>, is_refresh: bool) -> Result<Arc<Event>, Reason> {
        if write.key.is_root() {
            return Err(Reason::RootReadOnly);
        }
        let node = self.store.tree.find(write.key)?;
        if node.is_dir() && !write.value.is_empty() {
            return Err(Reason::not_file(write.key));
        }
        self.check_room(write, Some(node), is_refresh)?;
        let before = (node.stat, node.shown(self.time_ms));
        Ok(self.change_node(Action::Update, before, write, is_refresh))
    }

    /// etcd 3.4 `v2store.store.CompareAndSwap`.
    fn compare_and_swap(
        &mut self,
        write: &Write<'_>,
        compare: &Compare<'_>,
        is_refresh: bool,
    ) -> Result<Arc<Event>, Reason> {
        if write.key.is_root() {
            return Err(Reason::RootReadOnly);
        }
        let node = self.store.tree.find(write.key)?;
        check(write.key, node, compare)?;
        self.check_room(write, Some(node), is_refresh)?;
        let before = (node.stat, node.shown(self.time_ms));
        Ok(self.change_node(Action::CompareAndSwap, before, write, is_refresh))
    }

    /// etcd 3.4 `v2store.store.Delete`.
    fn delete(
        &mut self,
        key: Key<'_>,
        is_dir: bool,
        is_recursive: bool,
        begun: Option<Paused>,
    ) -> Result<Arc<Event>, Stop> {
        let mut walk = match begun.and_then(|paused| paused.walk) {
            Some(walk) => walk,
            None => Walk::of(self.find_to_delete(key, is_dir, is_recursive)?),
        };
        if !walk.go_on(self.budget, self.changes) {
            return Err(Stop::Paused(Paused { walk: Some(walk), ..Paused::default() }));
        }
        Ok(self.remove_node(Action::Delete, key))
    }

    /// The node that a delete will remove, after all its checks.
    fn find_to_delete(
        &mut self,
        key: Key<'_>,
        is_dir: bool,
        is_recursive: bool,
    ) -> Result<Arc<Node>, Reason> {
        if key.is_root() {
            return Err(Reason::RootReadOnly);
        }
        let node = self.store.tree.find(key)?;
        if node.is_dir() && !is_dir && !is_recursive {
            return Err(Reason::not_file(key));
        }
        if node.below().node_count > 0 && !is_recursive {
            return Err(Reason::DirNotEmpty(key.text().into()));
        }
        let is_within = self.budget.take();
        assert!(is_within, "it is the first of the step");
        Ok(node.clone())
    }

    /// Removes a file if a comparison holds. The root counts as a directory here, and not as
    /// read-only as for other commands.
    ///
    /// etcd 3.4 `v2store.store.CompareAndDelete`.
    fn compare_and_delete(
        &mut self,
        key: Key<'_>,
        compare: &Compare<'_>,
    ) -> Result<Arc<Event>, Reason> {
        let node = self.store.tree.find(key)?;
        check(key, node, compare)?;
        removal::tell(node, self.changes);
        Ok(self.remove_node(Action::CompareAndDelete, key))
    }

    /// Removes each node that still has the judged time to live. Returns how many were removed.
    ///
    /// etcd 3.4 `v2store.store.DeleteExpiredKeys`.
    fn expire(&mut self, keys: &[Judged<'_>], mut at: Paused) -> Result<u64, Stop> {
        while let Some(judged) = keys.get(at.passed) {
            if at.walk.is_none() {
                if !self.budget.take() {
                    return Err(Stop::Paused(at));
                }
                at.walk = self.find_to_expire(judged).map(Walk::of);
            }
            if let Some(walk) = &mut at.walk {
                if !walk.go_on(self.budget, self.changes) {
                    return Err(Stop::Paused(at));
                }
                at.walk = None;
                self.remove_node(Action::Expire, judged.key);
                at.count += 1;
            }
            at.passed += 1;
        }
        Ok(at.count)
    }

    /// The node at a key, if it still has the time to live that the leader judged; else `None`.
    fn find_to_expire(&self, judged: &Judged<'_>) -> Option<Arc<Node>> {
        let node = self.store.tree.find(judged.key).ok()?;
        let since = node.stat.ttl.map(|ttl| ttl.since);
        (since == Some(judged.since)).then(|| node.clone())
    }

    /// Refuses a write that would make the tree larger than its bound in memory. For a new node,
    /// all directories on its way count as new too. A refresh keeps the old value, so the value in
    /// the write does not count.
    fn check_room(
        &self,
        write: &Write<'_>,
        before: Option<&Arc<Node>>,
        is_refresh: bool,
    ) -> Result<(), Reason> {
        let Some(held_max) = self.store.held_max else { return Ok(()) };
        let value_bytes = if is_refresh { 0 } else { write.value.len() as u64 };
        let more = match before {
            Some(node) => {
                let bytes_before = node.value().map_or(0, |value| value.len() as u64);
                let gets_ttl = write.ttl_s.is_some() && node.stat.ttl.is_none();
                let ttl_bytes = if gets_ttl { TTL_BYTES + ETCD_V2_TTL_HELD_BYTES } else { 0 };
                value_bytes.saturating_sub(bytes_before) + ttl_bytes
            }
            None => {
                let key_bytes = write.key.text().len() as u64;
                let each = ETCD_V2_NODE_HELD_BYTES + RECORD_BYTES_MAX + key_bytes;
                value_bytes + ETCD_V2_TTL_HELD_BYTES + each * write.key.level_count() as u64
            }
        };
        match more > 0 && self.store.tree.held() + more > held_max {
            true => Err(Reason::NoSpace(write.key.text().into())),
            false => Ok(()),
        }
    }

    fn next_index(&self) -> u64 {
        self.store.index + 1
    }

    /// The time to live that a write gives; `None` if it gives none.
    fn ttl(&self, write: &Write<'_>) -> Option<Ttl> {
        let since = self.next_index();
        write.ttl_s.map(|ttl_s| {
            let ttl_ms = i64::try_from(ttl_s.saturating_mul(1_000)).unwrap_or(i64::MAX);
            Ttl { ttl_s, expires_ms: self.time_ms.saturating_add(ttl_ms), since }
        })
    }

    /// The node that a write creates. `kept` is the old value, if a refresh keeps it.
    fn new_node(&self, write: &Write<'_>, is_dir: bool, kept: Option<Arc<[u8]>>) -> Node {
        let index = self.next_index();
        let stat = NodeStat { created: index, modified: index, ttl: self.ttl(write) };
        if is_dir {
            Node::dir(stat)
        } else {
            Node::file(stat, kept.unwrap_or_else(|| write.value.into()))
        }
    }

    /// Puts a new node at a key, in place of the old one if there is one. Returns the event.
    fn put_node(
        &mut self,
        action: Action,
        key: Key<'_>,
        node: Node,
        prev: Option<NodeState>,
        is_refresh: bool,
    ) -> Arc<Event> {
        let index = self.next_index();
        let (shown, ttl) = (node.shown(self.time_ms), node.stat.ttl);
        let key_text: Arc<str> = key.text().into();
        let replaced = self.store.tree.insert(key, node, index);
        assert!(replaced.is_some() == prev.is_some());
        self.move_deadline(&key_text, replaced.and_then(|node| node.stat.ttl), ttl);
        self.finish(Event { action, key: key_text, node: shown, prev, is_refresh }, None)
    }

    /// Changes the node at the key of a write. The caller has found the node, with these numbers
    /// and this state. Returns the event.
    fn change_node(
        &mut self,
        action: Action,
        (stat, prev): (NodeStat, NodeState),
        write: &Write<'_>,
        is_refresh: bool,
    ) -> Arc<Event> {
        let index = self.next_index();
        let kept = prev.value.clone();
        let value = kept.map(|kept| if is_refresh { kept } else { write.value.into() });
        // A directory keeps its index, though the event shows the new one. So it is in etcd, where
        // `node.Write` refuses directories.
        let modified = if prev.is_dir { stat.modified } else { index };
        let changed = NodeStat { modified, ttl: self.ttl(write), ..stat };
        let node = NodeState {
            created: stat.created,
            modified: index,
            is_dir: prev.is_dir,
            value: value.clone(),
            expiration: changed.ttl.map(|ttl| ttl.shown(self.time_ms)),
        };
        let key: Arc<str> = write.key.text().into();
        self.store.tree.change(write.key, changed, value);
        self.move_deadline(&key, stat.ttl, changed.ttl);
        self.finish(Event { action, key, node, prev: Some(prev), is_refresh }, None)
    }

    /// Removes the node at a key with everything below it, and returns the event. The caller has
    /// found the node, and has reported the end of each time to live in it.
    fn remove_node(&mut self, action: Action, key: Key<'_>) -> Arc<Event> {
        let removed = self.store.tree.remove(key);
        self.store.garbage.add(removed.clone());
        let node = NodeState {
            created: removed.stat.created,
            modified: self.next_index(),
            is_dir: removed.is_dir(),
            value: None,
            expiration: None,
        };
        let prev = Some(removed.shown(self.time_ms));
        let event = Event { action, key: key.text().into(), node, prev, is_refresh: false };
        self.finish(event, Some(removed))
    }

    fn move_deadline(&mut self, key: &Arc<str>, before: Option<Ttl>, after: Option<Ttl>) {
        if let Some(Ttl { since, .. }) = before {
            self.changes.push_deadline(DeadlineChange::Ended { since });
        }
        if let Some(Ttl { ttl_s, since, .. }) = after {
            self.changes.push_deadline(DeadlineChange::Began { key: key.clone(), since, ttl_s });
        }
    }

    /// Moves the store's index, records the event in the history, and reports it to watchers unless
    /// it is a refresh.
    fn finish(&mut self, event: Event, removed: Option<Arc<Node>>) -> Arc<Event> {
        let event = Arc::new(event);
        self.store.index = event.index();
        self.store.history.push(event.clone());
        if !event.is_refresh {
            self.changes.push_key(KeyChange { event: event.clone(), removed });
        }
        event
    }
}

/// Checks that a comparison holds for the node at a key, which must be a file.
///
/// etcd 3.4 `v2store.node.Compare`.
fn check(key: Key<'_>, node: &Node, compare: &Compare<'_>) -> Result<(), Reason> {
    let Some(value) = node.value() else { return Err(Reason::not_file(key)) };
    let is_value = compare.value.is_empty() || compare.value == &**value;
    let is_index = compare.index == 0 || compare.index == node.stat.modified;
    if is_value && is_index {
        return Ok(());
    }
    let other_value = || OtherValue { asked: compare.value.into(), found: value.clone() };
    let other_index = OtherIndex { asked: compare.index, found: node.stat.modified };
    Err(Reason::CompareFailed(Mismatch {
        value: (!is_value).then(other_value),
        index: (!is_index).then_some(other_index),
    }))
}

#[cfg(test)]
mod tests;
