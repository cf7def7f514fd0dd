//! Crashed processes of the program. Each one is stopped, and nothing traces it. Either a gdb reads
//! its stacks and it dies, one process after the other; or it is held until the manager continues it.

use std::collections::VecDeque;
use std::time::Duration;

use mpd_sansio::Time;
use mpd_wire::job::{Crash, MAX_STACKS};

use super::{Output, Tracing};

/// The time in which gdb must read the stacks of a process.
pub const LOOK_WITHIN: Duration = Duration::from_secs(20);

/// Most crashed processes that wait. Further ones die at once.
pub const MAX_QUEUED: usize = 64;

/// The serial numbers of the commands to gdb. 0 is the attachment.
const STACKS: u32 = 1;
const QUIT: u32 = 2;

/// Processes that crashed.
#[derive(Debug)]
pub(super) struct Crashes {
    /// `None`: all further ones die at once.
    tracing: Option<Tracing>,
    /// Those that wait: for gdb, or for the manager.
    waiting: VecDeque<Crashed>,
    /// How many held processes were released.
    released: u32,
    look: Option<Look>,
}

#[derive(Clone, Copy, Debug)]
struct Crashed {
    pid: u32,
    tid: u32,
    signal: i32,
}

/// A gdb that reads the stacks of a process.
#[derive(Debug)]
struct Look {
    of: Crashed,
    crash: Crash,
    /// `None` after gdb was killed.
    until: Option<Time>,
}

impl Crashes {
    pub(super) const fn new(tracing: Option<Tracing>) -> Self {
        Self { tracing, waiting: VecDeque::new(), released: 0, look: None }
    }

    /// Whether gdb is done with all processes.
    pub(super) fn is_idle(&self) -> bool {
        self.look.is_none() && self.waiting.is_empty()
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.look.as_ref().and_then(|look| look.until)
    }

    /// Takes a process that crashed. Returns whether it is held, and the manager gets a report.
    pub(super) fn add(
        &mut self,
        now: Time,
        pid: u32,
        tid: u32,
        signal: i32,
        outputs: &mut VecDeque<Output>,
    ) -> bool {
        let crashed = Crashed { pid, tid, signal };
        let Some(tracing) = self.tracing.filter(|_| self.waiting.len() < MAX_QUEUED) else {
            crashed.die(outputs);
            return false;
        };
        self.waiting.push_back(crashed);
        if tracing == Tracing::Stacks {
            self.look_at_next(now, outputs);
        }
        tracing == Tracing::Hold
    }

    /// The manager has received this number of reports of held processes, and continues these
    /// processes.
    pub(super) fn release(&mut self, crashes: u32, outputs: &mut VecDeque<Output>) {
        while self.tracing == Some(Tracing::Hold)
            && self.released < crashes
            && let Some(crashed) = self.waiting.pop_front()
        {
            self.released += 1;
            crashed.die(outputs);
        }
    }

    /// The program has ended: no process is held any longer.
    pub(super) fn release_all(&mut self, outputs: &mut VecDeque<Output>) {
        if self.tracing == Some(Tracing::Hold) {
            self.close(outputs);
        }
    }

    /// The manager is gone: nothing can report a crash or continue a process.
    pub(super) fn close(&mut self, outputs: &mut VecDeque<Output>) {
        self.tracing = None;
        self.waiting.drain(..).for_each(|crashed| crashed.die(outputs));
    }

    fn look_at_next(&mut self, now: Time, outputs: &mut VecDeque<Output>) {
        if self.look.is_none()
            && let Some(of) = self.waiting.pop_front()
        {
            let crash = Crash { held: false, ..Crash::held(number(of.signal)) };
            self.look = Some(Look { of, crash, until: Some(now + LOOK_WITHIN) });
            outputs.push_back(Output::Attach(of.pid));
        }
    }

    /// A line of gdb's driver.
    pub(super) fn debugger_line(&mut self, line: &[u8]) {
        let Some(Look { crash, .. }) = &mut self.look else { return };
        let Some((kind, text)) = line.split_first() else { return };
        let text = || String::from_utf8_lossy(text).into_owned();
        match kind {
            b'#' if crash.stacks.len() < MAX_STACKS => crash.stacks.push(text()),
            b'!' if crash.problem.is_none() => crash.problem = Some(text()),
            _of_no_interest => {}
        }
    }

    /// gdb has answered a command.
    pub(super) fn marked(&mut self, serial: u32, outputs: &mut VecDeque<Output>) {
        let Some(Look { of, until: Some(_), .. }) = &self.look else { return };
        let command = match serial {
            0 => format!("{STACKS} stacks {}\n", of.tid),
            STACKS => format!("{QUIT} quit\n"),
            _ => return,
        };
        outputs.push_back(Output::Command(command.into_bytes()));
    }

    /// gdb has ended. Returns its result, and lets the process die.
    pub(super) fn looked(&mut self, now: Time, outputs: &mut VecDeque<Output>) -> Option<Crash> {
        let Look { of, mut crash, .. } = self.look.take()?;
        crash.shorten();
        of.die(outputs);
        self.look_at_next(now, outputs);
        Some(crash)
    }

    pub(super) fn handle_timeout(&mut self, now: Time, outputs: &mut VecDeque<Output>) {
        if let Some(look) = &mut self.look
            && look.until.is_some_and(|until| until <= now)
        {
            look.until = None;
            let problem = || "gdb did not read the stacks in time".to_owned();
            look.crash.problem.get_or_insert_with(problem);
            outputs.push_back(Output::KillGdb);
        }
    }
}

impl Crashed {
    fn die(self, outputs: &mut VecDeque<Output>) {
        outputs.push_back(Output::LetDie(self.pid, self.signal));
    }
}

/// The number of a signal, as a report has it.
pub(super) fn number(signal: i32) -> u8 {
    u8::try_from(signal).unwrap_or(0)
}
