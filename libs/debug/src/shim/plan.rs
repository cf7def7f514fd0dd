//! The tasks of a shim.

use super::{Abilities, Tracing};

/// The tasks of a shim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Columns and lines of the program's terminal, if it has one.
    pub terminal: Option<(u16, u16)>,
    pub tracing: Option<Tracing>,
    /// Whether the program runs under gdb.
    pub debugs: bool,
    /// gdb ends when its program has ended.
    pub once: bool,
    /// The process to which gdb attaches, instead of starting the program.
    pub attach: Option<u32>,
    /// The path of gdb, if it is used.
    pub gdb: Vec<u8>,
    /// The descendants of this process may trace the program.
    pub tracer: u32,
}

impl Plan {
    pub const fn abilities(&self) -> Abilities {
        Abilities { terminal: self.terminal.is_some(), tracing: self.tracing, gdb: self.debugs }
    }

    /// Whether the rank needs a shim.
    pub const fn is_needed(&self) -> bool {
        self.terminal.is_some() || self.tracing.is_some() || self.debugs
    }
}
