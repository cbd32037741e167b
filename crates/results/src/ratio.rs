//! Computes how many times better one system is than another, and a confidence interval for it.
//!
//! If two systems were measured in turn, their values of one round form a pair, so that a drift of
//! the machine affects both. The interval of the ratio is then computed from the logarithms of the
//! pairs' ratios: it is the percentile interval of a bootstrap of their mean. For few pairs that
//! interval is too narrow, so it is widened (Hesterberg, "What Teachers Should Know About the
//! Bootstrap", 2015: the expanded percentile interval). A few slow rounds stretch the bootstrap's
//! interval on one side and shorten it on the other. So each end is moved out to that of Student's
//! interval of the same logarithms, if Student's reaches farther. Three to five pairs are too few
//! for a bootstrap and have Student's interval alone.
//!
//! The values of two runs do not form pairs. Then the bootstrap draws from each side separately,
//! and the degrees of freedom are those of Welch's test.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::schema::{Figure, Good};

/// How many samples a bootstrap draws.
const SAMPLES: usize = 4_000;

/// The share of intervals that contain the true ratio.
const CONFIDENCE: f64 = 0.95;

/// The least number of pairs for an interval.
pub const PAIRS_MIN: usize = 3;

/// The least number of pairs for a bootstrap, or of values on each side if they do not form pairs.
/// Fewer give samples that lie too close together.
pub const BOOTSTRAP_MIN: usize = 6;

/// How many times better the first of two systems is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The geometric mean of the pairs' ratios; without pairs, the ratio of the geometric means.
    /// Above 1 the first system is better, for costs, too.
    pub value: f64,
    /// The interval of `value` with a confidence of 95 %. `None` if there are fewer than
    /// [`PAIRS_MIN`] pairs, or, without pairs, fewer than [`BOOTSTRAP_MIN`] values on a side.
    pub interval: Option<(f64, f64)>,
    /// The least and the greatest ratio of a pair; without pairs, of any two values.
    pub range: (f64, f64),
    /// How many pairs there are; without pairs, how many values the smaller side has.
    pub pairs: usize,
    /// Whether the two values of one round form a pair.
    pub is_paired: bool,
    /// Whether more of the figure is better (a rate); false if less is better (a cost).
    pub is_rate: bool,
}

/// The verdict on the first system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is better than the second.
    Better,
    /// It is worse than the second.
    Worse,
    /// The interval contains 1: no difference was found.
    NoDifference,
    /// There is no interval, because there are too few pairs.
    TooFewPairs,
}

impl Ratio {
    /// The ratio of a figure of two systems that were measured in turn. `None` if neither more nor
    /// less of the figure is better, or if no pair has two positive values.
    pub fn of(first: &Figure, second: &Figure) -> Option<Ratio> {
        let is_rate = is_rate(first.good)?;
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
            is_paired: true,
            is_rate,
        })
    }

    /// The ratio of a figure of two runs, whose rounds are independent. `None` if neither more nor
    /// less of the figure is better, or if a side has no positive value.
    pub fn of_unpaired(first: &Figure, second: &Figure) -> Option<Ratio> {
        let is_rate = is_rate(first.good)?;
        let (better, worse) = if is_rate { (first, second) } else { (second, first) };
        let logarithms = |figure: &Figure| -> Vec<f64> {
            figure.values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect()
        };
        let (better, worse) = (logarithms(better), logarithms(worse));
        let ends = |values: &[f64]| {
            let least = values.iter().copied().min_by(f64::total_cmp)?;
            Some((least, values.iter().copied().max_by(f64::total_cmp)?))
        };
        let ((low, high), (least, most)) = (ends(&better)?, ends(&worse)?);
        let interval = unpaired_interval(&better, &worse);
        Some(Ratio {
            value: (mean(&better) - mean(&worse)).exp(),
            interval: interval.map(|(low, high)| (low.exp(), high.exp())),
            range: ((low - most).exp(), (high - least).exp()),
            pairs: better.len().min(worse.len()),
            is_paired: false,
            is_rate,
        })
    }

    /// The first figure divided by the second, with the interval. For a cost, above 1 is worse.
    pub fn quotient(&self) -> (f64, Option<(f64, f64)>) {
        if self.is_rate {
            return (self.value, self.interval);
        }
        (1.0 / self.value, self.interval.map(|(low, high)| (1.0 / high, 1.0 / low)))
    }

    /// The verdict on the first system.
    pub fn verdict(&self) -> Verdict {
        match self.interval {
            None => Verdict::TooFewPairs,
            Some((low, _)) if low > 1.0 => Verdict::Better,
            Some((_, high)) if high < 1.0 => Verdict::Worse,
            Some(_) => Verdict::NoDifference,
        }
    }

    /// Half the width of the interval, as a part of the ratio; `None` if there is no interval.
    pub fn half_width(&self) -> Option<f64> {
        self.interval.map(|(low, high)| ((high / low).ln() / 2.0).exp_m1())
    }

    /// The first figure divided by the second as text: `2.50x`, or `1/2.50` for a cost that is
    /// lower. `ratio` is `value` or an end of its interval.
    pub fn shown(&self, ratio: f64) -> String {
        let decimals = |value: f64| if value < 9.995 { 2 } else { usize::from(value < 99.95) };
        if !self.is_rate && ratio >= 1.0 {
            return format!("1/{ratio:.0$}", decimals(ratio));
        }
        let quotient = if self.is_rate { ratio } else { 1.0 / ratio };
        format!("{quotient:.0$}x", decimals(quotient))
    }

    /// Both ends of an interval as text, the one with the lower quotient first.
    pub fn shown_ends(&self, (low, high): (f64, f64)) -> (String, String) {
        let (low, high) = if self.is_rate { (low, high) } else { (high, low) };
        (self.shown(low), self.shown(high))
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.shown(self.value))?;
        match self.interval {
            Some(ends) => {
                let (low, high) = self.shown_ends(ends);
                write!(f, " [{low}, {high}]")?;
            }
            None if self.pairs > 1 => {
                let (least, most) = self.shown_ends(self.range);
                let pairs = if self.is_paired { "pairs" } else { "rounds" };
                write!(f, " ({least} to {most} in {} {pairs})", self.pairs)?;
            }
            None => {}
        }
        if self.verdict() == Verdict::NoDifference {
            write!(f, " no difference")?;
        }
        Ok(())
    }
}

/// Whether more of a figure is better (true) or less (false); `None` if neither.
fn is_rate(good: Good) -> Option<bool> {
    match good {
        Good::More => Some(true),
        Good::Less => Some(false),
        Good::Neither => None,
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The interval of the mean of some values; `None` for too few. The seed is fixed, so equal values
/// give equal intervals.
fn interval(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len();
    if count < PAIRS_MIN {
        return None;
    }
    let freedom = (count - 1) as f64;
    let (low, high) = student_interval(values, freedom);
    if count < BOOTSTRAP_MIN {
        return Some((low, high));
    }
    let mut random = fastrand::Rng::with_seed(1);
    let means = (0..SAMPLES).map(|_| resampled_mean(&mut random, values)).collect();
    let ends = middle_of(means, expanded_tail(freedom, count as f64 / freedom));
    Some((low.min(ends.0), high.max(ends.1)))
}

/// Student's interval of the mean of some values.
fn student_interval(values: &[f64], freedom: f64) -> (f64, f64) {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let half = -quantile(freedom) * (squares / freedom / values.len() as f64).sqrt();
    (mean - half, mean + half)
}

/// The interval of the difference of two sides' means; each side is drawn from separately.
fn unpaired_interval(first: &[f64], second: &[f64]) -> Option<(f64, f64)> {
    if first.len().min(second.len()) < BOOTSTRAP_MIN {
        return None;
    }
    let mut random = fastrand::Rng::with_seed(1);
    let mut difference =
        || resampled_mean(&mut random, first) - resampled_mean(&mut random, second);
    let differences = (0..SAMPLES).map(|_| difference()).collect();
    let (freedom, shortfall) = welch(first, second);
    Some(middle_of(differences, expanded_tail(freedom, shortfall)))
}

/// The mean of one bootstrap sample: as many values as there are, each drawn at random from all.
fn resampled_mean(random: &mut fastrand::Rng, values: &[f64]) -> f64 {
    let count = values.len();
    (0..count).map(|_| values[random.usize(..count)]).sum::<f64>() / count as f64
}

/// The ends of the sorted samples after cutting off a part `tail` of them at each end.
fn middle_of(mut samples: Vec<f64>, tail: f64) -> (f64, f64) {
    samples.sort_by(f64::total_cmp);
    let low = ((SAMPLES as f64 * tail) as usize).min(SAMPLES - 1);
    (samples[low], samples[SAMPLES - 1 - low])
}

/// The degrees of freedom of a difference of two means (Welch and Satterthwaite), and how many
/// times larger its variance is than in a bootstrap, which divides by n in place of n - 1.
fn welch(first: &[f64], second: &[f64]) -> (f64, f64) {
    let parts = [first, second].map(|values| {
        let (count, mean) = (values.len() as f64, mean(values));
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (squares / (count - 1.0) / count, count)
    });
    let total: f64 = parts.iter().map(|(variance, _)| variance).sum();
    let spread: f64 = parts.iter().map(|(variance, n)| variance * variance / (n - 1.0)).sum();
    if total * total == 0.0 || spread == 0.0 {
        // All values of a side are equal, so the interval is one point in any case.
        return ((first.len() + second.len() - 2) as f64, 1.0);
    }
    let sampled: f64 = parts.iter().map(|(variance, n)| variance * (n - 1.0) / n).sum();
    (total * total / spread, total / sampled)
}

/// The part of the samples to cut off at each end. `shortfall` says how many times larger the true
/// variance is than that of the samples.
fn expanded_tail(freedom: f64, shortfall: f64) -> f64 {
    let normal = Normal::new(0.0, 1.0).expect("the standard one exists");
    normal.cdf(shortfall.sqrt() * quantile(freedom))
}

/// The lower quantile of Student's t for an interval with our confidence; negative.
fn quantile(freedom: f64) -> f64 {
    let student = StudentsT::new(0.0, 1.0, freedom).expect("there are several values");
    student.inverse_cdf((1.0 - CONFIDENCE) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(good: Good, values: &[f64]) -> Figure {
        Figure { good, values: values.to_vec(), ..Figure::default() }
    }

    #[test]
    fn a_ratio_says_how_many_times_better_the_first_is() {
        let (two, one) = ([2.0, 4.0], [1.0, 2.0]);
        let rates = Ratio::of(&figure(Good::More, &two), &figure(Good::More, &one)).unwrap();
        assert!((rates.value - 2.0).abs() < 1e-9);
        assert_eq!(rates.to_string(), "2.00x (2.00x to 2.00x in 2 pairs)");
        let costs = Ratio::of(&figure(Good::Less, &one), &figure(Good::Less, &two)).unwrap();
        assert!((costs.value - 2.0).abs() < 1e-9);
        assert_eq!(costs.verdict(), Verdict::TooFewPairs);
        let count = figure(Good::Neither, &two);
        assert_eq!(Ratio::of(&count, &count), None);
        assert_eq!(Ratio::of(&figure(Good::More, &[]), &figure(Good::More, &one)), None);
        assert_eq!(Ratio::of(&figure(Good::More, &[0.0]), &figure(Good::More, &one)), None);
    }

    /// Values that vary by 5 %, of a system that is `factor` times as fast as the other.
    fn noisy(random: &mut fastrand::Rng, count: usize, factor: f64) -> Figure {
        let mut one = || factor * (1.0 + 0.05 * (random.f64() + random.f64() - 1.0));
        let values: Vec<f64> = (0..count).map(|_| one()).collect();
        figure(Good::More, &values)
    }

    type Compare = fn(&Figure, &Figure) -> Option<Ratio>;

    /// How many of 400 comparisons find a difference. `counts` are the numbers of values of the two
    /// sides.
    fn found(compare: Compare, counts: (usize, usize), factor: f64) -> usize {
        let mut random = fastrand::Rng::with_seed(7);
        let differs = |_: &u32| {
            let first = noisy(&mut random, counts.0, factor);
            let second = noisy(&mut random, counts.1, 1.0);
            compare(&first, &second).unwrap().verdict() != Verdict::NoDifference
        };
        (0..400).filter(differs).count()
    }

    #[test]
    fn equal_systems_differ_in_one_comparison_of_twenty() {
        for count in [PAIRS_MIN, 5, BOOTSTRAP_MIN, 12, 30] {
            let found = found(Ratio::of, (count, count), 1.0);
            assert!((4..=36).contains(&found), "{count} pairs: {found} of 400");
        }
    }

    #[test]
    fn equal_runs_differ_in_one_comparison_of_twenty() {
        for counts in [(BOOTSTRAP_MIN, BOOTSTRAP_MIN), (BOOTSTRAP_MIN, 24), (12, 12)] {
            let found = found(Ratio::of_unpaired, counts, 1.0);
            assert!((8..=36).contains(&found), "{counts:?} rounds: {found} of 400");
        }
    }

    #[test]
    fn rounds_of_two_runs_are_no_pairs() {
        // Both sides drift alike: pairs cancel the drift, two runs do not.
        let drifted = |factor: f64| {
            let values: Vec<f64> =
                (0..12).map(|at| factor * (100.0 + 4.0 * f64::from(at))).collect();
            figure(Good::More, &values)
        };
        let (first, second) = (drifted(0.98), drifted(1.0));
        assert_eq!(Ratio::of(&first, &second).unwrap().verdict(), Verdict::Worse);
        let unpaired = Ratio::of_unpaired(&first, &second).unwrap();
        assert_eq!(unpaired.verdict(), Verdict::NoDifference);
        assert!((unpaired.value - 0.98).abs() < 1e-9);
        let (low, high) = unpaired.interval.unwrap();
        assert!(low < 0.9 && high > 1.05, "{low} to {high}");
    }

    #[test]
    fn costs_of_two_runs_are_better_when_lower() {
        let (one, two) = (figure(Good::Less, &[1.0; 6]), figure(Good::Less, &[2.0; 7]));
        let ratio = Ratio::of_unpaired(&one, &two).unwrap();
        assert_eq!((ratio.verdict(), ratio.pairs), (Verdict::Better, 6));
        let (quotient, interval) = ratio.quotient();
        assert!((quotient - 0.5).abs() < 1e-9 && interval.unwrap().1 < 0.51);
        assert_eq!(Ratio::of_unpaired(&two, &one).unwrap().to_string(), "2.00x [2.00x, 2.00x]");
        let few = Ratio::of_unpaired(&figure(Good::Less, &[1.0, 1.6]), &two).unwrap();
        assert_eq!(few.verdict(), Verdict::TooFewPairs);
        assert_eq!(few.to_string(), "1/1.58 (1/2.00 to 1/1.25 in 2 rounds)");
        assert_eq!(Ratio::of_unpaired(&figure(Good::Less, &[]), &two), None);
    }

    /// One round of ten is a fifth slower, on either side.
    #[test]
    fn slow_rounds_are_no_difference() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut side = || {
            let mut one = || if random.u8(..10) == 0 { 0.8 } else { 1.0 - 0.02 * random.f64() };
            let values: Vec<f64> = (0..8).map(|_| one()).collect();
            figure(Good::More, &values)
        };
        let differs =
            |_: &u32| Ratio::of(&side(), &side()).unwrap().verdict() != Verdict::NoDifference;
        let found = (0..1_000).filter(differs).count();
        assert!(found <= 50, "{found} of 1000");
    }

    #[test]
    fn three_pairs_have_the_interval_of_student() {
        let one = figure(Good::More, &[1.0; 3]);
        let ratio = Ratio::of(&figure(Good::More, &[1.8, 2.0, 2.2]), &one).unwrap();
        // Computed with t = 4.3027, the 97.5 % quantile for two degrees of freedom.
        let (low, high) = ratio.interval.unwrap();
        assert!((low - 1.5534).abs() < 1e-4 && (high - 2.5578).abs() < 1e-4, "{low} to {high}");
        assert_eq!(ratio.verdict(), Verdict::Better);
    }

    #[test]
    fn a_small_difference_is_found_with_enough_pairs() {
        assert!(found(Ratio::of, (60, 60), 0.98) > 380);
        assert!(found(Ratio::of, (BOOTSTRAP_MIN, BOOTSTRAP_MIN), 0.98) < 200);
        assert!(found(Ratio::of_unpaired, (20, 20), 0.97) > 380);
    }

    #[test]
    fn the_width_is_a_part_of_the_ratio() {
        let ratio = Ratio {
            value: 2.0,
            interval: Some((1.8, 2.2)),
            range: (1.0, 3.0),
            pairs: 9,
            is_paired: true,
            is_rate: true,
        };
        assert_eq!(ratio.verdict(), Verdict::Better);
        assert!((ratio.half_width().unwrap() - 0.1055).abs() < 1e-3);
        let none = Ratio { interval: Some((0.99, 1.01)), value: 1.0, ..ratio };
        assert_eq!(none.to_string(), "1.00x [0.99x, 1.01x] no difference");
    }
}
