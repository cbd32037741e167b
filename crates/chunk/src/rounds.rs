//! Lets threads wait for the syncs of the log. Each sync is a *round*, and has a number.
//!
//! A thread that arrives during a round waits for the next one, which covers what the thread wrote.
//! The first such thread is the leader: it will run the next round, and is woken alone when the
//! present round is over. The others are woken all at once, by one system call, when their own
//! round is over. So each thread sleeps once, is woken once, and takes no lock for that. (With a
//! condition variable, the threads woke one after the other, and half of them too early.)

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex;

/// The numbers of the finished rounds, in atomic words on which threads wait (futexes).
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// Number of the last finished round. The leader of the next round waits on this.
    turn: AtomicU32,
    /// The last finished even round and the last finished odd one. Two words, so that a finished
    /// round never wakes the threads that wait for the next.
    over: [AtomicU32; 2],
}

impl Rounds {
    /// Ends a round: wakes all threads that wait for it, and the leader of the next one.
    pub fn end(&self, round: u32) {
        self.turn.store(round, Ordering::Release);
        let over = &self.over[round as usize % 2];
        over.store(round, Ordering::Release);
        // A wake fails only for an invalid address.
        let _ = futex::wake(over, futex::Flags::PRIVATE, i32::MAX as u32);
        let _ = futex::wake(&self.turn, futex::Flags::PRIVATE, 1);
    }

    /// Returns when the round is over.
    pub fn wait_for_end(&self, round: u32) {
        wait_for(&self.over[round as usize % 2], round);
    }

    /// Returns when the round before is over. Only one thread may wait at a time.
    pub fn wait_for_turn(&self, round: u32) {
        wait_for(&self.turn, round.wrapping_sub(1));
    }
}

/// Returns when the word has reached `round`, however often the thread wakes up before.
fn wait_for(word: &AtomicU32, round: u32) {
    loop {
        let seen = word.load(Ordering::Acquire);
        // The numbers may wrap around; no thread is 2^31 rounds behind.
        if seen.wrapping_sub(round) as i32 >= 0 {
            return;
        }
        let _ = futex::wait(word, futex::Flags::PRIVATE, seen, None);
    }
}

#[cfg(test)]
mod tests;
