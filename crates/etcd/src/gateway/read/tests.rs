use super::*;

fn text(raw: &str) -> Result<String, String> {
    match Reader::new(raw.as_bytes()).token() {
        Ok(Token::Text(text)) => Ok(text.into_owned()),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.0),
    }
}

#[test]
fn escapes_stand_for_characters() {
    let check = |raw: &str, expected: &str| assert_eq!(text(raw), Ok(expected.to_string()));
    check(r#""""#, "");
    check(r#""abc""#, "abc");
    check(r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t");
    check(r#""a\u00e9b""#, "aéb");
    check(r#""\ud83d\ude00!""#, "😀!");
    check(r#""é""#, "é");
}

#[test]
fn half_a_character_is_an_error() {
    for raw in [r#""\ud800""#, r#""\ud800\u0041""#, r#""\udc00\udc00""#, r#""\ud800x""#] {
        assert!(text(raw).unwrap_err().starts_with("proto: syntax error (line 1:1): "), "{raw}");
    }
}

#[test]
fn bytes_that_are_no_text_are_an_error() {
    let mut reader = Reader::new(b"{\n \"\xff\":1}");
    assert_eq!(reader.token(), Ok(Token::Object));
    let error = "proto: syntax error (line 2:2): invalid UTF-8 in string".to_string();
    assert_eq!(reader.token(), Err(BadJson(error)));
}

#[test]
fn a_skipped_value_leaves_the_next_one() {
    for value in ["1", "null", r#""a]}""#, "[]", "{}", r#"[1,{"a":[2,"]"]},[[]]]"#, "-1.5e3"] {
        let all = format!("[{value}, true]");
        let mut reader = Reader::new(all.as_bytes());
        assert_eq!(reader.token(), Ok(Token::Array));
        assert_eq!(reader.skip(), Ok(()));
        assert_eq!(reader.token(), Ok(Token::Bool(true)), "{all}");
        assert!(reader.ends());
    }
}

#[test]
fn what_is_no_json_ends_nevertheless() {
    for text in ["", "{", "[", "!!!", "[!{", r#""a"#, "{{{[[[", "\"\\"] {
        let mut reader = Reader::new(text.as_bytes());
        for _ in 0..20 {
            let _ = reader.skip();
        }
        assert!(reader.ends(), "{text}");
    }
}
