//! The user's options for where ranks run. The specification carries them. `mpd-placement`
//! evaluates them when the members of the ring are known.

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::is_daemon_name;
use crate::job::bounds::{MAX_HOST_ENTRIES, MAX_HOSTS, Misfit};
use crate::job::cpu_choice::CpuChoices;

/// Most GPUs of one rank.
pub const MAX_GPUS: u32 = 1024;

/// Where the ranks of a job run, as far as the user chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlacementSpec {
    /// The hosts to use, in this order; empty: every member, in ring order.
    #[serde(deserialize_with = "at_most::<_, _, MAX_HOST_ENTRIES>")]
    pub hosts: Vec<HostChoice>,
    /// Hosts that get no rank.
    #[serde(deserialize_with = "at_most::<_, _, MAX_HOSTS>")]
    pub exclude: Vec<String>,
    /// Ranks that each host takes before the next one, instead of its slots.
    pub per_host: Option<u32>,
    /// How consecutive ranks are spread.
    pub order: RankOrder,
    /// Ranks of one group: consecutive ranks on one host.
    pub group: Option<u32>,
    /// Whether ring order begins with the console's host, and not with its successor.
    pub here_first: bool,
    /// The unit that each rank is bound to.
    pub binding: Binding,
    /// How many of these units each rank gets, at least one. Equal shares are one unit.
    pub width: u32,
    /// Whether the ranks of a host stay unbound if it has fewer of their units than they need.
    pub if_room: bool,
    /// Parts of the host that consecutive ranks use in turn; `None`: the host as a whole.
    pub spread: Option<Spread>,
    /// The CPUs that the user names.
    pub cpus: CpuChoices,
    /// How many GPUs each rank gets; `None`: GPUs are not assigned.
    pub gpus: Option<u32>,
    /// Whether more ranks than slots are an error.
    pub strict: bool,
    /// Whether the user wants a list of the ranks of each host.
    pub print_rank_map: bool,
    /// Whether the user wants to know the CPUs of each rank.
    pub report_bindings: bool,
}

/// A host that the user names.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostChoice {
    /// Its name as the user wrote it.
    pub name: String,
    /// Ranks that it takes before the next host; `None`: as its daemon configures.
    pub slots: Option<u32>,
    /// Most ranks of the job there; `None`: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// The number of its GPUs; `None`: as the system lists them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Its speed in hundredths of that of an ordinary host; `None`: as its daemon says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<u32>,
}

impl HostChoice {
    /// A host with this number of slots.
    pub const fn new(name: String, slots: Option<u32>) -> Self {
        Self { name, slots, max: None, gpus: None, speed: None }
    }
}

/// How consecutive ranks are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankOrder {
    /// A host fills all its slots, then the next host does.
    #[default]
    BySlot,
    /// Each host takes one rank in turn.
    RoundRobin,
}

/// The unit that a rank is bound to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// No binding.
    #[default]
    None,
    Core,
    /// The cores of a NUMA node.
    Numa,
    /// Its host slice of the host's cores.
    Slots,
    /// A hardware thread.
    Thread,
    /// The cores that share a cache of the last level.
    Cache,
    /// The cores of a socket.
    Socket,
}

/// Parts of a host that ranks use in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// The kind of the parts: anything but [`Binding::None`] and [`Binding::Slots`].
    pub over: Binding,
    /// How many consecutive ranks use one part, at least one; `None`: an equal share of the ranks of the host.
    pub block: Option<u32>,
    /// How many neighbouring parts count as one, at least one.
    pub joined: u32,
}

impl Binding {
    const ALL: [Self; 7] =
        [Self::None, Self::Core, Self::Numa, Self::Slots, Self::Thread, Self::Cache, Self::Socket];

    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Core => "core",
            Self::Numa => "numa",
            Self::Slots => "slots",
            Self::Thread => "hwthread",
            Self::Cache => "l3cache",
            Self::Socket => "socket",
        }
    }

    /// The binding called `name`.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|binding| binding.name() == name)
    }
}

impl Default for PlacementSpec {
    /// No choice: every member in ring order from the console's host, each with its slots.
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            exclude: Vec::new(),
            per_host: None,
            order: RankOrder::default(),
            group: None,
            here_first: true,
            binding: Binding::default(),
            width: 1,
            if_room: false,
            spread: None,
            cpus: CpuChoices::default(),
            gpus: None,
            strict: false,
            print_rank_map: false,
            report_bindings: false,
        }
    }
}

impl PlacementSpec {
    /// Whether ranks may be bound to CPUs.
    pub fn binds(&self) -> bool {
        let chosen = &self.cpus;
        self.binding != Binding::None || !chosen.lists.is_empty() || chosen.only.is_some()
    }

    /// Checks whether this can be placed, provided that the hosts exist.
    pub(super) fn check(&self) -> Result<(), Misfit> {
        if self.per_host == Some(0) || self.group == Some(0) {
            return Err(Misfit::NoRanks);
        }
        if let (Some(each), Some(group)) = (self.per_host, self.group)
            && each % group != 0
        {
            return Err(Misfit::Groups { each, group });
        }
        let is_unit = |unit| !matches!(unit, Binding::None | Binding::Slots);
        let is_part =
            |spread: Spread| spread.block != Some(0) && spread.joined > 0 && is_unit(spread.over);
        let spreads = self.spread.is_none_or(|s| is_part(s) && self.binding != Binding::Slots);
        if self.width == 0 || (self.width > 1 && !is_unit(self.binding)) || !spreads {
            return Err(Misfit::Binding);
        }
        let is_listed = !self.cpus.lists.is_empty();
        let has_units = self.binding != Binding::None || self.spread.is_some();
        if is_listed && (has_units || self.cpus.only.is_some()) {
            return Err(Misfit::Lists);
        }
        if self.gpus.is_some_and(|gpus| !(1..=MAX_GPUS).contains(&gpus)) {
            return Err(Misfit::Gpus);
        }
        self.cpus.check()?;
        check_hosts(&self.hosts)?;
        check_names(self.exclude.iter().map(String::as_str))
    }
}

/// Checks whether these can be hosts.
pub(crate) fn check_hosts(hosts: &[HostChoice]) -> Result<(), Misfit> {
    if hosts.iter().any(|host| host.slots == Some(0) || host.max == Some(0)) {
        return Err(Misfit::NoRanks);
    }
    if hosts.len() > MAX_HOST_ENTRIES {
        return Err(Misfit::TooManyHosts(hosts.len()));
    }
    check_each(hosts.iter().map(|host| host.name.as_str()))
}

pub(crate) fn check_names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Result<(), Misfit> {
    if names.len() > MAX_HOSTS {
        return Err(Misfit::TooManyHosts(names.len()));
    }
    check_each(names)
}

fn check_each<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), Misfit> {
    // Other texts cannot name a member of the ring, and could disturb a terminal.
    let mut names = names;
    match names.find(|name| !is_daemon_name(name)) {
        Some(bad) => Err(Misfit::Host(bad.chars().take(60).collect())),
        None => Ok(()),
    }
}
