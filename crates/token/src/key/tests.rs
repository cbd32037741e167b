use super::*;
use crate::fixtures::*;

fn error(method: SigningMethod, public: &[u8], private: &[u8]) -> String {
    match Key::new(method, public, private) {
        Ok(_) => panic!("{method:?} takes the keys"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn keys_are_read_in_each_form_that_openssl_writes() {
    let rsa: [(&[u8], &[u8]); 6] = [
        (b"", RSA),
        (b"", RSA_PKCS1),
        (RSA_PKCS1_PUBLIC, RSA),
        (RSA_CERTIFICATE, RSA_PKCS1),
        (RSA_PKCS1_PUBLIC, b""),
        (RSA_CERTIFICATE, b""),
    ];
    let ec256: [(&[u8], &[u8]); 6] = [
        (b"", EC256),
        (b"", EC256_SEC1),
        (b"", EC256_SEC1_PRIVATE_ONLY),
        (EC256_PUBLIC, EC256_SEC1_PRIVATE_ONLY),
        (EC256_CERTIFICATE, EC256_SEC1),
        (EC256_CERTIFICATE, b""),
    ];
    let check = |method, forms: &[(&[u8], &[u8])]| {
        let (public, private) = keys(method);
        let signature = Key::new(method, public, private).unwrap().sign(b"text").unwrap();
        for (public, private) in forms {
            let key = Key::new(method, public, private).unwrap();
            assert!(key.verifies(b"text", &signature), "{method:?}");
            assert!(!key.verifies(b"texts", &signature), "{method:?}");
            assert_eq!(key.can_sign(), !private.is_empty());
        }
    };
    check(SigningMethod::Rs384, &rsa);
    check(SigningMethod::Ps512, &rsa);
    check(SigningMethod::Es256, &ec256);
    check(SigningMethod::Es384, &[(EC384_PUBLIC, EC384_SEC1)]);
    check(SigningMethod::Es512, &[(EC521_PUBLIC, EC521_SEC1)]);
    check(SigningMethod::EdDsa, &[(b"", ED), (ED_PUBLIC, b"")]);
}

#[test]
fn the_first_section_counts_and_what_is_before_it_does_not() {
    let both = [b"some text\n", EC256, RSA].concat();
    assert!(Key::new(SigningMethod::Es256, b"", &both).is_ok());
    assert_eq!(error(SigningMethod::Rs256, b"", &both), "key is not a valid RSA private key");
}

#[test]
fn a_method_without_its_key_is_refused() {
    for method in SigningMethod::ALL {
        assert_eq!(error(method, b"", b""), "auth: missing key data", "{method:?}");
    }
    for method in [SigningMethod::Hs256, SigningMethod::Hs384, SigningMethod::Hs512] {
        assert_eq!(error(method, RSA_PUBLIC, b""), "auth: missing key data");
    }
}

#[test]
fn a_public_key_must_be_that_of_the_private_one() {
    let mismatch = "auth: public and private keys don't match";
    assert_eq!(error(SigningMethod::Rs256, RSA_OTHER_PUBLIC, RSA), mismatch);
    assert_eq!(error(SigningMethod::Ps256, RSA_OTHER_PUBLIC, RSA), mismatch);
    assert_eq!(error(SigningMethod::Es256, EC256_OTHER_PUBLIC, EC256), mismatch);
    assert_eq!(error(SigningMethod::EdDsa, ED_OTHER_PUBLIC, ED), mismatch);
}

#[test]
fn a_key_of_another_kind_is_refused() {
    let kinds = [
        (SigningMethod::Rs256, "RSA", [EC256, ED].as_slice(), [EC256_PUBLIC, ED_PUBLIC].as_slice()),
        (SigningMethod::Es256, "ECDSA", &[RSA, EC384, ED], &[RSA_PUBLIC, EC384_PUBLIC, ED_PUBLIC]),
        (SigningMethod::Es384, "ECDSA", &[EC256, EC521], &[EC256_PUBLIC, RSA_CERTIFICATE]),
        (SigningMethod::Es512, "ECDSA", &[EC256, EC384], &[EC256_PUBLIC, EC256_CERTIFICATE]),
        (
            SigningMethod::EdDsa,
            "Ed25519",
            &[RSA, EC256],
            &[RSA_PUBLIC, EC256_PUBLIC, EC256_CERTIFICATE],
        ),
    ];
    for (method, kind, private, public) in kinds {
        for key in private {
            let text = format!("key is not a valid {kind} private key");
            assert_eq!(error(method, b"", key), text, "{method:?}");
        }
        for key in public {
            let text = format!("key is not a valid {kind} public key");
            assert_eq!(error(method, key, b""), text, "{method:?}");
        }
        // The public and the private half in each other's place.
        let (own_public, own_private) = keys(method);
        assert!(error(method, own_private, b"").starts_with("key is not a valid"), "{method:?}");
        assert!(error(method, b"", own_public).starts_with("key is not a valid"), "{method:?}");
    }
}

#[test]
fn a_file_without_pem_is_refused() {
    let text = "invalid key: Key must be a PEM encoded PKCS1 or PKCS8 key";
    let cut = &RSA[..RSA.len() / 2];
    for bad in [SECRET, b"\0\xff", cut, b"-----BEGIN PRIVATE KEY-----\n"] {
        for method in
            [SigningMethod::Rs256, SigningMethod::Es256, SigningMethod::Es512, SigningMethod::EdDsa]
        {
            assert_eq!(error(method, b"", bad), text);
            assert_eq!(error(method, bad, b""), text);
        }
    }
}

#[test]
fn a_short_rsa_key_is_refused() {
    let private = error(SigningMethod::Rs256, b"", RSA_SHORT);
    assert_eq!(private, "key is not a valid RSA private key: TooSmall");
    let public = error(SigningMethod::Ps256, RSA_SHORT_PUBLIC, b"");
    assert_eq!(public, "key is not a valid RSA public key: it has 1024 bits");
}
