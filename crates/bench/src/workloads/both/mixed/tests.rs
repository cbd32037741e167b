use clap::Parser;

use super::*;

#[derive(Parser)]
struct Only {
    #[command(flatten)]
    args: MixedArgs,
}

fn parse(options: &[&str]) -> Result<MixedArgs, clap::Error> {
    let all = [&["it", "--target", "zk://h:1", "--etcd", "etcd://h:2"], options].concat();
    Only::try_parse_from(all).map(|only| only.args)
}

#[test]
fn a_closed_loop_has_no_rate() {
    let open = parse(&["--zk-rate", "7"]).unwrap();
    assert_eq!((open.rate(open.zk_rate), open.rate(open.etcd_rate)), (Some(7), Some(5_000)));
    let closed = parse(&["--closed"]).unwrap();
    assert_eq!(closed.rate(closed.zk_rate), None);
    assert!(parse(&["--closed", "--etcd-rate", "7"]).is_err());
    for wrong in [["--keys", "0"], ["--keys", "1000001"], ["--etcd-connections", "0"]] {
        let error = parse(&wrong).unwrap().check().unwrap_err().to_string();
        assert!(error.starts_with(wrong[0]), "{error}");
    }
}

/// A block whose figures have values for two rounds.
fn block(figures: &[(&'static str, [f64; 2], Good)]) -> Block {
    let figure = |(name, values, good): &(&'static str, [f64; 2], Good)| {
        let figure = Figure::once(name, "", None, *good);
        Figure { values: values.to_vec(), ..figure }
    };
    Block { figures: figures.iter().map(figure).collect(), ..Block::default() }
}

/// In the second round the latency of ZooKeeper's clients is one and a half times as high, and
/// etcd's clients get half of their rate.
fn blocks() -> [Block; 3] {
    use Good::{Less, More, Neither};
    [
        block(&[
            (ZK.requests, [100.0, 100.0], More),
            ("set p50", [1.0, 1.0], Less),
            (SERVER_CPU, [10.0, 10.0], Less),
        ]),
        block(&[(ETCD.requests, [300.0, 300.0], More), (SERVER_CPU, [20.0, 20.0], Less)]),
        block(&[
            (ZK.requests, [100.0, 100.0], More),
            ("set p50", [1.0, 1.5], Less),
            (ETCD.requests, [300.0, 150.0], More),
            (SERVER_CPU, [17.5, 32.0], Less),
            ("generator CPU per request", [1.0, 1.0], Neither),
        ]),
    ]
}

#[test]
fn what_each_has_beside_the_other_is_divided_by_what_it_has_alone() {
    let block = quotients(&blocks(), false);
    let names: Vec<&str> = block.figures.iter().map(|figure| figure.name).collect();
    assert_eq!(names, [ZK.requests, "set p50", ETCD.requests, SERVER_CPU]);
    let values: Vec<&[f64]> = block.figures.iter().map(|it| it.values.as_slice()).collect();
    // Alone, 100 requests of 10 us and 300 of 20 us take 17.5 us on average; 100 and 150 of them 16
    // us.
    assert_eq!(values, [[1.0, 1.0], [1.0, 1.5], [1.0, 0.5], [1.0, 2.0]]);
}

#[test]
fn a_fair_share_in_closed_loop_is_half_of_the_rate_and_latencies_are_not_compared() {
    let block = quotients(&blocks(), true);
    let names: Vec<&str> = block.figures.iter().map(|figure| figure.name).collect();
    assert_eq!(names, [ZK.requests, ETCD.requests, SERVER_CPU]);
    assert_eq!([&block.figures[0].values, &block.figures[1].values], [&[2.0, 2.0], &[2.0, 1.0]]);
}

#[test]
fn a_put_of_a_key_is_followed_by_its_read() {
    let calls = calls("mixed-7/", 3, 100).unwrap();
    assert_eq!(calls.len(), 6);
    let put = pb::PutResponse { header: Some(Default::default()), ..Default::default() };
    let one = pb::RangeResponse { kvs: vec![Default::default()], ..Default::default() };
    assert!(is_answered(0, put.encode_to_vec().into()));
    assert!(is_answered(1, one.encode_to_vec().into()));
    assert!(!is_answered(1, pb::RangeResponse::default().encode_to_vec().into()));
    assert!(!is_answered(0, Bytes::new()));
    assert!(key("mixed-7/", MIXED_KEYS_MAX) < end_of("mixed-7/"));
    assert!(key("mixed-7/", 0) > "mixed-7/");
}

#[test]
fn closed_loop_is_made_for_rates_and_open_loop_for_the_cpu() {
    let block = |cpu_part: f64| {
        let of = |name: &'static str, part: f64, good| {
            let values = (0..8).map(|round| 1.0 + part * f64::from(round)).collect();
            Figure { values, ..Figure::once(name, "times", None, good) }
        };
        let figures = vec![
            of(ZK.requests, 0.0, Good::More),
            of(ETCD.requests, 0.1, Good::More),
            of(SERVER_CPU, cpu_part, Good::Less),
        ];
        Block { figures, ..Block::default() }
    };
    let closed = width_of(&block(0.0), true).unwrap();
    assert!(closed > 0.05, "{closed}");
    assert_eq!(width_of(&block(0.9), true), Some(closed));
    assert_eq!(width_of(&block(0.0), false), Some(0.0));
    assert_eq!(width_of(&Block::default(), false), None);
}
