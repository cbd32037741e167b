//! Renders the comparison of two runs as one HTML page: each figure before and now, and how sure
//! the change is.
//!
//! The rounds of two runs do not form pairs. So a drift of the machine between the runs changes the
//! ratios, and nothing cancels it. Differences between the machines come first on the page, because
//! figures of different machines must not be compared.

use maud::{Markup, html};

use crate::html::shell::{self, NONE, with_unit};
use crate::matched::{Difference, Key, Matching, differences, matching};
use crate::number::change;
use crate::ratio::Ratio;
use crate::rows::{Spread, warnings};
use crate::schema::{Figure, Results};

/// A figure that both runs have: its key, the old figure and the new one.
type Both<'a> = (Key<'a>, &'a Figure, &'a Figure);

/// The HTML page that compares two runs.
pub fn page(old: &Results, new: &Results) -> String {
    let matching = matching(old, new);
    let (serious, plain): (Vec<Difference>, Vec<Difference>) =
        differences(old, new).into_iter().partition(|difference| difference.is_serious);
    let (headlines, others): (Vec<Both>, Vec<Both>) =
        matching.both.iter().partition(|(_, figure, _)| figure.is_headline);
    let title = format!("{}: before and now", new.title);
    let body = html! {
        h1 { (title) }
        (runs(old, new))
        @if !serious.is_empty() {
            div.box {
                "Figures of different machines or configurations must not be compared. "
                "These two runs differ:"
                ul { @for difference in &serious { li { (difference) } } }
            }
        }
        @for (when, run) in [("Before", old), ("Now", new)] {
            @for warning in warnings(run) { div.box { (when) ": " (warning) } }
        }
        @if !plain.is_empty() {
            h2 { "What was changed" }
            ul { @for difference in &plain { li { (difference) } } }
        }
        (groups(new, &headlines))
        @if !others.is_empty() {
            h2 { "All other figures" }
            details { summary { (others.len()) " figures" } (groups(new, &others)) }
        }
        (lonely(&matching))
    };
    shell::page(&title, &body)
}

/// The time and the command of each run.
fn runs(old: &Results, new: &Results) -> Markup {
    let line = |results: &Results| {
        format!("{}, {}", results.began_at, results.command).trim_matches([',', ' ']).to_string()
    };
    shell::facts(&[("before", line(old)), ("now", line(new))])
}

/// One table for each group of tests.
fn groups(new: &Results, figures: &[Both]) -> Markup {
    let mut names: Vec<&str> = Vec::new();
    for (key, _, _) in figures {
        if !names.contains(&key.group) {
            names.push(key.group);
        }
    }
    html! {
        @for name in names {
            h2 { (if name.is_empty() { "Results" } else { name }) }
            div.scroll {
                table {
                    thead {
                        tr {
                            th.text { "test" small { "figure, unit" } }
                            th.text { "system" }
                            th { "before" small { "median, range" } }
                            th { "now" small { "median, range" } }
                            th { "change" small { "of the mean, 95 % interval" } }
                            th.text { "verdict" }
                        }
                    }
                    tbody {
                        @for both in figures.iter().filter(|(key, _, _)| key.group == name) {
                            (row(new, both))
                        }
                    }
                }
            }
        }
    }
}

fn row(new: &Results, (key, old_figure, new_figure): &Both) -> Markup {
    let ratio = Ratio::of_unpaired(new_figure, old_figure);
    let system = new.system(key.system).map_or(key.system, |system| &system.name);
    html! {
        tr {
            th scope="row" {
                (key.title) small { (with_unit(key.figure, &new_figure.unit)) }
            }
            td.text { (system) }
            td { (shell::spread(Spread::of(old_figure))) }
            td { (shell::spread(Spread::of(new_figure))) }
            td { (change_of(ratio.as_ref())) }
            td.text { @if let Some(ratio) = &ratio { (shell::chip(ratio.verdict())) } }
        }
    }
}

fn change_of(ratio: Option<&Ratio>) -> Markup {
    let Some(ratio) = ratio else { return html! { (NONE) } };
    let (quotient, interval) = ratio.quotient();
    html! {
        strong { (change(quotient)) }
        @if let Some((low, high)) = interval {
            small { "[" (change(low)) ", " (change(high)) "]" }
        }
    }
}

/// Lists the figures that only one of the runs has.
fn lonely(matching: &Matching) -> Markup {
    html! {
        @for (heading, figures) in [
            ("Only in the run before", &matching.only_old),
            ("Only in the run now", &matching.only_new),
        ] {
            @if !figures.is_empty() {
                h2 { (heading) }
                ul { @for (key, _) in figures { li { (key) } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{run, run_with};

    #[test]
    fn changes_are_shown_with_their_interval() {
        let page = page(&run(), &run_with("ours", 0.9));
        assert!(page.contains("<strong>−10.0 %</strong><small>[−1"), "{page}");
        assert!(page.contains(r#"<span class="chip worse">worse</span>"#));
        assert!(page.contains(r#"<span class="chip">no difference</span>"#), "of the peer");
        assert!(!page.contains("must not be compared") && !page.contains("Only in"));
        // The errors of the peer make one box for each run.
        assert_eq!(page.matches("class=\"box\"").count(), 2, "{page}");
        assert!(page.contains("Before: ZooKeeper 3.9.5: answers were errors"), "{page}");
    }

    #[test]
    fn other_machines_and_missing_rows_are_named() {
        let (old, mut new) = (run(), run());
        new.machine.processor = "Example 8000".into();
        new.tests.remove(2);
        new.is_quick = true;
        new.cut_short = Some("no time".into());
        let page = page(&old, &new);
        assert!(page.contains("processor: Example 9000 before, Example 8000 now"));
        assert!(page.contains("must not be compared"));
        assert!(page.contains("<h2>Only in the run before</h2>"));
        assert!(page.contains("watches / 50,000 watches / ours / event rate"));
        assert!(page.contains("Now: The run was scaled down"));
        assert!(page.contains("Now: The run was cut short, parts are missing: no time"));
        assert!(!page.contains("Only in the run now"));
    }
}
