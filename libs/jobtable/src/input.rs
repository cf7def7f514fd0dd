//! What the owner of the table reports and answers.

use mpd_leftovers::record::JobRecord;
use mpd_wire::job::{ManagerEnd, Notice};
use mpd_wire::message::{JobRef, Launch, ManagerReport, Opening, Span};
use mpd_wire::{ConsoleId, JobId, Pid};

/// An event.
#[derive(Debug)]
pub enum Input {
    /// The answer to the question that was the last output.
    Answer(Answer),

    // Jobs.
    /// Start the root manager of a job of this daemon. [`crate::Event::Started`] follows.
    StartRoot(Box<Launch>, Given),
    /// Start the manager with this tree index of a job that another daemon accepted, unless it runs already.
    /// [`crate::Event::Started`] follows.
    StartBranch(Box<Launch>, usize),
    /// The records of an earlier daemon.
    Found(Vec<JobRecord>),
    /// Ask all managers to end their jobs, and start none.
    Terminate,
    /// The process of this private ring is gone. When its job is over, debuggers of that job have no target.
    OwnerGone(u32),

    // Managers.
    Reported {
        job: JobId,
        report: ManagerReport,
    },
    /// The connection of the manager of this job closed.
    ManagerClosed(JobId),
    /// A manager whose daemon was replaced registers. The answer is [`crate::Event::Registered`].
    Registers {
        connection: ConsoleId,
        opening: Opening,
        pid: Pid,
    },
    /// The last reports of a dead manager were given. See [`crate::Event::ManagerDied`].
    ManagerGone {
        job: JobId,
        /// Whether it has not read its whole job, so it has started nothing.
        is_unread: bool,
    },
    /// Have the managers count their output.
    CountOutput,

    // Children.
    /// This child was started. It is reaped and never killed.
    Helper(Pid),
    /// This child was reaped. `None`: its end is not known.
    ChildDied(Pid, Option<ManagerEnd>),

    // Consoles.
    /// A console asks for the state of the manager of a job. Answers follow.
    StateAsked {
        console: ConsoleId,
        job: JobRef,
    },
    ConsoleGone(ConsoleId),
}

/// What the root manager gets besides its job.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The alias of the job.
    pub alias: Option<String>,
    /// The size of the specification.
    pub spec_bytes: u32,
    /// Whether the descriptors of a running process are passed, which becomes the job's one rank.
    pub adopts: bool,
    pub notices: Vec<Notice>,
    pub spans: Vec<Span>,
}

/// The answer to a [`Question`](crate::Question).
#[derive(Debug)]
pub enum Answer {
    Is(bool),
    /// The path of the new control group, if there is one.
    Group(Option<String>),
    /// Whether that succeeded; else a text for people.
    Done(Result<(), String>),
    /// The process that has it now; else a text for people.
    Started(Result<Pid, String>),
    Pids(Vec<Pid>),
    Copies(Vec<Result<Pid, String>>),
    Record(RecordState),
}

/// The record of a job of an earlier daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordState {
    /// A manager that has ended properly removes its record last.
    Gone,
    /// A living process holds it.
    Held,
    /// No process holds it.
    Free,
}
