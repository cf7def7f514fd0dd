//! The first step of a manager that is not the root: it connects to its parent and waits for the job's
//! specification.

use std::io;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mio::Events;
use mpd_manager::News;
use mpd_wire::job::MAX_SPEC;
use mpd_wire::message::{Down, ManagerOrder, ManagerReport, Phase};

use super::links::LinkEnd;
use super::means::Means;
use super::upstream::DaemonMessage;

/// The encoded specification; `None` if the job is over or the parent is lost. Then nothing was begun here.
///
/// # Errors
/// The received data is invalid.
pub(super) fn specification(means: &mut Means) -> Result<Option<Vec<u8>>> {
    let mut wanted = None;
    let mut encoded = Vec::new();
    let mut events = Events::with_capacity(64);
    means.trace.begin(means.clock.now(), Phase::Link, None);
    loop {
        if serve_daemon(means) == Continue::No {
            return Ok(None);
        }
        let now = means.clock.now();
        if means.sign.is_due(now) {
            report(means, &ManagerReport::Begun);
        }
        means.branches.turn(means.poll.registry(), now);
        while let Some(news) = means.branches.pop() {
            match news {
                News::Down(Down::Spec { bytes }) if wanted.is_none() => {
                    wanted = Some(bytes as usize).filter(|&bytes| bytes <= MAX_SPEC);
                    wanted.context("the specification is too long")?;
                }
                News::Up(LinkEnd::Parent) => {
                    means.trace.end(now, Phase::Link, None);
                    means.trace.begin(now, Phase::Specification, None);
                }
                News::Spec(bytes) => encoded.extend_from_slice(&bytes),
                News::Down(Down::Kill | Down::CleanUp) => return Ok(None),
                // If a child is lost, this manager ends too, and its parent detects that.
                News::Lost { host, problem, .. } => {
                    log::warn!("host {host}: {problem}");
                    return Ok(None);
                }
                // These messages overtook the specification.
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
enum Continue {
    Yes,
    No,
}

fn serve_daemon(means: &mut Means) -> Continue {
    if !means.daemon.has_work() {
        return Continue::Yes;
    }
    let now = means.clock.now();
    let (messages, _) = means.daemon.receive();
    for message in messages {
        match message {
            DaemonMessage::Link(fd, hello) => {
                means.branches.adopt(means.poll.registry(), now, fd, &hello);
            }
            DaemonMessage::Order(ManagerOrder::Kill) => return Continue::No,
            DaemonMessage::Order(ManagerOrder::State { request }) => {
                let text = "waiting for the specification of the job".to_owned();
                report(means, &ManagerReport::State { request, text, more: false });
            }
            DaemonMessage::Order(order) => log::debug!("no use before the start: {order:?}"),
        }
    }
    Continue::Yes
}

/// Sends a report to the daemon, which is a sign, too.
fn report(means: &mut Means, report: &ManagerReport) {
    means.sign.given();
    means.daemon.report(report);
    means.daemon.flush();
}

fn wait(means: &mut Means, events: &mut Events) -> Result<()> {
    let busy = means.branches.has_work() || means.daemon.has_work();
    let deadlines = [means.branches.next_deadline(), means.sign.at()];
    let until = deadlines.into_iter().flatten().min().map(|at| means.clock.until(at));
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
