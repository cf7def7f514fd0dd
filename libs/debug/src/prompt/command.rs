//! The meaning of a typed line, as far as the prompt has to know it.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command<'a> {
    /// An empty line: on a terminal it repeats the last command.
    Empty,
    /// Selects the ranks that are addressed from now on.
    Address(&'a str),
    /// `z ?`: shows the state of all ranks.
    Who,
    /// `help z`: explains these commands.
    HelpOnAddress,
    /// End of the session.
    Quit,
    /// Starts the program.
    Run,
    /// Kills the program.
    Kill,
    /// Begins a block of lines that ends with `end`.
    Block(&'a str),
    /// Any other line.
    Gdb,
}

impl<'a> Command<'a> {
    /// The meaning of `line`, which has no spaces around it.
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
    /// Whether the command concerns the addressed ranks, and is therefore not sent to a debugger.
    pub(super) const fn is_for_us(self) -> bool {
        matches!(self, Self::Address(_) | Self::Who | Self::HelpOnAddress)
    }
}

/// The text of `help z`.
pub(super) const HELP_ON_ADDRESS: &str = "\
z         address all ranks: what is typed goes to all of them
z RANKS   address these ranks alone, like z 0 or z 1-2,5
z ?       show who is addressed, who runs, and who is stopped where
";

/// The command that an empty line after `line` stands for, as in gdb: it continues in the same way.
pub(super) fn repeated(line: &str) -> Option<&str> {
    let word = line.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    match word {
        "n" | "next" | "s" | "step" | "ni" | "nexti" | "si" | "stepi" | "c" | "continue" | "fg"
        | "u" | "until" | "fin" | "finish" | "up" | "down" | "p" | "print" => Some(line),
        // Repeated without their arguments, these show the text that follows.
        "l" | "list" | "x" => Some(word),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_that_concern_the_front_are_distinguished() {
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
    fn an_empty_line_continues_the_last_command_and_never_restarts_a_program() {
        assert_eq!(repeated("next 3"), Some("next 3"));
        assert_eq!(repeated("list 10,20"), Some("list"));
        assert_eq!(repeated("x/4x $sp"), Some("x"));
        assert_eq!(repeated("break main"), None);
        assert_eq!(repeated("run"), None);
    }
}
