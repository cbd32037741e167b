//! A set of the tree's slots, as one bit for each slot. The tree notes in it which znodes are
//! missing from the digest while the digest is deferred.

/// A set of slot ids. Its memory grows with the highest id in it.
#[derive(Default)]
pub(super) struct SlotSet {
    words: Vec<u64>,
}

impl SlotSet {
    /// Adds a slot. False if the set had it.
    pub(super) fn insert(&mut self, id: u32) -> bool {
        let (word, bit) = (id as usize / 64, 1_u64 << (id % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let word = &mut self.words[word];
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// The index of a word that splits the set: about half of its slots are in the words before it.
    pub(super) fn middle(&self) -> usize {
        let count: u64 = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
        let mut below = 0;
        let is_upper = |word: &u64| {
            below += u64::from(word.count_ones());
            below > count / 2
        };
        self.words.iter().position(is_upper).unwrap_or(self.words.len())
    }

    /// The slots in the words before index `word`, ascending.
    pub(super) fn below(&self, word: usize) -> impl Iterator<Item = u32> {
        slots(0, &self.words[..word])
    }

    /// The slots in the words from index `word` on, ascending.
    pub(super) fn from(&self, word: usize) -> impl Iterator<Item = u32> {
        slots(word, &self.words[word..])
    }
}

/// The slots in some words, where the first word has index `first`.
fn slots(first: usize, words: &[u64]) -> impl Iterator<Item = u32> {
    words.iter().enumerate().flat_map(move |(at, &word)| {
        let mut rest = word;
        core::iter::from_fn(move || {
            let bit = rest.trailing_zeros();
            // Clears the lowest bit that is set.
            rest &= rest.checked_sub(1)?;
            Some((first + at) as u32 * 64 + bit)
        })
    })
}
