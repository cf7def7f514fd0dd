//! Lines of the ranks' debuggers: `RANKS:LINE`, where the first byte of LINE gives its kind.

use std::fmt;
use std::rc::Rc;

use crate::numbers::Numbers;
use mpd_wire::RankSet;

/// One line of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebuggerLine<'a> {
    /// The ranks that sent it.
    pub ranks: RankSet,
    /// The content.
    pub content: Content<'a>,
}

/// The kinds of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// `>`: a line of the program's output.
    Program(&'a [u8]),
    /// `+`: a piece of one that has not ended.
    Piece(&'a [u8]),
    /// `~`: text of the debugger.
    Text(&'a [u8]),
    /// `#`: the stack of a thread of the program.
    Stack(&'a [u8]),
    /// `!`: a refusal.
    Refusal(&'a [u8]),
    /// `?`: a completion.
    Completion(&'a [u8]),
    /// `=`: a command is answered.
    Mark(Mark),
    /// No such line: it does not come from a debugger, and is shown as it is.
    Foreign(&'a [u8]),
}

/// The end of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The last command that was accepted.
    pub serial: u32,
    /// The state of the program.
    pub state: State,
}

/// The state of a rank's program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It was not started, or was killed.
    Idle,
    /// It is stopped; the text gives place and reason.
    Stopped(Rc<str>),
    /// It has exited; the text gives the code.
    Exited(Rc<str>),
    /// A signal has killed it; the text gives the signal.
    Died(Rc<str>),
    /// It runs, and the debugger takes commands.
    Running,
    /// The debugger has ended.
    Ended,
}

impl State {
    fn parse(text: &str) -> Option<Self> {
        let (word, detail) = text.split_once(' ').unwrap_or((text, ""));
        Some(match word {
            "idle" => Self::Idle,
            "stopped" => Self::Stopped(detail.into()),
            "exited" => Self::Exited(detail.into()),
            "died" => Self::Died(detail.into()),
            "running" => Self::Running,
            "ended" => Self::Ended,
            _ => return None,
        })
    }
}

impl fmt::Display for State {
    /// The text for the user that follows the ranks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("not started"),
            Self::Stopped(detail) => stopped(f, detail),
            Self::Exited(code) if &**code == "0" => f.write_str("exited normally"),
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Died(signal) => write!(f, "died of {signal}"),
            Self::Running => f.write_str("runs"),
            Self::Ended => f.write_str("its debugger has ended"),
        }
    }
}

/// `FUNC FILE:LINE REASON`, with `?` for unknown parts.
fn stopped(f: &mut fmt::Formatter<'_>, detail: &str) -> fmt::Result {
    let mut words = detail.splitn(3, ' ');
    let mut word = || words.next().filter(|word| !matches!(*word, "" | "?"));
    f.write_str("stopped")?;
    if let Some(function) = word() {
        write!(f, " in {function}")?;
    }
    if let Some(place) = word() {
        write!(f, " at {place}")?;
    }
    word().map_or(Ok(()), |reason| write!(f, " ({reason})"))
}

impl<'a> DebuggerLine<'a> {
    /// Reads a line without its newline. `numbers` are those of the debugged ranks, and the result
    /// uses them. Spawned ranks have the numbers after them.
    pub fn parse(line: &'a [u8], numbers: &Numbers) -> Self {
        Self::understand(line, numbers)
            .unwrap_or_else(|| Self { ranks: RankSet::none(), content: Content::Foreign(line) })
    }

    fn understand(line: &'a [u8], numbers: &Numbers) -> Option<Self> {
        let colon = memchr::memchr(b':', line)?;
        let ranks: RankSet = std::str::from_utf8(&line[..colon]).ok()?.parse().ok()?;
        let ranks = numbers.shown(&ranks).filter(|ranks| !ranks.is_empty())?;
        let line = &line[colon + 1..];
        let (&kind, text) = line.strip_prefix(b" ").unwrap_or(line).split_first()?;
        let content = match kind {
            b'>' => Content::Program(text),
            b'+' => Content::Piece(text),
            b'~' => Content::Text(text),
            b'#' => Content::Stack(text),
            b'!' => Content::Refusal(text),
            b'?' => Content::Completion(text),
            b'=' => Content::Mark(Mark::parse(text)?),
            _ => return None,
        };
        Some(Self { ranks, content })
    }
}

impl Mark {
    fn parse(text: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(text);
        let (serial, state) = text.split_once(' ')?;
        Some(Self { serial: serial.parse().ok()?, state: State::parse(state)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_gives_the_kind_of_a_line() {
        let content =
            |line: &'static str| DebuggerLine::parse(line.as_bytes(), &Numbers::of_job(6)).content;
        assert_eq!(content("0-2,5: >out"), Content::Program(b"out"));
        assert_eq!(content("0-2,5:~"), Content::Text(b""));
        assert_eq!(content("3: +name? "), Content::Piece(b"name? "));
        assert_eq!(content("3: !No symbol \"x\"."), Content::Refusal(b"No symbol \"x\"."));
        let state = State::Stopped("main t.c:8 end-stepping-range".into());
        let mark = Mark { serial: 7, state };
        assert_eq!(content("0: =7 stopped main t.c:8 end-stepping-range"), Content::Mark(mark));
    }

    #[test]
    fn a_line_that_no_debugger_wrote_is_foreign() {
        for line in
            ["", "text", "0: ", "0: text", "all: >x", "0: =x idle", "0: =1 asleep", "none: >a"]
        {
            assert_eq!(
                DebuggerLine::parse(line.as_bytes(), &Numbers::of_job(6)).content,
                Content::Foreign(line.as_bytes()),
                "{line:?}"
            );
        }
    }

    #[test]
    fn states_have_texts_for_the_user() {
        let reported = |text| State::parse(text).unwrap().to_string();
        assert_eq!(
            reported("stopped work t.c:3 breakpoint-hit"),
            "stopped in work at t.c:3 (breakpoint-hit)"
        );
        assert_eq!(
            reported("stopped ? ? signal-received SIGINT"),
            "stopped (signal-received SIGINT)"
        );
        assert_eq!(reported("exited 0"), "exited normally");
        assert_eq!(reported("exited 3"), "exited with code 3");
        assert_eq!(reported("died SIGSEGV"), "died of SIGSEGV");
    }
}
