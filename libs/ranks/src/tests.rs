//! The machine with a host whose processes start when they are asked for.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use mpd_clients::{HostFacts, Job, World};
use mpd_debug::shim::Abilities;
use mpd_ending::{Pid, SignalTarget};
use mpd_job::manager::Input as JobInput;
use mpd_placement::cpu::Cpu;
use mpd_placement::gpus::Gpus;
use mpd_placement::locality::Topology;
use mpd_sansio::Time;
use mpd_wire::job::{
    Argset, Cookie, Crash, Debug, Failure, Group, HostSlices, JobKey, JobSpec, Limit, Program,
    RankEnd, Unusable,
};
use mpd_wire::message::{HostLimits, Phase, ProgramEnd, ShimOrder, ShimReport, StartJob};
use mpd_wire::{DaemonName, Instance, JobId, Rank, RankSet};

use crate::checks::RLIMIT_NOFILE;
use crate::failures::StartProblem;
use crate::host::{Host, Unentered, Victims};
use crate::input::{Answer, Input, Sent, Started};
use crate::launch::Launch;
use crate::output::{Action, Line, Output, Question, Slot, Way};
use crate::ranks::{Beginning, Context, Ranks};
use crate::search::FIRST_SEARCH;

mod limits;

const BEGINNING: Beginning =
    Beginning { adopts: false, began: Duration::ZERO, kills: Some(0), daemon: Pid(2) };

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

#[derive(Debug, Default)]
struct Facts(Topology);

impl HostFacts for Facts {
    fn topology(&self) -> &Topology {
        &self.0
    }

    fn cpus(&self) -> u32 {
        4
    }

    fn user(&self) -> u32 {
        1000
    }

    fn architecture(&self) -> &str {
        "x86_64"
    }

    fn read(&self, _path: &[u8]) -> Result<Vec<u8>, String> {
        Err("no".to_owned())
    }
}

fn job(size: u32) -> Job {
    let argset = Argset {
        size,
        program: b"solver".to_vec(),
        directory: b"/".to_vec(),
        search: b"/bin".to_vec(),
        umask: 0o22,
        ..Argset::default()
    };
    let (argsets, environments) = (vec![argset], vec![Vec::new()]);
    let spec = Rc::new(JobSpec { argsets, environments, ..JobSpec::default() });
    let name = DaemonName::new("h1").unwrap();
    let order = StartJob {
        job: JobId::new(1, "h1").unwrap(),
        cookie: Cookie::from_bytes([1; 16]),
        kvsname: "kvs".to_owned(),
        host: "h1".to_owned(),
        cgroup: None,
        rundir: None,
        tmpdir: "/tmp".to_owned(),
        key: JobKey::from_bytes([2; 32]),
        host_slices: HostSlices::alone(name, Instance::from_bytes([3; 16]), size),
        universe: Some(size),
        limits: HostLimits::default(),
        tree_index: 0,
        spec_bytes: 0,
        adopts: false,
        notices: Vec::new(),
        spans: Vec::new(),
    };
    let world = World::of_job(&spec, &order);
    Job::new(spec, order, world, Rc::new(Facts::default()))
}

/// The manager, and what its host answers.
pub(crate) struct Manager {
    machine: Ranks,
    pub(crate) job: Job,
    now: Time,
    /// The abilities of the shims of all ranks.
    shim: Option<Abilities>,
    /// Ranks that do not start.
    broken: BTreeSet<Rank>,
    /// The directory cannot be entered.
    lacks_directory: bool,
    pub(crate) descriptors: u64,
    pub(crate) cpus: usize,
    sent: Sent,
    pub(crate) kills: u64,
    pub(crate) victims: Option<Victims>,
    pub(crate) events: Option<&'static str>,
    pub(crate) local_events: Option<&'static str>,
    /// Why the job cannot have its limits.
    unlimited: Option<String>,
    may_have: bool,
    refuses_kill: bool,
}

impl Host for Manager {
    fn kills(&self) -> Option<u64> {
        Some(self.kills)
    }

    fn victims(&self, _since: Duration) -> Option<Victims> {
        self.victims.clone()
    }

    fn memory_events(&self) -> Option<(String, Option<String>)> {
        self.events.map(|events| (events.to_owned(), self.local_events.map(ToOwned::to_owned)))
    }

    fn niceness(&self) -> Option<i8> {
        Some(0)
    }

    fn may_have(&self, _niceness: i8) -> bool {
        self.may_have
    }

    fn text_of(&self, errno: i32) -> String {
        format!("error {errno}")
    }

    fn limit(&self, resource: u8) -> Option<(u64, u64)> {
        match resource {
            RLIMIT_NOFILE => Some((self.descriptors, self.descriptors)),
            0..=7 => Some((10, 20)),
            8.. => None,
        }
    }

    fn allowed_cpus(&self) -> Result<Vec<Cpu>, String> {
        Err("no".to_owned())
    }

    fn has_fewer_cpus_than(&self, number: usize) -> bool {
        self.cpus < number
    }

    fn gpus(&self) -> Gpus {
        Gpus::of_number(0)
    }

    fn enter(&self, _directory: &[u8]) -> Result<(), Unentered> {
        if self.lacks_directory {
            return Err(Unentered::Impossible("no".to_owned()));
        }
        Err(Unentered::NotPermitted)
    }

    fn program(&self, argset: &Argset, brought: Option<usize>) -> Result<Program, Unusable> {
        let name = String::from_utf8_lossy(&argset.program);
        if name == "missing" {
            return Err(Unusable { problem: "no".to_owned(), missing: true });
        }
        let place = if brought.is_some() { "/job" } else { "/bin" };
        let path = format!("{place}/{name}").into_bytes();
        Ok(Program { path, script: false })
    }

    fn variables_of_group(&self, _group: Group) -> Vec<String> {
        Vec::new()
    }

    fn host_name(&self) -> String {
        "h1.local".to_owned()
    }

    fn parent(&self) -> Pid {
        Pid(2)
    }

    fn this(&self) -> Pid {
        Pid(3)
    }
}

impl Manager {
    pub(crate) fn new(size: u32) -> Self {
        Self::with(job(size), BEGINNING)
    }

    fn with(job: Job, beginning: Beginning) -> Self {
        Self {
            machine: Ranks::new(beginning),
            job,
            now: Time::ZERO,
            shim: None,
            broken: BTreeSet::new(),
            lacks_directory: false,
            descriptors: u64::MAX,
            cpus: 64,
            sent: Sent::Yes,
            kills: 0,
            victims: None,
            events: None,
            local_events: None,
            unlimited: None,
            may_have: true,
            refuses_kill: false,
        }
    }

    /// A manager whose ranks all run.
    fn running(size: u32) -> Self {
        Self::new(size).started()
    }

    fn started(mut self) -> Self {
        self.give(Input::Check(None));
        self.give(Input::Go);
        while self.machine.is_any_starting() {
            self.give(Input::Turn);
        }
        self
    }

    /// Lends the machine what a call needs.
    fn call(&mut self, act: impl FnOnce(&mut Ranks, Context<'_>)) {
        let idle = Ranks::new(BEGINNING);
        let mut machine = std::mem::replace(&mut self.machine, idle);
        act(&mut machine, Context { now: self.now, job: &self.job, host: self });
        self.machine = machine;
    }

    /// Gives the machine an input. All outputs and questions since then, in order.
    fn give(&mut self, input: Input) -> Vec<Output> {
        self.call(|machine, context| machine.handle(context, input));
        self.settle()
    }

    fn wait(&mut self, is_idle: bool) -> Vec<Output> {
        self.now = self.machine.poll_timeout().expect("a deadline");
        self.call(|machine, context| machine.handle_timeout(context, is_idle));
        self.settle()
    }

    fn settle(&mut self) -> Vec<Output> {
        let mut log = Vec::new();
        while let Some(output) = self.machine.poll_output() {
            log.push(output.clone());
            if let Output::Ask(question) = output {
                assert!(self.machine.poll_output().is_none(), "a question is the last output");
                let answer = self.answer(question);
                self.call(|machine, context| machine.handle(context, Input::Answer(answer)));
            }
        }
        log
    }

    fn answer(&self, question: Question) -> Answer {
        match question {
            Question::Limit(_) => Answer::Limited(self.unlimited.clone().map_or(Ok(()), Err)),
            Question::Start(start) if self.broken.contains(&start.rank) => {
                Answer::Started(Err(StartProblem::Pipes("no".to_owned())))
            }
            Question::Start(start) => Answer::Started(Ok(Started {
                pid: pid_of(start.rank.0),
                begin: None,
                shim: self.shim,
                cpus: None,
                unwatched: None,
            })),
            Question::Adopt(_) => Answer::Adopted(Ok(77)),
            Question::Send(..) => Answer::Sent(self.sent),
            Question::Search(_) => Answer::Is(true),
            Question::KillAdopted => Answer::Is(!self.refuses_kill),
        }
    }
}

fn failed(problem: &str) -> JobInput {
    JobInput::StartFailed(Failure::Suite { problem: problem.to_owned() })
}

fn pid_of(rank: u32) -> Pid {
    Pid(1000 + rank.cast_signed())
}

/// The inputs of the job among these.
fn posted(outputs: &[Output]) -> Vec<JobInput> {
    let posted = outputs.iter().filter_map(|output| match output {
        Output::Job(input) => Some(input.clone()),
        _ => None,
    });
    posted.collect()
}

/// The ranks whose starts are asked for.
fn starts(outputs: &[Output]) -> Vec<u32> {
    let starts = outputs.iter().filter_map(|output| match output {
        Output::Ask(Question::Start(start)) => Some(start.rank.0),
        _ => None,
    });
    starts.collect()
}

/// Checks that these come in this order.
#[track_caller]
fn in_order(outputs: &[Output], wanted: &[Output]) {
    let places: Vec<usize> = wanted
        .iter()
        .map(|wanted| {
            let found = outputs.iter().position(|output| output == wanted);
            found.unwrap_or_else(|| panic!("{wanted:?} is not among {outputs:#?}"))
        })
        .collect();
    assert!(places.is_sorted(), "{places:?} in {outputs:#?}");
}

// ----- the start -----

#[test]
fn ranks_are_ready_when_all_checks_have_passed_and_start_at_the_command() {
    let mut manager = Manager::new(2);
    assert_eq!(posted(&manager.give(Input::Check(None))), [JobInput::Ready]);
    assert!(!manager.machine.is_any_starting());
    manager.give(Input::Go);
    assert!(manager.machine.is_any_starting());
    assert_eq!(starts(&manager.give(Input::Turn)), [0, 1]);
}

#[test]
fn a_failed_check_and_a_problem_of_the_host_fail_the_start() {
    let mut manager = Manager::new(2);
    manager.lacks_directory = true;
    let problem = "cannot enter the working directory /: no";
    assert_eq!(posted(&manager.give(Input::Check(None))), [failed(problem)]);
    let outputs = manager.give(Input::Check(Some("no space".to_owned())));
    assert_eq!(posted(&outputs), [failed("no space")], "nothing is checked");
    manager.descriptors = 10;
    let outputs = manager.give(Input::Check(None));
    let problem = "2 processes on one host need 70 file descriptors, and the hard limit is 10 \
                   (ulimit -Hn where mpd was started)";
    assert_eq!(posted(&outputs), [failed(problem)], "descriptors are checked first");
}

/// What the ranks of the only argset are started with.
fn launch(manager: &mut Manager) -> Launch {
    let outputs = manager.give(Input::Check(None));
    let launch = outputs.into_iter().find_map(|output| match output {
        Output::Act(Action::Prepared(Rank(0), mut launches)) => launches.remove(&0),
        _ => None,
    });
    launch.expect("all checks have passed")
}

#[test]
fn ranks_run_the_program_that_was_found_with_their_environment_and_the_daemon_may_trace_them() {
    let launch = launch(&mut Manager::new(2));
    assert_eq!(
        (launch.program.path, launch.argv),
        (b"/job/solver".to_vec(), vec![b"solver".to_vec()])
    );
    for variable in ["PMI_SIZE=2", "PMI_FD=3", "MPI_LOCALNRANKS=2", "MPD_JOB_ID=1@h1"] {
        assert!(launch.environment.contains(&variable.as_bytes().to_vec()), "{variable}");
    }
    assert_eq!((launch.tracer, launch.shim), (Pid(2), None));
}

/// A manager whose job was changed.
fn changed(change: impl Fn(&mut JobSpec)) -> Manager {
    let mut spec = (*job(2).spec).clone();
    change(&mut spec);
    let order = job(2).order;
    let spec = Rc::new(spec);
    let world = World::of_job(&spec, &order);
    Manager::with(Job::new(spec, order, world, Rc::new(Facts::default())), BEGINNING)
}

#[test]
fn limits_are_cut_to_those_of_the_daemon_and_unknown_ones_are_refused() {
    let limits = |limits: &[(u8, u64, u64)]| {
        changed(|spec| spec.argsets[0].limits = limits.iter().copied().map(Limit::from).collect())
    };
    let mut manager = limits(&[(1, 10, 20), (2, 5, 99), (9, 1, 1)]);
    assert_eq!(launch(&mut manager).limits, [(2, 5, 20)]);
    let outputs = limits(&[(77, 1, 1)]).give(Input::Check(None));
    assert_eq!(posted(&outputs), [failed("resource limit 77 is unknown")]);
    let outputs = limits(&[(1, 9, 3)]).give(Input::Check(None));
    assert_eq!(posted(&outputs), [failed("a soft resource limit is above its hard limit")]);
}

#[test]
fn a_debugged_rank_needs_gdb_and_has_a_shim() {
    let debugged = |gdb: &str| {
        let gdb = gdb.as_bytes().to_vec();
        changed(|spec| {
            spec.debug = Some(Debug { gdb: gdb.clone(), attach: Vec::new() });
        })
    };
    let plan = launch(&mut debugged("gdb")).shim.expect("a shim");
    assert!(plan.debugs && !plan.once && plan.gdb == b"/bin/gdb");
    let outputs = debugged("missing").give(Input::Check(None));
    let problem =
        "cannot execute the debugger missing: no; install it, or name another one with -gdb-path";
    assert_eq!(posted(&outputs), [failed(problem)]);
}

#[test]
fn a_text_with_a_nul_byte_is_refused() {
    let outputs = changed(|spec| spec.argsets[0].args = vec![vec![0]]).give(Input::Check(None));
    assert_eq!(posted(&outputs), [failed("a NUL byte in the job")]);
}

#[test]
fn eight_ranks_are_started_in_a_turn_and_the_job_has_started_behind_the_last_one() {
    let mut manager = Manager::new(20);
    manager.give(Input::Check(None));
    manager.give(Input::Go);
    let first = manager.give(Input::Turn);
    assert_eq!(starts(&first), (0..8).collect::<Vec<_>>());
    in_order(
        &first,
        &[
            Output::Act(Action::BeginStarts { are_several: true, are_many: true }),
            Output::Act(Action::EndStarts),
        ],
    );
    assert_eq!(starts(&manager.give(Input::Turn)).len(), 8);
    let last = manager.give(Input::Turn);
    assert_eq!(starts(&last), [16, 17, 18, 19]);
    in_order(
        &last,
        &[
            Output::Act(Action::EndStarts),
            Output::End(Phase::Go, None),
            Output::Job(JobInput::Started),
        ],
    );
    assert!(!manager.machine.is_any_starting());
}

#[test]
fn a_started_rank_is_reported_before_its_pipes_are_passed_on() {
    let mut manager = Manager::new(1);
    manager.give(Input::Check(None));
    manager.give(Input::Go);
    let outputs = manager.give(Input::Turn);
    in_order(
        &outputs,
        &[
            Output::Begin(Phase::Spawn, Some(Rank(0))),
            Output::End(Phase::Spawn, Some(Rank(0))),
            Output::Begin(Phase::Run, Some(Rank(0))),
            Output::Started(pid_of(0), None),
            Output::Act(Action::HandOver(Rank(0))),
            Output::Act(Action::EndStarts),
            Output::OutputBegun(vec![Rank(0)]),
            Output::Job(JobInput::Pids(vec![(Rank(0), 1000)])),
        ],
    );
    assert_eq!(manager.machine.of_pid(pid_of(0)), Some(Rank(0)));
    assert_eq!(manager.machine.at(Slot(0)), Some(Rank(0)));
}

#[test]
fn the_first_rank_that_does_not_start_ends_the_start() {
    let mut manager = Manager::new(9);
    manager.broken = [Rank(1)].into();
    manager.give(Input::Check(None));
    manager.give(Input::Go);
    let outputs = manager.give(Input::Turn);
    assert_eq!(starts(&outputs), [0, 1]);
    assert_eq!(posted(&outputs), [failed("cannot make the pipes of rank 1: no")]);
    assert!(
        outputs.contains(&Output::Act(Action::EndStarts)) && !manager.machine.is_any_starting()
    );
}

#[test]
fn a_kill_ends_the_start() {
    let mut manager = Manager::new(9);
    manager.give(Input::Check(None));
    manager.give(Input::Go);
    manager.give(Input::Turn);
    manager.give(Input::Killing);
    assert!(!manager.machine.is_any_starting());
    assert_eq!(manager.give(Input::Turn), []);
}

#[test]
fn a_world_that_ends_during_its_start_has_its_ranks_killed_and_the_others_reported() {
    let mut manager = Manager::new(10);
    manager.give(Input::Check(None));
    manager.give(Input::Go);
    manager.give(Input::Turn);
    let outputs = manager.give(Input::EndWorld(Rank(0)));
    let not_started = |rank| JobInput::Exited(Rank(rank), RankEnd::NotStarted);
    assert_eq!(posted(&outputs), [not_started(8), not_started(9)]);
    let started: RankSet = (0..8).map(Rank).collect();
    assert!(outputs.contains(&Output::Signal(SIGKILL, SignalTarget::Groups(started))));
    assert!(!manager.machine.is_any_starting());
}

#[test]
fn a_niceness_that_is_not_permitted_is_reported_once() {
    let mut job = job(1);
    job.spec = Rc::new(JobSpec { niceness: Some(-5), ..(*job.spec).clone() });
    let mut manager = Manager::with(job, BEGINNING);
    manager.may_have = false;
    let notices = |outputs: Vec<Output>| posted(&outputs).len();
    assert_eq!(notices(manager.give(Input::Go)), 1);
    assert_eq!(notices(manager.give(Input::Go)), 0);
}

#[test]
fn the_session_weighs_as_much_as_its_ranks_until_the_system_refuses() {
    let set = |outputs: &[Output]| {
        outputs.iter().any(|output| matches!(output, Output::Act(Action::SetNiceness(_))))
    };
    let mut manager = Manager::new(2);
    manager.give(Input::Check(None));
    manager.give(Input::Go);
    assert!(manager.give(Input::Turn).contains(&Output::Act(Action::SetNiceness(-3))));
    let ended = manager.give(Input::Reaped(pid_of(0), RankEnd::Exited(0), false));
    assert!(ended.contains(&Output::Act(Action::SetNiceness(0))));
    let mut manager = Manager::running(2);
    manager.give(Input::NicenessRefused);
    assert!(!set(&manager.give(Input::Reaped(pid_of(0), RankEnd::Exited(0), false))));
}

// ----- ends -----

#[test]
fn the_end_of_a_process_is_that_of_its_rank() {
    let mut manager = Manager::running(1);
    let outputs = manager.give(Input::Reaped(pid_of(0), RankEnd::Exited(3), false));
    in_order(
        &outputs,
        &[
            Output::End(Phase::Run, Some(Rank(0))),
            Output::Ended(Rank(0)),
            Output::Job(JobInput::Exited(Rank(0), RankEnd::Exited(3))),
        ],
    );
    assert_eq!(manager.machine.of_pid(pid_of(0)), None);
    assert_eq!(manager.give(Input::Reaped(pid_of(0), RankEnd::Exited(3), false)), []);
}

#[test]
fn a_child_that_cannot_be_killed_is_lost() {
    let outputs = Manager::running(1).give(Input::Unkillable(pid_of(0)));
    assert_eq!(posted(&outputs), [JobInput::Exited(Rank(0), RankEnd::Lost)]);
}

#[test]
fn the_shim_knows_the_end_of_the_program_and_why_it_did_not_start() {
    let mut manager = Manager::new(1);
    manager.shim = Some(Abilities { terminal: true, ..Abilities::default() });
    let mut manager = manager.started();
    let end = ShimReport::Ended(ProgramEnd::NotStarted { step: "exec".to_owned(), errno: 2 });
    manager.give(Input::Reports(Rank(0), vec![end]));
    let outputs = manager.give(Input::Reaped(pid_of(0), RankEnd::Exited(127), false));
    let text = "host h1: rank 0 cannot execute solver (exec): error 2".to_owned();
    let exited = JobInput::Exited(Rank(0), RankEnd::Exited(127));
    assert_eq!(posted(&outputs), [JobInput::Notice(text), exited]);
    assert!(outputs.contains(&Output::Act(Action::DropShim(Rank(0)))));
}

#[test]
fn a_rank_that_the_kernel_has_killed_for_lack_of_memory_is_explained_unless_all_are_killed() {
    for (is_kill, notices) in [(false, 1), (true, 0)] {
        let mut manager = Manager::running(1);
        manager.kills = 1;
        manager.victims = Some(vec![pid_of(0)]);
        let end = RankEnd::Signaled { signal: 9, core: false };
        let outputs = manager.give(Input::Reaped(pid_of(0), end, is_kill));
        let is_notice = |input: &&JobInput| matches!(input, JobInput::Notice(_));
        assert_eq!(posted(&outputs).iter().filter(is_notice).count(), notices);
    }
}

// ----- shims -----

fn debugged(size: u32) -> Manager {
    let mut manager = Manager::new(size);
    manager.shim = Some(Abilities { gdb: true, ..Abilities::default() });
    manager.started()
}

#[test]
fn a_command_goes_to_the_debuggers_of_its_ranks_and_is_answered_unless_it_is_input() {
    let mut manager = debugged(2);
    let ranks = RankSet::from_iter([Rank(1)]);
    let outputs = manager.give(Input::Command(ranks.clone(), "7 next".to_owned()));
    let piece = ShimOrder::Command { piece: "7 next".to_owned(), last: true };
    in_order(
        &outputs,
        &[Output::Asked(ranks.clone()), Output::Ask(Question::Send(Rank(1), piece))],
    );
    let outputs = manager.give(Input::Command(ranks.clone(), "8 input x".to_owned()));
    assert!(!outputs.contains(&Output::Asked(ranks.clone())));
    let outputs = manager.give(Input::Command(ranks, "a\nb".to_owned()));
    assert_eq!(outputs, [Output::Act(Action::Log(Line::MalformedCommand(3)))]);
}

#[test]
fn a_command_waits_for_a_shim_with_too_many_orders_until_its_next_report() {
    let mut manager = debugged(1);
    manager.sent = Sent::Later;
    let sends = |outputs: Vec<Output>| {
        outputs.iter().filter(|it| matches!(it, Output::Ask(Question::Send(..)))).count()
    };
    let all = RankSet::below(1);
    assert_eq!(sends(manager.give(Input::Command(all, "7 next".to_owned()))), 1);
    manager.sent = Sent::Yes;
    assert_eq!(sends(manager.give(Input::Reports(Rank(0), Vec::new()))), 1);
    assert_eq!(sends(manager.give(Input::Reports(Rank(0), Vec::new()))), 0, "it was sent");
}

#[test]
fn each_held_crash_and_some_others_of_each_rank_are_reported() {
    let mut manager = debugged(1);
    let crash = |held| ShimReport::Crashed(Crash { held, ..Crash::held(11) });
    let reports = [vec![crash(true); 9], vec![crash(false); 9]].concat();
    assert_eq!(posted(&manager.give(Input::Reports(Rank(0), reports))).len(), 9 + 4);
    let order = ShimOrder::Continue { crashes: 9 };
    assert_eq!(manager.give(Input::ReleaseCrashed), [Output::Act(Action::Tell(Rank(0), order))]);
    assert_eq!(manager.give(Input::ReleaseCrashed), []);
}

#[test]
fn each_debugged_rank_gets_a_new_connection_when_all_programs_start_again() {
    let outputs = debugged(2).give(Input::Restart);
    let reconnect = |rank| Output::Act(Action::Reconnect(Rank(rank), Slot(rank as usize)));
    assert_eq!(outputs, [reconnect(0), reconnect(1), Output::Job(JobInput::Restarted)]);
    assert_eq!(Manager::running(2).give(Input::Restart), [Output::Job(JobInput::Restarted)]);
}

#[test]
fn a_shim_that_breaks_the_protocol_gets_no_more_orders() {
    let mut manager = debugged(1);
    assert_eq!(manager.give(Input::ShimBroken(Rank(0))), [Output::Act(Action::DropShim(Rank(0)))]);
    assert_eq!(manager.give(Input::MarkTaken(Rank(0))), []);
    assert_eq!(manager.machine.way_to(Rank(0), SIGTERM), Some(Way::Process(pid_of(0))));
}

#[test]
fn a_new_size_reaches_terminals_and_the_ranks_that_start_later() {
    let mut manager = Manager::new(1);
    manager.shim = Some(Abilities { terminal: true, ..Abilities::default() });
    let mut manager = manager.started();
    let outputs = manager.give(Input::Resize(80, 25));
    let order = ShimOrder::Resize { columns: 80, lines: 25 };
    assert_eq!(
        outputs,
        [Output::Act(Action::Tell(Rank(0), order)), Output::Signal(28, SignalTarget::Group)]
    );
}

// ----- signals -----

#[test]
fn a_signal_goes_to_the_group_of_a_rank_or_to_its_process_and_to_no_reaped_rank() {
    let mut manager = Manager::running(2);
    manager.give(Input::Reaped(pid_of(0), RankEnd::Exited(0), false));
    let ways = |target| manager.machine.ways(SIGTERM, &target).collect::<Vec<_>>();
    assert_eq!(ways(SignalTarget::Group), [(Rank(1), Way::Group(pid_of(1)))]);
    assert_eq!(ways(SignalTarget::Process), [(Rank(1), Way::Process(pid_of(1)))]);
    assert_eq!(ways(SignalTarget::Groups(RankSet::below(1))), []);
}

#[test]
fn a_signal_to_a_debugged_rank_goes_through_its_shim() {
    let manager = debugged(1);
    let way = manager.machine.way_to(Rank(0), SIGTERM);
    assert_eq!(way, Some(Way::Shim(ShimOrder::Quit, pid_of(0))));
    assert_eq!(manager.machine.way_to(Rank(0), SIGKILL), Some(Way::Group(pid_of(0))));
}

// ----- adopted processes -----

fn adopted() -> Manager {
    Manager::with(job(1), Beginning { adopts: true, ..BEGINNING }).started()
}

#[test]
fn an_adopted_process_becomes_rank_0_and_leaves_without_an_exit_code() {
    let mut manager = adopted();
    assert!(manager.machine.has_adopted());
    let outputs = manager.give(Input::AdoptedLeft);
    let exited = Output::Job(JobInput::Exited(Rank(0), RankEnd::Exited(0)));
    in_order(
        &outputs,
        &[Output::Act(Action::ReleaseAdopted), Output::End(Phase::Run, Some(Rank(0))), exited],
    );
    assert!(!manager.machine.has_adopted());
    assert_eq!(manager.give(Input::AdoptedLeft), []);
}

#[test]
fn an_adopted_process_that_has_aborted_ends_by_itself_and_is_killed_with_its_job() {
    let mut manager = adopted();
    assert_eq!(manager.machine.way_to(Rank(0), SIGTERM), Some(Way::Adopted));
    manager.give(Input::Aborts(Rank(0)));
    assert_eq!(manager.machine.way_to(Rank(0), SIGTERM), Some(Way::None));
    assert_eq!(manager.machine.way_to(Rank(0), SIGKILL), Some(Way::Adopted));
    manager.give(Input::KillAdopted);
    assert!(manager.machine.has_adopted(), "its end is an event");
    manager.refuses_kill = true;
    manager.give(Input::KillAdopted);
    assert!(!manager.machine.has_adopted(), "it has just ended");
}

// ----- ranks that run alone -----

#[test]
fn ranks_that_run_alone_are_looked_for_in_growing_intervals_until_one_speaks_pmi() {
    let mut manager = Manager::running(2);
    let search = Output::Ask(Question::Search(vec![(Rank(0), pid_of(0)), (Rank(1), pid_of(1))]));
    assert_eq!(manager.wait(true), [search]);
    assert_eq!(manager.now, Time::ZERO + FIRST_SEARCH);
    assert_eq!(manager.wait(true), [], "a helper runs");
    manager.give(Input::SearchEnded(None));
    assert_eq!(manager.wait(false), [], "processes are being stopped");
    assert!(manager.wait(true).len() == 1);
    assert_eq!(manager.give(Input::PauseSearch), [Output::Act(Action::EndSearch)]);
    assert!(manager.wait(true).len() == 1);
    assert_eq!(manager.give(Input::UsesPmi), [Output::Act(Action::EndSearch)]);
    assert_eq!(manager.wait(true), []);
    assert_eq!(manager.machine.poll_timeout(), None);
}

#[test]
fn a_rank_that_runs_alone_is_reported_and_the_search_is_over() {
    let mut manager = Manager::running(2);
    manager.wait(true);
    let found = Some((Rank(1), "libmpi.so".to_owned()));
    let outputs = manager.give(Input::SearchEnded(found));
    assert_eq!(posted(&outputs), [JobInput::Alone(Rank(1), "libmpi.so".to_owned())]);
    assert_eq!(manager.wait(true), []);
}

#[test]
fn in_a_job_of_one_rank_no_rank_is_looked_for() {
    assert_eq!(Manager::running(1).machine.poll_timeout(), None);
}
