//! The front of a parallel debugger: what the user types goes to the debuggers of the addressed ranks, and
//! what they say is shown with their ranks in front. Whether the prompt is wanted is not guessed from
//! text: each debugger marks the end of each answer.
//!
//! | file | subject |
//! |---|---|
//! | `said` | lines of the job |
//! | `ranks` | how far each debugger is |
//! | `command` | what a typed line asks for |
//! | `script` | commands that come before the user's |
//! | `display` | labels |
//! | `restart` | all ranks start again, together |
//! | `user` | lines, ^C and the end of the user's input |
//!
//! Nothing here waits: [`Front`] is driven like the other machines, by `handle`, `handle_timeout`,
//! `poll_output` and `poll_timeout`.

mod command;
mod display;
mod ranks;
mod restart;
mod said;
mod script;
mod user;

use std::collections::VecDeque;
use std::time::Duration;

use crate::numbers::Numbers;
use mpd_machine::{Time, UNDRAINED};
use mpd_wire::RankSet;
use mpd_wire::message::MAX_DEBUG_LINE;

use display::Display;
use ranks::Ranks;
pub use said::{Mark, Said, State, What};
pub use script::Script;

/// How long some addressed ranks may be ready and others run before the user is told what can be done.
pub const HINT_AFTER: Duration = Duration::from_secs(1);

/// A second ^C this soon after the first means the job.
pub const TWICE_WITHIN: Duration = Duration::from_secs(2);

/// How long completions are waited for.
pub const COMPLETE_WITHIN: Duration = Duration::from_secs(2);

/// How long the job may take to end after `quit`; then it is killed.
pub const QUIT_WITHIN: Duration = Duration::from_secs(10);

/// Most completions that are shown.
const MAX_COMPLETIONS: usize = 2000;

/// Most bytes of a command: beside them a line has a serial number and a word.
const MAX_TYPED: usize = MAX_DEBUG_LINE - 32;

/// Most lines that wait for the prompt.
const MAX_AHEAD: usize = 1000;

/// Most groups of ranks that `z ?` shows.
const MAX_GROUPS: usize = 200;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// The user typed a line; it is without its newline.
    Line(&'a str),
    /// There is no more input of the user, or on a terminal its ^D.
    EndOfInput,
    /// ^C.
    Interrupt,
    /// The user wants to know how this text could go on: [`Output::Completions`].
    Complete(&'a str),
    /// A line of the job, without its newline.
    Said(&'a [u8]),
    /// What [`Output::Restart`] asked for is done.
    Restarted,
    /// The job is over, for whatever reason.
    JobEnded,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Show these bytes as they are.
    Print(Vec<u8>),
    /// The same, of what was refused: on standard error, where that is not the terminal.
    Complain(Vec<u8>),
    /// A line for the user that is not of the job: without the program's name in front.
    Note(String),
    /// Show the prompt, and read a line.
    Prompt,
    /// The prompt is not wanted any more.
    NoPrompt,
    /// Ask the user: the next [`Input::Line`] is the answer. Without a newline behind it.
    Ask(String),
    /// How the text of [`Input::Complete`] could go on, or begin again: whole lines.
    Completions(Vec<String>),
    /// This line is for the debuggers of these ranks.
    Send {
        /// Whose: by the debuggers' own numbers.
        ranks: RankSet,
        /// What.
        line: String,
    },
    /// The programs are killed: begin anew what they share.
    Restart,
    /// End the job at once.
    Kill,
}

/// How the front is used.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The ranks, and what they are called.
    pub numbers: Numbers,
    /// The programs ran before, and go on behind the session.
    pub attached: bool,
    /// Whether a person types: then lines are the program's while it runs, and empty ones repeat the last command.
    pub terminal: bool,
    /// Whether the session ends behind the script.
    pub batch: bool,
    /// What is done before the user's own commands.
    pub script: Script,
}

/// Between the user and the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The usual one.
    Session,
    /// All programs are killed, to be started again.
    Killing,
    /// What they share is made anew.
    Renewing,
    /// The debuggers were told to end.
    Leaving,
    /// Everything is told to end.
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

/// The machine. See the module.
#[derive(Debug)]
pub struct Front {
    settings: Settings,
    phase: Phase,
    ranks: Ranks,
    addressed: RankSet,
    serial: u32,
    display: Display,
    /// The prompt is shown.
    prompted: bool,
    /// The user was asked something.
    asking: bool,
    /// Lines that wait for the prompt.
    ahead: VecDeque<String>,
    /// The user's input ends behind them.
    ended: bool,
    /// What an empty line means.
    last: Option<String>,
    /// The command that starts all programs again.
    again: String,
    interrupted: Option<Time>,
    /// Since when some are ready and others are not, unless that was said already.
    mixed: Option<Time>,
    hinted: bool,
    /// It was said where programs stood that ran before.
    has_shown_where: bool,
    completing: Option<Completing>,
    left: Option<Time>,
    outputs: VecDeque<Output>,
}

impl Front {
    /// A session whose debuggers are about to start.
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
            interrupted: None,
            mixed: None,
            hinted: false,
            has_shown_where: false,
            completing: None,
            left: None,
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input. Drain [`Front::poll_output`] before the next.
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
            Input::Said(line) => self.said(line),
            Input::Restarted => self.restarted(),
            Input::JobEnded => return self.job_ended(),
        }
        self.settle(now);
    }

    /// Does what is due.
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

    /// When [`Front::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.phase == Phase::Over {
            return None;
        }
        let hint = self.mixed.map(|since| since + HINT_AFTER);
        let completing = self.completing.as_ref().map(|completing| completing.until);
        let quit = self.left.map(|since| since + QUIT_WITHIN);
        [hint, completing, quit].into_iter().flatten().min()
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Whether a line would be taken at once. Lines that nobody types had better wait until then.
    pub const fn takes_lines(&self) -> bool {
        self.prompted || self.asking
    }

    /// Our exit code, if the user or the script has ended the session: then that of the job means nothing.
    pub fn exit_code(&self) -> Option<u8> {
        let has_failed = self.settings.batch && self.settings.script.has_failed();
        self.left.is_some().then(|| u8::from(has_failed))
    }

    // ----- the job -----

    fn said(&mut self, line: &[u8]) {
        let Said { ranks, what } = Said::parse(line, &self.settings.numbers);
        match what {
            What::Program(text) => {
                let shown = self.display.program(&ranks, text);
                self.outputs.push_back(Output::Print(shown));
            }
            What::Piece(text) => {
                let shown = self.display.piece(&ranks, text, self.prompted);
                self.outputs.push_back(Output::Print(shown));
            }
            What::Text(text) | What::Stack(text) => {
                let shown = self.display.line(&ranks, text);
                self.outputs.push_back(Output::Print(shown));
            }
            What::Refusal(text) => {
                self.settings.script.refuse();
                let shown = self.display.line(&ranks, text);
                self.outputs.push_back(Output::Complain(shown));
            }
            What::Foreign(text) => {
                let shown = self.display.plain(text);
                self.outputs.push_back(Output::Print(shown));
            }
            What::Completion(text) => self.completion(&ranks, text),
            What::Mark(mark) => self.mark(&ranks, &mark),
        }
    }

    fn mark(&mut self, ranks: &RankSet, mark: &Mark) {
        let ended = self.ranks.answer(ranks, mark);
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
        // One that did not begin has told why.
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
        // Its mark is not waited for: the prompt stays.
        let serial = self.tell(&ranks, "complete", text);
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

    // ----- what both have in common -----

    /// Sends a line without expecting a mark. Returns its serial number.
    fn tell(&mut self, ranks: &RankSet, word: &str, text: &str) -> u32 {
        self.serial += 1;
        let space = if text.is_empty() { "" } else { " " };
        let line = format!("{} {word}{space}{text}", self.serial);
        let ranks = self.settings.numbers.own(ranks);
        self.outputs.push_back(Output::Send { ranks, line });
        self.serial
    }

    /// Sends a command, which is answered by a mark, to those that still have a debugger.
    fn ask(&mut self, ranks: &RankSet, word: &str, text: &str) {
        let ranks = self.ranks.live(ranks);
        if !ranks.is_empty() {
            let serial = self.tell(&ranks, word, text);
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

    /// What comes next, now that something has changed.
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
