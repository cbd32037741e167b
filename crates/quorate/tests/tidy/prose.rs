//! Counts phrases that people had to read twice, in comments and in pages of docs. Each may occur
//! at most so often, and these maximums only shrink.

use std::fs;

use super::{assert_none, crates, files_below, root, rust_files};

/// The phrases, each with the maximum number of its occurrences. A rewrite that removes an
/// occurrence must also lower the maximum; the test fails until the two are equal.
const FRAMES: [(&str, usize); 12] = [
    ("of which", 5),
    ("by which", 3),
    ("from which", 2),
    ("with which", 0),
    ("that it is for", 0),
    ("stands", 10),
    ("is told", 1),
    ("are told", 0),
    ("whoever", 0),
    ("by and by", 0),
    ("none: it", 0),
    ("that which", 0),
];

/// The pages beside the folder `docs`.
const PAGES: [&str; 3] = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"];

/// The text of the comment in a line of code, or `None` if the line has none.
fn comment_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = match line.strip_prefix("//") {
        Some(text) => text,
        None => line.split_once(" // ")?.1,
    };
    Some(text.trim_start_matches(['/', '!']).trim())
}

/// The text of all comments and pages, joined with one blank between words.
fn prose() -> String {
    let mut lines = Vec::new();
    for (folder, _) in crates().into_values() {
        for file in ["src", "tests"].iter().flat_map(|inner| rust_files(&folder.join(inner))) {
            let text = fs::read_to_string(&file).expect("a source file is text");
            lines.extend(text.lines().filter_map(comment_of).map(str::to_string));
        }
    }
    let docs = root().join("docs");
    let is_page = |path: &std::path::PathBuf| {
        let is_report = path.strip_prefix(&docs).is_ok_and(|inner| inner.starts_with("reports"));
        !is_report && path.extension().is_some_and(|extension| extension == "md")
    };
    let pages = files_below(&docs).into_iter().filter(is_page);
    for page in pages.chain(PAGES.iter().map(|page| root().join(page))) {
        lines.push(fs::read_to_string(&page).expect("a page is text"));
    }
    let words: Vec<&str> = lines.iter().flat_map(|line| line.split_whitespace()).collect();
    words.join(" ").to_lowercase()
}

/// How often a phrase occurs as whole words.
fn count(prose: &str, frame: &str) -> usize {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let is_whole = |(at, found): &(usize, &str)| {
        let (before, behind) = (&prose[..*at], &prose[at + found.len()..]);
        !is_letter(before.chars().next_back()) && !is_letter(behind.chars().next())
    };
    prose.match_indices(frame).filter(is_whole).count()
}

#[test]
fn frames_that_are_read_twice_only_become_fewer() {
    let prose = prose();
    let mut complaints = Vec::new();
    for (frame, most) in FRAMES {
        let found = count(&prose, frame);
        if found != most {
            let why = if found > most { "say it plainly" } else { "correct the list" };
            complaints.push(format!("{frame:?} occurs {found} times, listed are {most}: {why}"));
        }
    }
    assert_none(complaints);
}

#[test]
fn frames_are_counted_as_whole_words() {
    assert_eq!(count("it stands. understands what stands", "stands"), 2);
    assert_eq!(comment_of("    /// A key."), Some("A key."));
    assert_eq!(comment_of("let x = 1; // why"), Some("why"));
    assert_eq!(comment_of("let x = 1;"), None);
}
