#![allow(clippy::unwrap_used)]

use super::suites::cipher_suite_names;

#[test]
fn cipher_suites_have_the_names_that_java_gives_them() {
    let names = cipher_suite_names();
    for name in [
        "TLS_AES_256_GCM_SHA384",
        "TLS_AES_128_GCM_SHA256",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    ] {
        assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
    }
}
