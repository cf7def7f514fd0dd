//! The ranks of one world while they are started.

use std::collections::BTreeMap;

use mpd_placement::cpu::Cpu;
use mpd_placement::gpus::Gpus;

use super::prepare::Launch;

/// The ranks of one world that run here.
#[derive(Debug, Default)]
pub(super) struct Starting {
    /// By program.
    pub(super) launches: BTreeMap<usize, Launch>,
    /// The GPUs of this host, if ranks get GPUs.
    pub(super) gpus: Option<Gpus>,
    /// How many ranks ran here before. The next GPUs are behind theirs.
    pub(super) running: usize,
    /// The CPUs that the job may use here, if those of the ranks are to be reported.
    pub(super) cpus: Option<Vec<Cpu>>,
    /// The index of the next rank to start; `None` if no rank is left or the start has failed.
    pub(super) next: Option<usize>,
}

impl Starting {
    pub(super) const fn stop(&mut self) {
        self.next = None;
    }
}
