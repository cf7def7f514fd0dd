//! Shared memory of the job: a helper process finds the files that the job uses (see [`crate::users`]).

use std::collections::BTreeSet;
use std::time::Duration;

use mpd_clients::FromJob;
use mpd_wire::Rank;
use mpd_wire::job::OnFailure;
use mpd_wire::message::Phase;

use super::{Ending, Timer};
use crate::manager::context::FIRST_LOOK;
use crate::manager::context::Turn;
use crate::manager::ranks::Ranks;
use crate::users::{Completeness, FileKind, PATIENCE};

/// How often the interval between two looks is doubled.
const MOST_DOUBLINGS: u8 = 6;

impl Ending {
    /// Begins to look for files when the ranks are about to run.
    pub(in crate::manager) fn watch_shm(&mut self, turn: &Turn<'_>) {
        self.timers.set(Timer::Shm(0), turn.now() + FIRST_LOOK);
    }

    /// Whether the ranks of a world have to stay in their fence until the users of new files are known. That is so in
    /// a job that continues after failures. MPI libraries make files between two fences, and a rank that fails leaves
    /// them. No kill with a look of its own ends such a job.
    pub(in crate::manager) fn holds_fence(&mut self, turn: &Turn<'_>, first: Rank) -> bool {
        if turn.job.spec.on_failure == OnFailure::End {
            return false;
        }
        self.look_while_running(turn);
        let holds = self.helpers.are_running();
        if holds {
            self.helpers.fences.push(first);
            self.timers.set(Timer::Fences, turn.now() + PATIENCE);
        }
        holds
    }

    /// Lets held fences end, unless files have appeared since the last look.
    fn release_fences(&mut self, turn: &mut Turn<'_>) {
        if !self.helpers.fences.is_empty() {
            self.look_while_running(turn);
            if !self.helpers.are_running() {
                self.release_fences_now(turn);
            }
        }
    }

    /// Lets held fences end.
    pub(super) fn release_fences_now(&mut self, turn: &mut Turn<'_>) {
        self.timers.stop(Timer::Fences);
        for first in std::mem::take(&mut self.helpers.fences) {
            turn.report(FromJob::ReleaseFence(first));
        }
    }

    fn look_while_running(&mut self, turn: &Turn<'_>) {
        if self.step == super::Step::None && !self.kills {
            self.find_new_shm(turn);
        }
    }

    /// Looks for new files that the job uses, and sets the next look.
    pub(super) fn look_at_shm(&mut self, turn: &Turn<'_>, looks: u8) {
        self.look_while_running(turn);
        let next = (looks + 1).min(MOST_DOUBLINGS);
        self.timers.set(Timer::Shm(next), turn.now() + FIRST_LOOK * (1 << next));
    }

    /// Starts a helper for the users of new files, if there are any and no helper runs.
    pub(super) fn find_new_shm(&mut self, turn: &Turn<'_>) {
        if !self.helpers.are_running()
            && let Some(wanted) = self.clean_up.shm.begin()
        {
            self.helpers.start(turn, FileKind::New, &wanted);
        }
    }

    /// Removes the leftovers of the job, of which no process lives here. Files of shared memory that a process
    /// still uses stay.
    pub(in crate::manager) fn clean_up(&mut self, turn: &mut Turn<'_>) {
        turn.begin(Phase::Cleanup, None);
        (0..=MOST_DOUBLINGS).for_each(|looks| self.timers.stop(Timer::Shm(looks)));
        let left = self.clean_up.files_left();
        self.helpers.stop();
        if !left.is_empty() {
            self.helpers.start(turn, FileKind::Left, &left);
        }
        if self.helpers.are_running() {
            self.timers.set(Timer::ShmUsers, turn.now() + PATIENCE);
        } else {
            self.remove_all(turn, None);
        }
    }

    /// Handles the timeout of the helper.
    pub(super) fn expire_shm_users(&mut self, turn: &mut Turn<'_>) {
        if self.helpers.are_running() {
            self.helpers.stop();
            log::warn!("shared memory of the job is left: the search for its users took too long");
            self.remove_all(turn, None);
        }
    }

    /// Reads the findings of the helper.
    pub(in crate::manager) fn receive_helper(&mut self, turn: &mut Turn<'_>, ranks: &mut Ranks) {
        while let Some(helper) = &mut self.helpers.helper
            && helper.wait(Duration::ZERO)
        {
            let kind = helper.kind();
            let (found, end) = helper.read();
            for (inode, user) in found {
                match kind {
                    FileKind::New => self.clean_up.shm.found(inode, user),
                    FileKind::Left => drop(self.helpers.in_use.insert(inode)),
                }
            }
            let Some(end) = end else { continue };
            self.helpers.stop();
            match (kind, end) {
                (FileKind::New, Completeness::Complete) => {
                    self.clean_up.shm.conclude();
                    self.clean_up.note_files();
                    self.release_fences(turn);
                    self.proceed(turn, ranks);
                }
                (FileKind::New, Completeness::Cut) => {
                    self.release_fences_now(turn);
                    self.proceed(turn, ranks);
                }
                (FileKind::Left, Completeness::Complete) => {
                    let in_use = std::mem::take(&mut self.helpers.in_use);
                    self.remove_all(turn, Some(&in_use));
                }
                (FileKind::Left, Completeness::Cut) => self.remove_all(turn, None),
            }
        }
    }

    fn remove_all(&mut self, turn: &mut Turn<'_>, in_use: Option<&BTreeSet<u64>>) {
        self.timers.stop(Timer::ShmUsers);
        self.clean_up.remove(in_use);
        self.forget_job(turn);
    }
}
