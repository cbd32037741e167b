//! Where a command stands in the order.

use crate::ids::{Ordinal, Zxid};

/// The numbers of an applied command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Which command it was.
    pub ordinal: Ordinal,
    /// The zxid it consumed, or the last one consumed if it did not.
    pub zxid: Zxid,
}
