//! The manager's loop, and the order in which it serves the owners.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use mio::Events;
use mpd_job::manager::Input;
use mpd_manager::{Facts, Node};
use mpd_sansio::Time;

use super::context::Common;
use super::lent::Lent;
use super::process::Process;

impl Process {
    /// Runs the loop until the job is over and all messages are sent.
    pub(super) fn serve(mut self) -> Result<ExitCode> {
        let mut events = Events::with_capacity(1024);
        // Prepared messages are sent before the first wait. Waiting data is read before the first deadline is
        // checked.
        let mut pause = Some(Duration::ZERO);
        while !self.is_over() {
            match self.common.poll.poll(&mut events, pause) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => result.context("cannot wait for events")?,
            }
            events.iter().for_each(|event| self.mark(event));
            self.settle();
            for stage in STAGES {
                stage(&mut self);
                self.settle();
            }
            pause = wait(&self);
        }
        let code = self.common.node.over().unwrap_or(mpd_wire::job::exit::SUITE);
        self.upstream.end(code, self.common.node.is_unlinked());
        let Self { common, signals, upstream, links, ranks, stdio, pmi, ending, .. } = self;
        let Common { poll, clock, null, node, handed_over } = common;
        node.end();
        // The kernel closes and frees all else at once when this process exits now.
        std::mem::forget((poll, clock, null, handed_over));
        std::mem::forget((signals, upstream, links, ranks, stdio, pmi, ending));
        Ok(ExitCode::SUCCESS)
    }

    /// Calls the node with the time and with what is lent to it.
    fn with_node<T>(&mut self, call: impl FnOnce(&mut Node, Time, &dyn Facts) -> T) -> T {
        let lent = Lent { upstream: &self.upstream, links: &self.links, ending: &self.ending };
        call(&mut self.common.node, self.common.clock.now(), &lent)
    }

    /// Whether the job is over and all messages are sent.
    fn is_over(&self) -> bool {
        let node = &self.common.node;
        let waits = self.upstream.console.waits()
            || (node.awaits_daemon() && self.upstream.daemon.waits())
            || !self.links.is_quiet();
        node.over().is_some() && !waits
    }
}

/// Control first, then PMI, then output, then deadlines, then sending. All reports of a stage are delivered and
/// handled before the next stage.
const STAGES: [fn(&mut Process); 26] = [
    |p| p.upstream.serve_console(&mut p.common.turn()),
    |p| p.upstream.serve_daemon(&mut p.common.turn()),
    |p| p.links.serve(&mut p.common.turn()),
    |p| p.links.stage(&mut p.common.turn()),
    Process::check_adopted,
    Process::serve_shims,
    Process::receive_helper,
    Process::receive_search,
    take_signals,
    |p| p.with_node(Node::start_some),
    |p| p.stdio.feed_ready(&mut p.common.turn()),
    serve_pmi,
    |p| p.pmi.flush(&mut p.common.turn()),
    |p| p.stdio.serve_sources(&mut p.common.turn()),
    |p| p.with_node(Node::handle_timeout),
    |p| p.common.node.expire_ending(p.common.clock.now()),
    |p| p.with_node(Node::expire_ranks),
    |p| p.common.node.expire_clients(p.common.clock.now()),
    |p| p.stdio.expire(&mut p.common.turn()),
    |p| p.stdio.serve_flows(&mut p.common.turn()),
    flush_machine,
    // After everything that was read, expired or sent, since that may have admitted a writer.
    |p| p.stdio.flush(&mut p.common.turn()),
    |p| p.links.flush(),
    review_drain,
    flush_machine,
    flush_links,
];

/// How long the next turn may wait for events; `None` without deadline.
fn wait(process: &Process) -> Option<Duration> {
    let busy = process.common.node.is_to_start()
        || process.ranks.has_work()
        || process.common.node.stdio().has_work()
        || process.pmi.has_work(process.common.node.clients())
        || process.upstream.has_work()
        || process.links.has_work();
    if busy {
        return Some(Duration::ZERO);
    }
    let deadlines = [process.common.node.poll_timeout(), process.links.next_deadline()];
    deadlines.into_iter().flatten().min().map(|at| process.common.clock.until(at))
}

fn take_signals(process: &mut Process) {
    let signalled = std::mem::take(&mut process.signalled);
    let signals = if signalled { process.signals.pending() } else { Vec::new() };
    let is_due = process.common.node.ranks().has_dead_due(process.common.clock.now());
    if signals.contains(&libc::SIGCHLD) || process.common.node.ending().is_kill() || is_due {
        process.reap();
    }
    // A signal that ends the manager ends its job too.
    if signals.iter().any(|&s| s != libc::SIGCHLD) {
        process.common.turn().post(Input::Kill);
    }
}

fn serve_pmi(process: &mut Process) {
    let room = process.with_node(|node, _, facts| node.room(facts));
    process.pmi.serve(&mut process.common.turn(), room);
}

/// Lets the machine report what ranks did, and writes the answers to ranks. A rank may already have its next
/// request in the buffer.
fn flush_machine(process: &mut Process) {
    loop {
        let now = process.common.clock.now();
        process.common.node.end_turn(now);
        process.settle();
        if !process.common.node.clients().has_answers() {
            break;
        }
        process.pmi.flush(&mut process.common.turn());
        process.settle();
    }
    process.stdio.pass_up(&mut process.common.turn());
}

fn review_drain(process: &mut Process) {
    let is_all_up = process.with_node(|node, _, facts| node.is_all_up(facts));
    process.stdio.review_drain(&mut process.common.turn(), is_all_up);
}

fn flush_links(process: &mut Process) {
    process.links.flush();
    process.upstream.flush(process.common.poll.registry());
}
