//! Work on passwords: what threads of their own do in the server that ships. The hash here is no
//! secret, and takes a drawn time.

use member::fronts::etcd::{PasswordDone, PasswordTask, PasswordWork};
use member::message::Ticket;

use crate::limits::PASSWORD_US_MAX;
use crate::world::World;

/// The hash of a password.
pub fn hash_of(password: &[u8]) -> Vec<u8> {
    [b"hash of ", password].concat()
}

/// Work that is not done.
#[derive(Default)]
pub(super) struct Passwords {
    /// When each is done, for whom, and the result.
    under_way: Vec<(u64, Ticket, PasswordDone)>,
}

impl Passwords {
    /// Begins work. What nobody waits for any more is skipped.
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

    /// When the next work is done.
    pub fn next_us(&self) -> Option<u64> {
        self.under_way.iter().map(|(at_us, ..)| *at_us).min()
    }

    /// The results of what is done.
    pub fn take_done(&mut self, now_us: u64) -> Vec<(Ticket, PasswordDone)> {
        let done = self.under_way.extract_if(.., |(at_us, ..)| *at_us <= now_us);
        done.map(|(_, ticket, done)| (ticket, done)).collect()
    }
}
