//! A debugged job: each rank's program runs under a debugger.

use crate::job::bounds::Bytes;
use crate::job::fields::{InvalidSpec, Reader, Writer};

/// The debugger of the ranks, and the processes to attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Debug {
    /// The debugger: a path if it has a `/`, else searched like the program.
    pub gdb: Bytes,
    /// The process to attach to, for each rank, on the rank's host. Empty: the argset's program is
    /// started. If not empty, each rank has an argset of its own.
    pub attach: Vec<u32>,
}

impl Debug {
    pub(super) fn encode(this: Option<&Self>, w: &mut Writer) {
        w.option(this.map(|debug| &debug.gdb[..]));
        let attach = this.map_or(&[][..], |debug| &debug.attach);
        w.u32(attach.len());
        attach.iter().for_each(|&pid| w.u32(pid as usize));
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Option<Self>, InvalidSpec> {
        let gdb = if r.flag()? { Some(r.bytes()?) } else { None };
        let count = r.count(4)?;
        let attach = (0..count).map(|_| r.u32()).collect::<Result<_, _>>()?;
        Ok(gdb.map(|gdb| Self { gdb, attach }))
    }
}
