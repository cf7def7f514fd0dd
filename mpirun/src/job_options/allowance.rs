//! The options for what the job may use on each host.

use mpd_wire::job::{Allowance, CpuAmount, MemorySize};

use crate::limits;
use crate::once::Once;
use crate::options::Key;
use crate::scan::Setting;
use crate::usage::Usage;

/// The given limits.
#[derive(Debug, Default)]
pub(super) struct AllowanceOptions {
    memory: Once<MemorySize>,
    cpus: Once<CpuAmount>,
}

impl AllowanceOptions {
    /// Adds an option of this group.
    pub(super) fn note(&mut self, setting: &Setting) -> Result<(), Usage> {
        match setting.opt.key {
            Key::Cpus => self.cpus.set(cpus(setting)?, setting),
            Key::Memory => self.memory.set(memory(setting)?, setting),
            _ => Ok(()),
        }
    }

    pub(super) fn spec(&self) -> Allowance {
        Allowance { memory: self.memory.get().copied(), cpus: self.cpus.get().copied() }
    }
}

fn memory(setting: &Setting) -> Result<MemorySize, Usage> {
    let bytes = limits::bytes(setting.text()?)
        .ok_or_else(|| setting.error("it must be a number of bytes; K, M or G may follow"))?;
    MemorySize::try_from(bytes).map_err(|e| setting.error(e))
}

/// A number of CPUs with at most three decimals.
fn cpus(setting: &Setting) -> Result<CpuAmount, Usage> {
    let wrong = || setting.error("it must be a number of CPUs, like 4 or 1.5");
    let text = setting.text()?;
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{part:0<3}");
    if part.len() > 3 || whole.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    // A number that does not fit is more than any host has.
    CpuAmount::try_from(digits.parse().unwrap_or(u32::MAX)).map_err(|e| setting.error(e))
}
