//! The values of objects: a head with what the checks need, then random bytes. The objects of a
//! real cluster would compress; but only one of two servers may do that, and then it would show how
//! compressible we have made them.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::random::Random;

/// The head of each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// When the put was sent, in ns since the start of the run; 0 before the run.
    pub sent_ns: u64,
    /// How many updates the object has had.
    pub updates: u64,
}

impl Head {
    /// Bytes of a head.
    pub const BYTES: usize = 16;

    /// The head of a value.
    pub fn of(value: &[u8]) -> Option<Head> {
        let (sent, rest) = value.split_first_chunk::<8>()?;
        let updates = u64::from_be_bytes(*rest.first_chunk::<8>()?);
        Some(Head { sent_ns: u64::from_be_bytes(*sent), updates })
    }
}

/// Makes values, each with other bytes. It holds how many it has made.
#[derive(Debug, Default)]
pub struct Values(AtomicU64);

impl Values {
    /// A value of so many bytes, its head included.
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
