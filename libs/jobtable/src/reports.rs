//! What managers report, and the consoles that ask for their states.

use mpd_sansio::Time;
use mpd_wire::job::MAX_RANKS;
use mpd_wire::message::{
    ConsoleReply, JobRef, MAX_RUNS, ManagerOrder, ManagerReport, RankRun, SpawnState,
};
use mpd_wire::{ConsoleId, JobId, Rank};

use crate::line::Line;
use crate::listing::shortened;
use crate::manager_message::ManagerMessage;
use crate::output::Event;
use crate::table::JobTable;

impl JobTable {
    /// Handles the report of a manager.
    pub(crate) fn report(&mut self, now: Time, job: JobId, report: ManagerReport) {
        self.silent.heard(&job);
        match report {
            ManagerReport::Begun => {}
            ManagerReport::Ranks { alias, held, runs } => self.running(&job, (alias, held), runs),
            ManagerReport::Spawns { state } => self.spawning(&job, state),
            ManagerReport::Forgotten { first } => self.forgotten(&job, first),
            ManagerReport::Receivers { can, size } => {
                if let Some(job) = self.jobs.get_mut(&job) {
                    job.receivers = Some((can, size));
                }
            }
            ManagerReport::Written { counts } => self.written(now, &job, counts),
            ManagerReport::State { request, text, more } => {
                if let Some(console) = self.states.take(&job, request, more) {
                    self.answer(console, ConsoleReply::State { text, more }, !more);
                }
            }
            // Only root managers speak to those of other jobs.
            ManagerReport::Meeting { .. } if self.root(&job).is_none() => {}
            ManagerReport::Meeting { .. }
            | ManagerReport::Name { .. }
            | ManagerReport::Place { .. }
            | ManagerReport::Grow { .. }
            | ManagerReport::Events { .. } => self.tell(Event::Reported { job, report }),
            ManagerReport::Ended { code, unlinked } => {
                let is_known = self.ended(&job, code);
                self.waiting.job_has_ended(now);
                if is_known && unlinked {
                    self.tell(Event::Cancelled(job));
                }
            }
        }
    }

    /// Adds ranks that the manager of a job reports. Ranks beyond the limits are left out of listings.
    fn running(&mut self, id: &JobId, (alias, held): (Option<String>, bool), runs: Vec<RankRun>) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        (job.alias, job.held) = (alias, held);
        let mut ranks: usize = job.runs.iter().map(|run| run.pids.len()).sum();
        for mut run in runs.into_iter().filter(RankRun::is_sound) {
            ranks += run.pids.len();
            if ranks > MAX_RANKS as usize || job.runs.len() >= MAX_RUNS {
                let text = format!("job {id}: too many ranks here to list them all");
                return self.log(Line::warn(text));
            }
            run.program = shortened(&run.program);
            job.runs.push(run);
        }
    }

    /// Stores the state of the spawns of a job.
    fn spawning(&mut self, id: &JobId, mut state: SpawnState) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        for ready in &mut state.ready {
            ready.program = shortened(&ready.program);
        }
        job.spawns = Some(state);
    }

    /// Removes a spawned world that has ended.
    fn forgotten(&mut self, id: &JobId, first: Rank) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let is_it = |run: &RankRun| run.world.is_some_and(|world| world.first == first);
        for run in job.runs.extract_if(.., |run| is_it(run)) {
            job.written.forget(&run.ranks);
        }
    }

    /// Handles the report that a job is over and has left nothing. Whether the job is known.
    fn ended(&mut self, id: &JobId, code: u8) -> bool {
        let Some(job) = self.jobs.get_mut(id) else { return false };
        job.ended = true;
        self.log(Line::info(format!("job {id} ended with {code}")));
        true
    }

    /// Has managers count output. A manager that is counting already is left out.
    pub(crate) fn count_output(&mut self) {
        let counts = |(id, job): (&JobId, &mut crate::job::Job)| {
            let asks = job.connected && !job.runs.is_empty() && job.written.ask();
            asks.then(|| id.clone())
        };
        let all: Vec<JobId> = self.jobs.iter_mut().filter_map(counts).collect();
        for job in all {
            self.order(job, ManagerOrder::CountOutput);
        }
    }

    /// Stores the counts of a manager.
    fn written(&mut self, now: Time, id: &JobId, counts: Vec<(Rank, u64)>) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let known = |rank: &Rank| job.runs.iter().any(|run| run.ranks.contains(*rank));
        job.written.add(now, counts.into_iter().filter(|(rank, _)| known(rank)));
    }

    /// Ends debuggers of the job of this private ring, once that job has ended.
    pub(crate) fn end_debuggers(&mut self, owner: u32) {
        let is_its = |id: &JobId| JobRef::Private(owner).means(id, None);
        if self.jobs.keys().any(is_its) {
            return;
        }
        let mut left = Vec::new();
        for (id, job) in &mut self.jobs {
            if job.is_root() && !std::mem::replace(&mut job.is_killed, true) {
                left.push(id.clone());
            }
        }
        left.into_iter().for_each(|job| self.order(job, ManagerOrder::Kill));
    }

    // ----- the states of managers, for consoles -----

    /// Handles a console's request for the state of the manager of a job.
    pub(crate) fn ask_state(&mut self, console: ConsoleId, job: &JobRef) {
        let asked = self.manager_of(job).and_then(|job| {
            let problem = || "too many consoles wait for a state; try again".to_owned();
            self.states.ask(console, job).ok_or_else(problem)
        });
        match asked {
            Ok(message) => self.tell(Event::ToManager(message)),
            Err(problem) => self.answer(console, ConsoleReply::Refused { problem }, true),
        }
    }

    /// The manager of a job is not connected any more, and sends no state.
    pub(crate) fn refuse_states(&mut self, job: &JobId) {
        for console in self.states.lose_manager(job) {
            let problem =
                format!("job {job} has ended, or its manager is not connected to a daemon now");
            self.answer(console, ConsoleReply::Refused { problem }, true);
        }
    }

    fn answer(&mut self, console: ConsoleId, reply: ConsoleReply, is_last: bool) {
        self.tell(Event::Answer { console, reply, is_last });
    }

    fn order(&mut self, job: JobId, order: ManagerOrder) {
        self.tell(Event::ToManager(ManagerMessage::new(job, order)));
    }
}
