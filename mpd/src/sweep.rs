//! A helper process of the daemon: removes what is left of one job whose manager is gone.
//!
//! It may take a while (it looks at every process of the host), so the daemon does not do it in its
//! own loop. It is this executable again, with the job's record as argument.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use log::LevelFilter;
use mpd_io::cgroup::Cgroup;
use mpd_io::sweep::kill_by_cookie;
use mpd_proto::message::JobRecord;

pub(crate) fn run(record: &str, file: Option<&Path>) -> Result<ExitCode> {
    let record: JobRecord = serde_json::from_str(record).context("not a job record")?;
    mpd_io::logging::start(&format!("mpd sweep {}", record.job), LevelFilter::Info, None)?;
    if let Some(path) = &record.cgroup {
        remove_group(Path::new(path));
    }
    let (killed, clean) = kill_by_cookie(&record.cookie);
    if killed > 0 {
        log::info!("killed {killed} processes that job {} left behind", record.job);
    }
    if !clean {
        log::error!(
            "processes of job {} with MPD_JOB_COOKIE={} are still there",
            record.job,
            record.cookie
        );
    }
    remove_directory(Path::new(&record.tmpdir));
    // A record that stays has the next daemon try again.
    if let (true, Some(file)) = (clean, file) {
        let _ = fs::remove_file(file);
    }
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

/// Removes a job's directory; `std` follows no symbolic link on the way.
pub(crate) fn remove_directory(path: &Path) {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            log::warn!("cannot remove {}: {e}", path.display());
        }
        _ => {}
    }
}
