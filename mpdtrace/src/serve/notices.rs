//! The events of a job that the program of a helper wants.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use mpd_io::ring::rundir::RunDir;
use mpd_requests::{AHEAD, Error, Event, EventKind, ToProgram};
use mpd_wire::job::RankEnd;
use mpd_wire::message::{EventGap, HostTurn, JobChange, JobEvent, JobRef};

use crate::job_events::{News, Subscription};

/// A subscription of the program.
#[derive(Debug)]
pub(super) struct Notices {
    number: u64,
    /// `None` after the last event.
    subscription: Option<Subscription>,
    wanted: u32,
    /// Events that may be sent before the program has taken some.
    room: u32,
}

impl Notices {
    /// Subscribes; `None` if no event is wanted.
    ///
    /// # Errors
    /// The name of the job is invalid, or the daemon is not there.
    pub(super) fn begin(
        rundir: &RunDir,
        number: u64,
        job: &str,
        wanted: u32,
        from: u64,
    ) -> Result<Option<Self>, Error> {
        if wanted == 0 {
            return Ok(None);
        }
        let invalid =
            || Error::Argument(format!("{job:?} is neither the id nor the alias of a job"));
        let job = JobRef::or_alias(job).ok_or_else(invalid)?;
        let from = Some(from).filter(|from| *from > 0);
        let subscription = Subscription::begin(rundir, job, from);
        let subscription = subscription.map_err(|error| Error::Daemon(error.to_string()))?;
        Ok(Some(Self { number, subscription: Some(subscription), wanted, room: AHEAD }))
    }

    /// What to wait for. A program that is slow lets the events wait with the daemon.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.subscription.as_ref().filter(|_| self.room > 0)?.fd()
    }

    /// How long to wait at most.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.subscription.as_ref().filter(|_| self.room > 0)?.patience()
    }

    /// The program has taken events.
    pub(super) const fn taken(&mut self, subscription: u64, count: u32) {
        if subscription == self.number {
            self.room = self.room.saturating_add(count);
        }
    }

    /// The events that are there, as far as the program has room, and why no more will come.
    pub(super) fn take(&mut self) -> [Option<ToProgram>; 2] {
        let (mut events, mut failed) = (Vec::new(), None);
        while self.room > 0
            && let Some(subscription) = &mut self.subscription
        {
            match subscription.next_news() {
                Ok(Some(news)) => {
                    let event = event_of(news);
                    if event.kind.bit() & (self.wanted | EventKind::GAP) != 0 {
                        self.room -= 1;
                        events.push(event);
                    }
                }
                Ok(None) if subscription.is_over() => self.subscription = None,
                Ok(None) => break,
                Err(error) => {
                    self.subscription = None;
                    failed = Some(error.to_string());
                }
            }
        }
        let subscription = self.number;
        [
            (!events.is_empty()).then_some(ToProgram::Events { subscription, events }),
            failed.map(|why| ToProgram::EventsFailed { subscription, why }),
        ]
    }
}

fn event_of(news: News) -> Event {
    match news {
        News::Gap(EventGap { from, next }) => {
            Event { number: from, host: String::new(), kind: EventKind::Gap { next } }
        }
        News::Event(JobEvent { number, at_us: _, change }) => {
            let (host, kind) = kind_of(change);
            Event { number, host, kind }
        }
    }
}

fn kind_of(change: JobChange) -> (String, EventKind) {
    match change {
        JobChange::Started { rank, pid, host } => {
            (host.to_string(), EventKind::Started { rank: rank.0, pid })
        }
        JobChange::Exited { rank, host, end } => {
            let signal = match end {
                RankEnd::Signaled { signal, .. } => signal,
                _ => 0,
            };
            (host.to_string(), EventKind::Exited { rank: rank.0, code: end.code(), signal })
        }
        JobChange::Host(change) => {
            let kind = match change.to {
                HostTurn::Added => EventKind::HostAdded,
                HostTurn::Draining => EventKind::HostDraining,
                HostTurn::Undrained => EventKind::HostUndrained,
                HostTurn::Left => EventKind::HostLeft,
                HostTurn::Lost => EventKind::HostLost,
            };
            (change.host.to_string(), kind)
        }
        JobChange::JobEnded { code } => (String::new(), EventKind::JobEnded { code }),
    }
}
