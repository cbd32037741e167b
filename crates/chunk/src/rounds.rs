//! Rounds of a sync, and the threads that wait for one.
//!
//! A thread that arrives while a round is under way is of the next one, which covers what it wrote.
//! The first of them leads that round, and is woken alone when its turn comes; the others are woken
//! all at once, by one system call, when it is over. So each thread sleeps once and is woken once,
//! and takes no lock for it. (With a condition variable each was woken by the one before, and half
//! of them too early.)

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex;

/// The rounds that are over.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// The last round that is over.
    turn: AtomicU32,
    /// The same, of the even ones and of the odd ones: who waits for one is not woken by the one
    /// before.
    over: [AtomicU32; 2],
}

impl Rounds {
    /// The round is over: whoever waited for it goes on, and so does the leader of the next.
    pub fn end(&self, round: u32) {
        self.turn.store(round, Ordering::Release);
        let over = &self.over[round as usize % 2];
        over.store(round, Ordering::Release);
        // A failure would mean that the address is none.
        let _ = futex::wake(over, futex::Flags::PRIVATE, i32::MAX as u32);
        let _ = futex::wake(&self.turn, futex::Flags::PRIVATE, 1);
    }

    /// Returns when the round is over.
    pub fn wait_for_end(&self, round: u32) {
        wait_for(&self.over[round as usize % 2], round);
    }

    /// Returns when the round before is over. One thread at a time.
    pub fn wait_for_turn(&self, round: u32) {
        wait_for(&self.turn, round.wrapping_sub(1));
    }
}

/// Returns when the word has reached `round`, however it is woken in between.
fn wait_for(word: &AtomicU32, round: u32) {
    loop {
        let seen = word.load(Ordering::Acquire);
        // Rounds may wrap around; no thread is 2^31 rounds behind.
        if seen.wrapping_sub(round) as i32 >= 0 {
            return;
        }
        let _ = futex::wait(word, futex::Flags::PRIVATE, seen, None);
    }
}

#[cfg(test)]
mod tests;
