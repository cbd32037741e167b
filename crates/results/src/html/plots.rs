//! Draws the plots of a page: the charts of the published document, the curves of latencies, the
//! courses (what was seen over the time of a round), and the fdatasync times of the disk.

use maud::{Markup, html};

use super::shell::with_unit;
use crate::schema::{Chart, Curve, Measured, Moment, Results, Role, System, Test, Usage};
use crate::svg::{Axis, Line, Plot, STYLE_COUNT, Scale, swatch};

/// Width and height of a plot that has a row of its own.
const WIDE: (f64, f64) = (640.0, 300.0);
/// Width and height of one of several plots in a row.
const SMALL: (f64, f64) = (360.0, 190.0);
/// The style of lines with the document's values.
const PUBLISHED_STYLE: usize = 3;

/// The line style of each system, the same in all plots of a page.
pub struct Styles<'a> {
    systems: &'a [System],
}

/// Picks the value that a plot shows for a moment of a course.
type Value = fn(&Moment) -> Option<f64>;

/// Picks the value that a plot shows from the resources that servers used at a moment.
type UsedValue = fn(&Usage) -> Option<f64>;

impl<'a> Styles<'a> {
    /// The styles of a run: each system has the style with its index, skipping the document's
    /// style.
    pub fn of(results: &'a Results) -> Styles<'a> {
        Styles { systems: &results.systems }
    }

    fn of_index(index: usize) -> usize {
        index + usize::from(index >= PUBLISHED_STYLE)
    }

    fn of_system(&self, id: &str) -> usize {
        let index = self.systems.iter().position(|system| system.id == id);
        Styles::of_index(index.unwrap_or(self.systems.len()))
    }

    fn name_of(&self, id: &'a str) -> &'a str {
        self.systems.iter().find(|system| system.id == id).map_or(id, |system| &system.name)
    }

    fn is_null(&self, id: &str) -> bool {
        self.systems.iter().any(|system| system.id == id && system.role == Role::Null)
    }

    /// The style of each line of a chart: that of the system whose name or role is in the line's
    /// name. If two lines name the same system, the second gets a free style.
    pub fn of_chart(&self, chart: &Chart) -> Vec<usize> {
        let mut taken = Vec::new();
        for series in &chart.series {
            let named = self.of_series(&series.name).filter(|style| !taken.contains(style));
            let first = Styles::of_index(self.systems.len()).min(STYLE_COUNT);
            let mut free = (first..STYLE_COUNT).chain(0..);
            let free = free.find(|style| !taken.contains(style) && *style != PUBLISHED_STYLE);
            taken.extend(named.or(free));
        }
        taken
    }

    fn of_series(&self, name: &str) -> Option<usize> {
        if name.contains("published") {
            return Some(PUBLISHED_STYLE);
        }
        let is_meant = |system: &System| {
            name == system.id || (!system.name.is_empty() && name.contains(&system.name))
        };
        let of_role = |role| self.systems.iter().position(|system| system.role == role);
        let named = self.systems.iter().position(is_meant);
        let by_role = || match name {
            name if name.contains("ours") => of_role(Role::Ours),
            name if name.contains("real server") => of_role(Role::Peer),
            _ => None,
        };
        named.or_else(by_role).map(Styles::of_index)
    }
}

/// The document's charts.
pub fn charts(results: &Results, styles: &Styles) -> Markup {
    let charts: Vec<Markup> =
        results.charts.iter().filter_map(|chart| one_chart(chart, styles)).collect();
    html! {
        @if !charts.is_empty() {
            h2 { "Charts" }
            @for chart in &charts { (chart) }
        }
    }
}

fn one_chart(chart: &Chart, styles: &Styles) -> Option<Markup> {
    let styles = styles.of_chart(chart);
    let lines = chart.series.iter().zip(&styles).map(|(series, style)| {
        let places = series.values.iter().enumerate();
        let points = places.map(|(at, value)| value.map(|value| (at as f64, value)));
        Line { style: *style, points: points.collect(), has_dots: true }
    });
    let scale = if chart.is_logarithmic { Scale::Logarithmic } else { Scale::Linear };
    let plot = Plot {
        title: chart.title.clone(),
        x: Axis { name: chart.x.clone(), scale: Scale::Places(chart.labels.clone()) },
        y: Axis { name: String::new(), scale },
        lines: lines.collect(),
        size: WIDE,
    };
    let names = chart.series.iter().map(|series| series.name.as_str());
    let names: Vec<(usize, &str)> = styles.iter().copied().zip(names).collect();
    let drawn = figure(&with_unit(&chart.title, &chart.unit), &plot, &names, true);
    (!drawn.0.is_empty()).then_some(drawn)
}

/// A plot with its heading and its legend; empty if no line would be visible.
fn figure(heading: &str, plot: &Plot, names: &[(usize, &str)], is_wide: bool) -> Markup {
    let class = is_wide.then_some("wide");
    html! {
        @if let Some(drawing) = plot.draw() {
            figure class=[class] {
                figcaption { (heading) }
                @if !names.is_empty() { (legend(names)) }
                @if is_wide { div.scroll { (drawing) } } @else { (drawing) }
            }
        }
    }
}

fn legend(names: &[(usize, &str)]) -> Markup {
    html! {
        ul.legend { @for (style, name) in names { li { (swatch(*style)) (name) } } }
    }
}

/// All plots of a test, with one legend.
pub fn of_test(test: &Test, styles: &Styles) -> Markup {
    let mut plots = latencies(test, styles);
    plots.extend(courses(test, styles));
    let has_plot =
        |measured: &&Measured| !measured.latencies.is_empty() || !measured.course.is_empty();
    let systems = test
        .systems
        .iter()
        .filter(has_plot)
        .map(|measured| (styles.of_system(&measured.system), styles.name_of(&measured.system)));
    let systems: Vec<(usize, &str)> = systems.collect();
    html! {
        @if !plots.is_empty() {
            (legend(&systems))
            div.plots { @for plot in &plots { (plot) } }
        }
    }
}

/// One plot of latencies, by percentile, for each operation.
fn latencies(test: &Test, styles: &Styles) -> Vec<Markup> {
    let mut names: Vec<&str> = Vec::new();
    for curve in test.systems.iter().flat_map(|measured| &measured.latencies) {
        if !names.contains(&curve.name.as_str()) {
            names.push(&curve.name);
        }
    }
    let plot_of = |name: &&str| {
        let lines = test.systems.iter().flat_map(|measured| {
            let curves = measured.latencies.iter().filter(|curve| curve.name == *name);
            curves.map(|curve| line_of(curve, styles.of_system(&measured.system)))
        });
        curve_figure(&with_unit(&format!("latency: {name}"), "ms"), lines.collect())
    };
    names.iter().map(plot_of).filter(|markup| !markup.0.is_empty()).collect()
}

fn line_of(curve: &Curve, style: usize) -> Line {
    Line { style, points: curve.points.iter().copied().map(Some).collect(), has_dots: false }
}

fn curve_figure(heading: &str, lines: Vec<Line>) -> Markup {
    let plot = Plot {
        title: heading.to_string(),
        x: Axis { name: "percentile".to_string(), scale: Scale::Percentile },
        y: Axis { name: String::new(), scale: Scale::Logarithmic },
        lines,
        size: SMALL,
    };
    figure(heading, &plot, &[], false)
}

/// Plots of rate, latencies and resource usage over the time of the last round. The null server is
/// left out, because its high rate would flatten all other lines.
fn courses(test: &Test, styles: &Styles) -> Vec<Markup> {
    let of_clients: [(&str, Scale, Value); 3] = [
        ("answers and events, per s", Scale::Linear, |moment| moment.rate),
        ("median latency, ms", Scale::Logarithmic, |moment| moment.p50_ms),
        ("p99 latency, ms", Scale::Logarithmic, |moment| moment.p99_ms),
    ];
    let of_servers: [(&str, &str, UsedValue); 3] = [
        ("CPU of", "cores", |usage| usage.cpu_cores),
        ("memory of", "MiB", |usage| usage.resident_mib),
        ("data folders of", "MiB", |usage| usage.disk_mib),
    ];
    let shown = || test.systems.iter().filter(|measured| !styles.is_null(&measured.system));
    let line = |measured: &Measured, value: &dyn Fn(&Moment) -> Option<f64>| Line {
        style: styles.of_system(&measured.system),
        points: measured
            .course
            .iter()
            .map(|moment| value(moment).map(|value| (moment.at_s, value)))
            .collect(),
        has_dots: false,
    };
    let mut plots = Vec::new();
    for (heading, scale, value) in of_clients {
        let lines = shown().map(|measured| line(measured, &value)).collect();
        plots.push(course(heading, scale, lines));
    }
    for (what, unit, value) in of_servers {
        // If a system has several servers, each has a line, in the colour of the system.
        let are_apart = shown().any(|measured| server_count(measured) > 1);
        let lines = shown().flat_map(|measured| match server_count(measured) {
            0 => vec![line(measured, &|moment| value(&moment.all))],
            count => (0..count)
                .map(|at| line(measured, &|moment| moment.servers.get(at).and_then(value)))
                .collect(),
        });
        let whose = if are_apart { "each server" } else { "the servers" };
        plots.push(course(&format!("{what} {whose}, {unit}"), Scale::Linear, lines.collect()));
    }
    plots.into_iter().flatten().filter(|markup| !markup.0.is_empty()).collect()
}

/// How many servers of a system were measured apart; 0 if only their sum was.
fn server_count(measured: &Measured) -> usize {
    measured.course.iter().map(|moment| moment.servers.len()).max().unwrap_or(0)
}

/// One plot of a course; `None` if no line has two moments.
fn course(heading: &str, scale: Scale, lines: Vec<Line>) -> Option<Markup> {
    if !lines.iter().any(|line| line.points.iter().flatten().count() > 1) {
        return None;
    }
    let plot = Plot {
        title: heading.to_string(),
        x: Axis { name: "seconds".to_string(), scale: Scale::Linear },
        y: Axis { name: String::new(), scale },
        lines,
        size: SMALL,
    };
    Some(figure(heading, &plot, &[], false))
}

/// A plot of fdatasync times of the disk, before and after the run.
pub fn disk(before: &Curve, after: Option<&Curve>) -> Markup {
    let mut lines = vec![line_of(before, 0)];
    lines.extend(after.map(|curve| line_of(curve, 1)));
    let drawn = curve_figure("fdatasync of the disk, ms", lines);
    let mut names = vec![(0, "before the run")];
    names.extend(after.map(|_| (1, "after the run")));
    html! {
        @if !drawn.0.is_empty() {
            (legend(&names))
            div.plots { (drawn) }
        }
    }
}
