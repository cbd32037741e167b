use super::*;

const BOUNDS: HeldBounds = HeldBounds { etcd_factor: 5, etcd_v2_floor: 77 };

fn encoded(control: &Control) -> Vec<u8> {
    let mut bytes = Vec::new();
    control.encode(&mut bytes);
    bytes
}

fn decoded(bytes: &[u8]) -> Result<Control, DecodeError> {
    let mut reader = Reader::new(bytes);
    let control = Control::decode(&mut reader)?;
    reader.finish().map(|()| control)
}

/// A state where two members have handed over batches, one is registered, and the level has risen.
fn control() -> Control {
    let mut control = Control::default();
    for member in [5, 9] {
        let origin = Origin { member: MemberId(member), boot: BootId(2) };
        assert!(control.begin_batch(origin, 1));
    }
    control.register(MemberId(5), 1);
    control.raise(&Level::ETCD.into(), BOUNDS);
    control
}

#[test]
fn a_section_is_read_back_and_is_as_long_as_foretold() {
    let mut bounded = control();
    bounded.raise(&Level::TOKENS.into(), BOUNDS);
    assert_eq!((control().bounds(), bounded.bounds()), (None, Some(BOUNDS)));
    for control in [Control::default(), control(), bounded] {
        let bytes = encoded(&control);
        assert_eq!(bytes.len() as u64, control.encoded_bytes());
        let again = decoded(&bytes).unwrap();
        assert_eq!(encoded(&again), bytes);
        assert_eq!(again.digest(Ordinal(7)), control.digest(Ordinal(7)));
    }
}

#[test]
fn a_section_cut_anywhere_or_with_more_behind_it_is_refused() {
    let bytes = encoded(&control());
    for cut in 0..bytes.len() {
        assert!(decoded(&bytes[..cut]).is_err(), "{cut} bytes");
    }
    assert!(decoded(&[&bytes[..], &[0]].concat()).is_err());
}

#[test]
fn bad_levels_and_origins_are_refused() {
    let check = |change: &dyn Fn(&mut Vec<u8>), expected: &str| {
        let mut bytes = encoded(&control());
        change(&mut bytes);
        match decoded(&bytes) {
            Err(DecodeError::Bad { what, .. }) => assert_eq!(what, expected),
            other => unreachable!("{other:?} is not about {expected}"),
        }
    };
    check(&|bytes| bytes[0] = 0, "level");
    let long = |bytes: &mut Vec<u8>, length: usize| {
        let text = [&(length as u32).to_le_bytes()[..], &vec![b'x'; length]].concat();
        bytes.splice(2..2 + 4 + Level::ETCD.version().len(), text);
    };
    let mut longest = encoded(&control());
    long(&mut longest, 64);
    assert!(decoded(&longest).is_ok());
    check(&|bytes| long(bytes, 65), "bytes of a version");
    let end = encoded(&control()).len();
    let (second, count) = (end - 24, end - 2 * 24 - 4);
    check(&|bytes| bytes[second] = 5, "member of a batch");
    check(&|bytes| bytes[second] = 4, "member of a batch");
    check(&|bytes| bytes[count + 3] = 1, "origin count");
}

#[test]
fn each_change_of_the_ensemble_changes_the_digest() {
    let mut control = Control::default();
    let mut digests = vec![control.digest(Ordinal(1))];
    let mut note = |control: &Control| {
        let digest = control.digest(Ordinal(1));
        assert!(!digests.contains(&digest));
        digests.push(digest);
    };
    control.begin_batch(Origin { member: MemberId(5), boot: BootId(2) }, 1);
    note(&control);
    control.register(MemberId(5), 1);
    note(&control);
    control.set_servers(
        &ServerList { version: 1, ..ServerList::default() },
        MemberId(5),
        Ordinal(1),
    );
    note(&control);
    control.raise(&Level::ETCD.into(), BOUNDS);
    note(&control);
    assert_ne!(control.digest(Ordinal(2)), control.digest(Ordinal(1)));
}
