//! The two numbers that give an applied command its place in the order of all commands: the ordinal
//! and the zxid.

use crate::ids::{Ordinal, Zxid};

/// The place of an applied command in the order of all commands, as two numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The ordinal of the command.
    pub ordinal: Ordinal,
    /// The zxid that the command consumed; the last one consumed before it if it consumed none.
    pub zxid: Zxid,
}
