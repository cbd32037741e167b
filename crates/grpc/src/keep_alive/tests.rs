use super::*;

fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
    let [_, high, middle, low] = (length as u32).to_be_bytes();
    let head = [high, middle, low, kind, flags, 0, 0, 0, 1];
    [&head[..], &vec![0xff; length]].concat()
}

#[test]
fn heads_are_found_however_the_bytes_are_cut() {
    let bytes = [vec![6; PREFACE_BYTES], frame(4, 0, 0), frame(0, 1, 300), frame(6, 0, 8)].concat();
    for size in [1, 2, 8, 9, 10, 100, bytes.len()] {
        let (mut heads, mut found) = (Heads::behind(PREFACE_BYTES), Vec::new());
        for part in bytes.chunks(size) {
            heads.pass(part, |kind, flags| found.push((kind, flags)));
        }
        assert_eq!(found, [(4, 0), (0, 1), (6, 0)], "{size}");
    }
}

const POLICY: PingPolicy = PingPolicy {
    min_time: Duration::from_secs(5),
    idle_time: Duration::from_secs(7_200),
    wait_time: Duration::from_secs(20),
};

/// Whether a client that sends `count` pings, `apart_s` seconds apart, loses its connection.
fn is_sent_away(apart_s: u64, count: u32, has_streams: bool, is_answered: bool) -> bool {
    let streams = Arc::new(());
    let _stream = has_streams.then(|| streams.clone());
    let signs = SignsOfLife::new(Some(POLICY), &streams);
    let start = Instant::now();
    for number in 0..count {
        signs.on_ping(start + Duration::from_secs(apart_s) * number);
        if is_answered {
            signs.on_sent(&mut Heads::behind(0), &frame(DATA, 0, 3));
        }
    }
    signs.is_abused()
}

#[test]
fn the_fourth_ping_that_comes_too_early_is_too_many() {
    assert!(!is_sent_away(1, 3, true, false));
    assert!(is_sent_away(1, 4, true, false));
    assert!(!is_sent_away(5, 100, true, false));
    assert!(!is_sent_away(1, 100, true, true), "answers start the count anew");
    assert!(is_sent_away(3_600, 4, false, false), "without a stream");
    assert!(!is_sent_away(7_200, 100, false, false));
}

#[test]
fn the_reason_stands_in_the_last_frame_only_if_it_is_the_one() {
    let goaway = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0xb].to_vec();
    let mut written = [frame(4, 0, 6), goaway.clone()].concat();
    add_reason(&mut written);
    assert!(written.ends_with(&[&goaway[9..], b"too_many_pings"].concat()));
    assert_eq!(written[15..18], [0, 0, 22]);
    let mut other = frame(4, 0, 30);
    add_reason(&mut other);
    assert_eq!(other, frame(4, 0, 30));
}
