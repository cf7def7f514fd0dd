//! Removes what a job left whose manager was killed, by the manager's notes and its rules.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::thread::sleep;
use std::time::Duration;

use mpd_io::leftovers::{clocks, exists, is_active, since_boot};
use mpd_io::{ipc, shm};
use mpd_job::leftovers;
use mpd_job::leftovers::Known;
use mpd_job::record::Note;

use crate::users::Helper;

/// Between two looks at processes that are being killed, and how many there are.
const INTERVAL: Duration = Duration::from_millis(2);
const MAX_LOOKS: usize = 1_000;

/// Between two tries to remove what a process uses that is being killed, and how many there are.
const PAUSE: Duration = Duration::from_millis(200);
const MAX_TRIES: usize = 3;

/// What the manager knew.
#[derive(Debug)]
pub(crate) struct Leftovers {
    known: Known,
    /// Processes that had their number until this sweep: number and beginning.
    present: BTreeSet<(u32, u64)>,
}

impl Leftovers {
    /// To be called before anything is killed. If the manager has `just_died`, processes that are gone
    /// by now ended with it: others cannot have had their numbers since.
    pub(crate) fn of(notes: &[Note], just_died: bool) -> Option<Self> {
        let known = Known::of(notes.iter().filter_map(|note| match note {
            Note::Leftovers(note) => Some(note.clone()),
            Note::Directory(_) | Note::Groups(_) => None,
        }))?;
        let is_present = |&(pid, begin): &(u32, u64)| just_died || exists(pid, begin);
        let present = known.unreaped().filter(is_present).collect();
        Some(Self { known, present })
    }

    /// To be called when the processes of the job were killed.
    pub(crate) fn remove(mut self) {
        for _ in 0..MAX_LOOKS {
            if !self.present.iter().any(|&(pid, begin)| is_active(pid, begin)) {
                break;
            }
            sleep(INTERVAL);
        }
        self.known.prolong(since_boot(), |pid, begin| self.present.contains(&(pid, begin)));
        self.known.add(leftovers::Note::Clock(clocks().into()));
        for _ in 0..MAX_TRIES {
            let attached = ipc::sweep(&self.known);
            if attached + self.remove_files() == 0 {
                break;
            }
            sleep(PAUSE);
        }
    }

    /// Gives how many files are in use.
    fn remove_files(&self) -> usize {
        let left = shm::left(self.known.files());
        if left.is_empty() {
            return 0;
        }
        let null = File::open("/dev/null").map_err(anyhow::Error::from);
        match null.and_then(|null| Helper::ask(&left, null.as_fd())) {
            Ok(Some(in_use)) => shm::sweep(self.known.files(), &in_use),
            Ok(None) => {
                log::warn!("shared memory stays: whether others use it was not found out in time");
                0
            }
            Err(e) => {
                log::warn!("shared memory stays: cannot find out who uses it: {e:#}");
                0
            }
        }
    }
}
