use super::*;

#[test]
fn passwords_of_a_zoo_cfg_are_masked_and_the_rest_is_shown_as_it_stands() {
    let check = |text: &str, expected: &str| assert_eq!(zoo_cfg(text), expected);
    check(
        "dataDir=/d\n\n# a comment\nclientPort = 1\n",
        "dataDir=/d\n\n# a comment\nclientPort = 1\n",
    );
    check("ssl.keyStore.password=s3cret\nx=1\n", "ssl.keyStore.password=***\nx=1\n");
    check("  ssl.keyStore.password : s3cret", "ssl.keyStore.password=***\n");
    check("ssl.keyStore.passwordPath=/p", "ssl.keyStore.passwordPath=***\n");
    check(
        "SASLAuthenticationProvider.superPassword=s\\\n  3cret\nx=1",
        "SASLAuthenticationProvider.superPassword=***\nx=1\n",
    );
    check(
        "DigestAuthenticationProvider.superDigest=super:hash",
        "DigestAuthenticationProvider.superDigest=***\n",
    );
    check("x=1\rssl.keyStore.password=s3cret\ry=2", "x=1\nssl.keyStore.password=***\ny=2\n");
    check("# text\rssl.keyStore.password=s3cret", "# text\nssl.keyStore.password=***\n");
    check("#ssl.keyStore.password=s3cret\nx=1", "# ***\nx=1\n");
    check("! the old password is s3cret", "# ***\n");
    check("ssl.trustStore.password=s3cret\\", "ssl.trustStore.password=***\n");
    // A key is secret by its decoded form, however it is spelled.
    check("ssl.keyStore.pass\\u0077ord=s3cret", "ssl.keyStore.password=***\n");
    check("ssl.keyStore.pass\\\n  word=s3cret\nx=1", "ssl.keyStore.password=***\nx=1\n");
    check("x=1\\\n  2\ny=3", "x=1\\\n  2\ny=3\n");
}

#[test]
fn passwords_of_a_quorate_toml_are_masked_however_they_are_written() {
    let check = |text: &str, expected: &str| assert_eq!(toml(text), expected, "{text}");
    check("zk_addr = \"*:1\" # plain\n", "zk_addr = \"*:1\" # plain\n");
    check(
        "sasl_users = { bob = \"s3cret\", eve = 's3cret' }\nx = 1\n",
        "sasl_users = { bob = \"***\", eve = \"***\" }\nx = 1\n",
    );
    check("[sasl_users]\nbob = \"s3cret\"\n", "[sasl_users]\nbob = \"***\"\n");
    check("sasl_users.bob = \"s3cret\"\n", "sasl_users.bob = \"***\"\n");
    check(
        "tls_key_store_password = \"\"\"\ns3\ncret\"\"\"\n",
        "tls_key_store_password = \"***\"\n",
    );
    check("super_digest = \"super:hash\"\n", "super_digest = \"***\"\n");
    check(
        "[cluster]\nid = 1\ntls_key_store_password = \"s3cret\"\n",
        "[cluster]\nid = 1\ntls_key_store_password = \"***\"\n",
    );
    check("x = 1 # tls_key_store_password = \"s3cret\"\n", "x = 1 # ***\n");
    check("no TOML s3cret", "***");
}

#[test]
fn only_keys_about_passwords_are_secret() {
    for key in ["zookeeper.ssl.keyStore.password", "sasl_users", "superDigest", "a.PassWord.b"] {
        assert!(is_secret(key), "{key}");
    }
    for key in ["dataDir", "quorate.quorum.secretFile", "superUser", "digest_algorithm"] {
        assert!(!is_secret(key), "{key}");
    }
}
