//! Which server of the configuration each member is, as the state and the links say.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::{Level, MemberId};

use crate::hello::Hello;

/// What a member knows of that.
pub(crate) struct Servers {
    /// This member, and which server it is.
    pub own: (MemberId, u64),
    /// As of the state.
    pub registered: Arc<machine::Servers>,
    /// The members that a link comes from, with what they said.
    pub linked: BTreeMap<MemberId, LinkedServer>,
}

/// What the other end of a link has said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedServer {
    /// Its number in the configuration.
    pub number: u64,
    /// The highest level that it knows.
    pub level_max: Level,
    /// The version of its program, for people; empty where it does not say.
    pub program: String,
}

#[cfg(test)]
impl LinkedServer {
    /// A server of this build.
    pub(crate) fn of(number: u64) -> LinkedServer {
        LinkedServer { number, level_max: Level::RELEASED, program: String::new() }
    }
}

impl From<&Hello> for LinkedServer {
    fn from(hello: &Hello) -> LinkedServer {
        LinkedServer {
            number: hello.server,
            level_max: hello.known.level_max,
            program: hello.known.program.clone(),
        }
    }
}

impl Servers {
    /// As of the state of a start, before there are links.
    pub fn new(own: (MemberId, u64), registered: machine::Servers) -> Servers {
        Servers { own, registered: Arc::new(registered), linked: BTreeMap::new() }
    }

    /// A member links to this one, or its link ended.
    pub fn on_link(&mut self, member: MemberId, server: Option<LinkedServer>) {
        match server {
            Some(server) => self.linked.insert(member, server),
            None => self.linked.remove(&member),
        };
    }

    /// Whether there is a link from that member.
    pub fn is_linked(&self, member: MemberId) -> bool {
        self.linked.contains_key(&member)
    }

    /// Which server a member is, as the state or its link says.
    pub fn server_of(&self, member: MemberId) -> Option<u64> {
        let linked = || self.linked.get(&member).map(|linked| linked.number);
        self.registered.number_of(member).or_else(linked)
    }
}
