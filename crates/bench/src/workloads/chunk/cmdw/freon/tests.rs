use super::*;

#[test]
fn the_other_side_is_named_by_its_jars() {
    let jars = PathBuf::from("/x/lib");
    assert_eq!("freon:/x/lib".parse(), Ok(FreonPeer { jars }));
    for wrong in ["freon:", "/x/lib", "zk://a:1", ""] {
        assert!(wrong.parse::<FreonPeer>().is_err(), "{wrong}");
    }
}

#[test]
fn missing_jars_are_one_line() {
    let dir = std::env::temp_dir();
    let folder = Folder::make(&dir, "quorate-freon-test").unwrap();
    let error = version_of(folder.path()).unwrap_err().to_string();
    assert!(error.contains("install-ozone.sh"), "{error}");
    let jar = |name: &str| fs::write(folder.path().join(name), b"").unwrap();
    jar("hdds-container-service-tests.jar");
    jar("hdds-container-service-2.2.0-tests.jar");
    jar("hdds-container-service-2.2.0.jar");
    assert_eq!(version_of(folder.path()).unwrap(), "2.2.0");
    assert!(version_of(&folder.path().join("x")).is_err());
}

/// A shell script that answers as the Java program does, and writes its commands to a file.
const ANSWERS: &str = r#"while read -r line; do
    echo "$line" >> "$1/told"
    case "$line" in
        fresh*) echo fresh ;;
        clean) echo cleaned ;;
        figures) echo "chunks=$chunks write_s=1 p50_ms=1 p99_ms=1 cpu_us_per_chunk=1" \
            "failed=0" ;;
        *) set -- "$1" $line; chunks=$4; echo written ;;
    esac
done"#;

/// Calls `run` with a [`Freon`] on that shell. Returns the commands that the shell got.
fn told(name: &str, run: impl FnOnce(&mut Freon, &Shape)) -> String {
    let folder = Folder::make(&std::env::temp_dir(), name).unwrap();
    let told = folder.path().join("told");
    let mut shell = command("sh");
    shell.args(["-c", ANSWERS, "sh"]).arg(folder.path());
    let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take();
    let lines = read_lines(child.stdout.take().unwrap()).unwrap();
    let (name, interrupt) = ("sh".to_string(), Interrupt::default());
    let mut freon = Freon { child, input, lines, folder, name, interrupt };
    let (chunk_bytes, chunks) = (ChunkBytes(4_096_000), 60);
    let (threads, containers, chunks_per_block) = (2, 2, 16);
    let shape = Shape { chunk_bytes, chunks, threads, containers, chunks_per_block };
    run(&mut freon, &shape);
    fs::read_to_string(told).unwrap()
}

#[test]
fn every_case_has_fresh_containers_and_its_sync_before_its_figures() {
    let told = told("quorate-freon-fresh-test", |freon, shape| {
        for layout in [Layout::PerBlock, Layout::PerChunk] {
            let run = freon.run(layout, shape).unwrap();
            assert!(run.sync_s > 0.0);
        }
    });
    let expected = "fresh FILE_PER_BLOCK\nFILE_PER_BLOCK 4096000 60 write\nfigures\nclean\n\
                    fresh FILE_PER_CHUNK\nFILE_PER_CHUNK 4096000 60 write\nfigures\nclean\n";
    assert_eq!(told, expected);
}

/// For a million chunks of 1 KiB `cmdw` leaves 62,500 files open: more than many machines permit.
#[test]
fn files_of_blocks_are_closed_where_there_is_no_room_for_them() {
    let told = told("quorate-freon-files-test", |freon, shape| {
        let room = open_files::hard_limit() as u64;
        let chunks = room.saturating_mul(shape.chunks_per_block);
        let shape = Shape { chunk_bytes: ChunkBytes(1_024), chunks, ..*shape };
        for layout in [Layout::PerBlock, Layout::PerChunk] {
            freon.run(layout, &shape).unwrap();
        }
        assert!(remark(Layout::PerBlock, &shape).unwrap().contains("ulimit"));
        assert_eq!(remark(Layout::PerChunk, &shape), None);
    });
    let cases: Vec<_> = told.lines().filter(|line| line.starts_with("FILE")).collect();
    assert!(cases[0].ends_with(" write+end") && cases[1].ends_with(" write"), "{cases:?}");
}

/// The line with the cause is shown, even if a long stack trace follows it.
#[test]
fn complaints_are_without_stack_traces() {
    let text =
        format!("java.io.IOException: Too many open files\n{}", "\tat A.b(A.java:1)\n".repeat(9));
    assert_eq!(last_lines(&text), "java.io.IOException: Too many open files");
}

#[test]
fn the_jvm_is_warm_before_the_first_case() {
    let told = told("quorate-freon-warm-test", |freon, shape| freon.warm(shape).unwrap());
    let cases: Vec<_> = told.lines().filter(|line| line.ends_with(" write")).collect();
    let expected = ["FILE_PER_BLOCK 1024 20000 write", "FILE_PER_CHUNK 1024 20000 write"];
    assert_eq!(cases, expected);
}

#[test]
fn what_it_says_becomes_a_run() {
    let shape = Shape {
        chunk_bytes: ChunkBytes(1_024),
        chunks: 60_000,
        threads: 16,
        containers: 16,
        chunks_per_block: 16,
    };
    let line = "impl=ozone-2.2.0 variant=write layout=FILE_PER_BLOCK size=1024 chunks=60000 \
                threads=16 rate=13688.7 MBps=14.0 write_s=4.383000 p50_ms=0.0125 p99_ms=8.996 \
                cpu_us_per_chunk=42.170 failed=0";
    let (elapsed_ns, cpu_ns) = (676_000_000, 30_000_000);
    let (latencies, clock) = (Latencies::default(), Clock::start());
    let sync = Took { elapsed_ns, cpu_ns, latencies, clock };
    let run = run_of(line, &shape, &sync).unwrap();
    assert_eq!((run.write_s, run.sync_s), (4.383, 0.676));
    assert_eq!((run.p50_us, run.p99_us), (Some(12.5), Some(8_996.0)));
    assert_eq!((run.cpu_us, run.cpu_us_with_sync), (Some(42.17), Some(42.67)));
    let failed = line.replace("failed=0", "failed=1");
    for wrong in [failed.as_str(), "Exception in thread", ""] {
        assert!(run_of(wrong, &shape, &sync).is_none(), "{wrong}");
    }
}
