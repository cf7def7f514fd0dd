//! The daemon's part in the ring: the pure [`Ring`] between the links of [`Net`] and the consoles.

mod address;
mod asks;
mod bond;
mod events;
mod jobs;
mod keep;
mod launch;
mod names;
mod orders;
mod pages;
mod saved;
mod spawn;
mod top;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, Result};
use mio::Registry;
use mpd_channel::{Instance, KeyText};
use mpd_io::clock::Clock;
use mpd_io::keyfile::{self, KeyFile};
use mpd_io::rundir::RunDir;
use mpd_io::{addresses, cpus, random};
use mpd_machine::{Pump, Time};
use mpd_ring::{Input, Output, Ring, RingConfig, Rules, Timing, Token};
use mpd_wire::message::{ConsoleReply, ManagerOrder, NameAnswer};
use mpd_wire::{Address, DaemonName, JobId};

use crate::cli::Cli;
use crate::daemon::door::PER_TURN;
use crate::daemon::jobs::Jobs;
use crate::daemon::membership::address::Foreign;
use crate::daemon::membership::asks::Asks;
use crate::daemon::membership::bond::Bond;
use crate::daemon::membership::events::Journal;
use crate::daemon::membership::keep::Keep;
use crate::daemon::membership::launch::Launches;
use crate::daemon::membership::names::Naming;
use crate::daemon::membership::saved::Saved;
use crate::daemon::net::port::{self, Port};
use crate::daemon::net::{AttemptId, Happened, Myself, Net, Wish};

pub(crate) use jobs::{errands, hosted, no_such_job};
pub(crate) use launch::{Announcement, errands_of_missing};

/// How long a daemon that was told to enter through others tries before it gives up.
const ENTRY_PATIENCE: u32 = 10;

/// How long a daemon that ends keeps serving the shares of a scatter that it still owes.
const LEAVE_PATIENCE: Duration = Duration::from_secs(2);

/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_millis(1500);

/// What an attempt of [`Net`] is for.
#[derive(Clone, Debug)]
enum Aim {
    Ring(Token),
    /// A console's ping, and when it began.
    Ping(usize, Time),
    /// Whether this foreign address leads here.
    Mirror(IpAddr),
}

/// How far this daemon is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    /// When all shares are done, at the latest at that time.
    Soon {
        at_last: Time,
        how: Farewell,
    },
    /// The last words are being said, until that time.
    Over {
        until: Time,
    },
}

/// How this daemon goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// By command: it departs, and nobody looks for it.
    Depart,
    /// By command, with all others: nobody is to be told.
    WithAll,
    /// On a signal: it departs, and its successor comes back in its place.
    Signal,
    /// On a signal, where lost members are started again: it is to be missed.
    Missed,
}

/// Something that a manager of this host is to be told.
#[derive(Debug)]
pub(crate) struct Errand {
    /// Its job.
    pub(crate) job: JobId,
    pub(crate) order: ManagerOrder,
    /// A connection that travels with [`ManagerOrder::Link`].
    pub(crate) link: Option<OwnedFd>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Membership {
    pump: Pump<Ring>,
    net: Net,
    asks: Asks,
    launches: Launches,
    errands: VecDeque<Errand>,
    naming: Naming,
    /// Foreign addresses under which others see us.
    foreign: Foreign,
    /// What other members order, and what is refused.
    journal: Journal,
    saved: Saved,
    aims: BTreeMap<AttemptId, Aim>,
    last_attempt: u64,
    leaving: Leaving,
    entered: bool,
    /// Another daemon bears our name, and we yield.
    doubled: bool,
    /// Where lost members are started again, us among them.
    keep: Option<Keep>,
    /// In a ring that is made for one job.
    bond: Option<Bond>,
    /// When to give up entering, and why the last try failed.
    give_up: Option<Time>,
    last_failure: String,
    entries: Vec<Address>,
}

impl Membership {
    /// Opens the port and begins to enter.
    pub(crate) fn start(cli: &Cli, name: &str, rundir: &RunDir, clock: &Clock) -> Result<Self> {
        let ring = cli.ring_name()?.to_string();
        let text = key(cli, &ring)?;
        let timing = Timing::default().faster(crate::scale::divisor()?);
        let (mut saved, before) = Saved::open(rundir, &ring, name);
        let entries = resolve_entries(&cli.entries())?;
        let wish = port::Wish {
            number: cli.port,
            rather: before.port,
            interface: cli.ifhn.clone(),
            towards: entries.first().and_then(|a| a.as_str().parse().ok()),
        };
        let port = Port::open(&wish)?;
        let instance = new_instance()?;
        // Told where to enter, a daemon has nowhere else to look.
        let (entry, seeds) = if entries.is_empty() {
            (before.entries, before.seeds)
        } else {
            saved.forget_former();
            (entries.clone(), Vec::new())
        };
        let config = RingConfig {
            name: DaemonName::new(name).context("the daemon's name")?,
            instance: mpd_wire::Instance::from_bytes(*instance.as_bytes()),
            addresses: port.addresses(),
            ordinal: cli.ordinal,
            ncpus: cli.ncpus.unwrap_or_else(cpus::count),
            entry,
            seeds,
            timing: timing.clone(),
            chance: u64::from_be_bytes(random::bytes()?),
            rules: Rules::default(),
        };
        let myself =
            Myself { ring, name: config.name.clone(), instance, keys: text.keys().clone() };
        log::info!("listening on port {}", port.number());
        let now = clock.now();
        let keep = cli.keep.as_deref().map(|plan| Keep::open(plan, now)).transpose()?;
        let give_up = (!entries.is_empty()).then(|| now + timing.pulse * ENTRY_PATIENCE);
        Ok(Self {
            pump: Pump::new(Ring::new(now, config)),
            net: Net::new(myself, port, super::descriptor_limit()),
            asks: Asks::default(),
            launches: Launches::default(),
            errands: VecDeque::new(),
            naming: Naming::default(),
            foreign: Foreign::default(),
            journal: Journal::default(),
            saved,
            aims: BTreeMap::new(),
            last_attempt: 0,
            leaving: Leaving::No,
            entered: false,
            doubled: false,
            keep,
            bond: Bond::new(cli, timing.pulse, now),
            give_up,
            last_failure: String::new(),
            entries,
        })
    }

    pub(crate) const fn port(&self) -> &Port {
        self.net.port()
    }

    /// An event came for the port.
    pub(crate) const fn knock(&mut self) {
        self.net.port_mut().door_mut().knock();
    }

    /// An event came for a link.
    pub(crate) fn mark_ready(&mut self, token: mio::Token, hung_up: bool) {
        self.net.mark_ready(token, hung_up);
    }

    /// Takes those who knock, a bounded number a turn.
    pub(crate) fn accept(&mut self, registry: &Registry, now: Time) {
        if matches!(self.leaving, Leaving::Over { .. }) {
            return self.net.port_mut().door_mut().ignore();
        }
        for _ in 0..PER_TURN {
            let Some((stream, remote)) = self.net.port_mut().accept(now) else { return };
            self.net.accept(registry, now, stream, remote);
        }
    }

    /// Whether this daemon has its place in the ring.
    pub(crate) const fn has_entered(&self) -> bool {
        self.entered
    }

    /// Whether it is there to stay.
    fn is_settled(&self) -> bool {
        self.entered && self.leaving == Leaving::No
    }

    /// Whether its successor is to find the ring again. A private ring's daemon has none.
    fn is_saved(&self) -> bool {
        self.is_settled() && self.bond.is_none()
    }

    /// Why entering came to nothing for good, or why this daemon cannot stay.
    pub(crate) fn failure(&self, now: Time) -> Option<String> {
        if self.doubled {
            return Some(format!(
                "a daemon named {} is in the ring already; choose another name with --name",
                self.pump.machine().name()
            ));
        }
        if self.entered || self.give_up.is_none_or(|at| at > now) {
            return None;
        }
        let places: Vec<&str> = self.entries.iter().map(Address::as_str).collect();
        Some(match places[..] {
            [place] if self.last_failure.starts_with(place) => {
                format!("cannot enter the ring: {}", self.last_failure)
            }
            _ => format!(
                "cannot enter the ring through {}; at last: {}",
                places.join(", "),
                self.last_failure
            ),
        })
    }

    /// Whether this daemon is out of the ring and all is said.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        matches!(self.leaving, Leaving::Over { until } if until <= now || self.net.is_quiet())
    }

    /// Begins to leave.
    pub(crate) fn leave(&mut self, now: Time, how: Farewell) {
        if self.leaving == Leaving::No {
            self.leaving = Leaving::Soon { at_last: now + LEAVE_PATIENCE, how };
        }
    }

    /// Begins to leave because of a signal. The first of a private ring takes all with it: see
    /// [`Membership::review_bond`].
    pub(crate) fn leave_on_signal(&mut self, now: Time) {
        if !self.bond.as_ref().is_some_and(Bond::is_first) {
            let how = if self.keep.is_some() { Farewell::Missed } else { Farewell::Signal };
            self.leave(now, how);
        }
    }

    pub(crate) fn has_work(&self) -> bool {
        self.net.has_work() || !self.pump.is_dry()
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let leaving = match self.leaving {
            Leaving::No => None,
            Leaving::Soon { at_last, .. } => Some(at_last),
            Leaving::Over { until } => Some(until),
        };
        let entering = self.give_up.filter(|_| !self.entered);
        [
            self.pump.machine().poll_timeout(),
            self.net.next_deadline(),
            self.asks.next_deadline(),
            self.journal.next_deadline(),
            self.saved.next_deadline().filter(|_| self.is_saved()),
            self.keep.as_ref().filter(|_| self.leaving == Leaving::No).map(Keep::next_deadline),
            self.bond
                .as_ref()
                .filter(|_| self.leaving == Leaving::No)
                .and_then(Bond::next_deadline),
            leaving,
            entering,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The next thing that a manager of this host is to be told.
    pub(crate) fn next_errand(&mut self) -> Option<Errand> {
        self.errands.pop_front()
    }

    /// Everything that is due: reads the links, then lets time pass, then writes.
    pub(crate) fn turn(&mut self, registry: &Registry, jobs: &mut Jobs, now: Time) {
        let mut hands = Hands { registry, jobs, now };
        self.pump(&mut hands);
        self.net.turn(registry, now);
        self.take_happened(&mut hands);
        self.cancel_unlinked(&mut hands);
        self.serve_names(&mut hands);
        self.serve_spawns(&mut hands);
        self.pump(&mut hands);
        // What the sockets hold counts before what the clock says.
        let due = self.pump.machine().poll_timeout().is_some_and(|at| at <= now);
        if due && !self.net.has_work() {
            self.pump.handle_timeout(now);
            self.pump(&mut hands);
            self.take_happened(&mut hands);
        }
        self.pass_links(&hands);
        self.review_asks(now);
        self.journal.turn(now);
        self.review_leaving(&hands);
        self.pump(&mut hands);
        self.review_keep(jobs, now);
        if self.is_saved() {
            self.saved.turn(now, self.pump.machine(), self.net.port().number());
        }
        self.net.flush();
    }

    fn take_happened(&mut self, hands: &mut Hands<'_>) {
        loop {
            self.pump(hands);
            let Some(happened) = self.net.pop() else { return };
            match happened {
                Happened::Up { link, peer, purpose, dialed, remote, seen } => {
                    self.learn(hands, &peer.name, seen);
                    let token = match dialed {
                        None => None,
                        Some(dialed) => match self.aim_of(dialed.attempt) {
                            Some(Aim::Ring(token)) => Some(token),
                            Some(Aim::Ping(console, began)) => {
                                self.pong(console, began, hands.now, &dialed, &peer);
                                self.net.close(hands.now, link);
                                continue;
                            }
                            Some(Aim::Mirror(_)) | None => {
                                self.net.close(hands.now, link);
                                continue;
                            }
                        },
                    };
                    let Some(from) = address_of(remote) else { continue };
                    self.post(Input::LinkUp { link, token, peer, purpose, from });
                }
                Happened::Message(link, message) => {
                    self.post(Input::Received(link, message));
                }
                Happened::Closed(link) => self.post(Input::LinkClosed(link)),
                Happened::Failed(attempt, why, problem) => match self.aim_of(attempt) {
                    Some(Aim::Ring(token)) => {
                        self.last_failure = problem;
                        self.post(Input::ConnectFailed(token, why));
                    }
                    Some(Aim::Ping(console, _)) => {
                        self.asks.reply(console, ConsoleReply::Refused { problem });
                    }
                    Some(Aim::Mirror(address)) => self.not_mirrored(hands.now, address, &problem),
                    None => {}
                },
                Happened::Mirrored(attempt) => {
                    if let Some(Aim::Mirror(address)) = self.aim_of(attempt) {
                        self.mirrored(address);
                    }
                }
            }
        }
    }

    fn aim_of(&mut self, attempt: AttemptId) -> Option<Aim> {
        self.aims.remove(&attempt)
    }

    /// Queues what happened for the ring. [`Membership::pump`] hands it in.
    fn post(&mut self, input: Input) {
        self.pump.post(input);
    }

    /// Hands each input that waits to the ring, and performs all its outputs before the next.
    fn pump(&mut self, hands: &mut Hands<'_>) {
        while let Some(output) = self.pump.next(hands.now) {
            self.perform(hands, output);
        }
    }

    /// Performs one output. What follows from it for the ring is posted.
    fn perform(&mut self, hands: &mut Hands<'_>, output: Output) {
        match output {
            Output::Connect { token, name, instance, addresses, purpose } => {
                let addresses = numeric(&addresses);
                self.connect(hands, token, Wish { name, instance, addresses, purpose });
            }
            Output::Abandon(token) => self.abandon(token),
            Output::Send(link, message) => self.net.send(link, &message),
            Output::Close(link) => self.net.close(hands.now, link),
            Output::Deliver { id, payload, hops, sender } => {
                let answer = self.obey(hands, &payload, hops, sender.as_ref());
                self.post(Input::Answered(id, answer));
            }
            Output::Scattered { request, answers, missing, depth } => {
                self.scattered(hands, request, &answers, missing, depth);
            }
            Output::LapsHome { request, hops, names, took } => {
                let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                self.finish(request, ConsoleReply::LapsHome { hops, names, took_us });
            }
            Output::LapLost { request, home } => {
                self.finish(request, ConsoleReply::LapLost { home });
            }
            Output::Refused(request) => {
                let problem = "too many requests are under way here; try again";
                self.refused(request, problem);
            }
            Output::Event(event) => self.note(hands.now, &event),
            Output::Published { request, result } => self.published(request, result),
            Output::Unpublished { request, found } => {
                let answer = if found { NameAnswer::Done } else { NameAnswer::Unknown };
                self.answer_wish(request, answer);
            }
            Output::NameLost { name, job, to } => self.name_lost(name, job, to),
            Output::Over => {
                self.answer_rest();
                self.net.close_all(hands.now);
                self.leaving = Leaving::Over { until: hands.now + LAST_WORDS };
            }
        }
    }

    /// Job links whose manager is here go to it.
    fn pass_links(&mut self, hands: &Hands<'_>) {
        for (token, manager) in self.net.seekers() {
            let Some((job, key)) = hands.jobs.find_manager(manager) else { continue };
            if let Some((hello, link)) =
                self.net.pass_on(hands.registry, token, &mpd_channel::Key::from(key))
            {
                let order = ManagerOrder::Link { hello };
                self.errands.push_back(Errand { job: job.clone(), order, link: Some(link) });
            }
        }
    }

    fn connect(&mut self, hands: &Hands<'_>, token: Token, wish: Wish) {
        match self.leaving {
            Leaving::No | Leaving::Soon { how: Farewell::Depart | Farewell::Signal, .. } => {}
            // Nobody is to be missed any more.
            Leaving::Soon { how: Farewell::WithAll | Farewell::Missed, .. }
            | Leaving::Over { .. } => return,
        }
        let id = self.aim(Aim::Ring(token));
        self.net.dial(hands.registry, hands.now, id, wish);
    }

    fn aim(&mut self, aim: Aim) -> AttemptId {
        self.last_attempt += 1;
        let id = AttemptId(self.last_attempt);
        self.aims.insert(id, aim);
        id
    }

    fn abandon(&mut self, token: Token) {
        let is_it = |aim: &Aim| matches!(aim, Aim::Ring(t) if *t == token);
        let found = self.aims.iter().find(|(_, aim)| is_it(aim)).map(|(id, _)| *id);
        if let Some(id) = found {
            self.aims.remove(&id);
            self.net.abandon(id);
        }
    }

    fn review_keep(&mut self, jobs: &mut Jobs, now: Time) {
        if let (Some(keep), Leaving::No) = (&mut self.keep, self.leaving) {
            let entries = self.net.port().addresses();
            let started =
                keep.turn(now, self.pump.machine().wards(), &entries, |pid| jobs.is_helper(pid));
            started.into_iter().for_each(|pid| jobs.add_helper(pid));
        }
    }

    fn review_leaving(&mut self, hands: &Hands<'_>) {
        let Leaving::Soon { at_last, how } = self.leaving else { return };
        if self.pump.machine().pending() > 0 && hands.now < at_last {
            return;
        }
        match how {
            Farewell::Depart | Farewell::WithAll => self.saved.forget(),
            Farewell::Signal | Farewell::Missed if self.entered => {
                self.saved.save(hands.now, self.pump.machine(), self.net.port().number());
            }
            Farewell::Signal | Farewell::Missed => {}
        }
        match how {
            Farewell::Depart | Farewell::Signal => self.post(Input::Leave),
            Farewell::WithAll | Farewell::Missed => {
                self.answer_rest();
                self.net.close_all(hands.now);
                self.leaving = Leaving::Over { until: hands.now + LAST_WORDS };
            }
        }
    }
}

fn numeric(addresses: &[Address]) -> Vec<SocketAddr> {
    addresses.iter().filter_map(|address| address.as_str().parse().ok()).collect()
}

/// The other end of a connection, as the ring writes addresses.
fn address_of(remote: SocketAddr) -> Option<Address> {
    Address::new(&SocketAddr::new(remote.ip().to_canonical(), remote.port()).to_string()).ok()
}

/// What a turn works with.
pub(crate) struct Hands<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) jobs: &'a mut Jobs,
    pub(crate) now: Time,
}

/// The ring's key.
fn key(cli: &Cli, ring: &str) -> Result<KeyText> {
    if cli.has_key_on_input() {
        return Ok(keyfile::from_standard_input()?);
    }
    let keys = KeyFile::resolve(cli.key.clone())?;
    let (text, origin) = keys.load_or_create(if ring.is_empty() { "default" } else { ring })?;
    let path = keys.path().display();
    log::info!("key {} ({origin:?}) from {path}", text.keys().connect().id());
    Ok(text)
}

fn new_instance() -> Result<Instance> {
    loop {
        if let Some(instance) = Instance::from_bytes(random::bytes()?) {
            return Ok(instance);
        }
    }
}

/// Names to numeric addresses, once, before anything is served: the resolver may take its time.
fn resolve_entries(entries: &[String]) -> Result<Vec<Address>> {
    let (mut found, mut problem) = (Vec::new(), None);
    for entry in entries {
        let (host, port) = addresses::split_port(entry)
            .with_context(|| format!("--join {entry:?}: HOST:PORT is wanted"))?;
        match addresses::resolve(host) {
            Ok(all) => {
                for ip in all {
                    found.push(Address::new(&SocketAddr::new(ip, port).to_string())?);
                }
            }
            Err(e) => {
                log::warn!("--join {entry}: {e}");
                problem = Some(e);
            }
        }
    }
    if let (true, Some(problem)) = (found.is_empty(), problem) {
        return Err(problem.into());
    }
    Ok(found)
}
