//! The daemon's side of its fork server, see `manager::fork_server`. No call waits for an answer.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use mpd_io::network::conn::Conn;
use mpd_io::network::passing;
use mpd_io::process::pidfd::Pidfd;
use mpd_io::process::tree;
use nix::errno::Errno;
use nix::unistd::Pid;

use super::start;
use crate::manager::{COPY, GROUP, MANAGER};

/// Bytes of an answer.
const ANSWER: usize = 4;

/// A running fork server.
#[derive(Debug)]
pub(super) struct ForkServer {
    pid: Pid,
    socket: UnixStream,
    /// The connections of requested managers, in the order of the answers. `None`: given up.
    requested: VecDeque<Option<Conn>>,
    /// The first bytes of the next answer, and their number.
    answer: ([u8; ANSWER], usize),
    /// The managers whose groups it guards.
    guarded: BTreeSet<Pid>,
}

impl ForkServer {
    pub(super) fn start() -> Result<Self> {
        let (pid, socket) = start::fork_server()?;
        Self::new(pid, socket)
    }

    fn new(pid: Pid, socket: UnixStream) -> Result<Self> {
        socket.set_nonblocking(true).context("cannot set up a socket")?;
        let (requested, answer) = (VecDeque::new(), ([0; ANSWER], 0));
        Ok(Self { pid, socket, requested, answer, guarded: BTreeSet::new() })
    }

    pub(super) const fn pid(&self) -> Pid {
        self.pid
    }

    /// Requests a manager.
    pub(super) fn request(&mut self) -> Result<()> {
        let (ours, theirs) = UnixStream::pair().context("cannot make a socket")?;
        passing::pass(&self.socket, COPY, &theirs).context("the fork server takes no request")?;
        self.requested.push_back(Some(Conn::new(ours)));
        Ok(())
    }

    /// Lets it guard the control group of a job, unless it does. The manager is a child, or has registered.
    ///
    /// # Errors
    /// The group or the manager cannot be opened, or the fork server takes no message.
    pub(super) fn guard(&mut self, group: &Path, manager: Pid) -> std::io::Result<()> {
        if !self.guarded.contains(&manager) {
            let (directory, process) = (File::open(group)?, Pidfd::open(manager)?);
            passing::pass(&self.socket, GROUP, &directory)?;
            passing::pass(&self.socket, MANAGER, &process)?;
            self.guarded.insert(manager);
        }
        Ok(())
    }

    /// Forgets a manager that has died.
    pub(super) fn forget(&mut self, manager: Pid) {
        self.guarded.remove(&manager);
    }

    /// The next manager that was requested, or why there is none; `None` if no answer has arrived.
    pub(super) fn next_manager(&mut self) -> Option<Result<(Pid, Conn)>> {
        if self.requested.is_empty() {
            return None;
        }
        let answer = self.next_answer()?;
        Some(manager(answer, self.requested.pop_front()?))
    }

    /// Closes the connections of all managers that were requested.
    pub(super) fn forsake(&mut self) {
        self.requested.iter_mut().for_each(|connection| *connection = None);
    }

    fn next_answer(&mut self) -> Option<i32> {
        let (bytes, count) = &mut self.answer;
        while *count < ANSWER {
            match self.socket.read(&mut bytes[*count..]) {
                // Its end is noticed as that of a child.
                Ok(0) => return None,
                Ok(more) => *count += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        *count = 0;
        Some(i32::from_ne_bytes(*bytes))
    }
}

/// The manager of an answer. One that has died may have been reaped before the answer was read.
fn manager(answer: i32, connection: Option<Conn>) -> Result<(Pid, Conn)> {
    if answer < 0 {
        bail!("the fork server cannot make a process: {}", Errno::from_raw(-answer).desc());
    }
    let pid = Pid::from_raw(answer);
    let Some(connection) = connection else { bail!("manager {pid} was given up") };
    if !tree::is_child(pid) {
        bail!("manager {pid} has died before it waited");
    }
    Ok((pid, connection))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn answers_come_in_the_order_of_requests_and_name_a_child_or_an_error() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut server = ForkServer::new(Pid::from_raw(1), ours).unwrap();
        server.request().unwrap();
        server.request().unwrap();
        assert!(server.next_manager().is_none());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let [first, rest @ ..] = pid.to_ne_bytes();
        theirs.write_all(&[first]).unwrap();
        assert!(server.next_manager().is_none(), "one byte is no answer");
        theirs.write_all(&rest).unwrap();
        theirs.write_all(&(-libc::EAGAIN).to_ne_bytes()).unwrap();
        assert_eq!(server.next_manager().unwrap().unwrap().0, Pid::from_raw(pid));
        assert_eq!(server.requested.len(), 1);
        let error = server.next_manager().unwrap().unwrap_err().to_string();
        assert!(error.contains("cannot make a process: Try again"), "{error}");
        child.wait().unwrap();
        server.request().unwrap();
        theirs.write_all(&pid.to_ne_bytes()).unwrap();
        let error = server.next_manager().unwrap().unwrap_err().to_string();
        assert!(error.contains("has died before it waited"), "{error}");
        server.request().unwrap();
        server.forsake();
        theirs.write_all(&std::process::id().to_ne_bytes()).unwrap();
        let error = server.next_manager().unwrap().unwrap_err().to_string();
        assert!(error.contains("was given up"), "{error}");
        drop(theirs);
        assert!(server.next_manager().is_none());
        assert!(server.request().is_err());
        assert_eq!(server.requested.len(), 0);
    }
}
