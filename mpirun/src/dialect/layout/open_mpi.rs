//! Hosts and CPUs by the options of Open MPI. It places ranks in three steps: it maps them to parts of hosts, gives them
//! numbers, and binds them. Without an option for a step, the launcher chooses:
//!
//! - Open MPI 4 maps by core and binds to cores if there are at most two processes. Otherwise it maps by NUMA node and binds
//!   to these. Ranks use mapped parts in turn, also if they are ranked by slot. Ranked by core, they fill the parts in blocks.
//! - Open MPI 5 maps by core, or by the unit to which ranks are bound, and binds to the mapped parts. Each part has an equal
//!   share of consecutive ranks.
//! - Both bind to cores, or to NUMA nodes for more than two processes, if ranks are mapped by slot or node. Open MPI 4 uses
//!   the NUMA nodes in turn, Open MPI 5 fills one after the other.
//! - A binding by default is left out on a host with more ranks than cores.

use mpd_wire::job::Binding;

use super::{Known, Layout, Map, Unit, bound, is_fine, mapped, part, parts, positive};
use crate::dialect::cpus;
use crate::dialect::language::Dialect;
use crate::dialect::translation::{Translation, words};

/// The options as they are written.
impl Layout {
    /// `--map-by POLICY[:MODIFIERS]` of Open MPI, also with `ppr:N:PART`.
    pub(in crate::dialect) fn map_by(&mut self, text: &str) -> Translation {
        let value = text.to_ascii_lowercase();
        if value.starts_with("rankfile") {
            return rank_file(text);
        }
        let mut fields = value.split(':');
        let policy = fields.next().unwrap_or_default();
        let mut made = Vec::new();
        match policy {
            "" => {}
            "seq" => made = words(&["-pick", "lines"]),
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
    pub(in crate::dialect) fn per_part(&mut self, number: &str, name: &str) -> Translation {
        let number = positive(number)?;
        if name == "node" {
            return Ok(words(&["-ppn", &number.to_string()]));
        }
        let part = part(name).ok_or_else(|| format!("the part '{name}' is not available"))?;
        self.map = Some(Map::PerPart(number, part));
        Ok(Vec::new())
    }

    /// `N:PART`.
    pub(in crate::dialect) fn ppr(&mut self, text: &str) -> Translation {
        match text.split_once(':') {
            Some((number, part)) if !part.contains(',') => self.per_part(number, part),
            _ => Err("it must be N:PART, like 2:socket".to_owned()),
        }
    }

    /// `--rank-by POLICY`.
    pub(in crate::dialect) fn rank_by(&mut self, text: &str) -> Translation {
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
    pub(in crate::dialect) fn bind_to(&mut self, text: &str) -> Translation {
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
    pub(in crate::dialect) fn cpu_list(&mut self, text: &str) -> Translation {
        let is_ordered = self.list.as_ref().is_some_and(|list| list.1);
        self.list = Some((text.to_owned(), is_ordered));
        Ok(Vec::new())
    }

    /// `--cpus-per-proc N`.
    pub(in crate::dialect) fn width(&mut self, text: &str) -> Translation {
        self.width = Some(positive(text)?);
        Ok(Vec::new())
    }

    /// `--use-hwthread-cpus`.
    pub(in crate::dialect) fn threads(&mut self) -> Translation {
        self.threads = true;
        Ok(Vec::new())
    }
}

/// `rankfile:file=PATH`, whose path keeps its letters.
fn rank_file(value: &str) -> Translation {
    let mut fields = value.split(':').skip(1);
    let is_key = |field: &&str| field.to_ascii_lowercase().starts_with("file=");
    match (fields.next().filter(is_key), fields.next()) {
        (Some(field), None) => Ok(words(&["-rankfile", &field["file=".len()..]])),
        _ => Err("it must be rankfile:file=PATH".to_owned()),
    }
}

impl Known<'_> {
    /// Whether the job runs on one host.
    fn is_one_host(&self) -> bool {
        self.rooms.is_some_and(|rooms| rooms.len() == 1)
    }

    /// Whether the job fills several hosts, so that each has its slots in any order of the ranks.
    fn fills_hosts(&self) -> bool {
        let sum = |rooms: &[u32]| rooms.iter().map(|&room| u64::from(room)).sum::<u64>();
        self.rooms.is_some_and(|rooms| rooms.len() > 1 && sum(rooms) == self.processes)
    }
}

/// The options in our words.
impl Layout {
    pub(super) fn of_open_mpi(&self, known: &Known<'_>) -> Translation {
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
        let by_node = self.ranks_by_node();
        let is_per_part = matches!(map, Some(Map::PerPart(..)));
        let deals = by_node && !is_per_part && known.fills_hosts();
        if (map == Some(Map::Node) || by_node && is_per_part || deals) && !known.in_turn {
            made.extend(words(&["-rr"]));
        }
        let is_new = known.dialect == Some(Dialect::OpenMpi5);
        let Some((unit, width)) = self.unit(map, known) else {
            self.check_ranking(map.unwrap_or(Map::Slot), known)?;
            if self.bind == Some(Unit::None) {
                made.extend(words(&["-bind-to", "none"]));
            }
            return Ok(made);
        };
        let is_default = self.bind.is_none() && self.width.is_none();
        let map = map.unwrap_or_else(|| self.default_map(unit, known));
        self.check_ranking(map, known)?;
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
            Map::PerPart(_, over) if self.rank.as_deref() == Some("span") => {
                made.extend(mapped(over, ""));
            }
            Map::PerPart(number, over) => made.extend(mapped(over, &format!(":block={number}"))),
        }
        made.extend(bound(unit, width));
        if is_default {
            made.extend(words(&["-bind-if-room"]));
        }
        Ok(made)
    }

    /// The part of the machine that is a CPU: a hardware thread with `hwtcpus`, otherwise a core.
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
        // The defaults of the launcher are for its command lines. Without one, a variable sets only its own option.
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

    /// Whether the numbers of ranks go from host to host, which depends on the slots of the hosts.
    pub(crate) fn ranks_by_node(&self) -> bool {
        self.rank.as_deref() == Some("node")
    }

    /// Refuses to number the ranks in another order than the map gives.
    fn check_ranking(&self, map: Map, known: &Known<'_>) -> Result<(), String> {
        let Some(rank) = &self.rank else { return Ok(()) };
        let is_new = known.dialect == Some(Dialect::OpenMpi5);
        let fits = match (rank.as_str(), map) {
            ("slot", Map::Node) => false,
            ("slot", _) | ("node", Map::Node) => true,
            ("node", Map::Slot | Map::Part(..)) if known.is_one_host() || known.fills_hosts() => {
                true
            }
            ("fill" | "span", Map::Part(..)) => is_new,
            ("fill", Map::Slot | Map::PerPart(..)) => true,
            ("span" | "node", Map::PerPart(..)) => is_new,
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
