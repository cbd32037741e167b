use std::fs;

use clap::Parser;

use super::*;
use crate::workloads::chunk::cmdw::load::ChunkBytes;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: CmdrArgs,
}

fn with_test(name: &str, run: impl Fn(&Test<'_>)) {
    let folder = Folder::make(&std::env::temp_dir(), &format!("quorate-cmdr-{name}")).unwrap();
    let (chunk_bytes, threads, containers) = (ChunkBytes(1_000), 3, 2);
    let shape = Shape { chunk_bytes, chunks: 50, threads, containers, chunks_per_block: 4 };
    let data = chunk_data(chunk_bytes);
    let checksum = ChecksumData::of(ChecksumType::Crc32c, 256, &data);
    let interrupt = &Interrupt::default();
    run(&Test { folder: &folder, interrupt, shape: &shape, checksum, data });
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a run leaves nothing");
}

#[test]
fn options_are_those_of_writes() {
    let args = Line::try_parse_from(["cmdr", "--dir", "/tmp", "--scale", "0.1"]).unwrap().args;
    assert_eq!(args.checksum, ChecksumType::None);
    assert_eq!(args.chunks.shapes().unwrap()[0].chunks, 100_000);
    assert!(Line::try_parse_from(["cmdr", "--scale", "1"]).is_err());
    assert!(Line::try_parse_from(["cmdr", "--dir", "/tmp", "--compare", "freon:/x"]).is_err());
}

#[test]
fn every_layout_gives_back_what_it_took() {
    with_test("layouts", |test| {
        for layout in Layout::ALL {
            let reads = test.run(layout).unwrap();
            assert!(reads.iter().all(|(run, _)| run.write_s > 0.0 && run.p50_us.is_some()));
        }
    });
}

#[test]
fn every_chunk_is_read_once_in_both_orders() {
    with_test("orders", |test| {
        for order in [None, Some(order_by_chance(50))] {
            let seen = std::sync::Mutex::new(Vec::new());
            let took = test.read_by(order.as_deref(), |id, chunk, out| {
                seen.lock().unwrap().push((id, chunk.offset));
                out.clear();
                out.extend_from_slice(&test.data);
                anyhow::Ok(())
            });
            assert_eq!(took.unwrap().latencies.count(), 50);
            let mut seen = seen.into_inner().unwrap();
            seen.sort();
            let mut expected: Vec<_> =
                (0..50).map(|number| test.shape.place_in_turn(number)).collect();
            expected.sort();
            assert_eq!(seen, expected);
        }
    });
}

#[test]
fn other_bytes_are_an_error() {
    with_test("bytes", |test| {
        let result = test.read_by(None, |_, chunk, out| {
            out.clear();
            out.extend_from_slice(&test.data);
            out[999] ^= u8::from(chunk.name.ends_with("_chunk_49"));
            anyhow::Ok(())
        });
        let error = result.unwrap_err().to_string();
        assert!(error.ends_with("_chunk_49 has other bytes than were written"), "{error}");
    });
}

#[test]
fn an_order_by_chance_has_every_number_once() {
    for count in [0, 1, 2, 1_000] {
        let order = order_by_chance(count);
        let mut sorted = order.clone();
        sorted.sort();
        assert!(sorted.iter().map(|it| u64::from(*it)).eq(0..count));
        assert_eq!(order, order_by_chance(count));
        assert!(count < 1_000 || order != sorted);
    }
}

#[test]
fn what_came_from_memory_was_not_cold_and_what_came_from_a_disk_not_warm() {
    with_test("cold", |test| {
        let (cold, warm) = (|read| test.why_not(true, read), |read| test.why_not(false, read));
        assert_eq!(cold(Some(50_000)), None);
        assert_eq!(cold(Some(204_800)), None);
        let expected = "was not cold: of 50000 bytes 44999 came from a disk";
        assert_eq!(cold(Some(44_999)).as_deref(), Some(expected));
        assert_eq!(warm(Some(0)), None);
        assert_eq!(warm(Some(4_096)), None);
        let expected = "was not warm: of 50000 bytes 8192 came from a disk";
        assert_eq!(warm(Some(8_192)).as_deref(), Some(expected));
        assert!(cold(None).unwrap().contains("unknown"));
        assert!(warm(None).unwrap().contains("unknown"));
    });
}
