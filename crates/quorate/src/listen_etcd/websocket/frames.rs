//! WebSocket's frames (RFC 6455, 5.2): parses those of the client into pieces, and makes the heads
//! of our own.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The opcodes of frames.
pub(super) struct Control;

impl Control {
    pub const CONTINUATION: u8 = 0;
    pub const TEXT: u8 = 1;
    const BINARY: u8 = 2;
    pub const CLOSE: u8 = 8;
    const PING: u8 = 9;
    pub const PONG: u8 = 10;
}

/// The longest payload of a control frame, in bytes.
const CONTROL_BYTES_MAX: u64 = 125;

/// Why the server closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseCode {
    Normal,
    ProtocolError,
}

impl CloseCode {
    pub fn number(self) -> u16 {
        match self {
            CloseCode::Normal => 1_000,
            CloseCode::ProtocolError => 1_002,
        }
    }
}

/// Something that the client has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A part of a message. A line end is added behind the last part.
    Data(Bytes),
    /// A ping with its payload, which the answer must repeat.
    Ping(Bytes),
    /// The client closes the connection.
    Close,
}

/// Parses a stream of frames.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// The frame whose payload is arriving; `None` before the next frame's head.
    frame: Option<Frame>,
    /// Whether a message has begun and its last frame has not.
    is_within_message: bool,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    opcode: u8,
    is_last: bool,
    mask: [u8; 4],
    /// How many bytes of the payload were taken, and how many are still to come.
    taken: u64,
    left: u64,
}

impl Parser {
    /// Takes the next piece out of the buffer; `None` if the buffer has too little for one.
    ///
    /// # Errors
    /// The client violates the protocol.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Piece>, CloseCode> {
        loop {
            let frame = match self.frame {
                Some(frame) => frame,
                None => match self.take_head(buffer)? {
                    Some(frame) => frame,
                    None => return Ok(None),
                },
            };
            self.frame = Some(frame);
            let is_control = frame.opcode >= Control::CLOSE;
            if buffer.is_empty() && frame.left > 0
                || is_control && (buffer.len() as u64) < frame.left
            {
                return Ok(None);
            }
            let count = (buffer.len() as u64).min(frame.left);
            let mut payload = buffer.split_to(count as usize);
            for (at, byte) in (frame.taken..).zip(payload.iter_mut()) {
                *byte ^= frame.mask[(at % 4) as usize];
            }
            let left = frame.left - count;
            let is_end = left == 0 && frame.is_last && !is_control;
            self.frame = match left {
                0 => None,
                _ => Some(Frame { taken: frame.taken + count, left, ..frame }),
            };
            if is_end {
                // Separates the JSON values of two messages by a line end.
                payload.put_u8(b'\n');
            }
            match frame.opcode {
                Control::CLOSE => return Ok(Some(Piece::Close)),
                Control::PING => return Ok(Some(Piece::Ping(payload.freeze()))),
                Control::PONG => {}
                _ if payload.is_empty() => {}
                _ => return Ok(Some(Piece::Data(payload.freeze()))),
            }
        }
    }

    /// Takes the head of a frame out of the buffer; `None` if it is not complete.
    fn take_head(&mut self, buffer: &mut BytesMut) -> Result<Option<Frame>, CloseCode> {
        let [first, second, ..] = buffer[..] else { return Ok(None) };
        let (opcode, is_last) = (first & 0x0f, first & 0x80 != 0);
        let is_control = opcode >= Control::CLOSE;
        let is_wrong = match opcode {
            Control::CONTINUATION => !self.is_within_message,
            Control::TEXT | Control::BINARY => self.is_within_message,
            Control::CLOSE | Control::PING | Control::PONG => !is_last,
            _ => true,
        };
        // No extension was negotiated, so those bits must be 0; and clients must mask their
        // payload.
        if is_wrong || first & 0x70 != 0 || second & 0x80 == 0 {
            return Err(CloseCode::ProtocolError);
        }
        let length_bytes = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        if buffer.len() < 2 + length_bytes + 4 {
            return Ok(None);
        }
        buffer.advance(2);
        let left = match length_bytes {
            0 => u64::from(second & 0x7f),
            count => buffer.get_uint(count),
        };
        let mut mask = [0; 4];
        buffer.copy_to_slice(&mut mask);
        if is_control && left > CONTROL_BYTES_MAX || left > u64::MAX / 2 {
            return Err(CloseCode::ProtocolError);
        }
        if !is_control {
            self.is_within_message = !is_last;
        }
        Ok(Some(Frame { opcode, is_last, mask, taken: 0, left }))
    }
}

/// The head of a frame of ours that is a whole message.
pub(super) fn head(opcode: u8, length: usize) -> Bytes {
    head_of_part(opcode, length, true)
}

/// The head of a frame of ours. In a message of several frames, all but the first are
/// continuations.
pub(super) fn head_of_part(opcode: u8, length: usize, is_last: bool) -> Bytes {
    let mut head = BytesMut::with_capacity(10);
    head.put_u8(if is_last { 0x80 | opcode } else { opcode });
    match length {
        0..126 => head.put_u8(length as u8),
        126..0x1_0000 => {
            head.put_u8(126);
            head.put_u16(length as u16);
        }
        _ => {
            head.put_u8(127);
            head.put_u64(length as u64);
        }
    }
    head.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as a client sends it. `first` is its first byte.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 250];
        let masked = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
        let mut head = head(first & 0x0f, payload.len()).to_vec();
        head[0] = first;
        head[1] |= 0x80;
        head.into_iter().chain(mask).chain(masked).collect()
    }

    /// The pieces that the parser finds in bytes that arrive in parts of `part` bytes. All data is
    /// joined and comes last.
    fn read(bytes: &[u8], part: usize) -> Result<Vec<Piece>, CloseCode> {
        let (mut parser, mut buffer) = (Parser::default(), BytesMut::new());
        let (mut pieces, mut data) = (Vec::new(), Vec::new());
        for part in bytes.chunks(part) {
            buffer.extend_from_slice(part);
            while let Some(piece) = parser.next(&mut buffer)? {
                match piece {
                    Piece::Data(bytes) => data.extend_from_slice(&bytes),
                    other => pieces.push(other),
                }
            }
        }
        pieces.push(Piece::Data(data.into()));
        Ok(pieces)
    }

    #[test]
    fn messages_come_in_frames_with_pings_between_them() {
        let long = vec![b'x'; 70_000];
        let bytes = [
            frame(0x81, b"one"),
            frame(0x01, b"tw"),
            frame(0x89, b"ping"),
            frame(0x80, b"o"),
            frame(0x82, &[b'y'; 300]),
            frame(0x8a, b""),
            frame(0x82, &long),
            frame(0x81, b""),
            frame(0x88, b""),
        ]
        .concat();
        let data = [b"one\ntwo\n", &[b'y'; 300][..], b"\n", &long, b"\n\n"].concat();
        let expected =
            vec![Piece::Ping(Bytes::from_static(b"ping")), Piece::Close, Piece::Data(data.into())];
        for part in [1, 7, 4_096, usize::MAX] {
            assert_eq!(read(&bytes, part), Ok(expected.clone()), "parts of {part}");
        }
    }

    #[test]
    fn what_breaks_the_rules_ends_the_connection() {
        for bytes in [
            frame(0x80, b"no message has begun"),
            [frame(0x01, b"a"), frame(0x81, b"b")].concat(),
            frame(0x09, b"a control frame in parts"),
            frame(0x89, &[0; 126]),
            frame(0x83, b"no such opcode"),
            frame(0xc1, b"an extension"),
            vec![0x81, 3, b'a', b'b', b'c'],
            [&[0x82, 0xff][..], &[0xff; 12]].concat(),
        ] {
            assert_eq!(read(&bytes, 3), Err(CloseCode::ProtocolError), "{bytes:?}");
        }
    }

    #[test]
    fn lengths_have_three_forms() {
        assert_eq!(head(1, 125)[..], [0x81, 125]);
        assert_eq!(head_of_part(1, 125, false)[..], [0x01, 125]);
        assert_eq!(head_of_part(0, 125, true)[..], [0x80, 125]);
        assert_eq!(head(1, 126)[..], [0x81, 126, 0, 126]);
        assert_eq!(head(1, 65_536)[..], [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
    }
}
