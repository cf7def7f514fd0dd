//! Tasks on one host, without a daemon: their outputs, their commands, the job log.

use std::fs;

use super::{check_each_once, lines};
use crate::suite::Suite;

#[test]
fn the_output_of_each_task_is_whole() {
    let suite = Suite::new();
    let input =
        lines(100, |number| format!("for i in 1 2 3; do echo {number} $i; sleep 0.001; done"));
    let output = suite.farm(["-j", "4"], &input).output();
    let out = output.code(0).quiet().out();
    let printed: Vec<&str> = out.lines().collect();
    assert_eq!(printed.len(), 300);
    let mut numbers = Vec::new();
    for task in printed.chunks(3) {
        let number = task[0].split(' ').next().expect("a number");
        let expected: Vec<String> = (1..=3).map(|i| format!("{number} {i}")).collect();
        assert_eq!(task, expected);
        numbers.push(number.parse::<u32>().expect("a number"));
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
    suite.no_job_is_left();
}

#[test]
fn outputs_come_in_the_order_of_the_tasks_if_wanted() {
    let suite = Suite::new();
    let input = lines(60, |number| {
        format!("sleep 0.0{}; echo {number}; echo e{number} >&2", number * 7 % 10)
    });
    let output = suite.farm(["-j", "6", "-k"], &input).output();
    output.code(0).prints(&lines(60, |number| number.to_string()));
    assert_eq!(output.err(), lines(60, |number| format!("e{number}")));
    suite.no_job_is_left();
}

#[test]
fn a_large_output_is_printed_whole_and_every_byte_once() {
    let suite = Suite::new();
    let input = lines(8, |number| format!("head -c 3000000 /dev/zero | tr '\\0' {}", number % 10));
    let output = suite.farm(["-j", "8", "-k"], &input).output();
    let expected: Vec<u8> = (1..=8).flat_map(|number| vec![b'0' + number; 3_000_000]).collect();
    assert!(output.code(0).quiet().stdout == expected);
    suite.no_job_is_left();
}

#[test]
fn a_template_gets_each_input_as_one_word() {
    let suite = Suite::new();
    let arguments = ["-k", "printf", "[%s]", "{}", "{#}"];
    suite
        .farm(arguments, "a b\n$x\n\nit's\n")
        .output()
        .code(0)
        .quiet()
        .prints("[a b][1][$x][2][it's][4]");
    suite.farm(["printf", "%s%s", "-k"], "a\n").output().code(0).quiet().prints("-ka");
    fs::write(suite.path("work/inputs"), "a b\nc\n").expect("a file");
    let arguments = ["-k", "-a", "inputs", "--", "echo {} | tr a-z A-Z"];
    suite.farm(arguments, "").output().code(0).quiet().prints("A B\nC\n");
    suite.no_job_is_left();
}

#[test]
fn tasks_have_the_directory_and_environment_of_the_caller_but_no_input_and_no_manager() {
    let suite = Suite::new();
    let input = "pwd\necho $COLOUR $MPD_FARM_TASK\ncat\nenv | grep ^PMI_ | cat\n";
    let output = suite.farm(["-k"], input).env("COLOUR", "red").output();
    output.code(0).quiet().prints(&format!("{}\nred 2\n", suite.path("work").display()));
    suite.no_job_is_left();
}

#[test]
fn options_of_mpirun_in_the_environment_do_not_disturb_a_farm() {
    let suite = Suite::new();
    let options = [
        ("MPIEXEC_PREPEND_RANK", "1"),
        ("MPIEXEC_PREFIX_DEFAULT", "1"),
        ("MPIEXEC_TIMEOUT", "1"),
        ("HYDRA_BINDING", "core"),
    ];
    let input = "sleep 1.5; echo a\ngrep Cpus_allowed_list /proc/self/status\n";
    let farm = suite.farm(["-k", "-j", "2"], input);
    let output =
        options.into_iter().fold(farm, |farm, (name, value)| farm.env(name, value)).output();
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let cpus = status.lines().find(|line| line.starts_with("Cpus_allowed_list")).expect("a line");
    output.code(0).quiet().prints(&format!("a\n{cpus}\n"));
    suite.no_job_is_left();
}

#[test]
fn the_job_log_has_a_line_for_each_end() {
    let suite = Suite::new();
    let input = "true\nexit 3\nkill -9 $$\necho four\n\nno-such-program\n";
    let output = suite.farm(["--joblog", "log"], input).output();
    output.code(3).prints("four\n").says(&["not found"]);
    let text = fs::read_to_string(suite.log()).expect("a job log");
    let mut rows: Vec<Vec<&str>> =
        text.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    rows.sort_unstable_by_key(|row| row[0]);
    let ends: Vec<_> = rows.iter().map(|row| (row[0], row[5], row[6], row[7], row[8])).collect();
    let expected = [
        ("1", "0", "0", "0", "true"),
        ("2", "0", "3", "0", "exit 3"),
        ("3", "0", "0", "9", "kill -9 $$"),
        ("4", "5", "0", "0", "echo four"),
    ];
    assert_eq!(ends[..4], expected);
    assert_eq!((ends[4].0, ends[4].2, ends[4].4), ("6", "127", "no-such-program"));
    assert!(text.starts_with(
        "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"
    ));
    let again = suite.farm(["--joblog", "log"], input).output();
    again.code(125).says(&["--resume"]).brief();
    suite.no_job_is_left();
}

#[test]
fn outputs_go_to_files_if_wanted() {
    let suite = Suite::new();
    let output = suite.farm(["--output-dir", "outputs"], "echo a\ntrue\necho b >&2\n").output();
    output.code(0).quiet().prints("");
    let read = |name: &str| fs::read_to_string(suite.path("work/outputs").join(name)).ok();
    let files = ["1.out", "1.err", "2.out", "3.out", "3.err"].map(read);
    assert_eq!(
        files.each_ref().map(Option::as_deref),
        [Some("a\n"), None, Some(""), Some(""), Some("b\n")]
    );
    suite.no_job_is_left();
}

#[test]
fn each_result_is_a_line_of_json_if_wanted() {
    let suite = Suite::new();
    let output = suite.farm(["--json", "-k"], "echo a; echo b >&2; exit 3\nkill -15 $$\n").output();
    let lines: Vec<serde_json::Value> = output
        .code(2)
        .quiet()
        .out()
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["task"], &lines[0]["exit"]), (&1.into(), &3.into()));
    assert_eq!((&lines[0]["stdout"], &lines[0]["stderr"]), (&"a\n".into(), &"b\n".into()));
    assert_eq!((&lines[1]["signal"], &lines[1]["command"]), (&15.into(), &"kill -15 $$".into()));
    suite.no_job_is_left();
}

#[test]
fn a_task_may_occupy_several_slots() {
    let suite = Suite::new();
    let input = lines(20, |_| "echo s >> marks; sleep 0.02; echo e >> marks".to_owned());
    suite.farm(["-j", "5", "-n", "2", "--joblog", "log"], &input).output().code(0).quiet();
    check_each_once(&suite.log(), 20);
    let marks = fs::read_to_string(suite.path("work/marks")).expect("marks");
    let (mut running, mut most) = (0_i32, 0);
    for mark in marks.lines() {
        running += if mark == "s" { 1 } else { -1 };
        most = most.max(running);
    }
    assert_eq!((running, most), (0, 2));
    let output = suite.farm(["-j", "1", "-n", "2"], "true\n").output();
    output.code(125).says(&["slots"]).brief();
    suite.no_job_is_left();
}

#[test]
fn a_stream_of_lines_runs_as_it_comes() {
    use std::io::Write as _;
    let suite = Suite::new();
    let mut farm = suite.command(suite.program("mpdfarm")).input_pipe().deadline(60).start();
    let mut input = farm.stdin();
    for number in 1..=3 {
        writeln!(input, "echo {number}").expect("a pipe");
        farm.shows(&format!("{number}\n"));
    }
    drop(input);
    farm.wait().code(0).quiet().prints("1\n2\n3\n");
    suite.no_job_is_left();
}

#[test]
fn no_input_is_executed() {
    let suite = Suite::new();
    let touch = "touch executed";
    let inputs = [
        format!("$({touch})"),
        format!("`{touch}`"),
        format!("'$({touch})'"),
        format!("\"; {touch}; \""),
        format!("'; {touch}; '"),
        format!("\\'; {touch}; #"),
        format!("a[$({touch})]"),
        format!("}}$({touch})"),
        format!("x\\$({touch})"),
        "2".to_owned(),
    ];
    let input = inputs.join("\n") + "\n";
    // Each place either is refused, or gives the command the input as it is.
    let mut accepted = 0;
    for template in [
        "printf '%s\\n' {}",
        "printf '%s\\n' \"{}\"",
        "printf '%s\\n' '{}'",
        "printf '%s\\n' \\{}",
        "printf '%s\\n' ${}",
        "printf '%s\\n' `echo {}`",
        "printf '%s\\n' \"$(printf '%s' {})\"",
        "printf '%s\\n' \"$(printf '%s' \"{}\")\"",
        "printf '%s\\n' \"${X:-{}}\"",
        "echo $(( {} ))",
        "cat <<E\n{}\nE",
        "printf '%s\\n' x{}>&1 # {} '",
    ] {
        let output = suite.farm(["-k", "--", template], &input).output();
        assert!(!suite.path("work/executed").exists(), "{template}");
        if output.status.code() == Some(125) {
            output.says(&["{}", "mpdfarm"]).prints("");
        } else {
            accepted += 1;
            let x = if template.contains("x{}") { "x" } else { "" };
            let expected: String = inputs.iter().map(|input| format!("{x}{input}\n")).collect();
            output.code(0).quiet().prints(&expected);
        }
    }
    assert_eq!(accepted, 3);
    let output = suite.farm(["--", "sh", "-c", "echo {}"], &input).output();
    output.code(125).says(&["mpdfarm sh -c 'echo \"$1\"' sh {}"]).brief();
    let output = suite.farm(["--", "echo \"{}\""], &input).output();
    output.code(125).says(&["This works: mpdfarm 'echo {}'"]).brief();
    suite.no_job_is_left();
}
