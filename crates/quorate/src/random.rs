//! Random bytes from the operating system.

use anyhow::Context;

/// Random bytes from the operating system, for secrets and for ids that must differ from any other
/// server's.
pub(crate) fn random_bytes() -> anyhow::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    let count = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .context("the system gives no random bytes")?;
    anyhow::ensure!(count == bytes.len(), "not enough randomness");
    Ok(bytes)
}
