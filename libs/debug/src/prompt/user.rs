//! The user's actions: lines, ^C, and the end of the input.

use super::command::{Command, HELP_ON_ADDRESS, repeated};
use super::{MAX_AHEAD, MAX_GROUPS, MAX_TYPED, Output, Phase, Prompt, TWICE_WITHIN, rank_or_ranks};
use mpd_sansio::Time;
use mpd_wire::RankSet;

impl Prompt {
    // ----- lines -----

    pub(super) fn line(&mut self, now: Time, line: &str) {
        self.display.typed();
        let line = line.split('\n').next().unwrap_or_default();
        if std::mem::take(&mut self.asking) {
            return self.answer(now, line.trim());
        }
        if self.phase != Phase::Session {
            return self.keep(line);
        }
        // `settle` executes it, like lines that were typed ahead.
        if std::mem::take(&mut self.prompted) {
            return self.ahead.push_front(line.to_owned());
        }
        let busy = self.ranks.busy(&self.addressed);
        let is_for_us = Command::of(line.trim()).is_for_us()
            && (busy.is_empty() || !self.ranks.ready(&self.addressed).is_empty());
        match is_for_us {
            true => self.choose(line.trim()),
            false if self.settings.terminal && !busy.is_empty() => self.feed(&busy, line),
            false => self.keep(line),
        }
    }

    /// Keeps a line until the prompt is wanted.
    fn keep(&mut self, line: &str) {
        match self.ahead.len() < MAX_AHEAD {
            true => self.ahead.push_back(line.to_owned()),
            false => self.note("too many lines typed ahead: this one is lost".into()),
        }
    }

    /// The programs read this line.
    fn feed(&mut self, ranks: &RankSet, line: &str) {
        match line.len() > MAX_TYPED {
            true => self.note(format!("lines of more than {MAX_TYPED} bytes cannot be passed on")),
            false => drop(self.report(ranks, "input", line)),
        }
    }

    fn answer(&mut self, now: Time, line: &str) {
        if line.eq_ignore_ascii_case("y") || line.eq_ignore_ascii_case("yes") {
            self.give_up(now);
        }
    }

    /// Ends the programs that the session started, but not a job that ran before.
    fn give_up(&mut self, now: Time) {
        match self.settings.attached && self.phase == Phase::Session {
            true => self.quit(now),
            false => self.die(),
        }
    }

    /// Executes a command of the user or of the script.
    pub(super) fn command(&mut self, now: Time, line: &str) {
        let mut line = line.trim().to_owned();
        if line.is_empty() {
            let last = self.last.as_deref().filter(|_| self.settings.terminal);
            let Some(last) = last.and_then(repeated) else { return };
            line = last.to_owned();
        }
        if line.len() > MAX_TYPED {
            return self.refuse(format!("a command may have {MAX_TYPED} bytes"));
        }
        match Command::of(&line) {
            Command::Empty => return,
            Command::Address(_) | Command::Who | Command::HelpOnAddress => {
                return self.choose(&line);
            }
            Command::Quit => return self.quit(now),
            Command::Block(word) => {
                let text = format!("{word}: put it in a gdb script and use: source FILE");
                return self.refuse(text);
            }
            _ if self.ranks.live(&self.addressed).is_empty() => {
                return self.refuse("no rank that is addressed has a debugger any more".into());
            }
            Command::Run => self.run(&line),
            Command::Kill => self.ask(&self.addressed.clone(), "kill", ""),
            Command::Gdb => {
                self.note_breakpoint(&line);
                self.ask(&self.addressed.clone(), "cli", &line);
            }
        }
        self.last = Some(line);
    }

    /// Refuses a command that is not sent.
    pub(super) fn refuse(&mut self, text: String) {
        self.settings.script.refuse();
        self.note(text);
    }

    // ----- the addressed ranks -----

    /// Handles `z` and similar commands.
    fn choose(&mut self, line: &str) {
        let wanted = match Command::of(line) {
            Command::Who => return self.show_who(),
            Command::HelpOnAddress => return self.show_help(),
            Command::Address("") => Ok(RankSet::all()),
            Command::Address(text) => text.parse::<RankSet>(),
            _ => return,
        };
        let everybody = self.everybody();
        match wanted {
            Err(problem) => self.refuse(problem.to_string()),
            Ok(ranks) if ranks == RankSet::all() => self.address(everybody),
            Ok(ranks) if ranks.is_empty() => self.refuse("nobody would be addressed".into()),
            Ok(mut ranks) if !ranks.is_within(&everybody) => {
                ranks.remove(&everybody);
                let (is, whose) =
                    (if ranks.count() == 1 { "is" } else { "are" }, rank_or_ranks(&ranks));
                self.refuse(format!("there {is} no {whose} {ranks}; the job has {everybody}"));
            }
            Ok(ranks) => self.address(ranks),
        }
    }

    fn address(&mut self, ranks: RankSet) {
        self.addressed = ranks;
        (self.mixed, self.hinted) = (None, false);
    }

    fn show_help(&mut self) {
        let mut shown = self.display.fresh();
        shown.extend(HELP_ON_ADDRESS.bytes());
        self.outputs.push_back(Output::Print(shown));
    }

    fn show_who(&mut self) {
        let mut shown = self.display.fresh();
        shown.extend(format!("addressed: {}\n", self.addressed).bytes());
        self.outputs.push_back(Output::Print(shown));
        self.show_groups();
    }

    /// Shows the state of all ranks.
    pub(super) fn show_groups(&mut self) {
        let mut shown = self.display.fresh();
        let groups = self.ranks.groups();
        for (ranks, state) in groups.iter().take(MAX_GROUPS) {
            shown.extend(format!("{ranks}: {state}\n").bytes());
        }
        if groups.len() > MAX_GROUPS {
            shown.extend(format!("and {} more\n", groups.len() - MAX_GROUPS).bytes());
        }
        self.outputs.push_back(Output::Print(shown));
    }

    // ----- ^C and the end -----

    pub(super) fn interrupt(&mut self, now: Time) {
        self.display.typed();
        if std::mem::take(&mut self.asking) {
            return self.give_up(now);
        }
        if self.prompted && self.settings.terminal {
            // The line that was being typed is discarded.
            return self.outputs.push_back(Output::Prompt);
        }
        if self.settings.terminal {
            // After the ^C that the terminal has shown.
            self.outputs.push_back(Output::Print(b"\n".to_vec()));
        }
        let last = self.interrupted.replace(now);
        let is_second = last.is_some_and(|last| now.since(last) <= TWICE_WITHIN);
        if self.settings.script.abandon() {
            self.note("the rest of the script is left out".into());
        }
        if is_second && !self.settings.terminal {
            return self.give_up(now);
        }
        if is_second && self.phase != Phase::Dying {
            self.interrupted = None;
            self.asking = true;
            let end = if self.settings.attached { "Let the job go" } else { "Kill the job" };
            return self.outputs.push_back(Output::Ask(format!("{end}? (y or n) ")));
        }
        let running = self.ranks.running(&self.addressed);
        match running.is_empty() || self.phase != Phase::Session {
            true => {
                let end = if self.settings.attached { "let the job go" } else { "kill the job" };
                self.note(format!("no addressed rank runs; ^C once more to {end}"));
            }
            false => self.ask(&running, "interrupt", ""),
        }
    }

    pub(super) fn end_of_input(&mut self, now: Time) {
        if std::mem::take(&mut self.asking) {
            return self.give_up(now);
        }
        if std::mem::take(&mut self.prompted) {
            return self.quit(now);
        }
        let busy = self.ranks.busy(&self.addressed);
        match self.settings.terminal {
            true if !busy.is_empty() => drop(self.report(&busy, "eof", "")),
            true => {}
            false => self.ended = true,
        }
    }

    /// Ends the session.
    pub(super) fn quit(&mut self, now: Time) {
        self.left = Some(now);
        self.phase = Phase::Leaving;
        // A driver without debugger ends as well; the prompt waits for no answer of it.
        let everybody = self.everybody();
        let serial = self.report(&everybody, "quit", "");
        self.ranks.ask(&self.ranks.live(&everybody), serial);
    }
}
