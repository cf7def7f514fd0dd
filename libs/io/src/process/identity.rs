//! What other processes see of this one: its name, and whether they may read its memory.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::sys::prctl;
use nix::unistd::{Pid, geteuid, getsid, setsid};

use crate::host::names;
use crate::raw;

/// Sets the name of this process to the file name of its first argument. Otherwise a process that executes
/// `/proc/self/exe` has the name `exe` in `ps`, `top` and `pgrep`.
pub fn take_name() {
    let Some(called) = std::env::args_os().next() else { return };
    let name = Path::new(&called).file_name().map(OsStrExt::as_bytes).map(CString::new);
    if let Some(Ok(name)) = name {
        let _ = prctl::set_name(&name);
    }
}

/// The account of this process; its number if it has no name.
pub fn own_account() -> String {
    user_name(geteuid().as_raw())
}

/// The name of a user; the number if the user database has no name.
pub fn user_name(uid: u32) -> String {
    names::account(uid).map_or_else(|| uid.to_string(), |account| account.name)
}

/// Begins a session of this process alone, away from the terminal and the signals of its parent's session. A process that
/// leads its session already keeps it.
///
/// # Errors
/// The process leads a process group of another session.
pub fn lead_session() -> io::Result<()> {
    match setsid() {
        Err(_) if getsid(None)? == Pid::this() => Ok(()),
        begun => Ok(begun.map(drop)?),
    }
}

/// Gives this process another name and other arguments, for `ps` and others. Arguments that do not fit in the memory of
/// the old ones are not shown. Only for a process with one thread, which reads its own arguments no more.
pub fn rename(arguments: &[&str]) {
    if let Some(Ok(name)) = arguments.first().map(|name| CString::new(*name)) {
        let _ = prctl::set_name(&name);
    }
    raw::show_arguments(arguments);
}

/// While this value lives, no process without privileges can read our memory and descriptors or trace us, and the
/// kernel writes no core of us.
#[derive(Debug)]
pub struct Closed {
    was_open: bool,
}

impl Closed {
    /// Closes this process to others.
    ///
    /// # Errors
    /// The system refuses.
    pub fn begin() -> io::Result<Self> {
        let was_open = prctl::get_dumpable()?;
        prctl::set_dumpable(false)?;
        Ok(Self { was_open })
    }

    /// Keeps this process closed until its end.
    pub fn forever(mut self) {
        self.was_open = false;
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        if self.was_open {
            let _ = prctl::set_dumpable(true);
        }
    }
}

/// The number of a process, for machines.
pub fn number_of(process: Pid) -> mpd_wire::Pid {
    mpd_wire::Pid(process.as_raw())
}

/// The process with this number.
pub const fn process_of(mpd_wire::Pid(number): mpd_wire::Pid) -> Pid {
    Pid::from_raw(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_closed_while_the_value_lives() {
        assert!(prctl::get_dumpable().unwrap(), "a test is an ordinary process");
        let outer = Closed::begin().unwrap();
        drop(Closed::begin().unwrap());
        assert!(!prctl::get_dumpable().unwrap(), "the first one still holds");
        drop(outer);
        assert!(prctl::get_dumpable().unwrap());
    }
}
