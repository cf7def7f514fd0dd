//! Command lines of Hydra and Open MPI on machines of other people: each rank has the CPUs that its own launcher gives it.
//! The files of `machines` describe `/sys` trees of real machines, recorded for the tests of hwloc. Their expectations were
//! shown by the launchers for these trees (`HWLOC_FSROOT`): by Hydra with `HYDRA_TOPO_DEBUG`, by Open MPI with
//! `--do-not-launch` and a map.
//!
//! `scripts/record-topology` prints the first part of such a file.
//!
//! ```text
//! node N CPUS
//! cpu N package=N threads=CPUS siblings=CPUS l1d=CPUS ...     - where the tree lacks a file
//! allowed CPUS                                                the CPUs that a job may use
//! $ NAME OPTIONS PROGRAM
//! cpus 0+4 1-2 all                                            the CPUs of each rank
//! ours 0+4 1-2 3                                              ours, if they differ: on hosts whose parts are unlike
//! ```

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs;

use mpd_io::host::cpus;
use mpd_placement::locality::list;
use serde_json::Value;

use super::*;

thread_local! {
    /// The CPUs of the machine of a test.
    static MACHINE: RefCell<Vec<Cpu>> = const { RefCell::new(Vec::new()) };
}

fn machine() -> Vec<Cpu> {
    MACHINE.with_borrow(Clone::clone)
}

fn survey_of_machine(_: &RingOptions, hosts: &[HostEntry]) -> Result<Surroundings, String> {
    let mut surroundings = surroundings(hosts);
    surroundings.cpus = machine();
    Ok(surroundings)
}

/// The CPUs of a description.
fn cpus_of(text: &str) -> Vec<Cpu> {
    let (tree, allowed) = tree_of(text);
    cpus::described(tree.path(), &allowed)
}

/// Writes the tree of a description, and returns the CPUs that a job may use.
fn tree_of(text: &str) -> (tempfile::TempDir, Vec<u32>) {
    let tree = tempfile::tempdir().unwrap();
    let file = |name: String, value: &str| {
        let path = tree.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{value}\n")).unwrap();
    };
    let mut allowed = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["node", node, cpus] => file(format!("node/node{node}/cpulist"), cpus),
            ["cpu", cpu, ref facts @ ..] => {
                let mut caches = 0;
                for (name, value) in facts.iter().filter_map(|fact| fact.split_once('=')) {
                    let topology = |name: &str| format!("cpu/cpu{cpu}/topology/{name}");
                    match name {
                        _ if value == "-" => {}
                        "package" => file(topology("physical_package_id"), value),
                        "threads" => file(topology("thread_siblings_list"), value),
                        "siblings" => file(topology("core_siblings_list"), value),
                        _ => {
                            let cache = format!("cpu/cpu{cpu}/cache/index{caches}");
                            let (level, kind) = name[1..].split_at(1);
                            let kind = match kind {
                                "d" => "Data",
                                "i" => "Instruction",
                                _ => "Unified",
                            };
                            file(format!("{cache}/level"), level);
                            file(format!("{cache}/type"), kind);
                            file(format!("{cache}/shared_cpu_list"), value);
                            caches += 1;
                        }
                    }
                }
            }
            ["allowed", cpus] => {
                let ranges = cpus.split(',').map(|r| r.split_once('-').unwrap_or((r, r)));
                let number = |text: &str| text.parse::<u32>().unwrap();
                allowed = ranges.flat_map(|(low, high)| number(low)..=number(high)).collect();
            }
            _ => {}
        }
    }
    (tree, allowed)
}

/// The CPUs of each rank by a dry run, or the reason of a refusal.
fn outcome(line: &str) -> Result<String, String> {
    let (name, arguments) = line.split_once(' ').unwrap();
    let mut c = caller(&words(&format!("-dry-run --json {arguments}")));
    c.name = name.to_owned();
    c.cpus = machine;
    c.survey = survey_of_machine;
    let Request::DryRun(answer) = parse(&c).map_err(|e| e.to_string())? else {
        panic!("{line}: no dry run");
    };
    let value: Value = serde_json::from_str(&answer.text).unwrap();
    if let Some(problem) = value.get("problem") {
        return Err(problem.to_string());
    }
    let cpus = |rank: &Value| match rank["cpus"].as_array() {
        Some(cpus) => {
            let cpus = cpus.iter().map(|cpu| u32::try_from(cpu.as_u64().unwrap()).unwrap());
            list(cpus).replace(',', "+")
        }
        None => "all".to_owned(),
    };
    Ok(value["ranks"].as_array().unwrap().iter().map(cpus).collect::<Vec<_>>().join(" "))
}

#[test]
fn ranks_have_the_cpus_that_their_own_launcher_gives_them_on_recorded_machines() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/tests/machines");
    let mut wrong = String::new();
    let mut counts = (0, 0);
    let mut files: Vec<_> = fs::read_dir(data).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        MACHINE.set(cpus_of(&text));
        let all = list(machine().iter().map(|cpu| cpu.number)).replace(',', "+");
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let Some(line) = line.strip_prefix("$ ") else { continue };
            counts.0 += 1;
            let mut expected = lines.next().unwrap().strip_prefix("cpus ").unwrap();
            if let Some(ours) = lines.peek().and_then(|next| next.strip_prefix("ours ")) {
                counts.1 += 1;
                expected = ours;
            }
            // A rank that is bound to all CPUs is not bound.
            let plain = |text: &str| {
                let words = text.split(' ').map(|word| if word == all { "all" } else { word });
                words.collect::<Vec<_>>().join(" ")
            };
            let found = outcome(line).unwrap_or_else(|error| error);
            if plain(expected) != plain(&found) {
                let name = file.file_stem().unwrap().display();
                writeln!(wrong, "{name}: {line}\n    {expected}\n    but: {found}").unwrap();
            }
        }
    }
    let (lines, unlike) = counts;
    assert!(wrong.is_empty(), "of {lines} lines:\n{wrong}");
    assert!(lines >= 600 && unlike * 20 <= lines, "{lines} lines, {unlike} unlike");
}

#[test]
fn the_recorder_prints_the_descriptions_of_the_recorded_machines() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in fs::read_dir(crates.join("src/cli/tests/machines")).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let is_described =
            |line: &&str| ["node ", "cpu ", "allowed "].iter().any(|kind| line.starts_with(kind));
        let described: Vec<&str> = text.lines().filter(is_described).collect();
        let allowed = described.iter().find_map(|line| line.strip_prefix("allowed ")).unwrap();
        let (tree, _) = tree_of(&text);
        let recorder = crates.join("../scripts/record-topology");
        let mut command = std::process::Command::new(recorder);
        let output = command.arg("--system").arg(tree.path()).args(["--allowed", allowed]).output();
        let output = String::from_utf8(output.unwrap().stdout).unwrap();
        assert_eq!(output.lines().collect::<Vec<_>>(), described);
    }
}
