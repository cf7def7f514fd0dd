//! The tables of completion for tools with a job as argument. The completions of clap cannot list jobs.

use clap::{Arg, Command};

use crate::completion::Table;

/// Signals that are sent to jobs.
const SIGNALS: &str = "words:INT TERM KILL HUP QUIT USR1 USR2 STOP CONT";

/// The table of a tool; `None` if no argument is a job.
pub(crate) fn table(command: &Command) -> Option<Table> {
    let mut command = command.clone();
    // This adds the options of clap itself.
    command.build();
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    if !shown().any(|arg| kind(arg) == "job") {
        return None;
    }
    let mut table = Table::default();
    for arg in shown() {
        let (short, long) = (arg.get_short(), arg.get_long());
        table.single.extend(short.map(|letter| format!("-{letter}")));
        table.double.extend(long.map(|name| format!("--{name}")));
        let names = short.map(String::from).into_iter().chain(long.map(str::to_owned));
        if arg.is_positional() {
            table.words.push(kind(arg));
        } else if arg.get_action().takes_values() {
            table.values.push((names.collect(), vec![kind(arg)]));
        }
    }
    Some(table)
}

/// The kind of an argument's value, by the name of the value.
fn kind(arg: &Arg) -> String {
    let name = arg.get_value_names().and_then(|names| names.first());
    let kind = match name.map(|name| name.as_str()) {
        Some("JOB" | "ID") => "job",
        Some("SIGNAL") => SIGNALS,
        Some("RANKS") => "words:all none",
        Some("DIR") => "directory",
        Some("FILE") => "file",
        _ => "none",
    };
    kind.to_owned()
}
