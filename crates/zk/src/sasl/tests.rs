use super::*;

/// The nonce that a ZooKeeper 3.9.5 server drew in the exchange below.
const NONCE: &str = "LraLmmEqlT/kiNyd5BAuuLdYwhK4f/tGyoQSmHDa";

/// The answer of ZooKeeper's own client of that version to this nonce, for the user bob with the
/// password "bobsecret".
const RESPONSE: &str = "charset=utf-8,username=\"bob\",realm=\"zk-sasl-md5\",\
    nonce=\"LraLmmEqlT/kiNyd5BAuuLdYwhK4f/tGyoQSmHDa\",nc=00000001,\
    cnonce=\"Jx9Jp2bvB3lDzdw//EZkkTffvrRWFNR/45UsRN+d\",digest-uri=\"zookeeper/zk-sasl-md5\",\
    maxbuf=65536,response=0661063bb48b7b9fc9e3d8c1867b11ee,qop=auth,authzid=\"bob\"";

/// The server's proof that it knows the password, too.
const RSPAUTH: &str = "rspauth=ac2ae4710cd3363497c3ea5a03cea967";

fn nonce() -> [u8; NONCE_BYTES] {
    STANDARD.decode(NONCE).unwrap().try_into().unwrap()
}

fn password(user: &str) -> Option<&'static str> {
    match user {
        "bob" => Some("bobsecret"),
        "été" => Some("pâss"),
        "日本" => Some("パス"),
        "a \"b\"\\" => Some(""),
        _ => None,
    }
}

fn challenged() -> Exchange {
    let mut exchange = Exchange::New;
    exchange.step(b"", &nonce(), password).unwrap();
    exchange
}

fn answer(response: impl AsRef<[u8]>) -> Result<Step, SaslError> {
    challenged().step(response.as_ref(), &nonce(), password)
}

fn authenticated(user: &str, rspauth: &str) -> Result<Step, SaslError> {
    Ok(Step::Authenticated { user: user.to_string(), token: rspauth.as_bytes().to_vec() })
}

fn refused(directive: &'static str) -> Result<Step, SaslError> {
    Err(SaslError::Directive { directive })
}

fn is_malformed(response: impl AsRef<[u8]>) -> bool {
    matches!(answer(response), Err(SaslError::Malformed(_)))
}

/// The response of a client with this name and password that names `uri` as the service.
fn response_of(user: &str, password: &str, uri: &str) -> String {
    let (cnonce, uri_bytes) = (b"cnonce".as_slice(), uri.as_bytes());
    let proof = Proof { user, realm: REALM, password, nonce: NONCE, cnonce, uri: uri_bytes };
    let hash = proof.response_value("AUTHENTICATE", None);
    let user = user.replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        "username=\"{user}\",realm=\"{REALM}\",nonce=\"{NONCE}\",cnonce=\"cnonce\",\
         digest-uri=\"{uri}\",response={hash}"
    )
}

#[test]
fn the_examples_of_the_rfc_are_computed() {
    let check = |uri: &str, nonce, cnonce: &str, expected: [&str; 2]| {
        let (cnonce, uri) = (cnonce.as_bytes(), uri.as_bytes());
        let (user, realm, password) = ("chris", "elwood.innosoft.com", "secret");
        let proof = Proof { user, realm, password, nonce, cnonce, uri };
        let found = ["AUTHENTICATE", ""].map(|method| proof.response_value(method, None));
        assert_eq!(found, expected);
    };
    check(
        "imap/elwood.innosoft.com",
        "OA6MG9tEQGm2hh",
        "OA6MHXh6VqTrRk",
        ["d388dad90d4bbd760a152321f2143af7", "ea40f60335c427b5527b84dbabcdfffd"],
    );
    check(
        "acap/elwood.innosoft.com",
        "OA9BSXrbuRhWay",
        "OA9BSuZWMSpW8m",
        ["6084c6db3fede7352c551284490fd0fc", "2f0b3d7c3c2e486600ef710726aa2eae"],
    );
}

#[test]
fn an_exchange_of_the_real_client_and_server_is_repeated() {
    let mut exchange = Exchange::New;
    let challenge = exchange.step(b"", &nonce(), password).unwrap();
    let expected =
        format!("realm=\"zk-sasl-md5\",nonce=\"{NONCE}\",charset=utf-8,algorithm=md5-sess");
    assert_eq!(challenge, Step::Challenge(expected.into_bytes()));
    let done = exchange.step(RESPONSE.as_bytes(), &nonce(), password);
    assert_eq!(done, authenticated("bob", RSPAUTH));
    assert_eq!(exchange, Exchange::Over);
}

#[test]
fn our_own_client_is_understood() {
    for (user, known) in [("bob", "bobsecret"), ("日本", "パス"), ("a \"b\"\\", "")] {
        let mut exchange = Exchange::New;
        let Ok(Step::Challenge(challenge)) = exchange.step(b"", &nonce(), password) else {
            panic!("the first step is a challenge");
        };
        let response = respond(&challenge, user, known, "cnonce").unwrap();
        let found = exchange.step(&response, &nonce(), password);
        assert!(matches!(found, Ok(Step::Authenticated { user: who, .. }) if who == user));
    }
    for challenge in ["", "realm=\"zk-sasl-md5\"", "nonce"] {
        assert_eq!(respond(challenge.as_bytes(), "bob", "", "c").is_some(), challenge == "nonce");
    }
}

#[test]
fn the_first_token_may_hold_anything() {
    let mut exchange = Exchange::New;
    let challenge = exchange.step(RESPONSE.as_bytes(), &nonce(), password);
    assert!(matches!(challenge, Ok(Step::Challenge(_))));
    assert!(exchange.step(RESPONSE.as_bytes(), &nonce(), password).is_ok());
}

#[test]
fn nothing_is_taken_after_the_end() {
    for first in [RESPONSE, "", "garbage"] {
        let mut exchange = challenged();
        let _ = exchange.step(first.as_bytes(), &nonce(), password);
        for token in [RESPONSE, ""] {
            let over = exchange.step(token.as_bytes(), &nonce(), password);
            assert_eq!(over, Err(SaslError::Over));
        }
    }
}

#[test]
fn a_response_to_another_challenge_is_refused() {
    let mut exchange = Exchange::New;
    exchange.step(b"", &[7; NONCE_BYTES], password).unwrap();
    assert_eq!(exchange.step(RESPONSE.as_bytes(), &nonce(), password), refused("nonce"));
}

#[test]
fn a_wrong_password_and_an_unknown_user_are_told_apart_in_the_log_only() {
    let wrong = response_of("bob", "bobsecre", DIGEST_URI);
    let user = "bob".to_string();
    assert_eq!(answer(wrong), Err(SaslError::WrongPassword { user }));
    let unknown = response_of("bobby", "bobsecret", DIGEST_URI);
    let user = "bobby".to_string();
    assert_eq!(answer(unknown), Err(SaslError::UnknownUser { user }));
    let shouted = RESPONSE.replace("0661063bb48b7b9fc9e3d8c1867b11ee", &"0".repeat(32));
    assert!(matches!(answer(shouted), Err(SaslError::WrongPassword { .. })));
}

#[test]
fn names_and_passwords_of_any_language_pass() {
    for user in ["été", "日本", "a \"b\"\\"] {
        let found = answer(response_of(user, password(user).unwrap(), DIGEST_URI));
        assert!(matches!(found, Ok(Step::Authenticated { user: who, .. }) if who == user));
    }
}

#[test]
fn the_case_of_what_it_talks_to_is_the_clients_choice() {
    assert!(answer(response_of("bob", "bobsecret", "ZooKeeper/ZK-SASL-MD5")).is_ok());
    for uri in ["zookeeper/other", "zookeeper", ""] {
        assert_eq!(answer(response_of("bob", "bobsecret", uri)), refused("digest-uri"), "{uri}");
    }
}

#[test]
fn whom_it_asks_to_act_as_is_hashed_and_ignored() {
    let other = RESPONSE.replace("authzid=\"bob\"", "authzid=\"super\"");
    assert!(matches!(answer(other), Err(SaslError::WrongPassword { .. })));
    let cnonce = b"cnonce";
    let uri = DIGEST_URI.as_bytes();
    let (user, realm, password) = ("bob", REALM, "bobsecret");
    let proof = Proof { user, realm, password, nonce: NONCE, cnonce, uri };
    let hash = proof.response_value("AUTHENTICATE", Some(b"super"));
    let (good, _) = response_of("bob", "bobsecret", DIGEST_URI).rsplit_once('=').map_or_else(
        || unreachable!("it ends with the hash"),
        |(before, hash)| (before.to_string(), hash.to_string()),
    );
    let found = answer(format!("{good}={hash},authzid=super"));
    assert!(matches!(found, Ok(Step::Authenticated { user, .. }) if user == "bob"));
}

#[test]
fn each_directive_must_fit_where_it_is_looked_at() {
    let good = response_of("bob", "bobsecret", DIGEST_URI);
    for more in [
        ",charset=utf-8",
        ",CHARSET=utf-8",
        ",maxbuf=-7",
        ",qop=auth",
        ",nonce-count=1",
        ",nonce-count=00000001",
        ",nc=00000009",
        ",cipher=rc4",
        ",unknown=1,unknown=2",
        ",auth-param=1",
        ",",
        " , ",
        " unknown=1",
        ",  unknown  =  \"a,b\"  ",
        ",unknown=",
        ",unknown",
    ] {
        let found = answer(format!("{good}{more}"));
        // A missing value at the very end is the only one of these that is refused.
        assert_eq!(found.is_ok(), more != ",unknown=", "{more}: {found:?}");
    }
    for (more, directive) in [
        (",charset=UTF-8", "charset"),
        (",charset=iso-8859-1", "charset"),
        (",maxbuf=much", "maxbuf"),
        (",maxbuf=99999999999", "maxbuf"),
        (",qop=auth-int", "qop"),
        (",qop=AUTH", "qop"),
        (",nonce-count=2", "nonce-count"),
        (",nonce-count=zz", "nonce-count"),
    ] {
        assert_eq!(answer(format!("{good}{more}")), refused(directive), "{more}");
    }
    for (have, directive) in [
        ("username=", "username"),
        ("realm=", "realm"),
        (",nonce=", "nonce"),
        (",cnonce=", "cnonce"),
        ("digest-uri=", "digest-uri"),
        ("response=", "response"),
    ] {
        let without = good.replacen(have, &have.replace(directive, "other"), 1);
        assert_eq!(answer(without), refused(directive));
    }
    assert_eq!(answer(good.replace("realm=\"zk", "realm=\"qk")), refused("realm"));
    assert!(answer(good).is_ok());
}

#[test]
fn text_that_is_no_list_is_malformed() {
    for text in [
        "garbage,",
        "a b",
        "a ",
        "=x",
        "a,b=c",
        "username=",
        "username=\"bob",
        "username=\"bob\\",
        "username=\"bob\"x",
        "username=a,username=b",
        "username=a,USERNAME=a",
        "auth-param=1,auth-param=2",
    ] {
        assert!(is_malformed(text), "{text}");
    }
    for text in ["", " ", ",,,", "garbage", "a=b"] {
        assert_eq!(answer(text), refused("username"), "{text}");
    }
    assert_eq!(answer(b"\xff\xfe\0"), refused("username"));
}

#[test]
fn a_response_cut_off_anywhere_proves_nothing() {
    let (bytes, full) = (RESPONSE.as_bytes(), RESPONSE.len());
    for end in 0..full {
        // A cut within a quoted value makes the response malformed; any other cut makes it
        // incomplete or its hash wrong.
        let found = answer(&bytes[..end]);
        assert!(found.is_err(), "cut at {end}: {found:?}");
    }
}

#[test]
fn a_token_has_a_greatest_length() {
    let good = response_of("bob", "bobsecret", DIGEST_URI);
    let padded = |bytes: usize| format!("{good}{}", ",".repeat(bytes - good.len()));
    assert!(answer(padded(SASL_TOKEN_BYTES_MAX)).is_ok());
    let too_long = padded(SASL_TOKEN_BYTES_MAX + 1);
    let bytes = SASL_TOKEN_BYTES_MAX + 1;
    // The token is not even parsed, so the exchange goes on.
    let mut exchange = challenged();
    let found = exchange.step(too_long.as_bytes(), &nonce(), password);
    assert_eq!(found, Err(SaslError::TokenTooLong { bytes }));
    assert!(exchange.step(good.as_bytes(), &nonce(), password).is_ok());
    let first = Exchange::New.step(too_long.as_bytes(), &nonce(), password);
    assert_eq!(first, Err(SaslError::TokenTooLong { bytes }));
}
