//! Tests of the keys about TLS for clients.

use ::tls::key_store::StoreKind;

use super::*;
use crate::tls::{ClientAuth, Password, TlsConfig};

const STORES: &str = "ssl.keyStore.location=/k.jks\nssl.trustStore.location=/t.p12\n";

/// A `zoo.cfg` with a TLS port on line 3, its two stores, and then these lines from line 6 on.
fn secure(lines: &str) -> World {
    zoo(&format!("secureClientPort=2281\n{STORES}{lines}"))
}

fn tls(lines: &str) -> TlsConfig {
    let config = secure(lines).config();
    assert!(config.replicated.x509_enabled);
    config.tls.unwrap()
}

#[test]
fn a_port_for_tls_needs_stores_and_switches_the_x509_scheme_on() {
    let config = secure("").config();
    assert_eq!(config.listeners.zk_addr.unwrap().to_string(), "*:2181");
    assert_eq!(config.listeners.zk_tls_addr.unwrap().to_string(), "*:2281");
    assert!(config.replicated.x509_enabled);
    assert!(!config.listeners.port_unification);
    let tls = config.tls.unwrap();
    assert_eq!(tls.key_store.path, Path::new("/k.jks"));
    assert_eq!(tls.key_store.place.to_string(), "conf/zoo.cfg:4");
    assert_eq!(tls.trust_store.unwrap().path, Path::new("/t.p12"));
    assert_eq!((tls.client_auth, tls.tls12, tls.tls13), (ClientAuth::Need, true, true));
    assert_eq!((tls.reload, tls.handshakes_max, tls.super_user), (true, 0, None));
    assert_eq!(secure("").warnings(), Vec::<String>::new());

    let error = |lines: &str| zoo(lines).error();
    assert_eq!(
        error("secureClientPort=2281\n"),
        "conf/zoo.cfg: ssl.keyStore.location is not set: TLS needs a key"
    );
    let no_trust = error("secureClientPort=2281\nssl.keyStore.location=/k.jks\n");
    assert!(no_trust.contains("ssl.trustStore.location is not set"), "{no_trust}");
    assert!(no_trust.ends_with("set it, or ssl.clientAuth=none"), "{no_trust}");
    assert_eq!(
        error("secureClientPortAddress=zk\n"),
        "conf/zoo.cfg:3: secureClientPortAddress is set but secureClientPort is not"
    );
    assert_eq!(
        error("secureClientPort=x\n"),
        "conf/zoo.cfg:3: secureClientPort: \"x\" is not a port"
    );
}

#[test]
fn a_server_may_speak_nothing_but_tls() {
    let lines = "dataDir=/d\nsecureClientPort=2281\nsecureClientPortAddress=::1\n";
    let config = World::zoo(&format!("{lines}{STORES}")).config();
    assert_eq!(config.listeners.zk_addr, None);
    assert_eq!(config.listeners.zk_tls_addr.unwrap().to_string(), "[::1]:2281");
}

#[test]
fn one_port_may_take_both() {
    let config = zoo(&format!("client.portUnification=true\n{STORES}")).config();
    assert!(config.listeners.port_unification);
    assert_eq!(config.listeners.zk_tls_addr, None);
    assert!(config.tls.is_some());
    assert!(config.replicated.x509_enabled);
    let off = zoo(&format!("client.portUnification=false\n{STORES}"));
    assert_eq!(off.config().tls, None);
    assert!(!off.config().replicated.x509_enabled);
}

#[test]
fn without_a_port_the_keys_mean_nothing_not_even_errors() {
    let world = zoo(&format!("{STORES}ssl.clientAuth=maybe\nssl.ciphersuites=x\n"));
    assert_eq!(world.config().tls, None);
    assert_eq!(world.warnings(), ["conf/zoo.cfg:3: ssl.keyStore.location"]);
    assert_eq!(flags("-Dzookeeper.ssl.ciphersuites=x").warnings(), Vec::<String>::new());
}

#[test]
fn every_key_is_understood() {
    let found = tls(
        "ssl.keyStore.password=secret\nssl.keyStore.type=pem\nssl.trustStore.passwordPath=/p\n\
         ssl.trustStore.password=not this\nssl.clientAuth=want\nssl.protocol=TLSv1.2\n\
         ssl.ciphersuites=TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n\
         client.certReload=false\nnetty.server.outstandingHandshake.limit=7\n\
         X509AuthenticationProvider.superUser=CN=root,O=c\n",
    );
    assert_eq!(found.key_store.password, Password::Text("secret".to_string()));
    assert_eq!(found.key_store.kind, Some(StoreKind::Pem));
    assert_eq!(found.trust_store.unwrap().password, Password::File("/p".into()));
    assert_eq!((found.client_auth, found.tls12, found.tls13), (ClientAuth::Want, true, false));
    assert_eq!(found.cipher_suites.len(), 2);
    assert_eq!((found.reload, found.handshakes_max), (false, 7));
    assert_eq!(found.super_user.as_deref(), Some("CN=root,O=c"));
    let versions = |lines: &str| (tls(lines).tls12, tls(lines).tls13);
    assert_eq!(versions("ssl.protocol=TLSv1.3"), (false, true));
    assert_eq!(
        versions("ssl.protocol=TLSv1.3\nssl.enabledProtocols=TLSv1.2,TLSv1.3"),
        (true, true)
    );
    assert_eq!(versions("ssl.protocol=TLS"), (true, true));
    let none = secure("ssl.clientAuth=none").jvmflags("-Dzookeeper.ssl.clientAuth=want");
    assert_eq!(none.config().tls.unwrap().client_auth, ClientAuth::None);
    let from_flags = zoo("secureClientPort=2281")
        .jvmflags("-Dzookeeper.ssl.keyStore.location=/k.pem -Dzookeeper.ssl.clientAuth=NONE");
    assert_eq!(from_flags.config().tls.unwrap().key_store.place.to_string(), "JVMFLAGS");
}

#[test]
fn values_that_cannot_be_are_errors_and_what_is_not_built_a_warning() {
    let check = |line: &str, expected: &str| {
        let error = secure(line).error();
        assert!(error.starts_with("conf/zoo.cfg:6: ") && error.contains(expected), "{error}");
    };
    check("ssl.clientAuth=maybe", "ssl.clientAuth: \"maybe\" is not one of none, want and need");
    check("ssl.keyStore.type=BCFKS", "BCFKS is not built");
    check("ssl.trustStore.type=x", "is not one of JKS, PEM and PKCS12");
    check("ssl.enabledProtocols=TLSv1.1,SSLv3", "no others are built");
    check("ssl.ciphersuites=TLS_RSA_WITH_AES_128_CBC_SHA", "has none of TLS_AES_");
    check("client.certReload=yes", "neither true nor false");
    check("netty.server.outstandingHandshake.limit=x", "is not a whole number");
    for line in [
        "ssl.crl=true",
        "ssl.ocsp=true",
        "ssl.clientHostnameVerification=true",
        "ssl.enabledProtocols=TLSv1.2,TLSv1.1",
        "ssl.ciphersuites=TLS_AES_128_GCM_SHA256,TLS_RSA_WITH_AES_128_CBC_SHA",
        "ssl.authProvider=other",
        "ssl.context.supplier.class=a.B",
        "ssl.noSuchThing=1",
    ] {
        assert_eq!(secure(line).warnings().len(), 1, "{line}");
    }
    for line in [
        "ssl.crl=false",
        "ssl.hostnameVerification=true",
        "ssl.clientHostnameVerification=false",
        "ssl.handshakeDetectionTimeoutMillis=5000",
        "fips-mode=false",
        "ssl.authProvider=x509",
        "ssl.keyStore.password=",
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
    ] {
        assert_eq!(secure(line).warnings(), Vec::<String>::new(), "{line}");
    }
}

#[test]
fn the_scheme_may_be_switched_on_without_tls() {
    let provider = "org.apache.zookeeper.server.auth.X509AuthenticationProvider";
    assert!(zoo(&format!("authProvider.x509={provider}")).config().replicated.x509_enabled);
    assert!(!zoo("").config().replicated.x509_enabled);
}

#[test]
fn enforcing_certificates_needs_a_port_that_asks_for_them() {
    let enforced = "enforce.auth.enabled=true\nenforce.auth.schemes=x509\n";
    assert_eq!(secure(enforced).warnings(), Vec::<String>::new());
    assert_eq!(secure(&format!("{enforced}ssl.clientAuth=none")).warnings().len(), 1);
    let error = zoo(enforced).error();
    assert!(error.ends_with("the enforced scheme \"x509\" is not available"), "{error}");
}

#[test]
fn a_password_is_never_shown() {
    let shown = format!("{:?}", tls("ssl.keyStore.password=secret"));
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn our_own_file_says_the_same() {
    let config = World::toml(
        "zk_addr = \"127.0.0.1:1\"\nzk_tls_addr = \"*:2\"\ntls_key_store = \"/k\"\n\
         tls_key_store_type = \"PEM\"\ntls_key_store_password = \"s\"\ntls_trust_store = \"/t\"\n\
         tls_trust_store_type = \"JKS\"\ntls_trust_store_password_file = \"/p\"\n\
         tls_client_auth = \"want\"\ntls_protocols = [\"TLSv1.3\"]\n\
         tls_cipher_suites = [\"TLS_AES_128_GCM_SHA256\"]\ntls_reload = false\n\
         tls_handshakes_max = 3\nx509_super_user = \"CN=root\"\ntls_port_unification = true\n",
    )
    .config();
    assert_eq!(config.listeners.zk_tls_addr.unwrap().to_string(), "*:2");
    assert!(config.listeners.port_unification);
    let tls = config.tls.unwrap();
    assert_eq!(
        (tls.key_store.key.as_str(), tls.key_store.kind),
        ("tls_key_store", Some(StoreKind::Pem))
    );
    assert_eq!(tls.key_store.place.to_string(), "quorate.toml:3");
    assert_eq!(tls.trust_store.unwrap().password, Password::File("/p".into()));
    assert_eq!((tls.client_auth, tls.tls12, tls.reload), (ClientAuth::Want, false, false));
    assert_eq!((tls.handshakes_max, tls.super_user.as_deref()), (3, Some("CN=root")));

    let error = World::toml("zk_tls_addr = \"*:2\"\n").error();
    assert_eq!(error, "quorate.toml: tls_key_store is not set: TLS needs a key");
    let error = World::toml("tls_reload = 1\n").error();
    assert!(error.starts_with("quorate.toml:1: tls_reload: cannot be"), "{error}");
}
