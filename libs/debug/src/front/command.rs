//! What a line that the user typed asks for, as far as that is more than passing it to gdb.

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command<'a> {
    /// Nothing: on a terminal the last one once more.
    Empty,
    /// Who is addressed from now on.
    Address(&'a str),
    /// `z ?`: who does what.
    Who,
    /// `help z`: what these mean.
    HelpOnAddress,
    /// End of the session.
    Quit,
    /// Starts the program.
    Run,
    /// Kills it.
    Kill,
    /// Begins a block of lines, which goes on up to `end`.
    Block(&'a str),
    /// Anything else.
    Gdb,
}

impl<'a> Command<'a> {
    /// What `line` asks for, without spaces around it.
    pub(super) fn of(line: &'a str) -> Self {
        let (word, rest) = match line.find(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
            Some(at) => (&line[..at], line[at..].trim()),
            None => (line, ""),
        };
        match word {
            "" if line.is_empty() => Self::Empty,
            "z" if rest == "?" => Self::Who,
            "z" => Self::Address(rest),
            "h" | "he" | "hel" | "help" if rest == "z" => Self::HelpOnAddress,
            "q" | "qu" | "qui" | "quit" | "exit" => Self::Quit,
            "r" | "ru" | "run" | "start" | "starti" => Self::Run,
            "k" | "kill" if rest.is_empty() => Self::Kill,
            "commands" | "define" | "define-prefix" | "document" | "if" | "while" | "actions" => {
                Self::Block(word)
            }
            "python" | "py" | "python-interactive" | "pi" | "guile" | "gu" | "compile"
            | "expression"
                if rest.is_empty() =>
            {
                Self::Block(word)
            }
            _ => Self::Gdb,
        }
    }
}

impl Command<'_> {
    /// Whether it is about who is addressed, which no debugger knows.
    pub(super) const fn is_for_us(self) -> bool {
        matches!(self, Self::Address(_) | Self::Who | Self::HelpOnAddress)
    }
}

/// What `help z` prints.
pub(super) const HELP_ON_ADDRESS: &str = "\
z         address all ranks: what is typed goes to all of them
z RANKS   address these ranks alone, like z 0 or z 1-2,5
z ?       show who is addressed, who runs, and who is stopped where
";

/// What an empty line after `line` asks for, as gdb has it: to go on in the same way.
pub(super) fn repeated(line: &str) -> Option<&str> {
    let word = line.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    match word {
        "n" | "next" | "s" | "step" | "ni" | "nexti" | "si" | "stepi" | "c" | "continue" | "fg"
        | "u" | "until" | "fin" | "finish" | "up" | "down" | "p" | "print" => Some(line),
        // These show what comes behind.
        "l" | "list" | "x" => Some(word),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_gdbs_alone_is_told_apart() {
        for (line, command) in [
            ("", Command::Empty),
            ("z", Command::Address("")),
            ("z 0,2-4", Command::Address("0,2-4")),
            ("z ?", Command::Who),
            ("help z", Command::HelpOnAddress),
            ("help", Command::Gdb),
            ("q", Command::Quit),
            ("quit 3", Command::Quit),
            ("r", Command::Run),
            ("run a b < c", Command::Run),
            ("start", Command::Run),
            ("return", Command::Gdb),
            ("rbreak x", Command::Gdb),
            ("kill inferiors 1", Command::Gdb),
            ("commands 1", Command::Block("commands")),
            ("if $x", Command::Block("if")),
            ("python print(1)", Command::Gdb),
            ("python", Command::Block("python")),
            ("x/4x $sp", Command::Gdb),
            ("!ls", Command::Gdb),
        ] {
            assert_eq!(Command::of(line), command, "{line:?}");
        }
    }

    #[test]
    fn an_empty_line_goes_on_and_starts_nothing_again() {
        assert_eq!(repeated("next 3"), Some("next 3"));
        assert_eq!(repeated("list 10,20"), Some("list"));
        assert_eq!(repeated("x/4x $sp"), Some("x"));
        assert_eq!(repeated("break main"), None);
        assert_eq!(repeated("run"), None);
    }
}
