//! The values of the Kubernetes workload's objects: a head with what the checks need, then random
//! bytes. Real objects would compress. But if only one of two servers compresses, the figures would
//! show how compressible these values were made.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::random::Random;

/// The first bytes of each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// When the put was sent, ns since the start of the run; 0 if it was sent before the run.
    pub sent_ns: u64,
    /// How many updates the object has had, this one included.
    pub updates: u64,
}

impl Head {
    /// Bytes of a head in a value.
    pub const BYTES: usize = 16;

    /// Reads the head of a value; `None` if the value is too short.
    pub fn of(value: &[u8]) -> Option<Head> {
        let (sent, rest) = value.split_first_chunk::<8>()?;
        let updates = u64::from_be_bytes(*rest.first_chunk::<8>()?);
        Some(Head { sent_ns: u64::from_be_bytes(*sent), updates })
    }
}

/// Makes values, no two of them alike. Holds how many it has made.
#[derive(Debug, Default)]
pub struct Values(AtomicU64);

impl Values {
    /// A value of `bytes` bytes, head included.
    pub fn value(&self, head: Head, bytes: usize) -> Bytes {
        let mut random = Random::new(self.0.fetch_add(1, Ordering::Relaxed));
        let rest = random.bytes(bytes.saturating_sub(Head::BYTES));
        [&head.sent_ns.to_be_bytes()[..], &head.updates.to_be_bytes(), &rest].concat().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_its_length_and_tells_its_head() {
        let head = Head { sent_ns: 7, updates: 9 };
        let values = Values::default();
        for bytes in [Head::BYTES, 300, 10_240] {
            let value = values.value(head, bytes);
            assert_eq!((value.len(), Head::of(&value)), (bytes, Some(head)));
        }
        assert_ne!(values.value(head, 300), values.value(head, 300));
        assert_eq!(Head::of(&[0; Head::BYTES - 1]), None);
    }
}
