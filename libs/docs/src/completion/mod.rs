//! Completions for shells: options, their values, and words that are no options. The logic is in the script for bash.
//! The scripts for zsh and fish pass the line to it and show its results.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

const BASH: &str = include_str!("completion.bash");
const ZSH: &str = include_str!("completion.zsh");
const FISH: &str = include_str!("completion.fish");

/// The call of the script for bash by the scripts of other shells, with the line up to the cursor.
const CALL: &str = "
COMP_LINE=$1 COMP_POINT=${#1} MPD_WHOLE=1
_@NAME@
((${#COMPREPLY[@]} == 0)) || printf '%s\\n' \"${COMPREPLY[@]}\"
";

/// The command line of a program. The kind of a word is `program`, `job`, `host`, `variable`, `file`, `directory`,
/// `name` (of a variable, before its value), `none`, or `words:` and the possible words.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The options with one dash. The dash is part of the text.
    pub single: Vec<String>,
    /// The options with two dashes. The dashes are part of the text.
    pub double: Vec<String>,
    /// The options with values: their names without dashes, and the kind of each value.
    pub values: Vec<(Vec<String>, Vec<String>)>,
    /// The kinds of the words that are no options. Words after a program have no completion.
    pub words: Vec<String>,
}

/// A shell for which there are completions.
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
    /// All shells.
    pub const ALL: [Self; 3] = [Self::Bash, Self::Zsh, Self::Fish];

    /// The name of its directory.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }

    /// The name of the file in which it looks for the completion of a program.
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

/// Words in the quotes of bash.
fn quoted(kinds: &[String]) -> String {
    kinds.iter().map(|kind| format!("'{kind}'")).collect::<Vec<_>>().join(" ")
}

/// Writes the completions of a program for all shells below `directory`. `bash` is the name of the file for bash.
///
/// # Errors
/// A file cannot be written; the error names it.
pub fn write(directory: &Path, program: &str, bash: &str, table: &Table) -> io::Result<()> {
    for shell in Shell::ALL {
        let folder = directory.join("completions").join(shell.name());
        let path =
            folder.join(if shell == Shell::Bash { bash.to_owned() } else { shell.file(program) });
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&path, script(shell, program, table)))
            .map_err(|e| {
                io::Error::new(e.kind(), format!("cannot write {}: {e}", path.display()))
            })?;
    }
    Ok(())
}
