//! Reads the tokens of a JSON value that a [`Scanner`](super::scan::Scanner) has already accepted.
//!
//! The scanner has checked the syntax, so this reader trusts that brackets close and that `true`,
//! `false` and `null` are complete. It checks only the content of strings: UTF-8 and escapes.
//! Errors are those of Go's `encoding/protojson`.

use std::borrow::Cow;

use super::BadJson;

/// Reads one JSON value from its beginning to its end.
pub struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

/// A scalar value, or the beginning of an object or array.
#[derive(Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as the text has it.
    Number(&'a str),
    /// A string, with its escapes decoded.
    Text(Cow<'a, str>),
    /// The beginning of an object.
    Object,
    /// The beginning of an array.
    Array,
}

impl<'a> Reader<'a> {
    /// A reader at the beginning of a value.
    pub fn new(text: &'a [u8]) -> Reader<'a> {
        Reader { text, at: 0 }
    }

    /// Skips blanks, commas and colons. Returns the offset of the next token.
    pub fn position(&mut self) -> usize {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n' | b',' | b':')) {
            self.at += 1;
        }
        self.at
    }

    /// The text between two offsets; invalid UTF-8 is replaced.
    fn raw(&self, start: usize, end: usize) -> Cow<'a, str> {
        String::from_utf8_lossy(self.text.get(start..end).unwrap_or_default())
    }

    /// The text from an offset up to the last token that was read.
    pub fn raw_from(&self, start: usize) -> Cow<'a, str> {
        self.raw(start, self.at)
    }

    /// Reads the end of an object or array if it comes next. Returns whether it did; also true at
    /// the end of the text.
    pub fn ends(&mut self) -> bool {
        self.position();
        let ends = matches!(self.peek(), Some(b'}' | b']') | None);
        if ends {
            self.at += 1;
        }
        ends
    }

    /// Reads a `null` if it comes next. Returns whether it did.
    pub fn takes_null(&mut self) -> bool {
        self.position();
        let takes = self.peek() == Some(b'n');
        if takes {
            self.word();
        }
        takes
    }

    /// Reads a scalar value, or the beginning of an object or array.
    pub fn token(&mut self) -> Result<Token<'a>, BadJson> {
        self.position();
        Ok(match self.peek() {
            Some(b'{') => {
                self.at += 1;
                Token::Object
            }
            Some(b'[') => {
                self.at += 1;
                Token::Array
            }
            Some(b'"') => Token::Text(self.string()?),
            _ => match self.word() {
                "null" => Token::Null,
                "true" => Token::Bool(true),
                "false" => Token::Bool(false),
                number => Token::Number(number),
            },
        })
    }

    /// Skips a whole value, with everything in it.
    pub fn skip(&mut self) -> Result<(), BadJson> {
        let mut depth = 0_usize;
        loop {
            if depth > 0 && self.ends() {
                depth -= 1;
            } else if let Token::Object | Token::Array = self.token()? {
                depth += 1;
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Reads a number, or `null`, `true` or `false`.
    fn word(&mut self) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        {
            self.at += 1;
        }
        // No value begins with another byte. If one did, the reader would skip it and not loop for
        // ever.
        self.at = self.at.max(start + 1);
        let word = self.text.get(start..self.at).unwrap_or_default();
        core::str::from_utf8(word).unwrap_or_default()
    }

    fn string(&mut self) -> Result<Cow<'a, str>, BadJson> {
        let start = self.at;
        self.at += 1;
        let content = self.at;
        let mut escaped = false;
        loop {
            match self.peek() {
                Some(b'"') | None => break,
                Some(b'\\') => {
                    escaped = true;
                    self.at += 2;
                }
                Some(_) => self.at += 1,
            }
        }
        let bytes = self.text.get(content..self.at).unwrap_or_default();
        self.at += 1;
        let Ok(text) = core::str::from_utf8(bytes) else {
            return Err(self.syntax_error(start, "invalid UTF-8 in string"));
        };
        if !escaped {
            return Ok(Cow::Borrowed(text));
        }
        match unescaped(text) {
            Ok(text) => Ok(Cow::Owned(text)),
            Err(code) => {
                let text = format!("invalid escape code \"{}\" in string", code.escape_debug());
                Err(self.syntax_error(start, &text))
            }
        }
    }

    /// An error about the token at offset `at`.
    pub fn error(&self, at: usize, text: &str) -> BadJson {
        let (line, column) = self.line_and_column(at);
        BadJson(format!("proto: (line {line}:{column}): {text}"))
    }

    /// An error about the token at offset `at`, which has the wrong kind or form.
    pub fn syntax_error(&self, at: usize, text: &str) -> BadJson {
        let (line, column) = self.line_and_column(at);
        BadJson(format!("proto: syntax error (line {line}:{column}): {text}"))
    }

    fn line_and_column(&self, at: usize) -> (usize, usize) {
        let before = self.raw(0, at);
        let line = before.matches('\n').count() + 1;
        let last = before.rsplit('\n').next().unwrap_or_default();
        (line, last.chars().count() + 1)
    }
}

/// Decodes the escapes of a text. The error is the rest of the text, from the first invalid escape
/// code on.
fn unescaped(text: &str) -> Result<String, &str> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.push_str(plain);
        let mut after = escape.chars();
        let code = after.next().unwrap_or_default();
        rest = after.as_str();
        match code {
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'u' => {
                let (character, behind) = escaped_character(rest).ok_or(rest)?;
                out.push(character);
                rest = behind;
            }
            other => out.push(other),
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Decodes the character whose code follows a `\u`, in one unit or as a pair of surrogates. Returns
/// the character and the rest of the text.
fn escaped_character(text: &str) -> Option<(char, &str)> {
    let unit = |text: &str| u16::from_str_radix(text.get(..4)?, 16).ok();
    let first = unit(text)?;
    let rest = text.get(4..)?;
    if let Some(character) = char::from_u32(u32::from(first)) {
        return Some((character, rest));
    }
    let second = rest.strip_prefix("\\u")?;
    let character = char::decode_utf16([first, unit(second)?]).next()?.ok()?;
    Some((character, second.get(4..)?))
}

#[cfg(test)]
mod tests;
