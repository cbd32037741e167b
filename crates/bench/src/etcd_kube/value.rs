//! The values of objects: a head with what the checks need, then bytes that look random.

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

/// Bytes that are cut into values.
pub struct Values(Vec<u8>);

impl Values {
    /// Values of up to so many bytes.
    pub fn new(bytes_max: usize) -> Values {
        let mut random = Random::new(bytes_max as u64);
        // Printable characters, of which 64 are used.
        Values((0..bytes_max).map(|_| b'0' + random.below(64) as u8).collect())
    }

    /// A value of so many bytes, its head included.
    pub fn value(&self, head: Head, bytes: usize) -> Bytes {
        let mut value = Vec::with_capacity(bytes);
        value.extend_from_slice(&head.sent_ns.to_be_bytes());
        value.extend_from_slice(&head.updates.to_be_bytes());
        value.extend_from_slice(&self.0[..bytes.clamp(Head::BYTES, self.0.len()) - Head::BYTES]);
        value.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_its_length_and_tells_its_head() {
        let head = Head { sent_ns: 7, updates: 9 };
        for bytes in [Head::BYTES, 300, 10_240] {
            let value = Values::new(10_240).value(head, bytes);
            assert_eq!((value.len(), Head::of(&value)), (bytes, Some(head)));
        }
        assert_eq!(Head::of(&[0; Head::BYTES - 1]), None);
    }
}
