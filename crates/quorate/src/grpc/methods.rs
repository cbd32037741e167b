//! The methods that a face serves, found by their paths.

use std::collections::{HashMap, HashSet};

use super::status::{Code, Status};

/// The sides of a method that send a stream of messages. The other side sends exactly one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Unary,
    ClientStreaming,
    ServerStreaming,
    BidiStreaming,
}

/// One method of a face. `M` is the face's own name for it: an enum that its handler matches.
#[derive(Clone, Copy, Debug)]
pub struct Method<M> {
    /// The service with its package: `etcdserverpb.KV`.
    pub service: &'static str,
    pub name: &'static str,
    pub kind: Kind,
    pub method: M,
}

/// The method table of a face. It never changes.
#[derive(Debug)]
pub struct Methods<M> {
    by_path: HashMap<String, (M, Kind)>,
    services: HashSet<&'static str>,
}

impl<M: Copy> Methods<M> {
    /// # Panics
    /// A method occurs twice.
    pub fn new(all: impl IntoIterator<Item = Method<M>>) -> Methods<M> {
        let mut methods = Methods { by_path: HashMap::new(), services: HashSet::new() };
        for Method { service, name, kind, method } in all {
            let before = methods.by_path.insert(format!("/{service}/{name}"), (method, kind));
            assert!(before.is_none(), "/{service}/{name} is there once");
            methods.services.insert(service);
        }
        methods
    }

    /// The method of a path.
    ///
    /// # Errors
    /// No method has this path; the status is grpc-go's (`Server.handleStream`).
    pub(super) fn find(&self, path: &str) -> Result<(M, Kind), Status> {
        if let Some(found) = self.by_path.get(path) {
            return Ok(*found);
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
