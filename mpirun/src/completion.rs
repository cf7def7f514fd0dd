//! The table of options in the form of the completions. Completions made by clap would know neither
//! options with one dash nor the end of mpirun's own options.

use mpd_docs::completion::Table;

use crate::options::{Key, OPTIONS, Opt};

/// The table for all shells.
pub(crate) fn table() -> Table {
    let shown = || OPTIONS.iter().filter(|opt| opt.is_shown());
    let spelled = |dashes: &str| {
        shown().flat_map(|opt| opt.names).map(|name| format!("{dashes}{name}")).collect()
    };
    let names = |opt: &Opt| opt.names.iter().map(|name| (*name).to_owned()).collect();
    let valued = shown().filter(|opt| !opt.values.is_empty());
    Table {
        single: spelled("-"),
        double: spelled("--"),
        values: valued.map(|opt| (names(opt), kinds(opt))).collect(),
        words: vec!["program".to_owned()],
    }
}

/// The kind of each value of an option.
fn kinds(opt: &Opt) -> Vec<String> {
    let kind = match opt.key {
        Key::Directory | Key::Record | Key::RunDir | Key::Path => "directory",
        Key::ConfigFile
        | Key::HostFile
        | Key::ExitCodeFile
        | Key::StatusFile
        | Key::TraceStartup
        | Key::ProcTable
        | Key::OutFile
        | Key::ErrFile => "file",
        Key::LauncherProgram | Key::DebugPath => "program",
        Key::Attach | Key::Stacks => "job",
        Key::Hosts | Key::Host | Key::Exclude => "host",
        Key::EnvList | Key::EnvExport => "variable",
        Key::EnvSet => return vec!["name".to_owned(), "none".to_owned()],
        Key::OnFailure => "words:end continue highest",
        Key::Stdin => "words:all none",
        Key::UniverseSize => "words:SYSTEM INFINITE",
        _ => return opt.values.iter().map(|value| listed(value)).collect(),
    };
    vec![kind.to_owned()]
}

/// The words that a value like `none
/// core
/// CMD` allows. A name in capitals stands for any text.
fn listed(value: &str) -> String {
    let fixed = |word: &&str| word.bytes().all(|b| b.is_ascii_lowercase());
    let words: Vec<&str> = value.split('|').filter(fixed).collect();
    if words.is_empty() { "none".to_owned() } else { format!("words:{}", words.join(" ")) }
}

#[cfg(test)]
mod tests;
