use super::*;

#[test]
fn a_list_at_its_limit_is_taken_and_one_past_it_refused() {
    let mut bytes = Vec::new();
    put_u64_list(&mut bytes, &[1, 2, 3]);
    assert_eq!(Reader::new(&bytes).u64_list(3), Ok(vec![1, 2, 3]));
    assert!(Reader::new(&bytes).u64_list(2).is_err());
    let mut lying = u32::MAX.to_le_bytes().to_vec();
    lying.extend_from_slice(&[0; 8]);
    assert!(Reader::new(&lying).u64_list(usize::MAX).is_err());
}

#[test]
fn nothing_is_read_past_the_end_and_nothing_is_consumed_by_a_failure() {
    let mut reader = Reader::new(&[1, 2, 3]);
    assert!(reader.u32().is_err());
    assert!(reader.take(usize::MAX).is_err());
    assert_eq!(reader.u16(), Ok(0x0201));
    assert!(reader.finish().is_err());
    assert_eq!(reader.u8(), Ok(3));
    assert_eq!(reader.finish(), Ok(()));
}

#[test]
fn flags_and_reserved_bytes_have_one_form() {
    assert_eq!(Reader::new(&[1]).flag(), Ok(true));
    assert_eq!(Reader::new(&[0]).flag(), Ok(false));
    assert!(Reader::new(&[2]).flag().is_err());
    assert!(Reader::new(&[0, 1]).zeros(2).is_err());
}
