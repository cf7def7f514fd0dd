//! Events of one job: its ranks start and end, and hosts of the ring come and go. The root manager gives them their order.

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::job::RankEnd;
use crate::{DaemonName, JobId, Rank};

/// Most events in one message. That many of the largest size fit a frame.
pub const MAX_EVENTS: usize = 256;

/// Most changes of hosts in one message.
pub const MAX_HOST_CHANGES: usize = 1024;

/// One event of a job. All subscribers of the job receive the same events with the same numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEvent {
    /// Counted from 1, without gaps.
    pub number: u64,
    /// The time at which the root manager received it, in microseconds since 1970.
    pub at_us: u64,
    /// What happened.
    pub change: JobChange,
}

/// What happened in an event of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobChange {
    /// A rank was started. Each rank has this event at most once.
    Started {
        /// The rank, numbered through the job.
        rank: Rank,
        /// The id of its process; 0 if the rank ended before its manager reported it.
        pid: u32,
        /// The host of the rank.
        host: DaemonName,
    },
    /// A rank that was started has ended. Each of these ranks has this event once.
    Exited {
        /// The rank, numbered through the job.
        rank: Rank,
        /// The host of the rank.
        host: DaemonName,
        /// How it ended.
        end: RankEnd,
    },
    /// A host of the ring has changed.
    Host(HostChange),
    /// The job has ended, and nothing of it is left. This is its last event.
    JobEnded {
        /// The exit code of `mpirun`.
        code: u8,
    },
}

/// A change of a host, as the daemon of the job's root manager detected it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostChange {
    pub host: DaemonName,
    /// The change.
    pub to: HostTurn,
}

/// A kind of change of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostTurn {
    /// It has entered the ring, or is back.
    Added,
    /// It is draining from now on.
    Draining,
    /// It is no longer draining.
    Undrained,
    /// Its daemon was declared dead, or its manager of this job is unreachable.
    Lost,
    /// It left the ring by command.
    Left,
}

/// Events that a subscriber asked for and that are no longer kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventGap {
    /// The number of the first one that is missing.
    pub from: u64,
    /// The number of the first one after them.
    pub next: u64,
}

/// Some events of a job in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventPage {
    pub job: JobId,
    /// Events before [`Self::events`] that are no longer kept.
    pub gap: Option<EventGap>,
    /// The events. There may be none.
    #[serde(deserialize_with = "at_most::<_, _, MAX_EVENTS>")]
    pub events: Vec<JobEvent>,
    /// Whether the last event of the job is among them, or came before them.
    pub is_over: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;

    fn host(length: usize) -> DaemonName {
        DaemonName::new(&"h".repeat(length)).unwrap()
    }

    fn event(change: JobChange) -> JobEvent {
        JobEvent { number: 7, at_us: 1, change }
    }

    fn page(events: Vec<JobEvent>) -> EventPage {
        let gap = Some(EventGap { from: 1, next: 7 });
        EventPage { job: "1@h".parse().unwrap(), gap, events, is_over: false }
    }

    #[test]
    fn every_event_reads_back_what_it_writes_and_an_unknown_field_is_ignored() {
        let (rank, host) = (Rank(3), host(2));
        let end = RankEnd::Signaled { signal: 9, core: false };
        let all = [HostTurn::Added, HostTurn::Draining, HostTurn::Undrained, HostTurn::Lost];
        let hosts = all.into_iter().chain([HostTurn::Left]);
        let mut events: Vec<JobEvent> =
            hosts.map(|to| event(JobChange::Host(HostChange { host: host.clone(), to }))).collect();
        events.push(event(JobChange::Started { rank, pid: 9, host: host.clone() }));
        events.push(event(JobChange::Exited { rank, host, end }));
        events.push(event(JobChange::JobEnded { code: 255 }));
        let page = page(events);
        let bytes = serde_json::to_vec(&page).unwrap();
        assert_eq!(frame::decode_message::<EventPage>(&bytes).unwrap(), page);
        let other = br#"{"number":1,"at_us":1,"change":{"job_ended":{"code":1,"why":2}}}"#;
        assert!(frame::decode_message::<JobEvent>(other).is_ok());
    }

    #[test]
    fn the_longest_page_fits_a_frame_and_a_longer_one_is_refused() {
        let change = JobChange::Exited {
            rank: Rank(u32::MAX),
            host: host(crate::MAX_DAEMON_NAME),
            end: RankEnd::Signaled { signal: 255, core: false },
        };
        let event = JobEvent { number: u64::MAX, at_us: u64::MAX, change };
        let longest = page(vec![event.clone(); MAX_EVENTS]);
        let bytes = serde_json::to_vec(&longest).unwrap();
        assert!(bytes.len() <= frame::MAX_PAYLOAD, "{}", bytes.len());
        assert_eq!(frame::decode_message::<EventPage>(&bytes).unwrap(), longest);
        let bytes = serde_json::to_vec(&page(vec![event; MAX_EVENTS + 1])).unwrap();
        assert!(frame::decode_message::<EventPage>(&bytes).is_err());
    }
}
