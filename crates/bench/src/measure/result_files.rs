//! `quorate bench report`, `compare` and `gate`: they read the JSON of runs and make documents of
//! it. The work is done by the crate `results`, which reads and writes no files.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use results::Results;

/// The exit status of a gate that found a regression.
const REGRESSED: u8 = 1;

/// Options of `quorate bench report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The JSON of a run
    #[arg(value_name = "FILE.json")]
    run: PathBuf,
    /// Write the report there; without any file the tables are printed
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the tables there as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// Options of `quorate bench compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The JSON of the earlier run
    #[arg(value_name = "OLD.json")]
    old: PathBuf,
    /// The JSON of the later run
    #[arg(value_name = "NEW.json")]
    new: PathBuf,
    /// Write the page there
    #[arg(long, value_name = "FILE")]
    html: PathBuf,
}

/// Options of `quorate bench gate`.
#[derive(Debug, Args)]
pub struct GateArgs {
    /// The JSON of the earlier run
    #[arg(value_name = "OLD.json")]
    old: PathBuf,
    /// The JSON of the later run
    #[arg(value_name = "NEW.json")]
    new: PathBuf,
    /// How much worse a figure may be
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = crate::measure::comparison::percent)]
    limit: f64,
}

/// Writes the report of a run to the files asked for, or prints its tables.
///
/// # Errors
/// The file is no JSON of a run, or the report cannot be written.
pub fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let results = read(&args.run)?;
    let ReportArgs { html, markdown, .. } = args;
    if let Some(path) = html {
        write(path, &results::html::page(&results))?;
    }
    if let Some(path) = markdown {
        write(path, &results::markdown::document(&results))?;
    }
    if html.is_none() && markdown.is_none() {
        print!("{}", results::text::table(&results));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a page that shows two runs side by side.
///
/// # Errors
/// A file is no JSON of a run, or the page cannot be written.
pub fn compare(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let (old, new) = (read(&args.old)?, read(&args.new)?);
    write(&args.html, &results::compare::page(&old, &new))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints which figures have become worse between two runs. The exit status is 1 if one has, or if
/// no figure can be compared.
///
/// # Errors
/// A file is no JSON of a run, or a run states that its figures mean nothing.
pub fn gate(args: &GateArgs) -> anyhow::Result<ExitCode> {
    let (old, new) = (read(&args.old)?, read(&args.new)?);
    let gate = results::gate::check(&old, &new, args.limit)?;
    print!("{gate}");
    Ok(if gate.passes() { ExitCode::SUCCESS } else { ExitCode::from(REGRESSED) })
}

fn read(path: &Path) -> anyhow::Result<Results> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Results::read(&text).with_context(|| path.display().to_string())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_of_the_reports_are_made_of_their_json() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reports");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let is_json = |path: &PathBuf| path.extension().is_some_and(|it| it == "json");
        let runs: Vec<PathBuf> = files.filter(is_json).collect();
        assert!(!runs.is_empty());
        for run in runs {
            let results = read(&run).unwrap();
            let text = |extension| std::fs::read_to_string(run.with_extension(extension)).unwrap();
            let name = run.file_stem().unwrap().display();
            assert!(
                text("md") == results::markdown::document(&results),
                "quorate bench report {name}.json --markdown {name}.md"
            );
            let page = results::html::results_of(&text("html")).unwrap();
            assert!(page == results, "quorate bench report {name}.json --html {name}.html");
        }
    }
}
