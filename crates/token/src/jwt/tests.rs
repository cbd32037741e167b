use super::*;
use crate::fixtures::{ETCD_TOKENS, RSA_PUBLIC, SECRET, jwt, keys, options};

const NOW: i64 = 1_800_000_000;

/// The user that etcd's tokens name.
const NAME: &str = "a<b>& \u{e9} \"c";

/// A token with any header and claims, signed with the method's key.
fn token_of(jwt: &Jwt, header: &str, claims: &str) -> String {
    let signed = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
    let signature = jwt.key.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn claims(username: &str, revision: u64) -> Claims {
    Claims { username: username.to_string(), revision }
}

#[test]
fn each_method_verifies_what_it_signs_also_by_the_public_key_alone() {
    for method in SigningMethod::ALL {
        let both = jwt(method);
        assert!(both.can_sign());
        let token = both.sign(NAME, 7, NOW + 10).unwrap();
        assert_eq!(both.verify(&token, NOW), Ok(claims(NAME, 7)), "{method:?}");
        let (public, private) = keys(method);
        let private_alone = Jwt::new(&options(method), b"", private).unwrap();
        assert_eq!(private_alone.verify(&token, NOW), Ok(claims(NAME, 7)), "{method:?}");
        if !public.is_empty() {
            let public_alone = Jwt::new(&options(method), public, b"").unwrap();
            assert_eq!(public_alone.verify(&token, NOW), Ok(claims(NAME, 7)), "{method:?}");
            assert!(!public_alone.can_sign());
            assert_eq!(public_alone.sign("a", 1, NOW), Err(JwtError::VerifyOnly));
        }
    }
}

#[test]
fn tokens_of_etcd_are_taken_and_ours_are_equal_to_them() {
    let mut seen = 0;
    for line in ETCD_TOKENS.lines() {
        let (method, token) = line.split_once(' ').unwrap();
        let method = SigningMethod::named(method).unwrap();
        let jwt = jwt(method);
        assert_eq!(jwt.verify(token, NOW), Ok(claims(NAME, 5)), "{method:?}");
        let expires = jwt.verify_signature(token).unwrap().expires.unwrap();
        let ours = jwt.sign(NAME, 5, expires).unwrap();
        let signed = |token: &str| token.rsplit_once('.').unwrap().0.to_string();
        assert_eq!(signed(&ours), signed(token));
        // The other methods use a random number for each signature.
        if method.name().starts_with(['H', 'R']) || method == SigningMethod::EdDsa {
            assert_eq!(ours, token);
        }
        seen += 1;
    }
    assert_eq!(seen, SigningMethod::ALL.len());
}

#[test]
fn a_token_is_valid_before_its_end_and_from_its_beginning() {
    let jwt = jwt(SigningMethod::Hs256);
    let token = jwt.sign("a", 1, NOW).unwrap();
    assert!(jwt.verify(&token, NOW - 1).is_ok());
    assert_eq!(jwt.verify(&token, NOW), Err(JwtError::Expired));
    assert_eq!(jwt.verify(&token, i64::MAX), Err(JwtError::Expired));
    let begins = r#"{"nbf":1800000000,"revision":1,"username":"a"}"#;
    let begins = token_of(&jwt, r#"{"alg":"HS256"}"#, begins);
    assert_eq!(jwt.verify(&begins, NOW - 1), Err(JwtError::NotYetValid));
    assert_eq!(jwt.verify(&begins, NOW), Ok(claims("a", 1)));
}

#[test]
fn claims_are_a_name_a_revision_and_times() {
    use JwtError::{BadClaims, Expired};
    let jwt = jwt(SigningMethod::Hs256);
    let check = |text: &str, expected: Result<u64, JwtError>| {
        let token = token_of(&jwt, r#"{"alg":"HS256","typ":"JWT"}"#, text);
        let got = jwt.verify(&token, NOW).map(|claims| claims.revision);
        assert_eq!(got, expected, "{text}");
    };
    check(r#"{"username":"a","revision":5}"#, Ok(5));
    check(r#"{"username":"a","revision":5,"exp":0}"#, Ok(5));
    check(r#"{"username":"a","revision":5.9,"exp":1800000000.9}"#, Err(Expired));
    check(r#"{"username":"a","revision":5.9,"exp":1.8e9}"#, Err(Expired));
    check(r#"{"username":"a","revision":5.9,"exp":1.9e9}"#, Ok(5));
    check(r#"{"username":"a","revision":5,"exp":-1}"#, Err(Expired));
    check(r#"{"username":"a","revision":5,"aud":["x"],"iat":9e9,"sub":7}"#, Ok(5));
    check(r#"{"username":"b","username":"a","revision":4,"revision":5}"#, Ok(5));
    check(r#"{"revision":5}"#, Err(BadClaims));
    check(r#"{"username":"a"}"#, Err(BadClaims));
    check(r#"{"username":7,"revision":5}"#, Err(BadClaims));
    check(r#"{"username":null,"revision":5}"#, Err(BadClaims));
    check(r#"{"username":"a","revision":"5"}"#, Err(BadClaims));
    check(r#"{"username":"a","revision":-1}"#, Err(BadClaims));
    check(r#"{"username":"a","revision":1e30}"#, Err(BadClaims));
    check(r#"{"username":"a","revision":1e999}"#, Err(BadClaims));
    check(r#"{"username":"a","revision":5,"exp":"1900000000"}"#, Err(BadClaims));
    check(r#"{"username":"a","revision":5,"exp":null}"#, Err(BadClaims));
    check(r#"{"username":"a","revision":5,"exp":1e300}"#, Err(BadClaims));
    check(r#"{"username":"a","revision":5,"nbf":true}"#, Err(BadClaims));
    check(r#"["username","a"]"#, Err(BadClaims));
    check(r#""a""#, Err(BadClaims));
    check("", Err(BadClaims));
    check(r#"{"username":"a","revision":5} x"#, Err(BadClaims));
    check(&format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000)), Err(BadClaims));
}

#[test]
fn a_token_says_nothing_under_another_method() {
    let good = r#"{"username":"root","revision":5}"#;
    for ours in SigningMethod::ALL {
        let jwt_of_ours = jwt(ours);
        for other in SigningMethod::ALL.into_iter().filter(|other| *other != ours) {
            let token = jwt(other).sign("root", 5, NOW + 9).unwrap();
            assert_eq!(jwt_of_ours.verify(&token, NOW), Err(JwtError::WrongMethod));
            // The header names our method, but the key is the other method's.
            let header = format!("{{\"alg\":\"{}\"}}", ours.name());
            let token = token_of(&jwt(other), &header, good);
            assert_eq!(jwt_of_ours.verify(&token, NOW), Err(JwtError::BadSignature));
        }
        for header in [
            r#"{"alg":"none"}"#,
            r#"{"alg":"None"}"#,
            r#"{"alg":""}"#,
            r#"{"alg":null}"#,
            r#"{"alg":["HS256"]}"#,
            r#"{"typ":"JWT"}"#,
            "7",
        ] {
            let signed = [header, good].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
            assert_eq!(jwt_of_ours.verify(&format!("{signed}."), NOW), Err(JwtError::WrongMethod));
            let token = token_of(&jwt_of_ours, header, good);
            assert_eq!(jwt_of_ours.verify(&token, NOW), Err(JwtError::WrongMethod));
        }
    }
}

/// A client that knows only the public key must not be able to make a token by signing with that
/// key as an HMAC secret.
#[test]
fn a_public_key_is_no_secret() {
    let forger = Jwt::new(&options(SigningMethod::Hs256), b"", RSA_PUBLIC).unwrap();
    let token = forger.sign("root", 5, NOW + 9).unwrap();
    assert_eq!(jwt(SigningMethod::Rs256).verify(&token, NOW), Err(JwtError::WrongMethod));
    let header = r#"{"alg":"RS256"}"#;
    let token = token_of(&forger, header, r#"{"username":"root","revision":5}"#);
    assert_eq!(jwt(SigningMethod::Rs256).verify(&token, NOW), Err(JwtError::BadSignature));
    let another = Jwt::new(&options(SigningMethod::Hs256), b"", &SECRET[1..]).unwrap();
    let token = another.sign("root", 5, NOW + 9).unwrap();
    assert_eq!(jwt(SigningMethod::Hs256).verify(&token, NOW), Err(JwtError::BadSignature));
}

#[test]
fn no_token_is_good_that_is_cut_off_longer_or_changed_in_a_bit() {
    for method in [
        SigningMethod::Hs256,
        SigningMethod::Rs256,
        SigningMethod::Ps256,
        SigningMethod::Es256,
        SigningMethod::EdDsa,
    ] {
        let jwt = jwt(method);
        let token = jwt.sign("root", 5, NOW + 9).unwrap();
        for length in 0..token.len() {
            assert!(jwt.verify(&token[..length], NOW).is_err(), "{method:?} {length}");
        }
        for more in [".", "A", "=", "\n", " ", ".A"] {
            assert!(jwt.verify(&format!("{token}{more}"), NOW).is_err(), "{method:?} {more:?}");
            assert!(jwt.verify(&format!("{more}{token}"), NOW).is_err(), "{method:?} {more:?}");
        }
        for bit in 0..8 * token.len() {
            let mut changed = token.clone().into_bytes();
            changed[bit / 8] ^= 1 << (bit % 8);
            let Ok(changed) = String::from_utf8(changed) else { continue };
            assert!(jwt.verify(&changed, NOW).is_err(), "{method:?} {bit}");
        }
    }
}

#[test]
fn a_long_token_is_not_read() {
    let jwt = jwt(SigningMethod::Hs256);
    let name = "a".repeat(TOKEN_BYTES_MAX);
    let token = jwt.sign(&name, 1, NOW + 9).unwrap();
    assert_eq!(jwt.verify(&token, NOW), Err(JwtError::TooLong));
    let rest = TOKEN_BYTES_MAX - jwt.sign("", 1, NOW + 9).unwrap().len();
    let name = "a".repeat(rest * 3 / 4);
    let token = jwt.sign(&name, 1, NOW + 9).unwrap();
    assert!((TOKEN_BYTES_MAX - 2..=TOKEN_BYTES_MAX).contains(&token.len()));
    assert_eq!(jwt.verify(&token, NOW), Ok(claims(&name, 1)));
}

#[test]
fn signatures_of_curves_that_are_no_numbers_are_refused() {
    for (method, bytes) in
        [(SigningMethod::Es256, 64), (SigningMethod::Es384, 96), (SigningMethod::Es512, 132)]
    {
        let jwt = jwt(method);
        let (signed, _) = jwt
            .sign("a", 1, NOW + 9)
            .unwrap()
            .rsplit_once('.')
            .map(|(signed, it)| (signed.to_string(), it.to_string()))
            .unwrap();
        for signature in [vec![0; bytes], vec![0xff; bytes], vec![1; bytes - 1], vec![1; bytes + 1]]
        {
            let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature));
            assert_eq!(jwt.verify(&token, NOW), Err(JwtError::BadSignature), "{method:?}");
        }
    }
}
