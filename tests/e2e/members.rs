//! A ring of daemons on this machine, each with its own run directory and loopback address.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mpd_io::ring::console::{self, Console, ConsoleError};
use mpd_io::ring::rundir::RunDir;
use mpd_wire::message::{
    ConsoleReply, Happening, HostedPart, MemberView, Opening, RingRequest, RingView, VERSION,
};
use mpd_wire::{DaemonName, Standing};
use nix::sys::signal::Signal;

use crate::process::{self, Process};
use crate::run::{Run, comes_true, scaled, wait_until};
use crate::suite::Suite;

/// How long an answer of a daemon may take. Answers about itself take a millisecond.
const PATIENCE: Duration = Duration::from_secs(30);

/// A started daemon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) pid: i32,
    pub(crate) address: SocketAddr,
}

/// The daemons d1, d2 … of one test.
pub(crate) struct Members {
    pub(crate) suite: Suite,
    network: [u8; 2],
    members: Mutex<BTreeMap<usize, Member>>,
    scale: Option<u32>,
    options: Vec<String>,
}

impl Members {
    /// A ring without members.
    pub(crate) fn new() -> Self {
        Self::within(Suite::new())
    }

    /// A ring without members, in an existing suite.
    pub(crate) fn within(suite: Suite) -> Self {
        // No two tests share addresses, so that a port stays free for its earlier owner.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = std::process::id().wrapping_mul(8) + NEXT.fetch_add(1, Ordering::Relaxed);
        let [.., high, low] = number.to_be_bytes();
        let network = [high % 250 + 2, low];
        Self { suite, network, members: Mutex::default(), scale: None, options: Vec::new() }
    }

    /// A ring of `count` members.
    pub(crate) fn of(count: usize) -> Self {
        Self::new().with(count)
    }

    /// Starts `count` members, one after the other.
    pub(crate) fn with(self, count: usize) -> Self {
        for index in 1..=count {
            self.start(index);
        }
        self.agree();
        self
    }

    /// Divides all time limits of the ring by this factor.
    pub(crate) fn faster(mut self, scale: u32) -> Self {
        self.scale = Some(scale);
        self
    }

    /// Further arguments for every daemon.
    pub(crate) fn option(mut self, arguments: &[&str]) -> Self {
        self.options.extend(arguments.iter().map(|word| (*word).to_owned()));
        self
    }

    pub(crate) fn rundir(&self, index: usize) -> PathBuf {
        self.suite.path(format!("m{index}"))
    }

    pub(crate) fn log(&self, index: usize) -> String {
        std::fs::read_to_string(self.rundir(index).join("mpd.log")).unwrap_or_default()
    }

    /// The address of this member. With more members than a network has, two have the same one and different ports.
    pub(crate) fn ip(&self, index: usize) -> String {
        let [a, b] = self.network;
        format!("127.{a}.{b}.{}", (index - 1) % 254 + 1)
    }

    /// `mpd --daemon` for this member; the caller may append arguments.
    pub(crate) fn mpd(&self, index: usize) -> Run {
        self.dress(self.suite.mpd(&[]), index)
    }

    /// The same, run by another program.
    pub(crate) fn mpd_under(&self, index: usize, conditions: &[&str]) -> Run {
        let run = self.suite.command(self.suite.program("t-run")).args(conditions);
        self.dress(run.arg(self.suite.program("mpd")), index)
    }

    /// Adds the arguments and the environment of this member to a command that starts `mpd`.
    pub(crate) fn dress(&self, run: Run, index: usize) -> Run {
        let run = run
            .args(["--daemon", "--echo", "--name", &format!("d{index}"), "--ifhn"])
            .arg(self.ip(index))
            .arg("--rundir")
            .arg(self.rundir(index))
            .args(&self.options);
        match self.scale {
            Some(scale) => run.env("MPD_TIME_SCALE", scale.to_string()),
            None => run,
        }
    }

    /// `mpirun` with these arguments, through this member.
    pub(crate) fn mpirun(&self, index: usize, arguments: &[&str]) -> Run {
        self.suite.mpirun(arguments).env("MPD_RUNDIR", self.rundir(index))
    }

    /// A console of the ring that asks this member.
    pub(crate) fn tool(&self, index: usize, program: &str, arguments: &[&str]) -> Run {
        let program = self.suite.program(program);
        let directory = Path::new(&program).parent().expect("a directory").display().to_string();
        // Its commands find our programs.
        let path = std::env::var("PATH").unwrap_or_default();
        let run = self.suite.command(&program).args(arguments);
        run.env("MPD_RUNDIR", self.rundir(index)).env("PATH", format!("{directory}:{path}"))
    }

    /// Starts this member; it enters through the first running member.
    pub(crate) fn start(&self, index: usize) -> Member {
        let entry = self.lock().values().next().map(|member| member.address.to_string());
        let arguments = entry.iter().flat_map(|entry| ["--join", entry]);
        self.started(index, self.mpd(index).args(arguments))
    }

    /// Starts this member after its death, without the address of another member.
    pub(crate) fn start_again(&self, index: usize) -> Member {
        self.started(index, self.mpd(index))
    }

    /// Runs the command that starts this member, and registers the member.
    pub(crate) fn started(&self, index: usize, run: Run) -> Member {
        let output = run.output();
        let line = output.code(0).quiet().out();
        let port = line.trim().strip_prefix("mpd_port=").and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("no port: {output}"));
        let ip = self.ip(index).parse().expect("an address");
        let member = Member { pid: self.pid(index), address: SocketAddr::new(ip, port) };
        self.suite.adopt(member.pid, &self.rundir(index), &self.rundir(index).join("mpd.log"));
        self.lock().insert(index, member);
        member
    }

    fn pid(&self, index: usize) -> i32 {
        if self.suite.is_of_another_user() {
            return self.suite.daemon_at(&self.rundir(index)).pid;
        }
        let rundir = RunDir::at(self.rundir(index));
        let status = Console::open(&rundir, &Opening::Status { version: VERSION })
            .and_then(|mut console| console.answer(Some(PATIENCE)));
        match status {
            Ok(ConsoleReply::Status { pid, .. }) => i32::try_from(pid).expect("a pid"),
            other => panic!("no status of d{index}: {other:?}"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The running members.
    pub(crate) fn indices(&self) -> Vec<usize> {
        self.lock().keys().copied().collect()
    }

    pub(crate) fn member(&self, index: usize) -> Member {
        *self.lock().get(&index).unwrap_or_else(|| panic!("d{index} does not run"))
    }

    pub(crate) fn process(&self, index: usize) -> Process {
        Process::read(self.member(index).pid).unwrap_or_else(|| panic!("d{index} is gone"))
    }

    pub(crate) fn send(&self, index: usize, signal: Signal) {
        process::send(self.member(index).pid, signal);
    }

    /// Kills this member and waits until it is dead.
    pub(crate) fn kill(&self, index: usize) {
        self.send(index, Signal::SIGKILL);
        self.forget(index);
        self.suite.expect_stale_socket(&self.rundir(index));
    }

    /// Removes an ended member after its process has gone.
    pub(crate) fn forget(&self, index: usize) {
        let member = self.member(index);
        let gone = || Process::is_gone(member.pid);
        wait_until(&format!("d{index} is gone"), gone);
        self.lock().remove(&index);
    }

    /// Checks that no file of this daemon is left.
    pub(crate) fn is_clean(&self, index: usize) -> bool {
        let there = |name| self.rundir(index).join(name).exists();
        !there("mpd.sock") && !there("ring.json")
    }

    pub(crate) fn console(&self, index: usize, request: RingRequest) -> Console {
        self.try_console(index, request).unwrap_or_else(|error| panic!("d{index}: {error}"))
    }

    fn try_console(&self, index: usize, request: RingRequest) -> Result<Console, ConsoleError> {
        Console::ask(&RunDir::at(self.rundir(index)), request)
    }

    /// One request, one answer.
    pub(crate) fn ask(
        &self,
        index: usize,
        request: RingRequest,
    ) -> Result<ConsoleReply, ConsoleError> {
        self.try_console(index, request)?.answer(Some(scaled(PATIENCE)))
    }

    /// The daemon's reason for refusing a request.
    pub(crate) fn refusal(&self, index: usize, request: RingRequest) -> String {
        match self.ask(index, request) {
            Err(ConsoleError::Refused(problem)) => problem,
            other => panic!("d{index} did not refuse the request: {other:?}"),
        }
    }

    pub(crate) fn view(&self, index: usize) -> RingView {
        let view = console::describe(&RunDir::at(self.rundir(index)), scaled(PATIENCE));
        view.unwrap_or_else(|error| panic!("d{index} does not describe the ring: {error}"))
    }

    /// The record of this name at that daemon.
    pub(crate) fn record(&self, index: usize, name: &str) -> Option<MemberView> {
        self.view(index).members.into_iter().find(|member| member.name.as_str() == name)
    }

    pub(crate) fn standing(&self, index: usize, of: usize) -> Option<Standing> {
        self.record(index, &format!("d{of}")).map(|member| member.standing)
    }

    /// Waits until all running members list exactly each other, in one order, and are linked. Returns that order,
    /// beginning with the first member.
    pub(crate) fn agree(&self) -> Vec<String> {
        let indices = self.indices();
        let mut names: Vec<String> = indices.iter().map(|index| format!("d{index}")).collect();
        let first = names.first().cloned().expect("a member");
        names.sort_unstable();
        let mut orders = Vec::new();
        let agreed = comes_true(Duration::from_secs(30), || {
            let views: Vec<RingView> = indices.iter().map(|index| self.view(*index)).collect();
            orders = views.iter().map(|view| order(view, &first)).collect();
            let mut sorted = orders[0].clone();
            sorted.sort_unstable();
            let same = orders.iter().all(|order| *order == orders[0]);
            same && sorted == names
                && views.iter().all(|view| view.whole && has_listed_neighbours(view))
        });
        assert!(agreed, "{names:?} never agreed: {orders:#?}");
        orders.remove(0)
    }

    /// The names that a lap from this daemon collects.
    pub(crate) fn lap(&self, index: usize) -> Vec<String> {
        match self.ask(index, RingRequest::Lap { laps: 1, trace: true }) {
            Ok(ConsoleReply::LapsHome { names, .. }) => texts(&names),
            other => panic!("no lap home: {other:?}"),
        }
    }

    /// All jobs, as this daemon lists them.
    pub(crate) fn listed(&self, index: usize) -> Vec<HostedPart> {
        let mut console = self.console(index, RingRequest::Jobs);
        let mut all = Vec::new();
        loop {
            match console.answer(None) {
                Ok(ConsoleReply::Jobs { jobs, more, missing, .. }) => {
                    assert!(missing.is_empty(), "{missing:?}");
                    all.extend(jobs);
                    if !more {
                        return all;
                    }
                }
                other => panic!("no listing: {other:?}"),
            }
        }
    }

    /// Subscribes to events; the first event has arrived when this returns.
    pub(crate) fn watch(&self, index: usize) -> Watch {
        let mut watch = Watch(self.console(index, RingRequest::Watch));
        assert_eq!(watch.next().event, "watching");
        watch
    }
}

/// A console that receives the events of the ring.
pub(crate) struct Watch(Console);

impl Watch {
    fn next(&mut self) -> Happening {
        match self.0.answer(Some(scaled(PATIENCE))) {
            Ok(ConsoleReply::Event(happening)) => happening,
            other => panic!("no event: {other:?}"),
        }
    }

    /// Waits for this event about that member.
    pub(crate) fn reports(&mut self, event: &str, member: Option<&str>) -> Happening {
        loop {
            let happening = self.next();
            let about = happening.member.as_ref().map(DaemonName::as_str);
            if happening.event == event && about == member {
                return happening;
            }
        }
    }

    /// All events that have arrived and were not read yet.
    pub(crate) fn so_far(&mut self) -> Vec<String> {
        let mut events = Vec::new();
        while let Ok(ConsoleReply::Event(happening)) = self.0.answer(Some(Duration::ZERO)) {
            events.push(happening.text);
        }
        events
    }
}

/// The live members in ring order, beginning with this one.
fn order(view: &RingView, first: &str) -> Vec<String> {
    let live = view.members.iter().filter(|member| member.standing == Standing::Live);
    let mut names: Vec<String> = live.map(|member| member.name.to_string()).collect();
    let start = names.iter().position(|name| name == first).unwrap_or(0);
    names.rotate_left(start);
    names
}

/// Whether the linked neighbours equal the neighbours of the list.
fn has_listed_neighbours(view: &RingView) -> bool {
    let live = order(view, view.me.as_str());
    let [me, .., last] = &live[..] else { return true };
    let next = live.get(1).unwrap_or(me);
    let is = |linked: &Option<DaemonName>, name: &str| {
        linked.as_ref().is_some_and(|linked| linked.as_str() == name)
    };
    is(&view.rhs, next) && is(&view.lhs, last)
}

fn texts(names: &[DaemonName]) -> Vec<String> {
    names.iter().map(DaemonName::to_string).collect()
}

/// Whether a file contains this text.
pub(crate) fn holds(path: &Path, text: &str) -> bool {
    std::fs::read_to_string(path).is_ok_and(|content| content.contains(text))
}
