//! Searches for the users of shared memory, and the removal of leftovers. Both have a helper process find users.

use std::collections::BTreeSet;
use std::mem;
use std::time::Duration;

use mpd_leftovers as leftovers;
use mpd_sansio::Time;
use mpd_wire::Rank;
use mpd_wire::message::Phase;

use crate::HELPER_PATIENCE;
use crate::ending::{Ending, Helper, Step, Timer};
use crate::errand::{Errand, Listing, Waiting};
use crate::input::Completeness;
use crate::output::{Action, FileKind, Output, Question};
use crate::shm::{ShmFile, User, named_files, sort};
use crate::text::Line;

/// The time before the first look at /dev/shm. Later intervals double, up to a bound.
const FIRST_LOOK: Duration = Duration::from_millis(20);

/// How often the interval between two looks is doubled.
const MOST_DOUBLINGS: u8 = 6;

impl Ending {
    // ----- looks while the job runs -----

    /// Begins to look for files when the ranks are about to run.
    pub(crate) fn set_first_look(&mut self, now: Time) {
        self.timers.set(Timer::Shm(0), now + FIRST_LOOK);
    }

    pub(crate) fn set_look(&mut self, now: Time, looks: u8) {
        let next = (looks + 1).min(MOST_DOUBLINGS);
        self.timers.set(Timer::Shm(next), now + FIRST_LOOK * (1 << next));
    }

    pub(crate) fn look_while_running(&mut self) {
        // While the user has stopped the job, no process makes files.
        if self.step == Step::None && self.kills.is_none() && !self.is_stopping() {
            self.find_new();
        }
    }

    /// Starts a helper for the users of new files, if there are any and no helper runs.
    pub(crate) fn find_new(&mut self) {
        if self.helper.is_none() {
            self.watch.settle();
            self.ask(Question::ShmTime, Waiting::TimeForNew);
        }
    }

    pub(crate) fn list_new(&mut self, changed: Option<u64>) {
        if self.watch.may_have_new(changed) {
            self.ask(Question::ShmFiles, Waiting::Files(Listing::New(changed)));
        }
    }

    pub(crate) fn take_files(&mut self, listing: Listing, (files, at): (Vec<ShmFile>, u64)) {
        match listing {
            Listing::New(changed) => {
                let wanted = self.watch.begin(changed, (&files, at), &mut self.outputs);
                if let Some(wanted) = wanted {
                    self.start_helper(FileKind::New, wanted);
                }
            }
            Listing::Claim => {
                self.watch.claim(&self.named, &files, &mut self.outputs);
                self.note_files();
            }
            Listing::Left => {
                let left = named_files(self.noted.known.files(), files);
                self.agenda
                    .follow([Errand::FindUsers(left.into_keys().map(|id| id.inode).collect())]);
            }
            Listing::Remove(in_use) => {
                let sorted = sort(named_files(self.noted.known.files(), files), &in_use);
                for (id, names) in sorted.removed {
                    self.report(Output::Act(Action::RemoveFile(id, names)));
                }
                for stays in sorted.stays {
                    self.report(Output::Act(Action::Log(stays)));
                }
            }
        }
    }

    /// Notes the files that the job was the first to use.
    fn note_files(&mut self) {
        for file in self.watch.take_fresh() {
            self.noted.add(leftovers::Note::File(file), &mut self.outputs);
        }
    }

    // ----- fences -----

    /// The ranks of a world may leave their fence. In a job that continues after failures, they stay until the users of new
    /// files are known. MPI libraries make files between two fences, and a rank that fails leaves them. No kill with a
    /// look of its own ends such a job.
    pub(crate) fn end_fence(&mut self, first: Rank) {
        if self.survives_failures {
            self.agenda.follow([Errand::LookWhileRunning, Errand::HoldFence(first)]);
        } else {
            self.report(Output::ReleaseFence(first));
        }
    }

    pub(crate) fn hold_fence(&mut self, now: Time, first: Rank) {
        self.fences.push(first);
        self.release_unless_looking(now);
    }

    pub(crate) fn release_fences(&mut self) {
        if !self.fences.is_empty() {
            self.agenda.follow([Errand::LookWhileRunning, Errand::ReleaseUnlessLooking]);
        }
    }

    /// Lets held fences end, unless a helper runs that has not delayed them for too long.
    pub(crate) fn release_unless_looking(&mut self, now: Time) {
        if matches!(self.helper, None | Some(Helper::New { is_late: true })) {
            self.release_fences_now();
        } else if !self.timers.is_set(Timer::Fences) {
            self.timers.set(Timer::Fences, now + HELPER_PATIENCE);
        }
    }

    /// The helper takes too long. It continues, and delays no further fence.
    pub(crate) fn give_up_new(&mut self) {
        if let Some(Helper::New { is_late }) = &mut self.helper {
            *is_late = true;
        }
        self.release_fences_now();
    }

    /// Lets held fences end. While the user has stopped the job, they are held until the job continues.
    fn release_fences_now(&mut self) {
        self.timers.stop(Timer::Fences);
        if self.is_stopping() {
            return;
        }
        for first in mem::take(&mut self.fences) {
            self.report(Output::ReleaseFence(first));
        }
    }

    // ----- the helper -----

    fn start_helper(&mut self, kind: FileKind, inodes: Vec<u64>) {
        self.ask(Question::StartHelper(kind, inodes), Waiting::Helper(kind));
    }

    pub(crate) fn note_helper(&mut self, kind: FileKind, is_started: bool) {
        self.helper = is_started.then(|| match kind {
            FileKind::New => Helper::New { is_late: false },
            FileKind::Left => Helper::Left { in_use: BTreeSet::new() },
        });
    }

    pub(crate) fn stop_helper(&mut self) {
        if self.helper.take().is_some() {
            self.report(Output::Act(Action::StopHelper));
        }
    }

    pub(crate) fn note_found(&mut self, found: Vec<(u64, User)>) {
        for (inode, user) in found {
            match &mut self.helper {
                Some(Helper::New { .. }) => self.watch.found((inode, user), &mut self.outputs),
                Some(Helper::Left { in_use }) => drop(in_use.insert(inode)),
                None => return,
            }
        }
    }

    pub(crate) fn end_helper(&mut self, end: Completeness) {
        let Some(helper) = self.helper.take() else { return };
        self.report(Output::Act(Action::StopHelper));
        match (helper, end) {
            (Helper::New { .. }, Completeness::Complete) => {
                self.watch.conclude();
                self.note_files();
                self.agenda.follow([Errand::ReleaseFences, Errand::Proceed]);
            }
            (Helper::New { .. }, Completeness::Cut) => {
                self.release_fences_now();
                self.agenda.follow([Errand::Proceed]);
            }
            (Helper::Left { in_use }, Completeness::Complete) => {
                self.agenda.follow([Errand::RemoveAll(Some(in_use))]);
            }
            (Helper::Left { .. }, Completeness::Cut) => {
                self.agenda.follow([Errand::RemoveAll(None)])
            }
        }
    }

    // ----- the clean-up -----

    /// Removes the leftovers of the job, of which no process lives here. Files of shared memory that a process
    /// still uses stay.
    pub(crate) fn clean_up(&mut self) {
        self.report(Output::Begin(Phase::Cleanup));
        (0..=MOST_DOUBLINGS).for_each(|looks| self.timers.stop(Timer::Shm(looks)));
        self.agenda.follow([Errand::Claim, Errand::FindLeft]);
    }

    pub(crate) fn begin_claim(&mut self) {
        self.watch.settle();
        self.ask(Question::ShmTime, Waiting::TimeForClaim);
    }

    pub(crate) fn list_to_claim(&mut self, changed: Option<u64>) {
        if self.watch.may_have_new(changed) {
            self.ask(Question::ShmFiles, Waiting::Files(Listing::Claim));
        } else {
            self.note_files();
        }
    }

    pub(crate) fn find_left(&mut self) {
        if self.noted.known.files().is_empty() {
            self.agenda.follow([Errand::FindUsers(Vec::new())]);
        } else {
            self.ask(Question::ShmFiles, Waiting::Files(Listing::Left));
        }
    }

    pub(crate) fn find_users(&mut self, left: Vec<u64>) {
        self.stop_helper();
        self.agenda.follow([Errand::AwaitUsers]);
        if !left.is_empty() {
            self.start_helper(FileKind::Left, left);
        }
    }

    pub(crate) fn await_users(&mut self, now: Time) {
        if self.helper.is_some() {
            self.timers.set(Timer::ShmUsers, now + HELPER_PATIENCE);
        } else {
            self.agenda.follow([Errand::RemoveAll(None)]);
        }
    }

    /// The helper takes too long.
    pub(crate) fn give_up_users(&mut self) {
        if self.helper.is_some() {
            self.stop_helper();
            self.report(Output::Act(Action::Log(Line::SearchTooLong)));
            self.agenda.follow([Errand::RemoveAll(None)]);
        }
    }

    /// Removes everything except files of shared memory in use. If `in_use` is unknown, all these files stay. No process of
    /// the job lives.
    pub(crate) fn remove_all(&mut self, in_use: Option<BTreeSet<u64>>) {
        self.timers.stop(Timer::ShmUsers);
        self.agenda.follow([Errand::NoteClocks, Errand::RemoveObjects(in_use), Errand::RemoveRest]);
    }

    pub(crate) fn remove_objects(&mut self, in_use: Option<BTreeSet<u64>>) {
        self.report(Output::Act(Action::RemoveObjects));
        if let Some(in_use) = in_use.filter(|_| !self.noted.known.files().is_empty()) {
            self.ask(Question::ShmFiles, Waiting::Files(Listing::Remove(in_use)));
        }
    }

    /// Then a later daemon needs nothing of this job.
    pub(crate) fn remove_rest(&mut self) {
        for registered in self.noted.take_registered() {
            self.report(Output::Act(Action::RemoveRegistered(registered)));
        }
        self.report(Output::Act(Action::RemoveRankGroups));
        self.report(Output::Act(Action::RemoveDirectory));
        if mem::take(&mut self.has_group) {
            self.report(Output::Act(Action::RemoveGroup));
        }
        self.report(Output::Act(Action::RemoveRecord));
        self.report(Output::End(Phase::Cleanup));
        self.report(Output::TraceEnds);
        self.report(Output::CleanedUp);
    }
}
