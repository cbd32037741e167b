//! Checks the syntax of a JSON value that arrives in pieces, and finds where the value ends.
//!
//! The scanner keeps one frame for each open object or array in a list of bounded length, and does
//! not recurse: deep input cannot exhaust the stack. Errors are those of Go's `encoding/json`
//! (`scanner.go`), which reads the bodies of requests in etcd's gateway.

use super::BadJson;
use crate::limits::JSON_DEPTH_MAX;

/// The part of a value that the scanner expects at the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A value.
    Value,
    /// A value, or the end of the array that was just opened.
    ValueOrEnd,
    /// The name of a field.
    Name,
    /// The name of a field, or the end of the object that was just opened.
    NameOrEnd,
    /// The byte behind a name or a value in an object or array: a colon, a comma or an end.
    After,
    /// The rest of a string.
    Text,
    /// The character behind a backslash.
    Escape,
    /// This many more digits of a `\u` escape.
    Hex(u8),
    /// The first digit of a number, behind its minus sign.
    Minus,
    /// The byte behind a number's first digit, which was 0.
    Zero,
    /// More digits in front of the decimal point.
    Digits,
    /// The first digit behind the decimal point.
    Point,
    /// More digits behind the decimal point.
    Fraction,
    /// The sign or the first digit of an exponent.
    Exponent,
    /// The first digit of an exponent, behind its sign.
    ExponentDigit,
    /// More digits of an exponent.
    ExponentDigits,
    /// The rest of this word (`true`, `false` or `null`), and how many characters of it were read.
    Word(&'static str, usize),
}

/// An open object or array, and the position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    /// An object, before the colon of a field.
    Name,
    /// An object, behind the colon of a field.
    Field,
    /// An array.
    Array,
}

/// Where the value ends relative to the byte that was just read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The value goes on behind the byte.
    Inside,
    /// The value ends with the byte.
    EndsWith,
    /// The value has ended in front of the byte. Only a number ends so.
    EndsBefore,
}

/// Scans one value, in as many pieces as it arrives in.
#[derive(Debug)]
pub struct Scanner {
    state: State,
    frames: Vec<Frame>,
}

impl Default for Scanner {
    fn default() -> Scanner {
        Scanner { state: State::Value, frames: Vec::new() }
    }
}

impl Scanner {
    /// Scans the next piece. Returns how many of its bytes belong to the value if the value ends in
    /// this piece; the scanner is then ready for the next value. Returns `None` if the value goes
    /// on.
    pub fn scan(&mut self, piece: &[u8]) -> Result<Option<usize>, BadJson> {
        for (index, byte) in piece.iter().enumerate() {
            let len = match self.step(*byte)? {
                Step::Inside => continue,
                Step::EndsWith => index + 1,
                Step::EndsBefore => index,
            };
            *self = Scanner::default();
            return Ok(Some(len));
        }
        Ok(None)
    }

    /// Ends the input. Returns true if a number ends with it, and false if nothing but blanks came
    /// since the last value. Any other open value is an error.
    pub fn finish(self) -> Result<bool, BadJson> {
        match self.state {
            State::Value if self.frames.is_empty() => Ok(false),
            State::Zero | State::Digits | State::Fraction | State::ExponentDigits
                if self.frames.is_empty() =>
            {
                Ok(true)
            }
            _ => Err(BadJson("unexpected EOF".to_string())),
        }
    }

    fn step(&mut self, byte: u8) -> Result<Step, BadJson> {
        match self.state {
            State::Value | State::ValueOrEnd | State::Name | State::NameOrEnd | State::After
                if is_blank(byte) =>
            {
                return Ok(Step::Inside);
            }
            State::ValueOrEnd if byte == b']' => return self.after(byte),
            State::Value | State::ValueOrEnd => self.value(byte)?,
            State::NameOrEnd if byte == b'}' => {
                self.frames.pop();
                return Ok(self.ended());
            }
            State::Name | State::NameOrEnd => match byte {
                b'"' => self.state = State::Text,
                _ => return Err(unexpected(byte, "looking for beginning of object key string")),
            },
            State::After => return self.after(byte),
            State::Text if byte == b'"' => return Ok(self.ended()),
            State::Text | State::Escape | State::Hex(_) => self.text(byte)?,
            State::Word(word, read) => return self.word(byte, word, read),
            _ => return self.number(byte),
        }
        Ok(Step::Inside)
    }

    fn value(&mut self, byte: u8) -> Result<(), BadJson> {
        self.state = match byte {
            b'{' => self.open(byte, Frame::Name, State::NameOrEnd)?,
            b'[' => self.open(byte, Frame::Array, State::ValueOrEnd)?,
            b'"' => State::Text,
            b'-' => State::Minus,
            b'0' => State::Zero,
            b'1'..=b'9' => State::Digits,
            b't' => State::Word("true", 1),
            b'f' => State::Word("false", 1),
            b'n' => State::Word("null", 1),
            _ => return Err(unexpected(byte, "looking for beginning of value")),
        };
        Ok(())
    }

    fn open(&mut self, byte: u8, frame: Frame, state: State) -> Result<State, BadJson> {
        if self.frames.len() >= JSON_DEPTH_MAX {
            return Err(unexpected(byte, "exceeded max depth"));
        }
        self.frames.push(frame);
        Ok(state)
    }

    /// The byte that was just read has ended a value.
    fn ended(&mut self) -> Step {
        self.state = State::After;
        if self.frames.is_empty() { Step::EndsWith } else { Step::Inside }
    }

    /// Handles the byte behind a name or a value.
    fn after(&mut self, byte: u8) -> Result<Step, BadJson> {
        let Some(frame) = self.frames.last_mut() else { return Ok(Step::EndsBefore) };
        self.state = State::After;
        match (*frame, byte) {
            _ if is_blank(byte) => {}
            (Frame::Name, b':') => {
                *frame = Frame::Field;
                self.state = State::Value;
            }
            (Frame::Field, b',') => {
                *frame = Frame::Name;
                self.state = State::Name;
            }
            (Frame::Array, b',') => self.state = State::Value,
            (Frame::Field, b'}') | (Frame::Array, b']') => {
                self.frames.pop();
                return Ok(self.ended());
            }
            (Frame::Name, _) => return Err(unexpected(byte, "after object key")),
            (Frame::Field, _) => return Err(unexpected(byte, "after object key:value pair")),
            (Frame::Array, _) => return Err(unexpected(byte, "after array element")),
        }
        Ok(Step::Inside)
    }

    fn text(&mut self, byte: u8) -> Result<(), BadJson> {
        self.state = match (self.state, byte) {
            (State::Escape, b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => State::Text,
            (State::Escape, b'u') => State::Hex(4),
            (State::Escape, _) => return Err(unexpected(byte, "in string escape code")),
            (State::Hex(1), _) if byte.is_ascii_hexdigit() => State::Text,
            (State::Hex(left), _) if byte.is_ascii_hexdigit() => State::Hex(left - 1),
            (State::Hex(_), _) => {
                return Err(unexpected(byte, "in \\u hexadecimal character escape"));
            }
            (_, b'\\') => State::Escape,
            (_, 0..0x20) => return Err(unexpected(byte, "in string literal")),
            _ => State::Text,
        };
        Ok(())
    }

    fn number(&mut self, byte: u8) -> Result<Step, BadJson> {
        self.state = match (self.state, byte) {
            (State::Minus, b'0') => State::Zero,
            (State::Minus | State::Digits, b'0'..=b'9') => State::Digits,
            (State::Minus, _) => return Err(unexpected(byte, "in numeric literal")),
            (State::Zero | State::Digits, b'.') => State::Point,
            (State::Zero | State::Digits | State::Fraction, b'e' | b'E') => State::Exponent,
            (State::Point | State::Fraction, b'0'..=b'9') => State::Fraction,
            (State::Point, _) => {
                return Err(unexpected(byte, "after decimal point in numeric literal"));
            }
            (State::Exponent, b'+' | b'-') => State::ExponentDigit,
            (State::Exponent | State::ExponentDigit | State::ExponentDigits, b'0'..=b'9') => {
                State::ExponentDigits
            }
            (State::Exponent | State::ExponentDigit, _) => {
                return Err(unexpected(byte, "in exponent of numeric literal"));
            }
            _ => return self.after(byte),
        };
        Ok(Step::Inside)
    }

    fn word(&mut self, byte: u8, word: &'static str, read: usize) -> Result<Step, BadJson> {
        let expected = word.as_bytes().get(read).copied().unwrap_or_default();
        if byte != expected {
            let expected = char::from(expected);
            return Err(unexpected(byte, &format!("in literal {word} (expecting '{expected}')")));
        }
        if read + 1 == word.len() {
            return Ok(self.ended());
        }
        self.state = State::Word(word, read + 1);
        Ok(Step::Inside)
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn unexpected(byte: u8, place: &str) -> BadJson {
    BadJson(format!("invalid character {} {place}", quoted(byte)))
}

/// A byte in single quotes, as Go quotes the character with that number.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_string(),
        b'\\' => r"'\\'".to_string(),
        0x07 => r"'\a'".to_string(),
        0x08 => r"'\b'".to_string(),
        b'\t' => r"'\t'".to_string(),
        b'\n' => r"'\n'".to_string(),
        0x0b => r"'\v'".to_string(),
        0x0c => r"'\f'".to_string(),
        b'\r' => r"'\r'".to_string(),
        0..0x20 | 0x7f => format!(r"'\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!(r"'\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests;
