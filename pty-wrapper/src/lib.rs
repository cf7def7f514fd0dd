//! `pty`: a program on a terminal of its own, whatever `pty` itself reads from and writes to.
//!
//! What goes where is decided by [`relay::Relay`], which knows no descriptor; `session` owns those.

pub mod cli;
pub mod relay;
pub mod session;
