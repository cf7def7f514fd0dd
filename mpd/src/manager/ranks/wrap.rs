//! What is executed for a rank: its program, or something in front of it that starts it.

use mpd_wire::Rank;
use mpd_wire::job::{Argset, Bytes, Debug, Failure, OnCrash};

use super::prepare::{self, WINDOW_FD, Whose};
use crate::cli::{CATCHER, HOLDER, WATCHER_NAME};
use mpd_io::locate::{self, Program};

/// This executable, in another role.
const OURSELVES: &[u8] = b"/proc/self/exe";

/// A program and its words, its own name the first of them.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) path: Bytes,
    pub(super) argv: Vec<Bytes>,
    /// It is a script without interpreter line.
    pub(super) script: bool,
}

/// What to execute so that `program` runs as the rank: under a debugger, watched for crashes, on a terminal of
/// its own, or just so.
///
/// # Errors
/// What is needed for it is not here.
pub(super) fn words(
    whose: Whose<'_>,
    argset: &Argset,
    (rank, program): (Rank, Program),
) -> Result<Words, Failure> {
    let first = !whose.spawned;
    let spec = whose.spec;
    if let Some(debug) = spec.debug.as_ref().filter(|_| first) {
        return debugged(debug, argset, (rank, program));
    }
    let words = plain(argset, program);
    if let Some(on_crash) = spec.on_crash.as_ref().filter(|_| first) {
        return watched((whose, on_crash), argset, words);
    }
    match argset.pty {
        Some(size) => on_terminal(size, words),
        None => Ok(words),
    }
}

fn plain(argset: &Argset, program: Program) -> Words {
    let argv = std::iter::once(&argset.program).chain(&argset.args).cloned().collect();
    Words { path: program.path, argv, script: program.script }
}

/// This executable as the driver of a debugger.
fn debugged(
    debug: &Debug,
    argset: &Argset,
    (rank, program): (Rank, Program),
) -> Result<Words, Failure> {
    let gdb = debugger(&debug.gdb, argset)?;
    let mut argv = vec![b"mpdgdb".to_vec(), b"--debugger".to_vec(), gdb];
    match debug.attach.get(rank.index()) {
        Some(pid) => argv.extend([b"--attach".to_vec(), pid.to_string().into_bytes()]),
        None => {
            argv.push(program.path);
            argv.extend(argset.args.iter().cloned());
        }
    }
    Ok(Words { path: OURSELVES.to_vec(), argv, script: false })
}

/// This executable, which starts the program and looks where it crashes, or holds it then.
fn watched(
    (whose, on_crash): (Whose<'_>, &OnCrash),
    argset: &Argset,
    words: Words,
) -> Result<Words, Failure> {
    // Whoever looks needs it, too.
    let gdb = debugger(&on_crash.gdb, argset)?;
    let Words { path, argv, script } = words;
    let (role, whose) = match on_crash.hold {
        true => (HOLDER, prepare::tracer(whose.daemon).to_string().into_bytes()),
        false => (CATCHER, gdb),
    };
    let mut front = vec![WATCHER_NAME.into(), role.into(), whose];
    if script {
        front.push(b"/bin/sh".to_vec());
    }
    front.push(path);
    front.extend(argv.into_iter().skip(1));
    Ok(Words { path: OURSELVES.to_vec(), argv: front, script: false })
}

/// The debugger of this host.
fn debugger(gdb: &[u8], argset: &Argset) -> Result<Bytes, Failure> {
    let wanted = Argset { program: gdb.to_vec(), ..argset.clone() };
    let found = locate::program(&wanted).map(|program| program.path);
    found.map_err(|unusable| {
        let gdb = String::from_utf8_lossy(gdb);
        let problem = format!(
            "cannot execute the debugger {gdb}: {}; install it, or name another one with -gdb-path",
            unusable.problem
        );
        Failure::Suite { problem }
    })
}

/// The program `pty`, which gives the program a terminal.
fn on_terminal((columns, lines): (u16, u16), words: Words) -> Result<Words, Failure> {
    let wrapper = locate::wrapper().map_err(|problem| Failure::Suite { problem })?;
    let mut argv = words.argv.into_iter();
    let name = argv.next().unwrap_or_default();
    let size = format!("{columns}x{lines}").into_bytes();
    let window = WINDOW_FD.to_string().into_bytes();
    let mut front = vec![wrapper.clone(), b"--size".into(), size, b"--size-fd".into(), window];
    front.extend([b"--name".into(), name, b"--".into(), words.path]);
    front.extend(argv);
    Ok(Words { path: wrapper, argv: front, script: false })
}
