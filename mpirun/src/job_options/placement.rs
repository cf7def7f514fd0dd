//! The options for the placement of ranks, and for the launcher of daemons.

use std::path::Path;

use mpd_io::files::logging::plain;
use mpd_placement::cpu_list;
use mpd_placement::hosts::HostEntry;
use mpd_placement::rank_file::{self, RankLine};
use mpd_wire::job::{
    Binding, CpuChoice, CpuChoices, MAX_GPUS, MAX_RANKS, PlacementSpec, RankOrder, SpawnOptions,
    SpawnPolicy, Spread,
};

use crate::chosen::{self, Pick};
use crate::configfile;
use crate::demand::Launcher;
use crate::hosts::{self, Accounts};
use crate::once::Once;
use crate::options::Key;
use crate::scan::Setting;
use crate::slots::SlotOptions;
use crate::usage::Usage;

/// The largest number after a unit: more than any host has.
const MAX_WIDTH: u32 = 1 << 16;

/// The given options for the placement.
#[derive(Debug, Default)]
pub(crate) struct PlacementOptions {
    accounts: Accounts,
    behind: bool,
    binding: Once<Bound>,
    exclude: Vec<String>,
    group: Once<u32>,
    pub(crate) hosts: Once<Vec<HostEntry>>,
    launcher: Once<String>,
    map: Once<Map>,
    launcher_program: Once<String>,
    launcher_arguments: Once<String>,
    per_host: Once<u32>,
    round_robin: bool,
    pub(crate) slots: SlotOptions,
    spawning: Spawning,
    by_load: Once<bool>,
    numbered: Numbered,
    resources: Resources,
    reports: Reports,
}

/// Hosts by number, or for each rank.
#[derive(Debug, Default)]
struct Numbered {
    picks: Once<Vec<Pick>>,
    ranks: Once<Vec<RankLine>>,
}

/// What ranks get of a host, besides their units.
#[derive(Debug, Default)]
struct Resources {
    gpus: Once<u32>,
    if_room: bool,
    only: Once<CpuChoice>,
    strict: bool,
}

/// What the options say about spawned processes.
#[derive(Debug, Default)]
struct Spawning {
    depth: Once<u32>,
    limit: Once<u32>,
    nice_step: Once<i8>,
    policy: Once<SpawnPolicy>,
}

/// What is printed about the placement.
#[derive(Debug, Default)]
struct Reports {
    bindings: bool,
    rank_map: bool,
}

/// The value of `-bind-to`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Bound {
    /// To units, and how many of them.
    Units(Binding, u32),
    Lists(Vec<CpuChoice>),
}

impl PlacementOptions {
    /// Adds an option of this group. Relative files are relative to `directory`.
    pub(super) fn note(&mut self, setting: &Setting, directory: &Path) -> Result<(), Usage> {
        match setting.opt.key {
            Key::AllowUser => self.accounts.permit(setting)?,
            Key::Allocation => {
                setting.nonempty()?;
                self.slots.alloc.set(setting.text()?.to_owned(), setting)?;
            }
            Key::Behind => self.behind = true,
            Key::Binding => self.binding.set(binding(setting)?, setting)?,
            Key::Exclude => self.exclude(setting)?,
            Key::Gpus => {
                if let Some(number) = gpus(setting)? {
                    self.resources.gpus.set(number, setting)?;
                }
            }
            Key::OnlyCpus => {
                let only = cpu_list::parse_set(setting.text()?).map_err(|e| setting.error(e))?;
                self.resources.only.set(only, setting)?;
            }
            Key::Pick => {
                let wrong =
                    || setting.error("it must be N, C, lines, or numbers like n0-3,5 or c0,2");
                let picks = chosen::all_picks(setting.text()?).ok_or_else(wrong)?;
                self.numbered.picks.set(picks, setting)?;
            }
            Key::RankFile => self.numbered.ranks.set(ranks(setting, directory)?, setting)?,
            Key::ReportBindings => self.reports.bindings = true,
            Key::IfRoom => self.resources.if_room = true,
            Key::Strict => self.resources.strict = true,
            Key::Group => self.group.set(processes(setting)?, setting)?,
            Key::HostFile => {
                let (entries, doubt) = hosts::file(setting, directory)?;
                self.hosts.set(entries, setting)?;
                self.accounts.note(doubt);
            }
            Key::Hosts => self.hosts.set(hosts::list(setting)?, setting)?,
            Key::Launcher => self.launcher.set(command(setting)?, setting)?,
            Key::LauncherProgram => self.launcher_program.set(command(setting)?, setting)?,
            Key::LauncherArguments => {
                self.launcher_arguments.set(setting.text()?.to_owned(), setting)?;
            }
            Key::MapBy => self.map.set(map(setting)?, setting)?,
            Key::NoLocal => self.exclude.push("localhost".into()),
            Key::PerHost => self.per_host.set(processes(setting)?, setting)?,
            Key::Placement => {
                let by_load = match setting.text()? {
                    "load" => true,
                    "slots" => false,
                    _ => return Err(setting.error("it must be 'slots' or 'load'")),
                };
                self.by_load.set(by_load, setting)?;
            }
            Key::PrintRankMap => self.reports.rank_map = true,
            Key::RoundRobin => self.round_robin = true,
            Key::SpawnDepth => self.spawning.depth.set(processes(setting)?, setting)?,
            Key::SpawnLimit => self.spawning.limit.set(processes(setting)?, setting)?,
            Key::SpawnNice => self.spawning.nice_step.set(nice_step(setting)?, setting)?,
            Key::SpawnPolicy => self.spawning.policy.set(spawn_policy(setting)?, setting)?,
            Key::Wait => self.slots.wait = true,
            Key::Now => self.slots.now = true,
            _ => {}
        }
        Ok(())
    }

    /// Excludes the hosts of an option.
    pub(crate) fn exclude(&mut self, setting: &Setting) -> Result<(), Usage> {
        self.exclude.extend(hosts::excluded(setting)?);
        Ok(())
    }

    /// The CPUs, or other units, to which each rank is bound.
    pub(crate) fn width(&self) -> u32 {
        self.bound().1
    }

    fn bound(&self) -> (Binding, u32) {
        match self.binding.get() {
            Some(&Bound::Units(unit, width)) => (unit, width),
            Some(Bound::Lists(_)) | None => (Binding::None, 1),
        }
    }

    /// The placement of the ranks.
    pub(crate) fn placement(&self) -> PlacementSpec {
        let (binding, width) = self.bound();
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
            binding,
            width,
            if_room: self.resources.if_room,
            spread: match self.map.get() {
                Some(&Map::Parts(spread)) => Some(spread),
                Some(Map::Hosts | Map::Slots) | None => None,
            },
            cpus: self.cpus(),
            gpus: self.resources.gpus.get().copied(),
            strict: self.resources.strict,
            print_rank_map: self.reports.rank_map,
            report_bindings: self.reports.bindings,
        }
    }

    /// The CPUs that the user names.
    fn cpus(&self) -> CpuChoices {
        let of_ranks =
            self.numbered.ranks.get().filter(|ranks| ranks.iter().any(|r| r.cpus.is_some()));
        let lists = match (of_ranks, self.binding.get()) {
            (Some(ranks), _) => ranks.iter().map(|r| r.cpus.clone().unwrap_or_default()).collect(),
            (None, Some(Bound::Lists(lists))) => lists.clone(),
            (None, _) => Vec::new(),
        };
        CpuChoices { lists, by_rank: of_ranks.is_some(), only: self.resources.only.get().cloned() }
    }

    /// Whether ranks get GPUs.
    pub(crate) fn gives_gpus(&self) -> bool {
        self.resources.gpus.get().is_some()
    }

    /// The option that chooses hosts by number or for each rank.
    pub(crate) fn choice(&self) -> Result<Option<&str>, Usage> {
        let Numbered { picks, ranks } = &self.numbered;
        let by = match (picks.get(), ranks.get()) {
            (None, None) => return Ok(None),
            (Some(_), None) => picks.by(),
            (None, Some(_)) => ranks.by(),
            (Some(_), Some(_)) => {
                let text = format!("{} and {} contradict each other", picks.by(), ranks.by());
                return Err(Usage::syntax(text));
            }
        };
        let is_list = matches!(self.binding.get(), Some(Bound::Lists(_)));
        let other = match () {
            () if self.per_host.get().is_some() => Some(self.per_host.by()),
            () if self.group.get().is_some() => Some(self.group.by()),
            () if self.round_robin => Some("-rr"),
            () if is_list && ranks.get().is_some() => Some(self.binding.by()),
            () => None,
        };
        match other {
            Some(other) => Err(Usage::syntax(format!("{by} and {other} contradict each other"))),
            None => Ok(Some(by)),
        }
    }

    /// Whether ranks are placed by load.
    pub(crate) fn is_by_load(&self) -> Result<bool, Usage> {
        let other = match () {
            () if self.by_load.get() != Some(&true) => return Ok(false),
            () if self.per_host.get().is_some() => self.per_host.by(),
            () if self.group.get().is_some() => self.group.by(),
            () if self.round_robin => "-rr",
            () => match self.choice()? {
                Some(by) => by,
                None => return Ok(true),
            },
        };
        let by = self.by_load.by();
        Err(Usage::syntax(format!("{by} and {other} contradict each other")))
    }

    /// The chosen hosts among `all`, in the order in which ranks use them.
    pub(crate) fn chosen(&self, all: &[HostEntry]) -> Result<Vec<HostEntry>, Usage> {
        let Numbered { picks, ranks } = &self.numbered;
        match (ranks.get(), picks.get()) {
            (Some(lines), _) => chosen::of_ranks(lines, ranks.by(), all),
            (None, Some(chosen)) => chosen::picked(chosen, picks.by(), all),
            (None, None) => Ok(Vec::new()),
        }
    }

    /// The number of lines of the rank file that are used: those of the job's ranks.
    ///
    /// # Errors
    /// A rank has no line.
    pub(crate) fn ranks_of_file(&self, size: u64) -> Result<Option<usize>, Usage> {
        let lines = &self.numbered.ranks;
        match (lines.get().map(Vec::len), usize::try_from(size)) {
            (None, _) => Ok(None),
            (Some(count), Ok(size)) if size <= count => Ok(Some(size)),
            (Some(count), _) => {
                let text = format!("{}: it has {count} ranks, the job {size}", lines.by());
                Err(Usage::syntax(text))
            }
        }
    }

    /// Whether a rank file chooses the host of each rank.
    pub(crate) fn has_rank_file(&self) -> bool {
        self.numbered.ranks.get().is_some()
    }

    /// The options for spawned processes.
    pub(crate) fn spawn(&self) -> SpawnOptions {
        SpawnOptions {
            policy: self.spawning.policy.get().copied().unwrap_or_default(),
            limit: self.spawning.limit.get().copied(),
            nice_step: self.spawning.nice_step.get().copied().unwrap_or(0),
            depth: self.spawning.depth.get().copied(),
        }
    }

    /// Why no private ring may have these hosts.
    pub(crate) fn refusal(&self, hosts: &[HostEntry]) -> Option<String> {
        self.accounts.refusal(hosts)
    }

    /// Hosts that get no rank.
    pub(crate) fn excluded(&self) -> &[String] {
        &self.exclude
    }

    /// The number of processes for each host, if it was given.
    pub(crate) fn of_each_host(&self) -> Option<u32> {
        self.per_host.get().copied()
    }

    /// The launcher of daemons that an option names: its program, or its name.
    pub(crate) fn named_launcher(&self) -> Option<&str> {
        self.launcher_program.get().or(self.launcher.get()).map(String::as_str)
    }

    /// The launcher of daemons on other hosts.
    pub(crate) fn launcher(&self, in_slurm: bool) -> Launcher {
        Launcher {
            name: self.launcher.get().cloned(),
            program: self.launcher_program.get().cloned(),
            arguments: self.launcher_arguments.get().cloned(),
            in_slurm,
        }
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

/// A number after a unit.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| (1..=MAX_WIDTH).contains(number))
}

/// The number of GPUs; `None` for Hydra's default.
fn gpus(setting: &Setting) -> Result<Option<u32>, Usage> {
    match setting.text()? {
        "AUTO" | "auto" => Ok(None),
        text => match text.parse() {
            Ok(number @ 1..=MAX_GPUS) => Ok(Some(number)),
            _ => Err(setting.error(format!("it must be a number of GPUs, 1 to {MAX_GPUS}"))),
        },
    }
}

/// The lines of a rank file.
fn ranks(setting: &Setting, directory: &Path) -> Result<Vec<RankLine>, Usage> {
    let path = directory.join(setting.nonempty()?);
    let bytes = configfile::read(&path)
        .map_err(|e| Usage::new(format!("{setting}: cannot read the file: {}", plain(&e))))?;
    rank_file::parse(&bytes).map_err(|e| Usage::new(format!("{setting}: {e}")))
}

fn binding(setting: &Setting) -> Result<Bound, Usage> {
    if let Some(lists) = setting.text()?.strip_prefix("user:") {
        return cpu_list::parse(lists).map(Bound::Lists).map_err(|e| setting.error(e));
    }
    let known = "it must be none, core, hwthread, l3cache, numa, socket, slots or user:LIST; a number may follow a unit, \
                 like core:2";
    let text = setting.text()?;
    let (name, width) = text.split_once(':').unwrap_or((text, "1"));
    match Binding::of_name(name).zip(number(width)) {
        Some((Binding::None | Binding::Slots, width)) if width > 1 => Err(setting.error(known)),
        Some((unit, width)) => Ok(Bound::Units(unit, width)),
        None => Err(setting.error(known)),
    }
}

fn map(setting: &Setting) -> Result<Map, Usage> {
    let known = || {
        setting.error(
            "it must be node, slot, socket, numa, l3cache, core or hwthread; a number, block=N or 'even' may follow a part, \
             like socket:block=2",
        )
    };
    let mut words = setting.text()?.split(':');
    let over = match words.next().unwrap_or_default() {
        "node" if words.next().is_none() => return Ok(Map::Hosts),
        "slot" if words.next().is_none() => return Ok(Map::Slots),
        name => Binding::of_name(name).ok_or_else(known)?,
    };
    let mut spread = Spread { over, block: Some(1), joined: 1 };
    for word in words {
        match word.split_once('=') {
            None if word == "even" => spread.block = None,
            None => spread.joined = number(word).ok_or_else(known)?,
            Some(("block", ranks)) => spread.block = Some(number(ranks).ok_or_else(known)?),
            Some(_) => return Err(known()),
        }
    }
    match over {
        Binding::None | Binding::Slots => Err(known()),
        _ => Ok(Map::Parts(spread)),
    }
}

fn spawn_policy(setting: &Setting) -> Result<SpawnPolicy, Usage> {
    let known = "it must be 'rr', 'load' or 'pack'";
    SpawnPolicy::of_name(setting.text()?).ok_or_else(|| setting.error(known))
}

fn nice_step(setting: &Setting) -> Result<i8, Usage> {
    let step = setting.text()?.parse().ok().filter(|step| (-20..=19).contains(step));
    step.ok_or_else(|| setting.error("it must be a number, -20 to 19"))
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
