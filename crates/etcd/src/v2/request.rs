//! Parses requests of etcd v2: turns method, path and parameters into a read, a wait or a command.
//!
//! Source: etcd 3.4, which parses requests in `v2http.parseKeyRequest`, and chooses the operation
//! of a write in `etcdserver.applierV2store`.

use std::sync::Arc;

use machine::etcd_v2::auth::Who;
use machine::etcd_v2::command::{Command, Compare, Write};
use machine::etcd_v2::key::Key;
use machine::limits::{ETCD_V2_KEY_BYTES_MAX, ETCD_V2_LEVELS_MAX, ETCD_V2_TTL_S_MAX};

use super::auth::AuthWrite;
use super::failure::{Code, Failure};
use super::form::Form;
use super::path;

/// The HTTP methods of requests about keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Read, without a body in the answer.
    Head,
    /// Read, or wait for a change.
    Get,
    /// Create or change a node.
    Put,
    /// Create a node with a generated name. Generated names sort in the order in which their nodes
    /// were created.
    Post,
    /// Remove a node.
    Delete,
}

impl Verb {
    /// The value of the `Allow` header in the answer to any other method.
    pub const ALLOWED: &str = "HEAD,GET,PUT,POST,DELETE";

    /// The verb of an HTTP method; `None` for any other method.
    pub fn of(method: &str) -> Option<Verb> {
        Some(match method {
            "HEAD" => Verb::Head,
            "GET" => Verb::Get,
            "PUT" => Verb::Put,
            "POST" => Verb::Post,
            "DELETE" => Verb::Delete,
            _ => return None,
        })
    }

    /// Whether the body of a request may be a form.
    pub fn has_form(self) -> bool {
        matches!(self, Verb::Put | Verb::Post)
    }
}

/// A request about a key, or about users and roles. All its parameters are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    key: Box<str>,
    /// The user that sends the request; `None` if the client names no user.
    pub user: Option<Arc<str>>,
    /// The operation that the request asks for.
    pub ask: Ask,
}

/// The operation that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Read the node.
    Get {
        /// Whether everything below the node is shown, too.
        is_recursive: bool,
        /// Whether the read must be linearizable: see everything committed before it began.
        is_quorum: bool,
    },
    /// Wait for a change of the node.
    Wait(WaitAsk),
    /// Write the node.
    Write(Box<WriteAsk>),
    /// Read users and roles. The client's right to do so is already checked.
    ReadAuth,
    /// Change users and roles.
    WriteAuth(Box<AuthWrite>),
}

/// A wait for changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitAsk {
    /// Whether changes below the key count, too.
    pub is_recursive: bool,
    /// Whether the wait goes on after the first change.
    pub is_stream: bool,
    /// Index of the first change that counts; 0 for the next change.
    pub from: u64,
}

/// A write, with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteAsk {
    operation: Operation,
    value: Vec<u8>,
    ttl_s: Option<u64>,
    prev_value: Vec<u8>,
    prev_index: u64,
    is_dir: bool,
    is_recursive: bool,
    is_refresh: bool,
    /// Whether the answer leaves the nodes out (`noValueOnSuccess`). False for a removal.
    pub hides_nodes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Set,
    Create { is_in_order: bool },
    Update,
    CompareAndSwap,
    Delete,
    CompareAndDelete,
}

impl Operation {
    /// Whether the operation makes a new node, which may take the place of an old one.
    fn is_new(self) -> bool {
        matches!(self, Operation::Set | Operation::Create { .. })
    }

    fn is_removal(self) -> bool {
        matches!(self, Operation::Delete | Operation::CompareAndDelete)
    }
}

impl Request {
    /// The request about a key. `key` is the part of the URL's path behind [`super::KEYS`].
    ///
    /// # Errors
    /// The key or a parameter is not allowed.
    pub fn new(verb: Verb, key: &str, mut form: Form) -> Result<Request, Failure> {
        let numbers = [number(&form, "prevIndex")?, number(&form, "waitIndex")?];
        let [prev_index, from] = numbers;
        let flag = |name| flag(&form, name);
        let is_recursive = flag("recursive")?;
        // The answer is always sorted by name, so the parameter changes nothing.
        flag("sorted")?;
        let waits = flag("wait")?;
        let is_dir = flag("dir")?;
        let is_quorum = flag("quorum")?;
        let is_stream = flag("stream")?;
        if waits && verb != Verb::Get {
            return Err(invalid_field("\"wait\" can only be used with GET requests"));
        }
        if form.first("prevValue").is_some_and(<[u8]>::is_empty) {
            let cause = "\"prevValue\" cannot be empty";
            return Err(Failure::new(Code::PrevValueRequired, cause));
        }
        let hides_nodes = flag("noValueOnSuccess")?;
        let ttl_s = time_to_live(&form)?;
        let prev_exist = flag_or_none(&form, "prevExist")?;
        let is_refresh = flag_or_none(&form, "refresh")?.unwrap_or(false);
        if is_refresh {
            if form.first("value").is_some_and(|value| !value.is_empty()) {
                let cause = "A value was provided on a refresh";
                return Err(Failure::new(Code::RefreshValue, cause));
            }
            if ttl_s.is_none() {
                return Err(Failure::new(Code::RefreshTtlRequired, "No TTL value set"));
            }
        }
        let compares = prev_index > 0 || form.first("prevValue").is_some();
        let operation = match verb {
            Verb::Head | Verb::Get => None,
            Verb::Post => Some(Operation::Create { is_in_order: true }),
            Verb::Delete if compares => Some(Operation::CompareAndDelete),
            Verb::Delete => Some(Operation::Delete),
            Verb::Put => Some(match prev_exist {
                Some(false) => Operation::Create { is_in_order: false },
                _ if compares => Operation::CompareAndSwap,
                Some(true) => Operation::Update,
                None => Operation::Set,
            }),
        };
        let key = key_of(key, operation == Some(Operation::Create { is_in_order: true }))?;
        let ask = match operation {
            None if waits && !is_quorum => Ask::Wait(WaitAsk { is_recursive, is_stream, from }),
            None => Ask::Get { is_recursive, is_quorum },
            Some(operation) => Ask::Write(Box::new(WriteAsk {
                operation,
                prev_value: form.take("prevValue"),
                // A new directory has no value.
                value: if is_dir && operation.is_new() { Vec::new() } else { form.take("value") },
                ttl_s,
                prev_index,
                is_dir,
                is_recursive,
                is_refresh,
                hides_nodes: hides_nodes && !operation.is_removal(),
            })),
        };
        Ok(Request { key, user: None, ask })
    }

    /// A request to read users and roles.
    pub fn read_auth() -> Request {
        Request { key: "".into(), user: None, ask: Ask::ReadAuth }
    }

    /// A request of a user to change users and roles.
    pub fn write_auth(user: Option<Arc<str>>, write: AuthWrite) -> Request {
        Request { key: "".into(), user, ask: Ask::WriteAuth(Box::new(write)) }
    }

    /// The identity whose permissions apply.
    pub fn who(&self) -> Who<'_> {
        self.user.as_deref().map_or(Who::Guest, Who::User)
    }

    /// The key; empty for a request about users and roles.
    pub fn key(&self) -> Key<'_> {
        Key::known(&self.key)
    }

    /// The command for the log; `None` unless the request is a write.
    pub fn command(&self) -> Option<Command<'_>> {
        match &self.ask {
            Ask::Write(write) => Some(write.command(self.key())),
            Ask::WriteAuth(write) => Some(Command::Auth(write.command())),
            Ask::Get { .. } | Ask::Wait(_) | Ask::ReadAuth => None,
        }
    }

    /// Bytes of the key, the values and the names in the request.
    pub fn bytes(&self) -> usize {
        let of_write = match &self.ask {
            Ask::Write(write) => write.value.len() + write.prev_value.len(),
            Ask::WriteAuth(write) => write.bytes(),
            Ask::Get { .. } | Ask::Wait(_) | Ask::ReadAuth => 0,
        };
        self.key.len() + of_write
    }
}

impl WriteAsk {
    fn command<'a>(&'a self, key: Key<'a>) -> Command<'a> {
        let write = Write { key, value: &self.value, ttl_s: self.ttl_s };
        let compare = Compare { value: &self.prev_value, index: self.prev_index };
        let (is_dir, is_refresh) = (self.is_dir, self.is_refresh);
        match self.operation {
            Operation::Set => Command::Set { write, is_dir, is_refresh },
            Operation::Create { is_in_order } => Command::Create { write, is_dir, is_in_order },
            Operation::Update => Command::Update { write, is_refresh },
            Operation::CompareAndSwap => Command::CompareAndSwap { write, compare, is_refresh },
            Operation::Delete => Command::Delete { key, is_dir, is_recursive: self.is_recursive },
            Operation::CompareAndDelete => Command::CompareAndDelete { key, compare },
        }
    }
}

/// The key in the path of a URL. `is_in_order`: the key also needs room for a generated name.
fn key_of(path: &str, is_in_order: bool) -> Result<Box<str>, Failure> {
    let clean;
    let path = if path::is_plain(path) {
        path
    } else {
        let bytes = path::decoded(path.as_bytes(), false);
        let bytes = bytes.map_err(|bad| invalid_field(&bad.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| invalid_field("the key is no UTF-8"))?;
        clean = path::clean(&text);
        &clean
    };
    let key = Key::new(path.trim_end_matches('/'));
    match key.filter(|key| !is_in_order || key.has_room_in_order()) {
        Some(key) => Ok(key.text().into()),
        None => Err(invalid_field(&format!(
            "the key has more than {ETCD_V2_KEY_BYTES_MAX} bytes or {ETCD_V2_LEVELS_MAX} levels"
        ))),
    }
}

/// The time to live in seconds; `None` if the parameter is missing or empty.
fn time_to_live(form: &Form) -> Result<Option<u64>, Failure> {
    match form.first("ttl") {
        None | Some([]) => Ok(None),
        Some(text) => match parsed(text).filter(|ttl_s| *ttl_s <= ETCD_V2_TTL_S_MAX) {
            Some(ttl_s) => Ok(Some(ttl_s)),
            None => Err(Failure::new(Code::TtlNotNumber, "invalid value for \"ttl\"")),
        },
    }
}

fn number(form: &Form, name: &str) -> Result<u64, Failure> {
    let Some(text) = form.first(name) else { return Ok(0) };
    let not_number = || Failure::new(Code::IndexNotNumber, format!("invalid value for \"{name}\""));
    parsed(text).ok_or_else(not_number)
}

/// Parses as Go's `strconv.ParseUint`, which takes no sign.
fn parsed(text: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(text).ok().filter(|text| !text.starts_with('+'))?;
    text.parse().ok()
}

fn flag(form: &Form, name: &str) -> Result<bool, Failure> {
    match form.first(name) {
        None => Ok(false),
        Some(text) => {
            truth(text).ok_or_else(|| invalid_field(&format!("invalid value for \"{name}\"")))
        }
    }
}

/// As [`flag`], but `None` if the parameter is missing. etcd's error names such a parameter without
/// quotes.
fn flag_or_none(form: &Form, name: &str) -> Result<Option<bool>, Failure> {
    let Some(text) = form.first(name) else { return Ok(None) };
    let truth = truth(text).ok_or_else(|| invalid_field(&format!("invalid value for {name}")))?;
    Ok(Some(truth))
}

/// Parses as Go's `strconv.ParseBool`.
fn truth(text: &[u8]) -> Option<bool> {
    match text {
        b"1" | b"t" | b"T" | b"true" | b"TRUE" | b"True" => Some(true),
        b"0" | b"f" | b"F" | b"false" | b"FALSE" | b"False" => Some(false),
        _ => None,
    }
}

fn invalid_field(cause: &str) -> Failure {
    Failure::new(Code::InvalidField, cause)
}

#[cfg(test)]
mod tests;
