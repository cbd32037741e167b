//! Where output goes: the answers of commands, and the events that come between them, whole lines
//! at a time.
//!
//! The thread that runs commands writes, that of the connection, and, while a line is being edited,
//! one that shows events above it. None asks a server or waits for the line editor under the lock.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use rustyline::ExternalPrinter;
use serde_json::{Map, Value, json};

use super::limits::{EVENTS_HELD_MAX, OUTPUT_BYTES};
use super::show;
use crate::zk_client::Event;

/// The form of all output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people, as `zkCli.sh` has it.
    #[default]
    Text,
    /// A JSON value on a line of its own for each command, and for each event.
    Json,
}

/// What `watch` waits for.
#[derive(Clone, Debug)]
pub enum Signal {
    /// Something happened.
    Event(Event),
    /// The user wants it to end.
    Interrupted,
}

/// Standard output and standard error.
pub struct Screen {
    format: Format,
    state: Mutex<State>,
    /// Events are held for a line that is being edited.
    is_held: Condvar,
}

struct State {
    /// Not yet written.
    out: Vec<u8>,
    /// There is a thread that shows events above a line that is being edited.
    shows_above: bool,
    /// A line is being edited: events wait for that thread.
    is_editing: bool,
    /// Told of events in place of the user.
    watcher: Option<SyncSender<Signal>>,
    prints_watches: bool,
    /// A JSON value is begun: events wait until it is ended.
    in_value: bool,
    held: VecDeque<Event>,
    held_too_many: usize,
    /// Connections and losses are of interest.
    prints_connections: bool,
    /// There was a connection, and there is none yet in its place.
    is_lost: bool,
    /// A command is under way that ends when it is told to.
    interruptible: bool,
    interrupted: bool,
}

impl Screen {
    /// `prints_connections`: also the first connection, and not only what goes wrong later.
    pub fn new(format: Format, prints_connections: bool) -> Screen {
        let state = State {
            out: Vec::new(),
            shows_above: false,
            is_editing: false,
            watcher: None,
            prints_watches: true,
            in_value: false,
            held: VecDeque::new(),
            held_too_many: 0,
            prints_connections,
            is_lost: false,
            interruptible: false,
            interrupted: false,
        };
        Screen { format, state: Mutex::new(state), is_held: Condvar::new() }
    }

    /// The form of all output.
    pub fn format(&self) -> Format {
        self.format
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it prints")
    }

    /// Shows events above lines that are being edited from now on. On a thread of its own:
    /// `printer` takes a few events and then waits until the editor has read them, which it does
    /// not do once the line is done, and whoever waits with it has no part in running a command.
    ///
    /// # Errors
    /// There can be no such thread.
    pub fn show_above(
        self: &Arc<Screen>,
        mut printer: impl ExternalPrinter + Send + 'static,
    ) -> std::io::Result<()> {
        let screen = self.clone();
        let show = move || while printer.print(screen.next_above()).is_ok() {};
        std::thread::Builder::new().name("zk-events".to_string()).spawn(show)?;
        self.lock().shows_above = true;
        Ok(())
    }

    /// What happened since the last time, once a line is being edited.
    fn next_above(&self) -> String {
        let idle = |state: &mut State| !state.is_editing || state.held.is_empty();
        let state = self.is_held.wait_while(self.lock(), idle);
        let mut state = state.expect("nothing panics while it prints");
        state.take_held(self.format)
    }

    /// A line is being edited while `edit` runs.
    pub fn while_editing<T>(&self, edit: impl FnOnce() -> T) -> T {
        let mut state = self.lock();
        state.is_editing = state.shows_above;
        drop(state);
        self.is_held.notify_one();
        let edited = edit();
        let mut state = self.lock();
        state.is_editing = false;
        state.release(self.format);
        edited
    }

    /// Events go there from now on, or to the user again.
    pub fn set_watcher(&self, watcher: Option<SyncSender<Signal>>) {
        self.lock().watcher = watcher;
    }

    /// The user wants what is under way to end. Whether anything is that can, and was not told yet.
    pub fn interrupt(&self) -> bool {
        let mut state = self.lock();
        match &state.watcher {
            // One that is full is being read, and ends with the next.
            Some(watcher) => {
                drop(watcher.try_send(Signal::Interrupted));
                true
            }
            None => state.interruptible && !std::mem::replace(&mut state.interrupted, true),
        }
    }

    /// A command that asks [`Screen::is_interrupted`] now and then begins or ends.
    pub fn set_interruptible(&self, on: bool) {
        let mut state = self.lock();
        (state.interruptible, state.interrupted) = (on, false);
    }

    /// Whether the command under way is to end.
    pub fn is_interrupted(&self) -> bool {
        self.lock().interrupted
    }

    /// Whether watches that fire are printed.
    pub fn prints_watches(&self) -> bool {
        self.lock().prints_watches
    }

    /// Prints them from now on, or not.
    pub fn set_prints_watches(&self, on: bool) {
        self.lock().prints_watches = on;
    }

    /// Whole lines for standard output.
    ///
    /// # Errors
    /// Nobody reads it.
    pub fn put(&self, lines: &str) -> std::io::Result<()> {
        let mut state = self.lock();
        state.out.extend_from_slice(lines.as_bytes());
        if state.out.len() >= OUTPUT_BYTES { state.flush() } else { Ok(()) }
    }

    /// Whole lines for standard error, behind what was put out before.
    pub fn complain(&self, lines: &str) {
        let mut state = self.lock();
        // Standard output may be gone where standard error is not.
        let _ = state.flush();
        let _ = std::io::stderr().write_all(lines.as_bytes());
    }

    /// Writes what is not written yet.
    ///
    /// # Errors
    /// Nobody reads it.
    pub fn flush(&self) -> std::io::Result<()> {
        self.lock().flush()
    }

    /// A JSON value of several parts begins: nothing comes between them.
    ///
    /// # Errors
    /// Nobody reads it.
    pub fn begin_value(&self, fields: &Map<String, Value>, list: &str) -> std::io::Result<()> {
        self.lock().in_value = true;
        let object = Value::Object(fields.clone()).to_string();
        let head = object.strip_suffix('}').unwrap_or_default();
        self.put(&format!("{head},{}:[", Value::from(list)))
    }

    /// The value ends with these fields, of which there is at least one.
    ///
    /// # Errors
    /// Nobody reads it.
    pub fn end_value(&self, fields: Map<String, Value>) -> std::io::Result<()> {
        let object = Value::Object(fields).to_string();
        let tail = object.strip_prefix('{').unwrap_or_default();
        self.put(&format!("],{tail}\n"))?;
        let mut state = self.lock();
        state.in_value = false;
        state.release(self.format);
        Ok(())
    }

    /// Something happened. Called by the thread of the connection.
    pub fn deliver(&self, event: Event) {
        let mut state = self.lock();
        let shows = state.shows(&event);
        if let Some(watcher) = &state.watcher
            && watcher.try_send(Signal::Event(event.clone())).is_ok()
        {
            return;
        }
        if !shows {
            return;
        }
        if !state.in_value && !state.is_editing {
            state.show(&event, self.format);
        } else if state.held.len() < EVENTS_HELD_MAX {
            state.held.push_back(event);
            self.is_held.notify_one();
        } else {
            state.held_too_many += 1;
        }
    }

    /// Prints an event, of whatever kind.
    ///
    /// # Errors
    /// Nobody reads it.
    pub fn put_event(&self, event: &Event, time_ms: i64) -> std::io::Result<()> {
        let line = match self.format {
            Format::Text => {
                let text = show::event_text(event);
                let text = text.lines().next_back().unwrap_or_default();
                format!("{}  {text}\n", show::time(time_ms))
            }
            Format::Json => {
                let mut value = show::event_value(event);
                value["time"] = json!(time_ms);
                format!("{value}\n")
            }
        };
        self.put(&line)?;
        self.flush()
    }
}

impl State {
    fn flush(&mut self) -> std::io::Result<()> {
        let mut stdout = std::io::stdout().lock();
        let written = stdout.write_all(&self.out).and_then(|()| stdout.flush());
        self.out.clear();
        written
    }

    /// Whether it is of interest; of a connection, also whether the one before it was lost.
    fn shows(&mut self, event: &Event) -> bool {
        match event {
            Event::Watch { .. } => self.prints_watches,
            Event::Connected { .. } => std::mem::take(&mut self.is_lost) || self.prints_connections,
            Event::Lost { .. } => {
                self.is_lost = true;
                true
            }
            _ => true,
        }
    }

    /// Nobody is to be told if the terminal is gone.
    fn show(&mut self, event: &Event, format: Format) {
        let is_watch = matches!(event, Event::Watch { .. });
        let text = text_of(event, format);
        let _ = self.flush();
        // What is no answer and no event of a watch stays out of what programs read.
        let _ = if format == Format::Text && !is_watch {
            std::io::stderr().write_all(text.as_bytes())
        } else {
            self.out.extend_from_slice(text.as_bytes());
            self.flush()
        };
    }

    /// Shows what was held.
    fn release(&mut self, format: Format) {
        for event in std::mem::take(&mut self.held) {
            self.show(&event, format);
        }
        let lost = self.take_lost(format);
        self.out.extend_from_slice(lost.as_bytes());
    }

    /// What was held, as text.
    fn take_held(&mut self, format: Format) -> String {
        let held: String = self.held.drain(..).map(|event| text_of(&event, format)).collect();
        held + &self.take_lost(format)
    }

    /// How many events could not be held, if there were any.
    fn take_lost(&mut self, format: Format) -> String {
        let message = match std::mem::take(&mut self.held_too_many) {
            0 => return String::new(),
            count => format!("{count} events were lost"),
        };
        match format {
            Format::Text => format!("{message}\n"),
            Format::Json => format!("{}\n", json!({ "event": "None", "message": message })),
        }
    }
}

fn text_of(event: &Event, format: Format) -> String {
    match format {
        Format::Text => show::event_text(event),
        Format::Json => format!("{}\n", show::event_value(event)),
    }
}

/// Whether someone types the commands, and sees the line that is being edited.
pub fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

#[cfg(test)]
mod tests;
