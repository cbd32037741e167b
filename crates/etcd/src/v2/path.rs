//! Decodes and encodes the escapes in paths of URLs, and brings paths into their shortest form.

use thiserror::Error;

/// A `%` in a URL that is not followed by two hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid URL escape {0:?}")]
pub struct BadEscape(pub String);

/// Decodes the escapes of a URL or form: `%` and two hexadecimal digits for a byte. With
/// `plus_is_space`, a `+` means a space, as in forms.
///
/// # Errors
/// An escape is malformed.
pub fn decoded(bytes: &[u8], plus_is_space: bool) -> Result<Vec<u8>, BadEscape> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let escape = &bytes[at..bytes.len().min(at + 3)];
                let [_, high, low] = *escape else { return Err(bad_escape(escape)) };
                let (Some(high), Some(low)) = (digit(high), digit(low)) else {
                    return Err(bad_escape(escape));
                };
                out.push(high << 4 | low);
                at += 3;
                continue;
            }
            b'+' if plus_is_space => out.push(b' '),
            byte => out.push(byte),
        }
        at += 1;
    }
    // The bytes may be kept for long, and escapes leave up to two thirds of the capacity unused.
    out.shrink_to_fit();
    Ok(out)
}

fn bad_escape(escape: &[u8]) -> BadEscape {
    BadEscape(String::from_utf8_lossy(escape).into_owned())
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Whether a path has no escapes and is surely in its shortest form. Nearly all paths are so, and
/// then need no copy. May be false for a path in its shortest form.
pub fn is_plain(path: &str) -> bool {
    let bytes = path.as_bytes();
    let is_special = |pair: &[u8]| matches!(pair, [b'/', b'/' | b'.']);
    bytes.first() == Some(&b'/') && !bytes.contains(&b'%') && !bytes.windows(2).any(is_special)
}

/// A path in its shortest form: without empty names, `.` and `..`. A slash at its end stays.
///
/// Go's `net/http` (`cleanPath`) does this, and redirects a request for a path in another form.
pub fn clean(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    let mut out: String = names.iter().flat_map(|name| ["/", name]).collect();
    if out.is_empty() || path.ends_with('/') {
        out.push('/');
    }
    out
}

/// A path with escapes, as it belongs in a URL.
pub fn escaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests;
