//! Requests that are small on the wire and dear behind it, each beside a well-behaved client of
//! each face. The server lives, its memory has a bound, the others get right answers, and a restart
//! has the data. How long somebody waited is printed, and never asserted.
//!
//! `QUORATE_ATTACK_LARGE=1` runs honest requests with 1,000,000 keys instead of 200,000.

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
