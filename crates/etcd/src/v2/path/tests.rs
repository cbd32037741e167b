use super::*;

#[test]
fn escapes_stand_for_bytes() {
    assert_eq!(decoded(b"a%20b%C3%a9+", false).unwrap(), "a b\u{e9}+".as_bytes());
    assert_eq!(decoded(b"a+b%2B", true).unwrap(), b"a b+");
    for (text, escape) in [("%", "%"), ("x%1", "%1"), ("%zz1", "%zz"), ("%1\u{e9}", "%1\u{fffd}")] {
        assert_eq!(decoded(text.as_bytes(), true).unwrap_err(), BadEscape(escape.to_string()));
    }
}

#[test]
fn a_path_has_one_short_form() {
    for (path, short) in [
        ("", "/"),
        ("/", "/"),
        ("//v2//keys//a", "/v2/keys/a"),
        ("/v2/keys/", "/v2/keys/"),
        ("/v2/./keys/../keys/a/.", "/v2/keys/a"),
        ("/../../x/", "/x/"),
        ("/v2/keys/a..b/.c", "/v2/keys/a..b/.c"),
    ] {
        assert_eq!(clean(path), short, "{path}");
        assert!(!is_plain(path) || path == short, "{path}");
        assert_eq!(clean(short), short);
    }
}

#[test]
fn plain_paths_are_told_from_others() {
    for path in ["/", "/v2/keys/a", "/a b/", "/a..b"] {
        assert!(is_plain(path) && clean(path) == path, "{path}");
    }
    for path in ["", "a", "/%41", "//", "/a/./b", "/.", "/a/..", "/.hidden"] {
        assert!(!is_plain(path), "{path}");
    }
}

#[test]
fn a_path_is_escaped_for_a_url() {
    let path = "/u n/\u{e9}%?x";
    assert_eq!(escaped(path), "/u%20n/%C3%A9%25%3Fx");
    assert_eq!(decoded(escaped(path).as_bytes(), false).unwrap(), path.as_bytes());
}
