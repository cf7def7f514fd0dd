//! Programs started without mpirun that start `mpiexec` when they need a process manager.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, TcpListener};
use std::os::unix::fs::symlink;

use mpd_wire::DaemonName;
use mpd_wire::message::RingRequest;
use nix::sys::signal::Signal;

use crate::members::Members;
use crate::mpi::{Library, libraries_with_ports};
use crate::process::{self, Process};
use crate::pty::{INTERRUPT, SUSPEND, Terminal};
use crate::run::{Run, comes_true, wait_until};
use crate::suite::Suite;

const INIT: &str = "ask=init pmi_version=1 pmi_subversion=1";
const WELCOME: &str = "called\ncmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
const SPAWNED: &str = "cmd=spawn_result rc=0 errcodes=0";

/// A program with our mpirun as mpiexec in its path.
fn alone(suite: &Suite, run: Run) -> Run {
    make_mpiexec(suite);
    let path = std::env::var("PATH").unwrap_or_default();
    run.env("PATH", format!("{}:{path}", suite.path("bin").display()))
}

fn make_mpiexec(suite: &Suite) {
    // The link may exist already.
    let _ = symlink(suite.program("mpirun"), suite.path("bin").join("mpiexec"));
}

/// The helper that acts as such a program.
fn singleton(suite: &Suite, arguments: &[&str]) -> Run {
    alone(suite, suite.command(suite.program("t-singleton")).args(arguments))
}

/// Runs the check in a suite with a daemon and in one without.
fn with_daemon_and_without(check: impl Fn(&Suite)) {
    for has_daemon in [true, false] {
        let suite = Suite::new();
        if has_daemon {
            suite.start_daemon();
        }
        check(&suite);
        match has_daemon {
            true => suite.only_the_daemon_is_left(),
            false => suite.gone(&[]),
        }
    }
}

#[test]
fn a_program_started_without_mpirun_is_served_as_rank_0() {
    with_daemon_and_without(|suite| {
        for (subversion, option) in [("subversion=1", "option=-v"), ("subversion=2", "option=-l")] {
            let arguments = [
                subversion,
                option,
                "call",
                INIT,
                "ask=get_maxes",
                "ask=get_universe_size",
                "ask=put kvsname= key= value=",
                "ask=put kvsname=KVS key=a value=1 2",
                "ask=barrier_in",
                "ask=get kvsname=KVS key=a",
                "ask=publish_name service=s port=tag 7",
                "ask=lookup_name service=s",
                "ask=unpublish_name service=s",
                "ask=finalize",
            ];
            let output = singleton(suite, &arguments).output();
            output.code(0);
            let cpus = std::thread::available_parallelism().map_or(1, usize::from);
            let expected = format!(
                "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n\
                cmd=universe_size size={cpus}\ncmd=put_result rc=0\ncmd=put_result rc=0\ncmd=barrier_out\n\
                cmd=get_result rc=0 msg=success value=1 2\ncmd=publish_result rc=0 msg=success\n\
                cmd=lookup_result rc=0 msg=success port=tag 7\ncmd=unpublish_result rc=0 msg=success\n\
                cmd=finalize_ack rc=0\n"
            );
            assert_eq!(output.out(), format!("{WELCOME}{expected}"), "{output}");
            let said = if option == "option=-v" { "mpiexec: job " } else { "" };
            assert!(
                output.err().starts_with(said) && output.err().lines().count() <= 1,
                "{output}"
            );
        }
    });
}

#[test]
fn children_of_a_singleton_write_to_its_own_streams() {
    with_daemon_and_without(|suite| {
        let arguments = ["call", INIT, "spawn=/bin/echo from a child", "ask=finalize"];
        let output = singleton(suite, &arguments).output();
        output.code(0).quiet();
        assert_eq!(output.out().matches("from a child\n").count(), 1, "{output}");
        assert!(output.out().contains(SPAWNED), "{output}");
    });
}

#[test]
fn children_of_a_singleton_continue_after_its_end() {
    with_daemon_and_without(|suite| {
        let file = suite.path("work/go").display().to_string();
        let script = format!("spawn={} until={file} print=late", suite.program("t-singleton"));
        let running = singleton(suite, &["call", INIT, &script, "ask=finalize"]).start();
        running.shows("finalize_ack");
        wait_until("the end of the program", || running.process().state == 'Z');
        fs::write(&file, "").unwrap();
        running.shows("late");
        running.wait().code(0).quiet();
        fs::remove_file(&file).unwrap();
    });
}

#[test]
fn an_exit_of_a_singleton_without_finalize_ends_its_children() {
    with_daemon_and_without(|suite| {
        let arguments = ["call", INIT, "spawn=/bin/sleep 600", "exit=5"];
        singleton(suite, &arguments).output().code(5).says(&[
            "mpiexec: ",
            "rank 0",
            "MPI_Finalize",
        ]);
    });
}

#[test]
fn a_killed_singleton_takes_its_children_along() {
    with_daemon_and_without(|suite| {
        let arguments = ["call", INIT, "spawn=/bin/sleep 600", "spawn=/bin/sleep 600", "wait"];
        let running = singleton(suite, &arguments).start();
        wait_until("two children", || suite.running("sleep").len() == 2);
        running.send(Signal::SIGKILL);
        assert!(comes_true(std::time::Duration::from_secs(5), || suite
            .running("sleep")
            .is_empty()));
        running.wait().ended_by(Signal::SIGKILL).says(&["rank 0"]);
    });
}

#[test]
fn a_singleton_is_killed_with_its_job_but_may_exit_after_an_abort() {
    with_daemon_and_without(|suite| {
        // A child of the program fails.
        let arguments = ["call", INIT, "spawn=/bin/sleep 600", "spawn=/bin/false", "wait"];
        let output = singleton(suite, &arguments).output();
        output.ended_by(Signal::SIGTERM).says(&["exited with code 1"]);
        assert!(suite.running("sleep").is_empty());
        // A program that does not exit after an abort is killed; a program that exits keeps its own code.
        let arguments = ["call", INIT, "spawn=/bin/sleep 600", "say=abort exitcode=7", "wait"];
        singleton(suite, &arguments).output().ended_by(Signal::SIGKILL).says(&["rank 0", "7"]);
        let arguments = ["call", INIT, "say=abort exitcode=7", "exit=7"];
        singleton(suite, &arguments).output().code(7).says(&["rank 0", "7"]);
    });
}

#[test]
fn a_singleton_outlives_its_job_and_may_start_another() {
    with_daemon_and_without(|suite| {
        let daemon: Vec<i32> = suite.processes().iter().map(|process| process.pid).collect();
        let arguments = [
            "call",
            INIT,
            "ask=finalize",
            "close",
            "until=go",
            "call",
            INIT,
            "ask=finalize",
            "close",
            "print=twice",
            "wait",
        ];
        let running = singleton(suite, &arguments).start();
        running.shows("finalize_ack");
        let own = [running.pid()];
        suite.gone(&[&daemon[..], &own].concat());
        assert!(running.process().is_alive());
        fs::write(suite.path("work/go"), "").unwrap();
        running.shows("twice");
        suite.gone(&[&daemon[..], &own].concat());
        assert!(running.process().is_alive());
        running.send(Signal::SIGKILL);
        running.wait().ended_by(Signal::SIGKILL).quiet();
        fs::remove_file(suite.path("work/go")).unwrap();
    });
}

#[test]
fn only_signals_that_do_not_come_from_the_terminal_end_a_singleton() {
    let suite = Suite::new();
    let arguments = ["call", INIT, "spawn=/bin/sleep 600", "until=go", "ask=finalize", "wait"];
    let running = singleton(&suite, &arguments).start();
    wait_until("a child", || suite.running("sleep").len() == 1);
    let mpirun = suite.running("mpirun").remove(0);
    process::send(mpirun.pid, Signal::SIGINT);
    process::send(mpirun.pid, Signal::SIGQUIT);
    process::send(mpirun.pid, Signal::SIGHUP);
    fs::write(suite.path("work/go"), "").unwrap();
    running.shows("finalize_ack");
    assert_eq!(suite.running("sleep").len(), 1);
    process::send(mpirun.pid, Signal::SIGTERM);
    running.wait().ended_by(Signal::SIGTERM);
    suite.gone(&[]);
    fs::remove_file(suite.path("work/go")).unwrap();
}

#[test]
fn terminal_keys_stop_continue_and_end_a_singleton_with_its_children() {
    let suite = Suite::new();
    make_mpiexec(&suite);
    let mut terminal = Terminal::with_shell(&suite, &suite.path("bin").display().to_string());
    terminal
        .enter(&format!("PATH=$D:$PATH $T/t-singleton call '{INIT}' 'spawn=/bin/sleep 600' wait"));
    let all = || [suite.running("t-singleton"), suite.running("sleep")].concat();
    wait_until("a child", || all().len() == 2);
    terminal.shows("errcodes=0");
    for _ in 0..2 {
        terminal.press(SUSPEND);
        terminal.shows("Stopped");
        terminal.shows_prompt();
        wait_until("a stop", || all().iter().all(Process::is_stopped));
        terminal.enter("fg");
        wait_until("going on", || !all().iter().any(Process::is_stopped));
    }
    terminal.press(INTERRUPT);
    terminal.shows_prompt();
    assert_eq!(terminal.exit_code(), 130);
    suite.no_job_is_left_but(&["bash"]);
    assert!(!terminal.screen().contains("mpiexec:"), "{}", terminal.screen());
    // Kills the program while it is stopped.
    terminal
        .enter(&format!("PATH=$D:$PATH $T/t-singleton call '{INIT}' 'spawn=/bin/sleep 600' wait"));
    wait_until("a child", || all().len() == 2);
    terminal.press(SUSPEND);
    wait_until("a stop", || all().iter().all(Process::is_stopped));
    process::send(suite.running("t-singleton").remove(0).pid, Signal::SIGKILL);
    suite.no_job_is_left_but(&["bash"]);
    terminal.leave();
}

#[test]
fn a_singleton_ends_when_its_mpirun_is_killed() {
    with_daemon_and_without(|suite| {
        let running = singleton(suite, &["call", INIT, "spawn=/bin/sleep 600", "wait"]).start();
        wait_until("a child", || suite.running("sleep").len() == 1);
        process::send(suite.running("mpirun").remove(0).pid, Signal::SIGKILL);
        running.wait().ended_by(Signal::SIGTERM);
        wait_until("its end", || suite.running("sleep").is_empty());
    });
}

#[test]
fn children_of_a_singleton_run_on_all_hosts_of_the_ring() {
    let ring = Members::of(3);
    // A draining host gets no ranks of jobs.
    let request =
        RingRequest::Drain { members: vec![DaemonName::new("d1").unwrap()], draining: true };
    ring.ask(1, request).unwrap();
    let sleep = "spawn=/bin/sleep 600";
    let arguments = ["call", INIT, sleep, sleep, sleep, sleep, "wait"];
    let running = singleton(&ring.suite, &arguments).env("MPD_RUNDIR", ring.rundir(1)).start();
    wait_until("four children", || ring.suite.running("sleep").len() == 4);
    let managers = |index| ring.process(index).children().into_iter().filter(Process::is_manager);
    for (index, wanted) in [(1, 0), (2, 2), (3, 2)] {
        let below = managers(index).flat_map(|manager| manager.children());
        let ranks: Vec<Process> = below.filter(|process| !process.is_helper()).collect();
        assert_eq!(ranks.len(), wanted, "on d{index}: {ranks:?}");
    }
    assert_eq!(managers(1).count(), 1);
    running.send(Signal::SIGKILL);
    running.wait().ended_by(Signal::SIGKILL).says(&["rank 0"]);
    let daemons: Vec<i32> = ring.indices().iter().map(|&index| ring.process(index).pid).collect();
    ring.suite.gone(&daemons);
}

#[test]
fn invalid_pmi_args_are_refused_with_a_reason() {
    let suite = Suite::new();
    for (arguments, problem) in [
        (&["-pmi_args", "1"][..], "-pmi_args needs a value: INTERFACE KEY PID"),
        (&["-pmi_args", "no", "i", "k", "7"], "the first value is no port"),
        (&["-v", "-pmi_args", "65536", "i", "k", "7"], "the first value is no port"),
        (&["-pmi_args", "0", "i", "k", "7"], "the first value is no port"),
        (&["-pmi_args", "7", "i", "k", "-7"], "the last is no process"),
        (&["-pmi_args", "7", "i", "k", "7", "prog"], "not for \"prog\""),
        (&["-n", "2", "-pmi_args", "7", "i", "k", "7"], "-n makes no sense with -pmi_args"),
        (&["-pmi_args", "7", "i", "k", "7", ":", "prog"], "for one program"),
    ] {
        suite.mpirun(arguments).output().code(125).brief().says(&[problem]);
    }
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    drop(listener);
    let output = suite.mpirun(["-pmi_args", &port, "i", "k", "7"]).output();
    output.code(125).brief().says(&["cannot connect", &port, "Connection refused"]);
    suite.gone(&[]);
}

#[test]
fn mpirun_does_not_serve_another_process_at_the_port() {
    let suite = Suite::new();
    for (answer, problem) in [
        ("cmd=singinit pmi_version=1 pmi_subversion=2 authtype=none\n", "not the program that has"),
        ("cmd=singinit pmi_version=2 pmi_subversion=0 authtype=none\n", "PMI 2"),
        ("HTTP/1.1 400 Bad Request\n", "does not begin with a command"),
        ("", "no answer"),
    ] {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        // Neither the shell that runs mpirun nor the parent of this shell owns the port.
        let inner =
            format!("$MPIRUN -pmi_args {port} default_interface default_key \\$\\$; exit \\$?");
        let running = suite.bash(&format!("bash -c \"{inner}\"; exit $?")).start();
        let (mut stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        assert_eq!(line, "cmd=singinit authtype=none\n");
        stream.write_all(answer.as_bytes()).unwrap();
        if answer.is_empty() {
            stream.shutdown(Shutdown::Write).unwrap();
        }
        running.wait().code(125).brief().says(&[problem]);
        suite.gone(&[]);
    }
}

/// Runs a check with each library that can spawn, with a daemon and without.
fn with_each(check: impl Fn(&Suite, &Library)) {
    for library in &libraries_with_ports() {
        with_daemon_and_without(|suite| check(suite, library));
    }
}

/// A program of the library, without mpirun.
fn program(suite: &Suite, library: &Library, name: &str, arguments: &[&str]) -> Run {
    let run = suite.command(library.program(name)).args(arguments);
    let run = run.env("MPIR_CVAR_CH4_NETMOD", "ofi").env("FI_PROVIDER", "tcp");
    let run = run.env("I_MPI_SPAWN", "on").env("I_MPI_FABRICS", "ofi");
    alone(suite, library.dress(run)).deadline(120)
}

#[test]
fn an_mpi_singleton_asks_for_the_universe_size() {
    with_each(|suite, library| {
        let output = program(suite, library, "hello", &[]).output();
        output.code(0).quiet();
        assert!(output.out().starts_with("rank 0 of 1 "), "{}: {output}", library.name);
    });
}

#[test]
fn an_mpi_singleton_spawns_ranks_without_mpirun() {
    with_each(|suite, library| {
        let output = program(suite, library, "spawn", &["one", "3"]).output();
        output.code(0).quiet();
        assert!(output.out().contains("spawn: 4 together\n"), "{}: {output}", library.name);
        assert_eq!(
            output.out().matches(" of 3 appnum 0 ").count(),
            3,
            "{}: {output}",
            library.name
        );
    });
}

#[test]
fn an_mpi_singleton_publishes_names_without_mpirun() {
    with_each(|suite, library| {
        // Intel MPI starts mpiexec only for a spawn.
        if library.name == "MPICH 5" {
            let output = program(suite, library, "named", &["here"]).output();
            output.code(0).quiet().prints("named: ok\n");
        }
    });
}

#[test]
fn two_mpi_singletons_join_over_a_socket_if_their_library_permits_it() {
    with_each(|suite, library| {
        let file = suite.path("port").display().to_string();
        let join = |how: &str| program(suite, library, "join", &[how, &file]).start();
        let (listens, connects) = (join("listen"), join("connect"));
        let (listens, connects) = (listens.wait(), connects.wait());
        if library.name == "Intel MPI" {
            listens.code(0).quiet().prints("join: 42 of the other\n");
            connects.code(0).quiet().prints("join: 17 of the other\n");
        } else {
            // Both are process 0 of one unnamed job to MPICH, without any launcher.
            listens.says(&["must not contain the same processes"]);
            connects.says(&["must not contain the same processes"]);
        }
    });
}
