//! The options of Open MPI, Hydra and Slurm that choose hosts and CPUs of ranks. They depend on each other: the default of one
//! follows from another, and from the number of processes. So they are collected first, and become options of ours when the
//! whole command line is known.
//!
//! This file has what the launchers share; each has a file of its own.

mod hydra;
mod open_mpi;
mod slurm;

use std::collections::BTreeSet;

use mpd_wire::job::Binding;

use super::language::{Dialect, Facts};
use super::made::{Made, words};

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
    /// The number of hosts, and the most processes of each.
    nodes: Option<u32>,
    per_node: Option<u32>,
    /// The options as written, for messages.
    said: Vec<String>,
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
    /// The number of processes.
    pub(crate) processes: u64,
    /// Whether an option gives this number.
    pub(crate) is_given: bool,
    /// Whether variables of Intel MPI choose the CPUs.
    pub(crate) is_pinned: bool,
    /// The slots of the hosts of a batch job, unless options name hosts.
    pub(crate) slots: &'a [(String, u32)],
    /// Whether an option of ours gives the number of processes of a host.
    pub(crate) per_host: bool,
    /// Whether an option of ours lets ranks use the hosts in turn.
    pub(crate) in_turn: bool,
    /// The caller.
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

    /// The options as written.
    pub(crate) fn said(&self) -> String {
        self.said.join(" ")
    }

    /// Whether no option was given.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
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
        self.nodes = other.nodes.or(self.nodes);
        self.per_node = other.per_node.or(self.per_node);
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
        if known.dialect == Some(Dialect::Srun) && known.is_given && !known.slots.is_empty() {
            return Ok(self.tasks(known));
        }
        if let Some(each) = self.per_node {
            return Ok(words(&["-ppn", &each.to_string()]));
        }
        if let Some(nodes) = self.nodes.filter(|_| !known.per_host) {
            let processes = u32::try_from(known.processes).unwrap_or(u32::MAX);
            return match (known.is_given, processes % nodes) {
                (true, 0) => Ok(words(&["-ppn", &(processes / nodes).to_string()])),
                (true, _) => Err(format!("{processes} processes have no equal shares; use -ppn")),
                (false, _) => Err("the number of processes is needed, with -n".to_owned()),
            };
        }
        let number = match self.map {
            Some(Map::PerPart(number, part)) => number.saturating_mul(parts(part, known.caller)),
            Some(Map::Part(part, _)) if self.spans || self.rank.as_deref() == Some("span") => {
                if known.dialect != Some(Dialect::OpenMpi5) {
                    return Err("the modifier 'span' is not available; use ppr:N:PART".to_owned());
                }
                parts(part, known.caller)
            }
            _ if self.spans => return Err("'span' needs a part of a host".to_owned()),
            _ => return Ok(Vec::new()),
        };
        Ok(words(&["-ppn", &number.to_string()]))
    }

    /// All other options of ours.
    ///
    /// # Errors
    /// The options do not fit each other, or there is no such layout here.
    pub(crate) fn words(&self, known: &Known<'_>) -> Made {
        match known.dialect {
            Some(Dialect::Hydra) => Ok(self.of_hydra(false)),
            Some(Dialect::Intel) => Ok(self.of_hydra(!known.is_pinned && self.map.is_none())),
            Some(Dialect::Srun) => Ok(self.of_srun(known.caller)),
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
