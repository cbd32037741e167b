//! Limits how many connections an address may have, and gives all connections from one address a
//! common share of the memory for requests and answers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grpc::Share;
use tokio::sync::OwnedSemaphorePermit;

use super::limits::{ADDRESS_SHARE, Limits};
use crate::connections::Held;

/// Counts the connections of each client address, and holds the address's shares of the memory
/// until its last connection ends.
pub(super) struct Addresses {
    known: Mutex<HashMap<IpAddr, (usize, AddressShares)>>,
    /// The most connections of one address; 0 is no limit.
    connections_max: usize,
    requests_bytes: usize,
    answers_bytes: usize,
}

/// The memory that all connections from one address may use for requests, and for answers.
#[derive(Clone)]
pub(super) struct AddressShares {
    pub(super) requests: Arc<Share>,
    pub(super) answers: Arc<Share>,
}

/// An admitted connection. It is counted until this is dropped.
pub(super) struct Admission {
    pub(super) shares: AddressShares,
    from: IpAddr,
    addresses: Arc<Addresses>,
    /// Its count among the connections of all faces; `None` until it is admitted there.
    pub(super) held: Option<Held>,
    /// Its permit among all connections to the store; `None` until it gets one.
    pub(super) among_all: Option<OwnedSemaphorePermit>,
}

impl Addresses {
    pub(super) fn new(connections_max: usize, limits: &Limits) -> Addresses {
        let requests_bytes = limits.requests_bytes / ADDRESS_SHARE;
        let answers_bytes = limits.answers_bytes / ADDRESS_SHARE;
        Addresses { known: Mutex::default(), connections_max, requests_bytes, answers_bytes }
    }

    /// Counts one more connection. `None` if the address has as many as it may.
    pub(super) fn admit(addresses: &Arc<Addresses>, from: IpAddr) -> Option<Admission> {
        let from = from.to_canonical();
        let mut known = addresses.known();
        let (count, shares) = known.entry(from).or_insert_with(|| {
            let requests = Share::new(addresses.requests_bytes);
            (0, AddressShares { requests, answers: Share::new(addresses.answers_bytes) })
        });
        if addresses.connections_max != 0 && *count >= addresses.connections_max {
            return None;
        }
        *count += 1;
        let (shares, addresses) = (shares.clone(), addresses.clone());
        Some(Admission { shares, from, addresses, held: None, among_all: None })
    }

    /// How many connections all addresses have together.
    pub(super) fn connection_count(&self) -> usize {
        self.known().values().map(|(count, _)| count).sum()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<IpAddr, (usize, AddressShares)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut known = self.addresses.known();
        if let Some((count, _)) = known.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                known.remove(&self.from);
            }
        }
    }
}
