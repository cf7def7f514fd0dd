//! Metrics of a ring as OpenMetrics text, and the answers of a server of metrics (`http`). Pure.
//!
//! Prometheus' older text format has no type `info` and no `# EOF`. Its readers, such as node_exporter's
//! textfile collector, also accept this text: it has only the types gauge and counter, and no times.

pub mod http;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write as _};

use mpd_wire::message::{HostTop, MemberView, RankUse, RingView, RunUse};
use mpd_wire::{DaemonName, JobId, Standing};

use crate::top::Sample;

/// The media type of the text.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics. Without an observation: that the daemon does not answer. `per_rank` adds those of each rank.
pub fn text(observed: Option<(&RingView, &Sample)>, per_rank: bool) -> String {
    let mut page = Page::default();
    page.gauge("mpd_up", "Whether the daemon of this host answers.");
    page.add(&[], u8::from(observed.is_some()));
    if let Some((ring, sample)) = observed {
        of_ring(&mut page, ring);
        of_hosts(&mut page, sample);
        of_jobs(&mut page, sample);
        if per_rank {
            of_ranks(&mut page, sample);
        }
    }
    page.text + "# EOF\n"
}

fn of_ring(page: &mut Page, ring: &RingView) {
    page.gauge("mpd_ring_whole", "Whether both neighbours of this daemon in the ring are linked.");
    page.add(&[], u8::from(ring.whole));
    page.gauge("mpd_ring_members", "Members of the ring by their standing.");
    let standings =
        [("live", Standing::Live), ("dead", Standing::Dead), ("departed", Standing::Departed)];
    for (word, standing) in standings {
        let count = ring.members.iter().filter(|member| member.standing == standing).count();
        page.add(&[("standing", word)], count);
    }
    page.gauge("mpd_ring_draining_members", "Live members that get no new processes.");
    let draining = |member: &&MemberView| member.draining && member.standing == Standing::Live;
    page.add(&[], ring.members.iter().filter(draining).count());
    page.counter("mpd_ring_events", None, "Events of the ring that this daemon has seen.");
    for (kind, count) in &ring.events {
        page.add(&[("event", kind)], count);
    }
}

fn of_hosts(page: &mut Page, sample: &Sample) {
    page.gauge("mpd_host_up", "Whether the daemon of the host answered this request.");
    // A host that answered only the first page of its ranks is in both lists.
    let answered = sample.hosts().iter().map(|host| (&host.host, 1));
    let states: BTreeMap<_, _> =
        answered.chain(sample.missing().iter().map(|host| (host, 0))).collect();
    for (host, is_up) in states {
        page.add(&[("host", host.as_str())], is_up);
    }
    let each = |page: &mut Page, value: &dyn Fn(&HostTop) -> Number| {
        for host in sample.hosts() {
            page.add(&[("host", host.host.as_str())], value(host));
        }
    };
    page.gauge("mpd_host_cpus", "CPUs of the host.");
    each(page, &|host| Number::whole(host.machine.cpus.into()));
    page.gauge("mpd_host_load1", "Processes that ran or could run, in the last minute.");
    each(page, &|host| Number { whole: host.machine.load_hundredths, per: 100 });
    page.counter("mpd_host_cpu", Some("seconds"), "CPU time of all CPUs of the host since boot.");
    each(page, &|host| Number { whole: host.machine.busy_ms, per: 1000 });
    page.measured("mpd_host_memory", "bytes", "Memory of the host.");
    each(page, &|host| Number::kib(host.machine.memory_kib));
    page.measured("mpd_host_memory_available", "bytes", "Memory that a new program could get.");
    each(page, &|host| Number::kib(host.machine.available_kib));
    page.gauge("mpd_host_ranks", "Ranks on the host.");
    each(page, &|host| Number::whole(host.runs.iter().map(|run| count(&run.ranks)).sum()));
}

/// A job's ranks on one host.
#[derive(Default)]
struct Share<'a> {
    alias: &'a str,
    user: &'a str,
    ranks: u64,
    processes: u64,
    cpu_ms: u64,
    memory_kib: u64,
    written: u64,
}

fn of_jobs(page: &mut Page, sample: &Sample) {
    // Jobs of two runs of a daemon may have one name; the text must have each name once.
    let mut shares: BTreeMap<(String, &DaemonName), Share<'_>> = BTreeMap::new();
    let mut jobs: BTreeSet<&JobId> = BTreeSet::new();
    for (host, run) in runs(sample) {
        jobs.insert(&run.job);
        let share = shares.entry((run.job.to_string(), &host.host)).or_default();
        share.alias = run.alias.as_deref().unwrap_or_default();
        share.user = &run.user;
        share.ranks += count(&run.ranks);
        for one in &run.ranks {
            share.processes += u64::from(one.processes);
            share.cpu_ms = share.cpu_ms.saturating_add(one.cpu_ms);
            share.memory_kib = share.memory_kib.saturating_add(one.memory_kib);
            share.written = share.written.saturating_add(one.written);
        }
    }
    page.gauge("mpd_jobs", "Jobs that run in the ring.");
    page.add(&[], jobs.len());
    page.gauge("mpd_ranks", "Ranks that run in the ring.");
    page.add(&[], shares.values().map(|share| share.ranks).sum::<u64>());
    let each = |page: &mut Page, value: &dyn Fn(&Share<'_>) -> Number| {
        for ((job, host), share) in &shares {
            let (alias, user) = (("alias", share.alias), ("user", share.user));
            page.add(&[("job", job), alias, user, ("host", host.as_str())], value(share));
        }
    };
    // Sums over living processes shrink when a process ends, so they are no counters.
    page.gauge("mpd_job_ranks", "Ranks of the job on the host.");
    each(page, &|share| Number::whole(share.ranks));
    page.gauge("mpd_job_processes", "Processes of the job on the host: ranks and descendants.");
    each(page, &|share| Number::whole(share.processes));
    page.measured("mpd_job_cpu", "seconds", "CPU time of the living ranks of the job on the host.");
    each(page, &|share| Number { whole: share.cpu_ms, per: 1000 });
    page.measured("mpd_job_memory", "bytes", "Resident memory of the job on the host.");
    each(page, &|share| Number::kib(share.memory_kib));
    page.measured("mpd_job_output", "bytes", "Output of the living ranks of the job on the host.");
    each(page, &|share| Number::whole(share.written));
}

fn of_ranks(page: &mut Page, sample: &Sample) {
    // A rank is on two pages if others have ended between them. The text must have it once.
    let mut ranks: BTreeMap<(&JobId, u32, u32, &DaemonName, u32), &RankUse> = BTreeMap::new();
    for (host, run) in runs(sample) {
        for one in &run.ranks {
            let world = run.world.map_or(0, |world| world.number);
            let rank = run.world.map_or(one.rank, |world| world.own(one.rank)).0;
            ranks.insert((&run.job, world, rank, &host.host, one.pid), one);
        }
    }
    let each = |page: &mut Page, value: &dyn Fn(&RankUse) -> Number| {
        for ((job, world, rank, host, pid), one) in &ranks {
            let [job, world, rank, pid] =
                [job.to_string(), world.to_string(), rank.to_string(), pid.to_string()];
            let place = [("host", host.as_str()), ("pid", &pid)];
            let labels = [("job", job.as_str()), ("world", &world), ("rank", &rank)];
            page.add(&[&labels[..], &place].concat(), value(one));
        }
    };
    page.counter("mpd_rank_cpu", Some("seconds"), "CPU time of the rank and its descendants.");
    each(page, &|one| Number { whole: one.cpu_ms, per: 1000 });
    page.measured("mpd_rank_memory", "bytes", "Resident memory of the rank and its descendants.");
    each(page, &|one| Number::kib(one.memory_kib));
    page.counter("mpd_rank_output", Some("bytes"), "Output and error that the rank has written.");
    each(page, &|one| Number::whole(one.written));
}

fn runs(sample: &Sample) -> impl Iterator<Item = (&HostTop, &RunUse)> {
    sample.hosts().iter().flat_map(|host| host.runs.iter().map(move |run| (host, run)))
}

const fn count(ranks: &[RankUse]) -> u64 {
    ranks.len() as u64
}

/// A whole number, divided by a power of ten.
struct Number {
    whole: u64,
    per: u64,
}

impl Number {
    const fn whole(whole: u64) -> Self {
        Self { whole, per: 1 }
    }

    const fn kib(kib: u64) -> Self {
        Self::whole(kib.saturating_mul(1024))
    }
}

impl Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { whole, per } = *self;
        let digits = per.ilog10() as usize;
        match per {
            1 => write!(f, "{whole}"),
            _ => write!(f, "{}.{:0digits$}", whole / per, whole % per),
        }
    }
}

/// The text, with the metric family that is being written.
#[derive(Default)]
struct Page {
    text: String,
    family: String,
    /// What follows the name of the family in its samples.
    suffix: &'static str,
}

impl Page {
    fn gauge(&mut self, name: &str, help: &str) {
        self.begin(name, "gauge", None, help);
    }

    fn measured(&mut self, name: &str, unit: &str, help: &str) {
        self.begin(name, "gauge", Some(unit), help);
    }

    fn counter(&mut self, name: &str, unit: Option<&str>, help: &str) {
        self.begin(name, "counter", unit, help);
        self.suffix = "_total";
    }

    fn begin(&mut self, name: &str, kind: &str, unit: Option<&str>, help: &str) {
        self.family = unit.map_or_else(|| name.to_owned(), |unit| format!("{name}_{unit}"));
        self.suffix = "";
        let family = &self.family;
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "# TYPE {family} {kind}");
        if let Some(unit) = unit {
            let _ = writeln!(self.text, "# UNIT {family} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {family} {help}");
    }

    fn add(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let pairs = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
        let pairs = pairs.collect::<Vec<_>>().join(",");
        let labels = if pairs.is_empty() { pairs } else { format!("{{{pairs}}}") };
        let _ = writeln!(self.text, "{}{}{labels} {value}", self.family, self.suffix);
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests;
