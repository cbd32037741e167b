//! Bodies for input of TLS: key stores that an operator names, and certificates that clients show.

use sha1::{Digest, Sha1};
use tls::{der, jks, subject};

const STORES: [&[u8]; 3] = [
    include_bytes!("../../crates/quorate/tests/fixtures/tls/server-ec.jks"),
    include_bytes!("../../crates/quorate/tests/fixtures/tls/server-other-password.jks"),
    include_bytes!("../../crates/quorate/tests/fixtures/tls/trust.jks"),
];
const PASSWORD: &str = "secret";
const DIGEST_BYTES: usize = 20;

/// The content of a Java key store. The body appends the right digest, without which the reader
/// refuses it. The keys and certificates read must not be longer than the content.
pub fn jks(content: &[u8]) {
    let password = PASSWORD.encode_utf16().flat_map(u16::to_be_bytes);
    let mut signed: Vec<u8> = password.chain(*b"Mighty Aphrodite").collect();
    signed.extend_from_slice(content);
    let file = [content, &Sha1::digest(&signed)].concat();
    let Ok(store) = jks::read(&file, PASSWORD) else { return };
    let certificates = store.keys.iter().flat_map(|key| &key.chain).chain(&store.trusted);
    let bytes: usize = certificates.map(Vec::len).sum();
    assert!(bytes + store.keys.iter().map(|key| key.key.len()).sum::<usize>() <= content.len());
}

pub fn jks_seeds() -> Vec<Vec<u8>> {
    STORES.iter().map(|store| store[..store.len() - DIGEST_BYTES].to_vec()).collect()
}

/// The subject name of a certificate, in DER. If it can be written as text (RFC 2253), the text
/// must not be much longer than the name.
pub fn subject_name(name: &[u8]) {
    let Some(text) = subject::rfc2253(name) else { return };
    // The text has at most two hexadecimal digits for each byte, a keyword or number for each
    // attribute, and escapes.
    assert!(text.len() <= 8 * name.len() + 40, "{text}");
}

pub fn subject_name_seeds() -> Vec<Vec<u8>> {
    let attribute = |oid: &[u8], tag: u8, value: &[u8]| {
        der::wrap(der::SEQUENCE, &[&der::wrap(der::OID, &[oid]), &der::wrap(tag, &[value])])
    };
    let common_name = attribute(&[0x55, 4, 3], 0x0c, " a, b\0\u{fc} ".as_bytes());
    let unit = attribute(&[0x55, 4, 11], 0x13, b"unit");
    let email = attribute(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], 0x16, b"a@b");
    let both = der::wrap(der::SET, &[&common_name, &unit]);
    let email = der::wrap(der::SET, &[&email]);
    vec![
        der::wrap(der::SEQUENCE, &[]),
        der::wrap(der::SEQUENCE, &[&both]),
        der::wrap(der::SEQUENCE, &[&email, &both, &email]),
    ]
}
