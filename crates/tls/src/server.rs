//! Builds the rustls configuration for a server.

use std::sync::Arc;

use rustls::server::{NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::client_verifier::ClientVerifier;
use super::keys::Keys;
use super::rules::Rules;
use super::settings::{ClientAuth, StoreFile, TlsConfig};
use super::suites::cipher_suite_name;
use super::{TlsError, key_store, p521, read_store, subject};

/// Builds a server's configuration: its certificates, the protocols and suites that it accepts, and
/// the clients that it trusts. Logs how long the certificates are valid.
///
/// # Errors
/// A store cannot be read or used.
pub fn server_config(config: &TlsConfig, rules: &Arc<Rules>) -> Result<ServerConfig, TlsError> {
    let mut provider = p521::provider();
    if !config.cipher_suites.is_empty() {
        let wanted = |name: &str| config.cipher_suites.iter().any(|wanted| wanted == name);
        provider.cipher_suites.retain(|suite| wanted(&cipher_suite_name(*suite)));
    }
    let provider = Arc::new(provider);
    let versions: Vec<_> = [(config.tls13, &TLS13), (config.tls12, &TLS12)]
        .into_iter()
        .filter_map(|(enabled, version)| enabled.then_some(version))
        .collect();
    let store = &config.key_store;
    let keys = read_store(store, key_store::read_keys)?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions)
        .map_err(|error| store.error(format!("protocols and cipher suites: {error}")))?;
    let builder = match (&config.trust_store, config.client_auth) {
        (Some(store), ClientAuth::Want | ClientAuth::Need) => {
            let trusted = read_store(store, key_store::read_trusted)?;
            let mandatory = config.client_auth == ClientAuth::Need;
            let verifier = ClientVerifier::new(trusted, rules.clone(), mandatory, &provider)
                .map_err(|cause| store.error(cause))?;
            builder.with_client_cert_verifier(Arc::new(verifier))
        }
        _ => builder.with_client_cert_verifier(WebPkiClientVerifier::no_client_auth()),
    };
    keys.iter().for_each(|own| show_dates(store, own));
    let mut server_config = builder.with_cert_resolver(Arc::new(Keys(keys)));
    server_config.session_storage = Arc::new(NoServerSessionStorage {});
    server_config.send_tls13_tickets = 0;
    Ok(server_config)
}

/// Logs the validity of our own certificate, because clients would be the first to notice that it
/// has expired.
fn show_dates(store: &StoreFile, own: &CertifiedKey) {
    let certificate = own.cert.first().map_or(&[][..], |certificate| certificate);
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return };
    let name = subject::rfc2253(parsed.subject().as_raw()).unwrap_or_default();
    let (validity, path) = (parsed.validity(), store.path.display());
    let until = validity.not_after;
    if validity.is_valid() {
        tracing::info!("TLS: {path}: the certificate of {name} is valid until {until}");
    } else {
        let since = validity.not_before;
        tracing::warn!(
            "TLS: {path}: the certificate of {name} is valid only from {since} to {until}"
        );
    }
}
