//! The progress of a boot: a bar on a terminal, or lines with `-v`.

use std::io::{IsTerminal as _, Write as _};

use crate::boot::Event;
use crate::cli::Cli;
use crate::complain::complain;
use crate::report::bar;

#[derive(Debug)]
pub(super) struct Progress {
    lines: bool,
    bar: bool,
    total: usize,
    done: usize,
    failed: usize,
}

impl Progress {
    /// `done` of the `total` hosts need no start.
    pub(super) fn new(cli: &Cli, total: usize, done: usize) -> Self {
        let is_wanted = !cli.verbose && !cli.private;
        let bar = std::io::stderr().is_terminal() && is_wanted && done < total;
        Self { lines: cli.verbose, bar, total, done, failed: 0 }
    }

    pub(super) fn show(&mut self, event: &Event) {
        match event {
            Event::Settled { .. } => self.done += 1,
            Event::Failed { .. } => self.failed += 1,
            Event::Starting { .. } | Event::Ready(_) | Event::Again { .. } => {}
        }
        if self.lines {
            complain(&event.to_string());
        }
        if self.bar {
            let _ = write!(std::io::stderr(), "\r{}", bar(self.total, self.done, self.failed));
        }
    }

    /// Removes the bar.
    pub(super) fn clear(&self) {
        if self.bar {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
