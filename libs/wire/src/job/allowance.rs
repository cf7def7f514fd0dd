//! What a job may use on each of its hosts, all its processes there together. Control groups of the hosts enforce it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a job may use on each of its hosts; `None`: as much as there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Allowance {
    pub memory: Option<MemorySize>,
    pub cpus: Option<CpuAmount>,
}

/// A size of memory in bytes, of [`MemorySize::LEAST`] or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct MemorySize(u64);

/// An amount of CPU time in thousandths of one CPU, of [`CpuAmount::LEAST`] to [`CpuAmount::MOST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct CpuAmount(u32);

/// Why a value is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAllowance {
    #[error("it must be at least 1M")]
    Memory,
    #[error("it must be a number of CPUs from 0.01 to 100000")]
    Cpus,
}

impl Allowance {
    /// Whether the job has a limit.
    pub const fn is_bounded(&self) -> bool {
        self.memory.is_some() || self.cpus.is_some()
    }

    /// Whether that many ranks cannot have a CPU each.
    pub fn has_fewer_cpus_than(&self, ranks: usize) -> bool {
        self.cpus.is_some_and(|cpus| (cpus.0 as usize) < ranks.saturating_mul(1000))
    }
}

impl MemorySize {
    /// With less than this, no program starts.
    pub const LEAST: u64 = 1 << 20;

    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl CpuAmount {
    /// The kernel gives a group at least 1 ms in each 100 ms.
    pub const LEAST: u32 = 10;
    /// No host has so many CPUs.
    pub const MOST: u32 = 100_000_000;

    pub const fn thousandths(self) -> u32 {
        self.0
    }
}

impl TryFrom<u64> for MemorySize {
    type Error = InvalidAllowance;

    fn try_from(bytes: u64) -> Result<Self, InvalidAllowance> {
        if bytes < Self::LEAST { Err(InvalidAllowance::Memory) } else { Ok(Self(bytes)) }
    }
}

impl From<MemorySize> for u64 {
    fn from(size: MemorySize) -> Self {
        size.0
    }
}

impl TryFrom<u32> for CpuAmount {
    type Error = InvalidAllowance;

    fn try_from(thousandths: u32) -> Result<Self, InvalidAllowance> {
        match thousandths {
            Self::LEAST..=Self::MOST => Ok(Self(thousandths)),
            _ => Err(InvalidAllowance::Cpus),
        }
    }
}

impl From<CpuAmount> for u32 {
    fn from(cpus: CpuAmount) -> Self {
        cpus.0
    }
}

/// As the option is written: `4G`, `1536M`.
impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "G"), (20, "M"), (10, "K"), (0, "")];
        let fits = |&&(shift, _): &&(u32, &str)| self.0.trailing_zeros() >= shift;
        let (shift, unit) = units.iter().find(fits).copied().unwrap_or_default();
        write!(f, "{}{unit}", self.0 >> shift)
    }
}

/// As the option is written: `2`, `1.5`.
impl fmt::Display for CpuAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.0) / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_the_options_are_written() {
        let memory = |bytes| MemorySize::try_from(bytes).map(|size| size.to_string());
        assert_eq!(memory(4 << 30).as_deref(), Ok("4G"));
        assert_eq!(memory(1536 << 20).as_deref(), Ok("1536M"));
        assert_eq!(memory((1 << 20) + 1).as_deref(), Ok("1048577"));
        assert_eq!(memory(MemorySize::LEAST - 1), Err(InvalidAllowance::Memory));
        let cpus = |thousandths| CpuAmount::try_from(thousandths).map(|cpus| cpus.to_string());
        assert_eq!(cpus(1500).as_deref(), Ok("1.5"));
        assert_eq!(cpus(2000).as_deref(), Ok("2"));
        assert_eq!(cpus(9), Err(InvalidAllowance::Cpus));
    }

    #[test]
    fn a_limit_of_cpus_may_be_less_than_one_for_each_rank() {
        let has_fewer = |thousandths, ranks| {
            let cpus = CpuAmount::try_from(thousandths).ok();
            Allowance { memory: None, cpus }.has_fewer_cpus_than(ranks)
        };
        assert!(has_fewer(1999, 2) && !has_fewer(2000, 2));
        assert!(!Allowance::default().has_fewer_cpus_than(usize::MAX));
    }
}
