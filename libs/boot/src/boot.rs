//! The state machine that starts many daemons: pure.
//!
//! ```text
//! Pending ──► Running ──► InRing | Failed
//! ▲           │
//! └───────────┘  its starter was lost, or could not reach it: started from here
//! ```
//!
//! A *link* is a remote shell with an agent. The *head* of a link is the agent's host. The
//! *carried* hosts are started by that agent. The owner runs the remote shells and passes their
//! reports to this machine. The machine decides which shells to start and to end. `mpdboot` and
//! every agent use it.
//!
//! A remote shell of Slurm runs an agent on every host of its link (*together*). Each agent then reports for
//! itself, and the shell stays while one of the daemons is in the ring.
//!
//! Two hosts with one identity are one host with two names. The second name is refused, because the ring would
//! count the CPUs of that host twice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use mpd_sansio::Time;
use mpd_wire::message::DaemonReport;
use mpd_wire::{Address, Newcomer};

use crate::failure::{Ended, Failure, Step, Way, classify, silence};
use crate::plan::{Group, Waiting, share};
use crate::wire::{HostId, Outcome, Report};

/// Interval at which an agent with carried hosts reports that it is alive.
pub(crate) const ALIVE_INTERVAL: Duration = Duration::from_secs(3);

/// Daemons that are ready wait at most this time for the next one.
const LATE: Duration = Duration::from_secs(2);

/// An agent whose own daemon is in the ring is lost after this time without a report.
const ALIVE_PATIENCE: Duration = Duration::from_secs(15);

/// Limits and policies of a boot.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Most remote shells at a time, at least one.
    pub(crate) window: usize,
    /// Time for one host until its daemon is in the ring.
    pub(crate) timeout: Duration,
    /// How hosts share remote shells.
    pub(crate) shells: Shells,
    /// Whether a host that an agent could not reach is tried from here.
    pub(crate) retry: bool,
    /// Whether remote shells stay after their work is done.
    pub(crate) lasting: bool,
    /// Whether the list of members is made here, and not where this agent was started.
    pub(crate) introduces: bool,
}

/// How hosts share remote shells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shells {
    /// Every host has a remote shell from here.
    OnePerHost,
    /// With more hosts than the window, the first host of each group starts the others.
    Groups,
    /// One remote shell runs the agents of many hosts.
    Together,
}

/// A host to start.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Name of the daemon.
    pub(crate) name: String,
    pub(crate) host: String,
    /// The way to the host, for hints.
    pub(crate) way: Way,
    /// Whether the host is started from here and starts no others.
    pub(crate) alone: bool,
}

/// An input of the machine.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// The agent of this link sent a report.
    Reported {
        /// The host index of the link's head.
        link: usize,
        report: Report,
    },
    /// These daemons have been introduced, and the others of those that waited have been refused.
    Introduced {
        names: BTreeSet<String>,
        /// Whether the others that wait are refused, and do not wait for another list.
        others_refused: bool,
    },
    /// The remote shell of this link ended.
    Ended {
        /// The host index of the link's head.
        link: usize,
        /// How it ended.
        ended: Ended,
    },
}

/// A request to the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Start a remote shell to the head of this group.
    Start(Group),
    /// End the remote shell of this link.
    End(usize),
    /// Introduce these daemons to each other and to the ring.
    Introduce(Vec<Newcomer>),
    Report(Event),
}

/// An event, for people and for the agent's starter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A remote shell to this host is started.
    Starting {
        /// The daemon.
        name: String,
        /// Number of hosts that its agent will start.
        carried: usize,
    },
    /// An agent runs on the host, which has this identity.
    Reached {
        /// The daemon.
        name: String,
        /// The identity of its host.
        host_id: HostId,
    },
    /// The daemon waits for the list of members.
    Ready(Newcomer),
    /// The host was reached, or its daemon is in the ring.
    Settled {
        /// The daemon.
        name: String,
        /// Addresses of the daemon.
        addresses: Vec<Address>,
    },
    /// The start of a daemon failed.
    Failed {
        /// The daemon.
        name: String,
        failure: Failure,
    },
    /// The agent that was to start this host was lost or could not reach it. The host is started
    /// from here.
    Again {
        /// The daemon.
        name: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting { name, carried: 0 } => write!(f, "host {name}: starting"),
            Self::Starting { name, carried } => {
                write!(f, "host {name}: starting, and {carried} further ones from there")
            }
            Self::Reached { name, .. } => write!(f, "host {name}: reached"),
            Self::Ready(newcomer) => write!(f, "host {}: ready", newcomer.name),
            Self::Settled { name, .. } => write!(f, "host {name}: running"),
            Self::Failed { name, failure } => {
                write!(f, "host {name}: step {}: {}", failure.step.name(), failure.problem)
            }
            Self::Again { name } => write!(f, "host {name}: trying from here"),
        }
    }
}

/// State of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The host waits for a remote shell.
    Pending,
    /// A remote shell or an agent is starting the host.
    Running {
        /// When the start began.
        began: Time,
        /// The last step that the agent reported.
        at: Option<Step>,
    },
    /// The daemon waits for the list of members, or has it and is about to enter.
    Ready {
        /// When the start began.
        began: Time,
        /// The daemon as it described itself; `None` once it is introduced.
        waiting: Option<Newcomer>,
    },
    /// The daemon is in the ring, or the host was reached.
    InRing {
        /// Duration of the start.
        took: Duration,
    },
    /// The start failed.
    Failed {
        /// Duration of the start.
        took: Duration,
        failure: Failure,
    },
}

#[derive(Debug)]
struct Host {
    target: Target,
    state: State,
    id: Option<HostId>,
}

#[derive(Debug)]
struct Link {
    head: usize,
    carried: Vec<usize>,
    deadline: Time,
    /// Whether the agent may have begun to start the carried hosts.
    begun: bool,
    /// Whether a daemon behind it is in the ring.
    serves: bool,
    /// Whether a carried host was refused here. The agent does not know this, and is never done.
    refused: bool,
    /// Whether the owner was asked to end the shell.
    ending: bool,
}

/// The machine; the module describes it.
#[derive(Debug)]
pub(crate) struct Boot {
    settings: Settings,
    hosts: Vec<Host>,
    by_name: BTreeMap<String, usize>,
    waiting: Vec<Waiting>,
    links: Vec<Link>,
    /// When the first and the last of the daemons that wait have become ready.
    ready: Option<(Time, Time)>,
    outputs: VecDeque<Output>,
}

impl Boot {
    /// Begins to start `targets`, whose names are distinct.
    pub(crate) fn new(now: Time, settings: Settings, targets: Vec<Target>) -> Self {
        let alone = |target: &Target| target.alone || settings.shells == Shells::OnePerHost;
        let waiting = (0..)
            .zip(&targets)
            .map(|(host, target)| Waiting { host, alone: alone(target) })
            .collect();
        let by_name = (0..).zip(&targets).map(|(host, t)| (t.name.clone(), host)).collect();
        let host = |target| Host { target, state: State::Pending, id: None };
        let hosts = targets.into_iter().map(host).collect();
        let mut boot = Self {
            settings,
            hosts,
            by_name,
            waiting,
            links: Vec::new(),
            ready: None,
            outputs: VecDeque::new(),
        };
        boot.fill(now);
        boot
    }

    /// Handles an input. Reports about hosts that the agent does not start are ignored.
    pub(crate) fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Reported { link, report } => {
                self.on_report(now, link, report);
                self.review_refused(link);
            }
            Input::Introduced { names, others_refused } => {
                self.on_introduced(now, &names, others_refused);
            }
            Input::Ended { link, ended } => self.on_ended(now, link, &ended),
        }
        self.fill(now);
        self.review_ready(now);
    }

    /// Gives up links that are silent for too long.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        let late = |link: &&Link| self.is_timed(link) && link.deadline <= now;
        let late: Vec<usize> = self.links.iter().filter(late).map(|link| link.head).collect();
        for head in late {
            if let Some(at) = self.step(head) {
                let seconds = self.settings.timeout.as_secs();
                let Target { host, way, .. } = &self.hosts[head].target;
                let failure = silence(at, host, way, seconds);
                self.fail(now, head, failure);
            }
            // The end of a shell of many agents would end the daemons that are in the ring.
            match self.is_shared() && self.links.iter().any(|l| l.head == head && l.serves) {
                true => self.abandon(head),
                false => self.end(head),
            }
        }
        self.fill(now);
        self.review_ready(now);
    }

    /// Whether a remote shell runs the agents of many hosts.
    fn is_shared(&self) -> bool {
        self.settings.shells == Shells::Together
    }

    /// The step at which a host is that is being started.
    fn step(&self, host: usize) -> Option<Option<Step>> {
        match self.hosts[host].state {
            State::Running { at, .. } => Some(at),
            State::Ready { .. } => Some(Some(Step::Join)),
            State::Pending | State::InRing { .. } | State::Failed { .. } => None,
        }
    }

    /// Whether silence on this link is a failure. A daemon that waits is silent.
    fn is_timed(&self, link: &Link) -> bool {
        let waits = matches!(self.hosts[link.head].state, State::Ready { waiting: Some(_), .. });
        let rests = self.is_kept(link) || (waits && link.carried.is_empty());
        !link.ending && !rests
    }

    /// The next request to the owner.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The time for [`Boot::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let is_timed = |link: &&Link| self.is_timed(link);
        let deadlines = self.links.iter().filter(is_timed).map(|link| link.deadline);
        deadlines.chain(self.introduction_due()).min()
    }

    /// When the daemons that wait are introduced, though others are not ready.
    fn introduction_due(&self) -> Option<Time> {
        let (first, last) = self.ready.filter(|_| self.settings.introduces)?;
        Some((last + LATE).min(first + self.settings.timeout / 2))
    }

    /// Introduces the daemons that wait if no other one is about to be ready, or if those take too
    /// long.
    fn review_ready(&mut self, now: Time) {
        let is_running = |host: &Host| matches!(host.state, State::Running { .. });
        let others = self.hosts.iter().any(is_running);
        if self.introduction_due().is_none_or(|due| others && due > now) {
            return;
        }
        self.ready = None;
        let newcomers = self.hosts.iter().filter_map(|host| match &host.state {
            State::Ready { waiting, .. } => waiting.clone(),
            _ => None,
        });
        let newcomers: Vec<Newcomer> = newcomers.collect();
        if !newcomers.is_empty() {
            self.outputs.push_back(Output::Introduce(newcomers));
        }
    }

    fn on_ready(&mut self, now: Time, head: usize, newcomer: Newcomer) {
        let Some(&host) = self.by_name.get(newcomer.name.as_str()) else { return };
        let carries = |link: &Link| link.head == head && link.carried.contains(&host);
        let ours = host == head || self.links.iter().any(carries);
        if let State::Running { began, .. } = self.hosts[host].state
            && ours
        {
            self.hosts[host].state = State::Ready { began, waiting: Some(newcomer.clone()) };
            self.ready = Some((self.ready.map_or(now, |(first, _)| first), now));
            self.outputs.push_back(Output::Report(Event::Ready(newcomer)));
        }
    }

    fn on_introduced(&mut self, now: Time, names: &BTreeSet<String>, others_refused: bool) {
        for host in 0..self.hosts.len() {
            let Host { target, state, .. } = &mut self.hosts[host];
            let State::Ready { waiting, .. } = state else { continue };
            if names.contains(&target.name) {
                *waiting = None;
            } else if others_refused && waiting.is_some() {
                let problem = format!("a daemon named {} is in the ring already", target.name);
                let failure =
                    Failure::new(Step::Join, &problem, "end it with mpdexit, or drop the host");
                self.fail(now, host, failure);
                if !self.is_shared() {
                    self.end(host);
                }
            }
        }
        for link in &mut self.links {
            link.deadline = link.deadline.max(now + self.settings.timeout);
        }
    }

    /// Whether every host is settled and no remote shell is left, except shells that stay.
    pub(crate) fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.busy() == 0
    }

    /// Number of remote shells at work.
    fn busy(&self) -> usize {
        self.links.iter().filter(|link| !self.is_kept(link)).count()
    }

    /// Whether this remote shell has no work left and stays.
    fn is_kept(&self, link: &Link) -> bool {
        let is_there = match self.is_shared() {
            true => link.serves && self.step(link.head).is_none(),
            false => matches!(self.hosts[link.head].state, State::InRing { .. }),
        };
        self.settings.lasting && is_there && link.carried.is_empty() && !link.ending
    }

    /// The states of all hosts, in the order of the targets.
    pub(crate) fn states(&self) -> impl Iterator<Item = &State> {
        self.hosts.iter().map(|host| &host.state)
    }

    fn on_report(&mut self, now: Time, head: usize, report: Report) {
        let Some(link) = self.links.iter_mut().find(|link| link.head == head && !link.ending)
        else {
            return;
        };
        link.begun |= match &report {
            Report::Alive | Report::Done => true,
            Report::Daemon(report) => !matches!(report, DaemonReport::Refused { .. }),
            Report::Host { outcome, .. } => !matches!(outcome, Outcome::Failed(_)),
            Report::Reached { name, .. } => *name != self.hosts[head].target.name,
            Report::Joining => false,
        };
        let own_is_settled =
            matches!(self.hosts[head].state, State::InRing { .. } | State::Ready { .. });
        if self.settings.shells == Shells::Together {
            link.deadline = now + self.settings.timeout;
        } else if own_is_settled {
            link.deadline = now + ALIVE_PATIENCE;
        }
        match report {
            Report::Alive => {}
            // The others may still be at work.
            Report::Done if self.settings.shells == Shells::Together => {}
            Report::Daemon(DaemonReport::Ready(newcomer)) => self.on_ready(now, head, newcomer),
            Report::Daemon(DaemonReport::Entered { addresses }) => {
                link.serves = true;
                self.on_own(now, head, Outcome::InRing { addresses });
            }
            Report::Daemon(DaemonReport::Refused { problem }) => {
                let failure = Failure::new(Step::Join, &problem, "");
                self.on_own(now, head, Outcome::Failed(failure));
            }
            Report::Reached { name, host_id } => self.on_reached(now, head, &name, host_id),
            Report::Joining => self.at(head, Step::Join),
            Report::Done if self.settings.lasting && own_is_settled => self.abandon(head),
            Report::Done => self.end(head),
            Report::Host { name, outcome } => {
                let Some(&host) = self.by_name.get(&name) else { return };
                if host == head {
                    link.serves |= matches!(outcome, Outcome::InRing { .. });
                    self.on_own(now, head, outcome);
                } else if link.carried.contains(&host) {
                    link.serves |= matches!(outcome, Outcome::InRing { .. });
                    link.carried.retain(|&other| other != host);
                    self.on_carried(now, host, outcome);
                }
            }
        }
    }

    fn on_reached(&mut self, now: Time, head: usize, name: &str, host_id: Option<HostId>) {
        let Some(&host) = self.by_name.get(name) else { return };
        let carries = |link: &Link| link.head == head && link.carried.contains(&host);
        if host == head {
            self.at(head, Step::Key);
        } else if !self.links.iter().any(carries) {
            return;
        }
        let Some(id) = host_id else { return };
        if !matches!(self.hosts[host].state, State::Running { .. }) {
            return;
        }
        let other = self.other_name(host, &id);
        self.hosts[host].id = Some(id.clone());
        let name = name.to_owned();
        self.outputs.push_back(Output::Report(Event::Reached { name, host_id: id }));
        if let Some(other) = other {
            // The daemon of the name that was reported first may serve already. Agents decide in the same order.
            self.refuse(now, host, other);
        }
    }

    /// A host with another name and the same identity. Several daemons under one name were asked for.
    fn other_name(&self, host: usize, id: &HostId) -> Option<usize> {
        let name = &self.hosts[host].target.host;
        let is_same = |other: &Host| {
            other.id.as_ref() == Some(id)
                && !other.target.host.eq_ignore_ascii_case(name)
                && !matches!(other.state, State::Failed { .. })
        };
        self.hosts.iter().position(is_same)
    }

    /// Ends the start of a daemon whose host is started under the name of `kept`.
    fn refuse(&mut self, now: Time, host: usize, kept: usize) {
        let name = |host: usize| &self.hosts[host].target.host;
        let problem = format!("{} is the same host as {}", name(host), name(kept));
        let hint = format!("name it once; {}:N gives it N slots", name(kept));
        self.fail(now, host, Failure::new(Step::Join, &problem, hint));
        for link in self.links.iter_mut().filter(|link| link.carried.contains(&host)) {
            link.carried.retain(|&other| other != host);
            link.refused = true;
        }
        if !self.is_shared() {
            self.end(host);
        }
    }

    /// Ends the shell of an agent that has only a refused host left.
    fn review_refused(&mut self, head: usize) {
        let is_settled = matches!(self.hosts[head].state, State::InRing { .. });
        let is_over = |link: &Link| link.head == head && link.refused && link.carried.is_empty();
        if is_settled && !self.settings.lasting && self.links.iter().any(is_over) {
            self.end(head);
        }
    }

    fn at(&mut self, head: usize, step: Step) {
        if let State::Running { at, .. } = &mut self.hosts[head].state {
            *at = Some(step);
        }
    }

    fn on_own(&mut self, now: Time, head: usize, outcome: Outcome) {
        if self.step(head).is_none() {
            return;
        }
        match outcome {
            Outcome::Failed(failure) => {
                self.fail(now, head, failure);
                if !self.is_shared() {
                    self.end(head);
                }
            }
            Outcome::Up | Outcome::InRing { .. } => {
                self.settle(now, head, outcome);
                if self.is_shared() {
                    return;
                }
                for link in self.links.iter_mut().filter(|link| link.head == head) {
                    link.deadline = now + ALIVE_PATIENCE;
                }
                let is_done = |link: &Link| link.head == head && link.carried.is_empty();
                if !self.settings.lasting && self.links.iter().any(is_done) {
                    self.end(head);
                }
            }
        }
    }

    fn on_carried(&mut self, now: Time, host: usize, outcome: Outcome) {
        match outcome {
            Outcome::Failed(failure) if self.settings.retry && failure.step.is_before_host() => {
                self.wait(host, true);
            }
            Outcome::Failed(failure) => self.fail(now, host, failure),
            Outcome::Up | Outcome::InRing { .. } => self.settle(now, host, outcome),
        }
    }

    fn on_ended(&mut self, now: Time, head: usize, ended: &Ended) {
        // One bad host may have ended a shell for many. Then each is tried alone.
        let is_blameless =
            |link: &Link| link.head == head && !link.serves && !link.carried.is_empty();
        let again = self.is_shared() && self.links.iter().any(is_blameless);
        if let Some(at) = self.step(head) {
            if again {
                self.wait(head, true);
            } else {
                let Target { host, way, .. } = &self.hosts[head].target;
                let failure = classify(ended, at, host, way);
                self.fail(now, head, failure);
            }
        }
        self.abandon(head);
        self.links.retain(|link| link.head != head);
    }

    /// Ends the remote shell. Hosts that its agent has not settled are started in another way.
    fn end(&mut self, head: usize) {
        for link in self.links.iter_mut().filter(|link| link.head == head && !link.ending) {
            link.ending = true;
            self.outputs.push_back(Output::End(head));
        }
        self.abandon(head);
    }

    /// Puts the carried hosts back. If the head never ran, another agent may carry them. If the
    /// head was lost later, it may have begun to start them: they are then tried one by one from
    /// here.
    fn abandon(&mut self, head: usize) {
        let begun = self.links.iter().any(|link| link.head == head && link.begun);
        let alone = begun || self.is_shared();
        let carried = self
            .links
            .iter_mut()
            .filter(|link| link.head == head)
            .flat_map(|link| std::mem::take(&mut link.carried))
            .collect::<Vec<_>>();
        for host in carried {
            self.wait(host, alone);
        }
    }

    fn wait(&mut self, host: usize, alone: bool) {
        self.hosts[host].state = State::Pending;
        self.hosts[host].id = None;
        self.waiting.push(Waiting { host, alone });
        let name = self.hosts[host].target.name.clone();
        self.outputs.push_back(Output::Report(Event::Again { name }));
    }

    fn settle(&mut self, now: Time, host: usize, outcome: Outcome) {
        let took = self.took(now, host);
        self.hosts[host].state = State::InRing { took };
        let addresses = match outcome {
            Outcome::InRing { addresses } => addresses,
            Outcome::Up | Outcome::Failed(_) => Vec::new(),
        };
        let name = self.hosts[host].target.name.clone();
        self.outputs.push_back(Output::Report(Event::Settled { name, addresses }));
    }

    fn fail(&mut self, now: Time, host: usize, failure: Failure) {
        // The text may be from another host.
        let failure = failure.printable();
        let took = self.took(now, host);
        self.hosts[host].state = State::Failed { took, failure: failure.clone() };
        let name = self.hosts[host].target.name.clone();
        self.outputs.push_back(Output::Report(Event::Failed { name, failure }));
    }

    fn took(&self, now: Time, host: usize) -> Duration {
        match self.hosts[host].state {
            State::Running { began, .. } | State::Ready { began, .. } => now.since(began),
            State::Pending | State::InRing { .. } | State::Failed { .. } => Duration::ZERO,
        }
    }

    /// Starts as many hosts as the window allows.
    fn fill(&mut self, now: Time) {
        let slots = self.settings.window.max(1).saturating_sub(self.busy());
        let together = self.is_shared();
        for group in share(&mut self.waiting, slots, together) {
            for &host in group.carried.iter().chain([&group.head]) {
                self.hosts[host].state = State::Running { began: now, at: None };
            }
            self.links.push(Link {
                head: group.head,
                carried: group.carried.clone(),
                deadline: now + self.settings.timeout,
                begun: false,
                serves: false,
                refused: false,
                ending: false,
            });
            let name = self.hosts[group.head].target.name.clone();
            let carried = group.carried.len();
            self.outputs.push_back(Output::Report(Event::Starting { name, carried }));
            self.outputs.push_back(Output::Start(group));
        }
    }
}

#[cfg(test)]
mod tests;
