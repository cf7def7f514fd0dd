//! The options of Open MPI, Hydra and Slurm that choose hosts and CPUs of ranks. They depend on each other: the default of one
//! follows from another, and from the number of processes. So they are collected first, and become options of ours when the
//! whole command line is known.
//!
//! This file has what the launchers share; each has a file of its own.

mod hydra;
mod launch;
mod open_mpi;
mod parameters;
mod slurm;

use std::collections::BTreeSet;

use mpd_wire::job::Binding;

use super::language::{Dialect, Facts};
use super::translation::{Translation, words};
pub(crate) use launch::Given;
use launch::Launch;

/// The collected options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    map: Option<Map>,
    rank: Option<String>,
    bind: Option<Unit>,
    /// How many CPUs each rank gets.
    width: Option<u32>,
    /// A list of CPUs, and whether each is for one rank.
    list: Option<(String, bool)>,
    /// Whether hardware threads count as CPUs.
    threads: bool,
    /// Whether parts of all hosts are used in turn.
    spans: bool,
    /// What only Slurm has.
    slurm: Slurm,
    /// The hosts that Open MPI's `--host` names without a number.
    plain: BTreeSet<String>,
    /// What parameters say besides the places of ranks.
    pub(crate) launch: Launch,
    /// The parts of the last option that have no effect, for a line each.
    notes: Vec<String>,
    /// The options as written, for messages.
    said: Vec<String>,
}

/// The options that only Slurm has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Slurm {
    /// The least and the greatest number of hosts.
    nodes: Option<(u32, u32)>,
    /// The most processes of each host.
    per_node: Option<u32>,
    /// The number of the first host of the batch job.
    first: Option<u32>,
    /// Whether a file has the host of each process.
    arbitrary: bool,
    /// Whether ranks get one hardware thread of a core only.
    single: bool,
    /// Whether ranks get one core of a socket only.
    one_core: bool,
    /// Whether the program is a file of programs.
    multi_prog: bool,
}

/// How ranks are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Map {
    Slot,
    Node,
    /// Parts in turn, and how many neighbours count as one.
    Part(Binding, u32),
    /// So many ranks for each part.
    PerPart(u32, Binding),
}

/// To what ranks are bound.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Unit {
    None,
    Part(Binding, u32),
    /// A value of `-bind-to` of ours.
    Ours(String),
}

/// What is known when the options become ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    /// The launcher; `None` if only a variable asks for a layout.
    pub(crate) dialect: Option<Dialect>,
    pub(crate) processes: u64,
    /// Whether an option gives this number.
    pub(crate) is_given: bool,
    /// Whether variables of Intel MPI, or options of ours, choose the CPUs.
    pub(crate) is_pinned: bool,
    /// The slots of the hosts of a batch job, unless options name hosts.
    pub(crate) slots: &'a [(String, u32)],
    /// Whether an option of ours gives the number of processes of a host.
    pub(crate) per_host: bool,
    /// Whether the named hosts have their numbers of processes already.
    pub(crate) is_shared: bool,
    /// The hosts of the ring for a job whose hosts have unequal shares; none if they are named or not needed.
    pub(crate) hosts: &'a [String],
    /// Whether an option of ours lets ranks use the hosts in turn.
    pub(crate) in_turn: bool,
    /// The slots of each host of the job; `None`: they are not known.
    pub(crate) rooms: Option<&'a [u32]>,
    pub(crate) caller: &'a dyn Facts,
}

/// The part of a host by a name of any launcher.
fn part(name: &str) -> Option<Binding> {
    Some(match name {
        "hwthread" | "hwt" | "thread" => Binding::Thread,
        "core" | "cpu" => Binding::Core,
        "l3cache" | "l3" => Binding::Cache,
        "numa" => Binding::Numa,
        "socket" | "package" => Binding::Socket,
        _ => return None,
    })
}

/// How many parts of a kind this host has. The hosts of a job are alike.
fn parts(kind: Binding, caller: &dyn Facts) -> u32 {
    let cpus = caller.cpus();
    let keys: BTreeSet<(u32, u32)> = cpus
        .iter()
        .map(|cpu| match kind {
            Binding::Thread => (cpu.number, 0),
            Binding::Core => (cpu.node, cpu.core),
            Binding::Cache => (cpu.node, cpu.cache),
            Binding::Numa => (cpu.node, 0),
            Binding::Socket | Binding::None | Binding::Slots => (cpu.socket, 0),
        })
        .collect();
    u32::try_from(keys.len()).unwrap_or(1).max(1)
}

fn positive(text: &str) -> Result<u32, String> {
    let wrong = || format!("{text:?} is not a number above 0");
    text.parse().ok().filter(|&number| number > 0).ok_or_else(wrong)
}

/// The options as they are written.
impl Layout {
    /// Adds the words of an option, for messages.
    pub(crate) fn say(&mut self, text: String) {
        self.said.push(text);
    }

    /// Notes a part of an option that has no effect.
    pub(super) fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    /// Notes a value of an option that has no effect.
    pub(super) fn ignore(&mut self, word: &str, reason: &str) {
        self.notes.push(format!("'{word}' has no effect: {reason}"));
    }

    /// The notes since the last call.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Notes the hosts of a list that have no number.
    pub(crate) fn note_plain(&mut self, list: &str) {
        let hosts = list.split(',').filter(|host| !host.is_empty() && !host.contains(':'));
        self.plain.extend(hosts.map(str::to_owned));
    }

    /// Whether a host was named without a number.
    pub(crate) fn is_plain(&self, host: &str) -> bool {
        self.plain.contains(host)
    }

    /// The options as written.
    pub(crate) fn said(&self) -> String {
        self.said.join(" ")
    }

    /// Whether no option was given that places or binds ranks.
    pub(crate) fn is_empty(&self) -> bool {
        !self.differs(&Self::default())
    }

    /// Whether ranks are placed or bound in another way. Names of hosts and launchers alone do neither.
    pub(crate) fn differs(&self, other: &Self) -> bool {
        let mut same = self.clone();
        same.plain.clone_from(&other.plain);
        same.launch.clone_from(&other.launch);
        same.notes.clone_from(&other.notes);
        same.said.clone_from(&other.said);
        same != *other
    }

    /// Adds the options of another section.
    pub(crate) fn join(&mut self, other: Self) {
        self.map = other.map.or(self.map);
        self.rank = other.rank.or(self.rank.take());
        self.bind = other.bind.or(self.bind.take());
        self.width = other.width.or(self.width);
        self.list = other.list.or(self.list.take());
        self.threads |= other.threads;
        self.spans |= other.spans;
        self.slurm.join(&other.slurm);
        self.plain.extend(other.plain);
        self.launch.join(other.launch);
        self.notes.extend(other.notes);
        self.said.extend(other.said);
    }
}

/// The options in our words.
impl Layout {
    /// The number of processes of each host, which must be known before the number of all processes is.
    ///
    /// # Errors
    /// The options do not fit each other.
    pub(crate) fn of_each_host(&self, known: &Known<'_>) -> Result<Vec<String>, String> {
        if known.dialect == Some(Dialect::Srun) {
            return Ok(self.shares_of_srun(known));
        }
        let number = match self.map {
            // A rank for each part of a host, then the next host.
            Some(Map::PerPart(_, part)) if self.rank.as_deref() == Some("span") => {
                if !known.is_given {
                    return Err("--rank-by span needs the number of processes, with -n".to_owned());
                }
                parts(part, known.caller)
            }
            Some(Map::PerPart(number, part)) => number.saturating_mul(parts(part, known.caller)),
            Some(Map::Part(part, _)) if self.spans || self.rank.as_deref() == Some("span") => {
                if known.dialect != Some(Dialect::OpenMpi5) {
                    return Err("the modifier 'span' is not available; use ppr:N:PART".to_owned());
                }
                parts(part, known.caller)
            }
            // Hosts as a whole are always used evenly.
            Some(Map::Node) if self.spans => return Ok(Vec::new()),
            _ if self.spans && known.per_host => return Ok(Vec::new()),
            _ if self.spans => return Err("'span' needs a part of a host".to_owned()),
            _ => return Ok(Vec::new()),
        };
        Ok(words(&["-ppn", &number.to_string()]))
    }

    /// All other options of ours.
    ///
    /// # Errors
    /// The options do not fit each other, or there is no such layout here.
    pub(crate) fn words(&self, known: &Known<'_>) -> Translation {
        match known.dialect {
            Some(Dialect::Hydra) => Ok(self.of_hydra(false)),
            Some(Dialect::Intel) => Ok(self.of_hydra(!known.is_pinned && self.map.is_none())),
            Some(Dialect::Srun) => Ok(self.of_srun(known)),
            _ => self.of_open_mpi(known),
        }
    }
}

/// Whether it is a core or a hardware thread.
const fn is_fine(unit: Binding) -> bool {
    matches!(unit, Binding::Core | Binding::Thread)
}

/// A number after a unit.
fn number(number: u32) -> String {
    if number == 1 { String::new() } else { format!(":{number}") }
}

fn mapped(over: Binding, how: &str) -> Vec<String> {
    words(&["-map-by", &format!("{}{how}", over.name())])
}

fn bound(unit: Binding, width: u32) -> Vec<String> {
    words(&["-bind-to", &format!("{}{}", unit.name(), number(width))])
}

/// Equal shares of processes for so many hosts. The first hosts get what is left.
pub(crate) fn shares(processes: u32, hosts: u32) -> impl Iterator<Item = u32> {
    let (each, more) = (processes / hosts.max(1), processes % hosts.max(1));
    (0..hosts).map(move |host| each + u32::from(host < more))
}
