//! Draws line plots as SVG. Colours come from the style sheet of the page.
//!
//! Invariant: a plot is only drawn if at least one of its lines is visible, and no two texts in it
//! overlap. Lines have the class `s0`, `s1`, ...; the style sheet gives each class a colour and a
//! dash pattern.
//!
//! Why not the crate `plotters`: its SVG has only whole pixels, one element for each dash of a
//! dashed line, a legend on top of the lines, and colours instead of classes, so that a plot could
//! not follow the theme of its page. Its labels overlap on our scales.

mod scale;

use maud::{Markup, PreEscaped, html};

use scale::Ruler;
pub use scale::{Axis, Scale};

/// The most points of a line; more could not be distinguished.
const POINTS_MAX: usize = 600;
/// How many line styles the style sheet has.
pub const STYLE_COUNT: usize = 8;
/// The font size of all texts, in units of the drawing.
const FONT: f64 = 11.0;
/// Half the length of the dash drawn for a point without neighbours.
const DASH: f64 = 7.0;
/// The most rows of labels below a plot whose places have long names.
const LABEL_ROWS_MAX: usize = 4;
/// The most characters of such a label.
const LABEL_CHARS_MAX: usize = 32;

/// A plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// A description of the plot for readers who cannot see it.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines; the first is on top.
    pub lines: Vec<Line>,
    /// The width and the height of the whole drawing.
    pub size: (f64, f64),
}

/// A line of a plot.
#[derive(Clone, Debug)]
pub struct Line {
    /// The number of the line's style.
    pub style: usize,
    /// The points from left to right; `None` breaks the line.
    pub points: Vec<Option<(f64, f64)>>,
    /// Whether each point has a dot.
    pub has_dots: bool,
}

/// The rectangle in which the lines are drawn.
#[derive(Clone, Copy, Debug)]
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Plot {
    /// The plot as SVG; `None` if no line would be visible.
    pub fn draw(&self) -> Option<Markup> {
        let all = || self.lines.iter().flat_map(|line| line.points.iter().flatten());
        let (xs, ys) = (all().map(|point| point.0), all().map(|point| point.1));
        let x = self.x.ruler(&xs.collect::<Vec<_>>(), self.size.0 / 70.0)?;
        let y = self.y.ruler(&ys.collect::<Vec<_>>(), self.size.1 / 26.0)?;
        let labels = Labels::of(&x, &y, self.size);
        let drawn: Vec<Markup> = self
            .lines
            .iter()
            .rev()
            .filter_map(|line| draw_line(line, &x, &y, labels.area))
            .collect();
        if drawn.is_empty() {
            return None;
        }
        let (width, height) = self.size;
        Some(html! {
            svg viewBox=(format!("0 0 {width} {height}")) role="img" aria-label=(self.title) {
                (grid(&x, &y, labels.area))
                (labels.draw(&self.x.name))
                @for line in &drawn { (line) }
            }
        })
    }
}

/// A short piece of a line in this style, for legends.
pub fn swatch(style: usize) -> Markup {
    html! {
        svg.swatch viewBox="0 0 34 10" aria-hidden="true" {
            path class=(class_of(style)) d="M 1 5 L 33 5" {}
        }
    }
}

/// The class of a style. Styles beyond the last one begin again with the first.
fn class_of(style: usize) -> String {
    format!("line s{}", style % STYLE_COUNT)
}

/// An upper bound of the width of a text, in units of the drawing.
fn width_of(text: &str) -> f64 {
    // Widths as parts of the font size, for the widest of the usual fonts without serifs.
    let part = |c: char| match c {
        c if " .,:;!|'-/()ijl".contains(c) => 0.42,
        c if "mwMW@%".contains(c) => 1.0,
        c if "<>=+#~^&".contains(c) => 0.85,
        'A'..='Z' => 0.79,
        c if c.is_ascii() => 0.65,
        _ => 1.05,
    };
    text.chars().map(|c| part(c) * FONT).sum()
}

/// The positions of all texts of a plot, and the area that is left for the lines.
struct Labels {
    area: Area,
    /// The labels below the plot: x, y, shown text, and full text.
    below: Vec<(f64, f64, String, String)>,
    /// The labels at the left of the plot: y and text.
    beside: Vec<(f64, String)>,
    /// The y of the horizontal axis' name.
    name_y: f64,
}

impl Labels {
    fn of(x: &Ruler, y: &Ruler, (width, height): (f64, f64)) -> Labels {
        let left = 10.0 + y.ticks.iter().map(|(_, text)| width_of(text)).fold(0.0, f64::max);
        let names: Vec<String> = x.ticks.iter().map(|(_, text)| cut(text)).collect();
        let widest = names.iter().map(|name| width_of(name)).fold(0.0, f64::max);
        let right = width - (widest / 2.0 + 2.0).max(10.0);
        let left = left.max(if x.has_all_labels { widest / 2.0 + 2.0 } else { 0.0 });
        let place = |at: f64| left + at * (right - left);
        // Named places need this many rows of labels. If that is too many, some labels are left
        // out.
        let gap = (right - left) / x.ticks.len().max(1) as f64;
        let needed =
            if x.has_all_labels { ((widest + 8.0) / gap).ceil().max(1.0) as usize } else { 1 };
        let stride = needed.div_ceil(LABEL_ROWS_MAX);
        let rows = needed.div_ceil(stride);
        let line = FONT * 1.35;
        // The lowest label at the left reaches below the corner of the axes.
        let corner = 4.0;
        let bottom = height - 6.0 - corner - line * (rows + 1) as f64;
        let area = Area { left, right, top: 8.0, bottom };
        let mut ends = vec![f64::NEG_INFINITY; rows];
        let mut below = Vec::new();
        for (index, ((at, text), name)) in x.ticks.iter().zip(names).step_by(stride).enumerate() {
            let (row, half) = (index % rows, width_of(&name) / 2.0);
            if place(*at) - half > ends[row] + 6.0 {
                ends[row] = place(*at) + half;
                let y = bottom + corner + line * (row + 1) as f64;
                below.push((place(*at), y, name, text.clone()));
            }
        }
        let height_at = |at: f64| bottom - at * (bottom - area.top);
        let mut beside: Vec<(f64, String)> = Vec::new();
        for (at, text) in &y.ticks {
            let is_free = beside.last().is_none_or(|(last, _)| last - height_at(*at) > line);
            if is_free {
                beside.push((height_at(*at), text.clone()));
            }
        }
        Labels { area, below, beside, name_y: height - 5.0 }
    }

    fn draw(&self, name: &str) -> Markup {
        let middle = (self.area.left + self.area.right) / 2.0;
        html! {
            @for (x, y, text, whole) in &self.below {
                text x=(number(*x)) y=(number(*y)) text-anchor="middle" {
                    (text) @if text != whole { title { (whole) } }
                }
            }
            @for (y, text) in &self.beside {
                text x=(number(self.area.left - 6.0)) y=(number(y + 0.35 * FONT)) text-anchor="end" {
                    (text)
                }
            }
            @if !name.is_empty() {
                text.name x=(number(middle)) y=(number(self.name_y)) text-anchor="middle" { (name) }
            }
        }
    }
}

/// A label, cut to at most [`LABEL_CHARS_MAX`] characters.
fn cut(text: &str) -> String {
    if text.chars().count() <= LABEL_CHARS_MAX {
        return text.to_string();
    }
    let kept: String = text.chars().take(LABEL_CHARS_MAX - 1).collect();
    format!("{}…", kept.trim_end())
}

/// Draws the grid and the two axes.
fn grid(x: &Ruler, y: &Ruler, area: Area) -> Markup {
    let Area { left, right, top, bottom } = area;
    let mut d = String::new();
    for (at, _) in &x.ticks {
        let at = number(left + at * (right - left));
        d += &format!("M {at} {} L {at} {} ", number(top), number(bottom));
    }
    for (at, _) in &y.ticks {
        let at = number(bottom - at * (bottom - top));
        d += &format!("M {} {at} L {} {at} ", number(left), number(right));
    }
    let (left, right) = (number(left), number(right));
    let (top, bottom) = (number(top), number(bottom));
    html! {
        path.grid d=(d.trim_end()) {}
        path.axis d=(format!("M {left} {top} L {left} {bottom} L {right} {bottom}")) {}
    }
}

/// Draws a line and its dots; `None` if no point has a place in the plot.
fn draw_line(line: &Line, x: &Ruler, y: &Ruler, area: Area) -> Option<Markup> {
    let place = |point: &(f64, f64)| {
        let (across, up) = (x.place(point.0)?, y.place(point.1)?);
        let width = area.right - area.left;
        Some((area.left + across * width, area.bottom - up * (area.bottom - area.top)))
    };
    let placed: Vec<Option<(f64, f64)>> =
        line.points.iter().map(|point| point.as_ref().and_then(place)).collect();
    let pieces: Vec<Vec<(f64, f64)>> = placed
        .split(Option::is_none)
        .map(|piece| thinned(&piece.iter().flatten().copied().collect::<Vec<_>>()))
        .filter(|piece| !piece.is_empty())
        .collect();
    if pieces.is_empty() {
        return None;
    }
    let d: Vec<String> = pieces.iter().map(|piece| path_of(piece, area)).collect();
    let dots = pieces.iter().flatten().filter(|_| line.has_dots);
    let dots = dots.map(|(x, y)| {
        format!(r#"<circle cx="{}" cy="{}" r="3"></circle>"#, number(*x), number(*y))
    });
    let dots: String = dots.collect();
    let class = class_of(line.style);
    Some(html! {
        path class=(class) d=(d.join(" ")) {}
        @if !dots.is_empty() { g class=(class) { (PreEscaped(dots)) } }
    })
}

/// The path through some points. A single point becomes a short dash.
fn path_of(points: &[(f64, f64)], area: Area) -> String {
    if let [(x, y)] = points {
        let (from, to) = ((x - DASH).max(area.left), (x + DASH).min(area.right));
        return format!("M {} {} L {} {}", number(from), number(*y), number(to), number(*y));
    }
    let steps = points.iter().zip(std::iter::once("M").chain(std::iter::repeat("L")));
    let steps: Vec<String> =
        steps.map(|((x, y), step)| format!("{step} {} {}", number(*x), number(*y))).collect();
    steps.join(" ")
}

/// Thins out a line that has too many points: keeps the highest and the lowest of each few
/// neighbours.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINTS_MAX {
        return points.to_vec();
    }
    let size = points.len().div_ceil(POINTS_MAX / 2);
    let extremes = |part: &[(f64, f64)]| {
        let by_height = |one: &usize, other: &usize| part[*one].1.total_cmp(&part[*other].1);
        let low = (0..part.len()).min_by(by_height).expect("a part has points");
        let high = (0..part.len()).max_by(by_height).expect("a part has points");
        [part[low.min(high)], part[low.max(high)]]
    };
    points.chunks(size).flat_map(extremes).collect()
}

/// A coordinate as text with one decimal.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_string()
}

#[cfg(test)]
mod tests;
