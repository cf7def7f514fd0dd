//! Managers that end: their jobs are forgotten here, and what they left is removed. Jobs of an earlier daemon, whose
//! managers register or are gone.
//!
//! If a manager dies without its last report, the root manager on another host only detects a closed link. This daemon
//! sends it the cause, through the ring.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use mpd_leftovers::record::JobRecord;
use mpd_sansio::Time;
use mpd_wire::job::ManagerEnd;
use mpd_wire::message::Opening;
use mpd_wire::{JobId, Pid};

use crate::errand::{Asked, Errand};
use crate::input::RecordState;
use crate::job::{Job, Part};
use crate::line::Line;
use crate::output::{Action, Event, Question};
use crate::table::JobTable;
use crate::top::Written;

/// How often to look for managers of an earlier daemon that have not registered. They try every second.
const ADOPTION_INTERVAL: Duration = Duration::from_secs(1);

impl JobTable {
    // ----- children -----

    pub(crate) fn child_died(&mut self, now: Time, pid: Pid, end: Option<ManagerEnd>) {
        if self.children.remove(pid) {
            return;
        }
        if self.waiting.is_fork_server(pid) {
            self.waiting.lose_fork_server(now);
            self.perform(Action::DropForkServer);
            return self.log(Line::warn(format!("the fork server {pid} has died")));
        }
        if self.waiting.lose(pid, now) {
            let text = format!("manager {pid}, which waited for a job, has died");
            return self.log(Line::warn(text));
        }
        let is_it = |(id, job): (&JobId, &Job)| (job.manager == Some(pid)).then(|| id.clone());
        if let Some(id) = self.jobs.iter().find_map(is_it) {
            self.ask(Question::RanOutOfMemory(pid), Asked::Cause(id, end));
        }
    }

    /// The manager of a job was reaped. It may have sent reports that were not read.
    pub(crate) fn manager_died(&mut self, id: JobId, end: Option<ManagerEnd>, is_victim: bool) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.end = match is_victim {
            true => Some(ManagerEnd::OutOfMemory),
            // This explains nothing.
            false => end.filter(|end| *end != ManagerEnd::Exited(0)),
        };
        if let Some(pid) = job.manager.filter(|_| is_victim) {
            let text = format!("job {id}: memory ran out: the kernel has killed its manager {pid}");
            self.log(Line::error(text));
        }
        self.tell(Event::ManagerDied(id));
    }

    /// The last reports of a dead manager were handled. A manager that was killed for its silence and has not read its job
    /// is replaced.
    pub(crate) fn manager_gone(&mut self, now: Time, id: &JobId, is_unread: bool) {
        let launch = self.silent.died(id);
        if let Some(job) = self.jobs.get(id) {
            let cookie = job.record.cookie.at(job.record.tree_index);
            self.children.expect_orphans(now, job.manager, cookie);
        }
        let Some((launch, tree_index)) = launch.filter(|_| is_unread) else {
            self.tell_cause(id);
            return self.forget(id);
        };
        if let Some(job) = self.jobs.remove(id) {
            self.perform(Action::RemoveRecord(id.clone()));
            job.record
                .cgroup
                .into_iter()
                .for_each(|group| self.perform(Action::RemoveGroup(group)));
        }
        self.start_branch(launch, tree_index, true);
    }

    /// Sends the cause to the root manager of a job of another host. After the last report of the manager the root
    /// needs none.
    fn tell_cause(&mut self, id: &JobId) {
        let end = self.jobs.get(id).and_then(|job| job.end);
        if let Some(end) = end.filter(|_| self.has_branch(id)) {
            self.tell(Event::ManagerEnded { job: id.clone(), end });
        }
    }

    /// Forgets a job whose manager is gone. Unless the job had ended, starts the removal of its leftovers.
    fn forget(&mut self, id: &JobId) {
        let Some(job) = self.jobs.remove(id) else { return };
        if job.ended {
            return self.perform(Action::RemoveRecord(id.clone()));
        }
        self.log(Line::warn(format!("job {id}: its manager died; removing what it left")));
        // A manager of an earlier daemon that never registered may have died long ago.
        let just_died = job.manager.is_some();
        self.ask(Question::Sweep { job: id.clone(), just_died }, Asked::Sweep(id.clone()));
    }

    /// Handles the closed connection of a manager.
    pub(crate) fn manager_closed(&mut self, id: JobId) {
        self.agenda.follow([Errand::RefuseStates(id.clone())]);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.connected = false;
        // A child is removed when it is reaped. The manager of an earlier daemon is removed now.
        if !job.is_child {
            self.forget(&id);
        }
    }

    // ----- silent managers -----

    /// Looks at the managers that are due, and kills the stopped ones and those that were silent for too long.
    pub(crate) fn look_at_silent(&mut self, now: Time) {
        match self.silent.first_due(now) {
            None => {}
            Some((job, pid, true)) => self.ask(Question::IsStopped(pid), Asked::Stopped(job)),
            Some((job, _, false)) => self.judge_silent(now, &job, false),
        }
    }

    pub(crate) fn judge_silent(&mut self, now: Time, job: &JobId, is_stopped: bool) {
        if let Some(pid) = self.silent.judge(now, job, is_stopped) {
            let state = if is_stopped { "is stopped" } else { "gives no sign" };
            let text = format!(
                "job {job}: its manager {pid} {state}; it is killed, and the job gets a new one"
            );
            self.log(Line::warn(text));
            self.perform(Action::Kill(pid));
        }
        self.agenda.follow([Errand::LookAtSilent]);
    }

    // ----- orphans -----

    pub(crate) fn find_orphans(&mut self, children: Vec<Pid>) {
        let known = self.children.known(self.managers().chain(self.waiting.pids()));
        let unknown: Vec<Pid> = children.into_iter().filter(|pid| !known.contains(pid)).collect();
        if unknown.is_empty() {
            return self.children.end_kill();
        }
        let question = Question::Orphans(unknown.clone(), self.children.dead());
        self.ask(question, Asked::Orphans { known, unknown });
    }

    /// Kills orphans. While the fork server has not answered, one of them may be a new manager in waiting.
    pub(crate) fn kill_orphans(
        &mut self,
        now: Time,
        mut known: BTreeSet<Pid>,
        unknown: Vec<Pid>,
        orphans: &[Pid],
    ) {
        if orphans.is_empty() {
            return self.children.end_kill();
        }
        if self.waiting.is_copying() && self.children.spares(now) {
            return self.children.try_later(now);
        }
        known.extend(unknown.into_iter().filter(|pid| !orphans.contains(pid)));
        self.ask(Question::KillChildren(known.clone()), Asked::Kill(known));
    }

    /// Orphans of another user cannot be killed and continue.
    pub(crate) fn orphans_killed(
        &mut self,
        now: Time,
        known: &BTreeSet<Pid>,
        immune: &[Pid],
        children: &[Pid],
    ) {
        if children.iter().any(|pid| !known.contains(pid) && !immune.contains(pid)) {
            self.children.try_later(now);
        } else {
            self.children.end_kill();
            immune.iter().for_each(|pid| self.perform(Action::LeftBehind(*pid)));
        }
        if self.waiting.is_copying() {
            // The daemon may have killed one of them as an orphan. The others end when their connections are closed.
            self.perform(Action::GiveUpCopies);
        }
    }

    // ----- managers in waiting -----

    /// Ends the managers in waiting, or requests one, if it is time.
    pub(crate) fn replace(&mut self, now: Time) {
        let tired = self.waiting.rest(now, !self.jobs.is_empty());
        if !tired.is_empty() {
            tired.into_iter().for_each(|pid| self.children.let_end(pid));
            self.perform(Action::EndWaiting);
        }
        match (self.waiting.is_due(now), self.waiting.has_fork_server()) {
            (false, _) => {}
            (true, true) => self.ask(Question::RequestCopy, Asked::Copy),
            (true, false) => self.ask(Question::StartForkServer, Asked::ForkServer),
        }
    }

    /// A copy was requested, or that failed.
    pub(crate) fn copy_requested(&mut self, now: Time, result: Result<(), String>) {
        if result.is_ok() {
            self.waiting.requested(now);
        }
        self.note_failure(now, result.err());
        // A job that ends before the next manager is requested costs nothing.
        let guard = |job: &Job| Some((job.record.cgroup.clone()?, job.manager?));
        let all: Vec<_> = self.jobs.values().filter_map(guard).collect();
        for (group, manager) in all {
            self.perform(Action::Guard { group, manager });
        }
    }

    /// The fork server has made these managers in waiting, or has not.
    pub(crate) fn copied(&mut self, now: Time, copies: Vec<Result<Pid, String>>) {
        for copy in copies {
            self.waiting.copied(copy.as_ref().ok().copied());
            self.note_failure(now, copy.err());
        }
    }

    /// Why there is no manager in waiting.
    pub(crate) fn note_failure(&mut self, now: Time, problem: Option<String>) {
        if let Some(problem) = problem {
            let line = self.waiting.fail(&problem, now);
            self.log(line);
        }
    }

    // ----- jobs of an earlier daemon -----

    /// Takes over the jobs of an earlier daemon, and sweeps those whose manager is gone.
    pub(crate) fn adopt_records(&mut self, now: Time, records: Vec<JobRecord>) {
        for record in records {
            if record.job.daemon() == self.name && !record.job.is_private() {
                self.last = self.last.max(record.job.number());
            }
            self.jobs.insert(record.job.clone(), Job::of_earlier_daemon(record));
        }
        self.look_for_managers(now);
    }

    /// Takes over a manager that had no daemon and registers.
    pub(crate) fn adopt(&mut self, opening: Opening, pid: Pid) -> Result<JobId, String> {
        let Opening::Register { job: id, cookie, tree_index, manager, key, .. } = opening else {
            return Err("a manager registers itself".to_owned());
        };
        match self.jobs.get_mut(&id) {
            Some(known)
                if (&known.record.cookie, known.record.tree_index) == (&cookie, tree_index) =>
            {
                known.manager = Some(pid);
                known.part = Some(Part { tree_index, manager, key });
                known.connected = true;
                known.runs.clear();
                known.spawns = None;
                known.written = Written::default();
                self.log(Line::info(format!("job {id} adopted, manager {pid}")));
                Ok(id)
            }
            _ => Err(format!("job {id} is not known here")),
        }
    }

    /// Looks for the managers that have neither registered nor are proven dead.
    pub(crate) fn look_for_managers(&mut self, now: Time) {
        let unregistered = |(id, job): (&JobId, &Job)| job.manager.is_none().then(|| id.clone());
        let waiting: VecDeque<JobId> = self.jobs.iter().filter_map(unregistered).collect();
        self.next_look = (!waiting.is_empty()).then(|| now + ADOPTION_INTERVAL);
        self.agenda.follow([Errand::LookFor(waiting)]);
    }

    pub(crate) fn look_for(&mut self, mut jobs: VecDeque<JobId>) {
        if let Some(job) = jobs.pop_front() {
            self.agenda.follow([Errand::LookFor(jobs)]);
            self.ask(Question::Record(job.clone()), Asked::Record(job));
        }
    }

    /// Forgets the job whose manager has ended properly while there was no daemon, and sweeps the one whose manager died.
    pub(crate) fn judge_record(&mut self, job: JobId, state: RecordState) {
        match state {
            RecordState::Held => {}
            RecordState::Gone => {
                self.jobs.remove(&job);
                self.perform(Action::CloseRecord(job));
            }
            RecordState::Free => self.forget(&job),
        }
    }
}
