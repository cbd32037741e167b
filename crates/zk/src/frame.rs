//! ZooKeeper's framing, for clients: a big-endian length of four bytes, then a body of that many
//! bytes (`NIOServerCnxn.readLength`, `ClientCnxnSocket.readLength`, ZooKeeper 3.9.5). Every client
//! in this repository splits what it receives with this module. The server does not use it, since
//! it checks more before it accepts a frame (`member/fronts/zk`).

use std::io::Read;

use thiserror::Error;

/// Bytes of the length field in front of a body.
pub const LENGTH_BYTES: usize = 4;

/// The longest body, in bytes, that a client accepts. ZooKeeper has no limit for replies; whatever
/// announces a longer one is not a ZooKeeper server.
pub const REPLY_BYTES_MAX: u32 = 256 * 1024 * 1024;

/// The error for a frame whose length is above [`REPLY_BYTES_MAX`], which no server sends.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("it does not speak ZooKeeper's protocol: a frame of {bytes} bytes")]
pub struct FrameTooLarge {
    /// The length that the frame announces.
    pub bytes: u32,
}

impl From<FrameTooLarge> for std::io::Error {
    fn from(error: FrameTooLarge) -> std::io::Error {
        std::io::Error::other(error)
    }
}

/// The body of the first frame, and the bytes behind that frame.
pub type Split<'a> = (&'a [u8], &'a [u8]);

/// Splits the first frame off `bytes`. `None` if it is not complete yet.
///
/// # Errors
/// The frame announces a length above [`REPLY_BYTES_MAX`].
pub fn split(bytes: &[u8]) -> Result<Option<Split<'_>>, FrameTooLarge> {
    let Some((length, rest)) = bytes.split_first_chunk() else { return Ok(None) };
    Ok(rest.split_at_checked(body_bytes(*length)?))
}

/// Reads the next frame and returns its body.
///
/// # Errors
/// The stream ends or fails, or the frame announces a length above [`REPLY_BYTES_MAX`].
pub fn read(stream: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut length = [0; LENGTH_BYTES];
    stream.read_exact(&mut length)?;
    let mut body = vec![0; body_bytes(length)?];
    stream.read_exact(&mut body)?;
    Ok(body)
}

fn body_bytes(length: [u8; LENGTH_BYTES]) -> Result<usize, FrameTooLarge> {
    let bytes = u32::from_be_bytes(length);
    if bytes > REPLY_BYTES_MAX {
        return Err(FrameTooLarge { bytes });
    }
    Ok(bytes as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_split_off_once_it_is_whole() {
        let check = |bytes: &[u8], expected| assert_eq!(split(bytes), Ok(expected));
        check(&[], None);
        check(&[0, 0, 0], None);
        check(&[0, 0, 0, 0], Some((&[][..], &[][..])));
        check(&[0, 0, 0, 2, 7], None);
        check(&[0, 0, 0, 2, 7, 8, 9], Some((&[7, 8][..], &[9][..])));
    }

    #[test]
    fn a_length_that_no_server_sends_is_an_error_before_the_body_comes() {
        let longest = REPLY_BYTES_MAX.to_be_bytes();
        assert_eq!(split(&longest), Ok(None));
        let bytes = REPLY_BYTES_MAX + 1;
        assert_eq!(split(&bytes.to_be_bytes()), Err(FrameTooLarge { bytes }));
        assert_eq!(split(&[0xff; 4]), Err(FrameTooLarge { bytes: u32::MAX }));
        assert!(read(&mut &[0xff; 8][..]).is_err());
    }

    #[test]
    fn frames_are_read_from_a_stream_one_by_one() {
        let mut stream = &[0, 0, 0, 1, 5, 0, 0, 0, 2, 6, 7, 0, 0][..];
        assert_eq!(read(&mut stream).unwrap(), [5]);
        assert_eq!(read(&mut stream).unwrap(), [6, 7]);
        assert!(read(&mut stream).is_err());
    }
}
