//! `libmpd`: a C program that requests slots and starts processes on them.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use mpd_tests::surroundings::setting;
use nix::sys::signal::Signal;

use crate::members::Members;
use crate::run::{Run, wait_until};

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// A file of `scripts/prepare-test-env`, or else of the build of the tests.
fn built(members: &Members, prepared: &str, own: &str) -> PathBuf {
    let prepared =
        setting("MPD_TEST_PMI_DIR").map(|directory| Path::new(&directory).join(prepared));
    prepared
        .filter(|path| path.exists())
        .unwrap_or_else(|| PathBuf::from(members.suite.program(own)))
}

impl Members {
    /// A compiled program that is linked with the library, run through this member.
    fn program(&self, index: usize, path: &str, arguments: &[&str]) -> Run {
        let libraries = self.suite.path("libraries");
        let program = self.suite.path("work/program");
        if !program.exists() {
            fs::create_dir_all(&libraries).expect("a directory");
            let built = built(self, "lib/libmpd.so.0", "libmpd.so");
            for name in ["libmpd.so", "libmpd.so.0"] {
                std::os::unix::fs::symlink(&built, libraries.join(name)).expect("a link");
            }
            let compile = self.suite.as_self("cc").args(["-Wall", "-Wextra", "-Werror"]);
            let compile = compile.arg(source(path)).arg("-o").arg(&program).arg("-I");
            let compile = compile.arg(source("include")).arg("-L").arg(&libraries).arg("-lmpd");
            compile.output().code(0).quiet();
        }
        let tool = PathBuf::from(self.suite.program("mpdalloc"));
        let programs = tool.parent().expect("a directory").display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let run =
            self.suite.command(&program).args(arguments).env("PATH", format!("{programs}:{path}"));
        run.env("MPD_RUNDIR", self.rundir(index)).env("LD_LIBRARY_PATH", libraries)
    }

    fn scene(&self, index: usize, scene: &str) -> Run {
        self.program(index, "tests/requests/scenes.c", &[scene]).deadline(240)
    }
}

#[test]
fn each_of_twenty_outstanding_requests_completes_once_as_granted_and_once_as_exited() {
    let ring = Members::with_slots(2, 4);
    ring.scene(1, "twenty").output().code(0).quiet().prints("twenty: 0 more, quiet\n");
    ring.all_is_free(1);
}

#[test]
fn every_exit_code_is_reported_once() {
    let ring = Members::with_slots(2, 4);
    ring.scene(2, "codes").output().code(0).prints("codes: all\n");
    ring.all_is_free(1);
}

#[test]
fn each_hard_request_of_a_call_is_granted_as_soon_as_a_slot_is_free_and_may_be_cancelled() {
    let ring = Members::with_slots(2, 1);
    let mut program = ring.scene(1, "hard").input_pipe().start();
    program.shows("waiting");
    // They are in the queue one by one.
    let queue = ring.tool(1, "mpdqueue", &[]).output();
    assert_eq!(queue.code(0).out().matches("waits:").count(), 2, "{queue}");
    program.stdin().write_all(b"\n").expect("it reads");
    program.wait().code(0).quiet().prints("waiting\nhard: state 1\n");
    ring.all_is_free(1);
}

#[test]
fn requests_together_wait_for_all_slots_and_a_cancelled_request_frees_its_slot_at_once() {
    let ring = Members::with_slots(2, 5);
    ring.scene(1, "gang").output().code(0).quiet().prints("gang: ten\n");
    ring.all_is_free(1);
}

#[test]
fn a_soft_request_for_which_the_ring_has_no_slot_is_cancelled() {
    let ring = Members::with_slots(2, 1);
    ring.scene(1, "none").output().code(0).quiet().prints("state 4\nstate 4\nwaits\n");
    ring.all_is_free(1);
}

#[test]
fn soft_requests_get_the_free_slots_at_once_and_the_rest_is_cancelled() {
    let ring = Members::with_slots(2, 4);
    ring.scene(1, "soft").output().code(0).quiet().prints("soft: 8 granted, 2 cancelled\n");
    ring.all_is_free(1);
}

#[test]
fn requests_are_on_the_hosts_that_they_name_and_their_strings_reach_the_processes() {
    let ring = Members::with_slots(3, 2);
    let output = ring.scene(2, "nodes").output();
    let lines: Vec<String> = output.code(0).quiet().out().lines().map(str::to_owned).collect();
    let host = |slot: usize| lines[slot].split(' ').next().unwrap_or_default();
    assert_eq!((host(0), host(2)), ("d1", "d3"), "{output}");
    for (slot, local) in ["large_memory", "b c", "", "d=e"].into_iter().enumerate() {
        let host = host(slot);
        let info = format!(
            r#"{host} "allocation":"a1@d2","slot":{slot},"host":"{host}","global":"gang_schedule","local":"{local}"}}"#
        );
        assert_eq!(lines[slot], info);
        assert_eq!(lines[4 + slot], format!("[gang_schedule] [{local}]"), "{output}");
    }
    ring.all_is_free(1);
}

#[test]
fn signals_are_sent_by_name_and_number_and_an_unknown_one_is_never_sent() {
    let ring = Members::with_slots(2, 1);
    ring.scene(2, "signals").output().code(0).prints("signals: all\n");
    ring.all_is_free(1);
}

#[test]
fn wrong_calls_are_refused_and_a_running_process_is_cancelled() {
    let ring = Members::with_slots(1, 3);
    let output = ring.scene(1, "wrong").output();
    output.code(0).prints("state 3 code 127\nstate 3 code 126\nstate 4\n").says(&["b :"]);
    ring.all_is_free(1);
}

#[test]
fn a_program_that_changes_its_directory_executes_nothing_from_there() {
    let ring = Members::with_slots(2, 4);
    // This compiles the program.
    ring.scene(1, "nothing").output().code(2);
    let executed = ring.suite.path("executed");
    // Where relative paths lead after the change.
    for place in ["work/other", "work/libraries"] {
        fs::create_dir_all(ring.suite.path(place)).expect("a directory");
        let other = ring.suite.path(place).join("mpdalloc");
        fs::write(&other, format!("#!/bin/sh\ntouch {}\n", executed.display())).expect("a file");
        fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    let tool = PathBuf::from(ring.suite.program("mpdalloc"));
    let programs = tool.parent().expect("a directory").display().to_string();
    let program = ring.suite.path("work/program");
    let run = ring.suite.command(program).arg("soft").env("MPD_RUNDIR", ring.rundir(1));
    let run = run.env("LD_LIBRARY_PATH", "../libraries").env("SCENE_DIRECTORY", "other");
    let run = run.env("PATH", format!(".::{programs}:/usr/bin:/bin")).deadline(240);
    run.output().code(0).quiet().prints("soft: 8 granted, 2 cancelled\n");
    assert!(!executed.exists());
    ring.all_is_free(1);
}

#[test]
fn nothing_is_left_when_the_program_is_killed() {
    let ring = Members::with_slots(2, 3);
    let program = ring.scene(1, "hold").input_pipe().start();
    program.shows("held");
    assert_eq!(ring.slots(2), ["d2 3 3 0", "d1 3 3 0"]);
    wait_until("three processes run", || ring.suite.running("sleep").len() == 3);
    program.send(Signal::SIGKILL);
    program.wait().ended_by(Signal::SIGKILL);
    ring.all_is_free(1);
}

#[test]
fn requests_survive_the_daemon_of_their_host() {
    let ring = Members::with_slots(2, 3);
    let mut program = ring.scene(1, "hold").input_pipe().start();
    program.shows("held");
    wait_until("three processes run", || ring.suite.running("sleep").len() == 3);
    ring.kill(1);
    ring.start_again(1);
    ring.agree();
    // A slot is given back to the new daemon, and a new request gets it.
    program.stdin().write_all(b"\n").expect("it reads");
    program.shows("exchanged: state 1");
    assert_eq!(ring.slots(2), ["d2 3 3 0", "d1 3 3 0"]);
    assert_eq!(ring.suite.running("sleep").len(), 3, "processes are not disturbed");
    program.send(Signal::SIGKILL);
    program.wait().ended_by(Signal::SIGKILL);
    ring.all_is_free(1);
}

#[test]
fn a_hook_sees_each_request_with_its_strings_and_refuses_some() {
    let plain = Members::new();
    let hook = plain.suite.path("hook");
    let seen = plain.suite.path("seen");
    let script = format!(
        "#!/bin/sh\nexec 3>>{}\necho \"$MPD_ALLOC_GLOBAL|$MPD_ALLOC_LOCAL_0|$MPD_ALLOC_LOCAL_1\" >&3\ncat >&3\n\
         [ \"$MPD_ALLOC_GLOBAL\" != refuse ] || {{ echo 'no licence is free' >&2; exit 3; }}\n\
         [ \"$MPD_ALLOC_GLOBAL\" != stuck ] || sleep 600\n",
        seen.display()
    );
    fs::write(&hook, script).expect("a file");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("a mode");
    let hook = hook.display().to_string();
    let ring = plain.option(&["--slots", "2", "--alloc-hook", &hook]).with(1);
    let output = ring.scene(1, "hook").output();
    output.code(0).quiet().prints("state 4 code 7: no licence is free\nstate 1\n");
    let text = fs::read_to_string(&seen).expect("the hook has run");
    assert!(text.contains("gang_schedule|large_memory|large memory\n"), "{text}");
    assert!(text.contains(r#""local":["large_memory","large memory"]"#), "{text}");
    // A hook that is stuck delays no other request, and is ended with its console.
    let stuck = ring.alloc(1, &["--info", "stuck", "true"]).start();
    wait_until("it runs", || !ring.suite.running("sleep").is_empty());
    let script = "echo $MPD_ALLOC_GLOBAL; echo \"$MPD_ALLOC_LOCAL\"";
    let words = ["-n", "2", "--info", "fine", "--info-each", "a,b c", "sh", "-c", script];
    ring.alloc(1, &words).output().code(0).prints("fine\na\nb c\n");
    stuck.send(Signal::SIGTERM);
    drop(stuck.wait());
    wait_until("the hook is dead", || ring.suite.running("sleep").is_empty());
    ring.all_is_free(1);
}

#[test]
fn a_program_gets_each_event_of_a_job_once_although_they_are_more_than_are_sent_ahead() {
    let ring = Members::with_slots(2, 4);
    let gate = ring.suite.path("gate").display().to_string();
    let last = format!("until [ -e {gate} ]; do sleep 0.01; done");
    let options = ["-a", "watched", "-on-failure", "continue", "-n", "600"];
    let job = ring.mpirun(1, &options).args(["sh", "-c", "exit $((PMI_RANK % 7))", ":", "-n", "1"]);
    let job = job.args(["sh", "-c", &last]).deadline(240).start();
    wait_until("the last rank runs", || !ring.suite.running("sleep").is_empty());
    let program = ring.scene(2, "events").start();
    program.shows("all but one");
    fs::write(gate, "").expect("a file");
    let code = job.wait().status.code().expect("an exit code");
    assert!((1..7).contains(&code), "{code}");
    let told = program.wait();
    told.code(0).quiet();
    let expected = format!("601 started, 601 exited, 600 as expected, code {code}\n");
    assert!(told.out().ends_with(&expected), "{told}");
    ring.all_is_free(1);
}

#[test]
fn a_rank_follows_its_own_job_and_an_unknown_job_is_an_error() {
    let ring = Members::with_slots(1, 3);
    // This compiles the program.
    ring.scene(1, "nothing").output().code(2);
    let program = ring.suite.path("work/program").display().to_string();
    let libraries = ring.suite.path("libraries").display().to_string();
    let tool = PathBuf::from(ring.suite.program("mpdalloc"));
    let programs = tool.parent().expect("a directory").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let run = ring.mpirun(1, &["-n", "1", &program, "own"]).env("LD_LIBRARY_PATH", libraries);
    let output = run.env("PATH", format!("{programs}:{path}")).output();
    output.code(0).quiet();
    let lines: Vec<String> = output.out().lines().map(str::to_owned).collect();
    assert_eq!((lines[0].as_str(), lines[2].as_str()), ("rank 0 is this process", "0 waits"));
    assert!(lines[1].contains("no job called"), "{output}");
    ring.all_is_free(1);
}

#[test]
fn the_example_farm_in_rust_runs_all_its_tasks() {
    let ring = Members::with_slots(2, 2);
    let program = built(&ring, "request_farm_rs", "examples/request_farm");
    let tool = PathBuf::from(ring.suite.program("mpdalloc"));
    let run = ring.suite.command(program).args(["12", "/bin/sh", "-c", "exit 7"]);
    let run =
        run.env("MPD_RUNDIR", ring.rundir(1)).env("PATH", tool.parent().expect("a directory"));
    run.output().code(0).prints("exit code 7: 12\n");
    ring.all_is_free(1);
}

#[test]
fn a_program_is_chosen_by_the_architecture_of_its_host() {
    let ring = Members::of(2);
    let machine = ring.suite.as_self("uname").arg("-m").output().out().trim().to_owned();
    let program = ring.suite.path(format!("work/where.{machine}"));
    fs::write(&program, "#!/bin/sh\necho ${0##*/}\n").expect("a file");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
    let output = ring.mpirun(1, &["-n", "2", "-ppn", "1", "./where.%a"]).output();
    output.code(0).quiet().prints(&format!("where.{machine}\nwhere.{machine}\n"));
    ring.mpirun(1, &["-n", "1", "./other.%a"])
        .output()
        .code(127)
        .says(&[&format!("other.{machine}")]);
    ring.only_daemons_are_left();
}

#[test]
fn the_example_farm_runs_all_its_tasks() {
    let ring = Members::with_slots(2, 2);
    let farm = ring.program(1, "examples/request_farm.c", &["12", "/bin/sh", "-c", "exit 7"]);
    farm.output().code(0).prints("exit code 7: 12\n");
    ring.all_is_free(1);
}
