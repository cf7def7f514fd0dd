//! Failures of a start, for the user.

use mpd_clients::World;
use mpd_placement::locality::list;
use mpd_wire::Rank;
use mpd_wire::job::Failure;

/// Why the process of a rank did not start. The texts are the system's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartProblem {
    /// The kernel did not execute the program.
    Program {
        problem: String,
        /// Whether there is no such file.
        missing: bool,
    },
    /// The process could not enter its directory.
    Directory(String),
    /// The process could not be bound to its CPUs.
    Binding(String),
    /// Another step, by its name, in the new process.
    Step(String, String),
    /// The kernel made no process.
    Process {
        problem: String,
        /// Whether a limit of processes is the likely cause.
        at_limit: bool,
    },
    /// There are no pipes.
    Pipes(String),
}

/// The failure of a job whose rank did not start.
pub(crate) fn start_failure(world: &World, rank: Rank, problem: StartProblem) -> Failure {
    let argset = &world.spec.argsets[world.argset_of(rank)];
    let cpus = world.cpus_of(rank);
    let rank = world.numbers.own(rank);
    let problem = match problem {
        StartProblem::Program { problem, missing } => {
            let program = String::from_utf8_lossy(&argset.program).into_owned();
            return Failure::CannotExecute { rank, program, problem, missing };
        }
        StartProblem::Directory(problem) => cannot_enter(&argset.directory, &problem),
        StartProblem::Binding(problem) => {
            let cpus = list(cpus.iter().copied());
            format!("cannot bind rank {rank} to the CPUs {cpus}: {problem}")
        }
        StartProblem::Step(step, problem) => {
            format!("cannot prepare rank {rank} ({step}): {problem}")
        }
        StartProblem::Process { problem, at_limit } => {
            let advice = match at_limit {
                true => {
                    " (the limit of processes is reached: ulimit -u, or pids.max of a control group)"
                }
                false => "",
            };
            format!("cannot start a process for rank {rank}: {problem}{advice}")
        }
        StartProblem::Pipes(problem) => format!("cannot make the pipes of rank {rank}: {problem}"),
    };
    Failure::Suite { problem }
}

pub(crate) fn cannot_enter(directory: &[u8], problem: &str) -> String {
    let directory = String::from_utf8_lossy(directory);
    format!("cannot enter the working directory {directory}: {problem}")
}
