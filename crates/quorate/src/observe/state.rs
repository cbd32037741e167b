//! Reads facts about the replicated state, all read while its lock is held once.

use machine::{Machine, Mark};

/// The facts about the state at one moment.
pub struct StateFacts {
    /// The position of the last applied command.
    pub mark: Mark,
    pub zk: ZkFacts,
    pub etcd: EtcdFacts,
    pub etcd_v2: EtcdV2Facts,
}

/// Facts about ZooKeeper's part of the state.
pub struct ZkFacts {
    pub znode_count: u64,
    pub ephemeral_count: u64,
    /// Bytes of all znodes' paths and data.
    pub data_bytes: u64,
    pub session_count: u64,
}

/// Facts about etcd v3's part of the state.
pub struct EtcdFacts {
    /// Whether no etcd client has ever changed anything.
    pub is_unused: bool,
    pub revision: u64,
    /// The compacted revision; 0 before the first compaction.
    pub compacted_revision: u64,
    pub key_count: u64,
    /// Bytes of the readable versions of keys, and of leases.
    pub bytes: u64,
    /// Puts are refused if `bytes` is above this.
    pub quota_bytes: u64,
    pub lease_count: u64,
    pub alarm_count: u64,
    /// The approximate memory of keys and leases, in bytes.
    pub held_bytes: u64,
    /// Puts and grants are refused if `held_bytes` is above this; `None` if there is no such bound.
    pub held_bytes_max: Option<u64>,
}

/// Facts about etcd v2's part of the state.
pub struct EtcdV2Facts {
    /// The approximate memory of the tree, in bytes.
    pub held_bytes: u64,
    /// Writes are refused if `held_bytes` is above this; `None` if there is no such bound.
    pub held_bytes_max: Option<u64>,
}

impl StateFacts {
    /// Gathers the facts. No part of this takes longer if the state is larger.
    pub fn of(machine: &Machine) -> StateFacts {
        let (tree, sessions) = (machine.zk().tree(), machine.zk().sessions());
        let (store, v2) = (machine.etcd(), machine.etcd_v2().tree());
        let quota_bytes = store.settings().quota_bytes;
        let bounds = machine.control().bounds();
        StateFacts {
            mark: machine.mark(),
            zk: ZkFacts {
                znode_count: u64::from(tree.znode_count()),
                ephemeral_count: sessions.ephemeral_count() as u64,
                data_bytes: tree.data_bytes(),
                session_count: sessions.len() as u64,
            },
            etcd: EtcdFacts {
                is_unused: store.is_unused(),
                revision: store.revision().unsigned_abs(),
                compacted_revision: store.compacted().max(0).unsigned_abs(),
                key_count: store.key_count(),
                bytes: store.bytes(),
                quota_bytes,
                lease_count: store.leases().len() as u64,
                alarm_count: store.alarms().iter().len() as u64,
                held_bytes: store.held(),
                held_bytes_max: bounds.map(|bounds| bounds.etcd(quota_bytes)),
            },
            etcd_v2: EtcdV2Facts {
                held_bytes: v2.held(),
                held_bytes_max: bounds.map(|bounds| bounds.etcd_v2(quota_bytes)),
            },
        }
    }
}
