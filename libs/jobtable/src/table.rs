//! The machine, and the way of its inputs and answers.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mpd_sansio::{Agenda, Time, UNDRAINED};
use mpd_wire::message::HostLimits;
use mpd_wire::{Instance, JobId, Pid};

use crate::children::Children;
use crate::errand::{Asked, Errand, Starting};
use crate::input::{Answer, Input};
use crate::job::Job;
use crate::line::Line;
use crate::output::{Action, Event, Output, Question};
use crate::silent::SilentManagers;
use crate::states::States;
use crate::waiting::WaitingManagers;

/// What is known when the daemon begins.
#[derive(Clone, Debug)]
pub struct Beginning {
    /// The name of the daemon.
    pub name: String,
    /// The instance of the daemon, in the ids of its jobs.
    pub instance: Instance,
    /// The name of the host.
    pub host: String,
    /// The user of the jobs, as listings show it. A daemon for one job is rarely asked; see [`JobTable::set_user`].
    pub user: Option<String>,
    /// The run directory, for managers.
    pub rundir: Option<String>,
    /// What this host has for ranks.
    pub limits: HostLimits,
    /// How many managers wait for jobs.
    pub wanted: u8,
    /// How long they wait while no job is here; `None`: for ever.
    pub patience: Option<Duration>,
    /// A manager that waits for the only job of a private ring. No other one follows.
    pub first: Option<Pid>,
    /// The children that this process had before it became a daemon. They are reaped and never killed.
    pub inherited: Vec<Pid>,
}

/// The jobs of this host.
///
/// It is driven as every machine: after each call, the owner takes all outputs before the next call. If the last one is
/// [`Output::Ask`], the next call has the answer.
#[derive(Debug)]
pub struct JobTable {
    pub(crate) name: String,
    pub(crate) instance: Instance,
    pub(crate) host: String,
    pub(crate) user: Option<String>,
    pub(crate) rundir: Option<String>,
    pub(crate) limits: HostLimits,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    /// Number of the last job that this daemon, or an earlier one, accepted.
    pub(crate) last: u64,
    pub(crate) children: Children,
    pub(crate) waiting: WaitingManagers,
    pub(crate) silent: SilentManagers,
    pub(crate) states: States,
    /// When to check again whether unregistered managers live.
    pub(crate) next_look: Option<Time>,
    pub(crate) agenda: Agenda<Errand, Asked>,
    outputs: VecDeque<Output>,
}

impl JobTable {
    /// A table without jobs.
    pub fn new(beginning: Beginning, now: Time) -> Self {
        let Beginning { name, instance, host, user, rundir, limits, .. } = beginning;
        let waiting = match beginning.first {
            Some(first) => WaitingManagers::of_one_job(first),
            None => WaitingManagers::new(beginning.wanted, beginning.patience, now),
        };
        Self {
            name,
            instance,
            host,
            user,
            rundir,
            limits,
            jobs: BTreeMap::new(),
            last: 0,
            children: Children::new(beginning.inherited),
            waiting,
            silent: SilentManagers::default(),
            states: States::default(),
            next_look: None,
            agenda: Agenda::default(),
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input.
    ///
    /// # Panics
    /// With an answer that does not fit the question.
    pub fn handle(&mut self, now: Time, input: Input) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        match input {
            Input::Answer(answer) => self.take_answer(now, answer),
            other => {
                self.agenda.check_answered();
                self.begin(now, other);
            }
        }
        self.run(now);
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        self.agenda.follow([
            Errand::Collect,
            Errand::Replace,
            Errand::LookAtSilent,
            Errand::KillOrphans,
            Errand::LookForManagers,
        ]);
        self.run(now);
    }

    /// The next output; `None` when all are taken.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`JobTable::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let deadlines = [
            self.children.next_deadline(),
            self.next_look,
            self.waiting.next_deadline(),
            self.silent.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    fn begin(&mut self, now: Time, input: Input) {
        match input {
            // The caller has taken it.
            Input::Answer(_) => {}
            Input::StartRoot(launch, given) => {
                let (record, is_again) = (None, false);
                let starting = Starting { launch, tree_index: 0, given, record, is_again };
                self.agenda.follow([Errand::Collect, Errand::Start(starting)]);
            }
            Input::StartBranch(launch, tree_index) => {
                self.agenda.follow([Errand::Collect, Errand::StartBranch(launch, tree_index)]);
            }
            Input::Found(records) => self.adopt_records(now, records),
            Input::Terminate => self.terminate(),
            Input::OwnerGone(owner) => self.end_debuggers(owner),
            Input::Reported { job, report } => self.report(now, job, report),
            Input::ManagerClosed(job) => self.manager_closed(job),
            Input::Registers { connection, opening, pid } => {
                let result = self.adopt(opening, pid);
                self.tell(Event::Registered { connection, result });
            }
            Input::ManagerGone { job, is_unread } => self.manager_gone(now, &job, is_unread),
            Input::CountOutput => self.count_output(),
            Input::Helper(pid) => self.children.add_helper(pid),
            Input::ChildDied(pid, end) => {
                self.agenda.follow([Errand::Collect, Errand::Bury(pid, end)]);
            }
            Input::StateAsked { console, job } => self.ask_state(console, &job),
            Input::ConsoleGone(console) => self.states.forget_console(console),
        }
    }

    fn terminate(&mut self) {
        self.waiting.stop();
        let managers: Vec<Pid> = self.managers().collect();
        managers.into_iter().for_each(|pid| self.perform(Action::Terminate(pid)));
    }

    /// The managers of all jobs.
    pub(crate) fn managers(&self) -> impl Iterator<Item = Pid> {
        self.jobs.values().filter_map(|job| job.manager)
    }

    // ----- errands and questions -----

    fn run(&mut self, now: Time) {
        while let Some(errand) = self.agenda.next_errand() {
            match errand {
                Errand::Collect => {
                    if self.waiting.is_copying() {
                        self.ask(Question::Copies, Asked::Copies);
                    }
                }
                Errand::Start(starting) => self.start(starting),
                Errand::StartBranch(launch, tree_index) => {
                    self.start_branch(launch, tree_index, false);
                }
                Errand::Bury(pid, end) => self.child_died(now, pid, end),
                Errand::Replace => self.replace(now),
                Errand::LookAtSilent => self.look_at_silent(now),
                Errand::KillOrphans => {
                    if self.children.is_due(now) {
                        self.ask(Question::Children, Asked::Children);
                    }
                }
                Errand::LookForManagers => {
                    if self.next_look.is_some_and(|at| at <= now) {
                        self.look_for_managers(now);
                    }
                }
                Errand::LookFor(jobs) => self.look_for(jobs),
                Errand::RefuseStates(job) => self.refuse_states(&job),
            }
        }
    }

    /// Asks a question. Errands continue when it is answered.
    pub(crate) fn ask(&mut self, question: Question, asked: Asked) {
        self.agenda.ask(asked);
        self.outputs.push_back(Output::Ask(question));
    }

    pub(crate) fn perform(&mut self, action: Action) {
        self.outputs.push_back(Output::Perform(action));
    }

    pub(crate) fn tell(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    pub(crate) fn log(&mut self, line: Line) {
        self.outputs.push_back(Output::Log(line));
    }

    fn take_answer(&mut self, now: Time, answer: Answer) {
        match (self.agenda.answered(), answer) {
            (Some(Asked::Group(starting)), Answer::Group(group)) => {
                self.write_record(starting, group);
            }
            (Some(Asked::Written(starting)), Answer::Done(Ok(()))) => self.hand_over(now, starting),
            (Some(Asked::Written(starting)), Answer::Done(Err(problem))) => {
                self.fail_start(*starting, problem);
            }
            (Some(Asked::HandOver(starting, _)), Answer::Started(Ok(pid))) => {
                self.enter(now, *starting, pid);
            }
            // The manager in waiting is dead, or ends because its connection is closed. It does not have the whole job, so
            // another one may get it.
            (Some(Asked::HandOver(starting, true)), Answer::Started(Err(_))) => {
                self.hand_over(now, starting);
            }
            (Some(Asked::HandOver(starting, false)), Answer::Started(Err(problem))) => {
                self.fail_start(*starting, problem);
            }
            (Some(Asked::ForkServer), Answer::Started(Ok(pid))) => {
                self.waiting.set_fork_server(pid);
                self.ask(Question::RequestCopy, Asked::Copy);
            }
            (Some(Asked::ForkServer), Answer::Started(Err(problem))) => {
                self.note_failure(now, Some(problem));
            }
            (Some(Asked::Copy), Answer::Done(result)) => self.copy_requested(now, result),
            (Some(Asked::Copies), Answer::Copies(copies)) => self.copied(now, copies),
            (Some(Asked::Stopped(job)), Answer::Is(is_stopped)) => {
                self.judge_silent(now, &job, is_stopped);
            }
            (Some(Asked::Cause(job, end)), Answer::Is(is_victim)) => {
                self.manager_died(job, end, is_victim);
            }
            (Some(Asked::Record(job)), Answer::Record(state)) => self.judge_record(job, state),
            (Some(Asked::Sweep(_)), Answer::Started(Ok(pid))) => self.children.add_helper(pid),
            (Some(Asked::Sweep(job)), Answer::Started(Err(problem))) => {
                let text = format!("job {job}: cannot remove what it left: {problem}");
                self.log(Line::error(text));
            }
            (Some(Asked::Children), Answer::Pids(children)) => self.find_orphans(children),
            (Some(Asked::Orphans { known, unknown }), Answer::Pids(orphans)) => {
                self.kill_orphans(now, known, unknown, &orphans);
            }
            (Some(Asked::Kill(known)), Answer::Pids(immune)) => {
                self.ask(Question::Children, Asked::Survivors { known, immune });
            }
            (Some(Asked::Survivors { known, immune }), Answer::Pids(children)) => {
                self.orphans_killed(now, &known, &immune, &children);
            }
            (asked, answer) => panic!("{answer:?} is no answer to {asked:?}"),
        }
    }
}
