//! The output of the shell: the answers of commands, and the events between them, whole lines at a
//! time.
//!
//! Three threads write: the one that runs commands, the one of the connection, and, while a line is
//! being edited, one that shows events above it. No thread waits for a server or for the line
//! editor under the lock.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use rustyline::ExternalPrinter;
use serde_json::{Map, Value, json};

use super::limits::{EVENTS_HELD_MAX, OUTPUT_BYTES};
use super::show;
use crate::client::Event;

/// The form of all output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people, as `zkCli.sh` has it.
    #[default]
    Text,
    /// A JSON value on a line of its own for each command, and for each event.
    Json,
}

/// The signals that `watch` waits for.
#[derive(Clone, Debug)]
pub enum Signal {
    /// An event arrived.
    Event(Event),
    /// The user wants `watch` to end.
    Interrupted,
}

/// Standard output and standard error.
pub struct Screen {
    format: Format,
    state: Mutex<State>,
    /// Notified when an event is held for a line that is being edited.
    is_held: Condvar,
}

struct State {
    /// Bytes that are not written yet.
    out: Vec<u8>,
    /// Whether a thread shows events above a line that is being edited.
    shows_above: bool,
    /// Whether a line is being edited: events then wait for that thread.
    is_editing: bool,
    /// The receiver of events, in place of the user, while `watch` runs.
    watcher: Option<SyncSender<Signal>>,
    prints_watches: bool,
    /// Whether a JSON value is begun: events then wait until it is ended.
    in_value: bool,
    held: VecDeque<Event>,
    held_too_many: usize,
    /// Whether connections are printed even if none was lost before.
    prints_connections: bool,
    /// Whether the last connection was lost and no other one has replaced it yet.
    is_lost: bool,
    /// Whether a command is under way that ends when it is interrupted.
    interruptible: bool,
    interrupted: bool,
}

impl Screen {
    /// `prints_connections`: prints the first connection, too, and not only later losses.
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

    /// Shows events above lines that are being edited, from now on, on a thread of its own.
    /// `printer` takes a few events and then waits until the editor has read them. The editor stops
    /// reading once the line is done, so only this thread may wait there: it runs no commands.
    ///
    /// # Errors
    /// No such thread can be made.
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

    /// The events since the last call, as text, once a line is being edited.
    fn next_above(&self) -> String {
        let idle = |state: &mut State| !state.is_editing || state.held.is_empty();
        let state = self.is_held.wait_while(self.lock(), idle);
        let mut state = state.expect("nothing panics while it prints");
        state.take_held(self.format)
    }

    /// Runs `edit`, during which a line is being edited.
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

    /// Sends events to this receiver from now on; with `None`, to the user again.
    pub fn set_watcher(&self, watcher: Option<SyncSender<Signal>>) {
        self.lock().watcher = watcher;
    }

    /// Interrupts the command under way. Returns whether there is one that can end, and was not
    /// interrupted yet.
    pub fn interrupt(&self) -> bool {
        let mut state = self.lock();
        match &state.watcher {
            // A full channel is being read; the watcher ends at the next signal.
            Some(watcher) => {
                drop(watcher.try_send(Signal::Interrupted));
                true
            }
            None => state.interruptible && !std::mem::replace(&mut state.interrupted, true),
        }
    }

    /// Says that a command begins or ends that asks [`Screen::is_interrupted`] now and then.
    pub fn set_interruptible(&self, on: bool) {
        let mut state = self.lock();
        (state.interruptible, state.interrupted) = (on, false);
    }

    /// Whether the command under way must end.
    pub fn is_interrupted(&self) -> bool {
        self.lock().interrupted
    }

    /// Whether watches that fire are printed.
    pub fn prints_watches(&self) -> bool {
        self.lock().prints_watches
    }

    /// Prints watches that fire from now on, or does not.
    pub fn set_prints_watches(&self, on: bool) {
        self.lock().prints_watches = on;
    }

    /// Puts whole lines on standard output.
    ///
    /// # Errors
    /// The reader is gone.
    pub fn put(&self, lines: &str) -> std::io::Result<()> {
        let mut state = self.lock();
        state.out.extend_from_slice(lines.as_bytes());
        if state.out.len() >= OUTPUT_BYTES { state.flush() } else { Ok(()) }
    }

    /// Puts whole lines on standard error, after everything that was put on standard output.
    pub fn put_stderr(&self, lines: &str) {
        let mut state = self.lock();
        // Standard output may be gone while standard error is not.
        let _ = state.flush();
        let _ = std::io::stderr().write_all(lines.as_bytes());
    }

    /// Writes the bytes that are not written yet.
    ///
    /// # Errors
    /// The reader is gone.
    pub fn flush(&self) -> std::io::Result<()> {
        self.lock().flush()
    }

    /// Begins a JSON value of several parts: no event comes between them.
    ///
    /// # Errors
    /// The reader is gone.
    pub fn begin_value(&self, fields: &Map<String, Value>, list: &str) -> std::io::Result<()> {
        self.lock().in_value = true;
        let object = Value::Object(fields.clone()).to_string();
        let head = object.strip_suffix('}').unwrap_or_default();
        self.put(&format!("{head},{}:[", Value::from(list)))
    }

    /// Ends the value with these fields, at least one.
    ///
    /// # Errors
    /// The reader is gone.
    pub fn end_value(&self, fields: Map<String, Value>) -> std::io::Result<()> {
        let object = Value::Object(fields).to_string();
        let tail = object.strip_prefix('{').unwrap_or_default();
        self.put(&format!("],{tail}\n"))?;
        let mut state = self.lock();
        state.in_value = false;
        state.release(self.format);
        Ok(())
    }

    /// Delivers an event. The thread of the connection calls it.
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

    /// Prints an event of any kind.
    ///
    /// # Errors
    /// The reader is gone.
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

    /// Whether an event is shown. A new connection is shown after a loss, or if connections are
    /// printed.
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

    /// Prints an event. Errors are ignored: without a terminal there is no user to tell.
    fn show(&mut self, event: &Event, format: Format) {
        let is_watch = matches!(event, Event::Watch { .. });
        let text = text_of(event, format);
        let _ = self.flush();
        // The text of a connection's event goes to standard error, since programs read the answers
        // and the watch events.
        let _ = if format == Format::Text && !is_watch {
            std::io::stderr().write_all(text.as_bytes())
        } else {
            self.out.extend_from_slice(text.as_bytes());
            self.flush()
        };
    }

    /// Prints the events that were held.
    fn release(&mut self, format: Format) {
        for event in std::mem::take(&mut self.held) {
            self.show(&event, format);
        }
        let lost = self.take_lost(format);
        self.out.extend_from_slice(lost.as_bytes());
    }

    /// The events that were held, as text.
    fn take_held(&mut self, format: Format) -> String {
        let held: String = self.held.drain(..).map(|event| text_of(&event, format)).collect();
        held + &self.take_lost(format)
    }

    /// A line with the number of events that could not be held, if there were any.
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

/// Whether a user types the commands, and sees the line that is being edited.
pub fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

#[cfg(test)]
mod tests;
