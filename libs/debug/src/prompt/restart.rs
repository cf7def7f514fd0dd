//! Starting the programs: some ranks for the first time, or all of them again.
//!
//! A program that is started again cannot use the data that the ranks exchanged at their first
//! start. A second start therefore restarts the whole job. All programs are killed, their shared
//! data is renewed, and all are started by the same command.

use super::{Phase, Prompt};
use mpd_wire::RankSet;

impl Prompt {
    /// Executes `run` and similar commands.
    pub(super) fn run(&mut self, text: &str) {
        if self.settings.attached {
            let why = "programs of a job that is attached to cannot be started again here: start it with mpirun -d";
            return self.refuse(why.into());
        }
        let addressed = self.ranks.live(&self.addressed);
        if !self.ranks.have_run(&addressed) {
            self.ranks.start(&addressed);
            return self.ask(&addressed, "run", text);
        }
        self.note("restarting all ranks".into());
        text.clone_into(&mut self.again);
        self.phase = Phase::Killing;
        self.ask(&self.job(), "kill", "");
    }

    /// Takes the next step when all programs are killed.
    pub(super) fn go_on_restarting(&mut self) {
        if self.phase == Phase::Killing && self.ranks.are_ready(&self.job()) {
            self.phase = Phase::Renewing;
            self.outputs.push_back(super::Output::Restart);
        }
    }

    /// All programs can start.
    pub(super) fn restarted(&mut self) {
        if self.phase != Phase::Renewing {
            return;
        }
        self.phase = Phase::Session;
        self.ranks.remove_spawned();
        self.ranks.renew();
        let all = self.ranks.live(&self.job());
        self.ranks.start(&all);
        let text = std::mem::take(&mut self.again);
        self.ask(&all, "run", &text);
    }

    /// The ranks with which the job began.
    fn job(&self) -> RankSet {
        self.settings.numbers.everybody().clone()
    }
}
