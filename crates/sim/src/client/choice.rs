//! The member that a client connects to, and the server of reads only that it puts up with.

use workload::generate::Random;

use crate::limits::READ_ONLY_US_MAX;

/// A client's choice of a member.
pub(super) struct Choice {
    /// The member that it tried last, or is to try.
    member: usize,
    /// How many members it knows.
    member_count: usize,
    /// Whether it stays with `member` and waits for its answer, however long that takes.
    is_visiting: bool,
    /// Whether it connects only when it is told to.
    is_obedient: bool,
}

impl Choice {
    /// A choice that is free.
    pub fn new() -> Choice {
        Choice { member: 0, member_count: 1, is_visiting: false, is_obedient: false }
    }

    /// The member that it tried last, or is to try.
    pub fn member(&self) -> usize {
        self.member
    }

    /// How many members it knows.
    pub fn member_count(&self) -> usize {
        self.member_count
    }

    /// Whether it stays with its member.
    pub fn is_visiting(&self) -> bool {
        self.is_visiting
    }

    /// Whether it connects only when it is told to.
    pub fn is_obedient(&self) -> bool {
        self.is_obedient
    }

    /// The member that it tries next, of so many: sometimes the same again.
    pub fn next(&mut self, member_count: usize, random: &mut Random) -> usize {
        self.member_count = member_count;
        let is_free = !self.is_obedient && !self.is_visiting;
        if member_count > 1 && is_free && !random.one_in(4) {
            self.member = random.below(member_count as u64) as usize;
        }
        self.member
    }

    /// Has it stay with a member.
    pub fn visit(&mut self, member: usize) {
        (self.member, self.is_visiting) = (member, true);
    }

    /// Has it connect only when it is told to.
    #[cfg(test)]
    pub fn obey(&mut self) {
        self.is_obedient = true;
    }

    /// Has it try a member.
    #[cfg(test)]
    pub fn dial(&mut self, member: usize) {
        self.member = member;
    }
}

/// How a client puts up with servers that serve reads only.
pub(super) struct ReadsOnly {
    /// Draws what has to do with such servers; `None` if the client asks for more.
    random: Option<Random>,
    /// When it leaves such a server, to look for one that takes writes.
    searches_us: u64,
}

impl ReadsOnly {
    /// A client that asks for more.
    pub fn new() -> ReadsOnly {
        ReadsOnly { random: None, searches_us: 0 }
    }

    /// Lets the client accept such servers.
    pub fn accept(&mut self, random: Random) {
        self.random = Some(random);
    }

    /// Whether the client accepts such servers.
    pub fn is_accepted(&self) -> bool {
        self.random.is_some()
    }

    /// When the client leaves such a server.
    pub fn searches_us(&self) -> u64 {
        self.searches_us
    }

    /// Such a server has given the client a session. Returns whether the client asks for it on its
    /// next connection. ZooKeeper's clients do not ask for one that only a server without a leader
    /// knows (`ClientCnxn.SendThread.seenRwServerBefore`), others do.
    pub fn keeps_session(&mut self, is_local: bool, now_us: u64) -> bool {
        match &mut self.random {
            Some(random) => {
                self.searches_us = now_us + random.magnitude(100_000, READ_ONLY_US_MAX);
                !is_local || random.one_in(4)
            }
            None => !is_local,
        }
    }
}
