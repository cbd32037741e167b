//! Renders a run as one HTML page that is complete in itself: it loads nothing and runs no script.
//!
//! [`crate::rows`] puts a figure into a row, and `tables` renders the row. `plots` draws curves of
//! latencies, and the course of each round over time, with [`crate::svg`]; `details` shows
//! everything about a test, and `machine` shows where the run was made. The page contains the JSON
//! of the run, so [`results_of`] can read it back.

mod details;
mod machine;
mod plots;
pub mod shell;
mod tables;

use anyhow::Context;
use maud::{Markup, PreEscaped, html};

use crate::number::duration;
use crate::rows::{Group, groups, reservations, warnings};
use crate::schema::Results;
use plots::Styles;

/// The text in a page before and behind the JSON of its run.
const JSON_OPEN: &str = r#"<script type="application/json" id="results">"#;
const JSON_CLOSE: &str = "</script>";

/// The HTML page of a run.
pub fn page(results: &Results) -> String {
    let groups = groups(results);
    let styles = Styles::of(results);
    let body = html! {
        (head(results))
        @if reservations(results).is_empty() { (summary(&groups)) }
        @for group in &groups { (tables::group(results, group)) }
        (plots::charts(results, &styles))
        h2 { "Each test in full" }
        @for test in &results.tests { (details::test(results, test, &styles)) }
        (machine::machine(results))
        (machine::systems(results))
        (shell::list("What differs from the method of the document", &results.deviations))
        (shell::list("Traps of the document", &results.traps))
        (PreEscaped(json(results)))
    };
    shell::page(&results.title, &body)
}

/// The run in a page that [`page`] has made.
///
/// # Errors
/// The text is no such page, or its JSON has another schema.
pub fn results_of(page: &str) -> anyhow::Result<Results> {
    let (_, json) = page.split_once(JSON_OPEN).context("the page holds no results")?;
    let (json, _) = json.split_once(JSON_CLOSE).context("the results of the page do not end")?;
    Results::read(json)
}

/// The JSON as a part of the page. `<` occurs only inside JSON strings; escaping it there keeps a
/// string from beginning a tag.
fn json(results: &Results) -> String {
    format!("{JSON_OPEN}{}{JSON_CLOSE}", results.to_json().replace('<', "\\u003c"))
}

/// The title, the time and the command, and everything that a reader must know before the figures.
fn head(results: &Results) -> Markup {
    html! {
        h1 { (results.title) }
        p.quiet {
            (results.workload) " · began " (results.began_at) " · took " (duration(results.seconds))
        }
        @if !results.command.is_empty() { pre.command { (results.command) } }
        @for warning in warnings(results) { div.box { (warning) } }
        @for sentence in &results.about { p { (sentence) } }
    }
}

/// The mean ratio of each group, and how many of its rows have which verdict.
fn summary(groups: &[Group]) -> Markup {
    let summaries = groups.iter().map(|group| (group, group.summary()));
    let summaries: Vec<_> = summaries.filter(|(_, summary)| summary.mean.is_some()).collect();
    html! {
        @if !summaries.is_empty() {
            h2 { "Summary" }
            div.cards {
                @for (group, summary) in summaries {
                    div.card {
                        @if !group.name.is_empty() { (group.name) }
                        @if let Some(mean) = summary.mean {
                            b { (format!("{mean:.2}")) " times as good" }
                        }
                        small {
                            "ours to the real server: geometric mean over " (summary.tests) " "
                            (if summary.tests == 1 { "test" } else { "tests" })
                            ", by the first figure of each"
                        }
                        div { "Rows: " (summary.counts()) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
