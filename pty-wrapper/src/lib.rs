//! `pty`: runs a program on a new terminal, even if `pty` itself has no terminal.
//!
//! `mpd_io::terminal::pty_relay` copies the bytes. `session` owns the program, the signals and the terminal of the user.

pub mod cli;
pub mod session;
