//! How the ranks of an argset are started, and the results of the checks of a world.

use std::collections::BTreeMap;

use mpd_debug::shim::Plan;
use mpd_ending::Pid;
use mpd_placement::binding::Bindings;
use mpd_placement::gpus::Gpus;
use mpd_wire::job::{Bytes, Program};

/// How the ranks of an argset are started. No text contains a NUL byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub program: Program,
    /// The first argument is the name of the program.
    pub argv: Vec<Bytes>,
    /// The tasks of the shim, if one is needed.
    pub shim: Option<Plan>,
    /// `NAME=VALUE` each.
    pub environment: Vec<Bytes>,
    pub directory: Bytes,
    pub umask: u32,
    /// The limits that differ from those of the manager: the number of the kernel, the soft and the hard limit.
    pub limits: Vec<(u8, u64, u64)>,
    pub niceness: Option<i8>,
    /// The descendants of this process may trace the ranks.
    pub tracer: Pid,
}

/// The results of the checks of a world.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checked {
    /// By argset.
    pub(crate) launches: BTreeMap<usize, Launch>,
    pub(crate) bindings: Bindings,
    /// The GPUs of this host, if ranks get GPUs.
    pub(crate) gpus: Option<Gpus>,
}
