//! The place of a command in the order.

use crate::ids::{Ordinal, Zxid};

/// The numbers of an applied command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The ordinal of the command.
    pub ordinal: Ordinal,
    /// The zxid it consumed, or the last one consumed if it did not.
    pub zxid: Zxid,
}
