//! What a manager that is not the root does first: it connects to the manager above and waits for the
//! job's specification.

use std::io;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mio::Events;
use mpd_wire::job::MAX_SPEC;
use mpd_wire::message::{Down, Phase};

use super::begin::Means;
use super::links::{End, News};
use super::upstream::Told;

/// The encoded specification; `None` if there is none to come, since the job is over or the manager above
/// is lost. Nothing was begun here then.
///
/// # Errors
/// What came cannot be taken.
pub(super) fn specification(means: &mut Means) -> Result<Option<Vec<u8>>> {
    let mut wanted = None;
    let mut encoded = Vec::new();
    let mut events = Events::with_capacity(64);
    means.trace.begin(means.clock.now(), Phase::Link, None);
    loop {
        if serve_daemon(means) == Wanted::No {
            return Ok(None);
        }
        let now = means.clock.now();
        means.branches.turn(means.poll.registry(), now);
        while let Some(news) = means.branches.pop() {
            match news {
                News::Down(Down::Spec { bytes }) if wanted.is_none() => {
                    wanted = Some(bytes as usize).filter(|&bytes| bytes <= MAX_SPEC);
                    wanted.context("the specification is too long")?;
                }
                News::Up(End::Parent) => {
                    means.trace.end(now, Phase::Link, None);
                    means.trace.begin(now, Phase::Specification, None);
                }
                News::Spec(bytes) => encoded.extend_from_slice(&bytes),
                News::Down(Down::Kill | Down::Tidy) => return Ok(None),
                // If it is one below that is lost, those above see that we are, too.
                News::Lost { host, problem, .. } => {
                    log::warn!("host {host}: {problem}");
                    return Ok(None);
                }
                // What overtook the specification.
                news => means.early.push(news),
            }
        }
        means.branches.flush();
        if let Some(wanted) = wanted
            && encoded.len() >= wanted
        {
            if encoded.len() > wanted {
                bail!("the specification is longer than announced");
            }
            means.trace.end(means.clock.now(), Phase::Specification, None);
            return Ok(Some(encoded));
        }
        if means.signals.pending().iter().any(|&signal| signal != libc::SIGCHLD) {
            return Ok(None);
        }
        wait(means, &mut events)?;
    }
}

/// Whether the daemon still wants the job to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Yes,
    No,
}

fn serve_daemon(means: &mut Means) -> Wanted {
    if !means.daemon.has_work() {
        return Wanted::Yes;
    }
    let now = means.clock.now();
    let (told, _) = means.daemon.hear();
    for word in told {
        match word {
            Told::Kill => return Wanted::No,
            Told::Link(fd, hello) => {
                means.branches.adopt(means.poll.registry(), now, fd, &hello);
            }
            Told::Signal { .. }
            | Told::SwitchStdin(_)
            | Told::CountOutput
            | Told::Missing(_)
            | Told::Launched(..)
            | Told::Placed(..)
            | Told::Named(..)
            | Told::NameLost(..) => {}
        }
    }
    Wanted::Yes
}

fn wait(means: &mut Means, events: &mut Events) -> Result<()> {
    let busy = means.branches.has_work() || means.daemon.has_work();
    let until = means.branches.next_deadline().map(|at| means.clock.until(at));
    let wait = if busy { Some(Duration::ZERO) } else { until };
    match means.poll.poll(events, wait) {
        Err(e) if e.kind() == io::ErrorKind::Interrupted => events.clear(),
        result => result.context("cannot wait for events")?,
    }
    for event in events.iter() {
        let hung_up = event.is_read_closed() || event.is_error();
        match event.token().0 {
            super::tokens::DAEMON => means.daemon.ready = true,
            token => drop(means.branches.mark_ready(token, hung_up)),
        }
    }
    Ok(())
}
