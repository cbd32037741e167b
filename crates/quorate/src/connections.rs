//! Decides whether the server has file descriptors left for a new client connection, and counts the
//! connections of each face by client address.
//!
//! Each face has a minimum number of connections that clients of other faces cannot take; the faces
//! share the rest. A client address is limited only while its face has few connections left. Then
//! an address that already has many connections gets another one only if some address has more, or
//! if no other address has any. The last few connections only go to addresses that have hardly any.
//! So a proxy or gateway may hold nearly all connections of a face. Nothing here ends a connection
//! that was admitted. `docs/operating.md` has the table.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;

use crate::descriptors;
use crate::logging::{REFUSALS_MAX, Seldom};

/// A face's minimum is the descriptors for connections divided by this.
const MINIMUM_PART: usize = 16;

/// The most connections to the ports of [`Face::Monitoring`] together.
const MONITORING_MAX: usize = 256;

/// A face is short of connections once the number that it may still get is at most its total
/// divided by this. Then an address that has at least [`FEW`] connections, and at least as many as
/// any other address, gets no more. If no other address has connections, only [`LAST`] limits it.
const SHORTAGE_PART: usize = 4;

/// An address with fewer connections than this gets more even while its face is short, except the
/// [`LAST`] free ones.
const FEW: usize = 16;

/// This many of a face's last free connections only go to addresses with fewer than [`NEW`]
/// connections: to probes, and to operators who look for what is wrong. A face with few connections
/// in all reserves only its total divided by [`MINIMUM_PART`].
const LAST: usize = 16;

/// An address with fewer connections than this may take one of the [`LAST`] free ones.
const NEW: usize = 2;

/// Limits the log lines about refused connections, for all faces together.
static REFUSED: Seldom = Seldom::new(REFUSALS_MAX, "connections were closed at once");

/// Limits the log lines about connections that could not be accepted, for all faces together.
static NOT_ACCEPTED: Seldom = Seldom::new(REFUSALS_MAX, "connections could not be accepted");

/// A group of ports whose connections are counted together and share a minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// ZooKeeper's port.
    ZooKeeper,
    /// etcd's ports.
    Etcd,
    /// The chunk store's port.
    Chunks,
    /// The ports for metrics, for the admin server, and for etcd's metrics and health alone.
    Monitoring,
}

/// Every face.
const FACES: [Face; 4] = [Face::ZooKeeper, Face::Etcd, Face::Chunks, Face::Monitoring];

/// Why a new connection is closed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The face has as many connections as it may have.
    #[error("too few descriptors are left")]
    Full,
    /// The face has few connections left, and keeps them for addresses that have fewer connections.
    #[error("too few descriptors are left for an address that has many connections")]
    Largest,
}

/// The counts of the connections of all faces.
pub struct Connections {
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    /// For each face, whether it is served, and its connections by address.
    faces: [FaceCounts; FACES.len()],
    /// How many descriptors the server's own files use, or may come to use.
    own_files: usize,
}

#[derive(Default)]
struct FaceCounts {
    is_served: bool,
    count: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// An admitted connection. It is counted until this is dropped.
pub struct Held {
    connections: Arc<Connections>,
    face: Face,
    address: IpAddr,
}

impl Connections {
    /// Makes the counts for a server that serves these faces; all are 0.
    pub fn new(served: impl IntoIterator<Item = Face>) -> Arc<Connections> {
        let mut counts = Counts::default();
        served.into_iter().for_each(|face| counts.faces[face as usize].is_served = true);
        Arc::new(Connections { counts: Mutex::new(counts) })
    }

    /// Records how many files the server has open after its start, and how many `more` it may come
    /// to open. Connections must leave that many descriptors.
    pub fn note_own_files(&self, more: usize) {
        self.counts().own_files = descriptors::open_count().saturating_add(more);
    }

    /// Counts a connection from the address `from` that was just accepted. If the connection is
    /// refused, this function has logged that, and the caller must close it.
    pub fn admit(
        self: &Arc<Self>,
        face: Face,
        stream: impl AsFd,
        from: SocketAddr,
    ) -> Result<Held, Refusal> {
        let address = group(from.ip());
        let all = descriptors::for_connections();
        let counted = match descriptors::is_in_reserve(stream) {
            true => Err(Refusal::Full),
            false => self.counts().admit(face, address, all),
        };
        match counted {
            Ok(()) => Ok(Held { connections: self.clone(), face, address }),
            Err(refusal) => {
                let ip = from.ip().to_canonical();
                log_closed(ip, &refusal);
                Err(refusal)
            }
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs that a connection is closed at once, unless too many such lines were logged recently.
pub fn log_closed(from: IpAddr, why: &dyn std::fmt::Display) {
    REFUSED.log(|| tracing::warn!("{why}: a connection from {from} is closed"));
}

/// Logs that a connection could not be accepted, unless too many such lines were logged recently.
pub fn log_not_accepted(face: Face, error: &std::io::Error) {
    NOT_ACCEPTED.log(|| tracing::warn!("a connection to {face:?} cannot be accepted: {error}"));
}

impl Counts {
    /// Counts one more connection, or refuses it. `all` is the number of descriptors for
    /// connections and the server's own files.
    fn admit(&mut self, face: Face, address: IpAddr, all: u64) -> Result<(), Refusal> {
        let room = self.room(face, descriptors::beside(all, self.own_files));
        let counts = &mut self.faces[face as usize];
        let own = counts.by_address.get(&address).copied().unwrap_or(0);
        let last = LAST.min((counts.count + room) / MINIMUM_PART);
        let is_short = room <= (counts.count + room) / SHORTAGE_PART;
        let others = counts.by_address.iter().filter(|(it, _)| **it != address);
        if room == 0 {
            return Err(Refusal::Full);
        }
        if room <= last && own >= NEW {
            return Err(Refusal::Largest);
        }
        if is_short && own >= FEW {
            let most = others.map(|(_, count)| *count).max();
            if most.is_some_and(|most| own >= most) {
                return Err(Refusal::Largest);
            }
        }
        counts.count += 1;
        *counts.by_address.entry(address).or_default() += 1;
        Ok(())
    }

    /// How many more connections a face may get, if all faces together may have `all`.
    fn room(&self, face: Face, all: usize) -> usize {
        let minimum = |it: Face| match self.faces[it as usize].is_served {
            true => (all / MINIMUM_PART).min(most_of(it)),
            false => 0,
        };
        let count = |it: Face| self.faces[it as usize].count;
        let of_others = FACES.into_iter().filter(|it| *it != face);
        let taken: usize = of_others.map(|it| count(it).max(minimum(it))).sum();
        // Other faces may have more than this allows, if the limit of the process was lowered
        // since.
        let left = all.saturating_sub(taken).max(minimum(face)).min(most_of(face));
        left.saturating_sub(count(face))
    }

    fn leave(&mut self, face: Face, address: IpAddr) {
        let counts = &mut self.faces[face as usize];
        counts.count -= 1;
        if let Some(count) = counts.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                counts.by_address.remove(&address);
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.connections.counts().leave(self.face, self.address);
    }
}

/// The most connections of a face, even if there are more descriptors.
fn most_of(face: Face) -> usize {
    if face == Face::Monitoring { MONITORING_MAX } else { usize::MAX }
}

/// The address under which a client is counted. For IPv6 it is the /64 network, because a client
/// can use any address in it.
fn group(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) if !ip.is_loopback() => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;
