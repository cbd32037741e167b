//! The machine: all replicated state behind one door, and apply.

use std::fmt;

use crate::change::ChangeBatch;
use crate::command::Command;
use crate::control::{self, Control};
use crate::digest::Digest;
use crate::entry::Framed;
use crate::ids::{LogIndex, Ordinal, Origin};
use crate::image::Freeze;
use crate::limits::{LOOK_AHEAD_COMMANDS_MIN, ZNODES_MAX};
use crate::mark::Mark;
use crate::reply::{Outcome, Reply};
use crate::stamp::Stamp;
use crate::together::Together;
use crate::zk::txn::Call;
use crate::zk::{self, Zk};

/// All replicated state. One writer (Apply); readers hold the one lock for a short time.
pub struct Machine {
    pub(crate) control: Control,
    pub(crate) zk: Zk,
    /// The last whole entry applied.
    pub(crate) index: LogIndex,
    /// The last command applied.
    pub(crate) ordinal: Ordinal,
    /// While an image is taken: what belongs to no space.
    pub(crate) freeze: Option<Freeze>,
    /// Not state: what a command is to install, and what one has replaced.
    pub(crate) prepared: Option<PreparedImage>,
    pub(crate) replaced: Option<Box<Machine>>,
}

/// An image that was read and checked, and is not installed yet.
#[derive(Debug)]
pub struct PreparedImage {
    /// Names it in the log: the hash of the file that it came in.
    pub hash: u128,
    /// The state.
    pub machine: Box<Machine>,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Machine");
        shown.field("index", &self.index).field("mark", &self.mark()).finish_non_exhaustive()
    }
}

impl Default for Machine {
    /// The state of a new ensemble.
    fn default() -> Self {
        Machine {
            control: Control::default(),
            zk: Zk::default(),
            index: LogIndex(1),
            ordinal: Ordinal::default(),
            freeze: None,
            prepared: None,
            replaced: None,
        }
    }
}

impl Machine {
    /// Whether the batch is the next of its origin, and notes it. A duplicate, a gap or an older
    /// boot is to be skipped: its member sends again what is missing.
    pub fn begin_batch(&mut self, origin: Origin, sequence: u64) -> bool {
        self.control.begin_batch(origin, sequence)
    }

    /// Loads the places in the tree of what some commands change, which are to be applied next. It
    /// changes nothing: many loads at once take little longer than one.
    pub fn look_ahead(&self, commands: &[Framed<'_>]) {
        if commands.len() < LOOK_AHEAD_COMMANDS_MIN {
            return;
        }
        self.zk.tree.touch(commands.iter().filter_map(|framed| match &framed.command {
            Command::Zk(zk::command::Command::Write { op, .. }) => op.path(),
            _ => None,
        }));
    }

    /// Applies one command of a batch that was begun: gives it its ordinal, changes the state,
    /// says what came of it, and appends what others may watch to `changes`.
    pub fn apply(
        &mut self,
        stamp: &Stamp<'_>,
        command: &Command<'_>,
        changes: &mut ChangeBatch,
    ) -> Reply {
        self.ordinal = self.ordinal.next();
        let outcome = match command {
            Command::Control(command) => {
                self.apply_control(stamp, command, changes);
                Outcome::Control
            }
            Command::Zk(command) => {
                let call = Call { stamp, ordinal: self.ordinal };
                Outcome::Zk(self.zk.apply(call, command, changes))
            }
        };
        Reply { mark: self.mark(), outcome }
    }

    fn apply_control(
        &mut self,
        stamp: &Stamp<'_>,
        command: &control::Command,
        changes: &mut ChangeBatch,
    ) {
        let change = match command {
            control::Command::InstallImage { hash } => {
                return self.install_image(stamp, *hash, changes);
            }
            control::Command::Register { member, server } => {
                self.control.register(*member, *server)
            }
            control::Command::Forget { member } => self.control.forget(*member),
            control::Command::Nothing => return,
            control::Command::Raise(stated) => {
                let Some(raised) = self.control.raise(stated) else { return };
                raised
            }
            control::Command::SetServers(list) => {
                let set = self.control.set_servers(list, stamp.origin.member, self.ordinal);
                changes.push(self.mark(), set, "");
                return self.zk.show_servers_to_clients(self.ordinal, stamp, list, changes);
            }
        };
        changes.push(self.mark(), change, "");
    }

    /// Notes that everything up to `index` is applied. Called at the end of each entry, also of
    /// those that hold no commands.
    pub fn finish_entry(&mut self, index: LogIndex) {
        assert!(index.0 == self.index.0 + 1, "entries are applied without a gap");
        self.index = index;
    }

    /// Makes room for this many more znodes at once, so that applying what creates them does not
    /// make it in steps. Memory only: any number is right.
    pub fn reserve_znodes(&mut self, count: u32) {
        let room = ZNODES_MAX.saturating_sub(self.zk.tree.znode_count());
        self.zk.tree.reserve(count.min(room));
    }

    /// Computes no digest of znodes that change from now on, until [`Machine::settle_digest`]; none
    /// may be asked for meanwhile, nor an image. For a start, which replays many commands.
    pub fn defer_digest(&mut self) {
        assert!(self.freeze.is_none(), "an image has the digest");
        self.zk.tree.defer_digest();
    }

    /// Computes what was deferred: the digest is what it would be.
    pub fn settle_digest(&mut self, together: Together) {
        self.zk.tree.settle_digest(together);
    }

    /// The last whole entry applied.
    pub fn index(&self) -> LogIndex {
        self.index
    }

    /// Where the last command stands.
    pub fn mark(&self) -> Mark {
        Mark { ordinal: self.ordinal, zxid: self.zk.zxid }
    }

    /// What belongs to the ensemble.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// What ZooKeeper's clients see.
    pub fn zk(&self) -> &Zk {
        &self.zk
    }

    /// The digest of everything replicated: each space adds its own terms.
    pub fn digest(&self) -> Digest {
        let mut digest = self.zk.digest();
        digest.add(self.control.digest(self.ordinal));
        digest
    }
}

#[cfg(test)]
pub(crate) mod tests;
