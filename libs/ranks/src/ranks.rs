//! The machine, and the way of its inputs and answers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use mpd_clients::Job;
use mpd_ending::{Pid, SignalTarget};
use mpd_job::manager::Input as JobInput;
use mpd_placement::gpus::Gpus;
use mpd_sansio::{Agenda, Time, Timers, UNDRAINED};
use mpd_wire::Rank;

use crate::cpu_share::CpuShare;
use crate::errand::{Errand, Waiting};
use crate::host::Host;
use crate::input::{Answer, Input};
use crate::memory::Memory;
use crate::output::{Action, Output, Question, Slot, Way};
use crate::reaping::Reaping;
use crate::table::{ADOPTED, Process, Table};

/// What each call gets lent.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub now: Time,
    pub job: &'a Job,
    pub host: &'a dyn Host,
}

/// What is known before the first rank is checked.
#[derive(Clone, Copy, Debug)]
pub struct Beginning {
    /// A process that ran before the job is to be adopted.
    pub adopts: bool,
    /// When the job began, on the clock of the kernel's log.
    pub began: Duration,
    /// How many processes the kernel had killed for lack of memory before, if that is known.
    pub kills: Option<u64>,
    /// The daemon that started the manager.
    pub daemon: Pid,
}

/// The ranks of one world while they are started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Starting {
    /// How many ranks ran here before.
    pub(crate) running: usize,
    /// The GPUs of this host, if ranks get GPUs.
    pub(crate) gpus: Option<Gpus>,
    /// The place of the next rank to start; `None` if no rank is left or the start has failed.
    pub(crate) next: Option<usize>,
}

/// The search for ranks that run alone: each is rank 0 of 1, since its MPI library does not speak PMI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Search {
    #[default]
    Idle,
    /// A helper runs.
    Running,
    /// A rank has spoken PMI, a rank that runs alone was found, or the job ends.
    Decided,
}

/// The ranks of a job on one host.
///
/// It is driven as every machine: after each call, the owner takes all outputs before the next call. If the last one is
/// [`Output::Ask`], the next call has the answer.
#[derive(Debug)]
pub struct Ranks {
    pub(crate) table: Table,
    /// Worlds that are being started here, by their first rank.
    pub(crate) starting: BTreeMap<Rank, Starting>,
    /// The process to adopt has arrived, and is not a rank yet.
    pub(crate) arrived: bool,
    pub(crate) daemon: Pid,
    /// The job has its limits on this host.
    pub(crate) is_confined: bool,
    /// The size of the ranks' terminals, once it has changed.
    pub(crate) size: Option<(u16, u16)>,
    pub(crate) memory: Memory,
    pub(crate) cpu_share: CpuShare,
    /// Values of niceness that ranks here may not have, as reported.
    pub(crate) unpermitted: BTreeSet<i8>,
    /// The number of reported crashes, besides held ones.
    pub(crate) crashes: u32,
    reaping: Reaping,
    pub(crate) search: Search,
    /// Look for the MPI libraries of ranks for the n-th time.
    pub(crate) looks: Timers<u8>,
    /// The first rank that such a look is to examine.
    pub(crate) examined: Rank,
    pub(crate) agenda: Agenda<Errand, Waiting>,
    outputs: VecDeque<Output>,
}

impl Ranks {
    /// No rank runs.
    pub fn new(Beginning { adopts, began, kills, daemon }: Beginning) -> Self {
        Self {
            table: Table::default(),
            starting: BTreeMap::new(),
            arrived: adopts,
            daemon,
            is_confined: false,
            size: None,
            memory: Memory::begin(began, kills),
            cpu_share: CpuShare::default(),
            unpermitted: BTreeSet::new(),
            crashes: 0,
            reaping: Reaping::default(),
            search: Search::default(),
            looks: Timers::default(),
            examined: Rank(0),
            agenda: Agenda::default(),
            outputs: VecDeque::new(),
        }
    }

    // ----- facts -----

    /// The rank at a slot.
    pub fn at(&self, slot: Slot) -> Option<Rank> {
        self.table.at(slot)
    }

    /// The rank of a child.
    pub fn of_pid(&self, pid: Pid) -> Option<Rank> {
        self.table.of_pid(pid)
    }

    /// Whether the adopted process still belongs to the job, so that the job continues.
    pub fn has_adopted(&self) -> bool {
        let process = self.table.get(ADOPTED).and_then(|it| it.process.as_ref());
        matches!(process, Some(Process::Adopted { .. }))
    }

    /// Whether ranks are still to be started.
    pub fn is_any_starting(&self) -> bool {
        self.starting.values().any(|starting| starting.next.is_some())
    }

    /// The ways of a signal to the ranks that it is for.
    pub fn ways<'a>(
        &'a self,
        signal: i32,
        target: &'a SignalTarget,
    ) -> impl Iterator<Item = (Rank, Way)> + 'a {
        let meant = self.table.all().filter(|(rank, _)| target.means(*rank));
        meant.filter_map(move |(rank, it)| Some((rank, it.way(signal, target)?)))
    }

    /// The way of a signal to the process of a rank.
    pub fn way_to(&self, rank: Rank, signal: i32) -> Option<Way> {
        self.table.get(rank)?.way(signal, &SignalTarget::Process)
    }

    // ----- dead children -----

    /// Notes that a descriptor of a rank has ended: most likely the rank ends.
    pub fn note_descriptor_end(&mut self, rank: Rank) {
        self.reaping.note_end(rank);
    }

    /// Children that most likely have ended, to be looked at by their numbers.
    pub fn take_dying(&mut self) -> Vec<Pid> {
        let dying = self.reaping.take_dying().into_iter();
        dying.filter_map(|rank| self.table.get(rank)?.child()).collect()
    }

    /// Whether to ask the kernel now for any dead child. Otherwise that is due later.
    pub fn asks_for_dead(&mut self, now: Time) -> bool {
        self.reaping.asks(now, self.table.children())
    }

    /// Whether a question for dead children is due that was put off.
    pub fn has_dead_due(&self, now: Time) -> bool {
        self.reaping.due().is_some_and(|due| due <= now)
    }

    // ----- the way of inputs -----

    /// Takes one input.
    ///
    /// # Panics
    /// With an answer that does not fit the question.
    pub fn handle(&mut self, context: Context<'_>, input: Input) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        match input {
            Input::Answer(answer) => self.take_answer(context, answer),
            other => {
                self.agenda.check_answered();
                self.begin(context, other);
            }
        }
        while let Some(errand) = self.agenda.next_errand() {
            self.perform(context, errand);
        }
    }

    /// Looks for ranks that run alone, if it is time. `is_idle`: no process is being stopped or ended.
    pub fn handle_timeout(&mut self, context: Context<'_>, is_idle: bool) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        self.look_for_alone(context, is_idle);
    }

    /// The next output; `None` when all are taken.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Ranks::handle_timeout`] is due, or a question for dead children.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.looks.next().into_iter().chain(self.reaping.due()).min()
    }

    fn begin(&mut self, context: Context<'_>, input: Input) {
        match input {
            // The caller has taken it.
            Input::Answer(_) => {}

            Input::Check(problem) => self.check(context, problem),
            Input::Prepare(first, is_known) => self.prepare(context, first, is_known),
            Input::Go => self.go(context),
            Input::StartWorld(first) => self.start_world(first),
            Input::Turn => self.start_some(),
            Input::EndWorld(first) => self.end_world(context, first),
            Input::ForgetWorld(first) => self.forget_world(first),
            Input::Killing => self.stop_starting(),
            Input::NicenessRefused => self.cpu_share.refuse(),

            Input::Registered => self.report_all(context.job),
            Input::Resize(columns, lines) => self.resize((columns, lines)),
            Input::UsesPmi => self.end_search(Search::Decided),
            Input::PauseSearch => self.pause_search(),
            Input::SearchEnded(found) => self.take_found(found),

            Input::Reports(rank, reports) => self.take_reports(rank, reports),
            Input::ShimBroken(rank) => drop(self.take_shim(rank)),
            Input::MarkTaken(rank) => self.grant_mark(rank),
            Input::ReleaseCrashed => self.release_crashed(),
            Input::Command(ranks, line) => self.command(ranks, &line),
            Input::Restart => self.restart(context.job),

            Input::OutputEnded(rank) => self.end_output(context, rank),
            Input::Reaped(pid, end, is_kill) => self.reaped(context, pid, (end, is_kill)),
            Input::Unkillable(pid) => self.lose(context, pid),
            Input::Aborts(rank) => self.table.note_abort(rank),
            Input::AdoptedLeft => self.release_adopted(),
            Input::KillAdopted => self.kill_adopted(),
        }
    }

    fn perform(&mut self, context: Context<'_>, errand: Errand) {
        match errand {
            Errand::StartSome(first, begin) => self.start_some_of(context, first, begin),
            Errand::StartNext(batch) => self.start_next(context, batch),
            Errand::EndBatch(batch, failure) => self.end_batch(context, batch, failure),
            Errand::SendCommands(rank) => self.send_commands(rank),
        }
    }

    fn take_answer(&mut self, context: Context<'_>, answer: Answer) {
        match (self.agenda.answered(), answer) {
            (Some(Waiting::Limits(first, checked)), Answer::Limited(limited)) => {
                self.end_limits(context, first, (*checked, limited));
            }
            (Some(Waiting::Start(batch)), Answer::Started(started)) => {
                self.end_start(context, batch, started);
            }
            (Some(Waiting::Start(batch)), Answer::Adopted(number)) => {
                self.end_adoption(batch, number);
            }
            (Some(Waiting::Command(rank)), Answer::Sent(sent)) => self.note_sent(rank, sent),
            (Some(Waiting::Search), Answer::Is(is_started)) => {
                self.search = if is_started { Search::Running } else { Search::Idle };
            }
            (Some(Waiting::KillAdopted), Answer::Is(is_killed)) => {
                // The process has just ended, or belongs to another user now.
                if !is_killed {
                    self.release_adopted();
                }
            }
            (waiting, answer) => unreachable!("{answer:?} does not answer {waiting:?}"),
        }
    }

    // ----- outputs -----

    /// Asks a question. Errands continue when it is answered.
    pub(crate) fn ask(&mut self, question: Question, waiting: Waiting) {
        self.agenda.ask(waiting);
        self.report(Output::Ask(question));
    }

    pub(crate) fn report(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(crate) fn post(&mut self, input: JobInput) {
        self.report(Output::Job(input));
    }

    pub(crate) fn notice(&mut self, text: String) {
        self.post(JobInput::Notice(text));
    }

    /// Makes the share of the CPUs fit the number of ranks that run or are about to start.
    pub(crate) fn fit_share(&mut self, ranks: usize) {
        if let Some(niceness) = self.cpu_share.change_for(ranks) {
            self.report(Output::Act(Action::SetNiceness(niceness)));
        }
    }
}
