//! The cipher suites that there are, by Java's names.

use rustls::SupportedCipherSuite;
use rustls::crypto::ring;

/// The names of the cipher suites that can be configured, as Java has them.
pub fn cipher_suite_names() -> Vec<String> {
    ring::default_provider().cipher_suites.into_iter().map(cipher_suite_name).collect()
}

/// Java and RFC 8446 agree on the names but for a prefix.
pub fn cipher_suite_name(suite: SupportedCipherSuite) -> String {
    let name = format!("{:?}", suite.suite());
    match name.strip_prefix("TLS13_") {
        Some(rest) => format!("TLS_{rest}"),
        None => name,
    }
}
