//! `mpd --replay FILE`: steps through the recording of a daemon or of a manager.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use mpd_io::files::logging::one_line;
use mpd_job::manager::Manager;
use mpd_recording::{End, Header, Lines, Options, Recorded, Replayed, replay};
use mpd_ring::Ring;

use crate::cli::{Cli, EXIT_FAILURE};

/// The reader of standard output is gone. A shell reports this code for a program that `SIGPIPE` ended.
const EXIT_READER_GONE: u8 = 141;

pub(crate) fn run(cli: &Cli, path: &Path) -> Result<ExitCode> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    let (header, lines) = Lines::begin(BufReader::new(file)).with_context(|| name.to_string())?;
    let mut out = Printer { out: BufWriter::new(io::stdout().lock()), problem: None };
    let origin = &header.origin;
    if origin.version != env!("CARGO_PKG_VERSION") {
        log_difference(&origin.version);
    }
    out.print(&one_line(&format!(
        "{} of {} {} on {}, pid {}, began {}",
        header.machine, origin.program, origin.version, origin.host, origin.pid, origin.began
    )));
    let options = Options { until: cli.until, state: cli.state };
    let replayed = match header.machine.as_str() {
        Ring::NAME => replay_one::<Ring>(header, lines, options, &mut out),
        Manager::NAME => replay_one::<Manager>(header, lines, options, &mut out),
        other => bail!("{name}: no machine of this program is called {other:?}"),
    };
    let replayed = replayed.with_context(|| name.to_string())?;
    let (text, code) = verdict(&replayed);
    out.print(&one_line(&text));
    out.end(code)
}

fn replay_one<M: Recorded>(
    header: Header,
    lines: Lines<BufReader<File>>,
    options: Options,
    out: &mut Printer<'_>,
) -> Result<Replayed, mpd_recording::InvalidRecording> {
    replay::<M>(header, lines, options, &mut |text| out.print(text))
}

/// The text that ends the output, and the exit code: 0 if all outputs are the same.
fn verdict(replayed: &Replayed) -> (String, u8) {
    let steps = replayed.steps;
    match &replayed.end {
        End::Program => (format!("{steps} steps, the same outputs; then the program ended"), 0),
        End::Asked => (format!("{steps} steps, the same outputs so far"), 0),
        End::Stopped(why) => {
            (format!("{steps} steps, the same outputs; then the recording ended: {why}"), 0)
        }
        End::Abrupt => {
            let text = "the same outputs before the last step; then the program was killed or crashed, or its disk was full";
            (format!("{steps} steps, {text}"), 0)
        }
        End::Differs(how) => (format!("step {steps} differs: {how}"), EXIT_FAILURE),
    }
}

/// Warns that the machine of another release may decide differently.
fn log_difference(version: &str) {
    let own = env!("CARGO_PKG_VERSION");
    let text = one_line(version);
    let _ = writeln!(
        io::stderr(),
        "mpd: the recording is of release {text} and this is {own}: outputs may differ"
    );
}

/// Standard output. After the first error it prints nothing more.
struct Printer<'a> {
    out: BufWriter<io::StdoutLock<'a>>,
    problem: Option<io::Error>,
}

impl Printer<'_> {
    /// Prints lines. They are cleaned, since a recording may contain any text.
    fn print(&mut self, text: &str) {
        for line in text.lines() {
            if self.problem.is_none() {
                self.problem = writeln!(self.out, "{}", one_line(line)).err();
            }
        }
    }

    fn end(mut self, code: u8) -> Result<ExitCode> {
        match self.problem.or_else(|| self.out.flush().err()) {
            None => Ok(ExitCode::from(code)),
            Some(e) if e.kind() == io::ErrorKind::BrokenPipe => {
                Ok(ExitCode::from(EXIT_READER_GONE))
            }
            Some(e) => Err(e).context("cannot write to standard output"),
        }
    }
}
