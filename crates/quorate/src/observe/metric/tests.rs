use super::*;

fn metrics() -> Vec<Metric> {
    let quantiles = Some([1.0, 3.0, 4.0, 5.0, 6.0]);
    let some = Distribution { count: 9, sum: 14.5, min: 0.0, max: 7.0, quantiles };
    let no_collections = Value::Total { labels: label("gc", "none"), count: 0, sum: 0.0 };
    vec![
        Metric::named("uptime", Value::Gauge(Number::Whole(72_424))),
        Metric::named("commit_count", Value::Counter(whole(3))),
        Metric::named("fsynctime", Value::Basic(Distribution::default())),
        Metric::named("readlatency", Value::Advanced(some)),
        Metric::named("ack_latency", Value::AdvancedOf(vec![("1".into(), some)])),
        Metric::named("read_per_namespace", Value::BasicOf(vec![("a\"b\\".into(), some)])),
        Metric::named(
            "jvm_memory_bytes_used",
            Value::Gauges(vec![(label("area", "heap"), Number::Real(1e9))]),
        ),
        Metric::named("jvm_gc_collection_seconds", no_collections),
        Metric::named("process_cpu_seconds_total", Value::Counter(Number::Real(1.5))),
    ]
}

#[test]
fn each_family_has_its_type_and_its_samples() {
    let expected = "\
# HELP uptime uptime
# TYPE uptime gauge
uptime 72424.0
# HELP commit_count commit_count
# TYPE commit_count counter
commit_count 3.0
# HELP fsynctime fsynctime
# TYPE fsynctime summary
fsynctime{quantile=\"0.5\"} NaN
fsynctime_count 0.0
fsynctime_sum 0.0
# HELP readlatency readlatency
# TYPE readlatency summary
readlatency{quantile=\"0.5\"} 1.0
readlatency{quantile=\"0.9\"} 3.0
readlatency{quantile=\"0.99\"} 5.0
readlatency_count 9.0
readlatency_sum 14.5
# HELP ack_latency ack_latency
# TYPE ack_latency summary
ack_latency{key=\"1\",quantile=\"0.5\"} 1.0
ack_latency{key=\"1\",quantile=\"0.9\"} 3.0
ack_latency{key=\"1\",quantile=\"0.99\"} 5.0
ack_latency_count{key=\"1\"} 9.0
ack_latency_sum{key=\"1\"} 14.5
# HELP read_per_namespace read_per_namespace
# TYPE read_per_namespace summary
read_per_namespace{key=\"a\\\"b\\\\\",quantile=\"0.5\"} 1.0
read_per_namespace_count{key=\"a\\\"b\\\\\"} 9.0
read_per_namespace_sum{key=\"a\\\"b\\\\\"} 14.5
# HELP jvm_memory_bytes_used jvm_memory_bytes_used
# TYPE jvm_memory_bytes_used gauge
jvm_memory_bytes_used{area=\"heap\"} 1000000000.0
# HELP jvm_gc_collection_seconds jvm_gc_collection_seconds
# TYPE jvm_gc_collection_seconds summary
jvm_gc_collection_seconds_count{gc=\"none\"} 0.0
jvm_gc_collection_seconds_sum{gc=\"none\"} 0.0
# HELP process_cpu_seconds_total process_cpu_seconds_total
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 1.5
";
    assert_eq!(prometheus(&metrics(), Numbers::AsDoubles, &[]), expected);
}

#[test]
fn samples_can_be_asked_for_by_name() {
    let only = ["readlatency_count".to_string(), "uptime".to_string(), "nothing".to_string()];
    let expected = "\
# HELP uptime uptime
# TYPE uptime gauge
uptime 72424.0
# HELP readlatency readlatency
# TYPE readlatency summary
readlatency_count 9.0
";
    assert_eq!(prometheus(&metrics(), Numbers::AsDoubles, &only), expected);
}

#[test]
fn flat_values_are_whole_but_for_averages() {
    let text = |(key, number): &(String, Number)| format!("{key}={number}");
    let found: Vec<String> = flat(&metrics()).iter().map(text).collect();
    assert_eq!(found[..2], ["uptime=72424", "commit_count=3"]);
    let of_reads = [
        "avg_readlatency=1.6111",
        "min_readlatency=0",
        "max_readlatency=7",
        "cnt_readlatency=9",
        "sum_readlatency=15",
        "p50_readlatency=1",
        "p95_readlatency=4",
        "p99_readlatency=5",
        "p999_readlatency=6",
    ];
    assert_eq!(found[7..16], of_reads);
    let of_acks = of_reads.map(|line| line.replace("_readlatency", "_1_ack_latency"));
    assert_eq!(found[16..25], of_acks);
    let of_namespaces = ["avg=1.6111", "min=0", "max=7", "cnt=9", "sum=15"].map(|text| {
        let (what, value) = text.split_once('=').expect("both are there");
        format!("{what}_a\"b\\_read_per_namespace={value}")
    });
    assert_eq!(found[25..30], of_namespaces);
    assert_eq!(found[30..], ["process_cpu_seconds_total=1.5"]);
}

#[test]
fn numbers_are_printed_as_they_are_on_etcds_page() {
    let histogram =
        Histogram { bounds_us: &[5_000, 1_000_000], counts: vec![1, 2, 3], sum_us: 4_500_000 };
    let help = "Help.";
    let metrics = [
        Metric { name: "a", help, value: Value::Gauges(vec![(label("x", "1"), whole(7))]) },
        Metric { name: "b", help, value: Value::Histograms(vec![(Labels::new(), histogram)]) },
        Metric { name: "c", help, value: Value::Counter(Number::Real(0.25)) },
        Metric { name: "d", help, value: Value::Counters(Vec::new()) },
    ];
    let expected = "# HELP a Help.\n# TYPE a gauge\na{x=\"1\"} 7\n\
                    # HELP b Help.\n# TYPE b histogram\nb_bucket{le=\"0.005\"} 1\n\
                    b_bucket{le=\"1\"} 3\nb_bucket{le=\"+Inf\"} 6\nb_sum 4.5\nb_count 6\n\
                    # HELP c Help.\n# TYPE c counter\nc 0.25\n";
    assert_eq!(prometheus(&metrics, Numbers::AsTheyAre, &[]), expected);
}

#[test]
fn the_value_of_a_label_is_escaped() {
    assert_eq!(label("path", "a\"b\\\n"), "path=\"a\\\"b\\\\\\n\"");
}
