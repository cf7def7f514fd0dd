//! A helper process of the daemon: removes what is left of one job whose manager is gone.
//!
//! It may take a while (it looks at every process of the host), so the daemon does not do it in its
//! own loop. It is this executable again, with the job's record open at descriptor 0: an argument is public, and
//! the record is not. It removes nothing but what the record and the manager's notes in it identify.

use std::fs::{self, File};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use log::LevelFilter;
use mpd_io::adopt_inherited;
use mpd_io::cgroup::Cgroup;
use mpd_io::ipc::sweep_groups;
use mpd_io::made::remove_noted;
use mpd_io::sweep::kill_by_cookie;
use mpd_job::record::{Note, read_record};

use crate::leftovers::Leftovers;
use crate::notes;

/// `file`: the record's name, to be removed when nothing is left. `just_died`: the manager lived until now.
pub(crate) fn run(file: Option<&Path>, just_died: bool) -> Result<ExitCode> {
    let record = File::from(adopt_inherited(0).context("no job record")?);
    let bytes = notes::read(&record).context("cannot read the job record")?;
    let (record, notes) = read_record(&bytes).context("not a job record")?;
    mpd_io::logging::start(&format!("mpd sweep {}", record.job), LevelFilter::Info, None)?;
    let leftovers = Leftovers::of(&notes, just_died);
    if let Some(path) = &record.cgroup {
        remove_group(Path::new(path));
    }
    let (killed, clean) = kill_by_cookie(&record.cookie.at(record.place));
    if killed > 0 {
        log::info!("killed {killed} processes that job {} left behind", record.job);
    }
    if !clean {
        log::error!("processes of job {} are still there", record.job);
    }
    if let Some(leftovers) = leftovers {
        leftovers.remove();
    }
    // A directory is noted before it is made and again afterwards: the later note says which one it is.
    notes.iter().rev().for_each(remove_what_was_noted);
    // A record that stays has the next daemon try again.
    if let (true, Some(file)) = (clean, file) {
        let _ = fs::remove_file(file);
    }
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn remove_what_was_noted(note: &Note) {
    match note {
        Note::Directory(directory) => {
            if let Err(e) = remove_noted(directory) {
                log::warn!("cannot remove {}/{}: {e}", directory.parent, directory.name);
            }
        }
        Note::Groups(groups) => sweep_groups(groups),
        // See `Leftovers`.
        Note::Leftovers(_) => {}
    }
}

/// Kills and removes the group of a job. Its directory can go only once the last process has.
fn remove_group(path: &Path) {
    let Ok(group) = Cgroup::open(path) else { return };
    group.kill();
    for _ in 0..500 {
        if group.remove().is_ok() {
            return;
        }
        // Nothing tells when a foreign process has gone; this process has nothing else to do.
        std::thread::sleep(Duration::from_millis(2));
    }
    log::error!("{}: processes are left in the control group", path.display());
}
