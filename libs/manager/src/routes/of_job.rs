//! Routes outputs of the job's machine.

use mpd_clients::{self as clients, FromJob, World};
use mpd_ending::{Input as Ending, SignalTarget};
use mpd_job::manager::spawns::order::SpawnOrder;
use mpd_job::manager::spawns::{Announced, SpawnOutput};
use mpd_job::manager::{LinkEnd, Output as JobOutput};
use mpd_ranks::Input as Ranks;
use mpd_stdio::machine::Input as Stdio;
use mpd_wire::Rank;
use mpd_wire::job::{Failure, HostSlice, exit};
use mpd_wire::message::{Down, JobNews, ManagerReport, Phase, TreeKind, Up};

use crate::event::{Event, Mark};
use crate::node::Node;
use crate::output::{ForLinks, Level, Output, Work};
use crate::spawning;
use crate::turn::Moment;

/// The signal that asks a process to end.
const SIGTERM: i32 = 15;

impl Node {
    pub(crate) fn route_job(&mut self, at: Moment<'_>, output: JobOutput) {
        match output {
            // To console and daemon.
            JobOutput::ReportStarted => self.report_to(at, |it, turn| it.report_started(turn)),
            JobOutput::ReportFailed { host, failure } => {
                self.report_to(at, |it, turn| it.report_failed(turn, host, failure));
            }
            JobOutput::ReportCrashed(rank, crash) => self.console(JobNews::Crashed { rank, crash }),
            JobOutput::ReportRestarted => self.console(JobNews::Restarted),
            JobOutput::ReportSuspended => self.console(JobNews::Suspended),
            JobOutput::ReportNotice(text) => {
                self.report_to(at, |it, turn| it.report_notice(turn, text));
            }
            JobOutput::Events(events) => {
                self.report_to(at, |it, turn| it.report_events(turn, events));
            }
            JobOutput::Pids(pids) => self.report_to(at, |it, turn| it.learn_pids(turn, pids)),
            JobOutput::WorldEnded(ended) => {
                self.report_to(at, |it, turn| it.world_ended(turn, &ended));
            }
            JobOutput::Finish(code) => self.finish(at, code),

            // To other managers.
            JobOutput::ToSome(tree_indices, command) => self.send_down_some(tree_indices, command),
            JobOutput::ToChildren(command) => self.send_down_all(at, command),
            JobOutput::ToParent(entered @ (Up::Entered { .. } | Up::EnteredGroup { .. })) => {
                self.queue.clients(FromJob::Entered(entered));
            }
            JobOutput::ToParent(message) => self.perform(ForLinks::Up(message)),
            JobOutput::GiveUp(tree_index) => self.give_up(tree_index),

            // Ranks that start.
            JobOutput::Go => self.perform(Ranks::Go),
            JobOutput::Prepare(announced) => self.prepare_world(*announced),
            JobOutput::StartWorld(first) => self.perform(Ranks::StartWorld(first)),
            JobOutput::EndWorld(first) => self.perform(Ranks::EndWorld(first)),
            JobOutput::Spawn(output) => self.route_spawn(output),
            JobOutput::Grow(from, host_slices) => self.grow(from, host_slices),
            JobOutput::ForgetWorld(first) => self.forget_world(first),
            JobOutput::Restart => self.restart(),

            // Ranks that run.
            JobOutput::Resize(columns, lines) => self.perform(Ranks::Resize(columns, lines)),
            JobOutput::Interrupt(rank, signal) => {
                self.perform(Work::Signal(rank, signal.into()));
            }
            JobOutput::ReleaseCrashed => self.perform(Ranks::ReleaseCrashed),
            JobOutput::ReadPmi => self.queue.clients(FromJob::Read),
            JobOutput::ReleaseFence(first) => self.perform(Ending::FenceOver(first)),
            JobOutput::ReleaseGroup(first, group) => {
                self.queue.clients(FromJob::ReleaseGroup(first, group));
            }
            JobOutput::Assembled(first, group) => {
                self.queue.clients(FromJob::Assembled(first, group));
            }
            JobOutput::Dead(rank) => self.queue.clients(FromJob::Dead(rank)),
            JobOutput::Debug(ranks, line) => self.perform(Ranks::Command(ranks, line)),

            // Ranks that stop or end.
            JobOutput::SignalRanks(signal) => self.signal(signal, SignalTarget::Group),
            JobOutput::Retire(ranks) => self.signal(SIGTERM, SignalTarget::Groups(ranks)),
            JobOutput::SignalProcesses(signal) => self.signal(signal, SignalTarget::Process),
            JobOutput::StopTree => self.perform(Ending::Stop),
            JobOutput::ContinueTree => self.perform(Ending::Continue),
            JobOutput::KillTree => self.perform(Ending::Kill),

            // The end of the job.
            JobOutput::Drain => self.drain(at),
            JobOutput::DiscardOutput => self.perform(Output::DiscardOutput),
            JobOutput::CleanUp => self.perform(Ending::CleanUp),
            JobOutput::Withdraw => self.upstream.end(exit::SUITE),
            JobOutput::Leave => self.leave(),
        }
    }

    /// Sends a command to some children. The clients have keys that go before the release of a fence.
    fn send_down_some(&mut self, tree_indices: Vec<usize>, command: Down) {
        match command {
            Down::Release { first } | Down::ReleaseGroup { first, .. } => {
                self.queue.clients(FromJob::ReleaseChildren(tree_indices, first, command));
            }
            command => self.perform(ForLinks::DownNow(tree_indices, command)),
        }
    }

    fn route_spawn(&mut self, output: SpawnOutput) {
        match output {
            SpawnOutput::Piece(to, piece) => {
                self.perform(ForLinks::Bytes(to, TreeKind::World, piece));
            }
            SpawnOutput::Answer(caller, outcome) => {
                self.queue.clients(FromJob::Spawned(caller, outcome));
            }
            SpawnOutput::Place(request, placement) => {
                self.queue.daemon(ManagerReport::Place { request, placement: *placement });
            }
            SpawnOutput::Report(state) => self.queue.daemon(ManagerReport::Spawns { state }),
        }
    }

    fn signal(&mut self, signal: impl Into<i32>, target: SignalTarget) {
        self.perform(Ending::Signal(signal.into(), target));
    }

    /// Ends this manager, which is not the root.
    fn leave(&mut self) {
        self.perform(ForLinks::Close(LinkEnd::Parent));
        self.upstream.end(0);
    }

    fn finish(&mut self, at: Moment<'_>, code: u8) {
        let spec = &self.job.spec;
        let first = (0..if spec.report_ends { spec.size() } else { 0 }).map(Rank);
        let ends = first.map(|rank| self.machine.machine().end_of(rank)).collect();
        self.report_to(at, |upstream, turn| upstream.finish(turn, code, ends));
    }

    /// No process is left. Jobs that met the ranks do not wait for the reader of the output.
    fn drain(&mut self, at: Moment<'_>) {
        let failure = self.machine.machine().failure().map(cause_of);
        self.queue.report(clients::Input::Meeting(mpd_connect::Input::End(failure)));
        self.upstream.mark(Mark::Begin, at.now, Phase::Drain, None);
        self.perform(Stdio::Drain);
    }

    // ----- what changes the job -----

    /// Adds a spawned world that is to be started here or in the subtree.
    fn prepare_world(&mut self, announced: Announced) {
        let preput = announced.order.as_ref().map(SpawnOrder::preput).unwrap_or_default();
        let is_known = announced.order.is_some();
        let world = World::announced(announced, (&self.job.spec, &self.job.order));
        let (first, numbers, parts) = (world.numbers.first, world.numbers, world.parts.clone());
        self.perform(Ending::World(world.kvsname.clone()));
        self.job.worlds.insert(world);
        self.queue.clients(FromJob::Prepare(first, preput));
        if self.job.is_root() {
            self.perform(Output::OpenFiles(numbers, parts));
        }
        self.perform(Ranks::Prepare(first, is_known));
    }

    /// Adds hosts that join the job. A host that has joined last knows some of them already.
    fn grow(&mut self, from: u32, host_slices: Vec<HostSlice>) {
        let hosts = &mut self.job.order.host_slices;
        let known = hosts.len();
        if let Err(e) = hosts.join(from, host_slices) {
            let text = format!("hosts cannot join: {e}");
            return self.perform(Output::Log(Level::Error, text));
        }
        let children: Vec<usize> = self.children().filter(|child| *child >= known).collect();
        if !children.is_empty() {
            self.perform(ForLinks::Join(children));
        }
        if self.job.is_root() {
            self.queue.daemon(spawning::growth(&self.job, known));
        }
    }

    /// Prepares another start of all programs, none of which runs. Their shared state is made again.
    fn restart(&mut self) {
        if let Some(kvsname) = self.job.worlds.restart(&self.job.order.kvsname) {
            self.queue.perform(Ending::World(kvsname.to_owned()));
        }
        self.queue.clients(FromJob::Restart);
        self.perform(Ranks::Restart);
    }

    /// Removes a spawned world whose ranks have ended. The owners still know it while they forget it.
    fn forget_world(&mut self, first: Rank) {
        if let Some(world) = self.job.worlds.of(first) {
            self.queue.perform(Stdio::WorldOver(world.numbers));
            if !world.here.is_empty() {
                self.queue.daemon(ManagerReport::Forgotten { first });
            }
        }
        self.perform(Ranks::ForgetWorld(first));
        self.queue.clients(FromJob::Forget(first));
        self.queue.events.push_front(Event::Forgotten(first));
    }
}

/// A failure, for the jobs that met the ranks of this one.
fn cause_of(failure: &Failure) -> mpd_connect::Cause {
    mpd_connect::Cause { code: failure.exit_code(), text: failure.to_string() }
}
