//! A random number generator that gives equal numbers for equal seeds.

/// The SplitMix64 generator.
pub struct Random(u64);

impl Random {
    /// A generator whose numbers depend on the seed only.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A random number below `bound`. `bound` must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// `count` random bytes, which no server can compress.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + size_of::<u64>());
        while bytes.len() < count {
            bytes.extend_from_slice(&self.next().to_be_bytes());
        }
        bytes.truncate(count);
        bytes
    }

    /// True `percent` times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A random element of `list`, which must not be empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len() as u64) as usize]
    }
}

/// The numbers below `count` in a shuffled order, which is the same in every run.
pub fn order_by_chance(count: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    let mut random = Random::new(count);
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_depend_on_the_seed_only_and_have_no_favourite() {
        for count in [0, 1, 8, 13] {
            let bytes = Random::new(7).bytes(count);
            assert_eq!((bytes.len(), &bytes), (count, &Random::new(7).bytes(count)));
        }
        assert_ne!(Random::new(7).bytes(8), Random::new(8).bytes(8));
        let mut counts = [0; 256];
        Random::new(1).bytes(256_000).iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }
}
