//! Resource usage of hosts and ranks, from samples to tables and JSON. Pure; text from other hosts
//! is escaped.
//!
//! A daemon reports sums since the start of a process or host. A rate is the difference of two
//! samples divided by the time between them. That time is measured by the daemon's clock.

use std::collections::{BTreeMap, BTreeSet};

use mpd_io::files::logging::one_line;
use mpd_wire::job::World;
use mpd_wire::message::{ConsoleReply, HostTop, HostUse, JobRef, RankUse, RunUse};
use mpd_wire::{DaemonName, JobId, Rank};
use serde::Serialize;

use crate::render;
use crate::table::table;

/// A window of this width has room for more columns.
const WIDE: usize = 132;

/// The table of ranks in a narrow and in a wide window.
const HEADS: [&str; 9] =
    ["~JOB", ">RANK", "~HOST", ">PID", "S", ">CPU%", ">MEMORY", ">OUT/s", "PROGRAM"];
const WIDE_HEADS: [&str; 14] = [
    "~JOB", ">RANK", "~HOST", ">PID", "S", ">CPU%", ">MEMORY", ">OUT/s", ">OUTPUT", ">TIME",
    ">PROCS", "USER", "~ALIAS", "PROGRAM",
];

/// Sums at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    hosts: Vec<HostTop>,
    missing: Vec<DaemonName>,
}

impl Sample {
    /// Takes one reply. `Some(true)` after the last reply; `None` for a reply of another kind.
    pub fn take(&mut self, reply: ConsoleReply) -> Option<bool> {
        let ConsoleReply::Top { hosts, missing, more } = reply else { return None };
        for part in hosts {
            match self.hosts.iter_mut().find(|known| known.host == part.host) {
                Some(known) => known.runs.extend(part.runs),
                None => self.hosts.push(part),
            }
        }
        self.missing.extend(missing);
        Some(!more)
    }

    /// Removes all jobs except `job`. A number selects the jobs with this number of all daemons.
    pub fn choose(&mut self, job: Option<&JobRef>) {
        let Some(job) = job else { return };
        let means = |run: &RunUse| match job {
            JobRef::Number(number) => !run.job.is_private() && run.job.number() == *number,
            named => named.means(&run.job, run.alias.as_deref()),
        };
        self.hosts.iter_mut().for_each(|host| host.runs.retain(&means));
    }

    /// The hosts with their ranks.
    pub fn hosts(&self) -> &[HostTop] {
        &self.hosts
    }

    /// Live members that did not answer.
    pub fn missing(&self) -> &[DaemonName] {
        &self.missing
    }

    fn ranks(&self) -> impl Iterator<Item = (Key<'_>, &RunUse, &RankUse)> {
        self.hosts.iter().flat_map(|HostTop { host, runs, .. }| {
            runs.iter().flat_map(move |run| {
                run.ranks.iter().map(move |one| ((&run.job, one.rank, one.pid, host), run, one))
            })
        })
    }
}

/// Identifies a process. The process id alone is not unique.
type Key<'a> = (&'a JobId, Rank, u32, &'a DaemonName);

/// Usage between samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View<'a> {
    /// Hosts in the order of the ring.
    pub hosts: Vec<HostRow<'a>>,
    /// Ranks, ordered by job and rank.
    pub ranks: Vec<RankRow<'a>>,
    /// Live members that did not answer the last request.
    pub missing: &'a [DaemonName],
}

/// Usage of a host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostRow<'a> {
    host: &'a DaemonName,
    cpus: u32,
    load: f64,
    /// CPU usage; 100 is one CPU. `None` with the first sample.
    cpu_percent: Option<f64>,
    memory_kib: u64,
    available_kib: u64,
}

/// Usage of a rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankRow<'a> {
    #[serde(serialize_with = "render::as_text")]
    job: &'a JobId,
    rank: u32,
    /// Number of the world; 0 for the first world of a job.
    world: u32,
    #[serde(skip)]
    name: String,
    host: &'a DaemonName,
    pid: u32,
    state: char,
    /// CPU usage; 100 is one CPU. `None` with the first sample.
    cpu_percent: Option<f64>,
    cpu_seconds: f64,
    memory_kib: u64,
    processes: u32,
    /// Bytes per second of standard output and error. `None` until they are counted.
    written: Option<u64>,
    written_per_second: Option<f64>,
    #[serde(flatten)]
    run: RunTexts<'a>,
}

/// Texts that all ranks of a job on a host share.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct RunTexts<'a> {
    alias: Option<&'a str>,
    user: &'a str,
    program: &'a str,
}

impl<'a> View<'a> {
    /// The usage from the first to the last sample. Output is counted one sample late, so its rate
    /// needs three samples.
    pub fn of(samples: impl IntoIterator<Item = &'a Sample>) -> Option<Self> {
        let samples: Vec<&Sample> = samples.into_iter().collect();
        let last = samples.last()?;
        let mut hosts: BTreeMap<&DaemonName, &HostUse> = BTreeMap::new();
        let mut ranks: BTreeMap<Key<'_>, (u64, u64)> = BTreeMap::new();
        let mut counted: BTreeMap<Key<'_>, (u64, u64)> = BTreeMap::new();
        for sample in &samples {
            for HostTop { host, machine, .. } in &sample.hosts {
                hosts.entry(host).or_insert(machine);
            }
            for (key, run, one) in sample.ranks() {
                ranks.entry(key).or_insert((run.at_us, one.cpu_ms));
                if let Some(at) = run.counted_us {
                    counted.entry(key).or_insert((at, one.written));
                }
            }
        }
        let host = |top: &'a HostTop| {
            let HostTop { host, machine, .. } = top;
            let HostUse {
                at_us, cpus, load_hundredths, busy_ms, memory_kib, available_kib, ..
            } = *machine;
            HostRow {
                host,
                cpus,
                load: to_float(load_hundredths) / 100.0,
                cpu_percent: hosts
                    .get(host)
                    .and_then(|first| per_second((first.at_us, first.busy_ms), (at_us, busy_ms)))
                    .map(|ms| ms / 10.0),
                memory_kib,
                available_kib,
            }
        };
        let rank = |(key, run, one): (Key<'a>, &'a RunUse, &'a RankUse)| {
            let cpu = |first: &(u64, u64)| per_second(*first, (run.at_us, one.cpu_ms));
            let written =
                |at| counted.get(&key).and_then(|first| per_second(*first, (at, one.written)));
            RankRow {
                job: key.0,
                rank: run.world.map_or(one.rank, |world| world.own(one.rank)).0,
                world: run.world.map_or(0, |world| world.number),
                name: World::name(run.world.as_ref(), one.rank),
                host: key.3,
                pid: one.pid,
                state: one.state,
                cpu_percent: ranks.get(&key).and_then(cpu).map(|ms| ms / 10.0),
                cpu_seconds: to_float(one.cpu_ms) / 1000.0,
                memory_kib: one.memory_kib,
                processes: one.processes,
                written: run.counted_us.map(|_| one.written),
                written_per_second: run.counted_us.and_then(written),
                run: RunTexts {
                    alias: run.alias.as_deref(),
                    user: &run.user,
                    program: &run.program,
                },
            }
        };
        let mut all: Vec<RankRow<'a>> = last.ranks().map(rank).collect();
        all.sort_by_key(|row| (row.job, row.world, row.rank));
        Some(View {
            hosts: last.hosts.iter().map(host).collect(),
            ranks: all,
            missing: last.missing(),
        })
    }

    /// The view as one line of JSON.
    pub fn json(&self) -> String {
        render::json(self)
    }

    /// The view as tables of at most `lines` lines with at most `columns` characters.
    pub fn lines(&self, columns: usize, lines: usize) -> Vec<String> {
        let jobs: BTreeSet<&JobId> = self.ranks.iter().map(|row| row.job).collect();
        let (hosts, jobs, ranks) = (self.hosts.len(), jobs.len(), self.ranks.len());
        let mut text = vec![format!(
            "{hosts} host{}, {jobs} job{}, {ranks} rank{}",
            plural(hosts),
            plural(jobs),
            plural(ranks)
        )];
        text.extend(render::missing(self.missing));
        // Hosts take at most half of the lines if there are enough ranks for the other half.
        let room = match ranks {
            0 => lines.saturating_sub(text.len() + 2),
            _ => lines.saturating_sub(text.len() + 4) / 2,
        };
        let shown = hosts.min(room.max(1));
        let cells = self.hosts.iter().take(shown).map(HostRow::cells);
        let heads = ["~HOST", ">CPUS", ">LOAD", ">CPU%", ">USED", ">MEMORY"];
        text.extend(table(&heads, cells, columns));
        text.extend(left_out(hosts - shown, "host"));
        if ranks > 0 {
            text.push(String::new());
            let room = lines.saturating_sub(text.len() + 1);
            let shown = if ranks > room { room.saturating_sub(1) } else { ranks };
            let is_wide = columns >= WIDE;
            let heads: &[&str] = if is_wide { &WIDE_HEADS } else { &HEADS };
            let cells = self.ranks.iter().take(shown).map(|row| row.cells(is_wide));
            text.extend(table(heads, cells, columns));
            text.extend(left_out(ranks - shown, "rank"));
        }
        text.truncate(lines);
        let cut = |line: String| one_line(&line).chars().take(columns).collect();
        text.into_iter().map(cut).collect()
    }
}

impl HostRow<'_> {
    fn cells(&self) -> Vec<String> {
        vec![
            self.host.to_string(),
            self.cpus.to_string(),
            format!("{:.2}", self.load),
            percent(self.cpu_percent),
            size(self.memory_kib.saturating_sub(self.available_kib) * 1024),
            size(self.memory_kib * 1024),
        ]
    }
}

impl RankRow<'_> {
    /// The cells below `HEADS`, or with `is_wide` below `WIDE_HEADS`.
    fn cells(&self, is_wide: bool) -> Vec<String> {
        let unknown = || "-".to_owned();
        let rate = self.written_per_second.map_or_else(unknown, |b| size(to_whole(b)));
        let mut cells = vec![
            self.job.to_string(),
            self.name.clone(),
            self.host.to_string(),
            self.pid.to_string(),
            self.state.to_string(),
            percent(self.cpu_percent),
            size(self.memory_kib * 1024),
            rate,
        ];
        if is_wide {
            cells.extend([
                self.written.map_or_else(unknown, size),
                duration(self.cpu_seconds),
                self.processes.to_string(),
                one_line(self.run.user),
                self.run.alias.map_or_else(unknown, one_line),
            ]);
        }
        let program = self.run.program;
        let short = program.rsplit('/').next().filter(|name| !name.is_empty());
        cells.push(one_line(if is_wide { program } else { short.unwrap_or(program) }));
        cells
    }
}

fn left_out(count: usize, what: &str) -> Option<String> {
    (count > 0).then(|| format!("and {count} {what}{} more", plural(count)))
}

const fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
}

/// CPU time as hours, minutes and seconds.
fn duration(seconds: f64) -> String {
    let seconds = to_whole(seconds);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// A number of bytes with about three digits and a unit.
fn size(bytes: u64) -> String {
    let mut value = to_float(bytes);
    for unit in ["", "K", "M", "G"] {
        if value < 999.5 {
            let digits = usize::from(value < 9.95 && !unit.is_empty());
            return format!("{value:.digits$}{unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1}T")
}

/// The growth per second between two pairs of (time in microseconds, sum). `None` if no time
/// passed, or if the sum shrank because a process ended.
fn per_second(first: (u64, u64), last: (u64, u64)) -> Option<f64> {
    let took = last.0.checked_sub(first.0).filter(|took| *took > 0)?;
    Some(to_float(last.1.checked_sub(first.1)?) * 1e6 / to_float(took))
}

#[expect(clippy::cast_precision_loss, reason = "rates need fewer than 16 digits")]
const fn to_float(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers of a table")]
const fn to_whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests;
