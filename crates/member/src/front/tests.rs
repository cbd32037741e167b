//! Tests of Front, with Apply and the machine behind it.

use super::*;

mod connecting;
mod limits;
mod order;
mod random;
pub(crate) mod rig;
mod scripts;
