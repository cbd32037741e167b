//! Parses settings as Java does before ZooKeeper sees them: the syntax of a properties file
//! (`java.util.Properties.load`), `-D` words on a command line, and the syntax of numbers.

/// One key of a properties file with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key, unescaped and trimmed.
    pub key: String,
    /// The value, unescaped and trimmed.
    pub value: String,
    /// The line of the file, from 1, on which the entry begins.
    pub line: u32,
}

/// The entries of a properties file in their order, duplicates included. In Java, the later of two
/// entries with one key wins. This function keeps both: the caller picks the later one and warns of
/// the other.
///
/// `#` and `!` start a comment line; a backslash at the end of a line continues it; the key ends at
/// the first `=`, `:` or blank that is not escaped.
///
/// # Errors
/// The line, from 1, of an entry with a malformed `\u` escape, and what is wrong with it.
pub fn parse(text: &str) -> Result<Vec<Entry>, (u32, String)> {
    let mut entries = Vec::new();
    let mut lines = (1u32..).zip(lines(text));
    while let Some((line, first)) = lines.next() {
        let first = first.trim_start_matches(BLANKS);
        if first.is_empty() || first.starts_with(['#', '!']) {
            continue;
        }
        let logical = join_lines(first, lines.by_ref().map(|(_, line)| line));
        let (key, value) = split_entry(&logical);
        entries.push(Entry {
            key: unescape(key).map_err(|cause| (line, cause))?.trim().to_string(),
            value: unescape(value).map_err(|cause| (line, cause))?.trim().to_string(),
            line,
        });
    }
    Ok(entries)
}

/// The lines of `text` without their ends. A line ends with a line feed, a carriage return, or a
/// carriage return and a line feed, as in Java (`Properties.LineReader`).
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (line, behind) = rest.split_at(rest.find(['\r', '\n']).unwrap_or(rest.len()));
        let ends = ["\r\n", "\r", "\n"];
        rest = ends.iter().find_map(|end| behind.strip_prefix(end)).unwrap_or_default();
        Some(line)
    })
}

/// Joins `first` and the lines that continue it into one logical line: without the backslashes at
/// the ends and the blanks at the beginnings. Takes from `rest` only the lines that it joins.
pub fn join_lines<'a>(first: &str, mut rest: impl Iterator<Item = &'a str>) -> String {
    let mut logical = first.trim_start_matches(BLANKS).to_string();
    while ends_with_continuation(&logical) {
        logical.pop();
        let Some(next) = rest.next() else { break };
        logical.push_str(next.trim_start_matches(BLANKS));
    }
    logical
}

/// The characters that a properties file treats as blanks.
const BLANKS: [char; 3] = [' ', '\t', '\x0c'];

/// Whether the line ends with an odd number of backslashes, so that the last one is not itself
/// escaped.
fn ends_with_continuation(line: &str) -> bool {
    let backslashes = line.len() - line.trim_end_matches('\\').len();
    backslashes % 2 == 1
}

/// Splits a logical line into its key and its value, both still escaped.
pub fn split_entry(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|c| {
        let ends = !escaped && (c == '=' || c == ':' || BLANKS.contains(&c));
        escaped = c == '\\' && !escaped;
        ends
    });
    let Some(end) = end else { return (line, "") };
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(BLANKS);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, value.trim_start_matches(BLANKS))
}

/// Resolves `\t \n \r \f \uXXXX`; before any other character the backslash is dropped.
pub fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut units: Vec<u16> = Vec::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let escaped = if c == '\\' { rest.next() } else { None };
        if escaped == Some('u') {
            units.push(unicode_escape(&mut rest)?);
            continue;
        }
        flush_units(&mut units, &mut out)?;
        match (c, escaped) {
            ('\\', None) => {}
            ('\\', Some('t')) => out.push('\t'),
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some('r')) => out.push('\r'),
            ('\\', Some('f')) => out.push('\x0c'),
            ('\\', Some(other)) => out.push(other),
            (plain, _) => out.push(plain),
        }
    }
    flush_units(&mut units, &mut out)?;
    Ok(out)
}

/// Reads the four hexadecimal digits of a `\u` escape: one UTF-16 unit.
fn unicode_escape(rest: &mut std::str::Chars<'_>) -> Result<u16, String> {
    let digits: String = rest.by_ref().take(4).collect();
    if digits.len() != 4 || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(format!("malformed escape \\u{digits}"));
    }
    u16::from_str_radix(&digits, 16).map_err(|_| format!("malformed escape \\u{digits}"))
}

/// Decodes the units of adjacent `\u` escapes, which may be surrogate pairs, and appends their text
/// to `out`.
fn flush_units(units: &mut Vec<u16>, out: &mut String) -> Result<(), String> {
    let text = String::from_utf16(units).map_err(|_| "half a surrogate pair in \\u".to_string())?;
    out.push_str(&text);
    units.clear();
    Ok(())
}

/// The keys and values of the `-Dkey=value` words in the variable `JVMFLAGS`, in order. Other words
/// (`-Xmx`, `-XX:`) are flags for a Java machine and are skipped. A `-Dkey` without `=` has an
/// empty value, as in Java.
pub fn jvm_properties(flags: &str) -> Vec<(String, String)> {
    words(flags)
        .iter()
        .filter_map(|word| word.strip_prefix("-D"))
        .filter(|definition| !definition.is_empty())
        .map(|definition| match definition.split_once('=') {
            Some((key, value)) => (key.to_string(), value.to_string()),
            None => (definition.to_string(), String::new()),
        })
        .collect()
}

/// Splits `text` into words as a shell does: at blanks, unless quotes or a backslash protect them.
/// A quote that is never closed ends with the text.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (_, '\\') => word.get_or_insert_default().extend(rest.next()),
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Parses a number as `Integer.parseInt` and `Long.parseLong` do: decimal, with an optional sign.
pub fn parse_decimal(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| format!("{text:?} is not a whole number"))
}

/// Parses a number as `Integer.getInteger` and `Long.getLong` read a property: decimal, hexadecimal
/// with `0x` or `#`, octal with a leading `0`.
pub fn decode_number(text: &str) -> Result<i64, String> {
    let (negative, magnitude) = match (text.strip_prefix('-'), text.strip_prefix('+')) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => (false, text),
    };
    let hexadecimal = ["0x", "0X", "#"].iter().find_map(|p| magnitude.strip_prefix(p));
    let (digits, radix) = match (hexadecimal, magnitude.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8),
        (None, _) => (magnitude, 10),
    };
    let malformed = || format!("{text:?} is not a whole number");
    if digits.starts_with(['-', '+']) {
        return Err(malformed());
    }
    let value = i64::from_str_radix(digits, radix).map_err(|_| malformed())?;
    Ok(if negative { -value } else { value })
}

#[cfg(test)]
mod tests;
