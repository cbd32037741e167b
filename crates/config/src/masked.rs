//! Hides secrets in configuration files and properties before they are shown.
//!
//! The admin server shows the configuration file and the properties to every client of its port.
//! The value of a key that contains a secret word (a password, a SASL user, a digest of a password)
//! is shown as [`MASK`]. A comment that mentions such a word is cut off, because people comment out
//! lines that they may need again.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use zk::files::properties::{join_lines, lines, split_entry, unescape};

/// The text that replaces a secret.
pub const MASK: &str = "***";

/// Words, in lower case, that make a key or a comment secret.
const SECRET_WORDS: [&str; 5] =
    ["password", "superdigest", "super_digest", "sasl_users", "sasl.users"];

/// Whether the value of this key must be hidden. This covers the path of a password file, too,
/// which operators do not need.
pub fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| key.contains(word))
}

/// The text of a `zoo.cfg` with its secrets hidden.
pub(super) fn zoo_cfg(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut lines = lines(text);
    while let Some(line) = lines.next() {
        let entry = line.trim_start();
        if entry.starts_with(['#', '!']) {
            shown.push_str(if is_secret(entry) { "# ***" } else { line });
            shown.push('\n');
            continue;
        }
        let mut continued = Vec::new();
        let logical = join_lines(line, lines.by_ref().inspect(|next| continued.push(*next)));
        let written = split_entry(&logical).0;
        // An unreadable key is an error of the file, and such a file is never shown.
        let key = unescape(written).unwrap_or_else(|_| written.to_string());
        if is_secret(&key) {
            shown.push_str(&format!("{key}={MASK}\n"));
            continue;
        }
        for line in [line].into_iter().chain(continued) {
            shown.push_str(line);
            shown.push('\n');
        }
    }
    shown
}

/// The text of a `quorate.toml` with its secrets hidden. Invalid TOML is hidden as a whole.
pub(super) fn toml(text: &str) -> String {
    let Ok(table) = DeTable::parse(text) else { return MASK.to_string() };
    let mut secrets = Vec::new();
    find_secrets(table.get_ref(), false, &mut secrets);
    let mut shown = text.to_string();
    // Replace from the end, so that the positions of earlier secrets stay right.
    secrets.sort_by_key(|span| std::cmp::Reverse(span.start));
    for span in secrets {
        shown.replace_range(span, &format!("\"{MASK}\""));
    }
    let cut = |line: &str| match line.split_once('#') {
        Some((before, comment)) if is_secret(comment) => format!("{before}# {MASK}\n"),
        _ => format!("{line}\n"),
    };
    shown.lines().map(cut).collect()
}

/// Collects the byte ranges of the secret values in a table and its inner tables. `is_within`: the
/// key of the table is secret itself, so all its values are.
fn find_secrets(table: &DeTable<'_>, is_within: bool, secrets: &mut Vec<Range<usize>>) {
    for (key, value) in table {
        find_in_value(value, is_within || is_secret(key.get_ref()), secrets);
    }
}

fn find_in_value(value: &Spanned<DeValue<'_>>, is_hidden: bool, secrets: &mut Vec<Range<usize>>) {
    match value.get_ref() {
        DeValue::Table(table) => find_secrets(table, is_hidden, secrets),
        _ if is_hidden => secrets.push(value.span()),
        DeValue::Array(items) => {
            items.iter().for_each(|item| find_in_value(item, false, secrets));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
