//! The spawns of all ranks, at the root: the queue of requests, and the questions to the daemon.

use std::collections::VecDeque;

use mpd_sansio::Time;
use mpd_wire::Rank;
use mpd_wire::job::{Bytes, SpawnPlacement};
use mpd_wire::message::Placing;

use super::order::SpawnOrder;
use super::queue::{MAX_WAITING, SpawnQueue};
use super::reports::Reports;
use super::request::Request;
use super::{SpawnAct, SpawnOutput, SpawnSettings, Waiting};
use crate::manager::job::Job;

/// The spawns of a job.
#[derive(Debug)]
pub(in crate::manager) struct RootSpawns {
    settings: SpawnSettings,
    queue: SpawnQueue<Request>,
    reports: Reports,
    acts: VecDeque<SpawnAct>,
}

impl RootSpawns {
    /// The spawns of a job that begins with `size` ranks.
    pub(in crate::manager) fn new(settings: SpawnSettings, size: u32) -> Self {
        let (queue, reports) = (SpawnQueue::new(size), Reports::default());
        Self { settings, queue, reports, acts: VecDeque::new() }
    }

    pub(in crate::manager) fn poll_act(&mut self) -> Option<SpawnAct> {
        self.acts.pop_front()
    }

    pub(in crate::manager) fn next_deadline(&self, job: &Job) -> Option<Time> {
        self.queue
            .deadline(job.takes_worlds())
            .into_iter()
            .chain(self.reports.next_deadline())
            .min()
    }

    pub(in crate::manager) fn expire(&mut self, now: Time) {
        if let Some((spawner, _)) = self.queue.expire(now) {
            self.refuse(spawner, "the daemon here does not answer");
        }
    }

    /// Takes the request of a rank or of a user. What a user requests is a world without a parent.
    pub(in crate::manager) fn request(&mut self, spawner: Option<Rank>, order: Bytes) {
        let decoded = match SpawnOrder::decode(&order) {
            Ok(decoded) => decoded,
            Err(e) => return self.refuse(spawner, &e.to_string()),
        };
        let (size, is_awaited) = (decoded.spec.size(), decoded.is_of_mpi());
        if !self.queue.push(spawner, Request { size, is_awaited, order: Waiting(order.into()) }) {
            let problem = format!("{MAX_WAITING} spawns of this job are waiting already");
            self.refuse(spawner, &problem);
        }
    }

    /// Forgets all requests, since all programs start again.
    pub(in crate::manager) fn restart(&mut self) {
        self.queue.clear();
    }

    /// At the end of a turn: asks the daemon where to place the first request, unless one is being placed. It waits
    /// while ranks of an earlier start are missing, while everything is stopped, or while the hosts have no free slot.
    pub(in crate::manager) fn place_next(&mut self, now: Time, job: &Job) {
        self.queue.retain(|rank| job.rank_table.lives(rank));
        if self.queue.begin_next(now, job.takes_worlds(), job.rank_table.freed()) {
            self.ask_for_placement(job);
        }
    }

    /// Reports the state of the spawns if it has changed.
    pub(in crate::manager) fn report(&mut self, now: Time, job: &Job) {
        if let Some(state) = self.reports.next(now, job, &self.queue) {
            self.acts.push_back(SpawnAct::Emit(SpawnOutput::Report(state)));
        }
    }

    /// A daemon has adopted this manager: it gets the state of the spawns, and the question that has no answer.
    pub(in crate::manager) fn registered(&mut self, job: &Job) {
        self.reports.begin_again();
        self.ask_for_placement(job);
    }

    /// Asks the daemon for a placement, or asks the next daemon again.
    fn ask_for_placement(&mut self, job: &Job) {
        let Some((request, first)) = self.queue.placing() else { return };
        // It was checked when it came.
        let Ok(first) = SpawnOrder::decode(&first.order.0) else { return };
        let member = |tree_index: usize| {
            job.host_slices.get(tree_index).map(|host_slice| host_slice.member.clone())
        };
        let blocked =
            job.rank_table.blocked(self.queue.waiting().filter_map(|(spawner, _)| spawner));
        let settings = &self.settings;
        let placement = SpawnPlacement {
            blocks: first.blocks,
            policy: settings.policy,
            hosts: settings.hosts.clone(),
            exclude: settings.exclude.clone(),
            last: self.queue.last().cloned().or_else(|| member(job.host_of_last_rank()?)),
            running: job
                .living_at()
                .into_iter()
                .filter_map(|(at, n)| Some((member(at)?, n)))
                .collect(),
            blocked: blocked.at.iter().filter_map(|&(at, n)| Some((member(at)?, n))).collect(),
            limit: settings.limit,
            nevertheless: blocked.everywhere,
            lost: job.lost_hosts().filter_map(member).collect(),
            here_first: settings.here_first,
        };
        self.acts.push_back(SpawnAct::Emit(SpawnOutput::Place(request, Box::new(placement))));
    }

    /// Handles the placement from the daemon.
    pub(in crate::manager) fn placed(&mut self, now: Time, job: &Job, answer: (u32, Placing)) {
        let (number, outcome) = answer;
        let placed = match outcome {
            Placing::Full => return self.queue.found_full(now, number),
            Placing::Done { host_slices, last } => Ok((host_slices, last)),
            Placing::Failed(problem) => Err(problem),
        };
        let Some((spawner, request)) = self.queue.answered(number, job.takes_worlds()) else {
            return;
        };
        let plan = placed.and_then(|placed| {
            let asked = (spawner, request.size, request.is_awaited);
            self.queue.plan(asked, &self.settings.kvsname, &job.host_slices, placed)
        });
        match plan {
            Ok(plan) => self.acts.push_back(SpawnAct::Start(plan, request.order.0.into())),
            Err(problem) => self.refuse(spawner, &problem),
        }
    }

    fn refuse(&mut self, spawner: Option<Rank>, problem: &str) {
        self.acts.push_back(SpawnAct::Refuse(spawner, problem.to_owned()));
    }
}
