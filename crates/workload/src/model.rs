//! The model of ZooKeeper's tree and sessions, as plain as possible: a map of paths, which is
//! copied before each multi.
//!
//! It was written from ZooKeeper's documentation and source (3.9:
//! `PrepRequestProcessor.pRequest2Txn` for the order of checks, `DataTree` for the changes), and
//! shares nothing with the server under test. An ACL has an entry for `world:anyone`, and may have
//! entries for users of the digest scheme with all permissions, the *owners*
//! (`ZooKeeperServer.checkACL`, `AuthUtil.fixupACL`); other ACLs are not generated. Containers,
//! times to live and quotas follow `ContainerManager`, `EphemeralType`, `Quotas` and `StatsTrack`.

use std::collections::BTreeMap;

use crate::op::{Answer, CreateRequest, Op, Owner, Stat, USERS, error, flag, perms};

/// The znode below which ZooKeeper keeps quotas: the limits and the usage of a path `/p` are below
/// this path followed by `/p`.
const QUOTAS: &str = "/zookeeper/quota";

/// The path of the znode with the list of servers.
const CONFIG: &str = "/zookeeper/config";
/// The name of the znode with the limits of a path.
const LIMITS: &str = "zookeeper_limits";
/// The name of the znode with the usage of a path: the count and the bytes at and below it.
const USAGE: &str = "zookeeper_stats";

/// The longest time to live, in ms: 40 bits (`EphemeralType.TTL.maxValue`).
const TTL_MS_MAX: i64 = 0xff_ffff_ffff;

/// A znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Znode {
    /// The data; `None` is null.
    pub data: Option<Vec<u8>>,
    /// The permissions of everyone.
    pub perms: u32,
    /// The ids of the users with all permissions, in the order of the ACL.
    pub owners: Vec<&'static str>,
    /// The session that an ephemeral znode belongs to; 0 if it is not ephemeral.
    pub owner: i64,
    /// When the server removes the znode by itself.
    pub goes: Goes,
    /// How many children were ever created: the counter of sequential names.
    pub creates: i32,
    czxid: i64,
    mzxid: i64,
    pzxid: i64,
    ctime: i64,
    mtime: i64,
    version: i32,
    aversion: i32,
}

impl Znode {
    /// A permanent znode on which everyone has all permissions.
    fn new(data: Option<Vec<u8>>, zxid: i64, time_ms: i64) -> Znode {
        Znode {
            data,
            perms: perms::ALL,
            owners: Vec::new(),
            owner: 0,
            goes: Goes::Never,
            creates: 0,
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: time_ms,
            mtime: time_ms,
            version: 0,
            aversion: 0,
        }
    }
}

/// When the server removes a znode by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goes {
    /// Never.
    Never,
    /// Once the znode has had children and has none any more.
    Container,
    /// Once the znode has no children and its last set is longer ago than its time to live.
    After {
        /// The time to live, in ms.
        ttl_ms: i64,
    },
}

/// The settings of a server that change the outcome of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `extendedTypesEnabled`: whether znodes with a time to live exist.
    pub extended_types: bool,
    /// `enforceQuota`: whether hard limits refuse writes.
    pub enforce_quota: bool,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The password that a client must send to get the session again.
    pub password: [u8; 16],
    /// The connection that may act for the session, or [`NOBODY`].
    pub connection: usize,
    /// The ordinal (counted from 1) of the command that gave the session to `connection`.
    pub attached: u64,
}

/// A change made by a transaction, for watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The zxid of the transaction.
    pub zxid: i64,
    /// The kind of change.
    pub kind: ChangeKind,
    /// The path of the znode.
    pub path: String,
    /// The readers of the znode.
    pub readers: Readers,
    /// The readers of the znode's parent, who may know its children.
    pub parent_readers: Readers,
}

/// The clients that may read a znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Everyone.
    Everyone,
    /// Connections that have authenticated as one of these users (positions in [`USERS`]).
    Users(Vec<usize>),
}

/// The kind of a change of a znode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The znode was created.
    Created,
    /// The znode was deleted.
    Deleted,
    /// The znode's data was replaced.
    DataSet,
}

/// The value of [`Session::connection`] while no client has attached to the session since an
/// earlier state was restored.
pub const NOBODY: usize = usize::MAX;

/// The error code and the body of a reply.
pub type Outcome = (i32, Answer);

/// The whole state.
#[derive(Clone, Debug)]
pub struct Model {
    /// Znodes by path.
    pub znodes: BTreeMap<String, Znode>,
    /// Sessions by id.
    pub sessions: BTreeMap<i64, Session>,
    /// The last used zxid.
    pub zxid: i64,
    /// The number of commands so far.
    pub ordinal: u64,
    /// The current settings.
    pub settings: Settings,
    changes: Vec<Change>,
}

impl Default for Model {
    fn default() -> Model {
        Model::new()
    }
}

/// The path of the parent.
pub fn parent_of(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(at) => &path[..at],
    }
}

impl Model {
    /// The state of a new server.
    pub fn new() -> Model {
        let mut znodes = BTreeMap::new();
        for path in ["/", "/zookeeper", "/zookeeper/quota", CONFIG] {
            let is_config = path == CONFIG;
            let znode = Znode {
                perms: if is_config { perms::READ } else { perms::ALL },
                aversion: if is_config { -1 } else { 0 },
                ..Znode::new(Some(Vec::new()), 0, 0)
            };
            znodes.insert(path.to_string(), znode);
        }
        Model {
            znodes,
            sessions: BTreeMap::new(),
            zxid: 0,
            ordinal: 0,
            settings: Settings::default(),
            changes: Vec::new(),
        }
    }

    /// Takes the changes since the last call, in order.
    pub fn take_changes(&mut self) -> Vec<Change> {
        core::mem::take(&mut self.changes)
    }

    // Sessions.

    /// Opens a session. Returns false if the id is taken.
    pub fn open(&mut self, session: i64, password: [u8; 16], connection: usize) -> bool {
        self.ordinal += 1;
        if self.sessions.contains_key(&session) {
            return false;
        }
        self.zxid += 1;
        let attached = self.ordinal;
        self.sessions.insert(session, Session { password, connection, attached });
        true
    }

    /// Gives a session to a connection, and returns the connection that had it. `None` if the
    /// session does not exist or has another password.
    pub fn attach(&mut self, session: i64, password: [u8; 16], connection: usize) -> Option<usize> {
        self.ordinal += 1;
        let attached = self.ordinal;
        let found = self.sessions.get_mut(&session)?;
        if found.password != password {
            return None;
        }
        let had = found.connection;
        *found = Session { password, connection, attached };
        Some(had)
    }

    /// Notes that the list of servers changes. The change takes a zxid, which is the version of the
    /// list. `servers` is the list that clients see, without the line of its version; `None` if
    /// they see none.
    pub fn change_list(&mut self, servers: Option<&str>, time_ms: i64) {
        self.ordinal += 1;
        self.zxid += 1;
        let Some(servers) = servers else { return };
        let text = format!("{servers}version={:x}", self.zxid);
        let znode = self.znodes.get_mut(CONFIG).expect("no client can delete it");
        znode.data = Some(text.into_bytes());
        (znode.mzxid, znode.mtime) = (self.zxid, time_ms);
        // A ZooKeeper server sets the version so (`ZKDatabase.initConfigInZKDatabase`).
        znode.version = -1;
        self.note(ChangeKind::DataSet, CONFIG);
    }

    /// Begins a command with several transactions, which [`Model::expire`] or [`Model::remove_due`]
    /// add.
    pub fn begin_transactions(&mut self) {
        self.ordinal += 1;
    }

    /// Expires a session in its own transaction, unless the session was attached after the command
    /// `attached`. Returns whether it expired.
    pub fn expire(&mut self, session: i64, attached: u64) -> bool {
        let is_due = self.sessions.get(&session).is_some_and(|found| found.attached == attached);
        if is_due {
            self.zxid += 1;
            self.end(session);
        }
        is_due
    }

    /// Replaces the settings.
    pub fn configure(&mut self, settings: Settings) {
        self.ordinal += 1;
        self.settings = settings;
    }

    /// Restores an earlier state. Zxids and ordinals are not reused, and all connections lose their
    /// sessions. Returns the connections that had one.
    pub fn install(&mut self, before: &Model) -> Vec<usize> {
        self.ordinal += 1;
        self.zxid = self.zxid.max(before.zxid) + 1;
        let had = self.sessions.values().map(|session| session.connection).collect();
        self.znodes = before.znodes.clone();
        self.sessions = before.sessions.clone();
        for session in self.sessions.values_mut() {
            (session.connection, session.attached) = (NOBODY, self.ordinal);
        }
        had
    }

    /// Removes a znode in its own transaction, if it is due (`ContainerManager.getCandidates`).
    /// Returns whether the znode was due, and so is removed.
    pub fn remove_due(&mut self, path: &str, time_ms: i64, never_used_ms_max: i64) -> bool {
        let is_due = self.is_due(path, time_ms, never_used_ms_max);
        if is_due {
            self.zxid += 1;
            self.remove(path);
        }
        is_due
    }

    /// Whether a znode is due for removal at this time. A container that never had a child is due
    /// only if `never_used_ms_max` is set and it is older than that.
    pub fn is_due(&self, path: &str, time_ms: i64, never_used_ms_max: i64) -> bool {
        let Some(znode) = self.znodes.get(path) else { return false };
        let age_ms = time_ms - znode.mtime;
        let is_due = match znode.goes {
            Goes::Never => false,
            Goes::Container if znode.creates > 0 => true,
            Goes::Container => never_used_ms_max > 0 && age_ms > never_used_ms_max,
            Goes::After { ttl_ms } => age_ms > ttl_ms,
        };
        is_due && self.child_count(path) == 0
    }

    fn may_act(&self, session: i64, connection: usize) -> Result<(), i32> {
        match self.sessions.get(&session) {
            None => Err(error::SESSION_EXPIRED),
            Some(found) if found.connection != connection => Err(error::SESSION_MOVED),
            Some(_) => Ok(()),
        }
    }

    fn end(&mut self, session: i64) {
        self.sessions.remove(&session);
        let of_session =
            |(path, znode): (&String, &Znode)| (znode.owner == session).then(|| path.clone());
        let paths: Vec<String> = self.znodes.iter().filter_map(of_session).collect();
        paths.iter().for_each(|path| self.remove(path));
    }

    // Writes.

    /// Applies a write of a session that came on this connection. `time_ms` is the leader's time.
    pub fn write(&mut self, session: i64, connection: usize, op: &Op, time_ms: i64) -> Outcome {
        self.write_as(session, connection, op, &[], time_ms)
    }

    /// Like [`Model::write`], for a connection that has authenticated as the users `who` (positions
    /// in [`USERS`]).
    pub fn write_as(
        &mut self,
        session: i64,
        connection: usize,
        op: &Op,
        who: &[usize],
        time_ms: i64,
    ) -> Outcome {
        self.ordinal += 1;
        self.zxid += 1;
        if let Err(code) = self.may_act(session, connection) {
            return (code, Answer::Empty);
        }
        match op {
            Op::CloseSession => {
                self.end(session);
                (error::OK, Answer::Empty)
            }
            Op::Multi(ops) => self.multi(session, ops, who, time_ms),
            op => match self.operate(session, op, who, time_ms) {
                Ok(answer) => (error::OK, answer),
                Err(code) => (code, Answer::Empty),
            },
        }
    }

    fn multi(&mut self, session: i64, ops: &[Op], who: &[usize], time_ms: i64) -> Outcome {
        let (znodes, changes) = (self.znodes.clone(), self.changes.len());
        let mut answers = Vec::new();
        for (position, op) in ops.iter().enumerate() {
            match self.operate(session, op, who, time_ms) {
                Ok(answer) => answers.push(Ok(answer)),
                Err(code) => {
                    self.znodes = znodes;
                    self.changes.truncate(changes);
                    let codes = (0..ops.len()).map(|index| {
                        Err(match index.cmp(&position) {
                            core::cmp::Ordering::Less => error::OK,
                            core::cmp::Ordering::Equal => code,
                            core::cmp::Ordering::Greater => error::RUNTIME_INCONSISTENCY,
                        })
                    });
                    return (error::OK, Answer::Multi(codes.collect()));
                }
            }
        }
        (error::OK, Answer::Multi(answers))
    }

    fn find(&self, path: &str) -> Result<&Znode, i32> {
        self.znodes.get(path).ok_or(error::NO_NODE)
    }

    fn permit(&self, path: &str, wanted: u32, who: &[usize]) -> Result<(), i32> {
        let found = self.find(path)?;
        let is_owner = who.iter().any(|user| found.owners.contains(&USERS[*user].id));
        if found.perms & wanted != 0 || is_owner { Ok(()) } else { Err(error::NO_AUTH) }
    }

    fn operate(
        &mut self,
        session: i64,
        op: &Op,
        who: &[usize],
        time_ms: i64,
    ) -> Result<Answer, i32> {
        match op {
            Op::Create { path, data, perms, flag, request } => {
                let owner = match *flag {
                    flag::EPHEMERAL | flag::EPHEMERAL_SEQUENTIAL => session,
                    _ => 0,
                };
                let goes = self.goes(*flag, *request)?;
                let znode = Znode {
                    perms: *perms,
                    owner,
                    goes,
                    ..Znode::new(data.clone(), self.zxid, time_ms)
                };
                let made = self.create(path, flag::is_sequential(*flag), who, znode)?;
                let stat = self.stat(&made);
                Ok(match request {
                    CreateRequest::Create => Answer::Path(made),
                    _ => Answer::PathStat(made, stat),
                })
            }
            Op::CreateOwned { path, data, owner, others, flag } => {
                let znode = Znode {
                    perms: *others,
                    owners: owners(*owner, who)?,
                    owner: if *flag == flag::EPHEMERAL { session } else { 0 },
                    ..Znode::new(data.clone(), self.zxid, time_ms)
                };
                Ok(Answer::Path(self.create(path, false, who, znode)?))
            }
            Op::Delete { path, version } => {
                self.delete(path, *version, who)?;
                Ok(Answer::Empty)
            }
            Op::SetData { path, data, version } => {
                self.set_data(path, data.as_deref(), *version, who, time_ms)
            }
            Op::SetAcl { path, perms, version } => {
                self.set_acl(path, *version, who, (Vec::new(), *perms))
            }
            Op::SetAclOwned { path, owner, others, version } => {
                let owners = owners(*owner, who)?;
                self.set_acl(path, *version, who, (owners, *others))
            }
            Op::Check { path, version } => {
                self.permit(path, perms::READ, who)?;
                version_is(*version, self.find(path)?.version)?;
                Ok(Answer::Empty)
            }
            Op::Undecodable { .. } => Err(error::MARSHALLING_ERROR),
            _ => unreachable!("a generated multi holds writes only"),
        }
    }

    /// The kind of removal that a create request and its flag ask for, with the checks of
    /// `EphemeralType.validateTTL`.
    fn goes(&self, flag: i32, request: CreateRequest) -> Result<Goes, i32> {
        if !matches!(flag, flag::TTL | flag::SEQUENTIAL_TTL) {
            let is_container = request == CreateRequest::Container;
            return Ok(if is_container { Goes::Container } else { Goes::Never });
        }
        if !self.settings.extended_types {
            return Err(error::UNIMPLEMENTED);
        }
        match request {
            CreateRequest::Ttl { ttl_ms } if (1..=TTL_MS_MAX).contains(&ttl_ms) => {
                Ok(Goes::After { ttl_ms })
            }
            _ => Err(error::BAD_ARGUMENTS),
        }
    }

    fn delete(&mut self, path: &str, version: i32, who: &[usize]) -> Result<(), i32> {
        // `DataTree.isSpecialPath`, for the paths that are generated.
        if path == QUOTAS {
            return Err(error::BAD_ARGUMENTS);
        }
        let parent = parent_of(path).to_string();
        self.permit(&parent, perms::DELETE, who)?;
        version_is(version, self.find(path)?.version)?;
        if self.child_count(path) > 0 {
            return Err(error::NOT_EMPTY);
        }
        self.remove(path);
        Ok(())
    }

    fn set_data(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        version: i32,
        who: &[usize],
        time_ms: i64,
    ) -> Result<Answer, i32> {
        self.permit(path, perms::WRITE, who)?;
        let more = bytes_of(data) - bytes_of(self.find(path)?.data.as_deref());
        self.check_quota(path, 0, more)?;
        version_is(version, self.find(path)?.version)?;
        let zxid = self.zxid;
        let znode = self.znodes.get_mut(path).ok_or(error::NO_NODE)?;
        znode.data = data.map(<[u8]>::to_vec);
        znode.version += 1;
        znode.mzxid = zxid;
        znode.mtime = time_ms;
        self.note(ChangeKind::DataSet, path);
        self.count(path, 0, more);
        Ok(Answer::Stat(self.stat(path)))
    }

    fn set_acl(
        &mut self,
        path: &str,
        version: i32,
        who: &[usize],
        acl: (Vec<&'static str>, u32),
    ) -> Result<Answer, i32> {
        self.permit(path, perms::ADMIN, who)?;
        version_is(version, self.find(path)?.aversion)?;
        let znode = self.znodes.get_mut(path).ok_or(error::NO_NODE)?;
        (znode.owners, znode.perms) = acl;
        znode.aversion += 1;
        Ok(Answer::Stat(self.stat(path)))
    }

    fn create(
        &mut self,
        path: &str,
        is_sequential: bool,
        who: &[usize],
        znode: Znode,
    ) -> Result<String, i32> {
        let parent = parent_of(path).to_string();
        self.permit(&parent, perms::CREATE, who)?;
        let path = match is_sequential {
            true => format!("{path}{:010}", self.find(&parent)?.creates),
            false => path.to_string(),
        };
        if path.ends_with('/') {
            return Err(error::BAD_ARGUMENTS);
        }
        if self.znodes.contains_key(&path) {
            return Err(error::NODE_EXISTS);
        }
        if self.find(&parent)?.owner != 0 {
            return Err(error::NO_CHILDREN_FOR_EPHEMERALS);
        }
        let bytes = bytes_of(znode.data.as_deref());
        self.check_quota(&path, 1, bytes)?;
        let zxid = self.zxid;
        self.znodes.insert(path.clone(), znode);
        let above = self.znodes.get_mut(&parent).ok_or(error::NO_NODE)?;
        above.creates += 1;
        above.pzxid = zxid;
        self.note(ChangeKind::Created, &path);
        self.begin_quota(&path);
        self.count(&path, 1, bytes);
        Ok(path)
    }

    fn remove(&mut self, path: &str) {
        self.note(ChangeKind::Deleted, path);
        let gone = self.znodes.remove(path);
        let zxid = self.zxid;
        if let Some(above) = self.znodes.get_mut(parent_of(path)) {
            above.pzxid = zxid;
        }
        self.count(path, -1, -bytes_of(gone.and_then(|znode| znode.data).as_deref()));
    }

    // Quotas.

    /// The limits and the usage that apply to a path: those of the deepest path on the way to it
    /// that has limits. The limits of the root apply to no path (`PathTrie.findMaxPrefix`).
    fn quota_of(&self, path: &str) -> Option<(String, String)> {
        let mut quota = None;
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for end in ends.filter(|end| *end > 0) {
            let holder = format!("{QUOTAS}{}", &path[..end]);
            let limits = format!("{holder}/{LIMITS}");
            if self.znodes.contains_key(&limits) {
                quota = Some((limits, format!("{holder}/{USAGE}")));
            }
        }
        quota
    }

    /// `ZooKeeperServer.checkQuota`: only hard limits refuse.
    fn check_quota(&self, path: &str, count: i64, bytes: i64) -> Result<(), i32> {
        if !self.settings.enforce_quota {
            return Ok(());
        }
        let Some((limits, usage)) = self.quota_of(path) else { return Ok(()) };
        let Some(usage) = self.znodes.get(&usage) else { return Ok(()) };
        let (limits, usage) = (numbers(&self.znodes[&limits].data), numbers(&usage.data));
        let of = |numbers: &BTreeMap<String, i64>, name| numbers.get(name).copied().unwrap_or(-1);
        for (more, name, hard) in
            [(count, "count", "countHardLimit"), (bytes, "bytes", "byteHardLimit")]
        {
            let hard = of(&limits, hard);
            if more != 0 && hard > -1 && of(&usage, name) + more > hard {
                return Err(error::QUOTA_EXCEEDED);
            }
        }
        Ok(())
    }

    /// If the new znode is one for a usage, fills in the current usage
    /// (`DataTree.updateQuotaForPath`).
    fn begin_quota(&mut self, path: &str) {
        let of = path.strip_prefix(QUOTAS).and_then(|inner| inner.strip_suffix(USAGE));
        let Some(of) = of.and_then(|of| of.strip_suffix('/')).filter(|of| !of.is_empty()) else {
            return;
        };
        let below = format!("{of}/");
        let (mut count, mut bytes) = (0, 0);
        for (path, znode) in &self.znodes {
            if path == of || path.starts_with(&below) {
                count += 1;
                bytes += bytes_of(znode.data.as_deref());
            }
        }
        self.rewrite(path, format!("count={count},bytes={bytes}"));
    }

    /// Updates a usage like `DataTree.updateQuotaStat`: only the data changes, and no watch fires.
    fn count(&mut self, path: &str, count: i64, bytes: i64) {
        let Some((_, usage)) = self.quota_of(path) else { return };
        let Some(znode) = self.znodes.get(&usage) else { return };
        let mut all = numbers(&znode.data);
        let mut grown = |name: &str, more| all.remove(name).unwrap_or(-1) + more;
        let mut text = format!("count={},bytes={}", grown("count", count), grown("bytes", bytes));
        if !all.is_empty() {
            text.push('=');
        }
        all.iter().for_each(|(name, value)| text += &format!(";{name}={value}"));
        self.rewrite(&usage, text);
    }

    fn rewrite(&mut self, path: &str, text: String) {
        if let Some(znode) = self.znodes.get_mut(path) {
            znode.data = Some(text.into_bytes());
        }
    }

    fn note(&mut self, kind: ChangeKind, path: &str) {
        let (readers, parent_readers) = (self.readers(path), self.readers(parent_of(path)));
        let (zxid, path) = (self.zxid, path.to_string());
        self.changes.push(Change { zxid, kind, path, readers, parent_readers });
    }

    fn readers(&self, path: &str) -> Readers {
        let may = |who: &[usize]| self.permit(path, perms::READ, who).is_ok();
        match may(&[]) {
            true => Readers::Everyone,
            false => Readers::Users((0..USERS.len()).filter(|user| may(&[*user])).collect()),
        }
    }

    // Reads.

    /// The names of a znode's children, sorted.
    pub fn children(&self, path: &str) -> Vec<String> {
        let prefix = if path == "/" { "/".to_string() } else { format!("{path}/") };
        let below = self.znodes.range(prefix.clone()..);
        let below = below.take_while(|(other, _)| other.starts_with(&prefix));
        let names = below.map(|(other, _)| &other[prefix.len()..]);
        names.filter(|name| !name.is_empty() && !name.contains('/')).map(str::to_string).collect()
    }

    fn child_count(&self, path: &str) -> i32 {
        self.children(path).len() as i32
    }

    /// The stat of an existing znode.
    pub fn stat(&self, path: &str) -> Stat {
        let znode = &self.znodes[path];
        let child_count = self.child_count(path);
        Stat {
            czxid: znode.czxid,
            mzxid: znode.mzxid,
            ctime: znode.ctime,
            mtime: znode.mtime,
            version: znode.version,
            // Each creation and each deletion of a child counts one.
            cversion: 2 * znode.creates - child_count,
            aversion: znode.aversion,
            ephemeral_owner: znode.owner,
            data_bytes: znode.data.as_ref().map_or(0, Vec::len) as i32,
            child_count,
            pzxid: znode.pzxid,
        }
    }

    /// The answer to a read in this state.
    pub fn read(&self, op: &Op) -> Outcome {
        self.read_as(op, &[])
    }

    /// Like [`Model::read`], for a connection that has authenticated as the users `who` (positions
    /// in [`USERS`]).
    pub fn read_as(&self, op: &Op, who: &[usize]) -> Outcome {
        match self.answer(op, who) {
            Ok(answer) => (error::OK, answer),
            Err(code) => (code, Answer::Empty),
        }
    }

    fn answer(&self, op: &Op, who: &[usize]) -> Result<Answer, i32> {
        match op {
            Op::Exists { path, .. } => {
                self.permit(path, perms::READ, who)?;
                Ok(Answer::Stat(self.stat(path)))
            }
            Op::GetData { path, .. } => {
                self.permit(path, perms::READ, who)?;
                Ok(Answer::Data(self.find(path)?.data.clone(), self.stat(path)))
            }
            Op::GetChildren { path, with_stat, .. } => {
                self.permit(path, perms::READ, who)?;
                let names = self.children(path);
                Ok(match with_stat {
                    true => Answer::ChildrenStat(names, self.stat(path)),
                    false => Answer::Children(names),
                })
            }
            Op::GetAcl { path } => {
                self.permit(path, perms::READ | perms::ADMIN, who)?;
                let (found, stat) = (self.find(path)?, self.stat(path));
                if found.owners.is_empty() {
                    return Ok(Answer::Acl(found.perms, stat));
                }
                // `FinalRequestProcessor`: only users who may set the ACL see the digests.
                let is_admin = self.permit(path, perms::ADMIN, who).is_ok();
                let shown = |id: &&'static str| match id.split_once(':') {
                    Some((name, _)) if !is_admin => format!("{name}:x"),
                    _ => id.to_string(),
                };
                let owners = found.owners.iter().map(shown).collect();
                Ok(Answer::OwnedAcl(owners, found.perms, stat))
            }
            Op::MultiRead(ops) => {
                Ok(Answer::Multi(ops.iter().map(|op| self.answer(op, who)).collect()))
            }
            Op::Sync { path } => Ok(Answer::Path(path.clone())),
            Op::SetWatches { .. } | Op::SetWatches2 { .. } | Op::Ping | Op::AddWatch { .. } => {
                Ok(Answer::Empty)
            }
            Op::Undecodable { .. } => Err(error::MARSHALLING_ERROR),
            _ => unreachable!("writes are not read"),
        }
    }
}

/// The ids of an ACL's owners. `AuthUtil.fixupACL`: the scheme `auth` means all users that the
/// connection has authenticated as; there must be at least one.
fn owners(owner: Owner, who: &[usize]) -> Result<Vec<&'static str>, i32> {
    let users = match &owner {
        Owner::User(user) => core::slice::from_ref(user),
        Owner::Asker if who.is_empty() => return Err(error::INVALID_ACL),
        Owner::Asker => who,
    };
    Ok(users.iter().map(|user| USERS[*user].id).collect())
}

fn bytes_of(data: Option<&[u8]>) -> i64 {
    data.map_or(0, |data| data.len() as i64)
}

/// The numbers in a limit or a usage: `count=1,bytes=2=;byteHardLimit=3` (`StatsTrack`).
fn numbers(data: &Option<Vec<u8>>) -> BTreeMap<String, i64> {
    let text = String::from_utf8_lossy(data.as_deref().unwrap_or_default());
    let number = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        Some((name.to_string(), value.trim_end_matches('=').parse().ok()?))
    };
    text.split([',', ';']).filter_map(number).collect()
}

fn version_is(wanted: i32, found: i32) -> Result<(), i32> {
    if wanted == -1 || wanted == found { Ok(()) } else { Err(error::BAD_VERSION) }
}

#[cfg(test)]
mod tests;
