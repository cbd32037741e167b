use super::*;
use crate::measure::published::CMDW;
use crate::workloads::chunk::cmdw::load::ChunkBytes;

fn shape() -> Shape {
    let (chunk_bytes, threads, chunks_per_block) = (ChunkBytes(1_024), 16, 16);
    Shape { chunk_bytes, chunks: 1_000_000, threads, containers: 16, chunks_per_block }
}

fn run(write_s: f64, sync_s: f64) -> Run {
    Run {
        shape: shape(),
        write_s,
        sync_s,
        cpu_us: Some(1.5),
        cpu_us_with_sync: Some(2.0),
        p50_us: Some(3.0),
        p99_us: Some(40.0),
        syncs: None,
    }
}

fn series(implementation: &str, layout: &str, runs: Vec<Run>) -> Series {
    let [implementation, layout, variant] =
        [implementation, layout, "none-buffered"].map(ToString::to_string);
    Series { implementation, layout, variant, runs, notes: Vec::new() }
}

#[test]
fn a_row_is_the_median_of_its_rounds() {
    let ours = series("quorate-1", "LOG", vec![run(2.0, 2.0), run(1.0, 0.5), run(4.0, 1.0)]);
    let mut none = series("limit", "direct", Vec::new());
    none.notes.push("this file system has no such writes".to_string());
    let published: Vec<_> = CMDW.iter().filter(|row| row.chunk_bytes == 1_024).collect();
    let text = table(Kind::Writes, &[ours, none], &published);
    let expected = [
        "with sync w. sync CPU us CPU us p50 p99",
        "testname rate chunks sec sync MB/s rate MB/s a chunk w. sync us us",
        "quorate-1 LOG 500000 1000000 2.00 1.00 512.0 250000 256.0 1.50 2.00 3.0 40.0",
        "limit direct - - - - - - - - - - -",
        "published FILE_PER_CHUNK 114000 1000000 8.77 82.50 116.7 10956 11.2 - - - -",
        "published FILE_PER_BLOCK 330000 1000000 3.03 16.30 337.9 51732 53.0 - - - -",
        "limit direct: this file system has no such writes",
    ];
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(text.lines().map(words).collect::<Vec<_>>(), expected);
    // All lines of the table have the same width.
    let widths: Vec<usize> = text.lines().take(6).map(str::len).collect();
    assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
}

#[test]
fn durable_writes_have_their_fdatasyncs_and_reads_no_sync() {
    let syncs = SyncCounts { files: 125_000, directories: 2_000_000 };
    let durable = Run { syncs: Some(syncs), ..run(1.0, 0.0) };
    let text = table(Kind::DurableWrites, &[series("quorate-1", "LOG", vec![durable])], &[]);
    assert!(text.contains("fdatasyncs"), "{text}");
    assert!(text.contains("dir fsyncs"), "{text}");
    let last: Vec<_> = text.split_whitespace().rev().take(2).collect();
    assert_eq!(last, ["2.000", "0.125"]);
    let line = lines(&[series("quorate-1", "LOG", vec![durable])]);
    assert_eq!(value_of(&line, "fdatasyncs"), Some("125000"));
    assert_eq!(value_of(&line, "dir_fsyncs"), Some("2000000"));
    let text = table(Kind::Reads, &[series("quorate-1", "LOG", vec![durable])], &[]);
    assert!(!text.contains("sync "), "{text}");
    assert!(text.contains("  LOG none-buffered "), "{text}");
}

#[test]
fn a_line_has_the_keys_that_its_readers_know() {
    let text = lines(&[series("quorate-1", "LOG", vec![run(2.0, 0.5)])]);
    let expected = "impl=quorate-1 layout=LOG size=1024 chunks=1000000 threads=16 rate=500000.0 \
                    MBps=512.0 write_s=2.0000 sync_s=0.5000 MBps_with_sync=409.6 \
                    chunks_per_s_with_sync=400000.0 p50_ms=0.0030 p99_ms=0.0400 \
                    cpu_us_per_chunk=2.000 cpu_us_without_sync=1.500 variant=none-buffered \
                    round=0\n";
    assert_eq!(text, expected);
    assert_eq!(value_of(&text, "rate"), Some("500000.0"));
    assert_eq!(value_of(&text, "round"), Some("0"));
    assert_eq!(value_of(&text, "p90_ms"), None);
}

#[test]
fn ratios_are_of_runs_of_one_round() {
    let ours = series("quorate-1", "LOG", vec![run(1.0, 1.0), run(2.0, 1.0)]);
    let theirs = series("ozone-2", "FILE_PER_BLOCK", vec![run(10.0, 2.0), run(8.0, 1.0)]);
    let text = ratios(&ours, &theirs);
    assert!(text.starts_with("  quorate-1 LOG to ozone-2 FILE_PER_BLOCK:\n"), "{text}");
    assert!(text.contains("7.00x  (4.00x to 10.00x in 2 pairs)"), "{text}");
    assert!(text.contains("4.50x  (3.00x to 6.00x in 2 pairs)"), "{text}");
}

/// The rates match the sums that readers of the report have made: write and sync in s, MB/s with
/// both.
#[test]
fn the_published_table_adds_up() {
    for (row, (write_s, mb)) in CMDW.iter().zip([
        (8.80, 11.2),
        (3.03, 52.9),
        (1.54, 48.4),
        (1.07, 59.1),
        (1.03, 59.7),
        (1.03, 54.0),
        (1.03, 60.3),
        (1.03, 86.6),
        (1.02, 56.2),
        (1.02, 77.8),
    ]) {
        assert!((row.write_s() / write_s - 1.0).abs() < 0.01, "{row:?}: {}", row.write_s());
        let with_sync = row.rate_with_sync() * row.chunk_bytes as f64 / 1e6;
        assert!((with_sync / mb - 1.0).abs() < 0.015, "{row:?}: {with_sync}");
    }
}
