#![allow(clippy::unwrap_used)]

use super::super::p521;
use super::*;
use rustls::pki_types::pem::PemObject;
use std::time::Duration;

/// The time of the tests, 2026-01-01, in s since 1970. All certificates are valid then, except
/// those made to fail.
const NOW: u64 = 1_767_225_600;

fn certificates(name: &str) -> Vec<CertificateDer<'static>> {
    let path = format!("{}/../quorate/tests/fixtures/tls/{name}.pem", env!("CARGO_MANIFEST_DIR"));
    CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap).collect()
}

fn verifier(trusted: &[&str]) -> ClientVerifier {
    let trusted = trusted.iter().flat_map(|name| certificates(name)).collect();
    let rules = Arc::new(Rules::new(Default::default()));
    ClientVerifier::new(trusted, rules, true, &Arc::new(p521::provider())).unwrap()
}

fn verify_at(now: u64, trusted: &[&str], shown: &str) -> Result<(), CertificateError> {
    let chain = certificates(shown);
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
    match verifier(trusted).verify_client_cert(&chain[0], &chain[1..], now) {
        Ok(_) => Ok(()),
        Err(Error::InvalidCertificate(error)) => Err(error),
        Err(error) => panic!("{shown}: {error}"),
    }
}

fn check(trusted: &[&str], shown: &str) {
    assert_eq!(verify_at(NOW, trusted, shown), Ok(()), "{shown}");
}

fn check_refused(trusted: &[&str], shown: &str, expected: CertificateError) {
    assert_eq!(verify_at(NOW, trusted, shown), Err(expected), "{shown}");
}

#[test]
fn what_an_authority_vouches_for_is_believed() {
    check(&["ca"], "client");
    check(&["other-ca", "ca"], "client");
    check(&["ca"], "client-chained");
    check_refused(&["ca"], "stranger", CertificateError::UnknownIssuer);
    check_refused(&["other-ca"], "client", CertificateError::UnknownIssuer);
    check_refused(&["other-ca"], "client-chained", CertificateError::UnknownIssuer);
}

#[test]
fn p_521_is_believed_with_each_digest() {
    check(&["p521-ca"], "p521-leaf");
    check(&["p521-ca"], "p521-leaf-384");
    check_refused(&["ca"], "p521-leaf", CertificateError::UnknownIssuer);
}

#[test]
fn an_authority_may_be_a_client_if_a_trusted_one_has_signed_it() {
    check(&["p521-ca"], "ca-leaf");
    check(&["p521-ca"], "ca-leaf-any");
    check_refused(&["p521-ca"], "ca-leaf-server", CertificateError::InvalidPurpose);
    check_refused(&["ca"], "ca-leaf", CertificateError::UnknownIssuer);
    check_refused(&["p521-ca"], "of-ca-leaf", CertificateError::UnknownIssuer);
    check(&["ca-leaf-any"], "of-ca-leaf");
    for name in ["ca-leaf-expired", "ca-leaf-critical"] {
        assert!(verify_at(NOW, &["p521-ca"], name).is_err(), "{name}");
    }
}

#[test]
fn a_certificate_for_servers_only_is_no_clients() {
    let refused = verify_at(NOW, &["ca"], "client-server-only").unwrap_err();
    assert!(matches!(refused, CertificateError::InvalidPurposeContext { .. }), "{refused:?}");
}

#[test]
fn dates_are_kept() {
    for name in ["client-expired", "client-early"] {
        let refused = verify_at(NOW, &["ca"], name).unwrap_err();
        let refused = Error::InvalidCertificate(refused).to_string();
        assert!(
            refused.contains(if name.ends_with("early") { "not valid yet" } else { "expired" }),
            "{refused}"
        );
    }
    // Our own code checks the dates of a version 1 certificate, and of one that is trusted itself.
    let (before, after) = (NOW - 7 * 366 * 86_400, NOW + 100 * 366 * 86_400);
    for name in ["client-v1", "self-signed"] {
        let trusted = ["ca", "self-signed-trusted"];
        check(&trusted, name);
        let early = verify_at(before, &trusted, name);
        assert_eq!(early, Err(CertificateError::NotValidYet), "{name}");
        assert_eq!(verify_at(after, &trusted, name), Err(CertificateError::Expired), "{name}");
    }
}

#[test]
fn version_1_needs_a_signature_of_an_authority() {
    assert_eq!(verify_at(NOW, &["ca"], "client-v1"), Ok(()));
    let unknown = Err(CertificateError::UnknownIssuer);
    assert_eq!(verify_at(NOW, &["ca"], "stranger-v1"), unknown);
    assert_eq!(verify_at(NOW, &["other-ca"], "client-v1"), unknown);
    let mut changed = certificates("client-v1").remove(0).to_vec();
    *changed.last_mut().unwrap() ^= 1;
    let now = UnixTime::since_unix_epoch(Duration::from_secs(NOW));
    let refused = verifier(&["ca"]).verify_client_cert(&changed.into(), &[], now);
    assert_eq!(refused.unwrap_err(), Error::InvalidCertificate(CertificateError::BadSignature));
}

#[test]
fn who_is_trusted_as_a_client_vouches_for_nobody() {
    for trusted in [&["self-signed-trusted"][..], &["ca", "self-signed-trusted"]] {
        assert_eq!(verify_at(NOW, trusted, "self-signed"), Ok(()));
        for made_up in ["made-up", "made-up-v1"] {
            let unknown = Err(CertificateError::UnknownIssuer);
            assert_eq!(verify_at(NOW, trusted, made_up), unknown, "{made_up}");
        }
    }
    assert_eq!(verify_at(NOW, &["ca"], "self-signed"), Err(CertificateError::UnknownIssuer));
}

#[test]
fn any_bytes_have_an_answer() {
    let verifier = verifier(&["ca"]);
    let now = UnixTime::since_unix_epoch(Duration::from_secs(NOW));
    for name in ["client", "client-v1"] {
        let bytes = certificates(name).remove(0).to_vec();
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 0x41;
            for bytes in [changed, bytes[..index].to_vec()] {
                assert!(verifier.verify_client_cert(&bytes.into(), &[], now).is_err(), "{index}");
            }
        }
    }
}
