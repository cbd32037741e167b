//! What may be written in the shell: words, and the command they are. Pure.
//!
//! Names and options are those of ZooKeeper's `zkCli.sh` (`org.apache.zookeeper.cli`, 3.9.5) where
//! it has them.

use machine::acl::perms;
use machine::{AclEntry, CreateMode};

/// One command, its options read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Ls { path: String, stat: bool, watch: bool, recursive: bool },
    Tree { path: String },
    Get { path: String, stat: bool, watch: bool },
    Stat { path: String, watch: bool },
    Create { path: String, data: String, acl: Vec<AclEntry>, mode: CreateMode },
    Set { path: String, data: String, stat: bool, version: i32 },
    Delete { path: String, version: i32 },
    DeleteAll { path: String },
    Sync { path: String },
    GetAcl { path: String, stat: bool },
    SetAcl { path: String, acl: Vec<AclEntry>, stat: bool, version: i32 },
    AddAuth { scheme: String, credentials: String },
    Watch { path: String },
    History,
    Help { of: Option<String> },
    Version,
    Quit,
}

/// Name, arguments and meaning of a command.
pub struct Usage {
    pub name: &'static str,
    pub arguments: &'static str,
    pub meaning: &'static str,
}

const fn usage(name: &'static str, arguments: &'static str, meaning: &'static str) -> Usage {
    Usage { name, arguments, meaning }
}

/// Every command, in the order of `help`.
pub const USAGES: [Usage; 17] = [
    usage("ls", "[-s] [-w] [-R] [path]", "children; -s with stat, -R everything below"),
    usage("tree", "[path]", "everything below, drawn as a tree"),
    usage("get", "[-s] [-w] path", "data; -s with stat"),
    usage("stat", "[-w] path", "stat"),
    usage("create", "[-s] [-e] path [data] [acl]", "make a znode; -s sequential, -e ephemeral"),
    usage("set", "[-s] [-v version] path data", "replace the data"),
    usage("delete", "[-v version] path", "remove a znode without children"),
    usage("deleteall", "path", "remove a znode and everything below"),
    usage("sync", "path", "wait until the server has what was written before"),
    usage("getAcl", "[-s] path", "who may do what"),
    usage("setAcl", "[-s] [-v version] path acl", "say who may; acl is scheme:id:perms,..."),
    usage("addauth", "scheme credentials", "say who you are, as in: digest user:password"),
    usage("watch", "path", "print what happens to a znode until Ctrl-C"),
    usage("history", "", "what was asked before"),
    usage("help", "[command]", "this"),
    usage("version", "", "the version of this program"),
    usage("quit", "", "end the session; also exit, close"),
];

/// Reads the words of one command.
///
/// # Errors
/// One line that says what is wrong.
pub fn parse(words: &[String]) -> Result<Command, String> {
    let (name, rest) = words.split_first().ok_or("a command is missing")?;
    match name.as_str() {
        "ls" => {
            let mut words = Words::read(name, rest, "swR", "", 0..=1)?;
            Ok(Command::Ls {
                stat: words.has('s'),
                watch: words.has('w'),
                recursive: words.has('R'),
                path: words.next_path_or_root(),
            })
        }
        "tree" => {
            let mut words = Words::read(name, rest, "", "", 0..=1)?;
            Ok(Command::Tree { path: words.next_path_or_root() })
        }
        "get" => {
            let mut words = Words::read(name, rest, "sw", "", 1..=1)?;
            let (stat, watch) = (words.has('s'), words.has('w'));
            Ok(Command::Get { stat, watch, path: words.next() })
        }
        "stat" => {
            let mut words = Words::read(name, rest, "w", "", 1..=1)?;
            Ok(Command::Stat { watch: words.has('w'), path: words.next() })
        }
        "create" => parse_create(rest),
        "set" => {
            let mut words = Words::read(name, rest, "s", "v", 2..=2)?;
            let (stat, version) = (words.has('s'), words.version()?);
            Ok(Command::Set { stat, version, path: words.next(), data: words.next() })
        }
        "delete" => {
            let mut words = Words::read(name, rest, "", "v", 1..=1)?;
            Ok(Command::Delete { version: words.version()?, path: words.next() })
        }
        "deleteall" | "rmr" => {
            let mut words = Words::read(name, rest, "", "", 1..=1)?;
            Ok(Command::DeleteAll { path: words.next() })
        }
        "sync" => {
            let mut words = Words::read(name, rest, "", "", 1..=1)?;
            Ok(Command::Sync { path: words.next() })
        }
        "getAcl" | "getacl" => {
            let mut words = Words::read(name, rest, "s", "", 1..=1)?;
            Ok(Command::GetAcl { stat: words.has('s'), path: words.next() })
        }
        "setAcl" | "setacl" => {
            let mut words = Words::read(name, rest, "s", "v", 2..=2)?;
            let (stat, version) = (words.has('s'), words.version()?);
            Ok(Command::SetAcl {
                stat,
                version,
                path: words.next(),
                acl: parse_acl(&words.next())?,
            })
        }
        "addauth" => {
            let mut words = Words::read(name, rest, "", "", 1..=2)?;
            Ok(Command::AddAuth { scheme: words.next(), credentials: words.next() })
        }
        "watch" => {
            let mut words = Words::read(name, rest, "", "", 1..=1)?;
            Ok(Command::Watch { path: words.next() })
        }
        "help" | "?" => {
            let mut words = Words::read("help", rest, "", "", 0..=1)?;
            Ok(Command::Help { of: Some(words.next()).filter(|name| !name.is_empty()) })
        }
        "history" => Words::read(name, rest, "", "", 0..=0).map(|_| Command::History),
        "version" => Words::read(name, rest, "", "", 0..=0).map(|_| Command::Version),
        "quit" | "exit" | "close" => {
            Words::read("quit", rest, "", "", 0..=0).map(|_| Command::Quit)
        }
        _ => Err(format!("{name}: unknown command; `help` lists them")),
    }
}

fn parse_create(rest: &[String]) -> Result<Command, String> {
    let mut words = Words::read("create", rest, "se", "", 1..=3)?;
    let mode = match (words.has('s'), words.has('e')) {
        (false, false) => CreateMode::Persistent,
        (false, true) => CreateMode::Ephemeral,
        (true, false) => CreateMode::PersistentSequential,
        (true, true) => CreateMode::EphemeralSequential,
    };
    let (path, data, acl) = (words.next(), words.next(), words.next());
    let acl = match acl.as_str() {
        "" => vec![AclEntry { perms: perms::ALL, scheme: "world".into(), id: "anyone".into() }],
        text => parse_acl(text)?,
    };
    Ok(Command::Create { path, data, acl, mode })
}

/// `scheme:id:perms`, several separated by commas; the id may hold colons (`AclParser`).
fn parse_acl(text: &str) -> Result<Vec<AclEntry>, String> {
    text.split(',')
        .map(|entry| {
            let (scheme, rest) = entry.split_once(':').ok_or_else(|| not_an_acl(entry))?;
            let (id, letters) = rest.rsplit_once(':').ok_or_else(|| not_an_acl(entry))?;
            let mut all = 0;
            for letter in letters.chars() {
                all |= permission(letter).ok_or_else(|| not_an_acl(entry))?;
            }
            Ok(AclEntry { perms: all, scheme: scheme.into(), id: id.into() })
        })
        .collect()
}

fn not_an_acl(entry: &str) -> String {
    format!("{entry:?} is not scheme:id:perms with perms of the letters cdrwa")
}

fn permission(letter: char) -> Option<u32> {
    PERMISSIONS.iter().find(|(own, _)| *own == letter).map(|(_, bit)| *bit)
}

/// The letters of permissions, in the order in which they are shown.
pub const PERMISSIONS: [(char, u32); 5] = [
    ('c', perms::CREATE),
    ('d', perms::DELETE),
    ('r', perms::READ),
    ('w', perms::WRITE),
    ('a', perms::ADMIN),
];

/// The words behind a command's name, options apart.
struct Words {
    flags: Vec<char>,
    version: Option<String>,
    plain: std::vec::IntoIter<String>,
}

impl Words {
    /// `flags` stand alone, `valued` takes the next word. After `--` no word is an option.
    fn read(
        name: &str,
        words: &[String],
        flags: &str,
        valued: &str,
        count: std::ops::RangeInclusive<usize>,
    ) -> Result<Words, String> {
        let mut read = Words { flags: Vec::new(), version: None, plain: Vec::new().into_iter() };
        let mut plain = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let option = word.strip_prefix('-').filter(|_| !plain_number(word));
            match option {
                Some("-") => plain.extend(words.by_ref().cloned()),
                Some(letters) if !letters.is_empty() => {
                    for letter in letters.chars() {
                        if valued.contains(letter) {
                            read.version = words.next().cloned();
                        } else if flags.contains(letter) {
                            read.flags.push(letter);
                        } else {
                            return Err(wrong_usage(name, &format!("unknown option -{letter}")));
                        }
                    }
                }
                _ => plain.push(word.clone()),
            }
        }
        if plain.len() < *count.start() {
            return Err(wrong_usage(name, "an argument is missing"));
        }
        if plain.len() > *count.end() {
            return Err(wrong_usage(name, "too many arguments; quote what holds spaces"));
        }
        read.plain = plain.into_iter();
        Ok(read)
    }

    fn has(&self, flag: char) -> bool {
        self.flags.contains(&flag)
    }

    /// The next argument, or nothing.
    fn next(&mut self) -> String {
        self.plain.next().unwrap_or_default()
    }

    fn next_path_or_root(&mut self) -> String {
        self.plain.next().unwrap_or_else(|| "/".to_string())
    }

    /// -1 unless `-v` says another.
    fn version(&self) -> Result<i32, String> {
        let Some(text) = &self.version else { return Ok(-1) };
        text.parse().map_err(|_| format!("{text:?} is not a version"))
    }
}

/// Data may be a negative number.
fn plain_number(word: &str) -> bool {
    word.len() > 1 && word[1..].bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn wrong_usage(name: &str, what: &str) -> String {
    let usage = USAGES.iter().find(|usage| usage.name.eq_ignore_ascii_case(name));
    let arguments = usage.map_or("", |usage| usage.arguments);
    format!("{name}: {what} (usage: {})", format!("{name} {arguments}").trim_end())
}

/// Splits a line into words. Quotes of either kind keep spaces; inside double quotes and outside of
/// quotes a backslash takes the next character as it is.
///
/// # Errors
/// A quote is not closed.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(character),
            (_, '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    if let Some(open) = quote {
        return Err(format!("a {open} is not closed"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests;
