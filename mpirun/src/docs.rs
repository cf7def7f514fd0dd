//! Man pages and shell completions, made from the table of options for `scripts/install`.

use std::io;
use std::path::Path;

use clap::Command;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use crate::completion;
use crate::help::{
    DEBUGGER, DEBUGGERS, EXAMPLES, FILES, NOTES, OWN_VARIABLES, SEE_ALSO, VARIABLES, WRAPPERS,
    WRAPPING,
};
use crate::options::{Heading, OPTIONS, Opt};

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
    let table = completion::table();
    for name in NAMES {
        mpd_docs::completion::write(dir, name, name, &table)?;
    }
    Ok(())
}

/// The man page of `mpirun`. Its options are written from the table, because clap would show only
/// two dashes and leave out the other spellings.
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

/// A list of terms in bold, each with its description.
fn described(roff: &mut Roff, list: &[(&str, &str)]) {
    for (word, meaning) in list {
        roff.control("TP", []);
        roff.text([bold(*word)]);
        roff.text([roman(*meaning)]);
    }
}

/// All spellings of an option, and its values.
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

/// The data of clap for the first sections of the man page.
fn command(name: &'static str) -> Command {
    Command::new(name)
        .version(env!("CARGO_PKG_VERSION"))
        .about("start parallel programs under MPD")
        .long_about(NOTES.join("\n\n"))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(path);
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(path, bytes))
        .map_err(|e| io::Error::new(e.kind(), format!("cannot write {}: {e}", path.display())))
}
