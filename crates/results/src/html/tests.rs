//! Tests of pages: they load nothing, show no text of a run as markup, have no empty plot, warn of
//! figures that must not be quoted, and can be read back.

use super::*;
use crate::compare;
use crate::example::{run, run_with};
use crate::schema::{Measured, Test};
use crate::svg::STYLE_COUNT;

/// A text that does harm in a page if it is not escaped.
const EVIL: &str = "</script><script>\"'><img src=x>&amp;";

/// The example run with this text in every field that a page shows.
fn evil() -> Results {
    let mut results = run();
    let text = results.to_json();
    for (from, to) in [
        ("create", "create"),
        ("ZooKeeper 3.9.5", "peer"),
        ("Quorate 0.3.0", "ours"),
        ("1 client", "label"),
        ("fsync of the leader", "limit"),
        ("ext4", "ext4"),
    ] {
        assert!(text.contains(from));
        let json = results.to_json();
        let evil = format!("{to}{}", EVIL.replace('"', "\\\""));
        results = Results::read(&json.replace(from, &evil)).unwrap();
    }
    for field in [&mut results.title, &mut results.command, &mut results.machine.kernel] {
        field.push_str(EVIL);
    }
    results.doubts = vec![EVIL.into()];
    results.cut_short = Some(EVIL.into());
    results.traps = vec![EVIL.into()];
    results.tests[1].systems[1].notes = vec![EVIL.into()];
    results.tests[3].skipped = Some(EVIL.into());
    results
}

/// The values of all attributes with this name.
fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let opening = format!(" {name}=\"");
    page.split(opening.as_str()).skip(1).filter_map(|part| part.split('"').next()).collect()
}

/// The SVG drawings of a page.
fn drawings(page: &str) -> Vec<&str> {
    page.split("<svg").skip(1).filter_map(|part| part.split("</svg>").next()).collect()
}

/// Whether a path is inside the drawing and has two different points.
fn is_visible(path: &str, width: f64, height: f64) -> bool {
    let numbers: Vec<f64> = path.split(' ').filter_map(|word| word.parse().ok()).collect();
    let points: Vec<&[f64]> = numbers.chunks(2).collect();
    let is_inside =
        |point: &&[f64]| (0.0..=width).contains(&point[0]) && (0.0..=height).contains(&point[1]);
    points.len() > 1 && points.iter().all(is_inside) && points.iter().any(|at| *at != points[0])
}

fn check_drawings(page: &str) {
    for drawing in drawings(page) {
        let size: Vec<f64> = attributes(drawing, "viewBox")[0]
            .split(' ')
            .map(|number| number.parse().unwrap())
            .collect();
        let lines = drawing.split("<path class=\"line").skip(1);
        let paths: Vec<&str> = lines.map(|part| attributes(part, "d")[0]).collect();
        assert!(!paths.is_empty(), "{drawing}");
        assert!(paths.iter().all(|path| is_visible(path, size[2], size[3])), "{drawing}");
        for bad in ["NaN", "inf", "="] {
            let numbers = drawing.split('>').flat_map(|tag| attributes(tag, "d"));
            assert!(numbers.into_iter().all(|path| !path.contains(bad)), "{drawing}");
        }
    }
}

#[test]
fn texts_of_a_run_are_no_markup() {
    let (evil, harmless) = (evil(), run());
    for (evil_page, page) in [
        (page(&evil), page(&harmless)),
        (compare::page(&evil, &evil), compare::page(&harmless, &harmless)),
    ] {
        assert!(evil_page.contains("&lt;script&gt;"));
        assert!(!evil_page.contains("<img"));
        let scripts = |page: &str| page.matches("<script").count();
        assert_eq!(scripts(&evil_page), scripts(&page));
        assert_eq!(drawings(&evil_page).len(), drawings(&page).len());
    }
    assert_eq!(results_of(&page(&evil)).unwrap(), evil);
}

#[test]
fn a_page_asks_for_nothing() {
    let results = run();
    for page in [page(&results), compare::page(&results, &run_with("ours", 0.9))] {
        for outside in ["http://", "https://", " src=", " href=", "url(", "@import", "<link", "//"]
        {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}

#[test]
fn every_plot_shows_a_line() {
    let page = page(&run());
    check_drawings(&page);
    let plots = drawings(&page).iter().filter(|drawing| drawing.contains("role=\"img\"")).count();
    // The chart, the disk, and six for each of three tests: latencies, rate, two percentiles, CPU,
    // memory.
    assert_eq!(plots, 1 + 1 + 3 * 6);
    assert!(!page.contains("data folders of"), "nobody measured them");
}

/// Two systems with three servers each.
#[test]
fn each_server_has_a_line_in_the_colour_of_its_system() {
    let page = page(&run());
    let drawings = drawings(&page);
    let drawing = drawings.iter().find(|it| it.contains("CPU of each server, cores")).unwrap();
    let styles: Vec<&str> = drawing
        .split("<path class=\"line")
        .skip(1)
        .map(|it| it.split('"').next().unwrap())
        .collect();
    assert_eq!(styles.len(), 6, "{styles:?}");
    assert!(styles[..3].iter().all(|style| *style == styles[0]), "{styles:?}");
    assert!(
        styles[3..].iter().all(|style| *style == styles[3] && *style != styles[0]),
        "{styles:?}"
    );
}

#[test]
fn lines_of_a_chart_look_different() {
    let results = crate::example::large();
    let crowded = results.charts.last().unwrap();
    let styles = Styles::of(&results).of_chart(crowded);
    let mut different: Vec<usize> = styles.iter().map(|style| style % STYLE_COUNT).collect();
    different.sort_unstable();
    different.dedup();
    assert_eq!((styles[0], different.len()), (0, crowded.series.len()), "{styles:?}");
    // A line that names a system has the style that the system has in all plots.
    let mut chart = results.charts[0].clone();
    assert_eq!(Styles::of(&results).of_chart(&chart), [3, 1, 0]);
    chart.series[1].name = "real server here".into();
    chart.series[2].name = "ours here".into();
    assert_eq!(Styles::of(&results).of_chart(&chart), [3, 1, 0]);
}

#[test]
fn data_without_a_line_have_no_plot() {
    let mut results = run();
    for moment in
        results.tests.iter_mut().flat_map(|test| &mut test.systems).flat_map(|m| &mut m.course)
    {
        moment.rate = Some(f64::NAN);
        moment.p50_ms = Some(0.0);
        moment.p99_ms = Some(f64::INFINITY);
    }
    results.tests[0].systems.iter_mut().for_each(|measured| measured.course.truncate(1));
    results.charts[0].series.iter_mut().for_each(|series| series.values = vec![None; 4]);
    results.machine.disk = None;
    let page = page(&results);
    check_drawings(&page);
    for missing in [
        ">answers and events, per s</fig",
        ">median latency",
        ">p99 latency",
        "fdatasync",
        "<h2>Charts",
    ] {
        assert!(!page.contains(missing), "{missing}");
    }
    assert_eq!(page.matches("CPU of each server, cores</figcaption>").count(), 2);
}

#[test]
fn a_page_without_data_is_a_page() {
    let empty = Results::default();
    assert!(page(&empty).ends_with("</html>"));
    let mut bare = Results { tests: vec![Test::default()], ..Results::default() };
    bare.tests[0].systems = vec![Measured::default()];
    assert!(page(&bare).ends_with("</html>"));
    assert!(compare::page(&bare, &empty).ends_with("</html>"));
}

#[test]
fn a_run_that_says_nothing_has_no_headline() {
    let mut whole = run();
    // Without the peer's errors, which would cause a box, too.
    whole.tests.iter_mut().flat_map(|it| &mut it.systems).for_each(|it| it.trouble = 0);
    assert!(page(&whole).contains("<h2>Summary</h2>"));
    assert!(!page(&whole).contains("class=\"box\""));
    let quick = Results { is_quick: true, ..run() };
    let doubtful = Results { doubts: vec!["CPU was stolen".into()], ..run() };
    let cut = Results { cut_short: Some("no time".into()), ..run() };
    for (results, text, has_summary) in [
        (quick, "its figures say nothing", false),
        (doubtful, "No figure of this run is to be quoted: CPU was stolen", false),
        (cut, "parts are missing: no time", true),
    ] {
        let page = page(&results);
        assert!(page.contains("class=\"box\"") && page.contains(text), "{text}");
        assert_eq!(page.contains("<h2>Summary</h2>"), has_summary, "{text}");
    }
}

#[test]
fn a_page_has_rows_for_what_was_skipped_and_colour_for_trouble() {
    let page = page(&run());
    assert!(page.contains("2 cores do not carry 7 servers"));
    assert!(page.contains(r#"<p class="trouble">ZooKeeper 3.9.5: 12 answers"#));
    assert!(page.contains(r#"<div class="box">ZooKeeper 3.9.5: answers were errors"#));
    assert!(page.contains("5,000 per s") && page.contains("fsync of the leader"));
}

#[test]
fn a_page_is_read_back() {
    let results = run();
    assert_eq!(results_of(&page(&results)).unwrap(), results);
    assert!(results_of("<html></html>").is_err());
    let page = page(&results);
    let cut = &page[..page.find("results\">").unwrap() + 40];
    assert!(results_of(cut).is_err());
}

/// Writes the example's pages into the folder that `REPORT_EXAMPLES` names, to look at in a
/// browser.
#[test]
#[expect(clippy::disallowed_methods, reason = "a browser reads files; the crate has none")]
fn the_example_makes_whole_pages() {
    let pages = [
        ("report.html", page(&crate::example::large())),
        ("compare.html", compare::page(&run(), &other_run())),
        ("doubts.html", page(&Results { doubts: vec!["CPU was stolen".into()], ..evil() })),
    ];
    for (name, page) in &pages {
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"), "{name}");
        check_drawings(page);
        if let Some(folder) = std::env::var_os("REPORT_EXAMPLES") {
            std::fs::write(std::path::Path::new(&folder).join(name), page).unwrap();
        }
    }
}

/// A run of another build on another machine, with one test less.
fn other_run() -> Results {
    let mut results = run_with("ours", 0.93);
    results.machine.kernel = "Linux 6.2.0".into();
    results.systems[0].build = "a1b2c3d4".into();
    results.tests.remove(2);
    results
}
