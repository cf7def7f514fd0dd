//! A31 to A33: objects that a job removes at its end. Objects and files of other programs stay, even if a rank
//! has the same process id or opens them. Files of the job are removed, even if another user has a link to them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use crate::run::Running;
use crate::suite::{Suite, is_root, skip};

const ALICE: u32 = 60_221;
const BOB: u32 = 60_222;

/// A file of `/dev/shm` that is removed with its test.
struct Shm(PathBuf);

impl Shm {
    fn new(suite: &Suite, name: &str) -> Self {
        let mark = suite.path("").file_name().expect("a name").to_string_lossy().into_owned();
        Self(Path::new("/dev/shm").join(format!("{mark}.{name}")))
    }

    fn text(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a script as `user`, whichever user runs the suite.
fn as_user(suite: &Suite, user: u32, script: &str) -> crate::run::Run {
    suite.as_self(suite.program("t-run")).arg(format!("uid={user}")).args(["bash", "-c", script])
}

/// Runs in its own process and IPC namespaces, where process ids can be chosen. Bob and Alice have objects,
/// made by ended processes with pid P. Then a process of Alice's job gets pid P.
const REUSE: &str = r#"
set -eu
mount -t tmpfs none /dev/shm; chmod 1777 /dev/shm; chmod 711 "$T"
alice="$T/t-run uid=$ALICE" bob="$T/t-run uid=$BOB"
cd "$WORK"
# The rank leaves a process of the number that it reads. Objects are the job's only if their maker is reaped by the
# manager: it begins when the shell that started it, which would reap it, is gone.
$alice "$MPIRUN" -n 1 bash -c '
    (starter=$BASHPID
     { until read -r _ _ _ parent _ </proc/self/stat && [ $parent != $starter ]; do sleep 0.01; done
       exec "$T/t-ipc" exit >of-the-job; } &)
    for try in {1..2000}; do [ ! -s wanted ] || break; sleep 0.01; done
    read wanted <wanted
    for try in {1..2000}; do
        sleep 60 &
        [ $! != $wanted ] || exec touch met
        kill $!
        wait $! 2>/dev/null
    done' &
job=$!
last=/proc/sys/kernel/ns_last_pid
for try in {1..2000}; do [ ! -s of-the-job ] || break; sleep 0.01; done
of() {
    echo $(($1 - 1)) >$last
    $2 "$T/t-ipc" exit >made
    rm /dev/shm/t-ipc.*
    sed 's/.*t-ipc\.//' made
}
number=$(of 20000 "$bob")
cp made of-bob
# Another process can take the number first.
for try in {1..100}; do [ "$(of $number "$alice")" != $number ] || break; done
cp made of-alice
# The kernel records whole seconds.
began=$(date +%s)
for try in {1..60}; do [ $(($(date +%s) - began)) -lt 3 ] || break; sleep 0.1; done
echo $number >wanted
end=$((SECONDS + 20))
while [ ! -e met ] && [ $SECONDS -lt $end ]; do echo $((number - 1)) >$last; done
wait $job
[ -e met ] && cmp -s <(sed 's/.* //' of-bob) <(sed 's/.* //' of-alice) || exit 9
left() {
    read -r _ shm _ sem _ msg _ <$1
    for kind in shm:$shm sem:$sem msg:$msg; do
        awk -v id=${kind#*:} '$2 == id { found = 1 } END { exit !found }' \
            /proc/sysvipc/${kind%:*} && echo -n " ${kind%:*}" || true
    done
}
for whose in alice bob the-job; do echo "$whose:$(left of-$whose)"; done
"#;

#[test]
fn a31_system_v_objects_of_an_earlier_process_with_the_same_pid_stay() {
    if !is_root() {
        return skip("two users and a namespace of processes: needs root");
    }
    let suite = Suite::as_user(ALICE);
    let unshare = ["--pid", "--fork", "--mount-proc", "--ipc", "bash", "-c", REUSE];
    let output = suite
        .as_self("unshare")
        .args(unshare)
        .env("T", suite.path("bin"))
        .env("MPIRUN", suite.program("mpirun"))
        .env("WORK", suite.path("work"))
        .env("ALICE", ALICE.to_string())
        .env("BOB", BOB.to_string())
        // The log says why an object stays.
        .env("MPD_LOG", "info")
        .deadline(60)
        .output();
    output.prints("alice: shm sem msg\nbob: shm sem msg\nthe-job:\n");
    suite.gone(&[]);
}

/// A job of one rank that runs this script after it has read a line.
fn waiting(suite: &Suite, script: &str) -> Running {
    let script = format!("echo ready; read -r; {script}");
    let job = suite.mpirun(["-n", "1", "bash", "-c", &script]).input_pipe().start();
    job.shows("ready\n");
    job
}

fn release(job: &mut Running) {
    use std::io::Write as _;
    job.stdin().write_all(b"\n").expect("the job reads");
}

#[test]
fn a32_a_shared_memory_file_of_another_program_opened_through_a_link_stays() {
    if !is_root() {
        return skip("two users: needs root");
    }
    let suite = Suite::as_user(ALICE);
    let (file, of_the_job) = (Shm::new(&suite, "of-alice"), Shm::new(&suite, "of-the-job"));
    // Protected links in a directory with write access for all users are not followed, so Bob uses another directory.
    let directory = suite.path("of-bob");
    fs::create_dir(&directory).expect("a directory");
    fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).expect("chmod");
    let link = directory.join("link");
    symlink(&file.0, &link).expect("a link");
    lchown(&link, Some(BOB), Some(BOB)).expect("chown");
    let script =
        format!("exec 8<>{} 9<{}; echo opened; exec sleep 60", of_the_job.text(), link.display());
    let mut job = waiting(&suite, &script);
    // Another program of the user, while the job runs.
    let script = format!("exec 9<>{}; echo made; read -r", file.text());
    let other = as_user(&suite, ALICE, &script).input_pipe().start();
    other.shows("made\n");
    release(&mut job);
    job.shows("opened\n");
    job.send(Signal::SIGINT);
    job.wait().code(130);
    assert!(file.0.exists(), "the file of another program was removed");
    assert!(!of_the_job.0.exists(), "the file of the job is left");
    other.send(Signal::SIGKILL);
    other.wait();
    suite.gone(&[]);
}

#[test]
fn a33_a_hard_link_of_another_user_preserves_no_data_of_a_job() {
    if !is_root() {
        return skip("two users: needs root");
    }
    let suite = Suite::as_user(ALICE);
    let (file, link) = (Shm::new(&suite, "of-the-job"), Shm::new(&suite, "of-bob"));
    let directory = Shm::new(&suite, "directory-of-bob");
    let hidden = directory.0.join("link");
    let script =
        format!("umask 0; echo data >{0}; exec 9<>{0}; echo made; exec sleep 60", file.text());
    let mut job = waiting(&suite, &script);
    release(&mut job);
    job.shows("made\n");
    let script = format!(
        "umask 077; ln {0} {1} && mkdir {2} && ln {0} {3}",
        file.text(),
        link.text(),
        directory.text(),
        hidden.display()
    );
    as_user(&suite, BOB, &script).output().code(0).quiet();
    job.send(Signal::SIGINT);
    job.wait().code(130);
    assert!(!file.0.exists() && !link.0.exists(), "a name in /dev/shm is left");
    let left = fs::metadata(&hidden).expect("the name that only Bob can remove");
    assert_eq!((left.len(), left.mode() & 0o777, left.uid()), (0, 0o600, ALICE));
    suite.gone(&[]);
}
