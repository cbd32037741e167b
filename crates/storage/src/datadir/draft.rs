//! The file `draft` in an unborn directory: the member id that the directory will get at its birth,
//! and this server's vote on that birth.
//!
//! Servers agree on the birth by Paxos for one value; `member::membership::bootstrap` has the
//! rules. A server makes its [`Acceptor`] durable here before it tells another server about it.

use super::{
    Birth, DATADIR_FORMAT_VERSION, DRAFT_FILE, SEAL_BYTES, at, check_version, read_small,
    seal_version, unseal_version,
};
use crate::codec::{DecodeError, Reader, put_u64_list};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::limits::{BALLOT_ROUND_MAX, MEMBERS_MAX};

const DRAFT_MAGIC: &[u8; 8] = b"QUORDRFT";

/// The version of a draft that holds a vote as well as the member id.
const AGREEING_VERSION: u32 = DATADIR_FORMAT_VERSION + 1;

/// The content of the file `draft`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The member id that the directory will be born with; not 0.
    pub member_id: u64,
    /// This server's promise, and the birth that it accepted.
    pub acceptor: Acceptor,
}

/// Number of one attempt to agree on a birth. Ballots are ordered by round, then by member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ballot {
    /// From 1 to [`BALLOT_ROUND_MAX`]; 0 is before all attempts.
    pub round: u64,
    /// The id of the member that makes the attempt, so that no two members share a ballot.
    pub member: u64,
}

/// The state of a Paxos acceptor. The default has promised and accepted nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acceptor {
    /// The acceptor accepts no birth with an earlier ballot than this.
    pub promised: Ballot,
    /// The last birth that the acceptor accepted, if any, and the ballot of that birth, which is
    /// never above `promised`.
    pub accepted: Option<(Ballot, Birth)>,
}

impl Ballot {
    fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.round.to_le_bytes());
        out.extend_from_slice(&self.member.to_le_bytes());
    }

    fn decode(reader: &mut Reader) -> Result<Ballot, DecodeError> {
        let ballot = Ballot { round: reader.u64()?, member: reader.u64()? };
        let is_whole = (ballot.round == 0) == (ballot.member == 0);
        match is_whole && ballot.round <= BALLOT_ROUND_MAX {
            true => Ok(ballot),
            false => Err(reader.bad("a ballot without round or member, or with too high a round")),
        }
    }
}

impl Acceptor {
    /// Appends the promised ballot, and then the accepted ballot and birth, if any.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.promised.encode(out);
        if let Some((ballot, birth)) = &self.accepted {
            ballot.encode(out);
            out.extend_from_slice(&birth.cluster_id.to_le_bytes());
            put_u64_list(out, &birth.voters);
        }
    }

    /// Decodes what [`Acceptor::encode`] wrote, to the end of the reader's bytes. A birth has at
    /// most `voters_max` voters.
    ///
    /// # Errors
    /// The bytes are not a valid acceptor state.
    pub fn decode(reader: &mut Reader, voters_max: usize) -> Result<Acceptor, DecodeError> {
        let promised = Ballot::decode(reader)?;
        if reader.remaining() == 0 {
            return Ok(Acceptor { promised, accepted: None });
        }
        let ballot = Ballot::decode(reader)?;
        if ballot == Ballot::default() || ballot > promised {
            return Err(reader.bad("a birth is accepted in a ballot that was not promised"));
        }
        let birth = Birth { cluster_id: reader.u128()?, voters: reader.u64_list(voters_max)? };
        let is_ascending = birth.voters.is_sorted_by(|before, after| before < after);
        if birth.voters.is_empty() || birth.voters.contains(&0) || !is_ascending {
            return Err(reader.bad("the accepted voters are none, nobody, or not ascending"));
        }
        reader.finish()?;
        Ok(Acceptor { promised, accepted: Some((ballot, birth)) })
    }
}

pub(crate) fn read_draft<D: Disk>(disk: &D) -> Result<Draft, StorageError> {
    let bytes = read_small(disk, DRAFT_FILE)?;
    check_version(DRAFT_FILE, &bytes, AGREEING_VERSION)?;
    decode_draft(&bytes).map_err(|error| at(DRAFT_FILE, error))
}

/// Encodes the `draft` file.
pub fn encode_draft(draft: &Draft) -> Vec<u8> {
    let mut body = draft.member_id.to_le_bytes().to_vec();
    if draft.acceptor == Acceptor::default() {
        return seal_version(DRAFT_MAGIC, DATADIR_FORMAT_VERSION, &body);
    }
    draft.acceptor.encode(&mut body);
    seal_version(DRAFT_MAGIC, AGREEING_VERSION, &body)
}

/// Decodes the `draft` file.
///
/// # Errors
/// The file is damaged, or has an unknown version.
pub fn decode_draft(bytes: &[u8]) -> Result<Draft, DecodeError> {
    let body_bytes = bytes.len().saturating_sub(SEAL_BYTES);
    let (version, mut reader) = unseal_version(bytes, DRAFT_MAGIC, body_bytes)?;
    let member_id = reader.u64()?;
    let acceptor = match version {
        DATADIR_FORMAT_VERSION => Acceptor::default(),
        AGREEING_VERSION => Acceptor::decode(&mut reader, MEMBERS_MAX)?,
        _ => return Err(reader.bad("the format version is unknown")),
    };
    reader.finish()?;
    match (member_id, version == AGREEING_VERSION && acceptor == Acceptor::default()) {
        (0, _) => Err(reader.bad("the member id is 0")),
        (_, true) => Err(reader.bad("nothing is promised")),
        (_, false) => Ok(Draft { member_id, acceptor }),
    }
}
