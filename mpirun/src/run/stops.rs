//! ^Z and its end: the job is suspended before this process stops, and goes on behind it. Pure.

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Stops {
    /// The manager was asked to suspend the job.
    is_asked: bool,
    /// The job is suspended.
    is_suspended: bool,
    /// This process went on, and the SIGCONT that made it so is still to come.
    has_continued: bool,
}

impl Stops {
    /// The job is to be suspended.
    pub(super) const fn ask(&mut self) {
        self.is_asked = true;
    }

    /// The manager has suspended the job. Whether this process was waiting for that.
    pub(super) const fn suspended(&mut self) -> bool {
        self.is_suspended = std::mem::replace(&mut self.is_asked, false);
        self.is_suspended
    }

    /// This process was stopped and goes on. Whether the job is to go on with it.
    pub(super) const fn continued(&mut self) -> bool {
        self.has_continued = true;
        std::mem::replace(&mut self.is_suspended, false)
    }

    /// SIGCONT came. Whether it is the one that has made this process go on.
    pub(super) const fn is_own(&mut self) -> bool {
        std::mem::replace(&mut self.has_continued, false)
    }
}
