//! The end of processes of the job here, and the clean-up afterwards. The machine of `mpd-ending` decides, in the node; this
//! module answers its questions and performs its actions, in their order.
//!
//! The ranks are lent to this owner: a signal must reach them between the stop and the end of the stop.
//!
//! | module | has |
//! |---|---|
//! | [`answers`] | the answers to the machine's questions |
//! | [`clean_up`], [`groups`] | the job's directory and its record; objects of groups of ranks |

mod answers;
mod clean_up;
pub(super) mod groups;
mod removal;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use mpd_ending::{self as machine, Action, Input, Level, Output};
use mpd_io::clean_up::ipc;
use mpd_io::clean_up::leftovers::clocks;
use mpd_io::clean_up::registered;
use mpd_io::clean_up::shm;
use mpd_io::process::cgroup::Cgroup;
use mpd_io::process::tree;
use mpd_io::ring::rundir::RunDir;
use mpd_leftovers::Known;
use mpd_wire::Rank;
use mpd_wire::job::{JobSpec, OnFailure};
use mpd_wire::message::StartJob;

pub(super) use self::clean_up::Elsewhere;
use self::clean_up::{CleanUp, beginning};
use self::groups::Groups;
use super::ranks::Ranks;
use crate::notes::Notes;
use crate::users::Helper;
use mpd_io::process::identity::process_of;

/// What the actions of the machine concern besides the ranks.
#[derive(Debug)]
pub(super) struct Ending {
    clean_up: CleanUp,
    cgroup: Option<Rc<Cgroup>>,
    helper: Option<Helper>,
    /// Whether the control group is frozen.
    is_frozen: bool,
}

/// A manager that fails leaves no frozen process.
impl Drop for Ending {
    fn drop(&mut self) {
        if self.is_frozen {
            self.unfreeze();
        }
    }
}

impl Ending {
    /// Notes what exists before the job, then makes the job's directory below `base` and the objects of groups of
    /// ranks. The last value has an error if something could not be made.
    pub(super) fn start(
        base: &Path,
        (spec, ranks): (&JobSpec, &[Rank]),
        notes: Notes,
        cgroup: Option<Rc<Cgroup>>,
    ) -> (Self, machine::Ending, Result<Option<Elsewhere>, String>) {
        let survives_failures = spec.on_failure != OnFailure::End;
        let beginning = beginning(cgroup.is_some(), survives_failures);
        let mut machine = machine::Ending::new(beginning, clocks());
        let mut notes = notes;
        while let Some(output) = machine.poll_output() {
            // There are no others yet.
            if let Output::Act(Action::NoteLater(note)) = output {
                notes.add_later(&note);
            }
        }
        let (clean_up, made) = CleanUp::start(base, (spec, ranks), notes);
        (Self { clean_up, cgroup, helper: None, is_frozen: false }, machine, made)
    }

    /// The job's directory.
    pub(super) fn directory(&self) -> Option<&Path> {
        self.clean_up.directory()
    }

    /// The control group of the job, if there is one.
    pub(super) fn group(&self) -> Option<&Cgroup> {
        self.cgroup.as_deref()
    }

    /// The objects of groups of ranks.
    pub(super) fn groups(&self) -> Rc<Groups> {
        self.clean_up.groups()
    }

    /// What the helper has found since the last call, and its end; `None` if it has written nothing.
    pub(super) fn read_helper(&mut self) -> Option<Vec<Input>> {
        let helper = self.helper.as_mut().filter(|helper| helper.wait(Duration::ZERO))?;
        let (found, end) = helper.read();
        Some([Input::Found(found)].into_iter().chain(end.map(Input::HelperEnded)).collect())
    }

    /// Performs an action. The ranks are lent, and so is what the machine knows of the job's objects.
    pub(super) fn perform(
        &mut self,
        (order, known): (&StartJob, &Known),
        ranks: &Ranks,
        action: Action,
    ) {
        match action {
            Action::Continue(pids) => tree::send_continue(pids.into_iter().map(process_of)),
            Action::ContinueDescendants => tree::continue_descendants(),
            Action::ContinueAdopted => ranks.continue_adopted(),
            Action::Unfreeze => self.unfreeze(),
            Action::KillGroup => self.cgroup.iter().for_each(|group| group.kill()),

            Action::StopHelper => self.helper = None,

            Action::Note(note) => self.clean_up.notes.add(&note),
            Action::NoteLater(note) => self.clean_up.notes.add_later(&note),
            Action::Log(line) => log::log!(level_of(line.level()), "{line}"),

            Action::RemoveObjects => drop(ipc::sweep(known)),
            Action::RemoveFile(id, names) => shm::remove_all(id, &names),
            Action::RemoveRegistered(it) => registered::remove(&it),
            Action::RemoveRankGroups => self.clean_up.remove_groups(),
            Action::RemoveDirectory => self.clean_up.remove_directory(),
            Action::RemoveGroup => remove_group(self.cgroup.take().as_deref()),
            Action::RemoveRecord => remove_record(order),
        }
    }

    fn unfreeze(&mut self) {
        self.is_frozen = false;
        let Some(group) = &self.cgroup else { return };
        if let Err(e) = group.freeze(false) {
            // Its processes may have removed it.
            log::debug!("{}: cgroup.freeze: {e}", group.path().display());
        }
    }
}

/// Removes the control group of the job here and its record in the run directory.
pub(super) fn forget(order: &StartJob, cgroup: Option<&Cgroup>) {
    remove_group(cgroup);
    remove_record(order);
}

fn remove_group(cgroup: Option<&Cgroup>) {
    if let Some(group) = cgroup {
        let _ = group.remove();
    }
}

fn remove_record(order: &StartJob) {
    if let Some(rundir) = &order.rundir {
        let rundir = RunDir::at(PathBuf::from(rundir));
        let _ = std::fs::remove_file(rundir.record(&order.job));
    }
}

const fn level_of(level: Level) -> log::Level {
    match level {
        Level::Warning => log::Level::Warn,
        Level::Info => log::Level::Info,
        Level::Debug => log::Level::Debug,
    }
}
