#![allow(clippy::unwrap_used)]

use std::fs;
use std::time::{Duration, SystemTime};

use rcgen::{
    CertificateParams, CertificateRevocationListParams, DnType, Issuer, KeyIdMethod, KeyPair,
    RevokedCertParams, SerialNumber,
};

use super::*;

/// A certificate with this serial number, common name and alternative names.
fn certificate(serial: &[u8], name: &str, hosts: &[&str]) -> CertificateDer<'static> {
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.serial_number = Some(SerialNumber::from_slice(serial));
    params.distinguished_name.push(DnType::CommonName, name);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
}

/// A list in DER that revokes these serial numbers.
fn list(serials: &[&[u8]]) -> Vec<u8> {
    let now = SystemTime::now();
    let revoked = |serial: &&[u8]| RevokedCertParams {
        serial_number: SerialNumber::from_slice(serial),
        revocation_time: now.into(),
        reason_code: None,
        invalidity_date: None,
    };
    let params = CertificateRevocationListParams {
        this_update: now.into(),
        next_update: (now + Duration::from_secs(3_600)).into(),
        crl_number: SerialNumber::from(1u64),
        issuing_distribution_point: None,
        revoked_certs: serials.iter().map(revoked).collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let issuer = Issuer::new(CertificateParams::default(), KeyPair::generate().unwrap());
    params.signed_by(&issuer).unwrap().der().to_vec()
}

fn names(names: AllowedNames) -> Rules {
    Rules::new(CertificateRules { names: Some(names), revoked: None })
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

/// Whether a certificate with these names is allowed.
fn takes(rules: &Rules, name: &str, hosts: &[&str]) -> bool {
    rules.check(&certificate(&[1], name, hosts), &[]).is_ok()
}

#[test]
fn no_rules_refuse_nothing() {
    let rules = Rules::new(CertificateRules::default());
    assert!(takes(&rules, "", &[]));
}

#[test]
fn a_common_name_is_compared_as_it_is() {
    let rules = names(AllowedNames::CommonNames(texts(&["a", "b"])));
    for (name, expected) in [("a", true), ("b", true), ("A", false), ("ab", false), ("", false)] {
        assert_eq!(takes(&rules, name, &[]), expected, "{name}");
    }
    assert!(!takes(&rules, "c", &["a"]), "another name does not count");
}

#[test]
fn a_host_is_an_alternative_name_and_not_the_common_name() {
    let rules = names(AllowedNames::Hosts(texts(&["a.b.test", "127.0.0.1", "[::1]"])));
    for (hosts, expected) in [
        (&["a.b.test"][..], true),
        (&["A.B.TEST"], true),
        (&["c.test", "a.b.test"], true),
        (&["*.b.test"], true),
        (&["127.0.0.1"], true),
        (&["::1"], true),
        (&["c.a.b.test"], false),
        (&["b.test"], false),
        (&["*.test"], false),
        (&["127.0.0.2"], false),
        (&[], false),
    ] {
        assert_eq!(takes(&rules, "a.b.test", hosts), expected, "{hosts:?}");
    }
}

#[test]
fn a_list_revokes_serial_numbers_as_it_was_read_last() {
    let path = std::env::temp_dir().join(format!("rules-{}.crl", std::process::id()));
    let rules = Rules::new(CertificateRules { names: None, revoked: Some(path.clone()) });
    let check = |end: &[u8], beside: &[&[u8]]| {
        let beside: Vec<_> = beside.iter().map(|it| certificate(it, "", &[])).collect();
        match rules.check(&certificate(end, "", &[]), &beside) {
            Ok(()) => Ok(()),
            Err(Error::InvalidCertificate(CertificateError::Revoked)) => Err("revoked".to_string()),
            Err(error) => Err(error.to_string()),
        }
    };
    let revoked = || Err("revoked".to_string());
    let write = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        rules.read_again();
    };
    let missing = check(&[1], &[]).unwrap_err();
    assert!(missing.contains(".crl: No such file"), "{missing}");
    write(&list(&[&[1], &[0x80, 0], &[7; 20]]));
    assert_eq!(check(&[1], &[]), revoked());
    assert_eq!(check(&[0x80, 0], &[]), revoked());
    assert_eq!(check(&[7; 20], &[]), revoked());
    assert_eq!(check(&[2], &[]), Ok(()));
    assert_eq!(check(&[2], &[&[3], &[1]]), revoked(), "one beside it counts as well");
    write(&list(&[]));
    assert_eq!(check(&[1], &[]), Ok(()));
    let good = list(&[&[2]]);
    for bad in [
        &b""[..],
        b"-----BEGIN X509 CRL-----",
        &good[..good.len() - 1],
        &[&good[..], b"x"].concat(),
    ] {
        write(bad);
        let refused = check(&[1], &[]).unwrap_err();
        assert!(refused.contains("it is no revocation list in DER"), "{refused}");
    }
    write(&good);
    assert_eq!(check(&[1], &[]), Ok(()));
    assert_eq!(check(&[2], &[]), revoked());
    fs::remove_file(&path).unwrap();
    assert_eq!(check(&[2], &[]), revoked(), "nobody looks at the file");
    rules.try_again();
    assert_eq!(check(&[1], &[]), Ok(()), "it was read before");
    rules.read_again();
    assert!(check(&[1], &[]).is_err());
    fs::write(&path, &good).unwrap();
    rules.try_again();
    assert_eq!(check(&[1], &[]), Ok(()), "it could not be read before");
    fs::remove_file(&path).unwrap();
}
