//! Records which server of the configuration each member is, according to the state and to the
//! links.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::{ControlCommand, Level, MemberId, ServerList, ServerRole};
use replica::Membership;

use crate::membership::bootstrap::absent_server;
use crate::membership::hello::Hello;
use crate::membership::levels::RaiseRefused;

/// The servers that this member knows.
pub(crate) struct Servers {
    /// This member, with the number of its server.
    pub own: (MemberId, u64),
    /// The name and the clients' URLs of this member's server; `None` if etcd's clients see none.
    pub described: Option<(String, Vec<String>)>,
    /// The servers as the state has them registered.
    pub registered: Arc<machine::Servers>,
    /// The members that have a link to this one, with their descriptions.
    pub linked: BTreeMap<MemberId, LinkedServer>,
    /// Whether servers that are not on the list may get the log without a vote.
    pub takes_guests: bool,
}

/// A server as its hello describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedServer {
    /// The server's number in the configuration.
    pub number: u64,
    /// The highest level that the server knows.
    pub level_max: Level,
    /// The version of the server's program, for people; empty if unknown.
    pub program: String,
    /// The server's name, as etcd's clients see it; empty if unknown.
    pub name: String,
    /// The URLs at which etcd's clients reach the server; empty if unknown.
    pub client_urls: Vec<String>,
    /// The URLs at which the other servers reach it; empty if unknown.
    pub peer_urls: Vec<String>,
    /// The numbers of the servers that its configuration lists as voters.
    pub configured: Vec<u64>,
}

#[cfg(test)]
impl LinkedServer {
    /// A server of this build.
    pub(crate) fn of(number: u64) -> LinkedServer {
        LinkedServer {
            number,
            level_max: Level::RELEASED,
            program: String::new(),
            name: String::new(),
            client_urls: Vec::new(),
            peer_urls: Vec::new(),
            configured: Vec::new(),
        }
    }
}

impl From<&Hello> for LinkedServer {
    fn from(hello: &Hello) -> LinkedServer {
        LinkedServer {
            number: hello.server,
            level_max: hello.known.level_max,
            program: hello.known.program.clone(),
            name: hello.name.clone(),
            client_urls: hello.client_urls.clone(),
            peer_urls: hello.peer_urls.clone(),
            configured: hello.servers.clone(),
        }
    }
}

impl Servers {
    /// The servers that a start restores from the state; no member is linked.
    pub fn new(own: (MemberId, u64), registered: machine::Servers) -> Servers {
        let (registered, linked) = (Arc::new(registered), BTreeMap::new());
        Servers { own, described: None, registered, linked, takes_guests: false }
    }

    /// These servers, with this member's description of its own server in its configuration: the
    /// name in the list, or else `name`.
    pub fn described_by(self, name: &str, configured: &ServerList) -> Servers {
        let described = configured.servers.get(&self.own.1).map(|own| {
            let name = if own.name.is_empty() { name } else { &own.name };
            (name.to_string(), own.client_urls.clone())
        });
        Servers { described: described.filter(|(name, _)| !name.is_empty()), ..self }
    }

    /// Notes that a member has linked to this one, or with `None` that the link ended.
    pub fn on_link(&mut self, member: MemberId, server: Option<LinkedServer>) {
        match server {
            Some(server) => self.linked.insert(member, server),
            None => self.linked.remove(&member),
        };
    }

    /// Whether that member has a link to this one.
    pub fn is_linked(&self, member: MemberId) -> bool {
        self.linked.contains_key(&member)
    }

    /// Whether the list has no server with this number, and says which servers belong to the
    /// ensemble: it was changed while the ensemble ran.
    pub fn is_unlisted(&self, number: u64) -> bool {
        let has_it = |list: &ServerList| list.servers.contains_key(&number);
        self.registered.is_managed()
            && !has_it(self.registered.list())
            && !has_it(self.registered.list_to_follow())
    }

    /// Whether this member's own server was removed from the list. A server that joins first sees
    /// older lists, which do not have it yet, but in those states its member is not registered. A
    /// removed server that serves on is a guest.
    pub fn is_own_removed(&self) -> bool {
        let (member, number) = self.own;
        let was_listed =
            self.registered.number_of(member) == Some(number) || self.registered.is_retired(member);
        was_listed && self.is_unlisted(number) && !self.registered.is_guest(number)
    }

    /// The command that takes a linked member of a server that is not on the list as a guest, if
    /// the ensemble takes guests.
    pub fn admission(&self, member: MemberId) -> Option<ControlCommand> {
        let linked = self.linked.get(&member).filter(|_| self.takes_guests)?;
        let (server, peer_urls) = (linked.number, linked.peer_urls.clone());
        let admitted = ControlCommand::Admit { member, server, peer_urls };
        self.registered.may_admit(member, server).then_some(admitted)
    }

    /// The command that records the name and the clients' URLs of a server that has told others
    /// than the managed list has.
    pub fn undescribed(&self) -> Option<ControlCommand> {
        let registered = &self.registered;
        let told = self.linked.values().filter(|linked| !linked.name.is_empty());
        let told = told.map(|linked| (linked.number, &linked.name, &linked.client_urls));
        let (_, number) = self.own;
        let own = self.described.iter().map(|(name, urls)| (number, name, urls));
        let mut news = told.chain(own).filter(|(number, name, urls)| {
            let record = registered.list().servers.get(number);
            record.is_some_and(|it| it.name != **name || it.client_urls != **urls)
        });
        let (server, name, client_urls) = news.next().filter(|_| registered.is_managed())?;
        let (name, client_urls) = (name.clone(), client_urls.clone());
        Some(ControlCommand::Describe { server, name, client_urls })
    }

    /// Whether the server with this number is to vote. Every server is until the list was changed
    /// while the ensemble ran.
    pub fn votes(&self, number: u64) -> bool {
        let record = self.registered.list_to_follow().servers.get(&number);
        match self.registered.is_decided() {
            true => record.is_some_and(|it| it.role == ServerRole::Voter),
            false => record.is_none_or(|it| it.role == ServerRole::Voter),
        }
    }

    /// Whether a change of the list has added the server with this number, or is about to: it needs
    /// no place of another member.
    pub fn is_added(&self, number: u64) -> bool {
        self.registered.is_decided()
            && self.registered.list_to_follow().servers.contains_key(&number)
    }

    /// Fills in URLs for clients: a server without URLs in `list` gets the URLs of its hello, or
    /// else those that the state has.
    pub fn with_client_urls(&self, list: ServerList) -> ServerList {
        fill_in_urls(list, self.registered.list(), &self.linked)
    }

    /// The number of a member's server, according to the state, or else to its link.
    pub fn server_of(&self, member: MemberId) -> Option<u64> {
        let linked = || self.linked.get(&member).map(|linked| linked.number);
        self.registered.number_of(member).or_else(linked)
    }

    /// All voters and learners except this member and placeholders.
    fn others(&self, membership: &Membership) -> impl Iterator<Item = MemberId> {
        let members = membership.voters.iter().chain(&membership.learners);
        let own = self.own.0.0;
        let others = members.filter(move |id| **id != own && absent_server(**id).is_none());
        others.map(|id| MemberId(*id))
    }

    /// The highest level that all members know, where this member knows levels up to `own_max`.
    /// `None` if a member is not linked.
    pub fn known_to_all(&self, own_max: Level, membership: &Membership) -> Option<Level> {
        let linked = |id| self.linked.get(&id).map(|linked| linked.level_max);
        self.others(membership).map(linked).chain([Some(own_max)]).min()?
    }

    /// Checks that every other member says that it knows the level.
    ///
    /// # Errors
    /// The first member that is not linked, or does not know the level.
    pub fn check_all_know(
        &self,
        level: Level,
        membership: &Membership,
    ) -> Result<(), RaiseRefused> {
        for member in self.others(membership) {
            let Some(linked) = self.linked.get(&member) else {
                let server = self.server_of(member);
                return Err(RaiseRefused::Absent { level, server, member });
            };
            if linked.level_max < level {
                let (server, level_max) = (linked.number, linked.level_max);
                let program = linked.program.clone();
                return Err(RaiseRefused::UnknownThere { level, server, program, level_max });
            }
        }
        Ok(())
    }
}

fn fill_in_urls(
    mut list: ServerList,
    registered: &ServerList,
    linked: &BTreeMap<MemberId, LinkedServer>,
) -> ServerList {
    for (number, record) in list.servers.iter_mut().filter(|(_, it)| it.client_urls.is_empty()) {
        let of_number = linked.values().filter(|linked| linked.number == *number);
        let told = of_number.map(|linked| &linked.client_urls).find(|urls| !urls.is_empty());
        let known = told.or_else(|| registered.servers.get(number).map(|it| &it.client_urls));
        record.client_urls = known.cloned().unwrap_or_default();
    }
    list
}

#[cfg(test)]
mod tests;
