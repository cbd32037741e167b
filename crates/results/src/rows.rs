//! Makes the rows of a report. A row shows one headline figure of a test, with our server beside a
//! peer. The HTML page, the Markdown and the plain text render these rows.

use crate::number::{range, shown};
use crate::ratio::{Ratio, Verdict};
use crate::schema::{Figure, Good, Measured, Published, Results, Role, System, Test};

/// Occurs in the name of every figure about CPU time of the servers.
const CPU_MARK: &str = "server CPU";

/// A group of tests: one table of a report.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// The group's name, which may be empty.
    pub name: &'a str,
    /// The group's tests, in the order of the run.
    pub tests: Vec<TestRows<'a>>,
}

/// A test and its rows.
#[derive(Clone, Debug)]
pub struct TestRows<'a> {
    /// The test.
    pub test: &'a Test,
    /// A row for each headline figure and pair of systems; empty if the test was skipped.
    pub rows: Vec<Row<'a>>,
}

/// One row of a table.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// The name of the figure.
    pub figure: &'a str,
    /// The names of the row's two systems, as far as the test has several in their place; `None` if
    /// the test measured a single pair of systems.
    pub pair: Option<String>,
    /// The unit of the figure.
    pub unit: &'a str,
    /// The document's values of this figure; only in the figure's first row.
    pub published: Vec<&'a Published>,
    /// The median and the range of the figure at the peer; `None` if the peer has no value.
    pub peer: Option<Spread>,
    /// The median and the range of the figure at our server; `None` if our server has no value.
    pub ours: Option<Spread>,
    /// How many times better our server is than the peer.
    pub ratio: Option<Ratio>,
    /// The CPU time of the servers for each operation.
    pub cpu: Option<Cpu<'a>>,
    /// The bottleneck of our server. A bottleneck of the whole test is only in the test's first
    /// row.
    pub limit: String,
    /// Whether the row counts in the mean of its group: true for the first row of a test.
    pub is_lead: bool,
}

/// The median of a figure's rounds, and their range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least and the greatest value.
    pub range: (f64, f64),
    /// How many values there are.
    pub count: usize,
}

/// The CPU time of the servers beside a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpu<'a> {
    /// The unit of both values.
    pub unit: &'a str,
    /// The median of the peer; `None` if it was not measured.
    pub peer: Option<f64>,
    /// The median of our server; `None` if it was not measured.
    pub ours: Option<f64>,
}

/// The mean ratio of a group's tests, and how many of its rows have each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// The geometric mean of the ratios in the first row of each test; `None` if no test has one.
    pub mean: Option<f64>,
    /// How many tests the mean is made of.
    pub tests: usize,
    /// How many rows say that our server is better.
    pub better: usize,
    /// How many rows say that our server is worse.
    pub worse: usize,
    /// How many rows say that no difference was found.
    pub equal: usize,
    /// How many rows have too few pairs for an interval.
    pub too_few: usize,
}

/// The groups of a run, in the order of their first tests.
pub fn groups(results: &Results) -> Vec<Group<'_>> {
    let mut groups: Vec<Group> = Vec::new();
    for test in &results.tests {
        let rows = if test.skipped.is_some() { Vec::new() } else { rows_of(results, test) };
        let tests = TestRows { test, rows };
        match groups.iter_mut().find(|group| group.name == test.group) {
            Some(group) => group.tests.push(tests),
            None => groups.push(Group { name: &test.group, tests: vec![tests] }),
        }
    }
    groups
}

/// Why no figure of a run may be quoted, a sentence each; empty if figures may be quoted.
pub fn reservations(results: &Results) -> Vec<String> {
    let quick = "The run was scaled down: it shows the method, its figures say nothing.";
    let quick = results.is_quick.then(|| quick.to_string());
    let doubts = (!results.doubts.is_empty())
        .then(|| format!("No figure of this run is to be quoted: {}", results.doubts.join("; ")));
    quick.into_iter().chain(doubts).chain(trouble(results, Role::Ours)).collect()
}

/// Everything that a reader must know before the figures, a sentence each: the reservations, errors
/// of the real servers or why there are none, and whether parts are missing. All reports show this
/// at their head.
pub fn warnings(results: &Results) -> Vec<String> {
    let alone = |why: &String| format!("There is no real server beside ours: {why}");
    let cut = |why: &String| format!("The run was cut short, parts are missing: {why}");
    let mut warnings = reservations(results);
    warnings.extend(trouble(results, Role::Peer));
    warnings.extend(results.no_peer.as_ref().map(alone));
    warnings.extend(results.cut_short.as_ref().map(cut));
    warnings
}

/// Names the tests in which answers of systems with this role were errors; `None` if there are
/// none. An error may come faster than an answer, so a rate with errors means nothing.
fn trouble(results: &Results, role: Role) -> Option<String> {
    let has_role = |id: &str| results.system(id).is_some_and(|system| system.role == role);
    let of_test = |test: &Test| {
        let systems = test.systems.iter().filter(|measured| has_role(&measured.system));
        let count: u64 = systems.map(|measured| measured.trouble).sum();
        (count > 0).then(|| format!("{count} in {}", test.title))
    };
    let tests: Vec<String> = results.tests.iter().filter_map(of_test).collect();
    let names = names(results, role, "");
    let what = "answers were errors, or sessions were lost";
    (!tests.is_empty()).then(|| format!("{names}: {what}: {}", tests.join("; ")))
}

/// The names of the systems with this role; `none` if there are no such systems.
pub fn names(results: &Results, role: Role, none: &str) -> String {
    let systems = results.systems.iter().filter(|system| system.role == role);
    let names: Vec<&str> = systems.map(|system| system.name.as_str()).collect();
    if names.is_empty() { none.to_string() } else { names.join(", ") }
}

impl Group<'_> {
    /// The rows of all tests.
    pub fn rows(&self) -> impl Iterator<Item = &Row<'_>> {
        self.tests.iter().flat_map(|test| &test.rows)
    }

    /// Counts the rows by verdict, and computes the mean ratio.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for ratio in self.rows().filter_map(|row| row.ratio) {
            match ratio.verdict() {
                Verdict::Better => summary.better += 1,
                Verdict::Worse => summary.worse += 1,
                Verdict::NoDifference => summary.equal += 1,
                Verdict::TooFewPairs => summary.too_few += 1,
            }
        }
        let leads = self.rows().filter(|row| row.is_lead).filter_map(|row| row.ratio);
        let logarithms: Vec<f64> = leads.map(|ratio| ratio.value.ln()).collect();
        summary.tests = logarithms.len();
        let sum: f64 = logarithms.iter().sum();
        summary.mean = (summary.tests > 0).then(|| (sum / summary.tests as f64).exp());
        summary
    }

    /// The unit of all rows; `None` if they differ.
    pub fn unit(&self) -> Option<&str> {
        let first = self.rows().next()?.unit;
        self.rows().all(|row| row.unit == first).then_some(first)
    }
}

impl Summary {
    /// The counts as text, without those that are 0.
    pub fn counts(&self) -> String {
        let parts = [
            (self.better, "better"),
            (self.worse, "worse"),
            (self.equal, "no difference"),
            (self.too_few, "too few pairs"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        if parts.is_empty() { "no ratio".to_string() } else { parts.join(", ") }
    }
}

impl Spread {
    /// The spread of a figure; `None` if the figure has no values.
    pub fn of(figure: &Figure) -> Option<Spread> {
        let (median, range) = (figure.median()?, figure.range()?);
        Some(Spread { median, range, count: figure.values.len() })
    }

    /// The range as text; `None` for a single value.
    pub fn range_text(&self) -> Option<String> {
        (self.count > 1).then(|| range(self.range))
    }
}

/// A verdict as text.
pub fn verdict_text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NoDifference => "no difference",
        Verdict::TooFewPairs => "too few pairs",
    }
}

/// The text beside the value of a ratio: the interval, or the range if there are too few pairs.
pub fn interval_text(ratio: &Ratio) -> Option<String> {
    let interval = ratio.interval.map(|ends| ratio.shown_ends(ends));
    let range = || (ratio.pairs > 1).then(|| ratio.shown_ends(ratio.range));
    match interval {
        Some((low, high)) => Some(format!("[{low}, {high}]")),
        None => range().map(|(least, most)| format!("{least} to {most}")),
    }
}

/// A system, and what it showed in a test.
type Shown<'a> = (&'a System, &'a Measured);

fn shown_by<'a>(results: &'a Results, test: &'a Test, role: Role) -> Vec<Shown<'a>> {
    let of_role = |measured: &'a Measured| {
        let system = results.system(&measured.system)?;
        (system.role == role).then_some((system, measured))
    };
    test.systems.iter().filter_map(of_role).collect()
}

fn rows_of<'a>(results: &'a Results, test: &'a Test) -> Vec<Row<'a>> {
    let ours = shown_by(results, test, Role::Ours);
    let peers = shown_by(results, test, Role::Peer);
    let null = shown_by(results, test, Role::Null).first().map(|(_, measured)| *measured);
    let optional = |all: &[Shown<'a>]| -> Vec<Option<Shown<'a>>> {
        if all.is_empty() { vec![None] } else { all.iter().copied().map(Some).collect() }
    };
    let (ours, peers) = (optional(&ours), optional(&peers));
    let pairs: Vec<(Option<Shown>, Option<Shown>)> =
        ours.iter().flat_map(|ours| peers.iter().map(move |peer| (*ours, *peer))).collect();
    let (has_several_ours, has_several_peers) = (ours.len() > 1, peers.len() > 1);
    let mut rows: Vec<Row> = Vec::new();
    for figure in headlines(&ours, &peers) {
        let has = |shown: &Option<Shown>| {
            shown.is_some_and(|(_, measured)| measured.figure(&figure.name).is_some())
        };
        // A peer that lacks the figure gets no row, unless all peers lack it.
        let any_peer_has = peers.iter().any(has);
        for (ours, peer) in pairs.iter().filter(|(_, peer)| has(peer) || !any_peer_has) {
            let mut row = row_of(test, figure, *ours, *peer, null);
            let ours = ours.filter(|_| has_several_ours).map(|(system, _)| system.name.as_str());
            let peer = peer.filter(|_| has_several_peers).map(|(system, _)| system.name.as_str());
            row.pair = pair_text(ours, peer);
            row.is_lead = rows.is_empty();
            // Show what the document says, and what limits the whole test, only once.
            if rows.last().is_some_and(|last| last.figure == row.figure) {
                row.published.clear();
            }
            if !row.is_lead && !test.limit.is_empty() {
                let ceiling = row.limit.strip_prefix(&test.limit).unwrap_or_default();
                row.limit = ceiling.trim_start_matches("; ").to_string();
            }
            if row.published.is_empty() && rows.last().is_some_and(|it| it.figure == row.figure) {
                row.limit.clear();
            }
            rows.push(row);
        }
    }
    rows
}

/// Names a pair of systems by what differs within the test; `None` if there is a single pair.
fn pair_text(ours: Option<&str>, peer: Option<&str>) -> Option<String> {
    match (ours, peer) {
        (Some(ours), Some(peer)) => Some(format!("{ours} beside {peer}")),
        (Some(ours), None) => Some(ours.to_string()),
        (None, Some(peer)) => Some(format!("beside {peer}")),
        (None, None) => None,
    }
}

/// The headline figures of a test. A figure that several systems have appears once.
fn headlines<'a>(ours: &[Option<Shown<'a>>], peers: &[Option<Shown<'a>>]) -> Vec<&'a Figure> {
    let figures = ours.iter().chain(peers).flatten().flat_map(|(_, measured)| &measured.figures);
    let mut headlines: Vec<&Figure> = Vec::new();
    for figure in figures.filter(|figure| figure.is_headline) {
        if headlines.iter().all(|known| known.name != figure.name) {
            headlines.push(figure);
        }
    }
    headlines
}

fn row_of<'a>(
    test: &'a Test,
    figure: &'a Figure,
    ours: Option<Shown<'a>>,
    peer: Option<Shown<'a>>,
    null: Option<&'a Measured>,
) -> Row<'a> {
    let of = |shown: Option<Shown<'a>>| shown.and_then(|(_, m)| m.figure(&figure.name));
    let (our_figure, peer_figure) = (of(ours), of(peer));
    let published = test.published.iter().filter(|published| published.figure == figure.name);
    let ceiling = || ceiling_text(our_figure?, null?.figure(&figure.name)?);
    let both = [Some(test.limit.clone()).filter(|limit| !limit.is_empty()), ceiling()];
    let limit: Vec<String> = both.into_iter().flatten().collect();
    Row {
        figure: &figure.name,
        pair: None,
        unit: &figure.unit,
        published: published.collect(),
        peer: peer_figure.and_then(Spread::of),
        ours: our_figure.and_then(Spread::of),
        ratio: our_figure.zip(peer_figure).and_then(|(ours, peer)| Ratio::of(ours, peer)),
        cpu: cpu_of(&figure.name, ours.map(|(_, m)| m), peer.map(|(_, m)| m)),
        limit: limit.join("; "),
        is_lead: false,
    }
}

/// How near our server comes to the most that the generator can do.
fn ceiling_text(ours: &Figure, null: &Figure) -> Option<String> {
    let part = match ours.good {
        Good::More => ours.median()? / null.median()?,
        Good::Less => null.median()? / ours.median()?,
        Good::Neither => return None,
    };
    let what = match ours.good {
        Good::More => "of the generator's ceiling",
        _ => "of it is the generator",
    };
    part.is_finite().then(|| format!("{} % {what}", shown(part * 100.0)))
}

/// The figure about CPU time that belongs to a headline figure. If there are several, the one whose
/// name shares the most words with the headline's and has the fewest others; `None` if two are
/// equally near.
fn cpu_of<'a>(
    name: &str,
    ours: Option<&'a Measured>,
    peer: Option<&'a Measured>,
) -> Option<Cpu<'a>> {
    let figures = ours.into_iter().chain(peer).flat_map(|measured| &measured.figures);
    let mut candidates: Vec<&Figure> = Vec::new();
    for figure in figures.filter(|figure| figure.name.contains(CPU_MARK)) {
        if candidates.iter().all(|known| known.name != figure.name) {
            candidates.push(figure);
        }
    }
    let wanted = words_of(name);
    let nearness = |figure: &Figure| {
        let words = words_of(&figure.name);
        let shared = words.iter().filter(|word| wanted.contains(word)).count();
        2 * shared as i64 - words.len() as i64
    };
    let most = candidates.iter().map(|figure| nearness(figure)).max()?;
    candidates.retain(|figure| nearness(figure) == most);
    let [chosen] = candidates[..] else { return None };
    let median = |measured: Option<&Measured>| measured?.figure(&chosen.name)?.median();
    let cpu = Cpu { unit: &chosen.unit, peer: median(peer), ours: median(ours) };
    (cpu.peer.is_some() || cpu.ours.is_some()).then_some(cpu)
}

/// The words of a figure's name that distinguish operations.
fn words_of(name: &str) -> Vec<&str> {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    // A rate is named in the plural ("creates"), its cost in the singular ("per create").
    let words = words.map(|word| word.strip_suffix('s').unwrap_or(word));
    words.filter(|word| !["server", "CPU", "per", "operation"].contains(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{run, run_with};

    #[test]
    fn each_headline_figure_has_a_row() {
        let results = run();
        let groups = groups(&results);
        let names: Vec<&str> = groups.iter().map(|group| group.name).collect();
        assert_eq!(names, ["znodes", "watches"]);
        let row = &groups[0].tests[0].rows[0];
        assert_eq!((row.figure, row.published[0].text.as_str()), ("create rate", "5,000 per s"));
        assert_eq!(row.limit, "fsync of the leader; 5.38 % of the generator's ceiling");
        assert_eq!(row.ratio.unwrap().verdict(), Verdict::Better);
        assert!(groups[0].tests[1].rows[0].limit.ends_with("% of the generator's ceiling"));
        let cpu = row.cpu.unwrap();
        assert!(cpu.ours.unwrap() < cpu.peer.unwrap(), "{cpu:?}");
        assert!(groups[1].tests[1].rows.is_empty(), "a skipped test has none");
    }

    #[test]
    fn errors_of_ours_are_a_reservation_and_those_of_a_peer_are_said() {
        let mut results = run();
        assert_eq!(reservations(&results), Vec::<String>::new());
        assert!(trouble(&results, Role::Peer).unwrap().contains("12 in "));
        results.tests[0].systems[0].trouble = 3;
        assert!(reservations(&results)[0].contains("3 in "));
    }

    #[test]
    fn a_figure_finds_its_cpu_by_one_of_what_it_counts() {
        assert_eq!(words_of("creates"), words_of("server CPU per create"));
        assert_ne!(words_of("creates"), words_of("server CPU per delete"));
    }

    #[test]
    fn a_summary_counts_rows_and_takes_the_mean_of_tests() {
        let results = run();
        let summary = groups(&results)[0].summary();
        assert_eq!((summary.better, summary.worse, summary.tests), (1, 1, 2));
        assert_eq!(summary.counts(), "1 better, 1 worse");
        let expected = (21_500.0 / 14_100.0 * 88_000.0 / 90_100.0f64).sqrt();
        assert!((summary.mean.unwrap() / expected - 1.0).abs() < 0.01);
        assert_eq!(Summary::default().counts(), "no ratio");
    }

    #[test]
    fn two_peers_have_a_row_each() {
        let mut results = run_with("zk", 1.0);
        let second = System { id: "second".into(), ..results.systems[1].clone() };
        results.systems.push(second);
        let measured = Measured { system: "second".into(), ..results.tests[0].systems[1].clone() };
        results.tests[0].systems.push(measured);
        let groups = groups(&results);
        let rows = &groups[0].tests[0].rows;
        assert_eq!(rows.len(), 2);
        assert_eq!(rows.iter().filter(|row| row.is_lead).count(), 1);
        assert_eq!(rows[0].pair.as_deref(), Some("beside ZooKeeper 3.9.5"));
        assert_eq!((rows[0].published.len(), rows[1].published.len()), (1, 0));
        assert!(rows[0].limit.starts_with("fsync of the leader; "), "{}", rows[0].limit);
        assert_eq!(rows[1].limit, "");
        let mut results = results.clone();
        results.tests[0].systems[3].figures.clear();
        assert_eq!(super::groups(&results)[0].tests[0].rows.len(), 1, "one has no such figure");
    }

    #[test]
    fn a_cpu_figure_belongs_to_its_operation() {
        let figure = |name: &str, value| Figure {
            name: name.into(),
            values: vec![value],
            ..Figure::default()
        };
        let figures = vec![
            figure("create, server CPU", 1.0),
            figure("create ephemeral, server CPU", 2.0),
            figure("server CPU per chunk, with the sync", 3.0),
            figure("server CPU per chunk, before the sync", 4.0),
            figure("server CPU per operation", 5.0),
        ];
        let mut measured = Measured { figures, ..Measured::default() };
        let ours = |measured: &Measured, name: &str| {
            cpu_of(name, Some(measured), None).and_then(|cpu| cpu.ours)
        };
        for (name, cpu) in [
            ("create", 1.0),
            ("create ephemeral, all clients", 2.0),
            ("chunks, with the sync", 3.0),
            ("chunks, before the sync", 4.0),
            ("all phases", 5.0),
        ] {
            assert_eq!(ours(&measured, name), Some(cpu), "{name}");
        }
        measured.figures.pop();
        measured.figures.truncate(2);
        measured.figures.push(figure("delete, server CPU", 6.0));
        assert_eq!(ours(&measured, "read"), None, "two are equally near");
    }
}
