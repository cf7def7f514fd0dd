//! The hosts of the farm: the members of the ring, which is asked once a second, or hosts that do not change.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use mpd_alloc::exchange::{self, Ask, HostSlots, Reply};
use mpd_farm::Membership;
use mpd_io::ring::console::{Console, ConsoleError};
use mpd_io::ring::rundir::{RunDir, host_name};
use mpd_io::ring::slots;
use mpd_sansio::Time;
use mpd_wire::Standing;
use mpd_wire::message::{ConsoleReply, MemberView, RingRequest, RingView};

use super::cli::FarmCli;
use crate::ask::{self, PATIENCE};

/// The time between two questions about the ring, for each hundred of its members.
const INTERVAL: Duration = Duration::from_secs(1);
/// The longest time for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Where the farm runs.
#[derive(Debug)]
pub(crate) enum Place {
    /// On members of the ring of this run directory.
    Ring(PathBuf),
    /// On hosts that ssh reaches. No ring runs here.
    Named,
    /// On this host only.
    Here,
}

/// Slots of hosts.
type Slots = BTreeMap<String, u32>;

/// The subject of a question.
#[derive(Debug)]
enum Subject {
    /// The members, as far as they are known.
    Members(Vec<MemberView>),
    /// The slots that allocations hold, as far as they are known.
    Held(Slots),
}

/// A question that has no answer yet.
#[derive(Debug)]
struct Question {
    console: Console,
    subject: Subject,
    deadline: Time,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sight {
    ring: Option<RunDir>,
    /// The only hosts of the farm, if the user has named some.
    only: Vec<String>,
    /// The slots of the allocation in which the farm runs, if there is one.
    held: Option<Slots>,
    /// The slots that the members offer.
    offered: Slots,
    /// Those that allocations hold, if the farm runs in none.
    taken: Slots,
    /// The slots of each task.
    per_task: u32,
    known: BTreeMap<String, Membership>,
    question: Option<Question>,
    next: Time,
}

impl Sight {
    /// Looks for a ring.
    ///
    /// # Errors
    /// The selected daemon does not run, or a host is no member.
    pub(crate) fn open(cli: &FarmCli, now: Time) -> Result<(Self, Place)> {
        let rundir = cli.ring_options.rundir()?;
        let named: Vec<String> = cli.hosts.iter().flat_map(|list| list.0.iter().cloned()).collect();
        let (only, held) = allowed(&rundir, &named)?;
        let is_chosen = cli.ring_options.ring.is_some() || cli.ring_options.rundir.is_some();
        let mut sight = Self {
            ring: None,
            only,
            held,
            offered: BTreeMap::new(),
            taken: BTreeMap::new(),
            per_task: cli.slots,
            known: BTreeMap::new(),
            question: None,
            next: now,
        };
        match ask::describe(&rundir, PATIENCE) {
            Ok(view) => {
                let missing =
                    sight.only.iter().find(|host| !view.members.iter().any(|it| names(it, host)));
                if let Some(host) = missing {
                    bail!("{host} is no member of the ring; mpdtrace lists the members");
                }
                let place = Place::Ring(rundir.path().to_owned());
                // A ring that does not answer says nothing about allocations; it is asked again.
                if sight.held.is_none()
                    && let Ok(found) = crate::slots::ask(&rundir)
                {
                    sight.taken = taken(found.hosts).collect();
                }
                sight.ring = Some(rundir);
                sight.take(view, now);
                Ok((sight, place))
            }
            Err(ask::AskError::Console(ConsoleError::NoDaemon { .. })) if !is_chosen => {
                let place = if sight.only.is_empty() { Place::Here } else { Place::Named };
                let hosts =
                    if sight.only.is_empty() { vec![host_name()] } else { sight.only.clone() };
                sight.known = hosts.into_iter().map(|host| (host, Membership::Live)).collect();
                Ok((sight, place))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The slots for tasks on a host where the user wants `jobs` of them. By default they are those that its daemon offers. They
    /// are at most those of the allocation, or else those that no allocation holds. `None`: the worker counts the CPUs.
    pub(crate) fn slots(&self, host: &str, jobs: Option<u32>) -> Option<u32> {
        if let Some(held) = &self.held {
            let held = held.get(host).copied();
            return jobs.map(|jobs| held.map_or(jobs, |held| jobs.min(held))).or(held);
        }
        let wanted = jobs.or(self.offered.get(host).copied());
        match self.taken.contains_key(host) {
            true => wanted.map(|wanted| wanted.min(self.free(host))),
            false => wanted,
        }
    }

    fn free(&self, host: &str) -> u32 {
        let of = |slots: &Slots| slots.get(host).copied().unwrap_or(0);
        of(&self.offered).saturating_sub(of(&self.taken))
    }

    /// Whether allocations hold so many slots of a host that no task fits.
    fn holds_all(&self, host: &str) -> bool {
        let offered = self.offered.get(host).copied().unwrap_or(0);
        self.taken.contains_key(host) && offered >= self.per_task && self.free(host) < self.per_task
    }

    /// All hosts with their memberships.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = (&str, Membership)> {
        self.known.iter().map(|(name, membership)| match membership {
            Membership::Live if self.holds_all(name) => (&name[..], Membership::Full),
            other => (&name[..], *other),
        })
    }

    /// Whether others hold the slots of all hosts.
    pub(crate) fn is_full(&self) -> bool {
        let mut live = self.hosts().map(|(_, it)| it).filter(|it| *it != Membership::Absent);
        let first = live.next();
        first == Some(Membership::Full) && live.all(|it| it == Membership::Full)
    }

    /// When to look again.
    pub(crate) fn due(&self) -> Option<Time> {
        self.ring.as_ref()?;
        Some(self.question.as_ref().map_or(self.next, |question| question.deadline))
    }

    /// What to wait for.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.question.as_ref().map(|question| question.console.as_fd())
    }

    /// Asks, and takes an answer that has arrived. Returns whether the hosts may have changed. A ring that does not
    /// answer has not changed.
    pub(crate) fn turn(&mut self, now: Time) -> bool {
        let Some(rundir) = &self.ring else { return false };
        let Some(mut question) = self.question.take() else {
            if self.next <= now {
                self.next = now + INTERVAL;
                let console = Console::ask(rundir, RingRequest::Describe).ok();
                self.ask(now, console, Subject::Members(Vec::new()));
            }
            return false;
        };
        let is_over = loop {
            let Question { console, subject, .. } = &mut question;
            match (console.answer(Some(Duration::ZERO)), subject) {
                (Ok(ConsoleReply::RingPart { members }), Subject::Members(all)) => {
                    all.extend(members);
                }
                (Ok(ConsoleReply::Ring(mut view)), Subject::Members(all)) => {
                    view.members.append(all);
                    let asks = self.held.is_none();
                    let console = asks.then(|| slots::ask(rundir, &Ask::List).ok()).flatten();
                    self.take(view, now);
                    self.ask(now, console, Subject::Held(BTreeMap::new()));
                    return true;
                }
                (Ok(ConsoleReply::Slots(payload)), Subject::Held(all)) => {
                    let Ok(Reply::Hosts { hosts, more, .. }) = exchange::decode(&payload) else {
                        break true;
                    };
                    all.extend(taken(hosts));
                    if !more {
                        self.taken = std::mem::take(all);
                        return true;
                    }
                }
                (Err(ConsoleError::Silent(_)), _) => break question.deadline <= now,
                _ => break true,
            }
        };
        self.question = Some(question).filter(|_| !is_over);
        false
    }

    fn ask(&mut self, now: Time, console: Option<Console>, subject: Subject) {
        let deadline = now + ANSWER;
        self.question = console.map(|console| Question { console, subject, deadline });
    }

    fn take(&mut self, view: RingView, now: Time) {
        let factor = u32::try_from(view.members.len() / 100).unwrap_or(u32::MAX);
        self.next = now + INTERVAL * factor.max(1);
        self.known.values_mut().for_each(|membership| *membership = Membership::Absent);
        for member in view.members {
            if !self.only.is_empty() && !self.only.iter().any(|host| names(&member, host)) {
                continue;
            }
            let membership = match member.standing {
                Standing::Live if member.draining => Membership::Draining,
                Standing::Live => Membership::Live,
                Standing::Dead | Standing::Departed => Membership::Absent,
            };
            self.known.insert(member.name.to_string(), membership);
            self.offered.insert(member.name.to_string(), member.ncpus);
        }
    }
}

/// The hosts where allocations hold slots, and how many.
fn taken(hosts: Vec<HostSlots>) -> impl Iterator<Item = (String, u32)> {
    hosts.into_iter().filter(|host| host.used > 0).map(|host| (host.host.to_string(), host.used))
}

/// The hosts of the farm, and in an allocation their slots. `named`: the hosts that the user wants.
fn allowed(rundir: &RunDir, named: &[String]) -> Result<(Vec<String>, Option<Slots>)> {
    let alloc = std::env::var(slots::VARIABLE).unwrap_or_default();
    if alloc.is_empty() {
        return Ok((named.to_vec(), None));
    }
    let (id, parts) = slots::granted(rundir, &alloc).context(slots::VARIABLE)?;
    let mut held: Slots = BTreeMap::new();
    for part in parts {
        *held.entry(part.host.to_string()).or_default() += part.slots;
    }
    if let Some(host) = named.iter().find(|host| !held.contains_key(*host)) {
        bail!("{host} is not in allocation {id}");
    }
    let only = if named.is_empty() { held.keys().cloned().collect() } else { named.to_vec() };
    Ok((only, Some(held)))
}

fn names(member: &MemberView, host: &str) -> bool {
    member.name.as_str() == host
}
