//! The options for ranks that crash.

use std::os::unix::ffi::OsStrExt as _;

use mpd_wire::job::{Bytes, OnCrash};

use crate::once::Once;
use crate::options::Key;
use crate::scan::Setting;
use crate::usage::Usage;

/// The given options for crashes.
#[derive(Debug, Default)]
pub(crate) struct CrashOptions {
    debug_batch: bool,
    gdb: Once<Bytes>,
    on_crash: Once<()>,
}

impl CrashOptions {
    /// Adds an option of this group.
    pub(super) fn note(&mut self, setting: &Setting) -> Result<(), Usage> {
        match setting.opt.key {
            Key::DebugBatch => self.debug_batch = true,
            Key::DebugPath => self.gdb.set(setting.nonempty()?.as_bytes().to_vec(), setting)?,
            Key::OnCrash => self.on_crash.set(on_crash(setting)?, setting)?,
            _ => {}
        }
        Ok(())
    }

    /// The handling of crashed ranks. They are held only if a user can debug them.
    pub(crate) fn spec(&self) -> Option<OnCrash> {
        let gdb = || self.gdb.get().cloned().unwrap_or_else(|| b"gdb".to_vec());
        self.on_crash.get().map(|()| OnCrash { gdb: gdb(), hold: !self.debug_batch })
    }
}

fn on_crash(setting: &Setting) -> Result<(), Usage> {
    match setting.value().as_bytes() {
        b"gdb" => Ok(()),
        _ => Err(setting.error("it must be 'gdb'")),
    }
}
