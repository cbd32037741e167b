//! The result of one step of the walk that writes a space's section of an image (the bytes of a
//! snapshot).

/// The result of one step of a walk.
pub(crate) enum WalkStep {
    /// More records are left to write.
    Going,
    /// All records are written.
    Ended,
    /// The image is worthless: too many old values had to be kept, or the whole state was replaced.
    Aborted,
}
