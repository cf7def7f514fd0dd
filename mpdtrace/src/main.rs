//! `mpdtrace`: the members of the ring, checked by a message that goes round it.

use std::process::ExitCode;

use anyhow::Result;
use mpdtrace::cli::{self, TraceCli};
use mpdtrace::verify::{self, Checked};
use mpdtrace::{ask, render, svg, tool};

fn main() -> ExitCode {
    tool::main(|cli: &TraceCli| match &cli.generate_docs {
        Some(directory) => {
            mpd_docs::generate(directory, cli::commands()).map(|()| ExitCode::SUCCESS)
        }
        None if cli.trace_hops => hops(cli),
        None => members(cli),
    })
}

fn members(cli: &TraceCli) -> Result<ExitCode> {
    let checked = verify::check(&cli.common.place.rundir()?, cli.patience)?;
    tool::print(&match cli {
        TraceCli { svg: true, .. } => svg::ring(&checked),
        TraceCli { long: true, .. } if !cli.common.json => render::long(&checked.view),
        TraceCli { .. } if cli.common.json => render::ring_json(&checked),
        TraceCli { .. } => render::names(&checked.view),
    })?;
    let Checked { view, doubt: Some(doubt) } = checked else { return Ok(ExitCode::SUCCESS) };
    for text in std::iter::once(doubt).chain(verify::complaints(&view)) {
        tool::warn("mpdtrace", &text);
    }
    tool::warn("mpdtrace", "the list is what this host knows; the ring may be healing, ask again");
    Ok(tool::code(true))
}

fn hops(cli: &TraceCli) -> Result<ExitCode> {
    let census = ask::census(&cli.common.place.rundir()?)?;
    let text = if cli.common.json { render::census_json(&census) } else { render::census(&census) };
    tool::print(&text)?;
    let missing = render::missing(&census.missing);
    if let Some(text) = &missing {
        tool::warn("mpdtrace", text);
    }
    Ok(tool::code(missing.is_some()))
}
