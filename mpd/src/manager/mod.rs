//! The manager process: one job on one host. One loop; all decisions are `mpd_job::manager`'s.
//!
//! | owner | owns |
//! |---|---|
//! | [`upstream`] | the connections to console and daemon, the reports there |
//! | [`links`] | the links of the job tree, programs on their way to other hosts |
//! | [`ranks`] | the processes of the ranks: start, signals, ends |
//! | [`stdio`] | the ranks' pipes, the outputs, both ways through the job tree |
//! | [`pmi`] | the ranks' PMI connections, key-value spaces, names |
//! | [`spawns`] | requests of ranks for further processes |
//! | [`ending`] | signals that end ranks, stops, the kill, what is removed at the end |
//!
//! Each turn marks what is ready, then the owners have their turns in the order of [`stages`]. [`context`] is what they
//! are lent. They report [`event`]s; [`deliver`] takes each to its owners. [`route`] takes each output of the machine to
//! one owner. [`begin`] makes all of this; [`above`] waits for the specification. [`worlds`] says which ranks were
//! started together.

mod above;
mod begin;
mod context;
mod deliver;
mod ending;
mod event;
mod links;
mod pmi;
mod ranks;
mod route;
mod spawns;
mod stages;
mod stdio;
mod tokens;
mod upstream;
mod worlds;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use mio::Events;
use mio::event::Event as Ready;
use mpd_io::signals::Signals;
use mpd_job::manager::Manager;
use mpd_machine::Pump;

pub(crate) use self::begin::run;
use self::context::Common;
use self::ending::Ending;
use self::event::Event;
use self::links::Links;
use self::pmi::Pmi;
use self::ranks::{End, Ranks};
use self::spawns::Spawns;
use self::stages::STAGES;
use self::stdio::Stdio;
use self::tokens::{ADOPTED, CONSOLE, DAEMON, SIGNALS};
use self::upstream::Upstream;

/// The process's state between two turns of its loop.
struct Process {
    common: Common,
    signals: Signals,
    signalled: bool,
    pump: Pump<Manager>,
    upstream: Upstream,
    links: Links,
    ranks: Ranks,
    stdio: Stdio,
    pmi: Pmi,
    spawns: Spawns,
    ending: Ending,
    /// The exit code, once everything is over.
    over: Option<u8>,
}

impl Process {
    fn serve(mut self) -> Result<ExitCode> {
        let mut events = Events::with_capacity(1024);
        // What was prepared is said before anything is waited for, and what came meanwhile is read before
        // a deadline is judged by.
        let mut wait = Some(Duration::ZERO);
        while self.over.is_none() || self.upstream.waits() || !self.links.is_quiet() {
            match self.common.poll.poll(&mut events, wait) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => result.context("cannot wait for events")?,
            }
            events.iter().for_each(|event| self.mark(event));
            self.settle();
            for stage in STAGES {
                stage(&mut self);
                self.settle();
            }
            wait = stages::wait(&self);
        }
        let code = self.over.unwrap_or(mpd_wire::job::exit::SUITE);
        self.upstream.end(code, self.links.is_unlinked());
        Ok(ExitCode::SUCCESS)
    }

    /// Notes what an event says; nothing is done before all were seen.
    fn mark(&mut self, event: &Ready) {
        let (token, has_ended) = (event.token().0, event.is_read_closed());
        match token {
            DAEMON => self.upstream.mark_daemon(),
            CONSOLE => self.upstream.mark_console(),
            SIGNALS => self.signalled = true,
            ADOPTED => self.ranks.mark_adopted(),
            _ if self.links.mark_ready(token, has_ended || event.is_error()) => {}
            _ => match self.ranks.of_token(token) {
                Some((rank, End::Watcher)) => self.ranks.mark_watcher(rank),
                Some((rank, End::Stdin)) => self.stdio.mark_hungry(rank),
                Some((rank, End::Output(stream))) => {
                    self.stdio.mark_source(rank, stream, has_ended);
                }
                Some((rank, End::Pmi)) => self.pmi.mark(rank, event.is_readable(), has_ended),
                None => {}
            },
        }
    }

    /// Delivers what owners have reported, and has the machine handle each input and each output performed before the
    /// next.
    fn settle(&mut self) {
        loop {
            match self.common.events.pop_front() {
                Some(Event::Input(input)) => self.pump.post(input),
                Some(event) => self.deliver(event),
                None => match self.pump.next(self.common.clock.now()) {
                    Some(output) => self.route(output),
                    None => return,
                },
            }
        }
    }
}
