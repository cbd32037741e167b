#![allow(clippy::unwrap_used)]

use rustls::pki_types::pem::PemObject;

use super::*;

fn key(name: &str) -> PrivateKeyDer<'static> {
    let path = format!("{}/../quorate/tests/fixtures/tls/{name}.pem", env!("CARGO_MANIFEST_DIR"));
    PrivateKeyDer::from_pem_file(path).unwrap()
}

#[test]
fn what_a_key_signs_is_verified_and_nothing_else() {
    let own = signing_key(&key("p521-leaf")).unwrap();
    let signer = own.choose_scheme(&[SignatureScheme::ECDSA_NISTP521_SHA512]).unwrap();
    assert!(own.choose_scheme(&[SignatureScheme::ECDSA_NISTP256_SHA256]).is_none());
    let signature = signer.sign(b"message").unwrap();
    let spki = own.public_key().unwrap();
    // The point is at the end of the encoded key.
    let point = &spki[spki.len() - 133..];
    assert!(SHA512.verify_signature(point, b"message", &signature).is_ok());
    assert!(SHA384.verify_signature(point, b"message", &signature).is_err());
    assert!(SHA512.verify_signature(point, b"other", &signature).is_err());
    assert!(SHA512.verify_signature(&point[1..], b"message", &signature).is_err());
    for at in 0..signature.len() {
        let mut changed = signature.clone();
        changed[at] ^= 1;
        assert!(SHA512.verify_signature(point, b"message", &changed).is_err(), "byte {at}");
    }
    assert!(signing_key(&key("client")).is_none());
}

/// A handshake in memory in which both sides show a certificate with a P-521 key.
#[test]
fn both_sides_of_a_handshake_may_have_such_a_key() {
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
    let path =
        |name| format!("{}/../quorate/tests/fixtures/tls/{name}.pem", env!("CARGO_MANIFEST_DIR"));
    let certificates = |name| {
        let all = rustls::pki_types::CertificateDer::pem_file_iter(path(name)).unwrap();
        all.map(Result::unwrap).collect::<Vec<_>>()
    };
    let mut roots = RootCertStore::empty();
    roots.add(certificates("p521-ca").remove(0)).unwrap();
    let roots = Arc::new(roots);
    let provider = Arc::new(provider());
    let own = signing_key(&key("p521-leaf")).unwrap();
    let own = rustls::sign::CertifiedKey::new(certificates("p521-leaf"), own);
    let own = Arc::new(rustls::sign::SingleCertAndKey::from(own));
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let believes = rustls::server::WebPkiClientVerifier::builder_with_provider(
            roots.clone(),
            provider.clone(),
        );
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[version])
            .unwrap()
            .with_client_cert_verifier(believes.build().unwrap())
            .with_cert_resolver(own.clone());
        let client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots.clone())
            .with_client_cert_resolver(own.clone());
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
        let mut server = ServerConnection::new(Arc::new(server)).unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            let mut bytes = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut bytes).unwrap();
            }
            server.read_tls(&mut &bytes[..]).unwrap();
            server.process_new_packets().unwrap();
            bytes.clear();
            while server.wants_write() {
                server.write_tls(&mut bytes).unwrap();
            }
            client.read_tls(&mut &bytes[..]).unwrap();
            client.process_new_packets().unwrap();
        }
        assert_eq!(server.peer_certificates().unwrap().len(), 1);
    }
    // OpenSSL signs with SHA-384 in TLS 1.2, so this scheme must have P-521 too.
    let algorithms = provider.signature_verification_algorithms;
    let of_scheme = algorithms.mapping.iter();
    let mut of_scheme = of_scheme.filter(|(it, _)| *it == SignatureScheme::ECDSA_NISTP384_SHA384);
    let (_, found) = of_scheme.next().unwrap();
    assert!(found[0].public_key_alg_id() == alg_id::ECDSA_P384);
    assert!(found.iter().any(|it| it.public_key_alg_id() == alg_id::ECDSA_P521));
}
