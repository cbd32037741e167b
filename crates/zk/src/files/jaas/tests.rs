use super::*;

/// Fails unless the parsed text is `expected`: `section{class key=value ...; ...}` for each
/// section, or the line and cause of the error.
fn check(text: &str, expected: &str) {
    let mut property = |name: &str| (name == "zk.pw").then(|| "s3 c}ret".to_string());
    let found = match parse(text, &mut property) {
        Err((line, cause)) => format!("{line}: {cause}"),
        Ok(sections) => sections.iter().map(show).collect::<Vec<_>>().join(" "),
    };
    assert_eq!(found, expected, "{text}");
}

fn show(section: &Section) -> String {
    let option = |option: &JaasOption| format!(" {}={}", option.key, option.value);
    let module = |module: &Module| {
        format!("{}{};", module.class, module.options.iter().map(option).collect::<String>())
    };
    format!("{}{{{}}}", section.name, section.modules.iter().map(module).collect::<String>())
}

#[test]
fn sections_modules_and_options_are_read() {
    check("", "");
    check("\n // nothing\n", "");
    check("Server{};", "Server{}");
    check("Server { a.B required; };", "Server{a.B;}");
    check("Server { a.B REQUIRED k=v; };", "Server{a.B k=v;}");
    check(
        "S { a.B required\n k=v\n l=\"w x\"\n ;\n};\nT { c optional; d sufficient m=n; };",
        "S{a.B k=v l=w x;} T{c;d m=n;}",
    );
    check("Server{a required user_a-b$c*1.2=x;};", "Server{a user_a-b$c*1.2=x;}");
    check("\"My Server\" { \"a\" required \"user_a@b\"=\"c\"; };", "My Server{a user_a@b=c;}");
    check("S { a required k=\"1\" k=\"2\"; };", "S{a k=1 k=2;}");
    check("S { a required user_été=\"pâss\"; };", "S{a user_été=pâss;}");
}

#[test]
fn comments_are_of_three_kinds() {
    check("S { a required // k=v\n l=w /* m=n\n */ o=p / q=r\n ; };", "S{a l=w o=p;}");
    check("S { a required k=\"//no /* comment\"; };", "S{a k=//no /* comment;}");
    check("/**/S{};", "S{}");
    check("S{};/* x", "1: a comment does not end");
}

#[test]
fn quotes_keep_everything_but_escapes_and_ends_of_lines() {
    check(r#"S { a required k="\"\\\t\n\x\101\1012\7777"; };"#, "S{a k=\"\\\t\nxAA2?77;}");
    check("S { a required k=\"\"; };", "S{a k=;}");
    check("S { a required k=\"open\n\"; };", "1: a quote is not closed on its line");
    check("S { a required k=\"open", "1: a quote is not closed on its line");
    check("S { a required k=\"open\\", "1: a quote is not closed on its line");
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    check("S", "1: '{' is expected and the file ends");
    check("S {", "1: the class of a login module is expected and the file ends");
    check("{", "1: the name of a section is expected and '{' found");
    check("S {}\nT {};", "2: ';' is expected and \"T\" found");
    check("S { a needed; };", "1: \"needed\" is none of required, requisite, sufficient, optional");
    check("S { a required k; };", "1: '=' is expected and ';' found");
    check("S { a required\n k=; };", "2: the value of an option is expected and ';' found");
    check("S { a required\n\n k=v, l=w; };", "3: an option or a ; is expected and ',' found");
    check("S { a required k=v }", "1: an option or a ; is expected and '}' found");
    check("S { a required k=v;\n", "2: the class of a login module is expected and the file ends");
    check(
        "S { a required k='v'; };",
        "1: the value of an option is expected and '\\'' found; only double quotes are known",
    );
    check(
        "S { a required k=1; };",
        "1: the value of an option is expected and '1' found; what begins with it must be in double \
         quotes",
    );
    check("# S\n", "1: the name of a section is expected and '#' found; a comment begins with //");
    check("S {};\nS {};", "2: there are two sections \"S\"");
    check(
        "S { a required\n k=\"${no}/x\"; };",
        "2: the property \"no\" is not set: set -Dno=VALUE",
    );
}

#[test]
fn properties_are_put_into_values_of_options() {
    let check_value =
        |value: &str, expected: &str| check(&format!("S {{a required k=\"{value}\";}};"), expected);
    check_value("${zk.pw}", "S{a k=s3 c}ret;}");
    check_value("a${zk.pw}b${/}${zk.pw}", "S{a k=as3 c}retb/s3 c}ret;}");
    check_value("$zk.pw $$ {}", "S{a k=$zk.pw $$ {};}");
    check_value("x${{zk.pw}}y", "S{a k=x${{zk.pw}}y;}");
    check_value("x${zk.pw", "S{a k=x${zk.pw;}");
    check_value("x${{zk.pw}", "S{a k=x${{zk.pw};}");
    // Properties are not replaced within a key.
    check("S { a required \"user_${zk.pw}\"=x; };", "S{a user_${zk.pw}=x;}");
}

#[test]
fn a_text_cut_off_anywhere_never_panics() {
    let text = "S { a.B required /* x */ k=\"\\101\\\"\" // y\n l=w; };";
    for end in 0..text.len() {
        assert_eq!(parse(&text[..end], &mut |_| None).is_ok(), end == 0, "cut at {end}");
    }
    assert!(parse(text, &mut |_| None).is_ok());
}
