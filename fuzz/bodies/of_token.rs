//! Bodies for tokens of etcd clients, the claims in them, and the options and keys that tokens are
//! made with.

use std::time::Duration;

use token::{AuthToken, Claims, Jwt, JwtOptions, SigningMethod};

const NOW: i64 = 1_800_000_000;

/// Key files that were made for tests.
const KEYS: [&[u8]; 6] = [
    include_bytes!("../../crates/token/tests/fixtures/rsa.pub"),
    include_bytes!("../../crates/token/tests/fixtures/rsa.crt"),
    include_bytes!("../../crates/token/tests/fixtures/ec256-sec1.pem"),
    include_bytes!("../../crates/token/tests/fixtures/ec521.pem"),
    include_bytes!("../../crates/token/tests/fixtures/ed.pem"),
    include_bytes!("../../crates/token/tests/fixtures/rsa-pkcs1.pem"),
];

fn options(method: SigningMethod) -> JwtOptions {
    let ttl = Duration::from_secs(1);
    JwtOptions { method, ttl, public_key: None, private_key: None, unknown: Vec::new() }
}

fn jwt() -> Jwt {
    Jwt::new(&options(SigningMethod::Hs256), b"", b"secret").expect("a secret is a key")
}

/// A token. It may be valid only if the key has signed it, and the only signed inputs that a search
/// can find are the seeds. A token may carry any user name.
pub fn token_jwt(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let jwt = jwt();
    if let Ok(claims) = jwt.verify(&text, NOW) {
        let parts = text.split('.').count();
        assert_eq!((claims.revision, parts), (7, 3), "only the seeds are signed");
    }
    if let Ok(token) = jwt.sign(&text, 5, NOW + 1)
        && token.len() <= token::limits::TOKEN_BYTES_MAX
    {
        let expected = Claims { username: text.into_owned(), revision: 5 };
        assert_eq!(jwt.verify(&token, NOW), Ok(expected));
    }
}

pub fn token_jwt_seeds() -> Vec<Vec<u8>> {
    let names = ["a", "root", "<\u{2028}\"\\\0"];
    let token = |name| jwt().sign(name, 7, NOW + 1).expect("a secret signs").into_bytes();
    names.into_iter().map(token).collect()
}

/// The JSON of the claims in a token. Claims that can be read can be signed, and are equal when
/// read again.
pub fn token_claims(json: &[u8]) {
    let Ok(claims) = Claims::from_json(json, NOW) else { return };
    let Ok(token) = jwt().sign(&claims.username, claims.revision, NOW + 1) else { return };
    if token.len() <= token::limits::TOKEN_BYTES_MAX {
        assert_eq!(jwt().verify(&token, NOW), Ok(claims));
    }
}

pub fn token_claims_seeds() -> Vec<Vec<u8>> {
    let claims = [
        r#"{"exp":1800000001,"revision":5,"username":"a\u003cb\u003e \"c"}"#,
        r#"{"nbf":1.7e9,"exp":1.9e9,"revision":5.5,"username":"","aud":["b",{"c":null}]}"#,
    ];
    claims.map(|claims| claims.as_bytes().to_vec()).into()
}

/// The text of the flag `--auth-token`. Options that can be read can be written, and are equal when
/// read again.
pub fn token_options(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let seconds = |text: &str| text.strip_suffix('s')?.parse().ok().map(Duration::from_secs);
    let Ok(AuthToken::Jwt(options)) = AuthToken::parse(text, seconds) else { return };
    let JwtOptions { method, ttl, public_key, private_key, unknown } = &options;
    let mut again = format!("jwt,sign-method={},ttl={}s", method.name(), ttl.as_secs());
    for (name, value) in [("pub-key", public_key), ("priv-key", private_key)] {
        again.push_str(&format!(",{name}={}", value.as_deref().unwrap_or_default()));
    }
    unknown.iter().for_each(|name| again.push_str(&format!(",{name}=")));
    assert_eq!(AuthToken::parse(&again, seconds), Ok(AuthToken::Jwt(options)));
}

pub fn token_options_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "jwt,pub-key=app.rsa.pub,priv-key=app.rsa,sign-method=RS512,ttl=600s",
        "jwt,priv-key=ec.pem,sign-method=ES256,x=y",
        "simple,a=b",
    ];
    texts.map(|text| text.as_bytes().to_vec()).into()
}

/// A key file, tried as the public and as the private key of several methods. A key that signs must
/// verify its own signature.
pub fn token_key_file(file: &[u8]) {
    for method in
        [SigningMethod::Rs256, SigningMethod::Es256, SigningMethod::Es512, SigningMethod::EdDsa]
    {
        let _ = Jwt::new(&options(method), file, b"");
        let Ok(jwt) = Jwt::new(&options(method), b"", file) else { continue };
        if let Ok(token) = jwt.sign("a", 5, NOW + 1) {
            assert!(jwt.verify(&token, NOW).is_ok() || file.is_empty());
        }
    }
}

pub fn token_key_file_seeds() -> Vec<Vec<u8>> {
    KEYS.map(<[u8]>::to_vec).into()
}
