//! Requests of a manager of this host to the ring, or to this daemon if it has no ring.

use mpd_wire::JobId;
use mpd_wire::job::ManagerEnd;

use crate::local_names::NameRequest;
use crate::meetings::MeetingRequest;
use crate::spawns::Spawn;

/// A request of a manager.
#[derive(Debug)]
pub enum Demand {
    /// About a name.
    Name(NameRequest),
    /// About other jobs.
    Meeting(MeetingRequest),
    /// About processes that ranks spawn.
    Spawn(Spawn),
    /// The job ended before all its managers had connected: it is over on all hosts.
    Cancel(JobId),
    /// The manager of a job of another daemon has ended here without its last report: its root manager gets the cause.
    ManagerEnded {
        job: JobId,
        /// How its manager here ended.
        end: ManagerEnd,
    },
}
