//! The configuration file of etcd (`--config-file`): YAML whose keys are the names of flags, and
//! two maps for TLS (`embed.configYAML`).
//!
//! An unknown key causes a warning; etcd ignores it in silence. A wrong value is an error, as in
//! etcd.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::flags::{self, CONFIG_FILE, Flag, Kind};
use super::values::{Values, check};
use crate::report::{Place, Severity, Warning};

/// The most bytes of a file. etcd's sample has 5 KiB.
pub(super) const FILE_BYTES_MAX: usize = 1 << 20;

/// The two maps for TLS, each with the prefix of its flags' names.
const SECURITY: [(&str, &str); 2] =
    [("client-transport-security", ""), ("peer-transport-security", "peer-")];

/// The keys of these maps, each with the part of the flag's name behind the prefix.
const SECURITY_KEYS: [(&str, &str); 10] = [
    ("cert-file", "cert-file"),
    ("key-file", "key-file"),
    ("client-cert-file", "client-cert-file"),
    ("client-key-file", "client-key-file"),
    ("client-cert-auth", "client-cert-auth"),
    ("trusted-ca-file", "trusted-ca-file"),
    ("auto-tls", "auto-tls"),
    ("allowed-cn", "cert-allowed-cn"),
    ("allowed-hostname", "cert-allowed-hostname"),
    ("skip-client-san-verification", "skip-client-san-verification"),
];

/// A value in the file: the keys on the way to it, its text, and its line.
struct Leaf {
    path: Vec<String>,
    text: String,
    line: u32,
}

/// Reads a file. Returns its values, and a warning for each unknown key.
///
/// # Errors
/// One line that names the place and the cause.
pub(super) fn read(file: &str, text: &str) -> Result<(Values, Vec<Warning>), String> {
    if text.len() > FILE_BYTES_MAX {
        return Err(format!("{file}: {} bytes are more than {FILE_BYTES_MAX}", text.len()));
    }
    let (mut values, mut warnings) = (Values::default(), Vec::new());
    for leaf in leaves(file, text)? {
        let place = Place::at(file, leaf.line);
        let Some(flag) = flag_of(&leaf.path) else {
            warnings.push(Warning {
                severity: Severity::Warning,
                place,
                key: leaf.path.join("."),
                message: "is unknown; it is ignored".to_string(),
            });
            continue;
        };
        let value = as_flag(flag.kind, &leaf.text);
        check(flag.kind, &value)
            .map_err(|cause| format!("{place}: {}: {value:?}: {cause}", leaf.path.join(".")))?;
        values.set(flag, &value, place);
    }
    Ok((values, warnings))
}

/// The flag that these keys stand for. Flags about TLS may only be in the two maps.
fn flag_of(path: &[String]) -> Option<&'static Flag> {
    let of_tls = |flag: &Flag| {
        SECURITY.iter().any(|(_, prefix)| {
            let rest = flag.name.strip_prefix(prefix);
            SECURITY_KEYS.iter().any(|(_, name)| Some(*name) == rest)
        })
    };
    match path {
        [key] => flags::find(key).filter(|flag| flag.name != CONFIG_FILE && !of_tls(flag)),
        [map, key] => {
            let (_, prefix) = SECURITY.iter().find(|(name, _)| name == map)?;
            let (_, rest) = SECURITY_KEYS.iter().find(|(name, _)| name == key)?;
            // Of the flags for clients, only those about allowed names have a prefix.
            let is_of_clients = prefix.is_empty() && rest.starts_with("cert-allowed");
            let prefix = if is_of_clients { "client-" } else { prefix };
            flags::find_in_file(&format!("{prefix}{rest}"))
        }
        _ => None,
    }
}

/// A value in the form that it has on the command line. In the file, a time may be a number of
/// nanoseconds, since Go decodes it so, and a switch may be one of YAML's words.
fn as_flag(kind: Kind, text: &str) -> String {
    match kind {
        Kind::Duration => match text.parse::<u64>() {
            Ok(nanoseconds) => format!("{}ms", nanoseconds.div_ceil(1_000_000)),
            Err(_) => text.to_string(),
        },
        Kind::Switch => match text.to_ascii_lowercase().as_str() {
            "yes" | "on" | "y" => "true".to_string(),
            "no" | "off" | "n" => "false".to_string(),
            _ => text.to_string(),
        },
        // Helm charts write large integers as floats.
        Kind::Count | Kind::Number => match whole_float(text) {
            Some(number) => number.to_string(),
            None => text.to_string(),
        },
        _ => text.to_string(),
    }
}

/// The integer value of a float such as `8e9`. `None` if the text is no float, or if its value is
/// no integer that a float holds exactly.
fn whole_float(text: &str) -> Option<i64> {
    const EXACT_MAX: f64 = (1_u64 << 53) as f64;
    let is_float = text.contains(['.', 'e', 'E']) && !text.starts_with("0x");
    let number = text.parse::<f64>().ok().filter(|_| is_float)?;
    (number.fract() == 0.0 && number.abs() <= EXACT_MAX).then_some(number as i64)
}

/// All values of a document, whose root must be a map. A list becomes a text with commas.
fn leaves(file: &str, text: &str) -> Result<Vec<Leaf>, String> {
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|cause| format!("{file}: {cause}"))?;
        reader.take(&event, span).map_err(|cause| {
            let place = Place::at(file, line_of(span));
            format!("{place}: {cause}")
        })?;
    }
    Ok(reader.leaves)
}

/// Turns the parser's events into values.
#[derive(Default)]
struct Reader {
    leaves: Vec<Leaf>,
    /// The keys of the open maps, the outermost first.
    path: Vec<String>,
    /// How many maps are open.
    depth: usize,
    /// The key that was just read; its value comes next.
    key: Option<String>,
    /// The items of the open list, and the list's line.
    list: Option<(Vec<String>, u32)>,
    /// Texts with an anchor, by the anchor's number, for aliases to repeat.
    anchored: BTreeMap<usize, (String, ScalarStyle)>,
    /// Total bytes that aliases have repeated.
    aliased_bytes: usize,
}

/// The most maps within each other; a valid file needs two.
const DEPTH_MAX: usize = 4;

impl Reader {
    fn take(&mut self, event: &Event<'_>, span: Span) -> Result<(), String> {
        match event {
            Event::Alias(anchor) => {
                let Some((text, style)) = self.anchored.get(anchor).cloned() else {
                    return Err("an alias stands for no text".to_string());
                };
                // Many aliases in a list could multiply a long text.
                self.aliased_bytes += text.len();
                if self.aliased_bytes > FILE_BYTES_MAX {
                    return Err(format!("aliases stand for more than {FILE_BYTES_MAX} bytes"));
                }
                return self.take_scalar(&text, style, span);
            }
            Event::MappingStart(..) if self.list.is_some() => {
                return Err("a list holds a map".to_string());
            }
            Event::MappingStart(..) => {
                self.depth += 1;
                if self.depth > DEPTH_MAX {
                    return Err(format!("more than {DEPTH_MAX} maps within each other"));
                }
                self.path.extend(self.key.take());
            }
            Event::MappingEnd => {
                self.depth -= 1;
                self.path.pop();
            }
            Event::SequenceStart(..) if self.key.is_none() || self.list.is_some() => {
                return Err("a list is no value of a key".to_string());
            }
            Event::SequenceStart(..) => self.list = Some((Vec::new(), line_of(span))),
            Event::SequenceEnd => {
                if let Some((texts, line)) = self.list.take() {
                    self.add(texts.join(","), line);
                }
            }
            Event::Scalar(text, style, anchor, _) => {
                if *anchor > 0 {
                    self.anchored.insert(*anchor, (text.to_string(), *style));
                }
                return self.take_scalar(text, *style, span);
            }
            _ => {}
        }
        Ok(())
    }

    fn take_scalar(&mut self, text: &str, style: ScalarStyle, span: Span) -> Result<(), String> {
        let is_null = style == ScalarStyle::Plain && matches!(text, "" | "~" | "null");
        match (&mut self.list, &self.key) {
            (Some((texts, _)), _) => texts.push(text.to_string()),
            (None, Some(_)) if is_null => self.key = None,
            (None, Some(_)) => self.add(text.to_string(), line_of(span)),
            (None, None) if self.depth > 0 => self.key = Some(text.to_string()),
            (None, None) if is_null => {}
            (None, None) => return Err("the file is no map".to_string()),
        }
        Ok(())
    }

    /// Adds a value for the key that was just read.
    fn add(&mut self, text: String, line: u32) {
        let path = self.path.iter().cloned().chain(self.key.take()).collect();
        self.leaves.push(Leaf { path, text, line });
    }
}

fn line_of(span: Span) -> u32 {
    u32::try_from(span.start.line()).unwrap_or(u32::MAX)
}
