//! `quorate zk`: runs commands on the tree of a ZooKeeper server. It takes one command from the
//! command line, or many commands from a prompt or a pipe.
//!
//! [`command`] parses commands, [`execute`] and [`trees`] run them, [`show`] formats the results,
//! and [`screen`] prints them.

mod client;
mod command;
mod complete;
mod execute;
mod limits;
mod quota;
mod screen;
mod security;
mod show;
mod trees;
mod walk;

use std::cell::RefCell;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use serde_json::{Map, Value, json};

use client::{Client, ClientError, Phase, Target};
use command::{Command, usage_of};
use complete::{Completion, CurrentClient};
use limits::{COMMANDS_KEPT_MAX, HISTORY_LINES_MAX, HISTORY_SHOWN};
use screen::Screen;
use security::Properties;
use show::Answer;

pub use screen::Format;

/// The parsed command line of `quorate zk`.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The connect string: servers separated by commas, and optionally a path that is the root of
    /// all paths (the chroot).
    pub servers: String,
    /// How long the session outlives a lost connection, in ms.
    pub timeout_ms: u32,
    /// Whether a server that is cut off from its ensemble is accepted; it serves reads only.
    pub read_only: bool,
    /// Whether to try the servers until the timeout ends, and not only once each.
    pub is_patient: bool,
    /// A file with properties about TLS and SASL, as `zkCli.sh` reads it.
    pub client_configuration: Option<PathBuf>,
    /// The form of the output.
    pub output: Format,
    /// One command with its arguments; empty for a prompt or a pipe.
    pub command: Vec<String>,
}

/// Runs the given command, or all commands from the prompt or the pipe.
///
/// # Errors
/// The options are wrong, or the terminal or the input fails.
pub fn run(args: &Invocation) -> anyhow::Result<ExitCode> {
    let target = target(args)?;
    let types = args.command.is_empty() && screen::is_interactive();
    let mut shell = Shell {
        target,
        client: Rc::new(RefCell::new(None)),
        screen: Arc::new(Screen::new(args.output, types)),
        history: Vec::new(),
        forgotten: 0,
        notes: Vec::new(),
        watches_interrupts: false,
    };
    let status = if !args.command.is_empty() {
        Ok(shell.run_words(&args.command))
    } else if types {
        shell.prompt().map(|()| Status::Done)
    } else {
        shell.run_lines(&mut std::io::stdin().lock())
    };
    shell.close();
    Ok(match status? {
        Status::NoCommand if !args.command.is_empty() => ExitCode::from(NO_COMMAND),
        Status::Failed | Status::NoCommand => ExitCode::FAILURE,
        Status::Done | Status::Quit => ExitCode::SUCCESS,
    })
}

/// The servers and the session that the options ask for.
fn target(args: &Invocation) -> anyhow::Result<Target> {
    let flags = FLAGS.map(|variable| (variable, std::env::var(variable).unwrap_or_default()));
    let properties = Properties::read(&flags, args.client_configuration.as_deref());
    let security = properties.and_then(|properties| properties.security());
    let (security, warnings) = security.map_err(anyhow::Error::msg)?;
    warnings.iter().for_each(|warning| eprintln!("{warning}"));
    let target = Target::parse(&args.servers, args.timeout_ms).map_err(anyhow::Error::msg)?;
    let (read_only, patient) = (args.read_only, args.is_patient);
    Ok(Target { read_only, patient, security, ..target })
}

/// The environment variables in which `zkCli.sh` looks for Java flags.
const FLAGS: [&str; 2] = ["CLIENT_JVMFLAGS", "JVMFLAGS"];

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Done,
    Failed,
    /// There is no command of this name.
    NoCommand,
    Quit,
}

/// The exit status of an unknown command, as in `zkCli.sh` (`CommandNotFoundException`, 3.9.5).
const NO_COMMAND: u8 = 127;

/// Why a command failed.
#[derive(Debug)]
enum Failure {
    /// An error of the client or the server, and the path of the request.
    Client(ClientError, Option<String>),
    /// An error message for the user.
    Said(String),
    /// An error that is already printed, as the last field of a JSON value.
    Shown,
    /// The output cannot be written, perhaps because its reader is gone.
    Output(std::io::Error),
}

impl Failure {
    fn of(error: ClientError, path: &str) -> Failure {
        Failure::Client(error, Some(path.to_string()))
    }

    fn text(&self) -> String {
        match self {
            Failure::Client(error, path) => show::error_text(error, path.as_deref()),
            Failure::Said(text) => text.clone(),
            Failure::Shown => String::new(),
            Failure::Output(error) => format!("the output cannot be written: {error}"),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Output(error)
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure::Said(text)
    }
}

fn failure_value(failure: &Failure) -> Value {
    let error = match failure {
        Failure::Client(error, _) => Some(error),
        _ => None,
    };
    show::error_value(error, &failure.text())
}

struct Shell {
    target: Target,
    client: CurrentClient,
    screen: Arc<Screen>,
    /// The commands of this shell so far, for `history` and `redo`.
    history: Vec<String>,
    /// How many older commands were dropped from `history`.
    forgotten: usize,
    /// Remarks of the present command, shown before its answer.
    notes: Vec<String>,
    watches_interrupts: bool,
}

/// Replaces, in the history, a command that may have a password.
const NOT_KEPT: &str = "addauth (not kept)";

impl Shell {
    /// Reads commands from a terminal until the user ends the shell.
    fn prompt(&mut self) -> anyhow::Result<()> {
        let config = Config::builder()
            .max_history_size(HISTORY_LINES_MAX)
            .and_then(|builder| builder.history_ignore_dups(true))
            .context("no history")?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .build();
        let history = FileHistory::with_config(&config);
        let mut editor: Editor<Completion, FileHistory> =
            Editor::with_history(config, history).context("no line editor")?;
        editor.set_helper(Some(Completion { client: self.client.clone() }));
        let file = history_file();
        if let Some(file) = &file {
            // The file may not exist yet or be unreadable; neither deserves an error.
            let _ = editor.load_history(file);
        }
        // A terminal without line editing has no printer. Events are then printed as they arrive.
        if let Ok(printer) = editor.create_external_printer() {
            self.screen.show_above(printer).context("no thread for events")?;
        }
        // Without this, Ctrl-C would end the shell instead of the command.
        let _ = self.watch_interrupts();
        println!("quorate zk: `help` lists the commands, Tab completes, Ctrl-D ends");
        if let Err(failure) = self.client() {
            self.screen.put_stderr(&format!("{}\n", failure.text()));
        }
        loop {
            let prompt = self.prompt_text();
            match self.screen.while_editing(|| editor.readline(&prompt)) {
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => {
                    if !may_hold_secret(&line) {
                        editor.add_history_entry(line.as_str()).context("no history")?;
                        if let Some(file) = &file {
                            let _ = editor.append_history(file);
                        }
                    }
                    if self.run_line(&line) == Status::Quit {
                        break;
                    }
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(error).context("the terminal cannot be read"),
            }
        }
        Ok(())
    }

    /// The prompt, as in `ZooKeeperMain.getPrompt`.
    fn prompt_text(&self) -> String {
        let phase = self.client.borrow().as_ref().map_or(Phase::Closed, |client| client.phase());
        let state = match phase {
            Phase::Connecting => "CONNECTING",
            Phase::Connected => "CONNECTED",
            Phase::ConnectedReadOnly => "CONNECTEDREADONLY",
            Phase::Expired => "EXPIRED",
            Phase::Closed => "CLOSED",
        };
        let index = self.forgotten + self.history.len();
        format!("[zk: {}({state}) {index}] ", self.target.text)
    }

    /// Runs all lines of a file or a pipe. Returns `Failed` if a command failed.
    fn run_lines(&mut self, input: &mut dyn BufRead) -> anyhow::Result<Status> {
        let mut all = Status::Done;
        for line in input.split(b'\n') {
            let line = line.context("the input cannot be read")?;
            let Ok(line) = String::from_utf8(line) else {
                let text = "a line is not UTF-8; `set -b` takes other data".to_string();
                all = self.finish("", Err(Failure::Said(text)));
                continue;
            };
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            match self.run_line(&line) {
                Status::Done => {}
                Status::Failed | Status::NoCommand => all = Status::Failed,
                Status::Quit => break,
            }
        }
        Ok(all)
    }

    fn run_line(&mut self, line: &str) -> Status {
        let kept = if may_hold_secret(line) { NOT_KEPT } else { line.trim() };
        self.history.push(kept.to_string());
        if self.history.len() > COMMANDS_KEPT_MAX {
            self.history.remove(0);
            self.forgotten += 1;
        }
        match command::split(line) {
            Ok(words) => self.run_words(&words),
            Err(text) => self.finish("", Err(Failure::Said(text))),
        }
    }

    /// Runs one command and prints its result.
    fn run_words(&mut self, words: &[String]) -> Status {
        let typed = words.first().map_or("", String::as_str);
        let name = usage_of(typed).map_or(typed, |usage| usage.name);
        match command::parse(words) {
            Ok(Command::Quit) => Status::Quit,
            Ok(Command::Redo { index }) => match self.line_of(index) {
                Ok(words) => self.run_words(&words),
                Err(failure) => self.finish(name, Err(failure)),
            },
            Ok(command) => {
                let done = self.execute(&command);
                self.finish(name, done)
            }
            Err(text) => match self.finish(name, Err(Failure::Said(text))) {
                Status::Failed if usage_of(name).is_none() => Status::NoCommand,
                status => status,
            },
        }
    }

    /// The words of the command with this number in the history. In the history, that command also
    /// takes the place of the `redo` that asked for it.
    fn line_of(&mut self, index: usize) -> Result<Vec<String>, Failure> {
        let position = index.checked_sub(self.forgotten);
        let last = self.history.len().saturating_sub(1);
        let line = position.filter(|position| *position < last);
        let line = line.and_then(|position| self.history.get(position)).cloned();
        let line = line.ok_or_else(|| "Command index out of range".to_string())?;
        if line == NOT_KEPT {
            return Err("what may hold a password is not kept".to_string().into());
        }
        let words = command::split(&line)?;
        if words.first().is_some_and(|name| usage_of(name).is_some_and(|u| u.name == "redo")) {
            return Err("No redoing redos".to_string().into());
        }
        if let Some(own) = self.history.last_mut() {
            *own = line;
        }
        Ok(words)
    }

    /// The last commands with their numbers, including `history` itself.
    fn shown_history(&self) -> Vec<(usize, String)> {
        let numbered = self.history.iter().cloned().enumerate();
        let first = self.history.len().saturating_sub(HISTORY_SHOWN + 1);
        numbered.skip(first).map(|(index, line)| (self.forgotten + index, line)).collect()
    }

    /// Prints the answer of a command, or its failure.
    fn finish(&mut self, name: &str, done: Result<Option<Answer>, Failure>) -> Status {
        let notes = std::mem::take(&mut self.notes);
        let shown = match self.screen.format() {
            Format::Text => self.finish_text(&notes, &done),
            Format::Json => self.finish_json(name, notes, &done),
        };
        let output = shown.and_then(|()| self.screen.flush());
        let broken = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
        match (&done, &output) {
            // The reader of the output is gone, so the shell must end.
            (Err(Failure::Output(error)), _) | (_, Err(error)) if broken(error) => Status::Quit,
            (Ok(_), Ok(())) => Status::Done,
            _ => Status::Failed,
        }
    }

    fn finish_text(
        &self,
        notes: &[String],
        done: &Result<Option<Answer>, Failure>,
    ) -> std::io::Result<()> {
        notes.iter().for_each(|note| self.screen.put_stderr(&format!("{note}\n")));
        match done {
            Ok(None) | Err(Failure::Shown) => {}
            Ok(Some(answer)) => {
                let shown = show::plain(answer);
                if !shown.err.is_empty() {
                    self.screen.put_stderr(&shown.err);
                }
                self.screen.put(&shown.out)?;
            }
            Err(failure) => self.screen.put_stderr(&format!("{}\n", failure.text())),
        }
        Ok(())
    }

    /// Prints one JSON value for a command, unless the command has printed its own.
    fn finish_json(
        &self,
        name: &str,
        notes: Vec<String>,
        done: &Result<Option<Answer>, Failure>,
    ) -> std::io::Result<()> {
        let mut fields = match done {
            Ok(None) | Err(Failure::Shown) => return Ok(()),
            Ok(Some(answer)) => show::fields(answer),
            Err(failure) => {
                let mut fields = Map::new();
                fields.insert("error".to_string(), failure_value(failure));
                fields
            }
        };
        fields.insert("command".to_string(), json!(name));
        fields.insert("ok".to_string(), json!(done.is_ok()));
        if !notes.is_empty() {
            fields.insert("notes".to_string(), json!(notes));
        }
        self.screen.put(&format!("{}\n", Value::Object(fields)))
    }

    /// The session; a new one if there was none yet or the last one has expired.
    fn client(&mut self) -> Result<Rc<Client>, Failure> {
        let current = self.client.borrow().clone();
        match current {
            Some(client) if client.phase() == Phase::Closed => {
                Err(Failure::Client(ClientError::Closed, None))
            }
            Some(client) if client.phase() != Phase::Expired => Ok(client),
            _ => self.connect(),
        }
    }

    fn connect(&mut self) -> Result<Rc<Client>, Failure> {
        let screen = self.screen.clone();
        let client = Client::connect(&self.target, move |event| screen.deliver(event))
            .map_err(|error| Failure::Client(error, None))?;
        let client = Rc::new(client);
        *self.client.borrow_mut() = Some(client.clone());
        Ok(client)
    }

    /// Ends the session, if there is one.
    fn close(&self) {
        if let Some(client) = &*self.client.borrow() {
            client.close();
        }
    }
}

/// Whether a line may have credentials. Looks anywhere in the line, because wrong lines are kept in
/// the history, too.
fn may_hold_secret(line: &str) -> bool {
    line.to_ascii_lowercase().contains("addauth")
}

/// The file of the history: `$XDG_STATE_HOME/quorate/zk_history`, by default below
/// `~/.local/state`. Creates the folder.
fn history_file() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|text| !text.is_empty());
    let state = match folder("XDG_STATE_HOME") {
        Some(state) => PathBuf::from(state),
        None => Path::new(&folder("HOME")?).join(".local/state"),
    };
    let own = state.join("quorate");
    std::fs::create_dir_all(&own).ok()?;
    Some(own.join("zk_history"))
}
