#![allow(clippy::unwrap_used)]

use super::*;

const KEYS: &[u8] = include_bytes!("../../../quorate/tests/fixtures/tls/server-ec.jks");
const TRUSTED: &[u8] = include_bytes!("../../../quorate/tests/fixtures/tls/trust.jks");
const OTHER_PASSWORD: &[u8] =
    include_bytes!("../../../quorate/tests/fixtures/tls/server-other-password.jks");

/// A file with these bytes between magic and digest, and the digest for this password.
fn signed(content: &[u8], password: &str) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(content);
    let mut hasher = Sha1::new();
    hasher.update(utf16(password));
    hasher.update(WHITENER);
    hasher.update(&bytes);
    bytes.extend_from_slice(&hasher.finalize());
    bytes
}

fn check(content: &[u8], expected: Result<Jks, JksError>) {
    assert_eq!(read(&signed(content, "p"), "p"), expected, "{content:?}");
}

#[test]
fn what_keytool_wrote_is_read() {
    let keys = read(KEYS, "secret").unwrap();
    assert_eq!((keys.keys.len(), keys.keys[0].chain.len(), keys.trusted.len()), (1, 2, 0));
    // A SEQUENCE of DER, for the certificates in the long form.
    assert!(keys.keys[0].key.starts_with(&[0x30]));
    assert!(keys.keys[0].chain.iter().all(|certificate| certificate.starts_with(&[0x30, 0x82])));
    let trusted = read(TRUSTED, "secret").unwrap();
    assert_eq!((trusted.keys.len(), trusted.trusted.len()), (0, 2));
}

#[test]
fn a_wrong_password_is_told_from_damage() {
    assert_eq!(read(KEYS, "Secret"), Err(JksError::Password));
    assert_eq!(read(KEYS, ""), Err(JksError::Password));
    assert_eq!(read(OTHER_PASSWORD, "secret"), Err(JksError::KeyPassword));
    assert_eq!(read(b"", "p"), Err(JksError::Malformed(0)));
    assert_eq!(read(&[0; 100], "p"), Err(JksError::Malformed(0)));
}

#[test]
fn every_change_is_noticed() {
    for file in [KEYS, TRUSTED] {
        for index in 0..file.len() {
            let mut changed = file.to_vec();
            changed[index] ^= 1;
            assert!(read(&changed, "secret").is_err(), "byte {index}");
            assert!(read(&file[..index], "secret").is_err(), "cut at {index}");
        }
    }
}

#[test]
fn counts_and_lengths_are_held_against_the_file() {
    check(&[0, 0, 0, 2, 0, 0, 0, 0], Ok(Jks::default()));
    check(&[0, 0, 0, 1, 0, 0, 0, 0], Ok(Jks::default()));
    check(&[0, 0, 0, 3, 0, 0, 0, 0], Err(JksError::Malformed(8)));
    check(&[0, 0, 0, 2], Err(JksError::Malformed(8)));
    check(&[0, 0, 0, 2, 0, 0, 0, 0, 0], Err(JksError::Malformed(12)));
    // One entry more than the limit.
    check(&[0, 0, 0, 2, 0, 0, 0x27, 0x11], Err(JksError::Malformed(12)));
    // A missing entry, an entry of an unknown kind, and a certificate of 4 GiB.
    check(&[0, 0, 0, 2, 0, 0, 0, 1], Err(JksError::Malformed(12)));
    let entry = [0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    check(&[&[0, 0, 0, 2, 0, 0, 0, 1][..], &entry].concat(), Err(JksError::Malformed(26)));
    let entry = [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    check(&[&[0, 0, 0, 2, 0, 0, 0, 1][..], &entry].concat(), Err(JksError::Malformed(32)));
    let entry = [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 7];
    let trusted = Jks { keys: Vec::new(), trusted: vec![vec![7]] };
    check(&[&[0, 0, 0, 2, 0, 0, 0, 1][..], &entry].concat(), Ok(trusted));
}

#[test]
fn a_password_is_utf_16() {
    let file = signed(&[0, 0, 0, 2, 0, 0, 0, 0], "\u{fc}\u{1f600}");
    assert_eq!(read(&file, "\u{fc}\u{1f600}"), Ok(Jks::default()));
}
