//! Whether this daemon takes new processes: users of its ring may drain it, and root may drain the host.

/// The answer to `mpddrain --undo` of a user on a host that root has drained.
pub(crate) const BY_ROOT: &str = "root has drained this host";

/// The reasons for which this daemon is draining.
#[derive(Debug, Default)]
pub(crate) struct Draining {
    by_user: bool,
    by_root: bool,
}

impl Draining {
    /// A user of the ring begins or ends it. The new state, and whether root's mark keeps it.
    pub(crate) const fn asked(&mut self, draining: bool) -> (bool, bool) {
        self.by_user = draining;
        (self.by_user || self.by_root, !draining && self.by_root)
    }

    /// Root has set or removed the mark of the host. The new state.
    pub(crate) const fn marked(&mut self, is_set: bool) -> bool {
        self.by_root = is_set;
        self.by_user || self.by_root
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_cannot_end_what_root_began_and_root_not_what_a_user_began() {
        let mut draining = Draining::default();
        assert!(draining.marked(true));
        assert_eq!(draining.asked(false), (true, true));
        assert_eq!(draining.asked(true), (true, false));
        assert!(draining.marked(false));
        assert_eq!(draining.asked(false), (false, false));
    }
}
