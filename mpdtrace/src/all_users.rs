//! `--all-users`: root sees the jobs of all users, and ends or signals them.
//!
//! Root never speaks to the daemon of another user. For each daemon, the tool runs once more as the owner of that daemon. So
//! daemons admit only their own user, and a user's socket is not read by a process of root.

pub mod drain;
pub mod merge;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail};
use mpd_io::files::logging::one_line;
use mpd_io::parallel;
use mpd_io::process::identity::user_name;
use mpd_io::ring::rundir::SITE_RUN;
use mpd_io::ring::rundir::host_name;
use mpd_io::ring::site;
use mpd_wire::JobId;
use mpd_wire::message::JobRef;
use nix::unistd::geteuid;

use crate::remote::{Ended, Running, Shell};
use crate::tool;

/// Deadline of one tool for one user, and of one host.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most tools at a time.
const WIDTH: usize = 16;
/// Most daemons of one user on this host.
const MAX_OF_USER: usize = 16;
/// One line for each act of root.
const AUDIT: &str = "/var/log/mpd-suite/audit.log";

/// Options of tools that root may use for all users.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct AllUsers {
    /// For root: the jobs of all users, on all hosts of the site (/etc/mpd/hosts)
    #[arg(long)]
    pub all_users: bool,

    /// With --all-users: only jobs of this user
    #[arg(long, value_name = "USER", requires = "all_users")]
    pub owner: Option<String>,

    /// With --all-users: only this host
    #[arg(long, requires = "all_users")]
    pub here: bool,
}

/// A daemon of a user on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsersDaemon {
    uid: u32,
    /// The group of its directory, so one of the user's groups.
    gid: u32,
    pub user: String,
    rundir: PathBuf,
}

/// The daemons on this host, by directory.
pub fn daemons(owner: Option<&str>) -> Vec<UsersDaemon> {
    let mut places = vec![PathBuf::from(SITE_RUN), PathBuf::from("/tmp")];
    places.extend(entries(Path::new("/run/user")));
    let (mut all, mut counts) = (Vec::new(), BTreeMap::new());
    for rundir in places.iter().flat_map(|place| entries(place)) {
        let name = rundir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !(name == "mpd" || name.starts_with("mpd-")) {
            continue;
        }
        // A link could lead to the directory of another user.
        let Ok(found) = fs::symlink_metadata(&rundir) else { continue };
        let serves = |name: &str| {
            fs::symlink_metadata(rundir.join(name))
                .is_ok_and(|it| it.file_type().is_socket() || it.is_dir())
        };
        if !found.is_dir() || found.uid() == 0 || !(serves("mpd.sock") || serves("private")) {
            continue;
        }
        // One user must not use up the time of root.
        let count = counts.entry(found.uid()).or_insert(0_usize);
        *count += 1;
        let user = user_name(found.uid());
        if *count <= MAX_OF_USER && owner.is_none_or(|owner| owner == user) {
            all.push(UsersDaemon { uid: found.uid(), gid: found.gid(), user, rundir });
        }
    }
    all.sort_by(|a, b| a.rundir.cmp(&b.rundir));
    all
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(directory).into_iter().flatten().flatten();
    all.map(|entry| entry.path()).collect()
}

impl UsersDaemon {
    /// Runs a tool of the suite as the owner of this daemon.
    ///
    /// # Errors
    /// A text for people.
    pub fn run(&self, name: &str, arguments: &[String]) -> Result<Ended, String> {
        let program = tool::own_path(name).map_err(|e| format!("{e:#}"))?;
        let rundir = self.rundir.display().to_string();
        let arguments = arguments.iter().cloned().chain(["--rundir".to_owned(), rundir]);
        self.execute(&program, arguments)
    }

    /// Whether its ring is one of a site.
    pub fn is_of_site(&self) -> bool {
        self.rundir.starts_with(SITE_RUN)
    }

    /// Removes the key of its ring. Whether that was possible.
    pub fn forget_key(&self) -> bool {
        let key = self.rundir.join("key").display().to_string();
        let words = ["-f".to_owned(), "--".to_owned(), key];
        self.execute("/bin/rm", words.into_iter()).is_ok_and(|ended| ended.status.success())
    }

    fn execute(
        &self,
        program: &str,
        arguments: impl Iterator<Item = String>,
    ) -> Result<Ended, String> {
        // A session of its own before the user is changed: the user controls this process, and it must not have root's
        // terminal.
        let mut command = Command::new("/usr/bin/setsid");
        command.arg("/usr/bin/setpriv");
        command.args([format!("--reuid={}", self.uid), format!("--regid={}", self.gid)]);
        command.args(["--clear-groups", "--"]).arg(program).args(arguments);
        command.current_dir("/").env_clear().env("PATH", "/usr/bin:/bin");
        Running::of(command, program)?.end(PATIENCE)
    }
}

/// Runs a tool for each daemon on this host.
fn run_for_all(
    name: &str,
    arguments: &[String],
    all: &AllUsers,
) -> Result<Vec<(UsersDaemon, Result<Ended, String>)>> {
    if !geteuid().is_root() {
        bail!("--all-users is for root; without it, you see your own jobs");
    }
    let found = daemons(all.owner.as_deref());
    let results = parallel::each(&found, WIDTH, |daemon| daemon.run(name, arguments));
    Ok(found.into_iter().zip(results).collect())
}

/// What a tool printed for each user, on this host and on the others of the site. Complaints go to standard error. The second
/// result is whether there were any.
fn outputs(name: &str, arguments: &[String], all: &AllUsers) -> Result<(Vec<String>, bool)> {
    let results = run_for_all(name, arguments, all)?;
    let is_json = arguments.iter().any(|word| word == "--json");
    let (mut texts, mut failed) = (Vec::new(), false);
    for (daemon, result) in results {
        let from = format!("{}, {}", daemon.user, daemon.rundir.display());
        let out = complain(name, &from, result, &mut failed);
        // A user speaks only for himself.
        texts.extend(out.map(|out| if is_json { merge::of_user(&out, &daemon.user) } else { out }));
    }
    for (host, result) in elsewhere(name, arguments, all)? {
        texts.extend(complain(name, &host, result, &mut failed));
    }
    Ok((texts, failed))
}

/// What a tool printed, if it ran. Its complaints go to standard error, and set `failed`.
fn complain(
    name: &str,
    from: &str,
    result: Result<Ended, String>,
    failed: &mut bool,
) -> Option<String> {
    match result {
        Ok(ended) => {
            ended.err.lines().for_each(|line| tool::warn(name, &format!("{from}: {line}")));
            *failed |= !ended.status.success();
            Some(ended.out)
        }
        Err(problem) => {
            *failed = true;
            tool::warn(name, &format!("{from}: {problem}"));
            None
        }
    }
}

/// What the tool printed on the other hosts of the site, over root's ssh.
fn elsewhere(
    name: &str,
    arguments: &[String],
    all: &AllUsers,
) -> Result<Vec<(String, Result<Ended, String>)>> {
    let site = if all.here { None } else { site::load()? };
    let Some(this) = site else { return Ok(Vec::new()) };
    let hosts = this.site.hosts().iter().map(|host| host.name().to_owned());
    let hosts: Vec<String> = hosts.filter(|host| *host != this.here).collect();
    let line = remote_line(name, arguments, all.owner.as_deref())?;
    let results = parallel::each(&hosts, WIDTH, |host| root_shell().run(host, &line, PATIENCE));
    Ok(hosts.into_iter().zip(results).collect())
}

fn remote_line(name: &str, arguments: &[String], owner: Option<&str>) -> Result<Vec<String>> {
    let mut line = vec![tool::path_elsewhere(name)?, "--all-users".to_owned(), "--here".to_owned()];
    line.extend(owner.into_iter().flat_map(|owner| ["--owner".to_owned(), owner.to_owned()]));
    line.extend(arguments.iter().cloned());
    Ok(line)
}

fn root_shell() -> Shell {
    Shell { program: "ssh".to_owned(), user: Some("root".to_owned()) }
}

/// `mpdlistjobs --all-users`; `arguments` are its other options.
///
/// # Errors
/// This user is not root, or the list of hosts is wrong.
pub fn list(
    arguments: &[String],
    all: &AllUsers,
    form: fn(&[String]) -> Result<String>,
) -> Result<ExitCode> {
    let (texts, failed) = outputs("mpdlistjobs", arguments, all)?;
    tool::print(&plain(&form(&texts)?))?;
    Ok(tool::code(failed))
}

/// Lines of a user without characters that a terminal obeys.
fn plain(text: &str) -> String {
    text.lines().map(|line| one_line(line) + "\n").collect()
}

/// `mpdtop --all-users`: one table for each ring that has a daemon here.
///
/// # Errors
/// As for [`list`].
pub fn tables(name: &str, arguments: &[String], all: &AllUsers) -> Result<ExitCode> {
    let results = run_for_all(name, arguments, all)?;
    let mut failed = false;
    for (daemon, result) in results {
        match result {
            Ok(ended) => {
                failed |= !ended.status.success();
                let head = format!("{} ({})", daemon.user, daemon.rundir.display());
                let text =
                    format!("{}\n{}{}\n", one_line(&head), plain(&ended.out), plain(&ended.err));
                tool::print(&text)?;
            }
            Err(problem) => {
                failed = true;
                tool::warn(name, &format!("{}: {problem}", daemon.user));
            }
        }
    }
    Ok(tool::code(failed))
}

/// A job as the word of a command line.
pub fn word(job: &JobRef) -> String {
    match job {
        JobRef::Number(number) => number.to_string(),
        JobRef::Private(console) => format!("p{console}"),
        JobRef::Id(id) => id.to_string(),
        JobRef::Alias(alias) => alias.clone(),
    }
}

/// Has a tool act on the one job that `job` means, as the owner of the job. `arguments` makes the words of the tool from the
/// full name of the job. The act is one line of the audit.
///
/// # Errors
/// No or several users have such a job, or the tool fails.
pub fn act(
    name: &str,
    job: &JobRef,
    all: &AllUsers,
    arguments: impl Fn(&str) -> Vec<String>,
) -> Result<ExitCode> {
    let found = match find(job, all) {
        Ok(found) => found,
        Err(error) => {
            audit(&format!("{name} {}: failed: {error:#}", word(job)))?;
            return Err(error);
        }
    };
    let words = arguments(&found.job);
    let mut result = Err(format!("{} has no daemon on the hosts of job {}", found.user, found.job));
    for daemon in daemons(Some(&found.user)) {
        result = success(name, daemon.run(name, &words));
        if result.is_ok() {
            break;
        }
    }
    let site = if result.is_err() && !all.here { site::load()? } else { None };
    if let Some(this) = site {
        let line = remote_line(name, &words, Some(&found.user))?;
        let is_other = |host: &&str| *host != this.here && this.site.find([*host]).is_some();
        for host in found.hosts.iter().map(|it| it.host.as_str()).filter(is_other) {
            // The audit of this act is here.
            result = success(name, root_shell().run(host, &line, PATIENCE));
            if result.is_ok() {
                break;
            }
        }
    }
    let outcome =
        result.as_ref().map_or_else(|problem| format!("failed: {problem}"), |()| "done".to_owned());
    audit(&format!("{name} {} of {}: {outcome}", words.join(" "), found.user))?;
    result.map(|()| ExitCode::SUCCESS).map_err(anyhow::Error::msg)
}

/// The one job that `job` means. The answers of a user or host are not trusted to name another one.
fn find(job: &JobRef, all: &AllUsers) -> Result<merge::Found> {
    let listing = [word(job), "--json".to_owned()];
    let (texts, _) = outputs("mpdlistjobs", &listing, all)?;
    let found = merge::only(&merge::listings(&texts)).map_err(anyhow::Error::msg)?;
    let id: JobId = found.job.parse().ok().context("an answer has a job without a valid name")?;
    let is_another = matches!(job, JobRef::Id(wanted) if *wanted != id);
    if is_another || all.owner.as_ref().is_some_and(|owner| *owner != found.user) {
        bail!("an answer names another job ({id} of {})", found.user);
    }
    Ok(found)
}

fn success(name: &str, ended: Result<Ended, String>) -> Result<(), String> {
    let ended = ended?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(root_shell().complaint(&ended, &[name.to_owned()])),
    }
}

/// Notes an act of root.
///
/// # Errors
/// The file cannot be written.
pub fn audit(text: &str) -> Result<()> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let by = std::env::var("SUDO_USER").ok().filter(|user| !user.is_empty());
    let who = by.map_or_else(|| "root".to_owned(), |user| format!("root (sudo of {user})"));
    let line = one_line(&format!("{} {who} on {}: {text}", since.as_secs(), host_name()));
    if let Some(directory) = Path::new(AUDIT).parent() {
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    }
    let mut file =
        OpenOptions::new().append(true).create(true).mode(0o640).open(AUDIT).context(AUDIT)?;
    writeln!(file, "{line}").context(AUDIT)
}
