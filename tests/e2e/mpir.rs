//! The MPIR symbols of `mpirun` as debuggers such as TotalView read them. In the tests gdb reads them with and without
//! the debug information of `mpirun`. The option `-proctable` writes the same table to a file.

use std::collections::BTreeMap;
use std::path::Path;

use mpd_tests::surroundings::{setting, skip};

use crate::members::Members;
use crate::mpi::libraries;
use crate::run::{Output, Run, wait_until};
use crate::suite::{Suite, is_root};

/// Prints `mpir state N`, `mpir size N`, and `mpir row RANK HOST PROGRAM PID` for each rank.
const READ: &str = r#"
printf "mpir state %d\n", *(int*)&MPIR_debug_state
printf "mpir size %d\n", *(int*)&MPIR_proctable_size
set $table = *(char***)&MPIR_proctable
set $rank = 0
while $rank < *(int*)&MPIR_proctable_size
  printf "mpir row %d %s %s %d\n", $rank, $table[3*$rank], $table[3*$rank+1], *(int*)&$table[3*$rank+2]
  set $rank = $rank + 1
end
"#;

/// The beginning of every script.
const BEGIN: &str = "set pagination off\nset confirm off\nset language c\n";

/// The beginning of a debugger's launch: stopped before `main`, it sets its mark.
const LAUNCH: &str =
    "starti\nset *(int*)&MPIR_being_debugged = 1\nbreak MPIR_Breakpoint\ncontinue\n";

fn gdb() -> Option<String> {
    let gdb = setting("MPD_TEST_GDB");
    if gdb.is_none() {
        skip("gdb is not there");
    }
    gdb
}

/// `gdb` with a script for `mpirun`; the caller appends the program's arguments.
fn debug(suite: &Suite, gdb: &str, script: &str) -> Run {
    let file = suite.path("script.gdb");
    std::fs::write(&file, [BEGIN, script].concat()).expect("a script");
    suite.command(gdb).args(["-q", "-nx", "-batch", "-x"]).arg(file).deadline(90)
}

/// `gdb` with a script that starts `mpirun`; the caller appends arguments.
fn launch(suite: &Suite, gdb: &str, script: &str) -> Run {
    debug(suite, gdb, script).arg("--args").arg(suite.program("mpirun"))
}

/// The rows that gdb has read: host, program and process id by rank.
fn rows(output: &Output) -> BTreeMap<u32, (String, String, u32)> {
    let out = output.out();
    let rows = out.lines().filter_map(|line| line.strip_prefix("mpir row "));
    let row = |row: &str| {
        let [rank, host, program, pid] = row.split(' ').collect::<Vec<_>>()[..] else {
            panic!("not a row: {row:?}: {output}")
        };
        let number = |text: &str| text.parse().expect("a number");
        (number(rank), (host.to_owned(), program.to_owned(), number(pid)))
    };
    rows.map(row).collect()
}

/// A program that writes its process id to a file: on the screen it could be within a line of gdb.
const TELLS_ITS_PID: [&str; 5] = ["-outfile-pattern", "out.%r", "sh", "-c", "echo $$"];

/// The process id in the file of a rank.
fn pid_of(suite: &Suite, rank: u32) -> u32 {
    let text = std::fs::read_to_string(suite.path(format!("work/out.{rank}")));
    text.expect("its output").trim_end().parse().expect("a number")
}

/// The complete file of `-proctable`, in the same form.
fn table(path: &Path) -> BTreeMap<u32, (String, String, u32)> {
    let mut whole = None;
    wait_until("the table of processes", || {
        let text = std::fs::read(path).unwrap_or_default();
        whole = serde_json::from_slice::<Vec<serde_json::Value>>(&text).ok();
        whole.is_some()
    });
    let number = |value: &serde_json::Value| u32::try_from(value.as_u64().expect("a number"));
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let row = |row: serde_json::Value| {
        let pid = number(&row["pid"]).expect("a pid");
        (number(&row["rank"]).expect("a rank"), (text(&row["host"]), text(&row["executable"]), pid))
    };
    whole.unwrap_or_default().into_iter().map(row).collect()
}

#[test]
fn a_debugger_that_starts_mpirun_reads_every_rank_of_mpi_programs() {
    let Some(gdb) = gdb() else { return };
    for library in libraries() {
        let suite = Suite::new();
        suite.start_daemon();
        let script = [LAUNCH, READ, "delete\ncontinue\n"].concat();
        let program = library.program("hello");
        let run = launch(&suite, &gdb, &script).args(["-np", "4"]).arg(&program);
        let output = library.dress(run).output();
        let out = output.out();
        assert!(out.contains("mpir state 1\nmpir size 4\n"), "{}: {output}", library.name);
        let rows = rows(&output);
        assert_eq!(rows.len(), 4, "{output}");
        let mut pids: Vec<u32> = rows.values().map(|(_, _, pid)| *pid).collect();
        pids.dedup();
        assert_eq!(pids.len(), 4, "{output}");
        for (host, found, _) in rows.values() {
            assert!(!host.is_empty() && Path::new(found) == program, "{output}");
        }
        // No rank had passed MPI_Init before.
        let (listed, said) = (out.find("mpir size"), out.find("rank 0 of 4"));
        assert!(listed < said && said.is_some(), "{}: {output}", library.name);
        assert_eq!(out.lines().filter(|line| line.starts_with("rank ")).count(), 4, "{output}");
        assert!(out.contains("exited normally"), "{output}");
        suite.only_the_daemon_is_left();
    }
}

#[test]
fn a_debugger_reads_the_mpir_table_without_a_cast() {
    let Some(gdb) = gdb() else { return };
    let suite = Suite::new();
    suite.start_daemon();
    let launch_typed = LAUNCH.replace("*(int*)&", "");
    let read = "print MPIR_proctable[0]\nptype MPIR_PROCDESC\nwhatis MPIR_proctable\n\
                printf \"mpir state %d size %d\\n\", MPIR_debug_state, MPIR_proctable_size\n\
                printf \"mpir row 1 %s %s %d\\n\", MPIR_proctable[1].host_name, \
                MPIR_proctable[1].executable_name, MPIR_proctable[1].pid\n";
    let script = [&launch_typed, read, "delete\ncontinue\n"].concat();
    let output = launch(&suite, &gdb, &script).args(["-np", "2"]).args(TELLS_ITS_PID).output();
    let out = output.out();
    let members = "{\n    char *host_name;\n    char *executable_name;\n    int pid;\n}\n";
    assert!(out.contains(&format!("type = struct {members}")), "{output}");
    assert!(out.contains("type = MPIR_PROCDESC *\n"), "{output}");
    assert!(out.contains("mpir state 1 size 2\n"), "{output}");
    let first = out.lines().find(|line| line.starts_with("$1 = {host_name = 0x"));
    let first = first.unwrap_or_else(|| panic!("no first row: {output}"));
    assert!(first.ends_with(&format!("pid = {}}}", pid_of(&suite, 0))), "{output}");
    let (_, program, pid) = &rows(&output)[&1];
    assert!(program.ends_with("/sh") && *pid == pid_of(&suite, 1), "{output}");
    assert!(out.contains("exited normally"), "{output}");
    suite.only_the_daemon_is_left();
}

#[test]
fn a_debugger_of_an_ordinary_user_reads_the_right_process_ids() {
    let Some(gdb) = gdb() else { return };
    let suite = if is_root() { Suite::as_user(60_207) } else { Suite::new() };
    let script = [LAUNCH, READ, "delete\ncontinue\n"].concat();
    let output = launch(&suite, &gdb, &script).args(["-np", "4"]).args(TELLS_ITS_PID).output();
    let rows = rows(&output);
    assert_eq!(rows.len(), 4, "{output}");
    for (rank, (_, program, pid)) in rows {
        assert!(program.ends_with("/sh") && pid == pid_of(&suite, rank), "{output}");
    }
    assert!(output.out().contains("exited normally"), "{output}");
}

#[test]
fn ranks_on_many_hosts_wait_in_init_until_the_debugger_continues() {
    let Some(gdb) = gdb() else { return };
    let ring = Members::new().option(&["--ncpus", "1"]).with(3);
    // Each rank reports that it runs; without the debugger it would soon pass its fence and print more.
    let all = "shell timeout 30 sh -c 'until grep -q up out.0 && grep -q up out.1 && grep -q up out.2; \
               do sleep 0.05; done'\nshell echo before $(cat out.? | grep -c hello)\n";
    let end = "delete\ncontinue\nshell echo after $(cat out.? | grep -c hello)\n";
    let script = [LAUNCH, all, end].concat();
    let arguments =
        ["-np", "3", "-outfile-pattern", "out.%r", "sh", "-c", "echo up; exec \"$0\" hello"];
    let run = launch(&ring.suite, &gdb, &script).env("MPD_RUNDIR", ring.rundir(1)).args(arguments);
    let output = run.arg(ring.suite.program("t-pmi")).output();
    let out = output.out();
    assert!(out.contains("before 0\n") && out.contains("after 3\n"), "{output}");
    assert!(out.contains("exited normally"), "{output}");
}

#[test]
fn a_debugger_reads_the_reason_for_the_end_of_a_job() {
    let Some(gdb) = gdb() else { return };
    let suite = Suite::new();
    let why = "printf \"mpir state %d\\nmpir why %s\\n\", *(int*)&MPIR_debug_state, \
               *(char**)&MPIR_debug_abort_string\n";
    let script = [LAUNCH, "continue\n", why, "delete\ncontinue\n"].concat();
    let run =
        launch(&suite, &gdb, &script).args(["-np", "2", "sh", "-c", "exit $((PMI_RANK * 7))"]);
    let output = run.output();
    let listed = "mpir state 2\nmpir why rank 1: exited with code 7\n";
    assert!(output.out().contains(listed), "{output}");
    assert!(output.out().contains("exited with code 07"), "{output}");
}

#[test]
fn a_debugger_attached_to_a_running_mpirun_reads_the_table() {
    let Some(gdb) = gdb() else { return };
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let suite = match (is_root(), matches!(scope.trim(), "" | "0")) {
        (true, true) => Suite::as_user(60_208),
        (true, false) | (false, true) => Suite::new(),
        (false, false) => return skip("only root may attach to a program that runs (Yama)"),
    };
    suite.start_daemon();
    let arguments = ["-np", "4", "-s", "all", "-proctable", "table.json"];
    let run = suite.mpirun(arguments).args(["sh", "-c", "cat; exit 3"]).input_pipe();
    let mut job = run.start();
    let stdin = job.stdin();
    let listed = table(&suite.path("work/table.json"));
    assert_eq!(listed.len(), 4);
    let script = [READ, "printf \"mpir debugged %d\\n\", *(int*)&MPIR_being_debugged\n"].concat();
    let output = debug(&suite, &gdb, &script).args(["-p", &job.pid().to_string()]).output();
    output.code(0);
    assert!(output.out().contains("mpir state 1\nmpir size 4\n"), "{output}");
    assert!(output.out().contains("mpir debugged 0\n"), "{output}");
    assert_eq!(rows(&output), listed, "{output}");
    drop(stdin);
    job.wait().code(3);
    suite.only_the_daemon_is_left();
}

#[test]
fn the_table_of_a_job_on_many_hosts_lists_the_processes_of_every_host() {
    let ring = Members::new().option(&["--ncpus", "2"]).with(3);
    let arguments = ["-np", "4", "-proctable", "table.json", "sh", "-c", "echo $$"];
    let more = [":", "-n", "2", "sh", "-c", "echo $$"];
    let output = ring.mpirun(1, &arguments).args(more).output();
    output.code(0).quiet();
    let listed = table(&ring.suite.path("work/table.json"));
    let hosts: Vec<&str> = listed.values().map(|(host, ..)| host.as_str()).collect();
    assert_eq!(hosts, ["d1", "d1", "d2", "d2", "d3", "d3"]);
    let mut pids: Vec<String> = listed.values().map(|(.., pid)| pid.to_string()).collect();
    pids.sort_unstable();
    assert_eq!(output.sorted_lines(), pids);
}
