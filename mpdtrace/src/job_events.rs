//! The events of a job, through the daemon of this host.
//!
//! If the daemon is replaced, the subscription returns to the next one and continues with the next number, so no event is
//! lost and none comes twice.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use mpd_io::console::{Console, ConsoleError};
use mpd_io::rings::{self, Endpoint};
use mpd_io::rundir::RunDir;
use mpd_wire::message::{ConsoleReply, EventGap, EventPage, JobEvent, JobRef, RingRequest};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::ask::{AskError, RING_PATIENCE};
use crate::owner::AGAIN;
use crate::slots::RECONNECT;
use crate::tool::OutputError;

/// The next part of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// An event.
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
    /// The connection, or the time at which it was lost and the time of the next attempt.
    daemon: Result<Console, (Instant, Instant)>,
    news: VecDeque<News>,
    is_over: bool,
}

impl Subscription {
    /// Subscribes to the events from this number on; `None`: from the oldest one that is kept.
    ///
    /// # Errors
    /// No daemon is there, or no ring has the job. A job that the ring does not have is refused by [`Self::next_news`].
    pub fn begin(rundir: &RunDir, job: JobRef, from: Option<u64>) -> Result<Self, AskError> {
        let endpoint = rings::find(rundir, &job, RING_PATIENCE)?;
        let console = ask(&endpoint, &job, from)?;
        let news = VecDeque::new();
        Ok(Self { endpoint, job, next: from, daemon: Ok(console), news, is_over: false })
    }

    /// What to wait for; `None`: the time of the next attempt to reach a daemon, see [`Self::patience`].
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.daemon.as_ref().ok().map(|console| console.as_fd())
    }

    /// How long to wait at most; `None`: without a limit.
    pub fn patience(&self) -> Option<Duration> {
        let (_, next) = self.daemon.as_ref().err()?;
        Some(next.saturating_duration_since(Instant::now()))
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
            let Ok(console) = &mut self.daemon else {
                self.reconnect()?;
                if self.daemon.is_ok() {
                    continue;
                }
                return Ok(None);
            };
            match console.answer(Some(Duration::ZERO)) {
                Ok(ConsoleReply::JobEvents(page)) => self.take(page),
                Ok(_) => return Err(AskError::UNFIT),
                Err(ConsoleError::Silent(_)) => return Ok(None),
                Err(ConsoleError::Closed | ConsoleError::System(_)) => {
                    let now = Instant::now();
                    self.daemon = Err((now, now + AGAIN));
                }
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

    /// Tries to return to a new daemon.
    fn reconnect(&mut self) -> Result<(), AskError> {
        let now = Instant::now();
        let Err((since, next)) = &mut self.daemon else { return Ok(()) };
        if *next > now {
            return Ok(());
        }
        *next = now + AGAIN;
        let since = *since;
        match ask(&self.endpoint, &self.job, self.next) {
            Ok(console) => self.daemon = Ok(console),
            Err(_) if since.elapsed() < RECONNECT => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
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
        wait(&subscription)?;
    }
}

/// Waits for a message, for the time of the next attempt, or for the end of standard output's reader.
fn wait(subscription: &Subscription) -> Result<()> {
    let out = io::stdout();
    let mut fds = vec![PollFd::new(out.as_fd(), PollFlags::empty())];
    fds.extend(subscription.fd().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
    let timeout = subscription.patience().map_or(PollTimeout::NONE, |patience| {
        // A millisecond more: the time of the attempt is over then.
        PollTimeout::try_from(patience.as_millis() + 1).unwrap_or(PollTimeout::MAX)
    });
    match poll(&mut fds, timeout) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error).context("cannot wait for events"),
    }
    let gone = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
    if fds[0].revents().is_some_and(|events| events.intersects(gone)) {
        return Err(OutputError::from(io::Error::from(io::ErrorKind::BrokenPipe)).into());
    }
    Ok(())
}
