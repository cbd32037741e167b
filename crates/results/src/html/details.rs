//! Shows everything known about a test: plots, every figure with its rounds, notes, and errors.

use maud::{Markup, html};

use super::plots::{self, Styles};
use super::shell::{self, NONE, with_unit};
use crate::number::shown;
use crate::rows::Spread;
use crate::schema::{Figure, Results, Test};

/// A test as a folded section.
pub fn test(results: &Results, test: &Test, styles: &Styles) -> Markup {
    let figures = figures_of(test);
    html! {
        details {
            summary {
                @if !test.group.is_empty() { (test.group) " · " }
                (test.title)
                @if test.skipped.is_some() { " " span.chip { "skipped" } }
            }
            @if let Some(why) = &test.skipped { p { "Skipped: " (why) } }
            @if !test.warm.is_empty() { p.quiet { (test.warm) } }
            (trouble(results, test))
            (plots::of_test(test, styles))
            @if !figures.is_empty() { (table(results, test, &figures)) }
            (published(test, &figures))
            (notes(results, test))
            @for remark in &test.remarks { p { (remark) } }
        }
    }
}

/// The figures of all systems. A figure that several systems have appears once.
fn figures_of(test: &Test) -> Vec<&Figure> {
    let mut figures: Vec<&Figure> = Vec::new();
    for figure in test.systems.iter().flat_map(|measured| &measured.figures) {
        if figures.iter().all(|known| known.name != figure.name) {
            figures.push(figure);
        }
    }
    figures
}

fn name_of<'a>(results: &'a Results, id: &'a str) -> &'a str {
    results.system(id).map_or(id, |system| &system.name)
}

fn trouble(results: &Results, test: &Test) -> Markup {
    html! {
        @for measured in test.systems.iter().filter(|measured| measured.trouble > 0) {
            p.trouble {
                (name_of(results, &measured.system)) ": " (shown(measured.trouble as f64))
                " answers were errors or wrong, or sessions were lost"
            }
        }
    }
}

fn table(results: &Results, test: &Test, figures: &[&Figure]) -> Markup {
    html! {
        h3 { "All figures" }
        div.scroll {
            table {
                thead {
                    tr {
                        th.text { "figure" }
                        @for measured in &test.systems {
                            th { (name_of(results, &measured.system)) small { "median, range" } }
                        }
                    }
                }
                tbody {
                    @for figure in figures {
                        tr {
                            th scope="row" { (with_unit(&figure.name, &figure.unit)) }
                            @for measured in &test.systems {
                                td { (values(measured.figure(&figure.name))) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The median and the range of a figure, and the value of each round.
fn values(figure: Option<&Figure>) -> Markup {
    let Some(figure) = figure else { return html! { (NONE) } };
    let rounds: Vec<String> = figure.values.iter().copied().map(shown).collect();
    html! {
        (shell::spread(Spread::of(figure)))
        @if rounds.len() > 1 { small.wrap { "rounds: " (rounds.join("\u{a0}· ")) } }
    }
}

/// The published values whose figures are in no table of the report, as text.
fn published(test: &Test, figures: &[&Figure]) -> Markup {
    let is_shown = |name: &str| figures.iter().any(|f| f.name == name && f.is_headline);
    html! {
        @for published in test.published.iter().filter(|published| !is_shown(&published.figure)) {
            p.quiet {
                "Published"
                @if !published.figure.is_empty() { ", " (published.figure) }
                ": " (published.text)
            }
        }
    }
}

fn notes(results: &Results, test: &Test) -> Markup {
    html! {
        @for measured in test.systems.iter().filter(|measured| !measured.notes.is_empty()) {
            p { strong { (name_of(results, &measured.system)) } }
            ul { @for note in &measured.notes { li { (note) } } }
        }
    }
}
