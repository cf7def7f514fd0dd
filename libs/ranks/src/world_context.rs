//! The context of the ranks of one world that are about to be started.

use mpd_clients::Job;
use mpd_ending::Pid;
use mpd_wire::job::JobSpec;

use crate::host::Host;

/// The context of the ranks to be checked.
#[derive(Clone, Copy)]
pub(crate) struct WorldContext<'a> {
    pub(crate) job: &'a Job,
    pub(crate) host: &'a dyn Host,
    /// The programs of their world.
    pub(crate) spec: &'a JobSpec,
    /// The number of ranks that already run here.
    pub(crate) running: usize,
    /// Whether they belong to another world than the first: a rank has spawned them, or the job has grown.
    pub(crate) is_added: bool,
    /// Whether a rank has spawned them.
    pub(crate) has_parent: bool,
    /// The daemon that started the manager.
    pub(crate) daemon: Pid,
}

impl WorldContext<'_> {
    /// The process whose descendants may trace the ranks. Debuggers that attach to the job are children of another
    /// manager and descend from the daemon. They do not descend from a later daemon, so after the death of ours
    /// the manager is the tracer.
    pub(crate) fn tracer(&self) -> Pid {
        if self.host.parent() == self.daemon { self.daemon } else { self.host.this() }
    }
}
