//! Writes log lines to stderr, stdout and files, in any combination.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::Arc;

use anyhow::Context;
use config::log_style::Output;
use tracing_subscriber::fmt::MakeWriter;

/// Writes each line to every output.
#[derive(Clone)]
pub(super) struct Outputs(Arc<Vec<Opened>>);

enum Opened {
    Stderr,
    Stdout,
    File(File),
}

impl Outputs {
    /// Opens the log files.
    ///
    /// # Errors
    /// A file cannot be opened.
    pub fn open(outputs: &[Output]) -> anyhow::Result<Outputs> {
        let open = |output: &Output| match output {
            Output::Stderr => Ok(Opened::Stderr),
            Output::Stdout => Ok(Opened::Stdout),
            Output::File(path) => {
                let file = OpenOptions::new().append(true).create(true).open(path);
                let file = file.with_context(|| format!("the log {}", path.display()))?;
                anyhow::Ok(Opened::File(file))
            }
        };
        Ok(Outputs(Arc::new(outputs.iter().map(open).collect::<anyhow::Result<_>>()?)))
    }
}

impl MakeWriter<'_> for Outputs {
    type Writer = Outputs;

    fn make_writer(&self) -> Outputs {
        self.clone()
    }
}

impl Write for Outputs {
    /// Writes a line to every output; fails only if every output fails.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let write = |output: &Opened| match output {
            Opened::Stderr => io::stderr().write_all(line),
            Opened::Stdout => io::stdout().write_all(line),
            Opened::File(file) => (&mut &*file).write_all(line),
        };
        let mut failed = Ok(());
        let mut is_written = false;
        for output in self.0.iter() {
            match write(output) {
                Ok(()) => is_written = true,
                Err(error) => failed = Err(error),
            }
        }
        if !is_written {
            failed?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}
