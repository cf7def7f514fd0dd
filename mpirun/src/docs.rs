//! Man pages and shell completions, made by clap from our table of options for `scripts/install`.

use std::io;
use std::path::Path;

use clap::{Arg, ArgAction, Command, ValueHint};
use clap_complete::Shell;

use crate::help::NOTES;
use crate::options::{Key, OPTIONS, Opt};

/// The names under which the program is installed.
const NAMES: [&str; 2] = ["mpirun", "mpiexec"];

/// Writes `DIR/man/*.1` and `DIR/completions/SHELL/*`.
///
/// # Errors
/// A directory cannot be made or a file cannot be written; the error names it.
pub fn generate(dir: &Path) -> io::Result<()> {
    write(&dir.join("man/mpirun.1"), man_page()?.as_bytes())?;
    write(&dir.join("man/mpiexec.1"), b".so man1/mpirun.1\n")?;
    for name in NAMES {
        for (shell, folder, file) in [
            (Shell::Bash, "bash", name.to_owned()),
            (Shell::Zsh, "zsh", format!("_{name}")),
            (Shell::Fish, "fish", format!("{name}.fish")),
        ] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut command(name), name, &mut text);
            write(&dir.join("completions").join(folder).join(file), &text)?;
        }
    }
    Ok(())
}

/// The man page of `mpirun`.
fn man_page() -> io::Result<String> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command("mpirun")).render(&mut page)?;
    let page = String::from_utf8_lossy(&page);
    // clap writes long options with two dashes only; people type one, and both are accepted.
    Ok(page.replace(r"\-\-", r"\-"))
}

/// The table as clap sees it.
fn command(name: &'static str) -> Command {
    let program = Arg::new("program")
        .value_name("PROGRAM")
        .help("The program to run")
        .value_hint(ValueHint::CommandName);
    let arguments = Arg::new("arguments")
        .value_name("ARGUMENTS")
        .help("Its arguments; a ':' of its own starts the options of the next program")
        .num_args(0..)
        .trailing_var_arg(true)
        .allow_hyphen_values(true)
        .value_hint(ValueHint::AnyPath);
    Command::new(name)
        .version(env!("CARGO_PKG_VERSION"))
        .about("start parallel programs under MPD")
        .long_about(NOTES.join("\n\n"))
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(OPTIONS.iter().filter(|o| o.is_shown()).map(argument))
        .arg(program)
        .arg(arguments)
}

/// One option as clap sees it.
fn argument(opt: &Opt) -> Arg {
    let mut arg = Arg::new(opt.names[0]).help(opt.help).help_heading(opt.heading.title());
    let (mut has_short, mut has_long) = (false, false);
    for name in opt.names {
        let mut letters = name.chars();
        arg = match (letters.next(), letters.next()) {
            (Some(letter), None) if has_short => arg.visible_short_alias(letter),
            (Some(letter), None) => arg.short(letter),
            _ if has_long => arg.visible_alias(*name),
            _ => arg.long(*name),
        };
        has_short |= name.len() == 1;
        has_long |= name.len() > 1;
    }
    let hint = match opt.key {
        Key::Directory => ValueHint::DirPath,
        Key::ConfigFile | Key::ExitCodeFile | Key::StatusFile | Key::OutFile | Key::ErrFile => {
            ValueHint::FilePath
        }
        _ => ValueHint::Unknown,
    };
    match opt.values {
        [] => arg.action(ArgAction::SetTrue),
        values => arg
            .action(ArgAction::Append)
            .num_args(values.len())
            .value_names(values.iter().copied())
            .value_hint(hint),
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(path);
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(path, bytes))
        .map_err(|e| io::Error::new(e.kind(), format!("cannot write {}: {e}", path.display())))
}
