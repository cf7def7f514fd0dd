//! Faults, and the jobs that they concern.

use super::manager::Refusal;
use super::schedule::Fault;
use super::suite::{Event, Suite};
use crate::schedule::heal;
use crate::world::{MS, SECOND};

/// A job that begins so long after the last trouble is not concerned: the members of the ring agree again.
const AFTER_TROUBLE: u64 = 25 * SECOND;

/// A silence that is not longer loses no job link.
const SHORT: u64 = 6 * SECOND;

impl Suite {
    pub(super) fn apply(&mut self, fault: &Fault) {
        let lost = matches!(fault, Fault::PowerOff(_));
        match *fault {
            Fault::PowerOff(host) => self.power_off(host),
            Fault::PowerOn(host) => {
                self.world.power_on(host);
                self.boot(host);
                self.send_again();
            }
            Fault::KillDaemon(host) => self.kill_daemon(host),
            Fault::Boot(host) => self.boot(host),
            Fault::KillManager(host, number) => self.kill_manager(host, number),
            Fault::KillRank(host, number, signal) => self.kill_rank(host, number, signal),
            Fault::Cut(one, other) => {
                self.world.set_reach(one, other, false);
                self.world.set_reach(other, one, false);
            }
            Fault::OneWay(from, to) => self.world.set_reach(from, to, false),
            Fault::Heal => {
                heal(&mut self.world);
                self.send_again();
            }
            Fault::Freeze(host) => {
                self.world.freeze(host);
                self.hosts[host].is_frozen = true;
            }
            Fault::Thaw(host) => self.thaw(host),
            Fault::RefuseForks(host, refuses) => self.hosts[host].refusal.forks = refuses,
            Fault::LosePrograms(host, loses) => self.hosts[host].refusal.programs = loses,
            Fault::FillDisk(host, is_full) => self.fill_disk(host, is_full),
            Fault::Clog(host, millis) => self.world.hosts[host].clog = millis * MS,
        }
        if lost {
            self.disturb(|_| true);
        }
        self.note_lasting_trouble();
        (0..self.hosts.len()).for_each(|host| self.bury(host));
    }

    /// Troubles that last concern every job that runs meanwhile.
    pub(super) fn note_lasting_trouble(&mut self) {
        let hosts = &self.world.hosts;
        let is_down = |host: usize| hosts[host].ring.is_none() || self.hosts[host].is_frozen;
        let is_cut = self.world.reach.iter().flatten().any(|reach| !reach);
        let is_troubled = is_cut || (0..hosts.len()).any(is_down);
        let is_silent = is_cut || self.hosts.iter().any(|host| host.is_frozen);
        if is_troubled {
            self.trouble_until = self.world.now + AFTER_TROUBLE;
        }
        let now = self.world.now;
        let since = *self.silent_since.get_or_insert(now);
        if now > since + SHORT {
            self.disturb(|_| true);
        }
        if !is_silent {
            self.silent_since = None;
        }
        // Only jobs that have all their managers need no daemon.
        if self.world.now < self.trouble_until {
            self.disturb(|suite: &JobState| !suite.has_started || suite.needs_daemons);
        }
        let refuses = |what: fn(&Refusal) -> bool| self.hosts.iter().any(|it| what(&it.refusal));
        let refuses_starts = refuses(|refusal| refusal.forks || refusal.records);
        let lacks_programs = refuses(|refusal| refusal.programs);
        for (job, _) in self.running() {
            self.facts[job].refused_starts |= refuses_starts;
            self.facts[job].lacked_programs |= lacks_programs;
        }
    }

    fn running(&self) -> Vec<(usize, JobState)> {
        let open = self.consoles.iter().enumerate().filter(|(_, console)| console.code.is_none());
        let state = |(job, console): (usize, &super::consoles::Console)| {
            let plan = &self.jobs[job];
            let state = JobState {
                has_started: console.has_started,
                needs_daemons: plan.needs_daemons || self.facts[job].has_grown,
            };
            (job, state)
        };
        open.map(state).collect()
    }

    fn disturb(&mut self, concerns: impl Fn(&JobState) -> bool) {
        for (job, state) in self.running() {
            self.facts[job].is_disturbed |= concerns(&state);
        }
    }

    fn fill_disk(&mut self, host: usize, is_full: bool) {
        self.hosts[host].refusal.records = is_full;
        self.world.hosts[host].disk.is_full = is_full;
        if let Some(process) = self.world.process(host) {
            process.fill_disk(is_full);
        }
    }

    fn power_off(&mut self, host: usize) {
        self.world.power_off(host);
        let of = &mut self.hosts[host];
        of.kernel.lose_all();
        (of.is_frozen, of.daemon) = (false, 0);
        of.backlog.clear();
        let managers = std::mem::take(&mut of.managers);
        managers.into_keys().for_each(|pid| self.drop_links((host, pid)));
        self.programs.retain(|(at, _), _| *at != host);
        let consoles = self.consoles.iter_mut().filter(|console| console.host == host);
        consoles.for_each(|console| console.is_lost |= console.code.is_none());
    }

    fn kill_manager(&mut self, host: usize, number: usize) {
        let managers = &self.hosts[host].managers;
        let Some((&pid, manager)) = managers.iter().nth(number % managers.len().max(1)) else {
            return;
        };
        let id = manager.job().clone();
        self.say(host, &format!("manager {pid} of {id} is killed"));
        let is_its = |console: &super::consoles::Console| console.job.as_ref() == Some(&id);
        if let Some(job) = self.consoles.iter().position(is_its) {
            self.facts[job].lost_manager = true;
        }
        self.hosts[host].kernel.send(pid, 9);
    }

    fn kill_rank(&mut self, host: usize, number: usize, signal: u8) {
        let here: Vec<i32> =
            self.programs.keys().filter(|(at, _)| *at == host).map(|(_, pid)| *pid).collect();
        if let Some(&pid) = here.get(number % here.len().max(1)) {
            self.note_kill(host, pid, signal);
            self.hosts[host].kernel.send(pid, signal);
        }
    }

    fn thaw(&mut self, host: usize) {
        self.world.thaw(host);
        self.hosts[host].is_frozen = false;
        let backlog: Vec<Event> = std::mem::take(&mut self.hosts[host].backlog);
        backlog.into_iter().for_each(|event| self.push(0, event));
    }
}

/// What decides whether a trouble concerns a job.
struct JobState {
    has_started: bool,
    /// It spawns, grows, or uses names.
    needs_daemons: bool,
}
