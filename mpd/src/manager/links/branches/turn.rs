//! One turn of the links: what is there is read first, then time passes, then what waits is written.

use std::mem;

use mio::Registry;
use mpd_channel::ChannelError;
use mpd_io::link::{Heard, LinkError};
use mpd_io::logging::plain;
use mpd_job::joblink;
use mpd_job::joblink::{Input, Output, Seconds};
use mpd_machine::Time;

use super::{Branch, Branches, End, News, Stage, Standing};

impl Branches {
    /// An event came for `token`; whether that is one of the links'.
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

    /// Whether there is something to do without waiting.
    pub(crate) fn has_work(&self) -> bool {
        !self.ready.is_empty() || !self.news.is_empty()
    }

    /// When [`Branches::turn`] is due at the latest.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let lines = self.lines.values().filter_map(|line| match line.stage {
            Stage::Dialing | Stage::Knocking => line.link.deadline(),
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

    /// Reads what is ready, a bounded amount, then lets time pass, then writes.
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
        let mut heard = Vec::new();
        let result = line.link.turn(&mut self.buffer, hung_up, &mut heard);
        for word in heard {
            self.hear(token, now, word);
        }
        match result {
            Ok(true) => self.make_ready(token, true),
            Ok(false) => {}
            Err(e) => self.lose_line(token, now, &e),
        }
    }

    fn hear(&mut self, token: usize, now: Time, heard: Heard) {
        let Some(line) = self.lines.get(&token) else { return };
        match (heard, line.stage) {
            (Heard::Established { peer, .. }, Stage::Dialing | Stage::Knocking) => {
                self.settle(token, now, peer);
            }
            (Heard::Frame(frame), Stage::Open(index)) => {
                self.branches[index].machine.handle(now, Input::Received(frame));
                self.perform(index);
            }
            // That it is connected, what only daemons hear, and what comes after our bye.
            _ => {}
        }
    }

    /// Does what the machine of a branch says.
    pub(super) fn perform(&mut self, index: usize) {
        while let Some(output) = self.branches[index].machine.poll_output() {
            let host = &self.branches[index].host;
            match output {
                Output::Act(heard) => {
                    let news = news(self.branches[index].end, heard);
                    self.news.extend(news);
                }
                Output::Suspect(silence) => {
                    log::info!("no word from host {host} for {}", Seconds(silence));
                }
                Output::Clear => log::info!("host {host} is back"),
                Output::Lose(loss) => self.lose_branch(index, loss.to_string()),
            }
        }
    }

    /// A connection is over.
    pub(super) fn lose_line(&mut self, token: usize, now: Time, error: &LinkError) {
        let Some(line) = self.lines.remove(&token) else { return };
        let remote = line.link.remote();
        match line.stage {
            Stage::Dialing => self.missed(now, remote, error),
            Stage::Knocking => log::debug!("{remote}: {error}"),
            Stage::Open(index) => self.lose_branch(index, words(error)),
            Stage::Leaving { .. } => self.left(token),
        }
    }

    /// A line that was leaving is gone.
    fn left(&mut self, token: usize) {
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
                Stage::Dialing | Stage::Knocking => {
                    if line.link.deadline().is_some_and(|at| at <= now)
                        && let Err(e) = line.link.expire(now)
                    {
                        self.lose_line(token, now, &e);
                    }
                }
                // What its socket holds counts before what the clock says.
                Stage::Open(index) if !self.ready.iter().any(|(ready, _)| *ready == token) => {
                    self.branches[index].machine.handle_timeout(now);
                    self.perform(index);
                }
                Stage::Leaving { until } if until <= now => self.left(token),
                Stage::Open(_) | Stage::Leaving { .. } => {}
            }
        }
        if self.start_by.is_some_and(|at| at <= now) {
            self.start_by = None;
            let patience = Seconds(self.timing.start);
            for index in 0..self.branches.len() {
                let Branch { end, standing, .. } = self.branches[index];
                if end != End::Parent && standing == Standing::Awaited {
                    let problem = format!("its manager did not connect within {patience}");
                    self.lose_branch(index, problem);
                }
            }
        }
    }

    /// Writes what the sockets take.
    pub(crate) fn flush(&mut self) {
        for index in 0..self.branches.len() {
            if let Standing::Open(token) | Standing::Closing(token) = self.branches[index].standing
                && let Err(e) = self.write(index, token)
            {
                self.lose_line(token, self.now, &e);
            }
        }
    }

    /// Seals little at a time, so that what is urgent overtakes the rest.
    fn write(&mut self, index: usize, token: usize) -> Result<(), LinkError> {
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

fn news(end: End, heard: joblink::Heard) -> Option<News> {
    use joblink::Heard;
    let place = match end {
        End::Parent => None,
        End::Child(place) => Some(place),
    };
    // The machine lets each side say only what it may.
    Some(match heard {
        Heard::Down(word) => News::Down(word),
        Heard::Up(word) => News::Word(place?, word),
        Heard::Keys(bytes) => News::Keys(end, bytes),
        Heard::Output(stream, bytes) => News::Output(place?, stream, bytes),
        Heard::Stdin(bytes) => News::Stdin(bytes),
        Heard::Spec(bytes) => News::Spec(bytes),
        Heard::File(bytes) => News::File(bytes),
        Heard::World(bytes) => News::World(end, bytes),
    })
}

/// How an open link ended; reads well behind "host h3 is lost: ".
fn words(error: &LinkError) -> String {
    match error {
        LinkError::Bye => "its manager closed the link".to_owned(),
        LinkError::Channel(ChannelError::Truncated) => "the connection to it was closed".to_owned(),
        LinkError::Broken(e) => format!("the connection to it broke: {}", plain(e)),
        other => other.to_string(),
    }
}
