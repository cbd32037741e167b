//! Renders the tables of a run as plain text, for a terminal.

use crate::number::{duration, shown};
use crate::ratio::Verdict;
use crate::rows::{
    Group, Row, Spread, TestRows, groups, interval_text, names, reservations, verdict_text,
    warnings,
};
use crate::schema::{Published, Results, Role};

/// The most characters of a line.
pub const WIDTH_MAX: usize = 140;
/// Blanks between two columns.
const GAP: usize = 2;
/// The most characters of each column; longer texts continue in the next line.
const WIDTHS_MAX: [usize; 7] = [30, 14, 19, 19, 18, 13, 15];
/// The most characters of a published text; if it is longer, its number is shown.
const PUBLISHED_MAX: usize = 28;
/// Whether the texts of each column are aligned to the left.
const AT_LEFT: [bool; 7] = [true, false, false, false, false, false, true];

const _: () = {
    let mut sum = GAP * (WIDTHS_MAX.len() - 1);
    let mut at = 0;
    while at < WIDTHS_MAX.len() {
        sum += WIDTHS_MAX[at];
        at += 1;
    }
    assert!(sum <= WIDTH_MAX);
};

/// The cells of a row, before their texts are broken into lines.
pub(crate) type Cells = [String; 7];

/// A row of a table, or a line in it.
enum Part {
    /// A line without columns: the title of a test with several rows, or why a test was skipped.
    Line(String),
    /// A row with columns.
    Cells(Cells),
}

/// The tables of a run, with its title and warnings.
pub fn table(results: &Results) -> String {
    let mut out = vec![results.title.clone()];
    let took = duration(results.seconds);
    out.push(format!("{}, began {}, took {took}", results.workload, results.began_at));
    out.extend(warnings(results).iter().map(|warning| format!("! {warning}")));
    let is_quotable = reservations(results).is_empty();
    for group in groups(results) {
        out.push(String::new());
        if !group.name.is_empty() {
            out.push(group.name.to_string());
        }
        out.extend(table_of(results, &group));
        if is_quotable {
            out.extend(summary(&group));
        }
    }
    let lines = out.iter().flat_map(|line| broken(line, WIDTH_MAX));
    lines.map(|line| line.trim_end().replace('\u{a0}', " ") + "\n").collect()
}

/// The summary of a group's rows; `None` if no row has a ratio.
pub(crate) fn summary(group: &Group) -> Option<String> {
    let summary = group.summary();
    let (mean, tests) = (summary.mean?, summary.tests);
    let of = if tests == 1 { "test" } else { "tests" };
    let counts = summary.counts();
    Some(format!("geometric mean of {tests} {of}: {mean:.2} times as good; rows: {counts}"))
}

/// The lines of a group's table.
fn table_of(results: &Results, group: &Group) -> Vec<String> {
    let mut parts = vec![Part::Cells(header(results))];
    for TestRows { test, rows } in &group.tests {
        let title = &test.title;
        parts.extend(test.skipped.iter().map(|why| Part::Line(format!("{title}: skipped, {why}"))));
        if rows.len() > 1 {
            parts.push(Part::Line(title.clone()));
        }
        let name = if rows.len() > 1 { "\u{a0}\u{a0}".to_string() } else { format!("{title}: ") };
        parts.extend(rows.iter().map(|row| Part::Cells(cells(&name, row))));
    }
    let widths: [usize; 7] = std::array::from_fn(|column| {
        let length = |part: &Part| match part {
            Part::Line(_) => 0,
            Part::Cells(cells) => cells[column].chars().count(),
        };
        parts.iter().map(length).max().unwrap_or_default().min(WIDTHS_MAX[column])
    });
    let width = widths.iter().sum::<usize>() + GAP * (widths.len() - 1);
    let lines = parts.into_iter().map(|part| match part {
        Part::Line(line) => vec![line],
        Part::Cells(cells) => aligned(&cells, &widths),
    });
    let mut lines: Vec<Vec<String>> = lines.collect();
    lines.insert(1, vec!["-".repeat(width)]);
    lines.concat()
}

/// The names of the columns.
pub(crate) fn header(results: &Results) -> Cells {
    [
        "test".to_string(),
        "published".to_string(),
        format!("{} here", names(results, Role::Peer, "real server")),
        names(results, Role::Ours, "ours"),
        "ratio".to_string(),
        "server CPU real · ours".to_string(),
        "limit".to_string(),
    ]
}

/// The cells of a row. The first cell is `name`, followed by the name of the figure.
pub(crate) fn cells(name: &str, row: &Row) -> Cells {
    let unit = if row.unit.is_empty() { String::new() } else { format!(", {}", row.unit) };
    let pair = row.pair.as_ref().map(|pair| format!(" ({pair})")).unwrap_or_default();
    let ratio = row.ratio.map(|ratio| {
        // Keep an interval in one line.
        let interval = interval_text(&ratio).unwrap_or_default().replace(' ', "\u{a0}");
        let verdict = match ratio.verdict() {
            Verdict::Better => "",
            verdict => verdict_text(verdict),
        };
        format!("{} {interval} {verdict}", ratio.shown(ratio.value))
    });
    let cpu = row.cpu.map(|cpu| {
        let value = |value: Option<f64>| value.map_or("-".to_string(), shown);
        format!("{} · {} {}", value(cpu.peer), value(cpu.ours), cpu.unit)
    });
    let none = || "-".to_string();
    [
        format!("{name}{}{unit}{pair}", row.figure),
        if row.published.is_empty() { none() } else { published(row) },
        spread(row.peer),
        spread(row.ours),
        ratio.unwrap_or_else(none),
        cpu.unwrap_or_else(none),
        row.limit.clone(),
    ]
}

/// The document's value: its text, or the number if the text is too long.
fn published(row: &Row) -> String {
    let short = |published: &&Published| match published.value {
        Some(value) if published.text.chars().count() > PUBLISHED_MAX => shown(value),
        _ => published.text.clone(),
    };
    row.published.iter().map(short).collect::<Vec<_>>().join("; ")
}

fn spread(spread: Option<Spread>) -> String {
    let Some(spread) = spread else { return "-".to_string() };
    let range = spread.range_text().map(|range| format!(" ({range})")).unwrap_or_default();
    shown(spread.median) + &range
}

/// The lines of one row, with aligned columns.
fn aligned(row: &Cells, widths: &[usize; 7]) -> Vec<String> {
    let cells: Vec<Vec<String>> =
        row.iter().zip(widths).map(|(text, width)| broken(text, *width)).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or_default();
    let line = |at: usize| {
        let texts = cells.iter().zip(widths).zip(AT_LEFT).map(|((cell, width), at_left)| {
            let text = cell.get(at).map_or("", String::as_str);
            if at_left { format!("{text:<width$}") } else { format!("{text:>width$}") }
        });
        texts.collect::<Vec<_>>().join(&" ".repeat(GAP))
    };
    (0..height).map(line).collect()
}

/// Breaks a text into lines of at most `width` characters, at blanks if possible.
fn broken(text: &str, width: usize) -> Vec<String> {
    if text.chars().count() <= width {
        return vec![text.to_string()];
    }
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let mut rest = word.chars().collect::<Vec<char>>();
        let last = lines.last_mut().expect("there is a line");
        let used = last.chars().count();
        if used > 0 && used + 1 + rest.len() <= width {
            last.push(' ');
            last.extend(&rest);
            continue;
        }
        if used > 0 {
            lines.push(String::new());
        }
        while rest.len() > width {
            let tail = rest.split_off(width);
            lines.last_mut().expect("there is a line").extend(&rest);
            lines.push(String::new());
            rest = tail;
        }
        lines.last_mut().expect("there is a line").extend(&rest);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{large, run};

    #[test]
    fn no_line_is_too_wide() {
        for results in [run(), large()] {
            let mut results = results;
            results.tests[0].limit = "x".repeat(200);
            results.tests[0].published[0].text = "more than 10,000 ".repeat(9);
            results.title = "title ".repeat(60);
            let table = table(&results);
            let widest = table.lines().map(|line| line.chars().count()).max();
            assert!(widest.is_some_and(|widest| widest <= WIDTH_MAX), "{table}");
            assert_eq!(table.matches('x').count(), 200 + table_without_limit(&results));
        }
    }

    /// How many `x` the table has apart from those of the limit.
    fn table_without_limit(results: &Results) -> usize {
        let mut results = results.clone();
        results.tests[0].limit = "-".into();
        table(&results).matches('x').count()
    }

    #[test]
    fn a_table_says_what_the_page_says() {
        let text = table(&run());
        for part in ["client: create", "5,000 per s", "21,700", "(21,600–21,900)", "[1.52x, 1.53x]"]
        {
            assert!(text.contains(part), "{part}\n{text}");
        }
        for part in ["worse", "7 servers: skipped, 2 cores", "geometric mean of 2 tests: 1.22"] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let columns = |line: &&str| line.find("ratio").is_some() && line.starts_with("test");
        assert_eq!(text.lines().filter(columns).count(), 2);
    }

    #[test]
    fn doubts_take_the_headline_away() {
        let doubtful = Results { doubts: vec!["CPU was stolen".into()], is_quick: true, ..run() };
        let text = table(&doubtful);
        assert!(text.contains("! No figure of this run is to be quoted: CPU was stolen"));
        assert!(text.contains("! The run was scaled down") && !text.contains("geometric mean"));
        let cut = Results { cut_short: Some("no time".into()), ..run() };
        assert!(table(&cut).contains("! The run was cut short, parts are missing: no time"));
    }

    #[test]
    fn texts_are_broken_at_blanks() {
        let check = |text: &str, expected: &[&str]| assert_eq!(broken(text, 5), expected);
        check("", &[""]);
        check("ab cd", &["ab cd"]);
        check("ab cde", &["ab", "cde"]);
        check("abcdefg h", &["abcde", "fg h"]);
        check("a bcdefgh", &["a", "bcdef", "gh"]);
    }
}
