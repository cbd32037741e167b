//! Clients with leases during faults. Each grants a lease, attaches keys to it, keeps it alive for
//! a while, and lets it expire. Nothing but the end of a lease deletes these keys: the other
//! clients delete ranges whose end is given, and these keys sort behind all such ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use workload::etcd::op::{Error, LeaseOp, Op, Put, Response};
use workload::generate::Random;

use super::world::{CALL_WAIT, Connection, EtcdWorld};

/// The longest time to live, in s. Faults may last as long.
const TTL_S_MAX: u64 = 4;

/// The prefix of the keys that are attached to a lease.
pub fn keys_of(lease: i64) -> String {
    format!("l/{lease:08x}/")
}

/// A client with leases.
pub struct Keeper {
    pub world: Arc<EtcdWorld>,
    pub client: u32,
    pub random: Random,
}

impl Keeper {
    /// Grants and uses one lease after the other until the test is over.
    pub async fn run(mut self) {
        let mut number = 0;
        while !self.world.is_over() {
            number += 1;
            let lease = i64::from(self.client) << 20 | number;
            if self.live(lease).await.is_none() {
                sleep(Duration::from_millis(self.random.between(5, 300))).await;
            }
        }
    }

    /// Uses a lease from its grant to its end, on as many connections as that needs.
    async fn live(&mut self, lease: i64) -> Option<()> {
        let ttl_s = self.random.between(1, TTL_S_MAX) as i64;
        let mut connection = self.connect().await?;
        let grant = Op::Lease(LeaseOp::Grant { lease, ttl_s });
        connection.call(grant, CALL_WAIT).await?.ok()?;
        for number in 0..self.random.between(1, 3) {
            let key = format!("{}{number}", keys_of(lease)).into_bytes();
            let put = Put { key, value: b"v".to_vec(), lease, ..Put::default() };
            let _ = connection.call(Op::Put(put), CALL_WAIT).await?;
        }
        let rounds = self.random.below(8);
        for _ in 0..rounds {
            if self.world.is_over() {
                return None;
            }
            self.think(ttl_s).await;
            let op = match self.random.one_in(4) {
                true => LeaseOp::TimeToLive { lease },
                false => LeaseOp::KeepAlive { lease },
            };
            match connection.call(Op::Lease(op), CALL_WAIT).await {
                Some(Ok(Response::KeptAlive { ttl_s: 0, .. })) => break,
                Some(_) => {}
                None => connection = self.connect().await?,
            }
        }
        if self.random.one_in(3) {
            self.outlive(lease, ttl_s, &mut connection).await?;
        }
        Some(())
    }

    /// Waits about as long as the lease lives, and asks whether it still exists. If it does not, a
    /// put must not attach a key to it.
    async fn outlive(&mut self, lease: i64, ttl_s: i64, connection: &mut Connection) -> Option<()> {
        sleep(Duration::from_millis(ttl_s as u64 * self.random.between(900, 1_300))).await;
        let ask = Op::Lease(LeaseOp::TimeToLive { lease });
        let _ = connection.call(ask, CALL_WAIT).await?;
        let keep = Op::Lease(LeaseOp::KeepAlive { lease });
        let kept = connection.call(keep, CALL_WAIT).await?;
        if matches!(kept, Ok(Response::KeptAlive { ttl_s: 0, .. })) {
            let key = format!("{}late", keys_of(lease)).into_bytes();
            let put = Op::Put(Put { key, lease, ..Put::default() });
            let late = connection.call(put, CALL_WAIT).await?;
            let is_refused = matches!(late, Err(Error::LeaseNotFound));
            assert!(is_refused || late.is_err(), "lease {lease} has ended, and has keys: {late:?}");
        }
        Some(())
    }

    /// Waits for a short part of the lease's time to live, sometimes for almost all of it.
    async fn think(&mut self, ttl_s: i64) {
        let percent = if self.random.one_in(4) { 95 } else { 60 };
        let ms = ttl_s as u64 * 10 * self.random.between(1, percent);
        sleep(Duration::from_millis(ms)).await;
    }

    async fn connect(&mut self) -> Option<Connection> {
        while !self.world.is_over() {
            let any = self.random.below(self.world.addresses.len() as u64) as usize;
            if let Some(connection) = self.world.connect(self.client, any).await {
                return Some(connection);
            }
            sleep(Duration::from_millis(self.random.between(5, 100))).await;
        }
        None
    }
}
