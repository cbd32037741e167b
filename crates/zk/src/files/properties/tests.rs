use super::*;

#[test]
fn properties_are_read_as_java_reads_them() {
    let check = |text: &str, expected: &[(&str, &str, u32)]| {
        let found = parse(text).unwrap();
        let found: Vec<_> =
            found.iter().map(|e| (e.key.as_str(), e.value.as_str(), e.line)).collect();
        assert_eq!(found, expected, "{text:?}");
    };
    check("", &[]);
    check("# a=b\n  ! c=d\n\n", &[]);
    check("a=b", &[("a", "b", 1)]);
    check("  a  =  b  \r\nc:d\n", &[("a", "b", 1), ("c", "d", 2)]);
    // A carriage return ends a line, too.
    check("# text\ra=b\rc=d\n\re=f\r\n", &[("a", "b", 2), ("c", "d", 3), ("e", "f", 5)]);
    check("a=b\\\r\n c\\\r d\re=f", &[("a", "bcd", 1), ("e", "f", 4)]);
    check("a b c", &[("a", "b c", 1)]);
    check("a\t:\tb", &[("a", "b", 1)]);
    check("a", &[("a", "", 1)]);
    check("a==b", &[("a", "=b", 1)]);
    check("a=b # no comment", &[("a", "b # no comment", 1)]);
    check("a=b\\\n   c\nd=e", &[("a", "bc", 1), ("d", "e", 3)]);
    check("a=b\\\n# still the value", &[("a", "b# still the value", 1)]);
    check("a=b\\\\\nc=d", &[("a", "b\\", 1), ("c", "d", 2)]);
    check("a=b\\", &[("a", "b", 1)]);
    check("a\\=b=c\\:d", &[("a=b", "c:d", 1)]);
    check("a=\\u0041\\t\\q\\ud83d\\ude00", &[("a", "A\tq\u{1f600}", 1)]);
    check("path=C:\\data", &[("path", "C:data", 1)]);
    assert!(parse("a=b\nc=\\u12").is_err_and(|(line, _)| line == 2));
    assert!(parse("a=\\ud83d!").is_err());
}

#[test]
fn numbers_are_read_as_java_reads_them() {
    for (text, expected) in [
        ("0", Some(0)),
        ("10", Some(10)),
        ("-10", Some(-10)),
        ("+10", Some(10)),
        ("0x10", Some(16)),
        ("#ff", Some(255)),
        ("-0XfF", Some(-255)),
        ("010", Some(8)),
        ("08", None),
        ("", None),
        ("0x", None),
        ("--1", None),
        ("1 ", None),
        ("9223372036854775808", None),
    ] {
        assert_eq!(decode_number(text).ok(), expected, "{text:?}");
    }
    assert_eq!(parse_decimal("010"), Ok(10));
    assert!(parse_decimal("0x10").is_err());
}

#[test]
fn jvm_flags_are_words_of_a_shell() {
    let check = |flags: &str, expected: &[(&str, &str)]| {
        let found = jvm_properties(flags);
        let found: Vec<_> = found.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(found, expected, "{flags:?}");
    };
    check("", &[]);
    check("-Xmx1g -D -server", &[]);
    check(" -Da=b\t-Dc=d=e\n-Df ", &[("a", "b"), ("c", "d=e"), ("f", "")]);
    check("'-Da=b c' -Dd=\"e f\"g", &[("a", "b c"), ("d", "e fg")]);
    check("-Da=b\\ c -Dd='\\'", &[("a", "b c"), ("d", "\\")]);
    check("-Da='' -Db=\"open c", &[("a", ""), ("b", "open c")]);
    check("-Da=\\", &[("a", "")]);
}
