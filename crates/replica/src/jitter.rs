//! The election timeout: a pure function, so that equal seeds give equal elections.
//!
//! raft-rs draws it from the thread's random number generator whenever a role changes; the replica
//! overwrites that draw after every call into raft-rs, before anything reads it.

/// The values that the timeout depends on. `attempt` counts the elections this member has started
/// within `term`: without it two members whose timeouts tie would tie for ever (a pre-vote that
/// fails leaves the term as it was).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    pub seed: u64,
    pub member_id: u64,
    pub term: u64,
    pub attempt: u64,
}

/// A number of ticks in `election_ticks .. 2 * election_ticks` (raft-rs asserts this range).
pub(crate) fn election_timeout_ticks(draw: Draw, election_ticks: u32) -> usize {
    // Mixed, since a member may take its own id for the seed.
    let mut hash = mix(draw.seed);
    for word in [draw.member_id, draw.term, draw.attempt] {
        hash = mix(hash ^ word);
    }
    let base = u64::from(election_ticks);
    let ticks = base + hash % base;
    usize::try_from(ticks).expect("below 2^33, and usize has 64 bits on every supported target")
}

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014) after its increment: every input bit
/// changes about half of the output bits.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests;
