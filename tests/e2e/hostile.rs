//! Clients that write lines unknown to libraries, or write in unusual pieces. Each client is served, or ends its job
//! with a message of one line, and the daemon continues.

use crate::suite::Suite;

const INIT: &str = r"cmd=init pmi_version=1 pmi_subversion=1\n";
const WELCOME: &str = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
const END: &str = r"cmd=barrier_in\ncmd=finalize\n";
const ENDED: &str = "cmd=barrier_out\ncmd=finalize_ack rc=0\n";
const INIT_2: &str = r"cmd=init pmi_version=2 pmi_subversion=0\n";
const WELCOME_2: &str = "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n";

/// A job of three ranks, the middle one of which performs these steps.
fn raw(suite: &Suite, steps: &[String]) -> crate::run::Output {
    let output = suite.ranks(3, "t-raw", &["1"]).args(steps).output();
    suite.only_the_daemon_is_left();
    output
}

/// A PMI-2 message as one step.
fn message(text: &str) -> String {
    let body = format!("cmd={text}");
    format!("send={:<6}{body}", body.len())
}

fn send(text: &str) -> String {
    format!("send={text}")
}

fn arguments<const N: usize>(arguments: [&str; N]) -> [String; N] {
    arguments.map(str::to_owned)
}

/// Checks jobs that succeed: the answers to the rank and the messages to the user.
fn are_served(cases: &[(&[String], &str, &str)]) {
    let suite = Suite::new();
    let daemon = suite.start_daemon().pid;
    for (steps, answers, warning) in cases {
        let output = raw(&suite, steps);
        output.code(0).prints(answers).says(&[warning]);
        assert_eq!(output.err().lines().count(), usize::from(!warning.is_empty()), "{output}");
    }
    assert_eq!(suite.daemon().pid, daemon);
}

/// Checks jobs that end because of the rank, and the messages about it.
fn are_ended(cases: &[(Vec<String>, &str)]) {
    let suite = Suite::new();
    let daemon = suite.start_daemon().pid;
    for (steps, warning) in cases {
        raw(&suite, steps).code(1).says(&["rank 1", warning]).brief();
    }
    assert_eq!(suite.daemon().pid, daemon);
}

#[test]
fn pmi_1_lines_may_arrive_in_any_pieces() {
    let bytes =
        [format!("bytes={INIT}"), "lines=1".into(), format!("bytes={END}"), "lines=2".into()];
    let halves = arguments([
        "send=cmd=init pmi_vers",
        r"send=ion=1 pmi_subversion=1\ncmd=barr",
        r"send=ier_in\ncmd=finali",
        r"send=ze\n",
        "lines=3",
    ]);
    let all = [send(&format!("{INIT}{END}")), "lines=3".into()];
    let answers = format!("{WELCOME}{ENDED}");
    are_served(&[(&bytes, &answers, ""), (&halves, &answers, ""), (&all, &answers, "")]);
}

#[test]
fn unknown_pmi_1_commands_are_answered_and_reported_once() {
    let returns = [send(&format!("{INIT}{END}").replace(r"\n", r"\r\n")), "lines=3".into()];
    let unknown = r"cmd=make_tea\ncmd=make_coffee\n";
    let unknown = [send(&format!("{INIT}{unknown}{END}")), "lines=5".into()];
    let not_known = |name| format!("cmd={name}_result rc=-1 msg=unknown_command\n");
    let not_known = not_known("make_tea") + &not_known("make_coffee");
    let other = [send(&format!(r"cmd=initack pmiid=2\n{INIT}{END}")), "lines=4".into()];
    let early = [send(&format!(r"cmd=get_maxes\n{INIT}{END}")), "lines=4".into()];
    are_served(&[
        (&returns, &format!("{WELCOME}{ENDED}"), ""),
        (
            &unknown,
            &format!("{WELCOME}{not_known}{ENDED}"),
            "rank 1: broke the PMI protocol: unknown command make_tea",
        ),
        (&other, &format!("cmd=initack rc=-1\n{WELCOME}{ENDED}"), "client claims to be rank 2"),
        (
            &early,
            &format!("cmd=get_maxes_result rc=-1 msg=not_initialized\n{WELCOME}{ENDED}"),
            "get_maxes outside of init and finalize",
        ),
    ]);
}

#[test]
fn bytes_written_to_pmi_by_a_child_after_finalize_are_ignored() {
    let steps = [
        send(&format!("{INIT}{END}")),
        "lines=3".into(),
        r"child=no such thing\n".into(),
        "child=half a line".into(),
    ];
    are_served(&[(&steps, &format!("{WELCOME}{ENDED}"), "")]);
}

#[test]
fn malformed_pmi_1_lines_end_the_job_with_a_reason() {
    let begun = |steps: &[&str]| {
        let begin = [send(INIT), "lines=1".to_owned()];
        begin.into_iter().chain(steps.iter().map(|step| (*step).to_owned())).collect()
    };
    are_ended(&[
        (begun(&["fill=70000", "stay"]), "line of more than 65536 bytes"),
        (
            begun(&["send=cmd=barr", "close", "stay"]),
            "closed its PMI connection before MPI_Finalize",
        ),
        (begun(&["send=cmd=barr"]), "without MPI_Finalize"),
        (
            begun(&[r"child=no such thing\n", "stay"]),
            "does not begin with a command: no_such_thing",
        ),
    ]);
}

#[test]
fn malformed_pmi_2_messages_end_the_job_with_a_reason() {
    let begun = |steps: &[&str]| {
        let begin = [send(INIT_2), "lines=1".to_owned()];
        begin.into_iter().chain(steps.iter().map(|step| (*step).to_owned())).collect()
    };
    let half = "send=23    cmd=fullinit;pmi";
    are_ended(&[
        (begun(&["send=abcdefcmd=", "stay"]), "abcdef is no length"),
        (begun(&[half, "close", "stay"]), "closed its PMI connection before MPI_Finalize"),
        (begun(&["child=GET / HTTP/1.0", "stay"]), "GET_/_ is no length"),
    ]);
}

#[test]
fn unknown_pmi_2_messages_are_answered_and_reported_once() {
    let begin = [send(INIT_2), "lines=1".into(), message("fullinit;pmirank=1;"), "frames=1".into()];
    let end = [message("kvs-fence;"), "frames=1".into(), message("finalize;"), "frames=1".into()];
    let with = |steps: &[String]| -> Vec<String> { [&begin[..], steps, &end].concat() };
    let suite = Suite::new();
    let daemon = suite.start_daemon().pid;
    let token = "t".repeat(60_000);
    let said = |answer: &str| {
        format!(
            "{WELCOME_2}cmd=fullinit-response;pmi-version=2;pmi-subversion=0;rank=1;size=3;appnum=0;\
             debugged=FALSE;pmiverbose=FALSE;rc=0;\n{answer}cmd=kvs-fence-response;rc=0;\n\
             cmd=finalize-response;rc=0;\n"
        )
    };
    let unknown = raw(&suite, &with(&[message("make-tea;"), "frames=1".into()]));
    unknown.code(0).says(&["rank 1: broke the PMI protocol: unknown command make-tea"]).brief();
    unknown.prints(&said("cmd=make-tea-response;rc=-1;errmsg=unknown_command;\n"));
    let huge = with(&[message(&format!("job-getid;thrid={token};")), "frames=1".into()]);
    let huge = raw(&suite, &huge);
    huge.code(0);
    assert_eq!(suite.daemon().pid, daemon);
}
