//! The ranks' share of the CPUs: as much as that of as many other programs, if the kernel shares the CPUs among sessions.
//!
//! All ranks are in the session of their manager (decision 23). So the manager gives the session more weight while it has
//! several ranks. Only root may do that, or a user with a limit for niceness.

use mpd_io::process::session_share::{niceness_of, set_niceness};

/// The weight changes when ranks have ended only if it is wrong by this many steps, which is a factor of two. Ranks may
/// start and end all the time.
const STEPS: i8 = 3;

/// The weight of the session.
#[derive(Debug, Default)]
pub(super) struct CpuShare {
    /// The niceness of the session, as far as this manager has set it.
    niceness: i8,
    /// The system has refused a change.
    is_refused: bool,
}

impl CpuShare {
    /// Makes the weight fit the number of ranks that run or are about to start.
    pub(super) fn fit(&mut self, ranks: usize) {
        let Some(niceness) = self.change_for(ranks) else { return };
        match set_niceness(niceness) {
            Ok(()) => self.niceness = niceness,
            Err(e) => {
                log::debug!("the ranks of this host have one session's share of its CPUs: {e}");
                self.is_refused = true;
            }
        }
    }

    fn change_for(&self, ranks: usize) -> Option<i8> {
        let wanted = niceness_of(ranks);
        let (more, less) = (wanted < self.niceness, wanted >= self.niceness + STEPS);
        (!self.is_refused && (more || less)).then_some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weight_grows_at_once_and_falls_by_factors_of_two() {
        let of = |niceness| CpuShare { niceness, is_refused: false };
        assert_eq!(of(0).change_for(1), None, "a job of one rank costs nothing");
        assert_eq!(of(0).change_for(2), Some(-3));
        assert_eq!(of(-3).change_for(3), Some(-5));
        assert_eq!(of(-5).change_for(2), None);
        assert_eq!(of(-5).change_for(1), Some(0));
        assert_eq!(CpuShare { niceness: 0, is_refused: true }.change_for(64), None);
    }
}
