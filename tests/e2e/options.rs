//! The options of `mpirun`, in the spellings of the MPI standard, of MPD and of Hydra.

use std::fs;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::members::Members;
use crate::process;
use crate::suite::Suite;
use mpd_tests::surroundings::{setting, skip};

#[test]
fn each_argset_has_its_own_program_and_environment() {
    let suite = Suite::new();
    let script = "echo $0 $PMI_RANK/$PMI_SIZE ${A-none} ${G-none}";
    let first = ["-genv", "G", "all", "-n", "2", "-env", "A", "one", "sh", "-c", script, "first"];
    let second = [":", "-n", "1", "sh", "-c", script, "second"];
    let output = suite.mpirun(first).args(second).output();
    output.code(0).quiet();
    assert_eq!(
        output.sorted_lines(),
        ["first 0/3 one all", "first 1/3 one all", "second 2/3 none all"]
    );
}

#[test]
fn wdir_sets_the_working_directory_of_ranks() {
    let suite = Suite::new();
    let directory = suite.new_directory("elsewhere");
    let expected = format!("{directory}\n");
    suite.mpirun(["-wdir", &directory, "-n", "1", "pwd"]).output().code(0).prints(&expected);
    fs::copy("/bin/echo", suite.path("elsewhere/prog")).expect("a copy");
    suite.mpirun(["-wdir", &directory, "./prog", "here"]).output().code(0).prints("here\n");
}

#[test]
fn programs_are_searched_in_the_directories_of_path() {
    let suite = Suite::new();
    let directory = suite.new_directory("elsewhere");
    fs::copy("/bin/echo", suite.path("elsewhere/my-program")).expect("a copy");
    let arguments = ["-path", &directory, "-n", "1", "my-program", "found"];
    suite.mpirun(arguments).output().code(0).prints("found\n");
    suite.mpirun(["-n", "1", "my-program", "found"]).output().code(127);
}

#[test]
fn umask_and_rlimit_set_umask_and_limits_of_ranks() {
    let suite = Suite::new();
    let arguments =
        ["-umask", "027", "-rlimit", "core=0", "-n", "1", "bash", "-c", "umask; ulimit -c"];
    suite.mpirun(arguments).output().code(0).quiet().prints("0027\n0\n");
}

#[test]
fn envnone_and_envlist_select_the_environment_of_ranks() {
    let suite = Suite::new();
    let script = "echo ${ONE-none} ${TWO-none} ${THREE-none}";
    let with = |arguments: &[&str]| {
        let run = suite.mpirun(arguments).args(["-n", "1", "sh", "-c", script]);
        run.env("ONE", "1").env("TWO", "2").output()
    };
    with(&[]).prints("1 2 none\n");
    with(&["-envall"]).prints("1 2 none\n");
    with(&["-genvall"]).prints("1 2 none\n");
    with(&["-envnone"]).prints("none none none\n");
    with(&["-genvnone"]).prints("none none none\n");
    with(&["-envlist", "TWO"]).prints("none 2 none\n");
    with(&["-genvlist", "ONE,TWO"]).prints("1 2 none\n");
    with(&["-genvnone", "-env", "THREE", "3"]).prints("none none 3\n");
    with(&["-genv", "TWO", "two", "-env", "THREE", "3"]).prints("1 two 3\n");
    with(&["-genv", "TWO", "two", "-env", "TWO", "II"]).prints("1 II none\n");
}

#[test]
fn soft_selects_an_allowed_number_of_ranks() {
    let suite = Suite::new();
    let output = suite.mpirun(["-soft", "1:3", "-n", "3", "echo", "x"]).output();
    output.code(0).quiet().prints("x\nx\nx\n");
}

#[test]
fn a_job_accepts_an_alias() {
    let suite = Suite::new();
    suite.mpirun(["-a", "my-job", "-n", "1", "true"]).output().code(0).quiet();
}

#[test]
fn a_status_file_lists_every_rank() {
    let suite = Suite::new();
    let path = suite.path("work/status").display().to_string();
    let helper = suite.program("t-exit-with");
    let arguments = ["-status-file", &path, "-on-failure=continue", "-n", "3", &helper, "1", "6"];
    suite.mpirun(arguments).output().code(6);
    let text = fs::read_to_string(&path).expect("the status file");
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("rank=")).collect();
    assert_eq!(lines.len(), 3, "{text}");
    for (rank, code) in [(0, 0), (1, 6), (2, 0)] {
        let line = lines[rank];
        assert!(line.starts_with(&format!("rank={rank} host=")), "{text}");
        assert!(line.ends_with(&format!(" code={code}")), "{text}");
    }
}

#[test]
fn a_status_file_shows_signals_and_ranks_that_never_ran() {
    let suite = Suite::new();
    let path = suite.path("work/status").display().to_string();
    let helper = suite.program("t-exit-with");
    let arguments = ["-status-file", &path, "-n", "2", &helper, "1", "sig11", "sleep"];
    suite.mpirun(arguments).output().code(139);
    let text = fs::read_to_string(&path).expect("the status file");
    assert!(text.contains("signal=11") && text.contains("rank=0 "), "{text}");
    suite.mpirun(["-status-file", &path, "-n", "2", "./missing"]).output().code(127);
    let text = fs::read_to_string(&path).expect("the status file");
    assert_eq!(text.matches("state=not-started").count(), 2, "{text}");
}

#[test]
fn an_exit_code_file_has_the_format_of_the_original_mpd() {
    let suite = Suite::new();
    let path = suite.path("work/codes").display().to_string();
    let helper = suite.program("t-exit-with");
    suite.mpirun(["-ecfn", &path, "-on-failure=continue", "-n", "2", &helper, "1", "6"]).output();
    let text = fs::read_to_string(&path).expect("the file");
    assert!(text.starts_with("exit-codes\njobid="), "{text}");
    let mut lines: Vec<_> = text.lines().skip(2).collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 2, "{text}");
    for (line, start) in lines.iter().zip(["rank=0 status=0 pid=", "rank=1 status=1536 pid="]) {
        assert!(line.starts_with(start) && line.contains(" host="), "{text}");
    }
}

#[test]
fn print_all_exitcodes_prints_the_code_of_each_rank() {
    let suite = Suite::new();
    let helper = suite.program("t-exit-with");
    let arguments = ["-print-all-exitcodes", "-on-failure=continue", "-n", "2", &helper, "1", "77"];
    let output = suite.mpirun(arguments).output();
    output.code(77);
    let printed = format!("{}{}", output.out(), output.err());
    assert!(printed.contains("Exit codes: ") && printed.contains(" 0,77"), "{output}");
}

#[test]
fn unread_exit_codes_do_not_delay_the_end_of_mpirun() {
    let suite = Suite::new();
    let (_reader, mut writer) = UnixStream::pair().expect("a socket");
    // The socket is in blocking mode and full, so that mpirun cannot write one byte.
    writer.set_nonblocking(true).expect("its mode");
    while writer.write(b"x").is_ok() {}
    writer.set_nonblocking(false).expect("its mode");
    let run = suite.mpirun(["-print-all-exitcodes", "-n", "2", "true"]);
    run.stderr(OwnedFd::from(writer)).output().code(0);
    suite.gone(&[]);
}

#[test]
fn outfile_pattern_writes_one_file_for_each_rank() {
    let suite = Suite::new();
    let (out, err) = (suite.path("work/out.%r"), suite.path("work/err.%r"));
    let script = "echo out $PMI_RANK; echo err $PMI_RANK >&2";
    let run = suite.mpirun(["-outfile-pattern".as_ref(), out.as_os_str()]);
    let run = run.args(["-errfile-pattern".as_ref(), err.as_os_str()]);
    run.args(["-n", "3", "sh", "-c", script]).output().code(0).quiet().prints("");
    for rank in 0..3 {
        let read = |name: &str| fs::read_to_string(suite.path(format!("work/{name}.{rank}")));
        assert_eq!(read("out").expect("a file"), format!("out {rank}\n"));
        assert_eq!(read("err").expect("a file"), format!("err {rank}\n"));
    }
}

#[test]
fn output_files_may_be_copies_in_directories_that_are_made() {
    let suite = Suite::new();
    let script = "echo out $PMI_RANK; echo err $PMI_RANK >&2";
    let log = suite.path("work/a/log");
    let run = suite.mpirun(["--output-filename".as_ref(), log.as_os_str()]);
    let output = run.args(["-l", "-n", "11", "sh", "-c", script]).output();
    output.code(0);
    for rank in 0..11 {
        let read = |name: &str| fs::read_to_string(log.join(format!("1/rank.{rank:02}/{name}")));
        assert_eq!(read("stdout").expect("a file"), format!("out {rank}\n"));
        assert_eq!(read("stderr").expect("a file"), format!("err {rank}\n"));
        for (text, stream) in [(output.out(), "out"), (output.err(), "err")] {
            assert!(
                text.lines().any(|line| line == format!("{rank}: {stream} {rank}")),
                "{output}"
            );
        }
    }
}

#[test]
fn standard_error_can_be_standard_output_in_the_order_of_the_program() {
    let suite = Suite::new();
    let script = "echo a; echo b >&2; echo c; echo d >&2";
    let arguments = ["-merge-stderr-to-stdout", "-n", "1", "sh", "-c", script];
    suite.mpirun(arguments).output().code(0).quiet().prints("a\nb\nc\nd\n");
}

#[test]
fn timestamp_prefixes_each_line_with_a_time() {
    let suite = Suite::new();
    let output = suite.mpirun(["-timestamp", "-n", "2", "echo", "text"]).output();
    output.code(0).quiet();
    for line in output.out().lines() {
        let (stamp, text) = line.rsplit_once(' ').expect("a stamp and the text");
        assert!(text == "text" && stamp.bytes().any(|byte| byte.is_ascii_digit()), "{output}");
    }
}

#[test]
fn a_dry_run_gives_the_hosts_that_the_job_then_uses() {
    let ring = Members::of(3);
    let job = ["-n", "5", "-ppn", "2", "-bind-to", "core"];
    let dry = ring.mpirun(2, &[&["-dry-run", "--json"], &job[..]].concat()).arg("true").output();
    let object: Value = serde_json::from_str(&dry.code(0).quiet().out()).expect("an object");
    assert_eq!((&object["format"], &object["daemons"]), (&json!(1), &json!("standing")));
    let hosts = object["hosts"].as_array().expect("hosts");
    let expected: Vec<(String, usize)> = hosts
        .iter()
        .map(|host| {
            let ranks = host["ranks"].as_array().expect("ranks").len();
            (host["name"].as_str().expect("a name").to_owned(), ranks)
        })
        .collect();
    assert_eq!(expected, [("d2", 2), ("d3", 2), ("d1", 1)].map(|(h, n)| (h.to_owned(), n)));
    let map = ring.mpirun(2, &[&["-print-rank-map"], &job[..]].concat()).arg("true").output();
    assert_eq!(map.code(0).out(), "(d2:0-1)(d3:2-3)(d1:4)\n");
    let refused = ring.mpirun(2, &["-dry-run", "-hosts", "d9"]).arg("true").output();
    refused.code(125);
    assert!(refused.out().contains("problem: not in the ring: d9"), "{refused}");
}

#[test]
fn launch_lines_of_other_launchers_run() {
    let suite = Suite::new();
    let script = "echo $OMPI_MCA_btl $OMPI_COMM_WORLD_RANK";
    let line = ["--oversubscribe", "--mca", "btl", "self", "--map-by", "slot:OVERSUBSCRIBE"];
    let output = suite.mpirun(line).args(["-c", "2", "sh", "-c", script]).output();
    output.code(0).quiet();
    assert_eq!(output.sorted_lines(), ["self 0", "self 1"]);
    let reported = suite.mpirun(["--report-bindings", "true"]).output();
    reported.code(0);
    assert!(reported.err().contains("rank 0 on ") && reported.err().contains("CPUs"), "{reported}");
    let ranks = suite.path("work/ranks");
    fs::write(&ranks, "rank 0=localhost slot=0\nrank 1 localhost\n").expect("a rank file");
    let refused = suite.mpirun(["-rf", &ranks.display().to_string(), "-n", "2", "true"]).output();
    refused.code(125).says(&[&format!("-rf {}: line 2: ", ranks.display())]);
}

#[test]
fn a_dry_run_shows_the_mpi_library_of_each_program() {
    let suite = Suite::new();
    let script = suite.path("work/script");
    fs::write(&script, "#!/bin/sh\n").expect("write a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("make it executable");
    let line = ["-dry-run", "./script", ":", "-path", "/bin", "sh", ":", "./none"];
    let output = suite.mpirun(line).output();
    output.code(0).quiet();
    let text = output.out();
    let lines = |name: &str| -> Vec<&str> {
        text.lines().filter_map(|line| line.strip_prefix(name)).collect()
    };
    let absent = "not on this host: No such file or directory";
    let script = script.display().to_string();
    assert_eq!(lines("  found: "), [&*script, "/bin/sh", absent], "{output}");
    let shown = ["not visible: a script for /bin/sh", "not visible: no MPI library is linked"];
    assert_eq!(lines("  MPI library: "), shown, "{output}");
    for (library, name) in [
        ("MPICH4", "MPICH (libmpich.so.12 in "),
        ("MPICH5", "MPICH (libmpi.so.12 in "),
        ("IMPI", "Intel MPI (libmpi.so.12 in "),
        ("OMPI418", "Open MPI (libmpi.so.40 in "),
        ("OMPI5011", "Open MPI (libmpi.so.40 in "),
        ("OMPI_DEBIAN", "Open MPI (libmpi.so.40 in "),
    ] {
        let Some(directory) = setting(&format!("MPD_TEST_{library}_DIR")) else {
            skip(&format!("{library} is not there"));
            continue;
        };
        let output = suite.mpirun(["-dry-run", &format!("{directory}/hello")]).output();
        output.code(0).quiet();
        let line = format!("  MPI library: {name}");
        assert!(output.out().lines().any(|l| l.starts_with(&line)), "{library}: {output}");
    }
}

#[test]
fn help_is_short_and_help_all_lists_every_option() {
    let suite = Suite::new();
    let (short, all) = (suite.mpirun(["--help"]).output(), suite.mpirun(["--help-all"]).output());
    short.code(0).quiet();
    all.code(0).quiet();
    assert!(short.out().lines().count() < all.out().lines().count(), "{short}\n{all}");
    let options = "-np -l -label-fmt -s -wdir -path -umask -rlimit -env -envlist -envall -envnone \
                   -genv -genvlist -genvall -genvnone -usize -a -soft -timeout -configfile \
                   -on-failure -status-file -ecfn -print-all-exitcodes -outfile-pattern \
                   -errfile-pattern -timestamp -m -dry-run";
    for option in options.split_whitespace() {
        assert!(all.out().contains(option), "no {option} in {all}");
    }
    suite.mpirun(["--version"]).output().code(0).quiet();
    suite.mpd(&["--help"]).output().code(0).quiet();
}

#[test]
fn output_files_are_created_with_the_umask_of_mpiruns_caller() {
    check_umask("022", "077", 0o600);
}

#[test]
fn output_files_are_created_without_the_umask_of_the_daemon() {
    check_umask("077", "022", 0o644);
}

fn check_umask(daemons: &str, callers: &str, expected: u32) {
    let suite = Suite::new();
    let with = |mask: &str, program: &str| {
        let run = suite.command(suite.program("t-run")).arg(format!("umask={mask}"));
        run.arg(suite.program(program))
    };
    with(daemons, "mpd").arg("--daemon").output().code(0);
    let daemon = suite.daemon().pid;
    let arguments = ["-outfile-pattern", "out", "-n", "1", "echo", "x"];
    with(callers, "mpirun").args(arguments).output().code(0).quiet();
    process::send(daemon, Signal::SIGTERM);
    let mode = fs::metadata(suite.path("work/out")).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, expected, "{mode:o}");
    suite.gone(&[]);
}
