use super::*;

/// The bytes of one value of every kind.
fn values() -> Vec<u8> {
    let mut out = Vec::new();
    out.put_byte(7);
    out.put_bool(true);
    out.put_int(-2);
    out.put_long(i64::MIN);
    out.put_buffer(Some(b"data"));
    out.put_buffer(None);
    out.put_text("ü");
    out.put_count(2);
    out.put_text("a");
    out.put_text("");
    out
}

fn read(bytes: &[u8]) -> Result<(), JuteError> {
    let mut reader = JuteReader::new(bytes);
    assert_eq!(reader.byte()?, 7);
    assert!(reader.bool()?);
    assert_eq!(reader.int()?, -2);
    assert_eq!(reader.long()?, i64::MIN);
    assert_eq!(reader.buffer()?, Some(b"data".as_slice()));
    assert_eq!(reader.buffer()?, None);
    assert_eq!(reader.text()?, "ü");
    assert_eq!(reader.texts()?, ["a", ""]);
    assert_eq!((reader.remaining(), reader.offset()), (0, bytes.len()));
    Ok(())
}

#[test]
fn every_kind_of_value_is_read_back() {
    assert_eq!(read(&values()), Ok(()));
}

#[test]
fn values_cut_off_anywhere_are_refused() {
    let bytes = values();
    for end in 0..bytes.len() {
        let refused = read(&bytes[..end]);
        // A count too large for the remaining bytes is refused as such, before the cut is reached.
        let noticed = matches!(refused, Err(JuteError::Cut { .. } | JuteError::BadLength { .. }));
        assert!(noticed, "cut at {end}: {refused:?}");
    }
}

#[test]
fn numbers_are_big_endian() {
    let mut out = Vec::new();
    out.put_int(0x0102_0304);
    out.put_long(5);
    assert_eq!(out, [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 5]);
}

/// Checks how a reader reads `length` followed by `rest`: as a buffer, as a text and as a vector of
/// texts.
fn check(length: i32, rest: &[u8], buffer: &str, text: &str, texts: &str) {
    let bytes = [&length.to_be_bytes(), rest].concat();
    let reader = JuteReader::new(&bytes);
    let show = |result: Result<String, JuteError>| match result {
        Ok(value) => value,
        Err(JuteError::Cut { .. }) => "cut".to_string(),
        Err(JuteError::BadLength { length, .. }) => format!("bad length {length}"),
        Err(JuteError::BadValue { what, .. }) => format!("bad {what}"),
        Err(error @ (JuteError::NullAcl { .. } | JuteError::NullPath { .. })) => {
            unreachable!("no write is read: {error}")
        }
    };
    assert_eq!(show(reader.clone().buffer().map(|value| format!("{value:?}"))), buffer);
    assert_eq!(show(reader.clone().text().map(|value| format!("{value:?}"))), text);
    assert_eq!(show(reader.clone().texts().map(|value| format!("{value:?}"))), texts);
}

#[test]
fn lengths_are_null_or_as_many_as_there_are() {
    check(-1, b"", "None", "bad null", "[]");
    check(0, b"", "Some([])", "\"\"", "[]");
    check(1, b"x", "Some([120])", "\"x\"", "bad length 1");
    check(2, b"x", "cut", "cut", "bad length 2");
    // The count -1 means null. A lower count is read as an empty vector.
    check(-2, b"x", "bad length -2", "bad length -2", "[]");
    check(i32::MIN, b"", "bad length -2147483648", "bad length -2147483648", "[]");
    check(1, b"\xff", "Some([255])", "\"/\u{FFFD}\"", "bad length 1");
}

#[test]
fn a_vector_of_texts_may_have_null_in_it_and_be_null() {
    let read = |bytes: &[u8]| {
        let texts = JuteReader::new(bytes).optional_texts().unwrap();
        format!("{texts:?}")
    };
    assert_eq!(read(&[0xff; 4]), "None");
    assert_eq!(read(&[0xff, 0xff, 0xff, 0xfe]), "Some([])");
    assert_eq!(read(&[0, 0, 0, 0]), "Some([])");
    let two = [0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, b'a'];
    assert_eq!(read(&two), "Some([None, Some(\"a\")])");
    assert!(JuteReader::new(&two[..12]).optional_texts().is_err());
}

#[test]
fn a_huge_count_is_refused_before_anything_is_reserved() {
    check(i32::MAX, b"xxxx", "cut", "cut", "bad length 2147483647");
    check(0x4000_0000, b"xxxx", "cut", "cut", "bad length 1073741824");
    let bytes = 2_i32.to_be_bytes();
    assert_eq!(JuteReader::new(&bytes).count(usize::MAX).ok(), None);
}

#[test]
fn any_byte_but_zero_is_true() {
    let bools: Vec<bool> =
        [0, 1, 2, 255].map(|byte| JuteReader::new(&[byte]).bool().unwrap()).into();
    assert_eq!(bools, [false, true, true, true]);
}

#[test]
fn a_frame_starts_with_the_bytes_behind_its_length() {
    let mut out = vec![9];
    let start = begin_frame(&mut out);
    out.put_text("abc");
    end_frame(&mut out, start);
    assert_eq!(out, [9, 0, 0, 0, 7, 0, 0, 0, 3, b'a', b'b', b'c']);
    let start = begin_frame(&mut out);
    end_frame(&mut out, start);
    assert_eq!(out[12..], [0, 0, 0, 0]);
}
