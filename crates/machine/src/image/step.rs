//! The result of a step of a walk that writes a space's section of an image.

/// The result of a step.
pub(crate) enum WalkStep {
    /// Records are left.
    Going,
    /// All records are written.
    Ended,
    /// Too many old values had to be kept, or another state took this one's place.
    Aborted,
}
