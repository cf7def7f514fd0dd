//! What other processes see of this one: its name, and whether they may read its memory.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::sys::prctl;

/// Gives this process the name that its first argument says. A process that executes `/proc/self/exe` has
/// the name `exe` in `ps`, `top` and `pgrep` otherwise.
pub fn take_name() {
    let Some(called) = std::env::args_os().next() else { return };
    let name = Path::new(&called).file_name().map(OsStrExt::as_bytes).map(CString::new);
    if let Some(Ok(name)) = name {
        let _ = prctl::set_name(&name);
    }
}

/// While it lives, no process without privileges reads our memory and descriptors or traces us, and we leave no core.
#[derive(Debug)]
pub struct Closed {
    was_open: bool,
}

impl Closed {
    /// Begins now.
    ///
    /// # Errors
    /// The system refuses.
    pub fn begin() -> io::Result<Self> {
        let was_open = prctl::get_dumpable()?;
        prctl::set_dumpable(false)?;
        Ok(Self { was_open })
    }

    /// For the rest of this process's life.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_closed_for_as_long_as_it_says() {
        assert!(prctl::get_dumpable().unwrap(), "a test is an ordinary process");
        let outer = Closed::begin().unwrap();
        drop(Closed::begin().unwrap());
        assert!(!prctl::get_dumpable().unwrap(), "the first one still holds");
        drop(outer);
        assert!(prctl::get_dumpable().unwrap());
    }
}
