//! The parts that all pages share: the document around a body, lists, facts, values and ratios.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::number::shown;
use crate::ratio::{Ratio, Verdict};
use crate::rows::{Spread, interval_text, verdict_text};

/// Shown in place of an unknown value.
pub const NONE: &str = "–";

/// A complete HTML document.
pub fn page(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body { (body) }
        }
    };
    page.into_string()
}

/// A list with a heading; empty if there are no entries.
pub fn list(heading: &str, entries: &[String]) -> Markup {
    html! {
        @if !entries.is_empty() {
            h2 { (heading) }
            ul { @for entry in entries { li { (entry) } } }
        }
    }
}

/// Pairs of a name and a text. Pairs with an empty text are left out.
pub fn facts(facts: &[(&str, String)]) -> Markup {
    html! {
        dl.facts {
            @for (name, text) in facts.iter().filter(|(_, text)| !text.is_empty()) {
                dt { (name) }
                dd { (text) }
            }
        }
    }
}

/// A median, and the range below it.
pub fn spread(spread: Option<Spread>) -> Markup {
    html! {
        @match spread {
            Some(spread) => {
                (shown(spread.median))
                @if let Some(range) = spread.range_text() { small { (range) } }
            }
            None => { (NONE) }
        }
    }
}

/// A ratio with its interval and its verdict.
pub fn ratio(ratio: Option<&Ratio>) -> Markup {
    html! {
        @match ratio {
            Some(ratio) => {
                strong { (ratio.shown(ratio.value)) } " " (chip(ratio.verdict()))
                @if let Some(interval) = interval_text(ratio) { small { (interval) } }
            }
            None => { (NONE) }
        }
    }
}

/// A verdict on a coloured background.
pub fn chip(verdict: Verdict) -> Markup {
    let class = match verdict {
        Verdict::Better => "chip better",
        Verdict::Worse => "chip worse",
        Verdict::NoDifference | Verdict::TooFewPairs => "chip",
    };
    html! { span class=(class) { (verdict_text(verdict)) } }
}

/// A name with its unit: `rate, per s`.
pub fn with_unit(name: &str, unit: &str) -> String {
    if unit.is_empty() { name.to_string() } else { format!("{name}, {unit}") }
}
