//! The shares of the faces in the descriptors for connections. Each face has a minimum that no
//! other face's clients can take; the rest is common. On a face, an address is limited only while
//! little is left, and only if no other one has more: a proxy or a gateway may hold all connections
//! of a face. Nothing here ends a connection that was admitted. `docs/operating.md` has the table.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;

use crate::descriptors;
use crate::logging::{REFUSALS_MAX, Seldom};

/// The minimum of a face is one part in so many of all descriptors for connections.
const MINIMUM_PART: usize = 16;

/// Connections to all ports of monitoring.
const MONITORING_MAX: usize = 256;

/// While one part in so many of a face's room is left, no address that has the most gets more.
const SHORTAGE_PART: usize = 4;

/// Connections that an address may have in any shortage.
const FEW: usize = 16;

/// The last connections of a face, which are for addresses with less than [`NEW`]: probes, and
/// operators who look what is wrong.
const LAST: usize = 16;

/// An address with fewer connections than this is as good as new.
const NEW: usize = 2;

/// Refused connections, of all faces.
static REFUSED: Seldom = Seldom::new(REFUSALS_MAX, "connections were closed at once");

/// Connections that could not be accepted, of all faces.
static NOT_ACCEPTED: Seldom = Seldom::new(REFUSALS_MAX, "connections could not be accepted");

/// A group of ports with a share of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// ZooKeeper's clients.
    ZooKeeper,
    /// etcd's clients.
    Etcd,
    /// Clients of the chunk store.
    Chunks,
    /// Metrics, the admin server, and etcd's port for metrics and health alone.
    Monitoring,
}

/// All faces.
const FACES: [Face; 4] = [Face::ZooKeeper, Face::Etcd, Face::Chunks, Face::Monitoring];

/// The reason why a connection is closed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The face has all that it may have.
    #[error("too few descriptors are left")]
    Full,
    /// Few are left, and they are for other addresses.
    #[error("too few descriptors are left for an address that has many connections")]
    Largest,
}

/// The connections of all faces.
pub struct Connections {
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Whether the face is served, and its connections by address.
    faces: [FaceCounts; FACES.len()],
    /// Descriptors of the server's own files, and those that its stores may come to need.
    own_files: usize,
}

#[derive(Default)]
struct FaceCounts {
    is_served: bool,
    count: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// One admitted connection. Dropping it makes room for another.
pub struct Held {
    connections: Arc<Connections>,
    face: Face,
    address: IpAddr,
}

impl Connections {
    /// The connections of a server with these faces.
    pub fn new(served: impl IntoIterator<Item = Face>) -> Arc<Connections> {
        let mut counts = Counts::default();
        served.into_iter().for_each(|face| counts.faces[face as usize].is_served = true);
        Arc::new(Connections { counts: Mutex::new(counts) })
    }

    /// Notes how many files the server has open itself, now that it has started, and how many
    /// `more` it may come to need.
    pub fn note_own_files(&self, more: usize) {
        self.counts().own_files = descriptors::open_count().saturating_add(more);
    }

    /// Counts a connection that was just accepted, from this address. Otherwise it is to be closed,
    /// and the log has been told.
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

/// Logs that a connection was closed at once.
pub fn log_closed(from: IpAddr, why: &dyn std::fmt::Display) {
    REFUSED.log(|| tracing::warn!("{why}: a connection from {from} is closed"));
}

/// Logs that a connection could not be accepted.
pub fn log_not_accepted(face: Face, error: &std::io::Error) {
    NOT_ACCEPTED.log(|| tracing::warn!("a connection to {face:?} cannot be accepted: {error}"));
}

impl Counts {
    /// Counts one more connection, where there are `all` descriptors for connections and files.
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

    /// The connections that a face may have beside those it has, of `all` connections.
    fn room(&self, face: Face, all: usize) -> usize {
        let minimum = |it: Face| match self.faces[it as usize].is_served {
            true => (all / MINIMUM_PART).min(most_of(it)),
            false => 0,
        };
        let count = |it: Face| self.faces[it as usize].count;
        let of_others = FACES.into_iter().filter(|it| *it != face);
        let taken: usize = of_others.map(|it| count(it).max(minimum(it))).sum();
        // Other faces may have more than before if the limit of the process was lowered meanwhile.
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

/// Connections that a face may have, however many descriptors there are.
fn most_of(face: Face) -> usize {
    if face == Face::Monitoring { MONITORING_MAX } else { usize::MAX }
}

/// The address that a client is counted by: of IPv6 the network, in which a client has any number.
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
