//! Tests of `quorate zk` on a pseudo-terminal, with typed lines.

use std::fs::File;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitOptions, kill_process, waitpid};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

use crate::client::{Client, TIMEOUT_MS};
use crate::server::{Over, Server};

const UP: &str = "\x1b[A";
const TAB: &str = "\t";
const ENTER: &str = "\r";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";

/// The bytes that the line editor writes when it gives the terminal back: bracketed paste ends.
/// After them, Ctrl-C is a signal.
const LINE_DONE: &str = "\x1b[?2004l";

/// How long a text may take until it is shown.
const LIMIT: Duration = Duration::from_secs(10);

/// A pseudo-terminal, and a process that runs on it. Dropping this kills the process by its id.
struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    /// Text that the process has shown and the test has not looked at yet.
    shown: String,
}

impl Terminal {
    /// Runs a command on a new terminal.
    fn start(command: &Command) -> Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let keyboard = openpt(flags).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let own = || Stdio::from(ioctl_tiocgptpeer(&keyboard, flags).unwrap());
        // `setsid` gives the process a controlling terminal. Without one, Ctrl-C is an ordinary
        // character.
        let mut on_it = Command::new("setsid");
        on_it.arg("--ctty").arg(command.get_program()).args(command.get_args());
        on_it.env_remove("CLIENT_JVMFLAGS").env_remove("JVMFLAGS").env("TERM", "xterm");
        for (name, value) in command.get_envs() {
            on_it.env(name, value.unwrap());
        }
        let child = on_it.stdin(own()).stdout(own()).stderr(own()).spawn().unwrap();
        let keyboard = File::from(keyboard);
        let mut reading = keyboard.try_clone().unwrap();
        let (sender, screen) = sync_channel(1_024);
        std::thread::spawn(move || {
            let mut buffer = [0; 4_096];
            // The read fails once no process has the terminal open any more.
            while let Ok(count @ 1..) = reading.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Terminal { child, keyboard, screen, shown: String::new() }
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until this text is shown, and returns the text before it.
    fn sees(&mut self, text: &str) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(index) = self.shown.find(text) {
                let rest = self.shown.split_off(index + text.len());
                let mut before = std::mem::replace(&mut self.shown, rest);
                before.truncate(index);
                return before;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(bytes) = self.screen.recv_timeout(left) else {
                panic!("{text:?} is not shown, but {:?}", self.shown);
            };
            self.shown += std::str::from_utf8(&bytes).unwrap();
        }
    }

    /// Waits until the process has ended. Returns the text that it showed and its status.
    fn ends(mut self) -> (String, ExitStatus) {
        let deadline = Instant::now() + LIMIT;
        let mut shown = std::mem::take(&mut self.shown);
        while let Ok(bytes) = self.screen.recv_timeout(deadline - Instant::now()) {
            shown += std::str::from_utf8(&bytes).unwrap();
        }
        assert!(Instant::now() < deadline, "it goes on: {shown:?}");
        (shown, self.child.wait().unwrap())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // If the test succeeded, the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A shell on a terminal, and the keys that a user types.
struct Typist {
    terminal: Terminal,
    address: SocketAddr,
    /// The number of commands so far.
    count: usize,
}

impl Typist {
    /// Starts a shell whose history is in the server's folder, and waits for the prompt.
    fn start(server: &Server) -> Typist {
        Typist::start_on("xterm", server)
    }

    fn start_on(kind: &str, server: &Server) -> Typist {
        let address = server.address();
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
        command.args(["zk", "-server", &address.to_string()]);
        command.env("XDG_STATE_HOME", server.folder()).env("TERM", kind);
        let mut typist = Typist { terminal: Terminal::start(&command), address, count: 0 };
        typist.sees(&format!("connected to {address}, session 0x"));
        typist.is_asked();
        typist
    }

    fn types(&mut self, keys: &str) {
        self.terminal.types(keys);
    }

    fn sees(&mut self, text: &str) -> String {
        self.terminal.sees(text)
    }

    /// Types a line, or the rest of one, and the Enter key.
    fn runs(&mut self, line: &str) {
        self.types(line);
        self.types(ENTER);
        self.count += 1;
    }

    /// Waits for the prompt, and returns the text before it.
    fn is_asked(&mut self) -> String {
        self.sees(&format!("[zk: {}(CONNECTED) {}] ", self.address, self.count))
    }

    /// Runs a line and returns its output, up to the next prompt.
    fn answer(&mut self, line: &str) -> String {
        self.runs(line);
        self.sees(LINE_DONE);
        self.is_asked()
    }

    fn ends(self) -> ExitStatus {
        self.terminal.ends().1
    }
}

#[test]
fn lines_are_run_and_counted_until_ctrl_d() {
    let server = Server::start("pty-lines", &[]);
    let mut shell = Typist::start(&server);
    assert!(shell.answer("create -e /e x").contains("Created /e\r\n"));
    assert!(shell.answer("ls /").contains("[e, zookeeper]\r\n"));
    assert!(shell.answer("get /no").contains("Node does not exist: /no\r\n"));
    let mut other = Client::open(server.address(), TIMEOUT_MS);
    assert!(other.exists("/e"));
    shell.types(CTRL_D);
    // The shell succeeds although commands failed, and its session has ended with it.
    assert!(shell.ends().success());
    assert!(!other.exists("/e"));
}

#[test]
fn ctrl_d_within_a_line_does_not_end_the_shell() {
    let server = Server::start("pty-within", &[]);
    let mut shell = Typist::start(&server);
    shell.types("ls /");
    shell.types(CTRL_D);
    assert!(shell.answer("").contains("[zookeeper]\r\n"));
}

#[test]
fn an_earlier_line_is_found_again() {
    let server = Server::start("pty-up", &[]);
    let mut shell = Typist::start(&server);
    shell.answer("create -s /n-");
    shell.answer("ls /");
    shell.types(UP);
    shell.types(UP);
    assert!(shell.answer("").contains("Created /n-0000000001\r\n"));
}

#[test]
fn the_history_is_kept_for_the_next_shell_without_secrets() {
    let server = Server::start("pty-history", &[]);
    let mut shell = Typist::start(&server);
    shell.answer("create /a kept");
    shell.answer("addauth digest user:secret");
    shell.answer(" get /a");
    shell.runs("quit");
    assert!(shell.ends().success());
    let file = server.folder().join("quorate/zk_history");
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines, ["create /a kept", "quit"]);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let mut shell = Typist::start(&server);
    shell.types(UP);
    shell.types(UP);
    assert!(shell.answer("").contains("Node already exists: /a\r\n"));
}

#[test]
fn tab_completes_commands_options_and_paths() {
    let server = Server::start("pty-tab", &[]);
    let mut shell = Typist::start(&server);
    for path in ["/app", "/app/one", "/app/other"] {
        shell.answer(&format!("create {path} at{path}"));
    }
    // A single completion is inserted, with a space after a command.
    shell.types("getAllC");
    shell.types(TAB);
    shell.sees("getAllChildrenNumber ");
    shell.types("/ap");
    shell.types(TAB);
    assert!(shell.answer("").contains("\n2\r\n"));
    // If there are several completions, their common beginning is inserted first; then all of them
    // are listed.
    shell.types("get /app/o");
    shell.types(TAB);
    shell.types(TAB);
    shell.sees("/app/one");
    shell.sees("/app/other");
    shell.types("t");
    shell.types(TAB);
    assert!(shell.answer("").contains("at/app/other\r\n"));
    // The case does not matter, and options are completed, too.
    shell.types("SETQ");
    shell.types(TAB);
    shell.sees("setquota ");
    shell.types(CTRL_C);
    shell.is_asked();
    shell.types("reconfig -mem");
    shell.types(TAB);
    shell.sees("-members ");
}

#[test]
fn a_watch_that_fires_is_shown_above_the_line_that_is_typed() {
    let server = Server::start("pty-watch", &[]);
    let mut shell = Typist::start(&server);
    shell.answer("create /a");
    shell.answer("get -w /a");
    shell.types("crea");
    shell.sees("crea");
    Client::open(server.address(), TIMEOUT_MS).set("/a", b"x");
    shell.sees("WATCHER::\r\n\r\nWatchedEvent state:SyncConnected type:NodeDataChanged path:/a ");
    shell.is_asked();
    // The line is drawn again below the event, and the user can go on typing it.
    shell.sees("crea");
    assert!(shell.answer("te /b").contains("Created /b\r\n"));
}

/// The line editor takes few events at a time, and none between two lines. So the thread that runs
/// commands must not wait for it.
#[test]
fn a_stream_of_events_does_not_stop_the_shell() {
    let server = Server::start("pty-stream", &[]);
    let mut shell = Typist::start(&server);
    shell.answer("create /w");
    shell.answer("addWatch /w");
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = Over(&stopped);
        scope.spawn(|| {
            let mut writer = Client::open(server.address(), TIMEOUT_MS);
            while !stopped.load(Ordering::Relaxed) {
                writer.set("/w", b"x");
            }
        });
        for _ in 0..300 {
            shell.runs("getAllChildrenNumber /w");
            shell.sees("\n0\r\n");
        }
    });
}

#[test]
fn ctrl_c_drops_the_line_and_ends_watch() {
    let server = Server::start("pty-ctrl-c", &[]);
    let mut shell = Typist::start(&server);
    shell.types("create /never");
    shell.types(CTRL_C);
    shell.is_asked();
    assert!(shell.answer("ls /").contains("[zookeeper]\r\n"));
    shell.runs("watch -R /");
    shell.sees("watching /; Ctrl-C ends");
    Client::open(server.address(), TIMEOUT_MS).create("/seen", b"", 0).unwrap();
    shell.sees("type:NodeCreated path:/seen ");
    shell.types(CTRL_C);
    shell.is_asked();
    assert!(shell.answer("ls /").contains("[seen, zookeeper]\r\n"));
}

#[test]
fn ctrl_c_ends_a_shell_whose_server_does_not_answer() {
    let server = Server::start("pty-silent", &[]);
    let mut shell = Typist::start(&server);
    kill_process(server.pid(), Signal::STOP).unwrap();
    // The threads of the server stop one after the other.
    waitpid(Some(server.pid()), WaitOptions::UNTRACED).unwrap();
    shell.runs("ls /");
    shell.sees(LINE_DONE);
    shell.types(CTRL_C);
    let status = shell.ends();
    kill_process(server.pid(), Signal::CONT).unwrap();
    assert_eq!(status.code(), Some(130));
}

#[test]
fn a_terminal_that_cannot_be_edited_on_has_a_prompt_all_the_same() {
    let server = Server::start("pty-dumb", &[]);
    let mut shell = Typist::start_on("dumb", &server);
    shell.types("stat -w /a\n");
    shell.count += 1;
    assert!(shell.is_asked().contains("Node does not exist: /a\r\n"));
    Client::open(server.address(), TIMEOUT_MS).create("/a", b"", 0).unwrap();
    shell.sees("type:NodeCreated path:/a ");
    shell.types(CTRL_D);
    assert!(shell.ends().success());
}

#[test]
fn what_is_typed_into_a_pipe_gets_no_prompt() {
    let server = Server::start("pty-pipe", &[]);
    let mut command = Command::new("sh");
    let (at, quorate) = (server.address().to_string(), env!("CARGO_BIN_EXE_quorate"));
    command.args(["-c", "\"$0\" zk -server \"$1\" | cat", quorate, &at]);
    let mut terminal = Terminal::start(&command);
    terminal.types("ls /\n");
    assert_eq!(terminal.sees("[zookeeper]\r\n"), "ls /\r\n");
    terminal.types(CTRL_D);
    let (shown, status) = terminal.ends();
    assert_eq!((shown.as_str(), status.success()), ("", true));
}
