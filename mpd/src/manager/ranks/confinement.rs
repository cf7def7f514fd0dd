//! The control group of the job gets the limits of the job. [`mpd_ranks::impose`] decides.

use std::path::Path;

use mpd_ending::Pid;
use mpd_io::files::logging::plain;
use mpd_io::process::cgroup::{self, Cgroup};
use mpd_io::process::identity::{number_of, process_of};
use mpd_io::process::tree;
use mpd_ranks::{Fault, Groups, Place, Process};
use mpd_wire::job::Allowance;

/// Limits the group of the job, in which no process is yet.
///
/// # Errors
/// Why that is impossible on this host.
pub(super) fn impose(allowance: Allowance, group: Option<&Cgroup>) -> Result<(), String> {
    let own = match group {
        Some(group) => Some(group.path().to_owned()),
        None => cgroup::own_group(),
    };
    let path = own.as_ref().map(|path| path.to_string_lossy());
    let place = match (path.as_deref(), group) {
        (Some(group), Some(_)) => Place::Made { group, own: cgroup::ASIDE },
        (Some(own), None) => Place::Closed(own.trim_end_matches('/')),
        (None, _) => Place::NoGroups,
    };
    let limit = || mpd_ranks::impose(allowance, place, &OfThisHost);
    let limited = match limit() {
        // It was removed before it had a process.
        Err(_) if group.is_some_and(|group| group.renew().unwrap_or(false)) => limit(),
        limited => limited,
    };
    limited.map_err(|refusal| refusal.to_string())
}

/// Makes the group of a job with limits again if it was removed, with its limits. It may be empty until a rank starts.
///
/// # Errors
/// Why that is impossible on this host.
pub(super) fn keep(allowance: Allowance, group: &Cgroup) -> Result<(), String> {
    match group.renew() {
        Ok(false) => Ok(()),
        Ok(true) => impose(allowance, Some(group)),
        Err(e) => Err(plain(&e)),
    }
}

struct OfThisHost;

impl Groups for OfThisHost {
    fn read(&self, path: &str) -> Result<String, Fault> {
        cgroup::read(path).map_err(|e| fault(&e))
    }

    fn write(&self, path: &str, text: &str) -> Result<(), Fault> {
        cgroup::write(path, text).map_err(|e| fault(&e))
    }

    fn make(&self, path: &str) -> Result<(), Fault> {
        std::fs::create_dir(path).map_err(|e| fault(&e))
    }

    fn program_of(&self, pid: Pid) -> Option<Process> {
        let pid = process_of(pid);
        let (name, parent) = tree::program_of(pid)?;
        let own = tree::executable_of(nix::unistd::Pid::this());
        let is_of_suite = own.zip(tree::executable_of(pid)).map(|(own, it)| is_beside(&own, &it));
        Some(Process { name, parent: number_of(parent), is_of_suite })
    }
}

/// Whether a file is a program of the suite beside this one.
fn is_beside(own: &Path, file: &Path) -> bool {
    const PROGRAMS: [&str; 6] = ["mpd", "mpirun", "mpirun.mpd", "mpdboot", "mpdtrace", "pty"];
    let name = file.file_name().and_then(|name| name.to_str());
    file == own || file.parent() == own.parent() && name.is_some_and(|it| PROGRAMS.contains(&it))
}

fn fault(error: &std::io::Error) -> Fault {
    Fault { errno: error.raw_os_error().unwrap_or(0), text: plain(error) }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use mpd_wire::job::{CpuAmount, MemorySize};

    use super::*;

    fn allowance() -> Allowance {
        let cpus = CpuAmount::try_from(500).ok();
        Allowance { memory: MemorySize::try_from(1 << 30).ok(), cpus }
    }

    #[test]
    fn the_files_of_the_groups_of_job_and_daemon_get_their_texts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mpd-7");
        fs::create_dir(&path).unwrap();
        fs::write(directory.path().join("cgroup.controllers"), "cpu memory pids\n").unwrap();
        for file in ["cgroup.subtree_control", "mpd-7/memory.max", "mpd-7/cpu.max"] {
            File::create(directory.path().join(file)).unwrap();
        }
        let group = Cgroup::adopt(path.clone(), File::open(&path).unwrap().into());
        assert_eq!(impose(allowance(), Some(&group)), Ok(()));
        let text = |file: &str| fs::read_to_string(directory.path().join(file)).unwrap();
        assert_eq!(text("cgroup.subtree_control"), "+memory +cpu");
        assert_eq!(
            (text("mpd-7/memory.max"), text("mpd-7/cpu.max")),
            ("1073741824".into(), "50000 100000".into())
        );
        assert!(!path.join("memory.swap.max").exists(), "a file that the kernel does not have");
    }

    #[test]
    fn programs_of_the_suite_are_known_by_their_files_and_the_music_player_daemon_is_not_one() {
        let own = Path::new("/opt/mpd/bin/mpd");
        for (file, expected) in [
            ("/opt/mpd/bin/mpd", true),
            ("/opt/mpd/bin/mpirun", true),
            ("/opt/mpd/bin/mpirun.mpd", true),
            ("/opt/mpd/bin/bash", false),
            ("/usr/bin/mpd", false),
            ("/usr/bin/mpirun", false),
        ] {
            assert_eq!(is_beside(own, Path::new(file)), expected, "{file}");
        }
        let this = std::process::id().try_into().map(Pid).unwrap();
        assert_eq!(OfThisHost.program_of(this).unwrap().is_of_suite, Some(true));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let other = child.id().try_into().map(Pid).unwrap();
        let program = OfThisHost.program_of(other).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((program.name.as_str(), program.is_of_suite), ("sleep", Some(false)));
    }

    #[test]
    fn a_group_that_was_removed_before_a_rank_is_made_again_and_gets_its_limits_or_no_rank_starts()
    {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mpd-7");
        fs::create_dir(&path).unwrap();
        let group = Cgroup::adopt(path.clone(), File::open(&path).unwrap().into());
        assert_eq!(keep(allowance(), &group), Ok(()), "nothing is read or written");
        fs::remove_dir(&path).unwrap();
        let file = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        file("cgroup.controllers", "cpu memory\n");
        file("cgroup.subtree_control", "cpu memory\n");
        // An ordinary file system makes no files in it.
        let problem = keep(allowance(), &group).unwrap_err();
        assert!(problem.contains("cannot write \"1073741824\""), "{problem}");
        assert!(path.exists());
    }

    #[test]
    fn a_group_that_is_gone_is_a_refusal_with_the_reason_of_the_system() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mpd-7");
        let group = Cgroup::adopt(path.clone(), File::open(directory.path()).unwrap().into());
        let failure = impose(allowance(), Some(&group)).unwrap_err();
        let controllers = directory.path().join("cgroup.controllers");
        assert_eq!(
            failure,
            format!(
                "-mem and -cpus: cannot read {}: No such file or directory",
                controllers.display()
            )
        );
    }

    /// Only systems that permit groups have something to test.
    #[test]
    fn processes_move_to_the_group_aside_and_the_group_of_all_is_removed() {
        let name = format!("mpd-test-aside-{}", std::process::id());
        let Some(group) = Cgroup::create(&name) else { return };
        let file = |group: &str, file: &str| format!("{}/{group}/{file}", group_path(&name));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (groups, pid) = (OfThisHost, child.id().to_string());
        assert_eq!(groups.write(&file("", "cgroup.procs"), &pid), Ok(()));
        assert_eq!(groups.make(&file(cgroup::ASIDE, "")), Ok(()));
        assert_eq!(groups.write(&file(cgroup::ASIDE, "cgroup.procs"), &pid), Ok(()));
        assert_eq!(groups.read(&file("", "cgroup.procs")).as_deref(), Ok(""));
        assert_eq!(groups.read(&file(cgroup::ASIDE, "cgroup.procs")), Ok(format!("{pid}\n")));
        let missing = groups.write(&file("", "memory.none"), "0").unwrap_err();
        assert_eq!(missing.errno, libc::ENOENT);
        child.kill().unwrap();
        child.wait().unwrap();
        group.remove().unwrap();
        assert!(!Path::new(&group_path(&name)).exists());
    }

    fn group_path(name: &str) -> String {
        cgroup::own_group().unwrap().join(name).display().to_string()
    }
}
