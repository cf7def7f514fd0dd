//! The context of ranks that are about to be started.

use mpd_wire::job::{Debug, JobSpec};
use mpd_wire::message::StartJob;
use nix::unistd::Pid;

/// The context of the ranks to be prepared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RanksContext<'a> {
    /// The programs of their world.
    pub(crate) spec: &'a JobSpec,
    pub(crate) order: &'a StartJob,
    /// The number of ranks that already run here.
    pub(crate) running: usize,
    /// Whether they belong to another world than the first: a rank has spawned them, or the job has grown.
    pub(crate) is_added: bool,
    /// Whether a rank has spawned them.
    pub(crate) has_parent: bool,
    /// The gdb of every rank of the job, if the job is debugged.
    pub(crate) debug: Option<&'a Debug>,
    /// The daemon that started this manager.
    pub(crate) daemon: Pid,
}

impl RanksContext<'_> {
    /// The process whose descendants may trace the ranks. Debuggers that attach to the job are children of another
    /// manager and descend from the daemon. They do not descend from a later daemon, so after the death of ours
    /// this manager is the tracer.
    pub(super) fn tracer(&self) -> Pid {
        if Pid::parent() == self.daemon { self.daemon } else { Pid::this() }
    }
}
