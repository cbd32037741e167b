//! The scales of plots: where a value is between the ends of an axis, and which values get a label.

use crate::number::shown;

/// An axis of a plot.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The quantity on the axis, with its unit; empty if the title of the plot names it.
    pub name: String,
    /// How values are laid out along the axis.
    pub scale: Scale,
}

/// How values are laid out along an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Evenly, from 0 or from the least value if that is negative.
    Linear,
    /// By logarithm; values of 0 and below have no place.
    Logarithmic,
    /// Percentiles, by the logarithm of the percentage above them, as HDR histograms are drawn.
    Percentile,
    /// Named places, each with a label; a value is the index of a place.
    Places(Vec<String>),
}

/// A scale with known ends, for one axis of one plot.
#[derive(Clone, Debug)]
pub struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    /// The labels: position from 0 to 1, and text.
    pub ticks: Vec<(f64, String)>,
    /// Whether every label should be shown, as far as there is room.
    pub has_all_labels: bool,
}

impl Axis {
    /// The ruler for these values; `None` if no value has a place. `tick_count` is how many labels
    /// fit.
    pub fn ruler(&self, values: &[f64], tick_count: f64) -> Option<Ruler> {
        let inner: Vec<f64> =
            values.iter().filter_map(|value| transformed(&self.scale, *value)).collect();
        let finite = inner.iter().copied().filter(|value| value.is_finite());
        let least = finite.clone().min_by(f64::total_cmp);
        let most = finite.max_by(f64::total_cmp);
        let (low, high, ticks) = match &self.scale {
            Scale::Linear => linear(least?, most?, tick_count),
            Scale::Logarithmic => logarithmic(least?, most?, tick_count),
            Scale::Percentile if inner.is_empty() => return None,
            Scale::Percentile => {
                percentile(most.unwrap_or_default(), inner.contains(&f64::INFINITY))
            }
            Scale::Places(names) => {
                least?;
                let ticks = names.iter().enumerate().map(|(at, name)| (at as f64, name.clone()));
                // Half a place at both ends keeps the labels away from the edges of the plot.
                (-0.5, names.len() as f64 - 0.5, ticks.collect())
            }
        };
        let place = |value: f64| (value - low) / (high - low);
        Some(Ruler {
            scale: self.scale.clone(),
            low,
            high,
            ticks: ticks.into_iter().map(|(value, text)| (place(value), text)).collect(),
            has_all_labels: matches!(self.scale, Scale::Places(_)),
        })
    }
}

impl Ruler {
    /// The position of a value, from 0 to 1; `None` if it has no place on the scale.
    pub fn place(&self, value: f64) -> Option<f64> {
        let inner = transformed(&self.scale, value)?;
        Some(((inner - self.low) / (self.high - self.low)).clamp(0.0, 1.0))
    }
}

/// A value in the units of the scale; infinite only for the 100th percentile. `None` if it has no
/// place.
fn transformed(scale: &Scale, value: f64) -> Option<f64> {
    if !value.is_finite() {
        return None;
    }
    match scale {
        Scale::Linear | Scale::Places(_) => Some(value),
        Scale::Logarithmic => (value > 0.0).then(|| value.log10()),
        Scale::Percentile if value >= 100.0 => Some(f64::INFINITY),
        Scale::Percentile => (value >= 0.0).then(|| -(1.0 - value / 100.0).log10()),
    }
}

type Ends = (f64, f64, Vec<(f64, String)>);

/// The ends and the ticks of a linear scale, at 1, 2 or 5 times a power of ten.
fn linear(least: f64, most: f64, tick_count: f64) -> Ends {
    let low = least.min(0.0);
    let high = if most > low { most } else { low + 1.0 };
    let rough = (high - low) / tick_count.max(1.0);
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0].iter().map(|part| part * power).find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
    let ticks = (first..=last).map(|count| count as f64 * step);
    let ticks = ticks.map(|value| (value, shown(value))).collect();
    (first as f64 * step, last as f64 * step, ticks)
}

/// The ends and the ticks of a logarithmic scale. The ticks are at powers of ten or, if there is
/// room, at 1, 2 and 5 times the powers of ten.
fn logarithmic(least: f64, most: f64, tick_count: f64) -> Ends {
    let (first, last) = (least.floor() as i32, most.ceil() as i32);
    let fine = (first..=last.max(first + 1))
        .flat_map(|decade| [1.0, 2.0, 5.0].map(|part| (part * 10f64.powi(decade)).log10()));
    let fine: Vec<f64> = fine.collect();
    let margin = 1e-9;
    let from = fine.iter().rposition(|tick| *tick <= least + margin).unwrap_or(0);
    let to = fine.iter().position(|tick| *tick >= most - margin).unwrap_or(fine.len() - 1);
    let (from, to) = if from < to { (from, to) } else { (from.saturating_sub(1), from + 1) };
    let to = to.min(fine.len() - 1);
    let (low, high) = (fine[from], fine[to]);
    let ticks: Vec<f64> = if (to - from) as f64 <= tick_count {
        fine[from..=to].to_vec()
    } else {
        let (first, last) = ((low - margin).ceil() as i32, (high + margin).floor() as i32);
        let step = (f64::from(last - first) / tick_count.max(1.0)).ceil().max(1.0) as usize;
        (first..=last).step_by(step).map(f64::from).collect()
    };
    (low, high, ticks.into_iter().map(|tick| (tick, shown(10f64.powf(tick)))).collect())
}

/// The ends and the ticks of percentiles: 0, 50, 90, 99 and so on, as far as the values reach. The
/// greatest value, if it is known, has a place of its own behind them.
fn percentile(most: f64, has_greatest: bool) -> Ends {
    let nines = (most - 1e-9).ceil().clamp(2.0, 7.0) as usize;
    let mut ticks = vec![(0.0, "0".to_string()), (2f64.log10(), "50".to_string())];
    for count in 1..=nines {
        let text = match count {
            1 => "90".to_string(),
            2 => "99".to_string(),
            count => format!("99.{}", "9".repeat(count - 2)),
        };
        ticks.push((count as f64, text));
    }
    let mut high = nines as f64;
    if has_greatest {
        high += 0.8;
        ticks.push((high, "max".to_string()));
    }
    (0.0, high, ticks)
}
