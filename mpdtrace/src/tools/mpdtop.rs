//! `mpdtop`: shows the resources that hosts and ranks use.

use std::process::ExitCode;
use std::thread::sleep;

use anyhow::Result;
use mpd_io::terminal::screen::Screen;
use mpdtrace::cli::TopCli;
use mpdtrace::export::{self, Source};
use mpdtrace::live::{self, SAMPLES};
use mpdtrace::top::View;
use mpdtrace::{all_users, render, tool};

pub(crate) fn main() -> ExitCode {
    tool::main(run)
}

fn run(cli: &TopCli) -> Result<ExitCode> {
    if cli.all.all_users {
        return all_users::tables("mpdtop", &["--once".to_owned()], &cli.all);
    }
    let rundir = cli.common.ring_options.rundir()?;
    let job = cli.job();
    if cli.openmetrics {
        let source = Source { rundir, job, per_rank: cli.per_rank };
        return match (&cli.file, &cli.listen) {
            (Some(file), _) => export::to_file(&source, file, cli.interval()),
            (None, Some(socket)) => export::on_socket(&source, socket),
            (None, None) => {
                let (text, missing) = source.text()?;
                tool::print(&text)?;
                Ok(tool::code(missing))
            }
        };
    }
    let screen = if cli.once || cli.common.json { None } else { Screen::open()? };
    if let Some(screen) = &screen {
        live::show(screen, &rundir, job.as_ref(), cli.interval())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut samples = Vec::new();
    loop {
        samples.push(live::sample(&rundir, job.as_ref())?);
        if samples.len() == SAMPLES {
            let Some(view) = View::of(&samples) else { return Ok(ExitCode::SUCCESS) };
            tool::print(&match cli.common.json {
                true => view.json(),
                false => view.lines(usize::MAX, usize::MAX).join("\n") + "\n",
            })?;
            if cli.once || !cli.common.json {
                let missing = render::missing(view.missing);
                return Ok(tool::code(missing.is_some()));
            }
            samples.remove(0);
        }
        sleep(cli.interval() / 2);
    }
}
