//! Tells the binary when its source was committed, which is part of the version that clients see.
//!
//! ZooKeeper's version ends in the time of the build, and clients look for it. The time of our own
//! build would make each build another one, so it is the time of the commit, or what
//! `SOURCE_DATE_EPOCH` says (reproducible-builds.org), or, without both, the beginning of 1970.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    // This file grows with each commit that is checked out.
    if let Some(path) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={path}");
    }
    let chosen = std::env::var("SOURCE_DATE_EPOCH").ok();
    let seconds = chosen.or_else(|| git(&["log", "-1", "--format=%ct"]));
    let seconds = seconds.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    println!("cargo::rustc-env=QUORATE_BUILD_DATE={}", shown(seconds));
}

/// The output of git for these words; none if there is no git, or no repository.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?.trim().to_string();
    (output.status.success() && !said.is_empty()).then_some(said)
}

/// A time in seconds since 1970 as ZooKeeper shows it: `2026-11-23 17:12 UTC`.
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
