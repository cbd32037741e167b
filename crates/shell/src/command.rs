//! Parses the words of a line into a command of the shell. Pure.
//!
//! Names and options are those of ZooKeeper's `zkCli.sh` (`org.apache.zookeeper.cli` and
//! `ZooKeeperMain`, 3.9.5). Words that `zkCli.sh` silently drops are refused here.

use std::path::PathBuf;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use zk::perms;
use zk::request::{AddWatchMode, WatcherType};
use zk::{AclEntry, CreateMode};

use super::limits::DELETE_BATCH;
use super::quota::{LIMIT_OPTIONS, Limit};
use crate::client::{NewZnode, Reconfiguration};

/// One command with its parsed options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Ls { path: String, stat: bool, watch: bool, recursive: bool },
    Tree { path: String, depth: Option<usize> },
    Get { path: String, stat: bool, watch: bool, form: Form },
    Stat { path: String, watch: bool },
    Create(NewZnode),
    Set { path: String, data: Vec<u8>, stat: bool, version: i32 },
    Delete { path: String, version: i32 },
    DeleteAll { path: String, batch: usize },
    Sync { path: String },
    GetAcl { path: String, stat: bool },
    SetAcl { path: String, acl: Vec<AclEntry>, stat: bool, version: i32, recursive: bool },
    AddAuth { scheme: String, credentials: String },
    AddWatch { path: String, mode: AddWatchMode },
    RemoveWatches { path: String, watcher_type: WatcherType, locally: bool },
    Watch { path: String, mode: AddWatchMode },
    SetQuota { path: String, limit: Limit, value: i64 },
    ListQuota { path: String },
    DelQuota { path: String, limit: Option<Limit> },
    Config { stat: bool, watch: bool, clients: bool },
    Reconfig { change: Reconfiguration, file: Option<PathBuf>, stat: bool },
    WhoAmI,
    GetEphemerals { prefix: String },
    GetAllChildrenNumber { path: String },
    Connect { to: Option<String> },
    Close,
    History,
    Redo { index: usize },
    PrintWatches { on: Option<bool> },
    Help { of: Option<String> },
    Version,
    Quit,
}

/// The form in which data is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As text if all characters are printable, else as a dump.
    Text,
    Base64,
    /// As a dump with offsets, bytes and characters.
    Hex,
}

/// How a command is written, and what `help` says about it.
pub struct Usage {
    pub name: &'static str,
    /// Another name of the command.
    pub alias: Option<&'static str>,
    /// The names of the options. An option whose name ends with `=` takes the next word as its
    /// value.
    pub options: &'static [&'static str],
    pub arguments: &'static str,
    pub meaning: &'static str,
    /// The least and the greatest number of arguments, options aside.
    count: (usize, usize),
}

const fn usage(
    name: &'static str,
    options: &'static [&'static str],
    count: (usize, usize),
    arguments: &'static str,
    meaning: &'static str,
) -> Usage {
    Usage { name, alias: None, options, arguments, meaning, count }
}

const fn also(alias: &'static str, usage: Usage) -> Usage {
    Usage { alias: Some(alias), ..usage }
}

const ADD_WATCH: &str = "[-m PERSISTENT|PERSISTENT_RECURSIVE] path";
const CREATE: &str = "[-s] [-e] [-c] [-t ttl-ms] path [data] [acl]";
const RECONFIG: &str = "[-s] [-v version] [-file path | -members server,...] | \
                        [-add server,...] [-remove id,...]";

/// Every command, in the order of `help`.
pub const USAGES: &[Usage] = &[
    usage("ls", &["s", "w", "R"], (0, 2), "[-s] [-w] [-R] [path]", "children; -R all below"),
    usage("tree", &["d="], (0, 1), "[-d depth] [path]", "all below, drawn as a tree"),
    usage(
        "get",
        &["s", "w", "b", "x"],
        (1, 2),
        "[-s] [-w] [-b] [-x] path",
        "data; -b as base64, -x as a hex dump",
    ),
    usage("stat", &["w"], (1, 2), "[-w] path", "stat; other commands show it with -s"),
    usage(
        "create",
        &["s", "e", "c", "t="],
        (1, 3),
        CREATE,
        "make a znode: sequential, ephemeral, container",
    ),
    usage(
        "set",
        &["s", "v=", "b"],
        (2, 2),
        "[-s] [-v version] [-b] path data",
        "replace the data; -b it is base64",
    ),
    usage("delete", &["v="], (1, 1), "[-v version] path", "remove a znode without children"),
    also(
        "rmr",
        usage("deleteall", &["b="], (1, 1), "[-b batch] path", "remove a znode and all below"),
    ),
    usage("getAcl", &["s"], (1, 1), "[-s] path", "who may do what"),
    usage(
        "setAcl",
        &["s", "v=", "R"],
        (2, 2),
        "[-s] [-v version] [-R] path acl",
        "say who may: scheme:id:perms,...; -R all below",
    ),
    usage("addauth", &[], (1, 2), "scheme credentials", "say who you are: digest user:password"),
    usage("whoami", &[], (0, 0), "", "who the server takes you for"),
    usage("addWatch", &["m="], (1, 1), ADD_WATCH, "a watch that stays, recursive unless told"),
    usage(
        "removewatches",
        &["c", "d", "p", "r", "a", "l"],
        (1, 1),
        "[-c|-d|-p|-r|-a] [-l] path",
        "take watches out: child, data, persistent, recursive, all",
    ),
    usage("watch", &["R"], (1, 1), "[-R] path", "print what happens until Ctrl-C; -R all below"),
    usage("printwatches", &[], (0, 1), "[on|off]", "whether watches that fire are printed"),
    usage("sync", &[], (1, 1), "path", "wait until the server has what was written before"),
    usage("getEphemerals", &[], (0, 1), "[prefix]", "the ephemeral znodes of this session"),
    usage("getAllChildrenNumber", &[], (1, 1), "path", "how many znodes are below"),
    usage(
        "setquota",
        &["n=", "b=", "N=", "B="],
        (1, 1),
        "-n|-b|-N|-B value path",
        "limit the znodes or bytes below; N and B refuse, n and b warn",
    ),
    usage("listquota", &[], (1, 1), "path", "limits, and what there is"),
    usage("delquota", &["n", "b", "N", "B"], (1, 1), "[-n|-b|-N|-B] path", "take limits away"),
    usage(
        "config",
        &["c", "w", "s"],
        (0, 0),
        "[-c] [-w] [-s]",
        "the members; -c where clients connect",
    ),
    usage(
        "reconfig",
        &["s", "v=", "file=", "members=", "add=", "remove="],
        (0, 0),
        RECONFIG,
        "change the members",
    ),
    usage("connect", &[], (0, 1), "[host:port,...]", "a new session, there or where it was"),
    usage("close", &[], (0, 0), "", "end the session"),
    usage("history", &[], (0, 0), "", "the last commands"),
    usage("redo", &[], (1, 1), "number", "run a command of the history again"),
    also("?", usage("help", &[], (0, 1), "[command]", "this")),
    usage("version", &[], (0, 0), "", "the version of this program"),
    also("exit", usage("quit", &[], (0, 0), "", "end the session and the shell")),
];

/// The command with this name or alias.
pub fn usage_of(name: &str) -> Option<&'static Usage> {
    let is = |own: &str| own.eq_ignore_ascii_case(name);
    USAGES.iter().find(|usage| is(usage.name) || usage.alias.is_some_and(is))
}

/// Base64 as `java.util.Base64` accepts it: padding is optional, and surplus bits may be set.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Parses the words of one line.
///
/// # Errors
/// The words are no valid command; the error is one line.
pub fn parse(words: &[String]) -> Result<Command, String> {
    let (name, rest) = words.split_first().ok_or("a command is missing")?;
    let unknown = || format!("Command not found {}; `help` lists them", name.escape_debug());
    let usage = usage_of(name).ok_or_else(unknown)?;
    let mut words = Words::read(usage, rest)?;
    Ok(match usage.name {
        "ls" => Command::Ls {
            stat: words.has("s"),
            recursive: words.has("R"),
            path: words.next_path_or_root(),
            watch: words.watches(),
        },
        "tree" => Command::Tree { depth: words.number("d")?, path: words.next_path_or_root() },
        "get" => Command::Get {
            stat: words.has("s"),
            form: words.form(),
            path: words.next(),
            watch: words.watches(),
        },
        "stat" => Command::Stat { path: words.next(), watch: words.watches() },
        "create" => Command::Create(new_znode(&mut words)?),
        "set" => set(&mut words)?,
        "delete" => Command::Delete { version: words.version()?, path: words.next() },
        "deleteall" => delete_all(&mut words)?,
        "getAcl" => Command::GetAcl { stat: words.has("s"), path: words.next() },
        "setAcl" => Command::SetAcl {
            stat: words.has("s"),
            version: words.version()?,
            recursive: words.has("R"),
            path: words.next(),
            acl: parse_acl(&words.next())?,
        },
        "addauth" => Command::AddAuth { scheme: words.next(), credentials: words.next() },
        "whoami" => Command::WhoAmI,
        "addWatch" => Command::AddWatch { mode: words.watch_mode()?, path: words.next() },
        "removewatches" => Command::RemoveWatches {
            watcher_type: words.watcher_type(),
            locally: words.has("l"),
            path: words.next(),
        },
        "watch" => Command::Watch { mode: words.persistent_mode(), path: words.next() },
        "printwatches" => Command::PrintWatches { on: words.next_switch()? },
        "sync" => Command::Sync { path: words.next() },
        "getEphemerals" => Command::GetEphemerals { prefix: words.next_path_or_root() },
        "getAllChildrenNumber" => Command::GetAllChildrenNumber { path: words.next() },
        "setquota" => set_quota(&mut words)?,
        "listquota" => Command::ListQuota { path: words.next() },
        "delquota" => Command::DelQuota {
            limit: words.one_limit()?.map(|(limit, _)| limit),
            path: words.next(),
        },
        "config" => {
            Command::Config { stat: words.has("s"), watch: words.has("w"), clients: words.has("c") }
        }
        "reconfig" => reconfig(&words)?,
        "connect" => Command::Connect { to: words.plain.next() },
        "close" => Command::Close,
        "history" => Command::History,
        "redo" => redo(&mut words)?,
        "help" => Command::Help { of: words.plain.next() },
        "version" => Command::Version,
        "quit" => Command::Quit,
        _ => unreachable!("each name of the table has an arm"),
    })
}

/// The znode that `create` makes (`CreateCommand` and `EphemeralType.TTL`).
fn new_znode(words: &mut Words) -> Result<NewZnode, String> {
    let [s, e, c] = ["s", "e", "c"].map(|option| words.has(option));
    let ttl_ms: Option<i64> = words.number("t")?;
    let mode = match (s, e, c, ttl_ms) {
        (true, _, true, _) | (_, true, true, _) => {
            return Err("-c cannot be combined with -s or -e: \
                        containers are neither ephemeral nor sequential"
                .to_string());
        }
        (_, true, _, Some(_)) => return Err("-t cannot be combined with -e".to_string()),
        (_, _, true, Some(_)) => return Err("-t cannot be combined with -c".to_string()),
        (_, _, _, Some(ttl)) if !(1..=TTL_MS_MAX).contains(&ttl) => {
            return Err(format!("ttl must be positive and cannot be larger than: {TTL_MS_MAX}"));
        }
        (false, false, false, None) => CreateMode::Persistent,
        (false, false, true, None) => CreateMode::Container,
        (false, true, false, None) => CreateMode::Ephemeral,
        (true, false, false, None) => CreateMode::PersistentSequential,
        (true, true, false, None) => CreateMode::EphemeralSequential,
        (false, false, false, Some(_)) => CreateMode::PersistentTtl,
        (true, false, false, Some(_)) => CreateMode::PersistentSequentialTtl,
    };
    let (path, data) = (words.next(), words.plain.next().map(String::into_bytes));
    let acl = match words.plain.next() {
        None => vec![AclEntry { perms: perms::ALL, scheme: "world".into(), id: "anyone".into() }],
        Some(text) => parse_acl(&text)?,
    };
    Ok(NewZnode { path, data, acl, mode, ttl_ms })
}

fn set(words: &mut Words) -> Result<Command, String> {
    let (path, data) = (words.next(), words.next());
    let data = match words.has("b") {
        true => LENIENT_BASE64.decode(&data).map_err(|error| format!("-b: {error}"))?,
        false => data.into_bytes(),
    };
    Ok(Command::Set { stat: words.has("s"), version: words.version()?, path, data })
}

fn delete_all(words: &mut Words) -> Result<Command, String> {
    let batch: Option<i32> = words.number("b")?;
    // A size of 0 deletes one znode at a time (`ZKUtil.deleteRecursive`).
    let batch = batch.map_or(DELETE_BATCH, |batch| usize::try_from(batch).unwrap_or(0));
    Ok(Command::DeleteAll { batch: batch.max(1), path: words.next() })
}

fn redo(words: &mut Words) -> Result<Command, String> {
    let index = words.next();
    let wrong = |_| format!("{index:?} is not a number of the history");
    Ok(Command::Redo { index: index.parse().map_err(wrong)? })
}

/// The longest time to live in ms, a number of 40 bits (`EphemeralType.TTL.maxValue`).
const TTL_MS_MAX: i64 = (1 << 40) - 1;

fn set_quota(words: &mut Words) -> Result<Command, String> {
    let Some((limit, option)) = words.one_limit()? else {
        return Err(wrong_usage(words.usage, "which of -n, -b, -N and -B?"));
    };
    let value: i64 = words.number(option)?.unwrap_or(-1);
    if limit.is_count() && !(1..=i64::from(i32::MAX)).contains(&value) {
        return Err("the num quota must be greater than zero".to_string());
    }
    if value < 0 {
        return Err("the bytes quota must be greater than or equal to zero".to_string());
    }
    Ok(Command::SetQuota { path: words.next(), limit, value })
}

/// The command `reconfig` (`ReconfigCommand`).
fn reconfig(words: &Words) -> Result<Command, String> {
    let [add, remove, members] = ["add", "remove", "members"].map(|name| words.joined(name));
    let file = words.value("file").map(PathBuf::from);
    let whole = file.is_some() || members.is_some();
    let part = add.is_some() || remove.is_some();
    match (whole, part) {
        (false, false) => return Err(wrong_usage(words.usage, "what is to change?")),
        (true, true) => {
            return Err("-file and -members say all members, -add and -remove what changes: \
                        not both"
                .to_string());
        }
        _ if file.is_some() && members.is_some() => {
            return Err("-file and -members say the same: not both".to_string());
        }
        _ => {}
    }
    let version = match words.value("v") {
        None => -1,
        Some(text) => i64::from_str_radix(text, 16)
            .map_err(|_| format!("-v: {text:?} is not a version, a hexadecimal number"))?,
    };
    let change = Reconfiguration { joining: add, leaving: remove, members, version };
    Ok(Command::Reconfig { change, file, stat: words.has("s") })
}

/// Parses an ACL: entries `scheme:id:perms` separated by commas. The id may have colons
/// (`AclParser`).
fn parse_acl(text: &str) -> Result<Vec<AclEntry>, String> {
    text.split(',')
        .map(|entry| {
            let wrong =
                || format!("{} does not have the form scheme:id:perm", entry.escape_debug());
            let (scheme, rest) = entry.split_once(':').ok_or_else(wrong)?;
            let (id, letters) = rest.rsplit_once(':').ok_or_else(wrong)?;
            let mut all = 0;
            for letter in letters.chars() {
                let unknown = || format!("Unknown perm type: {}", letter.escape_debug());
                all |= permission(letter).ok_or_else(unknown)?;
            }
            Ok(AclEntry { perms: all, scheme: scheme.into(), id: id.into() })
        })
        .collect()
}

fn permission(letter: char) -> Option<u32> {
    PERMISSIONS.iter().find(|(own, _)| *own == letter).map(|(_, bit)| *bit)
}

/// The letter of each permission, in the order in which they are shown (`ZKUtil.getPermString`).
pub const PERMISSIONS: [(char, u32); 5] = [
    ('c', perms::CREATE),
    ('d', perms::DELETE),
    ('r', perms::READ),
    ('w', perms::WRITE),
    ('a', perms::ADMIN),
];

/// The words behind a command's name, split into options and arguments.
struct Words {
    usage: &'static Usage,
    /// The given options, each with its value if it takes one.
    options: Vec<(&'static str, Option<String>)>,
    plain: std::vec::IntoIter<String>,
}

impl Words {
    /// Splits words into options, which may be anywhere, and arguments. Words after `--` are
    /// arguments.
    fn read(usage: &'static Usage, words: &[String]) -> Result<Words, String> {
        let mut read = Words { usage, options: Vec::new(), plain: Vec::new().into_iter() };
        let mut plain = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.strip_prefix('-') {
                Some("-") => plain.extend(words.by_ref().cloned()),
                Some(option) if !option.is_empty() && !is_number(option) => {
                    read.option(option.strip_prefix('-').unwrap_or(option), &mut words)?;
                }
                _ => plain.push(word.clone()),
            }
        }
        if plain.len() < usage.count.0 {
            return Err(wrong_usage(usage, "an argument is missing"));
        }
        if plain.len() > usage.count.1 {
            return Err(wrong_usage(usage, "too many arguments; quote what holds spaces"));
        }
        read.plain = plain.into_iter();
        Ok(read)
    }

    /// Parses an option: `-name`, `-name value`, `-name=value`, or the letters of several options,
    /// where the last one may have its value right behind it (commons-cli's `DefaultParser`).
    fn option(
        &mut self,
        text: &str,
        words: &mut std::slice::Iter<'_, String>,
    ) -> Result<(), String> {
        let usage = self.usage;
        let missing = |name: &str| wrong_usage(usage, &format!("-{name} takes a value"));
        if let Some((name, takes_value)) = find_option(usage, text) {
            let value = match takes_value {
                true => Some(words.next().ok_or_else(|| missing(name))?.clone()),
                false => None,
            };
            self.options.push((name, value));
            return Ok(());
        }
        if let Some((name, value)) = text.split_once('=')
            && let Some((name, true)) = find_option(usage, name)
        {
            self.options.push((name, Some(value.to_string())));
            return Ok(());
        }
        for (index, letter) in text.char_indices() {
            let unknown = || {
                let known = usage.options.iter().map(|name| name.trim_end_matches('='));
                let known: Vec<String> = known.map(|name| format!("-{name}")).collect();
                let known = match known.is_empty() {
                    true => "it has none".to_string(),
                    false => format!("it has {}", known.join(" ")),
                };
                wrong_usage(
                    usage,
                    &format!("Unrecognized option: -{}; {known}", text.escape_debug()),
                )
            };
            let end = index + letter.len_utf8();
            let (name, takes_value) = find_option(usage, &text[index..end]).ok_or_else(unknown)?;
            if !takes_value {
                self.options.push((name, None));
                continue;
            }
            let value = match &text[end..] {
                "" => words.next().ok_or_else(|| missing(name))?.clone(),
                rest => rest.to_string(),
            };
            self.options.push((name, Some(value)));
            break;
        }
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(own, _)| *own == name)
    }

    /// The value of an option; if it is repeated, the first value, as in commons-cli.
    fn value(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(own, _)| *own == name)?.1.as_deref()
    }

    /// All values of an option in lower case, joined by commas, as in `ReconfigCommand`.
    fn joined(&self, name: &str) -> Option<String> {
        let own = self.options.iter().filter(|(own, _)| *own == name);
        let values: Vec<String> =
            own.filter_map(|(_, value)| Some(value.as_deref()?.to_lowercase())).collect();
        (!values.is_empty()).then(|| values.join(","))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        let wrong = |text: &str| format!("-{name}: {text:?} is no number, or too large");
        self.value(name).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
    }

    /// The next argument; empty if there is none.
    fn next(&mut self) -> String {
        self.plain.next().unwrap_or_default()
    }

    fn next_path_or_root(&mut self) -> String {
        self.plain.next().unwrap_or_else(|| "/".to_string())
    }

    /// The next argument, which must be `on` or `off`; `None` if there is none.
    fn next_switch(&mut self) -> Result<Option<bool>, String> {
        match self.next().as_str() {
            "" => Ok(None),
            "on" => Ok(Some(true)),
            "off" => Ok(Some(false)),
            _ => Err(wrong_usage(self.usage, "it is on or off")),
        }
    }

    /// Whether the command sets a watch: with `-w`, or with any word behind the path, as before
    /// 3.5.
    fn watches(&mut self) -> bool {
        self.plain.next().is_some() || self.has("w")
    }

    fn form(&self) -> Form {
        match (self.has("x"), self.has("b")) {
            (true, _) => Form::Hex,
            (_, true) => Form::Base64,
            _ => Form::Text,
        }
    }

    /// The version given with `-v`; -1 (any version) if there is none.
    fn version(&self) -> Result<i32, String> {
        let Some(text) = self.value("v") else { return Ok(-1) };
        text.parse().map_err(|_| format!("{text:?} is not a version"))
    }

    /// The mode given with `-m`; recursive by default (`AddWatchCommand`).
    fn watch_mode(&self) -> Result<AddWatchMode, String> {
        match self.value("m").unwrap_or("PERSISTENT_RECURSIVE").to_uppercase().as_str() {
            "PERSISTENT" => Ok(AddWatchMode::Persistent),
            "PERSISTENT_RECURSIVE" => Ok(AddWatchMode::PersistentRecursive),
            _ => Err(wrong_usage(self.usage, "there is no such mode")),
        }
    }

    /// The mode for `watch`: with `-R` it includes all znodes below.
    fn persistent_mode(&self) -> AddWatchMode {
        match self.has("R") {
            true => AddWatchMode::PersistentRecursive,
            false => AddWatchMode::Persistent,
        }
    }

    /// The type for `removewatches`. If several options are given, the first of this list counts
    /// (`RemoveWatchesCommand`).
    fn watcher_type(&self) -> WatcherType {
        let types = [
            ("c", WatcherType::Children),
            ("d", WatcherType::Data),
            ("p", WatcherType::Persistent),
            ("r", WatcherType::PersistentRecursive),
        ];
        let given = types.into_iter().find(|(option, _)| self.has(option));
        given.map_or(WatcherType::Any, |(_, watcher_type)| watcher_type)
    }

    fn one_limit(&self) -> Result<Option<(Limit, &'static str)>, String> {
        let mut given = LIMIT_OPTIONS.into_iter().filter(|(_, option)| self.has(option));
        let first = given.next();
        match given.next() {
            Some(_) => Err(wrong_usage(self.usage, "one limit at a time")),
            None => Ok(first),
        }
    }
}

/// The option of this name, and whether it takes a value.
fn find_option(usage: &Usage, name: &str) -> Option<(&'static str, bool)> {
    usage.options.iter().find_map(|option| match option.strip_suffix('=') {
        Some(own) => (own == name).then_some((own, true)),
        None => (*option == name).then_some((*option, false)),
    })
}

/// Whether the text behind a `-` is a number: then the word is data, a negative number, and no
/// option.
fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn wrong_usage(usage: &Usage, what: &str) -> String {
    let form = format!("{} {}", usage.name, usage.arguments);
    format!("{}: {what} (usage: {})", usage.name, form.trim_end())
}

/// A word of a line, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The text of the word, without its quotes.
    pub text: String,
    /// The byte offset of the word in the line, with its opening quote.
    pub start: usize,
    /// The opening quote; `None` if the word is not quoted.
    pub quote: Option<char>,
    /// False if the word has an opening quote and no closing one.
    pub closed: bool,
}

/// Splits a line into words as `ZooKeeperMain.MyCommandOptions.parseCommand` does. A quote of
/// either kind at the start of a word keeps everything up to the next such quote together. Anywhere
/// else a quote is an ordinary character. There is no escape.
pub fn words_of(line: &str) -> Vec<Word> {
    let mut words = Vec::new();
    // Java's `\s`, for which a no-break space is an ordinary character.
    let is_space = |character: char| character.is_ascii_whitespace();
    let mut rest = line.trim_start_matches(is_space);
    while let Some(first) = rest.chars().next() {
        let start = line.len() - rest.len();
        let quote = Some(first).filter(|first| matches!(first, '"' | '\''));
        let body = &rest[quote.map_or(0, char::len_utf8)..];
        let end = match quote {
            Some(quote) => body.find(quote),
            None => Some(body.find(is_space).unwrap_or(body.len())),
        };
        let text = body[..end.unwrap_or(body.len())].to_string();
        words.push(Word { text, start, quote, closed: end.is_some() });
        let behind = end.map_or("", |end| &body[end..]);
        rest = behind.strip_prefix(quote.unwrap_or(' ')).unwrap_or(behind);
        rest = rest.trim_start_matches(is_space);
    }
    words
}

/// The words of a complete line.
///
/// # Errors
/// A quote is not closed.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    let words = words_of(line);
    match words.iter().find(|word| !word.closed) {
        Some(word) => Err(format!("a {} is not closed", word.quote.unwrap_or('"'))),
        None => Ok(words.into_iter().map(|word| word.text).collect()),
    }
}

#[cfg(test)]
mod tests;
