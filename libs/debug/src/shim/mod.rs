//! The launcher shim: the process between the manager and the program of a rank. The manager uses
//! it only if the rank has a terminal, if its crashes are traced, or if it runs under gdb.
//!
//! A shim has one control socket with one protocol (`mpd_wire::message::ShimOrder`, `ShimReport`;
//! docs/debugger.md, "Launcher shim"). The protocol is the same for all abilities:
//!
//! | ability | effect |
//! |---|---|
//! | terminal | the program runs on a pseudo-terminal; the shim relays bytes and sizes |
//! | tracing | a process of the program that crashes is stopped; gdb reads its stacks, or it is held |
//! | gdb | gdb starts the program or attaches to a process, and executes commands |
//!
//! Terminal and tracing combine. A process has one tracer at a time. When it crashes, the tracing
//! detaches from it. Then a gdb attaches: a child of the shim, or a debugger of the user.
//!
//! ```text
//!             Connected            Started              Ended             Drained, no crash waits
//!   Waiting ───────────► Starting ─────────► Running ─────────► Ending ───────────────────────► over
//!                            │ NotStarted                         ▲
//!                            └────────────────────────────────────┘
//! ```
//!
//! With the ability gdb there is one phase more, `Debugging`, from the first connection to
//! the end of gdb. The programs that gdb starts come and go in it.
//!
//! This machine decides. The process in `mpd/src/shim/` owns the descriptors. The [`crate::driver`]
//! translates between commands and gdb.

mod crashes;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use mpd_sansio::{Machine, Time, UNDRAINED};
use mpd_wire::job::Crash;
use mpd_wire::message::{MARK_CREDIT, ProgramEnd, ShimOrder, ShimReport, shim_text};

use self::crashes::Crashes;
pub use self::crashes::{LOOK_WITHIN, MAX_QUEUED};
pub use self::plan::Plan;

/// Most signals that wait for the start of the program.
const MAX_SIGNALS: usize = 16;

/// Numbers of signals, the same on all systems that the suite supports.
const SIGPIPE: u8 = 13;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;
const SIGTSTP: i32 = 20;
const SIGWINCH: i32 = 28;

/// The handling of crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracing {
    /// gdb reads the stacks, and the process dies.
    Stacks,
    /// The process is held until the manager continues it.
    Hold,
}

/// What a shim does for its program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// The program runs on a terminal.
    pub terminal: bool,
    /// Crashes are caught.
    pub tracing: Option<Tracing>,
    /// The program runs under gdb. It has neither of the other abilities.
    pub gdb: bool,
}

/// An input of a shim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The order [`ShimOrder::Connect`] came with a PMI connection, which the owner keeps.
    Connected,
    /// Another order.
    Order(ShimOrder),
    /// The control socket is closed.
    ManagerGone,
    /// A signal came to the shim's process.
    Signal(i32),
    /// The program runs as this process.
    Started(u32),
    /// A step of the start has failed with this error number.
    NotStarted(&'static str, i32),
    /// A process of the program is stopped because of this signal to its thread. Nothing traces it.
    Crashed {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        signal: i32,
    },
    /// A line of the driver of gdb, without newline. Only for a gdb that reads stacks.
    DebuggerLine(Vec<u8>),
    /// gdb's driver has sent a mark after this number of bytes of standard output.
    Marked {
        after: u64,
        /// The number of the command.
        serial: u32,
        state: Vec<u8>,
    },
    /// gdb has ended, or did not start. The owner has nothing of it any longer.
    GdbEnded,
    /// The program was reaped.
    Ended(ProgramEnd),
    /// All output of the terminal was passed on.
    Drained,
    /// Standard output has no reader.
    OutputLost,
}

/// An action for the owner of a shim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Start the program with the PMI connection.
    Start,
    /// Pass the PMI connection to gdb for the program's next run.
    PassConnection,
    /// Attach a gdb to this process.
    Attach(u32),
    /// Send these bytes of commands to the driver.
    Command(Vec<u8>),
    /// Send the driver a signal for its program.
    SignalDebugged(i32),
    /// Have the driver quit.
    QuitGdb,
    KillGdb,
    /// Send a signal to the program.
    Signal(i32),
    /// Set the size of the terminal.
    Resize(u16, u16),
    /// Let a crashed process die of its signal.
    LetDie(u32, i32),
    /// Pass on the rest of the terminal's output.
    Drain,
    /// Send a report.
    Report(ShimReport),
    /// Send what waits, and end in the same way.
    Exit(ProgramEnd),
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    /// No PMI connection came yet.
    Waiting,
    /// The owner starts the program.
    Starting,
    Running,
    /// The program has ended in this way. The terminal may have output.
    Ending {
        end: ProgramEnd,
        drained: bool,
    },
    /// gdb runs.
    Debugging,
    Over,
}

/// The machine; see the module.
#[derive(Debug)]
pub struct Shim {
    abilities: Abilities,
    phase: Phase,
    /// Signals that wait for the start.
    signals: Vec<i32>,
    /// The last size that the manager has sent.
    size: Option<(u16, u16)>,
    output_lost: bool,
    crashes: Crashes,
    /// Marks that wait for credit.
    marks: VecDeque<(u64, String)>,
    mark_credit: u32,
    outputs: VecDeque<Output>,
}

impl Shim {
    /// A shim without a program.
    pub fn new(abilities: Abilities) -> Self {
        Self {
            abilities,
            phase: if abilities.gdb { Phase::Debugging } else { Phase::Waiting },
            signals: Vec::new(),
            size: None,
            output_lost: false,
            crashes: Crashes::new(abilities.tracing),
            marks: VecDeque::new(),
            mark_credit: MARK_CREDIT,
            outputs: VecDeque::new(),
        }
    }

    /// Bytes of standard output, from the beginning, that may be written now. A mark without credit
    /// holds back the bytes after it.
    pub fn output_limit(&self) -> u64 {
        self.marks.front().map_or(u64::MAX, |(after, _)| *after)
    }

    /// The time at which [`Machine::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.crashes.deadline()
    }

    fn order(&mut self, order: ShimOrder) {
        match order {
            // The owner reports it as `Connected`, with its descriptor.
            ShimOrder::Connect => {}
            ShimOrder::Resize { columns, lines } => self.resize(columns, lines),
            ShimOrder::Signal { signal } => self.signal(signal),
            ShimOrder::Command { piece, last } => self.command(piece, last),
            ShimOrder::Continue { crashes } => {
                self.crashes.release(crashes, &mut self.outputs);
            }
            ShimOrder::Marks { more } => {
                self.mark_credit = self.mark_credit.saturating_add(more);
                self.send_marks();
            }
            ShimOrder::Quit if self.phase == Phase::Debugging => {
                self.outputs.push_back(Output::QuitGdb);
            }
            ShimOrder::Quit => {}
        }
    }

    fn connected(&mut self) {
        match self.phase {
            Phase::Waiting => {
                self.phase = Phase::Starting;
                self.outputs.push_back(Output::Start);
            }
            Phase::Debugging => self.outputs.push_back(Output::PassConnection),
            Phase::Starting | Phase::Running | Phase::Ending { .. } | Phase::Over => {}
        }
    }

    fn command(&mut self, piece: String, last: bool) {
        if self.phase != Phase::Debugging {
            return;
        }
        let more = u32::try_from(piece.len()).unwrap_or(u32::MAX);
        let mut bytes = piece.into_bytes();
        bytes.retain(|byte| *byte != b'\n');
        if last {
            bytes.push(b'\n');
        }
        self.outputs.push_back(Output::Command(bytes));
        self.report(ShimReport::Commands { more });
    }

    fn resize(&mut self, columns: u16, lines: u16) {
        self.size = Some((columns, lines));
        if self.abilities.terminal {
            self.outputs.push_back(Output::Resize(columns, lines));
        }
    }

    fn signal(&mut self, signal: i32) {
        match self.phase {
            Phase::Waiting | Phase::Starting => {
                if self.signals.len() < MAX_SIGNALS && !self.signals.contains(&signal) {
                    self.signals.push(signal);
                }
            }
            Phase::Running => self.signal_program(signal),
            Phase::Debugging => match signal {
                SIGTERM => self.outputs.push_back(Output::QuitGdb),
                // The manager stops and continues the processes itself.
                SIGTSTP | SIGCONT | SIGWINCH => {}
                signal => self.outputs.push_back(Output::SignalDebugged(signal)),
            },
            Phase::Ending { .. } | Phase::Over => {}
        }
    }

    fn signal_program(&mut self, signal: i32) {
        self.outputs.push_back(match self.size {
            // The kernel signals a new size itself.
            Some((columns, lines)) if signal == SIGWINCH && self.abilities.terminal => {
                Output::Resize(columns, lines)
            }
            _ => Output::Signal(signal),
        });
    }

    fn started(&mut self, pid: u32) {
        if self.phase != Phase::Starting {
            return;
        }
        self.phase = Phase::Running;
        self.report(ShimReport::Started { pid });
        for signal in std::mem::take(&mut self.signals) {
            self.signal_program(signal);
        }
    }

    fn ended(&mut self, end: ProgramEnd) {
        if matches!(self.phase, Phase::Starting | Phase::Running) {
            let has_run = !matches!(end, ProgramEnd::NotStarted { .. });
            let drained = !(has_run && self.abilities.terminal);
            if !drained {
                self.outputs.push_back(Output::Drain);
            }
            self.phase = Phase::Ending { end, drained };
            self.crashes.release_all(&mut self.outputs);
        }
    }

    fn drained(&mut self) {
        if let Phase::Ending { drained, .. } = &mut self.phase {
            *drained = true;
        }
    }

    fn manager_gone(&mut self) {
        self.crashes.close(&mut self.outputs);
        if self.phase == Phase::Debugging {
            self.outputs.push_back(Output::QuitGdb);
        }
    }

    fn output_lost(&mut self) {
        self.output_lost = true;
        if self.phase == Phase::Debugging {
            self.outputs.push_back(Output::QuitGdb);
        }
    }

    fn gdb_ended(&mut self, now: Time) {
        if self.phase == Phase::Debugging {
            return self.end(ProgramEnd::Exited(0));
        }
        if let Some(crash) = self.crashes.looked(now, &mut self.outputs) {
            self.report(ShimReport::Crashed(crash));
        }
    }

    fn marked(&mut self, after: u64, serial: u32, state: &[u8]) {
        if self.phase != Phase::Debugging {
            return self.crashes.marked(serial, &mut self.outputs);
        }
        let text = format!("{serial} {}", String::from_utf8_lossy(state));
        self.marks.push_back((after, shim_text(&text)));
        self.send_marks();
    }

    fn send_marks(&mut self) {
        while self.mark_credit > 0
            && let Some((after, text)) = self.marks.pop_front()
        {
            self.mark_credit -= 1;
            self.report(ShimReport::Mark { after, text });
        }
    }

    fn report(&mut self, report: ShimReport) {
        self.outputs.push_back(Output::Report(report));
    }

    fn end(&mut self, end: ProgramEnd) {
        // Marks that no credit covers are the last ones.
        self.mark_credit = u32::MAX;
        self.send_marks();
        self.phase = Phase::Over;
        self.report(ShimReport::Ended(end.clone()));
        self.outputs.push_back(Output::Exit(end));
    }

    /// Ends when nothing is left to do.
    fn settle(&mut self) {
        if let Phase::Ending { end, drained: true } = &self.phase
            && self.crashes.is_idle()
        {
            let end = match self.output_lost {
                true => ProgramEnd::Killed { signal: SIGPIPE, core: false },
                false => end.clone(),
            };
            self.end(end);
        }
    }
}

impl Machine for Shim {
    type Input = Input;
    type Output = Output;

    fn handle(&mut self, now: Time, input: Input) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        match input {
            Input::Connected => self.connected(),
            Input::Order(order) => self.order(order),
            Input::ManagerGone => self.manager_gone(),
            Input::Signal(signal) => self.signal(signal),
            Input::Started(pid) => self.started(pid),
            Input::NotStarted(step, errno) => {
                self.ended(ProgramEnd::NotStarted { step: step.to_owned(), errno });
            }
            Input::Crashed { pid, tid, signal } => {
                if self.crashes.add(now, pid, tid, signal, &mut self.outputs) {
                    self.report(ShimReport::Crashed(Crash::held(crashes::number(signal))));
                }
            }
            Input::DebuggerLine(line) => self.crashes.debugger_line(&line),
            Input::Marked { after, serial, state } => self.marked(after, serial, &state),
            Input::GdbEnded => self.gdb_ended(now),
            Input::Ended(end) => self.ended(end),
            Input::Drained => self.drained(),
            Input::OutputLost => self.output_lost(),
        }
        self.settle();
    }

    fn handle_timeout(&mut self, now: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        self.crashes.handle_timeout(now, &mut self.outputs);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}
