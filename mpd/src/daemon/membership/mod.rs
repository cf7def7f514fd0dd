//! The daemon's part in the ring: the process around its [`Node`], which decides.
//!
//! This module gives events to the node and performs its outputs. It has the descriptors and the files:
//!
//! | part | has |
//! |---|---|
//! | [`links`] | the links of the ring, pings, our addresses |
//! | [`files`] | the records of the ring and of the slots |
//! | [`helpers`] | the helpers that start lost members again |
//! | [`hook`] | the processes of a scheduler's hook |
//!
//! The table of jobs is lent to the node for a call, and to this module for a turn.

mod files;
mod helpers;
mod hook;
mod links;
mod start;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use anyhow::Result;
use mio::Registry;
use mpd_channel::Instance;
use mpd_daemon::{Input, Node, Output, Plan, not_pingable};
use mpd_io::clock::wall;
use mpd_io::host::drain_mark::DrainMark;
use mpd_io::host::random;
use mpd_io::process::usage;
use mpd_io::ring::rundir::RunDir;
use mpd_jobtable::{Input as JobInput, ManagerMessage};
use mpd_ring::{Connect, Purpose};
use mpd_sansio::Time;
use mpd_wire::job::JobSpec;
use mpd_wire::message::{ConsoleReply, ManagerOrder, ScatterId};
use mpd_wire::{Address, DaemonName};

use crate::cli::Cli;
use crate::daemon::jobs::Jobs;
use crate::daemon::lines;
use crate::daemon::membership::files::Files;
use crate::daemon::membership::helpers::Helpers;
use crate::daemon::membership::hook::Hooks;
use crate::daemon::membership::links::Links;
use crate::daemon::membership::start::Parts;
use crate::daemon::net::DialRequest;
use crate::daemon::net::port::Port;

pub(crate) use start::new_instance;

/// The context of a turn.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) jobs: &'a mut Jobs,
    pub(crate) now: Time,
}

/// What a turn lends to the node.
fn lent<'a>(turn: &'a Turn<'_>) -> mpd_daemon::Turn<'a> {
    mpd_daemon::Turn { now: turn.now, wall_us: wall(), jobs: turn.jobs.table() }
}

/// The node, and the descriptors and files around it.
#[derive(Debug)]
pub(crate) struct Membership {
    node: Node,
    links: Links,
    files: Files,
    /// With `--keep`.
    helpers: Option<Helpers>,
    hooks: Hooks,
    drain_mark: DrainMark,
    /// Results of outputs, for the node.
    results: VecDeque<Input>,
    /// Console, answer, and whether it is the last one.
    answers: VecDeque<(usize, ConsoleReply, bool)>,
    /// Messages to managers, and the connections that are passed with [`ManagerOrder::Link`].
    manager_messages: VecDeque<(ManagerMessage, Option<OwnedFd>)>,
}

impl Membership {
    /// Opens the port and begins to enter the ring.
    pub(crate) fn start(
        cli: &Cli,
        myself: (&str, Instance),
        rundir: &RunDir,
        entries: Vec<Address>,
        now: Time,
    ) -> Result<Self> {
        let Parts { node, net, files, helpers } = start::begin(cli, myself, rundir, entries, now)?;
        Ok(Self {
            node,
            links: Links::new(net),
            files,
            helpers,
            hooks: Hooks::new(cli.alloc_hook()),
            drain_mark: DrainMark::default(),
            results: VecDeque::new(),
            answers: VecDeque::new(),
            manager_messages: VecDeque::new(),
        })
    }

    /// The decisions, for queries.
    pub(crate) const fn node(&self) -> &Node {
        &self.node
    }

    pub(crate) const fn port(&self) -> &Port {
        self.links.port()
    }

    /// An event reports a waiting connection at the port.
    pub(crate) const fn mark_port_ready(&mut self) {
        self.links.mark_port_ready();
    }

    /// An event of a link.
    pub(crate) fn mark_ready(&mut self, token: mio::Token, hung_up: bool) {
        self.links.mark_ready(token, hung_up);
    }

    /// Accepts connections, a bounded number a turn.
    pub(crate) fn accept(&mut self, registry: &Registry, now: Time) {
        if self.node.accepts() {
            self.links.accept(registry, now);
        } else {
            self.links.stop_accepting();
        }
    }

    /// Why entering has failed for good, or why this daemon must leave.
    pub(crate) fn failure(&self, now: Time) -> Option<String> {
        self.node.failure(now, self.links.last_failure())
    }

    /// Whether this daemon is out of the ring and has sent its last messages.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.node.is_over(now, self.links.is_quiet())
    }

    pub(crate) fn has_work(&self) -> bool {
        self.links.has_work() || self.node.has_work()
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        [self.node.next_deadline(), self.links.next_deadline()].into_iter().flatten().min()
    }

    /// The next message to a manager of this host, and the connection that is passed with it.
    pub(crate) fn next_manager_message(&mut self) -> Option<(ManagerMessage, Option<OwnedFd>)> {
        self.manager_messages.pop_front()
    }

    /// The next answer for a console, and whether it is the last one.
    pub(crate) fn next_answer(&mut self) -> Option<(usize, ConsoleReply, bool)> {
        self.answers.pop_front()
    }

    /// Places the ranks of a job that was submitted here.
    pub(crate) fn place(&self, now: Time, spec: &JobSpec) -> Result<Plan> {
        let first = mpd_wire::Instance::from_bytes(random::bytes()?);
        Ok(self.node.place(now, spec, first)?)
    }

    /// Passes an event to the node. The next turn performs the outputs.
    pub(crate) fn handle(&mut self, jobs: &Jobs, now: Time, input: Input) {
        self.node.handle(mpd_daemon::Turn { now, wall_us: wall(), jobs: jobs.table() }, input);
    }

    /// Does everything that is due: reads the links, gives the node the time, writes the links. `is_needed`: see
    /// [`Node::turn`].
    pub(crate) fn turn(&mut self, mut turn: Turn<'_>, is_needed: bool) {
        let Turn { registry, now, .. } = turn;
        self.collect(turn.jobs);
        self.results.extend(self.drain_mark.look(now).map(Input::HostMarked));
        self.node.begin_turn(lent(&turn), is_needed);
        self.settle(&mut turn);
        self.links.read(registry, now);
        self.settle(&mut turn);
        let has_data = self.links.has_work();
        self.node.turn(lent(&turn), has_data);
        self.settle(&mut turn);
        self.pass_links(&turn);
        self.node.end_turn(lent(&turn));
        self.settle(&mut turn);
        self.links.flush();
    }

    /// Collects the ends of helpers and hooks.
    fn collect(&mut self, jobs: &mut Jobs) {
        if let Some(helpers) = &mut self.helpers {
            let ended = helpers.ended(|pid| jobs.is_helper(pid));
            self.results.extend(ended.into_iter().map(Input::HelperEnded));
        }
        let ended = self.hooks.ended(|pid| jobs.take_fate(pid));
        let ended = ended.into_iter().map(|(hook, end)| Input::HookEnded { hook, end });
        self.results.extend(ended);
    }

    /// Performs all outputs of the node, and gives it the results and the events of the links. Returns when none is left.
    fn settle(&mut self, turn: &mut Turn<'_>) {
        loop {
            while let Some(output) = self.node.poll_output() {
                self.perform(turn, output);
            }
            let event = self.results.pop_front();
            let Some(input) = event.or_else(|| self.links.next(turn.registry, turn.now)) else {
                return;
            };
            self.handle(turn.jobs, turn.now, input);
        }
    }

    /// Performs an output of the node.
    fn perform(&mut self, turn: &mut Turn<'_>, output: Output) {
        let (registry, now) = (turn.registry, turn.now);
        match output {
            Output::Connect(Connect { token, name, instance, addresses, purpose }) => {
                let addresses = links::numeric(&addresses);
                let request = DialRequest { name, instance, addresses, purpose };
                self.links.connect(registry, now, token, request);
            }
            Output::Abandon(token) => self.links.abandon(token),
            Output::Send(link, message) => self.links.send(link, &message),
            Output::Close(link) => self.links.close(now, link),
            Output::CloseAll => self.links.close_all(now),
            Output::Ping { console, name, addresses, target } => {
                self.ping(turn, console, &target, name, &addresses);
            }
            Output::Answer { console, reply, is_last } => {
                self.answers.push_back((console, reply, is_last));
            }
            Output::ToManager(message) => self.manager_messages.push_back((message, None)),
            Output::StartManager { order, launch, tree_index } => {
                let job = launch.job.clone();
                let result = turn.jobs.start_branch(launch, tree_index, now);
                self.results.push_back(Input::ManagerStarted { order, job, result });
            }
            Output::CountOutput => turn.jobs.give(now, JobInput::CountOutput),
            Output::Measure { order, page } => self.measure(turn.jobs, order, page),
            Output::StartHelper(member) => self.start_helper(turn, member),
            Output::StartHook { hook, request, strings } => {
                match self.hooks.start(hook, &request, &strings) {
                    Ok(pid) => turn.jobs.await_helper(now, pid),
                    Err(problem) => {
                        let end = mpd_daemon::HookEnd::NotStarted(problem);
                        self.results.push_back(Input::HookEnded { hook, end });
                    }
                }
            }
            Output::KillHook(hook) => self.hooks.kill(hook),
            Output::SaveRing(text) => self.files.write_ring(&text),
            Output::ForgetRing { key } => self.files.remove_ring(key),
            Output::SaveSlots(text) => self.files.write_slots(&text),
            Output::ForgetSlots => self.files.remove_slots(),
            Output::Log(line) => lines::write(&line),
        }
    }

    fn ping(
        &mut self,
        turn: &Turn<'_>,
        console: usize,
        target: &str,
        name: Option<DaemonName>,
        addresses: &[Address],
    ) {
        let addresses = links::numeric(addresses);
        if addresses.is_empty() {
            let reply = not_pingable(target);
            return self.results.push_back(Input::Pinged { console, reply });
        }
        let request = DialRequest { name, instance: None, addresses, purpose: Purpose::Probe };
        self.links.ping(turn.registry, turn.now, console, request);
    }

    /// Measures the use of this host and of a page of its ranks.
    fn measure(&mut self, jobs: &Jobs, order: ScatterId, page: Option<u32>) {
        let (host, ranks) = match page {
            Some(page) => {
                let (host, runs, more) = jobs.usage(page);
                (host, Some((runs, more)))
            }
            None => (usage::of_host(), None),
        };
        self.results.push_back(Input::Measured { order, host, ranks });
    }

    /// Starts the helper that starts a lost member again. It is a child of this process.
    fn start_helper(&mut self, turn: &mut Turn<'_>, member: DaemonName) {
        let entries = self.port().addresses();
        let Some(helpers) = &mut self.helpers else { return };
        match helpers.start(&member, &entries) {
            Ok(pid) => {
                log::info!("starting {member} again, helper {pid}");
                turn.jobs.add_helper(turn.now, pid);
            }
            Err(e) => {
                log::error!("cannot start {member} again: {e:#}");
                self.results.push_back(Input::HelperEnded(member));
            }
        }
    }

    /// Passes job links to their managers.
    fn pass_links(&mut self, turn: &Turn<'_>) {
        for (seeker, manager) in self.links.seekers() {
            let Some((job, key)) = turn.jobs.table().find_manager(manager) else { continue };
            if let Some((hello, link)) = self.links.pass_on(turn.registry, seeker, key) {
                let message = ManagerMessage::new(job.clone(), ManagerOrder::Link { hello });
                self.manager_messages.push_back((message, Some(link)));
            }
        }
    }
}
