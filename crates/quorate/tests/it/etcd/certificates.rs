//! Tests of rules about certificates besides the trust in their issuer: allowed names, and lists of
//! revoked certificates.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rcgen::{
    CertificateParams, CertificateRevocationListParams, Issuer, KeyIdMethod, KeyPair,
    RevokedCertParams, SerialNumber,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::members::start_over_tls;
use super::ports::{request_tls, two_files};
use super::{Etcd, free_addresses, get, put, wait_ready};
use crate::server::{folder, wait_until};
use crate::tls::wire::{Shape, certificates, fixture};

/// Writes a list, in DER, that revokes these certificates.
fn revoke(path: &Path, names: &[&str]) {
    let now = SystemTime::now();
    let revoked = |name: &&str| {
        let certificate = certificates(name).remove(0);
        let (_, parsed) = X509Certificate::from_der(&certificate).unwrap();
        RevokedCertParams {
            serial_number: SerialNumber::from_slice(parsed.raw_serial()),
            revocation_time: now.into(),
            reason_code: None,
            invalidity_date: None,
        }
    };
    let params = CertificateRevocationListParams {
        this_update: now.into(),
        next_update: (now + Duration::from_secs(3_600)).into(),
        crl_number: SerialNumber::from(1u64),
        issuing_distribution_point: None,
        revoked_certs: names.iter().map(revoked).collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let issuer = Issuer::new(CertificateParams::default(), KeyPair::generate().unwrap());
    // The list is renamed into place, so that a server never reads half of it.
    let new = path.with_extension("new");
    fs::write(&new, params.signed_by(&issuer).unwrap().der()).unwrap();
    fs::rename(new, path).unwrap();
}

/// Starts a member whose clients must show certificates, with these additional flags.
fn start(folder: &Path, client: SocketAddr, more: &[&str]) -> Etcd {
    let (cert, key) = two_files(folder, "server");
    let flags = [
        format!("--cert-file={cert}"),
        format!("--key-file={key}"),
        format!("--trusted-ca-file={}", fixture("ca.pem")),
        format!("--listen-client-urls=https://{client}"),
        format!("--advertise-client-urls=https://{client}"),
    ];
    let flags = flags.iter().map(String::as_str).chain(more.iter().copied());
    let member = Etcd::spawn(folder, "m0", &flags.collect::<Vec<_>>());
    wait_ready(folder, "m0");
    member
}

/// Whether the member serves a client with this certificate.
fn serves(client: SocketAddr, shows: &'static str) -> bool {
    request_tls(client, Shape::with(shows), "GET /version").is_ok()
}

#[test]
fn a_revoked_certificate_is_refused_once_the_list_is_read() {
    let folder = folder("etcd-certificates-revoked");
    let [client] = free_addresses::<1>();
    let list = folder.join("list.crl");
    let _member = start(&folder, client, &["--client-crl-file=list.crl"]);
    assert!(!serves(client, "client"), "without the list nobody is believed");
    let wait_read = |line: &str| {
        let log = || fs::read_to_string(folder.join("m0.log")).unwrap();
        wait_until(line, || log().contains(&format!("TLS: {line}")));
    };
    revoke(&list, &[]);
    wait_read("list.crl: revoked serial numbers: 0");
    assert!(serves(client, "client") && serves(client, "server"));
    revoke(&list, &["stranger", "client"]);
    wait_read("list.crl: revoked serial numbers: 2");
    assert!(!serves(client, "client") && serves(client, "server"));
    revoke(&list, &["server"]);
    wait_read("list.crl: revoked serial numbers: 1");
    assert!(serves(client, "client") && !serves(client, "server"));
    fs::write(&list, "no list").unwrap();
    wait_read("no certificate is believed: list.crl: it is no revocation list in DER");
    assert!(!serves(client, "client"));
    let log = fs::read_to_string(folder.join("m0.log")).unwrap();
    for expected in
        ["list.crl: No such file", "list.crl: it is no revocation list in DER", "Revoked"]
    {
        assert!(log.contains(expected), "{expected}: {log}");
    }
}

/// Opening a pipe that nobody writes to hangs, like opening a file on a hung disk.
#[test]
fn a_list_that_cannot_be_read_to_its_end_holds_up_no_handshake() {
    let folder = folder("etcd-certificates-hangs");
    let [client] = free_addresses::<1>();
    let (list, pipe) = (folder.join("list.crl"), folder.join("pipe"));
    revoke(&list, &["server"]);
    let _member = start(&folder, client, &["--client-crl-file=list.crl"]);
    assert!(serves(client, "client") && !serves(client, "server"));
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from(0o600), 0).unwrap();
    fs::rename(&pipe, &list).unwrap();
    // The pipe can be opened for writing without waiting once the member is waiting to read it.
    let open = || rustix::fs::open(&list, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
    let mut opened = None;
    wait_until("the member reads it", || {
        opened = open().ok();
        opened.is_some()
    });
    assert!(serves(client, "client") && !serves(client, "server"), "the list before counts");
    drop(opened);
    wait_until("an empty list is none", || !serves(client, "client"));
}

#[test]
fn clients_must_have_an_allowed_name() {
    let folder = folder("etcd-certificates-names");
    let [client] = free_addresses::<1>();
    // The certificates have the common names `client` and `localhost`. The second one is valid for
    // the host localhost; the first one names no host.
    let flag = "--client-cert-allowed-hostname=other,localhost";
    let member = start(&folder, client, &[flag]);
    assert!(serves(client, "server") && !serves(client, "client"));
    drop(member);
    let (cert, key) = two_files(&folder, "server");
    let file = format!(
        "data-dir: d\nlisten-client-urls: https://{client}\n\
         advertise-client-urls: https://{client}\n\
         client-transport-security:\n  cert-file: {cert}\n  key-file: {key}\n  \
         trusted-ca-file: {}\n  allowed-cn: [other, client]\n",
        fixture("ca.pem")
    );
    fs::write(folder.join("etcd.yml"), file).unwrap();
    let _member = Etcd::spawn(&folder, "m1", &["--config-file=etcd.yml"]);
    wait_ready(&folder, "m1");
    assert!(serves(client, "client") && !serves(client, "server"));
}

/// The flags for members that use the certificate for localhost.
fn of_peers(more: &[&str]) -> Vec<String> {
    let flags = [
        format!("--peer-cert-file={}", fixture("server.pem")),
        format!("--peer-key-file={}", fixture("server.pem")),
        format!("--peer-trusted-ca-file={}", fixture("ca.pem")),
    ];
    flags.into_iter().chain(more.iter().map(ToString::to_string)).collect()
}

#[test]
fn members_with_an_allowed_name_find_each_other() {
    let folder = folder("etcd-certificates-members");
    revoke(&folder.join("list.crl"), &["client"]);
    let flags = of_peers(&["--peer-cert-allowed-cn=localhost", "--peer-crl-file=list.crl"]);
    let (clients, _, _members) = start_over_tls(&folder, &flags);
    (0..3).for_each(|number| wait_ready(&folder, &format!("m{number}")));
    assert!(put(clients[0], "key", "value"));
    wait_until("the others have it", || get(clients[2], "key").as_deref() == Some("value"));
}

#[test]
fn members_that_break_a_rule_are_refused() {
    for (name, more, cause) in [
        ("cn", "--peer-cert-allowed-cn=other", "common name \\\"localhost\\\" is not allowed"),
        ("host", "--peer-cert-allowed-hostname=other", "is for none of the allowed hosts"),
        ("revoked", "--peer-crl-file=list.crl", "Revoked"),
    ] {
        let folder = folder(&format!("etcd-certificates-members-{name}"));
        revoke(&folder.join("list.crl"), &["server"]);
        let (.., _members) = start_over_tls(&folder, &of_peers(&[more]));
        let log = || fs::read_to_string(folder.join("m0.log")).unwrap();
        wait_until("the others are refused", || log().contains(cause));
        assert!(!log().contains("ready to serve client requests"));
    }
}
