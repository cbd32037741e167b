//! Tests of plots: everything drawn is visible, and texts do not overlap.

use super::*;

fn line(points: &[(f64, f64)]) -> Line {
    Line { style: 0, points: points.iter().copied().map(Some).collect(), has_dots: false }
}

fn plot(x: Scale, y: Scale, points: &[(f64, f64)]) -> Plot {
    Plot {
        title: "plot".into(),
        x: Axis { name: "x".into(), scale: x },
        y: Axis { name: String::new(), scale: y },
        lines: vec![line(points)],
        size: (360.0, 190.0),
    }
}

fn drawn(plot: &Plot) -> String {
    plot.draw().map(|markup| markup.into_string()).unwrap_or_default()
}

/// The texts of all labels, in the order of the drawing.
fn texts(svg: &str) -> Vec<String> {
    let parts = svg.split("<text").skip(1);
    parts.map(|part| part.split(['>', '<']).nth(1).expect("it has text").to_string()).collect()
}

/// The path of the first line.
fn path_text(svg: &str) -> &str {
    let from = svg.split(r#"<path class="line s0" d=""#).nth(1).expect("a line is drawn");
    from.split('"').next().expect("the path ends")
}

/// The numbers of the first line's path.
fn path(svg: &str) -> Vec<f64> {
    path_text(svg).split(' ').filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn ticks_are_round_numbers() {
    let check = |x: Scale, points: &[(f64, f64)], expected: &[&str]| {
        let mut texts = texts(&drawn(&plot(x, Scale::Linear, points)));
        texts.truncate(expected.len());
        assert_eq!(texts, expected);
    };
    check(Scale::Linear, &[(0.0, 1.0), (29.0, 2.0)], &["0", "10", "20", "30"]);
    check(Scale::Linear, &[(0.0, 1.0), (0.4, 2.0)], &["0", "0.1", "0.2", "0.3", "0.4"]);
    check(Scale::Logarithmic, &[(0.3, 1.0), (7_000.0, 2.0)], &["1", "10", "100", "1,000"]);
    check(Scale::Logarithmic, &[(1.1, 1.0), (4.0, 2.0)], &["1", "2", "5"]);
    check(
        Scale::Percentile,
        &[(0.0, 1.0), (99.95, 2.0), (100.0, 3.0)],
        &["0", "50", "90", "99", "99.9", "99.99", "max"],
    );
}

#[test]
fn every_line_lies_inside_the_drawing() {
    let scales = [Scale::Linear, Scale::Logarithmic, Scale::Percentile];
    let values = [1e-9, 0.5, 1.0, 99.999, 100.0, 1e12];
    for x in &scales {
        for (first, second) in values.iter().flat_map(|one| values.map(|two| (*one, two))) {
            for y in &scales {
                let svg = drawn(&plot(x.clone(), y.clone(), &[(first, first), (second, second)]));
                let numbers = path(&svg);
                assert!(numbers.len() >= 4, "{svg}");
                assert!(numbers.iter().all(|number| (0.0..=360.0).contains(number)), "{svg}");
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }
}

#[test]
fn nothing_is_drawn_where_nothing_can_be_seen() {
    assert_eq!(drawn(&plot(Scale::Linear, Scale::Linear, &[])), "");
    assert_eq!(drawn(&plot(Scale::Linear, Scale::Linear, &[(1.0, f64::NAN)])), "");
    assert_eq!(drawn(&plot(Scale::Linear, Scale::Logarithmic, &[(1.0, 0.0), (2.0, 0.0)])), "");
    // A single point becomes a short dash, and equal values a horizontal line.
    let one = path(&drawn(&plot(Scale::Linear, Scale::Linear, &[(0.0, 0.0)])));
    assert!(one[2] > one[0]);
    let level = path(&drawn(&plot(Scale::Linear, Scale::Logarithmic, &[(0.0, 5.0), (9.0, 5.0)])));
    assert!((level[1] - level[3]).abs() < 1e-9);
}

#[test]
fn a_gap_breaks_the_line() {
    let mut broken = plot(Scale::Linear, Scale::Linear, &[(0.0, 1.0), (1.0, 1.0)]);
    broken.lines[0].points.extend([None, Some((2.0, 3.0)), Some((3.0, 3.0))]);
    assert_eq!(path_text(&drawn(&broken)).matches("M ").count(), 2);
}

#[test]
fn many_points_keep_their_highest() {
    let points: Vec<(f64, f64)> =
        (0..10_000).map(|at| (f64::from(at), if at == 4_321 { 9.0 } else { 1.0 })).collect();
    let svg = drawn(&plot(Scale::Linear, Scale::Linear, &points));
    let numbers = path(&svg);
    assert!(numbers.len() <= 2 * POINTS_MAX, "{}", numbers.len());
    let heights = || numbers.iter().skip(1).step_by(2).copied();
    assert!(heights().fold(f64::MAX, f64::min) < heights().fold(0.0, f64::max) - 50.0);
}

#[test]
fn long_names_of_places_stand_in_rows() {
    let names: Vec<String> = (0..6).map(|at| format!("{at} clients and their names")).collect();
    let points: Vec<(f64, f64)> = (0..6).map(|at| (f64::from(at), 1.0)).collect();
    let mut chart = plot(Scale::Places(names), Scale::Linear, &points);
    chart.size = (640.0, 300.0);
    let svg = drawn(&chart);
    let found = texts(&svg).iter().filter(|text| text.contains("clients")).count();
    assert_eq!(found, 6, "{svg}");
}

#[test]
fn names_are_escaped() {
    let mut chart = plot(Scale::Places(vec!["<script>".into()]), Scale::Linear, &[(0.0, 1.0)]);
    chart.title = "\"><script>".into();
    assert!(!drawn(&chart).contains("<script>"));
}
