//! Remembers which passwords of etcd v2 users were verified recently.
//!
//! A client sends its password with every request, and comparing it with a hash takes 50 ms. So a
//! connection runtime remembers, for each user, a keyed hash of the password that it verified last.
//! This only saves work: comparing again with the same stored hash would have the same result.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::super::limits::V2_PROVEN_MAX;

/// The last verified password of each user, with the stored hash that it was compared with.
#[derive(Default)]
pub(in super::super) struct ProvenPasswords {
    keys: [RandomState; 2],
    by_user: RefCell<HashMap<Arc<str>, Proven>>,
}

struct Proven {
    hash: Arc<[u8]>,
    password: [u64; 2],
}

impl ProvenPasswords {
    fn of(&self, password: &[u8]) -> [u64; 2] {
        [self.keys[0].hash_one(password), self.keys[1].hash_one(password)]
    }

    pub fn has(&self, user: &str, hash: &[u8], password: &[u8]) -> bool {
        let by_user = self.by_user.borrow();
        let is_it = |it: &Proven| *it.hash == *hash && it.password == self.of(password);
        by_user.get(user).is_some_and(is_it)
    }

    pub fn add(&self, user: &Arc<str>, hash: &Arc<[u8]>, password: &[u8]) {
        let mut by_user = self.by_user.borrow_mut();
        if by_user.len() >= V2_PROVEN_MAX {
            by_user.clear();
        }
        let proven = Proven { hash: hash.clone(), password: self.of(password) };
        by_user.insert(user.clone(), proven);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_proven_for_its_user_and_the_present_hash() {
        let proven = ProvenPasswords::default();
        let (ada, hash): (Arc<str>, Arc<[u8]>) = ("ada".into(), b"hash"[..].into());
        assert!(!proven.has("ada", b"hash", b"secret"));
        proven.add(&ada, &hash, b"secret");
        assert!(proven.has("ada", b"hash", b"secret"));
        for (user, hash, password) in
            [("eve", "hash", "secret"), ("ada", "other", "secret"), ("ada", "hash", "Secret")]
        {
            assert!(!proven.has(user, hash.as_bytes(), password.as_bytes()));
        }
        for number in 0..V2_PROVEN_MAX {
            proven.add(&number.to_string().into(), &hash, b"secret");
        }
        assert!(proven.by_user.borrow().len() <= V2_PROVEN_MAX);
    }
}
