use super::*;

/// Scans a whole input. Returns the length of the first value, or the error.
fn scanned(text: &[u8]) -> Result<Option<usize>, String> {
    let mut scanner = Scanner::default();
    match scanner.scan(text).map_err(|error| error.0)? {
        Some(len) => Ok(Some(len)),
        None => {
            let ended = scanner.finish().map_err(|error| error.0)?;
            Ok(ended.then_some(text.len()))
        }
    }
}

#[test]
fn a_value_ends_where_it_is_complete() {
    let check = |text: &str, expected: Option<usize>| {
        assert_eq!(scanned(text.as_bytes()), Ok(expected), "{text}");
    };
    check("", None);
    check(" \r\n\t", None);
    check("{}", Some(2));
    check(" {} {}", Some(3));
    check("{}x", Some(2));
    check("[1,2 , 3]", Some(9));
    check("[ ]", Some(3));
    check("{ }", Some(3));
    check(r#"{"a":{"b":[true,false,null]}}"#, Some(29));
    check(r#""a\"\\\/\b\f\n\r\t\u00e9" 1"#, Some(25));
    check("12", Some(2));
    check("-0.5e+10 ", Some(8));
    check("0", Some(1));
    check("01", Some(1));
    check("1E5,", Some(3));
    check("true", Some(4));
    check("nullx", Some(4));
}

/// The error texts are etcd 3.6.16's answers to the same bodies.
#[test]
fn errors_are_those_of_etcd() {
    let check = |text: &str, expected: &str| {
        assert_eq!(scanned(text.as_bytes()), Err(expected.to_string()), "{text}");
    };
    check("garbage", "invalid character 'g' looking for beginning of value");
    check("{", "unexpected EOF");
    check("{1:2}", "invalid character '1' looking for beginning of object key string");
    check("{'a':1}", r"invalid character '\'' looking for beginning of object key string");
    check(r#"{"key" "Zm9v"}"#, r#"invalid character '"' after object key"#);
    check(r#"{"key":"Zm9v",}"#, "invalid character '}' looking for beginning of object key string");
    check(r#"{"key":"Zm9v" "b"}"#, r#"invalid character '"' after object key:value pair"#);
    check("[1 2]", "invalid character '2' after array element");
    check("[1,]", "invalid character ']' looking for beginning of value");
    check(r#"{"key":tru}"#, "invalid character '}' in literal true (expecting 'e')");
    check("nul!", "invalid character '!' in literal null (expecting 'l')");
    check("fa ", "invalid character ' ' in literal false (expecting 'l')");
    check(r#"{"key":01}"#, "invalid character '1' after object key:value pair");
    check(r#"{"key":-}"#, "invalid character '}' in numeric literal");
    check(r#"{"key":1.}"#, "invalid character '}' after decimal point in numeric literal");
    check(r#"{"key":1e}"#, "invalid character '}' in exponent of numeric literal");
    check(r#"{"key":1e+}"#, "invalid character '}' in exponent of numeric literal");
    check("\"\t\"", r"invalid character '\t' in string literal");
    check(r#""\x""#, "invalid character 'x' in string escape code");
    check(r#""\u12""#, r#"invalid character '"' in \u hexadecimal character escape"#);
    check("\u{1}", r"invalid character '\x01' looking for beginning of value");
    check("]", "invalid character ']' looking for beginning of value");
}

#[test]
fn bytes_are_quoted_as_by_go() {
    let check = |byte: u8, expected: &str| assert_eq!(quoted(byte), expected);
    check(b'a', "'a'");
    check(b'"', "'\"'");
    check(b'\\', r"'\\'");
    check(0, r"'\x00'");
    check(7, r"'\a'");
    check(8, r"'\b'");
    check(11, r"'\v'");
    check(12, r"'\f'");
    check(13, r"'\r'");
    check(0x7f, r"'\x7f'");
    check(0x80, r"'\u0080'");
    check(0xad, r"'\u00ad'");
    check(0xe9, "'é'");
}

#[test]
fn pieces_are_scanned_like_the_whole() {
    let text = r#" {"a":[1.5e3,"x\u00e9",{}],"b":null} {"c":-0} "#.as_bytes();
    for cut in 0..=text.len() {
        let mut ends = Vec::new();
        let mut scanner = Scanner::default();
        let mut at = 0;
        for piece in [&text[..cut], &text[cut..]] {
            let mut rest = piece;
            while let Some(len) = scanner.scan(rest).unwrap() {
                ends.push(at + len);
                at += len;
                rest = &rest[len..];
            }
            at += rest.len();
        }
        assert_eq!(scanner.finish(), Ok(false));
        assert_eq!(ends, [36, 45], "cut at {cut}");
    }
}

#[test]
fn values_within_each_other_are_bounded() {
    let nested = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
    assert_eq!(scanned(nested(JSON_DEPTH_MAX).as_bytes()), Ok(Some(2 * JSON_DEPTH_MAX)));
    let error = "invalid character '[' exceeded max depth".to_string();
    assert_eq!(scanned(nested(JSON_DEPTH_MAX + 1).as_bytes()), Err(error.clone()));
    assert_eq!(scanned("[".repeat(2_000_000).as_bytes()), Err(error));
    let objects = "{\"a\":".repeat(JSON_DEPTH_MAX + 1);
    let error = "invalid character '{' exceeded max depth".to_string();
    assert_eq!(scanned(objects.as_bytes()), Err(error));
}

#[test]
fn a_value_that_is_cut_off_is_an_error() {
    let text = r#"{"a":[1.5e3,"x\u00e9",{}],"b":null}"#;
    for cut in 1..text.len() {
        let found = scanned(&text.as_bytes()[..cut]);
        assert_eq!(found, Err("unexpected EOF".to_string()), "{}", &text[..cut]);
    }
}
