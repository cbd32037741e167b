//! Tests of the identities that a client certificate gives a connection.

use super::rig::*;
use crate::fronts::zk::limits::CONNECTION_IDENTITY_BYTES_MAX;

/// A rig with one accepted client whose certificate has proved these identities.
fn rig_with(proved: &[(&str, &str)]) -> Rig {
    let mut rig = Rig::default();
    rig.play("configure x509=on");
    rig.accept(1, 0);
    let id = rig.client(1).id;
    rig.fronts[0].on_identified(id, proved);
    rig
}

#[test]
fn its_name_is_an_identity_from_the_first_request_on() {
    let mut rig = rig_with(&[("x509", "CN=a")]);
    rig.play("c1: connect");
    assert!(rig.play("c1: create /a v acl=own").contains("/a @"));
    assert!(rig.play("c1: getacl /a").contains("x509:CN=a:31"));
    assert!(rig.play("c1: auth x509 x | get /a").contains("get /a -> v"));
    rig.play("c2: connect");
    assert!(rig.play("c2: get /a").contains("no auth"));
    assert!(rig.play("c2: auth x509 x").contains("auth failed"));
    rig.check();
}

#[test]
fn a_super_user_stays_itself() {
    let mut rig = rig_with(&[("super", "CN=a"), ("x509", "CN=a")]);
    rig.play("c2: connect\nc2: auth digest u:p | create /b v acl=own");
    rig.play("c1: connect\nc1: create /a v acl=own");
    assert!(rig.play("c1: get /b").contains("get /b -> v"));
    assert!(rig.play("c1: getacl /a").contains("-> x509:CN=a:31 v0"));
    rig.check();
}

#[test]
fn a_name_too_long_for_a_batch_ends_the_connection() {
    // The count, the lengths and the address take some bytes of the bound, too.
    for (length, served) in
        [(CONNECTION_IDENTITY_BYTES_MAX - 100, true), (CONNECTION_IDENTITY_BYTES_MAX, false)]
    {
        let mut rig = rig_with(&[("x509", &"a".repeat(length))]);
        let seen = rig.play("c1: connect");
        assert_eq!(seen.contains("connected"), served, "{seen}");
    }
}
