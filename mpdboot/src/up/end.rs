//! How a part of the work of `mpdboot` ended.

/// How a part of the work ended.
pub(super) enum End {
    /// It is done.
    Done,
    /// It failed, and the rows tell why.
    Failed,
    /// This signal came.
    Signal(i32),
}
