//! The replicated state of the ensemble itself, whatever protocol its clients speak: the level, the
//! list of servers, which member each server is, and the last batch applied from each member.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::codec::{DecodeError, Reader, Write};
use crate::control::change::Change;
pub use crate::control::command::Command;
use crate::control::command::{decode_stated, encode_stated};
use crate::control::list_change::{
    ChangeId, ChangeRefused, ChangeRequest, ChangeRules, LeaderRefused,
};
use crate::control::servers::{ServerList, Servers};
use crate::digest::Digest;
use crate::held::HeldBounds;
use crate::ids::{BootId, MemberId, Ordinal, Origin};
use crate::level::{Level, StatedLevel};
use crate::limits::ORIGINS_MAX;

pub mod change;
pub(crate) mod command;
pub mod list_change;
pub mod servers;

/// The replicated state of the ensemble.
#[derive(Debug)]
pub struct Control {
    /// For each member, the boot and the sequence of its last applied batch. Used to detect
    /// duplicates.
    origins: BTreeMap<MemberId, (BootId, u64)>,
    steady: Steady,
    /// The digest's term of `steady`, and the bytes of `steady` in an image. Computed again
    /// whenever `steady` changes.
    steady_sum: (Digest, u64),
}

/// The part of the state that seldom changes.
#[derive(Debug)]
struct Steady {
    level: StatedLevel,
    /// Bounds on what etcd's stores hold in memory. `None` below level 4.
    bounds: Option<HeldBounds>,
    servers: Servers,
}

impl Default for Control {
    /// The state of a new ensemble.
    fn default() -> Self {
        Control::new(
            BTreeMap::new(),
            Steady { level: Level::FIRST.into(), bounds: None, servers: Servers::default() },
        )
    }
}

impl Control {
    fn new(origins: BTreeMap<MemberId, (BootId, u64)>, steady: Steady) -> Control {
        let steady_sum = steady.sum();
        Control { origins, steady, steady_sum }
    }

    /// Records a batch as applied if it is the next one of its origin (one boot of one member).
    /// False for a duplicate, a gap or an older boot: the caller must skip the batch, and its
    /// member sends missing batches again.
    pub(crate) fn begin_batch(&mut self, origin: Origin, sequence: u64) -> bool {
        let expected = match self.origins.get(&origin.member) {
            Some((boot, _)) if *boot > origin.boot => return false,
            Some((boot, last)) if *boot == origin.boot => last + 1,
            _ => 1,
        };
        let is_full = self.origins.len() == ORIGINS_MAX;
        if sequence != expected || (is_full && !self.origins.contains_key(&origin.member)) {
            return false;
        }
        self.origins.insert(origin.member, (origin.boot, sequence));
        true
    }

    pub(crate) fn register(&mut self, member: MemberId, number: u64) -> Change {
        self.steady.servers.register(member, number);
        self.servers_changed()
    }

    pub(crate) fn forget(&mut self, member: MemberId) -> Change {
        self.origins.remove(&member);
        self.steady.servers.forget(member);
        self.servers_changed()
    }

    /// Replaces the list of servers by that of a configuration, and returns the change. `None` if
    /// the list is not the configuration's to set any more.
    pub(crate) fn set_servers(
        &mut self,
        list: &ServerList,
        by: MemberId,
        ordinal: Ordinal,
    ) -> Option<Change> {
        if let Some(changes) = &mut self.steady.servers.changes {
            if changes.is_managed || changes.open.is_some() {
                return None;
            }
            changes.note_numbers(list);
        }
        self.steady.servers.set(list.clone(), by, ordinal);
        Some(self.servers_changed())
    }

    /// Judges a request for a change of the list, and opens the change; returns the change of the
    /// state as well. Below level 5 the request is refused: no such command is in an entry of a
    /// lower level.
    pub(crate) fn request_change(
        &mut self,
        ordinal: Ordinal,
        request: &ChangeRequest,
        rules: ChangeRules,
    ) -> Result<(ChangeId, Change), ChangeRefused> {
        let servers = &mut self.steady.servers;
        let changes = servers.changes.as_ref().ok_or(ChangeRefused::Disabled)?;
        let opened = changes.judge(ChangeId(ordinal.0), request, servers, rules)?;
        let id = opened.id;
        servers.open(opened);
        Ok((id, self.servers_changed()))
    }

    /// The leader's acceptance of the open change. `None` if no such change is open.
    pub(crate) fn accept_change(&mut self, id: ChangeId) -> Option<Change> {
        let changes = self.steady.servers.changes.as_mut()?;
        changes.accept(id).then(|| self.servers_changed())
    }

    /// Drops the open change, and returns how it ended. `None` if it was not dropped.
    pub(crate) fn drop_change(
        &mut self,
        id: ChangeId,
        reason: LeaderRefused,
    ) -> Option<[Change; 2]> {
        let is_given_up = reason == LeaderRefused::GivenUp;
        let changes = self.steady.servers.changes.as_mut()?;
        changes
            .drop_open(id, is_given_up)
            .then(|| [self.servers_changed(), Change::ListChangeEnded { id, result: Err(reason) }])
    }

    /// The list that the open change leads to, with this version; `None` if no such change is open
    /// and accepted. The change is over then.
    pub(crate) fn finish_change(
        &mut self,
        id: ChangeId,
        version: u64,
        by: (MemberId, Ordinal),
    ) -> Option<(ServerList, [Change; 2])> {
        let list = self.steady.servers.finish(id, version, by)?;
        let ended = Change::ListChangeEnded { id, result: Ok(version) };
        Some((list, [self.servers_changed(), ended]))
    }

    /// Whether this change is open and accepted.
    pub(crate) fn is_accepted(&self, id: ChangeId) -> bool {
        self.servers().open_change().is_some_and(|open| open.id == id && open.is_accepted)
    }

    /// Forgets a member that is gone for good, and remembers that it is.
    pub(crate) fn retire(&mut self, member: MemberId, at: Ordinal) -> Change {
        if let Some(changes) = &mut self.steady.servers.changes {
            changes.retire(member, at);
        }
        self.forget(member)
    }

    /// Takes a server that is not on the list as a guest. `None` if that changes nothing.
    pub(crate) fn admit(
        &mut self,
        member: MemberId,
        server: u64,
        peer_urls: &[String],
    ) -> Option<Change> {
        self.steady.servers.admit(member, server, peer_urls).then(|| self.servers_changed())
    }

    /// Takes the server of a member from the list of another state, as the only one of this state,
    /// at this version. Does nothing below level 5.
    pub(crate) fn keep_only(&mut self, of: &Servers, member: MemberId, version: u64) {
        self.steady.servers.keep_only(of, member, version);
        self.steady_sum = self.steady.sum();
    }

    /// Notes the name and the clients' URLs that a server has told. `None` if that changes nothing.
    pub(crate) fn describe(
        &mut self,
        server: u64,
        name: &str,
        client_urls: &[String],
    ) -> Option<Change> {
        self.steady.servers.describe(server, name, client_urls).then(|| self.servers_changed())
    }

    /// The id that etcd's clients see of a member ([`Servers::etcd_id_of`]).
    pub fn etcd_id_of(&self, member: MemberId) -> u64 {
        self.steady.servers.etcd_id_of(member, self.steady.level.level)
    }

    /// The members that etcd's clients see under this id: several if the server with the id has
    /// lost its directory and the new member has not taken over the vote yet.
    pub fn members_with_etcd_id(&self, id: u64) -> impl Iterator<Item = MemberId> {
        let members = self.steady.servers.members().keys().copied();
        members.filter(move |member| self.etcd_id_of(*member) == id)
    }

    fn servers_changed(&mut self) -> Change {
        self.steady_sum = self.steady.sum();
        Change::Servers(Arc::new(self.steady.servers.clone()))
    }

    /// Raises the level, and returns the changes; none if the level was at least as high before. At
    /// level 4 or higher, `bounds` apply from now on unless there were bounds before.
    pub(crate) fn raise(&mut self, stated: &StatedLevel, bounds: HeldBounds) -> Vec<Change> {
        if stated.level <= self.steady.level.level {
            return Vec::new();
        }
        let mut raised = vec![Change::Raised(stated.clone())];
        self.steady.level = stated.clone();
        if stated.level >= Level::TOKENS {
            self.steady.bounds.get_or_insert(bounds);
        }
        if stated.level >= Level::MEMBERS && self.steady.servers.changes.is_none() {
            self.steady.servers.begin_changes();
            raised.push(Change::Servers(Arc::new(self.steady.servers.clone())));
        }
        self.steady_sum = self.steady.sum();
        raised
    }

    /// Widens the present bounds to allow at least what `bounds` allow. Does nothing below level 4,
    /// where there are no bounds.
    pub(crate) fn widen(&mut self, bounds: HeldBounds) {
        if let Some(own) = &mut self.steady.bounds {
            *own = own.or(bounds);
            self.steady_sum = self.steady.sum();
        }
    }

    /// The bounds on what etcd's stores hold in memory; `None` below level 4.
    pub fn bounds(&self) -> Option<HeldBounds> {
        self.steady.bounds
    }

    /// The level of the ensemble: its features, and those of lower levels, may be used.
    pub fn level(&self) -> &StatedLevel {
        &self.steady.level
    }

    /// The list of servers, and which member each server is.
    pub fn servers(&self) -> &Servers {
        &self.steady.servers
    }

    /// The boot and the sequence of the last batch applied from this member; `None` if it never
    /// sent one, or was forgotten.
    pub fn last_batch(&self, member: MemberId) -> Option<(BootId, u64)> {
        self.origins.get(&member).copied()
    }

    /// The ensemble's two terms of the digest: one of the ordinal and the batches, which change
    /// with every entry, and one of everything else.
    pub(crate) fn digest(&self, ordinal: Ordinal) -> Digest {
        let mut bytes = Vec::new();
        bytes.put_u64(ordinal.0);
        self.encode_origins(&mut bytes);
        let mut digest = Digest::from_bytes(b'M', &bytes);
        digest.add(self.steady_sum.0);
        digest
    }

    /// Writes control's section of an image: the level, the bounds, the servers, and the last batch
    /// of each member.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.steady.encode(out);
        self.encode_origins(out);
    }

    fn encode_origins(&self, out: &mut Vec<u8>) {
        out.put_u32(self.origins.len() as u32);
        for (member, (boot, sequence)) in &self.origins {
            out.put_u64(member.0);
            out.put_u64(boot.0);
            out.put_u64(*sequence);
        }
    }

    /// Bytes that [`Control::encode`] writes.
    pub(crate) fn encoded_bytes(&self) -> u64 {
        self.steady_sum.1 + 4 + self.origins.len() as u64 * ORIGIN_BYTES
    }

    /// Reads only the level. It is the first field of the section, and stays so in every level's
    /// form.
    pub(crate) fn decode_level(reader: &mut Reader<'_>) -> Result<StatedLevel, DecodeError> {
        decode_stated(reader)
    }

    /// Reads what [`Control::encode`] wrote.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Control, DecodeError> {
        let steady = Steady::decode(reader)?;
        let mut origins = BTreeMap::new();
        for _ in 0..reader.count("origin count", ORIGINS_MAX)? {
            let member = reader.u64()?;
            if origins.last_key_value().is_some_and(|(last, _)| *last >= MemberId(member)) {
                return Err(reader.bad("member of a batch", member));
            }
            let boot = BootId(reader.u64()?);
            origins.insert(MemberId(member), (boot, reader.counted("sequence of a batch")?));
        }
        Ok(Control::new(origins, steady))
    }
}

impl Steady {
    fn sum(&self) -> (Digest, u64) {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        (Digest::from_bytes(b'L', &bytes), bytes.len() as u64)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        encode_stated(&self.level, out);
        if let Some(bounds) = self.bounds {
            bounds.encode(out);
        }
        self.servers.encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Steady, DecodeError> {
        let level = decode_stated(reader)?;
        let has_bounds = level.level >= Level::TOKENS;
        let bounds = if has_bounds { Some(HeldBounds::decode(reader)?) } else { None };
        let servers = Servers::decode(level.level, reader)?;
        Ok(Steady { level, bounds, servers })
    }
}

/// Encoded size of one entry of `origins`.
const ORIGIN_BYTES: u64 = 24;

#[cfg(test)]
mod tests;
