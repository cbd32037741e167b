//! The settings of client authentication, and the schemes that clients are required to use
//! (`AuthenticationHelper`, `EnsembleAuthenticationProvider`).

use std::collections::{BTreeMap, BTreeSet};

use machine::Settings;
use member::fronts::zk::auth::{AuthConfig, EnsembleNames};

use super::report::{ConfigError, Report};
use super::sasl::SaslKeys;
use super::tls::TlsConfig;

/// The settings of client authentication that the sources have given so far.
#[derive(Debug, Default)]
pub(super) struct AuthDraft {
    /// `ensembleAuthName`.
    pub ensemble_names: Option<BTreeSet<String>>,
    /// Whether the scheme `ensemble` is switched on (`EnsembleAuthenticationProvider`).
    pub has_ensemble_provider: bool,
    /// `enforce.auth.enabled`.
    pub is_enforced: bool,
    /// `enforce.auth.schemes`.
    pub enforced_schemes: BTreeSet<String>,
    /// `sessionRequireClientSASLAuth`.
    pub is_sasl_required: bool,
    pub sasl: SaslKeys,
    /// User names and passwords of SASL. Set once `sasl` is settled; `None` if SASL is not offered.
    pub sasl_users: Option<BTreeMap<String, String>>,
    /// `allowSaslFailedClients`.
    pub sasl_failed_allowed: bool,
}

impl AuthDraft {
    /// Combines the settings. Which schemes are available depends on `replicated` and `tls`.
    pub fn settle(
        mut self,
        replicated: &Settings,
        tls: Option<&TlsConfig>,
        report: &mut Report,
    ) -> Result<AuthConfig, ConfigError> {
        let enforced_schemes = self.settle_enforced_schemes(replicated, tls, report)?;
        let ensemble = self.settle_ensemble_names(report);
        Ok(AuthConfig {
            sasl_super_users: self.sasl.super_users(),
            sasl_users: self.sasl_users,
            sasl_failed_allowed: self.sasl_failed_allowed,
            ensemble,
            enforced_schemes,
        })
    }

    /// The schemes that clients are required to use, by the rules of
    /// `AuthenticationHelper.validateConfiguredProperties`; empty if none is required.
    fn settle_enforced_schemes(
        &mut self,
        replicated: &Settings,
        tls: Option<&TlsConfig>,
        report: &mut Report,
    ) -> Result<BTreeSet<String>, ConfigError> {
        if self.is_sasl_required {
            self.is_enforced = true;
            self.enforced_schemes = BTreeSet::from(["sasl".to_string()]);
        }
        if !self.is_enforced {
            return Ok(BTreeSet::new());
        }
        let schemes = std::mem::take(&mut self.enforced_schemes);
        if schemes.is_empty() {
            return Err(report.missing("authentication is enforced, but no scheme is named for it"));
        }
        for scheme in &schemes {
            match scheme.as_str() {
                "ip" => {}
                "digest" if replicated.digest_enabled => {}
                "sasl" if replicated.sasl_enabled => {
                    if self.sasl_users.is_none() {
                        let place = report.whole();
                        let message = "is required of clients, and there are no users of it: \
                                       it admits nobody";
                        report.warn(&place, scheme, message);
                    }
                }
                "ensemble" if self.has_ensemble_provider => {
                    let place = report.whole();
                    let message = "is required of clients, and proves nothing: it admits nobody";
                    report.warn(&place, scheme, message);
                }
                "x509" if replicated.x509_enabled => {
                    if !tls.is_some_and(TlsConfig::asks_for_certificates) {
                        let place = report.whole();
                        let message = "is required of clients, and no port asks them for a \
                                       certificate: it admits nobody";
                        report.warn(&place, scheme, message);
                    }
                }
                _ => {
                    let cause = format!("the enforced scheme {scheme:?} is not available");
                    return Err(report.missing(cause));
                }
            }
        }
        Ok(schemes)
    }

    /// The names that the scheme `ensemble` accepts; `None` if the scheme is off. Configured names
    /// alone do not switch it on (`EnsembleAuthenticationProvider`).
    fn settle_ensemble_names(&mut self, report: &mut Report) -> Option<EnsembleNames> {
        let names = self.ensemble_names.take();
        match (self.has_ensemble_provider, names) {
            (true, Some(names)) => Some(EnsembleNames::These(names)),
            (true, None) => Some(EnsembleNames::Any),
            (false, Some(_)) => {
                let place = report.whole();
                let message = "has no effect without authProvider.N=\
                               org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider";
                report.warn(&place, "ensembleAuthName", message);
                None
            }
            (false, None) => None,
        }
    }
}
