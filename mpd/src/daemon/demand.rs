//! What a manager of this host requests of the ring, or of this daemon where it is in no ring.

use mpd_wire::JobId;

use crate::daemon::names::Wish;
use crate::daemon::spawns::Spawn;

/// See the module.
#[derive(Debug)]
pub(super) enum Demand {
    /// About a name.
    Name(Wish),
    /// About processes that ranks spawn.
    Spawn(Spawn),
    /// The job ended before all its managers had connected: it is over on all hosts.
    Cancel(JobId),
}
