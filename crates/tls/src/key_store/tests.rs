//! Tests with stores that other tools wrote; `tests/peers/make-tls-fixtures.sh` makes them.
#![allow(clippy::unwrap_used)]

use super::*;

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/../quorate/tests/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).unwrap()
}

fn keys(name: &str, password: &str) -> Result<Vec<Arc<CertifiedKey>>, StoreError> {
    let kind = StoreKind::from_path(Path::new(name)).unwrap();
    read_keys(&fixture(name), kind, password)
}

fn trusted(name: &str, password: &str) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let kind = StoreKind::from_path(Path::new(name)).unwrap();
    read_trusted(&fixture(name), kind, password)
}

/// Checks that a store has one usable key, with a chain of this length.
fn check(name: &str, password: &str, chain_count: usize) {
    let keys = keys(name, password).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!((keys.len(), keys[0].cert.len()), (1, chain_count), "{name}");
}

fn check_error(name: &str, password: &str, expected: &StoreError) {
    assert_eq!(keys(name, password).unwrap_err(), *expected, "{name}");
}

#[test]
fn keys_are_read_from_what_openssl_wrote() {
    check("server.pem", "", 1);
    check("server.pem", "not needed", 1);
    check("server-sec1.pem", "", 1);
    check("server-rsa.pem", "", 1);
    check("server-rsa-pkcs1.pem", "", 1);
    check("server-v1.pem", "", 1);
    check("server-encrypted.pem", "secret", 1);
    check("server-encrypted-3des.pem", "secret", 1);
    check("server.p12", "secret", 2);
    check("server-legacy.p12", "secret", 2);
}

#[test]
fn byte_order_marks_before_sections_are_no_part_of_them() {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let (server, ca) = (fixture("server.pem"), fixture("ca.pem"));
    for bytes in [[MARK, &server].concat(), [MARK, &server, MARK, &ca].concat()] {
        assert_eq!(read_keys(&bytes, StoreKind::Pem, "").unwrap().len(), 1);
    }
    let both = [MARK, &ca, MARK, &ca].concat();
    assert_eq!(read_trusted(&both, StoreKind::Pem, "").unwrap().len(), 2);
}

#[test]
fn keys_are_read_from_what_keytool_wrote() {
    check("server-keytool.p12", "secret", 2);
    check("server-rsa.jks", "secret", 2);
    // Java writes this key without its public half.
    check("server-ec.jks", "secret", 2);
}

#[test]
fn what_openssl_and_keytool_write_here_today_is_read() {
    let folder = std::env::temp_dir().join(format!("quorate-key-stores-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let run = |program: &str, arguments: &str| {
        let output = std::process::Command::new(program)
            .args(arguments.split(' '))
            .current_dir(&folder)
            .output();
        output.is_ok_and(|output| output.status.success())
    };
    let generate = "-genkeypair -alias a -dname CN=a -storepass secret";
    for (file, options) in [
        ("rsa.jks", "-keyalg RSA -storetype JKS -keypass secret"),
        ("rsa.p12", "-keyalg RSA -storetype PKCS12"),
        ("ec.p12", "-keyalg EC -groupname secp384r1"),
        ("ec.jks", "-keyalg EC -storetype JKS -keypass secret"),
        // `keytool` writes PKCS #12 since Java 9, in spite of this file name.
        ("plain.jks", "-keyalg EC"),
    ] {
        if run("keytool", &format!("{generate} {options} -keystore {file}")) {
            let kind = StoreKind::from_path(Path::new(file)).unwrap();
            let keys = read_keys(&std::fs::read(folder.join(file)).unwrap(), kind, "secret");
            assert_eq!(keys.unwrap_or_else(|error| panic!("{file}: {error}")).len(), 1);
        }
    }
    let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj /CN=a -keyout k -out c";
    if run("openssl", &format!("{new} -passout pass:secret")) {
        let pem = [folder.join("c"), folder.join("k")].map(|path| std::fs::read(path).unwrap());
        assert_eq!(read_keys(&pem.concat(), StoreKind::Pem, "secret").unwrap().len(), 1);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_store_that_cannot_be_used_says_why() {
    check_error("server.p12", "Secret", &StoreError::Password);
    check_error("server-legacy.p12", "", &StoreError::Password);
    check_error("server-keytool.p12", "secret ", &StoreError::Password);
    check_error("server-rsa.jks", "x", &StoreError::Password);
    check_error("server-other-password.jks", "secret", &StoreError::KeyPassword);
    check_error("server-encrypted.pem", "", &StoreError::NoPassword);
    check_error("server-encrypted.pem", "x", &StoreError::Password);
    check_error("server-encrypted-3des.pem", "x", &StoreError::Password);
    check_error("ca.pem", "", &StoreError::NoKey);
    check_error("trust.jks", "secret", &StoreError::NoKey);
    check_error("trust.p12", "secret", &StoreError::NoKey);
    let mut other = fixture("ca.pem");
    other.extend(fixture("server.pem"));
    assert_eq!(read_keys(&other, StoreKind::Pem, "").unwrap_err(), StoreError::KeyMismatch);
    let nothing = |kind| read_keys(b"nonsense", kind, "").unwrap_err().to_string();
    assert_eq!(nothing(StoreKind::Pem), "it holds no private key");
    assert!(nothing(StoreKind::Pkcs12).starts_with("it is not a PKCS #12 file: "));
    assert!(nothing(StoreKind::Jks).starts_with("it is not a PKCS #12 file: "));
}

#[test]
fn trusted_certificates_are_those_that_are_marked() {
    assert_eq!(trusted("ca.pem", "").unwrap().len(), 1);
    assert_eq!(trusted("trust.jks", "secret").unwrap().len(), 2);
    assert_eq!(trusted("trust.p12", "secret").unwrap().len(), 2);
    assert_eq!(trusted("trust-pkcs12.jks", "secret").unwrap().len(), 2);
    let none = Err(StoreError::NoTrusted);
    assert_eq!(trusted("trust-openssl.p12", "secret"), none);
    assert_eq!(trusted("server.p12", "secret"), none);
    assert_eq!(trusted("server-rsa.jks", "secret"), none);
    assert_eq!(read_trusted(b"", StoreKind::Pem, ""), none);
    assert_eq!(trusted("trust.p12", "x"), Err(StoreError::Password));
    assert_eq!(trusted("trust.jks", "x"), Err(StoreError::Password));
}

#[test]
fn damage_anywhere_is_an_error_and_never_more() {
    for name in ["server.pem", "server.p12", "server-ec.jks", "server-encrypted-3des.pem"] {
        let bytes = fixture(name);
        let kind = StoreKind::from_path(Path::new(name)).unwrap();
        for index in (0..bytes.len()).step_by(7) {
            let _ = read_keys(&bytes[..index], kind, "secret");
            let mut changed = bytes.clone();
            changed[index] = !changed[index];
            let _ = read_keys(&changed, kind, "secret");
            let _ = read_trusted(&changed, kind, "secret");
        }
    }
}
