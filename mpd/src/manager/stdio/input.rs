//! Standard input on its way to ranks of this host and to managers below.

use std::io::{self, Write as _};

use mpd_job::manager::Input;
use mpd_stdio::feed::Receiver;
use mpd_stdio::input::Stdin;
use mpd_wire::Rank;
use mpd_wire::job::JobSpec;
use mpd_wire::message::{JobNews, TreeKind, Up};

use super::Stdio;
use super::open::receivers;
use crate::manager::context::Turn;
use crate::manager::event::{Event, ForLinks};
use crate::manager::links::LinkEnd;

/// Whether one rank alone receives input, and is no debugger.
fn is_only_receiver(spec: &JobSpec) -> bool {
    spec.debug.is_none() && spec.stdin.ranks().nth(1).is_none()
}

fn unread_text(bytes: u64) -> String {
    format!(
        "the job did not read its standard input, of which it got {bytes} bytes; -s none leaves it to others, like a loop \
         that reads lines"
    )
}

impl Stdio {
    /// Takes input of the console; no bytes mean the end.
    pub(in crate::manager) fn take_bytes(&mut self, turn: &mut Turn<'_>, bytes: &[u8]) {
        let input = if bytes.is_empty() { Stdin::End } else { Stdin::Bytes(bytes) };
        self.take_input(turn, &input);
    }

    /// Takes input from the parent.
    pub(in crate::manager) fn take_encoded(&mut self, turn: &mut Turn<'_>, payload: &[u8]) {
        match Stdin::decode(payload) {
            Ok(input) => self.take_input(turn, &input),
            Err(e) => log::warn!("the parent sent {e}"),
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

    /// Notes an event: the rank's standard input is writable.
    pub(in crate::manager) fn mark_writable(&mut self, rank: Rank) {
        self.writable.push(rank);
    }

    /// Passes input to ranks whose pipes are writable.
    pub(in crate::manager) fn feed_ready(&mut self, turn: &mut Turn<'_>) {
        for rank in std::mem::take(&mut self.writable) {
            if self.pipes.contains_key(&rank) {
                self.feed_one(turn, Receiver::Rank(rank));
            }
        }
    }

    /// A child manager accepts `bytes` more bytes.
    pub(in crate::manager) fn grant_input(
        &mut self,
        turn: &mut Turn<'_>,
        tree_index: usize,
        bytes: u32,
    ) {
        self.feed.grant(tree_index, bytes);
        self.feed_one(turn, Receiver::Child(tree_index));
    }

    /// Ends the input of a child whose ranks accept no more, after `switches` changes of receivers.
    pub(in crate::manager) fn end_child_input(
        &mut self,
        turn: &mut Turn<'_>,
        tree_index: usize,
        switches: u32,
    ) {
        self.feed.drop_out_child(tree_index, switches);
        self.offer_credit(turn);
    }

    fn feed_one(&mut self, turn: &mut Turn<'_>, receiver: Receiver) {
        match receiver {
            Receiver::Rank(rank) => self.feed_rank(turn, rank),
            Receiver::Child(tree_index) => self.feed_child(turn, tree_index),
        }
        self.offer_credit(turn);
    }

    /// Writes to a rank as much as its pipe accepts; closes the pipe after the last byte.
    fn feed_rank(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let receiver = Receiver::Rank(rank);
        let Some(pipes) = self.pipes.get_mut(&rank) else { return };
        let Some(pipe) = &mut pipes.input else { return self.end_feeding(turn, receiver) };
        loop {
            match self.feed.next(receiver) {
                Some(Stdin::Bytes(bytes)) => match pipe.write(bytes) {
                    Ok(n) => {
                        pipes.fed += n as u64;
                        self.feed.took(receiver, n);
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                    Err(_) => return self.end_feeding(turn, receiver),
                },
                Some(Stdin::Switch(_)) => self.feed.reported(receiver),
                Some(Stdin::End) => {
                    pipes.end_input();
                    return self.feed.reported(receiver);
                }
                None => return,
            }
        }
    }

    /// Sends to a child as much as it has given credit for.
    fn feed_child(&mut self, turn: &mut Turn<'_>, tree_index: usize) {
        let receiver = Receiver::Child(tree_index);
        while let Some(input) = self.feed.next(receiver) {
            turn.report(ForLinks::Bytes(
                LinkEnd::Child(tree_index),
                TreeKind::Stdin,
                input.encode(),
            ));
            match input {
                Stdin::Bytes(bytes) => {
                    let length = bytes.len();
                    self.feed.took(receiver, length);
                }
                Stdin::Switch(_) | Stdin::End => self.feed.reported(receiver),
            }
        }
    }

    /// A rank has ended. If it has read nothing of its input, a notice says so.
    pub(super) fn count_unread(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let unread = self.pipes.get_mut(&rank).and_then(|pipes| pipes.give_up_input());
        if let Some(bytes) = unread
            && is_only_receiver(&turn.job.spec)
        {
            turn.post(Input::Notice(unread_text(bytes)));
        }
    }

    /// Ends the input of a receiver.
    pub(super) fn end_feeding(&mut self, turn: &mut Turn<'_>, receiver: Receiver) {
        if let Receiver::Rank(rank) = receiver
            && let Some(pipes) = self.pipes.get_mut(&rank)
        {
            pipes.end_input();
            // Spawned ranks get no input, and their number is unlimited. So the feed does not remember them.
            if !turn.job.is_first(rank) {
                return;
            }
        }
        self.feed.drop_out(receiver);
        self.offer_credit(turn);
    }

    /// Gives credit to the sender of input, or reports that no rank accepts input.
    pub(super) fn offer_credit(&mut self, turn: &mut Turn<'_>) {
        if let Some(bytes) = self.feed.take_credit() {
            turn.report(match turn.job.is_root() {
                true => Event::from(JobNews::StdinCredit { bytes }),
                false => ForLinks::Up(Up::StdinCredit { bytes }).into(),
            });
        }
        if let Some(switches) = self.feed.take_unwanted() {
            turn.report(match turn.job.is_root() {
                true => Event::from(JobNews::StdinUnwanted),
                false => ForLinks::Up(Up::StdinUnwanted { switches }).into(),
            });
        }
    }
}
