//! The write admission of one output. All ranks write in turn while lines are whole. A rank in the
//! middle of a line writes alone. While the output is full, no rank writes.
//!
//! The caller asks the write admission *before* it reads a rank's pipe, so bytes that were read never have to
//! wait.

/// If more bytes than this wait for the output, no source is read for it.
pub const MAX_WAITING: usize = 256 * 1024;

/// The write admission of one output. The caller numbers the sources (rank and stream).
#[derive(Debug)]
pub struct WriteAdmission {
    most: usize,
    owner: Option<u32>,
    waiting: usize,
    closed: bool,
}

impl Default for WriteAdmission {
    fn default() -> Self {
        Self::new(MAX_WAITING)
    }
}

impl WriteAdmission {
    /// A write admission that admits no source while `most` bytes wait.
    pub const fn new(most: usize) -> Self {
        Self { most, owner: None, waiting: 0, closed: false }
    }

    /// Whether `source` may be read now.
    pub fn admits(&self, source: u32) -> bool {
        self.closed || (self.waiting < self.most && self.owner.is_none_or(|o| o == source))
    }

    /// `source` wrote a record; `open` tells whether its last line is unfinished.
    pub fn wrote(&mut self, source: u32, open: bool) {
        if open {
            self.owner = Some(source);
        } else if self.owner == Some(source) {
            self.owner = None;
        }
    }

    /// Sets the number of bytes that now wait for the output.
    pub fn set_waiting(&mut self, bytes: usize) {
        self.waiting = bytes;
    }

    /// The number of bytes that wait for the output.
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// The output is gone: bytes for it are discarded, so every source may be read.
    pub fn close(&mut self) {
        self.closed = true;
        self.owner = None;
        self.waiting = 0;
    }

    /// Whether the output is gone.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_in_the_middle_of_a_line_has_the_output_alone() {
        let mut write_admission = WriteAdmission::default();
        write_admission.wrote(3, true);
        assert!(write_admission.admits(3) && !write_admission.admits(4));
        write_admission.wrote(3, false);
        assert!(write_admission.admits(4));
    }

    #[test]
    fn a_full_output_admits_no_source_and_a_closed_one_every_source() {
        let mut write_admission = WriteAdmission::default();
        write_admission.set_waiting(MAX_WAITING);
        assert!(!write_admission.admits(0));
        write_admission.close();
        assert!(write_admission.admits(0));
    }
}
