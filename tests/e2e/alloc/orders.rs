//! Wrong command lines and names, and their messages.

use crate::members::Members;

#[test]
fn a_wrong_command_line_is_refused_with_the_reason() {
    let ring = Members::with_slots(1, 1);
    for (words, fragments) in [
        (&["-n", "0", "true"][..], &["0"][..]),
        (&["-n", "x", "true"], &["x"]),
        (&["-soft", "1:2:0", "true"], &["1:2:0"]),
        (&["-t", "1:99", "true"], &["HOURS:MINUTES:SECONDS"]),
        (&["--hosts", "d1,,d2", "true"], &["there is a comma with no host beside it"]),
        (&["-hard", "-soft", "true"], &["cannot be used with"]),
    ] {
        let output = ring.alloc(1, words).output();
        output.code(2).says(fragments).prints("");
    }
    let many = ring.alloc(1, &["-n", "2", "--hosts", "d1,d2", "--arch", "a,b,c", "true"]).output();
    many.code(1).says(&["equally many"]).brief();
    ring.alloc(1, &["-n", "1", "no-such-program"]).output().code(127).says(&["no-such-program"]);
    ring.alloc(1, &["-n", "1", "/etc/passwd"]).output().code(126).says(&["/etc/passwd"]);
    ring.alloc(1, &["-n", "1", "sh", "-c", "exit 3"]).output().code(3);
    ring.alloc(1, &["-n", "1", "sh", "-c", "kill -TERM $$"]).output().code(143);
    ring.all_is_free(1);
}

#[test]
fn a_variable_does_not_give_slots_to_a_job() {
    let ring = Members::with_slots(2, 1);
    for (alloc, problem) in [
        ("a7", "MPD_ALLOC: there is no allocation a7@d1"),
        ("a7@d2", "MPD_ALLOC: there is no allocation a7@d2"),
        ("a7@d9", "MPD_ALLOC: a7@d9: the daemon d9 is not in the ring"),
        ("nonsense", "not an allocation"),
    ] {
        let output = ring.mpirun(1, &["-n", "1", "true"]).env("MPD_ALLOC", alloc).output();
        output.code(125).says(&[problem]).brief();
    }
    let nowhere = ring.tool(1, "mpdalloc", &["-n", "1", "--rundir", "/nowhere", "true"]).output();
    nowhere.code(1).says(&["no daemon is running"]).brief();
    ring.all_is_free(1);
}
