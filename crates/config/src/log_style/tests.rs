use super::*;

fn style(level: &str, format: &str, outputs: &[&str]) -> Result<LogStyle, String> {
    let outputs: Vec<String> = outputs.iter().map(ToString::to_string).collect();
    LogStyle::from_etcd("zap", level, format, &outputs)
}

#[test]
fn etcds_flags_choose_level_form_and_outputs() {
    let default = style("info", "json", &["default"]).expect("the values are right");
    assert_eq!(default, LogStyle { filter: "info", is_json: true, outputs: vec![Output::Stderr] });
    let other = style("fatal", "console", &["stdout", "/l"]).expect("the values are right");
    assert_eq!((other.filter, other.is_json), ("error", false));
    assert_eq!(other.outputs, [Output::Stdout, Output::File("/l".into())]);
    assert_eq!(style("info", "json", &[]).expect("it is the default").outputs, [Output::Stderr]);
}

#[test]
fn wrong_values_are_named_as_in_etcd() {
    for (found, expected) in [
        (style("loud", "json", &[]), "unrecognized level: \"loud\""),
        (style("info", "xml", &[]), "unknown log format: xml, supported values json, console"),
        (
            style("info", "json", &["default", "stdout"]),
            "multi logoutput for \"default\" is not supported yet",
        ),
        (LogStyle::from_etcd("x", "info", "json", &[]), "unknown logger option \"x\""),
    ] {
        assert_eq!(found.expect_err("it is wrong"), expected);
    }
}
