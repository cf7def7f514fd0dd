//! Inputs and outputs of the console's state machine.

use std::time::Duration;

use mpd_wire::RankSet;
use mpd_wire::message::{JobInput, JobNews};

use super::silence::Sight;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The manager sent a message.
    News(JobNews),
    /// A signal has arrived. This input precedes messages that arrived before the signal's own
    /// input, because the signal may have caused those messages.
    SignalSeen(i32),
    /// A signal is to be handled.
    Signal(i32),
    /// SIGTSTP arrived, and no shell could continue this process.
    StopForever,
    /// SIGWINCH arrived, and the terminal has this size: columns, lines.
    Resized(u16, u16),
    /// SIGHUP arrived because the terminal is gone.
    TerminalGone,
    /// This process was stopped by [`Output::Stop`] and has been continued.
    Continued,
    /// After [`Output::WantTerminal`]: whether this process has the terminal. The caller repeats
    /// this input until it has.
    Terminal {
        /// Whether this process has the terminal.
        is_ours: bool,
    },
    /// The debugger of [`Output::OpenDebugger`] has ended.
    DebuggerEnded {
        /// Whether there was a session: the debugger could be opened.
        was_session: bool,
    },
    /// The part beside the job requests its end.
    Kill,
    /// This number of bytes of standard input was sent.
    StdinSent(usize),
    /// Standard input cannot be read to its end, for this reason.
    StdinLost(String),
    /// The user, or the time limit, has ended the second submission of the job: exit with this code.
    Cut(u8),
    /// The daemon refused the job.
    Refused(String),
    /// The connection closed after a whole message.
    Closed,
    /// The connection cannot be read any more, or closed in a message.
    Broken,
    /// The connection has an invalid message.
    Garbled,
    /// The answer to [`Output::Look`]; `None`: there is no such process.
    Looked(Option<Sight>),
}

/// A request to the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this to the manager.
    Send(JobInput),
    /// The job has started and will not be submitted again.
    Started,
    /// Show this progress on a terminal, or remove it.
    Progress(Option<String>),
    /// Publish all processes of the job: [`super::Run::processes`].
    ShowProcesses,
    /// Publish that the job is being ended, and the reason.
    ShowAbort(String),
    /// A debugger waits for the terminal: answer with [`Input::Terminal`].
    WantTerminal,
    /// Open the debugger for these crashed ranks, which are held. Answer with
    /// [`Input::DebuggerEnded`].
    OpenDebugger(RankSet),
    EndDebugger,
    /// Pass ^C to the part beside the job.
    Interrupt,
    /// Inform the part beside the job that the programs can be started again.
    Restarted,
    /// Stop this process, and answer with [`Input::Continued`].
    Stop,
    /// Print a line for the user. The program's name is added.
    Print(String),
    /// Submit the job again: the daemon or the manager died before the job started, and no rank has run.
    Resubmit,
    /// Write the reports; the job is over. The value is the exit code.
    Finish(u8),
    /// Close the connection and exit with this code. A job that has not started ends with the
    /// connection.
    Leave(u8),
    /// Look at the process of this manager, else of the daemon: answer with [`Input::Looked`].
    Look(Option<u32>),
    /// The same as [`Output::Leave`], and wait for no process: one of them is silent.
    Abandon(u8),
}

/// The part of mpirun that has the user's terminal beside the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// There is no such part.
    Nothing,
    /// The prompt of debuggers, which are the ranks. ^C interrupts their programs.
    Prompt,
    /// A survey of stacks, without a user. ^C ends it.
    Survey,
}

/// The settings of a job's console.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Number of ranks.
    pub size: u32,
    /// The time limit.
    pub limit: Option<Duration>,
    /// Whether the job continues after failures, which are then reported at once.
    pub continues_on_failure: bool,
    /// Whether failures of ranks are not reported, as with Hydra's `-disable-auto-cleanup`.
    pub is_silent: bool,
    /// Whether to print the job's id and minor notices.
    pub verbose: bool,
    /// Whether standard error is a terminal, and no debugger has it; minor notices are then printed.
    pub terminal: bool,
    /// Whether the only rank is an adopted program, which has started mpirun in its process group.
    pub adopted: bool,
    /// Whether to print the forwarding steps of the launch.
    pub hops: bool,
    /// Whether the job is held until its processes were published.
    pub hold: bool,
    /// The part beside the job.
    pub beside: Beside,
}
