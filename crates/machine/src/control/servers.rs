//! The servers of the ensemble: a record for each server, and which member each server is.
//!
//! A record exists before its server starts, and outlives the server's data directory: a server
//! that comes back with an empty directory is a new member, but the same server.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use xxhash_rust::xxh3::xxh3_64;

use crate::codec::{DecodeError, Reader, Write};
use crate::control::list_change::{ChangeId, ListChanges, OpenChange};
use crate::ids::{MemberId, Ordinal};
use crate::level::Level;
use crate::limits::{GUESTS_MAX, SERVER_TEXT_BYTES_MAX, SERVER_URLS_MAX, SERVERS_MAX};

/// The id of a server, fixed while the server is in the list. etcd's clients see it as the member
/// id. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerId(pub u64);

/// The role of a server in the ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerRole {
    /// The server votes.
    Voter,
    /// The server does not vote yet; it is to become a voter (etcd's learner).
    Learner,
    /// The server never votes (ZooKeeper's observer).
    Observer,
}

impl ServerRole {
    /// The role's name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            ServerRole::Voter => "voter",
            ServerRole::Learner => "learner",
            ServerRole::Observer => "observer",
        }
    }

    /// ZooKeeper's name of the role (`LearnerType`).
    pub fn zk_name(self) -> &'static str {
        match self {
            ServerRole::Voter => "participant",
            ServerRole::Learner | ServerRole::Observer => "observer",
        }
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.put_u8(match self {
            ServerRole::Voter => 0,
            ServerRole::Learner => 1,
            ServerRole::Observer => 2,
        });
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<ServerRole, DecodeError> {
        match reader.u8()? {
            0 => Ok(ServerRole::Voter),
            1 => Ok(ServerRole::Learner),
            2 => Ok(ServerRole::Observer),
            role => Err(reader.bad("role of a server", u64::from(role))),
        }
    }
}

/// The addresses of a server in ZooKeeper's configuration, in the form that its znode shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZkAddresses {
    /// `host:port:port`: the ports are for the other servers, and for elections.
    pub servers: String,
    /// `host:port` for clients, if the configuration has it.
    pub clients: Option<String>,
}

impl ZkAddresses {
    /// The host, the port for the other servers, and the port for elections.
    pub fn parts(&self) -> [&str; 3] {
        let mut parts = self.servers.rsplitn(3, ':');
        let (election, peer) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        [parts.next().unwrap_or(""), peer, election]
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_text(out, &self.servers);
        out.put_u8(u8::from(self.clients.is_some()));
        self.clients.iter().for_each(|clients| put_text(out, clients));
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<ZkAddresses, DecodeError> {
        let servers = text(reader)?;
        let clients = if is_there(reader)? { Some(text(reader)?) } else { None };
        Ok(ZkAddresses { servers, clients })
    }
}

/// The record of a server: its role, its name and its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerRecord {
    /// Its name, as etcd's clients see it; empty if it has none.
    pub name: String,
    /// Its role.
    pub role: ServerRole,
    /// The URLs where the other servers reach this server.
    pub peer_urls: Vec<String>,
    /// The URLs where etcd's clients reach this server; empty until the server has published them.
    pub client_urls: Vec<String>,
    /// Its ZooKeeper addresses; `None` if ZooKeeper's clients do not see this server.
    pub zk: Option<ZkAddresses>,
}

/// The servers by their numbers (`server.N`), as a configuration lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerList {
    /// Number of changes of the list so far, as ZooKeeper's clients see it.
    pub version: u64,
    /// The servers by number, at most [`SERVERS_MAX`].
    pub servers: BTreeMap<u64, ServerRecord>,
}

/// The list of servers, and which member each server is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Servers {
    list: ServerList,
    /// The id of each server of the list.
    ids: BTreeMap<u64, ServerId>,
    /// The server number of each member that a leader has registered. A server that has lost its
    /// directory appears as two members until the new member has taken over the old one's vote.
    members: BTreeMap<MemberId, u64>,
    /// Changes of the list while the ensemble runs. `None` below level 5.
    pub(crate) changes: Option<ListChanges>,
}

impl Servers {
    /// The list. It is empty for a server that runs alone.
    pub fn list(&self) -> &ServerList {
        &self.list
    }

    /// Whether a change of the list has ever finished while the ensemble ran (level 5). From then
    /// on no configuration file decides the list.
    pub fn is_managed(&self) -> bool {
        self.changes.as_ref().is_some_and(|changes| changes.is_managed)
    }

    /// Whether the state decides which servers belong to the ensemble: a change of the list has
    /// finished, or one is accepted.
    pub fn is_decided(&self) -> bool {
        self.is_managed() || self.open_change().is_some_and(|open| open.is_accepted)
    }

    /// Whether a member hands over the commands of its clients without a vote: its server is an
    /// observer of the list, or was removed and serves on. The member must be registered: a
    /// snapshot in which it is not then proves that the ensemble has forgotten it. A member that
    /// waits for the vote of its server hands nothing over.
    pub fn serves_without_vote(&self, member: MemberId) -> bool {
        let Some(number) = self.number_of(member) else { return false };
        if !self.is_decided() {
            let record = self.list.servers.get(&number).filter(|_| self.changes.is_some());
            return self.is_guest(number)
                || record.is_some_and(|record| record.role == ServerRole::Observer);
        }
        match self.list_to_follow().servers.get(&number) {
            Some(record) => record.role == ServerRole::Observer,
            // While its removal is accepted and not finished, it is in the list and no guest yet.
            None => {
                let stays = self.open_change().is_some_and(|open| open.flags.stay);
                self.is_guest(number) || (stays && self.list.servers.contains_key(&number))
            }
        }
    }

    /// Whether clients may change the list while the ensemble runs: the level is 5 or higher, and
    /// the servers have addresses for ZooKeeper.
    pub fn may_be_reconfigured(&self) -> bool {
        self.changes.is_some() && self.list.servers.values().any(|server| server.zk.is_some())
    }

    /// The open change of the list.
    pub fn open_change(&self) -> Option<&OpenChange> {
        self.changes.as_ref()?.open.as_ref()
    }

    /// Whether a member is gone for good, and must end if it comes back.
    pub fn is_retired(&self, member: MemberId) -> bool {
        self.changes.as_ref().is_some_and(|changes| changes.is_retired(member))
    }

    /// The members that are gone for good, ascending; at most [`crate::limits::RETIRED_MAX`].
    pub fn retired(&self) -> impl Iterator<Item = MemberId> {
        self.changes.iter().flat_map(ListChanges::retired)
    }

    /// The list that an accepted change leads to, or else the present list: the servers that the
    /// members must reach, and that the Raft membership follows.
    pub fn list_to_follow(&self) -> &ServerList {
        match self.open_change() {
            Some(open) if open.is_accepted => &open.next,
            _ => &self.list,
        }
    }

    /// Notes that a request has opened a change.
    pub(crate) fn open(&mut self, change: OpenChange) {
        self.changes.iter_mut().for_each(|changes| changes.open = Some(change.clone()));
    }

    /// Makes changes of the list possible. Called when the level rises to 5. Each server with
    /// exactly one registered member takes that member's id, so that the ids that etcd's clients
    /// saw below level 5 stay.
    pub(crate) fn begin_changes(&mut self) {
        let mut changes = ListChanges::default();
        changes.note_numbers(&self.list);
        self.changes = Some(changes);
        self.adopt_member_ids();
    }

    /// The id of the server with that number.
    pub fn id_of(&self, number: u64) -> Option<ServerId> {
        self.ids.get(&number).copied()
    }

    /// The number of the server with that id.
    pub fn number_with(&self, id: ServerId) -> Option<u64> {
        self.ids.iter().find(|(_, own)| **own == id).map(|(number, _)| *number)
    }

    /// The id that etcd's clients see of a member at this level of the state: from level 5 on the
    /// id of the member's server, which outlives its directory; below, and of a member without a
    /// server, the member's own id.
    pub fn etcd_id_of(&self, member: MemberId, level: Level) -> u64 {
        if level < Level::MEMBERS {
            return member.0;
        }
        let id = self.number_of(member).and_then(|number| self.id_of(number));
        id.map_or(member.0, |id| id.0)
    }

    fn adopt_member_ids(&mut self) {
        for number in self.list.servers.keys() {
            let mut of_number = self.members.iter().filter(|(_, server)| *server == number);
            let (Some((member, _)), None) = (of_number.next(), of_number.next()) else { continue };
            let id = ServerId(member.0);
            if self.ids.values().all(|other| *other != id) {
                self.ids.insert(*number, id);
            }
        }
    }

    /// The number of the server that this member is; `None` if no leader has registered the member.
    pub fn number_of(&self, member: MemberId) -> Option<u64> {
        self.members.get(&member).copied()
    }

    /// The server number of each member that a leader has registered.
    pub fn members(&self) -> &BTreeMap<MemberId, u64> {
        &self.members
    }

    /// Replaces the list. A new server gets an id hashed from the proposing member, the ordinal and
    /// the server's number, so no two ensembles draw equal ids.
    pub(crate) fn set(&mut self, list: ServerList, by: MemberId, ordinal: Ordinal) {
        self.ids.retain(|number, _| list.servers.contains_key(number));
        for number in list.servers.keys() {
            if !self.ids.contains_key(number) {
                let id = self.draw_id(*number, by, ordinal);
                self.ids.insert(*number, id);
            }
        }
        self.list = list;
    }

    fn draw_id(&self, number: u64, by: MemberId, ordinal: Ordinal) -> ServerId {
        let mut bytes = Vec::new();
        for part in [by.0, ordinal.0, number] {
            bytes.put_u64(part);
        }
        loop {
            let id = ServerId(xxh3_64(&bytes));
            if id.0 != 0 && self.ids.values().all(|other| *other != id) {
                return id;
            }
            bytes.put_u8(0);
        }
    }

    /// Takes the server of a member from other servers, as the only one on the list. No number and
    /// no id of the others is used again. Does nothing where the list cannot change (level 5), or
    /// if the member's server is on no list.
    pub(crate) fn keep_only(&mut self, of: &Servers, member: MemberId, version: u64) {
        let (Some(changes), Some(others)) = (&mut self.changes, &of.changes) else { return };
        let Some(number) = of.number_of(member) else { return };
        let Some(record) = of.list_to_keep().servers.remove(&number) else { return };
        changes.number_max = changes.number_max.max(others.number_max);
        changes.is_managed = true;
        let record = ServerRecord { role: ServerRole::Voter, ..record };
        self.list = ServerList { version, servers: [(number, record)].into() };
        changes.note_numbers(&self.list);
        let id = of.id_of(number).unwrap_or(ServerId(member.0));
        self.ids = [(number, id)].into();
    }

    /// Sets the name and the clients' URLs of a server in a managed list, and in the list that an
    /// open change leads to. Returns whether anything changed.
    pub(crate) fn describe(&mut self, number: u64, name: &str, client_urls: &[String]) -> bool {
        if !self.is_managed() {
            return false;
        }
        let open = self.changes.as_mut().and_then(|changes| changes.open.as_mut());
        let lists = core::iter::once(&mut self.list).chain(open.map(|open| &mut open.next));
        let mut has_changed = false;
        for record in lists.filter_map(|list| list.servers.get_mut(&number)) {
            if record.name != name || record.client_urls != client_urls {
                record.name = name.to_string();
                record.client_urls = client_urls.to_vec();
                has_changed = true;
            }
        }
        has_changed
    }

    /// Takes a server that is not on the list as a guest, at these URLs. Returns whether anything
    /// changed.
    pub(crate) fn admit(&mut self, member: MemberId, number: u64, peer_urls: &[String]) -> bool {
        if !self.may_admit(member, number) {
            return false;
        }
        let Some(changes) = &mut self.changes else { return false };
        let guest = changes.guests.entry(number).or_insert_with(|| ServerRecord {
            name: String::new(),
            role: ServerRole::Observer,
            peer_urls: Vec::new(),
            client_urls: Vec::new(),
            zk: None,
        });
        guest.peer_urls = peer_urls.to_vec();
        self.register(member, number);
        true
    }

    /// Whether a member of a server that is not on the list can become a guest.
    pub fn may_admit(&self, member: MemberId, number: u64) -> bool {
        let Some(changes) = &self.changes else { return false };
        let has_place = changes.guests.contains_key(&number) || changes.guests.len() < GUESTS_MAX;
        has_place
            && !self.is_listed(number)
            && !self.is_retired(member)
            && self.number_of(member) != Some(number)
    }

    /// Whether the list has this number, or the list that an accepted change leads to.
    fn is_listed(&self, number: u64) -> bool {
        let has_it = |list: &ServerList| list.servers.contains_key(&number);
        has_it(&self.list) || has_it(self.list_to_follow())
    }

    /// Whether there are servers that are not on the list and get the log.
    pub fn has_guests(&self) -> bool {
        self.changes.as_ref().is_some_and(|changes| !changes.guests.is_empty())
    }

    /// Whether a server is not on the list, where the list may change at all.
    pub fn is_stranger(&self, number: u64) -> bool {
        self.changes.is_some() && !self.is_listed(number)
    }

    /// Whether the server with this number is not on the list and gets the log without a vote: it
    /// has come by itself, or ZooKeeper's clients have removed it and it runs on.
    pub fn is_guest(&self, number: u64) -> bool {
        self.changes.as_ref().is_some_and(|changes| changes.guests.contains_key(&number))
    }

    /// The servers of the list, and of the one that an accepted change leads to, which has
    /// precedence. A server keeps both for its next start: until the change is done, votes of both
    /// may be needed, and it may yet be given up.
    pub fn list_to_keep(&self) -> ServerList {
        let servers = self.listed().map(|(number, record)| (*number, record.clone()));
        ServerList { version: self.list_to_follow().version, servers: servers.collect() }
    }

    /// The servers of the list, and then those of the one that an accepted change leads to.
    fn listed(&self) -> impl Iterator<Item = (&u64, &ServerRecord)> {
        self.list.servers.iter().chain(&self.list_to_follow().servers)
    }

    /// The servers that the members must reach, by number: guests, those of the list, and those of
    /// the list that an accepted change leads to, which has precedence.
    pub fn to_reach(&self) -> BTreeMap<u64, &ServerRecord> {
        let guests = self.changes.iter().flat_map(|changes| &changes.guests);
        guests.chain(self.listed()).map(|(number, record)| (*number, record)).collect()
    }

    /// Records which server a member is. Does nothing for a retired member, and for a new one once
    /// [`SERVERS_MAX`] are recorded: the leader forgets members that are gone.
    pub fn register(&mut self, member: MemberId, number: u64) {
        if self.is_retired(member) {
            return;
        }
        if self.members.len() < SERVERS_MAX || self.members.contains_key(&member) {
            self.members.insert(member, number);
        }
    }

    pub(crate) fn forget(&mut self, member: MemberId) {
        let number = self.members.remove(&member);
        if let (Some(number), Some(changes)) = (number, &mut self.changes)
            && self.members.values().all(|other| *other != number)
        {
            changes.guests.remove(&number);
        }
    }

    /// Ends the open change, and sets the list that it leads to, with this version. Removed servers
    /// become guests if the change says so. `None` if no such change is open and accepted.
    pub(crate) fn finish(
        &mut self,
        id: ChangeId,
        version: u64,
        (by, ordinal): (MemberId, Ordinal),
    ) -> Option<ServerList> {
        let changes = self.changes.as_mut()?;
        let OpenChange { next, flags, .. } = changes.finish(id)?;
        let list = ServerList { version, ..next };
        changes.note_numbers(&list);
        changes.guests.retain(|number, _| !list.servers.contains_key(number));
        let old = self.list.servers.iter().filter(|(number, _)| {
            let has_member = self.members.values().any(|of| of == *number);
            flags.stay && has_member && !list.servers.contains_key(number)
        });
        changes.guests.extend(old.map(|(number, record)| (*number, record.clone())));
        self.set(list.clone(), by, ordinal);
        Some(list)
    }

    /// Writes the list, then the id of each server, then the server number of each member, and from
    /// level 5 on the changes of the list.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.list.encode(out);
        for id in self.ids.values() {
            out.put_u64(id.0);
        }
        out.put_u32(self.members.len() as u32);
        for (member, number) in &self.members {
            out.put_u64(member.0);
            out.put_u64(*number);
        }
        self.changes.iter().for_each(|changes| changes.encode(out));
    }

    /// Reads what [`Servers::encode`] wrote at this level of the state.
    pub(crate) fn decode(level: Level, reader: &mut Reader<'_>) -> Result<Servers, DecodeError> {
        let list = ServerList::decode(reader)?;
        let mut ids = BTreeMap::new();
        for number in list.servers.keys() {
            let id = reader.u64()?;
            if id == 0 || ids.values().any(|other| *other == ServerId(id)) {
                return Err(reader.bad("id of a server", id));
            }
            ids.insert(*number, ServerId(id));
        }
        let mut members = BTreeMap::new();
        for _ in 0..reader.count("member count", SERVERS_MAX)? {
            let member = reader.u64()?;
            if members.last_key_value().is_some_and(|(last, _)| *last >= MemberId(member)) {
                return Err(reader.bad("member", member));
            }
            members.insert(MemberId(member), reader.u64()?);
        }
        let has_changes = level >= Level::MEMBERS;
        let changes = if has_changes { Some(ListChanges::decode(reader)?) } else { None };
        Ok(Servers { list, ids, members, changes })
    }
}

impl ServerList {
    /// How many servers of the list vote.
    pub fn voter_count(&self) -> usize {
        self.servers.values().filter(|record| record.role == ServerRole::Voter).count()
    }

    /// The list as the znode `/zookeeper/config` holds it (`QuorumMaj.toString`): the servers by
    /// number, then the version. `None` if no server has addresses for ZooKeeper.
    pub fn zk_text(&self) -> Option<String> {
        let mut text = String::new();
        for (number, server) in &self.servers {
            let Some(ZkAddresses { servers, clients }) = &server.zk else { continue };
            let role = server.role.zk_name();
            let _ = write!(text, "server.{number}={servers}:{role}");
            if let Some(clients) = clients {
                let _ = write!(text, ";{clients}");
            }
            text.push('\n');
        }
        if text.is_empty() {
            return None;
        }
        let _ = write!(text, "version={:x}", self.version);
        Some(text)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.servers.len() <= SERVERS_MAX);
        out.put_u64(self.version);
        out.put_u32(self.servers.len() as u32);
        for (number, server) in &self.servers {
            out.put_u64(*number);
            server.encode(out);
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<ServerList, DecodeError> {
        Ok(ServerList { version: reader.u64()?, servers: decode_records(reader)? })
    }
}

impl ServerRecord {
    /// Gives the server other peer URLs. Its addresses for ZooKeeper follow the first one.
    pub(crate) fn move_to(&mut self, peer_urls: &[String]) {
        self.peer_urls = peer_urls.to_vec();
        let place = peer_urls.first().and_then(|url| url.split_once("://")).map(|(_, place)| place);
        if let (Some(zk), Some(place)) = (&mut self.zk, place) {
            let election = zk.parts()[2].to_string();
            zk.servers = format!("{place}:{election}");
        }
    }

    /// Whether each text and each list of the record is within its limit.
    pub(crate) fn has_room(&self) -> bool {
        let zk = self.zk.iter().flat_map(|zk| core::iter::once(&zk.servers).chain(&zk.clients));
        let urls = self.peer_urls.iter().chain(&self.client_urls);
        let mut texts = core::iter::once(&self.name).chain(urls).chain(zk);
        self.peer_urls.len().max(self.client_urls.len()) <= SERVER_URLS_MAX
            && texts.all(|text| text.len() <= SERVER_TEXT_BYTES_MAX)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.role.encode(out);
        put_text(out, &self.name);
        for urls in [&self.peer_urls, &self.client_urls] {
            assert!(urls.len() <= SERVER_URLS_MAX);
            out.put_u16(urls.len() as u16);
            urls.iter().for_each(|url| put_text(out, url));
        }
        out.put_u8(u8::from(self.zk.is_some()));
        if let Some(zk) = &self.zk {
            zk.encode(out);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<ServerRecord, DecodeError> {
        let role = ServerRole::decode(reader)?;
        let name = text(reader)?;
        let (peer_urls, client_urls) = (urls(reader)?, urls(reader)?);
        let zk = if is_there(reader)? { Some(ZkAddresses::decode(reader)?) } else { None };
        Ok(ServerRecord { name, role, peer_urls, client_urls, zk })
    }
}

/// Reads the count of servers, then each with its number.
pub(super) fn decode_records(
    reader: &mut Reader<'_>,
) -> Result<BTreeMap<u64, ServerRecord>, DecodeError> {
    let mut servers = BTreeMap::new();
    for _ in 0..reader.count("server count", SERVERS_MAX)? {
        let number = reader.u64()?;
        if servers.last_key_value().is_some_and(|(last, _)| *last >= number) {
            return Err(reader.bad("number of a server", number));
        }
        servers.insert(number, ServerRecord::decode(reader)?);
    }
    Ok(servers)
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    assert!(text.len() <= SERVER_TEXT_BYTES_MAX);
    out.put_bytes(text.as_bytes());
}

pub(super) fn text(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    let text = reader.text()?;
    if text.len() > SERVER_TEXT_BYTES_MAX {
        return Err(reader.bad("bytes of a server's text", text.len() as u64));
    }
    Ok(text.to_string())
}

pub(super) fn urls(reader: &mut Reader<'_>) -> Result<Vec<String>, DecodeError> {
    let count = reader.u16()?;
    if usize::from(count) > SERVER_URLS_MAX {
        return Err(reader.bad("count of a server's URLs", u64::from(count)));
    }
    (0..count).map(|_| text(reader)).collect()
}

pub(super) fn is_there(reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(reader.bad("flag", u64::from(other))),
    }
}

#[cfg(test)]
mod tests;
