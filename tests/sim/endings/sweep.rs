//! Random orders of events on one host: processes fork, leave their group, make files and exit; users stop, continue,
//! signal and kill; helpers are slow or die. `MPD_SIM_ENDINGS=N` runs N schedules instead of 2,000. The schedule that violates
//! an invariant is printed.

use std::time::Duration;

use mpd_ending::{HELPER_PATIENCE, IMMUNE_PATIENCE, Input, PATIENCE, SignalTarget};
use mpd_sansio::Time;
use mpd_tests::random::Random;
use mpd_wire::Rank;
use mpd_wire::job::RankEnd;

use super::host::{Host, MANAGER};
use crate::kernel::{Process, State};
use crate::sweep::number;

const SIGTERM: i32 = 15;
const SIGUSR1: i32 = 10;

/// The signals that ranks handle.
const HANDLED: [&[i32]; 4] = [&[], &[], &[SIGTERM], &[SIGTERM, SIGUSR1]];

/// More steps than any schedule needs.
const MAX_STEPS: usize = 20_000;

/// Most forks of one schedule. A program that forks faster than it is killed never ends.
const MAX_FORKS: u32 = 40;

#[test]
fn a_job_ends_on_its_host_without_leftovers_under_random_orders_and_faults() {
    for seed in 0..number("MPD_SIM_ENDINGS").unwrap_or(2000) {
        let mut schedule = Schedule::new(seed);
        let run = || schedule.run();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        if ended.is_err() {
            schedule.host.trace.iter().for_each(|line| println!("{line}"));
            panic!("seed {seed} violates an invariant, see above");
        }
    }
}

struct Schedule {
    host: Host,
    dice: Random,
    /// Every process stops when it should, and no helper fails.
    is_calm: bool,
    forks: u32,
    is_killing: bool,
}

impl Schedule {
    fn new(seed: u64) -> Self {
        let mut dice = Random::new(seed);
        let is_calm = !dice.one_in(3);
        let mut host = Host::new(is_calm);
        for rank in 0..1 + dice.below(3) {
            let rank = Some(Rank(u32::try_from(rank).expect("a small number")));
            let handles = HANDLED[dice.below(HANDLED.len())];
            let is_foreign = !is_calm && dice.one_in(6);
            let is_deep = !is_calm && dice.one_in(6);
            let child = Process::child_of(MANAGER);
            host.start_rank(Process { rank, handles, is_foreign, is_deep, ..child });
        }
        host.give(Input::Going);
        Self { host, dice, is_calm, forks: 0, is_killing: false }
    }

    fn run(&mut self) {
        for _ in 0..self.dice.below(150) {
            self.step();
            self.order();
        }
        self.host.give(Input::Kill);
        self.is_killing = true;
        let began = self.host.now;
        self.run_until(|host| host.gone == 1);
        let bound = 3 * PATIENCE + IMMUNE_PATIENCE;
        assert!(self.host.now < began + bound, "the kill took {:?}", self.host.now - began);
        if self.dice.one_in(2) {
            self.host.kernel.make(None);
        }
        let began = self.host.now;
        self.host.give(Input::CleanUp);
        self.run_until(|host| host.cleaned_up);
        assert!(self.host.now <= began + 2 * HELPER_PATIENCE, "the clean-up is late");
        assert_eq!(self.host.gone, 1, "the job is gone once");
    }

    fn run_until(&mut self, is_over: impl Fn(&Host) -> bool) {
        for _ in 0..MAX_STEPS {
            if is_over(&self.host) {
                return;
            }
            self.step();
        }
        panic!("this does not end at {:?}", self.host.now - Time::ZERO);
    }

    /// Something happens on the host.
    fn step(&mut self) {
        match self.dice.below(8) {
            0 => self.let_one_run(),
            1..=3 => self.let_stops_take_effect(),
            4 => self.let_helper_run(),
            5 => self.host.reap(),
            _ => {
                let micros = self.dice.below(4000);
                self.host.pass(Duration::from_micros(u64::try_from(micros).expect("a few")));
            }
        }
    }

    /// A user gives an order.
    fn order(&mut self) {
        match self.dice.below(80) {
            0 => {
                self.host.give(Input::Signal(SIGTERM, SignalTarget::Group));
                if self.dice.one_in(2) {
                    self.host.give(Input::Signal(SIGUSR1, SignalTarget::Group));
                }
            }
            5..=7 => self.host.enter_fence(Rank(0)),
            8 if !self.is_calm => self.let_helper_hang(),
            1 => self.host.give(Input::Stop),
            2 | 3 => self.host.give(Input::Continue),
            4 if !self.is_killing => self.host.kernel.make(None),
            _ => self.open_by_stranger(),
        }
    }

    /// Another program opens a file of the job.
    fn open_by_stranger(&mut self) {
        if self.dice.one_in(100)
            && let Some(file) = self.host.kernel.files.values_mut().next()
        {
            file.has_stranger = true;
            file.is_excused = true;
        }
    }

    fn let_stops_take_effect(&mut self) {
        let pids: Vec<i32> = self.host.kernel.processes.keys().copied().collect();
        for pid in pids {
            if self.dice.one_in(2) {
                self.host.kernel.settle(pid);
            }
        }
    }

    fn let_helper_run(&mut self) {
        if self.host.has_helper() && (self.is_calm || self.dice.one_in(6)) {
            let is_whole = self.is_calm || !self.dice.one_in(4);
            self.host.end_helper(is_whole);
        }
    }

    /// A helper that may run does nothing for as long as fences wait for it.
    fn let_helper_hang(&mut self) {
        self.host.enter_fence(Rank(0));
        let until = self.host.now + HELPER_PATIENCE;
        while self.host.now < until {
            self.host.pass(until - self.host.now);
        }
        self.host.enter_fence(Rank(0));
    }

    /// A running process of the job forks, leaves its group, makes a file, or exits.
    fn let_one_run(&mut self) {
        let kernel = &mut self.host.kernel;
        let runs = |pid: &i32| kernel.processes[pid].state == State::Running;
        let running: Vec<i32> = kernel.job(MANAGER).into_iter().filter(runs).collect();
        if running.is_empty() {
            return;
        }
        let pid = running[self.dice.below(running.len())];
        match self.dice.below(6) {
            0 | 1 if self.forks < MAX_FORKS => {
                self.forks += 1;
                let parent = &kernel.processes[&pid];
                let rank = parent.rank.filter(|_| !self.dice.one_in(4));
                let child = Process { rank, stops: false, parent: pid, ..parent.clone() };
                kernel.start(child);
            }
            2 | 3 => kernel.make(Some(pid)),
            4 if !self.is_killing => {
                // What it used without another user may never be seen in use.
                let used = kernel.files.values_mut().filter(|file| file.users.contains(&pid));
                used.for_each(|file| file.is_excused = true);
                kernel.die(pid, RankEnd::Exited(0));
            }
            0.. => {}
        }
    }
}
