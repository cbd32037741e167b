//! The methods that a face serves, found by their paths.

use grpc_code::Code;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::counts::CallCounts;
use super::status::Status;

/// The sides of a method that send a stream of messages. The other side sends exactly one message.
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

/// One method of a face. `M` is the face's own name for it: an enum that its handler matches.
#[derive(Clone, Copy, Debug)]
pub struct Method<M> {
    /// The service with its package: `etcdserverpb.KV`.
    pub service: &'static str,
    /// The name of the method.
    pub name: &'static str,
    /// The sides that stream.
    pub kind: Kind,
    /// The face's own name.
    pub method: M,
}

/// The method table of a face. It never changes.
#[derive(Debug)]
pub struct Methods<M> {
    /// All methods, in the order of the face.
    all: Vec<(Method<M>, Arc<CallCounts>)>,
    /// The place of each among them.
    by_path: HashMap<String, usize>,
    services: HashSet<&'static str>,
}

impl<M: Copy> Methods<M> {
    /// A table; `has_times` says whether it is measured how long calls take.
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

    /// All methods in their order, with the counts of each.
    pub fn all(&self) -> &[(Method<M>, Arc<CallCounts>)] {
        &self.all
    }

    /// The counts of the method with that path.
    pub fn counts_of(&self, path: &str) -> Option<&Arc<CallCounts>> {
        self.by_path.get(path).map(|at| &self.all[*at].1)
    }

    /// The method of a path.
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
