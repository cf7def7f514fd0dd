//! The prompt of a parallel debugger. The user's commands go to the debuggers of the addressed
//! ranks, and their lines are shown with their ranks before them. The prompt does not guess from
//! text when the prompt is due: each debugger marks the end of each answer.
//!
//! | file | subject |
//! |---|---|
//! | `debugger_line` | lines of the job |
//! | `ranks` | the state of each debugger |
//! | `command` | the meaning of a typed line |
//! | `script` | commands that are executed before the user's |
//! | `display` | labels |
//! | `restart` | the common restart of all ranks |
//! | `spawned` | ranks that programs spawn |
//! | `user` | lines, ^C and the end of the user's input |
//!
//! No function here waits. The owner drives [`Prompt`] like the other machines, by `handle`,
//! `handle_timeout`, `poll_output` and `poll_timeout`.

mod command;
mod debugger_line;
mod display;
mod ranks;
mod restart;
mod script;
mod spawned;
mod user;

use std::collections::VecDeque;
use std::time::Duration;

use crate::numbers::Numbers;
use mpd_sansio::{Time, UNDRAINED};
use mpd_wire::RankSet;
use mpd_wire::message::MAX_DEBUG_LINE;

pub use debugger_line::{Content, DebuggerLine, Mark, State};
use display::Display;
use ranks::Ranks;
pub use script::Script;

/// If some addressed ranks are ready and others run for this time, the user gets a hint.
pub const HINT_AFTER: Duration = Duration::from_secs(1);

/// A second ^C within this time after the first ends the job.
pub const TWICE_WITHIN: Duration = Duration::from_secs(2);

/// The time for which the prompt waits for completions.
pub const COMPLETE_WITHIN: Duration = Duration::from_secs(2);

/// The time in which the job must end after `quit`. After it the job is killed.
pub const QUIT_WITHIN: Duration = Duration::from_secs(10);

/// Most completions that are shown.
const MAX_COMPLETIONS: usize = 2000;

/// Most bytes of a command: its line also has a serial number and a word.
const MAX_TYPED: usize = MAX_DEBUG_LINE - 32;

/// Most lines that wait for the prompt.
const MAX_AHEAD: usize = 1000;

/// Most groups of ranks that `z ?` shows.
const MAX_GROUPS: usize = 200;

/// An input of the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// The user typed a line; the newline is removed.
    Line(&'a str),
    /// The user's input has ended, or the user typed ^D on a terminal.
    EndOfInput,
    /// ^C.
    Interrupt,
    /// The user asks for completions of this text: answered by [`Output::Completions`].
    Complete(&'a str),
    /// A line of the job, without its newline.
    DebuggerLine(&'a [u8]),
    /// The action of [`Output::Restart`] is done.
    Restarted,
    /// The job is over, for any reason.
    JobEnded,
}

/// An action for the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Show these bytes as they are.
    Print(Vec<u8>),
    /// The same for a refusal: print it to standard error if that is not the terminal.
    Complain(Vec<u8>),
    /// A line for the user that does not come from the job, to be shown without the program's name.
    Note(String),
    /// Show the prompt, and read a line.
    Prompt,
    /// The prompt is no longer wanted.
    NoPrompt,
    /// Ask the user: the next [`Input::Line`] is the answer. The text has no newline after it.
    Ask(String),
    /// The completions of the text of [`Input::Complete`], as whole lines.
    Completions(Vec<String>),
    /// Send this line to the debuggers of these ranks.
    Send {
        /// The ranks, by the debuggers' own numbers.
        ranks: RankSet,
        line: String,
    },
    /// The programs were killed: renew the data that they share.
    Restart,
    /// End the job at once.
    Kill,
}

/// Settings of the prompt.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The numbers of the ranks.
    pub numbers: Numbers,
    /// Whether the programs ran before, and continue after the session.
    pub attached: bool,
    /// Whether a user types. If so, lines belong to the program while it runs, and empty lines
    /// repeat the last command.
    pub terminal: bool,
    /// Whether the session ends after the script.
    pub batch: bool,
    /// The commands before the user's own.
    pub script: Script,
}

/// The phase of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The usual phase.
    Session,
    /// All programs are being killed for a restart.
    Killing,
    /// The data that they share are being renewed.
    Renewing,
    /// The debuggers have the command to quit.
    Leaving,
    /// The job is being killed.
    Dying,
    /// The job is over.
    Over,
}

#[derive(Debug)]
struct Completing {
    serial: u32,
    ranks: RankSet,
    found: Vec<String>,
    until: Time,
}

/// The machine. The module's documentation describes it.
#[derive(Debug)]
pub struct Prompt {
    settings: Settings,
    phase: Phase,
    ranks: Ranks,
    addressed: RankSet,
    serial: u32,
    display: Display,
    /// The prompt is shown.
    prompted: bool,
    /// The user was asked a question.
    asking: bool,
    /// Lines that wait for the prompt.
    ahead: VecDeque<String>,
    /// The user's input ends after these lines.
    ended: bool,
    /// The meaning of an empty line.
    last: Option<String>,
    /// The command that starts all programs again.
    again: String,
    /// Commands that spawned ranks get before they start.
    breakpoints: Vec<String>,
    interrupted: Option<Time>,
    /// The time since which some ranks are ready and others are not, unless the hint was given.
    mixed: Option<Time>,
    hinted: bool,
    /// The stops of programs that ran before were shown.
    has_shown_where: bool,
    completing: Option<Completing>,
    left: Option<Time>,
    outputs: VecDeque<Output>,
}

impl Prompt {
    /// A session whose debuggers will start next.
    pub fn new(settings: Settings) -> Self {
        Self {
            phase: Phase::Session,
            ranks: Ranks::new(settings.numbers.everybody()),
            addressed: settings.numbers.everybody().clone(),
            settings,
            serial: 0,
            display: Display::default(),
            prompted: false,
            asking: false,
            ahead: VecDeque::new(),
            ended: false,
            last: None,
            again: String::new(),
            breakpoints: Vec::new(),
            interrupted: None,
            mixed: None,
            hinted: false,
            has_shown_where: false,
            completing: None,
            left: None,
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input. Drain [`Prompt::poll_output`] before the next.
    pub fn handle(&mut self, now: Time, input: Input<'_>) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        if self.phase == Phase::Over {
            return;
        }
        match input {
            Input::Line(line) => self.line(now, line),
            Input::EndOfInput => self.end_of_input(now),
            Input::Interrupt => self.interrupt(now),
            Input::Complete(text) => self.complete(now, text),
            Input::DebuggerLine(line) => self.debugger_line(line),
            Input::Restarted => self.restarted(),
            Input::JobEnded => return self.job_ended(),
        }
        self.settle(now);
    }

    /// Does the work that is due.
    pub fn handle_timeout(&mut self, now: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        if self.poll_timeout().is_none_or(|at| at > now) {
            return;
        }
        if self.mixed.is_some_and(|since| since + HINT_AFTER <= now) {
            self.mixed = None;
            self.hint();
        }
        if self.completing.as_ref().is_some_and(|completing| completing.until <= now) {
            self.completed();
        }
        if self.left.is_some_and(|since| since + QUIT_WITHIN <= now) {
            self.note("the debuggers do not end; they are killed".into());
            self.die();
        }
    }

    /// The time at which [`Prompt::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.phase == Phase::Over {
            return None;
        }
        let hint = self.mixed.map(|since| since + HINT_AFTER);
        let completing = self.completing.as_ref().map(|completing| completing.until);
        let quit = self.left.map(|since| since + QUIT_WITHIN);
        [hint, completing, quit].into_iter().flatten().min()
    }

    /// The next action.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Whether a line would be executed at once. Lines from a file or pipe should wait until then.
    pub const fn takes_lines(&self) -> bool {
        self.prompted || self.asking
    }

    /// The exit code, if the user or the script has ended the session. Then the job's exit code
    /// does not count.
    pub fn exit_code(&self) -> Option<u8> {
        let has_failed = self.settings.batch && self.settings.script.has_failed();
        self.left.is_some().then(|| u8::from(has_failed))
    }

    // ----- the job -----

    fn debugger_line(&mut self, line: &[u8]) {
        let DebuggerLine { ranks, content } = DebuggerLine::parse(line, &self.settings.numbers);
        match content {
            Content::Program(text) => {
                let shown = self.display.program(&ranks, text);
                self.outputs.push_back(Output::Print(shown));
            }
            Content::Piece(text) => {
                let shown = self.display.piece(&ranks, text, self.prompted);
                self.outputs.push_back(Output::Print(shown));
            }
            Content::Text(text) | Content::Stack(text) => {
                let shown = self.display.line(&ranks, text);
                self.outputs.push_back(Output::Print(shown));
            }
            Content::Refusal(text) => {
                self.settings.script.refuse();
                let shown = self.display.line(&ranks, text);
                self.outputs.push_back(Output::Complain(shown));
            }
            Content::Foreign(text) => {
                let shown = self.display.plain(text);
                self.outputs.push_back(Output::Print(shown));
            }
            Content::Completion(text) => self.completion(&ranks, text),
            Content::Mark(mark) => self.mark(&ranks, &mark),
        }
    }

    fn mark(&mut self, ranks: &RankSet, mark: &Mark) {
        let spawned = self.admit_spawned(ranks, mark);
        let ended = self.ranks.answer(ranks, mark);
        self.address_living();
        self.start_spawned(&spawned);
        if !ended.is_empty() && !matches!(self.phase, Phase::Leaving | Phase::Dying) {
            let debuggers = if ended.count() == 1 { "debugger" } else { "debuggers" };
            let whose = rank_or_ranks(&ended);
            self.note(format!(
                "the {debuggers} of {whose} {ended} ended: no command gets there any more"
            ));
        }
        let is_answer =
            |asked: &Completing| mark.serial >= asked.serial && asked.ranks.is_within(ranks);
        if self.completing.as_ref().is_some_and(is_answer) {
            self.completed();
        }
    }

    fn job_ended(&mut self) {
        // A job that did not begin has already given the reason.
        if self.left.is_none() && self.phase != Phase::Dying && self.ranks.have_begun() {
            self.note("the job has ended".into());
        }
        self.completed();
        if std::mem::take(&mut self.prompted) {
            self.outputs.push_back(Output::NoPrompt);
        }
        self.asking = false;
        self.phase = Phase::Over;
    }

    // ----- completion -----

    fn complete(&mut self, now: Time, text: &str) {
        self.completed();
        let ready = self.ranks.ready(&self.addressed);
        let Some(lowest) = ready.ranks().next().filter(|_| text.len() <= MAX_TYPED) else {
            return self.outputs.push_back(Output::Completions(Vec::new()));
        };
        let ranks: RankSet = [lowest].into_iter().collect();
        // The prompt does not wait for the mark: the prompt stays.
        let serial = self.report(&ranks, "complete", text);
        let until = now + COMPLETE_WITHIN;
        self.completing = Some(Completing { serial, ranks, found: Vec::new(), until });
    }

    fn completion(&mut self, ranks: &RankSet, text: &[u8]) {
        let Some(completing) = &mut self.completing else { return };
        if completing.ranks.is_within(ranks) && completing.found.len() < MAX_COMPLETIONS {
            completing.found.push(String::from_utf8_lossy(text).into_owned());
        }
    }

    fn completed(&mut self) {
        let Some(Completing { found, .. }) = self.completing.take() else { return };
        self.outputs.push_back(Output::Completions(found));
    }

    // ----- used by both -----

    /// Sends a line without expecting a mark. Returns its serial number.
    fn report(&mut self, ranks: &RankSet, word: &str, text: &str) -> u32 {
        self.serial += 1;
        let space = if text.is_empty() { "" } else { " " };
        let line = format!("{} {word}{space}{text}", self.serial);
        let ranks = self.settings.numbers.own(ranks);
        self.outputs.push_back(Output::Send { ranks, line });
        self.serial
    }

    /// Sends a command, which is answered by a mark, to those of the ranks that still have a
    /// debugger.
    fn ask(&mut self, ranks: &RankSet, word: &str, text: &str) {
        let ranks = self.ranks.live(ranks);
        if !ranks.is_empty() {
            let serial = self.report(&ranks, word, text);
            self.ranks.ask(&ranks, serial);
        }
    }

    fn note(&mut self, text: String) {
        let fresh = self.display.fresh();
        if !fresh.is_empty() {
            self.outputs.push_back(Output::Print(fresh));
        }
        self.outputs.push_back(Output::Note(text));
    }

    /// Ends the job.
    fn die(&mut self) {
        self.left = None;
        self.phase = Phase::Dying;
        self.outputs.push_back(Output::Kill);
    }

    /// Takes the next step after a change.
    fn settle(&mut self, now: Time) {
        self.go_on_restarting();
        while self.phase == Phase::Session
            && !self.asking
            && !self.prompted
            && self.ranks.are_ready(&self.addressed)
        {
            (self.mixed, self.hinted) = (None, false);
            if self.settings.attached && !std::mem::replace(&mut self.has_shown_where, true) {
                self.show_groups();
            }
            if let Some(problem) = self.settings.script.settle() {
                self.note(problem);
            }
            if let Some(command) = self.settings.script.next() {
                self.command(now, &command);
            } else if self.settings.batch {
                self.quit(now);
            } else if let Some(line) = self.ahead.pop_front() {
                self.command(now, &line);
            } else if self.ended {
                self.quit(now);
            } else {
                self.show_prompt();
            }
            self.go_on_restarting();
        }
        self.watch_mixture(now);
    }

    fn show_prompt(&mut self) {
        let fresh = self.display.fresh();
        if !fresh.is_empty() {
            self.outputs.push_back(Output::Print(fresh));
        }
        (self.prompted, self.interrupted) = (true, None);
        self.outputs.push_back(Output::Prompt);
    }

    // ----- some are ready and others are not -----

    fn watch_mixture(&mut self, now: Time) {
        let waits = self.phase == Phase::Session
            && !self.prompted
            && !self.hinted
            && self.settings.terminal;
        let is_mixed = waits
            && !self.ranks.busy(&self.addressed).is_empty()
            && !self.ranks.ready(&self.addressed).is_empty();
        match is_mixed {
            true => self.mixed = self.mixed.or(Some(now)),
            false => self.mixed = None,
        }
    }

    fn hint(&mut self) {
        self.hinted = true;
        let ready = self.ranks.ready(&self.addressed);
        let busy = self.ranks.busy(&self.addressed);
        let (are, run) = (
            if ready.count() == 1 { "is" } else { "are" },
            if busy.count() == 1 { "runs" } else { "run" },
        );
        self.note(format!(
            "{} {ready} {are} ready, {busy} still {run}: ^C interrupts {busy}, and 'z {ready}' addresses those that are ready alone",
            rank_or_ranks(&ready)
        ));
    }
}

fn rank_or_ranks(ranks: &RankSet) -> &'static str {
    if ranks.count() == 1 { "rank" } else { "ranks" }
}

#[cfg(test)]
mod tests;
