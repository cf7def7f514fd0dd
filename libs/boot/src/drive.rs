//! The event loop around `Boot`: remote shells, their pipes, signals, time.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::process::Command;
use std::time::Duration;

use mpd_io::clock::Clock;
use mpd_io::process::signals::Signals;
use mpd_io::wait;
use mpd_sansio::Time;
use mpd_wire::Newcomer;
use mpd_wire::message::DaemonReport;
use nix::poll::{PollFd, PollFlags};

use crate::boot::{Boot, Event, Input, Output, Settings, Shells, State, Target};
use crate::child::{Child, Tail};
use crate::command;
use crate::failure::{Ended, Ending};
use crate::plan::Group;
use crate::wire::{
    AgentRequest, BootTask, MAX_REPORT, Manner, Member, Outcome, Report, Task, VERSION,
};

/// Time between the request to a child to end and its kill.
const GRACE: Duration = Duration::from_secs(2);

/// The data that every agent gets.
#[derive(Clone, Debug)]
pub struct Brief {
    /// Prefix of report lines.
    pub nonce: String,
    /// The task without member and hosts; `None` if hosts are only checked.
    pub boot: Option<BootTask>,
    /// Settings of all daemons.
    pub manner: Manner,
    /// Time for ssh to connect, in seconds.
    pub connect_s: u32,
    /// Name of this host; a second daemon on it needs no remote shell.
    pub here: Option<String>,
    /// Name of the first of the daemons, if an agent has started it itself.
    pub own: Option<String>,
    /// Whether the list of members is made here.
    pub introduces: bool,
}

/// Index of the daemon that an agent has started itself.
const OWN: usize = 0;

impl Brief {
    fn order(&self, member: &Member, carried: Vec<Member>) -> AgentRequest {
        let task = match &self.boot {
            None => Task::Check { name: member.name.clone() },
            Some(boot) => Task::Boot(Box::new(BootTask {
                member: member.clone(),
                hosts: carried,
                ..boot.clone()
            })),
        };
        AgentRequest { version: VERSION, nonce: self.nonce.clone(), task }
    }

    /// The command line that runs the agent of `member`, and with Slurm the agents of the `carried` ones.
    fn command(&self, member: &Member, carried: &[Member]) -> io::Result<Command> {
        let arguments = if self.here.as_ref() == Some(&member.host) {
            command::agent(&self.manner, Some(member))
        } else {
            command::remote_shell(&self.manner, member, carried, self.connect_s)
                .ok_or_else(|| io::Error::other("not the name of a host"))?
        };
        let (program, arguments) =
            arguments.split_first().ok_or_else(|| io::Error::other("no command"))?;
        let mut command = Command::new(program);
        let (variable, value) = command::SRUN_VARIABLE;
        command.args(arguments).env(variable, value).env_remove(command::SRUN_LABELS);
        // The login of the user says nothing about the host of the agent. sshd sets the variable there.
        command.env_remove(command::SSH_CONNECTION);
        Ok(command)
    }
}

/// The results of one turn of the loop.
#[derive(Debug, Default)]
pub struct Turn {
    /// Events of the boot.
    pub events: Vec<Event>,
    /// Daemons to introduce, with [`Driver::introduce`].
    pub newcomers: Vec<Newcomer>,
    /// Signals except SIGCHLD.
    pub signals: Vec<i32>,
    /// Whether the other descriptor has data or has ended.
    pub readable: bool,
}

/// A boot with its remote shells.
#[derive(Debug)]
pub struct Driver<'a> {
    clock: Clock,
    signals: &'a mut Signals,
    brief: Brief,
    members: Vec<Member>,
    boot: Boot,
    /// The first daemon, until it has a link.
    own: Option<Child>,
    links: BTreeMap<usize, Link>,
}

#[derive(Debug)]
struct Link {
    child: Child,
    chatter: Tail,
    /// When the child is killed, if it was asked to end.
    kill_at: Option<Time>,
}

impl<'a> Driver<'a> {
    /// Begins to start `members`. With `retry`, hosts that an agent cannot reach are tried from
    /// here. `own` is the first daemon, if an agent has started it itself.
    pub fn new(
        signals: &'a mut Signals,
        brief: Brief,
        members: Vec<Member>,
        retry: bool,
        own: Option<Child>,
    ) -> Self {
        let clock = Clock::start();
        let manner = &brief.manner;
        let kills_at_end = command::kills_at_end(manner);
        let settings = Settings {
            window: manner.window as usize,
            timeout: Duration::from_secs(manner.timeout_s.into()),
            shells: match (manner.flat || brief.boot.is_none(), kills_at_end) {
                (false, false) => Shells::Groups,
                (false, true) if brief.own.is_none() => Shells::Together,
                (true | false, _) => Shells::OnePerHost,
            },
            retry,
            lasting: brief.boot.is_some() && (manner.private || kills_at_end),
            introduces: brief.introduces,
        };
        let target = |member: &Member| Target {
            name: member.name.clone(),
            host: member.host.clone(),
            way: command::way(manner, member),
            alone: brief.here.as_ref() == Some(&member.host)
                || brief.own.as_ref() == Some(&member.name),
        };
        let boot = Boot::new(clock.now(), settings, members.iter().map(target).collect());
        Self { clock, signals, brief, members, boot, own, links: BTreeMap::new() }
    }

    /// Whether every host is settled and no child is left, except children that stay.
    pub fn is_over(&self) -> bool {
        self.boot.is_over()
    }

    /// Whether all members are in the ring; remote shells may still run.
    pub fn are_all_in_ring(&self) -> bool {
        self.boot.states().all(|state| matches!(state, State::InRing { .. }))
    }

    /// The states of all members.
    pub fn states(&self) -> impl Iterator<Item = (&Member, &State)> {
        self.members.iter().zip(self.boot.states())
    }

    /// Carries out the outputs of `Boot`, then waits for an event, for at most `patience`.
    /// `other` is also waited for.
    ///
    /// # Errors
    /// When waiting fails.
    pub fn turn(&mut self, other: Option<BorrowedFd<'_>>, patience: Duration) -> io::Result<Turn> {
        let mut turn = Turn::default();
        self.perform(&mut turn);
        if self.is_over() || !turn.newcomers.is_empty() {
            return Ok(turn);
        }
        turn.readable = self.wait(other, patience)?;
        let ours = |signal: &i32| *signal != libc::SIGCHLD;
        turn.signals = self.signals.pending().into_iter().filter(ours).collect();
        self.receive();
        self.on_time();
        self.perform(&mut turn);
        Ok(turn)
    }

    /// Passes the list of members to all agents. `names` are the daemons that it introduces. With
    /// `others_refused`, the others that wait have failed.
    pub fn introduce(&mut self, line: &[u8], names: BTreeSet<String>, others_refused: bool) {
        self.links.values_mut().for_each(|link| link.child.send(line));
        self.boot.handle(self.clock.now(), Input::Introduced { names, others_refused });
    }

    /// The remote shells that stay.
    pub fn into_kept(self) -> Vec<Child> {
        self.links.into_values().map(|link| link.child).collect()
    }

    /// Kills all remaining children.
    pub fn abort(&mut self) -> io::Result<()> {
        for link in self.links.values_mut() {
            link.child.end();
        }
        let deadline = self.clock.now() + GRACE;
        while !self.links.is_empty() && self.clock.now() < deadline {
            self.wait(None, self.clock.until(deadline))?;
            self.signals.pending();
            self.links.retain(|_, link| {
                link.child.pump();
                link.child.ended().is_none()
            });
        }
        // Dropping the children kills and reaps them.
        self.links.clear();
        Ok(())
    }

    fn perform(&mut self, turn: &mut Turn) {
        while let Some(output) = self.boot.poll_output() {
            match output {
                Output::Start(group) => self.start(&group),
                Output::End(head) => {
                    if let Some(link) = self.links.get_mut(&head) {
                        link.child.end();
                        link.kill_at = Some(self.clock.now() + GRACE);
                    }
                }
                Output::Introduce(newcomers) => turn.newcomers.extend(newcomers),
                Output::Report(event) => {
                    self.learn(&event);
                    turn.events.push(event);
                }
            }
        }
    }

    /// Adds the addresses of a started daemon to those through which later daemons enter.
    fn learn(&mut self, event: &Event) {
        const MAX_ENTRIES: usize = 8;
        if let (Event::Settled { name, .. }, Some(own)) = (event, &self.brief.own)
            && name == own
            && let Some(link) = self.links.get_mut(&OWN)
        {
            link.child.release();
        }
        if let (Event::Settled { addresses, .. }, Some(boot)) = (event, &mut self.brief.boot) {
            let room = MAX_ENTRIES.saturating_sub(boot.join.len());
            boot.join.extend(addresses.iter().take(room.min(1)).cloned());
        }
    }

    fn start(&mut self, group: &Group) {
        let carried: Vec<Member> =
            group.carried.iter().map(|&host| self.members[host].clone()).collect();
        let member = &self.members[group.head];
        let own = self.own.take_if(|_| group.head == OWN);
        let child = own.map_or_else(
            || {
                let command = self.brief.command(member, &carried)?;
                let order = self.brief.order(member, carried);
                Child::start(command, order.to_line(), MAX_REPORT)
            },
            Ok,
        );
        match child {
            Ok(child) => {
                let link = Link { child, chatter: Tail::default(), kill_at: None };
                self.links.insert(group.head, link);
            }
            Err(error) => {
                let ended = Ended {
                    ending: Ending::NotStarted(error.to_string()),
                    stderr_tail: String::new(),
                    chatter: String::new(),
                };
                self.boot.handle(self.clock.now(), Input::Ended { link: group.head, ended });
            }
        }
    }

    fn wait(&self, other: Option<BorrowedFd<'_>>, patience: Duration) -> io::Result<bool> {
        let now = self.clock.now();
        let kills = self.links.values().filter_map(|link| link.kill_at);
        let due = self.boot.poll_timeout().into_iter().chain(kills).min();
        let patience = due.map_or(patience, |due| patience.min(due.since(now)));
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        fds.extend(other.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        fds.extend(self.links.values().flat_map(|link| link.child.poll_fds()));
        wait::wait(&mut fds, Some(patience))?;
        Ok(other.is_some() && fds[1].any().unwrap_or(true))
    }

    /// Reads the reports of agents, and handles ended children.
    fn receive(&mut self) {
        let now = self.clock.now();
        let mut gone = Vec::new();
        for (&head, link) in &mut self.links {
            let ending = link.child.ended();
            for line in link.child.pump() {
                if let Some(report) = Report::parse(&line, &self.brief.nonce) {
                    self.boot.handle(now, Input::Reported { link: head, report });
                } else {
                    link.chatter.push(&line);
                    link.chatter.push(b"\n");
                }
            }
            gone.extend(ending.map(|ending| (head, ending)));
        }
        for (head, ending) in gone {
            if let Some(link) = self.links.remove(&head) {
                let (stderr_tail, chatter) = (link.child.stderr_tail(), link.chatter.text());
                let ended = Ended { ending, stderr_tail, chatter };
                self.boot.handle(now, Input::Ended { link: head, ended });
            }
        }
    }

    fn on_time(&mut self) {
        let now = self.clock.now();
        for link in self.links.values_mut() {
            if link.kill_at.is_some_and(|at| at <= now) {
                link.child.kill();
                link.kill_at = None;
            }
        }
        self.boot.handle_timeout(now);
    }
}

/// The report that an agent sends about an event; `None` if the event does not concern its starter.
pub fn report_of(event: &Event) -> Option<Report> {
    let (name, outcome) = match event {
        Event::Ready(newcomer) => {
            return Some(Report::Daemon(DaemonReport::Ready(newcomer.clone())));
        }
        Event::Reached { name, host_id } => {
            return Some(Report::Reached { name: name.clone(), host_id: Some(host_id.clone()) });
        }
        Event::Settled { name, addresses } => {
            (name, Outcome::InRing { addresses: addresses.clone() })
        }
        Event::Failed { name, failure } => (name, Outcome::Failed(failure.clone())),
        Event::Starting { .. } | Event::Again { .. } => return None,
    };
    Some(Report::Host { name: name.clone(), outcome })
}
