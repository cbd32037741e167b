//! Changes of the list of servers while the ensemble runs (from level 5 on).
//!
//! A client *requests* a change. Apply judges what the state alone decides and notes the list that
//! would come next. The leader judges what only it knows (which servers are present and caught up)
//! and logs *accept* or *refuse*. Behind *accept* the leader moves the Raft membership, and logs
//! *finish* when it follows the next list: only then is that list shown, and the client answered.
//! Until the Raft membership has begun to move, the leader may *give up* instead.
//!
//! At most one change is open. It is numbered by the ordinal of its request, so a command about a
//! change that has ended does nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::codec::{DecodeError, Reader, Write};
use crate::control::servers::{
    ServerId, ServerList, ServerRecord, ServerRole, Servers, ZkAddresses, decode_records, is_there,
    put_text, urls,
};
use crate::ids::{MemberId, Ordinal, SessionId};
use crate::limits::{LISTED_SERVERS_MAX, RETIRED_MAX, SERVER_URLS_MAX, SERVERS_MAX};

/// The number of a change: the ordinal of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangeId(pub u64);

/// A request to change the list of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRequest {
    /// Who asks; the permission that is needed follows from it.
    pub by: Asker,
    /// The version that the list must have; `None` for any.
    pub version: Option<u64>,
    pub flags: ChangeFlags,
    /// The most servers with the role [`ServerRole::Learner`] that an add may lead to
    /// (`--max-learners` of the member that was asked).
    pub learners_max: u16,
    pub change: ListChange,
}

/// The kind of client that asks for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A client of ZooKeeper's in this session: it needs WRITE on `/zookeeper/config`.
    Zk(SessionId),
    /// A client of etcd's: it needs the role `root` while permissions are enforced.
    Etcd,
    /// An operator on the member's own machine, whom the member has identified.
    Operator,
}

/// How the leader judges a change, and what becomes of removed servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeFlags {
    /// The leader applies etcd's checks of health (`--strict-reconfig-check`).
    pub is_strict: bool,
    /// The operator wants no check of health (`--force`).
    pub is_forced: bool,
    /// Removed servers serve on without a vote until they are stopped, as ZooKeeper's do.
    pub stay: bool,
}

/// A change of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListChange {
    /// The text of a reconfig is no list of servers. It is a request all the same, because the
    /// checks before its form come first.
    Malformed,
    /// Servers leave, then servers join or replace their record (ZooKeeper's incremental reconfig).
    Incremental { leaving: Vec<u64>, joining: BTreeMap<u64, JoiningServer> },
    /// The list becomes exactly this one (ZooKeeper's reconfig with members).
    Whole(BTreeMap<u64, JoiningServer>),
    /// A new server (etcd's MemberAdd).
    Add { peer_urls: Vec<String>, role: ServerRole },
    /// A server leaves (etcd's MemberRemove).
    Remove(ServerId),
    /// A server gets other peer URLs (etcd's MemberUpdate).
    Update { server: ServerId, peer_urls: Vec<String> },
    /// A server without a vote becomes a voter (etcd's MemberPromote).
    Promote(ServerId),
}

/// A server as ZooKeeper's text names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoiningServer {
    pub role: ServerRole,
    pub zk: ZkAddresses,
}

/// Why a request was refused when it was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeRefused {
    /// `reconfigEnabled` is off (ZooKeeper's -123).
    Disabled,
    /// The server runs alone, without addresses for others (-6).
    NoEnsemble,
    /// Another change is open (-14).
    InProgress,
    /// The list has another version (-103).
    BadVersion,
    /// The form is wrong, an address occurs twice, or too few servers would vote (-8).
    BadArguments,
    /// The client may not change the list (-102; etcd's permission errors come from its users).
    NotPermitted,
    /// No server of the list has this id.
    NotFound,
    /// A server of the list has one of the URLs.
    UrlExists,
    /// The list has as many learners as it may have.
    TooManyLearners,
    /// The server to promote votes already.
    NotLearner,
    /// The list has as many servers as it may have.
    TooManyServers,
    /// The session has ended (-112).
    SessionExpired,
    /// Another connection owns the session (-118).
    SessionMoved,
}

/// Why the leader refused or gave up a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LeaderRefused {
    /// Too few of the next voters are present and caught up (ZooKeeper's -13, etcd's `unhealthy
    /// cluster`).
    NoQuorum = 1,
    /// Too few members have started (etcd's `re-configuration failed due to not enough started
    /// members`).
    NotEnoughStarted = 2,
    /// The learner to promote lags behind.
    LearnerNotReady = 3,
    /// An operator gave the change up, or it could not begin in time.
    GivenUp = 4,
}

/// The open change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenChange {
    pub id: ChangeId,
    /// The list that follows. Its version is set at the finish.
    pub next: ServerList,
    /// What was asked for, which decides the leader's checks.
    pub kind: ChangeKind,
    pub flags: ChangeFlags,
    /// Whether the leader has accepted it.
    pub is_accepted: bool,
}

/// The kind of an open change, for the leader's checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Reconfig,
    AddVoter,
    AddLearner,
    /// The server with this number leaves.
    Remove(u64),
    Update,
    /// The server with this number becomes a voter.
    Promote(u64),
}

/// The state of changes of the list; part of control's state from level 5 on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListChanges {
    /// Whether a change has ever finished. From then on no configuration file decides the list.
    pub is_managed: bool,
    /// The highest number that a server ever had.
    pub number_max: u64,
    pub open: Option<OpenChange>,
    /// Servers that ZooKeeper's clients have removed from the list, by number: they serve on
    /// without a vote until they are stopped. Each has a registered member.
    pub guests: BTreeMap<u64, ServerRecord>,
    /// Members that are gone for good, with the ordinal at which each was retired. At most
    /// [`RETIRED_MAX`]: the oldest goes first.
    retired: BTreeMap<MemberId, Ordinal>,
}

/// The settings that a request is judged by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangeRules {
    /// `reconfigEnabled`.
    pub is_enabled: bool,
    /// The least number of voters that a reconfig may leave: 2 with `standaloneEnabled`, else 1.
    pub voters_min: usize,
    /// Whether the client has the permission that its kind needs.
    pub is_permitted: bool,
}

impl ListChanges {
    /// Judges a request, and returns the change that it opens if the state allows it. `id` is its
    /// number.
    ///
    /// # Errors
    /// The request is refused.
    pub fn judge(
        &self,
        id: ChangeId,
        request: &ChangeRequest,
        servers: &Servers,
        rules: ChangeRules,
    ) -> Result<OpenChange, ChangeRefused> {
        let next = match request.by {
            Asker::Zk(_) => self.judge_zk(request, servers, rules)?,
            Asker::Etcd | Asker::Operator => {
                if !rules.is_permitted {
                    return Err(ChangeRefused::NotPermitted);
                }
                if servers.list().servers.is_empty() {
                    return Err(ChangeRefused::NoEnsemble);
                }
                self.check_open(request, servers)?;
                self.next(request, servers)?
            }
        };
        let kind = kind(&request.change, servers);
        let flags = request.flags;
        Ok(OpenChange { id, next, kind, flags, is_accepted: false })
    }

    /// The checks in ZooKeeper's order (`PrepRequestProcessor.pRequest2Txn`, `OpCode.reconfig`,
    /// 3.9.5). Only the check of presence, which the leader makes, comes after the permission.
    fn judge_zk(
        &self,
        request: &ChangeRequest,
        servers: &Servers,
        rules: ChangeRules,
    ) -> Result<ServerList, ChangeRefused> {
        if !rules.is_enabled {
            return Err(ChangeRefused::Disabled);
        }
        if servers.list().zk_text().is_none() {
            return Err(ChangeRefused::NoEnsemble);
        }
        self.check_open(request, servers)?;
        let next = self.next(request, servers)?;
        if next.voter_count() < rules.voters_min {
            return Err(ChangeRefused::BadArguments);
        }
        if !rules.is_permitted {
            return Err(ChangeRefused::NotPermitted);
        }
        Ok(next)
    }

    fn check_open(&self, request: &ChangeRequest, servers: &Servers) -> Result<(), ChangeRefused> {
        if self.open.is_some() {
            return Err(ChangeRefused::InProgress);
        }
        match request.version {
            Some(version) if version != servers.list().version => Err(ChangeRefused::BadVersion),
            _ => Ok(()),
        }
    }

    /// The list that the change leads to.
    fn next(
        &self,
        request: &ChangeRequest,
        servers: &Servers,
    ) -> Result<ServerList, ChangeRefused> {
        let mut next = servers.list().clone();
        match &request.change {
            ListChange::Malformed => return Err(ChangeRefused::BadArguments),
            ListChange::Incremental { leaving, joining } => {
                for number in leaving {
                    next.servers.remove(number);
                }
                for (number, server) in joining {
                    let mut others = next.servers.iter().filter(|(other, _)| *other != number);
                    if others.any(|(_, other)| server.has_address_of(other)) {
                        return Err(ChangeRefused::BadArguments);
                    }
                    let record = server.record(servers.list(), *number);
                    next.servers.insert(*number, record);
                }
            }
            ListChange::Whole(all) => {
                if has_address_twice(all) {
                    return Err(ChangeRefused::BadArguments);
                }
                let record = |(number, server): (&u64, &JoiningServer)| {
                    (*number, server.record(servers.list(), *number))
                };
                next.servers = all.iter().map(record).collect();
            }
            ListChange::Add { peer_urls, role } => {
                check_urls(peer_urls, servers.list(), None)?;
                let is_learner = |record: &&ServerRecord| record.role == ServerRole::Learner;
                let learners = next.servers.values().filter(is_learner).count();
                if *role == ServerRole::Learner && learners >= usize::from(request.learners_max) {
                    return Err(ChangeRefused::TooManyLearners);
                }
                let number = self.number_max.checked_add(1).ok_or(ChangeRefused::TooManyServers)?;
                next.servers.insert(number, new_record(peer_urls, *role));
            }
            ListChange::Remove(server) => {
                next.servers.remove(&number_of(*server, servers)?);
            }
            ListChange::Update { server, peer_urls } => {
                let number = number_of(*server, servers)?;
                check_urls(peer_urls, servers.list(), Some(number))?;
                let record = next.servers.get_mut(&number).ok_or(ChangeRefused::NotFound)?;
                record.move_to(peer_urls);
            }
            ListChange::Promote(server) => {
                let number = number_of(*server, servers)?;
                let record = next.servers.get_mut(&number).ok_or(ChangeRefused::NotFound)?;
                if record.role == ServerRole::Voter {
                    return Err(ChangeRefused::NotLearner);
                }
                record.role = ServerRole::Voter;
            }
        }
        // A record is made of several texts of a request, and may be too long although they fit.
        if next.voter_count() == 0 || !next.servers.values().all(ServerRecord::has_room) {
            return Err(ChangeRefused::BadArguments);
        }
        match next.servers.len() > LISTED_SERVERS_MAX {
            true if matches!(request.by, Asker::Zk(_)) => Err(ChangeRefused::BadArguments),
            true => Err(ChangeRefused::TooManyServers),
            false => Ok(next),
        }
    }

    /// Notes that the leader has accepted the open change. False if no such change is open.
    pub fn accept(&mut self, id: ChangeId) -> bool {
        match &mut self.open {
            Some(open) if open.id == id => {
                open.is_accepted = true;
                true
            }
            _ => false,
        }
    }

    /// Drops the open change. A refusal behind an accept does nothing, a change that is given up is
    /// dropped in any case. False if nothing was dropped.
    pub fn drop_open(&mut self, id: ChangeId, is_given_up: bool) -> bool {
        let is_it = |open: &OpenChange| open.id == id && (is_given_up || !open.is_accepted);
        if self.open.as_ref().is_some_and(is_it) {
            self.open = None;
            return true;
        }
        false
    }

    /// Ends the open change, and returns it. `None` if no such change is open and accepted.
    pub fn finish(&mut self, id: ChangeId) -> Option<OpenChange> {
        let open = self.open.take_if(|open| open.id == id && open.is_accepted)?;
        self.is_managed = true;
        Some(open)
    }

    /// Notes that a number is used.
    pub fn note_numbers(&mut self, list: &ServerList) {
        let highest = list.servers.last_key_value().map_or(0, |(number, _)| *number);
        self.number_max = self.number_max.max(highest);
    }

    /// Notes that a member is gone for good.
    pub fn retire(&mut self, member: MemberId, at: Ordinal) {
        if self.retired.len() >= RETIRED_MAX && !self.retired.contains_key(&member) {
            let oldest = self.retired.iter().min_by_key(|(_, at)| **at).map(|(id, _)| *id);
            oldest.map(|oldest| self.retired.remove(&oldest));
        }
        self.retired.insert(member, at);
    }

    /// Whether a member is gone for good.
    pub fn is_retired(&self, member: MemberId) -> bool {
        self.retired.contains_key(&member)
    }

    /// The members that are gone for good, ascending.
    pub fn retired(&self) -> impl Iterator<Item = MemberId> {
        self.retired.keys().copied()
    }

    /// Writes the state; `docs/formats.md` gives the bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(u8::from(self.is_managed));
        out.put_u64(self.number_max);
        out.put_u32(self.retired.len() as u32);
        for (member, at) in &self.retired {
            out.put_u64(member.0);
            out.put_u64(at.0);
        }
        out.put_u32(self.guests.len() as u32);
        for (number, record) in &self.guests {
            out.put_u64(*number);
            record.encode(out);
        }
        out.put_u8(u8::from(self.open.is_some()));
        if let Some(open) = &self.open {
            open.encode(out);
        }
    }

    /// Reads what [`ListChanges::encode`] wrote.
    pub fn decode(reader: &mut Reader<'_>) -> Result<ListChanges, DecodeError> {
        let is_managed = is_there(reader)?;
        let number_max = reader.u64()?;
        let mut retired = BTreeMap::new();
        for _ in 0..reader.count("count of retired members", RETIRED_MAX)? {
            let member = MemberId(reader.u64()?);
            if retired.last_key_value().is_some_and(|(last, _)| *last >= member) {
                return Err(reader.bad("retired member", member.0));
            }
            retired.insert(member, Ordinal(reader.u64()?));
        }
        let guests = decode_records(reader)?;
        let open = if is_there(reader)? { Some(OpenChange::decode(reader)?) } else { None };
        Ok(ListChanges { is_managed, number_max, open, guests, retired })
    }
}

/// The number of the server with this id.
fn number_of(server: ServerId, servers: &Servers) -> Result<u64, ChangeRefused> {
    servers.number_with(server).ok_or(ChangeRefused::NotFound)
}

/// Refuses URLs that another server of the list has. `own` is the number of a server whose URLs
/// are replaced.
fn check_urls(new: &[String], list: &ServerList, own: Option<u64>) -> Result<(), ChangeRefused> {
    let others = list.servers.iter().filter(|(number, _)| Some(**number) != own);
    let mut urls = others.flat_map(|(_, record)| &record.peer_urls);
    match urls.any(|url| new.contains(url)) {
        true => Err(ChangeRefused::UrlExists),
        false => Ok(()),
    }
}

/// The record of a server that etcd's clients add: it has no name until it starts, and ZooKeeper's
/// clients do not see it.
fn new_record(peer_urls: &[String], role: ServerRole) -> ServerRecord {
    let (name, peer_urls, client_urls) = (String::new(), peer_urls.to_vec(), Vec::new());
    ServerRecord { name, role, peer_urls, client_urls, zk: None }
}

/// The kind of a change that was allowed.
fn kind(change: &ListChange, servers: &Servers) -> ChangeKind {
    let number = |server: &ServerId| servers.number_with(*server).unwrap_or(0);
    match change {
        ListChange::Malformed | ListChange::Incremental { .. } | ListChange::Whole(_) => {
            ChangeKind::Reconfig
        }
        ListChange::Add { role: ServerRole::Voter, .. } => ChangeKind::AddVoter,
        ListChange::Add { .. } => ChangeKind::AddLearner,
        ListChange::Remove(server) => ChangeKind::Remove(number(server)),
        ListChange::Update { .. } => ChangeKind::Update,
        ListChange::Promote(server) => ChangeKind::Promote(number(server)),
    }
}

impl JoiningServer {
    /// The record of the server. A server of the list keeps its name and its clients' URLs; a new
    /// one has the scheme of the other servers' peer URLs.
    fn record(&self, list: &ServerList, number: u64) -> ServerRecord {
        let old = list.servers.get(&number);
        let scheme_of = |record: &ServerRecord| {
            record
                .peer_urls
                .first()
                .and_then(|url| url.split_once("://"))
                .map(|(it, _)| it.to_string())
        };
        let scheme = list.servers.values().find_map(scheme_of).unwrap_or("http".to_string());
        let [host, peer, _] = self.zk.parts();
        ServerRecord {
            name: old.map(|old| old.name.clone()).unwrap_or_default(),
            role: self.role,
            peer_urls: vec![format!("{scheme}://{host}:{peer}")],
            client_urls: old.map(|old| old.client_urls.clone()).unwrap_or_default(),
            zk: Some(self.zk.clone()),
        }
    }

    /// Whether a server of the list has one of this server's addresses
    /// (`QuorumServer.checkAddressDuplicate`, which does not count wildcard addresses).
    fn has_address_of(&self, other: &ServerRecord) -> bool {
        let theirs = other.zk.as_ref().map(addresses).unwrap_or_default();
        addresses(&self.zk).iter().any(|own| theirs.contains(own))
    }
}

/// Whether two of the servers have an address in common. ZooKeeper does not look. But a file with
/// such a list is refused at the next start.
fn has_address_twice(all: &BTreeMap<u64, JoiningServer>) -> bool {
    let mut seen = BTreeSet::new();
    let mut others = all.values().map(|server| BTreeSet::from_iter(addresses(&server.zk)));
    others.any(|own| {
        let is_seen = own.iter().any(|address| seen.contains(address));
        seen.extend(own);
        is_seen
    })
}

/// The addresses of a server, `host:port` in lower case each, without those of every interface.
fn addresses(of: &ZkAddresses) -> Vec<String> {
    let [host, peer, election] = of.parts();
    let mut all = vec![format!("{host}:{peer}"), format!("{host}:{election}")];
    all.extend(of.clients.clone());
    let is_wildcard = |address: &String| {
        let host = address.rsplit_once(':').map_or("", |(host, _)| host);
        matches!(host, "0.0.0.0" | "[::]" | "[0:0:0:0:0:0:0:0]")
    };
    all.retain(|address| !is_wildcard(address));
    all.iter_mut().for_each(|address| address.make_ascii_lowercase());
    all
}

impl OpenChange {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.id.0);
        let (kind, number) = match self.kind {
            ChangeKind::Reconfig => (0, 0),
            ChangeKind::AddVoter => (1, 0),
            ChangeKind::AddLearner => (2, 0),
            ChangeKind::Remove(number) => (3, number),
            ChangeKind::Update => (4, 0),
            ChangeKind::Promote(number) => (5, number),
        };
        out.put_u8(kind);
        out.put_u64(number);
        self.flags.encode(out);
        out.put_u8(u8::from(self.is_accepted));
        self.next.encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<OpenChange, DecodeError> {
        let id = ChangeId(reader.u64()?);
        let (kind, number) = (reader.u8()?, reader.u64()?);
        let kind = match (kind, number) {
            (0, 0) => ChangeKind::Reconfig,
            (1, 0) => ChangeKind::AddVoter,
            (2, 0) => ChangeKind::AddLearner,
            (3, number) => ChangeKind::Remove(number),
            (4, 0) => ChangeKind::Update,
            (5, number) => ChangeKind::Promote(number),
            _ => return Err(reader.bad("kind of a change", u64::from(kind))),
        };
        let flags = ChangeFlags::decode(reader)?;
        let is_accepted = is_there(reader)?;
        Ok(OpenChange { id, kind, flags, is_accepted, next: ServerList::decode(reader)? })
    }
}

impl ChangeFlags {
    fn encode(self, out: &mut Vec<u8>) {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        out.put_u8(bit(self.is_strict, 1) | bit(self.is_forced, 2) | bit(self.stay, 4));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<ChangeFlags, DecodeError> {
        let flags = reader.u8()?;
        if flags > 7 {
            return Err(reader.bad("flags of a change", u64::from(flags)));
        }
        let is_set = |bit: u8| flags & bit != 0;
        Ok(ChangeFlags { is_strict: is_set(1), is_forced: is_set(2), stay: is_set(4) })
    }
}

impl LeaderRefused {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<LeaderRefused, DecodeError> {
        match reader.u8()? {
            1 => Ok(LeaderRefused::NoQuorum),
            2 => Ok(LeaderRefused::NotEnoughStarted),
            3 => Ok(LeaderRefused::LearnerNotReady),
            4 => Ok(LeaderRefused::GivenUp),
            other => Err(reader.bad("reason of a refusal", u64::from(other))),
        }
    }
}

impl ChangeRequest {
    /// Writes the request; `docs/formats.md` gives the bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self.by {
            Asker::Zk(session) => {
                out.put_u8(0);
                out.put_i64(session.0);
            }
            Asker::Etcd => out.put_u8(1),
            Asker::Operator => out.put_u8(2),
        }
        self.flags.encode(out);
        out.put_u8(u8::from(self.version.is_some()));
        self.version.iter().for_each(|version| out.put_u64(*version));
        out.put_u16(self.learners_max);
        match &self.change {
            ListChange::Malformed => out.put_u8(0),
            ListChange::Incremental { leaving, joining } => {
                out.put_u8(1);
                assert!(leaving.len() <= SERVERS_MAX);
                out.put_u32(leaving.len() as u32);
                leaving.iter().for_each(|number| out.put_u64(*number));
                encode_joining(joining, out);
            }
            ListChange::Whole(all) => {
                out.put_u8(2);
                encode_joining(all, out);
            }
            ListChange::Add { peer_urls, role } => {
                out.put_u8(3);
                role.encode(out);
                put_urls(peer_urls, out);
            }
            ListChange::Remove(server) => {
                out.put_u8(4);
                out.put_u64(server.0);
            }
            ListChange::Update { server, peer_urls } => {
                out.put_u8(5);
                out.put_u64(server.0);
                put_urls(peer_urls, out);
            }
            ListChange::Promote(server) => {
                out.put_u8(6);
                out.put_u64(server.0);
            }
        }
    }

    /// Reads what [`ChangeRequest::encode`] wrote.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<ChangeRequest, DecodeError> {
        let by = match reader.u8()? {
            0 => Asker::Zk(SessionId(reader.i64()?)),
            1 => Asker::Etcd,
            2 => Asker::Operator,
            other => return Err(reader.bad("asker of a change", u64::from(other))),
        };
        let flags = ChangeFlags::decode(reader)?;
        let version = if is_there(reader)? { Some(reader.u64()?) } else { None };
        let learners_max = reader.u16()?;
        let change = match reader.u8()? {
            0 => ListChange::Malformed,
            1 => {
                let count = reader.count("count of leaving servers", SERVERS_MAX)?;
                let leaving = (0..count).map(|_| reader.u64()).collect::<Result<_, _>>()?;
                ListChange::Incremental { leaving, joining: decode_joining(reader)? }
            }
            2 => ListChange::Whole(decode_joining(reader)?),
            3 => ListChange::Add { role: ServerRole::decode(reader)?, peer_urls: urls(reader)? },
            4 => ListChange::Remove(ServerId(reader.u64()?)),
            5 => {
                let server = ServerId(reader.u64()?);
                ListChange::Update { server, peer_urls: urls(reader)? }
            }
            6 => ListChange::Promote(ServerId(reader.u64()?)),
            other => return Err(reader.bad("change of the list", u64::from(other))),
        };
        Ok(ChangeRequest { by, version, flags, learners_max, change })
    }
}

pub(super) fn put_urls(urls: &[String], out: &mut Vec<u8>) {
    assert!(urls.len() <= SERVER_URLS_MAX);
    out.put_u16(urls.len() as u16);
    urls.iter().for_each(|url| put_text(out, url));
}

fn encode_joining(servers: &BTreeMap<u64, JoiningServer>, out: &mut Vec<u8>) {
    assert!(servers.len() <= SERVERS_MAX);
    out.put_u32(servers.len() as u32);
    for (number, JoiningServer { role, zk }) in servers {
        out.put_u64(*number);
        role.encode(out);
        zk.encode(out);
    }
}

fn decode_joining(reader: &mut Reader<'_>) -> Result<BTreeMap<u64, JoiningServer>, DecodeError> {
    let mut servers = BTreeMap::new();
    for _ in 0..reader.count("count of joining servers", SERVERS_MAX)? {
        let number = reader.u64()?;
        if servers.last_key_value().is_some_and(|(last, _)| *last >= number) {
            return Err(reader.bad("number of a joining server", number));
        }
        let role = ServerRole::decode(reader)?;
        servers.insert(number, JoiningServer { role, zk: ZkAddresses::decode(reader)? });
    }
    Ok(servers)
}

#[cfg(test)]
mod tests;
