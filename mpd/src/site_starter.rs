//! `mpd --site-starter`: the command of each login at the starter of a site. It becomes the boot agent of an installed
//! version, or prints the installed versions. Everything else is refused.

use std::ffi::CString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use mpd_io::ring::site;
use mpd_site::starter::{Command, daemon_of, parse};
use mpd_site::version::Version;
use nix::unistd::execv;

/// sshd puts the words that the other host asked for into this variable.
const ASKED: &str = "SSH_ORIGINAL_COMMAND";

pub(crate) fn run() -> Result<ExitCode> {
    let asked = std::env::var(ASKED).ok();
    let installed = site::versions();
    match parse(asked.as_deref(), &installed)? {
        Command::Versions => {
            let names: Vec<&str> = installed.iter().map(Version::as_str).collect();
            writeln!(io::stdout(), "{}", names.join(" ")).context("cannot print the versions")?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Agent { version, name } => become_agent(&version, name),
    }
}

fn become_agent(version: &Version, name: Option<String>) -> Result<ExitCode> {
    mpd_io::remove_variables([ASKED]).context("cannot forget the command")?;
    let program = daemon_of(version);
    let name = name.into_iter().flat_map(|name| ["--name".to_owned(), name]);
    let words = [program.clone(), mpd_boot::command::AGENT.to_owned()].into_iter().chain(name);
    let words: Vec<CString> = words.map(CString::new).collect::<Result<_, _>>()?;
    let path = CString::new(program.clone())?;
    // The working directory is the user's home, which may be on a slow file server.
    let _ = std::env::set_current_dir("/");
    match execv(&path, &words) {
        Err(error) => Err(error).with_context(|| format!("cannot execute {program}")),
    }
}
