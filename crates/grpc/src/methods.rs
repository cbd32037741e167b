//! The table of the methods that a face serves, found by path.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::counts::CallCounts;
use super::status::Status;
use grpc_code::Code;

/// Which sides of a method (client, server) send a stream of messages. A side without a stream
/// sends exactly one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One request, one answer.
    Unary,
    /// A stream of requests, one answer.
    ClientStreaming,
    /// One request, a stream of answers.
    ServerStreaming,
    /// Streams in both directions.
    BidiStreaming,
}

/// One method of a face. `M` is a type of the face; the face's handler tells methods apart by their
/// values of `M`.
#[derive(Clone, Copy, Debug)]
pub struct Method<M> {
    /// The service with its package, as `etcdserverpb.KV`.
    pub service: &'static str,
    /// The name of the method.
    pub name: &'static str,
    /// The sides that stream.
    pub kind: Kind,
    /// The value for the face's handler to match on.
    pub method: M,
}

/// The method table of a face. It never changes.
#[derive(Debug)]
pub struct Methods<M> {
    /// All methods with their counts, in the order in which the face lists them.
    all: Vec<(Method<M>, Arc<CallCounts>)>,
    /// The index in `all` of the method with each path.
    by_path: HashMap<String, usize>,
    services: HashSet<&'static str>,
}

impl<M: Copy> Methods<M> {
    /// A table of these methods. `has_times`: the durations of calls are measured.
    ///
    /// # Panics
    /// A method occurs twice.
    pub fn new(all: impl IntoIterator<Item = Method<M>>, has_times: bool) -> Methods<M> {
        let mut methods =
            Methods { all: Vec::new(), by_path: HashMap::new(), services: HashSet::new() };
        for method in all {
            let Method { service, name, .. } = method;
            let at = methods.all.len();
            let before = methods.by_path.insert(format!("/{service}/{name}"), at);
            assert!(before.is_none(), "/{service}/{name} is there once");
            methods.services.insert(service);
            methods.all.push((method, Arc::new(CallCounts::new(has_times))));
        }
        methods
    }

    /// All methods with their counts, in the order in which the face lists them.
    pub fn all(&self) -> &[(Method<M>, Arc<CallCounts>)] {
        &self.all
    }

    /// The counts of the method with this path.
    pub fn counts_of(&self, path: &str) -> Option<&Arc<CallCounts>> {
        self.by_path.get(path).map(|at| &self.all[*at].1)
    }

    /// The method with this path, and its counts.
    ///
    /// # Errors
    /// No method has this path; the status is grpc-go's (`Server.handleStream`).
    pub(super) fn find(&self, path: &str) -> Result<&(Method<M>, Arc<CallCounts>), Status> {
        if let Some(at) = self.by_path.get(path) {
            return Ok(&self.all[*at]);
        }
        let names = path.strip_prefix('/').and_then(|names| names.rsplit_once('/'));
        let text = match names {
            None => format!("malformed method name: {path:?}"),
            Some((service, name)) if self.services.contains(service) => {
                format!("unknown method {name} for service {service}")
            }
            Some((service, _)) => format!("unknown service {service}"),
        };
        Err(Status::new(Code::Unimplemented, text))
    }
}
