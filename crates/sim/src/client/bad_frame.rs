//! Frames that no server takes: too long, too short, of an unknown operation, or with a body that
//! does not decode.

use workload::generate::Random;
use workload::op::{BadFrame, Op};
use zk::jute::{JuteWrite, begin_frame, end_frame};
use zk::limits::CONNECT_BYTES_MAX;
use zk::request::{XID_AUTH, opcode};

use crate::limits::FRAME_BYTES_MAX;

/// A client that sends such frames does so behind one in so many requests.
const BAD_FRAME_ONE_IN: u64 = 25;

/// Such a client sends something else than a connect request on one in so many connections.
const BAD_CONNECT_ONE_IN: u64 = 8;

/// No operation of ZooKeeper's has this code.
const UNKNOWN_OPCODE: i32 = 99;

/// Draws the frames that no server takes, which a client sends now and then.
pub(super) struct BadFrames {
    /// `None` if the client sends no such frames.
    random: Option<Random>,
}

impl BadFrames {
    /// No such frames.
    pub fn none() -> BadFrames {
        BadFrames { random: None }
    }

    /// Has the client send such frames.
    pub fn begin(&mut self, random: Random) {
        self.random = Some(random);
    }

    /// What the client sends instead of a connect request, if it is to.
    pub fn instead_of_connect(&mut self) -> Option<Op> {
        let random = self.random.as_mut()?;
        random.one_in(BAD_CONNECT_ONE_IN).then(|| instead_of_connect(random))
    }

    /// What the client sends between two requests, if it is to.
    pub fn behind_request(&mut self, xid: i32) -> Option<Op> {
        let random = self.random.as_mut()?;
        random.one_in(BAD_FRAME_ONE_IN).then(|| match random.one_in(2) {
            true => that_does_not_decode(xid, random),
            false => that_closes(xid, random),
        })
    }
}

/// A first frame that is no connect request.
fn instead_of_connect(random: &mut Random) -> Op {
    let bytes = match random.below(4) {
        0 => length_and_some(CONNECT_BYTES_MAX + 1, random),
        1 => length_and_some(random.between(1 << 31, u64::from(u32::MAX)) as u32, random),
        2 => frame(&[]),
        _ => frame(&vec![0; random.between(1, 27) as usize]),
    };
    Op::BadFrame { kind: BadFrame::InsteadOfConnect, bytes }
}

/// A request after which the server closes the connection.
fn that_closes(xid: i32, random: &mut Random) -> Op {
    let kind = BadFrame::Request;
    let bytes = match random.below(6) {
        0 | 1 => {
            let beyond = random.magnitude(1, 1 << 20) as u32;
            length_and_some(FRAME_BYTES_MAX + beyond, random)
        }
        2 => length_and_some(random.between(1 << 31, u64::from(u32::MAX)) as u32, random),
        // The header has 8 bytes.
        3 => frame(&vec![0; random.below(8) as usize]),
        4 => request(XID_AUTH, opcode::AUTH, &[0; 3]),
        _ => {
            let bytes = request(xid, UNKNOWN_OPCODE, &[]);
            return Op::BadFrame { kind: BadFrame::UnknownOperation, bytes };
        }
    };
    Op::BadFrame { kind, bytes }
}

/// A request that is answered with an error: the connection stays.
fn that_does_not_decode(xid: i32, random: &mut Random) -> Op {
    let is_write = random.one_in(2);
    // A multi takes a zxid before it is decoded, a read of nothing takes none.
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

/// A frame that claims to have `length` bytes, and has only the first few.
fn length_and_some(length: u32, random: &mut Random) -> Vec<u8> {
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.resize(bytes.len() + random.below(40) as usize, random.bits() as u8);
    bytes
}
