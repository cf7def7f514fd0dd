//! The MPI library of a program, as far as its files show it. Nothing is executed.
//!
//! `look` finds a program as the launch does and reads what it is linked with. The decisions are in
//! `family` and `search`, the format of the files in `elf`, and the reading in `files`.

use std::fmt;
use std::path::{Path, PathBuf};

use mpd_io::files::logging::plain;
use mpd_io::process::locate;
use mpd_wire::job::{Argset, Bytes};

use crate::environment;

pub mod elf;
mod family;
mod files;
mod search;

pub use search::{Library, Linked};

/// A program of the command line on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It cannot be executed here; the text is the problem.
    Unusable(String),
    /// Its absolute path, and what its file shows.
    Program(PathBuf, Visible),
}

/// What the file of a program shows about its MPI library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visible {
    /// The libraries that it is linked with were read.
    Linked(Linked),
    /// It contains all of its libraries.
    Static,
    /// A script, with its interpreter.
    Script(String),
    /// Python, or a script for it.
    Python,
    /// The file cannot be read; the text is the problem.
    Unreadable(String),
    /// No known format.
    Unknown,
}

impl fmt::Display for Visible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linked(linked) => linked.fmt(f),
            Self::Static => f.write_str("not visible: the program is statically linked"),
            Self::Script(interpreter) => write!(f, "not visible: a script for {interpreter}"),
            Self::Python => f.write_str("decided by mpi4py"),
            Self::Unreadable(problem) => write!(f, "not visible: {problem}"),
            Self::Unknown => f.write_str("not visible: no ELF file and no script"),
        }
    }
}

/// Finds the program of an argset on this host. `environment` is the environment of its ranks.
pub fn look(argset: &Argset, environment: &[Bytes]) -> Found {
    let program = match locate::program(argset) {
        Ok(program) => program,
        Err(unusable) => return Found::Unusable(unusable.problem),
    };
    let path = absolute(argset, &program.path);
    let library_path = environment::value_of(environment, b"LD_LIBRARY_PATH").unwrap_or_default();
    let visible = if program.script {
        Visible::Script("/bin/sh".into())
    } else {
        visible(&path, library_path)
    };
    Found::Program(path, visible)
}

fn absolute(argset: &Argset, path: &[u8]) -> PathBuf {
    let path = Path::new(bytes_as_path(&argset.directory)).join(bytes_as_path(path));
    // Removes `.` in the middle. A `..` stays, because it may follow a symbolic link.
    path.components().collect()
}

fn bytes_as_path(bytes: &[u8]) -> &Path {
    Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes))
}

/// What a file shows.
fn visible(path: &Path, library_path: &[u8]) -> Visible {
    let start = match files::beginning(path) {
        Ok(start) => start,
        Err(e) => return Visible::Unreadable(plain(&e)),
    };
    if let Some(interpreter) = family::interpreter(&start) {
        return match family::is_python(&interpreter) {
            true => Visible::Python,
            false => Visible::Script(interpreter),
        };
    }
    match files::parts(path) {
        // Python itself is linked with no MPI library, its module is.
        Some(elf::Elf::Dynamic(parts)) => {
            match search::walk(path, parts, library_path, files::parts) {
                linked if linked.libraries.is_empty() && is_named_python(path) => Visible::Python,
                linked => Visible::Linked(linked),
            }
        }
        Some(elf::Elf::Static) if is_named_python(path) => Visible::Python,
        Some(elf::Elf::Static) => Visible::Static,
        None => Visible::Unknown,
    }
}

fn is_named_python(path: &Path) -> bool {
    path.to_str().is_some_and(family::is_python)
}
