//! Random streams of operations for a coordination service, and the judges of what its clients saw.
//!
//! - [`op`]: an operation as a client sends it, and the answers that it can get.
//! - [`generate`]: streams of operations from a seed.
//! - [`history`]: everything that every client sent and received, in order.
//! - [`model`]: ZooKeeper's tree and sessions, written a second time, as plainly as possible.
//! - [`order`]: the judge that knows the committed order. It replays the order on the model and
//!   checks every answer and every event against it.
//! - [`linear`]: the judge that has only what clients saw. It takes the order from the zxids in
//!   replies.
//! - [`etcd`]: all of this for etcd's keys.
//! - [`changed_input`]: random changes to the inputs of decoders.
//!
//! Nothing here imports the state machine, since a judge must not share the bugs of the accused.

pub mod changed_input;
pub mod etcd;
pub mod generate;
pub mod history;
pub mod limits;
pub mod linear;
pub mod model;
pub mod op;
pub mod order;
