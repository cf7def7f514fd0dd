//! What the owner of the table performs, and what it is asked.

use std::collections::BTreeSet;

use mpd_leftovers::record::JobRecord;
use mpd_wire::job::ManagerEnd;
use mpd_wire::message::{ConsoleReply, ManagerOrder, ManagerReport};
use mpd_wire::{ConsoleId, JobId, Pid};

use crate::children::DeadManager;
use crate::line::Line;
use crate::manager_message::ManagerMessage;

/// What follows from a call.
#[derive(Debug)]
pub enum Output {
    /// Answer this now, with [`Input::Answer`](crate::Input::Answer). It is the last output of a call.
    Ask(Question),
    /// For the other parts of the daemon.
    Event(Event),
    /// Write a line of the log.
    Log(Line),
    Perform(Action),
}

/// An action of the owner.
#[derive(Debug)]
pub enum Action {
    // Records and control groups.
    /// Remove the record of this job, and close its file.
    RemoveRecord(JobId),
    /// Close the file of the record of this job.
    CloseRecord(JobId),
    /// Remove the control group with this path.
    RemoveGroup(String),

    // Processes.
    /// Send SIGKILL.
    Kill(Pid),
    /// Send SIGTERM.
    Terminate(Pid),
    /// A job left this process behind, and it cannot be killed. Write that to the log.
    LeftBehind(Pid),

    // The fork server.
    /// Have the fork server guard the control group of the job with this manager.
    Guard { group: String, manager: Pid },
    /// Close the connections to the copies that were requested. The fork server still answers for each.
    GiveUpCopies,
    /// The fork server is dead, with all copies that were requested.
    DropForkServer,
    /// Close the connections to the managers in waiting and to the fork server, so that they end.
    EndWaiting,
}

/// What the table reports to the other parts of the daemon.
#[derive(Debug)]
pub enum Event {
    /// The result of a start; else a text for people.
    Started(Result<(), String>),
    /// Send a message to a manager here.
    ToManager(ManagerMessage),
    /// Answer a console.
    Answer { console: ConsoleId, reply: ConsoleReply, is_last: bool },
    /// The answer to [`Input::Registers`](crate::Input::Registers): the job of the manager, or a text for people.
    Registered { connection: ConsoleId, result: Result<JobId, String> },
    /// A report of a manager that is for the ring.
    Reported { job: JobId, report: ManagerReport },
    /// The job ended before all its managers had connected: it is over on all hosts.
    Cancelled(JobId),
    /// The manager of a job of another daemon has ended here without its last report.
    ManagerEnded { job: JobId, end: ManagerEnd },
    /// The manager of this job is dead. Give its last reports, and then
    /// [`Input::ManagerGone`](crate::Input::ManagerGone).
    ManagerDied(JobId),
}

/// A question, or an action whose result decides how to continue.
#[derive(Debug)]
pub enum Question {
    // A start.
    /// Make a control group for the job that is about to start. With `Answer::Group`.
    MakeGroup,
    /// Write this record and lock it. With `Answer::Done`.
    WriteRecord(JobRecord),
    /// Give the job with this order, its record, its group and the lent descriptors to the manager in waiting, or to a
    /// new one. With `Answer::Started`.
    HandOver { job: JobId, waiting: Option<Pid>, order: Box<ManagerOrder> },

    // Managers.
    /// Start the fork server. With `Answer::Started`.
    StartForkServer,
    /// Request a manager in waiting of the fork server. With `Answer::Done`.
    RequestCopy,
    /// The managers in waiting that the fork server has made since the last question, or why it made none. With
    /// `Answer::Copies`.
    Copies,
    /// Is this process stopped? With `Answer::Is`.
    IsStopped(Pid),
    /// Has the kernel killed this child, the last one that was reaped, because memory ran out? With `Answer::Is`.
    RanOutOfMemory(Pid),
    /// The record of a job of an earlier daemon. With `Answer::Record`.
    Record(JobId),
    /// Start the helper that removes the leftovers of this job, and last its record. With `Answer::Started`.
    Sweep {
        job: JobId,
        /// Whether its manager lived until now.
        just_died: bool,
    },

    // Children. With `Answer::Pids`.
    /// The children of this process.
    Children,
    /// Which of these children come from one of these managers? All of them, unless this is the first process of its
    /// namespace: it gets every orphan.
    Orphans(Vec<Pid>, Vec<DeadManager>),
    /// Kill all children but these. Which living ones belong to another user, so that the kernel refused it?
    KillChildren(BTreeSet<Pid>),
}
