//! Tests of the real binary as a process: a single test program, with a module for each subject.
#![allow(clippy::unwrap_used)]

mod attack;
mod bad_input;
mod bench;
mod chaos;
mod chunks;
mod client;
mod container_znodes;
mod crash;
mod descriptors;
mod differential;
mod ensemble;
mod etcd;
mod etcd_client;
mod hung_disk;
mod images;
mod kube_apiserver;
mod levels;
mod monitoring;
mod operators;
mod reconfig;
mod refill;
mod reproduce;
mod rolling;
mod sasl;
mod server;
mod tls;
mod zk_shell;
mod zk_terminal;
