//! Hosts and CPUs by the options of Slurm's `srun`.

use std::collections::BTreeMap;

use mpd_placement::cpu::Cpu;
use mpd_placement::locality::list;
use mpd_wire::job::Binding;

use super::{Known, Layout, Map, Slurm, Unit, bound, is_fine, mapped, parts, positive, shares};
use crate::dialect::language::Facts;
use crate::dialect::translation::{Translation, words};
use crate::dialect::{binding, cpus};

/// The options as they are written.
impl Layout {
    /// `--distribution NODES[:SOCKETS[:CORES]][,Pack|NoPack]` of Slurm.
    pub(in crate::dialect) fn distribution(&mut self, text: &str) -> Translation {
        let text = text.to_ascii_lowercase();
        let unknown = || format!("'{text}' is not available");
        let methods = text.split(',').next().unwrap_or_default();
        let mut levels = methods.split(':');
        let nodes = levels.next().unwrap_or_default();
        match levels.next().unwrap_or_default() {
            sockets @ ("block" | "fcyclic") => self.rank = Some(sockets.to_owned()),
            "cyclic" | "*" | "" => {}
            _ => return Err(unknown()),
        }
        // Without the plugin task/cgroup, Slurm does not use the third level either.
        if !["block", "cyclic", "fcyclic", "*", ""].contains(&levels.next().unwrap_or_default()) {
            return Err(unknown());
        }
        match nodes.split_once('=') {
            None if nodes == "cyclic" => self.map = Some(Map::Node),
            None if nodes == "arbitrary" => self.slurm.arbitrary = true,
            None if ["block", "*", "", "unknown"].contains(&nodes) => {}
            Some(("plane", number)) => return Ok(words(&["-ppn", &positive(number)?.to_string()])),
            _ => return Err(unknown()),
        }
        Ok(Vec::new())
    }

    /// `--cpu-bind` of Slurm.
    pub(in crate::dialect) fn slurm_bind(&mut self, text: &str, caller: &dyn Facts) -> Translation {
        let (unit, made) = binding::slurm(text, caller)?;
        if text.ends_with("rank_ldom") {
            self.rank = Some("numa".to_owned());
        }
        if let Some(unit) = unit {
            let of = Binding::of_name(unit).filter(|&unit| unit != Binding::None);
            self.bind = Some(of.map_or(Unit::None, |unit| Unit::Part(unit, 1)));
        }
        Ok(made)
    }

    /// `--nodes N[-M]` of Slurm.
    pub(in crate::dialect) fn nodes(&mut self, text: &str) -> Translation {
        let number = |text: &str| match text.strip_suffix(['k', 'K']) {
            Some(thousands) => positive(thousands).map(|number| number.saturating_mul(1024)),
            None => positive(text),
        };
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        let range = (number(low)?, number(high)?);
        if range.0 > range.1 {
            return Err("the smaller number comes first".to_owned());
        }
        self.slurm.nodes = Some(range);
        Ok(Vec::new())
    }

    /// `--ntasks-per-node N` of Slurm.
    pub(in crate::dialect) fn per_node(&mut self, text: &str) -> Translation {
        self.slurm.per_node = Some(positive(text)?);
        Ok(Vec::new())
    }

    /// `--relative N` of Slurm.
    pub(in crate::dialect) fn relative(&mut self, text: &str) -> Translation {
        self.slurm.first = Some(text.parse().map_err(|_| format!("{text:?} is not a number"))?);
        Ok(Vec::new())
    }

    /// `--multi-prog` of Slurm.
    pub(in crate::dialect) fn multi_prog(&mut self) -> Translation {
        self.slurm.multi_prog = true;
        Ok(Vec::new())
    }

    /// `--hint` of Slurm.
    pub(in crate::dialect) fn hint(&mut self, text: &str) -> Translation {
        match text {
            "nomultithread" | "compute_bound" => self.slurm.single = true,
            "memory_bound" => (self.slurm.single, self.slurm.one_core) = (true, true),
            "multithread" => self.slurm.single = false,
            _ => return Err(format!("'{text}' is not available; see --cpu-bind")),
        }
        Ok(Vec::new())
    }

    /// `--threads-per-core N` of Slurm.
    pub(in crate::dialect) fn threads_per_core(&mut self, text: &str) -> Translation {
        self.slurm.single = positive(text)? == 1;
        Ok(Vec::new())
    }

    /// Whether the program is a file of programs, as with `--multi-prog`.
    pub(crate) const fn is_multi_prog(&self) -> bool {
        self.slurm.multi_prog
    }

    /// Whether a file has the host of each task, as with `--distribution=arbitrary`.
    pub(crate) const fn is_arbitrary(&self) -> bool {
        self.slurm.arbitrary
    }

    /// Whether an option says to what ranks are bound.
    pub(crate) const fn binds(&self) -> bool {
        self.bind.is_some()
    }

    /// The number of tasks of `srun` without an option or variable for it, on a batch job of so many hosts; `None` if the named
    /// hosts decide.
    pub(crate) fn tasks_by_default(&self, slots: &[(String, u32)]) -> Option<u32> {
        let Slurm { nodes, per_node, .. } = self.slurm;
        let all = u32::try_from(self.left_of(slots).len()).unwrap_or(u32::MAX);
        let nodes = match (nodes, all) {
            (Some((_, high)), 0) => high,
            (Some((_, high)), all) => high.min(all),
            (None, 0) => return None,
            (None, all) => all,
        };
        Some(nodes.saturating_mul(per_node.unwrap_or(1)))
    }

    /// How many of so many named hosts are used, if each gets an equal share of the tasks; `None` if options say how many it gets.
    pub(crate) fn named_hosts(&self, named: usize, tasks: u32) -> Option<usize> {
        let most = self.slurm.nodes.map_or(u32::MAX, |(_, high)| high).min(tasks);
        self.slurm.per_node.is_none().then(|| named.min(most as usize))
    }

    /// Whether the tasks have unequal shares on the hosts that `--nodes` asks for.
    pub(crate) fn is_uneven(&self, tasks: u32) -> bool {
        let Slurm { nodes, per_node, .. } = self.slurm;
        per_node.is_none() && nodes.is_some_and(|(_, high)| !tasks.is_multiple_of(high.min(tasks)))
    }

    /// The hosts of a batch job that `--relative` leaves.
    fn left_of<'a>(&self, slots: &'a [(String, u32)]) -> &'a [(String, u32)] {
        slots.get(self.slurm.first.unwrap_or(0) as usize..).unwrap_or_default()
    }
}

impl Slurm {
    /// Adds the options of another section.
    pub(super) fn join(&mut self, other: &Self) {
        self.nodes = other.nodes.or(self.nodes);
        self.per_node = other.per_node.or(self.per_node);
        self.first = other.first.or(self.first);
        self.arbitrary |= other.arbitrary;
        self.single |= other.single;
        self.one_core |= other.one_core;
        self.multi_prog |= other.multi_prog;
    }
}

/// The options in our words.
impl Layout {
    /// How many tasks each host has.
    pub(super) fn shares_of_srun(&self, known: &Known<'_>) -> Vec<String> {
        if known.is_shared {
            return Vec::new();
        }
        if known.is_given && !known.slots.is_empty() {
            return self.tasks(known);
        }
        let processes = u32::try_from(known.processes).unwrap_or(u32::MAX);
        let each = match (self.slurm.per_node, self.slurm.nodes) {
            (Some(each), _) => each,
            (None, Some((_, nodes))) if !known.per_host => {
                let nodes = nodes.min(processes);
                let hosts = known.hosts.get(..nodes as usize).unwrap_or_default();
                if !processes.is_multiple_of(nodes) && !hosts.is_empty() {
                    let shares = hosts.iter().zip(shares(processes, nodes));
                    let shares = shares.map(|(host, share)| format!("{host}:{share}"));
                    return words(&["-hosts", &shares.collect::<Vec<_>>().join(",")]);
                }
                processes.div_ceil(nodes)
            }
            (None, _) => return Vec::new(),
        };
        words(&["-ppn", &each.to_string()])
    }

    /// The hosts of a batch job with the tasks that Slurm gives them. Each host has one at least. Then the first hosts fill their
    /// slots, or all get one in turn.
    fn tasks(&self, known: &Known<'_>) -> Vec<String> {
        let all = u32::try_from(known.processes).unwrap_or(u32::MAX);
        let count = self.slurm.nodes.map_or(all, |(_, high)| high).min(all) as usize;
        let left = self.left_of(known.slots);
        let hosts = &left[..count.min(left.len())];
        let room = |slots: u32| slots.min(self.slurm.per_node.unwrap_or(u32::MAX)).max(1);
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

    /// Slurm gives the tasks of a host to its sockets in turn.
    pub(super) fn of_srun(&self, known: &Known<'_>) -> Vec<String> {
        let caller = known.caller;
        let single = self.slurm.single;
        let mut made = match self.map {
            Some(Map::Node) => words(&["-rr"]),
            _ => Vec::new(),
        };
        if known.is_pinned {
            return made;
        }
        let (unit, width) = match (&self.bind, self.width) {
            (Some(Unit::None | Unit::Ours(_)), _) => {
                return [made, words(&["-bind-to", "none"])].concat();
            }
            (Some(Unit::Part(Binding::Core, _)), Some(cpus)) => {
                let threads = parts(Binding::Thread, caller) / parts(Binding::Core, caller);
                let threads = if single { 1 } else { threads.max(1) };
                (Binding::Core, cpus.div_ceil(threads))
            }
            (Some(Unit::Part(unit, _)), Some(cpus)) if is_fine(*unit) => (*unit, cpus),
            (Some(Unit::Part(unit, _)), _) => (*unit, 1),
            (None, Some(cpus)) => (Binding::Thread, cpus),
            (None, None) if single => (Binding::Thread, 1),
            (None, None) => return made,
        };
        if self.rank.as_deref() == Some("fcyclic") && is_fine(unit) {
            made.extend(cpus::user(&across_sockets(unit, width, single, &caller.cpus())));
            return made;
        }
        if single {
            let most = if self.slurm.one_core { 1 } else { usize::MAX };
            let sockets = cores(&caller.cpus(), true).into_values();
            let firsts = sockets.flat_map(|cores| cores.into_iter().take(most)).flatten();
            made.extend(words(&["-only-cpus", &list(firsts)]));
        }
        match self.rank.as_deref() {
            Some("block") if is_fine(unit) => {}
            Some("block") => made.extend(mapped(Binding::Core, "")),
            Some("numa") => made.extend(mapped(Binding::Numa, "")),
            _ => made.extend(mapped(Binding::Socket, "")),
        }
        made.extend(bound(unit, width));
        made
    }
}

/// The cores of each socket of this host, each with its CPUs, or with the first only.
fn cores(all: &[Cpu], single: bool) -> BTreeMap<u32, Vec<Vec<u32>>> {
    let mut all = all.to_vec();
    all.sort_unstable_by_key(|cpu| (cpu.socket, cpu.node, cpu.core, cpu.number));
    let mut sockets: BTreeMap<u32, Vec<Vec<u32>>> = BTreeMap::new();
    let mut last = None;
    for cpu in all {
        let cores = sockets.entry(cpu.socket).or_default();
        let core = Some((cpu.node, cpu.core));
        match cores.last_mut().filter(|_| last == core) {
            Some(_) if single => {}
            Some(known) => known.push(cpu.number),
            None => cores.push(vec![cpu.number]),
        }
        last = core;
    }
    sockets
}

/// Lists of CPUs for ranks that get one unit of each socket in turn.
fn across_sockets(unit: Binding, width: u32, single: bool, all: &[Cpu]) -> String {
    let units = cores(all, single).into_values().map(|cores| match unit {
        Binding::Core => cores,
        _ => cores.into_iter().flatten().map(|cpu| vec![cpu]).collect(),
    });
    let mut sockets: Vec<_> = units.map(Vec::into_iter).collect();
    let mut in_turn: Vec<Vec<u32>> = Vec::new();
    loop {
        let before = in_turn.len();
        in_turn.extend(sockets.iter_mut().filter_map(Iterator::next));
        if in_turn.len() == before {
            break;
        }
    }
    let rank = |units: &[Vec<u32>]| list(units.concat()).replace(',', "+");
    in_turn.chunks(width.max(1) as usize).map(rank).collect::<Vec<_>>().join(",")
}
