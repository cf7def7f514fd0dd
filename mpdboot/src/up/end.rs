//! How a part of the work of `mpdboot` ended.

/// The end of a part of the work.
pub(super) enum StepEnd {
    /// The part is done.
    Done,
    /// The part failed; the rows of the report have the reasons.
    Failed,
    /// This signal ended the part.
    Signal(i32),
}
