//! The daemon's part in the ring: the descriptors and files that the node's outputs about the ring concern.
//!
//! | part | has |
//! |---|---|
//! | [`links`] | the links of the ring, pings, our addresses |
//! | [`files`] | the records of the ring and of the slots |
//! | [`helpers`] | the helpers that start lost members again |
//! | [`hook`] | the processes of a scheduler's hook |

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
use mpd_daemon::{HookEnd, Input, Member, RingAction, RingEvent, not_pingable};
use mpd_io::host::drain_mark::DrainMark;
use mpd_io::process::identity::number_of;
use mpd_io::process::usage;
use mpd_io::ring::rundir::RunDir;
use mpd_jobtable::{Input as JobInput, JobTable, ManagerMessage};
use mpd_ring::{Connect, Purpose};
use mpd_sansio::Time;
use mpd_wire::message::{ManagerOrder, ScatterId};
use mpd_wire::{Address, ConsoleId, DaemonName};

use crate::cli::Cli;
use crate::daemon::jobs::{self, Jobs};
use crate::daemon::membership::files::Files;
use crate::daemon::membership::helpers::Helpers;
use crate::daemon::membership::hook::Hooks;
use crate::daemon::net::DialRequest;

pub(crate) use links::Links;
pub(crate) use start::new_instance;

/// The context of an output.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) jobs: &'a mut Jobs,
    pub(crate) table: &'a JobTable,
    pub(crate) now: Time,
}

/// The descriptors and files.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) links: Links,
    files: Files,
    /// With `--keep`.
    helpers: Option<Helpers>,
    hooks: Hooks,
    drain_mark: DrainMark,
    /// Results of outputs, for the node.
    results: VecDeque<Input>,
}

impl Membership {
    /// Opens the port and makes the member, which begins to enter the ring.
    pub(crate) fn start(
        cli: &Cli,
        myself: (&str, Instance),
        rundir: &RunDir,
        entries: Vec<Address>,
        now: Time,
    ) -> Result<(Member, Self)> {
        let (member, net, files, helpers) = start::begin(cli, myself, rundir, entries, now)?;
        let (links, hooks) = (Links::new(net), Hooks::new(cli.alloc_hook()));
        let (drain_mark, results) = (DrainMark::default(), VecDeque::new());
        Ok((member, Self { links, files, helpers, hooks, drain_mark, results }))
    }

    /// The next event for the node.
    pub(crate) fn next(&mut self, registry: &Registry, now: Time) -> Option<Input> {
        let result = self.results.pop_front();
        result.or_else(|| self.links.next(registry, now).map(Input::Ring))
    }

    fn tell(&mut self, event: RingEvent) {
        self.results.push_back(Input::Ring(event));
    }

    /// Collects the ends of helpers and hooks, and looks for the mark of root.
    pub(crate) fn collect(&mut self, Turn { jobs, table, now, .. }: Turn<'_>) {
        if let Some(helpers) = &mut self.helpers {
            let ended = helpers.ended(|pid| table.is_helper(number_of(pid)));
            ended.into_iter().for_each(|member| self.tell(RingEvent::HelperEnded(member)));
        }
        for (hook, end) in self.hooks.ended(|pid| jobs.take_fate(pid)) {
            self.tell(RingEvent::HookEnded { hook, end });
        }
        self.drain_mark.look(now).into_iter().for_each(|is_set| {
            self.tell(RingEvent::HostMarked(is_set));
        });
    }

    /// Performs an output of the node.
    pub(crate) fn perform(&mut self, turn: Turn<'_>, action: RingAction) {
        let Turn { registry, jobs, table, now } = turn;
        match action {
            RingAction::Connect(Connect { token, name, instance, addresses, purpose }) => {
                let addresses = links::numeric(&addresses);
                let request = DialRequest { name, instance, addresses, purpose };
                self.links.connect(registry, now, token, request);
            }
            RingAction::Abandon(token) => self.links.abandon(token),
            RingAction::Send(link, message) => self.links.net.send(link, &message),
            RingAction::Close(link) => self.links.net.close(now, link),
            RingAction::CloseAll => self.links.net.close_all(now),
            RingAction::Ping { console, name, addresses, target } => {
                self.ping((registry, now), console, &target, name, &addresses);
            }
            RingAction::Measure { order, page } => self.measure(table, now, order, page),
            RingAction::StartHelper(member) => self.start_helper(member),
            RingAction::StartHook { hook, request, strings } => {
                match self.hooks.start(hook, &request, &strings) {
                    Ok(pid) => {
                        jobs.await_helper(pid);
                        self.results.push_back(Input::Jobs(JobInput::Helper(number_of(pid))));
                    }
                    Err(problem) => {
                        let end = HookEnd::NotStarted(problem);
                        self.tell(RingEvent::HookEnded { hook, end });
                    }
                }
            }
            RingAction::KillHook(hook) => self.hooks.kill(hook),
            RingAction::SaveRing(text) => self.files.write_ring(&text),
            RingAction::ForgetRing { key } => self.files.remove_ring(key),
            RingAction::SaveSlots(text) => self.files.write_slots(&text),
            RingAction::ForgetSlots => self.files.remove_slots(),
        }
    }

    fn ping(
        &mut self,
        (registry, now): (&Registry, Time),
        console: ConsoleId,
        target: &str,
        name: Option<DaemonName>,
        addresses: &[Address],
    ) {
        let addresses = links::numeric(addresses);
        if addresses.is_empty() {
            let reply = not_pingable(target);
            return self.tell(RingEvent::Pinged { console, reply });
        }
        let request = DialRequest { name, instance: None, addresses, purpose: Purpose::Probe };
        self.links.ping(registry, now, console, request);
    }

    /// Measures the use of this host and of a page of its ranks.
    fn measure(&mut self, table: &JobTable, now: Time, order: ScatterId, page: Option<u32>) {
        let (host, ranks) = match page {
            Some(page) => {
                let (host, runs, more) = jobs::usage(table, now, page);
                (host, Some((runs, more)))
            }
            None => (usage::of_host(), None),
        };
        self.tell(RingEvent::Measured { order, host, ranks });
    }

    /// Starts the helper that starts a lost member again. It is a child of this process.
    fn start_helper(&mut self, member: DaemonName) {
        let entries = self.links.net.port().addresses();
        let Some(helpers) = &mut self.helpers else { return };
        match helpers.start(&member, &entries) {
            Ok(pid) => {
                log::info!("starting {member} again, helper {pid}");
                self.results.push_back(Input::Jobs(JobInput::Helper(number_of(pid))));
            }
            Err(e) => {
                log::error!("cannot start {member} again: {e:#}");
                self.tell(RingEvent::HelperEnded(member));
            }
        }
    }

    /// The job links that came in, for their managers.
    pub(crate) fn take_job_links(
        &mut self,
        registry: &Registry,
        table: &JobTable,
    ) -> Vec<(ManagerMessage, OwnedFd)> {
        let mut messages = Vec::new();
        for (seeker, manager) in self.links.net.seekers() {
            let Some((job, key)) = table.find_manager(manager) else { continue };
            if let Some((hello, link)) = self.links.pass_on(registry, seeker, key) {
                let message = ManagerMessage::new(job.clone(), ManagerOrder::Link { hello });
                messages.push((message, link));
            }
        }
        messages
    }
}
