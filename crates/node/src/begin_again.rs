//! Begins the program again in its own process, so that no supervisor has to.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The variable that counts how often a process has begun again.
const COUNT_VARIABLE: &str = "QUORATE_BEGUN_AGAIN";

/// A process begins again at most this often. Afterwards it ends, and its supervisor decides.
const COUNT_MAX: u32 = 3;

/// Begins the program again, with the same arguments and variables. Files and sockets are closed,
/// and the locks on them end. Returns an error, or `None` if the process has begun again too often.
pub(crate) fn begin_again() -> Option<io::Error> {
    let count =
        std::env::var(COUNT_VARIABLE).ok().and_then(|count| count.parse().ok()).unwrap_or(0);
    if count >= COUNT_MAX {
        return None;
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return Some(error),
    };
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    Some(command.args(arguments).env(COUNT_VARIABLE, (count + 1).to_string()).exec())
}
