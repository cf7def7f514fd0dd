//! Command lines that people have, of this and of other launchers: each is accepted with the expected placement,
//! binding and environment, or is refused with the expected reason. The files of `launch_lines` have the lines.
//!
//! ```text
//! # where the lines come from: a repository and the path in it, a manual and its section
//! @ hydra               the launcher for which the following lines were written
//! $ NAME=VALUE mpirun OPTIONS PROGRAM
//! = h0:0-1 b:2-3        the ranks of each host
//! cpus 0,4 1,5          the CPUs of the ranks of h0, in their order
//! gpus 0 1              the GPUs of the ranks of all hosts
//! env NAME=VALUE        a variable of the first program that differs from the caller's
//! unset NAME            the variables of the caller that the first program lacks
//! directory /tmp        the directory of the first program
//! program a x           the words of the first program
//! option NAME: VALUE    an option of the dry run
//! remark TEXT           the beginning of a remark
//! ! TEXT                instead of all that: the launcher accepts the line, and we refuse it; a part of the reason
//! x TEXT                the same, but the refusal is right: these hosts cannot do it
//! ```
//!
//! Lines of scripts are shortened to two hosts and a few ranks. At least 95 % of the lines of each launcher are understood.
//! The lines after `@ checks` are our own and do not count. The test prints a table of the rates.
//!
//! This host is `h0`. It has two sockets with two cores of two threads. Other hosts have eight CPUs. The directory
//! has the host files `hosts`, `slots`, `machines` and `gpus`, the rank files `ranks`, `places`, `sockets` and `badranks`, the files of
//! programs `apps` and `multi`, and the hosts of tasks `tasks`. There is no Slurm here. `DIR` is the directory.

use std::collections::BTreeMap;

use serde_json::Value;

use super::*;
use crate::configfile;

const FILES: [(&str, &str); 11] = [
    ("hosts", "h0\nb\n"),
    ("slots", "h0 slots=2\nb slots=2 max_slots=4\n"),
    ("machines", "h0:2\nb:2 # two\n"),
    ("apps", "-n 1 ./master\n-n 2 ./worker x\n"),
    ("ranks", "rank 0=b slot=1:0-1\nrank 1=h0 slot=0:0,1\nrank 2=h0 slot=3 # a core\nrank 3=h0\n"),
    ("places", "rank 0=+n1 slot=0\nrank 1=+n0 slot=1:*\n"),
    ("badranks", "rank 0=h0 slot=0\n\nrank 1=h0 slot=x\n"),
    ("sockets", "rank 0=h0 slot=0:0,1:0\nrank 1=b slot=0:*,1:*\nrank 2=h0 slot=0:*,1:*\n"),
    ("gpus", "h0 slots=4 gpus=2\nb slots=2 gpus=2\n"),
    ("multi", "0 ./master\n1-3 ./worker task:%t place:%o\n"),
    ("tasks", "b\nh0\nb\n"),
];

/// One line with its expectations.
struct Case {
    place: String,
    launcher: String,
    line: String,
    expected: Vec<String>,
}

fn cases(file: &str, text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let (mut source, mut launcher) = (false, "");
    for (number, line) in (1..).zip(text.lines()) {
        match line.split_once(' ') {
            Some(("#", _)) => source = true,
            Some(("@", name)) => launcher = name,
            Some(("$", line)) => {
                assert!(source && !launcher.is_empty(), "{file}:{number}: no source");
                let (place, line) = (format!("{file}:{number}"), line.to_owned());
                let launcher = launcher.to_owned();
                cases.push(Case { place, launcher, line, expected: Vec::new() });
            }
            Some(_) => cases.last_mut().expect(file).expected.push(line.to_owned()),
            None => source &= !line.is_empty(),
        }
    }
    cases
}

/// The answer of a dry run, or the error.
fn outcome(case: &Case, directory: &Path) -> Result<Value, String> {
    let mut words = configfile::lines(case.line.as_bytes()).unwrap().remove(0).words;
    let is_program = |word: &OsString| !word.to_str().unwrap().contains('=');
    let at = words.iter().position(is_program).unwrap();
    let mut c = caller(&[]);
    c.directory = directory.to_owned();
    c.environment.extend(words.drain(..at).map(OsString::into_vec));
    c.name = words.remove(0).into_string().unwrap();
    c.arguments = ["-dry-run", "--json"].map(OsString::from).to_vec();
    // A file of programs is looked for in the working directory of the process.
    let here = |word: OsString| if word == "apps" { directory.join("apps").into() } else { word };
    c.arguments.extend(words.into_iter().map(here));
    match parse(&c).map_err(|e| e.to_string())? {
        Request::DryRun(answer) => {
            let value: Value = serde_json::from_str(&answer.text).unwrap();
            match value.get("problem") {
                Some(problem) => Err(problem.as_str().unwrap().to_owned()),
                None => Ok(value),
            }
        }
        other => Err(format!("{other:?}")),
    }
}

/// What differs from an expectation; empty if nothing does.
fn differs(expected: &str, value: &Value) -> String {
    let (kind, wanted) = expected.split_once(' ').unwrap();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let program = &value["programs"][0];
    let ranks = || value["ranks"].as_array().unwrap().iter();
    let found = match kind {
        "=" => {
            let hosts = value["hosts"].as_array().unwrap().iter();
            let host = |host: &Value| {
                let ranks = host["ranks"].as_array().unwrap().iter();
                let ranks = ranks.map(|rank| u32::try_from(rank.as_u64().unwrap()).unwrap());
                let ranks: mpd_wire::RankSet = ranks.map(mpd_wire::Rank).collect();
                format!("{}:{ranks}", text(&host["name"]))
            };
            hosts.map(host).collect::<Vec<_>>().join(" ")
        }
        "cpus" => {
            let here = ranks().filter(|rank| rank["host"] == "h0");
            let cpus = |rank: &Value| match rank["cpus"].as_array() {
                Some(cpus) => cpus.iter().map(text).collect::<Vec<_>>().join(","),
                None => "all".to_owned(),
            };
            here.map(cpus).collect::<Vec<_>>().join(" ")
        }
        "gpus" => ranks().map(|rank| text(&rank["gpus"])).collect::<Vec<_>>().join(" "),
        "env" => {
            let name = wanted.split_once('=').unwrap().0;
            format!("{name}={}", text(&program["environment"]["with"][name]))
        }
        "unset" => {
            let without = program["environment"]["without"].as_array().unwrap().iter().map(text);
            without.collect::<Vec<_>>().join(" ")
        }
        "directory" => text(&program["directory"]),
        "program" => {
            let arguments = program["arguments"].as_array().unwrap().iter().map(text);
            std::iter::once(text(&program["program"]))
                .chain(arguments)
                .collect::<Vec<_>>()
                .join(" ")
        }
        "option" => {
            let name = wanted.split_once(": ").unwrap().0;
            format!("{name}: {}", text(&value["options"][name]))
        }
        "remark" => {
            let remarks: Vec<String> =
                value["remarks"].as_array().unwrap().iter().map(text).collect();
            match remarks.iter().any(|remark| remark.starts_with(wanted)) {
                true => wanted.to_owned(),
                false => remarks.join("; "),
            }
        }
        _ => "an expectation of this kind".to_owned(),
    };
    if found == wanted { String::new() } else { format!("{expected}\n    but: {found}") }
}

/// The collections that count beside the dialects: examples of the MPI standard, and variables of batch systems.
const OTHERS: [&str; 2] = ["standard", "batch"];

/// Our own lines, which do not count.
const CHECKS: &str = "checks";

/// Fewest lines in a hundred of each launcher that are understood.
const LEAST: usize = 95;

/// The outcomes of the lines of a launcher.
#[derive(Debug, Default)]
struct Rate {
    lines: usize,
    understood: usize,
    refused: usize,
}

/// The rates as a table.
fn table(rates: &BTreeMap<String, Rate>) -> String {
    let mut text = "launcher   lines understood refused  rate\n".to_owned();
    for (launcher, Rate { lines, understood, refused }) in rates {
        let rate = match launcher.as_str() {
            CHECKS => "-".to_owned(),
            _ => format!("{} %", 100 * understood / lines),
        };
        text += &format!("{launcher:10} {lines:5} {understood:10} {refused:7} {rate:>5}\n");
    }
    text
}

/// All lines, by file.
fn collection() -> Vec<Case> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/tests/launch_lines");
    let mut files: Vec<_> = std::fs::read_dir(data).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let read = |file: &PathBuf| {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        cases(&name, &std::fs::read_to_string(file).unwrap())
    };
    files.iter().flat_map(read).collect()
}

/// What is wrong with an outcome; empty if it is as expected.
fn problems(case: &Case, outcome: &Result<Value, String>, directory: &Path) -> Vec<String> {
    let problem = |expected: &String| {
        let expected = &expected.replace("DIR", &directory.to_string_lossy());
        let reason = expected.strip_prefix("! ").or_else(|| expected.strip_prefix("x "));
        match (reason, outcome) {
            (Some(reason), Err(error)) if error.contains(reason) => String::new(),
            (Some(_), Ok(value)) => format!("accepted: {}", value["hosts"]),
            (_, Err(error)) => error.clone(),
            (None, Ok(value)) => differs(expected, value),
        }
    };
    case.expected.iter().map(problem).filter(|problem| !problem.is_empty()).collect()
}

#[test]
fn every_launch_line_has_its_expected_outcome() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in FILES {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let mut rates: BTreeMap<String, Rate> = BTreeMap::new();
    let mut wrong = Vec::new();
    for case in collection() {
        assert!(!case.expected.is_empty(), "{}: nothing is expected", case.place);
        let outcome = outcome(&case, directory.path());
        let problems = problems(&case, &outcome, directory.path());
        let rate = rates.entry(case.launcher.clone()).or_default();
        rate.lines += 1;
        match case.expected.iter().any(|expected| expected.starts_with("! ")) {
            _ if !problems.is_empty() => {
                let (place, line) = (&case.place, &case.line);
                wrong.push(format!("{place}: {line}\n    {}", problems.join("\n    ")));
            }
            true => rate.refused += 1,
            false => rate.understood += 1,
        }
    }
    let table = table(&rates);
    println!("{table}");
    assert!(wrong.is_empty(), "{} lines are wrong:\n{}", wrong.len(), wrong.join("\n"));
    for launcher in Dialect::ALL.map(Dialect::name).into_iter().chain(OTHERS) {
        let rate = rates.remove(launcher).unwrap_or_else(|| panic!("no line of {launcher}"));
        assert!(rate.understood * 100 >= rate.lines * LEAST, "{launcher} is below:\n{table}");
    }
    rates.remove(CHECKS);
    assert!(rates.is_empty(), "unknown launchers: {rates:?}");
}
