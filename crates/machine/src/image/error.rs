//! The errors of reading an image (the bytes of a snapshot).

use thiserror::Error;

use crate::codec::DecodeError;
use crate::level::Level;

/// Why an image could not be turned into a machine.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RestoreError {
    /// A piece breaks the format.
    #[error("bad image: {0}")]
    Malformed(#[from] DecodeError),
    /// The parts do not fit together.
    #[error("bad image: {0}")]
    Inconsistent(String),
    /// The image has a format that this version does not know, an older or a newer one.
    #[error("the image has format version {version}; this version reads version {known}")]
    UnknownFormat {
        /// The version found.
        version: u8,
        /// The only version that is known here.
        known: u8,
    },
    /// The image has a section of a space that this version does not know.
    #[error("the image has a section of space {space}; this version knows {known}")]
    UnknownSpace {
        /// Name of the space, or its number if it has none here.
        space: String,
        /// Names of the spaces that are known here.
        known: String,
    },
    /// The image has a section in a format that this version does not know.
    #[error(
        "the image's section of space {space} has version {version}; \
         this version reads up to {version_max}"
    )]
    UnknownSection {
        /// Name of the space.
        space: &'static str,
        /// The version found.
        version: u8,
        /// The newest version that is known here.
        version_max: u8,
    },
    /// The ensemble was at a level that this version does not know.
    #[error(
        "the image has level {level}, and this server knows up to {level_max}: \
         install version {version} or later, or raise level_max where it is set"
    )]
    UnknownLevel {
        /// The level of the state in the image.
        level: Level,
        /// The highest level that is known here.
        level_max: Level,
        /// The first version that knows the level.
        version: String,
    },
    /// The digest of the restored state differs from the one in the header.
    #[error("bad image: its digest is {found:032x}, written with {written:032x}")]
    WrongDigest {
        /// The digest of the restored state.
        found: u128,
        /// The digest in the header.
        written: u128,
    },
}

impl RestoreError {
    /// Whether another version of the program wrote the image: it may be good, and that version
    /// can read it.
    pub fn is_of_another_version(&self) -> bool {
        matches!(
            self,
            RestoreError::UnknownFormat { .. }
                | RestoreError::UnknownSpace { .. }
                | RestoreError::UnknownSection { .. }
                | RestoreError::UnknownLevel { .. }
        )
    }
}
