//! Starting the programs: these ranks for the first time, or all of them again.
//!
//! What ranks have exchanged at their start is worth nothing to a program that is started again, so a
//! second start is one of the whole job: all programs are killed, what they share is made anew, and all
//! are started by the same command.

use super::{Front, Phase};
use mpd_wire::RankSet;

impl Front {
    /// Carries out `run` and its like.
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
        self.ask(&self.everybody(), "kill", "");
    }

    /// When all programs are killed, the next step is due.
    pub(super) fn go_on_restarting(&mut self) {
        if self.phase == Phase::Killing && self.ranks.are_ready(&self.everybody()) {
            self.phase = Phase::Renewing;
            self.outputs.push_back(super::Output::Restart);
        }
    }

    /// All can start.
    pub(super) fn restarted(&mut self) {
        if self.phase != Phase::Renewing {
            return;
        }
        self.phase = Phase::Session;
        self.ranks.renew();
        let all = self.ranks.live(&self.everybody());
        self.ranks.start(&all);
        let text = std::mem::take(&mut self.again);
        self.ask(&all, "run", &text);
    }

    pub(super) fn everybody(&self) -> RankSet {
        self.settings.numbers.everybody().clone()
    }
}
