//! The wait for descriptors, for loops that do without mio.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Waits until one of the descriptors is ready, at most `patience`; `None`: without limit. Returns how many are ready.
/// 0 also means that a signal has interrupted the wait. The time is rounded up to milliseconds, so that a deadline has
/// passed after the wait.
///
/// # Errors
/// Those of `poll(2)`, without `EINTR`.
pub fn wait(fds: &mut [PollFd<'_>], patience: Option<Duration>) -> io::Result<usize> {
    match poll(fds, patience.map_or(PollTimeout::NONE, rounded_up)) {
        Ok(ready) => Ok(usize::try_from(ready).unwrap_or(0)),
        Err(Errno::EINTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Waits until one descriptor is ready for `events`, at most `patience`. An error or the end counts as ready.
///
/// # Errors
/// As for [`wait`].
pub fn until_ready(
    fd: impl AsFd,
    events: PollFlags,
    patience: Option<Duration>,
) -> io::Result<bool> {
    Ok(wait(&mut [PollFd::new(fd.as_fd(), events)], patience)? > 0)
}

/// Whether a descriptor is ready for `events` now. An error or the end counts as ready.
///
/// # Errors
/// As for [`wait`].
pub fn is_ready(fd: impl AsFd, events: PollFlags) -> io::Result<bool> {
    until_ready(fd, events, Some(Duration::ZERO))
}

fn rounded_up(patience: Duration) -> PollTimeout {
    let millis = patience.as_nanos().div_ceil(1_000_000);
    i32::try_from(millis)
        .ok()
        .and_then(|ms| PollTimeout::try_from(ms).ok())
        .unwrap_or(PollTimeout::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_wait_is_never_shorter_than_its_time() {
        let ms = |patience| rounded_up(patience).as_millis();
        assert_eq!(ms(Duration::ZERO), Some(0));
        assert_eq!(ms(Duration::from_nanos(1)), Some(1));
        assert_eq!(ms(Duration::from_millis(7)), Some(7));
        assert_eq!(ms(Duration::from_micros(7001)), Some(8));
        assert_eq!(ms(Duration::MAX), Some(u32::try_from(i32::MAX).unwrap()));
    }

    #[test]
    fn data_and_the_end_of_a_pipe_make_it_ready() {
        let (reader, mut writer) = io::pipe().unwrap();
        assert!(!is_ready(&reader, PollFlags::POLLIN).unwrap());
        writer.write_all(b"x").unwrap();
        assert!(until_ready(&reader, PollFlags::POLLIN, None).unwrap());
        let (reader, writer) = io::pipe().unwrap();
        drop(writer);
        assert!(until_ready(&reader, PollFlags::POLLIN, None).unwrap());
    }
}
