use super::*;

fn metrics() -> Vec<Metric> {
    let quantiles = Some([1.0, 3.0, 4.0, 5.0, 6.0]);
    let some = Distribution { count: 9, sum: 14.5, min: 0.0, max: 7.0, quantiles };
    let metric = |name, value| Metric { name, value };
    vec![
        metric("uptime", Value::Gauge(Number::Whole(72_424))),
        metric("commit_count", Value::Counter(3)),
        metric("fsynctime", Value::Basic(Distribution::default())),
        metric("readlatency", Value::Advanced(some)),
        metric("ack_latency", Value::AdvancedOf(vec![("1".into(), some)])),
        metric("read_per_namespace", Value::BasicOf(vec![("a\"b\\".into(), some)])),
        metric("jvm_memory_bytes_used", Value::Labelled(vec![("area=\"heap\"".into(), 1e9)])),
        metric("jvm_gc_collection_seconds", Value::Total("gc=\"none\"".into(), 0, 0.0)),
        metric("process_cpu_seconds_total", Value::Seconds(1.5)),
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
    assert_eq!(prometheus(&metrics(), &[]), expected);
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
    assert_eq!(prometheus(&metrics(), &only), expected);
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
    assert_eq!(found[25..], of_namespaces);
}
