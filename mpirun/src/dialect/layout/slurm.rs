//! Hosts and CPUs by the options of Slurm's `srun`.

use mpd_wire::job::Binding;

use super::{Known, Layout, Map, Unit, bound, is_fine, mapped, parts, positive};
use crate::dialect::binding;
use crate::dialect::language::Facts;
use crate::dialect::made::{Made, words};

/// The options as they are written.
impl Layout {
    /// `--distribution NODES[:SOCKETS]` of Slurm.
    pub(in crate::dialect) fn distribution(&mut self, text: &str) -> Made {
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
    pub(in crate::dialect) fn slurm_bind(&mut self, text: &str) -> Made {
        let (unit, made) = binding::slurm(text)?;
        if text.ends_with("rank_ldom") {
            self.rank = Some("numa".to_owned());
        }
        if let Some(unit) = unit {
            let of = Binding::of_name(unit).filter(|&unit| unit != Binding::None);
            self.bind = Some(of.map_or(Unit::None, |unit| Unit::Part(unit, 1)));
        }
        Ok(made)
    }

    /// `--nodes N` of Slurm.
    pub(in crate::dialect) fn nodes(&mut self, text: &str) -> Made {
        self.nodes = Some(positive(text)?);
        Ok(Vec::new())
    }

    /// `--ntasks-per-node N` of Slurm.
    pub(in crate::dialect) fn per_node(&mut self, text: &str) -> Made {
        self.per_node = Some(positive(text)?);
        Ok(Vec::new())
    }
}

/// The options in our words.
impl Layout {
    /// The hosts of a batch job with the tasks that Slurm gives them. Each host has one at least. Then the first hosts fill their
    /// slots, or all get one in turn.
    pub(super) fn tasks(&self, known: &Known<'_>) -> Vec<String> {
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

    /// Slurm gives the tasks of a host to its sockets in turn.
    pub(super) fn of_srun(&self, caller: &dyn Facts) -> Vec<String> {
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
            Some("numa") => made.extend(mapped(Binding::Numa, "")),
            _ => made.extend(mapped(Binding::Socket, "")),
        }
        made.extend(bound(unit, width));
        made
    }
}
