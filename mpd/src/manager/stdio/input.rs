//! Standard input on its way to ranks of this host and to managers below, and commands for drivers of debuggers.

use std::io::{self, Write as _};

use mpd_job::manager::Input;
use mpd_stdio::feed::Receiver;
use mpd_stdio::input::Stdin;
use mpd_wire::message::{JobNews, MAX_DEBUG_LINE, TreeKind, Up};
use mpd_wire::{Rank, RankSet};

use super::Stdio;
use super::open::receivers;
use crate::manager::context::Turn;
use crate::manager::event::{Event, ForLinks};
use crate::manager::links::End;

impl Stdio {
    /// Input of the console; nothing is the end.
    pub(in crate::manager) fn take_bytes(&mut self, turn: &mut Turn<'_>, bytes: &[u8]) {
        let input = if bytes.is_empty() { Stdin::End } else { Stdin::Bytes(bytes) };
        self.take_input(turn, &input);
    }

    /// Input from the manager above.
    pub(in crate::manager) fn take_encoded(&mut self, turn: &mut Turn<'_>, payload: &[u8]) {
        match Stdin::decode(payload) {
            Ok(input) => self.take_input(turn, &input),
            Err(e) => log::warn!("the manager above sent {e}"),
        }
    }

    pub(in crate::manager) fn take_input(&mut self, turn: &mut Turn<'_>, input: &Stdin<'_>) {
        match input {
            Stdin::Bytes(bytes) => {
                if let Err(e) = self.feed.push(bytes) {
                    log::warn!("standard input: {e}");
                }
            }
            Stdin::Switch(ranks) => {
                let receivers = receivers(&turn.job.order, ranks);
                if let Err(e) = self.feed.switch(ranks, receivers) {
                    log::warn!("standard input: {e}");
                }
            }
            Stdin::End => self.feed.end(),
        }
        for receiver in self.feed.receivers().collect::<Vec<_>>() {
            self.feed_one(turn, receiver);
        }
        self.offer_credit(turn);
    }

    /// An event says that the rank's standard input takes more.
    pub(in crate::manager) fn mark_hungry(&mut self, rank: Rank) {
        self.hungry.push(rank);
    }

    /// Passes input to ranks whose pipes take more.
    pub(in crate::manager) fn feed_ready(&mut self, turn: &mut Turn<'_>) {
        for rank in std::mem::take(&mut self.hungry) {
            match self.pipes.get_mut(&rank) {
                Some(pipes) if pipes.is_driver() => pipes.flush_commands(),
                Some(_) => self.feed_one(turn, Receiver::Rank(rank)),
                None => {}
            }
        }
    }

    /// A manager below takes so many bytes more.
    pub(in crate::manager) fn grant_input(
        &mut self,
        turn: &mut Turn<'_>,
        place: usize,
        bytes: u32,
    ) {
        self.feed.grant(place, bytes);
        self.feed_one(turn, Receiver::Below(place));
    }

    /// The ranks below take no more, after so many changes of receivers.
    pub(in crate::manager) fn end_input_below(
        &mut self,
        turn: &mut Turn<'_>,
        place: usize,
        switches: u32,
    ) {
        self.feed.drop_out_below(place, switches);
        self.offer_credit(turn);
    }

    fn feed_one(&mut self, turn: &mut Turn<'_>, receiver: Receiver) {
        match receiver {
            Receiver::Rank(rank) => self.feed_rank(turn, rank),
            Receiver::Below(place) => self.feed_below(turn, place),
        }
        self.offer_credit(turn);
    }

    /// Writes to a rank what its pipe takes; closes the pipe after the last byte.
    fn feed_rank(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let receiver = Receiver::Rank(rank);
        let Some(pipes) = self.pipes.get_mut(&rank) else { return };
        let Some(pipe) = &mut pipes.input else { return self.end_feeding(turn, receiver) };
        loop {
            match self.feed.next(receiver) {
                Some(Stdin::Bytes(bytes)) => match pipe.write(bytes) {
                    Ok(n) => self.feed.took(receiver, n),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                    Err(_) => return self.end_feeding(turn, receiver),
                },
                Some(Stdin::Switch(_)) => self.feed.told(receiver),
                Some(Stdin::End) => {
                    pipes.input = None;
                    return self.feed.told(receiver);
                }
                None => return,
            }
        }
    }

    /// Sends to a manager below what it has given credit for.
    fn feed_below(&mut self, turn: &mut Turn<'_>, place: usize) {
        let receiver = Receiver::Below(place);
        while let Some(input) = self.feed.next(receiver) {
            turn.report(ForLinks::Bytes(End::Child(place), TreeKind::Stdin, input.encode()));
            match input {
                Stdin::Bytes(bytes) => {
                    let length = bytes.len();
                    self.feed.took(receiver, length);
                }
                Stdin::Switch(_) | Stdin::End => self.feed.told(receiver),
            }
        }
    }

    /// The receiver takes no more input.
    pub(super) fn end_feeding(&mut self, turn: &mut Turn<'_>, receiver: Receiver) {
        if let Receiver::Rank(rank) = receiver
            && let Some(pipes) = self.pipes.get_mut(&rank)
        {
            pipes.input = None;
            // No input is for spawned ranks, and there is no end of them: the feed need not remember each.
            if !turn.job.is_first(rank) {
                return;
            }
        }
        self.feed.drop_out(receiver);
        self.offer_credit(turn);
    }

    /// Tells the sender of input what may come, or that no rank takes it.
    pub(super) fn offer_credit(&mut self, turn: &mut Turn<'_>) {
        if let Some(bytes) = self.feed.take_credit() {
            turn.report(match turn.job.is_root() {
                true => Event::ToConsole(JobNews::StdinCredit { bytes }),
                false => ForLinks::Up(Up::StdinCredit { bytes }).into(),
            });
        }
        if let Some(switches) = self.feed.take_unwanted() {
            turn.report(match turn.job.is_root() {
                true => Event::ToConsole(JobNews::StdinUnwanted),
                false => ForLinks::Up(Up::StdinUnwanted { switches }).into(),
            });
        }
    }

    // ----- drivers of debuggers -----

    /// The console says something to the debuggers of these ranks, some of which run here or below.
    pub(in crate::manager) fn tell_debuggers(
        &mut self,
        turn: &mut Turn<'_>,
        ranks: &RankSet,
        line: &str,
    ) {
        if line.len() > MAX_DEBUG_LINE || line.contains('\n') {
            log::warn!("a command of {} bytes for debuggers is none", line.len());
            return;
        }
        if !matches!(line.split(' ').nth(1), Some("input" | "eof")) {
            // Those have no answer.
            self.outputs.ask(turn.now(), ranks);
        }
        for (rank, pipes) in &mut self.pipes {
            let is_meant = pipes.is_driver() && pipes.process.is_some() && ranks.contains(*rank);
            if is_meant && !pipes.command(line) {
                let text = format!("rank {rank}: its debugger takes no commands");
                turn.post(Input::Notice(text));
            }
        }
    }
}
