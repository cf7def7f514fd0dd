//! The program of an argset on one host.

use super::Bytes;

/// A program that can be executed, as far as this can be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its path, relative to the directory of its argset.
    pub path: Bytes,
    /// Whether it is text without an interpreter line, which the shell would run.
    pub script: bool,
}

/// Why a program cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// The problem; the system's text if it comes from the system.
    pub problem: String,
    /// Whether the program was not found. Otherwise it was found and is not executable.
    pub missing: bool,
}

/// The place of the architecture of the host in the name of a program.
pub const ARCHITECTURE: &str = "%a";

/// Whether the name of a program has the architecture of its host in it.
pub fn names_architecture(program: &[u8]) -> bool {
    program.windows(ARCHITECTURE.len()).any(|word| word == ARCHITECTURE.as_bytes())
}
