//! Checks the ids of the ACL scheme `x509`: distinguished names as people write them.
//!
//! ZooKeeper 3.9 `X509AuthenticationProvider.isValid` calls Java's `X500Principal(String)`; the
//! rules here are those of its parser, found by trying inputs. It matters only whether a name is
//! well formed: ids are compared as text.

/// The attribute names that Java's parser knows, in capitals. Other attributes are written as
/// object identifiers.
const KEYWORDS: [&str; 21] = [
    "C",
    "CN",
    "DC",
    "DNQ",
    "DNQUALIFIER",
    "EMAIL",
    "EMAILADDRESS",
    "GENERATION",
    "GIVENNAME",
    "INITIALS",
    "IP",
    "L",
    "O",
    "OU",
    "S",
    "SERIALNUMBER",
    "ST",
    "STREET",
    "SURNAME",
    "T",
    "UID",
];

/// The characters that a backslash may escape outside quotes, beside two hexadecimal digits.
const ESCAPABLE: &str = ",=\n+<>#;\\\" ";
/// The characters that a backslash may escape between quotes.
const ESCAPABLE_IN_QUOTES: &str = ",=\n+<>#;\\\"";
/// The characters that are not allowed outside quotes without a backslash.
const SPECIAL: &str = ",+<>;\"";

/// Whether `text` is a distinguished name.
pub(super) fn is_valid(text: &str) -> bool {
    text.is_empty()
        || split(text, &[',', ';'])
            .into_iter()
            .all(|name| split(name, &['+']).into_iter().all(attribute_is_valid))
}

/// Splits `text` at the separators. A separator does not count if it is escaped, or if exactly one
/// quote precedes it in its part.
fn split<'a>(text: &'a str, separators: &[char]) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped, mut quote_count) = (0, false, 0);
    for (index, c) in text.char_indices() {
        if separators.contains(&c) && !escaped && quote_count != 1 {
            parts.push(&text[start..index]);
            start = index + c.len_utf8();
            quote_count = 0;
        } else if c == '"' && !escaped {
            quote_count += 1;
        }
        escaped = c == '\\' && !escaped;
    }
    parts.push(&text[start..]);
    parts
}

/// Whether `text` is an attribute, `name=value`, or `OID=value`.
fn attribute_is_valid(text: &str) -> bool {
    let Some((keyword, value)) = text.split_once('=') else { return false };
    let keyword = keyword.trim_matches(|c| c <= ' ').to_ascii_uppercase();
    let keyword_is_valid = KEYWORDS.contains(&keyword.as_str())
        || oid_is_valid(keyword.strip_prefix("OID.").unwrap_or(&keyword));
    let value = value.trim_start_matches([' ', '\n']);
    keyword_is_valid
        && match value.chars().next() {
            Some('#') => hex_is_valid(&value[1..]),
            Some('"') => quoted_is_valid(&value[1..]),
            _ => plain_is_valid(value),
        }
}

/// Whether `text` is an object identifier: two or more numbers between dots, the first two within
/// the bounds of their DER encoding.
fn oid_is_valid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let digits = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let small = |part: &str| match part.trim_start_matches('0') {
        "" => Some(0),
        digits => digits.parse::<u32>().ok(),
    };
    if parts.len() < 2 || !parts.iter().all(digits) {
        return false;
    }
    match small(parts[0]) {
        Some(0 | 1) => small(parts[1]).is_some_and(|second| second < 40),
        Some(2) => true,
        _ => false,
    }
}

/// Whether `text` is one whole DER value in hexadecimal digits.
fn hex_is_valid(text: &str) -> bool {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let Some(digits) = digits.filter(|digits| digits.len() % 2 == 0) else { return false };
    let bytes: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    let [tag, length, rest @ ..] = bytes.as_slice() else { return false };
    let length_bytes = usize::from(length & 0x7f);
    let (length, content_bytes) = match length & 0x80 {
        0 => (u64::from(*length), rest.len()),
        _ if length_bytes == 0 || length_bytes > 4 || rest.len() < length_bytes => return false,
        _ => (
            rest[..length_bytes].iter().fold(0, |value, byte| value << 8 | u64::from(*byte)),
            rest.len() - length_bytes,
        ),
    };
    tag & 0x1f != 0x1f && length == content_bytes as u64
}

/// Whether `text`, which follows an opening quote, ends with a closing quote and has valid escapes.
fn quoted_is_valid(text: &str) -> bool {
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' => return rest.all(|c| c == ' ' || c == '\n'),
            '\\' if !escape_is_valid(&mut rest, ESCAPABLE_IN_QUOTES) => return false,
            _ => {}
        }
    }
    false
}

fn plain_is_valid(text: &str) -> bool {
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let valid = match c {
            '\\' => escape_is_valid(&mut rest, ESCAPABLE),
            c => !SPECIAL.contains(c),
        };
        if !valid {
            return false;
        }
    }
    true
}

/// Whether the text behind a backslash begins with two hexadecimal digits, or with a character of
/// `escapable`.
fn escape_is_valid(rest: &mut core::str::Chars<'_>, escapable: &str) -> bool {
    match rest.next() {
        Some(c) if c.is_ascii_hexdigit() => rest.next().is_some_and(|c| c.is_ascii_hexdigit()),
        Some(c) => escapable.contains(c),
        None => false,
    }
}

#[cfg(test)]
mod tests;
