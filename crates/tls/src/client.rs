//! Builds rustls configurations for clients.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;

use super::keys::Keys;
use super::p521;
use super::rules::Rules;
use super::server_verifier::{AnyServer, ServerVerifier};
use super::trust::Trust;

/// Builds a client's configuration: its own keys, the certificates it trusts, further rules, and
/// whether it checks the server's name.
///
/// # Errors
/// A trusted certificate cannot be used; the error is one line.
pub fn client_config(
    keys: Vec<Arc<CertifiedKey>>,
    trusted: Vec<CertificateDer<'static>>,
    rules: Arc<Rules>,
    checks_name: bool,
) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(p521::provider());
    let trust = Trust::new(trusted, &provider)
        .map_err(|error| format!("the certificates of the trust store: {error}"))?;
    config_with(provider, keys, Arc::new(ServerVerifier { trust, rules, checks_name }))
}

/// Builds a configuration that accepts any certificate of a server.
///
/// # Errors
/// The library supports no version of TLS.
pub fn config_of_any_server(keys: Vec<Arc<CertifiedKey>>) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(p521::provider());
    let verifier = Arc::new(AnyServer(provider.signature_verification_algorithms));
    config_with(provider, keys, verifier)
}

fn config_with(
    provider: Arc<CryptoProvider>,
    keys: Vec<Arc<CertifiedKey>>,
    verifier: Arc<dyn ServerCertVerifier>,
) -> Result<Arc<ClientConfig>, String> {
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(Keys(keys)));
    Ok(Arc::new(config))
}
