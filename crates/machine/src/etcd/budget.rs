//! The budget of one step of an etcd command or read: how much the step may look at.

/// How many operations of a transaction a step may pass, on its way to the next operation to run,
/// at the cost of one key. Passing is cheap: the operations are in the command, while a key may be
/// anywhere in memory.
const VISITS_OF_A_KEY: u32 = 64;

/// How much a step may still look at.
#[derive(Debug)]
pub(crate) struct Budget {
    /// How many keys of the store the step may still look at.
    pub keys_left: u64,
    /// Operations passed since the last one that was charged a key.
    visits: u32,
}

impl Budget {
    /// A budget of this many keys.
    pub fn new(keys_left: u64) -> Budget {
        Budget { keys_left, visits: 0 }
    }

    /// Takes one key from the budget. False if none was left.
    pub fn spend_key(&mut self) -> bool {
        let had_one = self.keys_left > 0;
        self.keys_left = self.keys_left.saturating_sub(1);
        had_one
    }

    /// Takes the cost of passing one operation from the budget. False if nothing was left.
    pub fn spend_visit(&mut self) -> bool {
        if self.visits + 1 < VISITS_OF_A_KEY {
            self.visits += 1;
            return true;
        }
        self.visits = 0;
        self.spend_key()
    }
}
