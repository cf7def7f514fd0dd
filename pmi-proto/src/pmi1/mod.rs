//! PMI-1, the dialect of lines: its commands and replies.

pub(crate) mod command;
pub(crate) mod group;
#[cfg(test)]
mod protocol_table;
pub(crate) mod reply;
pub(crate) mod spawn;
