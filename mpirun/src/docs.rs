//! Man pages and shell completions, made from our table of options for `scripts/install`.

use std::io;
use std::path::Path;

use clap::{Arg, ArgAction, Command, ValueHint};
use clap_complete::Shell;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use crate::completion;
use crate::help::{
    DEBUGGER, DEBUGGERS, EXAMPLES, FILES, NOTES, OWN_VARIABLES, SEE_ALSO, VARIABLES, WRAPPERS,
    WRAPPING,
};
use crate::options::{Heading, Key, OPTIONS, Opt};

include!("names.rs");

/// Writes `DIR/man/*.1` and `DIR/completions/SHELL/*`.
///
/// # Errors
/// A directory cannot be made or a file cannot be written; the error names it.
pub fn generate(dir: &Path) -> io::Result<()> {
    write(&dir.join("man/mpirun.1"), &man_page()?)?;
    for name in &NAMES[1..] {
        write(&dir.join(format!("man/{name}.1")), b".so man1/mpirun.1\n")?;
    }
    for name in NAMES {
        for (shell, folder, file) in [
            (Shell::Bash, "bash", name.to_owned()),
            (Shell::Zsh, "zsh", format!("_{name}")),
            (Shell::Fish, "fish", format!("{name}.fish")),
        ] {
            let text = completions(shell, name);
            write(&dir.join("completions").join(folder).join(file), &text)?;
        }
    }
    Ok(())
}

/// The man page of `mpirun`. Its options are written from the table itself: clap would show two
/// dashes only, and leave out the other spellings.
fn man_page() -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command("mpirun"));
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([
        bold("mpirun"),
        roman(" ["),
        italic("options"),
        roman("] "),
        italic("program"),
        roman(" ["),
        italic("arguments"),
        roman("] [: ["),
        italic("options"),
        roman("] "),
        italic("program"),
        roman(" ["),
        italic("arguments"),
        roman("]]..."),
    ]);
    roff.to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    let mut roff = Roff::new();
    roff.control("SH", ["OPTIONS"]);
    for heading in Heading::SHOWN {
        roff.control("SS", [heading.title()]);
        for opt in OPTIONS.iter().filter(|o| o.heading == heading) {
            roff.control("TP", []);
            roff.text(spellings(opt));
            roff.text([roman(opt.help)]);
        }
    }
    roff.control("SH", ["DEBUGGING"]);
    for paragraph in DEBUGGER {
        roff.control("PP", []);
        roff.text([roman(paragraph)]);
    }
    roff.control("SH", ["ENVIRONMENT"]);
    described(&mut roff, &OWN_VARIABLES);
    roff.control("SH", ["ENVIRONMENT OF THE RANKS"]);
    described(&mut roff, &VARIABLES);
    roff.control("SH", ["FILES"]);
    described(&mut roff, &FILES);
    roff.control("SH", ["WRAPPING THE PROGRAM"]);
    roff.text([roman(WRAPPING)]);
    described(&mut roff, &WRAPPERS);
    roff.control("SH", ["DEBUGGERS"]);
    for paragraph in DEBUGGERS {
        roff.control("PP", []);
        roff.text([roman(paragraph)]);
    }
    roff.control("SH", ["EXAMPLES"]);
    for example in EXAMPLES {
        roff.control("PP", []);
        roff.text([roman(example)]);
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(SEE_ALSO)]);
    roff.to_writer(&mut page)?;
    Ok(page)
}

/// A list of words in bold, each with what it means.
fn described(roff: &mut Roff, list: &[(&str, &str)]) {
    for (word, meaning) in list {
        roff.control("TP", []);
        roff.text([bold(*word)]);
        roff.text([roman(*meaning)]);
    }
}

/// All ways to write an option, and its values.
fn spellings(opt: &Opt) -> Vec<Inline> {
    let mut line = Vec::new();
    for name in opt.names {
        if !line.is_empty() {
            line.push(roman(", "));
        }
        line.push(bold(format!("-{name}")));
    }
    for value in opt.values {
        line.extend([roman(" "), italic(*value)]);
    }
    line
}

/// The completions for one shell.
fn completions(shell: Shell, name: &'static str) -> Vec<u8> {
    if shell == Shell::Bash {
        return completion::bash(name).into_bytes();
    }
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command(name), name, &mut text);
    text
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
        Key::ConfigFile
        | Key::HostFile
        | Key::ExitCodeFile
        | Key::StatusFile
        | Key::ProcTable
        | Key::OutFile
        | Key::ErrFile => ValueHint::FilePath,
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
