//! Completions for shells: options, their values, and words that are no options. The logic is that of one script for
//! bash; the scripts for zsh and fish pass the line to it and show what it offers.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

const BASH: &str = include_str!("completion.bash");
const ZSH: &str = include_str!("completion.zsh");
const FISH: &str = include_str!("completion.fish");

/// How the scripts of other shells call the one for bash, with the line up to the cursor.
const CALL: &str = "
COMP_LINE=$1 COMP_POINT=${#1} MPD_WHOLE=1
_@NAME@
((${#COMPREPLY[@]} == 0)) || printf '%s\\n' \"${COMPREPLY[@]}\"
";

/// The command line of a program. The kind of a word is `program`, `job`, `host`, `variable`, `file`, `directory`,
/// `name` (of a variable, with a value behind it), `none`, or `words:` and the words it can be.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The options with one dash, with it.
    pub single: Vec<String>,
    /// The options with two dashes, with them.
    pub double: Vec<String>,
    /// Options that have values: their names without dashes, and the kind of each value.
    pub values: Vec<(Vec<String>, Vec<String>)>,
    /// The kinds of the words that are no options. Behind a program nothing is offered.
    pub words: Vec<String>,
}

/// A shell that the completions are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// The GNU shell.
    Bash,
    /// The Z shell.
    Zsh,
    /// The friendly interactive shell.
    Fish,
}

impl Shell {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Bash, Self::Zsh, Self::Fish];

    /// What its directory is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }

    /// Where it looks for the completion of a program.
    pub fn file(self, program: &str) -> String {
        match self {
            Self::Bash => format!("{program}.bash"),
            Self::Zsh => format!("_{program}"),
            Self::Fish => format!("{program}.fish"),
        }
    }
}

/// The completion of a program for a shell.
pub fn script(shell: Shell, program: &str, table: &Table) -> String {
    let bash = bash(program, table);
    let called = || format!("{bash}{}", CALL.replace("@NAME@", program));
    match shell {
        Shell::Bash => bash,
        Shell::Zsh => {
            ZSH.replace("@NAME@", program).replace("@BASH@", &called().replace('\'', r"'\''"))
        }
        Shell::Fish => {
            let quoted = called().replace('\\', r"\\").replace('\'', r"\'");
            FISH.replace("@NAME@", program).replace("@BASH@", &quoted)
        }
    }
}

fn bash(program: &str, table: &Table) -> String {
    let mut values = String::new();
    for (names, kinds) in &table.values {
        // Writing to a String cannot fail.
        let _ = writeln!(values, "    {}) kinds=({}) ;;", names.join(" | "), quoted(kinds));
    }
    BASH.replace("@VALUES@", &values)
        .replace("@WORDS@", &quoted(&table.words))
        .replace("@SINGLE@", &table.single.join(" "))
        .replace("@DOUBLE@", &table.double.join(" "))
        .replace("@NAME@", program)
}

/// Words of bash.
fn quoted(kinds: &[String]) -> String {
    kinds.iter().map(|kind| format!("'{kind}'")).collect::<Vec<_>>().join(" ")
}

/// Writes the completions of a program for all shells below `directory`; `bash` is what its file for bash is called.
///
/// # Errors
/// A file cannot be written; the error names it.
pub fn write(directory: &Path, program: &str, bash: &str, table: &Table) -> io::Result<()> {
    for shell in Shell::ALL {
        let place = directory.join("completions").join(shell.name());
        let path =
            place.join(if shell == Shell::Bash { bash.to_owned() } else { shell.file(program) });
        fs::create_dir_all(&place)
            .and_then(|()| fs::write(&path, script(shell, program, table)))
            .map_err(|e| io::Error::new(e.kind(), format!("cannot write {}: {e}", path.display())))?;
    }
    Ok(())
}
