//! Shared memory of the job: a helper process finds out which files are the job's (see [`crate::users`]).

use std::collections::BTreeSet;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Token};
use mpd_wire::message::Phase;

use super::{Ending, Timer};
use crate::manager::context::FIRST_LOOK;
use crate::manager::context::Turn;
use crate::manager::ranks::Ranks;
use crate::manager::tokens::SHM_USERS;
use crate::users::{End, Helper, PATIENCE, Whose};

/// Intervals between looks are doubled so often.
const MOST_DOUBLINGS: u8 = 6;

/// The helper at work, if there is one, and what it has found.
#[derive(Debug, Default)]
pub(super) struct Helpers {
    helper: Option<Helper>,
    /// Inodes that it found in use, of files that the job left.
    in_use: BTreeSet<u64>,
}

impl Helpers {
    pub(super) const fn are_at_work(&self) -> bool {
        self.helper.is_some()
    }

    pub(super) fn stop(&mut self) {
        self.helper = None;
    }

    fn start(&mut self, turn: &Turn<'_>, whose: Whose, inodes: &[u64]) {
        self.helper = Helper::start(whose, inodes, turn.null)
            .and_then(|helper| {
                let fd = helper.as_raw_fd();
                turn.registry.register(&mut SourceFd(&fd), Token(SHM_USERS), Interest::READABLE)?;
                self.in_use.clear();
                Ok(helper)
            })
            .inspect_err(|e| log::warn!("cannot find out who uses shared memory: {e:#}"))
            .ok();
    }
}

impl Ending {
    /// The ranks are about to run.
    pub(in crate::manager) fn watch_shm(&mut self, turn: &Turn<'_>) {
        self.timers.set(Timer::Shm(0), turn.now() + FIRST_LOOK);
    }

    /// It is time for the next look whether the job uses new files.
    pub(super) fn look_at_shm(&mut self, turn: &Turn<'_>, looks: u8) {
        if self.step == super::Step::None && !self.kills {
            self.find_new_shm(turn);
        }
        let next = (looks + 1).min(MOST_DOUBLINGS);
        self.timers.set(Timer::Shm(next), turn.now() + FIRST_LOOK * (1 << next));
    }

    /// Begins to look who uses new files, if there are any and no helper is at it.
    pub(super) fn find_new_shm(&mut self, turn: &Turn<'_>) {
        if !self.helpers.are_at_work()
            && let Some(wanted) = self.tidy.shm.begin()
        {
            self.helpers.start(turn, Whose::New, &wanted);
        }
    }

    /// No process of the job lives here. Removes files of the job that no process uses any more, and all else that
    /// it left.
    pub(in crate::manager) fn clean_up(&mut self, turn: &mut Turn<'_>) {
        turn.begin(Phase::Tidy, None);
        (0..=MOST_DOUBLINGS).for_each(|looks| self.timers.stop(Timer::Shm(looks)));
        let left = self.tidy.files_left();
        self.helpers.stop();
        if !left.is_empty() {
            self.helpers.start(turn, Whose::Left, &left);
        }
        if self.helpers.are_at_work() {
            self.timers.set(Timer::ShmUsers, turn.now() + PATIENCE);
        } else {
            self.remove_all(turn, None);
        }
    }

    /// The helper took too long.
    pub(super) fn shm_users_are_due(&mut self, turn: &mut Turn<'_>) {
        if self.helpers.are_at_work() {
            self.helpers.stop();
            log::warn!(
                "shared memory of the job is left: whether others use it was not found out in time"
            );
            self.remove_all(turn, None);
        }
    }

    /// Takes what the helper has found, if there is something.
    pub(in crate::manager) fn hear_helper(&mut self, turn: &mut Turn<'_>, ranks: &mut Ranks) {
        while let Some(helper) = &mut self.helpers.helper
            && helper.wait(Duration::ZERO)
        {
            let whose = helper.whose();
            let (found, end) = helper.read();
            for (inode, user) in found {
                match whose {
                    Whose::New => self.tidy.shm.found(inode, user),
                    Whose::Left => drop(self.helpers.in_use.insert(inode)),
                }
            }
            let Some(end) = end else { continue };
            self.helpers.stop();
            match (whose, end) {
                (Whose::New, End::Complete) => {
                    self.tidy.shm.conclude();
                    self.tidy.note_files();
                    self.go_on(turn, ranks);
                }
                (Whose::New, End::Cut) => self.go_on(turn, ranks),
                (Whose::Left, End::Complete) => {
                    let in_use = std::mem::take(&mut self.helpers.in_use);
                    self.remove_all(turn, Some(&in_use));
                }
                (Whose::Left, End::Cut) => self.remove_all(turn, None),
            }
        }
    }

    fn remove_all(&mut self, turn: &mut Turn<'_>, in_use: Option<&BTreeSet<u64>>) {
        self.timers.stop(Timer::ShmUsers);
        self.tidy.remove(in_use);
        self.forget_job(turn);
    }
}
