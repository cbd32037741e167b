//! Settings that can change the outcome of a command. They are replicated state, which only a
//! command changes, so members with different configuration files still reach equal states.

use crate::codec::{DecodeError, Reader, Write};
use crate::level::Level;

/// The replicated settings. Each field's comment names the ZooKeeper property behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `zookeeper.skipACL`: whether all permission checks are skipped.
    pub skip_acl: bool,
    /// `zookeeper.DigestAuthenticationProvider.enabled`: whether the digest scheme exists.
    pub digest_enabled: bool,
    /// `zookeeper.extendedTypesEnabled`: whether TTL znodes may be made.
    pub extended_types: bool,
    /// `zookeeper.enforceQuota`: whether hard quotas refuse writes.
    pub enforce_quota: bool,
    /// `reconfigEnabled`: whether reconfig is served.
    pub reconfig_enabled: bool,
    /// `standaloneEnabled`: whether a reconfig must leave two voters. Off only from level 5 on.
    pub standalone_enabled: bool,
    /// `zookeeper.authProvider.x509`: whether the x509 scheme exists. Using TLS for clients sets it
    /// too.
    pub x509_enabled: bool,
    /// `zookeeper.DigestAuthenticationProvider.superDigest`: `user:base64(hash)`, or `None`.
    pub super_digest: Option<String>,
    /// `zookeeper.DigestAuthenticationProvider.digestAlg`: the name of the hash, as Java spells it.
    pub digest_algorithm: String,
    /// `authProvider.N` names `SASLAuthenticationProvider`: whether the sasl scheme exists in ACLs.
    pub sasl_enabled: bool,
    /// `zookeeper.letAnySaslUserDoX`: the id that matches every sasl user in an ACL, or `None`.
    pub sasl_any_user: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            skip_acl: false,
            digest_enabled: true,
            extended_types: false,
            enforce_quota: false,
            reconfig_enabled: false,
            standalone_enabled: true,
            x509_enabled: false,
            super_digest: None,
            digest_algorithm: "SHA1".to_string(),
            sasl_enabled: false,
            sasl_any_user: None,
        }
    }
}

const SKIP_ACL: u32 = 1;
const DIGEST_ENABLED: u32 = 2;
const EXTENDED_TYPES: u32 = 4;
const ENFORCE_QUOTA: u32 = 8;
const RECONFIG_ENABLED: u32 = 16;
const SASL_ENABLED: u32 = 32;
const X509_ENABLED: u32 = 64;
/// The flag that says that the id of `sasl_any_user` follows the other fields.
const SASL_ANY_USER: u32 = 128;
/// The flag is set if `standalone_enabled` is off. It needs level 5.
const STANDALONE_DISABLED: u32 = 256;
const FLAGS_ALL: u32 = 31 | SASL_ENABLED | X509_ENABLED | SASL_ANY_USER | STANDALONE_DISABLED;

impl Settings {
    /// The lowest level that knows these settings.
    pub fn level(&self) -> Level {
        if self.standalone_enabled { Level::FIRST } else { Level::MEMBERS }
    }

    /// Writes 32 bits of flags, the super digest or none, the name of the hash, and `sasl_any_user`
    /// if its flag is set.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let flag = |set: bool, bit: u32| if set { bit } else { 0 };
        out.put_u32(
            flag(self.skip_acl, SKIP_ACL)
                | flag(self.digest_enabled, DIGEST_ENABLED)
                | flag(self.extended_types, EXTENDED_TYPES)
                | flag(self.enforce_quota, ENFORCE_QUOTA)
                | flag(self.reconfig_enabled, RECONFIG_ENABLED)
                | flag(self.x509_enabled, X509_ENABLED)
                | flag(self.sasl_enabled, SASL_ENABLED)
                | flag(self.sasl_any_user.is_some(), SASL_ANY_USER)
                | flag(!self.standalone_enabled, STANDALONE_DISABLED),
        );
        out.put_optional_bytes(self.super_digest.as_deref().map(str::as_bytes));
        out.put_bytes(self.digest_algorithm.as_bytes());
        if let Some(text) = &self.sasl_any_user {
            out.put_bytes(text.as_bytes());
        }
    }

    /// Bytes that [`Settings::encode`] writes.
    pub(crate) fn encoded_bytes(&self) -> u64 {
        let super_digest = self.super_digest.as_ref().map_or(0, String::len);
        let announced = self.sasl_any_user.as_ref().map_or(0, |text| 4 + text.len());
        (4 + 4 + super_digest + 4 + self.digest_algorithm.len() + announced) as u64
    }

    /// Reads what [`Settings::encode`] wrote.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Settings, DecodeError> {
        let flags = reader.u32()?;
        if flags & !FLAGS_ALL != 0 {
            return Err(reader.bad("settings flags", u64::from(flags)));
        }
        let super_digest = match reader.optional_bytes()? {
            None => None,
            Some(bytes) => Some(
                core::str::from_utf8(bytes)
                    .map_err(|_| DecodeError::Text { offset: reader.offset() })?
                    .to_string(),
            ),
        };
        Ok(Settings {
            skip_acl: flags & SKIP_ACL != 0,
            digest_enabled: flags & DIGEST_ENABLED != 0,
            extended_types: flags & EXTENDED_TYPES != 0,
            enforce_quota: flags & ENFORCE_QUOTA != 0,
            reconfig_enabled: flags & RECONFIG_ENABLED != 0,
            standalone_enabled: flags & STANDALONE_DISABLED == 0,
            x509_enabled: flags & X509_ENABLED != 0,
            super_digest,
            digest_algorithm: reader.text()?.to_string(),
            sasl_enabled: flags & SASL_ENABLED != 0,
            sasl_any_user: match flags & SASL_ANY_USER {
                0 => None,
                _ => Some(reader.text()?.to_string()),
            },
        })
    }
}
