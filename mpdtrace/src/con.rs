//! `mpdcon`: a prompt for the ring and its jobs. Each of its commands is a program of the suite, or changes the console itself.
//!
//! | module | does |
//! |---|---|
//! | `cli` | the command line |
//! | `verbs` | the table of commands; aliases; from a line to a command. Pure |
//! | `run` | the session: runs programs, in the foreground and in the background |
//! | `editor` | the prompt on a terminal, with history and completion |

pub mod cli;
mod editor;
mod run;
mod verbs;

pub use run::run;
