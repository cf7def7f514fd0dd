//! The progress of a boot: a bar on a terminal, or lines with `-v`.

use mpd_boot::boot::Event;
use mpd_io::terminal::progress::ProgressLine;

use crate::cli::Cli;
use crate::complain::complain;
use crate::report::bar;

#[derive(Debug)]
pub(super) struct Progress {
    lines: bool,
    bar: ProgressLine,
    total: usize,
    done: usize,
    failed: usize,
}

impl Progress {
    /// `done` of the `total` hosts need no start.
    pub(super) fn new(cli: &Cli, total: usize, done: usize) -> Self {
        let is_wanted = !cli.verbose && !cli.quiet && !cli.private && done < total;
        let bar = ProgressLine::new(is_wanted);
        Self { lines: cli.verbose, bar, total, done, failed: 0 }
    }

    pub(super) fn show(&mut self, event: &Event) {
        match event {
            Event::Settled { .. } => self.done += 1,
            Event::Failed { .. } => self.failed += 1,
            Event::Starting { .. }
            | Event::Reached { .. }
            | Event::Ready(_)
            | Event::Again { .. } => {}
        }
        if self.lines {
            complain(&event.to_string());
        }
        self.bar.show(&bar(self.total, self.done, self.failed));
    }

    /// Removes the bar.
    pub(super) fn clear(&mut self) {
        self.bar.clear();
    }
}
