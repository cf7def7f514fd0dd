//! `mpirun -d`: a real gdb for each rank of real MPI programs, one prompt for all, driven at a terminal.

mod faults;
mod programs;
mod session;

use std::path::PathBuf;

use mpd_machine::Time;
use mpd_stdio::leaf::Record;
use mpd_stdio::merge::Merger;
use mpd_tests::surroundings::{setting, tell};
use mpd_wire::RankSet;

use crate::mpi::{Library, libraries};
use crate::pty::Terminal;
use crate::run::{Run, wait_until};
use crate::suite::{Suite, skip};

const PROMPT: &str = "(mpigdb) ";

/// What is said in lines that depend on how fast the machine is.
const HINT: &str = "addresses those that are ready alone";

/// The MPI libraries whose `world` can be debugged here.
fn all_libraries() -> Vec<Library> {
    if setting("MPD_TEST_GDB").is_none() {
        skip("no gdb");
        return Vec::new();
    }
    libraries().into_iter().filter(|library| library.program("world").exists()).collect()
}

/// The first of them.
fn library() -> Option<Library> {
    all_libraries().into_iter().next()
}

/// A session at a terminal.
struct Session {
    terminal: Terminal,
    /// Where the program is.
    directory: String,
    begin: usize,
}

impl Session {
    /// `mpirun -d -n RANKS world`, through whatever daemon the words before it say, up to its first prompt.
    fn start(suite: &Suite, library: &Library, before: &str, words: &str) -> Self {
        let program = library.program("world");
        let directory = PathBuf::from(&program).parent().expect("a directory").to_owned();
        let directory = directory.display().to_string();
        let mut terminal = Terminal::with_shell(suite, "");
        let search_path = library.search_path().map(|path| format!("LD_LIBRARY_PATH={path} "));
        let search_path = search_path.unwrap_or_default();
        terminal.enter(&format!("{search_path}{before} $MPIRUN -d {words} {}", program.display()));
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

    /// Types a command that is not waited for.
    fn begins(&mut self, command: &str) {
        self.terminal.enter(command);
        self.terminal.shows(&format!("{command}\n"));
    }

    /// Ends it, and gives what was on the screen.
    fn quits(mut self) -> String {
        self.begins("quit");
        self.ends(0)
    }

    /// It ends by itself.
    fn ends(mut self, code: i32) -> String {
        self.terminal.shows_prompt();
        let screen = self.shown();
        assert_eq!(self.terminal.exit_code(), code, "{screen}");
        self.terminal.leave();
        screen
    }

    /// What the session has shown: without the directory of the program, addresses, and hints.
    fn shown(&self) -> String {
        let screen = self.terminal.screen().split_off(self.begin).replace(&self.directory, "DIR");
        let screen = screen.split("READY> ").next().unwrap_or_default();
        let lines = screen.lines().filter(|line| !line.contains(HINT));
        lines.map(|line| without_addresses(line) + "\n").collect()
    }
}

/// Numbers in hexadecimal are of the machine.
fn without_addresses(line: &str) -> String {
    let mut pieces = line.split("0x");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        text.push_str("ADDRESS");
        text.push_str(piece.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    text
}

/// The text as it would be on a machine that gives every rank its turn in time: between two lines without
/// ranks, equal lines of all ranks are one.
fn merged(text: &str, ranks: u32) -> String {
    let (mut out, mut lines) = (String::new(), vec![String::new(); ranks as usize]);
    for line in text.lines().chain([""]) {
        let labelled = line.split_once(": ").and_then(|(label, text)| {
            let whose: RankSet = label.parse().ok()?;
            whose.is_within(&RankSet::below(ranks)).then_some((whose, text))
        });
        if let Some((whose, text)) = labelled {
            whose.ranks().for_each(|rank| lines[rank.index()] += &format!("{text}\n"));
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

/// Fails if the session has not shown this, give or take what a slow machine leaves apart.
fn is_golden(shown: &str, golden: &str, ranks: u32) {
    if shown != golden {
        tell(&format!("put together anew:\n{shown}"));
        assert_eq!(merged(shown, ranks), merged(golden, ranks), "shown was:\n{shown}");
    }
}

/// `mpirun -d` without a terminal.
fn debug(suite: &Suite, library: &Library, words: &[&str]) -> Run {
    library.dress(suite.mpirun(["-d"]).args(words).arg(library.program("world"))).deadline(180)
}

/// Nothing of the session is left, but the shell.
fn nothing_is_left(suite: &Suite) {
    suite.no_job_is_left_but(&["bash"]);
}

/// Waits until so many programs are being debugged.
fn run_together(suite: &Suite, count: usize) {
    wait_until(&format!("{count} ranks"), || suite.running("world").len() == count);
}
