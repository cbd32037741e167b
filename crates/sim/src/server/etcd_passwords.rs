//! Hashes and checks passwords, as separate threads do in the real server. The hash here is not
//! secret, and its work takes a random time.

use member::fronts::etcd::{PasswordDone, PasswordTask, PasswordWork};
use member::message::Ticket;

use crate::limits::PASSWORD_US_MAX;
use crate::world::World;

/// The fake hash of a password.
pub fn hash_of(password: &[u8]) -> Vec<u8> {
    [b"hash of ", password].concat()
}

/// Password work that is not finished.
#[derive(Default)]
pub(super) struct Passwords {
    /// When each piece of work finishes, in us, with its ticket and its result.
    under_way: Vec<(u64, Ticket, PasswordDone)>,
}

impl Passwords {
    /// Begins pieces of work. Skips those that no caller waits for any more.
    pub fn begin(&mut self, works: Vec<(Ticket, PasswordWork)>, world: &mut World) {
        for (ticket, PasswordWork { password, task, waits }) in works {
            if waits.upgrade().is_none() {
                continue;
            }
            let hash_of = hash_of(&password);
            let done = match task {
                PasswordTask::Hash => PasswordDone::Hashed(hash_of),
                PasswordTask::Check { hash, .. } if *hash != *hash_of => PasswordDone::Wrong,
                PasswordTask::Pretend => PasswordDone::Wrong,
                PasswordTask::Verify { hash, .. } if *hash == *hash_of => PasswordDone::Right,
                PasswordTask::Verify { .. } => PasswordDone::Wrong,
                PasswordTask::Check { .. } => {
                    let letter = |_| b'a' + world.random.below(26) as u8;
                    PasswordDone::RightFor(core::array::from_fn(letter))
                }
            };
            let takes_us = match world.random.one_in(2) {
                true => 0,
                false => world.random.magnitude(1, PASSWORD_US_MAX),
            };
            self.under_way.push((world.now_us + takes_us, ticket, done));
        }
    }

    /// When the next piece of work finishes, in us.
    pub fn next_us(&self) -> Option<u64> {
        self.under_way.iter().map(|(at_us, ..)| *at_us).min()
    }

    /// Takes the results of the finished work.
    pub fn take_done(&mut self, now_us: u64) -> Vec<(Ticket, PasswordDone)> {
        let done = self.under_way.extract_if(.., |(at_us, ..)| *at_us <= now_us);
        done.map(|(_, ticket, done)| (ticket, done)).collect()
    }
}
