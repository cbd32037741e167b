//! For monitoring, counts the frames and bytes on the links with other members, separately for
//! every member.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use machine::MemberId;
use parking_lot::RwLock;

/// Counters for each listed server.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    table: RwLock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_server: BTreeMap<u64, Counts>,
    /// The server number of each member that had a link, if its server is listed. A server has one
    /// member here, its newest.
    servers: BTreeMap<MemberId, u64>,
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
    /// Counts for these servers from now on. A server that was counted before keeps its counts, and
    /// those of the others are forgotten.
    pub fn set_servers(&self, servers: impl IntoIterator<Item = u64>) {
        let mut table = self.table.write();
        let mut former = std::mem::take(&mut table.by_server);
        let kept = |server| (server, former.remove(&server).unwrap_or_default());
        table.by_server = servers.into_iter().map(kept).collect();
        let Table { by_server, servers } = &mut *table;
        servers.retain(|_, server| by_server.contains_key(server));
    }

    /// Records which server a member with a link is, if that server is listed. A server that lost
    /// its directory comes back as another member, which replaces the former one.
    pub fn note(&self, member: MemberId, server: u64) {
        let Table { by_server, servers } = &mut *self.table.write();
        if by_server.contains_key(&server) {
            servers.retain(|_, of| *of != server);
            servers.insert(member, server);
        }
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
        let server = self.table.read().servers.get(&member).copied();
        if let Some(server) = server {
            self.add(server, 1, |counts| &counts.failed);
        }
    }

    fn add(&self, server: u64, by: u64, of: fn(&Counts) -> &AtomicU64) {
        if let Some(counts) = self.table.read().by_server.get(&server) {
            of(counts).fetch_add(by, Ordering::Relaxed);
        }
    }

    /// The counters now, for each member that is the newest of its server and ever had a link.
    pub fn numbers(&self) -> Vec<PeerTraffic> {
        let Table { by_server, servers } = &*self.table.read();
        let numbers = |(member, server): (&MemberId, &u64)| {
            let counts = by_server.get(server)?;
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

    /// The member, and the bytes sent and received and the failures, of each.
    fn shown(traffic: &Traffic) -> Vec<(u64, u64, u64, u64)> {
        let numbers = traffic.numbers().into_iter();
        let shown =
            numbers.map(|it| (it.member.0, it.sent_bytes, it.received_bytes, it.sent_failures));
        shown.collect()
    }

    #[test]
    fn traffic_is_shown_by_the_member_that_a_server_is_now() {
        let traffic = Traffic::default();
        traffic.set_servers([2, 3]);
        traffic.add_failure(MemberId(20));
        traffic.note(MemberId(20), 2);
        traffic.note(MemberId(30), 3);
        traffic.add_sent(2, 10);
        traffic.add_received(2, 20);
        traffic.add_failure(MemberId(20));
        traffic.add_sent(4, 1);
        traffic.note(MemberId(21), 2);
        assert_eq!(shown(&traffic), [(21, 10, 20, 1), (30, 0, 0, 0)]);
    }

    #[test]
    fn traffic_of_a_server_is_forgotten_with_the_server() {
        let traffic = Traffic::default();
        traffic.set_servers([2, 3]);
        traffic.note(MemberId(20), 2);
        traffic.note(MemberId(30), 3);
        traffic.add_sent(2, 10);
        traffic.add_sent(3, 11);
        traffic.set_servers([2, 4]);
        traffic.add_sent(2, 10);
        traffic.add_sent(3, 1);
        traffic.add_failure(MemberId(30));
        traffic.note(MemberId(30), 3);
        traffic.note(MemberId(40), 4);
        assert_eq!(shown(&traffic), [(20, 20, 0, 0), (40, 0, 0, 0)]);
        traffic.set_servers([2, 3]);
        traffic.note(MemberId(30), 3);
        assert_eq!(shown(&traffic), [(20, 20, 0, 0), (30, 0, 0, 0)]);
    }
}
