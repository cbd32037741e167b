//! Reads the settings of TLS and SASL where users of `zkCli.sh` have them: in Java properties, from
//! `CLIENT_JVMFLAGS`, `JVMFLAGS` or the file of `-client-configuration` (`ZKClientConfig`,
//! `ClientX509Util` and `ZooKeeperSaslClient`, 3.9.5).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tls::key_store::{StoreKind, read_keys, read_trusted};
use tls::rules::Rules;
use tls::settings::{CertificateRules, Password, Place, StoreFile};
use tls::{client_config, read_store};
use zk::files::{jaas, properties};

use crate::client::{Login, Security};

/// The default name of the section for clients in a JAAS file
/// (`ZKClientConfig.LOGIN_CONTEXT_NAME_KEY_DEFAULT`).
const SECTION_DEFAULT: &str = "Client";

/// The value of a property, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    value: String,
    place: Place,
}

/// Properties by name. Those in the file of `-client-configuration` win over the flags, as in
/// `ZKConfig`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, Property>);

impl Properties {
    /// Reads the properties in the flags, in the order in which `java` reads them, and those in the
    /// file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(flags: &[(&str, String)], file: Option<&Path>) -> Result<Properties, String> {
        let mut all = BTreeMap::new();
        for (variable, text) in flags {
            for (key, value) in properties::jvm_properties(text) {
                let place = Place { file: (*variable).to_string(), line: None };
                all.insert(key, Property { value, place });
            }
        }
        if let Some(file) = file {
            let shown = file.display().to_string();
            let read = std::fs::read_to_string(file);
            let text = read.map_err(|error| format!("-client-configuration {shown}: {error}"))?;
            let entries = properties::parse(&text)
                .map_err(|(line, cause)| format!("{shown}:{line}: {cause}"))?;
            for entry in entries {
                let place = Place { file: shown.clone(), line: Some(entry.line) };
                all.insert(entry.key, Property { value: entry.value, place });
            }
        }
        Ok(Properties(all))
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|property| property.value.as_str())
    }

    fn is(&self, name: &str, unless_set: bool) -> bool {
        self.value(name).map_or(unless_set, |value| value.eq_ignore_ascii_case("true"))
    }

    /// The settings of TLS and SASL, and a warning for each property of TLS that is ignored.
    ///
    /// # Errors
    /// A property cannot be used; the error is one line with its place.
    pub fn security(&self) -> Result<(Security, Vec<String>), String> {
        let mut warnings = Vec::new();
        let tls = match self.is("zookeeper.client.secure", false) {
            true => Some(self.tls(&mut warnings)?),
            false => None,
        };
        Ok((Security { tls, login: self.login()? }, warnings))
    }

    fn tls(
        &self,
        warnings: &mut Vec<String>,
    ) -> Result<std::sync::Arc<rustls::ClientConfig>, String> {
        let known = ["keyStore.", "trustStore.", "hostnameVerification", "sslProvider", "quorum."];
        for (name, property) in &self.0 {
            let Some(rest) = name.strip_prefix("zookeeper.ssl.") else { continue };
            if !known.iter().any(|known| rest.starts_with(known)) {
                warnings.push(format!("{}: {name} is not looked at", property.place));
            }
        }
        let Some(trust_store) = self.store("zookeeper.ssl.trustStore")? else {
            return Err("zookeeper.client.secure needs zookeeper.ssl.trustStore.location: \
                        whom to believe"
                .to_string());
        };
        let said = |error: tls::TlsError| error.to_string();
        let trusted = read_store(&trust_store, read_trusted).map_err(said)?;
        let keys = match self.store("zookeeper.ssl.keyStore")? {
            Some(store) => read_store(&store, read_keys).map_err(said)?,
            None => Vec::new(),
        };
        client_config(
            keys,
            trusted,
            std::sync::Arc::new(Rules::new(CertificateRules::default())),
            self.is("zookeeper.ssl.hostnameVerification", true),
        )
    }

    /// The key store or trust store whose properties have this prefix; `None` if it has no path.
    fn store(&self, prefix: &str) -> Result<Option<StoreFile>, String> {
        let key = format!("{prefix}.location");
        let Some(location) = self.0.get(&key).filter(|property| !property.value.is_empty()) else {
            return Ok(None);
        };
        let kind = match self.0.get(&format!("{prefix}.type")) {
            None => None,
            Some(kind) => {
                let wrong = |cause| format!("{}: {prefix}.type: {cause}", kind.place);
                Some(StoreKind::from_name(&kind.value).map_err(wrong)?)
            }
        };
        let password = match self.value(&format!("{prefix}.passwordPath")) {
            Some(path) => Password::File(PathBuf::from(path)),
            None => {
                let password = self.value(&format!("{prefix}.password"));
                Password::Text(password.unwrap_or_default().to_string())
            }
        };
        let path = PathBuf::from(&location.value);
        Ok(Some(StoreFile {
            path,
            key_path: None,
            kind,
            password,
            place: location.place.clone(),
            key,
        }))
    }

    /// The user in the JAAS file; `None` if the file has no section for clients, or SASL is off.
    fn login(&self) -> Result<Option<Login>, String> {
        const FILE: &str = "java.security.auth.login.config";
        let Some(property) = self.0.get(FILE).filter(|_| self.is("zookeeper.sasl.client", true))
        else {
            return Ok(None);
        };
        let file = property.value.trim_start_matches('=');
        let file = file.strip_prefix("file:").unwrap_or(file);
        let at = |cause: String| format!("{}: {FILE}: {file}: {cause}", property.place);
        let text = std::fs::read_to_string(file).map_err(|error| at(error.to_string()))?;
        let mut property = |name: &str| self.value(name).map(str::to_string);
        let sections = jaas::parse(&text, &mut property)
            .map_err(|(line, cause)| at(format!("{line}: {cause}")))?;
        let asked = self.value("zookeeper.sasl.clientconfig");
        let wanted = asked.unwrap_or(SECTION_DEFAULT);
        let Some(section) = sections.iter().find(|section| section.name == wanted) else {
            return match asked {
                Some(_) => Err(at(format!("it has no section {wanted:?}"))),
                None => Ok(None),
            };
        };
        let module = section.modules.first();
        let module = module.ok_or_else(|| at(format!("the section {wanted:?} is empty")))?;
        if !module.class.ends_with(".DigestLoginModule") {
            return Err(at(format!("{} is not built; DigestLoginModule is", module.class)));
        }
        let option = |key: &str| {
            let found = module.options.iter().rev().find(|option| option.key == key);
            let missing = || at(format!("the section {wanted:?} has no {key}"));
            found.map(|option| option.value.clone()).ok_or_else(missing)
        };
        Ok(Some(Login { user: option("username")?, password: option("password")? }))
    }
}

#[cfg(test)]
mod tests;
