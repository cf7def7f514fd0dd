//! Jobs on trees of several sizes, each in several hundred random orders of events with random faults.
//!
//! `MPD_SIM_JOBS=N` runs about N schedules instead of 6,560, `MPD_SIM_SEED=SEED` with `MPD_SIM_HOSTS=HOSTS` and
//! `MPD_SIM_SPAWNS=SPAWNS`, or `pmi` or `pmix`, replays one schedule with its trace.

use std::fmt;

use super::cluster::{Cluster, Fault, Pmi};
use super::{SIGTERM, name};
use crate::dialect::Dialect;
use crate::recordings::{are_as_in_the_tree, replays};
use crate::sweep::number;
use mpd_job::manager::{Input, Manager};
use mpd_tests::random::Random;
use mpd_wire::Rank;
use mpd_wire::job::{Failure, OnFailure, RankEnd};

/// More steps than any schedule needs.
const MAX_STEPS: usize = 100_000;

#[test]
fn a_job_on_one_host_keeps_its_invariants_under_random_faults() {
    simulate(1, 700);
}

#[test]
fn a_job_on_two_hosts_keeps_its_invariants_under_random_faults() {
    simulate(2, 800);
}

#[test]
fn a_job_on_a_tree_of_one_level_keeps_its_invariants_under_random_faults() {
    simulate(17, 400);
}

#[test]
fn a_job_on_a_tree_of_two_levels_keeps_its_invariants_under_random_faults() {
    simulate(40, 100);
}

#[test]
fn a_job_that_spawns_and_grows_keeps_its_invariants_under_random_faults() {
    simulate_with(1, 1500, 3);
    simulate_with(3, 1000, 3);
    simulate_with(17, 250, 6);
    simulate_with(40, 50, 8);
}

#[test]
fn a_job_whose_ranks_speak_pmi_keeps_its_invariants_under_random_faults() {
    for (hosts, schedules) in [(1, 300), (3, 400), (17, 150), (40, 30)] {
        simulate_of((hosts, Load::Programs(Dialect::Pmi)), schedules);
    }
}

#[test]
fn a_job_whose_ranks_speak_pmi_2_keeps_its_invariants_under_random_faults() {
    for (hosts, schedules) in [(1, 100), (3, 150), (17, 40)] {
        simulate_of((hosts, Load::Programs(Dialect::Pmi2)), schedules);
    }
}

#[test]
fn a_job_whose_ranks_speak_pmix_keeps_its_invariants_under_random_faults() {
    for (hosts, schedules) in [(1, 300), (3, 400), (17, 150), (40, 30)] {
        simulate_of((hosts, Load::Programs(Dialect::Pmix)), schedules);
    }
}

fn simulate(hosts: usize, schedules: u64) {
    simulate_with(hosts, schedules, 0);
}

fn simulate_with(hosts: usize, schedules: u64, spawns: usize) {
    simulate_of((hosts, Load::Spawns(spawns)), schedules);
}

/// What the ranks of a job do.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// They enter fences, and spawn so often.
    Spawns(usize),
    /// They put, fence and get.
    Programs(Dialect),
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spawns(spawns) => write!(f, "{spawns}"),
            Self::Programs(Dialect::Pmi) => f.write_str("pmi"),
            Self::Programs(Dialect::Pmi2) => f.write_str("pmi2"),
            Self::Programs(Dialect::Pmix) => f.write_str("pmix"),
        }
    }
}

/// The number of schedules of all tests here, unless another one is requested.
const USUAL: u64 = 6850;

fn simulate_of((hosts, load): (usize, Load), schedules: u64) {
    let schedules =
        number("MPD_SIM_JOBS").map_or(schedules, |all| (schedules * all).div_ceil(USUAL));
    for seed in 0..schedules {
        let run = std::panic::catch_unwind(|| one_schedule(hosts, seed, load));
        assert!(run.is_ok(), "scripts/replay --job {hosts},{load} {seed} shows it");
    }
}

#[test]
#[ignore = "prints the trace of MPD_SIM_SEED; run by scripts/replay"]
fn replay() {
    let wanted = |name| number(name).unwrap_or_else(|| panic!("{name} is wanted"));
    let [seed, hosts] = ["MPD_SIM_SEED", "MPD_SIM_HOSTS"].map(wanted);
    let hosts = usize::try_from(hosts).expect("a number");
    let load = match std::env::var("MPD_SIM_SPAWNS").expect("MPD_SIM_SPAWNS is wanted").as_str() {
        "pmi" => Load::Programs(Dialect::Pmi),
        "pmi2" => Load::Programs(Dialect::Pmi2),
        "pmix" => Load::Programs(Dialect::Pmix),
        spawns => Load::Spawns(spawns.parse().expect("a number")),
    };
    let (mut cluster, mut faults) = begin(hosts, seed, load);
    cluster.lines = Some(Vec::new());
    let run = || run(&mut cluster, &mut faults);
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    for line in cluster.lines.take().unwrap_or_default() {
        println!("{line}");
    }
    assert!(ended.is_ok(), "the schedule above violates an invariant");
}

#[test]
fn a_seed_of_a_simulated_job_determines_its_trace() {
    let trace = |seed, load| {
        let (mut cluster, mut faults) = begin(3, seed, load);
        cluster.lines = Some(Vec::new());
        run(&mut cluster, &mut faults);
        cluster.lines
    };
    for load in [Load::Spawns(2), Load::Programs(Dialect::Pmi), Load::Programs(Dialect::Pmix)] {
        for seed in 0..5 {
            assert_eq!(trace(seed, load), trace(seed, load), "seed {seed}");
            assert_ne!(trace(seed, load), trace(seed + 5, load));
        }
    }
}

#[test]
fn managers_have_the_outputs_of_the_recordings_in_the_tree() {
    are_as_in_the_tree::<Manager>("job.txt", || {
        let mut recordings = Vec::new();
        for (hosts, seed, spawns) in [(1, 1, 1), (3, 2, 2), (3, 5, 1)] {
            let (mut cluster, mut faults) = begin(hosts, seed, Load::Spawns(spawns));
            cluster.record();
            run(&mut cluster, &mut faults);
            recordings.extend(cluster.recordings());
        }
        recordings
    });
}

#[test]
fn every_manager_of_a_simulated_job_replays_from_its_recording() {
    let mut steps = 0;
    for (hosts, spawns) in [(1, 3), (3, 3), (17, 4)] {
        for seed in 0..20 {
            let (mut cluster, mut faults) = begin(hosts, seed, Load::Spawns(spawns));
            cluster.record();
            run(&mut cluster, &mut faults);
            let recordings = cluster.recordings();
            assert!(recordings.len() >= hosts);
            steps += recordings.iter().map(|one| replays::<Manager>(one)).sum::<u64>();
        }
    }
    assert!(steps > 5_000, "{steps} steps");
}

fn one_schedule(hosts: usize, seed: u64, load: Load) {
    let (mut cluster, mut faults) = begin(hosts, seed, load);
    run(&mut cluster, &mut faults);
}

/// Faults, each with the number of the step that follows it.
type Faults = Vec<(usize, Fault)>;

fn begin(hosts: usize, seed: u64, load: Load) -> (Cluster, Faults) {
    let mut dice = Random::new(seed);
    let each = 1 + u32::try_from(dice.below(3)).unwrap();
    let fences = u32::try_from(dice.below(3)).unwrap();
    let on_failure = if dice.one_in(3) { OnFailure::Continue } else { OnFailure::End };
    let mut faults = faults(&mut dice, hosts, each);
    let spawns = match load {
        Load::Spawns(spawns) => spawns,
        Load::Programs(_) => 0,
    };
    let spawns: Vec<(usize, Fault)> =
        (0..spawns).map(|_| (dice.below(hosts * 60), spawn(&mut dice, hosts, each))).collect();
    faults.extend(spawns);
    let mut cluster = Cluster::new(hosts, each, dice, on_failure).with_fences(fences);
    cluster.at_release = no_fence_is_released_before_all_live_ranks_have_entered;
    cluster.at_finish = nothing_within_reach_is_left_at_the_end;
    let cluster = match load {
        Load::Spawns(_) => cluster,
        Load::Programs(dialect) => cluster.with_programs(dialect),
    };
    (cluster, faults)
}

/// Runs the job to its end and checks every invariant.
fn run(cluster: &mut Cluster, faults: &mut Faults) {
    for step in 0..MAX_STEPS {
        for (_, fault) in faults.extract_if(.., |(at, _)| *at <= step) {
            cluster.apply_fault(fault);
        }
        if cluster.is_over() {
            break;
        }
        if cluster.dice.one_in(500) {
            cluster.pass_time();
        }
        let moves = cluster.step();
        if !moves {
            assert!(cluster.waits_in_vain().is_none(), "{:?}", cluster.waits_in_vain());
        }
        let continues = moves || cluster.pass_time() || cluster.help();
        assert!(continues || cluster.is_over(), "no event is possible, but the job has not ended");
    }
    every_manager_ends(cluster);
    nothing_of_a_withdrawn_job_ran(cluster);
    no_rank_runs_if_a_check_failed(cluster);
    the_code_is_that_of_the_first_failure(cluster);
    every_reported_failure_happened(cluster);
    code_0_means_success(cluster);
}

/// The faults and their times: usually one fault, often two.
fn faults(dice: &mut Random, hosts: usize, each: u32) -> Vec<(usize, Fault)> {
    let steps = hosts * (20 + 10 * each as usize);
    let some = dice.below(4);
    (0..some).map(|_| (dice.below(steps), fault(dice, hosts, each))).collect()
}

fn fault(dice: &mut Random, hosts: usize, each: u32) -> Fault {
    let size = hosts * each as usize;
    let rank = Rank(u32::try_from(dice.below(size)).unwrap());
    let tree_index = dice.below(hosts);
    let here = tree_index * each as usize;
    let rank_here = Rank(u32::try_from(here).unwrap());
    let below_root = (hosts > 1).then(|| 1 + dice.below(hosts.max(2) - 1));
    match (dice.below(24), below_root) {
        (0, _) => Fault::CheckFails(tree_index),
        (1, _) => Fault::SpawnFails(tree_index),
        (2 | 3, Some(tree_index)) => Fault::Crash(tree_index),
        (4 | 5, Some(tree_index)) => Fault::Cut(tree_index),
        (6, Some(tree_index)) => Fault::Missing(tree_index),
        (7 | 8, _) => Fault::Ends(rank, RankEnd::Exited(7)),
        (9, _) => Fault::Ends(rank, RankEnd::Exited(0)),
        (10, _) => Fault::Ends(rank, RankEnd::Signaled { signal: 11, core: true }),
        (11, _) => Fault::Here(tree_index, Input::Aborted(rank_here, 5, "no more".to_owned())),
        (12, _) => Fault::Here(tree_index, Input::BrokeProtocol(rank_here, "nonsense".to_owned())),
        (13, _) => Fault::Here(tree_index, Input::Kill),
        (14, _) => Fault::Here(tree_index, Input::OutputFailed("disk full".to_owned())),
        (15 | 16, _) => Fault::Console(Input::Suspend),
        (17, _) => Fault::Console(Input::ConsoleLost),
        (18, _) => Fault::Console(Input::Signal(SIGTERM)),
        (19, _) => Fault::Console(Input::OutputClosed),
        (20, _) => Fault::ReaderStops,
        (21 | 22, Some(_)) => Fault::Here(0, Input::CutOff),
        _ => Fault::Console(Input::Interrupt),
    }
}

/// A rank or a user requests some processes.
fn spawn(dice: &mut Random, hosts: usize, each: u32) -> Fault {
    let size = hosts * each as usize;
    let spawner = Rank(u32::try_from(dice.below(size)).unwrap());
    let processes = 1 + u32::try_from(dice.below(4)).unwrap();
    if dice.one_in(8) { Fault::Grow(processes) } else { Fault::Spawn(spawner, processes) }
}

fn every_manager_ends(cluster: &Cluster) {
    assert!(cluster.is_over(), "not ended after {MAX_STEPS} steps");
    assert!(
        cluster.finish.is_some() != cluster.withdrawn,
        "the root reports the end, or withdraws"
    );
}

/// A job that the console submits again has not run, and no failure of it was reported.
fn nothing_of_a_withdrawn_job_ran(cluster: &Cluster) {
    if cluster.withdrawn {
        assert!(!cluster.started && cluster.reported_failures.is_empty());
        assert!(cluster.hosts.iter().all(|host| !host.went && host.processes.is_empty()));
    }
}

fn no_rank_runs_if_a_check_failed(cluster: &Cluster) {
    if cluster.check_failed || cluster.hosts.iter().any(|host| !host.ready) {
        let ran = cluster.hosts.iter().position(|host| host.went || !host.processes.is_empty());
        assert_eq!(ran, None);
    }
}

fn no_fence_is_released_before_all_live_ranks_have_entered(cluster: &Cluster) {
    for (tree_index, host) in cluster.hosts.iter().enumerate() {
        if !cluster.is_out_of_reach(tree_index) {
            let first = host.processes.iter().filter(|(rank, _)| **rank < cluster.size);
            let late = first.into_iter().find(|(_, p)| p.end.is_none() && !p.inside);
            assert!(late.is_none(), "host {tree_index}: {late:?}");
        }
    }
}

fn nothing_within_reach_is_left_at_the_end(cluster: &Cluster) {
    for (tree_index, host) in cluster.hosts.iter().enumerate() {
        if !cluster.is_out_of_reach(tree_index) {
            assert!(host.processes.values().all(|p| p.end.is_some()), "host {tree_index}: ranks");
            assert!(host.cleaned_up, "host {tree_index}: not cleaned");
        }
    }
}

fn the_code_is_that_of_the_first_failure(cluster: &Cluster) {
    assert!(cluster.reported_failures.len() <= 1, "only the first failure is reported");
    let code = cluster.reported_failures.first().map_or(0, |(_, failure)| failure.exit_code());
    assert_eq!(cluster.finish, (!cluster.withdrawn).then_some(code));
}

/// A reported failure did happen, and on the reported host.
fn every_reported_failure_happened(cluster: &Cluster) {
    let Some((host, failure)) = cluster.reported_failures.first() else { return };
    let tree_index_of = |rank: &Rank| cluster.host_slices.tree_index_of_rank(*rank).unwrap();
    let process = |rank: &Rank| &cluster.hosts[tree_index_of(rank)].processes[&rank.0];
    match failure {
        Failure::Rank { rank, end } => assert_eq!(process(rank).end, Some(*end)),
        Failure::NotFinalized { rank } => assert_eq!(process(rank).pmi, Pmi::Initialized),
        Failure::RanAlone { rank, .. } | Failure::NotInitialized { rank } => {
            assert_eq!(process(rank).pmi, Pmi::Unused);
        }
        Failure::LeftOthersWaiting { rank } => assert!(process(rank).end.is_some()),
        Failure::HostLost { host: lost, .. } => {
            assert_eq!(host.as_ref().map(ToString::to_string).as_ref(), Some(lost));
            let tree_index = cluster.host_slices.tree_index_of(host.as_ref().unwrap()).unwrap();
            assert!(cluster.hosts[tree_index].lost);
            assert!(!cluster.hosts[tree_index].reported, "no report of this host was missing");
        }
        Failure::Aborted { rank, .. } | Failure::BrokeProtocol { rank, .. } => {
            assert_eq!(host.as_ref(), Some(&name(tree_index_of(rank))));
        }
        Failure::CannotExecute { .. }
        | Failure::OutputClosed
        | Failure::LeftRunning { .. }
        | Failure::OutputFailed { .. }
        | Failure::TimedOut { .. }
        | Failure::Interrupted { .. }
        | Failure::Killed
        | Failure::TwoLibraries { .. }
        | Failure::Suite { .. }
        | Failure::ConnectedJob { .. }
        | Failure::InWorld { .. } => {}
    }
}

/// With code 0 every rank exited with 0, and finalized if it had initialized. No report is checked if the
/// console is lost.
fn code_0_means_success(cluster: &Cluster) {
    if cluster.finish != Some(0) || cluster.console_lost {
        return;
    }
    let processes = cluster.hosts.iter().flat_map(|host| &host.processes);
    for (_, process) in processes.filter(|(rank, _)| is_wanted(cluster, **rank)) {
        assert_eq!(process.end, Some(RankEnd::Exited(0)));
        assert!(process.pmi != Pmi::Initialized);
        assert!(!process.waits(), "each request is answered");
    }
    let first = cluster.hosts.iter().filter(|host| !host.processes.is_empty());
    assert!(first.into_iter().all(|host| host.went));
}

/// Whether a rank belongs to a world that could be started.
fn is_wanted(cluster: &Cluster, rank: u32) -> bool {
    let world = cluster.worlds.range(..=Rank(rank)).next_back();
    let world = world.filter(|(_, world)| world.contains(Rank(rank)));
    world.is_none_or(|(first, _)| !cluster.failed.contains(first))
}

#[test]
fn a_fence_entered_in_one_step_costs_one_message_per_manager() {
    for hosts in [1, 2, 17, 40, 300] {
        let mut cluster = Cluster::new(hosts, 2, Random::new(1), OnFailure::End).with_fences(1);
        cluster.start_all();
        for fences in 1..=2 {
            cluster.enter_all();
            cluster.deliver_all();
            assert_eq!(cluster.releases, fences);
            assert_eq!(cluster.entries, fences * (hosts - 1));
        }
    }
}
