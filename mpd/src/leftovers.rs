//! Removes what a job left behind after its manager was killed. The manager's notes and rules decide what that is.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::thread::sleep;
use std::time::Duration;

use mpd_ending::{named_files, sort};
use mpd_io::clean_up::ipc;
use mpd_io::clean_up::leftovers::{clocks, exists, is_active, since_boot};
use mpd_io::clean_up::shm;
use mpd_leftovers as leftovers;
use mpd_leftovers::Known;
use mpd_leftovers::record::Note;

use crate::users::Helper;

/// The time between two checks of processes that are being killed, and the number of checks.
const INTERVAL: Duration = Duration::from_millis(2);
const MAX_LOOKS: usize = 1_000;

/// The time between two attempts to remove objects that are still in use, and the number of attempts.
const PAUSE: Duration = Duration::from_millis(200);
const MAX_TRIES: usize = 3;

/// The leftovers that the manager has noted.
#[derive(Debug)]
pub(crate) struct Leftovers {
    known: Known,
    /// Processes that existed when this sweep began: process id and start time.
    present: BTreeSet<(u32, u64)>,
}

impl Leftovers {
    /// Must be called before any process is killed. `just_died`: the manager lived until now. Then noted processes
    /// that no longer exist kept their process ids until now. Other processes can get these ids from now on.
    pub(crate) fn of(notes: &[Note], just_died: bool) -> Option<Self> {
        let mut known = Known::of(notes.iter().filter_map(|note| match note {
            Note::Leftovers(note) => Some(note.clone()),
            Note::Directory(_) | Note::Groups(_) | Note::Registered(_) => None,
        }))?;
        let is_present = |&(pid, begin): &(u32, u64)| exists(pid, begin);
        let present: BTreeSet<_> = known.unreaped().filter(is_present).collect();
        let lived = |pid, begin| just_died || present.contains(&(pid, begin));
        known.prolong(since_boot(), lived);
        Some(Self { known, present })
    }

    /// Removes the leftovers. Must be called after the processes of the job were killed.
    pub(crate) fn remove(mut self) {
        for _ in 0..MAX_LOOKS {
            self.prolong(since_boot());
            if !self.present.iter().any(|&(pid, begin)| is_active(pid, begin)) {
                break;
            }
            sleep(INTERVAL);
        }
        self.known.add(leftovers::Note::Clock(clocks().into()));
        for _ in 0..MAX_TRIES {
            let attached = ipc::sweep(&self.known);
            if attached + self.remove_files() == 0 {
                break;
            }
            sleep(PAUSE);
        }
    }

    /// Noted processes that still exist have kept their process ids until `now`. Later they may be reaped and their
    /// ids reused.
    fn prolong(&mut self, now: u64) {
        self.present.retain(|&(pid, begin)| exists(pid, begin));
        self.known.prolong(now, |pid, begin| self.present.contains(&(pid, begin)));
    }

    /// Removes files of shared memory. Returns how many are in use.
    fn remove_files(&self) -> usize {
        let noted = self.known.files();
        if noted.is_empty() {
            return 0;
        }
        let left = named_files(noted, shm::list());
        if left.is_empty() {
            return 0;
        }
        let inodes: Vec<u64> = left.into_keys().map(|id| id.inode).collect();
        let null = File::open("/dev/null").map_err(anyhow::Error::from);
        match null.and_then(|null| Helper::ask(&inodes, null.as_fd())) {
            Ok(Some(in_use)) => {
                let sorted = sort(named_files(noted, shm::list()), &in_use);
                sorted.removed.iter().for_each(|(id, names)| shm::remove_all(*id, names));
                sorted.stays.iter().for_each(|stays| log::info!("{stays}"));
                sorted.stays.len()
            }
            Ok(None) => {
                log::warn!("shared memory stays: the search for its users took too long");
                0
            }
            Err(e) => {
                log::warn!("shared memory stays: cannot find its users: {e:#}");
                0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use mpd_io::clean_up::leftovers::lifetime;
    use mpd_leftovers::{Before, Object, Reason, State, Use};
    use nix::unistd::{Pid, geteuid};

    use super::*;

    /// A segment without users that the process `pid` made at the time `boot`, in microseconds since boot.
    fn segment(pid: u32, boot: u64) -> Object {
        let clocks = clocks();
        let at = (clocks.wall - clocks.before + boot) / 1000;
        let state = State::Memory { made: Use { pid, at }, attached: 0 };
        Object { id: -1, users: [geteuid().as_raw(); 2], state }
    }

    fn reason(leftovers: &Leftovers, object: &Object) -> Option<Reason> {
        let judged = leftovers.known.judge(object, geteuid().as_raw());
        judged.err().map(|kept| kept.reason)
    }

    #[test]
    fn objects_stay_whose_maker_got_the_process_id_of_a_rank_during_the_sweep() {
        let mut rank = Command::new("sleep").arg("60").spawn().expect("a process");
        let pid = rank.id();
        let noted = lifetime(Pid::from_raw(pid.cast_signed()), false).expect("it lives");
        let notes = [
            leftovers::Note::Began(Before::default()),
            leftovers::Note::Clock(clocks().into()),
            leftovers::Note::Process(noted),
        ];
        let notes = notes.map(Note::Leftovers);
        let (soon, later) = (noted.seen + 10_000, noted.seen + 60_000);

        let mut alive = Leftovers::of(&notes, true).expect("notes");
        alive.prolong(soon);
        assert_eq!(reason(&alive, &segment(pid, soon)), None, "it had its process id until then");
        rank.kill().expect("SIGKILL");
        rank.wait().expect("reaped");
        alive.prolong(later);
        assert_eq!(reason(&alive, &segment(pid, later)), Some(Reason::AnotherTime(pid)));

        let mut gone = Leftovers::of(&notes, true).expect("notes");
        assert_eq!(reason(&gone, &segment(pid, noted.seen)), None, "it ended with its manager");
        gone.prolong(later);
        assert_eq!(reason(&gone, &segment(pid, later)), Some(Reason::AnotherTime(pid)));
    }
}
