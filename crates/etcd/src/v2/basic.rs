//! Parses the header of basic authentication (RFC 7617), in which clients of etcd v2 send user and
//! password.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const BASIC: &[u8] = b"Basic ";

/// The name and the password in the value of an `Authorization` header; `None` if the value is not
/// well-formed basic authentication (Go's `net/http.parseBasicAuth`).
pub fn basic(credentials: &[u8]) -> Option<(String, Vec<u8>)> {
    let (scheme, rest) = credentials.split_at_checked(BASIC.len())?;
    if !scheme.eq_ignore_ascii_case(BASIC) {
        return None;
    }
    let mut decoded = STANDARD.decode(rest).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let password = decoded.split_off(colon + 1);
    decoded.pop();
    Some((String::from_utf8(decoded).ok()?, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_authentication_is_read_as_go_reads_it() {
        let of = |text: &str| basic(text.as_bytes());
        let some = |name: &str, word: &str| Some((name.to_string(), word.as_bytes().to_vec()));
        assert_eq!(of("Basic YWRhOnNlY3JldA=="), some("ada", "secret"));
        assert_eq!(of("bASIC YWRhOnNlY3JldA=="), some("ada", "secret"));
        assert_eq!(of("Basic YWRhOmE6Yg=="), some("ada", "a:b"));
        assert_eq!(of("Basic Og=="), some("", ""));
        for other in
            ["", "Basic", "Basic ", "Basic YWRh", "Basic ?", "Bearer YWRhOmI=", "Basic /zox"]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
