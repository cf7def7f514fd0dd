//! Random schedules: jobs, what users do, and faults. All is decided before a run, so that parts can be left out.

use std::collections::BTreeSet;

use mpd_tests::random::Random;
use mpd_wire::Stream;
use mpd_wire::job::{Argset, JobSpec, LabelFormat, OnFailure, OutputSpec};
use mpd_wire::message::JobOrder;

use super::output::{Terminal, judge_output};
use super::programs::Step;
use super::reference::judge;
use super::suite::Suite;
use crate::checks;
use crate::daemons::after_calm;
use crate::dialect::Dialect;
use crate::world::{MS, SECOND};

const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
const SIGTSTP: i32 = 20;

/// When jobs begin: the ring has formed.
const FROM: u64 = 6 * SECOND;
const CALM: u64 = 60 * SECOND;

/// A job, and what its ranks do.
#[derive(Clone, Debug)]
pub(super) struct JobPlan {
    /// The host of the console.
    pub(super) host: usize,
    pub(super) dialect: Dialect,
    pub(super) on_failure: OnFailure,
    /// By rank.
    pub(super) programs: Vec<Vec<Step>>,
    /// Of each spawned process.
    pub(super) child: Vec<Step>,
    /// It spawns or uses names.
    pub(super) needs_daemons: bool,
    pub(super) terminal: Terminal,
    /// A label with the rank precedes each line.
    pub(super) is_labelled: bool,
    /// The width of each line of output, without its first words.
    pub(super) width: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Fault {
    PowerOff(usize),
    PowerOn(usize),
    KillDaemon(usize),
    Boot(usize),
    /// On that host, the manager of this number.
    KillManager(usize, usize),
    /// On that host, the process of this number, by that signal.
    KillRank(usize, usize, u8),
    Cut(usize, usize),
    OneWay(usize, usize),
    Heal,
    Freeze(usize),
    Thaw(usize),
    RefuseForks(usize, bool),
    /// The program of ranks is not there.
    LosePrograms(usize, bool),
    /// The disk is full.
    FillDisk(usize, bool),
    /// Messages of that host take so many milliseconds longer.
    Clog(usize, u64),
}

#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// The next console begins.
    Open,
    /// The user sends a signal to that console.
    Signal(usize, i32),
    KillConsole(usize),
    /// An order about the job of a console, through the daemon of a host.
    Order(usize, usize, JobOrder),
    /// A program asks the daemon of a host for so many slots, and holds them.
    Hold(usize, u32),
    /// All programs of a host that hold slots end.
    Release(usize),
    Fault(Fault),
}

#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) seed: u64,
    pub(super) hosts: usize,
    pub(super) jobs: Vec<JobPlan>,
    /// With the time of each.
    pub(super) operations: Vec<(u64, Operation)>,
}

/// The result of a schedule.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) violations: Vec<String>,
    pub(super) fingerprint: u64,
    pub(super) lines: Vec<String>,
    /// Jobs, those that ended with 0, those whose hosts had no trouble, and started ranks.
    pub(super) counts: [u64; 4],
}

impl JobPlan {
    pub(super) fn size(&self) -> u32 {
        u32::try_from(self.programs.len()).expect("few ranks")
    }

    /// Whether spawned processes connect with their parent.
    pub(super) fn connects(&self) -> bool {
        self.child.iter().any(|step| matches!(step, Step::Connect(_)))
    }

    pub(super) fn spec(&self) -> JobSpec {
        let argset = Argset {
            size: self.size(),
            program: b"./rank".into(),
            directory: b"/work".into(),
            search: b"/bin".into(),
            umask: 0o22,
            ..Argset::default()
        };
        let label = LabelFormat::new(b"%r: ").ok().filter(|_| self.is_labelled);
        JobSpec {
            argsets: vec![argset],
            environments: vec![Vec::new()],
            tmpdir: b"/tmp".into(),
            on_failure: self.on_failure,
            output: OutputSpec { label, ..OutputSpec::default() },
            ..JobSpec::default()
        }
    }

    fn random(dice: &mut Random, hosts: usize) -> Self {
        let size = 1 + dice.below(2 * hosts + 1);
        let dialect = [Dialect::Pmi, Dialect::Pmi2, Dialect::Pmix, Dialect::Pmix][dice.below(4)];
        let continues = dialect != Dialect::Pmix && dice.one_in(4);
        let on_failure = if continues { OnFailure::Continue } else { OnFailure::End };
        let rounds = dice.below(3);
        let spawner = dice.one_in(3).then(|| dice.below(size));
        let names = dice.one_in(4);
        let mut programs: Vec<Vec<Step>> = Vec::new();
        for rank in 0..size {
            let spawns = spawner == Some(rank);
            programs.push(program(dice, (size, rounds), spawns, names));
        }
        // Some ranks fail.
        if dice.one_in(4) {
            let program = &mut programs[dice.below(size)];
            let at = dice.below(program.len());
            let failure = [Step::Exit(7), Step::Crash(11), Step::Abort][dice.below(3)].clone();
            let is_spoken = program.first() == Some(&Step::Init) && at > 0;
            let failure = if is_spoken { failure } else { Step::Exit(7) };
            program.truncate(at);
            program.extend([failure, Step::Exit(5)]);
        }
        let mut child = vec![Step::Init, Step::Fence, print(dice), Step::Compute(300), print(dice)];
        let connects = dialect == Dialect::Pmix && dice.one_in(2);
        if let Some(rank) = spawner.filter(|_| connects) {
            let connect = Step::Connect(u32::try_from(rank).expect("a rank"));
            child.insert(2 + dice.below(2), connect.clone());
            let program = &mut programs[rank];
            let is_spawn = |step: &Step| matches!(step, Step::Spawn(_));
            if let Some(at) = program.iter().position(is_spawn) {
                program.insert(at + 1, connect);
            }
        }
        child.extend([Step::Finalize, Step::Exit(0)]);
        let needs_daemons = spawner.is_some() || names;
        let is_slow = dice.one_in(4);
        Self {
            host: dice.below(hosts),
            dialect,
            on_failure,
            programs,
            child,
            needs_daemons,
            terminal: Terminal {
                is_shared: dice.one_in(2),
                room: if is_slow { 1000 } else { 64 * 1024 },
                delay: if is_slow { 20 * MS } else { 0 },
            },
            is_labelled: dice.one_in(3),
            width: if dice.one_in(8) { 2000 } else { dice.below(60) },
        }
    }
}

fn program(
    dice: &mut Random,
    (size, rounds): (usize, usize),
    spawns: bool,
    names: bool,
) -> Vec<Step> {
    let mut steps = Vec::new();
    let uses_pmi = rounds > 0 || spawns || names;
    if dice.one_in(4) {
        steps.push(Step::Compute(dice.below(2000) as u64));
    }
    if uses_pmi {
        steps.insert(0, Step::Init);
    }
    for _ in 0..rounds {
        steps.extend([Step::Put, Step::Fence]);
        for _ in 0..1 + dice.below(2) {
            steps.push(Step::Get(u32::try_from(dice.below(size)).expect("a rank")));
        }
        if dice.one_in(4) {
            steps.push(Step::Compute(dice.below(4000) as u64));
        }
    }
    if names {
        let name = u32::try_from(dice.below(2)).expect("a name");
        steps.push(if dice.one_in(2) { Step::Publish(name) } else { Step::Lookup(name) });
    }
    if dice.one_in(2) {
        let before = dice.below(steps.len() + 1).max(usize::from(uses_pmi));
        steps.insert(before, print(dice));
    }
    if spawns {
        steps.push(Step::Spawn(1 + u32::try_from(dice.below(3)).expect("a size")));
    }
    if dice.one_in(6) {
        steps.push(Step::Handle);
    }
    if dice.one_in(6) {
        steps.push(Step::Fork(dice.below(3000) as u64));
    }
    steps.push(Step::Compute(dice.below(6000) as u64));
    if dice.one_in(2) {
        steps.push(print(dice));
    }
    if uses_pmi {
        steps.push(Step::Finalize);
    }
    steps.push(Step::Exit(0));
    steps
}

/// Lines of a rank.
fn print(dice: &mut Random) -> Step {
    let stream = Stream::BOTH[usize::from(dice.one_in(4))];
    let count = if dice.one_in(10) { 100 } else { 1 + dice.below(6) };
    Step::Print(stream, u32::try_from(count).expect("a few"))
}

impl Schedule {
    pub(super) fn random(seed: u64) -> Self {
        let mut dice = Random::new(seed.wrapping_mul(0x9e37_79b9));
        let hosts = 2 + usize::try_from(seed % 5).expect("a small number");
        let jobs: Vec<JobPlan> =
            (0..1 + dice.below(4)).map(|_| JobPlan::random(&mut dice, hosts)).collect();
        let mut operations = Vec::new();
        let mut at = FROM;
        let mut opened = 0;
        let faults = if dice.one_in(2) { 0 } else { 1 + dice.below(4) };
        for _ in &jobs {
            operations.push((at, Operation::Open));
            opened += 1;
            at += dice.below(3000) as u64 * MS;
            for _ in 0..dice.below(3) / 2 + dice.below(4) / 3 {
                let after = dice.below(4000) as u64 * MS;
                operations.push((at + after, user(&mut dice, hosts, opened)));
            }
        }
        for _ in 0..faults {
            let at = FROM + dice.below(8000) as u64 * MS;
            let (fault, end) = fault(&mut dice, hosts);
            operations.push((at, Operation::Fault(fault)));
            if let Some(end) = end {
                let after = 100 * MS + dice.below(9000) as u64 * MS;
                operations.push((at + after, Operation::Fault(end)));
            }
        }
        operations.sort_by_key(|(at, _)| *at);
        Self { seed, hosts, jobs, operations }
    }

    pub(super) fn run(&self, suite: &mut Suite) -> Outcome {
        for host in 0..self.hosts {
            suite.boot(host);
            suite.run(suite.world.now + 100 * MS);
        }
        for (at, operation) in &self.operations {
            suite.pass((*at).max(suite.world.now));
            suite.operate(operation);
        }
        suite.pass(suite.world.now + 8 * SECOND);
        self.calm(suite);
        let all: BTreeSet<usize> = (0..self.hosts).collect();
        let mut violations = std::mem::take(&mut suite.violations);
        violations.append(&mut suite.world.watch.violations);
        violations.extend(checks::one_ring(&suite.world, &all));
        violations.extend(suite.leftovers());
        if self.holds_slots() {
            violations.extend(after_calm(&mut suite.world));
        }
        for (job, console) in suite.consoles.iter().enumerate() {
            let (plan, facts) = (&self.jobs[job], &suite.facts[job]);
            violations.extend(judge(job, plan, facts, console));
            violations.extend(judge_output(job, plan, facts, console));
        }
        let successes = suite.consoles.iter().filter(|console| console.code == Some(0)).count();
        let calm = suite.facts.iter().filter(|facts| !facts.is_disturbed).count();
        let ranks: usize = suite.facts.iter().map(|facts| facts.started.len()).sum();
        Outcome {
            violations,
            fingerprint: suite.world.trace.fingerprint,
            lines: std::mem::take(&mut suite.world.trace.lines),
            counts: [suite.consoles.len() as u64, successes as u64, calm as u64, ranks as u64],
        }
    }

    fn holds_slots(&self) -> bool {
        self.operations.iter().any(|(_, operation)| matches!(operation, Operation::Hold(..)))
    }

    /// Ends the faults, and waits until everything is over.
    fn calm(&self, suite: &mut Suite) {
        for host in 0..self.hosts {
            suite.apply(&Fault::Thaw(host));
            suite.apply(&Fault::RefuseForks(host, false));
            suite.apply(&Fault::LosePrograms(host, false));
            suite.apply(&Fault::FillDisk(host, false));
        }
        suite.apply(&Fault::Heal);
        for host in 0..self.hosts {
            suite.apply(&Fault::PowerOn(host));
            suite.apply(&Fault::Clog(host, 0));
            suite.release(host);
        }
        suite.run(suite.world.now + CALM);
    }
}

/// What a user does.
fn user(dice: &mut Random, hosts: usize, opened: usize) -> Operation {
    let (host, job) = (dice.below(hosts), dice.below(opened));
    match dice.below(12) {
        0 => Operation::Signal(job, SIGINT),
        1 => Operation::Signal(job, SIGTERM),
        2 => Operation::KillConsole(job),
        3 => Operation::Order(host, job, JobOrder::Kill),
        4 => Operation::Order(host, job, JobOrder::Signal { signal: 15, single: false }),
        5 | 6 => Operation::Signal(job, SIGTSTP),
        7 | 8 => Operation::Hold(host, 1 + u32::try_from(dice.below(3)).expect("a few")),
        9 => Operation::Release(host),
        _ => Operation::Order(host, job, JobOrder::Grow { count: 1 }),
    }
}

/// A fault, and what ends it.
fn fault(dice: &mut Random, hosts: usize) -> (Fault, Option<Fault>) {
    let (host, other, number) = (dice.below(hosts), dice.below(hosts), dice.below(8));
    match dice.below(14) {
        0 => (Fault::PowerOff(host), Some(Fault::PowerOn(host))),
        1..=3 => (Fault::KillDaemon(host), Some(Fault::Boot(host))),
        4 => (Fault::KillManager(host, number), None),
        5 | 6 => (Fault::KillRank(host, number, [9, 11, 15][dice.below(3)]), None),
        7 => (Fault::Cut(host, other), Some(Fault::Heal)),
        8 => (Fault::OneWay(host, other), Some(Fault::Heal)),
        9 => (Fault::Freeze(host), Some(Fault::Thaw(host))),
        10 => (Fault::Clog(host, dice.below(300) as u64), Some(Fault::Clog(host, 0))),
        11 => (Fault::LosePrograms(host, true), Some(Fault::LosePrograms(host, false))),
        12 => (Fault::FillDisk(host, true), Some(Fault::FillDisk(host, false))),
        _ => (Fault::RefuseForks(host, true), Some(Fault::RefuseForks(host, false))),
    }
}

impl Suite {
    /// Runs until that time, and notes the jobs that a trouble concerns.
    fn pass(&mut self, until: u64) {
        while self.world.now < until {
            self.run((self.world.now + SECOND).min(until));
            self.note_lasting_trouble();
        }
    }

    fn operate(&mut self, operation: &Operation) {
        self.say(0, &format!("operation: {operation:?}"));
        match operation {
            Operation::Open => {
                self.open_console();
                self.note_lasting_trouble();
            }
            Operation::Signal(job, signal) => self.signal_console(*job, *signal),
            Operation::KillConsole(job) => self.kill_console(*job),
            Operation::Order(host, job, order) => self.order(*host, *job, order.clone()),
            Operation::Hold(host, count) => self.hold(*host, *count),
            Operation::Release(host) => self.release(*host),
            Operation::Fault(fault) => self.apply(fault),
        }
        self.serve_daemons();
    }

    /// Processes and records that are left on the hosts.
    fn leftovers(&self) -> Vec<String> {
        let mut left = Vec::new();
        for (host, of) in self.hosts.iter().enumerate() {
            let others = of.kernel.processes.iter().filter(|(pid, _)| **pid != of.daemon);
            let name = |(pid, process): (&i32, &crate::kernel::Process)| {
                let (parent, state, rank) = (process.parent, process.state, process.rank);
                format!("h{host}: process {pid} of {parent} is left: {state:?} {rank:?}")
            };
            left.extend(others.map(name));
            left.extend(of.records.keys().map(|job| format!("h{host}: a record of {job}")));
        }
        left
    }
}
