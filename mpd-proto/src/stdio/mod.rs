//! Standard output and input of a job: whole lines out, bounded bytes in.
//!
//! [`leaf`] decides where lines end; [`mod@format`] puts labels in front of them; [`merge`] joins equal
//! lines; [`gate`] lets only one rank at a time be in the middle of a line. In the job tree, [`uplink`]
//! sends a stream to the manager above, [`inflow`] holds what came from one below, [`record`] is how it
//! travels. [`feed`] deals standard input to its receivers, [`input`] is how that travels. None of them reads
//! or writes.

pub mod feed;
pub mod format;
pub mod gate;
pub mod hostlabel;
pub mod inflow;
pub mod input;
pub mod leaf;
pub mod merge;
pub mod record;
pub mod uplink;

#[cfg(test)]
mod tests;

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
    /// Both, for tables.
    pub const BOTH: [Self; 2] = [Self::Out, Self::Err];

    /// 0 and 1, as an index.
    pub const fn index(self) -> usize {
        match self {
            Self::Out => 0,
            Self::Err => 1,
        }
    }
}
