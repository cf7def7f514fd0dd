//! A job that is debugged: each rank's program runs under a debugger.

use crate::job::bounds::Bytes;
use crate::job::fields::{InvalidSpec, Reader, Writer};

/// Under which debugger the ranks run, and what it attaches to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Debug {
    /// The debugger: with a `/` a path, else searched as the program is.
    pub gdb: Bytes,
    /// By rank, the process on its host to attach to; none: the argset's program is started. Each rank is
    /// an argset of its own then.
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
