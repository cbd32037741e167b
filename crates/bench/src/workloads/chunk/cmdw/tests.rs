//! Checks the options, and makes tiny runs of everything on a real disk.

use std::fs;

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: CmdwArgs,
}

fn args(words: &str) -> Result<CmdwArgs, clap::Error> {
    let words = ["cmdw", "--dir", "/tmp"].into_iter().chain(words.split_whitespace());
    Line::try_parse_from(words).map(|line| line.args)
}

fn shapes(words: &str) -> anyhow::Result<Vec<(u64, u64)>> {
    let shapes = args(words)?.chunks.shapes()?;
    Ok(shapes.iter().map(|shape| (shape.chunk_bytes.0, shape.chunks)).collect())
}

#[test]
fn the_published_test_is_what_nothing_asks_for() {
    let expected = [
        (1_024, 1_000_000),
        (10_240, 100_000),
        (102_400, 10_000),
        (1_024_000, 1_000),
        (4_096_000, 100),
    ];
    assert_eq!(shapes("").unwrap(), expected);
    let args = args("").unwrap();
    assert_eq!((args.chunks.threads, args.chunks.chunks_per_block), (16, 16));
    assert_eq!(args.chunks.shapes().unwrap()[0].containers, 16);
    assert_eq!(args.chunks.layouts(), Layout::ALL);
    assert_eq!((args.durability, args.checksum, args.limits), (Durability::Buffered, None, true));
}

#[test]
fn numbers_of_chunks_are_asked_for_or_scaled() {
    assert_eq!(
        shapes("--size 1KiB,4000KiB --scale 0.1").unwrap(),
        [(1_024, 100_000), (4_096_000, 10)]
    );
    assert_eq!(shapes("--size 4000KiB --scale 0.001").unwrap(), [(4_096_000, 1)]);
    assert_eq!(shapes("--size 1KiB,2KiB --count 5,6").unwrap(), [(1_024, 5), (2_048, 6)]);
    // Sizes that were not published get as many chunks as make up the published bytes.
    assert_eq!(shapes("--size 2KiB").unwrap(), [(2_048, 500_000)]);
    for wrong in [
        "--size 1KiB,2KiB --count 5",
        "--size 1KiB --count 0",
        "--count 5 --scale 2",
        "--scale 0",
        "--scale -1",
        "--size 0",
        "--size 33MiB",
        "--threads 0",
        "--threads 1025",
        "--threads 4 --containers 5",
        "--containers 0",
        "--chunks-per-block 0",
        "--layout per-file",
        "--layout",
        "--checksum crc",
        "--durability fast",
        "--compare zk://a:1",
        "--limits maybe",
    ] {
        assert!(shapes(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn words_of_options_are_known() {
    for (words, expected) in [
        ("--durability buffered", Durability::Buffered),
        ("--durability synced", Durability::Synced),
        ("--durability group-synced", Durability::GroupSynced),
    ] {
        let durability = args(words).unwrap().durability;
        assert_eq!(durability, expected);
        assert!(words.ends_with(durability_name(durability)));
    }
    for kind in ChecksumType::ALL {
        let words = format!("--checksum {}", checksum_name(kind));
        assert_eq!(args(&words).unwrap().checksum, Some(kind));
    }
    let layouts = args("--layout log,per-block").unwrap().chunks.layout;
    assert_eq!(layouts, [Layout::Log, Layout::PerBlock]);
    assert!(!args("--limits false").unwrap().limits);
    assert!(args("--limits").unwrap().limits);
}

#[test]
fn ozone_and_the_limits_are_in_the_first_table() {
    let of = |words: &str, is_first| contenders(&args(words).unwrap(), is_first);
    let (ours, ozone) = (Contender::Ours, Contender::Ozone);
    let expected = [ours(Layout::Log), ozone(Layout::PerBlock)];
    assert_eq!(of("--layout log --compare freon:/x --limits false", true), expected);
    let expected = [ours(Layout::PerChunk), ours(Layout::Log), ozone(Layout::PerChunk)];
    assert_eq!(of("--layout per-chunk,log --compare freon:/x --limits false", true), expected);
    assert_eq!(of("--layout log --compare freon:/x", false), [ours(Layout::Log)]);
    let limits = |words: &str| -> Vec<Contender> { of(words, true).split_off(1) };
    let limit = Contender::Limit;
    let durable = [Limit::LogSync, Limit::LogGroup, Limit::DirectGroup].map(limit);
    let durable = [&durable[..], &[Contender::Generator]].concat();
    assert_eq!(limits("--layout log --durability group-synced"), durable);
    let buffered = [Limit::Sequential, Limit::Direct, Limit::Log, Limit::Gathered].map(limit);
    assert_eq!(limits("--layout log"), [&buffered[..], &[Contender::Generator]].concat());
}

#[test]
fn until_is_about_the_ratios_to_ozone() {
    assert!(args("--until 2%").unwrap().chunks.repeat.ensure_fixed().is_err());
    let contenders = contenders(&args("--compare freon:/x --limits false").unwrap(), true);
    let run = |rate: f64| {
        Some(Run {
            shape: tiny(1_024, 1_000),
            write_s: 1_000.0 / rate,
            sync_s: 0.0,
            cpu_us: None,
            cpu_us_with_sync: None,
            p50_us: None,
            p99_us: None,
            syncs: None,
        })
    };
    let even = vec![run(1.0); 8];
    let uneven = |part| (0..8).map(|round| run(1.0 + part * f64::from(round))).collect::<Vec<_>>();
    let of = |part: f64| {
        // Our layouts (per chunk, per block, log), then Ozone's two.
        [even.clone(), uneven(part), uneven(0.1), even.clone(), even.clone()]
    };
    let narrow = ratio_width(&contenders, &of(0.0)).unwrap();
    let wide = ratio_width(&contenders, &of(0.5)).unwrap();
    assert!(narrow > 0.05 && wide > narrow, "{narrow} {wide}");
    assert_eq!(ratio_width(&contenders[..3], &of(0.0)[..3]), None);
}

#[test]
fn threads_that_share_containers_are_not_compared_with_ozone() {
    let ensure = |words: &str| ensure_same_containers(&args(words).unwrap().chunks.shapes()?);
    assert!(ensure("--threads 4").is_ok());
    assert!(ensure("--threads 4 --containers 4").is_ok());
    let error = ensure("--threads 4 --containers 2").unwrap_err().to_string();
    assert!(error.contains("--containers"), "{error}");
}

fn tiny(chunk_bytes: u64, chunks: u64) -> Shape {
    let (threads, containers, chunks_per_block) = (3, 2, 4);
    Shape { chunk_bytes: ChunkBytes(chunk_bytes), chunks, threads, containers, chunks_per_block }
}

fn with_test(name: &str, durability: Durability, checksum: ChecksumType, run: impl Fn(&Test<'_>)) {
    let folder = Folder::make(&std::env::temp_dir(), &format!("quorate-cmdw-{name}")).unwrap();
    let shape = tiny(1_000, 50);
    let data = chunk_data(shape.chunk_bytes);
    let checksum = ChecksumData::of(checksum, 256, &data);
    let interrupt = &Interrupt::default();
    run(&Test { folder: &folder, interrupt, shape: &shape, checksum, data, durability });
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a run leaves nothing");
}

#[test]
fn every_layout_takes_all_chunks() {
    for (durability, checksum) in [
        (Durability::Buffered, ChecksumType::None),
        (Durability::Buffered, ChecksumType::Crc32c),
        (Durability::GroupSynced, ChecksumType::None),
        (Durability::Synced, ChecksumType::Md5),
    ] {
        with_test("layouts", durability, checksum, |test| {
            for layout in Layout::ALL {
                let run = test.run_ours(layout).unwrap();
                assert!(run.write_s > 0.0 && run.sync_s > 0.0);
                assert!(run.cpu_us_with_sync >= run.cpu_us);
                assert!(run.p50_us <= run.p99_us && run.p50_us.is_some());
                let syncs = run.syncs.unwrap();
                assert_eq!(durability == Durability::Buffered, syncs == SyncCounts::default());
            }
        });
    }
}

#[test]
fn the_fdatasyncs_of_all_layouts_are_counted() {
    with_test("syncs", Durability::Synced, ChecksumType::None, |test| {
        for layout in Layout::ALL {
            let SyncCounts { files, directories } = test.run_ours(layout).unwrap().syncs.unwrap();
            match layout {
                // A sync that finds no new bytes since the last one calls no fdatasync.
                Layout::Log => assert!((1..=test.shape.chunks).contains(&files), "{files}"),
                Layout::PerBlock | Layout::PerChunk => {
                    assert!(files >= test.shape.chunks, "{layout:?}: {files}");
                    // The name of a new file needs a sync of its directory.
                    assert!(directories > 0, "{layout:?}");
                }
            }
        }
    });
}

#[test]
fn a_table_has_all_who_took_part() {
    with_test("table", Durability::Buffered, ChecksumType::None, |test| {
        let contenders =
            [Contender::Ours(Layout::Log), Contender::Limit(Limit::Log), Contender::Generator];
        let rounds = Rounds::of(2, 1);
        let measured = test.measure(&contenders, &rounds, &mut None).unwrap();
        assert_eq!(measured.systems.len(), 3);
        let rates =
            |it: &schema::Measured| it.figure("chunks, before the sync").unwrap().values.len();
        assert!(measured.systems.iter().all(|it| rates(it) == 2));
        assert_eq!(measured.title, "50 chunks of 1000 bytes, checksums: none, buffered");
        let ours = format!("quorate-{} LOG", env!("CARGO_PKG_VERSION"));
        assert_eq!(measured.remarks.len(), 2, "{:?}", measured.remarks);
        assert!(measured.remarks[0].ends_with(&format!(": {ours}")), "{:?}", measured.remarks);
        assert!(measured.remarks[1].ends_with(": limit log"), "{:?}", measured.remarks);
    });
    with_test("durable-table", Durability::GroupSynced, ChecksumType::None, |test| {
        let contenders = [Contender::Ours(Layout::Log)];
        let measured = test.measure(&contenders, &Rounds::ONCE, &mut None).unwrap();
        assert_eq!(measured.remarks, Vec::<String>::new());
    });
}

#[test]
fn who_promises_something_else_is_said_to() {
    let (ours, ozone) = (Contender::Ours, Contender::Ozone(Layout::PerBlock));
    let doubts = |test: &Test<'_>, contender| test.doubts(contender).collect::<Vec<_>>().join("; ");
    with_test("doubts", Durability::GroupSynced, ChecksumType::None, |test| {
        let doubts = |contender| doubts(test, contender);
        for grows in [Limit::LogSync, Limit::LogGroup] {
            assert!(doubts(Contender::Limit(grows)).contains("no limit"));
        }
        assert_eq!(doubts(Contender::Limit(Limit::DirectGroup)), "");
        assert_eq!(doubts(ours(Layout::Log)), "");
        assert!(doubts(ours(Layout::PerBlock)).contains("share no sync"));
        assert!(doubts(ozone).contains("no directory"));
    });
    with_test("bare-doubts", Durability::Buffered, ChecksumType::Crc32c, |test| {
        for contender in [ozone, Contender::Limit(Limit::Direct)] {
            assert_eq!(doubts(test, contender), "has no checksums");
        }
        assert_eq!(doubts(test, ours(Layout::PerBlock)), "");
    });
}

#[test]
fn a_ratio_of_two_promises_says_so() {
    with_test("promises", Durability::Buffered, ChecksumType::None, |test| {
        let limits = [Limit::Log, Limit::Gathered].map(Contender::Limit);
        let contenders = [&[Contender::Ours(Layout::Log)], &limits[..]].concat();
        let series = |contender: &Contender| {
            let runs = vec![test.run_generator().unwrap()];
            Series { runs, ..test.series(*contender, None) }
        };
        let all: Vec<Series> = contenders.iter().map(series).collect();
        let text = test.text(&all, &[], &test.acknowledged(&contenders, &all));
        let of_ratio = |name: &str| -> String {
            let ratio = text.split(&format!(" to limit {name}:\n")).nth(1).unwrap();
            ratio.lines().take_while(|line| line.starts_with("    ")).collect()
        };
        let expected = "not one promise: acknowledged from process, and from page-cache";
        assert!(of_ratio("log").ends_with(expected), "{text}");
        assert!(!of_ratio("gathered").contains("not one promise"), "{text}");
    });
}

#[test]
fn an_interrupted_run_is_an_error() {
    with_test("interrupt", Durability::Buffered, ChecksumType::None, |test| {
        let asked = Interrupt::default();
        asked.ask();
        let test = Test {
            interrupt: &asked,
            checksum: test.checksum.clone(),
            data: test.data.clone(),
            ..*test
        };
        let error = test.measure(&[Contender::Generator], &Rounds::ONCE, &mut None).unwrap_err();
        assert!(format!("{error:#}").contains("interrupted"));
    });
}
