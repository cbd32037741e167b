//! The versions that clients see.

/// The version of etcd whose behaviour is served. Clients decide by it which features to use.
pub const ETCD_VERSION: &str = "3.6.16";

/// The version of all members, and of the storage, as etcd shows them: without the patch.
pub const CLUSTER_VERSION: &str = "3.6.0";
