//! Slots, allocations, and the requests that wait for them.

mod library;
mod lives;
mod orders;
mod queue;
mod shrinking;
mod stress;

use crate::members::Members;
use crate::run::{Run, Running, wait_until};

impl Members {
    /// Daemons with this number of slots each.
    pub(crate) fn with_slots(count: usize, slots: u32) -> Self {
        Self::new().option(&["--slots", &slots.to_string()]).with(count)
    }

    fn alloc(&self, index: usize, arguments: &[&str]) -> Run {
        self.tool(index, "mpdalloc", arguments)
    }

    /// A line `HOST SLOTS USED FREE` for each host.
    fn slots(&self, index: usize) -> Vec<String> {
        let output = self.tool(index, "mpdslots", &[]).output();
        output.code(0).quiet();
        let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        output.out().lines().skip(1).map(line).collect()
    }

    /// The ids and states of all requests.
    fn queue(&self, index: usize) -> Vec<(String, String)> {
        let output = self.tool(index, "mpdqueue", &[]).output();
        output.code(0).quiet();
        let entry = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words[0].to_owned(), words[4..].join(" "))
        };
        output.out().lines().skip(1).map(entry).collect()
    }

    /// Waits until all slots are free and no request waits, and checks that only the daemons are left.
    fn all_is_free(&self, index: usize) {
        let is_free = || {
            self.queue(index).is_empty()
                && !self.slots(index).iter().any(|line| line.split(' ').nth(2) != Some("0"))
        };
        wait_until("all slots are free", is_free);
        self.only_daemons_are_left();
    }
}

impl Running {
    /// Waits until it has written this text to standard error.
    fn tells(&self, text: &str) -> &Self {
        wait_until(&format!("'{text}' is told"), || self.stderr().contains(text));
        self
    }
}
