//! The name of a certificate's subject as text, in the form of ZooKeeper's scheme `x509`.
//!
//! ZooKeeper 3.9 uses `X500Principal.getName()`, Java's form of RFC 2253. ACLs are compared with
//! this text, so every byte counts: the last part of the name comes first, nine attributes are
//! written by name, and the others by number. Where RFC 2253 leaves a choice, this does what
//! OpenJDK 17 does.

use super::der::{self, OID, SEQUENCE, SET};

/// The attributes that are written by name: the encoded number of each, and the name.
const KEYWORDS: [(&[u8], &str); 9] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
];

/// The tags of values that are text: UTF8String, PrintableString, T61String, IA5String,
/// GeneralString and BMPString. Java reads the bytes of all of them as UTF-8.
const TEXT_TAGS: [u8; 6] = [0x0c, 0x13, 0x14, 0x16, 0x1b, 0x1e];

/// The characters that are always written with a backslash before them.
const ESCAPED: &str = ",=+<>#;\"\\";

/// The text of a name encoded in DER; `None` if the encoding is malformed.
pub fn rfc2253(name: &[u8]) -> Option<String> {
    let mut input = name;
    let mut parts = der::take_tagged(&mut input, SEQUENCE)?.content;
    let mut names = Vec::new();
    while !parts.is_empty() {
        let mut attributes = der::take_tagged(&mut parts, SET)?.content;
        let mut texts = Vec::new();
        while !attributes.is_empty() {
            let attribute = der::take_tagged(&mut attributes, SEQUENCE)?.content;
            texts.push(attribute_text(attribute)?);
        }
        names.push(texts.join("+"));
    }
    names.reverse();
    input.is_empty().then(|| names.join(","))
}

/// The text of one attribute: `CN=text`, or `1.2.3=#0c0474657874`.
fn attribute_text(mut attribute: &[u8]) -> Option<String> {
    let oid = der::take_tagged(&mut attribute, OID)?.content;
    let value = der::take(&mut attribute)?;
    let keyword = KEYWORDS.iter().find(|(bytes, _)| *bytes == oid);
    Some(match keyword {
        Some((_, keyword)) if TEXT_TAGS.contains(&value.tag) => {
            format!("{keyword}={}", escaped(&String::from_utf8_lossy(value.content)))
        }
        Some((_, keyword)) => format!("{keyword}=#{}", hex(value.whole)),
        None => format!("{}=#{}", dotted(oid)?, hex(value.whole)),
    })
}

/// Escapes special characters, NUL, and blanks at either end.
fn escaped(text: &str) -> String {
    let is_blank = |c: char| c == ' ' || c == '\r';
    let inner = text.trim_matches(is_blank);
    let lead = text.len() - text.trim_start_matches(is_blank).len();
    let mut out = String::with_capacity(text.len());
    for (index, c) in text.char_indices() {
        let at_an_end = index < lead || index >= lead + inner.len();
        match c {
            '\0' => out.push_str("\\00"),
            c if ESCAPED.contains(c) || at_an_end => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An attribute's number in dotted form, like `1.2.840`. `None` if it is cut off or exceeds 128
/// bits.
fn dotted(oid: &[u8]) -> Option<String> {
    let mut numbers: Vec<u128> = Vec::new();
    let mut number: u128 = 0;
    for byte in oid {
        number = number.checked_mul(0x80)? | u128::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            numbers.push(number);
            number = 0;
        }
    }
    let (&both, rest) = numbers.split_first()?;
    if oid.last().is_some_and(|byte| byte & 0x80 != 0) {
        return None;
    }
    let first = (both / 40).min(2);
    let texts = [first, both - first * 40].into_iter().chain(rest.iter().copied());
    Some(texts.map(|number| number.to_string()).collect::<Vec<_>>().join("."))
}

#[cfg(test)]
#[path = "subject/tests.rs"]
mod tests;
