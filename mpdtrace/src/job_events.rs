//! The events of a job, through the daemon of this host.
//!
//! If the daemon is replaced, the subscription returns to the next one and continues with the next number, so no event is
//! lost and none comes twice.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use anyhow::Result;
use mpd_io::ring::all_rings;
use mpd_io::ring::console::Endpoint;
use mpd_io::ring::console::{Console, ConsoleError};
use mpd_io::ring::rundir::RunDir;
use mpd_wire::message::{ConsoleReply, EventGap, EventPage, JobEvent, JobRef, RingRequest};

use crate::ask::{AskError, RING_PATIENCE};
use crate::connection::Connection;
use crate::tool::OutputError;
use crate::watch;

/// The next part of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    Event(JobEvent),
    /// Events that are no longer kept.
    Gap(EventGap),
}

/// A subscription to the events of a job.
#[derive(Debug)]
pub struct Subscription {
    endpoint: Endpoint,
    job: JobRef,
    /// The number of the next event; `None`: the oldest one that is kept.
    next: Option<u64>,
    daemon: Connection,
    news: VecDeque<News>,
    is_over: bool,
}

impl Subscription {
    /// Subscribes to the events from this number on; `None`: from the oldest one that is kept.
    ///
    /// # Errors
    /// No daemon is there, or no ring has the job. A job that the ring does not have is refused by [`Self::next_news`].
    pub fn begin(rundir: &RunDir, job: JobRef, from: Option<u64>) -> Result<Self, AskError> {
        let endpoint = all_rings::find(rundir, &job, RING_PATIENCE)?;
        let daemon = Connection::There(ask(&endpoint, &job, from)?);
        let news = VecDeque::new();
        Ok(Self { endpoint, job, next: from, daemon, news, is_over: false })
    }

    /// What to wait for; `None`: the time of the next attempt to reach a daemon, see [`Self::patience`].
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.daemon.fd()
    }

    /// How long to wait at most; `None`: without a limit.
    pub fn patience(&self) -> Option<Duration> {
        self.daemon.patience()
    }

    /// Whether all events of the job have been taken.
    pub fn is_over(&self) -> bool {
        self.is_over && self.news.is_empty()
    }

    /// The next part, if one is there. Does not wait.
    ///
    /// # Errors
    /// The daemon refuses, or no daemon came back in time.
    pub fn next_news(&mut self) -> Result<Option<News>, AskError> {
        loop {
            if let Some(news) = self.news.pop_front() {
                return Ok(Some(news));
            }
            if self.is_over {
                return Ok(None);
            }
            let (endpoint, job, next) = (&self.endpoint, &self.job, self.next);
            self.daemon.reconnect(|| ask(endpoint, job, next))?;
            let Connection::There(console) = &mut self.daemon else { return Ok(None) };
            match console.answer(Some(Duration::ZERO)) {
                Ok(ConsoleReply::JobEvents(page)) => self.take(page),
                Ok(_) => return Err(AskError::UNFIT),
                Err(ConsoleError::Silent(_)) => return Ok(None),
                Err(ConsoleError::Closed | ConsoleError::System(_)) => self.daemon.lose(),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn take(&mut self, page: EventPage) {
        self.job = JobRef::Id(page.job);
        if let Some(gap) = page.gap {
            self.next = Some(gap.next);
            self.news.push_back(News::Gap(gap));
        }
        for event in page.events {
            self.next = Some(event.number + 1);
            self.news.push_back(News::Event(event));
        }
        self.is_over = page.is_over;
    }
}

fn ask(endpoint: &Endpoint, job: &JobRef, from: Option<u64>) -> Result<Console, ConsoleError> {
    Console::ask_at(endpoint, RingRequest::JobEvents { job: job.clone(), from })
}

/// Calls `show` with each event of a job until the job has ended.
///
/// # Errors
/// Those of [`Subscription`] and of `show`; [`OutputError`] with `BrokenPipe` when standard output has no reader.
pub fn follow(
    rundir: &RunDir,
    job: JobRef,
    from: Option<u64>,
    mut show: impl FnMut(&News) -> Result<(), OutputError>,
) -> Result<()> {
    let mut subscription = Subscription::begin(rundir, job, from)?;
    loop {
        while let Some(news) = subscription.next_news()? {
            show(&news)?;
        }
        if subscription.is_over() {
            return Ok(());
        }
        watch::wait(subscription.fd(), subscription.patience())?;
    }
}
