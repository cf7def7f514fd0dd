//! Requests of a manager of this host to the ring, or to this daemon if it has no ring.

use mpd_wire::job::ManagerEnd;
use mpd_wire::message::{JobEvent, ManagerReport};
use mpd_wire::{Instance, JobId};

use crate::local_names::NameRequest;
use crate::meetings::MeetingRequest;
use crate::spawns::Spawn;

/// A request of a manager.
#[derive(Debug)]
pub(crate) enum Demand {
    /// About a name.
    Name(NameRequest),
    /// About other jobs.
    Meeting(MeetingRequest),
    /// About processes that ranks spawn.
    Spawn(Spawn),
    /// Its root manager here reports events of the job.
    Events { job: JobId, events: Vec<JobEvent> },
    /// The job ended before all its managers had connected: it is over on all hosts.
    Cancel(JobId),
    /// The manager of a job of another daemon has ended here without its last report: its root manager gets the cause.
    ManagerEnded {
        job: JobId,
        /// How its manager here ended.
        end: ManagerEnd,
    },
}

impl Demand {
    /// What the manager of `job` demands with a report. `random` returns random bytes, or a text for people; it is called
    /// only if they are needed.
    pub(crate) fn of(
        job: JobId,
        report: ManagerReport,
        random: impl FnOnce() -> Result<[u8; 16], String>,
    ) -> Option<Self> {
        Some(match report {
            ManagerReport::Events { events } => Self::Events { job, events },
            ManagerReport::Name { request, operation } => {
                Self::Name(NameRequest::new(job, request, operation, random))
            }
            ManagerReport::Meeting { request, operation } => {
                Self::Meeting(MeetingRequest { job, request, operation })
            }
            ManagerReport::Place { request, placement } => {
                let (placement, first) = (Box::new(placement), random().map(Instance::from_bytes));
                Self::Spawn(Spawn::Place { job, request, placement, first })
            }
            ManagerReport::Grow { launch } => Self::Spawn(Spawn::Grow(launch)),
            ManagerReport::Begun
            | ManagerReport::Ranks { .. }
            | ManagerReport::Spawns { .. }
            | ManagerReport::Forgotten { .. }
            | ManagerReport::Receivers { .. }
            | ManagerReport::Written { .. }
            | ManagerReport::State { .. }
            | ManagerReport::Ended { .. } => return None,
        })
    }
}
