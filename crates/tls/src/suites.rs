//! The supported cipher suites, by Java's names.

use rustls::SupportedCipherSuite;
use rustls::crypto::ring;

/// The names of the supported cipher suites. A configuration may use these names.
pub fn cipher_suite_names() -> Vec<String> {
    ring::default_provider().cipher_suites.into_iter().map(cipher_suite_name).collect()
}

/// Java's name of a suite. It differs from the name in rustls only by a prefix.
pub fn cipher_suite_name(suite: SupportedCipherSuite) -> String {
    let name = format!("{:?}", suite.suite());
    match name.strip_prefix("TLS13_") {
        Some(rest) => format!("TLS_{rest}"),
        None => name,
    }
}
