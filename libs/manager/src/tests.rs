//! The node of a job, with an owner that performs outputs in an instant.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use mpd_clients::Job;
use mpd_ending::{Answer, Ending, Input as EndingInput, Killing, Question, SignalTarget};
use mpd_job::manager::spawns::SpawnSettings;
use mpd_job::manager::{Config, Input, LinkEnd, Manager, Output as JobOutput};
use mpd_leftovers::Reading;
use mpd_ranks::{self as ranks, Ranks};
use mpd_sansio::{Pump, Time};
use mpd_stdio::machine::Input as Stdio;
use mpd_wire::job::{JobSpec, RankEnd};
use mpd_wire::message::{
    Class, Down, JobInput, JobNews, ManagerOrder, ManagerReport, Phase, Span, Up,
};
use mpd_wire::{Pid, Rank};

use crate::fixture;
use crate::turn::Moment;
use crate::willing::{DAEMON, Willing};
use crate::{Beginning, Event, Facts, ForLinks, Mark, News, Node, Output, Sign, Trace};

const SECOND: Duration = Duration::from_secs(1);

const CLOCKS: Reading = Reading { before: 1, wall: 1, after: 1 };

/// Queues as a test wants them.
#[derive(Default)]
struct Queues {
    console: usize,
    daemon_waits: bool,
    queued: usize,
    awaited: BTreeSet<usize>,
}

impl Facts for Willing<Queues> {
    fn console_waiting(&self) -> usize {
        self.0.console
    }

    fn daemon_waits(&self) -> bool {
        self.0.daemon_waits
    }

    fn queued(&self, _: LinkEnd, _: Class) -> usize {
        self.0.queued
    }

    fn most_queued(&self, _: Class) -> usize {
        self.0.queued
    }

    fn awaits(&self, tree_index: usize) -> bool {
        self.0.awaited.contains(&tree_index)
    }

    fn describe(&self, process: Pid) -> String {
        format!("process {}", process.0)
    }

    fn name_of(&self, signal: i32) -> String {
        format!("signal {signal}")
    }
}

/// The answers of a host without processes and files.
fn answer(question: Question) -> Answer {
    match question {
        Question::Children
        | Question::ChildrenOf(_)
        | Question::Descendants
        | Question::Signal(..) => Answer::Pids(Vec::new()),
        Question::IsStill(..) | Question::Stop(_) => Answer::Is(true),
        Question::Freeze
        | Question::IsFrozen
        | Question::RemoveEmptyGroup
        | Question::StartHelper(..) => Answer::Is(false),
        Question::Members => Answer::Members(None),
        Question::RankOf(..) => Answer::Rank(None),
        Question::Effect(..) => Answer::Effect { takes: true, was_stopped: false },
        Question::KillChildren(_) => Answer::Killing(Killing::default()),
        Question::Life(..) => Answer::Life(None),
        Question::Clocks => Answer::Clocks(CLOCKS),
        Question::ShmTime => Answer::ShmTime(None),
        Question::ShmFiles => Answer::ShmFiles(Vec::new(), 0),
    }
}

/// A node, and the time.
struct World {
    now: Time,
    node: Node,
    queues: Willing<Queues>,
}

impl World {
    /// The root of a job; `change` sets what the user wants.
    fn of(mut job: Job, change: impl FnOnce(&mut JobSpec)) -> Self {
        let mut spec = (*job.spec).clone();
        change(&mut spec);
        job.spec = Rc::new(spec);
        let config = Config {
            host_slices: job.order.host_slices.clone(),
            tree_index: job.tree_index(),
            size: job.spec.size(),
            on_failure: job.spec.on_failure,
            abort_scope: job.spec.abort_scope,
            limit: None,
            debugged: false,
            elastic: false,
            spawns: SpawnSettings::default(),
        };
        let now = Time::ZERO;
        let beginning = Beginning {
            manager: 77,
            trace: Trace::start(0, 0, now),
            sign: Sign::new(now),
            has_daemon: true,
        };
        let mut ending = Ending::new(mpd_ending::Beginning::default(), CLOCKS);
        while ending.poll_output().is_some() {}
        let ranks = Ranks::new(mpd_ranks::Beginning {
            adopts: false,
            began: Duration::ZERO,
            kills: None,
            daemon: DAEMON,
        });
        let stdio = mpd_stdio::machine::Stdio::new(&job.spec, &job.order, false);
        let machines = (Pump::new(Manager::new(&config)), ranks, ending, stdio);
        let node = Node::new(now, job, machines, beginning);
        Self { now, node, queues: Willing::default() }
    }

    fn alone() -> Self {
        Self::of(fixture::job(), |_| {})
    }

    fn report(&mut self, event: impl Into<Event>) {
        self.node.lend().report(event);
    }

    /// The next output that is no question.
    fn next(&mut self) -> Option<Output> {
        loop {
            match self.node.next(self.now, &self.queues)? {
                Output::AskRanks(question) => self.answer_ranks(question),
                Output::AskEnding(question) => self.answer_ending(question),
                output => return Some(output),
            }
        }
    }

    /// The outputs of one event.
    fn outputs_of(&mut self, event: impl Into<Event>) -> Vec<Output> {
        self.report(event);
        std::iter::from_fn(|| self.next()).collect()
    }

    fn pass(&mut self, time: Duration) -> Vec<Output> {
        self.now = self.now + time;
        self.node.handle_timeout(self.now, &self.queues);
        std::iter::from_fn(|| self.next()).collect()
    }

    /// Routes an output of the job's machine.
    fn route(&mut self, output: JobOutput) -> Vec<Output> {
        self.node.route_job(Moment { now: self.now, facts: &self.queues }, output);
        std::iter::from_fn(|| self.next()).collect()
    }

    /// Runs until nothing is left. The owners act at once. Returns the news for the console.
    fn run(&mut self) -> Vec<JobNews> {
        let mut told = Vec::new();
        loop {
            let Some(output) = self.next() else {
                self.node.start_some(self.now, &self.queues);
                self.node.end_turn(self.now);
                let Some(output) = self.next() else { return told };
                self.perform(output, &mut told);
                continue;
            };
            self.perform(output, &mut told);
        }
    }

    /// All ranks start, and no process is adopted.
    fn answer_ranks(&mut self, question: ranks::Question) {
        let answer = match question {
            ranks::Question::Start(start) => {
                let pid = Pid(1000 + start.rank.0.cast_signed());
                let started =
                    ranks::Started { pid, begin: Some(1), shim: None, cpus: None, unwatched: None };
                ranks::Answer::Started(Ok(started))
            }
            ranks::Question::Limit(_) => ranks::Answer::Limited(Ok(())),
            ranks::Question::Adopt(_) => panic!("no process arrives"),
            ranks::Question::Send(..) => ranks::Answer::Sent(ranks::Sent::Gone),
            ranks::Question::Search(_) => ranks::Answer::Is(false),
            ranks::Question::KillAdopted => ranks::Answer::Is(true),
        };
        self.node.give_ranks(self.now, &self.queues, ranks::Input::Answer(answer));
    }

    fn answer_ending(&mut self, question: Question) {
        self.node.give_ending(self.now, EndingInput::Answer(answer(question)));
    }

    fn perform(&mut self, output: Output, told: &mut Vec<JobNews>) {
        let input = match output {
            Output::Console(news) => return told.push(news),
            Output::Reap => return self.node.give_ending(self.now, EndingInput::NoChild),
            Output::Stdio(Stdio::Drain) => Input::Drained,
            _ => return,
        };
        self.report(Event::Input(input));
    }
}

#[test]
fn events_go_before_the_next_output_of_the_machine() {
    let mut world = World::alone();
    world.report(Event::Input(Input::Ready));
    assert!(matches!(world.next(), Some(Output::Console(JobNews::Started { manager: 77, .. }))));
    world.report(Event::Console(JobInput::Interrupt));
    world.report(JobNews::Suspended);
    assert!(
        matches!(world.next(), Some(Output::FlushConsole)),
        "outputs of one kind stay together"
    );
    assert!(matches!(world.next(), Some(Output::Console(JobNews::Suspended))));
    assert!(matches!(world.next(), Some(Output::Stdio(Stdio::Going(_)))), "the input waits");
}

#[test]
fn the_console_knows_of_the_start_before_a_rank_is_started() {
    let mut world = World::alone();
    let outputs = world.outputs_of(Event::Input(Input::Ready));
    let is_written = |output: &Output| matches!(output, Output::FlushConsole);
    let is_start = |output: &Output| matches!(output, Output::Stdio(Stdio::Going(_)));
    let place = |what: &dyn Fn(&Output) -> bool| outputs.iter().position(what).unwrap();
    assert!(place(&is_written) < place(&is_start));
}

#[test]
fn a_job_without_failures_ends_with_0_after_its_ends_were_reported() {
    let mut world = World::of(fixture::job(), |spec| spec.report_ends = true);
    world.report(Event::Input(Input::Ready));
    world.run();
    for rank in [Rank(0), Rank(1)] {
        world.report(Event::Input(Input::Exited(rank, RankEnd::Exited(0))));
    }
    let told = world.run();
    assert!(
        matches!(&told[..], [JobNews::Ends { ends, .. }, JobNews::Ended { code: 0 }] if ends.len() == 2)
    );
    assert_eq!(world.node.over(), Some(0));
    assert!(!world.node.awaits_daemon());
}

#[test]
fn the_end_waits_for_a_daemon_that_has_events_to_read_but_not_for_ever() {
    let mut world = World::alone();
    world.queues.0.daemon_waits = true;
    world.route(JobOutput::Finish(3));
    assert!(world.node.over() == Some(3) && world.node.awaits_daemon());
    world.pass(2 * SECOND);
    assert!(!world.node.awaits_daemon());
}

#[test]
fn the_end_of_a_traced_job_waits_for_the_report_of_its_launch() {
    let span = Span { phase: Phase::Scatter, rank: None, began_us: 1, took_us: 2 };
    let traced = || World::of(fixture::job_on_two_hosts(), |spec| spec.trace = true);
    let is_end = |outputs: &[Output]| {
        matches!(outputs.last(), Some(Output::Console(JobNews::Ended { code: 0 })))
    };
    let mut world = traced();
    assert!(world.route(JobOutput::Finish(0)).is_empty());
    let launched = Event::Daemon(ManagerOrder::Launched { scatter: span, depth: 2 });
    assert!(is_end(&world.outputs_of(launched)));
    let mut world = traced();
    world.route(JobOutput::Finish(0));
    assert!(world.node.over().is_none());
    assert!(is_end(&world.pass(2 * SECOND)), "without the report");
}

#[test]
fn lines_for_a_console_that_does_not_read_are_counted_and_the_count_is_shown_later() {
    let mut world = World::alone();
    world.queues.0.console = 17 << 20;
    for _ in 0..3 {
        assert!(world.route(JobOutput::ReportNotice("a line".to_owned())).is_empty());
    }
    world.queues.0.console = 0;
    let shown = world.route(JobOutput::ReportNotice("the last".to_owned()));
    let texts: Vec<String> = shown.iter().map(|output| format!("{output:?}")).collect();
    assert!(texts[0].contains("3 lines were left out") && texts[1].contains("the last"));
    assert_eq!(texts.len(), 2);
}

#[test]
fn the_daemon_gets_a_sign_of_a_manager_that_reports_nothing_and_only_one() {
    let mut world = World::alone();
    let given = world.pass(SECOND / 2);
    assert!(matches!(
        given[..],
        [
            Output::Daemon(ManagerReport::Begun),
            Output::FlushDaemon,
            Output::Console(JobNews::Begun { manager: 77 })
        ]
    ));
    assert!(world.pass(SECOND).is_empty());
    let mut world = World::alone();
    world.outputs_of(ManagerReport::Written { counts: Vec::new() });
    assert!(world.pass(SECOND).is_empty(), "each report is a sign");
}

#[test]
fn a_daemon_is_looked_for_each_second_until_one_has_adopted_the_manager() {
    let mut job = fixture::job();
    job.order.rundir = Some("/run/mpd".to_owned());
    let mut world = World::of(job, |_| {});
    world.pass(SECOND);
    world.outputs_of(Event::DaemonGone);
    for _ in 0..2 {
        assert!(world.pass(SECOND / 2).is_empty());
        assert!(matches!(world.pass(SECOND / 2)[..], [Output::Register]));
        world.outputs_of(Event::Registered(false));
    }
    let adopted = world.outputs_of(Event::Registered(true));
    assert!(matches!(adopted[..], [Output::Daemon(_), ..]));
}

#[test]
fn children_that_have_not_connected_are_given_up_behind_the_kill() {
    let mut world = World::of(fixture::job_on_two_hosts(), |_| {});
    world.queues.0.awaited = BTreeSet::from([1]);
    let outputs = world.route(JobOutput::ToChildren(Down::Kill));
    assert!(matches!(
        outputs[..],
        [
            Output::Links(ForLinks::DownAll(Down::Kill)),
            Output::Links(ForLinks::Close(LinkEnd::Child(1))),
            Output::Links(ForLinks::StopSending(1)),
            Output::Stdio(Stdio::ChildrenGone(1)),
            ..
        ]
    ));
    assert!(world.node.is_unlinked());
    let mut world = World::of(fixture::job_on_two_hosts(), |_| {});
    world.route(JobOutput::ToChildren(Down::Kill));
    assert!(!world.node.is_unlinked(), "it has connected");
}

#[test]
fn unimportant_messages_are_left_out_while_much_waits_for_the_parent() {
    let mut world = World::alone();
    let message = || Event::UpIfRoom(Up::Ready);
    assert!(matches!(world.outputs_of(message())[..], [Output::Links(ForLinks::Up(Up::Ready))]));
    world.queues.0.queued = 512 * 1024;
    assert!(matches!(world.outputs_of(message())[..], [Output::Log(..)]));
}

#[test]
fn a_child_that_breaks_the_protocol_is_closed_before_it_counts_as_lost() {
    let mut world = World::of(fixture::job_on_two_hosts(), |_| {});
    let broken = Event::Broken(LinkEnd::Child(1), "it sends nonsense".to_owned());
    let outputs = world.outputs_of(broken);
    assert!(matches!(outputs[0], Output::Links(ForLinks::Close(LinkEnd::Child(1)))));
    let is_failure = |output: &Output| matches!(output, Output::Console(JobNews::Failed { .. }));
    assert!(outputs.iter().any(is_failure));
}

#[test]
fn a_drained_child_concerns_its_output_first_and_then_the_job() {
    let mut world = World::of(fixture::job_on_two_hosts(), |_| {});
    world.report(Event::News(News::Report(1, Up::Drained)));
    assert!(matches!(world.next(), Some(Output::Stdio(Stdio::FlowDrained(1)))));
}

#[test]
fn a_world_is_known_while_the_owners_forget_it() {
    let mut world = World::alone();
    world.node.route_job(
        Moment { now: world.now, facts: &world.queues },
        JobOutput::ForgetWorld(Rank(0)),
    );
    for _ in 0..3 {
        assert!(world.next().is_some() && world.node.job().worlds.of(Rank(0)).is_some());
    }
    assert!(world.next().is_none() && world.node.job().worlds.of(Rank(0)).is_none());
}

#[test]
fn spans_of_a_rank_go_to_the_console_when_the_trace_ends() {
    let mut world = World::of(fixture::job(), |spec| spec.trace = true);
    let at = world.now;
    world.report(Event::Span(Mark::Begin, at, Phase::Run, Some(Rank(1))));
    world.report(Event::Span(Mark::End, at + SECOND, Phase::Run, Some(Rank(1))));
    let outputs = world.outputs_of(Event::TraceEnds);
    let [Output::Console(JobNews::Trace { spans, .. })] = &outputs[..] else {
        panic!("{outputs:?}");
    };
    assert_eq!(spans.last().map(|span| (span.phase, span.took_us)), Some((Phase::Run, 1_000_000)));
}

#[test]
fn what_the_end_of_processes_wants_goes_before_events_and_its_reports_go_behind_them() {
    let mut world = World::alone();
    world.report(EndingInput::Signal(15, SignalTarget::Process));
    world.report(JobNews::Suspended);
    let mut log = Vec::new();
    while let Some(output) = world.node.next(world.now, &world.queues) {
        match output {
            Output::AskEnding(Question::Signal(15, _)) => {
                log.push("signal".to_owned());
                let refused = Answer::Pids(vec![Pid(7)]);
                world.node.give_ending(world.now, EndingInput::Answer(refused));
            }
            Output::AskEnding(question) => world.answer_ending(question),
            Output::AskRanks(question) => world.answer_ranks(question),
            Output::Console(JobNews::Suspended) => log.push("suspended".to_owned()),
            Output::Console(JobNews::Failed { failure, .. }) => log.push(failure.to_string()),
            _ => {}
        }
    }
    assert_eq!(log, ["signal", "suspended", "cannot send signal 15 to process 7"]);
}

#[test]
fn what_was_checked_is_kept_before_the_host_counts_as_ready() {
    let mut world = World::alone();
    let outputs = world.outputs_of(ranks::Input::Check(None));
    assert!(matches!(outputs[0], Output::Ranks(ranks::Action::Prepared(Rank(0), _))));
    assert!(matches!(outputs[1], Output::Console(JobNews::Started { .. })));
}

#[test]
fn a_started_process_is_noted_for_the_end_before_its_pipes_are_passed_on() {
    let mut world = World::alone();
    world.report(Event::Input(Input::Ready));
    while world.next().is_some() {}
    world.node.start_some(world.now, &world.queues);
    let mut log = Vec::new();
    while let Some(output) = world.node.next(world.now, &world.queues) {
        match output {
            Output::AskRanks(question) => world.answer_ranks(question),
            Output::AskEnding(question) => {
                if let Question::Life(pid, ..) = question {
                    log.push(format!("noted {}", pid.0));
                }
                world.answer_ending(question);
            }
            Output::Ranks(ranks::Action::HandOver(rank)) => {
                log.push(format!("hand over {rank}"));
                world.report(Output::PassOn);
            }
            Output::PassOn => log.push("pass on".to_owned()),
            _ => {}
        }
    }
    let expected = ["hand over 0", "hand over 1", "noted 1000", "pass on", "noted 1001", "pass on"];
    assert_eq!(log, expected);
}

#[test]
fn no_rank_is_started_while_everything_is_stopped() {
    let mut world = World::alone();
    world.outputs_of(Event::Input(Input::Ready));
    assert!(world.node.is_to_start());
    world.node.give_ending(world.now, EndingInput::Stop);
    while let Some(Output::AskEnding(question)) =
        world.node.next_of_machines(world.now, &world.queues)
    {
        world.answer_ending(question);
    }
    assert!(!world.node.is_to_start());
    world.outputs_of(EndingInput::Continue);
    assert!(world.node.is_to_start());
}
