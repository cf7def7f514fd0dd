//! `mpdnames`: lists the names that jobs have published.

use std::process::ExitCode;

use anyhow::Result;
use mpd_io::files::logging::one_line;
use mpd_wire::message::Published;
use mpd_wire::names::{Content, PmixValue, split_name};
use mpdtrace::cli::NamesCli;
use mpdtrace::{ask, render, tool};
use serde_json::{Value, json};

pub(crate) fn main() -> ExitCode {
    tool::main(run)
}

fn run(cli: &NamesCli) -> Result<ExitCode> {
    let names = ask::names(&cli.common.ring_options.rundir()?)?;
    let text = if cli.common.json {
        render::json(&json!({ "names": names.iter().map(object).collect::<Vec<_>>() }))
    } else {
        // Quoted as in Rust, so that any published text stays on one line.
        names.iter().map(line).collect()
    };
    tool::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// A name as JSON, with the job as people name it.
fn object(published: &Published) -> Value {
    let Published { name, value, job, host, keyed } = published;
    let job = job.to_string();
    json!({ "name": name, "value": value, "job": job, "host": host, "keyed": keyed })
}

/// The line of a name, with name and value as the program gave them.
fn line(published: &Published) -> String {
    let Published { name, value, job, host, keyed } = published;
    let (name, scope) = split_name(name);
    let of_pmix = PmixValue::read(value);
    let value = match of_pmix.map(|value| value.content) {
        None => format!("{value:?}"),
        Some(Content::Text(text)) => format!("{text:?}"),
        Some(Content::Encoded(_)) => "data".to_owned(),
    };
    let keyed = if *keyed { " keyed" } else { "" };
    let once = if of_pmix.is_some_and(|value| value.once != 0) { " once" } else { "" };
    // Without the instance at the end of a job's id.
    let scope = scope.map(|scope| scope.split_once('#').map_or(scope, |(name, _)| name));
    let scope = scope.map_or_else(String::new, |scope| format!(" for {}", one_line(scope)));
    format!("{name:?} {job} {host} {value}{keyed}{once}{scope}\n")
}
