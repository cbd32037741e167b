//! The place of a command in the order of all commands.

use crate::ids::{Ordinal, Zxid};

/// The two numbers of an applied command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The ordinal of the command.
    pub ordinal: Ordinal,
    /// The zxid that the command consumed; the last one consumed before it if it consumed none.
    pub zxid: Zxid,
}
