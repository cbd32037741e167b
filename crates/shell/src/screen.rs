//! Prints the output of the shell: answers of commands, and events between them, in whole lines.
//!
//! Three threads print: the thread that runs commands; the thread of the connection; and, while a
//! line is being edited, a thread that shows events above that line. No thread holds the lock while
//! it waits for a server or for the line editor.

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

/// A message to a running `watch`.
#[derive(Clone, Debug)]
pub enum Signal {
    /// An event arrived.
    Event(Event),
    /// The user pressed Ctrl-C.
    Interrupted,
}

/// Prints to standard output and standard error.
pub struct Screen {
    format: Format,
    state: Mutex<State>,
    /// Notified when an event is held for the thread that prints above the edited line.
    is_held: Condvar,
}

struct State {
    /// Output that is not written yet.
    out: Vec<u8>,
    /// Whether there is a thread that prints events above the edited line.
    shows_above: bool,
    /// Whether a line is being edited now. Events are then held for the thread that prints above
    /// that line.
    is_editing: bool,
    /// Gets all events while `watch` runs, in place of the output.
    watcher: Option<SyncSender<Signal>>,
    prints_watches: bool,
    /// Whether a JSON value is begun and not ended. Events are then held.
    in_value: bool,
    held: VecDeque<Event>,
    held_too_many: usize,
    /// Whether each new connection is reported; otherwise only one that follows a loss.
    prints_connections: bool,
    /// Whether the connection was lost, and no other one has replaced it yet.
    is_lost: bool,
    /// Whether a command is running that an interrupt can end.
    interruptible: bool,
    interrupted: bool,
}

impl Screen {
    /// A screen. `prints_connections`: reports each new connection, and not only one that follows a
    /// loss.
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

    /// Starts a thread that prints events above the edited line. `printer` accepts a few events and
    /// then blocks until the editor has read them. The editor stops reading when the line is done,
    /// so only this thread, which runs no commands, may block there.
    ///
    /// # Errors
    /// The thread cannot be started.
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

    /// Waits until a line is being edited and events are held. Returns those events as text.
    fn next_above(&self) -> String {
        let idle = |state: &mut State| !state.is_editing || state.held.is_empty();
        let state = self.is_held.wait_while(self.lock(), idle);
        let mut state = state.expect("nothing panics while it prints");
        state.take_held(self.format)
    }

    /// Runs `edit`, which edits a line. Events are held for the printing thread meanwhile.
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

    /// Sends events to this receiver from now on; with `None`, prints them again.
    pub fn set_watcher(&self, watcher: Option<SyncSender<Signal>>) {
        self.lock().watcher = watcher;
    }

    /// Interrupts the running command. Returns whether a command takes the interrupt: `watch`
    /// always does; any other command does if it is interruptible and was not interrupted before.
    /// If false, the caller must end the process.
    pub fn interrupt(&self) -> bool {
        let mut state = self.lock();
        match &state.watcher {
            // If the channel is full, `watch` misses this interrupt, and ends at the next one.
            Some(watcher) => {
                drop(watcher.try_send(Signal::Interrupted));
                true
            }
            None => state.interruptible && !std::mem::replace(&mut state.interrupted, true),
        }
    }

    /// Marks the beginning or the end of a command that can be interrupted. The command must ask
    /// [`Screen::is_interrupted`] now and then.
    pub fn set_interruptible(&self, on: bool) {
        let mut state = self.lock();
        (state.interruptible, state.interrupted) = (on, false);
    }

    /// Whether the running command was interrupted and must end.
    pub fn is_interrupted(&self) -> bool {
        self.lock().interrupted
    }

    /// Whether watches that fire are printed.
    pub fn prints_watches(&self) -> bool {
        self.lock().prints_watches
    }

    /// Sets whether watches that fire are printed.
    pub fn set_prints_watches(&self, on: bool) {
        self.lock().prints_watches = on;
    }

    /// Prints whole lines to standard output.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn put(&self, lines: &str) -> std::io::Result<()> {
        let mut state = self.lock();
        state.out.extend_from_slice(lines.as_bytes());
        if state.out.len() >= OUTPUT_BYTES { state.flush() } else { Ok(()) }
    }

    /// Prints whole lines to standard error, after everything printed to standard output so far.
    pub fn put_stderr(&self, lines: &str) {
        let mut state = self.lock();
        // Ignore an error: standard output may be gone while standard error is not.
        let _ = state.flush();
        let _ = std::io::stderr().write_all(lines.as_bytes());
    }

    /// Writes the gathered output.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn flush(&self) -> std::io::Result<()> {
        self.lock().flush()
    }

    /// Begins a JSON value with these fields and a list, whose items the caller prints. Events are
    /// held until [`Screen::end_value`].
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn begin_value(&self, fields: &Map<String, Value>, list: &str) -> std::io::Result<()> {
        self.lock().in_value = true;
        let object = Value::Object(fields.clone()).to_string();
        let head = object.strip_suffix('}').unwrap_or_default();
        self.put(&format!("{head},{}:[", Value::from(list)))
    }

    /// Ends the list and the JSON value, with these fields behind the list; there must be one at
    /// least.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn end_value(&self, fields: Map<String, Value>) -> std::io::Result<()> {
        let object = Value::Object(fields).to_string();
        let tail = object.strip_prefix('{').unwrap_or_default();
        self.put(&format!("],{tail}\n"))?;
        let mut state = self.lock();
        state.in_value = false;
        state.release(self.format);
        Ok(())
    }

    /// Passes an event to a running `watch`, prints it, or holds it. Called by the connection's
    /// thread.
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

    /// Prints an event for `watch`, with its time in ms since 1970.
    ///
    /// # Errors
    /// The output cannot be written.
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

    /// Whether an event is printed. A new connection is printed if it follows a loss, or if all
    /// connections are printed.
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

    /// Prints an event. Errors are ignored, because the event is nobody's result.
    fn show(&mut self, event: &Event, format: Format) {
        let is_watch = matches!(event, Event::Watch { .. });
        let text = text_of(event, format);
        let _ = self.flush();
        // In text form, events about the connection go to standard error, because programs read
        // answers and watch events from standard output.
        let _ = if format == Format::Text && !is_watch {
            std::io::stderr().write_all(text.as_bytes())
        } else {
            self.out.extend_from_slice(text.as_bytes());
            self.flush()
        };
    }

    /// Prints the held events.
    fn release(&mut self, format: Format) {
        for event in std::mem::take(&mut self.held) {
            self.show(&event, format);
        }
        let lost = self.take_lost(format);
        self.out.extend_from_slice(lost.as_bytes());
    }

    /// Takes the held events, as text.
    fn take_held(&mut self, format: Format) -> String {
        let held: String = self.held.drain(..).map(|event| text_of(&event, format)).collect();
        held + &self.take_lost(format)
    }

    /// A line with the count of events that could not be held; empty if all were held.
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

/// Whether a user types the commands at a terminal and sees the output there.
pub fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

#[cfg(test)]
mod tests;
