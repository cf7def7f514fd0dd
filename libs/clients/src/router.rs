//! Routes inputs to the PMI sessions, the PMIx sessions and the names. It also passes data between these three.

use mpd_job::manager::LinkEnd;
use mpd_sansio::Time;
use mpd_wire::Rank;
use mpd_wire::message::{Down, TreeKind, Up};
use pmi_proto::Answer;

use crate::client::{Client, ConnectionId};
use crate::input::{FromJob, Input};
use crate::job::Job;
use crate::names::Names;
use crate::output::{Action, LinkOutput, Output};
use crate::pmi::{News, Pmi};
use crate::pmix::{Collective, Pmix};
use crate::turn::Turn;

/// The parts of the machine.
#[derive(Debug)]
pub(crate) struct Router {
    pub(crate) pmi: Pmi,
    pub(crate) pmix: Pmix,
    pub(crate) names: Names,
    /// Whether requests of ranks of the first world wait unread.
    pub(crate) is_paused: bool,
}

impl Router {
    pub(crate) fn new(job: &Job) -> Self {
        let (pmix, names) = (Pmix::default(), Names::default());
        Self { pmi: Pmi::new(job), pmix, names, is_paused: job.spec.hold }
    }

    /// When [`Router::expire`] is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let deadlines =
            [self.pmi.next_deadline(), self.pmix.next_deadline(), self.names.deadline()];
        deadlines.into_iter().flatten().min()
    }

    pub(crate) fn expire(&mut self, turn: &mut Turn<'_>) {
        self.pmix.expire(turn);
        self.settle(turn);
        self.pmi.expire(turn);
        if self.names.deadline().is_some_and(|at| at <= turn.now()) {
            self.names.expire(turn.now());
        }
        self.settle(turn);
    }

    /// Routes an input.
    pub(crate) fn route(&mut self, turn: &mut Turn<'_>, input: Input<'_>) {
        self.pmi.watch_keys(self.pmix.has_waiting_gets());
        match input {
            Input::Connected(rank, client) => self.connect(turn, rank, client),
            Input::Accepted(accepted) => self.pmix.accept(turn, &accepted),
            Input::Client(ConnectionId::Pmi(rank), event) => self.pmi.take(turn, rank, event),
            Input::Client(ConnectionId::Pmix(number), event) => {
                self.pmix.take(turn, number, event);
            }
            Input::Job(event) => self.route_of_job(turn, event),
            Input::Probed(number) => self.pmix.probed(turn, number),
            Input::NoPort(problem) => Pmix::report_no_port(turn, &problem),
            Input::NoWatch => self.pmix.rest_again(turn),
            Input::Keys(from, bytes) => self.pmi.take_keys(turn, from, &bytes),
            Input::Piece(from, bytes) => self.pmix.take_piece(turn, from, &bytes),
            Input::Meeting(input) => self.pmix.meet(turn, input),
            Input::Named(request, answer) => self.names.answered(turn.now(), request, answer),
            Input::NameLost(name, to) => self.names.lose(&name, to.as_ref()),
            Input::NameRefused(refusal) => self.names.refused(turn.now(), refusal),
            Input::DaemonReplaced => {
                self.names.repeat(turn.now());
                self.pmix.meet(turn, mpd_connect::Input::DaemonReplaced);
            }
        }
        self.settle(turn);
    }

    /// Routes an input of the job's machine or of another owner.
    fn route_of_job(&mut self, turn: &mut Turn<'_>, event: FromJob) {
        match event {
            FromJob::Prepare(first, preput) => self.pmi.prepare_world(turn.job, first, &preput),
            FromJob::Forget(first) => {
                self.pmix.forget_world(first);
                self.pmi.forget_world(first);
            }
            FromJob::Ended(rank) => {
                self.pmix.rank_ended(turn, rank);
                self.pmi.rank_ended(rank);
            }
            FromJob::Removed(rank) => self.pmi.remove(turn, rank),
            FromJob::Dead(rank) => {
                self.pmix.note_dead(turn, rank);
                self.pmi.note_dead(turn, rank);
            }
            FromJob::Restart => {
                self.pmi.restart(turn);
                self.pmix.restart(turn);
                self.names.unpublish_all(turn.now());
            }
            FromJob::Read => {
                self.is_paused = false;
                turn.report(Output::Act(Action::ResumeAll));
            }
            FromJob::ReleaseFence(first) => self.release_fence(turn, first),
            FromJob::ReleaseGroup(first, group) if group.name.is_empty() => {
                self.pmi.release_group(turn, first, &group);
            }
            FromJob::ReleaseGroup(_, group) => self.pmix.release(turn, &Collective::Group(group)),
            FromJob::ReleaseChildren(tree_indices, first, release) => {
                self.release_children(turn, tree_indices, first, release);
            }
            FromJob::Entered(entered) => self.report_entered(turn, entered),
            FromJob::Assembled(first, group) => self.pmix.assembled(turn, first, group),
            FromJob::Spawned(caller, result) => {
                let kvsname = result.as_ref().ok().map(|(kvsname, _)| kvsname.as_str());
                if !self.pmix.spawned(turn, caller, kvsname) {
                    self.pmi.answer_spawn(caller, &result);
                }
            }
        }
    }

    /// Passes on what one part has for another, until nothing is left.
    fn settle(&mut self, turn: &mut Turn<'_>) {
        loop {
            if let Some(news) = self.pmi.next_news() {
                self.route_news(turn, news);
            } else if let Some((ticket, operation)) = self.pmix.next_name_request() {
                self.ask_for_pmix(turn, ticket, operation);
            } else if let Some(output) = self.names.outputs.pop_front() {
                self.route_name(turn, output);
            } else if let Some(output) = self.pmix.next_of_meetings(turn.now()) {
                self.pmix.perform_meeting(turn, output);
            } else if let Some(pending_get) = self.pmix.next_unsettled() {
                // Ranks may have put the key by PMI.
                let value = self.pmi.value(pending_get.first, &pending_get.key);
                self.pmix.looked(turn, pending_get, value);
            } else {
                return;
            }
        }
    }

    fn route_news(&mut self, turn: &mut Turn<'_>, news: News) {
        match news {
            News::Name(caller, operation) => {
                self.begin_name(turn, caller, operation);
                self.pmi.perform_operations(turn, caller.0);
            }
            News::NewKeys(first, key) => self.pmix.look_for_keys(first, key.as_deref()),
            News::Speaks(rank) => self.pmix.speaks_pmi(rank),
            News::Wanted(caller, key) => {
                let text = self.pmix.committed_text(turn.job, caller.0, &key);
                self.pmi.answer(caller, Answer::Get(text));
                self.pmi.perform_operations(turn, caller.0);
            }
        }
    }

    // ----- ranks -----

    fn connect(&mut self, turn: &mut Turn<'_>, rank: Rank, client: Client) {
        if self.pmi.connect(turn.job, rank, client) {
            self.pmix.rank_started(turn, rank, client);
        } else {
            turn.report(Output::Act(Action::Close(ConnectionId::Pmi(rank))));
        }
    }

    // ----- fences -----

    /// Releases the ranks of a world that wait in the fence.
    fn release_fence(&mut self, turn: &mut Turn<'_>, first: Rank) {
        turn.report(Output::FenceEnds);
        self.pmi.release_fence(turn.job, first);
        self.pmix.release(turn, &Collective::World(first));
        self.pmi.perform_after_fence(turn, first);
    }

    /// Releases a fence of that world in the children at these tree indices. The keys that they lack are sent
    /// first. Only the root has such keys, since other managers send theirs to the parent.
    fn release_children(
        &mut self,
        turn: &mut Turn<'_>,
        tree_indices: Vec<usize>,
        first: Rank,
        release: Down,
    ) {
        let is_root = turn.job.is_root();
        let fresh = if is_root { self.pmi.take_fresh(turn.job, first) } else { Vec::new() };
        let shared = if is_root { self.pmix.take_shared() } else { Vec::new() };
        let keys = fresh.into_iter().map(|piece| (TreeKind::Keys, piece));
        let frames = shared.into_iter().map(|frame| (TreeKind::Pmix, frame));
        for (kind, bytes) in keys.chain(frames) {
            for &tree_index in &tree_indices {
                let to = LinkEnd::Child(tree_index);
                turn.report(LinkOutput::Bytes(to, kind, bytes.clone()));
            }
        }
        turn.report(LinkOutput::DownNow(tree_indices, release));
    }

    /// Reports ranks that entered a fence to the parent. The keys that they have put are sent first.
    fn report_entered(&mut self, turn: &mut Turn<'_>, entered: Up) {
        if let Up::Entered { ranks } | Up::EnteredGroup { ranks, .. } = &entered
            && let Some(rank) = ranks.ranks().next()
        {
            for piece in self.pmi.take_fresh(turn.job, rank) {
                turn.report(LinkOutput::Bytes(LinkEnd::Parent, TreeKind::Keys, piece));
            }
        }
        for frame in self.pmix.take_shared() {
            turn.report(LinkOutput::Bytes(LinkEnd::Parent, TreeKind::Pmix, frame));
        }
        turn.report(LinkOutput::Up(entered));
    }
}
