#![allow(clippy::unwrap_used)]

use super::suites::cipher_suite_names;
use super::*;

#[test]
fn few_complaints_are_logged_and_the_others_counted() {
    let mut complaints = Complaints::default();
    let start = Instant::now();
    for _ in 0..COMPLAINTS_MAX {
        assert_eq!(complaints.add(start), (true, 0));
    }
    assert_eq!(complaints.add(start), (false, 0));
    assert_eq!(complaints.add(start + COMPLAINTS_INTERVAL / 2), (false, 0));
    assert_eq!(complaints.add(start + COMPLAINTS_INTERVAL), (true, 2));
    assert_eq!(complaints.add(start + COMPLAINTS_INTERVAL), (true, 0));
    assert_eq!(complaints.add(start + COMPLAINTS_INTERVAL * 3), (true, 0));
}

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
