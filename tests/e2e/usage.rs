//! `mpdtop` shows the same values of ranks as `/proc`.

use std::fs;
use std::time::Instant;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::members::Members;
use crate::suite::tell;

/// CPU time of a process in seconds, as the kernel counts it.
fn cpu(pid: &Value) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let fields: Vec<&str> = stat.rsplit_once(") ").expect("a name").1.split(' ').collect();
    let ticks = fields[11..13].iter().map(|ticks| ticks.parse::<f64>().expect("a number"));
    ticks.sum::<f64>() / 100.0
}

fn resident_kib(pid: &Value) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("no {name}: {row}"))
}

fn top(ring: &Members, index: usize, arguments: &[&str]) -> Value {
    let program = ring.suite.program("mpdtop");
    let run = ring.suite.command(program).env("MPD_RUNDIR", ring.rundir(index));
    let output = run.args(["--once", "--json"]).args(arguments).output();
    serde_json::from_slice(&output.code(0).quiet().stdout).expect("JSON")
}

#[test]
fn mpdtop_shows_cpu_time_and_memory_of_ranks_like_proc() {
    let ring = Members::of(2);
    let program = ring.suite.program("t-use");
    let arguments = ["-a", "load", "-ppn", "1", "-n", "1", &program, "1", "spin", ":"];
    let job = ring.mpirun(1, &arguments).args(["-n", "1", &program, "256", "sleep"]).start();
    job.shows("held\nheld\n");
    let rows = top(&ring, 2, &["--interval", "0.1"]);
    let pid = &rows["ranks"][0]["pid"];
    let interval = 2.0;
    let (before, began) = (cpu(pid), Instant::now());
    let view = top(&ring, 2, &["--interval", "2"]);
    let (took, after) = (began.elapsed().as_secs_f64(), cpu(pid));
    assert_eq!(view["hosts"].as_array().expect("hosts").len(), 2);
    assert_eq!(view["missing"], serde_json::json!([]));

    // The interval of the view lies within the measured interval. In the remaining time the rank worked between
    // 0 and 100 %, so these bounds are valid on any busy machine. One tick is lost at either end.
    let busy = &view["ranks"][0];
    let said = number(busy, "cpu_percent") / 100.0;
    let worked = after - before;
    tell(&format!("mpdtop says {said:.3} CPUs, /proc {:.3} over {took:.3} s", worked / took));
    assert!(said * interval <= worked + 0.03, "{said} of {worked} s in {took} s: {busy}");
    assert!(said * took >= worked - (took - interval) - 0.03, "{said} of {worked} s in {took} s");
    assert!((before..=after).contains(&number(busy, "cpu_seconds")), "{busy}");

    let holder = &view["ranks"][1];
    let (said, real) = (number(holder, "memory_kib"), resident_kib(&holder["pid"]));
    assert!((said / real - 1.0).abs() < 0.05, "{said} KiB of {real} KiB");
    assert!((262_144.0..1.05 * 262_144.0).contains(&said), "{said} KiB for 256 MiB");
    for (row, host) in [(busy, "d1"), (holder, "d2")] {
        assert_eq!((row["host"].as_str(), row["alias"].as_str()), (Some(host), Some("load")));
        assert_eq!((number(row, "written"), number(row, "processes")), (5.0, 1.0), "{row}");
    }
    assert_eq!(top(&ring, 1, &["-a", "other", "-i", "0.1"])["ranks"], serde_json::json!([]));
    job.send(Signal::SIGTERM);
    job.wait().ended_by(Signal::SIGTERM);
}
