//! ZooKeeper's digest scheme, which turns the credentials `user:password` into the id
//! `user:base64(hash(user:password))` (`DigestAuthenticationProvider`, ZooKeeper 3.9.5). Also small
//! helpers for identities and session secrets.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use machine::Settings;
use sha1::Digest;

/// The hash algorithms that digests can use. The property `DigestAuthenticationProvider.digestAlg`
/// names one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestAlgorithm {
    /// SHA-1, ZooKeeper's default.
    Sha1,
    /// SHA-224.
    Sha224,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
    /// SHA3-256.
    Sha3_256,
    /// SHA3-384.
    Sha3_384,
    /// SHA3-512.
    Sha3_512,
}

/// The names that Java knows. The first name of an algorithm is the one in the replicated settings.
const NAMES: [(&str, DigestAlgorithm); 10] = [
    ("SHA1", DigestAlgorithm::Sha1),
    ("SHA-1", DigestAlgorithm::Sha1),
    ("SHA", DigestAlgorithm::Sha1),
    ("SHA-224", DigestAlgorithm::Sha224),
    ("SHA-256", DigestAlgorithm::Sha256),
    ("SHA-384", DigestAlgorithm::Sha384),
    ("SHA-512", DigestAlgorithm::Sha512),
    ("SHA3-256", DigestAlgorithm::Sha3_256),
    ("SHA3-384", DigestAlgorithm::Sha3_384),
    ("SHA3-512", DigestAlgorithm::Sha3_512),
];

impl DigestAlgorithm {
    /// The algorithm that Java knows by `name`, in any case; `None` if digests cannot use it.
    pub fn from_name(name: &str) -> Option<DigestAlgorithm> {
        NAMES.iter().find(|(java, _)| java.eq_ignore_ascii_case(name)).map(|(_, it)| *it)
    }

    /// The name of the algorithm in the replicated settings.
    pub fn name(self) -> &'static str {
        let named = NAMES.iter().find(|(_, algorithm)| *algorithm == self);
        named.expect("each algorithm has a name").0
    }

    fn hash(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            DigestAlgorithm::Sha1 => sha1::Sha1::digest(bytes).to_vec(),
            DigestAlgorithm::Sha224 => sha2::Sha224::digest(bytes).to_vec(),
            DigestAlgorithm::Sha256 => sha2::Sha256::digest(bytes).to_vec(),
            DigestAlgorithm::Sha384 => sha2::Sha384::digest(bytes).to_vec(),
            DigestAlgorithm::Sha512 => sha2::Sha512::digest(bytes).to_vec(),
            DigestAlgorithm::Sha3_256 => sha3::Sha3_256::digest(bytes).to_vec(),
            DigestAlgorithm::Sha3_384 => sha3::Sha3_384::digest(bytes).to_vec(),
            DigestAlgorithm::Sha3_512 => sha3::Sha3_512::digest(bytes).to_vec(),
        }
    }
}

/// The digest id for `credentials`, which have the form `user:password`.
pub fn digest_id(algorithm: DigestAlgorithm, credentials: &str) -> String {
    let user = credentials.split(':').next().unwrap_or_default();
    format!("{user}:{}", STANDARD.encode(algorithm.hash(credentials.as_bytes())))
}

/// The identities (scheme and id) that the credentials `user:password` prove: the digest id,
/// preceded by the super user if the digest is that of `super_digest`. `None` if the settings
/// disable digests or name an unknown algorithm
/// (`DigestAuthenticationProvider.handleAuthentication`).
pub fn digest_identities(
    settings: &Settings,
    credentials: &[u8],
) -> Option<Vec<(&'static str, String)>> {
    let algorithm = DigestAlgorithm::from_name(&settings.digest_algorithm)?;
    if !settings.digest_enabled {
        return None;
    }
    let digest = digest_id(algorithm, &String::from_utf8_lossy(credentials));
    let is_super = settings.super_digest.as_deref() == Some(&digest);
    let super_user = is_super.then(|| ("super", String::new()));
    Some(super_user.into_iter().chain([("digest", digest)]).collect())
}

/// The form `user:x` of a digest id, which clients see that may not administer the znode.
pub fn masked_digest_id(id: &str) -> String {
    match id.split_once(':') {
        Some((user, _)) => format!("{user}:x"),
        None => id.to_string(),
    }
}

/// The user name of an identity in the answer to whoAmI (`AuthUtil.getClientInfos`): for a digest,
/// the part before the colon (`DigestAuthenticationProvider.getUserName`); empty for the scheme
/// `super`, which has no provider.
pub fn user_name<'a>(scheme: &str, id: &'a str) -> &'a str {
    match scheme {
        "digest" => id.split(':').next().unwrap_or_default(),
        "super" => "",
        _ => id,
    }
}

/// The secret that gives a new session its id and its password: a hash of the seed, of the number
/// of the connection runtime (`front`) and of that runtime's counter (`count`). It is as
/// unpredictable as the seed.
pub fn session_secret(seed: &[u8; 32], front: u32, count: u64) -> [u8; 32] {
    let mut hasher = sha2::Sha256::new();
    hasher.update(seed);
    hasher.update(front.to_be_bytes());
    hasher.update(count.to_be_bytes());
    hasher.finalize().into()
}

#[cfg(test)]
mod tests;
