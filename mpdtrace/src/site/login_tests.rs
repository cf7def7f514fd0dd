//! What PAM does at a login by the starter: the files of the package, and the script as root calls it, on directories that
//! imitate control groups.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

const PAM: &str = include_str!("../../../contrib/package/mpd-sshd.pam");
const SCRIPT: &str = include_str!("../../../contrib/package/mpd-site-group");
const UNIT: &str = "/system.slice/mpd-suite-sshd@3-9-0.service";

/// Makes the files of a group too, as the kernel does.
const MKDIR: &str = "for group; do /bin/mkdir \"$group\"; for file in procs threads subtree_control; do >\"$group/cgroup.$file\"; done; \
                     echo memory >\"$group/cgroup.controllers\"; done";

struct Login {
    root: tempfile::TempDir,
}

impl Login {
    /// A login whose process is in that unit, with these programs in directories of root and of the user.
    fn new(unit: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let login = Self { root };
        for directory in ["root", "user", &format!("groups{unit}")] {
            fs::create_dir_all(login.path(directory)).unwrap();
        }
        login.write("groups/cgroup.controllers", "cpu memory\n");
        for (file, text) in [("controllers", "memory cpuset\n"), ("subtree_control", "")] {
            login.write(&format!("groups{unit}/cgroup.{file}"), text);
        }
        login.write("self", &format!("9:memory:/other\n0::{unit}\n"));
        login.program("root/mkdir", MKDIR);
        let log = login.path("chown");
        login.program("root/chown", &format!("echo \"$@\" >>{log}"));
        login
    }

    fn path(&self, file: &str) -> String {
        self.root.path().join(file).to_str().unwrap().to_owned()
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.path(file), text).unwrap();
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap_or_default()
    }

    fn program(&self, file: &str, text: &str) {
        self.write(file, &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(self.path(file), Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs the script with its paths in this directory.
    fn run(&self, occasion: &str) {
        let mut script = SCRIPT.to_owned();
        for (from, to) in [
            ("PATH=/usr/sbin:", format!("PATH={}:/usr/sbin:", self.path("root"))),
            ("/sys/fs/cgroup", self.path("groups")),
            ("/proc/self/cgroup", self.path("self")),
        ] {
            assert!(script.contains(from), "{from}");
            script = script.replace(from, &to);
        }
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script]).env_clear().env("PATH", self.path("user"));
        let variables = [("PAM_TYPE", occasion), ("PAM_USER", "alice"), ("LC_ALL", "xx")];
        assert!(command.envs(variables).status().unwrap().success());
    }

    fn has_group(&self) -> bool {
        Path::new(&self.path(&format!("groups{UNIT}/rings"))).exists()
    }
}

/// The variables of `pam_env` may be a user's: `/etc/security/pam_env.conf` can name files in his home.
#[test]
fn pam_calls_the_script_before_it_reads_variables_that_a_user_may_choose() {
    let modules: Vec<&str> = PAM
        .lines()
        .filter(|line| line.starts_with("session"))
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    let script = modules.iter().position(|it| *it == "pam_exec.so").expect("the script");
    let environment = modules.iter().position(|it| *it == "pam_env.so").expect("variables");
    assert!(script < environment, "{modules:?}");
}

#[test]
fn the_user_of_a_login_gets_a_group_in_which_he_may_make_others() {
    let login = Login::new(UNIT);
    login.run("open_session");
    let rings = login.path(&format!("groups{UNIT}/rings"));
    let owned = |group: &str| {
        format!(
            "-- alice {group} {group}/cgroup.procs {group}/cgroup.threads {group}/cgroup.subtree_control\n"
        )
    };
    assert_eq!(login.read("chown"), owned(&rings) + &owned(&format!("{rings}/mpd-suite")));
    let of_unit = |file: &str| login.read(&format!("groups{UNIT}/{file}"));
    assert!(of_unit("rings/mpd-suite/cgroup.procs").trim().parse::<u32>().is_ok());
    // The unit has no controller for CPU time.
    for file in ["cgroup.subtree_control", "rings/cgroup.subtree_control"] {
        assert_eq!(of_unit(file), "+memory\n", "{file}");
    }
}

#[test]
fn the_script_runs_no_program_that_the_environment_of_a_user_names() {
    let login = Login::new(UNIT);
    let taken = login.path("taken");
    for program in ["sed", "mkdir", "chown", "grep"] {
        login.program(&format!("user/{program}"), &format!(">{taken}"));
    }
    login.run("open_session");
    assert!(!Path::new(&taken).exists());
    assert!(login.has_group());
}

#[test]
fn other_units_and_the_end_of_a_login_change_nothing() {
    for (unit, occasion) in [(UNIT, "close_session"), ("/user.slice/x.scope", "open_session")] {
        let login = Login::new(unit);
        login.run(occasion);
        assert!(!Path::new(&login.path(&format!("groups{unit}/rings"))).exists(), "{unit}");
        assert_eq!(login.read("chown"), "");
    }
}
