//! A simulated world for boots. The remote shell and `mpd` are scripts; a host is a directory. The
//! booting host has a daemon in a thread of the test that answers consoles.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use mpd_io::network::conn::Conn;
use mpd_io::ring::rundir::RunDir;
use mpd_wire::message::{ConsoleReply, Happening, MemberView, Opening, RingRequest, RingView};
use mpd_wire::{Address, DaemonName, Instance, Newcomer, Record, Standing, frame};
use nix::sys::stat::Mode;
use tempfile::TempDir;

/// Deadline of every wait, far longer than any wait takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes its arguments and environment to files, then acts as the host. `hosts/NAME` selects the
/// behaviour.
const SSH: &str = r#"#!/bin/sh
echo "$@" >>%/ssh.argv
tr '\0' '\n' </proc/$$/environ >>%/environ
while [ "$1" != -- ]; do shift; done
host=$2 command=$3
mkdir -p %/home/$host
cd %/home/$host
export HOME=$PWD MPD_RUNDIR=%/run/$host SSH_CONNECTION='127.0.0.2 2222 127.0.0.1 22'
case $(cat %/hosts/$host 2>/dev/null) in
unknown) echo "ssh: Could not resolve hostname $host: Name or service not known" >&2; exit 255;;
denied) echo "al@$host: Permission denied (publickey,password)." >&2; exit 255;;
new) echo "Host key verification failed." >&2; exit 255;;
off) echo "ssh: connect to host $host port 22: Connection timed out" >&2; exit 255;;
refused) echo "ssh: connect to host $host port 22: Connection refused" >&2; exit 255;;
missing) echo "sh: 1: exec: /nowhere/bin/mpd: not found" >&2; exit 127;;
silent) echo up >%/silent; exec cat >/dev/null;;
stubborn) trap '' TERM INT HUP; echo up >%/silent; cat >/dev/null; while :; do sleep 1; done;;
banner) echo "Welcome to $host"; printf 'MPDBOOT-0 "done"\nno end of line: '; echo; echo "*** for members only" >&2;;
above) [ -n "$BOSS" ] || { echo "al@$host: Permission denied (publickey)." >&2; exit 255; };;
lost) head -n 1 >/dev/null; exit 255;;
esac
unset BOSS
exec sh -c "$command"
"#;

/// Writes its arguments and environment to files, then runs the command for each node of the step, as srun does. All get
/// the input, and the end of one has no effect on the others. `hosts/NAME` selects the behaviour of a node.
const SRUN: &str = r#"#!/bin/sh
echo "$@" >>%/srun.argv
tr '\0' '\n' </proc/$$/environ >>%/environ
step=$$
while case $1 in -*) true;; *) false;; esac; do
    case $1 in --nodelist=*) nodes=$(echo "${1#*=}" | tr , ' ');; esac
    shift
done
for node in $nodes; do
    mkfifo %/input.$step.$node
    inputs="$inputs %/input.$step.$node"
done
for node in $nodes; do
    case $(cat %/hosts/$node 2>/dev/null) in
    missing)
        { echo "slurmstepd: error: execve(): $1: No such file or directory" >&2; exit 2; } \
            <%/input.$step.$node &;;
    *)
        mkdir -p %/home/$node
        (cd %/home/$node && HOME=$PWD MPD_RUNDIR=%/run/$node SLURMD_NODENAME=$node exec "$@") \
            <%/input.$step.$node &;;
    esac
    tasks="$tasks $!"
done
exec 3<&0
tee -p $inputs <&3 >/dev/null &
for task in $tasks; do wait $task || code=$?; done
kill $!
exit ${code:-0}
"#;

/// Is an agent that executes this script again as the daemon. Then it writes its arguments and environment to
/// files. `mpd/NAME` selects the behaviour. With `--agent` it waits for the list of members if that option is
/// given, and reports.
const MPD: &str = r#"#!/bin/sh
[ "$1" != --boot-agent ] || exec %/agent
echo "$@" >>%/mpd.argv
tr '\0' '\n' </proc/$$/environ >>%/environ
say() { echo "MPDBOOT-$nonce {\"daemon\":$1}"; }
for word; do
    case $before in --nonce) nonce=$word;; --name) name=$word;; esac
    before=$word
done
case $(cat %/mpd/$name 2>/dev/null) in
busy)
    problem="cannot listen on port 7000: Address already in use"
    [ "$1" = --daemon ] || say "{\"refused\":{\"problem\":\"$problem\"}}"
    echo "mpd: $problem" >&2
    exit 1;;
old) echo "error: unexpected argument '--agent' found" >&2; exit 2;;
hangs) echo up >%/silent; exec sleep 1000;;
esac
if [ "$1" = --agent ]; then
    case " $* " in *' --waits '*)
        say "{\"ready\":{\"name\":\"$name\",\"instance\":\"02020202020202020202020202020202\",\"ordinal\":null,\"ncpus\":1,\"addresses\":[\"$name:7000\"]}}"
        read -r list
        printf '%s %s\n' "$name" "$list" >>%/lists;;
    esac
    # A daemon ends if its report has no reader.
    case " $* " in *' --report-ready '*) echo ready >&3;; esac
    echo >%/ring/$name
    say "{\"entered\":{\"addresses\":[\"$name:7000\"]}}"
    exit
fi
echo >%/ring/$name
if [ "$MPD_RUNDIR" = %/run/local ]; then
    echo >%/born
    read served <%/served
fi
"#;

pub(crate) struct World {
    dir: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let world = Self { dir: tempfile::tempdir().unwrap() };
        for name in ["bin", "suite", "hosts", "mpd", "ring", "run", "home/local"] {
            fs::create_dir_all(world.path(name)).unwrap();
        }
        for fifo in ["born", "served", "silent"] {
            nix::unistd::mkfifo(&world.path(fifo), Mode::from_bits_truncate(0o600)).unwrap();
        }
        world.script("bin/ssh", SSH);
        world.script("bin/srun", SRUN);
        world.script("suite/mpd", MPD);
        let agent = Path::new(env!("CARGO_BIN_EXE_mpdboot")).with_file_name("examples/boot-agent");
        std::os::unix::fs::symlink(agent, world.path("agent")).unwrap();
        let (root, rundir) = (world.path(""), world.path("run/local"));
        std::thread::spawn(move || daemon(&root, &RunDir::at(rundir)));
        world
    }

    fn script(&self, name: &str, text: &str) {
        let root = self.dir.path().to_str().unwrap();
        // A child process writes the script. Otherwise a child of another test could hold it open
        // for writing.
        let mut shell = Command::new("sh")
            .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
            .arg(self.path(name))
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        shell
            .stdin
            .take()
            .unwrap()
            .write_all(text.replace("%/", &format!("{root}/")).as_bytes())
            .unwrap();
        assert!(shell.wait().unwrap().success());
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Sets the behaviour of a host or a daemon.
    pub(crate) fn set(&self, what: &str, behaviour: &str) {
        fs::write(self.path(what), behaviour).unwrap();
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Names of the running daemons.
    pub(crate) fn ring(&self) -> Vec<String> {
        let entry = |entry: std::io::Result<fs::DirEntry>| {
            entry.unwrap().file_name().into_string().unwrap()
        };
        let mut names: Vec<_> = fs::read_dir(self.path("ring")).unwrap().map(entry).collect();
        names.sort();
        names
    }

    /// An mpdboot in this world.
    pub(crate) fn mpdboot(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(Path::new(env!("CARGO_BIN_EXE_mpdboot")));
        let ours = [("--rsh", "bin/ssh"), ("--mpd", "suite/mpd")];
        for (option, program) in ours.iter().filter(|(option, _)| !arguments.contains(option)) {
            command.arg(option).arg(self.path(program));
        }
        command.args(arguments);
        command
    }

    /// A program in this world.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path("home/local"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.path("home/local"))
            .env("MPD_RUNDIR", self.path("run/local"))
            // Each host has its own file under this path.
            .env("MPD_KEY_FILE", "/proc/self/cwd/key")
            .env("BOSS", "1")
            .env("WORLD", self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.mpdboot(arguments).output().unwrap(), self)
    }

    /// Starts an mpdboot and returns when a process of this world has reached the point where it
    /// hangs.
    pub(crate) fn start_until_hanging(&self, arguments: &[&str]) -> Child {
        let child = self.mpdboot(arguments).spawn().unwrap();
        let mut word = String::new();
        fs::File::open(self.path("silent")).unwrap().read_to_string(&mut word).unwrap();
        assert_eq!(word, "up\n");
        child
    }

    /// Writes a key of the given digits into the home of a host.
    pub(crate) fn put_key(&self, host: &str, digits: &str) {
        let home = self.path("home").join(host);
        fs::create_dir_all(&home).unwrap();
        let key = home.join("key");
        fs::write(&key, format!("ring other\n{}ff\n", digits.repeat(31))).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Waits until no process of this world is left.
    pub(crate) fn assert_nothing_left(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left: {left:?}");
            std::thread::yield_now();
        }
    }

    fn processes(&self) -> Vec<String> {
        let mark = format!("WORLD={}", self.dir.path().display());
        let of = |entry: fs::DirEntry| {
            let environ = fs::read(entry.path().join("environ")).ok()?;
            environ.split(|&b| b == 0).any(|v| v == mark.as_bytes()).then_some(())?;
            let arguments = fs::read(entry.path().join("cmdline")).ok()?;
            Some(String::from_utf8_lossy(&arguments).replace('\0', " "))
        };
        fs::read_dir("/proc").unwrap().flatten().filter_map(of).collect()
    }
}

/// The result of a run. Paths of the world are replaced by `@`.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: Output, world: &World) -> Self {
        let root = world.dir.path().to_str().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(root, "@");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    #[track_caller]
    pub(crate) fn assert(&self, code: i32, err: &str) {
        assert!(
            self.code == Some(code) && self.err.contains(err),
            "wanted {code} {err:?}: {self:#?}"
        );
    }
}

/// The daemon of the booting host. It serves after its `mpd` has run, until a request to exit.
fn daemon(root: &Path, rundir: &RunDir) {
    let wait_for = |fifo: &str| fs::read(root.join(fifo));
    while wait_for("born").is_ok() {
        let (_lock, listener) = rundir.serve().unwrap();
        let Ok(mut served) = OpenOptions::new().write(true).open(root.join("served")) else {
            return;
        };
        served.write_all(b"yes\n").unwrap();
        drop(served);
        let mut watchers = Vec::new();
        for stream in listener.incoming() {
            let mut conn = Conn::new(stream.unwrap());
            let Some(request) = request(&mut conn) else { continue };
            let reply = answer(root, &request);
            conn.send(&reply);
            // A console that only tests the connection may have closed it.
            let _ = conn.flush_blocking();
            match request {
                RingRequest::Watch => watchers.push(conn),
                RingRequest::ExitAll => break,
                _ => {}
            }
        }
    }
}

fn request(conn: &mut Conn) -> Option<RingRequest> {
    loop {
        if let Some((_, payload)) = conn.next_frame().unwrap() {
            return match frame::decode_message(payload).unwrap() {
                Opening::Ring { request, .. } => Some(request),
                _ => None,
            };
        }
        if conn.wait(60_000).ok()?? == mpd_io::network::conn::Filled::Closed {
            return None;
        }
    }
}

fn answer(root: &Path, request: &RingRequest) -> ConsoleReply {
    let ring = root.join("ring");
    let names = || fs::read_dir(&ring).unwrap().map(|e| e.unwrap().file_name());
    match request {
        RingRequest::Describe => {
            let names = names().map(|name| DaemonName::new(name.to_str().unwrap()).unwrap());
            ConsoleReply::Ring(view(names.collect()))
        }
        RingRequest::Introduce { newcomers } => {
            let record = |new: &Newcomer| Record {
                name: new.name.clone(),
                incarnation: 1,
                standing: Standing::Live,
                instance: new.instance,
                position: 1,
                ordinal: 1,
                ncpus: new.ncpus,
                draining: false,
                addresses: new.addresses.clone(),
                by: None,
                age_s: 0,
            };
            ConsoleReply::Introduced { records: newcomers.iter().map(record).collect() }
        }
        RingRequest::Watch => ConsoleReply::Event(Happening {
            time: String::new(),
            seen_by: DaemonName::new("local").unwrap(),
            event: "watching".into(),
            member: None,
            live: 1,
            text: "watching".into(),
        }),
        RingRequest::Drain { members, draining: true } => {
            let names: Vec<&str> = members.iter().map(DaemonName::as_str).collect();
            fs::write(root.join("drained"), names.join(" ")).unwrap();
            ConsoleReply::Done { missing: Vec::new() }
        }
        RingRequest::ExitAll => {
            names().for_each(|name| fs::remove_file(ring.join(name)).unwrap());
            ConsoleReply::Done { missing: Vec::new() }
        }
        RingRequest::Exit { member: Some(member) } => {
            fs::remove_file(ring.join(member.as_str())).unwrap();
            ConsoleReply::Done { missing: Vec::new() }
        }
        other => panic!("{other:?}"),
    }
}

fn view(names: Vec<DaemonName>) -> RingView {
    let here = mpd_io::ring::rundir::host_name();
    let member = |name: DaemonName| MemberView {
        addresses: vec![Address::new(&format!("{name}:7000")).unwrap()],
        standing: Standing::Live,
        instance: Instance::from_bytes([1; 16]),
        ordinal: 1,
        ncpus: 1,
        suspect: false,
        draining: false,
        by: None,
        name,
    };
    RingView {
        ring: String::new(),
        me: DaemonName::new(&here).unwrap(),
        key: String::new(),
        whole: true,
        rhs: None,
        lhs: None,
        members: names.into_iter().map(member).collect(),
        events: BTreeMap::new(),
    }
}
