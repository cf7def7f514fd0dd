//! The costs that the simulation and the model of large rings use, from real daemons on this machine. The kernel counts
//! CPU time, the messages give the bytes, and the growth of this process gives the memory.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use mpd_io::ring::console::{Console, ConsoleError, PATIENCE};
use mpd_io::ring::rundir::RunDir;
use mpd_ring::{Formed, GAP};
use mpd_wire::frame::compact;
use mpd_wire::message::{ConsoleReply, JobOrder, JobRef, RingMessage, RingRequest};
use mpd_wire::{Address, DaemonName, Instance, RankSet, Record, Standing};

use crate::echo::Daemons;
use crate::programs::own_program;

/// Microseconds of CPU time, unless a name says otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// One daemon for one second in which nothing happens.
    pub(crate) idle_second: f64,
    /// One message received and one sent.
    pub(crate) hop: f64,
    /// The same as elapsed time, on this machine's CPUs.
    pub(crate) hop_elapsed: f64,
    /// One member that takes part in a scatter: the order and the answers of its part.
    pub(crate) member_of_scatter: f64,
    /// 1 KiB of the payload of a scatter, for each member: received and, on average, sent once.
    pub(crate) kib_of_scatter: f64,
    /// One host of a job until all checks are done: daemon and manager.
    pub(crate) host_until_ready: f64,
    /// The rest: start and end of one rank of /bin/true, and the clean-up.
    pub(crate) rank: f64,
    /// 1 KiB of a specification on its way to one host.
    pub(crate) kib_of_spec: f64,
    /// One host in one fence, its rank included.
    pub(crate) fence: f64,
    /// Bytes of a daemon for one member.
    pub(crate) member_bytes: f64,
}

impl Costs {
    /// Measures a ring of `members` daemons.
    pub(crate) fn measure(members: usize, rounds: usize) -> Result<Self, String> {
        let daemons = Daemons::start(members)?;
        let rundir = daemons.rundir();
        let pids = pids(&rundir)?;
        // The list must be calm for the chords to be there.
        std::thread::sleep(Duration::from_secs(6));
        let count = members as f64;
        let idle = {
            let begin = own_time(&pids)?;
            std::thread::sleep(Duration::from_secs(5));
            (own_time(&pids)? - begin) / count / 5.0
        };
        let laps = 20 * rounds;
        let begin = (Instant::now(), own_time(&pids)?);
        daemons.laps(members, laps)?;
        let elapsed = begin.0.elapsed().as_secs_f64() * 1e6;
        let hops = count * laps as f64;
        let hop = (own_time(&pids)? - begin.1) / hops;
        let begin = own_time(&pids)?;
        for _ in 0..10 * rounds {
            census(&rundir)?;
        }
        let member_of_scatter = (own_time(&pids)? - begin) / (count * 10.0 * rounds as f64);
        let begin = own_time(&pids)?;
        let mut bytes = 0;
        for _ in 0..rounds {
            bytes = long_scatter(&rundir)?;
        }
        let long = (own_time(&pids)? - begin) / (count * rounds as f64);
        let kib_of_scatter = (long - member_of_scatter) / (bytes as f64 / 1024.0);
        let job = |environment: usize, program: &[&str]| -> Result<f64, String> {
            let begin = all_time(&pids)?;
            for _ in 0..rounds {
                run(&rundir, members, environment, program)?;
            }
            Ok((all_time(&pids)? - begin) / (count * rounds as f64))
        };
        let whole = job(0, &["/bin/true"])?;
        let host_until_ready = job(0, &["/nowhere/no-such-program"])?;
        let large = job(LARGE, &["/bin/true"])?;
        let client = own_program("t-pmi")?;
        let few = job(0, &[&client, "fences", "10"])?;
        let many = job(0, &[&client, "fences", "110"])?;
        Ok(Self {
            idle_second: idle,
            hop,
            hop_elapsed: elapsed / hops,
            member_of_scatter,
            kib_of_scatter,
            host_until_ready,
            rank: (whole - host_until_ready).max(0.0),
            kib_of_spec: (large - whole).max(0.0) / (LARGE as f64 / 1024.0),
            fence: (many - few) / 100.0,
            member_bytes: member_bytes()?,
        })
    }

    pub(crate) fn table(&self) -> String {
        let rows = [
            ("a daemon for an idle second", self.idle_second, "us of CPU"),
            ("a hop of a lap: one message received, one sent", self.hop, "us of CPU"),
            ("the same, elapsed", self.hop_elapsed, "us"),
            ("a member in a scatter with its answer", self.member_of_scatter, "us of CPU"),
            ("1 KiB of a scatter's payload, for each member", self.kib_of_scatter, "us of CPU"),
            ("a host of a job until its checks are done", self.host_until_ready, "us of CPU"),
            ("a rank of /bin/true, its end, and the clean-up", self.rank, "us of CPU"),
            ("1 KiB of the specification, for each host", self.kib_of_spec, "us of CPU"),
            ("a fence, for each host, its rank included", self.fence, "us of CPU"),
            ("a member in the list of a daemon", self.member_bytes, "bytes of memory"),
            ("a record of a member in a message", record_bytes(), "bytes"),
        ];
        let row =
            |(what, value, unit): &(&str, f64, &str)| format!("| {what} | {value:.1} {unit} |\n");
        format!("| what | cost |\n|---|---:|\n{}", rows.iter().map(row).collect::<String>())
    }
}

/// Bytes of the environment of a large specification.
const LARGE: usize = 1024 * 1024;

fn census(rundir: &RunDir) -> Result<Vec<u32>, String> {
    let mut console = Console::ask(rundir, RingRequest::Census).map_err(|e| e.to_string())?;
    let mut all = Vec::new();
    loop {
        match console.answer(Some(PATIENCE)).map_err(|e| e.to_string())? {
            ConsoleReply::CensusPart { members } => all.extend(members.iter().map(|m| m.pid)),
            ConsoleReply::Census { members, missing, .. } if missing.is_empty() => {
                all.extend(members.iter().map(|m| m.pid));
                return Ok(all);
            }
            other => return Err(format!("the ring is not whole: {other:?}")),
        }
    }
}

fn pids(rundir: &RunDir) -> Result<Vec<u32>, String> {
    census(rundir)
}

/// The CPU time of these processes in microseconds.
fn own_time(pids: &[u32]) -> Result<f64, String> {
    let of = |pid: &u32| {
        let file = format!("/proc/{pid}/schedstat");
        let text = fs::read_to_string(&file).map_err(|e| format!("{file}: {e}"))?;
        let nanoseconds = text.split(' ').next().and_then(|word| word.parse::<f64>().ok());
        nanoseconds.ok_or_else(|| format!("{file}: {text}"))
    };
    Ok(pids.iter().map(of).sum::<Result<f64, String>>()? / 1e3)
}

/// The CPU time of these processes and of their children that have ended, in microseconds.
fn all_time(pids: &[u32]) -> Result<f64, String> {
    const TICK: f64 = 1e4;
    let of = |pid: &u32| {
        let file = format!("/proc/{pid}/stat");
        let text = fs::read_to_string(&file).map_err(|e| format!("{file}: {e}"))?;
        let fields = text.rsplit_once(") ").map(|(_, rest)| rest.split(' ').skip(11).take(4));
        let ticks: Option<f64> =
            fields.map(|fields| fields.filter_map(|field| field.parse::<f64>().ok()).sum());
        ticks.ok_or_else(|| format!("{file}: {text}"))
    };
    Ok(pids.iter().map(of).sum::<Result<f64, String>>()? * TICK)
}

/// Runs a job with one rank on each host. The program may be missing.
fn run(rundir: &RunDir, members: usize, large: usize, program: &[&str]) -> Result<(), String> {
    let mut command = std::process::Command::new(own_program("mpirun")?);
    command.args(["-n", &members.to_string(), "-ppn", "1", "-rundir"]).arg(rundir.path());
    command.args(program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Several variables, since the kernel limits the length of one.
    for (number, length) in (0..large.div_ceil(64 * 1024)).map(|n| (n, 64 * 1024)) {
        command.env(format!("MPD_BENCH_{number}"), "x".repeat(length));
    }
    let status = command.status().map_err(|e| e.to_string())?;
    let missing = program[0].starts_with("/nowhere");
    let fits = if missing { status.code() == Some(127) } else { status.success() };
    if fits { Ok(()) } else { Err(format!("mpirun {program:?}: {status}")) }
}

/// A scatter whose payload is a long list of ranks. No job has that name. Returns the bytes of the list.
fn long_scatter(rundir: &RunDir) -> Result<usize, String> {
    let ranks =
        RankSet::from_ranges((0..20_000).map(|n| (100_000 + 2 * n, 100_000 + 2 * n)).collect());
    let bytes = ranks.to_string().len();
    let job = JobRef::Alias("no-such-job".to_owned());
    let request = RingRequest::Job { job, order: JobOrder::SwitchStdin { ranks } };
    let mut console = Console::ask(rundir, request).map_err(|e| e.to_string())?;
    match console.answer(Some(PATIENCE)) {
        Err(ConsoleError::Refused(_)) => Ok(bytes),
        other => Err(format!("an order about no job was answered by {other:?}")),
    }
}

/// The record of one of many hosts.
pub(crate) fn record(host: u32) -> Record {
    let name = DaemonName::new(&format!("node{host:06}")).expect("a name");
    let mut instance = [7; 16];
    instance[..4].copy_from_slice(&host.to_be_bytes());
    let [_, a, b, c] = host.to_be_bytes();
    let address = Address::new(&format!("10.{a}.{b}.{c}:40001")).expect("an address");
    Record {
        name,
        incarnation: 1,
        standing: Standing::Live,
        instance: Instance::from_bytes(instance),
        position: u64::from(host) * GAP,
        ordinal: host.into(),
        ncpus: 64,
        draining: false,
        addresses: vec![address],
        by: None,
        age_s: 0,
    }
}

/// Bytes of a frame with this message, sealed.
pub(crate) fn sealed(message: &RingMessage) -> usize {
    const LENGTH_AND_SEAL: usize = 20;
    compact::to_vec(message).len() + LENGTH_AND_SEAL
}

fn record_bytes() -> f64 {
    let of = |records: u32| sealed(&RingMessage::list((1000..1000 + records).map(record)));
    (of(128) - of(1)) as f64 / 127.0
}

/// The growth of this process for each member of lists whose records are not shared.
fn member_bytes() -> Result<f64, String> {
    const MEMBERS: u32 = 10_000;
    const LISTS: u32 = 8;
    let resident = || {
        let text = fs::read_to_string("/proc/self/statm").map_err(|e| e.to_string())?;
        let pages = text.split(' ').nth(1).and_then(|word| word.parse::<f64>().ok());
        pages.map(|pages| pages * 4096.0).ok_or_else(|| format!("/proc/self/statm: {text}"))
    };
    let begin = resident()?;
    let lists: Vec<Formed> = (0..LISTS).map(|_| Formed::new((0..MEMBERS).map(record))).collect();
    let grown = resident()? - begin;
    drop(lists);
    Ok(grown / f64::from(MEMBERS * LISTS))
}
