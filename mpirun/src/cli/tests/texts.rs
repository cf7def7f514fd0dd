//! Help, version and documents.

use super::*;
use crate::docs;
use crate::options::OPTIONS;

fn help(line: &str) -> String {
    match parse(&caller(&words(line))) {
        Ok(Request::Help(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_short_help_fits_a_screen() {
    for line in ["-h", "-help", "--help", "-l -h"] {
        let text = help(line);
        assert!(text.lines().count() <= 40, "{} lines\n{text}", text.lines().count());
        assert!(text.starts_with("Usage: mpirun [options] program"));
        assert!(text.ends_with('\n') && text.contains("-help-all"));
    }
}

#[test]
fn the_debugger_and_the_command_for_every_host_describe_themselves() {
    let help = |name: &str| {
        let mut caller = caller(&["--help"]);
        caller.name = name.into();
        match parse(&caller) {
            Ok(Request::Help(text)) => text,
            other => panic!("{other:?}"),
        }
    };
    for (name, said, unsaid) in [
        ("mpdexec", "Runs a command once on every host", "-gdb-path"),
        ("mpigdb", "Runs every rank of a program under gdb", "-timeout"),
    ] {
        let text = help(name);
        assert!(text.starts_with(&format!("Usage: {name} ")), "{text}");
        assert!(text.contains(said) && !text.contains(unsaid), "{text}");
        assert!(text.contains(&format!("\n  {name} ")), "the command has its own examples: {text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert!(text.lines().count() <= 60, "{} lines\n{text}", text.lines().count());
    }
}

#[test]
fn the_full_help_has_every_option() {
    let text = help("-help-all");
    for name in OPTIONS.iter().filter(|o| o.is_shown()).flat_map(|o| o.names) {
        assert!(text.contains(&format!("-{name}")), "{name}");
    }
    assert!(!text.contains("generate-docs") && !text.contains("-tvsu"));
}

#[test]
fn no_line_of_help_is_wider_than_a_terminal() {
    for line in help("-help-all").lines().chain(help("-help").lines()) {
        assert!(line.len() <= 80, "{line}");
    }
}

#[test]
fn every_option_is_described() {
    for opt in OPTIONS.iter().filter(|o| o.is_shown()) {
        assert!(!opt.help.is_empty() && !opt.help.ends_with('.'), "{:?}", opt.names);
    }
}

#[test]
fn help_and_version_win_over_later_arguments() {
    assert!(matches!(parse(&caller(&words("-h -nonsense"))), Ok(Request::Help(_))));
    assert!(matches!(parse(&caller(&words("a : -h"))), Ok(Request::Help(_))));
    match parse(&caller(&words("-V"))) {
        Ok(Request::Version(text)) => {
            assert!(text.starts_with("mpirun (MPD, compatible with "), "{text}");
            assert!(text.ends_with(&format!(") {}\n", env!("CARGO_PKG_VERSION"))), "{text}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(parse(&caller(&words("--version"))), Ok(Request::Version(_))));
    assert_eq!(
        text(&argset("prog -h").args[0]),
        "-h",
        "after the program, options belong to the program"
    );
}

#[test]
fn the_version_has_the_words_by_which_scripts_know_a_launcher() {
    // As `mpirun --version | head -n 1 | grep`, and as the modules of CMake, search for them.
    let words_in = |name: &str| {
        let text = help::version(name);
        assert_eq!(text.lines().count(), 1, "{text}");
        ["HYDRA", "MPICH", "OpenRTE", "PRRTE", "Open MPI", "Intel"].map(|word| text.contains(word))
    };
    assert_eq!(words_in("mpirun"), [true, true, true, false, true, false]);
    assert_eq!(words_in("mpiexec.hydra"), [true, true, false, false, false, false]);
    assert_eq!(words_in("mpirun.openmpi"), [false, false, true, false, true, false]);
    assert_eq!(words_in("prterun"), [false, false, false, true, true, false]);
}

#[test]
fn documents_are_generated_by_a_hidden_option() {
    match parse(&caller(&words("--generate-docs /x"))) {
        Ok(Request::GenerateDocs(dir)) => assert_eq!(dir, Path::new("/x")),
        other => panic!("{other:?}"),
    }
    assert_eq!(problem("--generate-docs"), "--generate-docs needs a value: DIR");
}

#[test]
fn documents_are_generated_for_both_names_and_three_shells() {
    let dir = tempfile::tempdir().unwrap();
    docs::generate(dir.path()).unwrap();
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let page = read("man/mpirun.1");
    for opt in OPTIONS.iter().filter(|o| o.is_shown()) {
        for name in opt.names {
            assert!(page.contains(&format!(r"\fB\-{}\fR", name.replace('-', r"\-"))), "{name}");
        }
    }
    for section in ["ENVIRONMENT", "\"SEE ALSO\""] {
        assert!(page.contains(&format!(".SH {section}\n")), "{section}");
    }
    assert_eq!(read("man/mpiexec.1"), ".so man1/mpirun.1\n");
    for name in ["mpirun", "mpiexec"] {
        let bash = read(&format!("completions/bash/{name}"));
        assert!(bash.contains(" --configfile ") && bash.contains(" -configfile "));
        assert!(read(&format!("completions/zsh/_{name}")).contains("--configfile"));
        assert!(read(&format!("completions/fish/{name}.fish")).contains("configfile"));
    }
}

#[test]
fn documents_that_cannot_be_written_name_the_file() {
    let error = docs::generate(Path::new("/dev/null")).unwrap_err().to_string();
    assert!(error.starts_with("cannot write /dev/null/man/mpirun.1: "), "{error}");
}
