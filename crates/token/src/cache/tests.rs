use super::*;
use crate::SigningMethod;
use crate::fixtures::jwt;

const NOW: i64 = 1_800_000_000;

#[test]
fn a_token_that_is_remembered_ends_all_the_same() {
    let (jwt, mut verified) = (jwt(SigningMethod::Es256), VerifiedTokens::default());
    let token = jwt.sign("a", 7, NOW + 10).unwrap();
    for now in [NOW, NOW + 9, NOW] {
        let claims = verified.verify(&jwt, &token, now).unwrap();
        assert_eq!((claims.username.as_str(), claims.revision), ("a", 7));
        assert_eq!(verified.count(), 1);
    }
    assert_eq!(verified.verify(&jwt, &token, NOW + 10), Err(JwtError::Expired));
}

#[test]
fn a_token_that_is_not_good_is_not_remembered() {
    let (jwt, mut verified) = (jwt(SigningMethod::Hs256), VerifiedTokens::default());
    let token = jwt.sign("a", 7, NOW).unwrap();
    assert_eq!(verified.verify(&jwt, &token, NOW), Err(JwtError::Expired));
    assert_eq!(verified.verify(&jwt, "a.b.c", NOW), Err(JwtError::Malformed));
    assert_eq!(verified.verify(&jwt, &token[..token.len() - 1], NOW - 1), Err(JwtError::Malformed));
    assert_eq!(verified.count(), 0);
}

#[test]
fn beyond_the_limit_the_oldest_token_is_forgotten_and_checked_anew() {
    let (jwt, mut verified) = (jwt(SigningMethod::Hs256), VerifiedTokens::default());
    let token = |number: usize| jwt.sign(&number.to_string(), 1, NOW + 10).unwrap();
    for number in 0..=VERIFIED_TOKENS_MAX {
        verified.verify(&jwt, &token(number), NOW).unwrap();
        assert_eq!(verified.count(), VERIFIED_TOKENS_MAX.min(number + 1));
    }
    let digests = |number: usize| digest(&SHA256, token(number).as_bytes()).as_ref().to_vec();
    assert!(!verified.tokens.contains_key(&digests(0)[..]));
    assert!(verified.tokens.contains_key(&digests(1)[..]));
    assert_eq!(verified.verify(&jwt, &token(0), NOW).unwrap().username, "0");
    assert_eq!(verified.count(), VERIFIED_TOKENS_MAX);
    assert_eq!(verified.order.len(), VERIFIED_TOKENS_MAX);
}
