//! The format of an image: a header, a section for each space in use, and an end.
//!
//! A section is written in frames, each with whole records of its space. The writer ends one
//! space's frames before it begins the next space's; the reader accepts them in any order. A piece
//! of an image holds whole frames.
//!
//! ```text
//! header = 'H' | format version u8 [4] | index u64 | ordinal u64 | digest u128
//!        | section count u8 | (space u8, section version u8)*, spaces ascending, each once
//! frame  = 'F' | space u8 | bytes u32, not 0 | that many bytes
//! end    = 'E' | (bytes u64)*: for each section, in the header's order, the sum of the bytes of
//!          its frames
//! ```
//!
//! Control's section is one frame ([`crate::control::Control::encode`]). The records of the other
//! sections are in `zk/freeze.rs`, `etcd/walk.rs` and `etcd_v2/walk.rs`.

use std::collections::BTreeMap;

use crate::codec::{DecodeError, Reader, Write};
use crate::ids::{LogIndex, Ordinal};
use crate::image::error::RestoreError;

/// Version of the image format. Versions 1 to 3 were never released: 1 and 2 had no sections, and
/// control's section of 3 had no level.
pub const FORMAT_VERSION: u8 = 4;

pub(crate) const TAG_HEADER: u8 = b'H';
pub(crate) const TAG_FRAME: u8 = b'F';
pub(crate) const TAG_END: u8 = b'E';

/// Bytes of a frame's head: tag, space and length.
pub(crate) const FRAME_HEAD_BYTES: u64 = 6;

/// Bytes of the header and the end of a machine's image.
pub(crate) const HEADER_AND_END_BYTES: u64 =
    (2 + 8 + 8 + 16 + 1) + 1 + Space::ALL.len() as u64 * (2 + 8);

/// Names of the spaces. The space with number N has place N - 1.
const SPACE_NAMES: [&str; 4] = ["control", "zk", "etcd", "etcd_v2"];

/// A space, that is, a part of the state with its own commands, its own section of the image, and
/// its own terms of the digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Space {
    /// The ensemble's own state.
    Control = 1,
    /// The state that ZooKeeper's clients see.
    Zk = 2,
    /// etcd's keys. An image has a section of them only if they were ever used.
    Etcd = 3,
    /// etcd v2's tree. An image has a section of it only if it was ever used.
    EtcdV2 = 4,
}

impl Space {
    const ALL: [Space; 4] = [Space::Control, Space::Zk, Space::Etcd, Space::EtcdV2];

    /// The spaces that have a section in every image.
    const ALWAYS: [Space; 2] = [Space::Control, Space::Zk];

    fn from_number(number: u8) -> Option<Space> {
        Space::ALL.into_iter().find(|space| space.number() == number)
    }

    pub const fn number(self) -> u8 {
        self as u8
    }

    pub fn name(self) -> &'static str {
        SPACE_NAMES[usize::from(self.number()) - 1]
    }

    /// The newest version of the space's section. No section has a second version yet.
    fn section_version(self) -> u8 {
        match self {
            Space::Control | Space::Zk | Space::Etcd | Space::EtcdV2 => 1,
        }
    }
}

fn unknown_space(number: u8) -> RestoreError {
    let name = SPACE_NAMES.get(usize::from(number).wrapping_sub(1));
    let space = name.map_or_else(|| number.to_string(), |name| name.to_string());
    RestoreError::UnknownSpace { space, known: Space::ALL.map(Space::name).join(", ") }
}

/// The header of an image.
pub(crate) struct Header {
    pub index: LogIndex,
    pub ordinal: Ordinal,
    pub digest: u128,
    /// The sections that follow, with all byte counts 0.
    pub sections: Sections,
}

impl Header {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(TAG_HEADER);
        out.put_u8(FORMAT_VERSION);
        out.put_u64(self.index.0);
        out.put_u64(self.ordinal.0);
        out.put_u128(self.digest);
        self.sections.encode(out);
    }

    /// Reads the header, whose tag was read already.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Header, RestoreError> {
        let version = reader.u8()?;
        if version != FORMAT_VERSION {
            return Err(RestoreError::UnknownFormat { version, known: FORMAT_VERSION });
        }
        Ok(Header {
            index: LogIndex(reader.counted("index of an image")?),
            ordinal: Ordinal(reader.counted("ordinal of an image")?),
            digest: reader.u128()?,
            sections: Sections::decode(reader)?,
        })
    }
}

/// The sections of an image, with the bytes of the frames so far for each. The writer and the
/// reader both count them, and the end of the image states the sums.
#[derive(Clone)]
pub(crate) struct Sections {
    bytes: BTreeMap<Space, u64>,
}

impl Sections {
    /// The sections of a machine's image, before any frame.
    pub fn in_use(has_etcd: bool, has_etcd_v2: bool) -> Sections {
        let spaces = Space::ALL.into_iter().filter(|space| match space {
            Space::Control | Space::Zk => true,
            Space::Etcd => has_etcd,
            Space::EtcdV2 => has_etcd_v2,
        });
        Sections { bytes: spaces.map(|space| (space, 0)).collect() }
    }

    /// The space whose section follows that of `space`; `None` if that is the last one.
    pub fn behind(&self, space: Space) -> Option<Space> {
        self.bytes.keys().copied().find(|other| *other > space)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.bytes.len() as u8);
        for space in self.bytes.keys() {
            out.put_u8(space.number());
            out.put_u8(space.section_version());
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Sections, RestoreError> {
        let mut bytes = BTreeMap::new();
        let mut last = 0;
        for _ in 0..reader.u8()? {
            let number = reader.u8()?;
            if number <= last {
                return Err(reader.bad("order of image sections", u64::from(number)).into());
            }
            last = number;
            let space = Space::from_number(number).ok_or_else(|| unknown_space(number))?;
            let (version, version_max) = (reader.u8()?, space.section_version());
            if version > version_max {
                let space = space.name();
                return Err(RestoreError::UnknownSection { space, version, version_max });
            }
            if version != version_max {
                return Err(reader.bad("section version", u64::from(version)).into());
            }
            bytes.insert(space, 0);
        }
        // Every machine has these two spaces.
        match Space::ALWAYS.into_iter().find(|space| !bytes.contains_key(space)) {
            Some(missing) => Err(no_section(missing)),
            None => Ok(Sections { bytes }),
        }
    }

    /// Appends a frame that holds what `write` appends, or nothing if `write` appends nothing.
    pub fn write_frame<R>(
        &mut self,
        space: Space,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> R {
        let start = out.len();
        out.put_u8(TAG_FRAME);
        out.put_u8(space.number());
        out.put_u32(0);
        let records = out.len();
        let result = write(out);
        let bytes = u32::try_from(out.len() - records).expect("a piece is far below 4 GiB");
        if bytes == 0 {
            out.truncate(start);
        } else {
            out[records - 4..records].copy_from_slice(&bytes.to_le_bytes());
            *self.bytes.get_mut(&space).expect("the space is in use") += u64::from(bytes);
        }
        result
    }

    /// Reads a frame, whose tag was read already. Returns its space, and a reader of its records.
    pub fn read_frame<'a>(
        &mut self,
        reader: &mut Reader<'a>,
    ) -> Result<(Space, Reader<'a>), DecodeError> {
        let number = reader.u8()?;
        let listed =
            Space::from_number(number).and_then(|space| Some((space, self.bytes.get_mut(&space)?)));
        let Some((space, sum)) = listed else {
            return Err(reader.bad("space of a frame", u64::from(number)));
        };
        let bytes = reader.u32()?;
        if bytes == 0 {
            return Err(reader.bad("bytes of a frame", 0));
        }
        let records = reader.part(bytes as usize)?;
        *sum += u64::from(bytes);
        Ok((space, records))
    }

    pub fn encode_end(&self, out: &mut Vec<u8>) {
        out.put_u8(TAG_END);
        for bytes in self.bytes.values() {
            out.put_u64(*bytes);
        }
    }

    /// Reads the end, whose tag was read already, and checks that each section is whole.
    pub fn check_end(&self, reader: &mut Reader<'_>) -> Result<(), RestoreError> {
        for (space, bytes) in &self.bytes {
            let written = reader.u64()?;
            if written != *bytes {
                return Err(RestoreError::Inconsistent(format!(
                    "the section of space {} has {bytes} bytes, and {written} at the end",
                    space.name()
                )));
            }
            if *bytes == 0 {
                return Err(no_section(*space));
            }
        }
        Ok(())
    }
}

fn no_section(space: Space) -> RestoreError {
    RestoreError::Inconsistent(format!("the section of space {} is missing", space.name()))
}
