//! The same operations on the simulators' kernel and on the real one: children of children, groups, signals, stops,
//! deaths, orphans. After each operation both tell the same of each process.
//!
//! The test is the manager: it becomes the reaper of orphans, and real processes are `t-puppet`s. What the manager sees of
//! them comes from the functions that answer the questions of `mpd-ending`. Not compared are processes of another user,
//! uninterruptible calls, helpers, and files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

use mpd_ending::{Answer, Question, SignalTarget};
use mpd_io::process::tree;
use mpd_sansio::Time;
use mpd_tests::random::Random;
use mpd_tests::surroundings::program;
use mpd_tests::waiting::wait_until;
use mpd_wire::job::RankEnd;
use mpd_wire::{Pid, Rank, RankSet};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid as RealPid;

use crate::kernel::{INIT, Kernel, Process, State};

const SEEDS: u64 = 12;
const OPERATIONS: usize = 60;

/// The signal that some processes handle.
const HANDLED: i32 = 10;
/// SIGUSR1, SIGTERM, SIGKILL, SIGTSTP.
const SIGNALS: [u8; 4] = [10, 15, 9, 20];

struct Puppet {
    pid: RealPid,
    socket: UnixStream,
}

/// Both hosts, with the same processes.
struct Pair {
    random: Random,
    kernel: Kernel,
    manager: i32,
    ranks: u32,
    listener: UnixListener,
    path: String,
    /// The real process of each process of the model.
    puppets: BTreeMap<i32, Puppet>,
}

#[test]
fn the_kernel_of_the_simulators_and_the_real_one_tell_the_same_after_each_operation() {
    tree::become_subreaper().expect("a subreaper");
    for seed in 0..SEEDS {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("puppets").display().to_string();
        let mut pair = Pair::new(Random::new(seed), path);
        for step in 0..OPERATIONS {
            let what = format!("seed {seed}, operation {step}: {}", pair.operate());
            println!("{what}");
            pair.compare(&what);
        }
        pair.end();
    }
    assert_eq!(tree::descendants(), BTreeSet::new());
}

impl Pair {
    fn new(random: Random, path: String) -> Self {
        let mut kernel = Kernel::new();
        let reaper = Process { is_subreaper: true, ..Process::child_of(INIT) };
        let manager = kernel.start(reaper);
        let listener = UnixListener::bind(&path).expect("a socket");
        Self { random, kernel, manager, ranks: 0, listener, path, puppets: BTreeMap::new() }
    }

    /// Processes in one of these states.
    fn which(&self, wanted: &[State]) -> Vec<i32> {
        let is_wanted = |pid: &&i32| wanted.contains(&self.kernel.processes[*pid].state);
        self.puppets.keys().filter(is_wanted).copied().collect()
    }

    fn one_of(&mut self, pids: &[i32]) -> Option<i32> {
        (!pids.is_empty()).then(|| pids[self.random.below(pids.len())])
    }

    /// An operation on both hosts, and its text.
    fn operate(&mut self) -> String {
        let alive = self.which(&[State::Running, State::Stopped]);
        let Some(pid) = self.one_of(&alive) else { return self.start(self.manager) };
        let process = &self.kernel.processes[&pid];
        let (is_running, rank) = (process.state == State::Running, process.rank);
        match self.random.below(10) {
            0 | 1 => self.start(self.manager),
            2 | 3 if is_running => self.start(pid),
            4 if is_running => self.exit(pid),
            5 => self.signal_group(rank.expect("a rank")),
            6 => self.stop(pid),
            7 => self.resume(pid),
            8 => self.reap(),
            _ => self.signal(pid),
        }
    }

    fn start(&mut self, parent: i32) -> String {
        let mut process = Process::child_of(parent);
        let mut words = Vec::new();
        if parent == self.manager {
            process.rank = Some(Rank(self.ranks));
            self.ranks += 1;
            words.push("leads");
        } else {
            process.rank = self.kernel.processes[&parent].rank;
        }
        if self.random.one_in(3) {
            process.handles = &[HANDLED];
            words.push("handles");
        }
        if self.random.one_in(4) {
            process.dies_with_parent = true;
            words.push("dies");
        }
        if self.random.one_in(4) {
            process.is_subreaper = true;
            words.push("adopts");
        }
        match self.puppets.get_mut(&parent) {
            Some(puppet) => {
                let line = ["fork"].into_iter().chain(words.iter().copied()).collect::<Vec<_>>();
                writeln!(puppet.socket, "{}", line.join(" ")).expect("a puppet");
            }
            #[expect(clippy::zombie_processes, reason = "an operation reaps it")]
            None => {
                let mut command = Command::new(program("t-puppet"));
                command.arg(&self.path).args(&words).spawn().expect("a puppet");
            }
        }
        let pid = self.kernel.start(process);
        let puppet = self.connect();
        self.puppets.insert(pid, puppet);
        format!("{parent} starts {pid} {words:?}")
    }

    fn connect(&self) -> Puppet {
        let (socket, _) = self.listener.accept().expect("a puppet");
        let mut line = String::new();
        BufReader::new(&socket).read_line(&mut line).expect("a line");
        Puppet { pid: RealPid::from_raw(line.trim().parse().expect("a pid")), socket }
    }

    fn exit(&mut self, pid: i32) -> String {
        let code = u8::try_from(self.random.below(4)).expect("small");
        writeln!(self.puppets[&pid].socket.try_clone().expect("a socket"), "exit {code}")
            .expect("a puppet");
        self.kernel.die(pid, RankEnd::Exited(code));
        format!("{pid} exits with {code}")
    }

    fn any_signal(&mut self) -> (u8, Signal) {
        let number = SIGNALS[self.random.below(SIGNALS.len())];
        (number, Signal::try_from(i32::from(number)).expect("a signal"))
    }

    fn signal(&mut self, pid: i32) -> String {
        let (number, signal) = self.any_signal();
        kill(self.puppets[&pid].pid, signal).expect("a process");
        assert!(self.kernel.send(pid, number));
        format!("{signal} to {pid}")
    }

    fn signal_group(&mut self, rank: Rank) -> String {
        let (number, signal) = self.any_signal();
        let member = |pid: &&i32| self.kernel.processes[*pid].rank == Some(rank);
        let first = self.puppets.keys().find(member).expect("a process of the rank");
        let group = nix::unistd::getpgid(Some(self.puppets[first].pid)).expect("a group");
        killpg(group, signal).expect("a group");
        let meant = SignalTarget::Groups(RankSet::from_ranges(vec![(rank.0, rank.0)]));
        let order = Question::Signal(number.into(), meant);
        let immune = self.ask(order);
        assert_eq!(immune, Answer::Pids(Vec::new()));
        format!("{signal} to rank {rank}")
    }

    fn stop(&mut self, pid: i32) -> String {
        let is_sent = tree::stop(self.puppets[&pid].pid);
        assert_eq!(self.kernel.stop(pid), is_sent);
        self.kernel.settle(pid);
        format!("{pid} is stopped")
    }

    fn resume(&mut self, pid: i32) -> String {
        tree::send_continue([self.puppets[&pid].pid]);
        self.kernel.resume(pid);
        format!("{pid} is continued")
    }

    /// The manager takes the end of a dead child.
    fn reap(&mut self) -> String {
        let dead = self.which(&[State::Dead]);
        let is_child = |pid: &i32| self.kernel.processes[pid].parent == self.manager;
        let children: Vec<i32> = dead.into_iter().filter(is_child).collect();
        let Some(pid) = self.one_of(&children) else { return "no dead child".to_owned() };
        let end = match waitpid(self.puppets[&pid].pid, None).expect("a child") {
            WaitStatus::Exited(_, code) => RankEnd::Exited(u8::try_from(code).expect("a code")),
            WaitStatus::Signaled(_, signal, core) => {
                RankEnd::Signaled { signal: u8::try_from(signal as i32).expect("small"), core }
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(self.kernel.processes[&pid].end, Some(end), "the end of {pid}");
        self.kernel.reap(pid);
        self.puppets.remove(&pid);
        format!("{pid} is reaped")
    }

    /// Waits until the real host shows what the model says.
    fn compare(&mut self, what: &str) {
        let model = self.model();
        let effects = self.model_effects();
        let problem = format!("{what}: {:#?}", self.kernel);
        wait_until(&problem, || self.real() == model && self.real_effects() == effects);
    }

    /// What each signal would do to each living process. A process that starts another one blocks signals for a moment.
    fn real_effects(&self) -> Vec<Answer> {
        let living = self.puppets.iter().filter(|(pid, _)| self.kernel.lives(**pid));
        let effect = |puppet: &Puppet, signal: u8| {
            let (takes, was_stopped) = tree::effect(puppet.pid, signal.into());
            Answer::Effect { takes, was_stopped }
        };
        living.flat_map(|(_, puppet)| SIGNALS.map(|signal| effect(puppet, signal))).collect()
    }

    fn model_effects(&mut self) -> Vec<Answer> {
        let living: Vec<i32> = self.which(&[State::Running, State::Stopped]);
        let questions = living
            .into_iter()
            .flat_map(|pid| SIGNALS.map(|signal| Question::Effect(Pid(pid), signal.into())));
        questions.map(|question| self.ask(question)).collect()
    }

    /// Each process: its number in the model, its state, whether it is still, and its children; then the manager's own view.
    fn real(&self) -> Vec<(i32, State, bool, BTreeSet<i32>)> {
        let names: BTreeMap<RealPid, i32> =
            self.puppets.iter().map(|(pid, puppet)| (puppet.pid, *pid)).collect();
        let named = |pids: Vec<RealPid>| pids.iter().map(|pid| names[pid]).collect();
        let each = self.puppets.iter().map(|(pid, puppet)| {
            let is_still = tree::is_still(puppet.pid, false);
            (*pid, state_of(puppet.pid), is_still, named(tree::children(puppet.pid)))
        });
        let own = (self.manager, State::Running, false, named(tree::own_children()));
        let all = tree::descendants().into_iter().collect();
        let all = (INIT, State::Running, false, named(all));
        each.chain([own, all]).collect()
    }

    fn model(&mut self) -> Vec<(i32, State, bool, BTreeSet<i32>)> {
        let mut all = Vec::new();
        for pid in self.puppets.keys().copied().collect::<Vec<_>>() {
            let Answer::Is(is_still) = self.ask(Question::IsStill(Pid(pid), false)) else {
                panic!("no answer about {pid}");
            };
            let state = self.kernel.processes[&pid].state;
            all.push((pid, state, is_still, self.pids(Question::ChildrenOf(Pid(pid)))));
        }
        all.push((self.manager, State::Running, false, self.pids(Question::Children)));
        all.push((INIT, State::Running, false, self.pids(Question::Descendants)));
        all
    }

    fn ask(&mut self, question: Question) -> Answer {
        self.kernel.answer(self.manager, Time::ZERO, question)
    }

    fn pids(&mut self, question: Question) -> BTreeSet<i32> {
        match self.ask(question) {
            Answer::Pids(pids) => pids.into_iter().map(|pid| pid.0).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// Kills and reaps all.
    fn end(mut self) {
        while !self.puppets.is_empty() {
            for pid in self.which(&[State::Running, State::Stopped]) {
                kill(self.puppets[&pid].pid, Signal::SIGKILL).expect("a process");
                self.kernel.send(pid, 9);
            }
            self.compare("the end");
            while self.reap() != "no dead child" {}
        }
    }
}

impl Drop for Pair {
    /// A stopped process would outlive a failed test.
    fn drop(&mut self) {
        for puppet in self.puppets.values() {
            let _ = kill(puppet.pid, Signal::SIGKILL);
        }
    }
}

fn state_of(pid: RealPid) -> State {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let (_, behind_name) = stat.rsplit_once(") ").expect("a name");
    match behind_name.chars().next() {
        Some('Z') => State::Dead,
        Some('T') => State::Stopped,
        _ => State::Running,
    }
}
