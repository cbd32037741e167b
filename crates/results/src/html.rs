//! A run as one HTML page that needs nothing but itself: no request, no script.
//!
//! The path of a figure: [`crate::rows`] puts it in a row, `tables` writes the row; `plots` makes
//! curves and courses into [`crate::svg`]; `details` has all of a test, `machine` where it was
//! made. The JSON of the run is part of the page, so a page can be read back.

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

/// The text before and behind the JSON in a page.
const JSON_OPEN: &str = r#"<script type="application/json" id="results">"#;
const JSON_CLOSE: &str = "</script>";

/// The page of a run.
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

/// The run that a page was made of.
///
/// # Errors
/// The text is no page of ours, or its JSON is of another schema.
pub fn results_of(page: &str) -> anyhow::Result<Results> {
    let (_, json) = page.split_once(JSON_OPEN).context("the page holds no results")?;
    let (json, _) = json.split_once(JSON_CLOSE).context("the results of the page do not end")?;
    Results::read(json)
}

/// The JSON as part of a page. Only texts have a `<`; without it no tag can begin in one.
fn json(results: &Results) -> String {
    format!("{JSON_OPEN}{}{JSON_CLOSE}", results.to_json().replace('<', "\\u003c"))
}

/// Title, time and command, and what a reader must know before any figure.
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

/// The mean ratio of each group, and how many rows say what.
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
