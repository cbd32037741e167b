//! Parses a JAAS login configuration as `sun.security.provider.ConfigFile` of JDK 17 reads it:
//!
//! ```text
//! Server {
//!     org.apache.zookeeper.server.auth.DigestLoginModule required
//!     user_super="secret"
//!     user_bob="another";
//! };
//! ```
//!
//! Whitespace separates tokens. Words consist of letters, digits and `_ $ - * .`, and do not begin
//! with a digit, a dot or a dash; any other text must be in double quotes. Comments are `//`, `/*
//! */`, and a lone `/` to the end of its line.

/// A section of the file, such as `Server { ... };`, with its login modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The name in front of the brace.
    pub name: String,
    /// The section's login modules, in the order of the file.
    pub modules: Vec<Module>,
}

/// A login module and its options, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The Java class of the module.
    pub class: String,
    /// The line, from 1, with the name of the class.
    pub line: u32,
    /// The module's options.
    pub options: Vec<JaasOption>,
}

/// One `key=value` of a login module. If a key occurs twice, the later option counts; [`parse`]
/// keeps both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JaasOption {
    /// The option's key.
    pub key: String,
    /// The option's value, in which `${name}` is already replaced.
    pub value: String,
    /// The line, from 1, that the value is on.
    pub line: u32,
}

/// The control flags of JAAS. A flag must follow the class of a module, but ZooKeeper's login does
/// not care which of the four it is.
const FLAGS: [&str; 4] = ["required", "requisite", "sufficient", "optional"];

/// Parses a JAAS file into its sections. `property` returns the value of a Java property, for each
/// `${name}` in the value of an option.
///
/// # Errors
/// The line, from 1, and what is wrong there.
pub fn parse(
    text: &str,
    property: &mut dyn FnMut(&str) -> Option<String>,
) -> Result<Vec<Section>, (u32, String)> {
    let mut tokens = Tokens { text: text.chars().peekable(), line: 1, ahead: None, property };
    let mut sections: Vec<Section> = Vec::new();
    while let Some(name) = tokens.next_or_end()? {
        let line = tokens.line;
        let name = name.text("the name of a section").map_err(|cause| (line, cause))?;
        if sections.iter().any(|section| section.name == name) {
            return Err((line, format!("there are two sections {name:?}")));
        }
        tokens.expect('{')?;
        let mut modules = Vec::new();
        while !tokens.take_if('}')? {
            modules.push(tokens.module()?);
        }
        tokens.expect(';')?;
        sections.push(Section { name, modules });
    }
    Ok(sections)
}

/// A token of the file.
enum Token {
    /// A word, or the text inside double quotes.
    Text(String),
    Sign(char),
}

impl Token {
    fn text(self, wanted: &str) -> Result<String, String> {
        match self {
            Token::Text(text) => Ok(text),
            Token::Sign(sign) => {
                Err(format!("{wanted} is expected and {sign:?} found{}", hint(sign)))
            }
        }
    }
}

/// Replaces each `${name}` in `value` by the value of that property
/// (`sun.security.util.PropertyExpander`). `${/}` becomes a slash; `${{...}}`, and a `${` without
/// its closing brace, stay as they are.
fn expand(value: &str, property: &mut dyn FnMut(&str) -> Option<String>) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), value);
    while let Some((before, behind)) = rest.split_once("${") {
        out.push_str(before);
        let (is_kept, end) = if behind.starts_with('{') { (true, "}}") } else { (false, "}") };
        let Some((name, behind)) = behind.split_once(end) else {
            rest = &rest[before.len()..];
            break;
        };
        match name {
            _ if is_kept => out.extend(["${", name, end]),
            "/" => out.push('/'),
            _ => {
                let value = property(name);
                let missing = || format!("the property {name:?} is not set: set -D{name}=VALUE");
                out.push_str(&value.ok_or_else(missing)?);
            }
        }
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

/// Advice to add to an error about `sign`; empty unless people often write `sign` by mistake. Java
/// reads such a sign as a number, or refuses it.
fn hint(sign: char) -> &'static str {
    match sign {
        '0'..='9' | '-' | '.' => "; what begins with it must be in double quotes",
        '\'' => "; only double quotes are known",
        '#' => "; a comment begins with //",
        _ => "",
    }
}

struct Tokens<'a> {
    text: std::iter::Peekable<std::str::Chars<'a>>,
    line: u32,
    ahead: Option<Token>,
    property: &'a mut dyn FnMut(&str) -> Option<String>,
}

impl Tokens<'_> {
    fn module(&mut self) -> Result<Module, (u32, String)> {
        let class = self.text("the class of a login module")?;
        let line = self.line;
        let flag = self.text("required, requisite, sufficient or optional")?;
        if !FLAGS.iter().any(|known| known.eq_ignore_ascii_case(&flag)) {
            return Err((self.line, format!("{flag:?} is none of {}", FLAGS.join(", "))));
        }
        let mut options = Vec::new();
        while !self.take_if(';')? {
            let key = self.text("an option or a ;")?;
            self.expect('=')?;
            let value = self.text("the value of an option")?;
            let line = self.line;
            let value = expand(&value, self.property).map_err(|cause| (line, cause))?;
            options.push(JaasOption { key, value, line });
        }
        Ok(Module { class, line, options })
    }

    fn text(&mut self, wanted: &str) -> Result<String, (u32, String)> {
        let found = self.next_or_end()?.ok_or_else(|| self.ended(wanted))?;
        found.text(wanted).map_err(|cause| (self.line, cause))
    }

    fn expect(&mut self, sign: char) -> Result<(), (u32, String)> {
        let wanted = format!("{sign:?}");
        match self.next_or_end()? {
            Some(Token::Sign(found)) if found == sign => Ok(()),
            Some(Token::Sign(found)) => {
                Err((self.line, format!("{wanted} is expected and {found:?} found{}", hint(found))))
            }
            Some(Token::Text(found)) => {
                Err((self.line, format!("{wanted} is expected and {found:?} found")))
            }
            None => Err(self.ended(&wanted)),
        }
    }

    /// Consumes the next token if it is `sign`, and says whether it was.
    fn take_if(&mut self, sign: char) -> Result<bool, (u32, String)> {
        match self.next_or_end()? {
            Some(Token::Sign(found)) if found == sign => Ok(true),
            other => {
                self.ahead = other;
                Ok(false)
            }
        }
    }

    fn ended(&self, wanted: &str) -> (u32, String) {
        (self.line, format!("{wanted} is expected and the file ends"))
    }

    fn next_or_end(&mut self) -> Result<Option<Token>, (u32, String)> {
        if let Some(token) = self.ahead.take() {
            return Ok(Some(token));
        }
        while let Some(c) = self.text.next() {
            match c {
                '\n' => self.line += 1,
                '/' => self.skip_comment()?,
                '"' => return self.quoted().map(|text| Some(Token::Text(text))),
                c if c <= ' ' => {}
                c if begins_word(c) => return Ok(Some(Token::Text(self.word(c)))),
                c => return Ok(Some(Token::Sign(c))),
            }
        }
        Ok(None)
    }

    fn word(&mut self, first: char) -> String {
        let mut word = String::from(first);
        let continues = |c: &char| begins_word(*c) || matches!(c, '0'..='9' | '-' | '.');
        while let Some(c) = self.text.next_if(continues) {
            word.push(c);
        }
        word
    }

    /// Reads the text that follows an opening quote, up to the closing one on the same line.
    fn quoted(&mut self) -> Result<String, (u32, String)> {
        let mut text = String::new();
        let open = (self.line, "a quote is not closed on its line".to_string());
        loop {
            match self.text.next() {
                None | Some('\n' | '\r') => return Err(open),
                Some('"') => return Ok(text),
                Some('\\') => match self.text.next() {
                    None | Some('\n' | '\r') => return Err(open),
                    Some(escaped) => text.push(self.escaped(escaped)),
                },
                Some(c) => text.push(c),
            }
        }
    }

    /// The character that a backslash and the text behind it mean (`StreamTokenizer`): a named
    /// control character, up to three octal digits, or the character itself.
    fn escaped(&mut self, first: char) -> char {
        match first {
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            '0'..='7' => {
                let mut value = first.to_digit(8).unwrap_or(0);
                for _ in 0..if first <= '3' { 2 } else { 1 } {
                    let Some(digit) = self.text.next_if(|c| c.is_digit(8)) else { break };
                    value = value * 8 + digit.to_digit(8).unwrap_or(0);
                }
                char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            itself => itself,
        }
    }

    /// Skips a comment; its first `/` is already consumed.
    fn skip_comment(&mut self) -> Result<(), (u32, String)> {
        if self.text.next_if_eq(&'*').is_none() {
            while self.text.next_if(|c| !['\n', '\r'].contains(c)).is_some() {}
            return Ok(());
        }
        let line = self.line;
        while let Some(c) = self.text.next() {
            match c {
                '\n' => self.line += 1,
                '*' if self.text.next_if_eq(&'/').is_some() => return Ok(()),
                _ => {}
            }
        }
        Err((line, "a comment does not end".to_string()))
    }
}

/// Whether `c` may begin a word. Digits, dots and dashes may only follow.
fn begins_word(c: char) -> bool {
    c.is_ascii_alphabetic() || matches!(c, '$' | '_' | '*') || c >= '\u{a0}'
}

#[cfg(test)]
mod tests;
