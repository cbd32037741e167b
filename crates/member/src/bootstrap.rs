//! Who gives birth to what, before there is a log.
//!
//! An unborn directory has a member id and nothing else. The server with the lowest number decides,
//! once all that are to vote are there, or a majority of them where that is enough, unborn and
//! configured alike: their member ids are the first voters. For each that is absent nobody votes
//! ([`absent_voter`]), so that a majority of the voters is one of the servers; whoever comes later
//! as that server takes its place. Everybody else is born as one that is born already says: as a
//! voter, if its member id is among the first voters, which no other directory has and which was
//! never told before it was durable; so it has not voted yet, and is only late. Or without a vote,
//! because it is new, or has lost what it had: then it has another member id.
//!
//! So where all must be there, an ensemble begins twice only if all that were born have lost their
//! directories, and then nothing is left of what it was. Where a majority is enough, it does if the
//! server that decides has lost its directory, and is one of a majority without one that sees
//! nobody who is born. Nothing here waits or retries: the driver tells which links there are, and
//! asks again.

use core::fmt;

use machine::MemberId;
use storage::datadir::Birth;

use crate::hello::{Hello, Known};
use crate::limits::VOTERS_MAX;

/// Which of the servers that are to vote must be there for an ensemble to begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attendance {
    /// All of them.
    #[default]
    All,
    /// More than half of them, the one that decides among them.
    Majority,
}

/// Voters from this id on are nobody: no directory draws such an id.
pub const ABSENT_VOTERS_FROM: u64 = (u32::MAX as u64) << 32;

/// Who votes for a server that is absent when an ensemble begins: nobody, so that it can be
/// replaced without waiting for it. None: a number so large is no server's.
pub fn absent_voter(server: u64) -> Option<u64> {
    ABSENT_VOTERS_FROM.checked_add(server)
}

/// The server that such a voter stands for; none of a member that there is.
pub fn absent_server(voter: u64) -> Option<u64> {
    voter.checked_sub(ABSENT_VOTERS_FROM)
}

/// What an unborn server knows.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    own: Hello,
    attendance: Attendance,
    /// What the other ends of the links that are up have said; several of one server, where there
    /// are several links to it.
    links: Vec<Hello>,
}

/// What follows from what is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The directory is to be born so.
    BeBorn(Birth),
    /// Nothing yet.
    Wait(Waiting),
}

/// What is missing, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Servers that must be there, unborn, before this one decides.
    ForServers(Vec<u64>),
    /// So many more of these servers must be.
    ForMajority {
        /// How many.
        count: usize,
        /// Those that are absent.
        servers: Vec<u64>,
    },
    /// The server that decides, or any that is born.
    ForDecision(u64),
    /// Any server that is born: this one is none of those that vote.
    ForEnsemble,
    /// A server has another configuration.
    Configurations {
        /// Which.
        server: u64,
        /// What it says the servers are.
        servers: Vec<u64>,
    },
    /// Two servers have this number.
    TwoOfOneNumber(u64),
    /// These two have the same member id: the directory of one is a copy.
    TwoOfOneDirectory(u64, u64),
    /// These two are of different ensembles.
    TwoEnsembles(u64, u64),
}

impl Bootstrap {
    /// An unborn directory, started by a build that knows so much. `servers` are the numbers of the
    /// servers that are to vote, each of 32 bits.
    pub fn new(
        server: u64,
        member: MemberId,
        servers: &[u64],
        attendance: Attendance,
        known: Known,
    ) -> Bootstrap {
        let mut servers = servers.to_vec();
        servers.sort_unstable();
        servers.dedup();
        assert!(servers.len() <= VOTERS_MAX, "the configuration is checked before");
        assert!(
            servers.iter().all(|number| absent_voter(*number).is_some()),
            "a number is 32 bits wide"
        );
        let own = Hello::unborn(server, member, servers, known);
        Bootstrap { own, attendance, links: Vec::new() }
    }

    /// What this server says of itself until it is born.
    pub fn hello(&self) -> &Hello {
        &self.own
    }

    /// A link came up, and this was said at its other end.
    pub fn on_link_up(&mut self, hello: Hello) {
        self.links.push(hello);
    }

    /// A link ended, at the other end of which this was said.
    pub fn on_link_down(&mut self, hello: &Hello) {
        if let Some(position) = self.links.iter().position(|link| link == hello) {
            self.links.swap_remove(position);
        }
    }

    /// What is to be done now. `cluster_id` is one that no other ensemble has, in case that this
    /// server decides.
    pub fn decide(&self, cluster_id: u128) -> Decision {
        let born = || self.links.iter().filter_map(|it| Some((it.server, it.birth.as_ref()?)));
        let own = self.own.member.0;
        let is_ours = |birth: &Birth| birth.voters.contains(&own);
        // Whoever has us among its voters is of our ensemble, whoever else is there.
        let first = born().find(|(_, birth)| is_ours(birth)).or_else(|| born().next());
        if let Some((server, birth)) = first {
            let mut others = born().filter(|(_, other)| is_ours(other) || !is_ours(birth));
            return match others.find(|(_, other)| *other != birth) {
                Some((other, _)) => Decision::Wait(Waiting::TwoEnsembles(server, other)),
                None => Decision::BeBorn(birth.clone()),
            };
        }
        match self.first_voters() {
            Ok(voters) => Decision::BeBorn(Birth { cluster_id, voters }),
            Err(waiting) => Decision::Wait(waiting),
        }
    }

    /// The member ids of all that are to vote, and nobody's for those that are absent, ascending,
    /// if this server is to decide and may.
    fn first_voters(&self) -> Result<Vec<u64>, Waiting> {
        let Hello { server, servers, .. } = &self.own;
        let all = || self.links.iter().chain([&self.own]);
        for link in &self.links {
            if let Some(other) =
                all().find(|it| it.server == link.server && it.member != link.member)
            {
                return Err(Waiting::TwoOfOneNumber(other.server));
            }
            if let Some(other) =
                all().find(|it| it.member == link.member && it.server != link.server)
            {
                return Err(Waiting::TwoOfOneDirectory(link.server, other.server));
            }
            if link.servers != *servers {
                let servers = link.servers.clone();
                return Err(Waiting::Configurations { server: link.server, servers });
            }
        }
        if !servers.contains(server) {
            return Err(Waiting::ForEnsemble);
        }
        let decider = servers.first().expect("there is at least this one");
        if decider != server {
            return Err(Waiting::ForDecision(*decider));
        }
        let of = |number: &u64| all().find(|it| it.server == *number);
        let missing: Vec<u64> = servers.iter().copied().filter(|it| of(it).is_none()).collect();
        match self.attendance {
            Attendance::All if !missing.is_empty() => return Err(Waiting::ForServers(missing)),
            Attendance::All => {}
            Attendance::Majority => {
                let (there, wanted) = (servers.len() - missing.len(), servers.len() / 2 + 1);
                if there < wanted {
                    let count = wanted - there;
                    return Err(Waiting::ForMajority { count, servers: missing });
                }
            }
        }
        let voter = |number: &u64| match of(number) {
            Some(hello) => hello.member.0,
            None => absent_voter(*number).expect("was checked when it was configured"),
        };
        let mut voters: Vec<u64> = servers.iter().map(voter).collect();
        voters.sort_unstable();
        Ok(voters)
    }
}

impl Waiting {
    /// Whether more servers would end the wait: what contradicts itself needs a person.
    pub fn is_for_servers(&self) -> bool {
        match self {
            Waiting::ForServers(_)
            | Waiting::ForMajority { .. }
            | Waiting::ForDecision(_)
            | Waiting::ForEnsemble => true,
            Waiting::Configurations { .. }
            | Waiting::TwoOfOneNumber(_)
            | Waiting::TwoOfOneDirectory(..)
            | Waiting::TwoEnsembles(..) => false,
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Waiting::ForServers(servers) => {
                let noun = if servers.len() == 1 { "server" } else { "servers" };
                write!(out, "waiting for {noun} {} to begin an ensemble", Numbers(servers))
            }
            Waiting::ForMajority { count, servers } => write!(
                out,
                "waiting for {count} of servers {} to begin an ensemble",
                Numbers(servers)
            ),
            Waiting::ForDecision(server) => {
                write!(out, "waiting for server {server} to begin an ensemble")
            }
            Waiting::ForEnsemble => write!(out, "waiting for an ensemble to join"),
            Waiting::Configurations { server, servers } => write!(
                out,
                "server {server} is configured differently: for it the servers that vote are {}",
                Numbers(servers)
            ),
            Waiting::TwoOfOneNumber(server) => write!(out, "there are two servers {server}"),
            Waiting::TwoOfOneDirectory(one, other) => write!(
                out,
                "the data directories of servers {one} and {other} are copies of each other"
            ),
            Waiting::TwoEnsembles(one, other) => write!(
                out,
                "servers {one} and {other} are of different ensembles: keep the data of one, and \
                 empty the data directories of the other"
            ),
        }
    }
}

/// Numbers with commas between them.
struct Numbers<'a>(&'a [u64]);

impl fmt::Display for Numbers<'_> {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        for (position, number) in self.0.iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            write!(out, "{comma}{number}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
