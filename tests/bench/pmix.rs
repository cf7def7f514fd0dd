//! PMIx: a bare client, and the start of Open MPI, under our launcher and under those of Open MPI and Slurm.

use std::process::{Command, Stdio};
use std::time::Duration;

use mpd_tests::surroundings::setting;

use crate::contest::{self, Contest, Measured, Results};
use crate::programs::{self, Launcher, Ring};

/// A launcher with all its options but the number of ranks.
struct Contestant {
    name: String,
    words: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Contestant {
    fn new(name: &str, line: &str) -> Self {
        let words = line.split(' ').map(str::to_owned).collect();
        Self { name: name.to_owned(), words, environment: Vec::new() }
    }

    fn command(&self, ranks: usize, program: &[&str]) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).args(["-n", &ranks.to_string()]).args(program);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// The launchers of others that are there.
fn rivals() -> Vec<Contestant> {
    let mut rivals = Vec::new();
    match setting("MPD_TEST_OMPI5011_MPIEXEC") {
        Some(mpiexec) => {
            let prterun = mpiexec.replace("mpiexec", "prterun");
            let line =
                format!("{prterun} --allow-run-as-root --map-by :OVERSUBSCRIBE --bind-to none");
            rivals.push(Contestant::new("prterun of Open MPI 5.0.11", &line));
        }
        None => crate::left_out("prterun", "Open MPI 5.0.11 is not there"),
    }
    match setting("MPD_TEST_OMPI_DEBIAN_PREFIX") {
        Some(prefix) => {
            let options = "--allow-run-as-root --oversubscribe --bind-to none";
            let line = format!("{prefix}/bin/mpirun.openmpi {options}");
            let mut debian = Contestant::new("mpirun of Open MPI 4.1.4", &line);
            let libraries = format!("{prefix}/lib/{}-linux-gnu", std::env::consts::ARCH);
            debian.environment =
                vec![("OPAL_PREFIX".to_owned(), prefix), ("LD_LIBRARY_PATH".to_owned(), libraries)];
            rivals.push(debian);
        }
        None => crate::left_out("mpirun of Open MPI 4.1.4", "Debian's Open MPI is not there"),
    }
    match std::env::var("MPD_BENCH_SRUN") {
        Ok(line) => rivals.push(Contestant::new("srun --mpi=pmix", &line)),
        Err(_) => crate::left_out("srun --mpi=pmix", "no Slurm with a plugin for PMIx is there"),
    }
    rivals
}

/// The numbers in the lines of a command that must succeed, one vector for each line.
fn numbers(command: &mut Command) -> Result<Vec<Vec<u64>>, String> {
    command.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::piped());
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("---"));
        return Err(format!("{}: {}", output.status, first.unwrap_or_default()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |line: &str| line.split(' ').map(|word| word.parse().ok()).collect();
    text.lines().map(line).collect::<Option<_>>().ok_or_else(|| format!("no numbers: {text}"))
}

/// The exchange of bare clients: each puts and commits, enters a fence, and gets the values of all. All begin after a
/// fence, from which each launcher releases the clients in its own order. A client with an early release waits for the
/// others in the second fence. So the time of rank 0 depends on that order. The time from the first put to the last get
/// does not.
pub(crate) fn exchange(ring: &Ring, ranks: usize, repetitions: usize) -> Result<(), String> {
    for (whose, counted) in [("at rank 0", 1), ("from the first put to the last get", ranks)] {
        let title = format!("PMIx: put, fence, get all of {ranks} bare clients, {whose}");
        exchange_of(ring, ranks, counted, Contest::new(title), repetitions)?;
    }
    Ok(())
}

/// The exchange of `ranks` clients: the time from the first put to the last get of the first `counted` ones.
fn exchange_of(
    ring: &Ring,
    ranks: usize,
    counted: usize,
    mut contest: Contest,
    repetitions: usize,
) -> Result<(), String> {
    let directory =
        setting("MPD_TEST_PMIX_DIR").ok_or("no client; run scripts/prepare-test-env")?;
    let program = format!("{directory}/pmix_client");
    let arguments = [program.as_str(), "putget"];
    let mut add = |name: &str, mut command: Command| {
        contest.add(name, move || {
            let mut lines = numbers(&mut command)?;
            // The first number is the rank.
            lines.sort_unstable();
            let of = |at: usize| lines.iter().take(counted).filter_map(move |line| line.get(at));
            match (lines.len() == ranks, of(1).min(), of(2).max()) {
                (true, Some(begin), Some(end)) => Ok(Duration::from_micros(end - begin)),
                _ => Err(format!("{} lines of {ranks} ranks", lines.len())),
            }
        });
    };
    add("mpirun", Launcher::ours(ring).command(ranks, &[], &arguments));
    for rival in rivals() {
        add(&rival.name, rival.command(ranks, &arguments));
    }
    let results = contest.run(repetitions);
    println!("{}", contest::table(&results, "ms", milliseconds));
    compare(&results, Duration::ZERO);
    Ok(())
}

/// The time of `MPI_Init` and `MPI_Finalize`: from the last rank's start of the one to the last end of the other.
pub(crate) fn library(ring: &Ring, ranks: usize, repetitions: usize) -> Result<(), String> {
    let directory = setting("MPD_TEST_OMPI5011_DIR").ok_or("Open MPI 5.0.11 is not there")?;
    let program = format!("{directory}/init");
    let stub = programs::own_program("t-pmix")?;
    let mut contest =
        Contest::new(format!("MPI_Init and MPI_Finalize of Open MPI 5.0.11 on {ranks} ranks"));
    let mut add = |name: &str, mut command: Command| {
        contest.add(name, move || {
            let lines = numbers(&mut command)?;
            let latest = |at: usize| lines.iter().filter_map(|line| line.get(at)).max().copied();
            match (lines.len() == ranks, latest(0), latest(1)) {
                (true, Some(begin), Some(end)) => Ok(Duration::from_micros(end - begin)),
                _ => Err(format!("{} lines of {ranks} ranks", lines.len())),
            }
        });
    };
    let arguments = [program.as_str()];
    add(
        "stub: a server that answers at once",
        Contestant::new("", &stub).command(ranks, &arguments),
    );
    add("mpirun", Launcher::ours(ring).command(ranks, &[], &arguments));
    // An older launcher that needs a library path would give the programs its own library.
    for rival in rivals().into_iter().filter(|rival| rival.environment.is_empty()) {
        add(&rival.name, rival.command(ranks, &arguments));
    }
    let mut results = contest.run(repetitions);
    println!("{}", contest::table(&results, "ms", milliseconds));
    let stub = results.entries.remove(0).1.median().ok_or("the stub failed")?;
    compare(&results, stub);
    Ok(())
}

fn milliseconds(time: Measured) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Prints our median compared with the best other median, both less `base`. The first entry is ours.
fn compare(results: &Results, base: Duration) {
    let median =
        |at: usize| results.entries[at].1.median().map(|m| milliseconds(m) - milliseconds(base));
    let others = (1..results.entries.len()).filter_map(|at| Some((median(at)?, at)));
    let best = others.min_by(|(left, _), (right, _)| left.total_cmp(right));
    let (Some(ours), Some((best, at))) = (median(0), best) else {
        return println!("\nnothing to compare");
    };
    let above = if base.is_zero() { "" } else { " above the stub" };
    let name = &results.entries[at].0;
    let ratio = match best > 0.0 {
        true => format!("{:.2} x", ours / best),
        false => "no ratio".to_owned(),
    };
    println!("\nmpirun {ours:.2} ms{above}, {name} {best:.2} ms{above}: {ratio}");
}
