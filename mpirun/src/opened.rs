//! The debugger for crashed ranks: this executable as `mpigdb -p JOB -r RANKS`. It runs on the
//! terminal of mpirun and in its process group, so that keys of the terminal signal both. While it
//! runs, mpirun ignores these signals.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::time::Duration;

use anyhow::{Context as _, Result};
use mpd_io::process::pidfd::Pidfd;
use mpd_io::process::spawn::{Extra, Fate, Spawn, fate_of, own_environment};
use mpd_io::process::tree::is_still;
use mpd_wire::{JobId, RankSet};
use nix::unistd::Pid;

use crate::debug::NAME;
use crate::patience::wait_until;
use crate::ring_options::RingOptions;

/// A running debugger.
#[derive(Debug)]
pub(crate) struct Opened {
    process: Pid,
    pidfd: Pidfd,
}

impl Opened {
    /// Starts the debugger for ranks of the job.
    ///
    /// # Errors
    /// The process cannot be started.
    pub(crate) fn at(
        ring_options: &RingOptions,
        job: &JobId,
        ranks: &RankSet,
        gdb: &[u8],
    ) -> Result<Self> {
        let arguments = [NAME, "-p", &job.to_string(), "-r", &ranks.to_string(), "-gdb-path"];
        let arguments = arguments.map(|word| word.as_bytes().to_vec()).into_iter();
        let arguments = arguments.chain([gdb.to_vec()]).chain(ring_options.arguments());
        let mut spawn = Spawn::new(b"/proc/self/exe", arguments, own_environment())?;
        // The debugger restores the terminal before it ends.
        spawn.in_our_group().end_with_parent();
        let (input, output, errors) = (io::stdin(), io::stdout(), io::stderr());
        let descriptors = [input.as_fd(), output.as_fd(), errors.as_fd()];
        let process = spawn.start(&descriptors, Extra::default(), None)?;
        let pidfd = Pidfd::open(process).context("the debugger that was opened")?;
        Ok(Self { process, pidfd })
    }

    /// `None` while the debugger runs; otherwise whether there was a session.
    pub(crate) fn has_ended(&self) -> Option<bool> {
        match fate_of(self.process) {
            Ok(None | Some(Fate::Stopped)) => None,
            Ok(Some(fate)) => Some(fate == Fate::Exited(0)),
            Err(_) => Some(false),
        }
    }

    /// Waits until the debugger has stopped at the terminal's signal or has ended, at most about
    /// this long.
    pub(crate) fn wait_for_stop(&self, patience: Duration) {
        wait_until(patience, || is_still(self.process, true));
    }

    /// Asks the debugger to end.
    pub(crate) fn end(&self) {
        let _ = self.pidfd.signal(libc::SIGTERM);
    }
}

impl AsRawFd for Opened {
    /// Readable when the debugger has ended.
    fn as_raw_fd(&self) -> RawFd {
        self.pidfd.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn opened(script: &str) -> (Child, Opened) {
        let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let process = Pid::from_raw(i32::try_from(child.id()).unwrap());
        (child, Opened { process, pidfd: Pidfd::open(process).unwrap() })
    }

    #[test]
    fn the_wait_for_a_debugger_ends_with_its_stop() {
        let (mut child, debugger) = opened("sleep 0.05; kill -STOP $$");
        debugger.wait_for_stop(LONG);
        let fate = fate_of(debugger.process).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(fate, Some(Fate::Stopped));
    }

    #[test]
    fn the_wait_also_ends_after_a_stop_that_was_seen_before() {
        let (mut child, debugger) = opened("kill -STOP $$");
        debugger.wait_for_stop(LONG);
        assert_eq!(debugger.has_ended(), None);
        debugger.wait_for_stop(Duration::MAX);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn the_wait_ends_if_the_debugger_ends_or_does_not_stop() {
        let (mut child, debugger) = opened("exit 0");
        debugger.wait_for_stop(Duration::MAX);
        child.wait().unwrap();
        let (mut child, debugger) = opened("exec sleep 600");
        debugger.wait_for_stop(Duration::from_millis(10));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
