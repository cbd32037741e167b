//! What a server says of itself when a link begins: who it is, and where its directory stands.
//!
//! Byte layout: `docs/formats.md`, "Hello".

use machine::{BootId, MemberId};
use storage::codec::{DecodeError, Reader, put_u64_list};
use storage::datadir::Birth;

use crate::limits::VOTERS_MAX;

/// Who is at the other end of a link, or at this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Its number in the configuration (`server.N`).
    pub server: u64,
    /// Its directory's member id.
    pub member: MemberId,
    /// Which start of that directory; 0 while it is unborn.
    pub boot: BootId,
    /// The numbers of the servers that are to vote, as it is configured, ascending.
    pub servers: Vec<u64>,
    /// How its ensemble began; none while its directory is unborn.
    pub birth: Option<Birth>,
}

impl Hello {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.servers.len() <= VOTERS_MAX, "more servers than the limit");
        for number in [self.server, self.member.0, self.boot.0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        put_u64_list(out, &self.servers);
        match &self.birth {
            None => out.push(0),
            Some(birth) => {
                assert!(birth.voters.len() <= VOTERS_MAX, "more voters than the limit");
                out.push(1);
                out.extend_from_slice(&birth.cluster_id.to_le_bytes());
                put_u64_list(out, &birth.voters);
            }
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn decode(reader: &mut Reader) -> Result<Hello, DecodeError> {
        let (server, member, boot) = (reader.u64()?, reader.u64()?, reader.u64()?);
        if member == 0 {
            return Err(reader.bad("the member id is 0"));
        }
        let servers = reader.u64_list(VOTERS_MAX)?;
        if !servers.is_sorted_by(|before, after| before < after) {
            return Err(reader.bad("the servers are not ascending"));
        }
        let birth = match reader.flag()? {
            false => None,
            true => {
                let birth =
                    Birth { cluster_id: reader.u128()?, voters: reader.u64_list(VOTERS_MAX)? };
                if birth.voters.is_empty() || birth.voters.contains(&0) {
                    return Err(reader.bad("the first voters are none, or nobody"));
                }
                if !birth.voters.is_sorted_by(|before, after| before < after) {
                    return Err(reader.bad("the first voters are not ascending"));
                }
                Some(birth)
            }
        };
        Ok(Hello { server, member: MemberId(member), boot: BootId(boot), servers, birth })
    }
}

#[cfg(test)]
mod tests;
