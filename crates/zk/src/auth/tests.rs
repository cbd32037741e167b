use super::*;

fn check(algorithm: &str, credentials: &str, expected: &str) {
    let algorithm = DigestAlgorithm::from_name(algorithm).unwrap();
    assert_eq!(digest_id(algorithm, credentials), expected, "{credentials}");
}

#[test]
fn digests_are_those_of_zookeeper() {
    check("SHA1", "super:test", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
    check("SHA1", "user:pass", "user:smGaoVKd/cQkjm7b88GyorAUz20=");
    check("SHA1", ":", ":BaefBs8/Z/cm2uaNGKIpD2yaUMk=");
    check("SHA-1", "super:test", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
}

#[test]
fn only_the_first_colon_ends_the_user() {
    let id = |credentials| digest_id(DigestAlgorithm::Sha1, credentials);
    assert!(id("a:b:c").starts_with("a:"));
    assert_ne!(id("a:b:c"), id("a:b"));
    assert!(id("no colon").starts_with("no colon:"));
    assert!(id("").starts_with(':'));
}

#[test]
fn every_algorithm_has_its_length() {
    for (name, bytes) in [
        ("SHA1", 20),
        ("SHA-224", 28),
        ("SHA-256", 32),
        ("SHA-384", 48),
        ("SHA-512", 64),
        ("SHA3-256", 32),
        ("SHA3-384", 48),
        ("SHA3-512", 64),
    ] {
        let characters = usize::div_ceil(bytes, 3) * 4;
        let algorithm = DigestAlgorithm::from_name(name).unwrap();
        let id = digest_id(algorithm, "u:p");
        assert_eq!(id.len(), 2 + characters, "{name}");
        assert_eq!(algorithm.name(), name);
    }
}

#[test]
fn longer_hashes_are_the_published_ones() {
    check("SHA-256", "super:test", SUPER_TEST_SHA256);
    check("SHA3-256", "super:test", SUPER_TEST_SHA3_256);
    check("SHA-512", "super:test", SUPER_TEST_SHA512);
}

const SUPER_TEST_SHA256: &str = "super:wjySwxg860UATFtciuZ1lpzrCHrPeov6SPu/ZD56uig=";
const SUPER_TEST_SHA3_256: &str = "super:cRy/KPYuDpW/dtsepniTMpuiuupnWgdU9txltIfv3hA=";
const SUPER_TEST_SHA512: &str = "super:cMAGk13FCMtJkaVQImGEKhjqoGELCiVjYdIhiD8stB1FnIpdGeFvKwAHh5mf4tUYmBR2ZY9181dZTXEHMlkVhg==";

#[test]
fn algorithms_are_named_as_in_java() {
    for name in ["SHA1", "sha1", "SHA", "SHA-1", "SHA-256", "sha-256", "SHA-512", "SHA3-256"] {
        assert!(DigestAlgorithm::from_name(name).is_some(), "{name}");
    }
    for name in ["", "MD5", "SHA-1024", "SHA1 "] {
        assert_eq!(DigestAlgorithm::from_name(name), None, "{name}");
    }
}

#[test]
fn the_user_of_an_identity_is_what_its_provider_says() {
    for (scheme, id, expected) in [
        ("digest", "user:hash", "user"),
        ("digest", ":hash", ""),
        ("ip", "10.0.0.1", "10.0.0.1"),
        ("ip", "::1", "::1"),
        ("super", "", ""),
    ] {
        assert_eq!(user_name(scheme, id), expected, "{scheme}");
    }
}

#[test]
fn a_masked_id_keeps_the_user_only() {
    for (id, expected) in [
        ("user:hash", "user:x"),
        ("user:hash:more", "user:x"),
        ("user:", "user:x"),
        (":hash", ":x"),
        ("user", "user"),
        ("", ""),
    ] {
        assert_eq!(masked_digest_id(id), expected);
    }
}
