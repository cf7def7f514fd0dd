//! The completion for bash, from the table of options. Those that clap makes know neither options with one
//! dash nor where the program's own arguments begin.

use std::fmt::Write as _;

use crate::options::{Key, OPTIONS, Opt};

/// The script without the words of the table.
const SCRIPT: &str = include_str!("completion.bash");

/// The script for one name of the program.
pub(crate) fn bash(name: &str) -> String {
    let shown = || OPTIONS.iter().filter(|opt| opt.is_shown());
    let words = |dashes: &str| {
        let spelled = shown().flat_map(|opt| opt.names).map(|name| format!("{dashes}{name}"));
        spelled.collect::<Vec<_>>().join(" ")
    };
    let mut values = String::new();
    for opt in shown().filter(|opt| !opt.values.is_empty()) {
        // Writing to a String cannot fail.
        let _ = writeln!(values, "    {}) kinds=({}) ;;", opt.names.join(" | "), kinds(opt));
    }
    SCRIPT
        .replace("@VALUES@", &values)
        .replace("@SINGLE@", &words("-"))
        .replace("@DOUBLE@", &words("--"))
        .replace("@NAME@", name)
}

/// What each value of an option is, as words of bash.
fn kinds(opt: &Opt) -> String {
    let kind = match opt.key {
        Key::Directory | Key::RunDir | Key::Path => "directory",
        Key::ConfigFile
        | Key::HostFile
        | Key::ExitCodeFile
        | Key::StatusFile
        | Key::TraceStartup
        | Key::ProcTable
        | Key::OutFile
        | Key::ErrFile => "file",
        Key::LauncherProgram | Key::DebugPath => "program",
        Key::Attach | Key::Stacks => "job",
        Key::Hosts | Key::Host | Key::Exclude => "host",
        Key::EnvList | Key::EnvExport => "variable",
        Key::EnvSet => return "name none".to_owned(),
        Key::OnFailure => "'words:end continue highest'",
        Key::Stdin => "'words:all none'",
        Key::UniverseSize => "'words:SYSTEM INFINITE'",
        _ => return opt.values.iter().map(|value| listed(value)).collect::<Vec<_>>().join(" "),
    };
    kind.to_owned()
}

/// The words that a value like `none|core|CMD` can be; a name in capitals stands for any text.
fn listed(value: &str) -> String {
    let fixed = |word: &&str| word.bytes().all(|b| b.is_ascii_lowercase());
    let words: Vec<&str> = value.split('|').filter(fixed).collect();
    if words.is_empty() { "none".to_owned() } else { format!("'words:{}'", words.join(" ")) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::*;

    /// What bash offers behind this line.
    fn offered(line: &str) -> Vec<String> {
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
        fs::write(directory.path().join("script"), bash("mpirun")).unwrap();
        let text = "source ./script; COMP_LINE=$1 COMP_POINT=${#1}; _mpirun || exit; \
                    ((${#COMPREPLY[@]} == 0)) || printf '%s\\n' \"${COMPREPLY[@]}\"";
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", text, "bash", line]).current_dir(directory.path());
        let path = format!("{}:/usr/bin:/bin", directory.path().display());
        let output = bash.env("PATH", path).env("LC_ALL", "C").env("ODD_NAME", "").output();
        let output = output.unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn bash_offers_options_then_their_values_then_programs() {
        assert_eq!(offered("mpirun -status"), ["-status-file"]);
        assert_eq!(offered("mpirun --status"), ["--status-file"]);
        assert_eq!(offered("mpirun -n 2 -bind-to "), ["core", "none", "numa", "slots"]);
        assert_eq!(offered("mpirun -on-failure=c"), ["continue"]);
        assert_eq!(offered("mpirun --on-failure h"), ["highest"]);
        assert_eq!(offered("mpirun -hosts h"), ["h1", "h2"]);
        assert_eq!(offered("mpirun -stacks "), ["3@h1", "p77"]);
        assert_eq!(offered("mpirun -gdba p"), ["p77"]);
        assert_eq!(offered("mpirun -stacks 3@"), ["h1"], "bash replaces what is behind the @");
        assert_eq!(offered("mpirun -hosts h2,h"), ["h2,h1", "h2,h2"]);
        assert_eq!(offered("mpirun -env ODD_N"), ["ODD_NAME"]);
        assert!(offered("mpirun -n ").is_empty(), "a number cannot be guessed");
        for line in ["-n 2", "-env A B", "-env A=B", "-hosts h1:2", "-l -n=2"] {
            assert_eq!(offered(&format!("mpirun {line} hello-p")), ["hello-program"], "{line}");
        }
    }

    #[test]
    fn bash_offers_nothing_of_ours_behind_the_program_until_the_next_section() {
        for line in ["mpirun cat -stat", "mpirun -n 2 cat ", "mpirun cat -bind-to "] {
            assert!(offered(line).is_empty(), "{line}");
        }
        assert_eq!(offered("mpirun -n 2 cat -x : -status"), ["-status-file"]);
    }
}
