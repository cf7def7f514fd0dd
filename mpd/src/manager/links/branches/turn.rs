//! One turn of the links: reads first, then checks deadlines, then writes.

use std::mem;

use mio::Registry;
use mpd_channel::ChannelError;
use mpd_io::files::logging::plain;
use mpd_io::network::link::{LinkError, LinkReport};
use mpd_joblink::{Input, Output, Seconds};
use mpd_manager::News;
use mpd_sansio::Time;

use super::{Branch, Branches, LinkEnd, Stage, Standing};

impl Branches {
    /// Marks the link of `token` as ready. Whether the token belongs to a link.
    pub(crate) fn mark_ready(&mut self, token: usize, hung_up: bool) -> bool {
        if let Some(line) = self.lines.get_mut(&token) {
            line.full = false;
            self.make_ready(token, hung_up);
        }
        token >= self.first_token
    }

    pub(super) fn make_ready(&mut self, token: usize, hung_up: bool) {
        match self.ready.iter_mut().find(|(known, _)| *known == token) {
            Some((_, known)) => *known |= hung_up,
            None => self.ready.push((token, hung_up)),
        }
    }

    /// Whether work can be done without waiting.
    pub(crate) fn has_work(&self) -> bool {
        !self.ready.is_empty() || !self.news.is_empty()
    }

    /// When [`Branches::turn`] is due at the latest.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let lines = self.lines.values().filter_map(|line| match line.stage {
            Stage::Dialing | Stage::Accepting => line.link.deadline(),
            Stage::Open(_) => None,
            Stage::Leaving { until } => Some(until),
        });
        let branches = self.branches.iter().filter_map(|branch| match branch.standing {
            Standing::Awaited => self.start_by,
            Standing::Open(_) => branch.machine.poll_timeout(),
            Standing::Closing(_) | Standing::Over => None,
        });
        let seek = self.seek.as_ref().map(|seek| seek.poll_timeout());
        lines.chain(branches).chain(seek).min()
    }

    /// Reads a bounded amount from ready links, then checks deadlines, then writes.
    pub(crate) fn turn(&mut self, registry: &Registry, now: Time) {
        self.now = now;
        for (token, hung_up) in mem::take(&mut self.ready) {
            self.read(token, now, hung_up);
        }
        self.expire(now);
        self.reach_parent(registry, now);
        self.flush();
    }

    fn read(&mut self, token: usize, now: Time, hung_up: bool) {
        let Some(line) = self.lines.get_mut(&token) else { return };
        let mut received = Vec::new();
        let result = line.link.turn(&mut self.buffer, hung_up, &mut received);
        for report in received {
            self.receive(token, now, report);
        }
        match result {
            Ok(true) => self.make_ready(token, true),
            Ok(false) => {}
            Err(e) => self.lose_line(token, now, &e),
        }
    }

    fn receive(&mut self, token: usize, now: Time, received: LinkReport) {
        let Some(line) = self.lines.get(&token) else { return };
        match (received, line.stage) {
            (LinkReport::Established { peer, .. }, Stage::Dialing | Stage::Accepting) => {
                self.settle(token, now, peer);
            }
            (LinkReport::Frame(frame), Stage::Open(index)) => {
                self.branches[index].machine.handle(now, Input::Received(frame));
                self.perform(index);
            }
            // Reports that only daemons need, and frames that follow our `bye`, are ignored.
            _ => {}
        }
    }

    /// Performs the outputs of a branch's machine.
    pub(super) fn perform(&mut self, index: usize) {
        while let Some(output) = self.branches[index].machine.poll_output() {
            let host = &self.branches[index].host;
            match output {
                Output::Act(received) => {
                    let news = News::of(self.branches[index].end, received);
                    self.news.extend(news);
                }
                Output::Skipped(line) => log::warn!("host {host}: {line}"),
                Output::Suspect(silence) => {
                    log::info!("no message from host {host} for {}", Seconds(silence));
                }
                Output::Clear => log::info!("host {host} is back"),
                Output::Lose(loss) => self.lose_branch(index, loss.to_string(), false),
            }
        }
    }

    /// Handles the end of a connection.
    pub(super) fn lose_line(&mut self, token: usize, now: Time, error: &LinkError) {
        let Some(line) = self.lines.remove(&token) else { return };
        let remote = line.link.remote();
        match line.stage {
            Stage::Dialing => self.attempt_failed(now, remote, error),
            Stage::Accepting => log::debug!("{remote}: {error}"),
            Stage::Open(index) => match error {
                LinkError::Bye => self.end_branch(index),
                error => self.lose_branch(index, describe_end(error), is_end(error)),
            },
            Stage::Leaving { .. } => self.finish_line(token),
        }
    }

    /// Removes a closed connection.
    fn finish_line(&mut self, token: usize) {
        let is_it = |standing| standing == Standing::Closing(token);
        if let Some(index) = self.branches.iter().position(|branch| is_it(branch.standing)) {
            self.give_up(index);
        }
        self.lines.remove(&token);
    }

    fn expire(&mut self, now: Time) {
        for token in self.lines.keys().copied().collect::<Vec<_>>() {
            let Some(line) = self.lines.get_mut(&token) else { continue };
            match line.stage {
                Stage::Dialing | Stage::Accepting => {
                    if line.link.deadline().is_some_and(|at| at <= now)
                        && let Err(e) = line.link.expire(now)
                    {
                        self.lose_line(token, now, &e);
                    }
                }
                // Data that waits in a socket is handled before its deadline.
                Stage::Open(index) if !self.ready.iter().any(|(ready, _)| *ready == token) => {
                    self.branches[index].machine.handle_timeout(now);
                    self.perform(index);
                }
                Stage::Leaving { until } if until <= now => self.finish_line(token),
                Stage::Open(_) | Stage::Leaving { .. } => {}
            }
        }
        if self.start_by.is_some_and(|at| at <= now) {
            self.start_by = None;
            let patience = Seconds(self.timing.start);
            for index in 0..self.branches.len() {
                let Branch { end, standing, .. } = self.branches[index];
                if end != LinkEnd::Parent && standing == Standing::Awaited {
                    let problem = format!("its manager did not connect within {patience}");
                    self.lose_branch(index, problem, false);
                }
            }
        }
    }

    /// Writes to the sockets as much as they accept.
    pub(crate) fn flush(&mut self) {
        for index in 0..self.branches.len() {
            if let Standing::Open(token) | Standing::Closing(token) = self.branches[index].standing
                && let Err(e) = self.write(index, token)
            {
                self.lose_line(token, self.now, &e);
            }
        }
    }

    /// Seals few frames at a time, so that urgent frames can overtake the others.
    pub(super) fn write(&mut self, index: usize, token: usize) -> Result<(), LinkError> {
        let branch = &mut self.branches[index];
        let Some(line) = self.lines.get_mut(&token) else { return Ok(()) };
        while !line.full {
            while let Some(frame) = branch.machine.next_frame(self.now, line.link.queued()) {
                line.link.send(frame.bytes())?;
            }
            if line.link.is_drained() {
                break;
            }
            line.link.flush()?;
            line.full = !line.link.is_drained();
        }
        if matches!(branch.standing, Standing::Closing(_)) && branch.machine.is_empty() {
            branch.standing = Standing::Over;
            branch.machine.abandon();
            line.link.finish();
        }
        Ok(())
    }
}

/// Whether a connection ended in the way in which a dead process ends it. A dead host ends it in other ways.
fn is_end(error: &LinkError) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    match error {
        LinkError::Channel(error) => *error == ChannelError::Truncated,
        LinkError::Broken(error) => matches!(error.kind(), BrokenPipe | ConnectionReset),
        LinkError::Connect(_) | LinkError::Handshake(_) | LinkError::Bye => false,
    }
}

/// How an open link ended, in a form that can follow "host h3 is lost: ".
fn describe_end(error: &LinkError) -> String {
    match error {
        LinkError::Channel(ChannelError::Truncated) => "the connection to it was closed".to_owned(),
        LinkError::Broken(e) => format!("the connection to it broke: {}", plain(e)),
        other => other.to_string(),
    }
}
