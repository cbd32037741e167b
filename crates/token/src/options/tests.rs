use super::*;

fn duration(text: &str) -> Option<Duration> {
    let seconds = text.strip_suffix('s')?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn jwt(text: &str) -> JwtOptions {
    match AuthToken::parse(text, duration) {
        Ok(AuthToken::Jwt(options)) => options,
        other => panic!("{text}: {other:?}"),
    }
}

/// The text of the error, and the reason in it for the log.
fn refused(text: &str) -> (String, String) {
    match AuthToken::parse(text, duration) {
        Err(error @ OptionsError::InvalidOptions { .. }) => {
            let OptionsError::InvalidOptions { why } = &error else { unreachable!() };
            (error.to_string(), why.clone())
        }
        Err(error) => (error.to_string(), String::new()),
        Ok(parsed) => panic!("{text}: {parsed:?}"),
    }
}

#[test]
fn each_kind_of_token_has_a_name() {
    assert_eq!(AuthToken::parse("simple", duration), Ok(AuthToken::Simple));
    assert_eq!(AuthToken::parse("simple,a=b", duration), Ok(AuthToken::Simple));
    assert_eq!(AuthToken::parse("", duration), Ok(AuthToken::Nothing));
    let options = jwt("jwt,pub-key=a.pub,priv-key=a.pem,sign-method=RS256,ttl=600s");
    assert_eq!(options.method, SigningMethod::Rs256);
    assert_eq!(options.ttl, Duration::from_secs(600));
    assert_eq!(options.public_key.as_deref(), Some("a.pub"));
    assert_eq!(options.private_key.as_deref(), Some("a.pem"));
}

#[test]
fn what_is_not_given_or_empty_has_a_default() {
    for text in ["jwt,sign-method=ES512", "jwt,ttl=,pub-key=,priv-key=,sign-method=ES512"] {
        let options = jwt(text);
        assert_eq!(options.method, SigningMethod::Es512);
        assert_eq!(options.ttl, Duration::from_secs(300));
        assert_eq!((options.public_key, options.private_key), (None, None));
    }
    assert_eq!(jwt("jwt,sign-method=HS256,x=y,b=").unknown, ["b", "x"]);
}

#[test]
fn each_method_has_its_name() {
    for method in SigningMethod::ALL {
        assert_eq!(jwt(&format!("jwt,sign-method={}", method.name())).method, method);
    }
}

#[test]
fn options_that_cannot_be_read_are_refused_as_by_etcd() {
    let check = |text: &str, reason: &str| {
        let (error, why) = refused(text);
        assert_eq!(error, "auth: invalid auth options", "{text}");
        assert!(why.contains(reason), "{text}: {why}");
    };
    check("jwt", "invalid auth signature method");
    check("jwt,", "\"\" is no NAME=VALUE");
    check("jwt,sign-method", "\"sign-method\" is no NAME=VALUE");
    check("jwt,sign-method=RS256=", "no NAME=VALUE");
    check("jwt,sign-method=RS256,sign-method=RS256", "given twice");
    check("simple,a=b,a=b", "given twice");
    check("jwt,sign-method=rs256", "signature method: \"rs256\"");
    check("jwt,sign-method=RS256,ttl=10", "\"10\" is no time");
    check("Jwt,sign-method=RS256", "\"Jwt\" is no kind of token");
    check("jwt ,sign-method=RS256", "no kind of token");
    let none = refused("jwt,sign-method=none").0;
    assert_eq!(none, "unsupported signing method: *jwt.signingMethodNone");
}
