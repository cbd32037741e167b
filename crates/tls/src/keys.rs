//! Chooses the key that is shown to the other end of a connection.

use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// The keys of a key store. A connection uses the first key whose signatures the peer can verify.
#[derive(Debug)]
pub struct Keys(pub Vec<Arc<CertifiedKey>>);

impl Keys {
    fn fitting(&self, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.iter().find(|own| own.key.choose_scheme(schemes).is_some()).cloned()
    }
}

impl ResolvesServerCert for Keys {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.fitting(hello.signature_schemes())
    }
}

impl ResolvesClientCert for Keys {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.fitting(schemes)
    }

    fn has_certs(&self) -> bool {
        !self.0.is_empty()
    }
}
