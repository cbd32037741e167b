//! The work that a leader does for ZooKeeper's space as time passes: it ends sessions that are
//! silent for too long, and removes containers and TTL znodes that are due.

pub mod containers;

use std::borrow::Cow;
use std::sync::Arc;

use machine::limits::EXPIRE_SESSIONS_MAX;
use machine::zk::change::Changes;
use machine::{Command, Level, Owner, SessionChange, Settings, ZkCommand};

use super::deadlines::Deadlines;
use super::look::{Found, Held, Look, Search};
use crate::spaces::limits::HEARING_MS_MAX;
use containers::{ContainerManager, ContainerSettings};

/// The part of a member's configuration that concerns ZooKeeper's space.
#[derive(Clone, Debug)]
pub struct Options {
    /// The replicated settings that this member wants.
    pub settings: Settings,
    /// How often to look for containers and TTL znodes, and how many to remove.
    pub containers: ContainerSettings,
    /// Length of a tick of the sessions' deadlines, in ms (`tickTime`).
    pub tick_ms: u64,
}

impl Default for Options {
    /// ZooKeeper's defaults.
    fn default() -> Options {
        let (settings, containers) = (Settings::default(), ContainerSettings::default());
        Options { settings, containers, tick_ms: 2_000 }
    }
}

/// Changes of ZooKeeper's space that a leader must know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Changes of sessions, in the order in which they were applied.
    pub sessions: Vec<SessionChange>,
    /// The settings, if they have been set.
    pub settings: Option<Arc<Settings>>,
}

impl News {
    pub(super) fn from_changes(changes: &Changes) -> News {
        News { sessions: changes.deadlines().to_vec(), settings: changes.settings().cloned() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.settings.is_none()
    }
}

/// The room of ZooKeeper's space.
pub(crate) struct Zk {
    sessions: Deadlines<Owner>,
    /// The replicated settings, as they are in the state.
    settings: Settings,
    options: Options,
    /// The search for containers and TTL znodes; `None` unless leading.
    containers: Option<ContainerManager>,
    /// Sessions whose expiry this member has begun, since the start.
    pub(super) expired_count: u64,
}

impl Zk {
    pub(super) fn new(options: Options, state: &machine::Zk) -> Zk {
        let mut room = Zk {
            sessions: Deadlines::new(options.tick_ms, HEARING_MS_MAX),
            settings: state.settings().clone(),
            options,
            containers: None,
            expired_count: 0,
        };
        room.on_applied(false, News { sessions: state.deadlines(), settings: None });
        room
    }

    pub(super) fn on_applied(&mut self, is_replaced: bool, news: News) {
        if is_replaced {
            self.sessions.clear();
        }
        for change in news.sessions {
            match change {
                SessionChange::Attached { session, attached, timeout_ms } => {
                    self.sessions.attach(Owner::Session(session), attached, timeout_ms.into());
                }
                SessionChange::Ended(session) => self.sessions.close(Owner::Session(session)),
            }
        }
        if let Some(settings) = news.settings {
            self.settings = (*settings).clone();
        }
    }

    pub(super) fn begin_leading(&mut self) {
        self.containers = Some(ContainerManager::new(self.options.containers.clone()));
    }

    pub(super) fn end_leading(&mut self) {
        self.containers = None;
    }

    pub(super) fn renew_all(&mut self) {
        self.sessions.renew_all();
    }

    pub(super) fn advance(&mut self, elapsed_ms: u64, planned_ms: u64) {
        self.sessions.advance(elapsed_ms, planned_ms);
    }

    pub(super) fn deadline_ms(&self) -> Option<u64> {
        self.sessions.due_ms()
    }

    pub(super) fn due(&mut self, look: &Look, submit: &mut dyn FnMut(&Command<'_>)) {
        if !look.may_judge() {
            return;
        }
        let expired = self.sessions.expired(EXPIRE_SESSIONS_MAX);
        if !expired.is_empty() {
            let session = |(Owner::Session(session), attached)| (session, attached);
            let sessions: Vec<_> = expired.into_iter().map(session).collect();
            self.expired_count += sessions.len() as u64;
            submit(&Command::Zk(ZkCommand::ExpireSessions { sessions }));
        }
        if let Some(containers) = &mut self.containers {
            containers.advance(look.elapsed_ms);
        }
    }

    /// The level that the configuration of this member needs: clients may change the servers from
    /// level 5 on.
    pub(super) fn level_needed(&self) -> Level {
        match self.options.settings.reconfig_enabled {
            true => Level::MEMBERS,
            false => Level::FIRST,
        }
    }

    /// Whether the state lets clients change the servers.
    pub fn is_reconfig_enabled(&self) -> bool {
        self.settings.reconfig_enabled
    }

    pub(super) fn wanted(&self, level: Level) -> Option<Command<'static>> {
        let mut wanted = Cow::Borrowed(&self.options.settings);
        if wanted.level() > level {
            // A state of this level does not know that setting.
            wanted.to_mut().standalone_enabled = true;
        }
        let differs = self.settings != *wanted;
        differs.then(|| Command::Zk(ZkCommand::Configure(wanted.into_owned())))
    }

    pub(super) fn held(&self) -> Held {
        let (deadlines, deadline_places) = (self.sessions.len(), self.sessions.place_count());
        Held { deadlines, deadline_places, questions: 0 }
    }

    /// Notes that the client of a session was heard from within the last report interval.
    pub fn heard(&mut self, session: Owner) {
        self.sessions.heard(session);
    }

    /// Whether any session has a timeout that is too short for rare heartbeats.
    pub fn has_short_timeouts(&self) -> bool {
        self.sessions.has_short()
    }

    /// At most `max` sessions with the time that each has left, in ms, and the number of all
    /// sessions.
    pub fn sessions(&self, max: usize) -> (Vec<(Owner, u64)>, usize) {
        (self.sessions.remaining_ms().take(max).collect(), self.sessions.len())
    }

    /// In how many ms the next search is due by the clock; `u64::MAX` unless leading.
    pub fn search_due_ms(&self) -> u64 {
        self.containers.as_ref().map_or(u64::MAX, ContainerManager::due_ms)
    }

    /// The search that is due now, if any. `wall_ms` is the timestamp that an entry would get now.
    pub fn search(&mut self, wall_ms: i64) -> Option<Search> {
        self.containers.as_mut()?.search(wall_ms).map(Search)
    }

    /// Takes what a search has found. Returns the command that removes it; `None` if there is
    /// nothing to remove.
    pub fn on_found<'f>(&mut self, Found(found): &'f Found) -> Option<Command<'f>> {
        if !self.containers.as_mut()?.on_found(found) {
            return None;
        }
        let never_used_ms_max = self.options.containers.never_used_ms_max;
        let paths = found.paths.iter().map(String::as_str).collect();
        Some(Command::Zk(ZkCommand::DeleteContainers { paths, never_used_ms_max }))
    }
}
