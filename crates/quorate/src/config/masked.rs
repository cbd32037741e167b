//! Texts and settings without their secrets, for those who watch a server.
//!
//! The admin server shows the configuration file and the properties to anyone who reaches its port.
//! A value whose key names a password, a SASL user or a digest of a password is shown as [`MASK`].
//! A comment that mentions one is cut off: people comment out the lines that they may need again.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::properties::{join_lines, split_entry, unescape};

/// The text that is shown in place of a secret.
pub const MASK: &str = "***";

/// Words that make a secret of the key they occur in, or of a comment, in lower case.
const SECRET_WORDS: [&str; 5] =
    ["password", "superdigest", "super_digest", "sasl_users", "sasl.users"];

/// Whether the value of this key is nobody else's business. The path of a file with a password
/// counts, too: nobody needs it.
pub fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| key.contains(word))
}

/// The text of a `zoo.cfg` without its secrets.
pub(super) fn zoo_cfg(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut lines = text.lines();
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
        // A key that cannot be read is an error of the file, which is not served then.
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

/// The text of a `quorate.toml` without its secrets. A text that is no TOML is not shown at all.
pub(super) fn toml(text: &str) -> String {
    let Ok(table) = DeTable::parse(text) else { return MASK.to_string() };
    let mut secrets = Vec::new();
    find_secrets(table.get_ref(), false, &mut secrets);
    let mut shown = text.to_string();
    // From the end, so that the places of those before stay.
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

/// Collects where the secret values of a table stand, those of tables in it included.
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
