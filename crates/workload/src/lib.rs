//! Streams of operations on a coordination service, and the judges of what its clients saw.
//!
//! - [`op`]: an operation as a client asks it, and the answers it can get.
//! - [`generate`]: streams of operations from a seed.
//! - [`history`]: everything that every client sent and received, in order.
//! - [`model`]: ZooKeeper's tree and sessions, written a second time and as plainly as can be.
//! - [`order`]: the judge. It replays the committed order on the model and holds every answer and
//!   every event against it.
//! - [`linear`]: the judge of an ensemble. It knows only the order that the zxids in the replies
//!   give.
//! - [`etcd`]: all of this for etcd's keys.
//! - [`changed_input`]: inputs of decoders, changed by chance.
//!
//! Nothing here imports the state machine: a judge must not share the bugs of the accused.

pub mod changed_input;
pub mod etcd;
pub mod generate;
pub mod history;
pub mod limits;
pub mod linear;
pub mod model;
pub mod op;
pub mod order;
