//! Which server of the configuration each member is, as the state and the links say.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::MemberId;

/// What a member knows of that.
pub(crate) struct Servers {
    /// This member, and which server it is.
    pub own: (MemberId, u64),
    /// As of the state.
    pub registered: Arc<machine::Servers>,
    /// Whom there is a link from, and which server it is.
    pub linked: BTreeMap<MemberId, u64>,
}

impl Servers {
    /// As of the state of a start, before there are links.
    pub fn new(own: (MemberId, u64), registered: machine::Servers) -> Servers {
        Servers { own, registered: Arc::new(registered), linked: BTreeMap::new() }
    }

    /// A member links to this one, or its link ended.
    pub fn on_link(&mut self, member: MemberId, server: Option<u64>) {
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
        self.registered.number_of(member).or_else(|| self.linked.get(&member).copied())
    }
}
