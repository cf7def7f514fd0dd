//! Shared memory of the job: a helper process finds out which files are the job's (see [`crate::users`]).

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Token};

use super::{FIRST_LOOK, MOST_DOUBLINGS, Process, SHM_USERS, Timer, perform};
use crate::users::{End, Helper, PATIENCE, Whose};

impl Process {
    /// It is time for the next look whether the job uses new files.
    pub(super) fn look_at_shm(&mut self, looks: u8) {
        if !self.deadly.is_coming() {
            self.find_new_shm();
        }
        let next = (looks + 1).min(MOST_DOUBLINGS);
        self.timers.set(Timer::Shm(next), self.now() + FIRST_LOOK * (1 << next));
    }

    /// Begins to look who uses new files, if there are any and nobody is at it.
    pub(super) fn find_new_shm(&mut self) {
        if self.shm_helper.is_none()
            && let Some(wanted) = self.tidy.shm.begin()
        {
            self.find_shm_users(Whose::New, &wanted);
        }
    }

    /// Removes files of the job that nobody uses any more, and all else that it left.
    pub(super) fn tidy_shm(&mut self) {
        (0..=MOST_DOUBLINGS).for_each(|looks| self.timers.stop(Timer::Shm(looks)));
        let left = self.tidy.files_left();
        self.shm_helper = None;
        if !left.is_empty() {
            self.find_shm_users(Whose::Left, &left);
        }
        match self.shm_helper {
            Some(_) => self.timers.set(Timer::ShmUsers, self.now() + PATIENCE),
            None => self.tidied_shm(None),
        }
    }

    /// The helper took too long.
    pub(super) fn shm_users_are_due(&mut self) {
        if self.shm_helper.take().is_some() {
            log::warn!(
                "shared memory of the job is left: whether others use it was not found out in time"
            );
            self.tidied_shm(None);
        }
    }

    fn find_shm_users(&mut self, whose: Whose, inodes: &[u64]) {
        self.shm_helper = Helper::start(whose, inodes, self.null.as_fd())
            .and_then(|helper| {
                let fd = helper.as_raw_fd();
                let registry = self.poll.registry();
                registry.register(&mut SourceFd(&fd), Token(SHM_USERS), Interest::READABLE)?;
                self.shm_in_use.clear();
                Ok(helper)
            })
            .inspect_err(|e| log::warn!("cannot find out who uses shared memory: {e:#}"))
            .ok();
    }

    /// Hears what the helper has to say, if there is something.
    pub(super) fn hear_shm_helper(&mut self) {
        while let Some(helper) = &mut self.shm_helper
            && helper.wait(Duration::ZERO)
        {
            let whose = helper.whose();
            let (found, end) = helper.read();
            for (inode, user) in found {
                match whose {
                    Whose::New => self.tidy.shm.found(inode, user),
                    Whose::Left => drop(self.shm_in_use.insert(inode)),
                }
            }
            let Some(end) = end else { continue };
            self.shm_helper = None;
            match (whose, end) {
                (Whose::New, End::Complete) => {
                    self.tidy.shm.conclude();
                    self.tidy.note_files();
                    self.go_on_ending();
                }
                (Whose::New, End::Cut) => self.go_on_ending(),
                (Whose::Left, End::Complete) => {
                    let in_use = std::mem::take(&mut self.shm_in_use);
                    self.tidied_shm(Some(&in_use));
                }
                (Whose::Left, End::Cut) => self.tidied_shm(None),
            }
        }
    }

    fn tidied_shm(&mut self, in_use: Option<&BTreeSet<u64>>) {
        self.timers.stop(Timer::ShmUsers);
        self.tidy.remove(in_use);
        perform::forget(&self.order, self.cgroup.take());
        self.tidied();
    }
}
