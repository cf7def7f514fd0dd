//! Rings that mpirun starts for its own job. The remote shell is a script that runs its command on this machine
//! and plays the given host.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use mpd_tests::surroundings::setting;
use nix::sys::signal::Signal;

use crate::run::{Output, Run, wait_until};
use crate::suite::{Suite, is_root, skip};

/// Each host has its own directory for run directories. The script records the commands for the test.
const SHELL: &str = r#"#!/bin/sh
host=$1
shift
printf '%s\n' "$host" >>"$WORLD/reached"
tr '\0' '\n' <"/proc/$$/environ" >>"$WORLD/seen"
printf '%s\n' "$*" >>"$WORLD/seen"
case $host in
down*) echo "no route to $host" >&2; exit 255;;
hangs*) echo up >"$WORLD/hanging"; exec sleep 1000;;
taken) export MPD_RUNDIR="$WORLD/run";;
*) export MPD_RUNDIR="$WORLD/hosts/$host";;
esac
case $host in
login*)
    # As sshd does it. The script records what the host executes, with the environments.
    export SSH_CONNECTION='127.0.0.2 2222 127.0.0.1 22' MPD_RING=another
    exec "$STRACE" -z -f -v -e trace=execve -o "$WORLD/executed" setsid -w sh -c "exec $*";;
twin*|near*)
    # As sshd does it, for names of this host on networks and for addresses that only this host has.
    case $host in twin*) server=192.0.2.${host#twin};; *) server=127.0.0.${host#near};; esac
    export SSH_CONNECTION="192.0.2.99 2222 $server 22"
    exec setsid -w sh -c "exec $*";;
esac
exec sh -c "$*"
"#;

pub(crate) struct World {
    pub(crate) suite: Suite,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::of(Suite::new())
    }

    fn of(suite: Suite) -> Self {
        suite.new_directory("hosts");
        fs::write(suite.path("shell"), SHELL).expect("a script");
        suite.allow("shell", 0o755);
        Self { suite }
    }

    /// `mpirun` on a host without a daemon.
    pub(crate) fn mpirun(&self, arguments: &[&str]) -> Run {
        self.mpirun_of(&self.suite.program("mpirun"), arguments)
    }

    /// The same with this executable.
    pub(crate) fn mpirun_of(&self, mpirun: &str, arguments: &[&str]) -> Run {
        let shell = self.suite.path("shell");
        self.suite
            .command(mpirun)
            .args(["-launcher", shell.to_str().expect("a path")])
            .args(arguments)
            .env("WORLD", self.suite.path(""))
            .env("MPD_RUNDIR", self.suite.path("hosts/here"))
            // Shorter time limits detect a lost host sooner.
            .env("MPD_TIME_SCALE", "4")
    }

    fn ran(&self, arguments: &[&str]) -> Output {
        self.mpirun(arguments).output()
    }

    fn reached(&self) -> Vec<String> {
        let text = fs::read_to_string(self.suite.path("reached")).unwrap_or_default();
        let mut hosts: Vec<String> = text.lines().map(str::to_owned).collect();
        hosts.sort();
        hosts
    }

    /// Neither a process nor a directory of the ring is left, except if its daemon was killed. The run directory
    /// that the user chose stays, and is empty.
    #[track_caller]
    pub(crate) fn is_gone(&self) {
        self.suite.gone(&[]);
        let entries = |name: &str| -> Vec<PathBuf> {
            let entries = fs::read_dir(self.suite.path(name)).expect("a directory");
            entries.map(|entry| entry.expect("an entry").path()).collect()
        };
        assert_eq!(entries("hosts"), [self.suite.path("hosts/here")]);
        assert_eq!(entries("hosts/here"), [] as [PathBuf; 0]);
    }

    /// A console on the host of mpirun.
    fn console(&self, name: &str, arguments: &[&str]) -> Run {
        let run = self.suite.command(self.suite.program(name)).args(arguments);
        run.env("MPD_RUNDIR", self.suite.path("hosts/here"))
    }

    /// The only process with these arguments.
    fn with_arguments(&self, arguments: &[&str]) -> i32 {
        let has = |text: String| arguments.iter().all(|word| text.contains(word));
        let of = |pid: &i32| {
            let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            has(String::from_utf8_lossy(&text).replace('\0', " "))
        };
        let all: Vec<i32> = self.suite.processes().iter().map(|p| p.pid).filter(of).collect();
        assert_eq!(all.len(), 1, "{arguments:?}");
        all[0]
    }
}

/// Prints the host index of the job: 0 is the host of mpirun.
const WHERE: [&str; 3] = ["sh", "-c", "echo ${MPD_JOB_COOKIE##*-}"];

#[test]
fn named_hosts_run_a_daemon_only_during_the_job() {
    let world = World::new();
    let arguments = ["-hosts", "h1:2,h2", "-n", "3", "-l"];
    let output = world.ran(&[&arguments[..], &WHERE[..]].concat());
    output.code(0).quiet();
    assert_eq!(output.sorted_lines(), ["0: 1", "1: 1", "2: 2"]);
    assert_eq!(world.reached(), ["h1", "h2"]);
    world.is_gone();
}

#[test]
fn the_named_hosts_determine_the_number_of_processes() {
    let world = World::new();
    let ran = |arguments: &[&str]| {
        let output = world.ran(&[arguments, &["-l"], &WHERE[..]].concat());
        output.code(0).quiet();
        output.sorted_lines()
    };
    assert_eq!(ran(&["-hosts", "h1:2,h2"]), ["0: 1", "1: 1", "2: 2"]);
    assert_eq!(ran(&["-hosts", "h1,h2", "-ppn", "2"]), ["0: 1", "1: 1", "2: 2", "3: 2"]);
    assert_eq!(ran(&["-ppn", "2"]).len(), 2);
    world.is_gone();
}

#[test]
fn the_key_of_a_temporary_ring_is_in_no_file_argument_or_variable() {
    let world = World::new();
    world.ran(&["-hosts", "h1,h2", "true"]).code(0).quiet();
    assert!(!world.suite.path("home/key").exists());
    let seen = fs::read_to_string(world.suite.path("seen")).expect("the record of the shells");
    let longest = seen.split(|c: char| !c.is_ascii_hexdigit()).map(str::len).max();
    assert!(longest < Some(64), "{seen}");
}

#[test]
fn the_process_of_a_login_becomes_the_daemon_and_only_manager_and_rank_are_executed_besides() {
    let Some(strace) = setting("MPD_TEST_STRACE") else { return skip("no strace") };
    let world = World::new();
    let job = world.mpirun(&["-hosts", "login1", "-n", "1", "/bin/true"]).env("STRACE", strace);
    job.output().code(0).quiet();
    world.is_gone();
    let trace = fs::read_to_string(world.suite.path("executed")).expect("a trace");
    // The name of the ring is that of the request, and the daemon passes no other one on.
    let mut executed: Vec<(&str, bool)> = trace
        .lines()
        .filter_map(|line| line.split_once("execve(\"")?.1.split_once('"'))
        .map(|(path, rest)| (path.rsplit('/').next().unwrap_or(path), rest.contains("\"MPD_RING=")))
        .collect();
    // On a busy machine a manager may be silent for a second. If strace holds it at that moment, it counts as a stopped
    // one, and a second one gets the job.
    let mut managers = 0;
    executed.retain(|(name, _)| {
        managers += usize::from(*name == "exe");
        *name != "exe" || managers == 1
    });
    let shells = [("setsid", true), ("sh", true)];
    let ours = [("mpd", true), ("exe", false), ("true", false)];
    assert_eq!(executed, [&shells[..], &ours].concat());
}

#[test]
fn a_host_file_lists_hosts_and_slots_of_a_temporary_ring() {
    let world = World::new();
    fs::write(world.suite.path("work/file"), "# ours\nh1:2\nlocalhost:1\n\nh2 slots=2\n").unwrap();
    world.ran(&["-f", "file", "-n", "5", "-l", "true"]).code(0).quiet();
    assert_eq!(world.reached(), ["h1", "h2"]);
    world.is_gone();
}

#[test]
fn a_job_on_this_host_alone_uses_no_remote_shell() {
    let world = World::new();
    world.ran(&["-hosts", "localhost:2,127.0.0.1", "-n", "2", "true"]).code(0).quiet();
    assert!(world.reached().is_empty());
    world.is_gone();
}

#[test]
fn mpirun_uses_an_existing_ring_instead_of_starting_one() {
    let world = World::new();
    let _daemon = world.suite.start_daemon();
    let output = world.mpirun(&["-hosts", "h1", "true"]).env("MPD_RUNDIR", world.suite.rundir());
    output.output().code(125).says(&["h1"]);
    assert!(world.reached().is_empty());
}

#[test]
fn a_temporary_ring_does_not_affect_another_ring_of_the_user() {
    let world = World::new();
    let daemon = world.suite.start_daemon();
    let key = fs::read(world.suite.path("home/key")).expect("a key");
    let arguments = ["-hosts", "taken,h1", "-n", "4", "true"];
    world.ran(&arguments).code(0).quiet();
    assert_eq!(world.suite.daemon().pid, daemon.pid);
    assert_eq!(fs::read(world.suite.path("home/key")).expect("a key"), key);
    world.suite.only_the_daemon_is_left();
}

#[test]
fn if_a_host_cannot_be_reached_no_rank_runs_and_nothing_is_left() {
    let world = World::new();
    let arguments = ["-hosts", "h1,down1,h2,down2", "-n", "4", "touch", "ran"];
    world.ran(&arguments).code(125).says(&[
        "mpdboot: host down1  step exec     no route to down1",
        "mpdboot: host down2",
        "mpirun: there is no ring for the job without a daemon on every host; nothing was run",
    ]);
    assert!(!world.suite.path("work/ran").exists());
    world.is_gone();
}

#[test]
fn two_names_of_one_host_on_different_networks_are_refused_and_daemons_at_loopback_addresses_are_not()
 {
    let world = World::new();
    let arguments = ["-hosts", "twin1,h1,twin2", "-n", "3", "touch", "ran"];
    // On a very slow machine, the daemon of the second name may be in the ring before the first name is reached.
    world.ran(&arguments).code(125).says(&[
        "is the same host as twin",
        "name it once; twin",
        "mpirun: there is no ring for the job without a daemon on every host; nothing was run",
    ]);
    assert!(!world.suite.path("work/ran").exists());
    world.is_gone();
    world.ran(&["-hosts", "near1,near2", "-n", "2", "true"]).code(0).quiet();
    world.is_gone();
}

#[test]
fn excluded_hosts_get_no_daemon() {
    let world = World::new();
    let arguments = ["-hosts", "h1,down1", "-exclude", "down1", "-n", "2", "true"];
    world.ran(&arguments).code(0);
    assert_eq!(world.reached(), ["h1"]);
    world.is_gone();
}

#[test]
fn a_batch_system_determines_the_hosts_and_the_number_of_processes() {
    let world = World::new();
    let file = world.suite.path("work/nodes");
    fs::write(&file, "h1\nh1\nh2\n").expect("a file");
    let pbs = |arguments: &[&str]| {
        world.mpirun(arguments).env("PBS_JOBID", "7.srv").env("PBS_NODEFILE", &file).output()
    };
    let output = pbs(&["sh", "-c", "echo $PMI_SIZE"]);
    output.code(0).quiet();
    assert_eq!(output.sorted_lines(), ["3", "3", "3"]);
    pbs(&["-n", "1", "sh", "-c", "echo $PMI_SIZE"]).code(0).prints("1\n");
    assert_eq!(world.reached(), ["h1", "h1", "h2", "h2"]);
    // Hosts named by the user replace those of the batch system.
    pbs(&["-hosts", "h3", "sh", "-c", "echo $PMI_SIZE"]).code(0).prints("1\n");
    assert_eq!(world.reached()[4..], ["h3"]);
    world.is_gone();
}

#[test]
fn a_signal_during_the_start_of_daemons_leaves_no_process() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let world = World::new();
        nix::unistd::mkfifo(&world.suite.path("hanging"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mpirun = world.mpirun(&["-hosts", "h1,hangs1", "-n", "2", "true"]).start();
        fs::read(world.suite.path("hanging")).expect("a shell that hangs");
        mpirun.send(signal);
        match signal {
            Signal::SIGKILL => mpirun.wait().ended_by(signal),
            _ => mpirun.wait().code(128 + signal as i32),
        };
        world.is_gone();
    }
}

/// A job on three hosts, up to its first line.
fn sleeping(world: &World) -> crate::run::Running {
    let arguments = ["-hosts", "h1,h2,h3", "-n", "6", "sh", "-c", "echo up; exec sleep 1000"];
    let mpirun = world.mpirun(&arguments).start();
    mpirun.shows(&"up\n".repeat(6));
    mpirun
}

#[test]
fn consoles_list_and_kill_a_job_of_a_temporary_ring_on_all_hosts() {
    let world = World::new();
    let mpirun = sleeping(&world);
    let name = format!("p{}", mpirun.pid());
    let listed = || world.console("mpdlistjobs", &["--sss", "-j", &name]).output();
    wait_until("all ranks are listed", || listed().code(0).quiet().out().lines().count() == 6);
    for host in ["h1 ", "h2 ", "h3 "] {
        assert_eq!(listed().out().matches(host).count(), 2, "{host}");
    }
    world.console("mpdkilljob", &[&name]).output().code(0).quiet();
    mpirun.wait().failed().says(&["killed on request"]);
    world.is_gone();
}

#[test]
fn a_temporary_ring_ends_when_its_mpirun_is_killed() {
    let world = World::new();
    let mpirun = sleeping(&world);
    mpirun.send(Signal::SIGKILL);
    mpirun.wait().ended_by(Signal::SIGKILL);
    world.is_gone();
}

#[test]
fn a_temporary_ring_without_its_first_daemon_completes_its_job_and_ends() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        first_daemon_ends(signal);
    }
}

fn first_daemon_ends(signal: Signal) {
    let world = World::new();
    let mpirun = sleeping(&world);
    crate::process::send(world.with_arguments(&["mpd --private"]), signal);
    let daemons = || world.suite.processes().iter().filter(|p| p.is_daemon()).count();
    wait_until("the first daemon is gone", || daemons() == 3);
    mpirun.send(Signal::SIGTERM);
    mpirun.wait().code(143);
    world.suite.gone(&[]);
}

#[test]
fn a_killed_daemon_of_a_temporary_ring_does_not_delay_its_end() {
    let world = World::new();
    let mpirun = sleeping(&world);
    crate::process::send(world.with_arguments(&["--name h2", "--launched-by"]), Signal::SIGKILL);
    mpirun.send(Signal::SIGTERM);
    mpirun.wait().code(143);
    world.suite.gone(&[]);
}

#[test]
fn a_temporary_rings_key_is_unreadable_in_proc_and_later_debuggers_reach_mpirun() {
    if !is_root() {
        return skip("access to /proc of another user: needs root");
    }
    let world = World::of(Suite::as_user(60_207));
    let suite = &world.suite;
    // /proc/PID belongs to the user whose debuggers may attach.
    let owner = |program: &str| {
        let process = suite.processes().into_iter().find(|p| p.name == program)?;
        Some(fs::metadata(format!("/proc/{}/mem", process.pid)).ok()?.uid())
    };
    // A directory that this user may write to.
    suite.new_directory("work/hosts");
    let mpirun =
        |arguments: &[&str]| world.mpirun(arguments).env("WORLD", suite.path("work")).start();
    let job = mpirun(&["-hosts", "hangs1", "-n", "1", "true"]);
    wait_until("the shell runs", || suite.path("work/hanging").exists());
    assert_eq!(["mpirun", "mpdboot"].map(owner), [Some(0); 2]);
    job.send(Signal::SIGTERM);
    job.wait();
    let job = mpirun(&["-hosts", "far1", "-n", "1", "sleep", "60"]);
    wait_until("the job runs", || owner("sleep").is_some());
    assert_eq!(["mpirun", "mpdboot", "mpd"].map(owner), [Some(60_207), Some(0), Some(0)]);
    job.send(Signal::SIGTERM);
    job.wait();
    world.is_gone();
}
