//! Command lines that people have, of this and of other launchers: each is accepted with the expected placement,
//! binding and environment, or is refused with the expected reason. The files of `launch_lines` have the lines.
//!
//! ```text
//! # where the line comes from
//! $ NAME=VALUE mpirun OPTIONS PROGRAM
//! = h0:0-1 b:2-3        the ranks of each host
//! cpus 0,4 1,5          the CPUs of the ranks of h0, in their order
//! gpus 0 1              the GPUs of the ranks of all hosts
//! env NAME=VALUE        a variable of the first program that differs from the caller's
//! unset NAME            the variables of the caller that the first program lacks
//! program a x           the words of the first program
//! option NAME: VALUE    an option of the dry run
//! remark TEXT           the beginning of a remark
//! ! TEXT                instead of all that: a part of the reason
//! ```
//!
//! This host is `h0`. It has two sockets with two cores of two threads. Other hosts have eight CPUs. The directory
//! has the host files `hosts`, `slots`, `machines` and `gpus`, the rank files `ranks`, `places` and `badranks`, and a file of
//! programs `apps`.

use serde_json::Value;

use super::*;
use crate::configfile;

const FILES: [(&str, &str); 8] = [
    ("hosts", "h0\nb\n"),
    ("slots", "h0 slots=2\nb slots=2 max_slots=4\n"),
    ("machines", "h0:2\nb:2 # two\n"),
    ("apps", "-n 1 ./master\n-n 2 ./worker x\n"),
    ("ranks", "rank 0=b slot=1:0-1\nrank 1=h0 slot=0:0,1\nrank 2=h0 slot=3 # a core\nrank 3=h0\n"),
    ("places", "rank 0=+n1 slot=0\nrank 1=+n0 slot=1:*\n"),
    ("badranks", "rank 0=h0 slot=0\n\nrank 1=h0 slot=x\n"),
    ("gpus", "h0 slots=4 gpus=2\nb slots=2 gpus=2\n"),
];

/// One line with its expectations.
struct Case {
    place: String,
    line: String,
    expected: Vec<String>,
}

fn cases(file: &str, text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut source = false;
    for (number, line) in (1..).zip(text.lines()) {
        match line.split_once(' ') {
            Some(("#", _)) => source = true,
            Some(("$", line)) => {
                assert!(source, "{file}:{number}: no source");
                let (place, line) = (format!("{file}:{number}"), line.to_owned());
                cases.push(Case { place, line, expected: Vec::new() });
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

#[test]
fn every_launch_line_has_its_expected_outcome() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in FILES {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/tests/launch_lines");
    let mut count = 0;
    let mut wrong = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(data).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        for case in cases(&name, &std::fs::read_to_string(&file).unwrap()) {
            count += 1;
            assert!(!case.expected.is_empty(), "{}: nothing is expected", case.place);
            let outcome = outcome(&case, directory.path());
            for expected in &case.expected {
                let differs = match (expected.strip_prefix("! "), &outcome) {
                    (Some(reason), Err(error)) if error.contains(reason) => continue,
                    (Some(_), Ok(value)) => format!("accepted: {}", value["hosts"]),
                    (_, Err(error)) => error.clone(),
                    (None, Ok(value)) => differs(expected, value),
                };
                if !differs.is_empty() {
                    wrong.push(format!("{}: {}\n    {differs}", case.place, case.line));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} lines:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 100, "{count} lines");
}
