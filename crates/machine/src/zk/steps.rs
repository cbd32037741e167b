//! The budget of one step of a ZooKeeper command.
//!
//! Ending a session with a million ephemerals, or applying a multi of a megabyte, takes longer than
//! anybody may hold the state's lock. So a command is done in steps. A step looks at a bounded
//! number of znodes, and a command that needs more is *paused* ([`crate::zk::pause`]).

/// Bytes of paths and data that a step may handle for each znode of its budget. Long paths, or
/// paths with many names, use up the budget sooner.
const BYTES_PER_ZNODE: u64 = 1024;

/// How many bytes one name of a path counts for: finding it takes as long as copying this many.
const LEVEL_BYTES: u64 = 64;

/// How many znodes a step may still look at, and how many bytes it may still handle.
pub(crate) struct Steps {
    znodes_left: u64,
    bytes_left: u64,
    looked_at: u64,
}

impl Steps {
    /// The budget of a step that looks at up to `znodes_max` znodes (at least 1).
    pub fn new(znodes_max: u64) -> Steps {
        assert!(znodes_max > 0, "a step does something");
        let bytes_left = znodes_max.saturating_mul(BYTES_PER_ZNODE);
        Steps { znodes_left: znodes_max, bytes_left, looked_at: 0 }
    }

    /// Takes one znode, or one operation, from the budget. False if the budget ran out: the step
    /// must end.
    pub fn take(&mut self) -> bool {
        if self.znodes_left == 0 || self.bytes_left == 0 {
            return false;
        }
        self.znodes_left -= 1;
        self.looked_at += 1;
        true
    }

    /// Takes the bytes of the present znode from the budget. They may exceed the budget: then this
    /// znode is the last of the step.
    pub fn handle_bytes(&mut self, bytes: usize) {
        self.bytes_left = self.bytes_left.saturating_sub(bytes as u64);
    }

    /// Takes the path of the present znode from the budget: its bytes, and its names.
    pub fn handle_path(&mut self, path: &str) {
        self.handle_bytes(path.len());
        self.handle_levels(path.bytes().filter(|byte| *byte == b'/').count());
    }

    /// Takes names on the way to the present znode from the budget, each at [`LEVEL_BYTES`].
    pub fn handle_levels(&mut self, levels: usize) {
        self.bytes_left = self.bytes_left.saturating_sub(levels as u64 * LEVEL_BYTES);
    }

    /// How many znodes and operations the step has taken.
    pub fn looked_at(&self) -> u64 {
        self.looked_at
    }
}
