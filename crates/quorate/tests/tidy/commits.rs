//! Checks the subjects of commits. A subject must have the form `area: what it does now`, and is
//! short enough to be read in a list.

use std::process::Command;

use super::{assert_none, root};

/// Maximum length of a subject in columns.
const COLUMNS_MAX: usize = 72;

/// The last commit that is older than this rule. Commits are checked from here on until there is a
/// tag.
const RULE_FROM: &str = "5a279c0e28532512a3e11ecf847db83134ac9655";

/// The output of a git command. `None` if git fails, which it does if the source comes from an
/// archive or has only a part of its history.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root()).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// The fault of a subject, or `None` if it is good.
fn complaint(subject: &str) -> Option<&'static str> {
    let is_area = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_., -".contains(c);
    match subject.split_once(": ") {
        _ if subject.chars().count() > COLUMNS_MAX => Some("is longer than 72 columns"),
        None => Some("names no area"),
        Some((area, _)) if area.is_empty() || !area.chars().all(is_area) => Some("names no area"),
        Some((_, what)) if what.ends_with('.') => Some("ends with a full stop"),
        Some(_) => None,
    }
}

#[test]
fn commits_since_the_last_tag_have_good_subjects() {
    let from = git(&["describe", "--tags", "--abbrev=0"]).unwrap_or_else(|| RULE_FROM.to_string());
    let Some(log) = git(&["log", "--no-merges", "--format=%s", &format!("{from}..HEAD")]) else {
        return;
    };
    let complaint = |subject: &str| complaint(subject).map(|what| format!("{subject:?} {what}"));
    assert_none(log.lines().filter_map(complaint).collect());
}

#[test]
fn bad_subjects_are_found() {
    let check = |subject: &str, expected| assert_eq!(complaint(subject), expected);
    check("storage: keep a reserve segment", None);
    check("quorate, bench: mend comments", None);
    check("zk_front: answer at once", None);
    check("mend comments", Some("names no area"));
    check("Storage: keep a reserve segment", Some("names no area"));
    check(": keep a reserve segment", Some("names no area"));
    check("storage: keep a reserve segment.", Some("ends with a full stop"));
    check(&format!("storage: {}", "x".repeat(63)), None);
    check(&format!("storage: {}", "x".repeat(64)), Some("is longer than 72 columns"));
}
