//! Configuration files.

use std::io::Write as _;

use super::*;

/// Parses `-configfile FILE` (after `before`), where FILE holds `contents`. The path is replaced by
/// FILE in messages.
fn with_file(before: &[&str], contents: &str, after: &[&str]) -> Result<Run, String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(contents.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    let arguments = [before, &["-configfile", path], after].concat();
    match parse(&caller(&arguments)) {
        Ok(Request::Run(run)) => Ok(*run),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string().replace(path, "FILE")),
    }
}

fn from_file(contents: &str) -> Result<Run, String> {
    with_file(&[], contents, &[])
}

#[test]
fn each_line_is_a_program_with_its_options() {
    let run = from_file("# two programs\n-n 2 a 'x y'\n\n-n 3 -wdir /x \\\n  b\n").unwrap();
    let shape: Vec<_> = run.spec.argsets.iter().map(|a| (text(&a.program), a.size)).collect();
    assert_eq!(shape, [("a", 2), ("b", 3)]);
    assert_eq!(run.spec.argsets[0].args, [b"x y".to_vec()]);
    assert_eq!(text(&run.spec.argsets[1].directory), "/x");
}

#[test]
fn global_options_have_a_line_of_their_own_with_or_without_a_colon() {
    for contents in ["-l -gn 2\na\nb\n", "-l -gn 2 :\na\nb", "-l : -n 2 a : -n 2 b"] {
        let run = from_file(contents).unwrap();
        assert_eq!(run.spec.size(), 4, "{contents}");
        assert!(run.spec.output.label.is_some());
    }
}

#[test]
fn options_of_the_job_may_also_be_on_the_command_line() {
    let run = with_file(&["-l", "-gwdir", "/x"], "-n 2 a", &["-timeout", "5"]).unwrap();
    assert!(run.spec.output.label.is_some() && run.spec.timeout.is_some());
    assert_eq!(text(&run.spec.argsets[0].directory), "/x");
    let error = with_file(&["-s", "0"], "-n 2 -s 1 a", &[]).unwrap_err();
    assert_eq!(
        error,
        "mpirun: FILE line 1: -s 0 and -s 1 contradict each other (see mpirun --help)"
    );
}

#[test]
fn programs_are_in_the_file_or_on_the_command_line_but_not_both() {
    let both = "mpirun: the programs are either in -configfile, in -file or on the command line \
                (see mpirun --help)";
    assert_eq!(with_file(&[], "a", &["b"]).unwrap_err(), both);
    assert_eq!(with_file(&[], "a", &[":", "b"]).unwrap_err(), both);
    let error = with_file(&["-n", "2"], "a", &[]).unwrap_err();
    assert!(error.contains("-n 2 has no program after it"), "{error}");
}

#[test]
fn an_error_names_file_and_line() {
    for (contents, expected) in [
        ("a\n\n-nq 2 b", "FILE line 3: unknown option -nq; did you mean -np?"),
        ("-n 0 b", "FILE line 1: -n 0: the number of processes must be at least 1"),
        ("a\n-n 4 -soft 9 b", "FILE line 2: -soft 9 allows no number of processes from 1 to 4"),
        ("a\n-envlist NOPE b", "FILE line 2: NOPE in -envlist is not in the environment"),
        ("-n 4 \\\n -wdir /x", "FILE line 1: -n 4 has no program after it"),
        ("a 'b", "FILE line 1: the quote ' is not closed"),
        ("-configfile x", "FILE line 1: -configfile is for the command line only"),
        ("-help", "FILE line 1: -help is for the command line only"),
        ("", "there is no program in the -configfile FILE"),
        ("-l\n# a", "there is no program in the -configfile FILE"),
        ("-d b", "FILE line 1: -d is for the command line only"),
        ("a\n-host b;c p", "FILE line 2: -host b;c: 'b;c' is not the name of a host"),
    ] {
        let error = from_file(contents).unwrap_err();
        assert!(error.starts_with(&format!("mpirun: {expected}")), "{contents:?}: {error}");
    }
}

#[test]
fn an_unreadable_file_is_a_clear_error() {
    assert_eq!(
        problem("-configfile /no/such/file"),
        "cannot read the -configfile /no/such/file: No such file or directory"
    );
    assert_eq!(problem("-configfile /"), "cannot read the -configfile /: Is a directory");
    assert!(problem("-configfile /dev/zero").contains("it is larger than the 16 MiB"));
    assert_eq!(problem("-configfile"), "-configfile needs a value: FILE");
    assert!(problem("-configfile a -configfile b").contains("contradict each other"));
}

#[test]
fn no_shell_is_involved() {
    let run = from_file("a $HOME $(touch /tmp/never) `x` *").unwrap();
    let args: Vec<_> = run.spec.argsets[0].args.iter().map(|a| text(a)).collect();
    assert_eq!(args, ["$HOME", "$(touch", "/tmp/never)", "`x`", "*"]);
}

#[test]
fn a_colon_in_a_file_of_programs_is_an_argument_unless_an_option_follows() {
    let argsets = |first: &[&str], file: &str| {
        let run = with_file(first, file, &[]).unwrap();
        let shown = |argset: &Argset| {
            let words = std::iter::once(&argset.program).chain(&argset.args);
            words.map(|word| text(word)).collect::<Vec<_>>().join(" ")
        };
        run.spec.argsets.iter().map(shown).collect::<Vec<_>>()
    };
    assert_eq!(argsets(&[], "-n 1 a : b"), ["a : b"], "form B of the MPI standard");
    assert_eq!(argsets(&[], "-n 1 a :"), ["a :"]);
    assert_eq!(argsets(&[], "-n 1 a : -n 2 b"), ["a", "b"]);
    assert_eq!(argsets(&[], "-n 1 a : -y"), ["a : -y"], "no option of ours");
    assert_eq!(argsets(&["-dialect", "hydra"], "-n 1 a : b"), ["a", "b"]);
    assert_eq!(argsets(&["-dialect", "openmpi4"], "-n 1 a : -n 1 b"), ["a : -n 1 b"]);
}
