//! A debugged job: each rank's program runs under a debugger.

use serde::{Deserialize, Serialize};

use crate::binary;
use crate::bounded::at_most;
use crate::job::bounds::{Bytes, MAX_RANKS};

const MAX_ATTACHED: usize = MAX_RANKS as usize;

/// The debugger of the ranks, and the processes to attach to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debug {
    /// The debugger: a path if it has a `/`, else searched like the program.
    #[serde(with = "binary")]
    pub gdb: Bytes,
    /// The process to attach to, for each rank, on the rank's host. Empty: the argset's program is
    /// started. If not empty, each rank has an argset of its own.
    #[serde(deserialize_with = "at_most::<_, _, MAX_ATTACHED>")]
    pub attach: Vec<u32>,
}
