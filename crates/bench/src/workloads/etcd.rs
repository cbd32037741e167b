//! Workloads of etcd's clients. The modules `client` and `grpc` hold the client that they share.

pub mod client;
pub mod grpc;
pub mod kube;
pub mod performance;
pub mod v2;
