//! Another version of the suite for a ring of a site: the newest one that all its hosts have.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use mpd_io::parallel;
use mpd_io::ring::rundir::RunDir;
use mpd_site::starter::{ASK_VERSIONS, NO_VERSION};
use mpd_site::version::{Version, installed, newest_common};
use mpd_site::{SSH_CONFIG, VERSIONS};

use crate::complain::complain;
use crate::report::{Fate, Row};

/// Set in an mpdboot that was started because all hosts have its version.
const CHOSEN: &str = "MPD_SITE_VERSION";
/// Most hosts asked at a time.
const WIDTH: usize = 32;
/// The link in the run directory to the version of the ring.
const LINK: &str = "suite";

/// Whether a host lacks the version of this mpdboot.
pub(super) fn is_missing(rows: &[Row]) -> bool {
    let lacks = |row: &Row| matches!(&row.fate, Fate::Failed(failure) if failure.problem.contains(NO_VERSION));
    // The ring of a chosen version runs without a host that lacks it nevertheless.
    std::env::var_os(CHOSEN).is_none() && rows.iter().any(lacks)
}

/// Becomes the mpdboot of the newest version that all hosts have.
///
/// # Errors
/// There is none, or a host does not answer.
pub(super) fn become_common(rows: &[Row]) -> Result<()> {
    // A host that cannot be reached has no say.
    let answers = |row: &&Row| match &row.fate {
        Fate::Failed(failure) => failure.problem.contains(NO_VERSION),
        Fate::InRing | Fate::Up | Fate::NotStarted => true,
    };
    let hosts: Vec<&str> = rows.iter().filter(answers).map(|row| row.host.as_str()).collect();
    let answers = ask(&hosts)?;
    let version = newest_common(&answers)?.context("the ring has no hosts")?;
    let program = format!("{VERSIONS}/{version}/bin/mpdboot");
    complain(&format!("the newest version that all hosts have is {version}"));
    let error = Command::new(&program)
        .args(std::env::args_os().skip(1))
        .env(CHOSEN, version.as_str())
        .exec();
    Err(error).with_context(|| format!("cannot execute {program}"))
}

/// The versions of each host.
fn ask(hosts: &[&str]) -> Result<Vec<(String, Vec<Version>)>> {
    let answers = parallel::each(hosts, WIDTH, |host| versions_of(host));
    let named = hosts.iter().zip(answers).map(|(host, answer)| match answer {
        Ok(versions) => Ok(((*host).to_owned(), versions)),
        Err(_) => bail!("host {host} does not tell its versions of mpd-suite"),
    });
    named.collect()
}

fn versions_of(host: &str) -> Result<Vec<Version>> {
    let mut command = Command::new("ssh");
    command.args([
        "-F",
        SSH_CONFIG,
        "-x",
        "-T",
        "-o",
        "ConnectTimeout=10",
        "--",
        host,
        ASK_VERSIONS,
    ]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().context("ssh")?;
    if !output.status.success() {
        bail!("{host}: ssh failed");
    }
    Ok(installed(String::from_utf8_lossy(&output.stdout).split_whitespace()))
}

/// Notes the version of the ring, for the mpirun of another version.
///
/// # Errors
/// The link cannot be made.
pub(super) fn record(rundir: &RunDir, mpd: &str) -> Result<()> {
    let Some(version) = Path::new(mpd).parent().and_then(Path::parent) else { return Ok(()) };
    let path = rundir.path().join(LINK);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| path.display().to_string());
        }
        Ok(()) | Err(_) => {}
    }
    symlink(version, &path).with_context(|| path.display().to_string())
}
