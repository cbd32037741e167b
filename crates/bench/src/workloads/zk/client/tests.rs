use zk::ErrorCode;
use zk::request::{ReadKind, ReadRequest};
use zk::response::{EventType, encode_empty, encode_event};

use super::*;

fn open() -> Session {
    let mut session = Session::connect(5_000);
    let mut answer = Vec::new();
    let response =
        ConnectResponse { timeout_ms: 4_000, session: 9, password: [1; 16], read_only: None };
    response.encode(&mut answer);
    session.input().extend(&answer);
    assert!(matches!(session.take(), Ok(Some(Incoming::Connected))));
    assert_eq!(session.timeout_ms(), 4_000);
    let sent = session.output().len();
    session.on_written(sent);
    session
}

fn get(session: &mut Session, since_ns: u64) {
    let read = ReadRequest { kind: ReadKind::GetData, path: "/a", watch: false };
    session.send(&Request::Read(read), since_ns);
}

fn reply(xid: i32) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_empty(ReplyHeader { xid, zxid: 7, error: ErrorCode::OK }, &mut frame);
    frame
}

#[test]
fn replies_are_matched_in_order_with_the_times_of_their_requests() {
    let mut session = open();
    get(&mut session, 10);
    get(&mut session, 20);
    assert_eq!(session.under_way(), 2);
    let mut bytes = reply(1);
    encode_event(8, EventType::Deleted, "/a", &mut bytes);
    bytes.extend(reply(2));
    // The bytes may arrive in pieces of any size.
    let mut seen = Vec::new();
    for byte in bytes {
        session.input().push(byte);
        while let Some(incoming) = session.take().unwrap() {
            match incoming {
                Incoming::Reply { since_ns, .. } => seen.push(since_ns),
                Incoming::Event { kind, path } => {
                    assert_eq!((kind, path), (2, "/a"));
                    seen.push(0);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(seen, [10, 0, 20]);
    assert_eq!(session.under_way(), 0);
}

#[test]
fn a_reply_to_something_else_ends_the_session() {
    let mut session = open();
    get(&mut session, 10);
    session.input().extend(reply(2));
    assert_eq!(session.take().unwrap_err(), SessionError::OutOfOrder { got: 2, wanted: 1 });
    let mut session = open();
    session.input().extend(reply(1));
    assert_eq!(session.take().unwrap_err(), SessionError::OutOfOrder { got: 1, wanted: 0 });
}

#[test]
fn frames_that_no_server_sends_end_the_session() {
    for bytes in [u32::MAX, frame::REPLY_BYTES_MAX + 1] {
        let mut session = open();
        session.input().extend(bytes.to_be_bytes());
        let expected = SessionError::from(FrameTooLarge { bytes });
        assert_eq!(session.take().unwrap_err(), expected);
    }
    let mut session = open();
    session.input().extend([0, 0, 0, 3, 1, 2, 3]);
    assert!(matches!(session.take(), Err(SessionError::Undecodable(_))));
}

#[test]
fn a_session_that_is_not_given_is_an_error() {
    let mut session = Session::connect(5_000);
    let mut answer = Vec::new();
    ConnectResponse::refused(Some(false)).encode(&mut answer);
    session.input().extend(&answer);
    assert_eq!(session.take().unwrap_err(), SessionError::Refused);
}

#[test]
fn output_that_is_written_in_parts_stays_in_order() {
    let mut session = open();
    get(&mut session, 1);
    let whole = session.output().to_vec();
    session.on_written(5);
    get(&mut session, 2);
    assert_eq!(&session.output()[..whole.len() - 5], &whole[5..]);
    let rest = session.output().len();
    session.on_written(rest);
    assert!(session.output().is_empty());
}

/// On a new connection a session shows its id, its password and the highest zxid that it has seen.
/// Its requests under way are forgotten.
#[test]
fn a_session_goes_on_where_it_was() {
    let mut session = open();
    get(&mut session, 10);
    session.input().extend(reply(1));
    assert!(matches!(session.take(), Ok(Some(Incoming::Reply { .. }))));
    get(&mut session, 20);
    session.input().extend([0, 0, 0]);
    session.reconnect();
    assert_eq!((session.under_way(), session.is_open()), (0, false));
    assert!(matches!(session.take(), Ok(None)));
    let request = ConnectRequest::decode(&session.output()[4..]).unwrap();
    let expected = ConnectRequest {
        session: 9,
        password: vec![1; 16],
        last_zxid_seen: 7,
        ..ConnectRequest::new(4_000)
    };
    assert_eq!(request, expected);
    let sent = session.output().len();
    session.on_written(sent);
    let mut answer = Vec::new();
    let response =
        ConnectResponse { timeout_ms: 4_000, session: 9, password: [1; 16], read_only: None };
    response.encode(&mut answer);
    session.input().extend(&answer);
    assert!(matches!(session.take(), Ok(Some(Incoming::Connected))));
}
