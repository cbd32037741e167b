//! The load generators behind `quorate bench`: published tests and tests of our own, which measure
//! how fast and how small a server is, beside another server in the same run.
//!
//! | folder | holds |
//! | --- | --- |
//! | [`workloads`] | the tests, by the face that they load: `zk`, `etcd`, `chunk`, `both` |
//! | [`measure`] | repeats a workload on each target, drives sessions, keeps and prints figures |
//! | [`servers`] | the servers and their processes |
//! | [`reproduce`] | the tables and charts of published documents |
//! | [`differential`] | equal requests to two servers, whose answers are compared |
//!
//! A *target* is what is measured: one server, or the servers of one ensemble. A *turn* is one run
//! of a workload on one target; in a *round* each target has one turn. A *figure* is a measured
//! quantity with a unit; it has one value for each round.
//!
//! How a figure is made: [`cli`] picks a workload. The workload takes turns between the targets
//! ([`measure::comparison`]) and decides the next request of each client. [`measure::driver`] sends
//! the requests over ZooKeeper sessions and measures the answers. [`measure::stats`] and
//! [`measure::meter`] keep the measurements; [`measure::report`] and [`measure::figures`] print
//! them.
//!
//! [`servers::process`] reads the CPU time and the memory of server processes, and
//! [`measure::census`] prints them for each server of an ensemble. [`servers::null_server`] is a
//! server that does nothing: its rate is the most that the generator can reach.
//! [`servers::ensemble`] ends and restarts members of an ensemble, while [`workloads::zk::writers`]
//! count acknowledged writes.
//!
//! The generator never judges: it prints each figure with the facts that let a reader doubt it.
//! [`differential`] measures nothing: it sends equal requests to two servers, and reports where
//! their answers first differ.

pub mod cli;
pub mod differential;
pub mod limits;
pub mod measure;
pub mod random;
pub mod reproduce;
pub mod servers;
pub mod workloads;
