//! Whole farms: the machine of the farm and those of its workers, with messages that take time, hosts that die and come
//! back, tasks that fail, and interrupts. Each schedule is made from a number.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use mpd_sansio::{Machine as _, Time};

use crate::halt;
use crate::{
    Close, End, Farm, HostId, Input, Membership, Options, Order, Outcome, Output, Setup, Task,
    TaskId, Verdict, Worker, WorkerInput,
};

/// Schedules of one run of the test.
const SCHEDULES: u64 = 2000;
/// A schedule that has not ended then does not end.
const MAX_STEPS: usize = 400_000;

/// Numbers that only depend on the first one.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % limit
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A message on its way, with the time of its arrival.
type Line<M> = VecDeque<(Time, M)>;

/// A worker on a host that is up.
struct Site {
    worker: Worker,
    /// When each running task ends, and how.
    running: BTreeMap<TaskId, (Time, Outcome)>,
    to_worker: Line<WorkerInput>,
    to_farm: Line<Input>,
    /// Reports that were not sent yet.
    gathered: Vec<Input>,
    /// The tasks that began here.
    begun: BTreeSet<TaskId>,
    slots: u32,
}

struct Sim {
    random: Random,
    now: Time,
    farm: Farm,
    sites: BTreeMap<HostId, Site>,
    /// Hosts whose worker is being started, with the time when it is up; `false`: it fails.
    starting: BTreeMap<HostId, (Time, bool)>,
    options: Options,
    /// How often each task began.
    begun: BTreeMap<TaskId, u32>,
    results: BTreeMap<TaskId, Verdict>,
    /// How often a host was lost with its last messages where a task had begun, without a result before.
    losses: BTreeMap<TaskId, u32>,
    /// Mean time of tasks in milliseconds, and percent of failures.
    mean_ms: u64,
    failing: u64,
    close: Option<Close>,
    /// Hosts whose slots others hold for a while.
    full: BTreeSet<HostId>,
}

impl Sim {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let halts = ["never", "never", "never", "soon,fail=3", "now,fail=2"];
        let at = usize::try_from(random.below(5)).unwrap();
        let options = Options {
            per_task: 1 + u32::try_from(random.below(2)).unwrap(),
            retries: u32::try_from(random.below(3)).unwrap(),
            halt: halt::parse(halts[at]).unwrap(),
        };
        let (mean_ms, failing) = (
            [1, 30, 2000][usize::try_from(random.below(3)).unwrap()],
            [0, 10][usize::from(random.chance(50))],
        );
        let farm = Farm::new(options);
        Self {
            random,
            now: Time::ZERO,
            farm,
            sites: BTreeMap::new(),
            starting: BTreeMap::new(),
            options,
            begun: BTreeMap::new(),
            results: BTreeMap::new(),
            losses: BTreeMap::new(),
            mean_ms,
            failing,
            close: None,
            full: BTreeSet::new(),
        }
    }

    fn later(&mut self, most_ms: u64) -> Time {
        self.now + Duration::from_micros(self.random.below(most_ms * 1000) + 1)
    }

    fn tell(&mut self, input: Input) {
        self.farm.handle(self.now, input);
        self.perform();
    }

    fn perform(&mut self) {
        while let Some(output) = self.farm.poll_output() {
            match output {
                Output::Start(host) => {
                    let up = (self.later(100), !self.random.chance(20));
                    self.starting.insert(host, up);
                }
                Output::Give(host, task) => self.send(host, WorkerInput::Task(task)),
                Output::TakeBack(host, count) => self.send(host, WorkerInput::TakeBack(count)),
                Output::Slots(host, slots) => self.send(host, WorkerInput::Slots(slots)),
                Output::Kill(host) => self.send(host, WorkerInput::Kill),
                Output::Result { task, verdict, .. } => {
                    assert!(
                        self.results.insert(task.id, verdict).is_none(),
                        "task {} has two results",
                        task.id
                    );
                }
                Output::Again(..) | Output::Abandon => {}
                Output::Done(close) => self.close = Some(close),
            }
        }
    }

    fn send(&mut self, host: HostId, message: WorkerInput) {
        let at = self.later(5);
        let Some(site) = self.sites.get_mut(&host) else { return };
        let at = site.to_worker.back().map_or(at, |(last, _)| at.max(*last));
        site.to_worker.push_back((at, message));
    }

    /// The orders of a worker.
    fn obey(&mut self, host: HostId) {
        let until = self.later(5);
        let Some(mut site) = self.sites.remove(&host) else { return };
        while let Some(order) = site.worker.poll_output() {
            match order {
                Order::Announce(id) => site.gathered.push(Input::Started(host, id)),
                Order::Start(task) => {
                    let at = self.later(2 * self.mean_ms);
                    let outcome = if self.random.chance(self.failing) {
                        Outcome::Exited(1)
                    } else {
                        Outcome::Exited(0)
                    };
                    site.running.insert(task.id, (at, outcome));
                    site.begun.insert(task.id);
                    *self.begun.entry(task.id).or_default() += 1;
                    let most = usize::try_from(site.slots / self.options.per_task).unwrap();
                    assert!(site.running.len() <= most, "more tasks than slots");
                }
                Order::End(id, _) => {
                    if let Some((at, outcome)) = site.running.get_mut(&id) {
                        (*at, *outcome) = (self.now, Outcome::Killed(15));
                    }
                }
                Order::Report(id, outcome) => {
                    let end = End { outcome, began: 0, took: self.mean_ms * 1000 };
                    site.gathered.push(Input::Ended(host, id, end));
                }
                Order::Return(ids) => site.gathered.push(Input::Returned(host, ids)),
                Order::Send => {
                    let at = site.to_farm.back().map_or(until, |(last, _)| until.max(*last));
                    site.to_farm.extend(site.gathered.drain(..).map(|input| (at, input)));
                    site.worker.handle(self.now, WorkerInput::Sent);
                }
            }
        }
        self.sites.insert(host, site);
    }

    fn lose(&mut self, host: HostId) {
        if let Some(site) = self.sites.remove(&host) {
            if self.random.chance(50) {
                // The worker alone has died: what it has sent arrives.
                site.to_farm.into_iter().for_each(|(_, input)| self.tell(input));
                return self.tell(Input::Lost(host));
            }
            // The farm may not know that a task began or ended here.
            let open = site.begun.iter().filter(|id| !self.results.contains_key(id));
            open.for_each(|id| *self.losses.entry(*id).or_default() += 1);
            self.tell(Input::Lost(host));
        }
    }

    /// All that happens at one host now.
    fn host_turn(&mut self, host: HostId) {
        let Some(site) = self.sites.get_mut(&host) else { return };
        if let Some((_, message)) = site.to_worker.pop_front_if(|(at, _)| *at <= self.now) {
            if let WorkerInput::Slots(slots) = &message {
                // What runs continues.
                site.slots = site.slots.max(*slots);
            }
            site.worker.handle(self.now, message);
            self.obey(host);
            return self.host_turn(host);
        }
        let ended =
            site.running.iter().find(|(_, (at, _))| *at <= self.now).map(|(id, it)| (*id, it.1));
        if let Some((id, outcome)) = ended {
            site.running.remove(&id);
            site.worker.handle(self.now, WorkerInput::Ended(id, outcome));
            self.obey(host);
            return self.host_turn(host);
        }
        site.worker.handle_timeout(self.now);
        self.obey(host);
        if let Some(site) = self.sites.get_mut(&host) {
            site.worker.end_turn(self.now);
            self.obey(host);
        }
    }

    fn next_time(&self) -> Option<Time> {
        let sites = self.sites.values().flat_map(|site| {
            let lines =
                [site.to_worker.front().map(|it| it.0), site.to_farm.front().map(|it| it.0)];
            let ends = site.running.values().map(|it| it.0).min();
            lines.into_iter().chain([ends, site.worker.poll_timeout()]).flatten()
        });
        sites.chain(self.starting.values().map(|it| it.0)).chain(self.farm.poll_timeout()).min()
    }

    fn step(&mut self) {
        for (host, (at, works)) in self.starting.clone() {
            if at <= self.now {
                self.starting.remove(&host);
                if works {
                    let slots =
                        self.options.per_task + u32::try_from(self.random.below(4)).unwrap();
                    let setup = Setup { slots, per_task: self.options.per_task, limit: None };
                    let site = Site {
                        worker: Worker::new(setup),
                        running: BTreeMap::new(),
                        to_worker: VecDeque::new(),
                        to_farm: VecDeque::new(),
                        gathered: Vec::new(),
                        begun: BTreeSet::new(),
                        slots,
                    };
                    self.sites.insert(host, site);
                    self.tell(Input::Up(host, slots));
                } else {
                    self.tell(Input::Lost(host));
                }
            }
        }
        let hosts: Vec<HostId> = self.sites.keys().copied().collect();
        for host in hosts {
            self.host_turn(host);
            while let Some(site) = self.sites.get_mut(&host) {
                let Some((_, input)) = site.to_farm.pop_front_if(|(at, _)| *at <= self.now) else {
                    break;
                };
                self.tell(input);
            }
        }
        self.farm.handle_timeout(self.now);
        self.perform();
        self.farm.end_turn(self.now);
        self.perform();
    }

    /// Faults of hosts, and interrupts.
    fn disturb(&mut self, hosts: u64) {
        let host = HostId(u32::try_from(self.random.below(hosts)).unwrap());
        match self.random.below(8) {
            0 | 1 => self.lose(host),
            6 => {
                let slots = self.options.per_task + u32::try_from(self.random.below(4)).unwrap();
                self.tell(Input::Slots(host, slots));
            }
            7 => {
                self.tell(Input::Member(host, Membership::Full));
                self.full.insert(host);
            }
            2 => self.tell(Input::Member(host, Membership::Absent)),
            3 => self.tell(Input::Member(host, Membership::Draining)),
            _ => self.tell(Input::Member(host, Membership::Live)),
        }
    }
}

fn run(seed: u64) {
    let mut sim = Sim::new(seed);
    let hosts = 1 + sim.random.below(5);
    let tasks = 1 + sim.random.below(300);
    let faults = sim.random.below(8);
    let interrupt = sim.random.chance(10);
    (0..hosts).for_each(|host| {
        sim.tell(Input::Member(HostId(u32::try_from(host).unwrap()), Membership::Live))
    });
    for id in 1..=tasks {
        sim.tell(Input::Task(Task::new(TaskId(id), *b"x")));
    }
    sim.tell(Input::InputEnded);
    let (mut steps, mut done) = (0, 0);
    while sim.close.is_none() {
        if done < faults && sim.random.chance(2) {
            sim.disturb(hosts);
            done += 1;
        }
        if interrupt && steps == 50 {
            sim.tell(Input::Interrupt);
        }
        sim.step();
        steps += 1;
        assert!(steps < MAX_STEPS, "seed {seed}: it does not end: {:?}", sim.farm);
        if sim.close.is_none() {
            match sim.next_time() {
                Some(next) => sim.now = sim.now.max(next),
                None if !sim.full.is_empty() => {
                    for host in std::mem::take(&mut sim.full) {
                        sim.tell(Input::Member(host, Membership::Live));
                    }
                }
                None => panic!("seed {seed}: nothing happens any more: {:?}", sim.farm),
            }
        }
    }
    check(&sim, tasks, seed);
}

fn check(sim: &Sim, tasks: u64, seed: u64) {
    let all: BTreeSet<TaskId> = (1..=tasks).map(TaskId).collect();
    assert!(sim.results.keys().all(|id| all.contains(id)), "seed {seed}: an invented task");
    match sim.close.unwrap() {
        Close::Complete(failed) => {
            assert_eq!(sim.results.len() as u64, tasks, "seed {seed}: a task without a result");
            let bad = |verdict: &&Verdict| !matches!(verdict, Verdict::Ended(end) if end.outcome.is_success());
            assert_eq!(sim.results.values().filter(bad).count() as u64, failed, "seed {seed}");
        }
        Close::NoHost => assert!(sim.sites.is_empty() || sim.farm.waiting() > 0, "seed {seed}"),
        Close::Halted(_) | Close::Interrupted => {}
        Close::TooSmall => panic!("seed {seed}: every host has room for a task"),
    }
    for (id, begun) in &sim.begun {
        let losses = sim.losses.get(id).copied().unwrap_or(0);
        assert!(
            *begun <= 1 + sim.options.retries + losses,
            "seed {seed}: task {id} began {begun} times"
        );
    }
}

#[test]
fn every_task_has_one_result_whatever_happens_to_hosts() {
    (0..SCHEDULES).for_each(run);
}
