//! Texts and settings without their secrets, for operators.
//!
//! The admin server shows the configuration file and the properties to every client of its port. A
//! value whose key names a password, a SASL user or a digest of a password is shown as [`MASK`]. A
//! comment that mentions such a word is cut off: people comment out lines that they may need again.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use zk::files::properties::{join_lines, lines, split_entry, unescape};

/// The text that is shown in place of a secret.
pub const MASK: &str = "***";

/// Words, in lower case, that make a secret of a key or a comment that contains them.
const SECRET_WORDS: [&str; 5] =
    ["password", "superdigest", "super_digest", "sasl_users", "sasl.users"];

/// Whether the value of this key must be masked. The path of a password file counts, too: operators
/// do not need it.
pub fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| key.contains(word))
}

/// The masked text of a `zoo.cfg`.
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
        // A key that cannot be read is an error of the file, and such a file is never shown.
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

/// The masked text of a `quorate.toml`. A text that is no TOML is masked as a whole.
pub(super) fn toml(text: &str) -> String {
    let Ok(table) = DeTable::parse(text) else { return MASK.to_string() };
    let mut secrets = Vec::new();
    find_secrets(table.get_ref(), false, &mut secrets);
    let mut shown = text.to_string();
    // The last secret is replaced first, so the places of earlier ones stay right.
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

/// Collects the places of the secret values in a table and the tables inside of it.
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
