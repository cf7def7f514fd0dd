//! Measures the suite against the bare floor and, where it is installed, against Hydra.
//!
//!     t-bench start  [ranks=1,16,64,256] [repetitions=N]   start and collect /bin/true
//!     t-bench stdout [megabytes=200] [repetitions=N]       output of four ranks, plain and labelled
//!     t-bench pmi    [ranks=64] [repetitions=N]            put, fence, get all, without the start
//!     t-bench jobs   [count=200] [repetitions=N]           `mpirun -n 1 true`, one after the other
//!     t-bench ring   [members=16,211] [laps=20] [repetitions=N]  laps round the ring of daemons
//!     t-bench memory [ranks=1,16,64,256]                   PSS of daemon, manager and mpirun (as root)
//!     t-bench pmix   [ranks=64] [starts=2,16,64] [repetitions=N]  PMIx, beside the launchers of Open MPI and Slurm
//!     t-bench many   [ranks=64,256,1000] [repetitions=N]   starts, ^C, the time for each of 1,000 and 4,000 ranks
//!     t-bench share  [ranks=64] [repetitions=N]            beside busy processes in other sessions
//!     t-bench spawn  [count=200] [repetitions=N]           a rank that spawns another, again and again
//!     t-bench init   [ranks=16,64] [repetitions=N]         MPI_Init and MPI_Finalize, beside the libraries' own launchers
//!     t-bench scale  [members=64] [hosts=1000,10000,100000] [count=N]  a launch on rings of simulated hosts
//!     t-bench farm   [count=100000] [members=5] [repetitions=N]  small tasks, beside loops, xargs, GNU parallel and HyperQueue
//!
//! Runs of all contestants alternate in a changing order. The table shows medians, minima and the ratio of the
//! medians, as Markdown. The program judges nothing: the budgets are in DESIGN.md 7.
#![expect(clippy::print_stdout, reason = "prints its table")]
#![expect(unsafe_code, reason = "resetting a signal's action: nix marks it unsafe")]

mod contest;
mod echo;
mod farm;
mod floor;
mod init;
mod many;
mod memory;
mod minimal;
mod pmix;
mod programs;
mod requests;
mod scale;
mod share;

use std::process::ExitCode;
use std::time::Duration;

use contest::{Contest, Measured};
use echo::Work;
use memory::Sizes;
use nix::sys::signal::{SigHandler, Signal, signal};
use programs::{Launcher, Ring};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_default();
    let options: Vec<_> = arguments.collect();
    heed_interrupts();
    if what == "spin" {
        // A busy process of `share`. It ends with its parent.
        let parent = nix::unistd::Pid::parent();
        while nix::unistd::Pid::parent() == parent {
            (0..1 << 20).for_each(|_| std::hint::spin_loop());
        }
        return ExitCode::SUCCESS;
    }
    if what == "echo" {
        // A member of the bare ring.
        let option = |at: usize| options.get(at).map_or("", String::as_str);
        let result = echo::member(option(0), option(1));
        return if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if what == "serve" {
        // The server of the floor with a daemon.
        return if minimal::serve().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if what == "submit" {
        let code = minimal::submit(options.first().map_or("", String::as_str));
        return code.map_or(ExitCode::FAILURE, ExitCode::from);
    }
    if what == "request" {
        // A client of the floor of `pmi`.
        let result = requests::request(options.first().map_or("", String::as_str));
        return if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let bench: fn(&Options) -> Result<(), String> = match what.as_str() {
        "start" => start,
        "stdout" => stdout,
        "pmi" => pmi,
        "pmix" => pmix,
        "jobs" => jobs,
        "ring" => ring,
        "spawn" => spawn,
        "memory" => memory,
        "many" => many,
        "share" => share,
        "init" => init,
        "scale" => scale,
        "farm" => farm,
        _ => {
            println!(
                "usage: t-bench start|stdout|pmi|pmix|jobs|ring|spawn|memory|many|share|init|scale|farm [NAME=VALUE...]"
            );
            return ExitCode::from(2);
        }
    };
    match Options::parse(&options).and_then(|options| bench(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("t-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// In the background of a shell script, SIGINT is ignored. Then `^C` of a launcher would have no effect.
fn heed_interrupts() {
    // SAFETY: the default action runs no code of this process.
    let _ = unsafe { signal(Signal::SIGINT, SigHandler::SigDfl) };
}

/// `NAME=VALUE` arguments.
struct Options(Vec<(String, String)>);

impl Options {
    const KNOWN: [&str; 8] =
        ["ranks", "starts", "repetitions", "megabytes", "count", "members", "laps", "hosts"];

    fn parse(arguments: &[String]) -> Result<Self, String> {
        let pairs = arguments.iter().map(|word| match word.split_once('=') {
            Some((name, value)) if Self::KNOWN.contains(&name) => Ok((name.into(), value.into())),
            _ => Err(format!("unknown option '{word}'")),
        });
        pairs.collect::<Result<_, _>>().map(Self)
    }

    fn numbers(&self, name: &str, default: &[usize]) -> Result<Vec<usize>, String> {
        let Some((_, value)) = self.0.iter().find(|(known, _)| known == name) else {
            return Ok(default.to_owned());
        };
        let numbers = value.split(',').map(|word| word.parse().ok().filter(|number| *number > 0));
        numbers.collect::<Option<_>>().ok_or_else(|| format!("bad value '{value}' of {name}"))
    }

    fn number(&self, name: &str, default: usize) -> Result<usize, String> {
        Ok(self.numbers(name, &[default])?[0])
    }
}

fn start(options: &Options) -> Result<(), String> {
    let ring = Ring::start()?;
    let repetitions = options.number("repetitions", 30)?;
    for ranks in options.numbers("ranks", &[1, 16, 64, 256])? {
        let mut contest = Contest::new(format!("start and collect {ranks} of /bin/true"));
        contest.add("floor: posix_spawn and pipes", move || floor::start(ranks));
        if ranks == 1 {
            let server = minimal::Server::start()?;
            contest.add("floor: a bare console and its server", move || server.job());
        }
        for launcher in Launcher::all(&ring) {
            let name = launcher.name.clone();
            let mut command = launcher.command(ranks, &[], &["/bin/true"]);
            contest.add(&name, move || contest::time(|| floor::run(&mut command)));
        }
        let results = contest.run(repetitions);
        println!("{}", contest::table(&results, "ms", |m| m.as_secs_f64() * 1e3));
    }
    Ok(())
}

fn stdout(options: &Options) -> Result<(), String> {
    const WRITERS: usize = 4;
    let ring = Ring::start()?;
    let megabytes = options.number("megabytes", 200)?;
    let each = megabytes * 1_000_000 / WRITERS / 80 * 80;
    let all = each * WRITERS;
    let flood = programs::own_program("t-flood")?;
    let arguments = [format!("bytes={each}")];
    let writer = [flood.as_str(), arguments[0].as_str()];
    let title = format!("stdout of {WRITERS} ranks, {megabytes} MB of 80-byte lines");
    let mut contest = Contest::new(title);
    let mut writers = floor::Writers::new(&writer, WRITERS);
    contest.add("floor: four writers into one pipe", move || writers.run(all, false));
    let mut writers = floor::Writers::new(&writer, WRITERS);
    contest.add("the same through cat", move || writers.run(all, true));
    for launcher in Launcher::all(&ring) {
        for (how, option) in [("plain", &[][..]), ("-l", &["-l"])] {
            let mut command = launcher.command(WRITERS, option, &writer);
            let exact = option.is_empty();
            let name = format!("{}, {how}", launcher.name);
            contest.add(&name, move || {
                contest::time(|| {
                    let count = floor::count_output(&mut command)?;
                    let complete = if exact { count == all } else { count > all };
                    if complete { Ok(()) } else { Err(format!("{count} bytes came of {all}")) }
                })
            });
        }
    }
    let results = contest.run(options.number("repetitions", 7)?);
    let bytes = u32::try_from(all / 1000).map_err(|_| "too many megabytes")?;
    let rate = |time: Duration| f64::from(bytes) / 1e3 / time.as_secs_f64();
    println!("{}", contest::table(&results, "MB/s", rate));
    Ok(())
}

fn pmi(options: &Options) -> Result<(), String> {
    let ring = Ring::start()?;
    let ranks = options.number("ranks", 64)?;
    let client = programs::own_program("t-pmi")?;
    let mut contest = Contest::new(format!("PMI: put, fence, get all of {ranks} ranks"));
    let launchers = Launcher::all(&ring);
    for launcher in &launchers {
        for mode in ["nothing", "put-fence-get-all"] {
            let mut command = launcher.command(ranks, &[], &[&client, mode, "1"]);
            let name = format!("{}, {mode}", launcher.name);
            contest.add(&name, move || contest::time(|| floor::run(&mut command)));
        }
    }
    // A put, a fence, and a get for each rank.
    let round_trips = ranks + 2;
    contest.add(
        "floor: as many round trips with a process that answers at once, without the start",
        move || requests::answered(ranks, round_trips),
    );
    let results = contest.run(options.number("repetitions", 15)?);
    println!("{}", contest::table(&results, "ms", |m| m.as_secs_f64() * 1e3));
    println!("\n| less the start | ms |\n|---|---:|");
    for (launcher, pair) in launchers.iter().zip(results.entries.chunks(2)) {
        let difference = match (pair[0].1.median(), pair[1].1.median()) {
            (Some(nothing), Some(exchange)) => {
                format!("{:.1}", (exchange.as_secs_f64() - nothing.as_secs_f64()) * 1e3)
            }
            _ => "failed".to_owned(),
        };
        println!("| {} | {difference} |", launcher.name);
    }
    Ok(())
}

/// A rival or a library that is not there, for the reader of the tables.
fn left_out(name: &str, why: &str) {
    println!("left out: {name}: {why}");
}

fn pmix(options: &Options) -> Result<(), String> {
    let ring = Ring::start()?;
    let repetitions = options.number("repetitions", 9)?;
    pmix::exchange(&ring, options.number("ranks", 64)?, repetitions)?;
    let starts = options.numbers("starts", &[2, 16, 64])?;
    starts.into_iter().try_for_each(|ranks| pmix::library(&ring, ranks, repetitions))
}

fn jobs(options: &Options) -> Result<(), String> {
    let ring = Ring::start()?;
    let count = options.number("count", 200)?;
    let mut contest = Contest::new(format!("{count} jobs of one rank, one after the other"));
    contest.add("floor: two process starts each", move || {
        contest::time(|| (0..2 * count).try_for_each(|_| floor::start(1).map(drop)))
    });
    let server = minimal::Server::start()?;
    contest.add("floor: a bare console and its server", move || {
        contest::time(|| (0..count).try_for_each(|_| server.job().map(drop)))
    });
    for launcher in Launcher::all(&ring) {
        let name = launcher.name.clone();
        let mut command = launcher.command(1, &[], &["true"]);
        contest.add(&name, move || {
            contest::time(|| (0..count).try_for_each(|_| floor::run(&mut command)))
        });
    }
    let results = contest.run(options.number("repetitions", 15)?);
    let jobs = u32::try_from(count).map_err(|_| "too many jobs")?;
    let rate = |time: Measured| f64::from(jobs) / time.as_secs_f64();
    println!("{}", contest::table(&results, "jobs/s", rate));
    Ok(())
}

fn ring(options: &Options) -> Result<(), String> {
    let laps = options.number("laps", 20)?;
    let repetitions = options.number("repetitions", 15)?;
    for members in options.numbers("members", &[16, 211])? {
        let hops = u32::try_from(members * laps).map_err(|_| "too many hops")?;
        let mut bare = echo::Bare::start(members, Work::Forward)?;
        let mut sealing = echo::Bare::start(members, Work::Seal)?;
        let daemons = echo::Daemons::start(members)?;
        let mut contest = Contest::new(format!("a hop of {laps} laps round {members} members"));
        contest.add("floor: processes that echo over TCP", move || bare.laps(laps));
        contest
            .add("floor: the same, with an event and sealed messages", move || sealing.laps(laps));
        contest.add("daemons", move || daemons.laps(members, laps));
        let results = contest.run(repetitions);
        let per_hop = |m: Duration| m.as_secs_f64() * 1e6 / f64::from(hops);
        println!("{}", contest::table(&results, "us per hop", per_hop));
    }
    Ok(())
}

/// One daemon serves all jobs, one after the other.
fn memory(options: &Options) -> Result<(), String> {
    let ring = Ring::start()?;
    println!("\n### memory (PSS) while a job sleeps\n");
    let idle = mebibytes(memory::idle(&ring)?);
    println!("| ranks | daemon MiB | manager MiB | mpirun MiB |\n|---:|---:|---:|---:|");
    println!("| none: an idle daemon and its manager in waiting, together | {idle} | | |");
    for ranks in options.numbers("ranks", &[1, 16, 64, 256])? {
        let Sizes { daemon, manager, console } = Sizes::of_job(&ring, ranks)?;
        let [daemon, manager, console] = [daemon, manager, console].map(mebibytes);
        println!("| {ranks} | {daemon} | {manager} | {console} |");
    }
    Ok(())
}

/// Kibibytes as mebibytes with one decimal, rounded up.
fn mebibytes(kibibytes: u64) -> String {
    let tenths = (kibibytes * 10).div_ceil(1024);
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn many(options: &Options) -> Result<(), String> {
    let ring = Ring::start()?;
    let ranks = options.numbers("ranks", &[64, 256, 1000])?;
    many::tables(&ring, &ranks, options.number("repetitions", 15)?)
}

fn share(options: &Options) -> Result<(), String> {
    let ring = Ring::start()?;
    share::tables(&ring, options.number("ranks", 64)?, options.number("repetitions", 15)?)
}

/// Each run is a job whose only rank spawns a light client `count` times, including the start of that job.
fn spawn(options: &Options) -> Result<(), String> {
    let ring = Ring::start()?;
    let count = options.number("count", 200)?;
    let client = programs::own_program("t-spawn")?;
    let mut contest =
        Contest::new(format!("{count} spawns of one light client, one after the other"));
    let alone = client.clone();
    contest.add("floor: fork, exec and wait", move || {
        contest::time(|| (0..count).try_for_each(|_| floor::wait_for(&alone, &["quiet"])))
    });
    let spawns = count.to_string();
    for launcher in Launcher::all(&ring) {
        let name = launcher.name.clone();
        let program = [client.as_str(), "many", &spawns, "1", &client, "quiet"];
        let mut command = launcher.command(1, &[], &program);
        contest.add(&name, move || contest::time(|| floor::run(&mut command)));
    }
    let results = contest.run(options.number("repetitions", 15)?);
    let spawns = u32::try_from(count).map_err(|_| "too many spawns")?;
    let rate = |time: Measured| f64::from(spawns) / time.as_secs_f64();
    println!("{}", contest::table(&results, "spawns/s", rate));
    Ok(())
}

fn init(options: &Options) -> Result<(), String> {
    let ring = Ring::start()?;
    let repetitions = options.number("repetitions", 15)?;
    for ranks in options.numbers("ranks", &[16, 64])? {
        init::init(&ring, ranks, repetitions);
    }
    Ok(())
}

fn scale(options: &Options) -> Result<(), String> {
    let sizes = options.numbers("hosts", &[1000, 10_000, 100_000])?;
    scale::scale(options.number("members", 64)?, &sizes, options.number("count", 10)?)
}

fn farm(options: &Options) -> Result<(), String> {
    let count = options.number("count", 100_000)?;
    let repetitions = options.number("repetitions", 3)?;
    println!("{}", farm::trivial(count, repetitions)?);
    for members in options.numbers("members", &[5])? {
        println!("{}", farm::sleeps((count / 10).max(1), members, repetitions)?);
    }
    Ok(())
}
