//! The options of Open MPI and of Hydra that choose hosts and CPUs of ranks. They depend on each other: the default of one
//! follows from another, and from the number of processes. So they are collected first, and become options of ours when the
//! whole command line is known.
//!
//! Open MPI places ranks in three steps: it maps them to parts of hosts, gives them numbers, and binds them. Without an
//! option for a step, the launcher chooses:
//!
//! - Open MPI 4 maps by core and binds to cores if there are at most two processes. Otherwise it maps by NUMA node and binds
//!   to these. Ranks use mapped parts in turn, also if they are ranked by slot. Ranked by core, they fill the parts in blocks.
//! - Open MPI 5 maps by core, or by the unit to which ranks are bound, and binds to the mapped parts. Each part has an equal
//!   share of consecutive ranks.
//! - Both bind to cores, or to NUMA nodes for more than two processes, if ranks are mapped by slot or node. Open MPI 4 uses
//!   the NUMA nodes in turn, Open MPI 5 fills one after the other.
//! - A binding by default is left out on a host with more ranks than cores.
//!
//! Hydra binds only with `-bind-to`. Ranks use mapped parts in turn, which are those of the binding by default.

use std::collections::BTreeSet;

use mpd_wire::job::Binding;

use super::language::{Dialect, Facts};
use super::made::{Made, words};
use super::{binding, cpus};

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

    /// `--map-by POLICY[:MODIFIERS]` of Open MPI, also with `ppr:N:PART`.
    pub(super) fn map_by(&mut self, text: &str) -> Made {
        let value = text.to_ascii_lowercase();
        if value.starts_with("rankfile") {
            return rank_file(text);
        }
        let mut fields = value.split(':');
        let policy = fields.next().unwrap_or_default();
        let mut made = Vec::new();
        match policy {
            "" => {}
            "ppr" => {
                let number = fields.next().unwrap_or_default();
                made = self.per_part(number, fields.next().unwrap_or_default())?;
            }
            _ => match policy.strip_prefix("pe-list=") {
                Some(list) => self.list = Some((list.to_owned(), false)),
                None => self.map_to(policy)?,
            },
        }
        for modifier in fields.flat_map(|field| field.split(',')) {
            match modifier.split_once('=').unwrap_or((modifier, "")) {
                ("pe", number) => self.width = Some(positive(number)?),
                ("oversubscribe" | "inherit" | "noinherit" | "" | "corecpus" | "corecpu", "") => {}
                ("ordered", "") if self.list.is_some() => {
                    self.list.iter_mut().for_each(|list| list.1 = true);
                }
                ("nooversubscribe", "") => made.extend(words(&["-nooversubscribe"])),
                ("nolocal", "") => made.extend(words(&["-nolocal"])),
                ("hwtcpus" | "hwtcpu", "") => self.threads = true,
                ("span", "") => self.spans = true,
                _ => return Err(format!("the modifier '{modifier}' is not available")),
            }
        }
        Ok(made)
    }

    /// `slot`, `node` or a part.
    fn map_to(&mut self, policy: &str) -> Result<(), String> {
        let unknown = || format!("the policy '{policy}' is not available");
        self.map = Some(match policy {
            "slot" => Map::Slot,
            "node" => Map::Node,
            _ => Map::Part(part(policy).ok_or_else(unknown)?, 1),
        });
        Ok(())
    }

    /// So many ranks for each part of each host.
    pub(super) fn per_part(&mut self, number: &str, name: &str) -> Made {
        let number = positive(number)?;
        if name == "node" {
            return Ok(words(&["-ppn", &number.to_string()]));
        }
        let part = part(name).ok_or_else(|| format!("the part '{name}' is not available"))?;
        self.map = Some(Map::PerPart(number, part));
        Ok(Vec::new())
    }

    /// `N:PART`.
    pub(super) fn ppr(&mut self, text: &str) -> Made {
        match text.split_once(':') {
            Some((number, part)) if !part.contains(',') => self.per_part(number, part),
            _ => Err("it must be N:PART, like 2:socket".to_owned()),
        }
    }

    /// `--rank-by POLICY`.
    pub(super) fn rank_by(&mut self, text: &str) -> Made {
        let text = text.to_ascii_lowercase();
        match text.as_str() {
            "slot" | "fill" | "span" | "node" => {}
            _ if part(&text).is_some() => {}
            _ => return Err(format!("the policy '{text}' is not available")),
        }
        self.rank = Some(text);
        Ok(Vec::new())
    }

    /// `--bind-to UNIT[:MODIFIERS]` of Open MPI.
    pub(super) fn bind_to(&mut self, text: &str) -> Made {
        let value = text.to_ascii_lowercase();
        match value.as_str() {
            "cpu-list:ordered" | "cpulist:ordered" => {
                // --cpu-list gave the list, or will give it.
                let list = self.list.take().map_or_else(String::new, |list| list.0);
                self.list = Some((list, true));
                return Ok(Vec::new());
            }
            "cpu-list" | "cpulist" => {
                self.bind = Some(Unit::None);
                return Ok(Vec::new());
            }
            _ => {}
        }
        let (unit, modifiers) = value.split_once(':').unwrap_or((&value, ""));
        for modifier in modifiers.split([',', ':']).filter(|modifier| !modifier.is_empty()) {
            match modifier {
                "overload-allowed" | "if-supported" | "overload" | "no-overload" => {}
                "report" => {
                    self.bind_to(unit)?;
                    return Ok(words(&["-report-bindings"]));
                }
                _ => return Err(format!("the modifier '{modifier}' is not available")),
            }
        }
        let unknown = || format!("the unit '{unit}' is not available");
        self.bind = Some(match unit {
            "none" | "board" | "machine" => Unit::None,
            _ => Unit::Part(part(unit).ok_or_else(unknown)?, 1),
        });
        Ok(Vec::new())
    }

    /// `--cpu-set` and `--cpu-list` of Open MPI.
    pub(super) fn cpu_list(&mut self, text: &str) -> Made {
        let is_ordered = self.list.as_ref().is_some_and(|list| list.1);
        self.list = Some((text.to_owned(), is_ordered));
        Ok(Vec::new())
    }

    /// `--cpus-per-proc N`.
    pub(super) fn width(&mut self, text: &str) -> Made {
        self.width = Some(positive(text)?);
        Ok(Vec::new())
    }

    /// `--use-hwthread-cpus`.
    pub(super) fn threads(&mut self) -> Made {
        self.threads = true;
        Ok(Vec::new())
    }

    /// `--distribution NODES[:SOCKETS]` of Slurm.
    pub(super) fn distribution(&mut self, text: &str) -> Made {
        let unknown = || format!("'{text}' is not available");
        let (nodes, sockets) = text.split_once(':').unwrap_or((text, ""));
        match sockets {
            "block" => self.rank = Some("block".to_owned()),
            "cyclic" | "*" | "" => {}
            _ => return Err(unknown()),
        }
        match nodes.split_once('=') {
            None if nodes == "cyclic" => self.map = Some(Map::Node),
            None if ["block", "*", ""].contains(&nodes) => {}
            Some(("plane", number)) => return Ok(words(&["-ppn", &positive(number)?.to_string()])),
            _ => return Err(unknown()),
        }
        Ok(Vec::new())
    }

    /// `--cpu-bind` of Slurm.
    pub(super) fn slurm_bind(&mut self, text: &str) -> Made {
        let (unit, made) = binding::slurm(text)?;
        if let Some(unit) = unit {
            let of = Binding::of_name(unit).filter(|&unit| unit != Binding::None);
            self.bind = Some(of.map_or(Unit::None, |unit| Unit::Part(unit, 1)));
        }
        Ok(made)
    }

    /// `--nodes N` of Slurm.
    pub(super) fn nodes(&mut self, text: &str) -> Made {
        self.nodes = Some(positive(text)?);
        Ok(Vec::new())
    }

    /// `--ntasks-per-node N` of Slurm.
    pub(super) fn per_node(&mut self, text: &str) -> Made {
        self.per_node = Some(positive(text)?);
        Ok(Vec::new())
    }

    /// `-bind-to` of Hydra, and `-binding` of Intel MPI with variables like `domain=socket`.
    pub(super) fn hydra_bind(&mut self, text: &str, caller: &dyn Facts) -> Made {
        if text.contains('=') {
            return variables(text);
        }
        self.bind = Some(match text {
            "none" | "machine" => Unit::None,
            "rr" => Unit::Ours(cpus::round_robin(caller)),
            _ if text.starts_with("user:") || text == "slots" => Unit::Ours(text.to_owned()),
            _ => {
                let (unit, number) = numbered(text)?;
                let unknown = || format!("the unit '{text}' is not available");
                Unit::Part(unit.ok_or_else(unknown)?, number)
            }
        });
        Ok(Vec::new())
    }

    /// `-map-by` of Hydra.
    pub(super) fn hydra_map(&mut self, text: &str) -> Made {
        self.map = Some(match numbered(text)? {
            _ if ["machine", "slot", "none"].contains(&text) => Map::Slot,
            _ if text == "node" => Map::Node,
            (Some(unit), number) => Map::Part(unit, number),
            (None, _) => return Err(format!("the part '{text}' is not available")),
        });
        Ok(Vec::new())
    }
}

/// `pin=yes;domain=socket`: variables of the same names.
fn variables(text: &str) -> Made {
    let mut made = Vec::new();
    for field in text.split(';').filter(|field| !field.is_empty()) {
        let name = match field.split_once('=') {
            Some(("pin", _)) => "I_MPI_PIN",
            Some(("domain", _)) => "I_MPI_PIN_DOMAIN",
            Some(("cell", _)) => "I_MPI_PIN_CELL",
            Some(("order", _)) => "I_MPI_PIN_ORDER",
            _ => return Err(format!("'{field}' is not available; see I_MPI_PIN_DOMAIN")),
        };
        let value = field.split_once('=').map_or("", |(_, value)| value);
        made.extend(words(&["-genv", name, value]));
    }
    Ok(made)
}

/// A part, with a number after a colon.
fn numbered(text: &str) -> Result<(Option<Binding>, u32), String> {
    let (name, number) = text.split_once(':').unwrap_or((text, "1"));
    Ok((part(name), positive(number)?))
}

/// `rankfile:file=PATH`, whose path keeps its letters.
fn rank_file(value: &str) -> Made {
    let mut fields = value.split(':').skip(1);
    let is_key = |field: &&str| field.to_ascii_lowercase().starts_with("file=");
    match (fields.next().filter(is_key), fields.next()) {
        (Some(field), None) => Ok(words(&["-rankfile", &field["file=".len()..]])),
        _ => Err("it must be rankfile:file=PATH".to_owned()),
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

    /// The hosts of a batch job with the tasks that Slurm gives them. Each host has one at least. Then the first hosts fill their
    /// slots, or all get one in turn.
    fn tasks(&self, known: &Known<'_>) -> Vec<String> {
        let all = u32::try_from(known.processes).unwrap_or(u32::MAX);
        let count = self.nodes.unwrap_or(all).min(all) as usize;
        let hosts = &known.slots[..count.min(known.slots.len())];
        let room = |slots: u32| slots.min(self.per_node.unwrap_or(u32::MAX)).max(1);
        let mut tasks = vec![1; hosts.len()];
        let mut left = all.saturating_sub(u32::try_from(hosts.len()).unwrap_or(u32::MAX));
        let in_turn = self.map == Some(Map::Node);
        while left > 0 {
            let mut given = 0;
            for (tasks, (_, slots)) in tasks.iter_mut().zip(hosts) {
                let free = room(*slots).saturating_sub(*tasks);
                let more = free.min(left - given).min(if in_turn { 1 } else { u32::MAX });
                *tasks += more;
                given += more;
            }
            left -= given;
            if given == 0 {
                break;
            }
        }
        let host = |((name, _), tasks): (&(String, u32), u32)| format!("{name}:{tasks}");
        words(&["-hosts", &hosts.iter().zip(tasks).map(host).collect::<Vec<_>>().join(",")])
    }

    fn of_hydra(&self, pins: bool) -> Vec<String> {
        let mut made = match self.map {
            Some(Map::Node) => words(&["-rr"]),
            _ => Vec::new(),
        };
        let (unit, width) = match &self.bind {
            // Intel MPI pins ranks by default, unless variables say how.
            None if pins => return words(&["-bind-to", "slots"]),
            None => return made,
            Some(Unit::None) => return [made, words(&["-bind-to", "none"])].concat(),
            Some(Unit::Ours(value)) => return [made, words(&["-bind-to", value])].concat(),
            Some(Unit::Part(unit, width)) => (*unit, *width),
        };
        match self.map {
            Some(Map::Part(over, joined)) => made.extend(mapped(over, &number(joined))),
            _ if width == 1 && !is_fine(unit) => made.extend(mapped(unit, "")),
            _ => {}
        }
        made.extend(bound(unit, width));
        made
    }

    /// Slurm gives the tasks of a host to its sockets in turn.
    fn of_srun(&self, caller: &dyn Facts) -> Vec<String> {
        let mut made = match self.map {
            Some(Map::Node) => words(&["-rr"]),
            _ => Vec::new(),
        };
        let (unit, width) = match (&self.bind, self.width) {
            (Some(Unit::None | Unit::Ours(_)), _) => {
                return [made, words(&["-bind-to", "none"])].concat();
            }
            (Some(Unit::Part(Binding::Core, _)), Some(cpus)) => {
                let threads = parts(Binding::Thread, caller) / parts(Binding::Core, caller);
                (Binding::Core, cpus.div_ceil(threads.max(1)))
            }
            (Some(Unit::Part(unit, _)), Some(cpus)) if is_fine(*unit) => (*unit, cpus),
            (Some(Unit::Part(unit, _)), _) => (*unit, 1),
            (None, Some(cpus)) => (Binding::Thread, cpus),
            (None, None) => return made,
        };
        match self.rank.as_deref() {
            Some("block") if is_fine(unit) => {}
            Some("block") => made.extend(mapped(Binding::Core, "")),
            _ => made.extend(mapped(Binding::Socket, "")),
        }
        made.extend(bound(unit, width));
        made
    }

    fn of_open_mpi(&self, known: &Known<'_>) -> Made {
        if let Some((list, is_ordered)) = &self.list {
            let only = cpus::only_cores(list)?;
            return Ok(match (is_ordered, &self.bind) {
                (true, _) => words(&["-bind-to", &format!("user:{}", cpus::single_cores(list)?)]),
                (false, Some(Unit::Part(unit, _))) => {
                    [words(&["-only-cpus", &only]), bound(*unit, 1)].concat()
                }
                (false, _) => words(&["-only-cpus", &only]),
            });
        }
        let mut made = Vec::new();
        let map = match self.map {
            None if known.per_host => Some(Map::Slot),
            None if known.in_turn => Some(Map::Node),
            map => map,
        };
        if map == Some(Map::Node) && !known.in_turn {
            made.extend(words(&["-rr"]));
        }
        let is_new = known.dialect == Some(Dialect::OpenMpi5);
        let Some((unit, width)) = self.unit(map, known) else {
            self.check_ranking(map.unwrap_or(Map::Slot), is_new)?;
            if self.bind == Some(Unit::None) {
                made.extend(words(&["-bind-to", "none"]));
            }
            return Ok(made);
        };
        let is_default = self.bind.is_none() && self.width.is_none();
        let map = map.unwrap_or_else(|| self.default_map(unit, known));
        self.check_ranking(map, is_new)?;
        match map {
            Map::Slot | Map::Node if is_fine(unit) => {}
            Map::Slot | Map::Node if is_new => made.extend(mapped(Binding::Core, "")),
            Map::Slot | Map::Node => made.extend(mapped(unit, "")),
            Map::Part(over, _) if is_fine(over) && unit == over && !is_new => {}
            Map::Part(over, _) => {
                let how = if self.are_blocks(over, is_new) { ":even" } else { "" };
                made.extend(mapped(over, how));
            }
            Map::PerPart(1, over) => made.extend(mapped(over, "")),
            Map::PerPart(number, over) => made.extend(mapped(over, &format!(":block={number}"))),
        }
        made.extend(bound(unit, width));
        if is_default {
            made.extend(words(&["-bind-if-room"]));
        }
        Ok(made)
    }

    /// What counts as a CPU.
    const fn cpu(&self) -> Binding {
        if self.threads { Binding::Thread } else { Binding::Core }
    }

    /// The unit to which ranks are bound, and how many of them.
    fn unit(&self, map: Option<Map>, known: &Known<'_>) -> Option<(Binding, u32)> {
        let few = known.processes <= 2;
        let is_new = known.dialect == Some(Dialect::OpenMpi5);
        match (&self.bind, self.width) {
            (Some(Unit::None | Unit::Ours(_)), _) => return None,
            (Some(Unit::Part(unit, _)), Some(width)) if is_fine(*unit) => {
                return Some((*unit, width));
            }
            (_, Some(width)) => return Some((self.cpu(), width)),
            (Some(Unit::Part(unit, _)), None) => return Some((*unit, 1)),
            (None, None) => {}
        }
        // A variable alone asks for no default.
        known.dialect?;
        let unit = match map {
            None if few || is_new => self.cpu(),
            Some(Map::Part(over, _)) => over,
            Some(Map::PerPart(_, over)) if is_new => over,
            _ if few => self.cpu(),
            _ => Binding::Numa,
        };
        Some((unit, 1))
    }

    /// The map of the launcher for a binding.
    fn default_map(&self, unit: Binding, known: &Known<'_>) -> Map {
        let few = known.processes <= 2;
        let map = match known.dialect {
            Some(Dialect::OpenMpi5) if self.width.is_some() => Map::Slot,
            Some(Dialect::OpenMpi5) => Map::Part(unit, 1),
            None => Map::Slot,
            _ if self.width.is_some() || !few => Map::Part(Binding::Numa, 1),
            _ if unit == Binding::Thread => Map::Part(Binding::Thread, 1),
            _ => Map::Part(Binding::Core, 1),
        };
        match map {
            // The host is one part.
            Map::Part(Binding::Numa, _)
                if known.dialect != Some(Dialect::OpenMpi5)
                    && parts(Binding::Numa, known.caller) == 1 =>
            {
                Map::Slot
            }
            map => map,
        }
    }

    /// Whether parts get blocks of consecutive ranks.
    fn are_blocks(&self, over: Binding, is_new: bool) -> bool {
        match self.rank.as_deref() {
            _ if self.spans => false,
            None => is_new,
            Some("fill") => true,
            Some(rank) => part(rank).is_some_and(is_fine) && !is_fine(over),
        }
    }

    /// Refuses to number the ranks in another order than the map gives.
    fn check_ranking(&self, map: Map, is_new: bool) -> Result<(), String> {
        let Some(rank) = &self.rank else { return Ok(()) };
        let fits = match (rank.as_str(), map) {
            ("slot", Map::Node) => false,
            ("slot", _) | ("node", Map::Node) => true,
            ("fill" | "span", Map::Part(..)) => is_new,
            ("fill", Map::Slot) => true,
            (name, Map::Part(over, _)) if !is_new => {
                let by = part(name);
                by == Some(over) || by.is_some_and(is_fine)
            }
            (name, Map::Slot | Map::PerPart(..)) if !is_new => part(name).is_some_and(is_fine),
            _ => false,
        };
        match fits {
            true => Ok(()),
            false => Err(format!(
                "--rank-by {rank} is not available here: ranks are numbered in the order of --map-by"
            )),
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
