//! What goes into the console's machine and what comes out of it.

use mpd_wire::RankSet;
use mpd_wire::message::{JobInput, JobNews};

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The manager said something.
    News(JobNews),
    /// A signal has come. It is an input of its own, behind what was said before it; but what was said may have come of
    /// it already.
    SignalSeen(i32),
    /// A signal came.
    Signal(i32),
    /// SIGTSTP came, and there is no shell that could continue this process.
    StopForever,
    /// SIGWINCH came, and the terminal has this size: columns, lines.
    Resized(u16, u16),
    /// SIGHUP came because the terminal is gone.
    TerminalGone,
    /// This process was stopped by [`Output::Stop`] and goes on.
    Continued,
    /// After [`Output::WantTerminal`]: whether this process has the terminal. To be repeated until it has.
    Terminal {
        /// It has.
        is_ours: bool,
    },
    /// The debugger of [`Output::OpenDebugger`] is not open any more.
    DebuggerEnded {
        /// It was a session: the debugger could be opened.
        was_session: bool,
    },
    /// The user ends the job from beside it.
    Kill,
    /// So many bytes of standard input were sent.
    StdinSent(usize),
    /// Standard input cannot be read to its end, for this reason.
    StdinLost(String),
    /// The job was refused.
    Refused(String),
    /// The connection closed, behind a whole message.
    Closed,
    /// What came is no message, or only the beginning of one.
    Garbled,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this to the manager.
    Send(JobInput),
    /// The job has started: it will not be submitted again.
    Started,
    /// Show all processes of the job to those who want to know: [`super::Run::processes`].
    ShowProcesses,
    /// Show that the job is being ended, and why.
    ShowAbort(String),
    /// A debugger is to be opened: answer with [`Input::Terminal`].
    WantTerminal,
    /// Open the debugger at these ranks, which crashed and are held, and come back with [`Input::DebuggerEnded`].
    OpenDebugger(RankSet),
    /// End that debugger.
    EndDebugger,
    /// Pass ^C to what is beside the job.
    Interrupt,
    /// What is beside the job can start its programs again.
    Restarted,
    /// Stop this process, and come back with [`Input::Continued`].
    Stop,
    /// A line for the user, without the program's name in front.
    Print(String),
    /// Submit the job once more: the daemon that was to start it has died, and no rank of it has run.
    Resubmit,
    /// Write the reports; the job is over.
    Finish(u8),
    /// Close the connection and go: the job was not running yet, and ends by that.
    Leave(u8),
}

/// What has the user's terminal beside the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Nothing.
    Nothing,
    /// The prompt of debuggers that are the ranks: ^C is for their programs.
    Prompt,
    /// Their stacks are asked for, without a user: ^C ends them.
    Survey,
}

/// How much the user wants to hear, and what was submitted.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Ranks of the job.
    pub size: u32,
    /// Failures do not end the job: they are told at once.
    pub goes_on: bool,
    /// Failures of ranks are not told: Hydra's `-disable-auto-cleanup` says nothing of them.
    pub is_silent: bool,
    /// Tell the job's id, and print minor notices.
    pub verbose: bool,
    /// Standard error is a terminal: print minor notices.
    pub terminal: bool,
    /// The one rank is a program that has started us, and is in our process group.
    pub adopted: bool,
    /// Tell how many times the messages of the launch were passed on.
    pub hops: bool,
    /// The job is held until its processes were shown.
    pub hold: bool,
    /// What is beside it.
    pub beside: Beside,
}
