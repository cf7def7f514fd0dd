//! The ranks get the same share of the CPUs as other programs of the same number, if the kernel shares the CPUs among sessions.
//!
//! All ranks are in the session of their manager (decision 23). So the manager gives the session more weight while it has
//! several ranks. Only root may do that, or a user with a limit for niceness.

use mpd_placement::niceness_of_session;

/// The weight changes when ranks have ended only if it is wrong by this many steps, which is a factor of two. Ranks may
/// start and end all the time.
const STEPS: i8 = 3;

/// The weight of the session.
#[derive(Debug, Default)]
pub(crate) struct CpuShare {
    /// The niceness of the session, as far as this manager has set it.
    niceness: i8,
    /// The system has refused a change.
    is_refused: bool,
}

impl CpuShare {
    /// The system has refused a change.
    pub(crate) const fn refuse(&mut self) {
        self.is_refused = true;
    }

    /// The niceness that the session gets, since so many ranks run or are about to start. `None`: it stays.
    pub(crate) fn change_for(&mut self, ranks: usize) -> Option<i8> {
        let wanted = niceness_of_session(ranks);
        let (more, less) = (wanted < self.niceness, wanted >= self.niceness + STEPS);
        if self.is_refused || !(more || less) {
            return None;
        }
        self.niceness = wanted;
        Some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weight_grows_at_once_and_falls_by_factors_of_two() {
        let mut share = CpuShare::default();
        assert_eq!(share.change_for(1), None, "a job of one rank costs nothing");
        assert_eq!(share.change_for(2), Some(-3));
        assert_eq!(share.change_for(3), Some(-5));
        assert_eq!(share.change_for(2), None);
        assert_eq!(share.change_for(1), Some(0));
        share.refuse();
        assert_eq!(share.change_for(64), None);
    }
}
