//! A cluster for one test, and the views of its daemons.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use mpd_io::ring::console::Console;
use mpd_io::ring::rundir::RunDir;
use mpd_tests::surroundings::{program, setting, skip, tell};
use mpd_tests::waiting::{comes_true, comes_true_slowly};
use mpd_wire::Standing;
use mpd_wire::message::{ConsoleReply, RingRequest, RingView};
use nix::fcntl::{Flock, FlockArg};

/// How long any step may take before it counts as failed.
const NEVER: Duration = Duration::from_secs(90);

pub(crate) struct Rig {
    hosts: usize,
    /// The number of the host of `mpdboot`: all others enter through its daemon.
    entry: usize,
    name: String,
    /// Process ids of the hosts' first processes, by number minus one; 0 for a host that is off.
    first: Vec<u32>,
    share: tempfile::TempDir,
    /// Further directories that the hosts see.
    more: Vec<String>,
    /// Size of each host's /tmp, and of its /dev/shm.
    room: Option<&'static str>,
    memory: Option<&'static str>,
    main: Option<PathBuf>,
    _turn: Flock<File>,
}

/// The options of a test for its cluster.
#[derive(Default)]
pub(crate) struct RigOptions {
    /// The number of hosts; by default `MPD_RIG_HOSTS`.
    pub(crate) hosts: Option<usize>,
    /// Size of each host's /tmp.
    pub(crate) room: Option<&'static str>,
    /// Size of each host's /dev/shm.
    pub(crate) memory: Option<&'static str>,
    /// Further directories of this machine that the hosts see.
    pub(crate) share: Vec<String>,
    /// A script that each host runs as its first process instead of sshd.
    pub(crate) main: Option<String>,
}

/// A cluster with default options, or `None` if this machine cannot run one.
pub(crate) fn up() -> Option<Rig> {
    up_as(RigOptions::default())
}

/// The same with options.
pub(crate) fn up_as(options: RigOptions) -> Option<Rig> {
    turn().map(|turn| Rig::new(options, turn))
}

/// Whether the first daemon, through which all others entered, is killed before the steps of a test.
pub(crate) fn kills_first() -> bool {
    number("MPD_RIG_KILL_FIRST", 0) != 0
}

/// A number from the environment.
pub(crate) fn number<T: FromStr>(name: &str, default: T) -> T {
    let parse = |text: String| text.parse().ok().unwrap_or_else(|| panic!("{name}={text}"));
    std::env::var(name).map_or(default, parse)
}

/// Waits until this machine has room for one more rig: one at a time, or `MPD_RIGS`. `None` if it cannot run one.
pub(crate) fn turn() -> Option<Flock<File>> {
    if setting("MPD_TEST_RIG").is_none() {
        skip("no rig here: it takes root, iproute2, nftables, openssh-server");
        return None;
    }
    let lock = |slot: usize| {
        let file = File::create(format!("/tmp/mpd-rig-tests.lock{slot}")).expect("a lock file");
        Flock::lock(file, FlockArg::LockExclusiveNonblock).ok()
    };
    let (slots, mut turn) = (number("MPD_RIGS", 1), None);
    let taken = comes_true_slowly(Duration::from_millis(100), NEVER * 10, || {
        turn = (0..slots).find_map(lock);
        turn.is_some()
    });
    assert!(taken, "other tests keep {slots} rigs");
    turn
}

impl Rig {
    fn new(options: RigOptions, turn: Flock<File>) -> Self {
        let RigOptions { hosts, room, memory, share: more, main } = options;
        let (hosts, entry) = match hosts {
            Some(hosts) => (hosts, 1),
            None => (number("MPD_RIG_HOSTS", 8), number("MPD_RIG_ENTRY", 1)),
        };
        assert!((1..=hosts).contains(&entry), "MPD_RIG_ENTRY: no host {entry} of {hosts}");
        // The hosts do not see this machine's /tmp, except for the shared directories.
        let share =
            tempfile::Builder::new().prefix("mpd-rig-").tempdir_in("/tmp").expect("a directory");
        let name = format!("t{}", std::process::id());
        let first = vec![0; hosts];
        let main = main.map(|text| {
            let path = share.path().join("main");
            std::fs::write(&path, text).expect("a script");
            path
        });
        let _turn = turn;
        let mut rig = Self { hosts, entry, name, first, share, more, room, memory, main, _turn };
        rig.control(&["up", &hosts.to_string()]);
        rig.look_up();
        rig
    }

    /// Process id of a host's first process, 0 for a host that is off.
    pub(crate) fn first(&self, host: &str) -> u32 {
        let number: usize = host.trim_start_matches('h').parse().expect("a host's number");
        self.first[number - 1]
    }

    pub(crate) const fn hosts(&self) -> usize {
        self.hosts
    }

    /// A directory that this machine and all hosts see under the same path.
    pub(crate) fn share(&self) -> PathBuf {
        self.share.path().to_owned()
    }

    /// The names of all hosts.
    pub(crate) fn all(&self) -> Vec<String> {
        (1..=self.hosts).map(|n| format!("h{n}")).collect()
    }

    /// The host of `mpdboot`.
    pub(crate) fn entry(&self) -> String {
        format!("h{}", self.entry)
    }

    /// The names of all hosts in ring order: first the host of `mpdboot`, then the others in the order of the file.
    pub(crate) fn circle(&self) -> Vec<String> {
        let entry = self.entry();
        let others = without(&self.all(), &[&entry]);
        std::iter::once(entry).chain(others).collect()
    }

    pub(crate) fn script(&self) -> Command {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/rig.sh");
        let mut command = Command::new(script);
        command
            .env("RIG_NAME", &self.name)
            .env_remove("RIG_DIR")
            .env("RIG_PATH", format!("{}:{}", programs().display(), helpers().display()))
            .env("RIG_SHARE", self.shared())
            .stdin(Stdio::null());
        if let Some(room) = self.room {
            command.env("RIG_TMP_SIZE", room);
        }
        if let Some(main) = &self.main {
            command.env("RIG_MAIN", main);
        }
        if let Some(memory) = self.memory {
            command.env("RIG_SHM_SIZE", memory);
        }
        command
    }

    /// The part of this machine's /tmp that the hosts see.
    fn shared(&self) -> String {
        let mut all = vec![self.share.path().display().to_string()];
        all.extend(self.more.iter().cloned());
        for directory in [programs(), helpers()] {
            let directory = directory.display().to_string();
            if !all.contains(&directory) {
                all.push(directory);
            }
        }
        all.join(" ")
    }

    /// Runs a command of the rig itself, which must succeed.
    pub(crate) fn control(&mut self, arguments: &[&str]) {
        let output = self.script().args(arguments).output().expect("scripts/rig.sh");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "rig.sh {}: {said}", arguments.join(" "));
        if let ["kill" | "boot", ..] = arguments {
            self.look_up();
        }
    }

    fn look_up(&mut self) {
        let output = self.script().arg("list").output().expect("scripts/rig.sh list");
        self.first.fill(0);
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let arguments: Vec<&str> = line.split_whitespace().collect();
            if let [host, _, pid, ..] = arguments[..]
                && let Ok(number) = host.trim_start_matches('h').parse::<usize>()
            {
                self.first[number - 1] = pid.parse().unwrap_or(0);
            }
        }
    }

    /// Runs a command on a host.
    pub(crate) fn exec(&self, host: &str, arguments: &[&str]) -> Output {
        self.script().arg("exec").arg(host).args(arguments).output().expect("scripts/rig.sh exec")
    }

    /// The same; the command must succeed.
    pub(crate) fn run(&self, host: &str, arguments: &[&str]) -> String {
        let output = self.exec(host, arguments);
        assert!(output.status.success(), "{host}: {}: {}", arguments.join(" "), text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A file that all hosts see.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.share.path().join(name);
        let mut file = File::create(&path).expect("a file");
        file.write_all(content.as_bytes()).expect("a file");
        path.display().to_string()
    }

    /// A host file with these hosts.
    pub(crate) fn host_file(&self, hosts: &[String]) -> String {
        self.file("hosts", &(hosts.join("\n") + "\n"))
    }

    /// Runs `mpdboot` for all hosts; returns the time that it took.
    pub(crate) fn boot(&self, options: &[&str]) -> Duration {
        let file = self.host_file(&self.all());
        let arguments: Vec<&str> =
            ["mpdboot", "-f", &file].iter().chain(options).copied().collect();
        let begin = Instant::now();
        self.run(&self.entry(), &arguments);
        begin.elapsed()
    }

    /// Waits until the booted hosts form one ring, and kills the first daemon if that is requested. Returns the
    /// members in ring order, beginning with the host of `mpdboot` or its right neighbour.
    pub(crate) fn booted(&self) -> Vec<String> {
        let hosts = self.circle();
        self.heals("booted", &hosts);
        if !kills_first() {
            return hosts;
        }
        self.kill_daemon(&hosts[0]);
        self.heals(&format!("the first daemon, of {}, killed", hosts[0]), &hosts[1..]);
        hosts[1..].to_vec()
    }

    fn rundir(&self, host: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root/tmp/mpd-0-{host}", self.first(host)))
    }

    /// The ring as the daemon of this host knows it.
    pub(crate) fn view(&self, host: &str) -> Option<RingView> {
        let mut console =
            Console::ask(&RunDir::at(self.rundir(host)), RingRequest::Describe).ok()?;
        match console.answer(Some(Duration::from_secs(2))).ok()? {
            ConsoleReply::Ring(view) => Some(view),
            _ => None,
        }
    }

    /// Kills only the daemon of a host.
    pub(crate) fn kill_daemon(&self, host: &str) {
        let output = self.exec(host, &["sh", "-c", "kill -9 $(pidof mpd)"]);
        let log = || self.run(host, &["tail", "-n", "30", &format!("/tmp/mpd-0-{host}/mpd.log")]);
        assert!(output.status.success(), "{host} has no daemon\n{}", log());
    }

    /// Waits until `from` can log in to `to`, because hosts detect a returned host at different times.
    pub(crate) fn can_log_in(&self, from: &str, to: &str) {
        let logs_in = || self.exec(from, &["ssh", to, "true"]).status.success();
        assert!(comes_true(NEVER, logs_in), "{from} cannot log in to {to}");
    }

    /// Whether these hosts form one ring in the view of each of them: in one order, with both links up.
    pub(crate) fn is_one_ring(&self, hosts: &[String]) -> bool {
        let wanted: BTreeSet<&str> = hosts.iter().map(String::as_str).collect();
        let mut circle: Option<Vec<String>> = None;
        hosts.iter().all(|host| {
            let Some(view) = self.view(host).filter(|view| view.whole) else { return false };
            let live = view.members.iter().filter(|m| m.standing == Standing::Live);
            let mut order: Vec<String> = live.map(|m| m.name.to_string()).collect();
            if order.iter().map(String::as_str).collect::<BTreeSet<_>>() != wanted {
                return false;
            }
            let first = order
                .iter()
                .position(|name| Some(name.as_str()) == hosts.first().map(String::as_str));
            order.rotate_left(first.unwrap_or(0));
            circle.get_or_insert_with(|| order.clone()) == &order
        })
    }

    /// Waits until these hosts form one ring; returns the time that this took.
    pub(crate) fn heals(&self, what: &str, hosts: &[String]) -> Duration {
        let begin = Instant::now();
        // Each look takes CPU time that the hosts need to heal.
        let pause = Duration::from_millis(50);
        if !comes_true_slowly(pause, NEVER, || self.is_one_ring(hosts)) {
            let views: Vec<String> =
                hosts.iter().map(|h| format!("{h}: {:?}", self.view(h))).collect();
            panic!("{what}: no ring of {hosts:?}\n{}", views.join("\n"));
        }
        let took = begin.elapsed();
        tell(&format!(
            "rig of {}, entry h{}: {what}: one ring of {} after {:.2} s",
            self.hosts,
            self.entry,
            hosts.len(),
            took.as_secs_f64()
        ));
        took
    }

    /// Ends the ring of which this host is a member, and proves that nothing is left anywhere.
    pub(crate) fn ends(&self, host: &str) {
        self.run(host, &["mpdallexit"]);
        self.nothing_is_left();
    }

    pub(crate) fn nothing_is_left(&self) {
        let on_host = |host: &String| {
            let names = ["mpd", "mpdagent", "mpdboot", "mpdman", "mpdwait", "mpdfork", "ssh"];
            let output = self.exec(host, &[&["pidof"], &names[..]].concat());
            output.status.success().then(|| format!("{host}: {}", text(&output)))
        };
        let mut left = Vec::new();
        let ended = comes_true(Duration::from_secs(20), || {
            left = self.all().iter().filter_map(on_host).collect();
            left.is_empty()
        });
        assert!(ended, "left: {left:?}");
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = self.script().arg("down").output();
    }
}

/// The directory of the programs.
pub(crate) fn programs() -> PathBuf {
    program("mpd").parent().expect("a directory").to_owned()
}

/// The directory of the helper programs.
fn helpers() -> PathBuf {
    program("t-steps").parent().expect("a directory").to_owned()
}

pub(crate) fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// `all` without some hosts.
pub(crate) fn without(all: &[String], gone: &[&str]) -> Vec<String> {
    all.iter().filter(|host| !gone.contains(&host.as_str())).cloned().collect()
}
