//! The list of programs: one line per program, from the tables that parse the command lines.

use clap::{Command, CommandFactory as _};
use serde::Serialize;

use crate::cli;
use crate::con::cli::ConCli;
use crate::farm::cli::FarmCli;

/// Programs of other crates, with their purposes.
const OTHERS: [(&str, &str); 7] = [
    ("mpd", "Start the MPD daemon of this host"),
    ("mpdboot", "Start a ring of daemons on many hosts"),
    ("mpirun", "Run a parallel program"),
    ("mpiexec", "The same as mpirun, by its name in the MPI standard"),
    ("mpigdb", "Debug a parallel program: one gdb for each rank, one prompt for all"),
    ("mpdexec", "Run a command once on every host of the ring"),
    ("pty", "Run a program on its own terminal"),
];

/// All tools of this crate.
pub fn commands() -> Vec<Command> {
    cli::commands().into_iter().chain([FarmCli::command(), ConCli::command()]).collect()
}

/// A program of the list.
#[derive(Clone, Debug, Serialize)]
pub struct Program {
    pub name: String,
    /// Its purpose.
    pub about: String,
}

pub fn all() -> Vec<Program> {
    let others = OTHERS.iter().map(|(name, about)| (name.to_string(), (*about).to_owned()));
    let ours = commands().into_iter().map(|command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        (command.get_name().to_owned(), about)
    });
    others.chain(ours).map(|(name, about)| Program { name, about }).collect()
}

/// The list as text for people.
pub fn text() -> String {
    let programs = all();
    let width = programs.iter().map(|p| p.name.len()).max().unwrap_or(0);
    let line = |p: &Program| format!("  {:width$}  {}\n", p.name, p.about);
    let list: String = programs.iter().map(line).collect();
    format!("The programs of MPD; --help of each program has details:\n{list}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_one_line() {
        for program in all() {
            assert!(!program.about.is_empty(), "{}", program.name);
            assert!(!program.about.contains('\n'), "{}", program.name);
        }
        assert_eq!(text().lines().count(), all().len() + 1);
        assert!(text().contains("  mpdtrace     List the members of the ring\n"));
    }
}
