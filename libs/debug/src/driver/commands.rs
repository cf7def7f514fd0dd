//! Commands from the console.

use super::{Cli, Driver, Kind, MAX_QUEUE, Output, Pending, Phase, Program, Setup};
use crate::mi;

/// A command that waits for its turn.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) serial: u32,
    word: Token,
    text: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// Includes commands that start the program. gdb recognises them, and only the front must
    /// distinguish them.
    Cli,
    Kill,
    Interrupt,
    Complete,
    Stacks,
}

/// gdb reads one line of input at a time. Longer lines go to the program in pieces of this size,
/// since its terminal holds no more than 4 KiB of an unfinished line. An end-of-file character
/// pushes each piece; in the middle of a line it ends nothing.
const TYPED_AT_ONCE: usize = 2048;
const END_OF_FILE: u8 = 4;

impl Driver {
    /// Sends the settings to gdb. The answer to the last of them shows that gdb is ready.
    pub(super) fn set_up(&mut self, setup: &Setup) {
        let first = self.next_token;
        // All settings that matter here, regardless of ~/.gdbinit.
        let settings = [
            "set mi-async on",
            "set non-stop off",
            "set annotate 0",
            "set style enabled off",
            "set confirm off",
            "set pagination off",
            "set width 0",
            "set height 0",
            "set print inferior-events off",
            "set print thread-events off",
            "set debuginfod enabled off",
            "handle SIGUSR1 SIGPIPE nostop noprint pass",
            // The signals of interrupts.
            "handle SIGINT SIGSTOP stop print",
            // The shell executes the wrapper.
            "set startup-with-shell on",
            // Commands that ask for input must not read the driver's commands.
            "python import os, sys; sys.stdin = open(os.devnull)",
        ];
        for setting in settings {
            self.send_console(setting.as_bytes());
        }
        for (name, value) in &setup.variables {
            let text = match value {
                Some(value) => [b"set environment ", &name[..], b"=", value].concat(),
                None => [b"unset environment ", &name[..]].concat(),
            };
            self.send_console(&text);
        }
        if !setup.wrapper.is_empty() {
            self.send_console(&[b"set exec-wrapper ", &setup.wrapper[..]].concat());
        }
        let last = self.send_mi(&[b"inferior-tty-set ", &setup.terminal[..]].concat());
        self.phase = Phase::Starting { first, last, silent: false };
    }

    /// All settings are made.
    pub(super) fn begin(&mut self) {
        self.phase = Phase::Ready;
        match self.attach {
            Some(pid) => self.start_cli(0, format!("attach {pid}").as_bytes()),
            None => self.answer(Some(0)),
        }
        self.advance();
    }

    fn token(&mut self) -> u32 {
        let token = self.next_token;
        self.next_token = token.wrapping_add(1).max(1);
        token
    }

    pub(super) fn send_console(&mut self, text: &[u8]) -> u32 {
        let token = self.token();
        self.outputs.push_back(Output::ToGdb(mi::console_command(token, text)));
        token
    }

    pub(super) fn send_mi(&mut self, command: &[u8]) -> u32 {
        let token = self.token();
        let line = [format!("{token}-").as_bytes(), command, b"\n"].concat();
        self.outputs.push_back(Output::ToGdb(line));
        token
    }

    /// `SERIAL WORD[ TEXT]`
    pub(super) fn command_line(&mut self, line: &[u8]) {
        let mut parts = line.splitn(3, |byte| *byte == b' ');
        let serial = parts.next().and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
        let Some(serial) = serial else {
            return self.report(b'!', b"a command without its number");
        };
        let word = parts.next().unwrap_or_default();
        let text = parts.next().unwrap_or_default().to_vec();
        let word = match word {
            b"input" | b"eof" if self.attach.is_some() => {
                return self
                    .report(b'!', b"the program was started elsewhere, and reads its own input");
            }
            b"input" => return self.type_line(text),
            b"eof" => return self.outputs.push_back(Output::Type(vec![END_OF_FILE])),
            b"quit" => return self.quit(Some(serial)),
            b"cli" | b"run" => Token::Cli,
            b"kill" => Token::Kill,
            b"interrupt" => Token::Interrupt,
            b"complete" => Token::Complete,
            b"stacks" => Token::Stacks,
            _ => return self.refuse(serial, "a command that this version does not know"),
        };
        self.take(Command { serial, word, text });
    }

    fn type_line(&mut self, text: Vec<u8>) {
        let mut typed = Vec::with_capacity(text.len() + 1);
        let mut pieces = text.chunks(TYPED_AT_ONCE).peekable();
        while let Some(piece) = pieces.next() {
            typed.extend(piece);
            if pieces.peek().is_some() {
                typed.push(END_OF_FILE);
            }
        }
        typed.push(b'\n');
        self.outputs.push_back(Output::Type(typed));
    }

    fn take(&mut self, command: Command) {
        if matches!(self.phase, Phase::Leaving { .. } | Phase::Ended) {
            return self.refuse(command.serial, "gdb is gone");
        }
        if matches!(self.phase, Phase::Starting { .. }) {
            return self.enqueue(command);
        }
        match command.word {
            Token::Interrupt => self.interrupt(command.serial),
            Token::Kill if self.kill_running(command.serial) => {}
            Token::Kill if self.pending.is_some() => self.queue.push_front(command),
            _ if self.is_foreground() => self.refuse(command.serial, "this rank is running"),
            _ => {
                self.enqueue(command);
                self.advance();
            }
        }
    }

    fn enqueue(&mut self, command: Command) {
        if self.queue.len() >= MAX_QUEUE {
            return self.refuse(command.serial, "too many commands wait");
        }
        self.queue.push_back(command);
    }

    /// Whether the program runs in the foreground, so that gdb reads nothing until the program
    /// stops.
    fn is_foreground(&self) -> bool {
        self.program == Program::Running
            && self.pending.as_ref().is_some_and(|pending| pending.waits)
    }

    fn refuse(&mut self, serial: u32, why: &str) {
        self.last_serial = self.last_serial.max(serial);
        self.report(b'!', why.as_bytes());
        self.mark(serial);
    }

    /// Starts waiting commands, as long as no command is in progress.
    pub(super) fn advance(&mut self) {
        while self.pending.is_none() && self.phase == Phase::Ready {
            let Some(command) = self.queue.pop_front() else { return };
            self.last_serial = self.last_serial.max(command.serial);
            self.start(command);
        }
    }

    /// A command runs the program in the foreground: the commands that wait behind it are refused.
    pub(super) fn foreground_began(&mut self) {
        for command in std::mem::take(&mut self.queue) {
            self.take(command);
        }
    }

    fn start(&mut self, Command { serial, word, text }: Command) {
        match word {
            Token::Cli => self.start_cli(serial, &text),
            Token::Kill if self.kill_running(serial) => {}
            Token::Kill => self.kill_stopped(serial),
            Token::Interrupt => self.interrupt(serial),
            Token::Complete => {
                let token = self.send_mi(&[b"complete ", &mi::quoted(&text)[..]].concat());
                self.hold(serial, token, Kind::Complete);
            }
            Token::Stacks if self.program == Program::Running => {
                self.refuse(serial, "this rank is running");
            }
            Token::Stacks if matches!(self.program, Program::Stopped(_)) => {
                let token = self.send_mi(b"thread-info");
                let first = std::str::from_utf8(&text).ok().and_then(|tid| tid.parse().ok());
                self.hold(serial, token, Kind::Threads { first });
            }
            Token::Stacks => self.answer(Some(serial)),
        }
    }

    pub(super) fn hold(&mut self, serial: u32, token: u32, kind: Kind) {
        self.pending = Some(Pending { serial, token, kind, waits: false });
    }

    fn start_cli(&mut self, serial: u32, text: &[u8]) {
        let text = text.trim_ascii();
        let length = text.iter().take_while(|byte| is_of_a_word(**byte)).count();
        let (word, behind) = text.split_at(length);
        let behind = behind.trim_ascii();
        if behind.is_empty()
            && ["python-interactive", "pi", "shell", "!"].iter().any(is(word, text))
        {
            return self.refuse(serial, "there is no terminal here that it could read from");
        }
        let shell = match text {
            [b'!', rest @ ..] => Some(rest),
            _ if word.len() > 2 && b"shell".starts_with(word) => Some(behind),
            _ => None,
        };
        // The command's standard input would be gdb's, from which gdb reads the driver's next
        // commands.
        let token = match shell {
            Some(command) => self.send_console(&[b"shell exec </dev/null; ", command].concat()),
            None => self.send_console(text),
        };
        let cli = Cli {
            background: text.ends_with(b"&"),
            launches: ["run", "start", "starti"].iter().any(|whole| word == whole.as_bytes())
                || word == b"r",
            attaches: word.len() > 2 && b"attach".starts_with(word),
            kills: word == b"k" || (word.len() > 1 && b"kill".starts_with(word)),
            prints: [&b"printf"[..], b"echo", b"output"].contains(&word),
            was_running: self.program == Program::Running,
            reported_of_lines: false,
        };
        self.hold(serial, token, Kind::Cli(cli));
    }

    fn interrupt(&mut self, serial: u32) {
        self.last_serial = self.last_serial.max(serial);
        let launches = match &self.pending {
            Some(Pending { kind: Kind::Cli(cli), .. }) => cli.launches || cli.attaches,
            _ => false,
        };
        if self.program == Program::Running {
            self.interrupt_program();
        } else if self.pending.as_ref().is_some_and(|pending| pending.waits) || launches {
            self.interrupt_wanted = true;
        } else if self.pending.is_some() {
            self.outputs.push_back(Output::InterruptGdb);
            self.check = Some(self.send_mi(b"gdb-show confirm"));
        } else if self.sync.is_none() {
            return self.answer(Some(serial));
        }
        self.unanswered.push(serial);
    }

    /// The signal that stopped the program is not delivered to it.
    pub(super) fn forget_signal(&mut self) {
        self.send_console(b"queue-signal 0");
    }

    /// Ends gdb, and the program if it was started here.
    pub(super) fn quit(&mut self, serial: Option<u32>) {
        match self.phase {
            Phase::Ended => {
                if let Some(serial) = serial {
                    self.mark(serial);
                }
                return self.outputs.push_back(Output::End);
            }
            Phase::Leaving { .. } => return,
            Phase::Starting { .. } | Phase::Ready => {}
        }
        self.phase = Phase::Leaving { serial, until: None };
        match self.process {
            Some((pid, false)) => self.send_kill(pid),
            // gdb does not read `gdb-exit` before a program in the foreground has stopped. Any
            // other program is not interrupted, because the signal would stay with the process.
            Some((_, true)) if self.is_foreground() => {
                self.interrupt_program();
                self.forget_signal();
            }
            Some((_, true)) | None => {}
        }
        self.send_mi(b"gdb-exit");
    }
}

const fn is_of_a_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// Returns a test whether a command, which may have no letters, is the given one.
fn is<'a>(word: &'a [u8], text: &'a [u8]) -> impl Fn(&&'static str) -> bool + 'a {
    move |name| word == name.as_bytes() || text == name.as_bytes()
}
