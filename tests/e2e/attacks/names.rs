//! A24: facts about a job that another user of the machine can see, and objects that he can put in its way.

use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::run::{Run, wait_until};
use crate::suite::{Suite, is_root, skip};

const BOB: u32 = 60_211;

/// Lists all of /tmp, shared memory, processes, control groups and System V objects that its user may read.
const LOOK: &str = "ls -laR /tmp /dev/shm; cat /proc/sysvipc/*; \
    for file in cmdline environ cgroup maps comm status; do tail -vn +1 /proc/[0-9]*/$file; done; \
    ls -l /proc/[0-9]*/fd /proc/[0-9]*/cwd; find /sys/fs/cgroup -maxdepth 8";

/// A directory for temporary files of all users.
fn public(suite: &Suite) -> PathBuf {
    let path = suite.path("public");
    std::fs::create_dir(&path).expect("a directory");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o1777)).expect("chmod");
    path
}

/// A program run by the other user.
fn by_bob(suite: &Suite, program: &str) -> Run {
    suite.as_self(suite.program("t-run")).arg(format!("uid={BOB}")).arg(program)
}

/// Prints repeatedly all that the other user can see, until the file `stop` exists.
fn watch(suite: &Suite, public: &Path, stop: &Path) -> crate::run::Running {
    let script = format!(
        "while ! [ -e '{}' ]; do {{ ls -laR '{}'; {LOOK}; }} 2>/dev/null; echo all seen; done",
        stop.display(),
        public.display()
    );
    by_bob(suite, "sh").args(["-c", &script]).deadline(120).start()
}

/// The sequences of letters and digits in `text`.
fn alphanumeric_words(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).collect()
}

/// The values that a variable has in the ranks of a group.
fn values_of(text: &str, name: &str) -> BTreeSet<String> {
    let values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    values.map(str::to_owned).collect()
}

fn last_part(path: &str) -> String {
    Path::new(path).iter().next_back().expect("a name").to_string_lossy().into_owned()
}

/// The random part of each name, number and cookie that ranks received.
fn secrets_in(text: &str) -> BTreeSet<String> {
    let values = |name: &str| values_of(text, name);
    let mut secrets = values("MPD_GROUP_IPC_KEY");
    secrets.extend(values("MPD_GROUP_KEY").iter().map(|key| key["/mpd-".len()..].to_owned()));
    let parent = |path: &String| Path::new(path).parent().expect("a parent").display().to_string();
    secrets.extend(values("MPD_GROUP_DIR").iter().map(|path| last_part(&parent(path))));
    secrets.extend(values("MPD_JOB_TMPDIR").iter().map(|path| last_part(path)));
    let cookies = values("MPD_JOB_COOKIE");
    secrets.extend(cookies.iter().map(|text| text.split('-').next().expect("digits").to_owned()));
    secrets
}

/// The numbers that follow from the first digits of random words.
fn numbers_from(seen: &BTreeSet<&str>) -> BTreeSet<String> {
    let numbers_of = |word: &&str| {
        let head = u32::from_str_radix(word.get(..8).filter(|_| word.len() >= 16)?, 16).ok()?;
        Some((0..3).map(move |more| head.wrapping_add(more).to_string()))
    };
    seen.iter().filter_map(numbers_of).flatten().collect()
}

/// The other user, with knowledge of all names, can open and remove none of the objects.
fn assert_out_of_reach(
    suite: &Suite,
    keys: &BTreeSet<String>,
    numbers: &BTreeSet<String>,
    directories: &BTreeSet<String>,
) {
    for (key, directory) in keys.iter().zip(directories) {
        let path = format!("/dev/shm{key}");
        for (program, path) in [
            ("cat", path.as_str()),
            ("touch", &path),
            ("ls", directory),
            ("cat", &format!("{directory}/file")),
        ] {
            by_bob(suite, program).arg(path).output().failed().says(&["Permission denied"]);
        }
    }
    for number in numbers {
        for option in ["-M", "-S", "-Q"] {
            by_bob(suite, "ipcrm").args([option, number.as_str()]).output().failed();
        }
    }
}

#[test]
fn a24_another_user_can_neither_predict_nor_open_the_objects_of_a_group() {
    if !is_root() {
        return skip("two users: needs root");
    }
    let suite = Suite::as_user(60_210);
    let public = public(&suite);
    let (go, stop) = (suite.path("public/go"), suite.path("public/stop"));
    let watch = watch(&suite, &public, &stop);
    let group = suite.program("t-group");
    let script = format!(
        "env | grep -E '^MPD_(GROUP|JOB)'; echo printed; \
         while ! [ -e {} ]; do sleep 0.1; done; exec {group} wait",
        go.display()
    );
    let job = suite.mpirun(["-n", "4", "-g", "2", "sh", "-c", &script]);
    let job = job.env("TMPDIR", &public).deadline(120).start();
    wait_until("all have printed their variables", || {
        job.stdout().lines().filter(|l| *l == "printed").count() == 4
    });
    let looks = |times: usize| {
        let seen = watch.stdout().matches("all seen").count();
        wait_until("it was looked at", || {
            watch.stdout().matches("all seen").count() >= seen + times
        });
    };
    looks(2);
    let (seen, text) = (watch.stdout(), job.stdout());
    let seen = alphanumeric_words(&seen);
    assert!(seen.contains("60210"), "it has looked");
    let secrets = secrets_in(&text);
    let public_ones: Vec<&String> =
        secrets.iter().filter(|secret| seen.contains(secret.as_str())).collect();
    assert!(public_ones.is_empty(), "seen by another user: {public_ones:?}");
    let names = ["MPD_GROUP_KEY", "MPD_GROUP_IPC_KEY", "MPD_GROUP_DIR"];
    let [keys, numbers, directories] = names.map(|name| values_of(&text, name));
    assert_eq!([keys.len(), numbers.len(), directories.len()], [2; 3], "{text}");
    assert!(numbers_from(&seen).is_disjoint(&numbers), "{numbers:?}");

    std::fs::write(&go, "").expect("a file");
    wait_until("all is made", || job.stdout().lines().filter(|l| *l == "made").count() == 4);
    let public_now = || {
        let seen = watch.stdout();
        keys.iter().all(|key| seen.contains(&key[1..]))
    };
    wait_until("the names of objects are public", public_now);
    assert_out_of_reach(&suite, &keys, &numbers, &directories);
    std::fs::write(&stop, "").expect("a file");
    watch.wait().code(0);
    job.send(nix::sys::signal::Signal::SIGTERM);
    job.wait();
    for path in [go, stop] {
        std::fs::remove_file(path).expect("it is there");
    }
    assert_eq!(std::fs::read_dir(&public).expect("it is there").count(), 0);
}

/// A directory of another user that is always removed with the test.
struct Squatter(PathBuf);

impl Drop for Squatter {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a24_another_users_directory_at_the_expected_path_is_neither_used_nor_an_obstacle() {
    if !is_root() {
        return skip("two users: needs root");
    }
    let alice = 60_212;
    let suite = Suite::as_user(alice);
    let public = public(&suite);
    let squatters = [&public, Path::new("/dev/shm")].map(|base| {
        let path = base.join(format!("mpd-{alice}"));
        std::fs::create_dir(&path).expect("a directory");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).expect("chmod");
        chown(&path, Some(BOB), Some(BOB)).expect("chown");
        Squatter(path)
    });
    let script = "echo $MPD_JOB_TMPDIR; echo $MPD_GROUP_DIR; \
                  stat -c '%a %u' $MPD_JOB_TMPDIR/.. $MPD_GROUP_DIR $MPD_GROUP_DIR/../..";
    let job = suite.mpirun(["-n", "1", "-g", "1", "sh", "-c", script]).env("TMPDIR", &public);
    let output = job.output();
    output.code(0);
    let lines: Vec<String> = output.out().lines().map(str::to_owned).collect();
    assert_eq!(
        lines[2..],
        [format!("700 {alice}"), format!("700 {alice}"), format!("700 {alice}")]
    );
    for (path, Squatter(squatter)) in lines.iter().zip(&squatters) {
        assert!(!Path::new(path).starts_with(squatter), "{path}");
        assert!(!Path::new(path).exists(), "{path}");
        assert_eq!(std::fs::read_dir(squatter).expect("it is there").count(), 0);
    }
    drop(squatters);
    assert_eq!(std::fs::read_dir(&public).expect("it is there").count(), 0);
}
