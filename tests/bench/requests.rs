//! The floor of PMI: processes that make as many round trips with one process that answers at once, over socket pairs.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::contest::Measured;

/// Bytes of a request and of an answer: about the size of a get of PMI-1.
const MESSAGE: usize = 64;

/// The time from the first answer to the end of the last client. The start of the clients does not count.
pub(crate) fn answered(clients: usize, requests: usize) -> Result<Measured, String> {
    let text = |error: std::io::Error| error.to_string();
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|error| error.to_string())?;
    let mut streams = Vec::with_capacity(clients);
    let mut children = Vec::with_capacity(clients);
    for number in 0..clients {
        let (ours, theirs) = UnixStream::pair().map_err(text)?;
        children.push(client(theirs, requests).map_err(text)?);
        let event = EpollEvent::new(EpollFlags::EPOLLIN, number as u64);
        epoll.add(ours.as_fd(), event).map_err(|error| error.to_string())?;
        streams.push(ours);
    }
    let mut message = [0; MESSAGE];
    // Each client sends its first request when it runs.
    for stream in &mut streams {
        stream.read_exact(&mut message).map_err(text)?;
    }
    let begin = Instant::now();
    for stream in &mut streams {
        stream.write_all(&message).map_err(text)?;
    }
    let mut events = vec![EpollEvent::empty(); clients];
    let mut living = clients;
    while living > 0 {
        let ready =
            epoll.wait(&mut events, EpollTimeout::NONE).map_err(|error| error.to_string())?;
        for event in &events[..ready] {
            let stream = &mut streams[usize::try_from(event.data()).unwrap_or(0)];
            match stream.read(&mut message) {
                Ok(MESSAGE) => stream.write_all(&message).map_err(text)?,
                Ok(0) => {
                    epoll.delete(stream.as_fd()).map_err(|error| error.to_string())?;
                    living -= 1;
                }
                other => return Err(format!("a client of the floor sent a part: {other:?}")),
            }
        }
    }
    children.iter_mut().try_for_each(|child| child.wait().map(drop).map_err(text))?;
    Ok(begin.elapsed())
}

fn client(stream: UnixStream, requests: usize) -> std::io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["request", &requests.to_string()]);
    command.stdin(OwnedFd::from(stream)).stdout(Stdio::null()).spawn()
}

/// A client: makes the round trips over its standard input.
pub(crate) fn request(count: &str) -> std::io::Result<()> {
    let mut stream = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut message = [7; MESSAGE];
    // The first one tells that this process runs.
    for _ in 0..=count.parse().unwrap_or(0) {
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
    }
    Ok(())
}
