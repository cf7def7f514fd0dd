//! `pty`: a program on a terminal of its own, whatever `pty` itself reads from and writes to.
//!
//! `mpd_io::pty_relay` passes the bytes on. `session` owns the program, the signals and the terminal of the user.

pub mod cli;
pub mod session;
