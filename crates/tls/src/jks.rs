//! Reads Java key stores (JKS): the format of `keytool` before Java 9, and with `-storetype JKS`.
//!
//! A file is big-endian: magic, version, the number of entries, the entries, and a SHA-1 over the
//! password and everything before it. An entry is a private key with its chain, or a trusted
//! certificate. The digest is checked before anything else is read. Every count and length is
//! checked against the remaining bytes. Source: OpenJDK's `JavaKeyStore` and `KeyProtector`.

use sha1::{Digest, Sha1};

use super::der::{self, OCTET_STRING, OID, SEQUENCE};

/// The first bytes of every file.
pub const MAGIC: [u8; 4] = [0xfe, 0xed, 0xfe, 0xed];
/// A constant text that the digest covers, between the password and the bytes of the file.
const WHITENER: &[u8] = b"Mighty Aphrodite";
const DIGEST_BYTES: usize = 20;
/// The object identifier of JKS key protection: 1.3.6.1.4.1.42.2.17.1.1.
const PROTECTION: [u8; 10] = [0x2b, 0x06, 0x01, 0x04, 0x01, 0x2a, 0x02, 0x11, 0x01, 0x01];
/// The most entries of a file. A larger count is taken for damage.
const ENTRIES_MAX: u32 = 10_000;
const CHAIN_MAX: u32 = 100;

/// The contents of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Jks {
    /// Private keys with their certificates.
    pub keys: Vec<PrivateKey>,
    /// Trusted certificates in DER.
    pub trusted: Vec<Vec<u8>>,
}

/// A private key, with its certificate and the certificates of the issuers.
#[derive(Debug, PartialEq, Eq)]
pub struct PrivateKey {
    /// The private key as PKCS #8.
    pub key: Vec<u8>,
    /// The certificates in DER, the key's own first.
    pub chain: Vec<Vec<u8>>,
}

/// The reason why a file cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JksError {
    /// The digest does not match: the password is wrong, or the file is damaged.
    Password,
    /// A key has another password than the file.
    KeyPassword,
    /// The file is cut off or malformed at this offset.
    Malformed(usize),
}

/// Reads a file. As in ZooKeeper, its keys must have the password of the file.
pub fn read(bytes: &[u8], password: &str) -> Result<Jks, JksError> {
    let length = bytes.len().checked_sub(DIGEST_BYTES).ok_or(JksError::Malformed(0))?;
    let (content, digest) = bytes.split_at(length);
    let password = utf16(password);
    let mut hasher = Sha1::new();
    hasher.update(&password);
    hasher.update(WHITENER);
    hasher.update(content);
    if !content.starts_with(&MAGIC) {
        return Err(JksError::Malformed(0));
    }
    if hasher.finalize().as_slice() != digest {
        return Err(JksError::Password);
    }
    let mut reader = Reader { all: content, rest: content };
    reader.take(MAGIC.len())?;
    let version = reader.u32()?;
    if !(1..=2).contains(&version) {
        return Err(reader.malformed());
    }
    let mut store = Jks::default();
    for _ in 0..reader.count(ENTRIES_MAX)? {
        let kind = reader.u32()?;
        reader.text()?;
        reader.take(8)?;
        match kind {
            1 => {
                let length = reader.u32()?;
                let protected = reader.take(length as usize)?;
                let mut chain = Vec::new();
                for _ in 0..reader.count(CHAIN_MAX)? {
                    chain.push(reader.certificate(version)?);
                }
                let protected = encrypted_bytes(protected).ok_or_else(|| reader.malformed())?;
                let key = unprotect(protected, &password).ok_or(JksError::KeyPassword)?;
                store.keys.push(PrivateKey { key, chain });
            }
            2 => store.trusted.push(reader.certificate(version)?),
            _ => return Err(reader.malformed()),
        }
    }
    if reader.rest.is_empty() { Ok(store) } else { Err(reader.malformed()) }
}

/// The content of a file, and the rest of it that is not read yet.
struct Reader<'a> {
    all: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn malformed(&self) -> JksError {
        JksError::Malformed(self.all.len() - self.rest.len())
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], JksError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| self.malformed())?;
        self.rest = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, JksError> {
        let bytes = self.take(4)?.first_chunk::<4>().ok_or_else(|| self.malformed())?;
        Ok(u32::from_be_bytes(*bytes))
    }

    fn count(&mut self, max: u32) -> Result<u32, JksError> {
        let count = self.u32()?;
        if count <= max { Ok(count) } else { Err(self.malformed()) }
    }

    /// Skips a text (`DataOutputStream.writeUTF`). No text in a file matters here.
    fn text(&mut self) -> Result<(), JksError> {
        let bytes = self.take(2)?.first_chunk::<2>().ok_or_else(|| self.malformed())?;
        self.take(usize::from(u16::from_be_bytes(*bytes))).map(drop)
    }

    /// Reads a certificate. In version 2 its type comes first.
    fn certificate(&mut self, version: u32) -> Result<Vec<u8>, JksError> {
        if version == 2 {
            self.text()?;
        }
        let length = self.u32()?;
        Ok(self.take(length as usize)?.to_vec())
    }
}

/// The password in the encoding that the digest and the key protection use.
fn utf16(password: &str) -> Vec<u8> {
    password.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

/// The encrypted bytes of an `EncryptedPrivateKeyInfo`. `None` if its protection is not that of
/// JKS.
fn encrypted_bytes(mut input: &[u8]) -> Option<&[u8]> {
    let mut info = der::take_tagged(&mut input, SEQUENCE)?.content;
    let mut algorithm = der::take_tagged(&mut info, SEQUENCE)?.content;
    let oid = der::take_tagged(&mut algorithm, OID)?.content;
    let bytes = der::take_tagged(&mut info, OCTET_STRING)?.content;
    (oid == PROTECTION).then_some(bytes)
}

/// Decrypts a key. The bytes are 20 bytes of salt, the key XORed with a chain of SHA-1 (each over
/// the password and the digest before, beginning with the salt), and a SHA-1 over password and key.
fn unprotect(bytes: &[u8], password: &[u8]) -> Option<Vec<u8>> {
    let (salt, rest) = bytes.split_at_checked(DIGEST_BYTES)?;
    let (mixed, check) = rest.split_at_checked(rest.len().checked_sub(DIGEST_BYTES)?)?;
    let sha1 = |parts: [&[u8]; 2]| {
        let mut hasher = Sha1::new();
        parts.iter().for_each(|part| hasher.update(part));
        hasher.finalize()
    };
    let mut key = Vec::with_capacity(mixed.len());
    let mut digest = salt.to_vec();
    for block in mixed.chunks(DIGEST_BYTES) {
        digest = sha1([password, &digest]).to_vec();
        key.extend(block.iter().zip(&digest).map(|(byte, mask)| byte ^ mask));
    }
    (sha1([password, &key]).as_slice() == check).then_some(key)
}

#[cfg(test)]
#[path = "jks/tests.rs"]
mod tests;
