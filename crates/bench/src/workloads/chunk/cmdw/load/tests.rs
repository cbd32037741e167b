use super::*;

fn shape(threads: usize, containers: usize, chunks_per_block: u64) -> Shape {
    Shape { chunk_bytes: ChunkBytes(100), chunks: 50, threads, containers, chunks_per_block }
}

#[test]
fn sizes_are_numbers_and_units() {
    let check = |text: &str, expected: Option<u64>| {
        assert_eq!(text.parse().ok(), expected.map(ChunkBytes), "{text}");
    };
    check("1KiB", Some(1_024));
    check("1000KiB", Some(1_024_000));
    check("4000KiB", Some(4_096_000));
    check("4MiB", Some(4 << 20));
    check("100", Some(100));
    check("100B", Some(100));
    check("32MiB", Some(CHUNK_BYTES_MAX));
    for wrong in ["", "KiB", "0", "33MiB", "1kb", "1 KiB", "-1", "99999999999999999999", "1.5MiB"] {
        check(wrong, None);
    }
    assert_eq!(ChunkBytes(1_024_000).to_string(), "1000 KiB");
    assert_eq!(ChunkBytes(100).to_string(), "100 bytes");
}

#[test]
fn each_thread_fills_blocks_of_its_own_container() {
    let places = |shape: Shape, thread| -> Vec<(u64, u64, u64)> {
        let places = shape.places(thread).take(5);
        places.map(|(id, offset)| (id.container_id, id.local_id, offset)).collect()
    };
    let expected = [(1, 0, 0), (1, 0, 100), (1, 1, 0), (1, 1, 100), (1, 2, 0)];
    assert_eq!(places(shape(4, 4, 2), 0), expected);
    assert_eq!(places(shape(4, 4, 2), 3)[2], (4, 1, 0));
    // Three threads share the first of two containers, two threads the second.
    assert_eq!(places(shape(5, 2, 2), 2)[..3], [(1, 1, 0), (1, 1, 100), (1, 4, 0)]);
    assert_eq!(places(shape(5, 2, 2), 3)[..3], [(2, 1, 0), (2, 1, 100), (2, 3, 0)]);
}

#[test]
fn no_place_is_taken_twice() {
    for containers in 1..=7 {
        let shape = shape(7, containers, 3);
        let all: Vec<_> = (0..7).flat_map(|thread| shape.places(thread).take(20)).collect();
        let mut distinct = all.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), all.len(), "{containers} containers");
    }
}

#[test]
fn in_turn_each_thread_has_the_same_places() {
    let shape = shape(5, 2, 3);
    for thread in 0..5 {
        let numbers = (0..20).map(|count| count * 5 + thread as u64);
        let in_turn = numbers.map(|number| shape.place_in_turn(number));
        assert!(in_turn.eq(shape.places(thread).take(20)), "thread {thread}");
    }
}

#[test]
fn descriptions_are_named_as_cmdw_names_them() {
    let mut description = Description::new("p", ChunkBytes(100), ChecksumData::none());
    for (number, name) in [(0, "p_chunk_0"), (907, "p_chunk_907"), (10, "p_chunk_10")] {
        let chunk = description.of(number, 300);
        assert_eq!((chunk.name.as_str(), chunk.offset, chunk.length), (name, 300, 100));
    }
    let mut text = String::new();
    push_number(&mut text, u64::MAX);
    assert_eq!(text, u64::MAX.to_string());
}

#[test]
fn every_chunk_is_written_once() {
    let seen = Mutex::new(Vec::new());
    let write = |id: BlockId, chunk: &ChunkInfo, number| {
        seen.lock().unwrap().push((number, id, chunk.offset));
        anyhow::Ok(())
    };
    let never = Interrupt::default();
    let took = write_all(&shape(4, 4, 16), "p", &ChecksumData::none(), &never, write).unwrap();
    assert_eq!(took.latencies.count(), 50);
    let mut seen = seen.into_inner().unwrap();
    seen.sort();
    let numbers: Vec<u64> = seen.iter().map(|(number, ..)| *number).collect();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
    // The chunks of a thread leave no gap in its container.
    for container_id in 1..=4 {
        let mut of_it: Vec<_> =
            seen.iter().filter(|it| it.1.container_id == container_id).collect();
        of_it.sort_by_key(|(_, id, offset)| (id.local_id, *offset));
        let expected = shape(4, 4, 16).places(container_id as usize - 1);
        assert!(of_it.iter().map(|(_, id, offset)| (*id, *offset)).eq(expected.take(of_it.len())));
    }
}

#[test]
fn one_error_ends_all() {
    let write = |_: BlockId, _: &ChunkInfo, number: u64| match number {
        3 => Err(anyhow::anyhow!("no")),
        _ => Ok(()),
    };
    let never = Interrupt::default();
    let result = write_all(&shape(4, 4, 16), "p", &ChecksumData::none(), &never, write);
    let error = format!("{:#}", result.unwrap_err());
    assert_eq!(error, "chunk p_chunk_3 cannot be written: no");
    let asked = Interrupt::default();
    asked.ask();
    let fine = |_: BlockId, _: &ChunkInfo, _: u64| anyhow::Ok(());
    let result = write_all(&shape(2, 2, 16), "p", &ChecksumData::none(), &asked, fine);
    assert_eq!(result.unwrap_err().to_string(), "interrupted");
}

#[test]
fn chunk_data_is_the_same_in_every_run() {
    for bytes in [1, 7, 8, 1_000] {
        let data = chunk_data(ChunkBytes(bytes));
        assert_eq!(data.len() as u64, bytes);
        assert_eq!(data, chunk_data(ChunkBytes(bytes)));
    }
}
