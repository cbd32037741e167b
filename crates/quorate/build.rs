//! Gives the binary the date of its source, which is part of the version that ZooKeeper clients
//! see.
//!
//! ZooKeeper's version ends with the time of the build, and clients expect one there. Our own build
//! time would make every build a different binary. So the date is `SOURCE_DATE_EPOCH` if that is
//! set (reproducible-builds.org), else the time of the commit, else the beginning of 1970.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    // Git appends to this file whenever another commit is checked out, so the date is computed
    // again.
    if let Some(path) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={path}");
    }
    let chosen = std::env::var("SOURCE_DATE_EPOCH").ok();
    let seconds = chosen.or_else(|| git(&["log", "-1", "--format=%ct"]));
    let seconds = seconds.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    println!("cargo::rustc-env=QUORATE_BUILD_DATE={}", shown(seconds));
}

/// Runs git with these arguments. Returns its output, or `None` if git fails, is missing or finds
/// no repository, or if the output is empty.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?.trim().to_string();
    (output.status.success() && !said.is_empty()).then_some(said)
}

/// Formats seconds since 1970 as ZooKeeper does: `2026-11-23 17:12 UTC`.
fn shown(seconds: u64) -> String {
    let (mut days, minutes) = (seconds / 86_400, seconds % 86_400 / 60);
    let mut year = 1970;
    while days >= days_of_year(year) {
        days -= days_of_year(year);
        year += 1;
    }
    let february = days_of_year(year) - 337;
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (day, hour, minute) = (days + 1, minutes / 60, minutes % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

fn days_of_year(year: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    if is_leap { 366 } else { 365 }
}
