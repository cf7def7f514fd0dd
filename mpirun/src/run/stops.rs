//! ^Z: the job is suspended before this process stops, and continued after it. Pure.

/// The state of suspensions.
#[derive(Debug, Default)]
pub(super) struct Stops {
    /// Whether the manager was asked to suspend the job.
    is_asked: bool,
    /// Whether the job is suspended.
    is_suspended: bool,
    /// Whether this process was continued, and the SIGCONT that did it has not been handled.
    has_continued: bool,
}

impl Stops {
    /// Notes that the job is being suspended.
    pub(super) const fn ask(&mut self) {
        self.is_asked = true;
    }

    /// Handles the suspension of the job. Returns whether this process waited for it.
    pub(super) const fn suspended(&mut self) -> bool {
        self.is_suspended = std::mem::replace(&mut self.is_asked, false);
        self.is_suspended
    }

    /// Handles the end of this process's stop. Returns whether to continue the job.
    pub(super) const fn continued(&mut self) -> bool {
        self.has_continued = true;
        std::mem::replace(&mut self.is_suspended, false)
    }

    /// Handles SIGCONT. Returns whether this signal has continued this process.
    pub(super) const fn is_own(&mut self) -> bool {
        std::mem::replace(&mut self.has_continued, false)
    }
}
