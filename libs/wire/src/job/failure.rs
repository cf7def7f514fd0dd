//! How ranks and jobs end, and the exit code of `mpirun` for each end.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::job::library::MpiLibrary;
use crate::job::world::World;
use crate::{JobId, Rank};

/// Exit codes of `mpirun` that are not a rank's own.
pub mod exit {
    /// The job ran longer than `-timeout` allows.
    pub const TIMED_OUT: u8 = 124;
    /// The suite itself failed, or refused the request.
    pub const SUITE: u8 = 125;
    /// The program was found and cannot be executed.
    pub const CANNOT_EXECUTE: u8 = 126;
    /// The program was not found.
    pub const NOT_FOUND: u8 = 127;
    /// Added to the number of the signal that killed a rank.
    pub const SIGNAL_BASE: u8 = 128;
    /// The reader of standard output closed it: 128 + SIGPIPE, as in a shell.
    pub const OUTPUT_CLOSED: u8 = 141;
}

/// How one rank ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankEnd {
    /// It exited with this code.
    Exited(u8),
    /// This signal killed it.
    Signaled {
        /// The signal's number.
        signal: u8,
        /// Whether it left a core dump.
        core: bool,
    },
    /// It never ran.
    NotStarted,
    /// It ran on a lost host; its end is unknown.
    Lost,
}

impl RankEnd {
    /// The code that a shell would show for this end; 125 for a rank that never ran or was lost.
    pub const fn code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Signaled { signal, .. } => exit::SIGNAL_BASE.wrapping_add(signal),
            Self::NotStarted | Self::Lost => exit::SUITE,
        }
    }
}

impl fmt::Display for RankEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Signaled { signal, core } => {
                let core = if core { ", core dumped" } else { "" };
                write!(f, "killed by signal {signal} ({}{core})", signal_name(signal))
            }
            Self::NotStarted => f.write_str("was not started"),
            Self::Lost => f.write_str("was lost with its host"),
        }
    }
}

/// How a manager ended without its last report, as its daemon knows it. The texts follow "host h3 is lost: ".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ManagerEnd {
    /// It exited with this code.
    Exited(u8),
    /// This signal killed it.
    Signaled {
        /// The signal's number.
        signal: u8,
        /// Whether it left a core dump.
        core: bool,
    },
    /// The kernel killed it for lack of memory.
    OutOfMemory,
}

impl fmt::Display for ManagerEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Exited(code) => write!(f, "its manager {}", RankEnd::Exited(code)),
            Self::Signaled { signal, core } => {
                write!(f, "its manager was {}", RankEnd::Signaled { signal, core })
            }
            Self::OutOfMemory => f.write_str("memory ran out: the kernel has killed its manager"),
        }
    }
}

/// Why a job failed: the first failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// A rank exited with a code other than 0, or was killed.
    Rank {
        rank: Rank,
        /// How it ended.
        end: RankEnd,
    },
    /// A rank aborted the job (`MPI_Abort`).
    Aborted {
        rank: Rank,
        /// The rank's code, unchanged.
        code: i32,
        /// The rank's message.
        message: String,
    },
    /// A rank exited with code 0 between PMI init and finalize.
    NotFinalized { rank: Rank },
    /// A rank that MPI has spawned exited with code 0 and never initialised MPI, for which its spawner waits. The spawner
    /// cannot get an error, so the job ends even if it may continue after failures.
    NotInitialized { rank: Rank },
    /// A rank ended while other ranks wait for it in a fence.
    LeftOthersWaiting {
        /// The rank that ended.
        rank: Rank,
    },
    /// All ranks exited with code 0, and none used PMI: to its MPI library each was rank 0 of 1.
    RanAlone {
        /// A rank with such a library.
        rank: Rank,
        /// The library's file.
        library: String,
    },
    /// Two ranks of a world use different MPI libraries, so they cannot send each other messages.
    TwoLibraries {
        rank: Rank,
        library: MpiLibrary,
        /// Another rank of the same world.
        other: Rank,
        /// The library of that rank.
        other_library: MpiLibrary,
    },
    /// The program of a rank cannot be executed.
    CannotExecute {
        /// The first rank concerned.
        rank: Rank,
        /// The program as the user named it.
        program: String,
        /// The error text of the system.
        problem: String,
        /// Whether the program was not found, as opposed to not executable.
        missing: bool,
    },
    /// A rank violated the protocol on its PMI connection, which cannot continue.
    BrokeProtocol {
        rank: Rank,
        /// The violation.
        problem: String,
    },
    /// The reader of standard output closed it.
    OutputClosed,
    /// Output could not be written.
    OutputFailed {
        /// The output and the error text of the system.
        problem: String,
    },
    /// The job ran longer than allowed.
    TimedOut {
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// The user interrupted the job.
    Interrupted {
        /// The signal that ended the job.
        signal: u8,
    },
    /// The job was killed by a request through its daemon.
    Killed,
    /// A host of the job is lost. Its ranks are unreachable.
    HostLost {
        /// Its daemon.
        host: String,
        /// How the loss was detected.
        problem: String,
    },
    /// A job to which this one is connected has failed, and `-abort-scope connected` was given.
    ConnectedJob {
        /// The other job.
        job: JobId,
        /// Its exit code.
        code: u8,
        /// Its failure.
        problem: String,
    },
    /// Processes of the job have changed to another user. They cannot be killed and continue to
    /// run.
    LeftRunning { processes: String },
    /// The suite itself failed, or refused the request.
    Suite {
        /// The failure, its place and its cause.
        problem: String,
    },
    /// One of the other failures, in a spawned world. Its rank is the number in that world.
    InWorld {
        /// The world's number in the job.
        number: u32,
        failure: Box<Self>,
    },
}

impl Failure {
    /// The same failure with a rank of `world`, given a rank numbered through the job.
    pub fn in_world(mut self, world: &World) -> Self {
        if world.number == 0 {
            return self;
        }
        match &mut self {
            Self::Rank { rank, .. }
            | Self::Aborted { rank, .. }
            | Self::NotFinalized { rank }
            | Self::NotInitialized { rank }
            | Self::LeftOthersWaiting { rank }
            | Self::RanAlone { rank, .. }
            | Self::CannotExecute { rank, .. }
            | Self::BrokeProtocol { rank, .. } => *rank = world.own(*rank),
            Self::TwoLibraries { rank, other, .. } => {
                (*rank, *other) = (world.own(*rank), world.own(*other));
            }
            Self::OutputClosed
            | Self::OutputFailed { .. }
            | Self::TimedOut { .. }
            | Self::Interrupted { .. }
            | Self::Killed
            | Self::HostLost { .. }
            | Self::ConnectedJob { .. }
            | Self::LeftRunning { .. }
            | Self::Suite { .. }
            | Self::InWorld { .. } => return self,
        }
        Self::InWorld { number: world.number, failure: Box::new(self) }
    }

    /// The same failure without its world.
    pub fn bare(&self) -> &Self {
        match self {
            Self::InWorld { failure, .. } => failure,
            failure => failure,
        }
    }

    /// Whether the text should be preceded by the host's name.
    pub fn names_host(&self) -> bool {
        !matches!(
            self,
            Self::OutputClosed
                | Self::OutputFailed { .. }
                | Self::TimedOut { .. }
                | Self::Interrupted { .. }
                | Self::Killed
                | Self::HostLost { .. }
                | Self::ConnectedJob { .. }
                | Self::TwoLibraries { .. }
        )
    }

    /// The exit code of `mpirun`.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Rank { end, .. } => end.code(),
            Self::Aborted { code, .. } => match code.to_le_bytes()[0] {
                0 => 1,
                code => code,
            },
            Self::NotFinalized { .. }
            | Self::NotInitialized { .. }
            | Self::LeftOthersWaiting { .. }
            | Self::RanAlone { .. }
            | Self::BrokeProtocol { .. } => 1,
            Self::CannotExecute { missing: true, .. } => exit::NOT_FOUND,
            Self::CannotExecute { missing: false, .. } => exit::CANNOT_EXECUTE,
            Self::OutputClosed => exit::OUTPUT_CLOSED,
            Self::TimedOut { .. } => exit::TIMED_OUT,
            Self::Interrupted { signal } => exit::SIGNAL_BASE.wrapping_add(*signal),
            // A failure is never a success.
            Self::ConnectedJob { code, .. } => (*code).max(1),
            Self::Killed => 137,
            Self::InWorld { failure, .. } => failure.exit_code(),
            Self::OutputFailed { .. }
            | Self::HostLost { .. }
            | Self::LeftRunning { .. }
            | Self::TwoLibraries { .. }
            | Self::Suite { .. } => exit::SUITE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank { rank, end } => write!(f, "rank {rank}: {end}"),
            Self::Aborted { rank, code, message } if message.is_empty() => {
                write!(f, "rank {rank}: aborted the job with code {code}")
            }
            Self::Aborted { rank, code, message } => {
                write!(f, "rank {rank}: aborted the job with code {code}: {message}")
            }
            Self::NotFinalized { rank } => write!(
                f,
                "rank {rank}: exited with code 0 after MPI_Init without MPI_Finalize; the job was ended"
            ),
            Self::NotInitialized { rank } => write!(
                f,
                "rank {rank}: exited with code 0 without MPI_Init, for which the rank waits that called MPI_Comm_spawn; the \
                 job was ended"
            ),
            Self::LeftOthersWaiting { rank } => {
                write!(f, "rank {rank}: ended while other ranks wait for it; the job was ended")
            }
            Self::RanAlone { rank, library } => write!(
                f,
                "rank {rank}: ran alone, as rank 0 of 1, like every rank whose MPI library does not speak PMI \
                 (Open MPI, {library}). Link the program with MPICH, Intel MPI or MVAPICH, start it with the \
                 library's own mpirun, or give -allow-alone"
            ),
            Self::TwoLibraries { rank, library, other, other_library } => write!(
                f,
                "rank {rank} uses {library}, and rank {other} uses {other_library}; all ranks must use the same \
                 MPI library; the job was ended"
            ),
            Self::CannotExecute { program, problem, .. } => {
                write!(f, "cannot execute \"{program}\": {problem}")
            }
            Self::BrokeProtocol { rank, problem } => {
                write!(f, "rank {rank}: broke the PMI protocol: {problem}; the job was ended")
            }
            Self::OutputClosed => f.write_str("the reader of standard output went away"),
            Self::OutputFailed { problem } | Self::Suite { problem } => f.write_str(problem),
            Self::TimedOut { limit_ms } => write!(
                f,
                "the job ran longer than its limit of {} s and was ended",
                *limit_ms as f64 / 1000.0
            ),
            Self::Interrupted { .. } => f.write_str("the job was interrupted"),
            Self::Killed => f.write_str("the job was killed on request"),
            Self::HostLost { host, problem } => {
                write!(f, "host {host} is lost: {problem}; the job was ended")
            }
            Self::ConnectedJob { job, problem, .. } => write!(
                f,
                "the connected job {job} failed: {problem}; this job was ended (-abort-scope connected)"
            ),
            Self::LeftRunning { processes } => {
                write!(f, "cannot kill {processes}; only that user or root can")
            }
            Self::InWorld { number, failure } => write!(f, "world {number}: {failure}"),
        }
    }
}

fn signal_name(signal: u8) -> &'static str {
    const NAMES: [&str; 32] = [
        "none",
        "Hangup",
        "Interrupt",
        "Quit",
        "Illegal instruction",
        "Trace trap",
        "Aborted",
        "Bus error",
        "Floating point exception",
        "Killed",
        "User signal 1",
        "Segmentation fault",
        "User signal 2",
        "Broken pipe",
        "Alarm clock",
        "Terminated",
        "Stack fault",
        "Child exited",
        "Continued",
        "Stopped",
        "Stopped by terminal",
        "Terminal input",
        "Terminal output",
        "Urgent I/O",
        "CPU time limit exceeded",
        "File size limit exceeded",
        "Virtual timer expired",
        "Profiling timer expired",
        "Window changed",
        "I/O possible",
        "Power failure",
        "Bad system call",
    ];
    NAMES.get(usize::from(signal)).copied().unwrap_or("real-time signal")
}
