//! Renders the table of a group of tests: one row for each headline figure, with our server beside
//! the real one.

use maud::{Markup, html};

use super::shell::{self, NONE, with_unit};
use crate::number::shown;
use crate::rows::{Cpu, Group, Row, TestRows, names};
use crate::schema::{Results, Role, Test};

/// The table of a group, followed by the remarks of its tests.
pub fn group(results: &Results, group: &Group) -> Markup {
    let heading = if group.name.is_empty() { "Results" } else { group.name };
    let unit = group.unit().unwrap_or_default();
    let remarks = group.tests.iter().filter(|test| !test.test.remarks.is_empty());
    html! {
        h2 { (heading) }
        div.scroll {
            table {
                thead { (header(results, unit)) }
                tbody { @for test in &group.tests { (test_rows(test, unit)) } }
            }
        }
        @for test in remarks {
            p.quiet { strong { (test.test.title) } ": " (test.test.remarks.join(" ")) }
        }
    }
}

fn header(results: &Results, unit: &str) -> Markup {
    let column = |name: &str, what: &str| {
        html! {
            th { (name) small { (what) @if !unit.is_empty() && !what.is_empty() { ", " (unit) } } }
        }
    };
    html! {
        tr {
            th.text { "test" }
            (column("published", if unit.is_empty() { "" } else { "by the document" }))
            (column(&names(results, Role::Peer, "real server"), "here: median, range"))
            (column(&names(results, Role::Ours, "ours"), "ours: median, range"))
            th { "ratio" small { "ours to real, 95 % interval" } }
            th { "CPU of the servers" small { "per operation: real, ours" } }
            th.text { "what limits ours" }
        }
    }
}

fn test_rows(test: &TestRows, unit: &str) -> Markup {
    html! {
        @if let Some(why) = &test.test.skipped {
            tr {
                th scope="row" { (test.test.title) }
                td.text colspan="6" { span.chip { "skipped" } " " (why) }
            }
        }
        @for (index, one) in test.rows.iter().enumerate() { (row(test.test, one, index, unit)) }
    }
}

fn row(test: &Test, row: &Row, index: usize, unit: &str) -> Markup {
    let own_unit = if row.unit == unit { "" } else { row.unit };
    let class = (index > 0).then_some("more");
    html! {
        tr class=[class] {
            th scope="row" {
                @if index == 0 { (test.title) }
                small.figure { (with_unit(row.figure, own_unit)) }
                @if let Some(pair) = &row.pair { small { (pair) } }
            }
            td.published {
                @if row.published.is_empty() { (NONE) }
                @for published in &row.published { div { (published.text) } }
            }
            td { (shell::spread(row.peer)) }
            td { (shell::spread(row.ours)) }
            td { (shell::ratio(row.ratio.as_ref())) }
            td.cpu { (cpu(row.cpu)) }
            td.text { (row.limit) }
        }
    }
}

fn cpu(cpu: Option<Cpu>) -> Markup {
    let value = |value: Option<f64>| value.map_or(NONE.to_string(), shown);
    html! {
        @match cpu {
            Some(cpu) => {
                (value(cpu.peer)) " · " (value(cpu.ours))
                @if !cpu.unit.is_empty() { small { (cpu.unit) } }
            }
            None => { (NONE) }
        }
    }
}
