//! `mpdsite`: makes hosts a site.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use mpd_io::parallel;
use mpd_site::compare::{self, Expected, Report};
use mpd_site::files::HostFacts;
use mpd_site::hosts::{Site, SiteHost};
use mpdtrace::cli::{SiteCli, SiteCommand};
use mpdtrace::remote::{self, Shell};
use mpdtrace::site::bundle::{self, Bundle};
use mpdtrace::site::facts;
use mpdtrace::site::saved::{self, Saved};
use mpdtrace::{render, tool};

/// Most hosts asked at a time.
const WIDTH: usize = 32;
/// Deadline of the work on one host.
const PATIENCE: Duration = Duration::from_secs(90);
/// Most bytes that `receive` reads.
const MAX_BUNDLE: u64 = 8 << 20;

pub(crate) fn main() -> ExitCode {
    tool::main(|cli: &SiteCli| match &cli.command {
        SiteCommand::Init => init(cli),
        SiteCommand::Push => push(cli),
        SiteCommand::Pack { file } => pack(file),
        SiteCommand::Check => check(&cli.rsh, cli.json),
        SiteCommand::Remove => bundle::remove().map(|()| ExitCode::SUCCESS),
        SiteCommand::Facts { port } => {
            tool::print(&render::json(&facts::gather(*port)))?;
            Ok(ExitCode::SUCCESS)
        }
        SiteCommand::Receive => receive(),
    })
}

fn init(cli: &SiteCli) -> Result<ExitCode> {
    let (site, own) = saved::site()?;
    let mut saved = Saved::load()?;
    let here = this_host(&site)?;
    let mut failed = false;
    for (host, report) in site.hosts().iter().zip(reports(&site, here, &cli.rsh)) {
        let report = match report {
            Ok(report) => report,
            Err(problem) => {
                failed = true;
                tool::warn(
                    "mpdsite",
                    &format!("{}: it cannot be asked for its keys: {problem}", host.name()),
                );
                continue;
            }
        };
        if !compare::is_about_itself(&site, host, &report) {
            failed = true;
            let text = "it reports a name, address or key that cannot be its own";
            tool::warn("mpdsite", &format!("{}: {text}", host.name()));
            continue;
        }
        if report.keys.is_empty() {
            failed = true;
            tool::warn(
                "mpdsite",
                &format!("{}: it has no host key in /etc/ssh: ssh-keygen -A", host.name()),
            );
        }
        if report.hostbased != Some(false) && !cli.shared {
            failed = true;
            let text = "its other sshd accepts host-based logins, or cannot be asked (sshd -T); --shared accepts this";
            tool::warn("mpdsite", &format!("{}: {text}", host.name()));
        }
        saved.hosts.retain(|it| it.name != host.name());
        saved.hosts.push(report.facts(host.name()));
    }
    if failed {
        bail!("nothing was written");
    }
    saved.shared = cli.shared;
    let bundle = Bundle::new(&site, here, &saved.facts(&site), &own, cli.shared);
    tool::print(&format!("outside of {}: {}\n", mpd_site::DIRECTORY, bundle.outside().join(", ")))?;
    if cli.dry_run {
        for (path, text) in &bundle.files {
            tool::print(&format!("--- {path}\n{text}"))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    saved.store()?;
    bundle.install()?;
    tool::print("this host is set up; next: mpdsite push\n")?;
    Ok(ExitCode::SUCCESS)
}

fn push(cli: &SiteCli) -> Result<ExitCode> {
    let (site, own) = saved::site()?;
    let mut saved = Saved::load()?;
    let facts = known_facts(&saved, &site)?;
    let here = this_host(&site)?;
    let gone = saved.without(&site);
    let bundle = |host: &SiteHost| Bundle {
        removed: gone.clone(),
        ..Bundle::new(&site, host, &facts, &own, saved.shared)
    };
    bundle(here).install()?;
    let others: Vec<&SiteHost> =
        site.hosts().iter().filter(|host| host.name() != here.name()).collect();
    let program = tool::path_elsewhere("mpdsite")?;
    let sent = parallel::each(&others, WIDTH, |host| {
        let text = serde_json::to_string(&bundle(host)).map_err(|e| e.to_string())?;
        shell(&cli.rsh).send(host.name(), &[program.clone(), "receive".to_owned()], text, PATIENCE)
    });
    let mut failed = false;
    for (host, result) in others.iter().zip(sent) {
        if let Err(problem) = result {
            failed = true;
            tool::warn("mpdsite", &format!("{}: {problem}", host.name()));
        }
    }
    let removed = parallel::each(&gone, WIDTH, |name| {
        shell(&cli.rsh).output(name, &[program.clone(), "remove".to_owned()], PATIENCE)
    });
    for (name, result) in gone.iter().zip(removed) {
        match result {
            Ok(_) => saved.hosts.retain(|it| it.name != *name),
            // No other host knows its key any more, so it can start nothing there.
            Err(problem) => {
                failed = true;
                tool::warn("mpdsite", &format!("{name}: its starter cannot be removed: {problem}"));
            }
        }
    }
    saved.store()?;
    Ok(tool::code(failed))
}

/// The facts of all hosts of the list.
fn known_facts(saved: &Saved, site: &Site) -> Result<Vec<HostFacts>> {
    let facts = saved.facts(site);
    let is_unknown = |host: &&SiteHost| facts.iter().all(|it| it.name != host.name());
    match site.hosts().iter().find(is_unknown) {
        Some(host) => bail!("the keys of {} are unknown: mpdsite init", host.name()),
        None => Ok(facts),
    }
}

fn pack(file: &Path) -> Result<ExitCode> {
    let (site, own) = saved::site()?;
    let saved = Saved::load()?;
    let facts = known_facts(&saved, &site)?;
    let gone = saved.without(&site);
    let directory = tempdir()?;
    for host in site.hosts() {
        let removed = gone.clone();
        let bundle = Bundle { removed, ..Bundle::new(&site, host, &facts, &own, saved.shared) };
        let path = directory.join(format!("{}.json", host.name()));
        std::fs::write(&path, serde_json::to_string(&bundle)?)
            .with_context(|| path.display().to_string())?;
    }
    let line =
        ["tar", "-cf", &file.display().to_string(), "-C", &directory.display().to_string(), "."];
    let ended = remote::run(&line.map(str::to_owned), PATIENCE).map_err(anyhow::Error::msg);
    std::fs::remove_dir_all(&directory).with_context(|| directory.display().to_string())?;
    let ended = ended?;
    if !ended.status.success() {
        bail!("tar: {}", ended.err.trim());
    }
    Ok(ExitCode::SUCCESS)
}

/// A new directory that only this user can read.
fn tempdir() -> Result<std::path::PathBuf> {
    let template = std::env::temp_dir().join("mpdsite.XXXXXX");
    nix::unistd::mkdtemp(&template).with_context(|| template.display().to_string())
}

/// Prints what is wrong on the hosts of the site.
pub(crate) fn check(rsh: &str, json: bool) -> Result<ExitCode> {
    let (site, own) = saved::site()?;
    let saved = Saved::load()?;
    let facts = saved.facts(&site);
    let here = this_host(&site)?;
    let names = site.hosts().iter().map(|host| host.name().to_owned());
    let reports: BTreeMap<String, Result<Report, String>> =
        names.zip(reports(&site, here, rsh)).collect();
    let expected = |host: &SiteHost| {
        let Bundle { files, marked, .. } = Bundle::new(&site, host, &facts, &own, saved.shared);
        let keys = facts.iter().find(|it| it.name == host.name()).map(|it| it.keys.clone());
        Expected {
            files: files.into_iter().collect(),
            marked: marked.into_iter().collect(),
            keys: keys.unwrap_or_default(),
        }
    };
    let findings = compare::findings(&site, here.name(), &reports, expected);
    if json {
        let lines: Vec<_> = findings.iter().map(|it| (&it.host, &it.text)).collect();
        tool::print(&render::json(&lines))?;
    } else {
        let lines: String =
            findings.iter().map(|it| format!("*** {}: {}\n", it.host, it.text)).collect();
        tool::print(&lines)?;
    }
    Ok(tool::code(!findings.is_empty()))
}

fn receive() -> Result<ExitCode> {
    let mut text = Vec::new();
    std::io::stdin()
        .lock()
        .take(MAX_BUNDLE)
        .read_to_end(&mut text)
        .context("cannot read standard input")?;
    let bundle: Bundle =
        serde_json::from_slice(&text).context("standard input is not what 'mpdsite push' sends")?;
    bundle.install()?;
    Ok(ExitCode::SUCCESS)
}

/// The entry of this host.
fn this_host(site: &Site) -> Result<&SiteHost> {
    let names = facts::names();
    site.find(names.iter().map(String::as_str)).with_context(|| {
        format!("{} does not have this host ({})", mpd_site::HOSTS, names.join(", "))
    })
}

/// The reports of all hosts, in the order of the list.
fn reports(site: &Site, here: &SiteHost, rsh: &str) -> Vec<Result<Report, String>> {
    let program = tool::path_elsewhere("mpdsite");
    parallel::each(site.hosts(), WIDTH, |host| {
        if host.name() == here.name() {
            return Ok(facts::gather(host.port()));
        }
        let program = program.as_ref().map_err(|e| format!("{e:#}"))?;
        let line =
            [program.clone(), "facts".to_owned(), "--port".to_owned(), host.port().to_string()];
        let text = shell(rsh).output(host.name(), &line, PATIENCE)?;
        let line = text.lines().rfind(|line| !line.is_empty()).unwrap_or_default();
        let report: Report =
            serde_json::from_str(line).map_err(|e| format!("its answer is not understood: {e}"))?;
        Ok(Report { reached: Some(facts::answers(host.name(), host.port())), ..report })
    })
}

fn shell(program: &str) -> Shell {
    Shell { program: program.to_owned(), user: Some("root".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_must_have_this_host() {
        let site = Site::parse(b"nowhere-1 roles=submit\n").unwrap();
        let error = this_host(&site).unwrap_err().to_string();
        assert!(error.starts_with("/etc/mpd/hosts does not have this host ("), "{error}");
        assert!(error.contains(&facts::names()[0]), "{error}");
    }
}
