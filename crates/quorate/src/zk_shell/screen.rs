//! Where output goes: the answers of commands, and the events that come between them, whole lines at
//! a time.
//!
//! Two threads write: the one that runs commands, and that of the connection. Neither asks a server
//! anything under the lock.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, MutexGuard};

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
}

struct State {
    /// Not yet written.
    out: Vec<u8>,
    /// Of the line that is being edited.
    printer: Option<Box<dyn ExternalPrinter + Send>>,
    /// Told of events in place of the user.
    watcher: Option<SyncSender<Signal>>,
    prints_watches: bool,
    /// A JSON value is begun: events wait until it is ended.
    in_value: bool,
    held: VecDeque<Event>,
    held_too_many: usize,
    /// Connections and losses are of interest.
    prints_connections: bool,
    /// A command is under way that ends when it is told to.
    interruptible: bool,
    interrupted: bool,
}

impl Screen {
    /// `prints_connections`: also the first connection, and not only what goes wrong later.
    pub fn new(format: Format, prints_connections: bool) -> Screen {
        let state = State {
            out: Vec::new(),
            printer: None,
            watcher: None,
            prints_watches: true,
            in_value: false,
            held: VecDeque::new(),
            held_too_many: 0,
            prints_connections,
            interruptible: false,
            interrupted: false,
        };
        Screen { format, state: Mutex::new(state) }
    }

    /// The form of all output.
    pub fn format(&self) -> Format {
        self.format
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it prints")
    }

    /// Prints past the line that is being edited from now on, or not any more.
    pub fn set_printer(&self, printer: Option<Box<dyn ExternalPrinter + Send>>) {
        self.lock().printer = printer;
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
        let too_many = std::mem::take(&mut state.held_too_many);
        for event in std::mem::take(&mut state.held) {
            state.event(&event, self.format);
        }
        if too_many > 0 {
            let line =
                json!({ "event": "None", "message": format!("{too_many} events were lost") });
            state.out.extend_from_slice(format!("{line}\n").as_bytes());
        }
        Ok(())
    }

    /// Something happened. Called by the thread of the connection.
    pub fn deliver(&self, event: Event) {
        let mut state = self.lock();
        if let Some(watcher) = &state.watcher
            && watcher.try_send(Signal::Event(event.clone())).is_ok()
        {
            return;
        }
        if !state.in_value {
            state.event(&event, self.format);
        } else if state.held.len() < EVENTS_HELD_MAX {
            state.held.push_back(event);
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

    /// Nobody is to be told if the terminal is gone.
    fn event(&mut self, event: &Event, format: Format) {
        let is_watch = matches!(event, Event::Watch { .. });
        let first = matches!(event, Event::Connected { again: false, .. });
        if is_watch && !self.prints_watches || first && !self.prints_connections {
            return;
        }
        let text = match format {
            Format::Text => show::event_text(event),
            Format::Json => format!("{}\n", show::event_value(event)),
        };
        let _ = self.flush();
        let _ = match &mut self.printer {
            Some(printer) => printer.print(text).map_err(std::io::Error::other),
            // What is no answer and no event of a watch stays out of what programs read.
            None if format == Format::Text && !is_watch => {
                std::io::stderr().write_all(text.as_bytes())
            }
            None => {
                self.out.extend_from_slice(text.as_bytes());
                self.flush()
            }
        };
    }
}

/// Whether someone types the commands.
pub fn is_interactive() -> bool {
    std::io::stdin().is_terminal()
}

#[cfg(test)]
mod tests;
