//! `quorate zk`: commands on the tree of a ZooKeeper server, one from the command line or many from
//! a prompt.

mod command;
mod show;

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use machine::{AclEntry, Stat};
use rustyline::error::ReadlineError;
use rustyline::{DefaultEditor, ExternalPrinter};
use zk::request::{CreateKind, ReadKind, ReadRequest, Request, WriteRequest};
use zk::response::decode_stat;
use zk::{ErrorCode, JuteError, JuteReader};

use crate::cli::ZkArgs;
use crate::zk_client::{Client, ClientError, Event, Target};
use command::{Command, USAGES};

/// Lines of the history that are kept in its file.
const HISTORY_LINES_MAX: usize = 1_000;

/// Events that wait for `watch` to print them; more are printed as they come.
const WATCHED_EVENTS_MAX: usize = 1_024;

/// How often `watch` looks whether the connection still stands.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the command that was given, or a shell.
pub fn run(args: &ZkArgs) -> anyhow::Result<ExitCode> {
    let target = Target { servers: args.server.clone(), timeout_ms: args.timeout };
    let mut shell = Shell {
        target,
        client: None,
        events: Arc::default(),
        history: Vec::new(),
        interactive: args.command.is_empty(),
    };
    let status = if !args.command.is_empty() {
        shell.run_words(&args.command)
    } else if std::io::stdin().is_terminal() {
        shell.prompt()?;
        Status::Done
    } else {
        shell.run_lines(&mut std::io::stdin().lock())?
    };
    if let Some(client) = shell.client.take() {
        client.close();
    }
    Ok(match status {
        Status::Failed => ExitCode::FAILURE,
        Status::Done | Status::Quit => ExitCode::SUCCESS,
    })
}

/// What came of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Done,
    Failed,
    Quit,
}

/// Why a command failed.
enum Failure {
    /// For the user.
    Said(String),
    /// Nobody reads the output any more.
    Output(std::io::Error),
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

/// An answer about one znode, or the line that says why there is none.
type Answer<T> = Result<T, ClientError>;

struct Shell {
    target: Target,
    client: Option<Client>,
    events: Arc<Events>,
    history: Vec<String>,
    /// There is a next command, during which a watch may fire.
    interactive: bool,
}

impl Shell {
    /// Reads lines from a terminal until the end.
    fn prompt(&mut self) -> anyhow::Result<()> {
        let mut editor = DefaultEditor::new().context("no line editor")?;
        let file = history_file();
        for line in file.as_deref().map(read_history).unwrap_or_default() {
            editor.add_history_entry(line.as_str()).context("no history")?;
            self.history.push(line);
        }
        let printer = editor.create_external_printer().context("no printer")?;
        *lock(&self.events.printer) = Some(Box::new(printer));
        if let Err(failure) = self.client() {
            eprintln!("zk: {failure}");
        }
        loop {
            match editor.readline(&self.prompt_text()) {
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => {
                    // A password stays out of it.
                    if !line.trim_start().starts_with("addauth") {
                        editor.add_history_entry(line.as_str()).context("no history")?;
                        self.history.push(line.clone());
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
        *lock(&self.events.printer) = None;
        if let Some(file) = file {
            write_history(&file, &self.history);
        }
        Ok(())
    }

    fn prompt_text(&self) -> String {
        match self.client.as_ref().filter(|client| !client.is_lost()) {
            Some(client) => format!("{}> ", client.server()),
            None => "not connected> ".to_string(),
        }
    }

    /// Runs lines that are not typed. All are run; the status says whether all went well.
    fn run_lines(&mut self, input: &mut dyn BufRead) -> anyhow::Result<Status> {
        let mut all = Status::Done;
        for line in input.lines() {
            let line = line.context("the input cannot be read")?;
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            self.history.push(line.clone());
            match self.run_line(&line) {
                Status::Done => {}
                Status::Failed => all = Status::Failed,
                Status::Quit => break,
            }
        }
        Ok(all)
    }

    fn run_line(&mut self, line: &str) -> Status {
        match command::split(line) {
            Ok(words) => self.run_words(&words),
            Err(text) => {
                eprintln!("zk: {text}");
                Status::Failed
            }
        }
    }

    /// Runs one command and says what went wrong, in one line.
    fn run_words(&mut self, words: &[String]) -> Status {
        let mut out = std::io::stdout().lock();
        let done = command::parse(words)
            .map_err(Failure::Said)
            .and_then(|command| self.execute(&command, &mut out))
            .and_then(|status| Ok(out.flush().map(|()| status)?));
        match done {
            Ok(status) => status,
            Err(Failure::Said(text)) => {
                eprintln!("zk: {text}");
                Status::Failed
            }
            Err(Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                Status::Quit
            }
            Err(Failure::Output(error)) => {
                eprintln!("zk: the output cannot be written: {error}");
                Status::Failed
            }
        }
    }

    fn execute(&mut self, command: &Command, out: &mut dyn Write) -> Result<Status, Failure> {
        match command {
            Command::Quit => return Ok(Status::Quit),
            Command::Help { of } => help(of.as_deref(), out)?,
            Command::Version => writeln!(out, "quorate {}", env!("CARGO_PKG_VERSION"))?,
            Command::History => {
                for (index, line) in self.history.iter().enumerate() {
                    writeln!(out, "{index:5}  {line}")?;
                }
            }
            Command::Ls { path, stat, watch, recursive } => {
                self.may_watch(*watch)?;
                if *recursive {
                    self.list_below(path, out)?;
                } else {
                    let (names, own) = self.children(path, *watch)?;
                    names.iter().try_for_each(|name| writeln!(out, "{name}"))?;
                    if *stat {
                        write!(out, "{}", show::stat(&own))?;
                    }
                }
            }
            Command::Tree { path } => self.draw_below(path, out)?,
            Command::Get { path, stat, watch } => {
                self.may_watch(*watch)?;
                let (data, own) = self.ask(path, &read(ReadKind::GetData, path, *watch), |r| {
                    Ok((r.buffer()?.map(<[u8]>::to_vec), decode_stat(r)?))
                })?;
                out.write_all(show::data(data.as_deref()).as_bytes())?;
                if *stat {
                    write!(out, "{}", show::stat(&own))?;
                }
            }
            Command::Stat { path, watch } => {
                self.may_watch(*watch)?;
                let request = read(ReadKind::Exists, path, *watch);
                let own = self.ask(path, &request, decode_stat)?;
                write!(out, "{}", show::stat(&own))?;
            }
            Command::GetAcl { path, stat } => {
                let request = read(ReadKind::GetAcl, path, false);
                let (acl, own) = self.ask(path, &request, decode_acl)?;
                write!(out, "{}", show::acl(&acl))?;
                if *stat {
                    write!(out, "{}", show::stat(&own))?;
                }
            }
            Command::Sync { path } => {
                self.ask(path, &Request::Sync { path }, |_| Ok(()))?;
                writeln!(out, "Sync is OK")?;
            }
            Command::AddAuth { scheme, credentials } => {
                let request = Request::Auth { scheme, credentials: credentials.as_bytes() };
                self.ask(scheme, &request, |_| Ok(()))?;
            }
            Command::Watch { path } => self.watch(path, out)?,
            _ => self.change(command, out)?,
        }
        Ok(Status::Done)
    }

    /// The commands that write.
    fn change(&mut self, command: &Command, out: &mut dyn Write) -> Result<(), Failure> {
        match command {
            Command::Create { path, data, acl, mode } => {
                let request = Request::Write(WriteRequest::Create {
                    kind: CreateKind::Create,
                    path,
                    data: Some(data.as_bytes()),
                    acl: acl.clone(),
                    flags: *mode as i32,
                    ttl_ms: -1,
                });
                let created = self.ask(path, &request, |r| Ok(r.text()?.to_string()))?;
                writeln!(out, "Created {created}")?;
            }
            Command::Set { path, data, stat, version } => {
                let data = Some(data.as_bytes());
                let write = WriteRequest::SetData { path, data, version: *version };
                let own = self.ask(path, &Request::Write(write), decode_stat)?;
                if *stat {
                    write!(out, "{}", show::stat(&own))?;
                }
            }
            Command::SetAcl { path, acl, stat, version } => {
                let acl = acl.clone();
                let write = WriteRequest::SetAcl { path, acl, version: *version };
                let own = self.ask(path, &Request::Write(write), decode_stat)?;
                if *stat {
                    write!(out, "{}", show::stat(&own))?;
                }
            }
            Command::Delete { path, version } => {
                let write = WriteRequest::Delete { path, version: *version };
                self.ask(path, &Request::Write(write), |_| Ok(()))?;
            }
            Command::DeleteAll { path } => self.delete_all(path)?,
            _ => unreachable!("execute hands over commands that write"),
        }
        Ok(())
    }

    // Asking.

    /// The connection, made anew if it is lost.
    fn client(&mut self) -> Result<&mut Client, String> {
        if self.client.as_ref().is_some_and(Client::is_lost) {
            self.client = None;
            if self.interactive {
                eprintln!("zk: connecting again: the old session's watches are gone");
            }
        }
        if self.client.is_none() {
            let events = self.events.clone();
            let client = Client::connect(&self.target, move |event| events.deliver(event))
                .map_err(|error| error.to_string())?;
            if self.interactive && std::io::stdin().is_terminal() {
                let (server, session) = (client.server(), client.session());
                println!("connected to {server}, session {session:#x}; `help` lists the commands");
            }
            self.client = Some(client);
        }
        Ok(self.client.as_mut().expect("it was just made"))
    }

    fn try_ask<T>(
        &mut self,
        request: &Request<'_>,
        decode: impl FnOnce(&mut JuteReader<'_>) -> Result<T, JuteError>,
    ) -> Result<Answer<T>, Failure> {
        Ok(self.client()?.call(request, decode))
    }

    /// Asks about a znode; a refusal names it.
    fn ask<T>(
        &mut self,
        path: &str,
        request: &Request<'_>,
        decode: impl FnOnce(&mut JuteReader<'_>) -> Result<T, JuteError>,
    ) -> Result<T, Failure> {
        self.try_ask(request, decode)?.map_err(|error| Failure::Said(about(path, &error)))
    }

    /// Names, sorted, and stat.
    fn children(&mut self, path: &str, watch: bool) -> Result<(Vec<String>, Stat), Failure> {
        self.ask(path, &read(ReadKind::GetChildren2, path, watch), decode_children)
    }

    /// The names below a znode that may be gone by now.
    fn children_if_any(&mut self, path: &str) -> Result<Vec<String>, Failure> {
        match self.try_ask(&read(ReadKind::GetChildren2, path, false), decode_children)? {
            Ok((names, _)) => Ok(names),
            Err(ClientError::Refused(ErrorCode::NO_NODE)) => Ok(Vec::new()),
            Err(error) => Err(Failure::Said(about(path, &error))),
        }
    }

    /// A watch fires later than a single command lasts.
    fn may_watch(&self, watch: bool) -> Result<(), Failure> {
        match watch && !self.interactive {
            true => Err("-w needs the shell; `watch PATH` waits for events".to_string().into()),
            false => Ok(()),
        }
    }

    // Whole trees.

    /// The path and all below it, parents first.
    fn list_below(&mut self, path: &str, out: &mut dyn Write) -> Result<(), Failure> {
        let (names, _) = self.children(path, false)?;
        writeln!(out, "{path}")?;
        let mut stack: Vec<String> = names.iter().rev().map(|name| join(path, name)).collect();
        while let Some(path) = stack.pop() {
            writeln!(out, "{path}")?;
            let names = self.children_if_any(&path)?;
            stack.extend(names.iter().rev().map(|name| join(&path, name)));
        }
        Ok(())
    }

    fn draw_below(&mut self, path: &str, out: &mut dyn Write) -> Result<(), Failure> {
        let (names, _) = self.children(path, false)?;
        writeln!(out, "{path}")?;
        let mut stack = vec![Branch { path: path.to_string(), indent: String::new(), names }];
        while let Some(branch) = stack.last_mut() {
            if branch.names.is_empty() {
                stack.pop();
                continue;
            }
            let name = branch.names.remove(0);
            let (mark, below) = match branch.names.is_empty() {
                true => ("└── ", "    "),
                false => ("├── ", "│   "),
            };
            writeln!(out, "{}{mark}{name}", branch.indent)?;
            let path = join(&branch.path, &name);
            let indent = format!("{}{below}", branch.indent);
            let names = self.children_if_any(&path)?;
            stack.push(Branch { path, indent, names });
        }
        Ok(())
    }

    /// Removes a znode and everything below it, children first.
    fn delete_all(&mut self, path: &str) -> Result<(), Failure> {
        let (names, _) = self.children(path, false)?;
        let mut found: Vec<String> = names.iter().map(|name| join(path, name)).collect();
        let mut index = 0;
        while let Some(path) = found.get(index).cloned() {
            let names = self.children_if_any(&path)?;
            found.extend(names.iter().map(|name| join(&path, name)));
            index += 1;
        }
        for below in found.iter().rev() {
            let write = WriteRequest::Delete { path: below, version: -1 };
            match self.try_ask(&Request::Write(write), |_| Ok(()))? {
                // Someone else was faster.
                Ok(()) | Err(ClientError::Refused(ErrorCode::NO_NODE)) => {}
                Err(error) => return Err(Failure::Said(about(below, &error))),
            }
        }
        let write = WriteRequest::Delete { path, version: -1 };
        self.ask(path, &Request::Write(write), |_| Ok(()))
    }

    // Watching.

    /// Prints what happens to a znode until Ctrl-C. Watches fire once, so they are set again.
    fn watch(&mut self, path: &str, out: &mut dyn Write) -> Result<(), Failure> {
        let (sender, signals) = sync_channel(WATCHED_EVENTS_MAX);
        self.client()?;
        self.events.watch_interrupts().map_err(|error| error.to_string())?;
        *lock(&self.events.watcher) = Some(sender);
        let ended = self.print_events(path, &signals, out);
        *lock(&self.events.watcher) = None;
        ended
    }

    fn print_events(
        &mut self,
        path: &str,
        signals: &std::sync::mpsc::Receiver<Signal>,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        self.set_watches(path)?;
        writeln!(out, "watching {path}; Ctrl-C ends")?;
        out.flush()?;
        loop {
            match signals.recv_timeout(WATCH_INTERVAL) {
                Ok(Signal::Interrupted) => return Ok(()),
                Ok(Signal::Event(event)) => {
                    // First the watches: who has read the line may go on at once.
                    let armed = self.set_watches(path);
                    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                    let ms = now.map_or(0, |since| since.as_millis() as i64);
                    writeln!(out, "{}  {}", show::time(ms), show::event(&event))?;
                    out.flush()?;
                    armed?;
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(client) = self.client.as_ref().filter(|client| client.is_lost()) {
                        let lost = ClientError::Lost(client.server().to_string());
                        return Err(lost.to_string().into());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn set_watches(&mut self, path: &str) -> Result<(), Failure> {
        let data = self.try_ask(&read(ReadKind::Exists, path, true), |_| Ok(()))?;
        match data {
            Ok(()) => {}
            // The watch is set and fires when it is created.
            Err(ClientError::Refused(ErrorCode::NO_NODE)) => return Ok(()),
            Err(error) => return Err(Failure::Said(about(path, &error))),
        }
        match self.try_ask(&read(ReadKind::GetChildren2, path, true), |_| Ok(()))? {
            Ok(()) | Err(ClientError::Refused(ErrorCode::NO_NODE)) => Ok(()),
            Err(error) => Err(Failure::Said(about(path, &error))),
        }
    }
}

/// A znode of which the children are being drawn.
struct Branch {
    path: String,
    indent: String,
    /// Those not yet drawn.
    names: Vec<String>,
}

/// What `watch` waits for.
enum Signal {
    Event(Event),
    Interrupted,
}

/// Where events go: to `watch` while it runs, else to the terminal.
#[derive(Default)]
struct Events {
    printer: Mutex<Option<Box<dyn ExternalPrinter + Send>>>,
    watcher: Mutex<Option<SyncSender<Signal>>>,
    watches_interrupts: Mutex<bool>,
}

impl Events {
    /// Called by the client's reading thread.
    fn deliver(&self, event: Event) {
        let text = format!("event: {}", show::event(&event));
        if let Some(watcher) = &*lock(&self.watcher)
            && watcher.try_send(Signal::Event(event)).is_ok()
        {
            return;
        }
        // Nobody to be told if the terminal is gone.
        let _ = match &mut *lock(&self.printer) {
            Some(printer) => printer.print(format!("{text}\n")).map_err(std::io::Error::other),
            None => writeln!(std::io::stderr(), "{text}"),
        };
    }

    /// From now on Ctrl-C ends `watch`, and the process if it does not run.
    fn watch_interrupts(self: &Arc<Self>) -> std::io::Result<()> {
        let mut watches = lock(&self.watches_interrupts);
        if std::mem::replace(&mut *watches, true) {
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let kind = tokio::signal::unix::SignalKind::interrupt();
        let mut interrupts = runtime.block_on(async { tokio::signal::unix::signal(kind) })?;
        let events = self.clone();
        std::thread::Builder::new().name("zk-interrupt".to_string()).spawn(move || {
            while runtime.block_on(interrupts.recv()).is_some() {
                match &*lock(&events.watcher) {
                    // One that is full is being read, and ends with the next.
                    Some(watcher) => drop(watcher.try_send(Signal::Interrupted)),
                    None => std::process::exit(INTERRUPTED),
                }
            }
        })?;
        Ok(())
    }
}

/// The status that shells give a program ended by SIGINT.
const INTERRUPTED: i32 = 130;

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it prints")
}

fn read(kind: ReadKind, path: &str, watch: bool) -> Request<'_> {
    Request::Read(ReadRequest { kind, path, watch })
}

fn decode_children(reader: &mut JuteReader<'_>) -> Result<(Vec<String>, Stat), JuteError> {
    let mut names: Vec<String> = reader.texts()?.into_iter().map(str::to_string).collect();
    names.sort_unstable();
    Ok((names, decode_stat(reader)?))
}

fn decode_acl(reader: &mut JuteReader<'_>) -> Result<(Vec<AclEntry>, Stat), JuteError> {
    let mut entries = Vec::new();
    for _ in 0..reader.count(12)? {
        let perms = reader.int()? as u32;
        let (scheme, id) = (reader.text()?.into(), reader.text()?.into());
        entries.push(AclEntry { perms, scheme, id });
    }
    Ok((entries, decode_stat(reader)?))
}

/// A refusal names the znode, everything else the server.
fn about(path: &str, error: &ClientError) -> String {
    match error {
        ClientError::Refused(_) => format!("{path}: {error}"),
        _ => error.to_string(),
    }
}

fn join(path: &str, name: &str) -> String {
    format!("{}/{name}", path.trim_end_matches('/'))
}

fn help(of: Option<&str>, out: &mut dyn Write) -> Result<(), Failure> {
    let asked = |name: &str| of.is_none_or(|of| of.eq_ignore_ascii_case(name));
    let lines: Vec<(String, &str)> = USAGES
        .iter()
        .filter(|usage| asked(usage.name))
        .map(|usage| (format!("{} {}", usage.name, usage.arguments), usage.meaning))
        .collect();
    if lines.is_empty() {
        return Err(format!("{}: unknown command", of.unwrap_or_default()).into());
    }
    let width = lines.iter().map(|(usage, _)| usage.len()).max().unwrap_or(0);
    for (usage, meaning) in lines {
        writeln!(out, "{usage:width$}  {meaning}")?;
    }
    Ok(())
}

/// `$XDG_STATE_HOME/quorate/zk_history`, by default below `~/.local/state`.
fn history_file() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|text| !text.is_empty());
    let state = match folder("XDG_STATE_HOME") {
        Some(state) => PathBuf::from(state),
        None => Path::new(&folder("HOME")?).join(".local/state"),
    };
    Some(state.join("quorate/zk_history"))
}

fn read_history(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_string).collect()
}

/// A history that cannot be kept is not worth an error.
fn write_history(file: &Path, lines: &[String]) {
    let kept = &lines[lines.len().saturating_sub(HISTORY_LINES_MAX)..];
    let text: String = kept.iter().map(|line| format!("{line}\n")).collect();
    if let Some(folder) = file.parent() {
        let _ = std::fs::create_dir_all(folder);
    }
    let _ = std::fs::write(file, text);
}
