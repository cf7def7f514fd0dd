//! `mpdtrace`: lists the members of the ring and checks the list by a message round the ring.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Command;
use mpdtrace::checked::Checked;
use mpdtrace::cli::TraceCli;
use mpdtrace::verify;
use mpdtrace::{ask, programs, render, svg, tool};

pub(crate) fn main() -> ExitCode {
    tool::main(|cli: &TraceCli| match &cli.generate_docs {
        Some(directory) => documents(directory).map(|()| ExitCode::SUCCESS),
        None if cli.trace_hops => hops(cli),
        None => members(cli),
    })
}

/// Writes the man pages and completions of all tools.
fn documents(directory: &Path) -> Result<()> {
    let asks_a_daemon = |tool: &Command| tool.get_arguments().any(|one| one.get_id() == "rundir");
    let (asking, others): (Vec<_>, Vec<_>) =
        programs::commands().into_iter().partition(asks_a_daemon);
    mpd_docs::generate(directory, asking, &mpd_docs::OF_RING)?;
    mpd_docs::generate(directory, others, &[])
}

fn members(cli: &TraceCli) -> Result<ExitCode> {
    let checked = verify::check(&cli.common.ring_options.rundir()?, cli.patience)?;
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
    let census = ask::census(&cli.common.ring_options.rundir()?)?;
    let text = if cli.common.json { render::census_json(&census) } else { render::census(&census) };
    tool::print(&text)?;
    let missing = render::missing(&census.missing);
    if let Some(text) = &missing {
        tool::warn("mpdtrace", text);
    }
    Ok(tool::code(missing.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_man_page_of_a_tool_has_the_variables_that_the_tool_reads() {
        let directory = tempfile::tempdir().unwrap();
        documents(directory.path()).unwrap();
        for (name, reads) in [("mpdtrace", true), ("mpdkilljob", true), ("mpdhelp", false)] {
            let page = directory.path().join(format!("man/{name}.1"));
            let page = std::fs::read_to_string(page).unwrap();
            assert_eq!(page.contains("MPD_RUNDIR"), reads, "{name}: {page}");
        }
    }
}
