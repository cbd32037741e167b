//! Turns etcd's flags about TLS into settings of TLS, for clients and between members
//! (`client/pkg/transport`, `TLSInfo`).

use std::path::{Path, PathBuf};

use tls::key_store::StoreKind;
use tls::suites::cipher_suite_names;

use super::flags::CLIENT_NAMES;
use super::settle::fixtures;
use super::url::Url;
use super::values::Values;
use crate::etcd::{EtcdPort, EtcdService, EtcdWire};
use crate::report::{Place, Severity, Warning};
use crate::self_signed::SelfSigned;
use crate::tls::{
    AllowedNames, CertificateRules, ClientAuth, Password, PeerTlsConfig, StoreFile, TlsConfig,
};

/// Cipher suites that Go has and our TLS library does not (`tls.CipherSuites`). A list may name
/// them; they are left out with a warning.
const SUITES_LEFT_OUT: [&str; 13] = [
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
];

/// The allowed TLS versions and cipher suites.
pub(super) struct Shape {
    pub tls12: bool,
    pub tls13: bool,
    pub cipher_suites: Vec<String>,
}

/// The error if a port speaks TLS and there is no certificate (`Config.Validate`,
/// `Etcd.serveMetrics`).
fn no_certificate(ports: &[EtcdPort]) -> &'static str {
    let mut secure = ports.iter().filter(|port| port.wire != EtcdWire::Plain);
    if secure.all(|port| port.service == EtcdService::Metrics) {
        "client TLS key/cert (--cert-file, --key-file) must be provided for metrics secure url"
    } else {
        "TLS key/cert (--cert-file, --key-file) must be provided for client urls with HTTPS scheme"
    }
}

/// TLS for clients (`None` if no port speaks TLS), and a certificate that the server must make
/// itself, if it must.
///
/// # Errors
/// A port speaks TLS and the certificate is missing, or the settings contradict each other.
pub(super) fn of_clients(
    values: &Values,
    ports: &[EtcdPort],
    data_dir: &Path,
    warnings: &mut Vec<Warning>,
) -> Result<(Option<TlsConfig>, Option<SelfSigned>), String> {
    let shape = shape(values, warnings)?;
    let is_spoken = ports.iter().any(|port| port.wire != EtcdWire::Plain);
    let (cert, key) = (values.path("cert-file"), values.path("key-file"));
    if !is_spoken {
        if cert.is_some() || values.is_on("client-cert-auth") {
            let message = "has no effect: no URL for clients has the scheme https";
            warnings.push(warning("cert-file", message));
        }
        return Ok((None, None));
    }
    let (key_store, self_signed) = match (cert, key, values.is_on("auto-tls")) {
        (Some(cert), Some(key), _) => (store("cert-file", cert, Some(key)), None),
        (None, None, true) => {
            let urls = ["listen-client-urls", "listen-client-http-urls"];
            let urls = urls.iter().flat_map(|flag| values.urls(flag)).collect::<Vec<_>>();
            let own = self_signed(values, fixtures(data_dir, "client"), &urls);
            (store_of(&own, "auto-tls"), Some(own))
        }
        (Some(_), None, _) | (None, Some(_), _) => {
            return Err(
                "KeyFile and CertFile must both be present: --cert-file, --key-file".to_string()
            );
        }
        (None, None, false) => {
            return Err(no_certificate(ports).to_string());
        }
    };
    let trust_store = values.path("trusted-ca-file").map(|ca| store("trusted-ca-file", ca, None));
    if trust_store.is_none() && values.is_on("client-cert-auth") {
        return Err(
            "--client-cert-auth needs --trusted-ca-file: the authorities of the system are \
                    not read"
                .to_string(),
        );
    }
    let rules = rules(values, "client", CLIENT_NAMES)?;
    if trust_store.is_none() && rules != CertificateRules::default() {
        let message = "clients are asked for no certificate, so no rule about theirs has an effect";
        warnings.push(warning("trusted-ca-file", message));
    }
    // As in etcd, clients must show a certificate as soon as there is an authority.
    let client_auth = if trust_store.is_some() { ClientAuth::Need } else { ClientAuth::None };
    let config = TlsConfig {
        key_store,
        trust_store,
        client_auth,
        tls12: shape.tls12,
        tls13: shape.tls13,
        cipher_suites: shape.cipher_suites,
        reload: true,
        handshakes_max: 0,
        super_user: None,
        rules,
    };
    Ok((Some(config), self_signed))
}

/// TLS between members, whose URLs all have the scheme https; and a certificate that the server
/// must make itself, if it must.
///
/// # Errors
/// A certificate or its authority is missing, or the settings contradict each other.
pub(super) fn of_peers(
    values: &Values,
    data_dir: &Path,
) -> Result<(PeerTlsConfig, Option<SelfSigned>), String> {
    let shape = shape(values, &mut Vec::new())?;
    let (cert, key) = (values.path("peer-cert-file"), values.path("peer-key-file"));
    let trust = values.path("peer-trusted-ca-file");
    let (key_store, trust_store, self_signed) = match (cert, key, values.is_on("peer-auto-tls")) {
        (Some(cert), Some(key), _) => {
            let trust = trust.ok_or(
                "--peer-cert-file needs --peer-trusted-ca-file: the authorities of the system are \
                 not read",
            )?;
            let trust_store = store("peer-trusted-ca-file", trust, None);
            (store("peer-cert-file", cert, Some(key)), Some(trust_store), None)
        }
        (None, None, true) => {
            let urls = values.urls("listen-peer-urls");
            let own = self_signed_of_peer(values, data_dir, &urls);
            (store_of(&own, "peer-auto-tls"), None, Some(own))
        }
        _ => {
            return Err("TLS key/cert (--peer-cert-file, --peer-key-file) must be provided for \
                        peer urls with HTTPS scheme"
                .to_string());
        }
    };
    let rules = rules(values, "peer", "peer-cert-allowed-cn")?;
    if trust_store.is_none() && rules != CertificateRules::default() {
        return Err(
            "--peer-crl-file, --peer-cert-allowed-cn and --peer-cert-allowed-hostname need \
                    --peer-trusted-ca-file: without it no certificate is looked at"
                .to_string(),
        );
    }
    let config = PeerTlsConfig {
        rules,
        key_store,
        trust_store,
        checks_names: true,
        checks_diallers: !values.is_on("peer-skip-client-san-verification"),
        tls12: shape.tls12,
        tls13: shape.tls13,
        cipher_suites: shape.cipher_suites,
        reload: true,
    };
    Ok((config, self_signed))
}

/// The rules that a trusted certificate must also meet. `of` is the prefix of the flags' names;
/// `common_names` is the name of the flag with common names.
///
/// # Errors
/// Both common names and host names are given.
fn rules(values: &Values, of: &str, common_names: &str) -> Result<CertificateRules, String> {
    let revoked = values.path(&format!("{of}-crl-file")).map(PathBuf::from);
    let common_names = values.texts(common_names);
    let hosts = values.texts(&format!("{of}-cert-allowed-hostname"));
    let names = match (common_names.is_empty(), hosts.is_empty()) {
        (true, true) => None,
        (false, true) => Some(AllowedNames::CommonNames(common_names)),
        (true, false) => Some(AllowedNames::Hosts(hosts)),
        (false, false) => {
            let quoted = |names: &[String]| {
                let names = names.iter().map(|name| format!("{name:?}"));
                names.collect::<Vec<_>>().join(" ")
            };
            return Err(format!(
                "AllowedCNs and AllowedHostnames are mutually exclusive (cns=[{}], \
                 hostnames=[{}])",
                quoted(&common_names),
                quoted(&hosts)
            ));
        }
    };
    Ok(CertificateRules { names, revoked })
}

fn self_signed_of_peer(values: &Values, data_dir: &Path, urls: &[Url]) -> SelfSigned {
    self_signed(values, fixtures(data_dir, "peer"), urls)
}

fn self_signed(values: &Values, dir: PathBuf, urls: &[Url]) -> SelfSigned {
    let mut hosts: Vec<String> = urls.iter().map(|url| url.host.clone()).collect();
    hosts.sort();
    hosts.dedup();
    let years = u32::try_from(values.count("self-signed-cert-validity")).unwrap_or(u32::MAX);
    SelfSigned { dir, hosts, years: years.clamp(1, YEARS_MAX) }
}

/// The longest validity of a self-signed certificate: the year of its end has four digits.
const YEARS_MAX: u32 = 1_000;

/// A store of one PEM file, or of two if the key has its own.
fn store(flag: &str, path: &str, key: Option<&str>) -> StoreFile {
    StoreFile {
        path: PathBuf::from(path),
        key_path: key.filter(|key| *key != path).map(PathBuf::from),
        kind: Some(StoreKind::Pem),
        password: Password::Text(String::new()),
        place: Place::of("etcd"),
        key: format!("--{flag}"),
    }
}

fn store_of(own: &SelfSigned, flag: &str) -> StoreFile {
    let key_path = Some(own.key_path());
    StoreFile { path: own.certificate_path(), key_path, ..store(flag, "", None) }
}

/// The allowed versions and cipher suites (`tlsutil`).
fn shape(values: &Values, warnings: &mut Vec<Warning>) -> Result<Shape, String> {
    let version = |flag| match values.text(flag) {
        "" => Ok(None),
        "TLS1.2" => Ok(Some(12)),
        "TLS1.3" => Ok(Some(13)),
        text => Err(format!("unexpected TLS version {text:?} (must be one of: TLS1.2, TLS1.3)")),
    };
    let (min, max) = (version("tls-min-version")?, version("tls-max-version")?);
    let (min, max) = (min.unwrap_or(12), max.unwrap_or(13));
    if min > max {
        return Err(format!(
            "min version ({}) is greater than max version ({})",
            values.text("tls-min-version"),
            values.text("tls-max-version")
        ));
    }
    let wanted = values.texts("cipher-suites");
    if min == 13 && !wanted.is_empty() {
        return Err("cipher suites cannot be configured when only TLS1.3 is enabled".to_string());
    }
    let cipher_suites = cipher_suites(&wanted, warnings)?;
    Ok(Shape { tls12: min <= 12, tls13: max >= 13, cipher_suites })
}

/// The wanted suites that our TLS library has. Go applies the list to TLS 1.2 only, so all suites
/// of 1.3 are added.
fn cipher_suites(wanted: &[String], warnings: &mut Vec<Warning>) -> Result<Vec<String>, String> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let known = cipher_suite_names();
    let is_of_13 = |name: &&String| !name.contains("_WITH_");
    let mut found: Vec<String> = known.iter().filter(is_of_13).cloned().collect();
    let of_13 = found.len();
    for name in wanted {
        // Go has short names for two suites.
        let full = match name.strip_suffix("_WITH_CHACHA20_POLY1305") {
            Some(_) => format!("{name}_SHA256"),
            None => name.clone(),
        };
        if known.contains(&full) {
            found.push(full);
        } else if SUITES_LEFT_OUT.contains(&name.as_str()) {
            warnings
                .push(warning("cipher-suites", &format!("{name} is not built; it is left out")));
        } else {
            return Err(format!("unexpected TLS cipher suite {name:?}"));
        }
    }
    if found.len() == of_13 {
        return Err(format!("--cipher-suites has none of {}", known.join(", ")));
    }
    Ok(found)
}

fn warning(flag: &str, message: &str) -> Warning {
    Warning {
        severity: Severity::Warning,
        place: Place::of("etcd"),
        key: format!("--{flag}"),
        message: message.to_string(),
    }
}
