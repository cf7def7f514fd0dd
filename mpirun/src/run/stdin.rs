//! The flow control of standard input. Pure.

/// The state of standard input.
#[derive(Debug)]
pub(super) struct Stdin {
    credit: usize,
    is_wanted: bool,
    /// Whether the ranks got less input than there was.
    is_lost: bool,
}

impl Default for Stdin {
    fn default() -> Self {
        Self { credit: 0, is_wanted: true, is_lost: false }
    }
}

impl Stdin {
    /// Bytes that may be sent now.
    pub(super) const fn credit(&self) -> usize {
        if self.is_wanted { self.credit } else { 0 }
    }

    /// Permits `bytes` more.
    pub(super) const fn grant(&mut self, bytes: u32) {
        self.is_wanted = true;
        self.credit = self.credit.saturating_add(bytes as usize);
    }

    /// Counts `bytes` that were sent.
    pub(super) const fn sent(&mut self, bytes: usize) {
        self.credit = self.credit.saturating_sub(bytes);
    }

    /// Handles the report that no rank reads input now.
    pub(super) const fn unwanted(&mut self) {
        self.is_wanted = false;
    }

    /// Handles a second submission of the job, to which nothing was sent.
    pub(super) const fn restart(&mut self) {
        (self.credit, self.is_wanted) = (0, true);
    }

    /// Notes that the input cannot be read to its end. Returns whether that is new.
    pub(super) const fn lose(&mut self) -> bool {
        !std::mem::replace(&mut self.is_lost, true)
    }

    /// Whether the ranks got less input than there was.
    pub(super) const fn is_lost(&self) -> bool {
        self.is_lost
    }
}
