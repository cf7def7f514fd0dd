//! The output streams of a rank.

use serde::{Deserialize, Serialize};

/// One of a rank's two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl Stream {
    /// Both streams, for tables.
    pub const BOTH: [Self; 2] = [Self::Out, Self::Err];

    /// 0 and 1, as an index.
    pub const fn index(self) -> usize {
        match self {
            Self::Out => 0,
            Self::Err => 1,
        }
    }
}
