//! The machine of one start of many daemons: pure.
//!
//! ```text
//! Pending ──► Running ──► InRing | Failed
//!    ▲           │
//!    └───────────┘  its starter was lost, or could not reach it: started from here
//! ```
//!
//! A *link* is one remote shell with an agent behind it: its head is the agent's own host, carried are
//! those that the agent starts. The owner runs the shells and feeds what they say; this machine says
//! which to start and which to end. It drives `mpdboot` and every agent alike.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use mpd_machine::Time;
use mpd_wire::Address;

use crate::failure::{Ended, Failure, Step, Way, classify, silence};
use crate::plan::{Group, Waiting, share};
use crate::wire::{Outcome, Report};

/// Agents with others to start say that often that they are at work.
pub(crate) const ALIVE_INTERVAL: Duration = Duration::from_secs(3);

/// After that long without a word an agent whose own daemon is in the ring counts as lost.
const ALIVE_PATIENCE: Duration = Duration::from_secs(15);

/// What bounds a boot.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Remote shells at once, at least one.
    pub(crate) window: usize,
    /// How long one host may take until its daemon is in the ring.
    pub(crate) timeout: Duration,
    /// Every host is started from here.
    pub(crate) flat: bool,
    /// Hosts that an agent could not reach are tried from here.
    pub(crate) retry: bool,
    /// Remote shells whose work is done are not ended.
    pub(crate) lasting: bool,
}

/// One host of a boot, as its owner names it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The daemon's name.
    pub(crate) name: String,
    /// Its host.
    pub(crate) host: String,
    /// How that is reached.
    pub(crate) way: Way,
    /// Started from here.
    pub(crate) alone: bool,
}

/// What happened.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// The agent of this link said something.
    Reported {
        /// The head of the link.
        link: usize,
        /// What.
        report: Report,
    },
    /// The remote shell of this link ended.
    Ended {
        /// The head of the link.
        link: usize,
        /// How.
        ended: Ended,
    },
}

/// What the owner has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Run a remote shell to the head of this group.
    Start(Group),
    /// End the remote shell of this link.
    End(usize),
    /// Tell whom it concerns.
    Tell(Event),
}

/// A fact, for people and for the agent above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A remote shell to this host is started.
    Starting {
        /// The daemon.
        name: String,
        /// How many others its agent will start.
        carried: usize,
    },
    /// This host is reached, or its daemon is in the ring.
    Settled {
        /// The daemon.
        name: String,
        /// Where others reach it.
        addresses: Vec<Address>,
    },
    /// It failed.
    Failed {
        /// The daemon.
        name: String,
        /// Why.
        failure: Failure,
    },
    /// The agent that was to start it is lost or could not reach it; it is started from here.
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
            Self::Settled { name, .. } => write!(f, "host {name}: running"),
            Self::Failed { name, failure } => {
                write!(f, "host {name}: step {}: {}", failure.step.word(), failure.problem)
            }
            Self::Again { name } => write!(f, "host {name}: trying from here"),
        }
    }
}

/// How a host stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Waits for a remote shell.
    Pending,
    /// Somebody is starting it.
    Running {
        /// Since when.
        began: Time,
        /// The step that the agent told of last.
        at: Option<Step>,
    },
    /// Done.
    InRing {
        /// How long it took.
        took: Duration,
    },
    /// Given up.
    Failed {
        /// How long it took.
        took: Duration,
        /// Why.
        failure: Failure,
    },
}

#[derive(Debug)]
struct Host {
    target: Target,
    state: State,
}

#[derive(Debug)]
struct Link {
    head: usize,
    carried: Vec<usize>,
    deadline: Time,
    /// The owner was told to end it.
    ending: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Boot {
    settings: Settings,
    hosts: Vec<Host>,
    by_name: BTreeMap<String, usize>,
    waiting: Vec<Waiting>,
    links: Vec<Link>,
    outputs: VecDeque<Output>,
}

impl Boot {
    /// Begins to start `targets`, whose names differ.
    pub(crate) fn new(now: Time, settings: Settings, targets: Vec<Target>) -> Self {
        let alone = |target: &Target| target.alone || settings.flat;
        let waiting = (0..)
            .zip(&targets)
            .map(|(host, target)| Waiting { host, alone: alone(target) })
            .collect();
        let by_name = (0..).zip(&targets).map(|(host, t)| (t.name.clone(), host)).collect();
        let hosts =
            targets.into_iter().map(|target| Host { target, state: State::Pending }).collect();
        let mut boot =
            Self { settings, hosts, by_name, waiting, links: Vec::new(), outputs: VecDeque::new() };
        boot.fill(now);
        boot
    }

    /// What happened. An agent can say what it likes; what is not its to say is not heard.
    pub(crate) fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Reported { link, report } => self.on_report(now, link, report),
            Input::Ended { link, ended } => self.on_ended(now, link, &ended),
        }
        self.fill(now);
    }

    /// Gives up links that have been silent for too long.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        let late = |link: &&Link| !link.ending && !self.is_kept(link) && link.deadline <= now;
        let late: Vec<usize> = self.links.iter().filter(late).map(|link| link.head).collect();
        for head in late {
            if let State::Running { at, .. } = self.hosts[head].state {
                let seconds = self.settings.timeout.as_secs();
                let Target { host, way, .. } = &self.hosts[head].target;
                let failure = silence(at, host, way, seconds);
                self.fail(now, head, failure);
            }
            self.end(head);
        }
        self.fill(now);
    }

    /// The next thing to do.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Boot::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let is_timed = |link: &&Link| !link.ending && !self.is_kept(link);
        self.links.iter().filter(is_timed).map(|link| link.deadline).min()
    }

    /// Whether every host is settled and no remote shell is left, but for those that have to stay.
    pub(crate) fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.busy() == 0
    }

    /// Remote shells at work.
    fn busy(&self) -> usize {
        self.links.iter().filter(|link| !self.is_kept(link)).count()
    }

    /// Whether all that is left to this remote shell is to stay.
    fn is_kept(&self, link: &Link) -> bool {
        let is_there = matches!(self.hosts[link.head].state, State::InRing { .. });
        self.settings.lasting && is_there && link.carried.is_empty() && !link.ending
    }

    /// How every host stands, in the order given.
    pub(crate) fn states(&self) -> impl Iterator<Item = &State> {
        self.hosts.iter().map(|host| &host.state)
    }

    fn on_report(&mut self, now: Time, head: usize, report: Report) {
        let Some(link) = self.links.iter_mut().find(|link| link.head == head && !link.ending)
        else {
            return;
        };
        let own_is_settled = matches!(self.hosts[head].state, State::InRing { .. });
        if own_is_settled {
            link.deadline = now + ALIVE_PATIENCE;
        }
        match report {
            Report::Alive => {}
            Report::Reached => self.at(head, Step::Key),
            Report::Joining => self.at(head, Step::Join),
            Report::Done if self.settings.lasting && own_is_settled => self.abandon(head),
            Report::Done => self.end(head),
            Report::Host { name, outcome } => {
                let Some(&host) = self.by_name.get(&name) else { return };
                if host == head {
                    self.on_own(now, head, outcome);
                } else if own_is_settled && link.carried.contains(&host) {
                    link.carried.retain(|&other| other != host);
                    self.on_carried(now, host, outcome);
                }
            }
        }
    }

    fn at(&mut self, head: usize, step: Step) {
        if let State::Running { at, .. } = &mut self.hosts[head].state {
            *at = Some(step);
        }
    }

    fn on_own(&mut self, now: Time, head: usize, outcome: Outcome) {
        if !matches!(self.hosts[head].state, State::Running { .. }) {
            return;
        }
        match outcome {
            Outcome::Failed(failure) => {
                self.fail(now, head, failure);
                self.end(head);
            }
            Outcome::Up | Outcome::InRing { .. } => {
                self.settle(now, head, outcome);
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
        if let State::Running { at, .. } = self.hosts[head].state {
            let Target { host, way, .. } = &self.hosts[head].target;
            let failure = classify(ended, at, host, way);
            self.fail(now, head, failure);
        }
        self.abandon(head);
        self.links.retain(|link| link.head != head);
    }

    /// Has the remote shell ended. Whom its agent has not settled is started in another way.
    fn end(&mut self, head: usize) {
        for link in self.links.iter_mut().filter(|link| link.head == head && !link.ending) {
            link.ending = true;
            self.outputs.push_back(Output::End(head));
        }
        self.abandon(head);
    }

    /// Whoever was carried by a head that never ran may be carried by another; by one that was lost
    /// half way, somebody may be starting them: they are tried one by one, which tells.
    fn abandon(&mut self, head: usize) {
        let alone = matches!(self.hosts[head].state, State::InRing { .. });
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
        self.waiting.push(Waiting { host, alone });
        let name = self.hosts[host].target.name.clone();
        self.outputs.push_back(Output::Tell(Event::Again { name }));
    }

    fn settle(&mut self, now: Time, host: usize, outcome: Outcome) {
        let took = self.took(now, host);
        self.hosts[host].state = State::InRing { took };
        let addresses = match outcome {
            Outcome::InRing { addresses } => addresses,
            Outcome::Up | Outcome::Failed(_) => Vec::new(),
        };
        let name = self.hosts[host].target.name.clone();
        self.outputs.push_back(Output::Tell(Event::Settled { name, addresses }));
    }

    fn fail(&mut self, now: Time, host: usize, failure: Failure) {
        // It may come from afar.
        let failure = failure.tidied();
        let took = self.took(now, host);
        self.hosts[host].state = State::Failed { took, failure: failure.clone() };
        let name = self.hosts[host].target.name.clone();
        self.outputs.push_back(Output::Tell(Event::Failed { name, failure }));
    }

    fn took(&self, now: Time, host: usize) -> Duration {
        match self.hosts[host].state {
            State::Running { began, .. } => now.since(began),
            State::Pending | State::InRing { .. } | State::Failed { .. } => Duration::ZERO,
        }
    }

    /// Starts what can be started now.
    fn fill(&mut self, now: Time) {
        let slots = self.settings.window.max(1).saturating_sub(self.busy());
        for group in share(&mut self.waiting, slots) {
            for &host in group.carried.iter().chain([&group.head]) {
                self.hosts[host].state = State::Running { began: now, at: None };
            }
            self.links.push(Link {
                head: group.head,
                carried: group.carried.clone(),
                deadline: now + self.settings.timeout,
                ending: false,
            });
            let name = self.hosts[group.head].target.name.clone();
            let carried = group.carried.len();
            self.outputs.push_back(Output::Tell(Event::Starting { name, carried }));
            self.outputs.push_back(Output::Start(group));
        }
    }
}

#[cfg(test)]
mod tests;
