//! `mpirun -d`: a real gdb for each rank of real MPI programs, one prompt for all, driven at a terminal.

mod faults;
mod programs;
mod session;

use std::path::PathBuf;

use mpd_sansio::Time;
use mpd_stdio::line_splitter::Record;
use mpd_stdio::merge::Merger;
use mpd_tests::surroundings::{setting, tell};
use mpd_wire::RankSet;

use crate::mpi::{Library, libraries};
use crate::pty::Terminal;
use crate::run::{Run, wait_until};
use crate::suite::{Suite, skip};

const PROMPT: &str = "(mpigdb) ";

/// A part of lines owners presence depends on the speed of the machine.
const HINT: &str = "addresses those that are ready alone";

/// The MPI libraries owners `world` can be debugged here.
fn all_libraries() -> Vec<Library> {
    if setting("MPD_TEST_GDB").is_none() {
        skip("no gdb");
        return Vec::new();
    }
    libraries().into_iter().filter(|library| library.program("world").exists()).collect()
}

/// The first of these libraries.
fn library() -> Option<Library> {
    all_libraries().into_iter().next()
}

/// A session at a terminal.
struct Session {
    terminal: Terminal,
    /// The directory of the program.
    directory: String,
    begin: usize,
}

impl Session {
    /// `mpirun -d -n RANKS world` with `before` as environment, up to its first prompt.
    fn start(suite: &Suite, library: &Library, before: &str, arguments: &str) -> Self {
        let program = library.program("world");
        let directory = PathBuf::from(&program).parent().expect("a directory").to_owned();
        let directory = directory.display().to_string();
        let mut terminal = Terminal::with_shell(suite, "");
        let search_path = library.search_path().map(|path| format!("LD_LIBRARY_PATH={path} "));
        let search_path = search_path.unwrap_or_default();
        terminal
            .enter(&format!("{search_path}{before} $MPIRUN -d {arguments} {}", program.display()));
        terminal.shows("world\n");
        let begin = terminal.screen().len();
        Self { terminal, directory, begin }
    }

    fn of(suite: &Suite, library: &Library, ranks: usize) -> Self {
        let mut session = Self::start(suite, library, "", &format!("-n {ranks}"));
        session.prompts();
        session
    }

    fn prompts(&mut self) {
        self.terminal.shows(PROMPT);
    }

    /// Types a command, and waits for the next prompt.
    fn does(&mut self, command: &str) {
        self.terminal.enter(command);
        self.terminal.shows(&format!("{command}\n"));
        self.prompts();
    }

    /// Types a command without waiting for a prompt.
    fn begins(&mut self, command: &str) {
        self.terminal.enter(command);
        self.terminal.shows(&format!("{command}\n"));
    }

    /// Quits the session and returns the screen.
    fn quits(mut self) -> String {
        self.begins("quit");
        self.ends(0)
    }

    /// Waits for the end of the session, checks the exit code, and returns the screen.
    fn ends(mut self, code: i32) -> String {
        self.terminal.shows_prompt();
        let screen = self.shown();
        assert_eq!(self.terminal.exit_code(), code, "{screen}");
        self.terminal.leave();
        screen
    }

    /// The screen of the session without the directory of the program, addresses, and hints.
    fn shown(&self) -> String {
        let screen = self.terminal.screen().split_off(self.begin).replace(&self.directory, "DIR");
        let screen = screen.split("READY> ").next().unwrap_or_default();
        let lines = screen.lines().filter(|line| !line.contains(HINT));
        lines.map(|line| without_addresses(line) + "\n").collect()
    }
}

/// Replaces hexadecimal numbers, which depend on the machine.
fn without_addresses(line: &str) -> String {
    let mut pieces = line.split("0x");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        text.push_str("ADDRESS");
        text.push_str(piece.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    text
}

/// The text of a machine that runs every rank in time: between two lines without ranks, equal lines of all
/// ranks are merged.
fn merged(text: &str, ranks: u32) -> String {
    let (mut out, mut lines) = (String::new(), vec![String::new(); ranks as usize]);
    for line in text.lines().chain([""]) {
        let labelled = line.split_once(": ").and_then(|(label, text)| {
            let owners: RankSet = label.parse().ok()?;
            owners.is_within(&RankSet::below(ranks)).then_some((owners, text))
        });
        if let Some((owners, text)) = labelled {
            owners.ranks().for_each(|rank| lines[rank.index()] += &format!("{text}\n"));
            continue;
        }
        out += &merge(&mut lines);
        out += line;
        out.push('\n');
    }
    out.trim_end().to_owned() + "\n"
}

fn merge(lines: &mut [String]) -> String {
    let ranks = RankSet::below(u32::try_from(lines.len()).expect("few ranks"));
    let mut merger = Merger::new(&ranks, 0);
    let mut out = String::new();
    let mut take = |ranks: &RankSet, text: &[u8]| {
        if text.first() != Some(&b'=') {
            out += &format!("{ranks}: {}\n", String::from_utf8_lossy(&text[1..]));
        }
    };
    merger.ask(Time::ZERO, &ranks);
    let mut queues: Vec<_> =
        lines.iter().map(|own| own.lines().map(|line| format!("~{line}\n"))).collect();
    let most = lines.iter().map(|own| own.lines().count()).max().unwrap_or(0);
    for at in 0..=most {
        for (rank, queue) in ranks.ranks().zip(&mut queues) {
            let text = queue.next().or_else(|| (at == most).then(|| "=\n".to_owned()));
            let Some(text) = text else { continue };
            let record = Record { begin: true, end: true, head: b"", body: text.as_bytes() };
            merger.push(Time::ZERO, &[rank].into_iter().collect(), record, &mut take);
        }
    }
    drop(queues);
    lines.iter_mut().for_each(String::clear);
    out
}

/// Fails if the screen is not the golden text, except for lines that a slow machine did not merge.
fn is_golden(shown: &str, golden: &str, ranks: u32) {
    if shown != golden {
        tell(&format!("put together anew:\n{shown}"));
        assert_eq!(merged(shown, ranks), merged(golden, ranks), "shown was:\n{shown}");
    }
}

/// `mpirun -d` without a terminal.
fn debug(suite: &Suite, library: &Library, arguments: &[&str]) -> Run {
    library.dress(suite.mpirun(["-d"]).args(arguments).arg(library.program("world"))).deadline(180)
}

/// Checks that only the shell is left of the session.
fn nothing_is_left(suite: &Suite) {
    suite.no_job_is_left_but(&["bash"]);
}

/// Waits until `count` programs are being debugged.
fn run_together(suite: &Suite, count: usize) {
    wait_until(&format!("{count} ranks"), || suite.running("world").len() == count);
}
