//! Consoles: the machine of `mpirun`, its job, and its connection to the daemon and the root manager.

use mpd_sansio::{Pump, Time};
use mpd_wire::JobId;
use mpd_wire::job::{Failure, OnFailure};
use mpd_wire::message::JobNews;
use mpirun::run::{Beside, Input, Output, Run, Settings, Sight};

use super::manager::ForManager;
use super::schedule::JobPlan;
use super::suite::{Event, LOCAL, Suite};
use crate::world::MS;

const SIGTSTP: i32 = 20;

/// How long a console stays stopped.
const STOPPED: u64 = 700 * MS;

#[derive(Debug)]
pub(super) struct Console {
    pub(super) host: usize,
    /// When it began, in microseconds. Its machine's time begins there.
    began: u64,
    pump: Pump<Run>,
    pub(super) job: Option<JobId>,
    /// The process of the root manager.
    pub(super) manager: Option<i32>,
    pub(super) code: Option<u8>,
    /// It was killed, or its host has lost its power.
    pub(super) is_lost: bool,
    /// The failures that were reported to it, with their hosts.
    pub(super) failures: Vec<(String, Failure)>,
    pub(super) has_started: bool,
    /// The root manager has sent the last message.
    pub(super) ended: Option<u8>,
    /// What its standard output and error have got.
    pub(super) shown: [Vec<u8>; 2],
}

impl Console {
    fn new(plan: &JobPlan, began: u64) -> Self {
        let settings = Settings {
            size: plan.size(),
            limit: None,
            continues_on_failure: plan.on_failure == OnFailure::Continue,
            is_silent: false,
            verbose: true,
            terminal: false,
            adopted: false,
            hops: false,
            hold: false,
            beside: Beside::Nothing,
        };
        Self {
            host: plan.host,
            began,
            pump: Pump::new(Run::new(settings)),
            job: None,
            manager: None,
            code: None,
            is_lost: false,
            failures: Vec::new(),
            has_started: false,
            ended: None,
            shown: Default::default(),
        }
    }

    /// Whether it has ended in any way.
    pub(super) const fn is_over(&self) -> bool {
        self.code.is_some() || self.is_lost
    }
}

impl Suite {
    /// The next console begins, and submits its job.
    pub(super) fn open_console(&mut self) {
        let job = self.consoles.len();
        let console = Console::new(&self.jobs[job], self.world.now);
        self.consoles.push(console);
        self.push(LOCAL, Event::Submit(job));
        self.push(LOCAL, Event::Console(job));
    }

    fn time_of(&self, job: usize) -> Time {
        Time::from_micros(self.world.now - self.consoles[job].began)
    }

    pub(super) fn tell_console(&mut self, job: usize, manager: i32, news: Option<JobNews>) {
        let console = &mut self.consoles[job];
        if console.manager != Some(manager) || console.is_over() {
            return;
        }
        match &news {
            Some(JobNews::Failed { host, failure }) => {
                console.failures.push((host.clone(), failure.clone()));
            }
            Some(JobNews::Started { .. }) => console.has_started = true,
            Some(JobNews::Ended { code }) => console.ended = Some(*code),
            _ => {}
        }
        let input = match news {
            Some(news) => Input::News(news),
            None => {
                console.manager = None;
                Input::Closed
            }
        };
        self.give_console(job, input);
    }

    pub(super) fn refuse(&mut self, job: usize, problem: &str) {
        self.facts[job].refused = true;
        self.give_console(job, Input::Refused(problem.to_owned()));
    }

    /// The user sends a signal to a console.
    pub(super) fn signal_console(&mut self, job: usize, signal: i32) {
        let Some(console) = self.consoles.get(job).filter(|console| !console.is_over()) else {
            return;
        };
        if self.hosts[console.host].is_frozen {
            return;
        }
        if signal != SIGTSTP {
            self.facts[job].signals.insert(u8::try_from(signal).expect("a signal"));
        }
        self.give_console(job, Input::SignalSeen(signal));
        self.give_console(job, Input::Signal(signal));
    }

    pub(super) fn kill_console(&mut self, job: usize) {
        if let Some(console) = self.consoles.get_mut(job).filter(|console| !console.is_over()) {
            console.is_lost = true;
            self.facts[job].lost_console = true;
            self.close_console(job);
        }
    }

    fn close_console(&mut self, job: usize) {
        let console = &self.consoles[job];
        if let Some(manager) = console.manager {
            self.push(LOCAL, Event::Manager(console.host, manager, ForManager::ConsoleLost));
        }
    }

    pub(super) fn wake_console(&mut self, job: usize) {
        let now = self.time_of(job);
        let console = &mut self.consoles[job];
        if console.is_over() {
            return;
        }
        if console.pump.machine().poll_timeout().is_some_and(|at| at <= now) {
            console.pump.handle_timeout(now);
            self.drain_console(job);
        }
        self.push(250 * MS, Event::Console(job));
    }

    fn give_console(&mut self, job: usize, input: Input) {
        let host = self.consoles[job].host;
        self.say(host, &format!("console {job} > {input:?}"));
        self.consoles[job].pump.post(input);
        self.drain_console(job);
    }

    fn drain_console(&mut self, job: usize) {
        let now = self.time_of(job);
        while let Some(output) = self.consoles[job].pump.next(now) {
            match output {
                Output::Send(input) => self.pass_to_manager(job, input),
                Output::Resubmit => self.push(LOCAL, Event::Submit(job)),
                Output::Finish(code) | Output::Leave(code) | Output::Abandon(code) => {
                    let host = self.consoles[job].host;
                    self.say(host, &format!("console {job} exits with {code}"));
                    self.consoles[job].code = Some(code);
                    self.close_console(job);
                }
                Output::Look(pid) => {
                    let pid = pid.unwrap_or(1);
                    let sight = Sight { pid, is_stopped: false };
                    self.consoles[job].pump.post(Input::Looked(Some(sight)));
                }
                Output::Stop => self.push(STOPPED, Event::Continued(job)),
                _ => {}
            }
        }
    }

    /// The shell continues a console that was stopped.
    pub(super) fn continue_console(&mut self, job: usize) {
        if !self.consoles[job].is_over() {
            self.give_console(job, Input::Continued);
        }
    }
}
