//! `mpdcheck`: finds problems that keep hosts from forming a ring.

use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow, bail};
use mpd_io::ring::rundir::host_name;
use mpdtrace::check::facts::Facts;
use mpdtrace::check::over_ssh::{self, RemoteCheck};
use mpdtrace::check::{self, Detail, config, judge, others, reach};
use mpdtrace::cli::CheckCli;
use mpdtrace::remote::Shell;
use mpdtrace::{hosts, render, tool};

pub(crate) fn main() -> ExitCode {
    tool::main(|cli: &CheckCli| match cli {
        CheckCli { server: true, .. } => serve(),
        CheckCli { client: Some(target), .. } => connect(target),
        CheckCli { print_config: true, .. } => print_config(cli),
        CheckCli { site: true, .. } => super::mpdsite::check("ssh", cli.common.json),
        CheckCli { .. } => run(cli),
    })
}

fn run(cli: &CheckCli) -> Result<ExitCode> {
    let mut names = Vec::new();
    for text in &cli.hosts {
        names.extend(mpd_placement::hosts::expand_names(text)?);
    }
    if let Some(file) = &cli.file {
        names.extend(hosts::read(file)?);
    }
    if let Some(bad) = names.iter().find(|name| !mpd_placement::hosts::is_host_name(name)) {
        bail!("'{bad}' is no host name");
    }
    let ours = judge::report(&Facts::gather(&cli.common.ring_options.rundir()?));
    let mut reports = vec![ours.clone()];
    if !names.is_empty() {
        reports.push(others::judge(&others::resolve(&names), &host_name()));
    }
    if cli.ssh {
        let shell = Shell { program: "ssh".to_owned(), user: None };
        let ring_options = cli.common.ring_options.arguments()?;
        let remote_check =
            RemoteCheck { shell, program: tool::own_path("mpdcheck")?, ring_options };
        names.retain(|name| *name != host_name());
        reports.extend(over_ssh::reports(&remote_check, &names, &ours));
    }
    if cli.common.json {
        tool::print(&render::json(&reports))?;
    } else {
        let detail = Detail { here: &ours.host, notes: cli.verbose, reasons: cli.long };
        tool::print(&check::text(&reports, detail))?;
    }
    Ok(tool::code(check::is_ill(&reports)))
}

fn print_config(cli: &CheckCli) -> Result<ExitCode> {
    let sources = config::sources();
    let text = if cli.common.json { render::json(&sources) } else { config::text(&sources) };
    tool::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn serve() -> Result<ExitCode> {
    let (listener, port) = reach::listen().context("cannot listen")?;
    let host = host_name();
    tool::print(&format!("{} {host} {port}\n", reach::LISTENING))?;
    let peer = reach::serve(&listener, reach::SERVER_PATIENCE).map_err(|text| anyhow!(text))?;
    tool::print(&format!(
        "server has conn on {host} {port} from {peer}\n\
         server successfully recvd msg from client: {}\n",
        reach::HELLO
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn connect(target: &[String]) -> Result<ExitCode> {
    let [host, port] = target else { bail!("-c needs HOST and PORT") };
    let port = port.parse().map_err(|_| anyhow!("'{port}' is no port"))?;
    reach::connect(host, port).map_err(|text| anyhow!(text))?;
    tool::print(&format!("client successfully recvd ack from server: {}\n", reach::ACK))?;
    Ok(ExitCode::SUCCESS)
}
