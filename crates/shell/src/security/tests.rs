//! Tests of the settings that properties give.
#![allow(clippy::unwrap_used)]

use super::*;

fn fixture(name: &str) -> String {
    format!("{}/../quorate/tests/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn of_flags(flags: &str) -> Result<(Security, Vec<String>), String> {
    Properties::read(&[("CLIENT_JVMFLAGS", flags.to_string())], None).unwrap().security()
}

fn wrong(flags: &str, expected: &str) {
    let said = of_flags(flags);
    assert!(said.as_ref().is_err_and(|text| text.contains(expected)), "{flags}: {said:?}");
}

#[test]
fn nothing_is_secure_unless_it_is_asked_for() {
    let (security, warnings) = of_flags("-Xmx1g -Dzookeeper.ssl.trustStore.location=/no").unwrap();
    assert!(security.tls.is_none() && security.login.is_none());
    assert!(warnings.is_empty());
}

#[test]
fn tls_needs_someone_to_believe() {
    let secure = "-Dzookeeper.client.secure=true";
    wrong(secure, "zookeeper.ssl.trustStore.location");
    let trust = format!("{secure} -Dzookeeper.ssl.trustStore.location={}", fixture("ca.pem"));
    let (security, warnings) =
        of_flags(&format!("{trust} -Dzookeeper.ssl.ciphersuites=X")).unwrap();
    assert!(security.tls.is_some());
    assert_eq!(warnings, ["CLIENT_JVMFLAGS: zookeeper.ssl.ciphersuites is not looked at"]);
    wrong(&format!("{trust} -Dzookeeper.ssl.trustStore.type=X"), "zookeeper.ssl.trustStore.type");
    let keys = format!("{trust} -Dzookeeper.ssl.keyStore.location=");
    wrong(&format!("{keys}/nothing/there.pem"), "/nothing/there.pem");
    let jks = format!("{keys}{} -Dzookeeper.ssl.keyStore.password=", fixture("server-ec.jks"));
    wrong(&format!("{jks}wrong"), "the password is wrong");
    assert!(of_flags(&format!("{jks}secret")).is_ok());
}

/// Writes a file for a test, and returns its path.
fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("quorate-{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_login_is_that_of_the_clients_section() {
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    let jaas = file(
        "jaas.conf",
        &format!(
            "Server {{ {module} user_bob=\"x\"; }};\n\
             Client {{ {module} username=\"bob\" password=\"s\"; }};\n\
             Other {{ com.sun.security.auth.module.Krb5LoginModule required; }};\n"
        ),
    );
    let flags = format!("-Djava.security.auth.login.config={}", jaas.display());
    let login = |more: &str| of_flags(&format!("{flags} {more}")).map(|(own, _)| own.login);
    let bob = Login { user: "bob".to_string(), password: "s".to_string() };
    assert_eq!(login(""), Ok(Some(bob)));
    assert_eq!(login("-Dzookeeper.sasl.client=false"), Ok(None));
    wrong(&format!("{flags} -Dzookeeper.sasl.clientconfig=No"), "no section \"No\"");
    wrong(&format!("{flags} -Dzookeeper.sasl.clientconfig=Other"), "Krb5LoginModule is not built");
    wrong(&format!("{flags} -Dzookeeper.sasl.clientconfig=Server"), "has no username");
    wrong("-Djava.security.auth.login.config=/nothing/there", "/nothing/there");
    std::fs::remove_file(jaas).unwrap();
}

#[test]
fn the_file_outweighs_the_flags() {
    let path = file("client.properties", "# own\na=1\nzookeeper.client.secure=false\n");
    let flags = [("JVMFLAGS", "-Da=2 -Dzookeeper.client.secure=true".to_string())];
    let all = Properties::read(&flags, Some(&path)).unwrap();
    assert_eq!((all.value("a"), all.is("zookeeper.client.secure", true)), (Some("1"), false));
    assert_eq!(all.0["a"].place.line, Some(2));
    let missing = Properties::read(&[], Some(Path::new("/nothing/there")));
    assert!(missing.is_err_and(|text| text.starts_with("-client-configuration /nothing/there: ")));
    std::fs::remove_file(path).unwrap();
}
