//! What the user says about where ranks run: carried in the specification, decided by
//! `mpd-placement` when the members of the ring are known.

use serde::{Deserialize, Serialize};

use crate::is_daemon_name;
use crate::job::bounds::{MAX_HOSTS, Misfit};

/// Where the ranks of a job run, as far as the user says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementSpec {
    /// The hosts to use, in this order; none: every member, in ring order.
    pub hosts: Vec<HostWish>,
    /// Hosts that get no rank.
    pub exclude: Vec<String>,
    /// Ranks that each host takes before the next one does, instead of its slots.
    pub per_host: Option<u32>,
    /// How ranks that follow each other are spread.
    pub order: RankOrder,
    /// Ranks of one group: they follow each other and run on one host.
    pub group: Option<u32>,
    /// Whether ring order begins with the console's host, and not with the one behind it.
    pub here_first: bool,
    /// What each rank is bound to.
    pub binding: Binding,
    /// Whether the user wants to be told where the ranks run.
    pub print_rank_map: bool,
}

/// A host that the user names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostWish {
    /// Its name as written.
    pub name: String,
    /// Ranks that it takes before the next one does; none: as many as its daemon says.
    pub slots: Option<u32>,
}

/// How ranks that follow each other are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RankOrder {
    /// A host takes all that it has slots for, then the next one.
    #[default]
    BySlot,
    /// Each host takes one in turn.
    RoundRobin,
}

/// What a rank is bound to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// Nothing.
    #[default]
    None,
    /// A core.
    Core,
    /// The cores of a NUMA node.
    Numa,
    /// Its share of the host's cores.
    Slots,
}

impl RankOrder {
    /// All, by their number on the wire.
    pub(super) const ALL: [Self; 2] = [Self::BySlot, Self::RoundRobin];
}

impl Binding {
    /// All, by their number on the wire.
    pub(super) const ALL: [Self; 4] = [Self::None, Self::Core, Self::Numa, Self::Slots];

    /// The word for it on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Core => "core",
            Self::Numa => "numa",
            Self::Slots => "slots",
        }
    }

    /// The binding that `name` means.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|binding| binding.name() == name)
    }
}

impl Default for PlacementSpec {
    /// No wish: every member in ring order from the console's host, each with its slots.
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            exclude: Vec::new(),
            per_host: None,
            order: RankOrder::default(),
            group: None,
            here_first: true,
            binding: Binding::default(),
            print_rank_map: false,
        }
    }
}

impl PlacementSpec {
    /// Whether this can be placed, if the hosts exist.
    pub(super) fn check(&self) -> Result<(), Misfit> {
        if self.per_host == Some(0) || self.group == Some(0) {
            return Err(Misfit::NoRanks);
        }
        if let (Some(each), Some(group)) = (self.per_host, self.group)
            && each % group != 0
        {
            return Err(Misfit::Groups { each, group });
        }
        check_hosts(&self.hosts)?;
        check_names(self.exclude.iter().map(String::as_str))
    }
}

/// Whether these can be hosts.
pub(crate) fn check_hosts(hosts: &[HostWish]) -> Result<(), Misfit> {
    if hosts.iter().any(|host| host.slots == Some(0)) {
        return Err(Misfit::NoRanks);
    }
    check_names(hosts.iter().map(|host| host.name.as_str()))
}

pub(crate) fn check_names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Result<(), Misfit> {
    if names.len() > MAX_HOSTS {
        return Err(Misfit::TooManyHosts(names.len()));
    }
    // What is no name of a daemon cannot be in the ring, and could be anything on a terminal.
    let mut names = names;
    match names.find(|name| !is_daemon_name(name)) {
        Some(bad) => Err(Misfit::Host(bad.chars().take(60).collect())),
        None => Ok(()),
    }
}
