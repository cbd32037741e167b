//! The versions that the server reports to etcd's clients.

/// The version of etcd that a server behaves like. Clients read it to choose the features that they
/// use.
pub const ETCD_VERSION: &str = "3.6.16";

/// The version of the cluster and of its storage, as etcd shows both: without the patch number.
pub const CLUSTER_VERSION: &str = "3.6.0";
