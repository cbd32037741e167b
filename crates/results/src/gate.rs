//! Decides whether a new run is as good as an old one: a gate against regressions.
//!
//! A figure has *regressed* if it is worse by more than the limit that the user chose, and if the
//! confidence interval of the change excludes "no change". If both runs measured the same peer, the
//! ratios of our figures to the peer's are compared, so a drift of the machine between the runs
//! cancels. The gate fails if a headline figure has regressed, if the new run lacks one that the
//! old run has, or if no figure can be judged. A figure that cannot be judged does not fail the
//! gate if others can be.

use std::fmt::{Display, Formatter};

use crate::matched::{Difference, Key, Matching, differences, matching};
use crate::number::change;
use crate::ratio::Ratio;
use crate::rows::reservations;
use crate::schema::{Figure, Results, Role, System};

/// The verdict on one figure: how the new run compares with the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The new value is worse by more than the limit, and the interval excludes "no change".
    Regressed,
    /// The new value is better by more than the limit, and the interval excludes "no change".
    Improved,
    /// No difference above the limit was found.
    NoDifference,
    /// There are too few rounds to judge the figure.
    CannotBeTold,
    /// The machines or configurations of the two runs differ, and no peer was measured in both.
    Elsewhere,
}

/// A headline figure of our system, in both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The figure's group, test, system and name, as [`Key`] shows them.
    pub name: String,
    /// The name of the peer by whose figures both values were divided; `None` if the values
    /// themselves were compared.
    pub peer: Option<String>,
    /// How many times better the new run is; `None` if the figures cannot be compared.
    pub ratio: Option<Ratio>,
    /// The verdict on the figure.
    pub verdict: Verdict,
}

/// The result of comparing two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// How much worse a figure may become: 0.05 means 5 %.
    pub limit: f64,
    /// The headline figures of our systems that both runs have.
    pub rows: Vec<Row>,
    /// The headline figures of our systems that only the old run has.
    pub missing: Vec<String>,
    /// Differences of machine or configuration. If there are any, a figure is judged only as a
    /// ratio to a peer's figure.
    pub differences: Vec<Difference>,
}

/// Compares the headline figures of our systems in two runs. `limit` is how much worse a figure may
/// become.
///
/// # Errors
/// A run was scaled down, has doubts, or has errors of our server, so its figures mean nothing; or
/// the limit is negative or no number.
pub fn check(old: &Results, new: &Results, limit: f64) -> anyhow::Result<Gate> {
    anyhow::ensure!(limit.is_finite() && limit >= 0.0, "the limit {limit} is no part of a value");
    for (when, run) in [("old", old), ("new", new)] {
        if let Some(reservation) = reservations(run).first() {
            anyhow::bail!("the {when} run cannot be compared. {reservation}");
        }
    }
    let is_ours = |key: &Key| {
        let system = old.system(key.system);
        system.is_some_and(|system| system.role == Role::Ours)
    };
    let matching = matching(old, new);
    let ours = matching.both.iter().filter(|(key, old, _)| old.is_headline && is_ours(key));
    let serious: Vec<Difference> =
        differences(old, new).into_iter().filter(|one| one.is_serious).collect();
    let rows = ours.map(|(key, old_figure, new_figure)| {
        let peer = peer_of(old, new, &matching, key);
        let mut row = row(key, (*old_figure, *new_figure), peer, limit);
        if row.peer.is_none() && !serious.is_empty() {
            row.verdict = Verdict::Elsewhere;
        }
        row
    });
    let rows = rows.collect();
    let lost = matching.only_old.iter().filter(|(key, old)| old.is_headline && is_ours(key));
    Ok(Gate {
        limit,
        rows,
        missing: lost.map(|(key, _)| key.to_string()).collect(),
        differences: serious,
    })
}

impl Gate {
    /// Whether nothing regressed, nothing is missing, and at least one figure could be judged.
    pub fn passes(&self) -> bool {
        let is_told =
            |row: &Row| !matches!(row.verdict, Verdict::CannotBeTold | Verdict::Elsewhere);
        self.count(Verdict::Regressed) == 0
            && self.missing.is_empty()
            && self.rows.iter().any(is_told)
    }

    /// How many rows have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Verdict::Regressed => "REGRESSED",
            Verdict::Improved => "improved",
            Verdict::NoDifference => "no difference",
            Verdict::CannotBeTold => "cannot be told: too few rounds",
            Verdict::Elsewhere => "cannot be told: the runs differ, and no peer is in both",
        })
    }
}

impl Display for Gate {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        for difference in &self.differences {
            writeln!(f, "warning: the runs differ in {difference}")?;
        }
        let width = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or_default();
        for row in &self.rows {
            let name = &row.name;
            writeln!(f, "{name:width$}  {:34}  {}", row.change_text(), row.verdict_text())?;
        }
        for name in &self.missing {
            writeln!(f, "{name:width$}  {:34}  MISSING in the new run", "")?;
        }
        let counts = [
            (self.count(Verdict::Regressed), "regressed"),
            (self.missing.len(), "missing"),
            (self.count(Verdict::Improved), "improved"),
            (self.count(Verdict::NoDifference), "without difference"),
            (
                self.count(Verdict::CannotBeTold) + self.count(Verdict::Elsewhere),
                "that cannot be told",
            ),
        ];
        let counts: Vec<String> =
            counts.iter().map(|(count, what)| format!("{count} {what}")).collect();
        let end = if self.passes() { "passed" } else { "FAILED" };
        let limit = self.limit * 100.0;
        write!(f, "{end}, with a limit of {limit} %: {}", counts.join(", "))
    }
}

impl Row {
    /// The change of the figure in percent, with its interval.
    fn change_text(&self) -> String {
        let Some(ratio) = &self.ratio else { return "-".to_string() };
        let (quotient, interval) = ratio.quotient();
        match interval {
            Some((low, high)) => {
                format!("{} [{}, {}]", change(quotient), change(low), change(high))
            }
            None => change(quotient),
        }
    }

    fn verdict_text(&self) -> String {
        match &self.peer {
            Some(peer) => format!("{}, beside {peer}", self.verdict),
            None => self.verdict.to_string(),
        }
    }
}

/// The first peer that is the same in both runs and has this figure in both: its name, its old
/// figure and its new one.
fn peer_of<'a>(
    old: &'a Results,
    new: &'a Results,
    matching: &Matching<'a>,
    key: &Key,
) -> Option<(&'a str, &'a Figure, &'a Figure)> {
    let is_same = |one: &&System| {
        new.system(&one.id).is_some_and(|other| {
            let about = |it: &System| (it.name.clone(), it.build.clone(), it.configuration.clone());
            one.role == other.role && about(one) == about(other)
        })
    };
    let peers = old.systems.iter().filter(|system| system.role == Role::Peer).filter(is_same);
    let mut found = peers.filter_map(|peer| {
        let of_peer = Key { system: &peer.id, ..*key };
        let both = matching.both.iter().find(|(known, _, _)| *known == of_peer)?;
        Some((peer.name.as_str(), both.1, both.2))
    });
    found.next()
}

/// Compares the old and the new figure. Each is first divided by the peer's figure, if there is
/// one.
fn row(
    key: &Key,
    (old, new): (&Figure, &Figure),
    peer: Option<(&str, &Figure, &Figure)>,
    limit: f64,
) -> Row {
    let divided = peer.map(|(_, old_peer, new_peer)| (over(old, old_peer), over(new, new_peer)));
    let ratio = match &divided {
        Some((old, new)) => Ratio::of_unpaired(new, old),
        None => Ratio::of_unpaired(new, old),
    };
    Row {
        name: key.to_string(),
        peer: peer.map(|(name, _, _)| name.to_string()),
        verdict: verdict(ratio.as_ref(), limit),
        ratio,
    }
}

/// Divides each round's value of a figure by the other figure's value of that round.
fn over(figure: &Figure, other: &Figure) -> Figure {
    let pairs = figure.values.iter().zip(&other.values).filter(|(_, other)| **other > 0.0);
    Figure { values: pairs.map(|(one, other)| one / other).collect(), ..figure.clone() }
}

fn verdict(ratio: Option<&Ratio>, limit: f64) -> Verdict {
    let Some((ratio, (low, high))) = ratio.and_then(|ratio| Some((ratio, ratio.interval?))) else {
        return Verdict::CannotBeTold;
    };
    // Both limits are measured from the better of the two values.
    match ratio.value {
        value if high < 1.0 && 1.0 / value > 1.0 + limit => Verdict::Regressed,
        value if low > 1.0 && value > 1.0 + limit => Verdict::Improved,
        _ => Verdict::NoDifference,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{run, run_with};

    const LIMIT: f64 = 0.01;

    fn verdicts(old: &Results, new: &Results) -> Vec<Verdict> {
        check(old, new, LIMIT).unwrap().rows.iter().map(|row| row.verdict).collect()
    }

    #[test]
    fn equal_runs_pass() {
        let gate = check(&run(), &run(), LIMIT).unwrap();
        assert!(gate.passes(), "{gate}");
        assert_eq!(gate.count(Verdict::NoDifference), 3);
        assert_eq!(gate.rows[0].peer.as_deref(), Some("ZooKeeper 3.9.5"));
    }

    #[test]
    fn two_percent_less_are_found_in_tight_rounds() {
        let gate = check(&run(), &run_with("ours", 0.98), LIMIT).unwrap();
        assert!(!gate.passes());
        assert_eq!(gate.count(Verdict::Regressed), 3, "{gate}");
        assert_eq!(verdicts(&run(), &run_with("ours", 1.02)), [Verdict::Improved; 3]);
        // A change below the limit is no regression, however sure it is.
        assert!(check(&run(), &run_with("ours", 0.98), 0.05).unwrap().passes());
    }

    #[test]
    fn costs_regress_when_they_grow() {
        let costs = |factor: f64| {
            let mut results = run();
            let measured = &mut results.tests[0].systems[0];
            for figure in &mut measured.figures {
                figure.is_headline = figure.name == "create p99";
                figure.values.iter_mut().for_each(|value| *value *= factor);
            }
            results
        };
        assert_eq!(verdicts(&costs(1.0), &costs(1.1))[0], Verdict::Regressed);
        assert_eq!(verdicts(&costs(1.0), &costs(0.9))[0], Verdict::Improved);
    }

    #[test]
    fn a_drift_of_the_machine_cancels_beside_a_peer() {
        let drifted = |systems: &[&str]| {
            let mut results = run();
            for measured in results.tests.iter_mut().flat_map(|test| &mut test.systems) {
                if systems.contains(&measured.system.as_str()) {
                    measured.figures[0].values.iter_mut().for_each(|value| *value *= 0.8);
                }
            }
            results
        };
        assert_eq!(verdicts(&run(), &drifted(&["ours", "zk"])), [Verdict::NoDifference; 3]);
        // Another version of the peer cannot serve as yardstick, and values alone mean nothing
        // here.
        let mut other = drifted(&["ours", "zk"]);
        other.systems[1].name = "ZooKeeper 3.9.6".into();
        let gate = check(&run(), &other, LIMIT).unwrap();
        assert_eq!((gate.count(Verdict::Elsewhere), gate.passes()), (3, false));
        assert_eq!(gate.rows[0].peer, None);
        assert!(gate.to_string().starts_with("warning: the runs differ in zk: name"), "{gate}");
    }

    #[test]
    fn a_missing_row_fails() {
        let mut new = run();
        new.tests[0].skipped = Some("no time".into());
        let gate = check(&run(), &new, LIMIT).unwrap();
        assert_eq!(gate.missing, ["znodes / 40 znodes, 1 client / ours / create rate"]);
        assert!(!gate.passes());
        assert!(check(&new, &run(), LIMIT).unwrap().passes(), "a new row is no regression");
    }

    #[test]
    fn too_few_rounds_tell_nothing() {
        let few = |tests: usize| {
            let mut results = run_with("ours", 0.5);
            for test in results.tests.iter_mut().take(tests) {
                test.systems[0].figures[0].values.truncate(3);
            }
            results
        };
        let gate = check(&run(), &few(3), LIMIT).unwrap();
        assert_eq!(gate.count(Verdict::CannotBeTold), 3);
        assert!(!gate.passes(), "a gate that can tell nothing does not pass");
        let mut one = run();
        one.tests[0].systems[0].figures[0].values.truncate(3);
        assert!(check(&run(), &one, LIMIT).unwrap().passes());
    }

    #[test]
    fn runs_that_say_nothing_are_refused() {
        let quick = Results { is_quick: true, ..run() };
        let error = check(&quick, &run(), LIMIT).unwrap_err().to_string();
        assert!(error.starts_with("the old run") && error.contains("scaled down"), "{error}");
        let doubtful = Results { doubts: vec!["CPU was stolen".into()], ..run() };
        let error = check(&run(), &doubtful, LIMIT).unwrap_err().to_string();
        assert!(error.starts_with("the new run") && error.contains("CPU was stolen"), "{error}");
        assert!(check(&run(), &run(), f64::NAN).is_err());
    }

    #[test]
    fn the_table_has_a_line_for_each_row() {
        let mut new = run_with("ours", 0.5);
        new.tests.remove(2);
        let text = check(&run(), &new, LIMIT).unwrap().to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[0].contains("−50.0 % [−50") && lines[0].contains("REGRESSED, beside Zoo"));
        assert!(lines[2].ends_with("MISSING in the new run"));
        assert!(lines[3].starts_with("FAILED, with a limit of 1 %: 2 regressed, 1 missing"));
    }
}
