use super::*;

#[test]
fn percent_signs_are_resolved() {
    let check = |text: &str, expected: &str| assert_eq!(decode_percent(text, false), expected);
    check("", "");
    check("ruok", "ruok");
    check("x%22y", "x\"y");
    check("a+b", "a+b");
    check("%", "%");
    check("%4", "%4");
    check("%zz", "%zz");
    check("%+1", "%+1");
    check("%e4", "\u{fffd}");
    check("%c3%a4", "ä");
}

#[test]
fn a_command_is_what_follows_the_url() {
    let check = |path: &str, expected: Option<&str>| {
        assert_eq!(command_name("/commands", path).as_deref(), expected, "{path}");
    };
    check("/commands", Some(""));
    check("/commands/", Some(""));
    check("/commands/ruok", Some("ruok"));
    check("/commands//ruok", Some("/ruok"));
    check("/commands/isro/x", Some("isro/x"));
    check("/commands/x%22y", Some("x\"y"));
    check("/", None);
    check("/commandsx", None);
    check("/x/commands", None);
}

#[test]
fn a_query_is_keys_and_values() {
    let check = |text: &str, expected: &[(&str, &str)]| {
        let found: Vec<(String, String)> = query(text).collect();
        let found: Vec<(&str, &str)> = found.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(found, expected, "{text}");
    };
    check("", &[]);
    check("streaming=true", &[("streaming", "true")]);
    check("name%5B%5D=a+b&&x&y=", &[("name[]", "a b"), ("x", ""), ("y", "")]);
}
