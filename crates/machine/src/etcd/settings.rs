//! The settings that change outcomes of etcd's commands. The leader's configuration sets them by a
//! command, so that members with different configurations cannot reach different states.

use crate::codec::{DecodeError, Reader, Write};

/// The bytes of a quota that no flag sets (`storage.DefaultQuotaBytes`).
const QUOTA_BYTES_DEFAULT: u64 = 2 * 1024 * 1024 * 1024;

/// The operations of a transaction that no flag sets (`embed.DefaultMaxTxnOps`).
const TXN_OPS_MAX_DEFAULT: u32 = 128;

/// The replicated settings. Each field names the flag of etcd it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `--quota-backend-bytes`: puts are refused that would make the store larger than this many
    /// bytes. `u64::MAX`: there is no quota.
    pub quota_bytes: u64,
    /// `--max-txn-ops`: the most comparisons, or operations of a branch, of a transaction and of
    /// each within it. The Fronts judge it.
    pub txn_ops_max: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { quota_bytes: QUOTA_BYTES_DEFAULT, txn_ops_max: TXN_OPS_MAX_DEFAULT }
    }
}

impl Settings {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.quota_bytes);
        out.put_u32(self.txn_ops_max);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Settings, DecodeError> {
        Ok(Settings { quota_bytes: reader.u64()?, txn_ops_max: reader.u32()? })
    }
}
