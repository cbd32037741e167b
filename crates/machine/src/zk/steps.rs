//! What a step of a command may look at.
//!
//! A session with a million ephemerals takes longer to end than anybody may hold the state's lock,
//! and so does a multi of a megabyte. So a step of a command looks at a bounded number of znodes,
//! and a command that needs more is *paused* ([`crate::zk::pause`]).

/// Bytes of paths and data that a step may handle for each znode that it may look at. A znode with
/// more uses up the share of others: paths may be long, and names on the way to a znode many.
const BYTES_PER_ZNODE: u64 = 1024;

/// What a name on the way to a znode counts for, in bytes: finding it takes as long as copying
/// these.
const LEVEL_BYTES: u64 = 64;

/// The znodes that a step of a command may still look at, and the bytes that it may handle.
pub(crate) struct Steps {
    znodes_left: u64,
    bytes_left: u64,
    looked_at: u64,
}

impl Steps {
    /// A step of up to `znodes_max` znodes, from 1.
    pub fn new(znodes_max: u64) -> Steps {
        assert!(znodes_max > 0, "a step does something");
        let bytes_left = znodes_max.saturating_mul(BYTES_PER_ZNODE);
        Steps { znodes_left: znodes_max, bytes_left, looked_at: 0 }
    }

    /// Takes one of the znodes, or one operation. False if the step is over.
    pub fn take(&mut self) -> bool {
        if self.znodes_left == 0 || self.bytes_left == 0 {
            return false;
        }
        self.znodes_left -= 1;
        self.looked_at += 1;
        true
    }

    /// Counts bytes of the znode that was taken. They may be more than are left: then it is the
    /// last of the step.
    pub fn handle_bytes(&mut self, bytes: usize) {
        self.bytes_left = self.bytes_left.saturating_sub(bytes as u64);
    }

    /// Counts the path of the znode that was taken: its bytes, and its names.
    pub fn handle_path(&mut self, path: &str) {
        self.handle_bytes(path.len());
        self.handle_levels(path.bytes().filter(|byte| *byte == b'/').count());
    }

    /// Counts names on the way to the znode that was taken, like its bytes.
    pub fn handle_levels(&mut self, levels: usize) {
        self.bytes_left = self.bytes_left.saturating_sub(levels as u64 * LEVEL_BYTES);
    }

    /// How many znodes were taken.
    pub fn looked_at(&self) -> u64 {
        self.looked_at
    }
}
