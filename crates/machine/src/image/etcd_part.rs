//! Reads only etcd's section of an image (the bytes of a snapshot), for programs that convert it to
//! etcd's own format. It builds no state, and skips the records of the other spaces.

pub use crate::etcd::restore::EtcdPart;
use crate::image::restore::{Decoder, RestoreError};

/// Reads the pieces of an image, in order.
pub struct EtcdPartReader {
    decoder: Decoder,
    is_whole: bool,
}

impl Default for EtcdPartReader {
    fn default() -> EtcdPartReader {
        EtcdPartReader { decoder: Decoder::of_etcd(), is_whole: false }
    }
}

impl EtcdPartReader {
    /// Reads the next piece of an image.
    ///
    /// # Errors
    /// A frame or a record of etcd's breaks the format.
    pub fn piece(&mut self, piece: &[u8]) -> Result<EtcdPart, RestoreError> {
        let decoded = self.decoder.decode(piece)?;
        self.is_whole = decoded.ended();
        Ok(decoded.into_etcd().into_part())
    }

    /// Whether the image ended with the last piece.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }
}
