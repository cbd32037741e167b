//! Load generators: the published tests, and what else shows how fast and how small a server is,
//! beside another server in the same run.
//!
//! | folder | holds |
//! | --- | --- |
//! | [`workloads`] | the tests, by the face that they load: `zk`, `etcd`, `chunk`, `both` |
//! | [`measure`] | turns between targets, driven sessions, figures, what is printed and kept |
//! | [`servers`] | the servers and their processes |
//! | [`reproduce`] | the tables and charts of published documents |
//! | [`differential`] | equal requests to two servers, whose answers are compared |
//!
//! The path of a figure: [`cli`] picks a workload, which takes turns between the targets
//! ([`measure::comparison`]) and says what each client does next; [`measure::driver`] sends it over
//! sessions of ZooKeeper and measures; [`measure::stats`] and [`measure::meter`] keep it;
//! [`measure::report`] and [`measure::figures`] print it. [`servers::process`] knows what the
//! servers cost, [`measure::census`] what each of several does, [`servers::null_server`] what the
//! generator itself can do. [`servers::ensemble`] ends and starts members of one, while
//! [`workloads::zk::writers`] count what they were told.
//!
//! It never judges: a figure is printed with what it takes to doubt it. [`differential`] has no
//! figures: it asks two servers the same, and says where they first differ.

pub mod cli;
pub mod differential;
pub mod limits;
pub mod measure;
pub mod random;
pub mod reproduce;
pub mod servers;
pub mod workloads;
