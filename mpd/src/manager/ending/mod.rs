//! The end of processes of the job here, and the clean-up afterwards. The machine of `mpd-ending` decides; this module
//! answers its questions and performs its outputs, in their order.
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

use mpd_clients::FromJob;
use mpd_ending::{self as machine, Input, Level, Output, names_of};
use mpd_io::clean_up::ipc;
use mpd_io::clean_up::leftovers::clocks;
use mpd_io::clean_up::registered;
use mpd_io::clean_up::shm;
use mpd_io::process::cgroup::Cgroup;
use mpd_io::process::signals;
use mpd_io::process::tree;
use mpd_io::ring::rundir::RunDir;
use mpd_job::manager::Input as JobInput;
use mpd_ranks::Input as RanksInput;
use mpd_sansio::Time;
use mpd_wire::Rank;
use mpd_wire::job::{JobSpec, OnFailure};
use mpd_wire::message::StartJob;

pub(super) use self::clean_up::Elsewhere;
use self::clean_up::{CleanUp, beginning};
use self::groups::Groups;
use super::context::Turn;
use super::event::{Event, ForRanks};
use super::ranks::Ranks;
use crate::notes::Notes;
use crate::users::Helper;
use mpd_io::process::identity::process_of;

/// The machine, and what its outputs concern besides the ranks.
#[derive(Debug)]
pub(super) struct Ending {
    machine: machine::Ending,
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
    /// ranks. The second value has an error if something could not be made.
    pub(super) fn start(
        base: &Path,
        (spec, ranks): (&JobSpec, &[Rank]),
        notes: Notes,
        cgroup: Option<Rc<Cgroup>>,
    ) -> (Self, Result<Option<Elsewhere>, String>) {
        let survives_failures = spec.on_failure != OnFailure::End;
        let beginning = beginning(cgroup.is_some(), survives_failures);
        let mut machine = machine::Ending::new(beginning, clocks());
        let mut notes = notes;
        while let Some(output) = machine.poll_output() {
            // There are no others yet.
            if let Output::NoteLater(note) = output {
                notes.add_later(&note);
            }
        }
        let (clean_up, made) = CleanUp::start(base, (spec, ranks), notes);
        (Self { machine, clean_up, cgroup, helper: None, is_frozen: false }, made)
    }

    /// The job's directory.
    pub(super) fn directory(&self) -> Option<&Path> {
        self.clean_up.directory()
    }

    /// The objects of groups of ranks.
    pub(super) fn groups(&self) -> Rc<Groups> {
        self.clean_up.groups()
    }

    /// Whether processes are about to be stopped or ended.
    pub(super) fn is_busy(&self) -> bool {
        self.machine.is_busy()
    }

    /// Whether all processes are being killed, or will be.
    pub(super) fn is_kill(&self) -> bool {
        self.machine.is_kill()
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.machine.poll_timeout()
    }

    pub(super) fn expire(&mut self, turn: &mut Turn<'_>, ranks: &mut Ranks) {
        if self.machine.poll_timeout().is_some_and(|at| at <= turn.now()) {
            self.machine.handle_timeout(turn.now());
            self.settle(turn, ranks);
        }
    }

    // ----- inputs -----

    /// Gives the machine an input, and performs its outputs.
    pub(super) fn give(&mut self, turn: &mut Turn<'_>, ranks: &mut Ranks, input: Input) {
        self.machine.handle(turn.now(), input);
        self.settle(turn, ranks);
    }

    /// Notes a world whose ranks may run here, by its key-value space.
    pub(super) fn add_world(&mut self, now: Time, kvsname: &str) {
        self.machine.handle(now, Input::World(kvsname.to_owned()));
    }

    /// Reads the findings of the helper.
    pub(super) fn receive_helper(&mut self, turn: &mut Turn<'_>, ranks: &mut Ranks) {
        while let Some(helper) = &mut self.helper
            && helper.wait(Duration::ZERO)
        {
            let (found, end) = helper.read();
            self.give(turn, ranks, Input::Found(found));
            if let Some(end) = end {
                self.give(turn, ranks, Input::HelperEnded(end));
            }
        }
    }

    // ----- outputs -----

    /// Performs all outputs, and answers each question before the machine takes anything else.
    fn settle(&mut self, turn: &mut Turn<'_>, ranks: &mut Ranks) {
        while let Some(output) = self.machine.poll_output() {
            if let Output::Ask(question) = output {
                let answer = self.answer(turn, ranks, question);
                self.machine.handle(turn.now(), Input::Answer(answer));
            } else {
                self.perform(turn, ranks, output);
            }
        }
    }

    fn perform(&mut self, turn: &mut Turn<'_>, ranks: &mut Ranks, output: Output) {
        match output {
            // The caller has answered it.
            Output::Ask(_) => {}

            Output::Continue(pids) => tree::send_continue(pids.into_iter().map(process_of)),
            Output::ContinueDescendants => tree::continue_descendants(),
            Output::ContinueAdopted => ranks.continue_adopted(),
            Output::KillAdopted => ranks.give(turn, RanksInput::KillAdopted),
            Output::Unfreeze => self.unfreeze(),
            Output::KillGroup => self.cgroup.iter().for_each(|group| group.kill()),
            Output::PauseSearch => ranks.give(turn, RanksInput::PauseSearch),
            Output::Reap => turn.report(mpd_manager::Output::Reap),

            Output::StopHelper => self.helper = None,

            Output::Note(note) => self.clean_up.notes.add(&note),
            Output::NoteLater(note) => self.clean_up.notes.add_later(&note),
            Output::Log(line) => log::log!(level_of(line.level()), "{line}"),

            Output::RemoveObjects => drop(ipc::sweep(self.machine.known())),
            Output::RemoveFile(id, names) => shm::remove_all(id, &names),
            Output::RemoveRegistered(it) => registered::remove(&it),
            Output::RemoveRankGroups => self.clean_up.remove_groups(),
            Output::RemoveDirectory => self.clean_up.remove_directory(),
            Output::RemoveGroup => remove_group(self.cgroup.take().as_deref()),
            Output::RemoveRecord => remove_record(&turn.job.order),

            Output::Begin(phase) => turn.begin(phase, None),
            Output::End(phase) => turn.end(phase, None),
            Output::TraceEnds => turn.report(Event::TraceEnds),
            Output::Killing => turn.report(Event::Killing),
            Output::TreeStopped => turn.post(JobInput::TreeStopped),
            Output::TreeGone => turn.post(JobInput::TreeGone),
            Output::LeftRunning(pids) => turn.post(JobInput::LeftRunning(names(&pids))),
            Output::Unkillable(pid) => turn.report(ForRanks::Unkillable(pid)),
            Output::SignalRefused(signal, pids) => {
                let problem = format!("cannot send {} to {}", signals::name(signal), names(&pids));
                turn.post(JobInput::SignalRefused(problem));
            }
            Output::ReleaseFence(first) => turn.report(FromJob::ReleaseFence(first)),
            Output::CleanedUp => turn.post(JobInput::CleanedUp),
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

/// Processes as a message names them.
fn names(pids: &[mpd_wire::Pid]) -> String {
    names_of(pids, |pid| tree::describe(process_of(pid)))
}
