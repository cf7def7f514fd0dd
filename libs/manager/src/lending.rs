//! What an owner of descriptors gets lent in its turn.

use std::collections::VecDeque;

use mpd_clients::{self as clients, Clients, Job};
use mpd_sansio::Time;
use mpd_stdio::machine::{self as stdio, Stdio};

use crate::event::Event;

/// The job, the machines of which bytes are read and written, and the list of events.
#[derive(Debug)]
pub struct Lending<'a> {
    pub job: &'a Job,
    pub clients: &'a mut Clients,
    pub stdio: &'a mut Stdio,
    pub(crate) events: &'a mut VecDeque<Event>,
}

impl Lending<'_> {
    /// Adds an event behind the others.
    pub fn report(&mut self, event: impl Into<Event>) {
        self.events.push_back(event.into());
    }

    /// Gives the machine of the clients an input at once. Then perform all of [`Lending::next_of_clients`].
    pub fn give_clients(&mut self, now: Time, input: clients::Input<'_>) {
        self.clients.handle(now, self.job, input);
    }

    /// The next action of the machine of the clients. Its reports go behind earlier events.
    pub fn next_of_clients(&mut self, now: Time) -> Option<clients::Action> {
        loop {
            let output = self.clients.poll_output()?;
            if let Some(action) = self.route_clients(now, output) {
                return Some(action);
            }
        }
    }

    /// The next action of the machine of output. Its reports go behind earlier events.
    pub fn next_of_stdio(&mut self) -> Option<stdio::Action> {
        loop {
            let output = self.stdio.poll_output()?;
            if let Some(action) = self.route_stdio(output) {
                return Some(action);
            }
        }
    }
}
