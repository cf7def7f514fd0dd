//! The helper process, and the socket to it.

use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::frame::{self, Decoder, FORMAT, Received};
use crate::{Error, ToHelper, ToProgram, VERSION};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send};

/// The program of the helper.
const PROGRAM: &str = "mpdalloc";
/// Bytes that are read at a time.
const READ: usize = 64 << 10;

/// Directories in which the helper is looked for before those of `PATH`.
#[derive(Clone, Debug, Default)]
pub struct Places(pub Vec<PathBuf>);

/// A running helper.
#[derive(Debug)]
pub(crate) struct Helper {
    socket: Arc<UnixStream>,
    decoder: Decoder,
}

impl Helper {
    /// Starts a helper.
    pub(crate) fn start(places: &Places) -> Result<Self, Error> {
        let program = find(places)?;
        let failed = |error: &io::Error| Error::Helper(format!("{}: {error}", program.display()));
        let (ours, theirs) = UnixStream::pair().map_err(|error| failed(&error))?;
        ours.set_nonblocking(true).map_err(|error| failed(&error))?;
        let mut command = Command::new(&program);
        // The keys of a terminal are for the program, which decides about its processes.
        command.arg("--serve").stdin(Stdio::from(OwnedFd::from(theirs))).process_group(0);
        let mut child = command.spawn().map_err(|error| failed(&error))?;
        drop(command);
        // It starts the helper and exits at once, so that the program has no child. The program may ignore the ends of
        // its children, or another thread may have waited for this one.
        let _ = child.wait();
        let mut helper = Self { socket: Arc::new(ours), decoder: Decoder::new(FORMAT) };
        helper.send(&ToHelper::Hello(VERSION))?;
        Ok(helper)
    }

    pub(crate) fn socket(&self) -> Arc<UnixStream> {
        Arc::clone(&self.socket)
    }

    /// Sends a message. The helper reads at any time.
    pub(crate) fn send(&mut self, message: &ToHelper) -> Result<(), Error> {
        let frame = frame::encode(message)
            .ok_or_else(|| Error::Argument("the request is too long".to_owned()))?;
        let mut rest = &frame[..];
        while !rest.is_empty() {
            // A program must not get SIGPIPE because of its helper.
            match send(std::os::fd::AsRawFd::as_raw_fd(&*self.socket), rest, MsgFlags::MSG_NOSIGNAL)
            {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => {
                    let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLOUT)];
                    let _ = poll(&mut fds, PollTimeout::NONE);
                }
                Err(_) => return Err(gone()),
            }
        }
        Ok(())
    }

    /// The messages that are there. The error is the end of the helper.
    pub(crate) fn receive(&mut self, mut take: impl FnMut(ToProgram)) -> Result<(), Error> {
        let mut buffer = vec![0; READ];
        loop {
            match (&*self.socket).read(&mut buffer) {
                Ok(0) => return Err(gone()),
                Ok(read) => {
                    self.decoder.push(&buffer[..read]);
                    while let Some(received) = frame::receive(&mut self.decoder)
                        .map_err(|error| Error::Helper(format!("{PROGRAM}: {error}")))?
                    {
                        match received {
                            Received::Message(message) => take(message),
                            Received::Unknown { kind, number: Some(number) } => {
                                let error = Some(Error::Helper(format!("{PROGRAM}: {kind}")));
                                take(ToProgram::Answer { number, error });
                            }
                            // A report of a later release.
                            Received::Unknown { number: None, .. } => {}
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(gone()),
            }
        }
    }
}

/// The error when there is no helper any more.
pub(crate) fn gone() -> Error {
    Error::Helper(format!("the helper ({PROGRAM} --serve) has ended"))
}

/// The path of the helper's program. A relative directory is another one after a `chdir` of the program.
fn find(Places(places): &Places) -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = places.iter().cloned().chain(std::env::split_paths(&path));
    let all = all.filter(|directory| directory.is_absolute());
    let mut found = all.map(|directory| directory.join(PROGRAM)).filter(|path| is_program(path));
    found.next().ok_or_else(|| {
        Error::Helper(format!(
            "{PROGRAM} is not found; the programs of MPD must be in an absolute directory of PATH"
        ))
    })
}

fn is_program(path: &Path) -> bool {
    use nix::unistd::{AccessFlags, access};
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_is_looked_for_in_the_given_places_first() {
        let none = Places(vec![PathBuf::from("."), PathBuf::from("/nowhere")]);
        if let Ok(found) = find(&none) {
            assert!(found.is_absolute() && found.ends_with(PROGRAM));
        }
        let error = Helper::start(&Places(vec![PathBuf::from("/")])).err();
        assert!(error.is_none_or(|error| matches!(error, Error::Helper(_))));
    }
}
