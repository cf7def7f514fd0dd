//! The node: the jobs of this host, what this daemon is to a ring, and the router between them.
//!
//! | part | has |
//! |---|---|
//! | [`JobTable`] | the managers here, and their jobs |
//! | [`Member`] | everything of the ring, if this daemon is for one |
//! | [`Alone`] | the answers of a daemon without a ring |
//!
//! What follows from the jobs is an output at once, in the order of system calls. Outputs about the ring wait for the turn,
//! see [`Node::poll_turn`]. The order of the events of jobs is an invariant: first all that the table performs, then
//! what others learn.

use std::collections::VecDeque;

use mpd_jobtable::{
    Event, Given, Input as JobInput, JobTable, ManagerMessage, Output as JobOutput, Secrets,
    planned,
};
use mpd_ring::Ring;
use mpd_sansio::{Time, UNDRAINED};
use mpd_wire::job::Notice;
use mpd_wire::message::{Launch, ManagerOrder, Phase, RingRequest, ScatterId, Span};
use mpd_wire::{ConsoleId, Instance, JobId};

use crate::alone::{self, Alone};
use crate::demand::Demand;
use crate::input::{Input, Submitted};
use crate::launch::Announcement;
use crate::member::{Member, Step, Turn};
use crate::output::Output;
use crate::placement::{self, Plan};

/// What costs system calls. The node asks for it only when it needs it.
pub trait Kernel {
    /// Random bytes, or why there are none; a text for people.
    ///
    /// # Errors
    /// The text.
    fn random(&self) -> Result<[u8; 16], String>;

    /// The secrets of a new job.
    ///
    /// # Errors
    /// A text for people.
    fn secrets(&self) -> Result<Secrets, String>;

    /// The id of this process.
    fn pid(&self) -> u32;

    /// The CPUs of this host that can be used.
    fn cpus(&self) -> u32;

    /// The user of this process, as listings show it. A directory service may take long to answer.
    fn user(&self) -> String;

    /// The time of day, in microseconds since 1970.
    fn wall_us(&self) -> u64;
}

/// The circumstances of a call.
#[derive(Clone, Copy)]
pub struct At<'a> {
    pub now: Time,
    pub kernel: &'a dyn Kernel,
}

/// The decisions of a daemon; see the module.
#[derive(Debug)]
pub struct Node {
    jobs: JobTable,
    part: Part,
    /// Events of the jobs that were not routed yet.
    events: VecDeque<Event>,
    starting: Option<Starting>,
    outputs: VecDeque<Output>,
    is_ending: bool,
}

#[derive(Debug)]
enum Part {
    Alone(Alone),
    Member(Box<Member>),
}

/// The start that is under way, for the part that waits for its result.
#[derive(Debug)]
enum Starting {
    /// The console that has submitted the job. Then the job is announced to its other hosts.
    Root { console: ConsoleId, announcement: Option<Announcement> },
    /// The member that has announced the job.
    Branch { order: ScatterId, job: JobId },
}

impl Node {
    /// A node around the table of jobs. Without a `member` it is for no ring.
    pub fn new(jobs: JobTable, member: Option<Member>) -> Self {
        Self {
            jobs,
            part: member.map_or(Part::Alone(Alone::default()), |it| Part::Member(Box::new(it))),
            events: VecDeque::new(),
            starting: None,
            outputs: VecDeque::new(),
            is_ending: false,
        }
    }

    // ----- inputs -----

    /// Takes one input. [`Node::poll_output`] then has what follows at once.
    pub fn handle(&mut self, at: At<'_>, input: Input) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        match input {
            Input::Jobs(input) => self.jobs.handle(at.now, input),
            Input::Ring(event) => {
                if let Part::Member(member) = &mut self.part {
                    member.handle(turn(&self.jobs, at), event);
                }
            }
            Input::Asked { console, request: RingRequest::State { job: Some(job) } } => {
                self.jobs.handle(at.now, JobInput::StateAsked { console, job });
            }
            Input::Asked { console, request } => self.ask(at, console, request),
            Input::Status { console } => {
                let reply = self.jobs.status(at.kernel.pid());
                self.outputs.push_back(Output::Answer { console, reply, is_last: true });
            }
            Input::ConsoleGone(console) => {
                self.jobs.handle(at.now, JobInput::ConsoleGone(console));
                if let Part::Member(member) = &mut self.part {
                    member.forget_console(turn(&self.jobs, at), console);
                }
            }
            Input::Submitted(submitted) => {
                let console = submitted.console;
                if let Err(problem) = self.submit(at, *submitted) {
                    self.refuse(console, &problem);
                }
            }
            Input::Signalled => {
                self.is_ending = true;
                if let Part::Member(member) = &mut self.part {
                    member.leave_on_signal(turn(&self.jobs, at));
                }
            }
        }
        self.settle(at);
    }

    /// Does what is due for the jobs.
    pub fn look_at_jobs(&mut self, at: At<'_>) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        self.jobs.handle_timeout(at.now);
        self.settle(at);
    }

    /// Begins a turn, before the links are read. `is_needed`: see [`Node::is_needed`]. A job that comes with the links of
    /// this turn keeps the daemon too.
    pub fn begin_turn(&mut self, at: At<'_>, is_needed: bool) {
        if let Part::Member(member) = &mut self.part {
            member.begin_turn(turn(&self.jobs, at), is_needed);
        }
    }

    /// Does everything that is due for the ring, after the links are read. `has_data`: whether more data waits at links; it
    /// is handled before deadlines.
    pub fn turn(&mut self, at: At<'_>, has_data: bool) {
        if let Part::Member(member) = &mut self.part {
            member.turn(turn(&self.jobs, at), has_data);
        }
    }

    /// Ends a turn. All its outputs are performed, and job links that came in it have their managers. So the daemon may leave
    /// now, and the saved list of members has all changes.
    pub fn end_turn(&mut self, at: At<'_>) {
        if let Part::Member(member) = &mut self.part {
            member.end_turn(turn(&self.jobs, at));
        }
    }

    // ----- outputs -----

    /// The next output about the jobs here, to be performed before the next input.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The next output in a turn, also about the ring. The answers of the ring come after the data
    /// that was read in the turn.
    pub fn poll_turn(&mut self, at: At<'_>) -> Option<Output> {
        loop {
            if let Some(output) = self.outputs.pop_front() {
                return Some(output);
            }
            let Part::Member(member) = &mut self.part else { return None };
            match member.next_step()? {
                Step::Perform(output) => return Some(output),
                Step::Start { order, launch, tree_index } => {
                    self.starting = Some(Starting::Branch { order, job: launch.job.clone() });
                    self.jobs.handle(at.now, JobInput::StartBranch(launch, tree_index));
                }
                Step::CountOutput => self.jobs.handle(at.now, JobInput::CountOutput),
            }
            self.settle(at);
        }
    }

    // ----- queries -----

    /// The jobs of this host.
    pub const fn jobs(&self) -> &JobTable {
        &self.jobs
    }

    /// The machine of the ring, if this daemon is for one.
    pub const fn ring(&self) -> Option<&Ring> {
        match &self.part {
            Part::Member(member) => Some(member.ring()),
            Part::Alone(_) => None,
        }
    }

    const fn member(&self) -> Option<&Member> {
        match &self.part {
            Part::Member(member) => Some(member),
            Part::Alone(_) => None,
        }
    }

    /// Whether a ring that ends by itself is in use: its mpirun is connected, or a console of a user's ring on a site, or a
    /// job runs. `false` after a signal.
    pub fn is_needed(&self, has_owner: bool, has_console: bool) -> bool {
        !self.is_ending && (has_owner || has_console || !self.jobs.is_idle())
    }

    /// The console whose job starts now.
    pub const fn submitter(&self) -> Option<ConsoleId> {
        match &self.starting {
            Some(Starting::Root { console, .. }) => Some(*console),
            Some(Starting::Branch { .. }) | None => None,
        }
    }

    /// Whether a turn has something to do at once.
    pub fn has_work(&self) -> bool {
        self.member().is_some_and(Member::has_work)
    }

    /// When the jobs or the ring are due.
    pub fn next_deadline(&self) -> Option<Time> {
        let of_ring = self.member().and_then(Member::next_deadline);
        self.jobs.poll_timeout().into_iter().chain(of_ring).min()
    }

    /// Whether this daemon is in a ring.
    pub fn has_entered(&self) -> bool {
        self.member().is_some_and(Member::has_entered)
    }

    /// Whether connections of other daemons are accepted.
    pub fn accepts(&self) -> bool {
        self.member().is_some_and(Member::accepts)
    }

    /// Why entering has failed for good, or why this daemon must leave. `last`: why the last attempt to connect failed.
    pub fn failure(&self, now: Time, last: &str) -> Option<String> {
        self.member()?.failure(now, last)
    }

    /// Whether this daemon may end: it is out of the ring, and its last messages are sent (`is_quiet`) or late. Without a
    /// ring it ends when it is not needed.
    pub fn is_over(&self, now: Time, is_quiet: bool, is_needed: bool) -> bool {
        self.member().map_or(!is_needed, |member| member.is_over(now, is_quiet))
    }

    /// The consoles that get their next events of a job when they have read the last ones; see
    /// [`crate::RingEvent::ConsoleRead`].
    pub fn full_consoles(&self) -> Vec<ConsoleId> {
        self.member().map(Member::full_consoles).unwrap_or_default()
    }

    // ----- the router -----

    /// Passes on all outputs of the table, and routes its events. Those wait while a question is open.
    fn settle(&mut self, at: At<'_>) {
        loop {
            while let Some(output) = self.jobs.poll_output() {
                match output {
                    JobOutput::Ask(question) => {
                        return self.outputs.push_back(Output::Ask(question));
                    }
                    JobOutput::Event(event) => self.events.push_back(event),
                    JobOutput::Log(line) => self.outputs.push_back(Output::Log(line)),
                    JobOutput::Perform(action) => self.outputs.push_back(Output::Perform(action)),
                }
            }
            let Some(event) = self.events.pop_front() else { return };
            self.route(at, event);
        }
    }

    /// Routes an event of the jobs.
    fn route(&mut self, at: At<'_>, event: Event) {
        match event {
            Event::Started(result) => self.started(at, result),
            Event::ToManager(message) => self.outputs.push_back(Output::ToManager(message)),
            Event::Answer { console, reply, is_last } => {
                self.outputs.push_back(Output::Answer { console, reply, is_last });
            }
            Event::Registered { connection, result } => self.registered(connection, result),
            Event::Reported { job, report } => {
                if let Some(demand) = Demand::of(job, report, || at.kernel.random()) {
                    self.serve(at, demand);
                }
            }
            Event::Cancelled(job) => self.serve(at, Demand::Cancel(job)),
            Event::ManagerEnded { job, end } => self.serve(at, Demand::ManagerEnded { job, end }),
            Event::ManagerDied(job) => self.outputs.push_back(Output::LastReports(job)),
        }
    }

    /// Handles a request of a manager here.
    fn serve(&mut self, at: At<'_>, demand: Demand) {
        match &mut self.part {
            Part::Member(member) => member.serve(turn(&self.jobs, at), demand),
            Part::Alone(alone) => {
                let cpus = || at.kernel.cpus();
                self.outputs.extend(alone.serve(at.now, self.jobs.name(), demand, cpus));
            }
        }
    }

    /// Handles a console's request about the ring.
    fn ask(&mut self, at: At<'_>, console: ConsoleId, request: RingRequest) {
        match &mut self.part {
            Part::Member(member) => member.ask(turn(&self.jobs, at), console, request),
            Part::Alone(_) => {
                if matches!(request, RingRequest::Jobs) && self.jobs.user().is_none() {
                    self.jobs.set_user(at.kernel.user());
                }
                self.outputs.extend(alone::answer(&self.jobs, console, request));
            }
        }
    }

    /// A manager registers. One of a job that was cancelled before is ordered to end.
    fn registered(&mut self, connection: ConsoleId, result: Result<JobId, String>) {
        let is_cancelled = |job: &JobId| {
            let member = self.member();
            self.jobs.has_branch(job) && member.is_some_and(|member| member.is_cancelled(job))
        };
        let cancelled = result.clone().ok().filter(is_cancelled);
        self.outputs.push_back(Output::Registered { connection, result });
        let kill = |job| Output::ToManager(ManagerMessage::new(job, ManagerOrder::Kill));
        self.outputs.extend(cancelled.map(kill));
    }

    // ----- new jobs -----

    /// Places a job, and starts it.
    fn submit(&mut self, at: At<'_>, submitted: Submitted) -> Result<(), String> {
        let Submitted { console, process, spec, spec_bytes, notice } = submitted;
        let began_us = at.kernel.wall_us();
        let first = Instance::from_bytes(at.kernel.random()?);
        let plan = match &self.part {
            Part::Member(member) => member.place(at.now, &spec, first),
            Part::Alone(_) => placement::alone(self.jobs.name(), &spec, first, || at.kernel.cpus()),
        };
        let Plan { host_slices, mut notices, universe } =
            plan.map_err(|error| error.to_string())?;
        let took_us = at.kernel.wall_us().saturating_sub(began_us);
        let placement = Span { phase: Phase::Placement, rank: None, began_us, took_us };
        notices.extend(notice.map(Notice::major));
        let id = self.jobs.new_id(process)?;
        let secrets = at.kernel.secrets()?;
        let (launch, notice) = planned(id, &spec, (host_slices, universe), secrets);
        notices.extend(notice);
        let spans = spec.trace.then_some(placement).into_iter().collect();
        let (alias, adopts) = (spec.alias, spec.adopted);
        let given = Given { alias, spec_bytes, adopts, notices, spans };
        self.begin(at.now, console, (launch, spec.trace), given)
    }

    /// Starts a job for a caller that has placed it. Otherwise the same as [`Input::Submitted`].
    ///
    /// # Errors
    /// The list of its hosts is too long; a text for people.
    pub fn start(&mut self, at: At<'_>, console: ConsoleId, launch: Launch) -> Result<(), String> {
        self.begin(at.now, console, (launch, false), Given::default())?;
        self.settle(at);
        Ok(())
    }

    /// Starts a placed job. The flag: its root manager gets the timeline of the announcement.
    fn begin(
        &mut self,
        now: Time,
        console: ConsoleId,
        (launch, trace): (Launch, bool),
        given: Given,
    ) -> Result<(), String> {
        let announcement = Announcement::new(&launch, trace).map_err(|error| error.to_string())?;
        self.starting = Some(Starting::Root { console, announcement });
        self.jobs.handle(now, JobInput::StartRoot(Box::new(launch), given));
        Ok(())
    }

    /// Passes the result of a start to the part that waits for it.
    fn started(&mut self, at: At<'_>, result: Result<(), String>) {
        match (self.starting.take(), &mut self.part, result) {
            (Some(Starting::Root { console, announcement }), part, Ok(())) => {
                if let (Part::Member(member), Some(announcement)) = (part, announcement) {
                    member.announce(turn(&self.jobs, at), announcement);
                }
                self.outputs.push_back(Output::HandOver(console));
            }
            (Some(Starting::Root { console, .. }), _, Err(problem)) => {
                self.refuse(console, &problem);
            }
            (Some(Starting::Branch { order, job }), Part::Member(member), result) => {
                member.manager_started(turn(&self.jobs, at), order, &job, result);
            }
            (Some(Starting::Branch { .. }), Part::Alone(_), _) | (None, ..) => {}
        }
    }

    /// Refuses the job of a console.
    fn refuse(&mut self, console: ConsoleId, problem: &str) {
        let line = mpd_jobtable::Line::warn(format!("job refused: {problem}"));
        self.outputs.extend([Output::Log(line), alone::refused(console, problem)]);
    }
}

/// What a member gets for a call.
fn turn<'a>(jobs: &'a JobTable, at: At<'_>) -> Turn<'a> {
    Turn { now: at.now, wall_us: at.kernel.wall_us(), jobs }
}
