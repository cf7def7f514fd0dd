//! The dry run, as text and as JSON.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::{Value, json};

use super::*;
use crate::dryrun::Answer;
use crate::linked::Visible;

fn answer(caller: &Caller) -> Answer {
    match parse(caller) {
        Ok(Request::DryRun(answer)) => answer,
        other => panic!("{other:?}"),
    }
}

fn dry_run(arguments: &[&str]) -> String {
    answer(&caller(arguments)).text
}

/// The JSON object of a line.
fn object(line: &str) -> Value {
    let text = dry_run(&words(&format!("-dry-run --json {line}")));
    assert!(text.ends_with("}\n"), "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_dry_run_shows_each_program() {
    let line = "-dry-run -l -timeout 2.5 -n 2 -umask 077 -rlimit nofile=64 -env A 1 -wdir /x a";
    let arguments = [words(line), vec!["two words", "it's", "", ":", "-envnone", "./b"]].concat();
    assert_eq!(
        dry_run(&arguments),
        "\
processes: 3
standard input: rank 0
label: '%r: '
time limit: 2.5 s
temporary files: /tmp
daemons: started for the job
host h0: ranks 0-2, 8 CPUs, this host
ranks 0-1:
  program: a 'two words' 'it'\\''s' ''
  found: not on this host: No such file or directory
  directory: /x
  search: /bin:/usr/bin
  umask: 0077
  limit: nofile=64:4096
  environment: the caller's, but
    A=1
rank 2:
  program: ./b
  found: not on this host: No such file or directory
  directory: /work
  umask: 0022
  environment: nothing but
    PATH=/bin:/usr/bin
"
    );
}

#[test]
fn a_dry_run_shows_the_file_and_the_mpi_library_of_each_program() {
    let mut c = caller(&words("-dry-run first : -genvnone -env A 1 second"));
    c.look = |argset, environment| {
        let visible = match environment.contains(&b"A=1".to_vec()) {
            true => Visible::Static,
            false => Visible::Python,
        };
        Found::Program(Path::new("/bin").join(OsStr::from_bytes(&argset.program)), visible)
    };
    let text = answer(&c).text;
    assert!(text.contains("  found: /bin/first\n  MPI library: decided by mpi4py\n"), "{text}");
    let second =
        "  found: /bin/second\n  MPI library: not visible: the program is statically linked\n";
    assert!(text.contains(second), "{text}");
}

#[test]
fn a_dry_run_shows_job_options_that_differ_from_the_default() {
    let text = dry_run(&words(
        "-dry-run -m -timestamp -a j -s all -on-failure continue -abort-scope connected -usize 4 -status-file s -ecfn e \
         -print-all-exitcodes -outfile-pattern o%r -errfile-pattern e%r a",
    ));
    for line in [
        "alias: j",
        "standard input: rank all",
        "merge: yes",
        "timestamp: yes",
        "standard output: /work/o%r",
        "standard error: /work/e%r",
        "on failure: continue",
        "abort scope: connected",
        "universe size: 4",
        "status file: s",
        "exit code file: e",
        "print exit codes: yes",
        "  environment: the caller's",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
}

#[test]
fn a_dry_run_quotes_any_bytes() {
    let mut c = caller(&["-dry-run", "p"]);
    c.arguments.push(OsString::from_vec(b"\xff\n\t'\\1~".to_vec()));
    c.environment.push(variable("GONE", "x"));
    c.environment.push(variable("PMI_RANK", "0"));
    let text = answer(&c).text;
    assert!(text.contains(r"program: p $'\377\n\t\'\\1~'"), "{text}");
    assert!(text.contains("    without PMI_RANK\n") && !text.contains("GONE"), "{text}");
}

#[test]
fn a_dry_run_places_and_binds_ranks() {
    let text = dry_run(&words("-dry-run -hosts h0:2,b:1,x -bind-to core -n 4 a"));
    for line in [
        "daemons: started for the job",
        "host h0: ranks 0-1, 8 CPUs, this host",
        "  CPUs of rank 0: 0,4 (core 0 of socket 0)",
        "  CPUs of rank 1: 1,5 (core 1 of socket 0)",
        "host b: rank 2, 1 CPU, 192.0.2.1",
        "host x: rank 3, 8 CPUs, no address (Name or service not known); ssh may know the name",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
}

#[test]
fn a_dry_run_uses_the_hosts_of_the_batch_system_only_without_a_standing_daemon() {
    let mut c = caller(&words("-dry-run --json a"));
    c.environment.push(variable("LSB_JOBID", "1"));
    c.environment.push(variable("LSB_MCPU_HOSTS", "b 2 c 1"));
    let hosts = |c: &Caller| {
        let value: Value = serde_json::from_str(&answer(c).text).unwrap();
        let hosts = value["hosts"].as_array().unwrap().clone();
        hosts.iter().map(|h| h["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(hosts(&c), ["b", "c"]);
    c.survey = |_, _| {
        let kind = RingKind::Standing;
        Ok(Surroundings { kind, ..surroundings(&[]) })
    };
    assert_eq!(hosts(&c), ["h0"]);
}

#[test]
fn ranks_that_cannot_be_placed_are_a_problem() {
    let c = caller(&words("-dry-run -exclude h0 a"));
    let shown = answer(&c);
    assert!(!shown.is_placed);
    let problem = "no host is left for the job: all of h0 are excluded";
    assert!(shown.text.contains(&format!("problem: {problem}\n")), "{}", shown.text);
    let value = object("-exclude h0 a");
    assert_eq!((&value["problem"], &value["hosts"]), (&json!(problem), &Value::Null));
}

#[test]
fn the_json_object_has_the_documented_members() {
    let value = object("-hosts b:1,h0 -bind-to core -n 2 -env A 1 -umask 077 a x y : -envnone ./c");
    assert_eq!(
        value,
        json!({
            "format": 1,
            "processes": 3,
            "daemons": "started",
            "options": {"bound to": "core", "hosts": "b:1 h0", "standard input": "rank 0",
                "temporary files": "/tmp"},
            "hosts": [
                {"name": "h0", "here": true, "cpus": 8, "assumed": false,
                    "addresses": ["192.0.2.1"], "ranks": [1, 2]},
                {"name": "b", "here": false, "cpus": 1, "assumed": false,
                    "addresses": ["192.0.2.1"], "ranks": [0]},
            ],
            "notices": [],
            "remarks": [],
            "ranks": [
                {"rank": 0, "host": "b", "program": 0, "cpus": null, "bound_to": null,
                 "gpus": null},
                {"rank": 1, "host": "h0", "program": 0, "cpus": [0, 4],
                 "bound_to": "core 0 of socket 0", "gpus": null},
                {"rank": 2, "host": "h0", "program": 1, "cpus": [1, 5],
                 "bound_to": "core 1 of socket 0", "gpus": null},
            ],
            "programs": [
                {"program": "a", "arguments": ["x", "y"], "substitute": false, "file": null,
                    "problem": "No such file or directory", "mpi_library": null,
                    "directory": "/work", "search": "/bin:/usr/bin", "umask": "0077",
                    "terminal": null, "limits": {},
                    "environment": {"base": "caller", "without": [], "with": {"A": "1"}}},
                {"program": "./c", "arguments": [], "substitute": false, "file": null,
                    "problem": "No such file or directory", "mpi_library": null,
                    "directory": "/work", "search": "/bin:/usr/bin", "umask": "0022",
                    "terminal": null, "limits": {},
                    "environment": {"base": "empty", "without": [],
                        "with": {"PATH": "/bin:/usr/bin"}}},
            ],
        })
    );
}

#[test]
fn texts_that_are_not_utf8_are_lists_of_bytes() {
    let mut c = caller(&words("-dry-run --json a"));
    c.arguments.push(OsString::from_vec(b"\xff!".to_vec()));
    let value: Value = serde_json::from_str(&answer(&c).text).unwrap();
    assert_eq!(value["programs"][0]["arguments"], json!([{"bytes": [255, 33]}]));
}
