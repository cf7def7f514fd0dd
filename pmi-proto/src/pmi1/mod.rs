//! PMI-1, the dialect of lines: what may be said in it either way.

pub(crate) mod command;
pub(crate) mod group;
#[cfg(test)]
mod protocol_table;
pub(crate) mod reply;
pub(crate) mod spawn;
