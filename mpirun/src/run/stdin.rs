//! How much of standard input may be sent. Pure.

/// See the module.
#[derive(Debug)]
pub(super) struct Stdin {
    credit: usize,
    is_wanted: bool,
    /// The ranks had less of it than there was.
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

    /// So many more may be sent.
    pub(super) const fn grant(&mut self, bytes: u32) {
        self.is_wanted = true;
        self.credit = self.credit.saturating_add(bytes as usize);
    }

    /// So many were sent.
    pub(super) const fn sent(&mut self, bytes: usize) {
        self.credit = self.credit.saturating_sub(bytes);
    }

    /// No rank wants any now.
    pub(super) const fn unwanted(&mut self) {
        self.is_wanted = false;
    }

    /// The job is submitted once more, and nothing was sent to it.
    pub(super) const fn restart(&mut self) {
        (self.credit, self.is_wanted) = (0, true);
    }

    /// It cannot be read to its end. Whether that is new.
    pub(super) const fn lose(&mut self) -> bool {
        !std::mem::replace(&mut self.is_lost, true)
    }

    /// Whether the ranks had less of it than there was.
    pub(super) const fn is_lost(&self) -> bool {
        self.is_lost
    }
}
