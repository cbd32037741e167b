//! Bad frames, which every server must reject: too long, too short, with an unknown operation, or
//! with a body that does not decode.

use workload::generate::Random;
use workload::op::{BadFrame, Op};
use zk::jute::{JuteWrite, begin_frame, end_frame};
use zk::limits::CONNECT_BYTES_MAX;
use zk::request::{XID_AUTH, opcode};

use crate::limits::FRAME_BYTES_MAX;

/// A client with bad frames sends one after one request in this many.
const BAD_FRAME_ONE_IN: u64 = 25;

/// A client with bad frames sends a bad frame instead of a connect request on one connection in
/// this many.
const BAD_CONNECT_ONE_IN: u64 = 8;

/// A code that no operation of ZooKeeper has.
const UNKNOWN_OPCODE: i32 = 99;

/// Draws the bad frames of a client.
pub(super) struct BadFrames {
    /// `None` if the client sends no bad frames.
    random: Option<Random>,
}

impl BadFrames {
    /// A client without bad frames.
    pub fn none() -> BadFrames {
        BadFrames { random: None }
    }

    /// Makes the client send bad frames.
    pub fn begin(&mut self, random: Random) {
        self.random = Some(random);
    }

    /// The frame that the client sends instead of a connect request; `None` in most cases.
    pub fn instead_of_connect(&mut self) -> Option<Op> {
        let random = self.random.as_mut()?;
        random.one_in(BAD_CONNECT_ONE_IN).then(|| instead_of_connect(random))
    }

    /// The bad frame that the client sends between two requests; `None` in most cases.
    pub fn behind_request(&mut self, xid: i32) -> Option<Op> {
        let random = self.random.as_mut()?;
        random.one_in(BAD_FRAME_ONE_IN).then(|| match random.one_in(2) {
            true => that_does_not_decode(xid, random),
            false => that_closes(xid, random),
        })
    }
}

/// A first frame that is not a connect request.
fn instead_of_connect(random: &mut Random) -> Op {
    let bytes = match random.below(4) {
        0 => length_and_some(CONNECT_BYTES_MAX + 1, random),
        1 => length_and_some(random.between(1 << 31, u64::from(u32::MAX)) as u32, random),
        2 => frame(&[]),
        _ => frame(&vec![0; random.between(1, 27) as usize]),
    };
    Op::BadFrame { kind: BadFrame::InsteadOfConnect, bytes }
}

/// A request that makes the server close the connection.
fn that_closes(xid: i32, random: &mut Random) -> Op {
    let kind = BadFrame::Request;
    let bytes = match random.below(6) {
        0 | 1 => {
            let beyond = random.magnitude(1, 1 << 20) as u32;
            length_and_some(FRAME_BYTES_MAX + beyond, random)
        }
        2 => length_and_some(random.between(1 << 31, u64::from(u32::MAX)) as u32, random),
        // Too short: a header has 8 bytes.
        3 => frame(&vec![0; random.below(8) as usize]),
        4 => request(XID_AUTH, opcode::AUTH, &[0; 3]),
        _ => {
            let bytes = request(xid, UNKNOWN_OPCODE, &[]);
            return Op::BadFrame { kind: BadFrame::UnknownOperation, bytes };
        }
    };
    Op::BadFrame { kind, bytes }
}

/// A request that the server answers with an error; the connection stays open.
fn that_does_not_decode(xid: i32, random: &mut Random) -> Op {
    let is_write = random.one_in(2);
    // A multi gets a zxid before it is decoded; a read of nothing gets none.
    let code = if is_write { opcode::MULTI } else { opcode::GET_DATA };
    let body: &[u8] = if is_write { &[0, 0, 0, 1] } else { &[0, 0] };
    Op::Undecodable { is_write, bytes: request(xid, code, body) }
}

fn frame(body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

fn request(xid: i32, code: i32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let start = begin_frame(&mut bytes);
    bytes.put_int(xid);
    bytes.put_int(code);
    bytes.extend_from_slice(body);
    end_frame(&mut bytes, start);
    bytes
}

/// A frame whose length field says `length` but that has only a few bytes.
fn length_and_some(length: u32, random: &mut Random) -> Vec<u8> {
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.resize(bytes.len() + random.below(40) as usize, random.bits() as u8);
    bytes
}
