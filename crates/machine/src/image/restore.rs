//! Restoring: builds a machine from the pieces of an image (the bytes of a snapshot).
//!
//! Each piece takes two steps. A [`Decoder`] reads the piece's frames and checks the form of each
//! record, which is most of the work and needs nothing of the state. [`Restore::install`] then puts
//! the decoded records into the state. So one thread may decode a piece while another installs the
//! piece before it. [`Restore::finish`] checks that all parts fit together, and compares the
//! digest.

use crate::codec::Reader;
use crate::control::Control;
use crate::digest::Digest;
use crate::etcd::restore::{self as etcd, StoreRestore};
use crate::etcd_v2::restore as etcd_v2;
pub use crate::image::error::RestoreError;
use crate::image::format::{Header, Sections, Space, TAG_END, TAG_FRAME, TAG_HEADER};
use crate::level::{Level, StatedLevel};
use crate::machine::Machine;
use crate::together::{Together, one_by_one};
use crate::zk::restore::{RecordDecoder, Records, ZkRestore};

/// The records of one piece; the form of each is checked.
#[derive(Default)]
pub struct DecodedPiece {
    header: Option<Header>,
    control: Option<Control>,
    zk: Records,
    etcd: etcd::Records,
    etcd_v2: etcd_v2::Records,
    /// Whether the image ends with this piece.
    ended: bool,
}

/// Reads the pieces of an image, in order.
#[derive(Default)]
pub struct Decoder {
    /// The sections that the header lists; `None` until the header was read.
    sections: Option<Sections>,
    /// Whether control's only frame was read.
    has_control: bool,
    zk: RecordDecoder,
    etcd: etcd::RecordDecoder,
    etcd_v2: etcd_v2::RecordDecoder,
    /// Whether to skip the records of all spaces but etcd's.
    is_of_etcd: bool,
    ended: bool,
}

impl DecodedPiece {
    /// Whether the image ends with this piece.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// The records of etcd's section.
    pub(crate) fn into_etcd(self) -> etcd::Records {
        self.etcd
    }
}

impl Decoder {
    /// A decoder that skips the records of all spaces but etcd's.
    pub(crate) fn of_etcd() -> Decoder {
        Decoder { is_of_etcd: true, ..Decoder::default() }
    }

    /// Reads the next piece.
    ///
    /// # Errors
    /// A frame or a record breaks the format.
    pub fn decode(&mut self, piece: &[u8]) -> Result<DecodedPiece, RestoreError> {
        let mut reader = Reader::new(piece);
        let mut decoded = DecodedPiece::default();
        while reader.remaining() > 0 {
            let tag = reader.u8()?;
            if self.ended || (tag == TAG_HEADER) != self.sections.is_none() {
                return Err(reader.bad("order of image parts", u64::from(tag)).into());
            }
            match (tag, &mut self.sections) {
                (TAG_HEADER, _) => {
                    let header = Header::decode(&mut reader)?;
                    self.sections = Some(header.sections.clone());
                    decoded.header = Some(header);
                }
                (TAG_FRAME, Some(sections)) => {
                    let (space, records) = sections.read_frame(&mut reader)?;
                    self.frame(space, records, &mut decoded)?;
                }
                (TAG_END, Some(sections)) => {
                    sections.check_end(&mut reader)?;
                    self.ended = true;
                }
                _ => return Err(reader.bad("part of an image", u64::from(tag)).into()),
            }
        }
        decoded.ended = self.ended;
        Ok(decoded)
    }

    fn frame(
        &mut self,
        space: Space,
        mut records: Reader<'_>,
        decoded: &mut DecodedPiece,
    ) -> Result<(), RestoreError> {
        match space {
            Space::Control | Space::Zk | Space::EtcdV2 if self.is_of_etcd => Ok(()),
            Space::Control if self.has_control => {
                Err(records.bad("second frame of space", u64::from(space.number())).into())
            }
            Space::Control => {
                // At a level that this build does not know, the rest of the section may have
                // another form.
                let stated = Control::decode_level(&mut records.clone())?;
                check_level(&stated, Level::NEWEST)?;
                let control = Control::decode(&mut records)?;
                self.has_control = true;
                records.finish()?;
                decoded.control = Some(control);
                Ok(())
            }
            Space::Zk => self.zk.decode(&mut records, &mut decoded.zk),
            Space::Etcd => self.etcd.decode(&mut records, &mut decoded.etcd),
            Space::EtcdV2 => self.etcd_v2.decode(&mut records, &mut decoded.etcd_v2),
        }
    }
}

impl Machine {
    /// Checks that a member which knows levels up to `level_max` can run this state.
    ///
    /// # Errors
    /// The state has a higher level.
    pub fn check_level(&self, level_max: Level) -> Result<(), RestoreError> {
        check_level(self.control.level(), level_max)
    }
}

fn check_level(stated: &StatedLevel, level_max: Level) -> Result<(), RestoreError> {
    let StatedLevel { level, version } = stated.clone();
    if level <= level_max {
        return Ok(());
    }
    Err(RestoreError::UnknownLevel { level, level_max, version })
}

/// Builds a machine from the pieces of an image, taken in order.
#[derive(Default)]
pub struct Restore {
    header: Option<Header>,
    control: Option<Control>,
    zk: ZkRestore,
    etcd: StoreRestore,
    etcd_v2: etcd_v2::StoreRestore,
    ended: bool,
    /// Decodes the pieces that [`Restore::piece`] takes.
    decoder: Decoder,
}

impl Restore {
    /// Decodes and installs the next piece.
    ///
    /// # Errors
    /// The piece breaks the format, or does not fit the ones before.
    pub fn piece(&mut self, piece: &[u8]) -> Result<(), RestoreError> {
        let decoded = self.decoder.decode(piece)?;
        self.install(decoded)
    }

    /// Installs the next piece, decoded before.
    ///
    /// # Errors
    /// The piece does not fit the ones before.
    pub fn install(&mut self, piece: DecodedPiece) -> Result<(), RestoreError> {
        self.header = piece.header.or(self.header.take());
        self.control = piece.control.or(self.control.take());
        self.zk.install(piece.zk)?;
        self.etcd.install(piece.etcd)?;
        self.etcd_v2.install(piece.etcd_v2)?;
        self.ended = piece.ended;
        Ok(())
    }

    /// Checks that the image is whole and consistent, and returns the machine.
    ///
    /// # Errors
    /// Something is missing, or the digest differs.
    pub fn finish(self) -> Result<Machine, RestoreError> {
        self.finish_together(one_by_one)
    }

    /// As [`Restore::finish`], but builds the tables and the digest as two jobs, which `together`
    /// may run at once.
    ///
    /// # Errors
    /// As for [`Restore::finish`].
    pub fn finish_together(self, together: Together) -> Result<Machine, RestoreError> {
        let (Some(header), Some(control), true) = (self.header, self.control, self.ended) else {
            return Err(RestoreError::Inconsistent("the image is not whole".to_string()));
        };
        let zk = self.zk.finish(together)?;
        let Header { index, ordinal, digest: written, .. } = header;
        let etcd = self.etcd.finish(ordinal)?;
        let etcd_v2 = self.etcd_v2.finish()?;
        let mut machine =
            Machine { control, zk, etcd, etcd_v2, index, ordinal, ..Machine::default() };
        machine.follow_level();
        let found = machine.digest();
        if found != Digest(written) {
            return Err(RestoreError::WrongDigest { found: found.0, written });
        }
        Ok(machine)
    }
}
