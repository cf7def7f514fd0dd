//! Agreements between the helper programs and the tests: the bytes that one side writes and the other side
//! expects, and the time limits that end a lost helper.

pub mod digest;
pub mod lines;
pub mod random;
pub mod slots;
pub mod surroundings;
pub mod waiting;

use std::io::Write;
use std::os::fd::AsFd;

/// Ends this process by SIGALRM after that many seconds, in any state. Children made by `fork` need their
/// own limit.
pub fn bound(seconds: u32) {
    nix::unistd::alarm::set(seconds);
}

/// The rank of this process, 0 for a process that was started by hand.
#[must_use]
pub fn rank() -> usize {
    from_env("PMI_RANK").unwrap_or(0)
}

/// The number of ranks, 1 for a process that was started by hand.
#[must_use]
pub fn size() -> usize {
    from_env("PMI_SIZE").unwrap_or(1)
}

/// The command line argument at `index` (0 is the first after the program), parsed as the caller's type;
/// `default` if it is missing.
///
/// # Panics
/// When the argument exists and cannot be parsed.
#[must_use]
pub fn argument<T: std::str::FromStr>(index: usize, default: T) -> T {
    match std::env::args().nth(index + 1) {
        None => default,
        Some(text) => text.parse().unwrap_or_else(|_| panic!("cannot read argument '{text}'")),
    }
}

/// Writes all bytes straight to a descriptor, without any buffer of the library.
///
/// # Errors
/// Those of `write(2)`, except interruption.
pub fn write_all(to: impl AsFd, mut bytes: &[u8]) -> nix::Result<()> {
    while !bytes.is_empty() {
        match nix::unistd::write(to.as_fd(), bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Prints one line by a single write, so that lines of several threads do not mix.
///
/// # Errors
/// Those of writing to stdout.
pub fn say(line: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(format!("{line}\n").as_bytes())?;
    stdout.flush()
}

fn from_env(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}
