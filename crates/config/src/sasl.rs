//! The users of SASL and their passwords, from ZooKeeper's JAAS file or from a `quorate.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use machine::zk::acl::is_kerberos_name;
use zk::files::jaas::{self, Module};

use super::files::{ReadFile, must_read};
use super::masked::MASK;
use super::report::{ConfigError, Place, Report};

/// The default name of the JAAS file's section (`ZooKeeperSaslServer.DEFAULT_LOGIN_CONTEXT_NAME`).
const SECTION_DEFAULT: &str = "Server";

/// The prefix of an option that names a user (`ServerCnxnFactory.DIGEST_MD5_USER_PREFIX`).
const USER_PREFIX: &str = "user_";

/// The property that names the JAAS file.
pub(super) const JAAS_FILE: &str = "java.security.auth.login.config";

/// The settings of SASL, collected until [`settle`] combines them.
#[derive(Debug, Default)]
pub(super) struct SaslKeys {
    /// `java.security.auth.login.config`.
    pub jaas_file: Option<PathBuf>,
    /// `zookeeper.sasl.serverconfig`.
    pub section: Option<String>,
    /// The users of a `quorate.toml`, name to password, and the place that lists them.
    pub users: Option<(BTreeMap<String, String>, Place)>,
    /// `zookeeper.SASLAuthenticationProvider.superPassword`.
    pub super_password: Option<String>,
    /// The values of `zookeeper.superUser` and `zookeeper.superUser.*`, by key.
    pub super_users: BTreeMap<String, String>,
}

impl SaslKeys {
    pub(super) fn super_users(&self) -> BTreeSet<String> {
        self.super_users.values().cloned().collect()
    }
}

/// The path in the property: a path, or a `file:` URL. In Java a `=` in front excludes other files;
/// there are no others here.
pub(super) fn jaas_path(value: &str) -> PathBuf {
    let value = value.strip_prefix('=').unwrap_or(value);
    match value.strip_prefix("file:") {
        Some(path) => PathBuf::from(path.strip_prefix("//").unwrap_or(path)),
        None => PathBuf::from(value),
    }
}

/// The users, name to password. `None` if no source has a section of users: then SASL is not
/// offered (`ServerCnxnFactory.configureSaslLogin`). Properties whose values the JAAS file uses are
/// masked from then on.
pub(super) fn settle(
    sasl: &mut SaslKeys,
    report: &mut Report,
    properties: &mut BTreeMap<String, String>,
    read: ReadFile<'_>,
) -> Result<Option<BTreeMap<String, String>>, ConfigError> {
    let from_file = match sasl.jaas_file.clone() {
        Some(path) => users_of_file(sasl, report, properties, &path, read)?,
        None => None,
    };
    let mut users = match (from_file, sasl.users.take()) {
        (Some(_), Some((_, place))) => {
            let (key, cause) =
                ("sasl_users".to_string(), "a JAAS file names users, too".to_string());
            return Err(ConfigError::Invalid { place, key, cause });
        }
        (Some(users), None) => users,
        (None, Some((users, place))) => {
            for user in users.keys() {
                check_user(user).map_err(|cause| {
                    let (place, key) = (place.clone(), "sasl_users".to_string());
                    ConfigError::Invalid { place, key, cause }
                })?;
            }
            users
        }
        (None, None) => return Ok(None),
    };
    // As in `SaslServerCallbackHandler`, this password replaces the one in the file if the file has
    // the user.
    if let (Some(password), Some(known)) = (&sasl.super_password, users.get_mut("super")) {
        known.clone_from(password);
    }
    Ok(Some(users))
}

fn users_of_file(
    sasl: &SaslKeys,
    report: &mut Report,
    properties: &mut BTreeMap<String, String>,
    path: &Path,
    read: ReadFile<'_>,
) -> Result<Option<BTreeMap<String, String>>, ConfigError> {
    let file = path.display().to_string();
    let text = must_read(read, path)?;
    let malformed = |(line, cause)| ConfigError::Malformed { place: Place::at(&file, line), cause };
    let mut used = BTreeSet::new();
    let mut property = |name: &str| {
        used.insert(name.to_string());
        properties.get(name).cloned()
    };
    let sections = jaas::parse(&text, &mut property).map_err(malformed)?;
    // The used properties may be passwords, and the admin server shows all properties.
    properties.extend(used.into_iter().map(|name| (name, MASK.to_string())));
    let wanted = sasl.section.as_deref().unwrap_or(SECTION_DEFAULT);
    let Some(section) = sections.iter().find(|section| section.name == wanted) else {
        let message = format!("has no section {wanted:?}: SASL is not offered");
        match sasl.section.is_some() {
            true => report.warn(&Place::of(&file), JAAS_FILE, message),
            false => report.note(&Place::of(&file), JAAS_FILE, message),
        }
        return Ok(None);
    };
    let mut users = BTreeMap::new();
    for module in &section.modules {
        check_module(module).map_err(|cause| malformed((module.line, cause)))?;
        for option in &module.options {
            let Some(user) = option.key.strip_prefix(USER_PREFIX) else { continue };
            check_user(user).map_err(|cause| malformed((option.line, cause)))?;
            users.insert(user.to_string(), option.value.clone());
        }
    }
    if users.is_empty() {
        let message = format!("names no user in its section {wanted:?}: nobody can authenticate");
        report.warn(&Place::of(&file), JAAS_FILE, message);
    }
    Ok(Some(users))
}

fn check_module(module: &Module) -> Result<(), String> {
    let name = module.class.rsplit('.').next().unwrap_or_default();
    match name {
        "DigestLoginModule" => Ok(()),
        "Krb5LoginModule" => Err("Krb5LoginModule: Kerberos is not served; \
                                  org.apache.zookeeper.server.auth.DigestLoginModule is"
            .to_string()),
        _ => Err(format!(
            "{name} is not built; org.apache.zookeeper.server.auth.DigestLoginModule is"
        )),
    }
}

/// Refuses a user name that `KerberosName` cannot parse. ZooKeeper would fail on the name only
/// after the client has shown the right password.
fn check_user(user: &str) -> Result<(), String> {
    match is_kerberos_name(user) {
        true => Ok(()),
        false => Err(format!("the user {user:?} is neither a plain nor a Kerberos name")),
    }
}
