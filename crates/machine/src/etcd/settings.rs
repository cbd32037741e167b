//! The settings that change outcomes of etcd's commands. The leader's configuration sets them by a
//! command, so that members with different configurations cannot reach different states.

use crate::codec::{DecodeError, Reader, Write};

/// The bytes of a quota that no flag sets (`storage.DefaultQuotaBytes`).
pub(crate) const QUOTA_BYTES_DEFAULT: u64 = 2 * 1024 * 1024 * 1024;

/// The operations of a transaction that no flag sets (`embed.DefaultMaxTxnOps`).
const TXN_OPS_MAX_DEFAULT: u32 = 128;

/// The shortest time to live of a lease that no flag sets: that of an election timeout of 1 s
/// (`etcdserver.NewServer`, `minTTL`).
const LEASE_TTL_S_MIN_DEFAULT: u32 = 2;

/// The replicated settings. Each field names the flag of etcd it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `--quota-backend-bytes`: puts are refused that would make the store larger than this many
    /// bytes. `u64::MAX`: there is no quota.
    pub quota_bytes: u64,
    /// `--max-txn-ops`: the most comparisons, or operations of a branch, of a transaction and of
    /// each within it. The Fronts judge it.
    pub txn_ops_max: u32,
    /// The shortest time to live of a lease, in seconds: one and a half of `--election-timeout`,
    /// rounded up. Grants of less get it.
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
