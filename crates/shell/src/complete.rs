//! Completes a typed line: names of commands, their options, and paths of znodes, for which it asks
//! the server.

use std::cell::RefCell;
use std::rc::Rc;

use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::command::{USAGES, Word, usage_of, words_of};
use super::limits::{COMPLETION_CHILDREN_MAX, COMPLETION_LIMIT};
use super::walk::join;
use crate::client::Client;

/// The possible completions of a word.
#[derive(Debug, PartialEq, Eq)]
pub enum Wanted {
    /// One of these words completes it.
    OneOf(Vec<String>),
    /// The child of a znode, given by the path of the znode and the beginning of the child's name.
    Child(String, String),
    /// Nothing is known that could complete it.
    Unknown,
}

/// The word at the end of a line, and what may complete it.
pub fn wanted(line: &str) -> (Word, Wanted) {
    let mut words = words_of(line);
    let ended = line.ends_with(|last: char| last.is_ascii_whitespace())
        && words.last().is_none_or(|word| word.closed);
    let last = match words.pop() {
        Some(word) if !ended => word,
        before => {
            words.extend(before);
            let start = line.len();
            Word { text: String::new(), start, quote: None, closed: true }
        }
    };
    let wanted = what(&words, &last.text);
    (last, wanted)
}

fn what(before: &[Word], text: &str) -> Wanted {
    let starts = |candidate: &str| {
        candidate.get(..text.len()).is_some_and(|head| head.eq_ignore_ascii_case(text))
    };
    let names = || {
        let names = USAGES.iter().map(|usage| usage.name).filter(|name| starts(name));
        Wanted::OneOf(names.map(str::to_string).collect())
    };
    let Some(command) = before.first() else { return names() };
    let Some(usage) = usage_of(&command.text) else { return Wanted::Unknown };
    let previous = before.last().map(|word| word.text.as_str());
    let words = |words: &[&str]| {
        let fitting = words.iter().filter(|word| starts(word));
        Wanted::OneOf(fitting.map(ToString::to_string).collect())
    };
    match (usage.name, previous) {
        ("help", _) => return names(),
        ("printwatches", _) => return words(&["on", "off"]),
        ("addWatch", Some("-m")) => return words(&["PERSISTENT", "PERSISTENT_RECURSIVE"]),
        ("addauth", _) if before.len() == 1 => return words(&["digest", "ip", "sasl", "x509"]),
        _ => {}
    }
    if text.starts_with('-') {
        let options = usage.options.iter().map(|name| format!("-{}", name.trim_end_matches('=')));
        return Wanted::OneOf(options.filter(|option| option.starts_with(text)).collect());
    }
    match text.rsplit_once('/') {
        Some(("", name)) => Wanted::Child("/".to_string(), name.to_string()),
        Some((parent, name)) if text.starts_with('/') => {
            Wanted::Child(parent.to_string(), name.to_string())
        }
        _ => Wanted::Unknown,
    }
}

/// The completed text of a word, quoted if that is necessary.
pub fn quoted(word: &Word, text: &str) -> String {
    match word.quote {
        Some(quote) => format!("{quote}{text}"),
        None if !text.contains(|c: char| c.is_ascii_whitespace()) => text.to_string(),
        None if text.contains('"') => format!("'{text}'"),
        None => format!("\"{text}\""),
    }
}

/// The shell's present session, shared with completion; `None` before the first.
pub type CurrentClient = Rc<RefCell<Option<Rc<Client>>>>;

/// Proposes completions to the line editor.
pub struct Completion {
    /// The session whose server is asked for znodes.
    pub client: CurrentClient,
}

impl Completion {
    /// The paths of a znode's children whose names start with `name`; empty unless the server
    /// answers soon.
    fn children(&self, parent: &str, name: &str) -> Vec<String> {
        let Some(client) = self.client.borrow().clone() else { return Vec::new() };
        let names = client.few_children(parent, COMPLETION_CHILDREN_MAX, COMPLETION_LIMIT);
        let names = names.unwrap_or_default().into_iter();
        names.filter(|own| own.starts_with(name)).map(|own| join(parent, &own)).collect()
    }
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (word, wanted) = wanted(line.get(..position).unwrap_or(line));
        // A path may go on behind a znode, so no space follows it; any other word is complete.
        let (candidates, end) = match wanted {
            Wanted::OneOf(candidates) => (candidates, " "),
            Wanted::Child(parent, name) => (self.children(&parent, &name), ""),
            Wanted::Unknown => (Vec::new(), ""),
        };
        let pair = |text: String| Pair { replacement: quoted(&word, &text) + end, display: text };
        Ok((word.start, candidates.into_iter().map(pair).collect()))
    }
}

impl Hinter for Completion {
    type Hint = String;
}
impl Highlighter for Completion {}
impl Validator for Completion {}
impl Helper for Completion {}

#[cfg(test)]
mod tests;
