//! The ratio of two systems that were measured in turn, and how sure it is.
//!
//! The values of one round form a pair, so a drift of the machine hits both. The interval is the
//! percentile interval of a bootstrap over the pairs, of the mean of the logarithms; it is widened
//! for small numbers of pairs, which else give intervals that are too narrow (Hesterberg, "What
//! Teachers Should Know About the Bootstrap", 2015: the expanded percentile interval).

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::schema::{Figure, Good};

/// Samples of the bootstrap.
const SAMPLES: usize = 4_000;

/// The part of intervals that have the true ratio in them.
const CONFIDENCE: f64 = 0.95;

/// Pairs that an interval needs at least: of fewer, all samples lie too close together.
pub const PAIRS_MIN: usize = 6;

/// How many times better the first of two systems is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The geometric mean of the ratios of all pairs.
    pub value: f64,
    /// What it lies between, with a confidence of 95 %; none for fewer pairs than [`PAIRS_MIN`].
    pub interval: Option<(f64, f64)>,
    /// The least and the greatest ratio of a pair.
    pub range: (f64, f64),
    /// Pairs.
    pub pairs: usize,
    /// Whether more of the figure is better.
    pub is_rate: bool,
}

/// What a ratio says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The first system is better.
    Better,
    /// The first system is worse.
    Worse,
    /// The interval contains 1: no difference was found.
    NoDifference,
    /// There are too few pairs for an interval.
    TooFewPairs,
}

impl Ratio {
    /// The ratio of one figure of two systems. None: a ratio of it means nothing.
    pub fn of(first: &Figure, second: &Figure) -> Option<Ratio> {
        let is_rate = match first.good {
            Good::More => true,
            Good::Less => false,
            Good::Neither => return None,
        };
        let pairs = first.values.iter().zip(&second.values);
        let logarithms: Vec<f64> = pairs
            .filter(|(one, other)| **one > 0.0 && **other > 0.0)
            .map(|(one, other)| if is_rate { (one / other).ln() } else { (other / one).ln() })
            .collect();
        let least = logarithms.iter().copied().min_by(f64::total_cmp)?;
        let most = logarithms.iter().copied().max_by(f64::total_cmp)?;
        let interval = interval(&logarithms);
        Some(Ratio {
            value: mean(&logarithms).exp(),
            interval: interval.map(|(low, high)| (low.exp(), high.exp())),
            range: (least.exp(), most.exp()),
            pairs: logarithms.len(),
            is_rate,
        })
    }

    /// What it says.
    pub fn verdict(&self) -> Verdict {
        match self.interval {
            None => Verdict::TooFewPairs,
            Some((low, _)) if low > 1.0 => Verdict::Better,
            Some((_, high)) if high < 1.0 => Verdict::Worse,
            Some(_) => Verdict::NoDifference,
        }
    }

    /// The half width of the interval, as a part of the ratio; none without an interval.
    pub fn half_width(&self) -> Option<f64> {
        self.interval.map(|(low, high)| ((high / low).ln() / 2.0).exp_m1())
    }

    /// A ratio of rates as `2.50x`, one of costs as `1/2.5`: the second divided by the first.
    fn shown(&self, ratio: f64) -> String {
        if self.is_rate { format!("{ratio:.2}x") } else { format!("1/{ratio:.2}") }
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.shown(self.value))?;
        match self.interval {
            Some((low, high)) => write!(f, " [{}, {}]", self.shown(low), self.shown(high))?,
            None if self.pairs > 1 => {
                let (least, most) = self.range;
                let pairs = self.pairs;
                write!(f, " ({} to {} in {pairs} pairs)", self.shown(least), self.shown(most))?;
            }
            None => {}
        }
        if self.verdict() == Verdict::NoDifference {
            write!(f, " no difference")?;
        }
        Ok(())
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The interval of the mean of some values. The seed is fixed: equal values give equal intervals.
fn interval(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len();
    if count < PAIRS_MIN {
        return None;
    }
    let mut random = fastrand::Rng::with_seed(1);
    let mut means: Vec<f64> = (0..SAMPLES)
        .map(|_| (0..count).map(|_| values[random.usize(..count)]).sum::<f64>() / count as f64)
        .collect();
    means.sort_by(f64::total_cmp);
    let tail = expanded_tail(count);
    let low = ((SAMPLES as f64 * tail) as usize).min(SAMPLES - 1);
    Some((means[low], means[SAMPLES - 1 - low]))
}

/// The part of the samples that lies outside at each end.
fn expanded_tail(count: usize) -> f64 {
    let (freedom, count) = ((count - 1) as f64, count as f64);
    let student = StudentsT::new(0.0, 1.0, freedom).expect("there are several pairs");
    let quantile = student.inverse_cdf((1.0 - CONFIDENCE) / 2.0);
    let normal = Normal::new(0.0, 1.0).expect("the standard one exists");
    normal.cdf((count / (count - 1.0)).sqrt() * quantile)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(good: Good, values: &[f64]) -> Figure {
        Figure { good, values: values.to_vec(), ..Figure::default() }
    }

    #[test]
    fn a_ratio_says_how_many_times_better_the_first_is() {
        let (two, one) = ([2.0, 4.0, 6.0], [1.0, 2.0, 3.0]);
        let rates = Ratio::of(&figure(Good::More, &two), &figure(Good::More, &one)).unwrap();
        assert!((rates.value - 2.0).abs() < 1e-9);
        assert_eq!(rates.to_string(), "2.00x (2.00x to 2.00x in 3 pairs)");
        let costs = Ratio::of(&figure(Good::Less, &one), &figure(Good::Less, &two)).unwrap();
        assert!((costs.value - 2.0).abs() < 1e-9);
        assert_eq!(costs.verdict(), Verdict::TooFewPairs);
        let count = figure(Good::Neither, &two);
        assert_eq!(Ratio::of(&count, &count), None);
        assert_eq!(Ratio::of(&figure(Good::More, &[]), &figure(Good::More, &one)), None);
        assert_eq!(Ratio::of(&figure(Good::More, &[0.0]), &figure(Good::More, &one)), None);
    }

    /// Values that vary by 5 %, of a system that is `factor` times as fast.
    fn noisy(random: &mut fastrand::Rng, count: usize, factor: f64) -> Figure {
        let mut one = || factor * (1.0 + 0.05 * (random.f64() + random.f64() - 1.0));
        let values: Vec<f64> = (0..count).map(|_| one()).collect();
        figure(Good::More, &values)
    }

    /// How many of 400 comparisons find a difference.
    fn found(count: usize, factor: f64) -> usize {
        let mut random = fastrand::Rng::with_seed(7);
        let differs = |_: &u32| {
            let first = noisy(&mut random, count, factor);
            let second = noisy(&mut random, count, 1.0);
            Ratio::of(&first, &second).unwrap().verdict() != Verdict::NoDifference
        };
        (0..400).filter(differs).count()
    }

    #[test]
    fn equal_systems_differ_in_one_comparison_of_twenty() {
        for count in [PAIRS_MIN, 12, 30] {
            let found = found(count, 1.0);
            assert!((4..=36).contains(&found), "{count} pairs: {found} of 400");
        }
    }

    #[test]
    fn a_small_difference_is_found_with_enough_pairs() {
        assert!(found(60, 0.98) > 380);
        assert!(found(PAIRS_MIN, 0.98) < 200);
    }

    #[test]
    fn the_width_is_a_part_of_the_ratio() {
        let ratio = Ratio {
            value: 2.0,
            interval: Some((1.8, 2.2)),
            range: (1.0, 3.0),
            pairs: 9,
            is_rate: true,
        };
        assert_eq!(ratio.verdict(), Verdict::Better);
        assert!((ratio.half_width().unwrap() - 0.1055).abs() < 1e-3);
        let none = Ratio { interval: Some((0.99, 1.01)), value: 1.0, ..ratio };
        assert_eq!(none.to_string(), "1.00x [0.99x, 1.01x] no difference");
    }
}
