//! Which member a client connects to, and how it deals with members in read-only mode.

use workload::generate::Random;

use crate::limits::READ_ONLY_US_MAX;

/// Which member a client connects to.
pub(super) struct Choice {
    /// The member that the client tried last, or must try next.
    member: usize,
    /// How many members the client knows.
    member_count: usize,
    /// Whether the client stays with `member` and waits for its answer as long as needed.
    is_visiting: bool,
    /// Whether the client connects only when a test tells it to.
    is_obedient: bool,
}

impl Choice {
    /// A client that chooses at random.
    pub fn new() -> Choice {
        Choice { member: 0, member_count: 1, is_visiting: false, is_obedient: false }
    }

    /// The member that the client tried last, or must try next.
    pub fn member(&self) -> usize {
        self.member
    }

    /// How many members the client knows.
    pub fn member_count(&self) -> usize {
        self.member_count
    }

    /// Whether the client stays with its member.
    pub fn is_visiting(&self) -> bool {
        self.is_visiting
    }

    /// Whether the client connects only when a test tells it to.
    pub fn is_obedient(&self) -> bool {
        self.is_obedient
    }

    /// Chooses the member that the client tries next, one of `members`; it may be the same again.
    pub fn next(&mut self, members: &[usize], random: &mut Random) -> usize {
        self.member_count = members.len();
        let is_free = !self.is_obedient && !self.is_visiting;
        if members.len() > 1 && is_free && !random.one_in(4) {
            self.member = *random.pick(members);
        } else if !self.is_obedient && !members.contains(&self.member) {
            // All machines may be away for a while: then the client tries the same one again.
            self.member = members.first().copied().unwrap_or(self.member);
        }
        self.member
    }

    /// Makes the client stay with this member.
    pub fn visit(&mut self, member: usize) {
        (self.member, self.is_visiting) = (member, true);
    }

    /// Makes the client connect only when a test tells it to.
    #[cfg(test)]
    pub fn obey(&mut self) {
        self.is_obedient = true;
    }

    /// Makes the client try this member next.
    #[cfg(test)]
    pub fn dial(&mut self, member: usize) {
        self.member = member;
    }
}

/// How a client deals with members in read-only mode.
pub(super) struct ReadsOnly {
    /// The generator for choices in read-only mode; `None` if the client does not accept that mode.
    random: Option<Random>,
    /// When the client leaves a member in read-only mode to look for one that takes writes, in us.
    searches_us: u64,
}

impl ReadsOnly {
    /// A client that does not accept read-only mode.
    pub fn new() -> ReadsOnly {
        ReadsOnly { random: None, searches_us: 0 }
    }

    /// Makes the client accept read-only mode.
    pub fn accept(&mut self, random: Random) {
        self.random = Some(random);
    }

    /// Whether the client accepts read-only mode.
    pub fn is_accepted(&self) -> bool {
        self.random.is_some()
    }

    /// When the client leaves a member in read-only mode, in us.
    pub fn searches_us(&self) -> u64 {
        self.searches_us
    }

    /// A member in read-only mode has given the client a session. Returns whether the client asks
    /// for that session on its next connection. ZooKeeper's clients do not ask for a local session,
    /// which only that member knows (`ClientCnxn.SendThread.seenRwServerBefore`); other clients do.
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
