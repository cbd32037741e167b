//! Load generators: the published tests, and what else shows how fast and how small a server is,
//! beside another server in the same run.
//!
//! The path of a figure: [`cli`] picks a workload ([`latencies`], [`fill`], [`restart`],
//! [`failover`], [`join`], [`snapshot_gap`], [`watch`], [`zk_notify`], [`pubsub`]), which takes
//! turns between the targets ([`comparison`]) and says what each client does next; [`driver`] sends
//! it over [`client_zk`] sessions and measures; [`stats`] and [`meter`] keep it; [`report`] and
//! [`figures`] print it. [`process`] knows what the servers cost, [`census`] what each of several
//! does, [`null_server`] what the generator itself can do. [`ensemble`] ends and starts members of
//! one, while [`writers`] count what they were told.
//!
//! [`etcd_load`] sends etcd's requests by [`client_etcd`], whose calls share [`grpc`] with those of
//! the chunk workloads. [`etcd2`] sends requests of etcd v2 over HTTP/1.1. [`etcd_kube`] does what
//! a cluster of Kubernetes does, and looks at the servers meanwhile ([`samples`]). [`mixed`] puts
//! clients of both protocols on one server.
//!
//! [`cmdw`] and [`cmdr`] have no server: they call the chunk store in this process, with threads
//! and clocks of their own.
//!
//! It never judges: a figure is printed with what it takes to doubt it. [`differential`] has no
//! figures: it asks two servers the same, and says where they first differ.

pub mod beside_chunks;
pub mod census;
pub mod chunk_open;
pub mod cli;
pub mod client_etcd;
pub mod client_zk;
pub mod cmdr;
pub mod cmdw;
pub mod comparison;
pub mod course;
pub mod data_folder;
pub mod differential;
pub mod driver;
pub mod ensemble;
pub mod etcd2;
pub mod etcd_kube;
pub mod etcd_load;
pub mod failover;
pub mod fault;
pub mod figures;
pub mod file_system;
pub mod fill;
pub mod folder;
pub mod grpc;
pub mod idle;
pub mod interrupt;
pub mod join;
pub mod latencies;
pub mod launch;
pub mod limits;
pub mod machine_info;
pub mod meter;
pub mod mixed;
pub mod null_server;
pub mod open_files;
pub mod pace;
pub mod process;
pub mod published;
pub mod pubsub;
pub mod random;
pub mod record;
pub mod report;
pub mod reproduce;
pub mod restart;
pub mod result_files;
pub mod samples;
pub mod snapshot_gap;
pub mod snapshots;
pub mod stats;
pub mod target;
pub mod tree;
pub mod watch;
pub mod writers;
pub mod zk_notify;
