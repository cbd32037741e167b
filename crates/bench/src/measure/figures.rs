//! Formats figures of any kind: as a block of text for each server, followed by the ratios between
//! the first two servers; and in the JSON schema of results. Pure: it neither reads nor writes
//! anything.
//!
//! Each round gives one ratio, and the median of these ratios is the result. The *half width* of a
//! ratio says how precisely it is known: half the width of its 95 % interval, divided by the ratio.
//! 0.05 means that the ratio is known to 5 %.

use std::fmt::Write;

use results::ratio::{Ratio, Verdict};
use results::schema::{self, Measured};

use crate::measure::stats::{Latencies, Phase, median};

/// Which values of a figure are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Good {
    /// Higher values are better, as for a rate.
    More,
    /// Lower values are better, as for a cost or a wait.
    Less,
    /// No value is better. The figure only says how much was done, and is not compared.
    Neither,
}

/// One figure: a name, a unit, and a value for each round.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The name of the figure.
    pub name: &'static str,
    /// The unit; may be empty.
    pub unit: &'static str,
    /// One value for each round that counts; empty if the figure is unknown in any round.
    pub values: Vec<f64>,
    /// Which values are better.
    pub good: Good,
    /// Whether only the value of the first round is kept: see [`Figure::of_first_round`].
    pub is_of_first_round: bool,
}

impl From<Good> for schema::Good {
    fn from(good: Good) -> schema::Good {
        match good {
            Good::More => schema::Good::More,
            Good::Less => schema::Good::Less,
            Good::Neither => schema::Good::Neither,
        }
    }
}

impl Figure {
    /// A figure with one value; `None` means that it could not be measured.
    pub fn once(
        name: &'static str,
        unit: &'static str,
        value: impl Into<Option<f64>>,
        good: Good,
    ) -> Figure {
        let values = value.into().into_iter().collect();
        Figure { name, unit, values, good, is_of_first_round: false }
    }

    /// Marks a rate that was reached in open loop: it is the rate that was asked for, so it is not
    /// compared.
    pub fn of_open_loop(self) -> Figure {
        Figure { good: Good::Neither, ..self }
    }

    /// Keeps only the first round. A server does not give memory back that it once had, so later
    /// rounds would measure too little growth.
    pub fn of_first_round(self) -> Figure {
        Figure { is_of_first_round: true, ..self }
    }

    /// Adds the value of the next round. If the figure is unknown in one round, all its values go:
    /// else values of two servers would be paired across rounds.
    fn add_round(&mut self, next: &Figure) {
        assert_eq!(self.name, next.name, "all rounds have the same figures");
        if self.is_of_first_round || self.values.is_empty() {
            return;
        }
        match next.values.is_empty() {
            true => self.values.clear(),
            false => self.values.extend(&next.values),
        }
    }

    fn to_schema(&self) -> schema::Figure {
        schema::Figure {
            name: self.name.to_string(),
            unit: self.unit.to_string(),
            good: self.good.into(),
            values: self.values.clone(),
            is_headline: false,
        }
    }

    fn middle(&self) -> Option<f64> {
        (!self.values.is_empty()).then(|| median(&self.values))
    }
}

/// Three figures of a phase: its rate, and the CPU of the server and of the generator for each
/// operation. `names` are their names, in this order.
pub fn of_phase(names: [&'static str; 3], phase: &Phase) -> [Figure; 3] {
    let [rate, server, own] = names;
    [
        Figure::once(rate, "per s", phase.rate(), Good::More),
        Figure::once(server, "us", phase.server_us(), Good::Less),
        Figure::once(own, "us", phase.own_us(), Good::Neither),
    ]
}

/// Three figures, in ms: the median, the 99th percentile and the largest latency. `names` are their
/// names, in this order.
pub fn of_latencies(names: [&'static str; 3], latencies: &Latencies, good: Good) -> [Figure; 3] {
    let us = [latencies.percentile_us(50.0), latencies.percentile_us(99.0), latencies.max_us()];
    core::array::from_fn(|at| Figure::once(names[at], "ms", us[at] / 1_000.0, good))
}

/// Five figures, in ms: the mean, the median, the 90th and the 99th percentile, and the largest
/// latency. `names` are their names, in this order.
pub fn of_mean_and_latencies(names: [&'static str; 5], latencies: &Latencies) -> [Figure; 5] {
    let us = [
        latencies.mean_us(),
        latencies.percentile_us(50.0),
        latencies.percentile_us(90.0),
        latencies.percentile_us(99.0),
        latencies.max_us(),
    ];
    core::array::from_fn(|at| Figure::once(names[at], "ms", us[at] / 1_000.0, Good::Less))
}

/// All figures of one server.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// The name and version of the server.
    pub name: String,
    /// The address of the server.
    pub address: String,
    /// The figures; each server of a comparison has the same ones in the same order.
    pub figures: Vec<Figure>,
    /// Histograms of latencies with their names; each server of a comparison has the same ones in
    /// the same order.
    pub latencies: Vec<(&'static str, Latencies)>,
    /// Remarks about the server, one line each.
    pub notes: Vec<String>,
    /// Answers that were errors or wrong, and sessions that were lost.
    pub trouble: u64,
}

impl Block {
    /// Merges the blocks of all rounds of one server. A note that several rounds have is kept once.
    pub fn from_rounds(rounds: Vec<Block>) -> Block {
        let mut rounds = rounds.into_iter();
        let mut all = rounds.next().unwrap_or_default();
        for round in rounds {
            assert_eq!(all.figures.len(), round.figures.len(), "all rounds have the same figures");
            for (figure, next) in all.figures.iter_mut().zip(&round.figures) {
                figure.add_round(next);
            }
            for ((_, all), (_, next)) in all.latencies.iter_mut().zip(&round.latencies) {
                all.add(next);
            }
            let new = round.notes.into_iter().filter(|note| !all.notes.contains(note));
            let new: Vec<String> = new.collect();
            all.notes.extend(new);
            all.trouble += round.trouble;
        }
        all
    }

    /// Adds the errors and lost sessions of a phase to `trouble`, and a note about them if there
    /// are any.
    pub fn blame(&mut self, phase: &Phase) {
        let Phase { name, errors, lost, .. } = phase;
        self.trouble += errors + lost;
        if errors + lost > 0 {
            self.notes.push(format!("{name}: {errors} errors, {lost} sessions lost"));
        }
    }

    /// The block in the schema of all results. `headlines` names the figures that short tables
    /// show.
    pub fn measured(&self, system: &str, headlines: &[&str]) -> Measured {
        let figure = |it: &Figure| schema::Figure {
            is_headline: headlines.contains(&it.name),
            ..it.to_schema()
        };
        Measured {
            system: system.to_string(),
            figures: self.figures.iter().map(figure).collect(),
            latencies: self.latencies.iter().map(|(name, it)| it.curve(name)).collect(),
            course: Vec::new(),
            notes: self.notes.clone(),
            trouble: self.trouble,
        }
    }

    /// Like [`Block::measured`], with the one [`headline`] in short tables.
    pub fn of_comparison(&self, system: &str) -> Measured {
        let headline: Vec<&str> = headline(&self.figures).map(|it| it.name).into_iter().collect();
        self.measured(system, &headline)
    }
}

/// The figure that represents all others: the first rate, else the first figure that can be
/// compared.
fn headline(figures: &[Figure]) -> Option<&Figure> {
    let first = |good: Good| figures.iter().find(|it| it.good == good);
    first(Good::More).or_else(|| first(Good::Less))
}

/// Prints the blocks one below the other, then the ratios of the first two, if there are two.
pub fn table(blocks: &[Block]) -> String {
    let mut out = String::new();
    for block in blocks {
        let _ = writeln!(out, "{} ({})", block.name, block.address);
        for figure in &block.figures {
            line(&mut out, figure);
        }
        for note in &block.notes {
            let _ = writeln!(out, "  {note}");
        }
    }
    if let [first, second, ..] = blocks {
        let _ = writeln!(out, "ratios, {} to {}", second.name, first.name);
        for (one, other) in first.figures.iter().zip(&second.figures) {
            if let Some(ratio) = ratio(one, other) {
                let _ = writeln!(out, "  {:<34} {ratio}", one.name);
            }
        }
    }
    out
}

fn line(out: &mut String, figure: &Figure) {
    let shown = figure.middle().map_or("unknown".to_string(), number);
    let _ = write!(out, "  {:<34} {shown:>12} {}", figure.name, figure.unit);
    out.truncate(out.trim_end().len());
    if figure.is_of_first_round {
        out.push_str("  (first round)");
    } else if figure.values.len() > 1 {
        let (least, most) = range(&figure.values);
        let rounds = figure.values.len();
        let _ = write!(out, "  ({} to {} in {rounds} rounds)", number(least), number(most));
    }
    out.push('\n');
}

fn range(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    (least, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

/// Formats a value: three digits or so if it is small, no fraction if it is a large or a whole
/// number.
fn number(value: f64) -> String {
    match value.abs() {
        it if it == it.trunc() || it >= 1_000.0 => format!("{value:.0}"),
        it if it >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// How many times better the first server is, as text: the median of the ratios of each round,
/// their range, and their 95 % interval. `None` if the figure is not compared, or if in no round
/// both values are above 0.
pub fn ratio(first: &Figure, second: &Figure) -> Option<String> {
    let pairs = first.values.iter().zip(&second.values);
    let (Good::More | Good::Less) = first.good else { return None };
    let ratios: Vec<f64> = pairs
        .filter(|(one, other)| **one > 0.0 && **other > 0.0)
        .map(|(one, other)| if first.good == Good::More { one / other } else { other / one })
        .collect();
    if ratios.is_empty() {
        return None;
    }
    let shown = |ratio: f64| match first.good {
        Good::More => format!("{ratio:.2}x"),
        // Close to 1 one more digit is needed to show a difference of some percent.
        _ if (0.5..2.0).contains(&ratio) => format!("1/{ratio:.2}"),
        _ => format!("1/{ratio:.1}"),
    };
    let mut out = format!("{:>12}", shown(median(&ratios)));
    if ratios.len() > 1 {
        let ((least, most), pairs) = (range(&ratios), ratios.len());
        let _ = write!(out, "  ({} to {} in {pairs} pairs)", shown(least), shown(most));
    }
    let known = Ratio::of(&first.to_schema(), &second.to_schema());
    if let Some((low, high)) = known.and_then(|it| it.interval) {
        let _ = write!(out, ", 95 %: {} to {}", shown(low), shown(high));
    }
    if known.is_some_and(|it| it.verdict() == Verdict::NoDifference) {
        out.push_str(", no difference");
    }
    Some(out)
}

/// The half width of the ratio between the first two servers' [`headline`] figures. `None` if the
/// ratio has no interval.
pub fn ratio_width(blocks: &[Block]) -> Option<f64> {
    let [first, second, ..] = blocks else { return None };
    width_of(headline(&first.figures)?, second)
}

/// The largest half width among the ratios of the named figures. If some of the figures are rates,
/// only the rates count. `None` if a figure that counts has no interval.
pub fn widest_ratio(blocks: &[Block], names: &[&str]) -> Option<f64> {
    let [first, second, ..] = blocks else { return None };
    let named = first.figures.iter().filter(|it| names.contains(&it.name));
    let compared: Vec<&Figure> = named.filter(|it| it.good != Good::Neither).collect();
    let has_rate = compared.iter().any(|it| it.good == Good::More);
    let wanted = compared.into_iter().filter(|it| !has_rate || it.good == Good::More);
    widest(wanted.map(|it| width_of(it, second)))
}

/// The largest of some half widths; `None` if there are none, or one of them is `None`.
pub fn widest(widths: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    widths.collect::<Option<Vec<f64>>>()?.into_iter().max_by(f64::total_cmp)
}

/// The half width of the ratio between `ours` and the figure of the same name in `theirs`.
fn width_of(ours: &Figure, theirs: &Block) -> Option<f64> {
    half_width(ours, theirs.figures.iter().find(|it| it.name == ours.name)?)
}

/// The half width of the ratio of two figures: 0.05 means 5 %. `None` if the ratio has no interval.
pub fn half_width(ours: &Figure, theirs: &Figure) -> Option<f64> {
    Ratio::of(&ours.to_schema(), &theirs.to_schema())?.half_width()
}

/// The half width of a figure whose values are quotients already: 0.05 means 5 %.
pub fn quotient_width(figure: &Figure) -> Option<f64> {
    let one = Figure { values: vec![1.0; figure.values.len()], ..figure.clone() };
    half_width(figure, &one)
}

#[cfg(test)]
mod tests;
