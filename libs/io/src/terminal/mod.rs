//! Terminals: the own one, and pseudo-terminals for programs.

pub mod controlling;
pub mod line_editor;
pub mod plain_terminal;
pub mod progress;
pub mod pty;
pub mod pty_relay;
pub mod screen;
