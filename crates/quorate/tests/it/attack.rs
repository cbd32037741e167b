//! Attacks by requests that are small on the wire and expensive for the server, while a
//! well-behaved client uses each protocol. The server must survive with bounded memory, the
//! well-behaved clients must get right answers, and after a restart the data must be there. How
//! long clients waited is printed but not checked.
//!
//! With `QUORATE_ATTACK_LARGE=1`, the tests in `honest` use 1,000,000 keys instead of 200,000, and
//! those in `etcd_watches` 1,000,000 watches instead of 100,000.

mod answers;
mod chunk_load;
mod encoded_size;
mod etcd_watches;
mod honest;
mod leases;
mod locks;
mod old_logs;
mod requests;
mod rig;
mod three;
mod transactions;
mod trees;
mod uploads;
mod watches;
