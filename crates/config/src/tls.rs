//! The settings of TLS, from their keys. TLS for clients has the settings that ZooKeeper 3.9 reads
//! in `ClientX509Util`, `NettyServerCnxnFactory` and `X509AuthenticationProvider`, as
//! `zookeeper.<name>`. TLS between the servers of an ensemble has the settings of `QuorumX509Util`,
//! whose names have `ssl.quorum.` in place of `ssl.`.
//!
//! Settings are kept as text, under ZooKeeper's names even if they come from our own file. They are
//! parsed only once it is known that a port speaks TLS, as in ZooKeeper. The crate [`tls`] reads
//! the key stores; an error there names the place in the configuration.

use std::path::PathBuf;

use tls::key_store::StoreKind;
pub use tls::settings::{
    AllowedNames, CertificateRules, ClientAuth, Password, PeerTlsConfig, StoreFile, TlsConfig,
};
use tls::suites::cipher_suite_names;

use super::report::{ConfigError, Place, Report};
use super::values::{Fate, boolean, number, path, unless};

/// The settings of TLS that the sources have given so far.
#[derive(Debug, Default)]
pub(super) struct TlsDraft {
    said: Vec<Said>,
    /// The settings of TLS between servers, with `ssl.` in place of `ssl.quorum.` in their names.
    said_of_quorum: Vec<Said>,
    /// `sslQuorumReloadCertFiles`.
    pub quorum_reload: Option<bool>,
}

/// One setting, not parsed yet.
#[derive(Debug)]
struct Said {
    /// ZooKeeper's name for the setting.
    name: String,
    value: String,
    /// The key as it is spelled in its source.
    key: String,
    place: Place,
}

/// Names of the settings of TLS for clients; a `*` at the end matches any rest.
const NAMES: [&str; 6] = [
    "X509AuthenticationProvider.superUser",
    "client.certReload",
    "client.portUnification",
    "fips-mode",
    "netty.server.outstandingHandshake.limit",
    "ssl.*",
];

impl TlsDraft {
    /// Keeps a setting. Returns false if it is not about TLS.
    pub fn say(&mut self, place: &Place, key: &str, name: &str, value: &str) -> bool {
        let covers = |pattern: &&str| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *pattern,
        };
        let (said_here, name) = match name.strip_prefix("ssl.quorum.") {
            Some(rest) => (&mut self.said_of_quorum, format!("ssl.{rest}")),
            None if NAMES.iter().any(covers) => (&mut self.said, name.to_string()),
            None => return false,
        };
        said_here.retain(|said| said.name != name);
        said_here.push(Said {
            name,
            value: value.to_string(),
            key: key.to_string(),
            place: place.clone(),
        });
        true
    }

    /// Whether the port without TLS must also accept TLS. As in `Boolean.getBoolean`, every value
    /// but true means false.
    pub fn port_unification(&self) -> bool {
        let said = self.said.iter().find(|said| said.name == "client.portUnification");
        said.is_some_and(|said| said.value.eq_ignore_ascii_case("true"))
    }

    /// Combines the settings of TLS for clients. `is_spoken`: a port speaks TLS; `None` if none
    /// does.
    pub fn settle(
        &mut self,
        is_spoken: bool,
        report: &mut Report,
    ) -> Result<Option<TlsConfig>, ConfigError> {
        let said = std::mem::take(&mut self.said);
        if !is_spoken {
            if let Some(first) = said.iter().find(|said| said.name.ends_with("Store.location")) {
                report.warn(&first.place, &first.key, "no port speaks TLS; it is ignored");
            }
            return Ok(None);
        }
        let mut settings = Settings::default();
        for said in &said {
            let fate = settings.take(said);
            tell(report, said, fate)?;
        }
        settings.settle(report).map(Some)
    }

    /// Combines the settings of TLS between servers. Call it if TLS between servers is on.
    pub fn settle_quorum(&mut self, report: &mut Report) -> Result<PeerTlsConfig, ConfigError> {
        let mut settings = Settings::default();
        let mut checks_names = true;
        let mut checks_diallers = None;
        for said in std::mem::take(&mut self.said_of_quorum) {
            let fate = match said.name.as_str() {
                "ssl.hostnameVerification" => boolean(&said.value).map(|value| {
                    checks_names = value;
                    Fate::Taken
                }),
                "ssl.clientHostnameVerification" => boolean(&said.value).map(|value| {
                    checks_diallers = Some((value, said.place.clone(), said.key.clone()));
                    Fate::Taken
                }),
                "ssl.clientAuth" => client_auth(&said.value).map(|auth| {
                    unless(auth == ClientAuth::Need, "servers always show each other certificates")
                }),
                _ => settings.take(&said),
            };
            tell(report, &said, fate)?;
        }
        // The check of servers that connect needs the check of servers that are connected to
        // (`X509Util.isClientHostnameVerificationEnabled`).
        if let Some((true, place, key)) = checks_diallers.as_ref().filter(|_| !checks_names) {
            let message = "has no effect while ssl.quorum.hostnameVerification is false";
            report.warn(place, key, message);
        }
        let checks_diallers = checks_names && checks_diallers.is_none_or(|(value, ..)| value);
        let (key_store_key, trust_store_key) = match report.is_zoo_cfg || report.file.is_none() {
            true => ("ssl.quorum.keyStore.location", "ssl.quorum.trustStore.location"),
            false => ("cluster.tls_key_store", "cluster.tls_trust_store"),
        };
        let missing =
            |key| report.missing(format!("{key} is not set: TLS between servers needs it"));
        let versions = settings.versions();
        let trust_store = settings.trust_store.settle();
        Ok(PeerTlsConfig {
            key_store: settings.key_store.settle().ok_or_else(|| missing(key_store_key))?,
            trust_store: Some(trust_store.ok_or_else(|| missing(trust_store_key))?),
            checks_names,
            checks_diallers,
            tls12: versions.tls12,
            tls13: versions.tls13,
            cipher_suites: settings.cipher_suites,
            reload: self.quorum_reload.unwrap_or(true),
            rules: CertificateRules::default(),
        })
    }

    /// Warns of a key store for TLS between servers. Call it if TLS between servers is off.
    pub fn ignore_quorum(&mut self, report: &mut Report) {
        let said = std::mem::take(&mut self.said_of_quorum);
        if let Some(first) = said.iter().find(|said| said.name.ends_with("Store.location")) {
            report.warn(&first.place, &first.key, "sslQuorum is not true; it is ignored");
        }
    }
}

/// The parsed settings so far.
#[derive(Default)]
struct Settings {
    key_store: Store,
    trust_store: Store,
    client_auth: Option<ClientAuth>,
    /// `ssl.protocol`; `ssl.enabledProtocols` overrides it.
    protocol: Option<Versions>,
    enabled_protocols: Option<Versions>,
    cipher_suites: Vec<String>,
    reload: Option<bool>,
    handshakes_max: usize,
    super_user: Option<String>,
}

/// The settings of a key store or a trust store.
#[derive(Default)]
struct Store {
    /// The path of the file, the key that names the file, and the key's place.
    location: Option<(PathBuf, String, Place)>,
    kind: Option<StoreKind>,
    password: Option<String>,
    password_path: Option<PathBuf>,
}

/// The allowed versions of TLS.
#[derive(Clone, Copy, Default)]
struct Versions {
    tls12: bool,
    tls13: bool,
}

const REVOCATION_NOT_BUILT: &str =
    "revocation is not looked up: a revoked certificate is believed until it expires";
const HOSTNAMES_NOT_BUILT: &str =
    "is not built: a client's certificate is believed whatever address it comes from";

impl Settings {
    fn take(&mut self, said: &Said) -> Result<Fate, String> {
        let value = said.value.as_str();
        if let Some(name) = said.name.strip_prefix("ssl.keyStore.") {
            return self.key_store.take(said, name);
        }
        if let Some(name) = said.name.strip_prefix("ssl.trustStore.") {
            return self.trust_store.take(said, name);
        }
        match said.name.as_str() {
            "client.portUnification" => drop(boolean(value)?),
            "client.certReload" => self.reload = Some(boolean(value)?),
            "ssl.clientAuth" => self.client_auth = Some(client_auth(value)?),
            "ssl.protocol" => return versions(value, &mut self.protocol),
            "ssl.enabledProtocols" => return versions(value, &mut self.enabled_protocols),
            "ssl.ciphersuites" => return cipher_suites(value, &mut self.cipher_suites),
            "X509AuthenticationProvider.superUser" => self.super_user = Some(value.to_string()),
            "netty.server.outstandingHandshake.limit" => {
                self.handshakes_max = usize::try_from(number(value)?).unwrap_or(0);
            }
            "ssl.authProvider" => {
                return Ok(unless(value == "x509", "only x509 is built; that one is used"));
            }
            "ssl.crl" | "ssl.ocsp" => return Ok(unless(!boolean(value)?, REVOCATION_NOT_BUILT)),
            "ssl.clientHostnameVerification" => {
                return Ok(unless(!boolean(value)?, HOSTNAMES_NOT_BUILT));
            }
            "ssl.context.supplier.class" => {
                return Ok(Fate::Differs("no Java class can be used; the stores are".to_string()));
            }
            // ZooKeeper uses these as a client of other servers; members here check each other by
            // settings of their own.
            "ssl.hostnameVerification"
            | "ssl.allowReverseDnsLookup"
            | "ssl.sslProvider"
            | "ssl.handshakeDetectionTimeoutMillis"
            | "fips-mode" => return Ok(Fate::Moot),
            _ => return Ok(Fate::Unknown),
        }
        Ok(Fate::Taken)
    }
}

impl Store {
    fn take(&mut self, said: &Said, name: &str) -> Result<Fate, String> {
        let value = said.value.as_str();
        match name {
            "location" => {
                self.location = Some((path(value)?, said.key.clone(), said.place.clone()));
            }
            "password" => self.password = Some(value.to_string()),
            "passwordPath" => self.password_path = Some(path(value)?),
            "type" => self.kind = Some(StoreKind::from_name(value)?),
            _ => return Ok(Fate::Unknown),
        }
        Ok(Fate::Taken)
    }

    /// Combines the settings of a store; `None` if it has no path. A password in a file wins over
    /// one in the configuration (`X509Util.getPasswordFromConfigPropertyOrFile`).
    fn settle(self) -> Option<StoreFile> {
        let (path, key, place) = self.location?;
        let password = match self.password_path {
            Some(path) => Password::File(path),
            None => Password::Text(self.password.unwrap_or_default()),
        };
        Some(StoreFile { path, key_path: None, kind: self.kind, password, place, key })
    }
}

/// Parses `ssl.clientAuth` (`X509Util.ClientAuth.fromPropertyValue`).
fn client_auth(value: &str) -> Result<ClientAuth, String> {
    match value.to_ascii_uppercase().as_str() {
        "NONE" => Ok(ClientAuth::None),
        "WANT" => Ok(ClientAuth::Want),
        "NEED" => Ok(ClientAuth::Need),
        _ => Err(format!("{value:?} is not one of none, want and need")),
    }
}

/// Parses versions by Java's names; `TLS` means all versions.
fn versions(value: &str, into: &mut Option<Versions>) -> Result<Fate, String> {
    let mut versions = Versions::default();
    let mut left_out = Vec::new();
    for name in value.split(',') {
        match name.trim() {
            "TLSv1.2" => versions.tls12 = true,
            "TLSv1.3" => versions.tls13 = true,
            "TLS" | "Default" => versions = Versions { tls12: true, tls13: true },
            other => left_out.push(other),
        }
    }
    if !versions.tls12 && !versions.tls13 {
        return Err(format!("{value:?} has neither TLSv1.2 nor TLSv1.3, and no others are built"));
    }
    *into = Some(versions);
    Ok(fate_of(&left_out))
}

/// Parses cipher suites by name; drops those that our TLS library lacks.
fn cipher_suites(value: &str, into: &mut Vec<String>) -> Result<Fate, String> {
    let known = cipher_suite_names();
    let (suites, left_out): (Vec<&str>, Vec<&str>) =
        value.split(',').map(str::trim).partition(|name| known.iter().any(|known| known == name));
    if suites.is_empty() {
        return Err(format!("{value:?} has none of {}", known.join(", ")));
    }
    *into = suites.into_iter().map(str::to_string).collect();
    Ok(fate_of(&left_out))
}

fn fate_of(left_out: &[&str]) -> Fate {
    unless(left_out.is_empty(), &format!("not built and left out: {}", left_out.join(", ")))
}

/// Turns the fate of a setting into a warning, an error or nothing.
fn tell(report: &mut Report, said: &Said, fate: Result<Fate, String>) -> Result<(), ConfigError> {
    match fate {
        Ok(Fate::Taken | Fate::Moot) => {}
        Ok(Fate::Noted(message)) => report.note(&said.place, &said.key, message),
        Ok(Fate::Differs(message)) => report.warn(&said.place, &said.key, message),
        Ok(Fate::Unknown) => report.warn(&said.place, &said.key, "is unknown; it is ignored"),
        Err(cause) => {
            let (place, key) = (said.place.clone(), said.key.clone());
            return Err(ConfigError::Invalid { place, key, cause });
        }
    }
    Ok(())
}

impl Settings {
    fn versions(&self) -> Versions {
        let both = Versions { tls12: true, tls13: true };
        self.enabled_protocols.or(self.protocol).unwrap_or(both)
    }

    fn settle(self, report: &Report) -> Result<TlsConfig, ConfigError> {
        let is_zoo_cfg = report.is_zoo_cfg || report.file.is_none();
        let spell = |zoo_cfg, toml| if is_zoo_cfg { zoo_cfg } else { toml };
        let versions = self.versions();
        let Some(key_store) = self.key_store.settle() else {
            let key = spell("ssl.keyStore.location", "tls_key_store");
            return Err(report.missing(format!("{key} is not set: TLS needs a key")));
        };
        let trust_store = self.trust_store.settle();
        let client_auth = self.client_auth.unwrap_or(ClientAuth::Need);
        if trust_store.is_none() && client_auth == ClientAuth::Need {
            let trust = spell("ssl.trustStore.location", "tls_trust_store");
            let auth = spell("ssl.clientAuth=none", "tls_client_auth = \"none\"");
            return Err(report.missing(format!(
                "{trust} is not set: clients must show certificates, and none could be believed; \
                 set it, or {auth}"
            )));
        }
        Ok(TlsConfig {
            key_store,
            trust_store,
            client_auth,
            tls12: versions.tls12,
            tls13: versions.tls13,
            cipher_suites: self.cipher_suites,
            reload: self.reload.unwrap_or(true),
            handshakes_max: self.handshakes_max,
            super_user: self.super_user,
            rules: CertificateRules::default(),
        })
    }
}
