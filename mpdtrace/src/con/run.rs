//! The session of `mpdcon`: reads lines, and runs programs.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Read as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context as _, Result};
use mpd_io::process::signals::{self, Signals};
use nix::sys::signal::Signal;

use super::cli::ConCli;
use super::editor::{self, Editor};
use super::verbs::{Lines, MAX_LINE, Order};
use crate::tool;

pub(super) const NAME: &str = "mpdcon";
/// Commands that run at the start of a session on a terminal, below the home directory.
const START_FILE: &str = ".mpdconrc";
/// Most commands in the background.
const MAX_BACKGROUND: usize = 256;

const USAGE: u8 = 2;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Runs a session until its lines end or the user quits.
///
/// # Errors
/// The lines cannot be read.
pub fn run(cli: &ConCli) -> Result<ExitCode> {
    // Caught and not ignored: programs would inherit that they are ignored.
    let signals = Signals::catch_unless_ignored(&[Signal::SIGINT as i32, Signal::SIGQUIT as i32]);
    let signals = signals.context("cannot catch signals")?;
    let mut session = Session {
        cli,
        lines: Lines::default(),
        signals,
        is_interactive: false,
        code: 0,
        background: Vec::new(),
    };
    if let Some(file) = &cli.file {
        let shown = file.display();
        let script = File::open(file).with_context(|| format!("cannot open {shown}"))?;
        session.script(script, &shown.to_string())?;
    } else if !cli.command.is_empty() {
        for command in &cli.command {
            if session.line(command, None) == Next::End {
                break;
            }
        }
    } else if io::stdin().is_terminal() {
        session.interactive()?;
    } else {
        session.script(io::stdin(), "standard input")?;
    }
    Ok(session.end())
}

/// Whether the session continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Line,
    End,
}

#[derive(Debug)]
struct Session<'a> {
    cli: &'a ConCli,
    lines: Lines,
    signals: Signals,
    /// Lines come from a prompt.
    is_interactive: bool,
    /// The exit code of the last command.
    code: u8,
    background: Vec<Running>,
}

/// A command in the background.
#[derive(Debug)]
struct Running {
    line: String,
    child: Child,
}

impl Session<'_> {
    fn interactive(&mut self) -> Result<()> {
        self.is_interactive = true;
        self.start_file()?;
        let mut editor = Editor::open(&self.cli.ring_options)?;
        loop {
            self.report_background();
            let Some(line) = editor.line(&self.lines)? else { return Ok(()) };
            if self.line(&line, None) == Next::End {
                return Ok(());
            }
        }
    }

    fn start_file(&mut self) -> Result<()> {
        let Some(home) = std::env::var_os("HOME") else { return Ok(()) };
        let file = PathBuf::from(home).join(START_FILE);
        match File::open(&file) {
            Ok(script) => self.script(script, &file.display().to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error).with_context(|| format!("cannot open {}", file.display())),
        }
    }

    fn script(&mut self, script: impl io::Read, name: &str) -> Result<()> {
        let mut script = BufReader::new(script);
        for number in 1.. {
            let mut line = Vec::new();
            // One more than a line may have.
            let mut part = script.by_ref().take(MAX_LINE as u64 + 1);
            let read = part.read_until(b'\n', &mut line);
            if read.with_context(|| format!("cannot read {name}"))? == 0 {
                break;
            }
            let line = String::from_utf8(line);
            let line = line.with_context(|| format!("{name}, line {number}: not UTF-8"))?;
            if self.line(&line, Some(number)) == Next::End {
                break;
            }
        }
        Ok(())
    }

    /// Runs a line. `number`: its number in a script.
    fn line(&mut self, line: &str, number: Option<usize>) -> Next {
        let order = match self.lines.understand(line) {
            Ok(order) => order,
            Err(problem) => {
                let place = number.map(|number| format!("line {number}: ")).unwrap_or_default();
                tool::warn(NAME, &format!("{place}{problem}"));
                return self.done(USAGE);
            }
        };
        match order {
            Order::Nothing => Next::Line,
            Order::Quit => Next::End,
            Order::Changed => self.done(0),
            Order::Print(text) => match tool::print(&text) {
                Ok(()) => self.done(0),
                Err(_) => self.stopped(tool::EXIT_READER_GONE),
            },
            Order::Shell(text) => {
                let mut command = Command::new("/bin/sh");
                command.arg("-c").arg(text);
                self.foreground("/bin/sh", command)
            }
            Order::Run { lines, background: true } => self.start_in_background(line, &lines),
            Order::Reset => self.reset(),
            Order::Run { lines, background: false } => {
                for words in lines {
                    let Some(command) = self.program(&words) else { return Next::Line };
                    let next = self.foreground(&words[0], command);
                    if next == Next::End || self.code != 0 {
                        return next;
                    }
                }
                Next::Line
            }
        }
    }

    /// Ends all jobs of the ring.
    fn reset(&mut self) -> Next {
        let rundir = self.cli.ring_options.rundir();
        let jobs = rundir.and_then(|rundir| Ok(editor::jobs(&rundir)?));
        let jobs = match jobs {
            Ok(jobs) => jobs,
            Err(problem) => {
                tool::warn(NAME, &format!("{problem:#}"));
                return self.done(1);
            }
        };
        let mut next = self.done(0);
        // A job that has just ended is no reason to spare the others.
        for job in jobs {
            let words = ["mpdkilljob".to_owned(), job];
            let Some(command) = self.program(&words) else { return Next::Line };
            next = self.foreground(&words[0], command);
            if next == Next::End {
                break;
            }
        }
        next
    }

    /// A command of the suite with these words. `None` after a message if it cannot be made.
    fn program(&mut self, words: &[String]) -> Option<Command> {
        let path = tool::own_path(&words[0]).inspect_err(|problem| {
            tool::warn(NAME, &format!("{problem:#}"));
            self.code = NOT_FOUND;
        });
        let mut command = Command::new(path.ok()?);
        command.args(&words[1..]);
        // The environment says it to all programs; not all of them have both options.
        let options = &self.cli.ring_options;
        if let Some(ring) = &options.ring {
            command.env("MPD_RING", ring);
        }
        if let Some(rundir) =
            options.rundir.as_ref().and_then(|rundir| std::path::absolute(rundir).ok())
        {
            command.env(mpd_io::ring::rundir::VARIABLE, rundir);
        }
        Some(command)
    }

    fn foreground(&mut self, name: &str, mut command: Command) -> Next {
        let ended = match command.status() {
            Ok(status) => self.done(code_of(status)),
            Err(error) => {
                let code = not_started(name, &error);
                self.done(code)
            }
        };
        let is_interrupted = self.signals.pending().contains(&(Signal::SIGINT as i32));
        // At a prompt ^C was for the program. In a script it ends the script too.
        if is_interrupted && !self.is_interactive {
            signals::die_of(Signal::SIGINT as i32);
            return Next::End;
        }
        ended
    }

    fn start_in_background(&mut self, line: &str, lines: &[Vec<String>]) -> Next {
        for words in lines {
            if self.background.len() >= MAX_BACKGROUND {
                tool::warn(
                    NAME,
                    &format!("{MAX_BACKGROUND} commands run in the background already"),
                );
                return self.done(tool::EXIT_FAILURE);
            }
            let Some(mut command) = self.program(words) else { return Next::Line };
            // A group of its own: the keys of the terminal are not for it.
            command.stdin(Stdio::null()).process_group(0);
            match command.spawn() {
                Ok(child) => self.background.push(Running { line: line.trim().to_owned(), child }),
                Err(error) => {
                    let code = not_started(&words[0], &error);
                    return self.done(code);
                }
            }
        }
        self.done(0)
    }

    /// Reports the commands in the background that have ended.
    fn report_background(&mut self) {
        self.background.retain_mut(|running| match running.child.try_wait() {
            Ok(Some(status)) => {
                let code = code_of(status);
                tool::warn(NAME, &format!("'{}' ended with code {code}", running.line));
                false
            }
            _ => true,
        });
    }

    fn done(&mut self, code: u8) -> Next {
        self.code = code;
        if code != 0 && self.cli.errexit { Next::End } else { Next::Line }
    }

    fn stopped(&mut self, code: u8) -> Next {
        self.code = code;
        Next::End
    }

    /// Reports what still runs, and returns the exit code.
    fn end(mut self) -> ExitCode {
        self.report_background();
        for running in &self.background {
            tool::warn(NAME, &format!("'{}' still runs", running.line));
        }
        ExitCode::from(self.code)
    }
}

fn not_started(name: &str, error: &io::Error) -> u8 {
    tool::warn(NAME, &format!("cannot execute {name}: {error}"));
    if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE }
}

fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(tool::EXIT_FAILURE)
}
