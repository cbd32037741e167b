//! For monitoring, counts the frames and bytes on the links with other members, separately for
//! every member.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use machine::MemberId;
use parking_lot::Mutex;

/// Counters for each server that this member may have links with.
#[derive(Debug)]
pub(crate) struct Traffic {
    by_server: BTreeMap<u64, Counts>,
    /// The server number of each member that had a link. A server has one member here, its newest.
    servers: Mutex<BTreeMap<MemberId, u64>>,
}

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    sent_frames: AtomicU64,
    received: AtomicU64,
    received_frames: AtomicU64,
    failed: AtomicU64,
}

/// Traffic between this member and one other, since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerTraffic {
    /// The other member.
    pub member: MemberId,
    /// Bytes of the bodies of frames that were queued on a link to that member.
    pub sent_bytes: u64,
    /// Number of frames that were queued on a link to that member.
    pub sent_frames: u64,
    /// Bytes read from links from that member, with the heads of frames and beats.
    pub received_bytes: u64,
    /// Number of frames, without beats, that these links brought.
    pub received_frames: u64,
    /// Frames for that member that were dropped: there was no link, or the link's queue was full.
    pub sent_failures: u64,
}

impl Traffic {
    /// Counters for these servers, all 0.
    pub fn new(servers: impl IntoIterator<Item = u64>) -> Traffic {
        let by_server = servers.into_iter().map(|server| (server, Counts::default())).collect();
        Traffic { by_server, servers: Mutex::default() }
    }

    /// Records which server a member with a link is. A server that lost its directory comes back as
    /// another member, which replaces the former one.
    pub fn note(&self, member: MemberId, server: u64) {
        let mut servers = self.servers.lock();
        servers.retain(|_, of| *of != server);
        servers.insert(member, server);
    }

    pub fn add_sent(&self, server: u64, bytes: usize) {
        self.add(server, bytes as u64, |counts| &counts.sent);
        self.add(server, 1, |counts| &counts.sent_frames);
    }

    pub fn add_received(&self, server: u64, bytes: usize) {
        self.add(server, bytes as u64, |counts| &counts.received);
    }

    pub fn add_received_frames(&self, server: u64, count: usize) {
        self.add(server, count as u64, |counts| &counts.received_frames);
    }

    /// Counts a frame to that member that was dropped.
    pub fn add_failure(&self, member: MemberId) {
        let server = self.servers.lock().get(&member).copied();
        if let Some(server) = server {
            self.add(server, 1, |counts| &counts.failed);
        }
    }

    fn add(&self, server: u64, by: u64, of: fn(&Counts) -> &AtomicU64) {
        if let Some(counts) = self.by_server.get(&server) {
            of(counts).fetch_add(by, Ordering::Relaxed);
        }
    }

    /// The counters now, for each member that is the newest of its server and ever had a link.
    pub fn numbers(&self) -> Vec<PeerTraffic> {
        let servers = self.servers.lock();
        let numbers = |(member, server): (&MemberId, &u64)| {
            let counts = self.by_server.get(server)?;
            let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
            Some(PeerTraffic {
                member: *member,
                sent_bytes: now(&counts.sent),
                sent_frames: now(&counts.sent_frames),
                received_bytes: now(&counts.received),
                received_frames: now(&counts.received_frames),
                sent_failures: now(&counts.failed),
            })
        };
        servers.iter().filter_map(numbers).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_shown_by_the_member_that_a_server_is_now() {
        let traffic = Traffic::new([2, 3]);
        traffic.add_failure(MemberId(20));
        traffic.note(MemberId(20), 2);
        traffic.note(MemberId(30), 3);
        traffic.add_sent(2, 10);
        traffic.add_received(2, 20);
        traffic.add_failure(MemberId(20));
        traffic.add_sent(4, 1);
        traffic.note(MemberId(21), 2);
        let shown: Vec<_> = traffic
            .numbers()
            .into_iter()
            .map(|it| (it.member.0, it.sent_bytes, it.received_bytes, it.sent_failures))
            .collect();
        assert_eq!(shown, [(21, 10, 20, 1), (30, 0, 0, 0)]);
    }
}
