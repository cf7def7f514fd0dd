//! The processes of a rank that get a signal.

/// The processes of a rank that get a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::manager) enum SignalTarget {
    /// The process group of the rank.
    Group,
    /// Only the process of the rank.
    Process,
}
