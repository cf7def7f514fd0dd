//! `mpd --site-starter`: the command of each login at the starter of a site. It becomes the boot agent of an installed
//! version, or prints the installed versions. Everything else is refused.

use std::ffi::CString;
use std::fs;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use mpd_site::VERSIONS;
use mpd_site::starter::{Command, daemon_of, parse};
use mpd_site::version::{Version, installed};
use nix::unistd::execv;

/// sshd puts the words that the other host asked for into this variable.
const ASKED: &str = "SSH_ORIGINAL_COMMAND";

pub(crate) fn run() -> Result<ExitCode> {
    let asked = std::env::var(ASKED).ok();
    let installed = versions();
    match parse(asked.as_deref(), &installed)? {
        Command::Versions => {
            let names: Vec<&str> = installed.iter().map(Version::as_str).collect();
            writeln!(io::stdout(), "{}", names.join(" ")).context("cannot print the versions")?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Agent { version, name } => become_agent(&version, name),
    }
}

/// The versions of this host, newest first.
fn versions() -> Vec<Version> {
    let entries = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let real = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let names: Vec<String> =
        real.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    installed(names.iter().map(String::as_str))
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
