//! Messages from frames, and heads.
#![allow(clippy::unwrap_used)]

use super::*;

/// The messages that come of these frames, and how it ends.
fn assemble(frames: &[&[u8]]) -> Result<(Vec<Vec<u8>>, bool), Status> {
    let (mut assembly, mut messages) = (Assembly::default(), Vec::new());
    for frame in frames {
        assembly.push(Bytes::copy_from_slice(frame));
        while assembly.length()?.is_some() {
            let Some(message) = assembly.take() else { break };
            messages.push(message.to_vec());
        }
    }
    Ok((messages, assembly.is_between()))
}

const TWO: &[u8] = b"\0\0\0\0\x05hello\0\0\0\0\0\0\0\0\0\x02ok";

#[test]
fn messages_are_the_same_wherever_frames_end() {
    let wanted = Ok((vec![b"hello".to_vec(), Vec::new(), b"ok".to_vec()], true));
    assert_eq!(assemble(&[TWO]), wanted);
    for first in 0..=TWO.len() {
        for second in first..=TWO.len() {
            let frames = [&TWO[..first], &TWO[first..second], &TWO[second..]];
            assert_eq!(assemble(&frames), wanted, "{first} {second}");
        }
    }
    let bytes: Vec<&[u8]> = TWO.chunks(1).collect();
    assert_eq!(assemble(&bytes), wanted);
}

#[test]
fn a_message_within_a_frame_is_a_slice_of_it() {
    let frame = Bytes::copy_from_slice(TWO);
    let mut assembly = Assembly::default();
    assembly.push(frame.clone());
    assert_eq!(assembly.length(), Ok(Some(5)));
    let message = assembly.take().unwrap();
    assert_eq!(message.as_ptr(), frame[PREFIX_BYTES..].as_ptr());
}

#[test]
fn streams_that_end_within_a_message_are_told_from_those_that_do_not() {
    for length in 0..TWO.len() {
        let (_, is_between) = assemble(&[&TWO[..length]]).unwrap();
        assert_eq!(is_between, [0, 10, 15].contains(&length), "{length}");
    }
}

#[test]
fn compressed_and_oversize_messages_are_refused_by_their_prefix() {
    assert_eq!(assemble(&[b"\x01\0\0\0\0"]).unwrap_err().code, Code::Internal);
    let prefix = |bytes: usize| {
        let mut prefix = vec![0];
        prefix.put_u32(bytes as u32);
        prefix
    };
    assert_eq!(assemble(&[&prefix(REQUEST_BYTES_MAX)]), Ok((Vec::new(), false)));
    let refused = assemble(&[&prefix(REQUEST_BYTES_MAX + 1)]).unwrap_err();
    assert_eq!(refused.code, Code::ResourceExhausted);
    assert_eq!(assemble(&[b"\0\xff\xff\xff\xff"]).unwrap_err().code, Code::ResourceExhausted);
}

/// The HTTP status and the gRPC status of a request that is refused by its head; none if it is not.
fn refused(method: &str, path: &str, headers: &[(&str, &str)]) -> Option<(u16, String)> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = check_head(&request.body(()).unwrap()).err()?;
    let status = response.headers().get(STATUS);
    let status = status.map_or(String::new(), |status| status.to_str().unwrap().to_string());
    Some((response.status().as_u16(), status))
}

#[test]
fn heads_name_the_method_and_no_encoding() {
    let grpc = ("content-type", "application/grpc");
    let with = |code: u16, status: &str| Some((code, status.to_string()));
    assert_eq!(refused("POST", PATH, &[grpc]), None);
    assert_eq!(refused("POST", PATH, &[("content-type", "application/grpc+proto")]), None);
    assert_eq!(refused("POST", PATH, &[grpc, ("grpc-encoding", "identity")]), None);
    assert_eq!(refused("POST", PATH, &[grpc, ("grpc-encoding", "gzip")]), with(200, "12"));
    assert_eq!(refused("POST", "/other/send", &[grpc]), with(200, "12"));
    assert_eq!(refused("GET", PATH, &[grpc]), with(405, ""));
    assert_eq!(refused("POST", PATH, &[]), with(415, ""));
    assert_eq!(refused("POST", PATH, &[("content-type", "text/html")]), with(415, ""));
}

#[test]
fn statuses_are_visible_ascii() {
    let trailers = Status::new(Code::Internal, "100 % \u{e4}\n").trailers();
    assert_eq!(trailers.get(STATUS).unwrap(), "13");
    assert_eq!(trailers.get(MESSAGE).unwrap(), "100 %25 %C3%A4%0A");
    let trailers = Status::ok().trailers();
    assert_eq!((trailers.get(STATUS).unwrap().as_bytes(), trailers.len()), (&b"0"[..], 1));
}

#[test]
fn answers_have_their_length_before_them() {
    let answer = pb::ContainerCommandResponseProto::default();
    let encoded = encode(&answer);
    assert_eq!(assemble(&[&encoded]).unwrap().0, [encoded[PREFIX_BYTES..].to_vec()]);
}
