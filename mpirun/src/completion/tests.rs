//! The completions that shells offer, tested with the shells themselves.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use clap::{Arg, Command as Tool};
use mpd_docs::completion::{self, Shell};

use super::*;

/// A directory in the search path, with tools and a program, and the completions of `mpirun` and
/// `mpdsigjob`.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, lines) in [
        ("mpdlistjobs", "jobid    = 3@h1\njobid    = p77\njobid    = 3@h1"),
        ("mpdtrace", "h1\nh2"),
        ("hello-program", ""),
    ] {
        let path = directory.path().join(name);
        fs::write(&path, format!("#!/bin/sh\necho '{lines}'\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for shell in Shell::ALL {
        let script = completion::script(shell, "mpirun", &table());
        fs::write(directory.path().join(shell.file("mpirun")), script).unwrap();
    }
    let argument = |id: &'static str, name: &'static str| Arg::new(id).value_name(name);
    let tool = Tool::new("mpdsigjob").arg(argument("signal", "SIGNAL")).arg(argument("job", "JOB"));
    let tool = tool.arg(argument("jobid", "JOB").short('j').long("jobid"));
    mpd_docs::generate(directory.path(), [tool], &[]).unwrap();
    for shell in Shell::ALL {
        let file = shell.file("mpdsigjob");
        let from = directory.path().join("completions").join(shell.name()).join(&file);
        fs::copy(from, directory.path().join(file)).unwrap();
    }
    directory
}

/// The output of a command in that directory; `None` if the shell is not installed.
fn said(shell: &str, words: &[&str]) -> Option<Vec<String>> {
    let directory = directory();
    let path = format!("{}:/usr/bin:/bin", directory.path().display());
    let mut command = Command::new(shell);
    command.args(words).current_dir(directory.path()).stdin(Stdio::null());
    command.env("PATH", path).env("LC_ALL", "C").env("ODD_NAME", "").env("HOME", directory.path());
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: there is no {shell}");
            return None;
        }
        output => output.unwrap(),
    };
    assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

/// The completions of bash for this line.
fn offered(line: &str) -> Vec<String> {
    let program = line.split(' ').next().unwrap();
    let text = format!(
        "source ./{program}.bash; COMP_LINE=$1 COMP_POINT=${{#1}}; _{program} || exit; \
         ((${{#COMPREPLY[@]}} == 0)) || printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    said("bash", &["--norc", "-c", &text, "bash", line]).expect("bash is needed to build this")
}

/// The completions of fish, without descriptions.
fn offered_by_fish(line: &str) -> Option<Vec<String>> {
    let program = line.split(' ').next().unwrap();
    let text = format!("source ./{program}.fish; complete -C \"$argv[1]\"");
    let lines = said("fish", &["--no-config", "-c", &text, line])?;
    Some(lines.iter().map(|line| line.split('\t').next().unwrap().to_owned()).collect())
}

/// The line after zsh completed it on a terminal.
fn completed_by_zsh(line: &str) -> Option<String> {
    const DRIVER: &str = r#"
        zmodload zsh/zpty
        zpty shell zsh -f -i
        zpty -w shell "PS1= PS2= RPS1=; stty -echo; unsetopt beep"
        zpty -w shell "fpath=($PWD \$fpath); autoload -Uz compinit; compinit -u -D"
        zpty -w shell "show() { print -r -- \"\$BUFFER\" > $PWD/part; mv $PWD/part $PWD/made }"
        zpty -w shell "zle -N show; bindkey '^X' show; bindkey '^I' complete-word"
        zpty -w shell "print ready > $PWD/ready"
        integer tries=600
        until [[ -e ready ]] || (( --tries == 0 )); do zpty -r -t shell && continue; sleep 0.05; done
        zpty -w -n shell "$1"$'\t\x18'
        until [[ -e made ]] || (( --tries <= 0 )); do zpty -r -t shell > /dev/null; sleep 0.05; done
        zpty -d shell
        cat made
    "#;
    let lines = said("zsh", &["-f", "-c", DRIVER, "zsh", line])?;
    Some(lines.last().cloned().unwrap_or_default())
}

#[test]
fn bash_offers_options_then_their_values_then_programs() {
    assert_eq!(offered("mpirun -status"), ["-status-file"]);
    assert_eq!(offered("mpirun --status"), ["--status-file"]);
    assert_eq!(offered("mpirun -n 2 -bind-to n"), ["none", "numa"]);
    assert_eq!(offered("mpirun -on-failure=c"), ["continue"]);
    assert_eq!(offered("mpirun --on-failure h"), ["highest"]);
    assert_eq!(offered("mpirun -hosts h"), ["h1", "h2"]);
    assert_eq!(offered("mpirun -stacks "), ["3@h1", "p77"]);
    assert_eq!(offered("mpirun -gdba p"), ["p77"]);
    assert_eq!(offered("mpirun -stacks 3@"), ["h1"], "bash replaces the text after the @");
    assert_eq!(offered("mpirun -hosts h2,h"), ["h2,h1", "h2,h2"]);
    assert_eq!(offered("mpirun -env ODD_N"), ["ODD_NAME"]);
    assert!(offered("mpirun -n ").is_empty(), "a number cannot be guessed");
    for line in ["-n 2", "-env A B", "-env A=B", "-hosts h1:2", "-l -n=2"] {
        assert_eq!(offered(&format!("mpirun {line} hello-p")), ["hello-program"], "{line}");
    }
}

#[test]
fn bash_offers_no_options_of_mpirun_between_the_program_and_the_next_section() {
    for line in ["mpirun cat -stat", "mpirun -n 2 cat ", "mpirun cat -bind-to "] {
        assert!(offered(line).is_empty(), "{line}");
    }
    assert_eq!(offered("mpirun -n 2 cat -x : -status"), ["-status-file"]);
}

#[test]
fn completions_of_a_job_are_the_running_jobs() {
    assert_eq!(offered("mpdsigjob INT "), ["3@h1", "p77"]);
    assert_eq!(offered("mpdsigjob -j p"), ["p77"]);
    assert_eq!(offered("mpdsigjob --jobid p"), ["p77"]);
    assert_eq!(offered("mpdsigjob K"), ["KILL"]);
    assert_eq!(offered("mpdsigjob --jo"), ["--jobid"]);
    assert!(offered("mpdsigjob INT p77 ").is_empty(), "there is one job");
}

#[test]
fn fish_offers_the_same_as_bash() {
    for (line, expected) in [
        ("mpirun -status", &["-status-file"][..]),
        ("mpirun -n 2 -bind-to ", &["core", "none", "numa", "slots"]),
        ("mpirun -on-failure=c", &["-on-failure=continue"]),
        ("mpirun -stacks ", &["3@h1", "p77"]),
        ("mpirun -stacks 3@", &["3@h1"]),
        ("mpirun -n 2 hello-p", &["hello-program"]),
        ("mpirun cat -stat", &[]),
        ("mpirun -n 2 cat -x : -status", &["-status-file"]),
        ("mpdsigjob INT ", &["3@h1", "p77"]),
        ("mpdsigjob -j p", &["p77"]),
    ] {
        let Some(offered) = offered_by_fish(line) else { return };
        assert_eq!(offered, expected, "{line}");
    }
}

#[test]
fn zsh_completes_the_same_as_bash() {
    for (line, expected) in [
        ("mpirun -status", "mpirun -status-file "),
        ("mpirun -on-failure=c", "mpirun -on-failure=continue "),
        ("mpirun --on-failure h", "mpirun --on-failure highest "),
        ("mpirun -stacks 3", "mpirun -stacks 3@h1 "),
        ("mpirun -n 2 hello-p", "mpirun -n 2 hello-program "),
        ("mpirun cat -stat", "mpirun cat -stat"),
        ("mpirun cat : -status", "mpirun cat : -status-file "),
        ("mpdsigjob INT p", "mpdsigjob INT p77 "),
        ("mpdsigjob --jobid 3", "mpdsigjob --jobid 3@h1 "),
    ] {
        let Some(completed) = completed_by_zsh(line) else { return };
        assert_eq!(completed.trim_end(), expected.trim_end(), "{line}");
    }
}
