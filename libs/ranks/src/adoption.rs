//! A process that ran before its job: a program that was started alone and has requested a process manager. It is
//! rank 0 of a job of one, on the PMI connection that it opened.
//!
//! It is not a child of the manager. Its end is detected, but not its exit code. It may outlive its job: once it has
//! finalized and closed its connection, it no longer belongs to the job. Before that it is a rank like others, and is
//! killed with its job.

use mpd_job::manager::Input as JobInput;
use mpd_wire::job::RankEnd;
use mpd_wire::message::Phase;

use crate::errand::Waiting;
use crate::output::{Action, Output, Question};
use crate::ranks::Ranks;
use crate::table::ADOPTED;

impl Ranks {
    /// Removes the adopted process, which has ended or left the job.
    pub(crate) fn release_adopted(&mut self) {
        if !self.has_adopted() {
            return;
        }
        self.table.end_process(ADOPTED);
        self.report(Output::Act(Action::ReleaseAdopted));
        self.report(Output::End(Phase::Run, Some(ADOPTED)));
        // Only its parent gets its exit code. The machine knows whether it finalized.
        self.post(JobInput::Exited(ADOPTED, RankEnd::Exited(0)));
    }

    pub(crate) fn kill_adopted(&mut self) {
        self.arrived = false;
        self.ask(Question::KillAdopted, Waiting::KillAdopted);
    }
}
