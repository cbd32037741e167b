//! Holds the values of etcd's flags, and checks that each value has the form of its flag's
//! [`Kind`]. Texts of errors are those of Go's package `flag` and of etcd.

use std::collections::BTreeMap;

use super::flags::{self, Fate, Flag, GATES, GROUPS, Kind};
use super::url::Url;
use crate::etcd::{REQUEST_BYTES, duration_ms};
use crate::report::{Place, Severity, Warning};

/// The given values, by the names of their flags.
#[derive(Debug, Default)]
pub(super) struct Values(BTreeMap<&'static str, Given>);

/// A value and its place.
#[derive(Clone, Debug)]
struct Given {
    text: String,
    place: Place,
}

/// A feature gate: its name, its stage, and whether it is on.
pub(super) type Gate = (&'static str, &'static str, bool);

impl Values {
    /// Sets a value that [`check`] has accepted. A number is stored in decimal form.
    pub fn set(&mut self, flag: &'static Flag, text: &str, place: Place) {
        let number = integer(text).filter(|_| matches!(flag.kind, Kind::Count | Kind::Number));
        let text = number.map_or_else(|| text.to_string(), |number| number.to_string());
        self.0.insert(flag.name, Given { text, place });
    }

    /// Whether a value was given.
    pub fn is_given(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The given value of a flag, or the flag's default.
    ///
    /// # Panics
    /// No flag has this name.
    pub fn text(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(given) => &given.text,
            None => flags::find_in_file(name).expect("the flag is in the table").default,
        }
    }

    /// The value as a path; `None` if it is empty.
    pub fn path(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|path| !path.is_empty())
    }

    /// Whether a switch is on.
    pub fn is_on(&self, name: &str) -> bool {
        switch(self.text(name)) == Some(true)
    }

    /// The value of a flag of the kind `Count`.
    pub fn count(&self, name: &str) -> u64 {
        count(self.text(name)).expect("its form was checked")
    }

    /// The value as URLs, sorted; empty if the value is.
    pub fn urls(&self, name: &str) -> Vec<Url> {
        match self.text(name) {
            "" => Vec::new(),
            list => Url::parse_list(list).expect("their form was checked"),
        }
    }

    /// The value as texts between commas, without empty ones.
    pub fn texts(&self, name: &str) -> Vec<String> {
        let texts = self.text(name).split(',').map(str::trim);
        texts.filter(|text| !text.is_empty()).map(str::to_string).collect()
    }

    /// Moves the values of old flags to the flags that replace them. Returns all feature gates.
    ///
    /// # Errors
    /// Two flags set the same thing.
    pub fn resolve(&mut self) -> Result<Vec<Gate>, String> {
        let said = self.text("feature-gates").to_string();
        let mut gates = with_gates(&said)?;
        for flag in GROUPS.iter().flat_map(|(_, flags)| flags.iter()) {
            let Some(given) = self.0.get(flag.name).cloned() else { continue };
            match flag.fate {
                Fate::Old(new) if self.is_given(new) => {
                    return Err(format!(
                        "cannot set --{} and --{new} at the same time, please use --{new} only",
                        flag.name
                    ));
                }
                Fate::Old(new) => {
                    self.0.remove(flag.name);
                    self.0.insert(new, given);
                }
                Fate::Gate(gate) if said.contains(gate) => {
                    return Err(format!(
                        "cannot specify both flags: --{} and --feature-gates={gate} at the same \
                         time, please just use --feature-gates",
                        flag.name
                    ));
                }
                Fate::Gate(name) => {
                    let is_on = switch(&given.text) == Some(true);
                    gates.iter_mut().filter(|gate| gate.0 == name).for_each(|gate| gate.2 = is_on);
                }
                Fate::Served | Fate::Unserved(_) | Fate::Refused(_) => {}
            }
        }
        Ok(gates)
    }

    /// Lowers `max-request-bytes` to the largest allowed value, with a warning. etcd allows any
    /// value.
    pub fn cap_request_bytes(&mut self) -> Option<Warning> {
        let bytes_max = *REQUEST_BYTES.end();
        let given = self.0.get_mut("max-request-bytes")?;
        if count(&given.text)? <= bytes_max as u64 {
            return None;
        }
        given.text = bytes_max.to_string();
        Some(Warning {
            severity: Severity::Warning,
            place: given.place.clone(),
            key: "--max-request-bytes".to_string(),
            message: format!("is more than {bytes_max}, which counts in its place"),
        })
    }

    /// Removes the flags that matter only at the first start of a member, with a warning for each.
    /// `is_same` tells whether `--initial-cluster` and `--name` agree with the data directory; if
    /// so, flags about the initial cluster cause no warning.
    pub fn ignore_first_start(&mut self, is_same: impl Fn(&Values) -> bool) -> Vec<Warning> {
        let is_same = is_same(self);
        let concerns =
            |name: &str| name.starts_with("discovery") || name.starts_with("initial-cluster");
        let given = self.0.extract_if(.., |name, _| concerns(name));
        let told = given.filter(|(name, _)| !(is_same && name.starts_with("initial-cluster")));
        told.map(|(name, Given { place, .. })| Warning {
            severity: Severity::Warning,
            place,
            key: format!("--{name}"),
            message: "is ignored: the data directory says whom it belongs to".to_string(),
        })
        .collect()
    }

    /// A warning for each flag that has no effect here, but was given a value other than the
    /// default.
    ///
    /// # Errors
    /// A flag asks for an effect whose absence would do harm ([`Fate::Refused`]).
    pub fn without_effect(&self) -> Result<Vec<Warning>, String> {
        let mut warnings = Vec::new();
        for (name, Given { text, place }) in &self.0 {
            let Some(flag) = flags::find(name) else { continue };
            if is_same(flag.kind, text, flag.default) {
                continue;
            }
            match flag.fate {
                Fate::Refused(reason) => return Err(format!("--{name}: {reason}")),
                Fate::Unserved(reason) => warnings.push(Warning {
                    severity: Severity::Warning,
                    place: place.clone(),
                    key: format!("--{name}"),
                    message: format!("has no effect: {reason}"),
                }),
                Fate::Served | Fate::Old(_) | Fate::Gate(_) => {}
            }
        }
        Ok(warnings)
    }
}

/// Checks that a value has the form of its flag.
///
/// # Errors
/// The value has another form. The text says why, as in etcd.
pub(super) fn check(kind: Kind, text: &str) -> Result<(), String> {
    let parse_error = || "parse error".to_string();
    match kind {
        Kind::Switch => switch(text).map(drop).ok_or_else(parse_error),
        Kind::Text | Kind::Texts | Kind::Ignored => Ok(()),
        Kind::Count => count(text).map(drop).ok_or_else(parse_error),
        Kind::Number => {
            let number = integer(text).and_then(|number| i64::try_from(number).ok());
            number.map(drop).ok_or_else(parse_error)
        }
        Kind::Duration => duration_ms(text).map(drop).map_err(|_| parse_error()),
        Kind::Urls if text.is_empty() => Ok(()),
        Kind::Urls => Url::parse_list(text).map(drop),
        Kind::Choice(texts) if texts.contains(&text) => Ok(()),
        Kind::Choice(_) => Err("invalid value".to_string()),
        Kind::Gates => with_gates(text).map(drop),
    }
}

/// Parses a truth value (Go's `strconv.ParseBool`).
pub(super) fn switch(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Parses an integer that is not negative.
fn count(text: &str) -> Option<u64> {
    integer(text).and_then(|number| u64::try_from(number).ok())
}

/// Parses an integer as Go's `strconv.ParseInt` does with base 0: decimal, or with a prefix `0x`,
/// `0o`, `0` or `0b`; underscores may separate digits and follow a prefix.
fn integer(text: &str) -> Option<i128> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, rest) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        _ if lower.starts_with('0') && lower.len() > 1 => (8, &lower[1..]),
        _ => (10, &lower[..]),
    };
    let may_begin_so = base != 10 || !rest.starts_with('_');
    let is_separated = may_begin_so && !rest.ends_with('_') && !rest.contains("__");
    // Longer numbers make no sense, and `from_str_radix` would accept a second sign.
    let is_short = rest.len() <= 100 && !rest.starts_with(['+', '-']);
    let digits = Some(rest.replace('_', "")).filter(|_| is_separated && is_short)?;
    i128::from_str_radix(&digits, base).ok().map(|number| sign * number)
}

/// All feature gates; those named in `text` are set as it says.
fn with_gates(text: &str) -> Result<Vec<Gate>, String> {
    let mut gates = GATES.to_vec();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let is_on = switch(value.trim()).ok_or_else(|| {
            format!("invalid value of {name}={value}: it is neither true nor false")
        })?;
        let gate = gates.iter_mut().find(|gate| gate.0 == name.trim());
        gate.ok_or_else(|| format!("unrecognized feature gate: {name}"))?.2 = is_on;
    }
    Ok(gates)
}

/// Whether a value means the same as the flag's default.
fn is_same(kind: Kind, text: &str, default: &str) -> bool {
    match kind {
        Kind::Switch => switch(text) == switch(default),
        Kind::Duration => duration_ms(text) == duration_ms(default),
        Kind::Ignored => false,
        _ => text == default,
    }
}
