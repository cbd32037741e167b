use machine::etcd_v2::reply::{OtherIndex, OtherValue};

use super::*;

fn body(failure: &Failure) -> String {
    String::from_utf8(failure.body()).unwrap()
}

/// The bodies are those of etcd 3.4.23.
#[test]
fn errors_have_etcds_form() {
    let failure = Failure::new(Code::InvalidField, "invalid value for \"recursive\"");
    assert_eq!(
        body(&failure),
        "{\"errorCode\":209,\"message\":\"Invalid field\",\
         \"cause\":\"invalid value for \\\"recursive\\\"\",\"index\":0}\n"
    );
    let refusal = Refusal { reason: Reason::KeyNotFound("/none".into()), index: 5 };
    let failure = Failure::from(&refusal);
    assert_eq!((failure.code.status(), failure.index), (404, 5));
    assert_eq!(
        body(&failure),
        "{\"errorCode\":100,\"message\":\"Key not found\",\"cause\":\"/none\",\"index\":5}\n"
    );
}

#[test]
fn a_comparison_that_fails_names_what_differs() {
    let value = OtherValue { asked: (*b"x").into(), found: (*b"2").into() };
    let index = OtherIndex { asked: 1, found: 9 };
    for (value, index, cause) in [
        (Some(value.clone()), None, "[x != 2]"),
        (None, Some(index), "[1 != 9]"),
        (Some(value), Some(index), "[x != 2] [1 != 9]"),
    ] {
        let reason = Reason::CompareFailed(Mismatch { value, index });
        let failure = Failure::from(&Refusal { reason, index: 9 });
        assert_eq!((failure.code.status(), failure.cause.as_slice()), (412, cause.as_bytes()));
    }
}

#[test]
fn a_wait_for_a_lost_event_names_the_first_that_is_left() {
    let reason = Reason::HistoryCleared { first: 1_001, asked: 7 };
    let failure = Failure::from(&Refusal { reason, index: 2_000 });
    assert_eq!(failure.code.status(), 400);
    assert_eq!(failure.cause, b"the requested history has been cleared [1001/7]");
}
