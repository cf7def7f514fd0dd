//! What debuggers find in `mpirun`: the symbols of MPIR, read by gdb as TotalView and its like do, with the debug
//! information there is of them and by those who know the types; and the same as a file.

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

/// What every script begins with.
const BEGIN: &str = "set pagination off\nset confirm off\nset language c\n";

/// As debuggers begin: stopped before `main`, they say that they are there.
const LAUNCH: &str =
    "starti\nset *(int*)&MPIR_being_debugged = 1\nbreak MPIR_Breakpoint\ncontinue\n";

fn gdb() -> Option<String> {
    let gdb = setting("MPD_TEST_GDB");
    if gdb.is_none() {
        skip("gdb is not there");
    }
    gdb
}

/// `gdb` with a script for `mpirun`; the program's words may follow.
fn debug(suite: &Suite, gdb: &str, script: &str) -> Run {
    let file = suite.path("script.gdb");
    std::fs::write(&file, [BEGIN, script].concat()).expect("a script");
    suite.command(gdb).args(["-q", "-nx", "-batch", "-x"]).arg(file).deadline(90)
}

/// `gdb` with a script on `mpirun`, whose words may follow.
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

/// A program that writes its process id to a file: on the screen it could stand within a line of gdb.
const TELLS_ITS_PID: [&str; 5] = ["-outfile-pattern", "out.%r", "sh", "-c", "echo $$"];

/// What a rank has written there.
fn pid_of(suite: &Suite, rank: u32) -> u32 {
    let text = std::fs::read_to_string(suite.path(format!("work/out.{rank}")));
    text.expect("its output").trim_end().parse().expect("a number")
}

/// The file that `-proctable` wrote, in the same form, once it is whole.
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
fn a_debugger_that_starts_mpirun_is_told_of_every_rank_of_real_mpi_programs() {
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
        // None of them was through MPI_Init before.
        let (told, said) = (out.find("mpir size"), out.find("rank 0 of 4"));
        assert!(told < said && said.is_some(), "{}: {output}", library.name);
        assert_eq!(out.lines().filter(|line| line.starts_with("rank ")).count(), 4, "{output}");
        assert!(out.contains("exited normally"), "{output}");
        suite.only_the_daemon_is_left();
    }
}

#[test]
fn a_debugger_finds_the_types_in_mpirun_and_reads_the_table_without_a_cast() {
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
fn a_debugger_of_an_ordinary_user_is_told_the_right_process_ids() {
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
fn ranks_on_many_hosts_wait_for_their_first_answer_until_the_debugger_goes_on() {
    let Some(gdb) = gdb() else { return };
    let ring = Members::new().option(&["--ncpus", "1"]).with(3);
    // Each says that it is there, and would be through its fence and say more soon.
    let all = "shell timeout 30 sh -c 'until grep -q up out.0 && grep -q up out.1 && grep -q up out.2; \
               do sleep 0.05; done'\nshell echo before $(cat out.? | grep -c hello)\n";
    let end = "delete\ncontinue\nshell echo after $(cat out.? | grep -c hello)\n";
    let script = [LAUNCH, all, end].concat();
    let words =
        ["-np", "3", "-outfile-pattern", "out.%r", "sh", "-c", "echo up; exec \"$0\" hello"];
    let run = launch(&ring.suite, &gdb, &script).env("MPD_RUNDIR", ring.rundir(1)).args(words);
    let output = run.arg(ring.suite.program("t-pmi")).output();
    let out = output.out();
    assert!(out.contains("before 0\n") && out.contains("after 3\n"), "{output}");
    assert!(out.contains("exited normally"), "{output}");
}

#[test]
fn a_debugger_is_told_why_a_job_is_ended() {
    let Some(gdb) = gdb() else { return };
    let suite = Suite::new();
    let why = "printf \"mpir state %d\\nmpir why %s\\n\", *(int*)&MPIR_debug_state, \
               *(char**)&MPIR_debug_abort_string\n";
    let script = [LAUNCH, "continue\n", why, "delete\ncontinue\n"].concat();
    let run =
        launch(&suite, &gdb, &script).args(["-np", "2", "sh", "-c", "exit $((PMI_RANK * 7))"]);
    let output = run.output();
    let told = "mpir state 2\nmpir why rank 1: exited with code 7\n";
    assert!(output.out().contains(told), "{output}");
    assert!(output.out().contains("exited with code 07"), "{output}");
}

#[test]
fn a_user_who_attaches_a_debugger_to_a_running_mpirun_finds_the_table() {
    let Some(gdb) = gdb() else { return };
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let suite = match (is_root(), matches!(scope.trim(), "" | "0")) {
        (true, true) => Suite::as_user(60_208),
        (true, false) | (false, true) => Suite::new(),
        (false, false) => return skip("only root may attach to a program that runs (Yama)"),
    };
    suite.start_daemon();
    let words = ["-np", "4", "-s", "all", "-proctable", "table.json"];
    let run = suite.mpirun(words).args(["sh", "-c", "cat; exit 3"]).input_pipe();
    let mut job = run.start();
    let stdin = job.stdin();
    let told = table(&suite.path("work/table.json"));
    assert_eq!(told.len(), 4);
    let script = [READ, "printf \"mpir debugged %d\\n\", *(int*)&MPIR_being_debugged\n"].concat();
    let output = debug(&suite, &gdb, &script).args(["-p", &job.pid().to_string()]).output();
    output.code(0);
    assert!(output.out().contains("mpir state 1\nmpir size 4\n"), "{output}");
    assert!(output.out().contains("mpir debugged 0\n"), "{output}");
    assert_eq!(rows(&output), told, "{output}");
    drop(stdin);
    job.wait().code(3);
    suite.only_the_daemon_is_left();
}

#[test]
fn the_table_of_a_job_on_many_hosts_has_the_processes_of_each() {
    let ring = Members::new().option(&["--ncpus", "2"]).with(3);
    let words = ["-np", "4", "-proctable", "table.json", "sh", "-c", "echo $$"];
    let more = [":", "-n", "2", "sh", "-c", "echo $$"];
    let output = ring.mpirun(1, &words).args(more).output();
    output.code(0).quiet();
    let told = table(&ring.suite.path("work/table.json"));
    let hosts: Vec<&str> = told.values().map(|(host, ..)| host.as_str()).collect();
    assert_eq!(hosts, ["d1", "d1", "d2", "d2", "d3", "d3"]);
    let mut pids: Vec<String> = told.values().map(|(.., pid)| pid.to_string()).collect();
    pids.sort_unstable();
    assert_eq!(output.sorted_lines(), pids);
}
