//! Tests of assembling messages from frames.
#![allow(clippy::unwrap_used)]

use bytes::BufMut;

use super::*;

const BYTES_MAX: usize = 1 << 20;

/// The messages in these frames, and whether the frames end between two messages.
fn assemble(frames: &[&[u8]]) -> Result<(Vec<Vec<u8>>, bool), Status> {
    let (mut assembly, mut messages) = (Assembly::new(BYTES_MAX, false), Vec::new());
    for frame in frames {
        assembly.push(Bytes::copy_from_slice(frame));
        while assembly.length()?.is_some() {
            let Some(message) = assembly.take() else { break };
            messages.push(message.to_vec());
        }
    }
    Ok((messages, assembly.is_between()))
}

const THREE: &[u8] = b"\0\0\0\0\x05hello\0\0\0\0\0\0\0\0\0\x02ok";

#[test]
fn messages_are_the_same_wherever_frames_end() {
    let wanted = Ok((vec![b"hello".to_vec(), Vec::new(), b"ok".to_vec()], true));
    assert_eq!(assemble(&[THREE]), wanted);
    for first in 0..=THREE.len() {
        for second in first..=THREE.len() {
            let frames = [&THREE[..first], &THREE[first..second], &THREE[second..]];
            assert_eq!(assemble(&frames), wanted, "{first} {second}");
        }
    }
    let bytes: Vec<&[u8]> = THREE.chunks(1).collect();
    assert_eq!(assemble(&bytes), wanted);
}

#[test]
fn a_message_within_a_frame_is_a_slice_of_it() {
    let frame = Bytes::copy_from_slice(THREE);
    let mut assembly = Assembly::new(BYTES_MAX, false);
    assembly.push(frame.clone());
    assert_eq!(assembly.length(), Ok(Some(5)));
    let message = assembly.take().unwrap();
    assert_eq!(message.as_ptr(), frame[PREFIX_BYTES..].as_ptr());
}

#[test]
fn streams_that_end_within_a_message_are_told_from_those_that_do_not() {
    for length in 0..THREE.len() {
        let (_, is_between) = assemble(&[&THREE[..length]]).unwrap();
        assert_eq!(is_between, [0, 10, 15].contains(&length), "{length}");
    }
}

#[test]
fn what_is_announced_takes_no_more_than_four_times_what_came() {
    let mut assembly = Assembly::new(BYTES_MAX, false);
    assembly.push(Bytes::from_static(&[0, 0, 0x10, 0, 0, 1, 2, 3]));
    assert_eq!(assembly.length(), Ok(Some(BYTES_MAX)));
    assert_eq!(assembly.memory_bytes(), 12);
    assert_eq!(assembly.take(), None);
    assert_eq!(assembly.memory_bytes(), 12);
}

#[test]
fn compressed_and_oversize_messages_are_refused_by_their_prefix() {
    let prefix = |flag: u8, bytes: usize| {
        let mut prefix = vec![flag];
        prefix.put_u32(bytes as u32);
        prefix
    };
    let refused = |flag: u8, bytes: usize| assemble(&[&prefix(flag, bytes)]).unwrap_err();
    assert_eq!(assemble(&[&prefix(0, BYTES_MAX)]), Ok((Vec::new(), false)));
    let Status { code, message } = refused(0, BYTES_MAX + 1);
    assert_eq!(code, Code::ResourceExhausted);
    assert_eq!(message, "grpc: received message larger than max (1048577 vs. 1048576)");
    assert_eq!(refused(1, u32::MAX as usize).code, Code::ResourceExhausted);
    let Status { code, message } = refused(1, 0);
    assert_eq!(code, Code::Internal);
    assert_eq!(message, "grpc: compressed flag set with identity or empty encoding");
    assert_eq!(refused(2, 0).message, "grpc: received unexpected payload format 2");
}

#[test]
fn messages_have_their_length_before_them() {
    let encoded = framed(|out| out.extend_from_slice(b"hello")).unwrap();
    assert_eq!(&encoded[..], &THREE[..10]);
}

#[test]
fn the_longest_message_that_is_sent_is_that_of_grpc_go() {
    assert_eq!(prefix(0).unwrap(), [0; 5]);
    assert_eq!(prefix(SENT_BYTES_MAX).unwrap(), [0, 0x7f, 0xff, 0xff, 0xff]);
    let Status { code, message } = prefix(SENT_BYTES_MAX + 1).unwrap_err();
    assert_eq!(code, Code::ResourceExhausted);
    let text = "grpc: trying to send message larger than max (2147483648 vs. 2147483647)";
    assert_eq!(message, text);
    assert!(check_sent(usize::MAX).is_err());
}

#[test]
fn a_compressed_message_takes_room_for_what_it_may_become_once_it_has_arrived() {
    let mut assembly = Assembly::new(BYTES_MAX, true);
    assembly.push(Bytes::from_static(&[1, 0, 0, 0, 4, b'a', b'b']));
    assert_eq!(assembly.length().unwrap(), Some(4));
    assert_eq!(assembly.memory_bytes(), 4);
    assert_eq!(assembly.take(), None);
    assembly.push(Bytes::from_static(b"cd"));
    assert_eq!(assembly.memory_bytes(), 4 + BYTES_MAX);
    assert_eq!(assembly.take().unwrap(), "abcd");
    assert!(assembly.is_compressed());
    assembly.push(Bytes::from_static(&[0, 0, 0, 0, 1, b'e']));
    assert_eq!(assembly.length().unwrap(), Some(1));
    assert_eq!(assembly.memory_bytes(), 1);
    assert!(!assembly.is_compressed());
}
