//! The command line of `pty`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use mpd_io::terminal::pty::{Size, size_of_environment};

/// Run a program on a new terminal.
///
/// The new terminal is the standard input, output and error of the program. The program leads a session
/// on it. Therefore it writes line by line, shows prompts, and has job control. Its output is copied to
/// the standard output of pty at once, and the standard input of pty is copied to the program.
///
/// If standard input is a terminal, the new terminal has its settings and follows its size, and every key
/// is passed on. If standard input is not a terminal, every byte is data: there is no echo, and no byte
/// is a key with a function. At the end of standard input, each read of the program returns the end of
/// the file. A program that reads key by key, like a shell, gets its end-of-file key. In raw mode the
/// program cannot see the end. If standard output is not a terminal, lines end in a line feed only.
///
/// Signals, real-time signals included, go to the foreground processes of the new terminal. When the
/// terminal at standard input or the reader of standard output closes, pty closes the new terminal.
///
/// If pty runs on a terminal, it stops when its program stops, and then the outer shell shows its prompt.
/// When the shell continues pty, pty continues the program. An editor that sends itself SIGTSTP at ^Z
/// does not stop, since the kernel ignores this signal for the leader of a session. In an inner shell
/// (pty bash) the editor stops.
#[derive(Clone, Debug, Parser)]
#[command(name = "pty", version, after_help = CODES)]
pub struct Cli {
    /// Size of the new terminal, if standard input, output and error are not terminals
    /// [default: $COLUMNS and $LINES, else 80x24]
    #[arg(long, value_name = "COLUMNSxLINES", value_parser = size)]
    pub size: Option<Size>,

    /// Write man page and completions
    #[arg(long, hide = true, value_name = "DIR")]
    pub generate_docs: Option<PathBuf>,

    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        required_unless_present = "generate_docs",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub command: Vec<OsString>,
}

impl Cli {
    /// The size of the new terminal, if `pty` itself has no terminal.
    pub fn size(&self) -> Size {
        self.size.unwrap_or_else(size_of_environment)
    }
}

const CODES: &str = "\
pty ends as the program does: with its exit code, or by the same signal. Other exit codes are 1 if standard output
cannot be written, 2 for a wrong command line, 125 if no terminal can be created, 126 if the program cannot be
executed, and 127 if it does not exist.";

/// `COLUMNSxLINES`.
fn size(text: &str) -> Result<Size, String> {
    let number = |text: &str| text.parse().ok().filter(|&n: &u16| n > 0);
    let size = text.split_once('x').and_then(|(c, l)| Some((number(c)?, number(l)?)));
    size.ok_or_else(|| "a size has the form COLUMNSxLINES, as in 80x24".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_table_of_options_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_behind_the_program_are_its_own() {
        let cli = Cli::parse_from(["pty", "--size", "100x30", "ls", "--size", "-x", "--", "y"]);
        assert_eq!(cli.command, ["ls", "--size", "-x", "--", "y"]);
        assert_eq!(cli.size(), (100, 30));
        assert_eq!(Cli::parse_from(["pty", "--", "-x"]).command, ["-x"]);
    }

    #[test]
    fn a_size_is_two_numbers() {
        for bad in ["", "80", "80x", "x24", "0x24", "80x0", "80x24x1", "-1x2", "70000x1"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
