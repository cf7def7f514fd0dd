//! The command line of `pty`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use mpd_io::pty::{Size, size_of_environment};

/// Run a program on a terminal of its own.
///
/// The program finds a terminal at its standard input, output and error, and leads a session on it: it
/// writes line by line, prompts, and job control works in it. What it writes to either goes to the
/// standard output of pty at once; what pty reads goes to it.
///
/// If standard input is a terminal, its keys are passed on as they are, the new terminal is set like it
/// and keeps its size. If it is not, the bytes are passed on as they are, too: they are not shown again,
/// none of them is a key that means something, and the end of standard input is the end of the file there,
/// as often as it is read. Where a program reads key by key (as shells do), its end-of-file key is pressed;
/// in raw mode, where every byte is data, nothing can tell the end. If standard output is no terminal, lines
/// end as they are written, in a line feed.
///
/// Signals go to the foreground of the new terminal, real-time ones too. When the terminal at standard input or the reader of
/// standard output vanishes, the new terminal does.
///
/// At a terminal pty stops with its program and continues it, so that the shell outside has its prompt again.
/// An editor that sends itself SIGTSTP at ^Z goes on at once, since the kernel stops nobody so who leads a
/// session; in a shell inside (pty bash) it stops.
#[derive(Clone, Debug, Parser)]
#[command(name = "pty", version, after_help = CODES)]
pub struct Cli {
    /// Size where no terminal is at standard input, output or error
    /// [default: $COLUMNS and $LINES, else 80x24]
    #[arg(long, value_name = "COLUMNSxLINES", value_parser = size)]
    pub size: Option<Size>,

    /// Write man page and completions.
    #[arg(long, hide = true, value_name = "DIR")]
    pub generate_docs: Option<PathBuf>,

    /// The program, and its arguments
    #[arg(
        value_name = "PROGRAM",
        required_unless_present = "generate_docs",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub command: Vec<OsString>,
}

impl Cli {
    /// The size of the new terminal where there is none to take it from.
    pub fn size(&self) -> Size {
        self.size.unwrap_or_else(size_of_environment)
    }
}

const CODES: &str = "\
pty ends as the program does: with its exit code, or by the same signal. Else: 2 for a wrong command line, 125 if
there is no terminal to be had, 126 if the program cannot be executed, 127 if it is not there.";

/// `COLUMNSxLINES`.
fn size(text: &str) -> Result<Size, String> {
    let number = |text: &str| text.parse().ok().filter(|&n: &u16| n > 0);
    let size = text.split_once('x').and_then(|(c, l)| Some((number(c)?, number(l)?)));
    size.ok_or_else(|| "COLUMNSxLINES is needed, as in 80x24".to_owned())
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
