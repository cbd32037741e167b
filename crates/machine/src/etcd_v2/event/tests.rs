use super::*;

const EXPIRATION: Option<Expiration> = Some(Expiration { at_ms: -5, ttl_s: 9 });

fn a_state(created: u64, modified: u64, value: Option<&str>) -> NodeState {
    let is_dir = value.is_none();
    let value = value.map(|value| value.as_bytes().into());
    NodeState { created, modified, is_dir, value, expiration: None }
}

fn an_event(action: Action, node: NodeState, prev: Option<NodeState>) -> Event {
    Event { action, key: "/a/b".into(), node, prev, is_refresh: false }
}

fn encode(event: &Event) -> Vec<u8> {
    let mut bytes = Vec::new();
    event.encode(&mut bytes);
    bytes
}

fn decode(bytes: &[u8]) -> Result<Event, DecodeError> {
    let mut reader = Reader::new(bytes);
    let event = Event::decode(&mut reader)?;
    reader.finish()?;
    Ok(event)
}

#[test]
fn an_event_is_read_as_it_was_written() {
    let removed = NodeState { is_dir: false, ..a_state(1, 3, None) };
    for event in [
        an_event(Action::Set, a_state(3, 3, Some("value")), None),
        an_event(Action::Create, a_state(3, 3, None), None),
        an_event(Action::Delete, removed, Some(a_state(1, 2, Some("")))),
        an_event(Action::Expire, a_state(1, 3, None), Some(a_state(1, 1, None))),
        Event {
            is_refresh: true,
            ..an_event(
                Action::Update,
                NodeState { expiration: EXPIRATION, ..a_state(1, 3, Some("v")) },
                Some(NodeState { expiration: EXPIRATION, ..a_state(1, 2, Some("v")) }),
            )
        },
    ] {
        let bytes = encode(&event);
        assert_eq!(decode(&bytes), Ok(event));
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end]).is_err(), "cut at {end}");
        }
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 0x81;
            if let Ok(read) = decode(&other) {
                assert_eq!(encode(&read), other, "each event has one form");
            }
        }
    }
}

#[test]
fn every_action_has_a_number() {
    for (number, action) in (1..).zip(Action::ALL) {
        assert_eq!(action as u8, number);
        let event = an_event(action, a_state(3, 3, Some("v")), None);
        assert_eq!(decode(&encode(&event)), Ok(event));
    }
}

#[test]
fn an_event_that_no_store_has_is_refused() {
    let check = |event: Event, expected: &str| {
        let read = decode(&encode(&event));
        let Err(DecodeError::Bad { what, .. }) = read else { panic!("{read:?}") };
        assert_eq!(what, expected);
    };
    let set = |node, prev| an_event(Action::Set, node, prev);
    let value = Some("v");
    check(Event { key: "".into(), ..set(a_state(3, 3, value), None) }, "event of the root");
    check(
        Event { key: "a".into(), ..set(a_state(3, 3, value), None) },
        "key of etcd v2 with bytes",
    );
    check(set(a_state(0, 3, value), None), "indexes of a state");
    check(set(a_state(4, 3, value), None), "indexes of a state");
    check(set(a_state(3, ETCD_V2_INDEX_MAX + 1, value), None), "indexes of a state");
    check(set(a_state(3, 3, value), Some(a_state(3, 3, value))), "index of an event");
    let both = NodeState { is_dir: true, ..a_state(3, 3, value) };
    check(set(both, None), "flags of a state");
    let mut bytes = encode(&set(a_state(3, 3, value), None));
    bytes[1] = 4;
    let bad = |what, offset, value| Err(DecodeError::Bad { what, offset, value });
    assert_eq!(decode(&bytes), bad("flags of an event", 2, 4));
    for action in [0, 8] {
        bytes[0] = action;
        assert_eq!(decode(&bytes), bad("action", 1, action.into()));
    }
}

#[test]
fn a_write_creates_its_key_if_there_was_none() {
    let check = |action, has_prev: bool, expected| {
        let prev = has_prev.then(|| a_state(1, 1, Some("")));
        let event = an_event(action, a_state(3, 3, Some("v")), prev);
        assert_eq!(event.is_created(), expected, "{action:?} {has_prev}");
    };
    check(Action::Set, false, true);
    check(Action::Set, true, false);
    check(Action::Create, false, true);
    check(Action::Update, true, false);
    check(Action::CompareAndSwap, true, false);
    check(Action::Delete, true, false);
}
