//! A helper process of the daemon: removes the leftovers of one job without a manager.
//!
//! It examines every process of the host, which takes too long for the daemon's loop. It is this executable again.
//! The job's record is open at its descriptor 0, since arguments are public and the record is not. The helper
//! removes only what the record and the notes of the manager identify.

use std::fs::{self, File};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use log::LevelFilter;
use mpd_io::adopt_inherited;
use mpd_io::clean_up::ipc::sweep_groups;
use mpd_io::clean_up::job_directory::remove_noted;
use mpd_io::clean_up::registered;
use mpd_io::process::cgroup::Cgroup;
use mpd_io::process::sweep::kill_by_cookie;
use mpd_leftovers::record::{Note, read_record};

use crate::leftovers::Leftovers;
use crate::notes;

/// Removes the leftovers, then the record's `file`. `just_died`: the manager lived until now.
pub(crate) fn run(file: Option<&Path>, just_died: bool) -> Result<ExitCode> {
    let record = File::from(adopt_inherited(0).context("no job record")?);
    let bytes = notes::read(&record).context("cannot read the job record")?;
    let (record, notes) = read_record(&bytes).context("not a job record")?;
    mpd_io::files::logging::start(&format!("mpd sweep {}", record.job), LevelFilter::Info, None)?;
    let leftovers = Leftovers::of(&notes, just_died);
    if let Some(path) = &record.cgroup {
        remove_group(Path::new(path));
    }
    let (killed, clean) = kill_by_cookie(&record.cookie.at(record.tree_index));
    if killed > 0 {
        log::info!("killed {killed} processes that job {} left behind", record.job);
    }
    if !clean {
        log::error!("processes of job {} are still there", record.job);
    }
    if let Some(leftovers) = leftovers {
        leftovers.remove();
    }
    // A directory is noted before and after it is made. The later note identifies it, so the notes are read
    // backwards.
    notes.iter().rev().for_each(remove_noted_object);
    // If the record stays, the next daemon tries again.
    if let (true, Some(file)) = (clean, file) {
        let _ = fs::remove_file(file);
    }
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn remove_noted_object(note: &Note) {
    match note {
        Note::Directory(directory) => {
            if let Err(e) = remove_noted(directory) {
                log::warn!("cannot remove {}/{}: {e}", directory.parent, directory.name);
            }
        }
        Note::Groups(groups) => sweep_groups(groups),
        Note::Registered(registered) => registered::remove(registered),
        // `Leftovers` handles these.
        Note::Leftovers(_) => {}
    }
}

/// Kills and removes the control group of a job. Its directory can be removed only after the end of its last
/// process.
fn remove_group(path: &Path) {
    let Ok(group) = Cgroup::open(path) else { return };
    group.kill();
    for _ in 0..500 {
        if group.remove().is_ok() {
            return;
        }
        // No event reports the end of a foreign process. This process has nothing else to do, so it polls.
        std::thread::sleep(Duration::from_millis(2));
    }
    log::error!("{}: processes are left in the control group", path.display());
}
