//! What a step of a command, or of a read, may look at.

/// Operations of a transaction that are passed by for the cost of one key: an operation is in the
/// command at hand, a key is somewhere in memory.
const VISITS_OF_A_KEY: u32 = 64;

/// How much more a step may look at.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Keys of the store.
    pub keys_left: u64,
    /// Operations that were passed by since the last one that cost a key.
    visits: u32,
}

impl Budget {
    /// A budget of this many keys.
    pub fn new(keys_left: u64) -> Budget {
        Budget { keys_left, visits: 0 }
    }

    /// Takes a key. False if none is left.
    pub fn spend_key(&mut self) -> bool {
        let had_one = self.keys_left > 0;
        self.keys_left = self.keys_left.saturating_sub(1);
        had_one
    }

    /// Takes what it costs to pass by an operation. False if nothing is left.
    pub fn spend_visit(&mut self) -> bool {
        if self.visits + 1 < VISITS_OF_A_KEY {
            self.visits += 1;
            return true;
        }
        self.visits = 0;
        self.spend_key()
    }
}
