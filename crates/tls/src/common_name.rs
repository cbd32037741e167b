//! Reads the common name of a certificate.

use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// The common name in the subject of a client's certificate; empty if it has none. If it has
/// several, the last one counts, as in Go (`pkix.Name.FillFromRDNSequence`).
pub fn common_name(certificate: &[u8]) -> String {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return String::new() };
    let names = parsed.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    names.last().unwrap_or_default().to_string()
}
