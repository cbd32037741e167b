//! Settings that change the outcomes of etcd's commands. They are replicated state: a command sets
//! them from the leader's configuration, so members with different configurations still reach equal
//! states.

use crate::codec::{DecodeError, Reader, Write};

/// The default quota in bytes (`storage.DefaultQuotaBytes`).
pub(crate) const QUOTA_BYTES_DEFAULT: u64 = 2 * 1024 * 1024 * 1024;

/// The default for the most operations in a transaction (`embed.DefaultMaxTxnOps`).
const TXN_OPS_MAX_DEFAULT: u32 = 128;

/// The default for the shortest time to live of a lease, in seconds: the one for etcd's default
/// election timeout of 1 s (`etcdserver.NewServer`, `minTTL`).
const LEASE_TTL_S_MIN_DEFAULT: u32 = 2;

/// The replicated settings. Each field's comment names the flag of etcd behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `--quota-backend-bytes`: writes that would make the store larger than this many bytes are
    /// refused. `u64::MAX` means no quota.
    pub quota_bytes: u64,
    /// `--max-txn-ops`: the most comparisons of a transaction, and the most operations of each of
    /// its branches, at each level of nesting. The Fronts check it.
    pub txn_ops_max: u32,
    /// The shortest time to live of a lease, in seconds: one and a half times `--election-timeout`,
    /// rounded up. A shorter grant is raised to it.
    pub lease_ttl_s_min: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            quota_bytes: QUOTA_BYTES_DEFAULT,
            txn_ops_max: TXN_OPS_MAX_DEFAULT,
            lease_ttl_s_min: LEASE_TTL_S_MIN_DEFAULT,
        }
    }
}

impl Settings {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.quota_bytes);
        out.put_u32(self.txn_ops_max);
        out.put_u32(self.lease_ttl_s_min);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Settings, DecodeError> {
        Ok(Settings {
            quota_bytes: reader.u64()?,
            txn_ops_max: reader.u32()?,
            lease_ttl_s_min: reader.u32()?,
        })
    }
}
