//! Ranks bound to CPUs, and the map of ranks and hosts.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::OpenOptionsExt as _;

use nix::fcntl::OFlag;

use crate::members::Members;
use crate::pty;
use crate::run::Output;
use crate::suite::Suite;

const SHOW: [&str; 3] = ["sh", "-c", "echo $PMI_RANK $(grep Cpus_allowed_list /proc/self/status)"];

/// The numbers of a list such as `0-3,8`.
pub(crate) fn numbers(list: &str) -> BTreeSet<u32> {
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<u32>().expect("a number of a CPU");
        number(low)..=number(high)
    };
    list.split(',').flat_map(range).collect()
}

/// The CPUs that each rank may use.
fn masks(output: &Output) -> Vec<BTreeSet<u32>> {
    let mut lines: Vec<(u32, BTreeSet<u32>)> = Vec::new();
    for line in output.code(0).quiet().out().lines() {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        lines.push((arguments[0].parse().expect("a rank"), numbers(arguments[2])));
    }
    lines.sort();
    lines.into_iter().map(|(_, mask)| mask).collect()
}

/// The CPUs that the caller of the tests may use.
pub(crate) fn allowed() -> BTreeSet<u32> {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    numbers(line.expect("a list of CPUs").trim())
}

/// The CPUs that each rank may use with this binding.
pub(crate) fn bound(suite: &Suite, to: &str, ranks: usize) -> Vec<BTreeSet<u32>> {
    let ranks = ranks.to_string();
    masks(&suite.mpirun(["-n", &ranks, "-bind-to", to]).args(SHOW).output())
}

#[test]
fn without_bind_to_ranks_may_use_all_cpus_of_the_daemon() {
    let suite = Suite::new();
    assert_eq!(bound(&suite, "none", 2), [allowed(), allowed()]);
    assert_eq!(masks(&suite.mpirun(SHOW).output()), [allowed()]);
}

#[test]
fn spawned_processes_get_the_gpus_behind_those_of_the_ranks_that_run() {
    let suite = Suite::new();
    let hosts = suite.path("gpus");
    std::fs::write(&hosts, "localhost slots=4 gpus=3\n").expect("write a host file");
    let spawner = suite.program("t-spawn");
    let job = |number: &str| {
        let options = ["-f", hosts.to_str().expect("text"), "-n", "1", "-gpus-per-proc", "1"];
        let spawn = ["many", "1", number, "sh", "-c", "echo gpu $CUDA_VISIBLE_DEVICES"];
        suite.mpirun(options).arg(&spawner).args(spawn).output()
    };
    let output = job("2");
    let text = output.code(0).quiet().out();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.retain(|line| line.starts_with("gpu "));
    lines.sort_unstable();
    assert_eq!(lines, ["gpu 1", "gpu 2"], "{output}");
    job("3").code(0).says(&["4 ranks with 1 each share 3 GPUs"]);
}

#[test]
fn spawned_processes_are_bound_behind_the_ranks_that_run() {
    let suite = Suite::new();
    let spawner = suite.program("t-spawn");
    let show = "grep Cpus_allowed_list /proc/self/status";
    let spawn = ["-n", "1", "-bind-to", "core", &spawner, "many", "1", "1", "sh", "-c", show];
    let output = suite.mpirun(spawn).output();
    let output = output.code(0).quiet().out();
    let list = output.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let child = numbers(list.expect("a list of CPUs").trim());
    assert_eq!(child, bound(&suite, "core", 2)[1]);
}

#[test]
fn each_rank_gets_its_own_core_while_unused_cores_remain() {
    let suite = Suite::new();
    let all = allowed();
    // With one rank more than there are CPUs, a later rank gets the same core as the first.
    let masks = bound(&suite, "core", all.len() + 1);
    let cores = masks[1..].iter().position(|mask| *mask == masks[0]).map_or(0, |at| at + 1);
    assert!(cores > 0, "no rank shares a core with the first: {masks:?}");
    let used: BTreeSet<u32> = masks[..cores].iter().flatten().copied().collect();
    assert_eq!(used, all, "each CPU is part of a core");
    let sum: usize = masks[..cores].iter().map(BTreeSet::len).sum();
    assert_eq!(sum, all.len(), "no CPU is part of two: {masks:?}");
}

#[test]
fn a_single_rank_is_bound_to_all_slots_or_to_one_numa_node() {
    let suite = Suite::new();
    assert_eq!(bound(&suite, "slots", 1), [allowed()]);
    let node = &bound(&suite, "numa", 1)[0];
    assert!(!node.is_empty() && node.is_subset(&allowed()), "{node:?}");
}

#[test]
fn ranks_are_bound_only_to_cpus_of_their_daemon() {
    let suite = Suite::new();
    let cpu = allowed().pop_last().expect("a CPU");
    let number = cpu.to_string();
    let log = suite.path("mpd.log");
    let mpd = suite.program("mpd");
    let arguments = ["-c", &number, &mpd, "--daemon", "--log-file", &log.display().to_string()];
    suite.command("taskset").args(arguments).output().code(0);
    suite.adopt(suite.daemon().pid, &suite.rundir(), &log);
    for to in ["core", "numa", "slots", "hwthread", "l3cache", "socket", "none"] {
        assert_eq!(bound(&suite, to, 3), [(); 3].map(|()| BTreeSet::from([cpu])), "{to}");
    }
}

#[test]
fn the_rank_map_is_printed_once_before_all_output_of_ranks() {
    let ring = Members::of(3);
    let arguments = ["-n", "6", "-ppn", "2", "-print-rank-map", "-l", "echo", "x"];
    let output = ring.mpirun(2, &arguments).output();
    let out = output.code(0).quiet().out();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "(d2:0-1)(d3:2-3)(d1:4-5)");
    assert_eq!(lines[1..].len(), 6, "{output}");
    assert!(lines[1..].iter().all(|line| line.ends_with(": x")), "{output}");
}

#[test]
fn oversubscription_is_reported_only_with_verbose_or_on_a_terminal() {
    let ring = Members::of(2);
    let notice = "mpirun: 5 processes share 2 hosts with slots for 4";
    let run = |options: &[&str]| {
        let options = [&["-n", "5", "-ppn", "2"], options].concat();
        ring.mpirun(1, &options).arg("true")
    };
    run(&[]).output().code(0).quiet();
    let verbose = run(&["-v"]).output();
    let err = verbose.code(0).err();
    assert_eq!(err.lines().filter(|line| *line == notice).count(), 1, "{verbose}");
    let (master, name) = pty::open();
    let (mut options, flags) = (OpenOptions::new(), OFlag::O_NOCTTY.bits());
    let terminal = options.write(true).custom_flags(flags).open(name).unwrap();
    run(&[]).stderr(terminal).output().code(0);
    let mut line = String::new();
    BufReader::new(master).read_line(&mut line).unwrap();
    assert_eq!(line.trim_end(), notice);
}

#[test]
fn oversubscription_of_one_host_is_reported_too() {
    let ring = Members::with_slots(1, 2);
    let output = ring.mpirun(1, &["-v", "-n", "3", "true"]).output();
    output.code(0).says(&["mpirun: 3 processes share d1 with slots for 2"]);
    let enough = ring.mpirun(1, &["-v", "-n", "2", "true"]).output();
    assert!(!enough.code(0).err().contains("share"), "{enough}");
}

#[test]
fn the_host_file_of_the_boot_limits_processes_and_gives_gpus() {
    let members = Members::new().option(&["--gpus", "2", "--max-slots", "3"]);
    let ring = members.with(2);
    let gpu = "echo $CUDA_VISIBLE_DEVICES";
    let words = ["-n", "2", "-hosts", "d2", "-gpus-per-proc", "1", "sh", "-c", gpu];
    // The root manager on d1 has no rank.
    let output = ring.mpirun(1, &words).output();
    assert_eq!(output.code(0).sorted_lines(), ["0", "1"], "{output}");
    let output = ring.mpirun(1, &["-n", "4", "-hosts", "d2", "true"]).output();
    output.code(125).says(&["d2", "4 processes are more than its limit of 3 (max_slots)"]);
    ring.mpirun(1, &["-n", "3", "-hosts", "d2", "true"]).output().code(0).quiet();
    ring.only_daemons_are_left();
}

#[test]
fn gpus_are_needed_only_where_ranks_are() {
    let ring = Members::of(2);
    let words = ["-n", "1", "-hosts", "d2", "-gpus-per-proc", "1", "true"];
    let output = ring.mpirun(1, &words).output();
    // This machine may have GPUs.
    if output.exit_code() != Some(0) {
        output.code(125).says(&["d2", "there is no GPU here"]);
        assert!(!output.err().contains("host d1"), "{output}");
    }
    ring.only_daemons_are_left();
}

/// A file in the directory of the jobs.
fn file(suite: &Suite, name: &str, text: &str) -> String {
    let path = suite.path(format!("work/{name}"));
    std::fs::write(&path, text).expect("a file");
    path.display().to_string()
}

#[test]
fn ranks_are_bound_to_the_lists_of_the_user_and_a_missing_cpu_is_named() {
    let suite = Suite::new();
    let cpus: Vec<u32> = allowed().into_iter().collect();
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    let to = format!("user:{last},{first}+{last}");
    let both = BTreeSet::from([first, last]);
    let expected = [BTreeSet::from([last]), both, BTreeSet::from([last])];
    assert_eq!(bound(&suite, &to, 3), expected);
    let output = suite.mpirun(["-n", "2", "-bind-to", "user:0,60000", "true"]).output();
    output.code(125).says(&["CPU 60000 is not available; the CPUs here are"]);
    suite.gone(&[]);
}

#[test]
fn a_rank_file_binds_each_rank_and_the_report_has_what_was_set() {
    let suite = Suite::new();
    let cpus: Vec<u32> = allowed().into_iter().collect();
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    let text = format!("rank 1=localhost slot=p{first}\nrank 0=localhost slot=p{last}\n");
    let ranks = file(&suite, "ranks", &text);
    let output = suite.mpirun(["-rankfile", &ranks, "-report-bindings"]).args(SHOW).output();
    output.code(0);
    let (out, err) = (output.out(), output.err());
    let mut masks: Vec<&str> = out.lines().collect();
    masks.sort_unstable();
    let end = |rank: usize, cpu: u32| format!("{rank} Cpus_allowed_list: {cpu}");
    assert_eq!(masks, [end(0, last), end(1, first)]);
    for (rank, cpu) in [(0, last), (1, first)] {
        let begins = |line: &&str| line.starts_with(&format!("mpirun: rank {rank} on "));
        let lines: Vec<&str> = err.lines().filter(begins).collect();
        assert!(lines.len() == 1 && lines[0].contains(&format!(": CPUs {cpu} (")), "{output}");
    }
}

#[test]
fn ranks_get_the_gpus_of_their_host_in_turn_unless_a_variable_is_set() {
    let suite = Suite::new();
    let hosts = file(&suite, "hosts", "localhost slots=4 gpus=2\n");
    let arguments = ["-f", &hosts, "-n", "3", "-gpus-per-proc", "1"];
    let show = ["sh", "-c", "echo $PMI_RANK $CUDA_VISIBLE_DEVICES $ZE_AFFINITY_MASK"];
    let output = suite.mpirun(arguments).args(show).output();
    output.code(0).says(&["3 ranks with 1 each share 2 GPUs"]);
    assert_eq!(output.sorted_lines(), ["0 0 0", "1 1 1", "2 0 0"]);
    let set = suite.mpirun(arguments).args(["-genv", "CUDA_VISIBLE_DEVICES", "7"]);
    let output = set.args(show).output();
    output.code(0).says(&["-gpus-per-proc does not change CUDA_VISIBLE_DEVICES"]);
    assert_eq!(output.sorted_lines(), ["0 7 0", "1 7 1", "2 7 0"]);
}
