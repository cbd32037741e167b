//! Runs parsed commands: sends the requests of a command to the server, and makes the [`Answer`]
//! that is printed. The module `trees` runs the commands on whole trees.

use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::SystemTime;

use zk::AclEntry;
use zk::CreateMode;
use zk::ErrorCode;
use zk::perms;
use zk::request::{AddWatchMode, WatcherType};

use super::command::{Command, USAGES, usage_of};
use super::limits::{EVENTS_HELD_MAX, WATCH_INTERVAL};
use super::quota::{LIMITS, Limit, QUOTA_ROOT, STATS, Track, quota_path};
use super::screen::Signal;
use super::show::{Answer, client_addresses};
use super::walk::join;
use super::{Failure, Shell, trees};
use crate::client::{Client, ClientError, Event, NewZnode, Phase, Reconfiguration, Target};

/// The exit status that shells give a program that SIGINT ends.
const INTERRUPTED: i32 = 130;

impl Shell {
    /// Runs a command; the caller handles `quit` and `redo`. `None` if the command has already
    /// printed its result.
    pub(super) fn execute(&mut self, command: &Command) -> Result<Option<Answer>, Failure> {
        let screen = self.screen.clone();
        let answer = match command {
            Command::Ls { path, watch, recursive: true, .. } => {
                let client = self.client()?;
                trees::list_below(&client, &screen, path, *watch, &mut self.notes)?;
                return Ok(None);
            }
            Command::Tree { path, depth } => {
                let client = self.client()?;
                trees::draw_below(&client, &screen, path, *depth, &mut self.notes)?;
                return Ok(None);
            }
            Command::Help { of } => help(of.as_deref())?,
            Command::Version => {
                Answer::Line("version", format!("quorate {}", env!("CARGO_PKG_VERSION")))
            }
            Command::History => Answer::History(self.shown_history()),
            Command::PrintWatches { on: None } => {
                let on = if screen.prints_watches() { "on" } else { "off" };
                Answer::Line("message", format!("printwatches is {on}"))
            }
            Command::PrintWatches { on: Some(on) } => {
                screen.set_prints_watches(*on);
                Answer::Nothing
            }
            Command::Connect { to } => {
                self.reconnect(to.as_deref())?;
                Answer::Nothing
            }
            Command::Close => {
                self.client()?.close();
                Answer::Nothing
            }
            Command::Watch { path, mode } => self.watch(path, *mode)?,
            Command::SetQuota { path, limit, value } => self.set_quota(path, *limit, *value)?,
            Command::ListQuota { path } => self.list_quota(path)?,
            Command::DelQuota { path, limit } => self.delete_quota(path, *limit)?,
            Command::SetAcl { path, acl, version, recursive: true, .. } => {
                let client = self.client()?;
                trees::set_acl_below(&client, &screen, path, acl, *version, &mut self.notes)?;
                Answer::Nothing
            }
            Command::DeleteAll { path, batch } => {
                let client = self.client()?;
                trees::delete_below(&client, &screen, path, *batch, &mut self.notes)?;
                Answer::Nothing
            }
            Command::RemoveWatches { path, watcher_type, locally } => {
                self.remove_watches(path, *watcher_type, *locally)?
            }
            Command::Reconfig { change, file, stat } => {
                self.reconfigure(change, file.as_deref(), *stat)?
            }
            simple => {
                let client = self.client()?;
                ask(&client, simple).map_err(|error| match about(simple) {
                    Some(path) => Failure::of(error, path),
                    None => Failure::Client(error, None),
                })?
            }
        };
        Ok(Some(answer))
    }

    /// Runs `connect`: ends the session and opens another one, with these servers or the same as
    /// before.
    fn reconnect(&mut self, to: Option<&str>) -> Result<(), Failure> {
        if let Some(to) = to {
            let Target { timeout_ms, read_only, patient, .. } = self.target;
            let target = Target::parse(to, timeout_ms)?;
            self.close();
            let security = self.target.security.clone();
            self.target = Target { read_only, patient, security, ..target };
        } else {
            self.close();
        }
        self.connect().map(drop)
    }

    /// Runs `removewatches`. Each removal is shown as an event, as if the server had sent it
    /// (`ZKWatchManager.removeWatcher`).
    fn remove_watches(
        &mut self,
        path: &str,
        watcher_type: WatcherType,
        locally: bool,
    ) -> Result<Answer, Failure> {
        let removed = self.client()?.remove_watches(path, watcher_type, locally);
        for event_type in removed.map_err(|error| Failure::of(error, path))? {
            let (state, path, zxid) = (STATE_CONNECTED, path.to_string(), -1);
            self.screen.deliver(Event::Watch { event_type, state, path, zxid });
        }
        Ok(Answer::Nothing)
    }

    fn reconfigure(
        &mut self,
        change: &Reconfiguration,
        file: Option<&Path>,
        stat: bool,
    ) -> Result<Answer, Failure> {
        let mut change = change.clone();
        if let Some(file) = file {
            change.members = Some(members(file)?);
        }
        let done = self.client()?.reconfigure(&change);
        let (config, own) = done.map_err(|error| Failure::Client(error, None))?;
        let text = String::from_utf8_lossy(&config).into_owned();
        Ok(Answer::Config(Some("Committed new configuration:"), text, stat.then_some(own)))
    }

    // The command `watch`, and Ctrl-C.

    /// Runs `watch`: prints events until Ctrl-C.
    fn watch(&mut self, path: &str, mode: AddWatchMode) -> Result<Answer, Failure> {
        let client = self.client()?;
        let interrupts = self.watch_interrupts();
        interrupts.map_err(|error| format!("Ctrl-C cannot be heard: {error}"))?;
        let (sender, signals) = sync_channel(EVENTS_HELD_MAX);
        self.screen.set_watcher(Some(sender));
        let ended = self.print_events(&client, path, mode, &signals);
        self.screen.set_watcher(None);
        let watcher_type = match mode {
            AddWatchMode::Persistent => WatcherType::Persistent,
            AddWatchMode::PersistentRecursive => WatcherType::PersistentRecursive,
        };
        // If the watch cannot be removed, it ends with the session.
        let _ = client.remove_watches(path, watcher_type, true);
        ended.map(|()| Answer::Nothing)
    }

    fn print_events(
        &mut self,
        client: &Client,
        path: &str,
        mode: AddWatchMode,
        signals: &Receiver<Signal>,
    ) -> Result<(), Failure> {
        client.add_watch(path, mode).map_err(|error| Failure::of(error, path))?;
        self.screen.put_stderr(&format!("watching {path}; Ctrl-C ends\n"));
        loop {
            match signals.recv_timeout(WATCH_INTERVAL) {
                Ok(Signal::Interrupted) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Ok(Signal::Event(event)) => {
                    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                    let ms = now.map_or(0, |since| since.as_millis() as i64);
                    self.screen.put_event(&event, ms)?;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if client.phase() == Phase::Expired {
                return Err(Failure::Client(ClientError::Expired, None));
            }
        }
    }

    /// From now on, Ctrl-C ends a running `watch` or walk over a tree. If none is running, it ends
    /// the process.
    pub(super) fn watch_interrupts(&mut self) -> std::io::Result<()> {
        if std::mem::replace(&mut self.watches_interrupts, true) {
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let kind = tokio::signal::unix::SignalKind::interrupt();
        let mut interrupts = runtime.block_on(async { tokio::signal::unix::signal(kind) })?;
        let screen = self.screen.clone();
        std::thread::Builder::new().name("zk-interrupt".to_string()).spawn(move || {
            while runtime.block_on(interrupts.recv()).is_some() {
                if !screen.interrupt() {
                    std::process::exit(INTERRUPTED);
                }
            }
        })?;
        Ok(())
    }

    // The commands about quotas.

    /// The session, for commands about quotas. Quotas are in one place of the whole tree, which a
    /// chroot would hide, so a session with a chroot is refused.
    fn client_for_quotas(&mut self) -> Result<Rc<Client>, Failure> {
        if !self.target.chroot.is_empty() {
            let text = format!("{QUOTA_ROOT} is not below {}", self.target.chroot);
            return Err(format!("quotas need a session without a chroot: {text}").into());
        }
        self.client()
    }

    /// Runs `setquota` (`SetQuotaCommand.createQuota`).
    fn set_quota(&mut self, path: &str, limit: Limit, value: i64) -> Result<Answer, Failure> {
        let client = self.client_for_quotas()?;
        if path == QUOTA_ROOT || path.starts_with(&format!("{QUOTA_ROOT}/")) {
            return Err(format!("cannot set a quota under the path: {QUOTA_ROOT}").into());
        }
        let found = client.exists(path, false).map_err(|error| Failure::of(error, path))?;
        if found.is_none() {
            return Err(format!("{path} does not exist.").into());
        }
        refuse_nested_quota(&client, path)?;
        let place = quota_path(path);
        let mut above = String::new();
        for name in place.split('/').skip(1) {
            above = format!("{above}/{name}");
            if existing(&client, &above)?.is_none() {
                create_open(&client, &above, None)?;
            }
        }
        let (limits_path, stats_path) = (join(&place, LIMITS), join(&place, STATS));
        let mut limits = Track::unlimited();
        let known = existing(&client, &limits_path)?;
        if let Some(text) = &known {
            limits = Track::parse(text)?;
        }
        limits.set(limit, value);
        match known {
            Some(_) => {
                let set = client.set_data(&limits_path, limits.to_string().as_bytes(), -1);
                set.map_err(|error| Failure::of(error, &limits_path))?;
            }
            None => {
                create_open(&client, &limits_path, Some(limits.to_string()))?;
                create_open(&client, &stats_path, Some(Track::zero().to_string()))?;
            }
        }
        let stats = Track::parse(&existing(&client, &stats_path)?.unwrap_or_default())?;
        self.warn_of_quota(&limits, &stats);
        Ok(Answer::Nothing)
    }

    /// Warns of a limit that is already exceeded (`SetQuotaCommand.checkQuota`).
    fn warn_of_quota(&mut self, limits: &Track, stats: &Track) {
        let kinds =
            [("count", Limit::Count, Limit::CountHard), ("bytes", Limit::Bytes, Limit::BytesHard)];
        for (what, soft, hard) in kinds {
            let used = stats.get(soft);
            let less = |limit| limits.get(limit) > -1 && limits.get(limit) < used;
            if less(soft) || less(hard) {
                self.notes.push(format!(
                    "[Warning]: the {what} quota you create is less than the existing {what}:{used}"
                ));
            }
        }
    }

    /// Runs `listquota` (`ListQuotaCommand`).
    fn list_quota(&mut self, path: &str) -> Result<Answer, Failure> {
        let client = self.client_for_quotas()?;
        let place = quota_path(path);
        // `zkCli.sh` prints this line even if there is no quota.
        self.notes.push(format!("absolute path is {place}/{LIMITS}"));
        let track = |name: &str| match existing(&client, &join(&place, name))? {
            Some(text) => Ok(Track::parse(&text)?),
            None => Err(Failure::Said(format!("quota for {path} does not exist."))),
        };
        Ok(Answer::Quota(path.to_string(), track(LIMITS)?, track(STATS)?))
    }

    /// Runs `delquota` (`DelQuotaCommand.delQuota`). Without a limit, it deletes the whole quota.
    fn delete_quota(&mut self, path: &str, limit: Option<Limit>) -> Result<Answer, Failure> {
        let client = self.client_for_quotas()?;
        let place = quota_path(path);
        let limits_path = join(&place, LIMITS);
        let Some(text) = existing(&client, &limits_path)? else {
            return Err(format!("Quota does not exist for {path}").into());
        };
        if let Some(limit) = limit {
            let mut limits = Track::parse(&text)?;
            limits.set(limit, -1);
            let set = client.set_data(&limits_path, limits.to_string().as_bytes(), -1);
            set.map_err(|error| Failure::of(error, &limits_path))?;
            return Ok(Answer::Nothing);
        }
        for name in [LIMITS, STATS] {
            delete_if_there(&client, &join(&place, name))?;
        }
        // Also delete the znodes above that belong to no other quota.
        let mut empty = place.as_str();
        while empty != QUOTA_ROOT && children(&client, empty)?.is_empty() {
            delete_if_there(&client, empty)?;
            empty = empty.rsplit_once('/').map_or(QUOTA_ROOT, |(parent, _)| parent);
        }
        Ok(Answer::Nothing)
    }
}

/// The state of an event on a working connection (`Watcher.Event.KeeperState.SyncConnected`).
const STATE_CONNECTED: i32 = 3;

/// Runs a command that needs a single request.
fn ask(client: &Client, command: &Command) -> Result<Answer, ClientError> {
    Ok(match command {
        Command::Ls { path, stat, watch, .. } => {
            let (names, own) = client.children(path, *watch)?;
            Answer::Names(names, stat.then_some(own))
        }
        Command::Get { path, stat, watch, form } => {
            let (data, own) = client.get_data(path, *watch)?;
            Answer::Data(data, *form, stat.then_some(own))
        }
        Command::Stat { path, watch } => {
            let own = client.exists(path, *watch)?;
            Answer::Stat(own.ok_or(ClientError::Refused(ErrorCode::NO_NODE))?)
        }
        Command::Create(znode) => Answer::Created(client.create(znode)?),
        Command::Set { path, data, stat, version } => {
            shown_if(*stat, client.set_data(path, data, *version)?)
        }
        Command::SetAcl { path, acl, stat, version, .. } => {
            shown_if(*stat, client.set_acl(path, acl, *version)?)
        }
        Command::Delete { path, version } => {
            client.delete(path, *version)?;
            Answer::Nothing
        }
        Command::GetAcl { path, stat } => {
            let (entries, own) = client.acl(path)?;
            Answer::Acl(entries, stat.then_some(own))
        }
        Command::Sync { path } => {
            client.sync(path)?;
            Answer::Line("message", "Sync is OK".to_string())
        }
        Command::AddAuth { scheme, credentials } => {
            client.add_auth(scheme, credentials.as_bytes())?;
            Answer::Nothing
        }
        Command::AddWatch { path, mode } => {
            client.add_watch(path, *mode)?;
            Answer::Nothing
        }
        Command::WhoAmI => Answer::Identities(client.who_am_i()?),
        Command::GetEphemerals { prefix } => Answer::Ephemerals(client.ephemerals(prefix)?),
        Command::GetAllChildrenNumber { path } => {
            Answer::Count(i64::from(client.count_below(path)?))
        }
        Command::Config { stat, watch, clients } => {
            let (data, own) = client.config(*watch)?;
            let text =
                data.map_or("null".into(), |data| String::from_utf8_lossy(&data).into_owned());
            let text = if *clients { client_addresses(&text) } else { text };
            Answer::Config(None, text, stat.then_some(own))
        }
        other => unreachable!("execute runs {other:?} itself"),
    })
}

fn shown_if(shown: bool, own: zk::Stat) -> Answer {
    if shown { Answer::Stat(own) } else { Answer::Nothing }
}

/// The path that an error about this command names; for `addauth` the scheme.
fn about(command: &Command) -> Option<&str> {
    match command {
        Command::Ls { path, .. }
        | Command::Get { path, .. }
        | Command::Stat { path, .. }
        | Command::Create(NewZnode { path, .. })
        | Command::Set { path, .. }
        | Command::SetAcl { path, .. }
        | Command::Delete { path, .. }
        | Command::GetAcl { path, .. }
        | Command::Sync { path }
        | Command::AddWatch { path, .. }
        | Command::GetAllChildrenNumber { path } => Some(path),
        Command::AddAuth { scheme, .. } => Some(scheme),
        _ => None,
    }
}

fn help(of: Option<&str>) -> Result<Answer, Failure> {
    let Some(of) = of else {
        return Ok(Answer::Help(USAGES.iter().map(|usage| usage.name).collect()));
    };
    let unknown = || Failure::Said(format!("Command not found {}", of.escape_debug()));
    Ok(Answer::Help(vec![usage_of(of).ok_or_else(unknown)?.name]))
}

/// The servers for `reconfig -file`: those lines of the file that describe servers, groups or
/// weights.
fn members(file: &Path) -> Result<String, Failure> {
    let read = std::fs::read_to_string(file);
    let text = read.map_err(|error| format!("Error processing {}: {error}", file.display()))?;
    let of_members = |line: &&str| {
        ["server.", "group.", "weight."].iter().any(|prefix| line.starts_with(prefix))
    };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(of_members).collect();
    if lines.is_empty() {
        return Err(format!("Error processing {}: it names no server", file.display()).into());
    }
    Ok(lines.join("\n"))
}

/// The data of a znode as text; `None` if the znode does not exist.
fn existing(client: &Client, path: &str) -> Result<Option<String>, Failure> {
    match client.get_data(path, false) {
        Ok((data, _)) => Ok(Some(String::from_utf8_lossy(&data.unwrap_or_default()).into_owned())),
        Err(ClientError::Refused(ErrorCode::NO_NODE)) => Ok(None),
        Err(error) => Err(Failure::of(error, path)),
    }
}

/// The names of a znode's children; empty if the znode does not exist.
fn children(client: &Client, path: &str) -> Result<Vec<String>, Failure> {
    match client.children(path, false) {
        Ok((names, _)) => Ok(names),
        Err(ClientError::Refused(ErrorCode::NO_NODE)) => Ok(Vec::new()),
        Err(error) => Err(Failure::of(error, path)),
    }
}

fn create_open(client: &Client, path: &str, data: Option<String>) -> Result<(), Failure> {
    let everyone = AclEntry { perms: perms::ALL, scheme: "world".into(), id: "anyone".into() };
    let znode = NewZnode {
        path: path.to_string(),
        data: data.map(String::into_bytes),
        acl: vec![everyone],
        mode: CreateMode::Persistent,
        ttl_ms: None,
    };
    match client.create(&znode) {
        Ok(_) | Err(ClientError::Refused(ErrorCode::NODE_EXISTS)) => Ok(()),
        Err(error) => Err(Failure::of(error, path)),
    }
}

fn delete_if_there(client: &Client, path: &str) -> Result<(), Failure> {
    match client.delete(path, -1) {
        Ok(()) | Err(ClientError::Refused(ErrorCode::NO_NODE | ErrorCode::NOT_EMPTY)) => Ok(()),
        Err(error) => Err(Failure::of(error, path)),
    }
}

/// Refuses a quota above or below another one (`SetQuotaCommand.checkIfParentQuota` and
/// `checkIfChildQuota`).
fn refuse_nested_quota(client: &Client, path: &str) -> Result<(), Failure> {
    let is_limits = |names: Vec<String>| names.iter().any(|name| name == LIMITS);
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    for depth in 1..names.len() {
        let above = format!("/{}", names[..depth].join("/"));
        if is_limits(children(client, &quota_path(&above))?) {
            return Err(format!("{path} has a parent {above} which has a quota").into());
        }
    }
    let own = quota_path(path);
    let mut places = vec![own.clone()];
    while let Some(place) = places.pop() {
        let names = children(client, &place)?;
        if place != own && names.iter().any(|name| name == LIMITS) {
            let child = place.strip_prefix(QUOTA_ROOT).unwrap_or_default();
            return Err(format!("{path} has a child {child} which has a quota").into());
        }
        let deeper = names.iter().filter(|name| *name != LIMITS && *name != STATS);
        places.extend(deeper.map(|name| join(&place, name)));
    }
    Ok(())
}
