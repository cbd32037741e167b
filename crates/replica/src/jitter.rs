//! The random election timeout, as a pure function: equal seeds give equal elections.
//!
//! raft-rs draws a timeout from the thread's random number generator whenever the role changes. The
//! replica replaces that timeout after every call into raft-rs, before anything reads it.

/// The values that determine the timeout. `attempt` counts the elections that this member has
/// started within `term`. Without it, two members with equal timeouts would tie for ever, because a
/// failed pre-vote does not change the term.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    pub seed: u64,
    pub member_id: u64,
    pub term: u64,
    pub attempt: u64,
}

/// A timeout within `election_ticks .. 2 * election_ticks`, in ticks (raft-rs asserts this range).
pub(crate) fn election_timeout_ticks(draw: Draw, election_ticks: u32) -> usize {
    // The seed is mixed before its XOR with the member id, because a caller may use the member id
    // as the seed: the two would cancel out.
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
