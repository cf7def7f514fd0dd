//! The standard streams of a daemon that `mpdboot` has started, until the daemon is in the ring.
//!
//! Standard output takes reports. Standard input has one message at most, the list of members; its
//! end means that `mpdboot` has ended. A daemon in the ring lets go of both, so that the remote
//! shell can end.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_io::wait::is_ready;
use mpd_wire::message::{DaemonReport, IntroductionReader, OfDaemon, report_line};
use mpd_wire::{Address, Newcomer, Record};
use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::unistd::{dup2_stdin, dup2_stdout, read};

/// Most bytes taken at a time.
const BLOCK: usize = 64 << 10;

/// The streams.
#[derive(Debug)]
pub(super) struct Agent {
    nonce: String,
    lists: IntroductionReader,
    ended: bool,
}

impl Agent {
    /// Takes the streams; an event with `token` reports input.
    pub(super) fn begin(nonce: &str, registry: &Registry, token: Token) -> io::Result<Self> {
        let fd = io::stdin().as_raw_fd();
        registry.register(&mut SourceFd(&fd), token, Interest::READABLE)?;
        Ok(Self { nonce: nonce.to_owned(), lists: IntroductionReader::default(), ended: false })
    }

    /// Whether `mpdboot` has ended.
    pub(super) const fn is_deserted(&self) -> bool {
        self.ended
    }

    /// Reports that the daemon waits.
    pub(super) fn ready(&self, newcomer: Newcomer) {
        say(&self.nonce, &DaemonReport::Ready(newcomer));
    }

    /// Reads what has come. Returns the records of a list that has the one of `own`.
    pub(super) fn take_list(&mut self, own: &Newcomer) -> Option<Vec<Record>> {
        let mut buffer = vec![0; BLOCK];
        // A list may be left from the last block.
        let mut count = 0;
        while !self.ended {
            match self.lists.take(&buffer[..count], own) {
                Ok(None) => {}
                Ok(records) => return records,
                Err(problem) => {
                    log::error!("{problem}");
                    self.ended = true;
                    break;
                }
            }
            // Others may share the description of this descriptor, so it stays blocking.
            if !is_readable() {
                break;
            }
            count = match read(io::stdin().as_fd(), &mut buffer) {
                Err(Errno::EINTR) => 0,
                Ok(count @ 1..) => count,
                Ok(0) | Err(_) => {
                    self.ended = true;
                    break;
                }
            };
        }
        None
    }

    /// Reports that the daemon is in the ring, and lets go of the streams.
    pub(super) fn entered(self, addresses: Vec<Address>, registry: &Registry) -> io::Result<()> {
        say(&self.nonce, &DaemonReport::Entered { addresses });
        let fd = io::stdin().as_raw_fd();
        registry.deregister(&mut SourceFd(&fd))?;
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        dup2_stdin(&null)?;
        // Standard error is the log since the start.
        dup2_stdout(&null)?;
        Ok(())
    }
}

/// Reports why the daemon ends before it is in the ring.
pub(super) fn refuse(nonce: &str, problem: &str) {
    say(nonce, &DaemonReport::Refused { problem: problem.to_owned() });
}

fn say(nonce: &str, report: &DaemonReport) {
    let mut out = io::stdout().lock();
    let line = report_line(&OfDaemon::Daemon(report), nonce);
    if let Err(e) = out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
        log::warn!("cannot report to mpdboot: {e}");
    }
}

fn is_readable() -> bool {
    matches!(is_ready(io::stdin(), PollFlags::POLLIN), Ok(true))
}
