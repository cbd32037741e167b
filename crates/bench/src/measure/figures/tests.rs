use super::*;

fn figure(name: &'static str, values: &[f64], good: Good) -> Figure {
    Figure { values: values.to_vec(), ..Figure::once(name, "ms", None, good) }
}

fn block(figures: Vec<Figure>) -> Block {
    let (name, address) = ("A".to_string(), "zk://a:1".to_string());
    Block { name, address, figures, ..Block::default() }
}

#[test]
fn ratios_are_of_rounds_that_belong_together() {
    let ours = figure("last event", &[1.0, 2.0, 4.0], Good::Less);
    let theirs = figure("last event", &[10.0, 30.0, 40.0], Good::Less);
    let expected = "      1/10.0  (1/10.0 to 1/15.0 in 3 pairs), 95 %: 1/6.4 to 1/20.5";
    assert_eq!(ratio(&ours, &theirs).as_deref(), Some(expected));
    let more = |values| figure("rate", values, Good::More);
    assert_eq!(ratio(&more(&[30.0]), &more(&[20.0])).as_deref(), Some("       1.50x"));
}

#[test]
fn what_cannot_be_known_has_no_ratio() {
    let some = figure("memory", &[1.0], Good::Less);
    for other in [&[][..], &[0.0], &[-1.0]] {
        assert_eq!(ratio(&some, &figure("memory", other, Good::Less)), None);
    }
    let count = figure("znodes", &[1.0], Good::Neither);
    assert_eq!(ratio(&count, &count), None);
}

#[test]
fn a_block_for_each_server_then_the_ratios() {
    let ours = block(vec![
        figure("first event", &[1.0, 3.0, 2.5], Good::Less),
        figure("memory", &[], Good::Less),
    ]);
    let theirs = block(vec![
        figure("first event", &[20.0, 30.0, 25.0], Good::Less),
        figure("memory", &[12345.678], Good::Less),
    ]);
    let expected = "\
A (zk://a:1)
  first event                                2.50 ms  (1 to 3 in 3 rounds)
  memory                                  unknown ms
A (zk://a:1)
  first event                                  25 ms  (20 to 30 in 3 rounds)
  memory                                    12346 ms
ratios, A to A
  first event                              1/10.0  (1/10.0 to 1/20.0 in 3 pairs), 95 %: 1/4.7 to 1/34.0
";
    assert_eq!(table(&[ours.clone(), theirs]), expected);
    let measured = ours.of_comparison("ours");
    assert_eq!(measured.figure("first event").unwrap().values, [1.0, 3.0, 2.5]);
    assert!(measured.figure("memory").unwrap().values.is_empty());
    let headlines: Vec<bool> = measured.figures.iter().map(|it| it.is_headline).collect();
    assert_eq!(headlines, [true, false]);
}

#[test]
fn rounds_become_one_block() {
    let round = |wait: f64, cpu: Option<f64>, memory: f64, note: &str| {
        let mut one = block(vec![
            Figure::once("wait", "ms", wait, Good::Less),
            Figure::once("CPU", "us", cpu, Good::Less),
            Figure::once("memory", "MiB", memory, Good::Less).of_first_round(),
        ]);
        one.notes.push(note.to_string());
        one.trouble = 1;
        one
    };
    let all = Block::from_rounds(vec![
        round(1.0, Some(1.0), 7.0, "a"),
        round(2.0, None, 8.0, "b"),
        round(3.0, Some(3.0), 9.0, "a"),
    ]);
    let values: Vec<&[f64]> = all.figures.iter().map(|it| it.values.as_slice()).collect();
    // A figure that is unknown in one round has no values at all: else values of different rounds
    // would be paired.
    assert_eq!(values, [&[1.0, 2.0, 3.0][..], &[], &[7.0]]);
    assert_eq!((all.notes, all.trouble), (vec!["a".to_string(), "b".to_string()], 3));
}

#[test]
fn what_went_wrong_is_said() {
    let mut one = block(Vec::new());
    one.blame(&Phase { name: "fill", errors: 2, lost: 1, ..Phase::default() });
    one.blame(&Phase { name: "count", ..Phase::default() });
    assert_eq!((one.trouble, one.notes.len()), (3, 1));
    assert!(table(&[one]).contains("fill: 2 errors, 1 sessions lost"));
}

#[test]
fn a_ratio_is_known_by_the_rate_where_there_is_one() {
    let memory = figure("memory", &[100.0; 8], Good::Less);
    let rate = |factor| {
        let values: Vec<f64> =
            (0..8).map(|round| 1_000.0 * (1.0 + factor * f64::from(round))).collect();
        figure("rate", &values, Good::More)
    };
    let blocks = [block(vec![memory.clone(), rate(0.1)]), block(vec![memory, rate(0.0)])];
    let width = ratio_width(&blocks).unwrap();
    assert!(width > 0.05, "{width}");
    assert_eq!(ratio_width(&blocks[..1]), None);
}

#[test]
fn the_widest_ratio_of_the_table_counts_and_rates_before_others() {
    let of = |name, part: f64, good| {
        let values: Vec<f64> = (0..8).map(|round| 10.0 * (1.0 + part * f64::from(round))).collect();
        figure(name, &values, good)
    };
    let (more, less) = (Good::More, Good::Less);
    let first = block(vec![of("set", 0.1, more), of("get", 0.3, more), of("p90", 0.9, less)]);
    let even = block(vec![of("set", 0.0, more), of("get", 0.0, more), of("p90", 0.0, less)]);
    let both = [first, even];
    let width = |names: &[&str]| widest_ratio(&both, names);
    let (set, get) = (width(&["set"]).unwrap(), width(&["get"]).unwrap());
    assert!(set < get && get < width(&["p90"]).unwrap());
    assert_eq!(width(&["set", "get", "p90"]), Some(get));
    assert_eq!(width(&["none"]), None);
    assert_eq!(widest_ratio(&both[..1], &["set"]), None);
    // A quotient is known as well as its ratio to a constant.
    let quotient = quotient_width(&of("set", 0.1, more)).unwrap();
    assert!((quotient - set).abs() < 1e-9, "{quotient} {set}");
}
