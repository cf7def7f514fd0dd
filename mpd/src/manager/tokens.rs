//! The tokens of descriptors.

pub(super) const DAEMON: usize = 0;
pub(super) const CONSOLE: usize = 1;
pub(super) const SIGNALS: usize = 2;
pub(super) const ADOPTED: usize = 3;
pub(super) const SHM_USERS: usize = 4;
pub(super) const MPI_USERS: usize = 5;
pub(super) const PMIX: usize = 6;
/// The first tokens of ranks, of PMIx clients, of outputs and of job links.
pub(super) const FIRST_RANK: usize = 8;
pub(super) const FIRST_PMIX: usize = 1 << 38;
pub(super) const FIRST_OUTPUT: usize = 1 << 39;
pub(super) const FIRST_LINK: usize = 1 << 40;
