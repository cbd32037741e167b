//! Decides the *birth* of an ensemble: the first voters, which are fixed before the ensemble has a
//! log.
//!
//! An unborn directory has a member id, but no log and no state. [`Attendance`] says how many of
//! the servers that are to vote must be present. With `All` or `Majority`, the server with the
//! lowest number decides, once it is linked to all the others, or to enough others for a majority.
//! With `AnyMajority`, any majority of the servers that are to vote agrees on the birth
//! ([`agreement`]). In all cases the present servers must be unborn and have the same
//! configuration. Their member ids are the first voters. Each absent server gets a placeholder
//! voter that never votes ([`absent_voter`]), so there are as many voters as servers, and a
//! majority of the voters is a majority of the servers; a member that comes later as that server
//! replaces the placeholder. Every server that does not decide copies the birth from a born server.
//! Such a server is born as a voter if its member id is among the first voters: no other directory
//! has that id, and the id was durable before any other server knew it, so this server has not
//! voted yet and is only late. Otherwise the server is born without a vote: it is new, or it has
//! lost its directory and so has another member id.
//!
//! An ensemble may begin twice if directories are lost. With `All`, it begins twice only if all
//! servers that were born have lost their directories, and then nothing is left of the first
//! ensemble. With `Majority`, it begins twice if the deciding server has lost its directory, and
//! sees enough others for a majority but no born server. With `AnyMajority`, it begins twice if the
//! unborn servers are a majority and see no born one. Nothing here waits or retries: the driver
//! reports the links, makes durable what this module asks it to keep, and asks again.

use core::fmt;

use machine::MemberId;
use storage::datadir::{Acceptor, Birth};

use crate::membership::hello::{Hello, Known};
use crate::membership::limits::VOTERS_MAX;

mod agreement;

/// How many of the voting servers must be present for an ensemble to begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attendance {
    /// All of them.
    #[default]
    All,
    /// More than half of them, among them the server that decides.
    Majority,
    /// Any more than half of them, which agree on the birth.
    AnyMajority,
    /// The ensemble does not begin here: this server only joins an existing one.
    Existing,
}

/// A voter with this id or a higher one is a placeholder: no directory's member id is so high.
pub const ABSENT_VOTERS_FROM: u64 = (u32::MAX as u64) << 32;

/// The placeholder voter of a server that is absent when an ensemble begins. It never votes, so it
/// can be replaced at once. `None` if the number is too large for a server.
pub fn absent_voter(server: u64) -> Option<u64> {
    ABSENT_VOTERS_FROM.checked_add(server)
}

/// The number of the absent server behind a placeholder voter; `None` for the id of a real member.
pub fn absent_server(voter: u64) -> Option<u64> {
    voter.checked_sub(ABSENT_VOTERS_FROM)
}

/// An unborn server and the hellos that it has received.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    own: Hello,
    attendance: Attendance,
    /// The hellos from the links that are up. A server with several links has several.
    links: Vec<Hello>,
    /// Since when this server could begin an attempt to agree, in ms of the driver's clock: a
    /// majority is present, and this server has promised and accepted nothing since. `None` while
    /// it could not.
    still_since_ms: Option<u64>,
}

/// The decision of an unborn server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Create the data directory with this birth.
    BeBorn(Birth),
    /// Make this promise or acceptance durable, call [`Bootstrap::on_kept`], and ask again.
    Keep(Acceptor),
    /// Wait, for this reason.
    Wait(Waiting),
}

/// Why an unborn server waits. For the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// For these servers, which must be present and unborn before this one decides.
    ForServers(Vec<u64>),
    /// For more of these servers, which must be present before this one decides.
    ForMajority {
        /// How many more.
        count: usize,
        /// The servers that are absent.
        servers: Vec<u64>,
    },
    /// For the server with this number, which decides, or for any server that is born.
    ForDecision(u64),
    /// For any server that is born: this server is not among the servers that are to vote, or only
    /// joins.
    ForEnsemble,
    /// A server has another configuration.
    Configurations {
        /// The number of that server.
        server: u64,
        /// The servers that it is configured with.
        servers: Vec<u64>,
    },
    /// The server with this number begins an ensemble by another rule ([`Attendance`]).
    Attendances(u64),
    /// Two servers have this number.
    TwoOfOneNumber(u64),
    /// These two servers have the same member id: the directory of one is a copy.
    TwoOfOneDirectory(u64, u64),
    /// These two servers belong to different ensembles.
    TwoEnsembles(u64, u64),
}

impl Bootstrap {
    /// An unborn server, whose directory has the id `member` and the durable promise and acceptance
    /// `acceptor`. `known` is what its build knows. `servers` are the numbers of the servers that
    /// are to vote, each of 32 bits.
    pub fn new(
        server: u64,
        (member, acceptor): (MemberId, Acceptor),
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
        let agrees = attendance == Attendance::AnyMajority && servers.contains(&server);
        let own = match agrees && servers.len() > 1 {
            true => Hello::unborn(server, member, servers, known).agreeing(acceptor),
            false => Hello::unborn(server, member, servers, known),
        };
        Bootstrap { own, attendance, links: Vec::new(), still_since_ms: None }
    }

    /// The hello that this server sends until it is born.
    pub fn hello(&self) -> &Hello {
        &self.own
    }

    /// Notes that a link came up, whose other end sent this hello.
    pub fn on_link_up(&mut self, hello: Hello) {
        self.links.push(hello);
    }

    /// Notes that a link ended, whose other end had sent this hello.
    pub fn on_link_down(&mut self, hello: &Hello) {
        if let Some(position) = self.links.iter().position(|link| link == hello) {
            self.links.swap_remove(position);
        }
    }

    /// Notes that the value of [`Decision::Keep`] is durable. The hello contains it from now on.
    pub fn on_kept(&mut self, acceptor: Acceptor) {
        self.own.acceptor = Some(acceptor);
        self.still_since_ms = None;
    }

    /// Whether [`Bootstrap::decide`] is to be called every
    /// [`AGREEMENT_INTERVAL_MS`](crate::membership::limits::AGREEMENT_INTERVAL_MS), and not only
    /// when links change.
    pub fn looks_at_clock(&self) -> bool {
        self.own.acceptor.is_some()
    }

    /// Decides what to do now. If this server decides on the birth, the ensemble gets the id
    /// `cluster_id`, which no other ensemble may have.
    pub fn decide(&mut self, cluster_id: u128, now_ms: u64) -> Decision {
        let born = || self.links.iter().filter_map(|it| Some((it.server, it.birth.as_ref()?)));
        let own = self.own.member.0;
        let is_ours = |birth: &Birth| birth.voters.contains(&own);
        // A born server with this member among its voters belongs to this member's ensemble, and
        // outweighs any other.
        let first = born().find(|(_, birth)| is_ours(birth)).or_else(|| born().next());
        if let Some((server, birth)) = first {
            let mut others = born().filter(|(_, other)| is_ours(other) || !is_ours(birth));
            return match others.find(|(_, other)| *other != birth) {
                Some((other, _)) => Decision::Wait(Waiting::TwoEnsembles(server, other)),
                None => Decision::BeBorn(birth.clone()),
            };
        }
        let decided = self.check().and_then(|()| match self.own.acceptor.clone() {
            Some(acceptor) => self.agree(&acceptor, cluster_id, now_ms),
            None => self.check_attendance().map(|()| Decision::BeBorn(self.birth(cluster_id))),
        });
        decided.unwrap_or_else(Decision::Wait)
    }

    /// The hellos of the present servers, including this server's own.
    fn present(&self) -> impl Iterator<Item = &Hello> {
        self.links.iter().chain([&self.own])
    }

    /// The numbers of the servers that are to vote and are absent.
    fn missing(&self) -> Vec<u64> {
        let is_missing = |number: &u64| !self.present().any(|it| it.server == *number);
        self.own.servers.iter().copied().filter(is_missing).collect()
    }

    /// Checks that the present servers do not contradict each other.
    fn check(&self) -> Result<(), Waiting> {
        let all = || self.present();
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
            if link.servers != self.own.servers {
                let servers = link.servers.clone();
                return Err(Waiting::Configurations { server: link.server, servers });
            }
        }
        Ok(())
    }

    /// Checks that this server may decide on the birth now.
    fn check_attendance(&self) -> Result<(), Waiting> {
        let Hello { server, servers, .. } = &self.own;
        if self.attendance == Attendance::Existing || !servers.contains(server) {
            return Err(Waiting::ForEnsemble);
        }
        if let Some(other) = self.links.iter().find(|it| it.acceptor.is_some()) {
            return Err(Waiting::Attendances(other.server));
        }
        let decider = servers.first().expect("there is at least this one");
        if decider != server {
            return Err(Waiting::ForDecision(*decider));
        }
        let missing = self.missing();
        match self.attendance {
            Attendance::Majority => self.check_majority(missing),
            _ if !missing.is_empty() => Err(Waiting::ForServers(missing)),
            _ => Ok(()),
        }
    }

    /// Checks that a majority of the servers that are to vote is present.
    fn check_majority(&self, missing: Vec<u64>) -> Result<(), Waiting> {
        let present = self.own.servers.len() - missing.len();
        match self.majority().saturating_sub(present) {
            0 => Ok(()),
            count => Err(Waiting::ForMajority { count, servers: missing }),
        }
    }

    fn majority(&self) -> usize {
        self.own.servers.len() / 2 + 1
    }

    /// The birth of an ensemble with the servers that are present. Its first voters, ascending, are
    /// the member ids of the present servers, and a placeholder for each absent one.
    fn birth(&self, cluster_id: u128) -> Birth {
        let voter = |number: &u64| match self.present().find(|it| it.server == *number) {
            Some(hello) => hello.member.0,
            None => absent_voter(*number).expect("was checked when it was configured"),
        };
        let mut voters: Vec<u64> = self.own.servers.iter().map(voter).collect();
        voters.sort_unstable();
        Birth { cluster_id, voters }
    }
}

impl Waiting {
    /// Whether the wait ends when more servers come. If not, servers contradict each other, and a
    /// person must act.
    pub fn is_for_servers(&self) -> bool {
        match self {
            Waiting::ForServers(_)
            | Waiting::ForMajority { .. }
            | Waiting::ForDecision(_)
            | Waiting::ForEnsemble => true,
            Waiting::Configurations { .. }
            | Waiting::Attendances(_)
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
            Waiting::Attendances(server) => write!(
                out,
                "server {server} is configured differently: it begins an ensemble with any \
                 majority"
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

/// Shows numbers with commas between them.
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
