//! The options for the placement of ranks, and for the launcher of daemons.

use std::path::Path;

use mpd_placement::hosts::HostEntry;
use mpd_wire::job::{Binding, MAX_RANKS, PlacementSpec, RankOrder, SpawnPolicy, Spread};

use crate::demand::Launcher;
use crate::hosts;
use crate::once::Once;
use crate::options::Key;
use crate::scan::Setting;
use crate::usage::Usage;

/// The largest number after a unit: more than any host has.
const MAX_WIDTH: u32 = 1 << 16;

/// The given options for the placement.
#[derive(Debug, Default)]
pub(crate) struct LayoutOptions {
    behind: bool,
    binding: Once<(Binding, u32)>,
    exclude: Vec<String>,
    group: Once<u32>,
    pub(crate) hosts: Once<Vec<HostEntry>>,
    launcher: Once<String>,
    map: Once<Map>,
    launcher_program: Once<String>,
    per_host: Once<u32>,
    print_rank_map: bool,
    round_robin: bool,
    spawn_policy: Once<SpawnPolicy>,
}

impl LayoutOptions {
    /// Adds an option of this group. Relative files are relative to `directory`.
    pub(super) fn note(&mut self, setting: &Setting, directory: &Path) -> Result<(), Usage> {
        match setting.opt.key {
            Key::Behind => self.behind = true,
            Key::Binding => self.binding.set(binding(setting)?, setting)?,
            Key::Exclude => self.exclude.extend(hosts::excluded(setting)?),
            Key::Group => self.group.set(processes(setting)?, setting)?,
            Key::HostFile => self.hosts.set(hosts::file(setting, directory)?, setting)?,
            Key::Hosts => self.hosts.set(hosts::list(setting)?, setting)?,
            Key::Launcher => self.launcher.set(command(setting)?, setting)?,
            Key::LauncherProgram => self.launcher_program.set(command(setting)?, setting)?,
            Key::MapBy => self.map.set(map(setting)?, setting)?,
            Key::NoLocal => self.exclude.push("localhost".into()),
            Key::PerHost => self.per_host.set(processes(setting)?, setting)?,
            Key::PrintRankMap => self.print_rank_map = true,
            Key::RoundRobin => self.round_robin = true,
            Key::SpawnPolicy => self.spawn_policy.set(spawn_policy(setting)?, setting)?,
            _ => {}
        }
        Ok(())
    }

    /// The placement of the ranks.
    pub(crate) fn placement(&self) -> PlacementSpec {
        PlacementSpec {
            hosts: self.hosts.get().map(|entries| hosts::choices(entries)).unwrap_or_default(),
            exclude: self.exclude.clone(),
            per_host: self.per_host.get().copied(),
            order: match self.round_robin || self.map.get() == Some(&Map::Hosts) {
                true => RankOrder::RoundRobin,
                false => RankOrder::BySlot,
            },
            group: self.group.get().copied(),
            here_first: !self.behind,
            binding: self.binding.get().map_or(Binding::None, |&(unit, _)| unit),
            width: self.binding.get().map_or(1, |&(_, width)| width),
            spread: match self.map.get() {
                Some(&Map::Parts(spread)) => Some(spread),
                Some(Map::Hosts | Map::Slots) | None => None,
            },
            print_rank_map: self.print_rank_map,
        }
    }

    /// The placement of spawned processes.
    pub(crate) fn spawn_policy(&self) -> SpawnPolicy {
        self.spawn_policy.get().copied().unwrap_or_default()
    }

    /// Hosts that get no rank.
    pub(crate) fn excluded(&self) -> &[String] {
        &self.exclude
    }

    /// The number of processes for each host, if it was given.
    pub(crate) fn of_each_host(&self) -> Option<u32> {
        self.per_host.get().copied()
    }

    /// The launcher of daemons on other hosts.
    pub(crate) fn launcher(&self, in_slurm: bool) -> Launcher {
        let (name, program) = (self.launcher.get().cloned(), self.launcher_program.get().cloned());
        Launcher { name, program, in_slurm }
    }
}

/// Parses a command.
fn command(setting: &Setting) -> Result<String, Usage> {
    let text = setting.text()?;
    match text.trim().is_empty() || text.contains(char::is_control) {
        true => Err(setting.error("it must be a command, like ssh")),
        false => Ok(text.to_owned()),
    }
}

/// The value of `-map-by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Map {
    /// Each host in turn.
    Hosts,
    /// Parts of each host in turn.
    Parts(Spread),
    /// One host after the other.
    Slots,
}

/// A unit and the number after it.
fn unit(setting: &Setting, known: &str) -> Result<(Binding, u32), Usage> {
    let text = setting.text()?;
    let (name, number) = text.split_once(':').unwrap_or((text, "1"));
    let number = number.parse().ok().filter(|number| (1..=MAX_WIDTH).contains(number));
    Binding::of_name(name).zip(number).ok_or_else(|| setting.error(known))
}

fn binding(setting: &Setting) -> Result<(Binding, u32), Usage> {
    let known = "it must be none, core, hwthread, l3cache, numa, socket or slots; core and hwthread may have a number, \
                 like core:2";
    let (unit, width) = unit(setting, known)?;
    match width > 1 && !matches!(unit, Binding::Core | Binding::Thread) {
        true => Err(setting.error(known)),
        false => Ok((unit, width)),
    }
}

fn map(setting: &Setting) -> Result<Map, Usage> {
    let known = "it must be node, slot, socket, numa, l3cache, core or hwthread; a number may follow, like socket:2";
    match setting.text()? {
        "node" => return Ok(Map::Hosts),
        "slot" => return Ok(Map::Slots),
        _ => {}
    }
    match unit(setting, known)? {
        (Binding::None | Binding::Slots, _) => Err(setting.error(known)),
        (over, block) => Ok(Map::Parts(Spread { over, block })),
    }
}

fn spawn_policy(setting: &Setting) -> Result<SpawnPolicy, Usage> {
    let known = "it must be 'rr', 'load' or 'pack'";
    SpawnPolicy::of_name(setting.text()?).ok_or_else(|| setting.error(known))
}

pub(crate) fn processes(setting: &Setting) -> Result<u32, Usage> {
    let text = setting.text()?;
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(setting.error(format!("{text:?} is not a number of processes")));
    }
    match text.parse() {
        Ok(0) => Err(setting.error("the number of processes must be at least 1")),
        Ok(n @ ..=MAX_RANKS) => Ok(n),
        _ => Err(setting.error(format!("a job may have at most {MAX_RANKS} processes"))),
    }
}
