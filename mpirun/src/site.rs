//! The user's ring on a site: begun by the first job, through `mpdboot --site`.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use mpd_io::process::signals::Signals;
use mpd_io::process::spawn::{Extra, Spawn, own_environment};
use mpd_io::ring::rundir::RunDir;
use mpd_io::ring::site::{self, SiteError, ThisSite};
use mpd_placement::hosts::HostEntry;
use mpd_site::VERSIONS;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::demand::Demand;
use crate::private::{self, Cut};

/// The ring that the job gets.
#[derive(Debug)]
pub enum Wanted {
    /// The ring of the site, which is to be begun.
    OfSite,
    /// A private ring: there is no site here, or the job names a host that the site does not have.
    Private,
}

/// Which ring a job with this demand gets if no daemon runs here.
///
/// # Errors
/// The list of hosts or the rules of the site are wrong.
pub fn wanted(rundir: &RunDir, demand: &Demand) -> Result<Wanted> {
    if !rundir.is_of_site() {
        return Ok(Wanted::Private);
    }
    match site::load_to_submit() {
        Ok(Some(this)) if has_all(&this, &demand.hosts) => Ok(Wanted::OfSite),
        // Hosts of others are reached by the user's own ssh.
        Ok(_) => Ok(Wanted::Private),
        // A job of this host alone needs no site.
        Err(SiteError::NoSubmitHost(..) | SiteError::NotListed(_)) if demand.hosts.is_empty() => {
            Ok(Wanted::Private)
        }
        Err(error) => Err(error.into()),
    }
}

fn has_all(this: &ThisSite, hosts: &[HostEntry]) -> bool {
    let is_here = |host: &HostEntry| this.site.find([host.host.as_str()]).is_some();
    hosts.iter().all(is_here)
}

/// Becomes the mpirun of the version of the ring, if that is another one.
///
/// # Errors
/// The other mpirun cannot be executed.
pub fn become_version_of(rundir: &RunDir) -> Result<()> {
    let Ok(version) = std::fs::read_link(rundir.path().join("suite")) else { return Ok(()) };
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let program = version.join("bin/mpirun");
    if own.starts_with(&version)
        || !own.starts_with(VERSIONS)
        || !program.starts_with(VERSIONS)
        || !program.exists()
    {
        return Ok(());
    }
    let mut words = std::env::args_os();
    let mut command = Command::new(&program);
    command.arg0(words.next().unwrap_or_default()).args(words);
    Err(command.exec()).with_context(|| format!("cannot execute {}", program.display()))
}

/// Waits while an mpdboot of this user boots the ring, so that a job does not begin on a part of it. Whether it had to.
pub fn has_waited_for_boot(rundir: &RunDir) -> bool {
    let Ok(file) = File::open(rundir.path().join("boot.lock")) else { return false };
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Err((file, Errno::EWOULDBLOCK)) => Flock::lock(file, FlockArg::LockShared).is_ok(),
        Ok(_) | Err(_) => false,
    }
}

/// Begins the ring. `None` when it runs.
///
/// # Errors
/// It cannot begin; standard error has the hosts and reasons.
pub fn begin(
    verbose: bool,
    (signals, limit): (&mut Signals, Option<Duration>),
) -> Result<Option<Cut>> {
    const PARTIAL: u8 = 3;
    let program = private::find("mpdboot")?;
    let mut argv = vec!["mpdboot", "--site"];
    argv.push(if verbose { "--verbose" } else { "--quiet" });
    let spawn = Spawn::new(program.as_os_str().as_bytes(), argv, own_environment())?;
    let null = File::open("/dev/null").context("cannot open /dev/null")?;
    let (report, output) = io::pipe().context("cannot make a pipe")?;
    let pid = spawn
        .start(&[null.as_fd(), output.as_fd(), io::stderr().as_fd()], Extra::default(), None)
        .with_context(|| format!("cannot start {}", program.display()))?;
    drop(output);
    match private::await_boot(pid, &report, (signals, limit))? {
        private::BootEnd::Cut(cut) => Ok(Some(cut)),
        private::BootEnd::Up | private::BootEnd::Ended(Some(0 | PARTIAL)) => Ok(None),
        private::BootEnd::Ended(Some(_)) => bail!("there is no ring for the job; nothing was run"),
        private::BootEnd::Ended(None) => bail!("mpdboot ended without a result"),
    }
}
