//! What processes have committed, for those that get it: from this host, with a fence, or on request from the host of
//! the rank.

use mpd_wire::Rank;
use mpd_wire::message::FenceGroup;
use pmix_proto::message::{Put, Scope};
use pmix_proto::modex::View;
use pmix_proto::view::{Pair, Proc, WILDCARD};
use pmix_proto::{Answer, Operation, Status, job_info};

use super::about::Pending;
use super::meetings::Contribution;
use super::parcel::{Course, Parcel, read_frame};
use super::waiter::Waiter;
use super::wanted::{Asker, Wanted};
use super::way::{pass_down, pass_on, send};
use super::{Pmix, describe};
use crate::manager::context::{Job, Turn};
use crate::manager::event::ForLinks;
use crate::manager::links::LinkEnd;

/// Most requests of other hosts that may wait here.
const MAX_ASKERS: usize = 64 * 1024;

/// Whether data are there.
enum Found {
    Yes(Vec<u8>),
    No,
    NotYet,
}

impl Pmix {
    /// A client gets what another process has committed, or the facts about another world.
    pub(super) fn get(
        &mut self,
        turn: &mut Turn<'_>,
        waiter: Waiter,
        (proc, key, is_immediate): (Proc, Option<Vec<u8>>, bool),
    ) {
        let number = describe::number_of(turn.job, &proc.namespace);
        let own = self.rank_of(waiter.0);
        let (Some(number), Some(own), Some(line)) = (number, own, self.lines.get(&waiter.0)) else {
            return self.answer(waiter, Answer::Done(Status::NOT_FOUND));
        };
        let Some(known) = self.known(turn.job, number) else {
            let get = Operation::Get { proc, key, immediate: is_immediate, timeout: None };
            let pending = Pending::Operation(waiter, Box::new(get));
            return self.await_world(turn, number, pending);
        };
        let numbers = known.numbers;
        if proc.rank == WILDCARD
            && !numbers.contains(own)
            && let Some(about) = self.about(turn.job, number)
        {
            let encoding = line.session.encoding();
            let (facts, node) = describe::facts(turn.job, &about);
            let pairs = job_info::describe(&facts, node, encoding);
            let blob = job_info::blob(encoding, &proc, &pairs);
            return self.answer(waiter, Answer::Data(&blob));
        }
        // The own world is described already.
        if proc.rank >= numbers.size {
            return self.answer(waiter, Answer::Done(Status::NOT_FOUND));
        }
        let rank = numbers.in_job(Rank(proc.rank));
        let wanted = Wanted { asker: Asker::Client(waiter), rank, key: key.unwrap_or_default() };
        match self.find(turn.job, &wanted, is_immediate) {
            Found::Yes(data) => self.answer(waiter, Answer::Data(&data)),
            Found::No => self.answer(waiter, Answer::Done(Status::NOT_FOUND)),
            Found::NotYet => {
                self.ask_host(turn, &wanted);
                self.gets.waiting.push(wanted);
            }
        }
    }

    /// Looks for data on this host.
    fn find(&self, job: &Job, wanted: &Wanted, is_immediate: bool) -> Found {
        let Asker::Client((number, _)) = wanted.asker else { return Found::NotYet };
        let world = self.known_of(job, wanted.rank);
        let (Some(world), Some(line)) = (world, self.lines.get(&number)) else {
            return Found::No;
        };
        let is_here = world.has_here(job, wanted.rank);
        let view = if is_here { View::Local } else { View::Remote };
        let own = world.numbers.own(wanted.rank).0;
        let universe = self.universes.get(&world.numbers.first);
        let data = universe.and_then(|universe| {
            let is_there = wanted.key.is_empty() || universe.modex.has_key(own, &wanted.key, view);
            let proc = describe::proc_of(job, &world.numbers, wanted.rank);
            let data = || universe.modex.data(&proc, view, line.session.encoding());
            (is_there || is_immediate).then(data).flatten()
        });
        match data {
            Some(data) => Found::Yes(data),
            None if is_immediate || self.is_gone(job, wanted.rank) => Found::No,
            None => Found::NotYet,
        }
    }

    /// Answers the requests that can be answered now.
    pub(super) fn review_gets(&mut self, turn: &mut Turn<'_>) {
        for wanted in std::mem::take(&mut self.gets.waiting) {
            match wanted.asker {
                Asker::Client(waiter) => match self.find(turn.job, &wanted, false) {
                    Found::Yes(data) => self.answer(waiter, Answer::Data(&data)),
                    Found::No => self.answer(waiter, Answer::Done(Status::NOT_FOUND)),
                    Found::NotYet => self.gets.waiting.push(wanted),
                },
                Asker::Host(from) => {
                    if !self.answer_host(turn, from, (wanted.rank, &wanted.key)) {
                        self.gets.waiting.push(wanted);
                    }
                }
            }
        }
    }

    // ----- other hosts -----

    /// Requests data from the host of the rank, unless that was done.
    fn ask_host(&mut self, turn: &mut Turn<'_>, wanted: &Wanted) {
        let Some(world) = self.known_of(turn.job, wanted.rank) else { return };
        let Some(host) = world.parts.tree_index_of(wanted.rank) else { return };
        if host != turn.job.tree_index()
            && self.gets.asked.insert((wanted.rank, wanted.key.clone()))
        {
            send(turn, host, &Parcel::Ask(wanted.rank, wanted.key.clone()));
        }
    }

    /// Answers another host if the data are there, or the rank has ended. Returns whether it did.
    fn answer_host(&self, turn: &mut Turn<'_>, to: u32, (rank, key): (Rank, &[u8])) -> bool {
        let pairs = self.pairs_of(turn.job, rank, key);
        let is_answered = pairs.is_some() || self.is_gone(turn.job, rank);
        if is_answered {
            send(turn, to as usize, &Parcel::Answer(rank, key.to_vec(), pairs));
        }
        is_answered
    }

    /// Whether a rank commits nothing more: it has ended, as far as this host knows, or its world is over. A rank that
    /// was not started yet is not gone.
    fn is_gone(&self, job: &Job, rank: Rank) -> bool {
        let Some((first, _)) = self.place(job, rank) else { return true };
        let universe = self.universes.get(&first);
        universe.is_some_and(|it| it.ended.contains(&rank) || it.dead.contains(&rank))
    }

    /// What a rank has committed for other hosts, if the key is among it.
    fn pairs_of(&self, job: &Job, rank: Rank, key: &[u8]) -> Option<Vec<Pair>> {
        let (first, own) = self.place(job, rank)?;
        let modex = &self.universes.get(&first)?.modex;
        let is_there = key.is_empty() || modex.has_key(own, key, View::Remote);
        if is_there { modex.pairs(own, View::Remote) } else { None }
    }

    /// Takes a piece of a parcel from another manager, or passes it on.
    pub(in crate::manager::pmi) fn take_piece(
        &mut self,
        turn: &mut Turn<'_>,
        from: LinkEnd,
        frame: &[u8],
    ) {
        let Some((course, piece)) = read_frame(frame) else {
            let problem = "its manager sent a malformed piece of PMIx data".to_owned();
            return turn.report(ForLinks::Broken(from, problem));
        };
        let gathering = match course {
            Course::Routed { to, .. } if to as usize != turn.job.tree_index() => {
                return pass_on(turn, from, to as usize, frame);
            }
            Course::Routed { .. } => &mut self.gets.routed,
            Course::Shared => {
                if from == LinkEnd::Parent {
                    pass_down(turn, frame);
                }
                &mut self.gets.shared
            }
        };
        let parcel = match gathering.take(&piece) {
            Ok(None) => return,
            Ok(Some(bytes)) => Parcel::read(piece.of, &bytes),
            Err(e) => return log::warn!("PMIx data of rank {}: {e}", piece.of),
        };
        match (parcel, course) {
            (Some(Parcel::Ask(rank, key)), Course::Routed { from, .. }) => {
                let has_room = self.gets.waiting.len() < MAX_ASKERS;
                if !self.answer_host(turn, from, (rank, &key)) && has_room {
                    self.gets.waiting.push(Wanted { asker: Asker::Host(from), rank, key });
                }
            }
            (Some(Parcel::Answer(rank, key, pairs)), Course::Routed { .. }) => {
                self.take_answer(turn, (rank, key), pairs);
            }
            (Some(Parcel::AskWorld(number)), Course::Routed { from, .. }) => {
                self.send_world(turn, from, number);
            }
            (Some(Parcel::World(number, about)), Course::Routed { .. }) => {
                self.take_world(turn, number, about);
            }
            (Some(Parcel::Commit(rank, pairs)), Course::Shared) => {
                self.keep(turn.job, rank, pairs, from != LinkEnd::Parent);
                self.review_gets(turn);
            }
            (Some(Parcel::Contribution(rank, group, context, pairs)), Course::Shared) => {
                if from != LinkEnd::Parent {
                    self.share_contribution(turn.job, &group, (rank, (context, pairs.clone())));
                }
                self.meetings.contribute(group, rank, (context, pairs));
            }
            _ => log::warn!("PMIx data of rank {} that make no sense", piece.of),
        }
    }

    fn take_answer(
        &mut self,
        turn: &mut Turn<'_>,
        (rank, key): (Rank, Vec<u8>),
        pairs: Option<Vec<Pair>>,
    ) {
        self.gets.asked.remove(&(rank, key.clone()));
        match pairs {
            Some(pairs) => self.keep(turn.job, rank, pairs, false),
            None => {
                let is_it = |wanted: &Wanted| wanted.rank == rank && wanted.key == key;
                let missing: Vec<_> = self.gets.waiting.extract_if(.., |one| is_it(one)).collect();
                for wanted in missing {
                    if let Asker::Client(waiter) = wanted.asker {
                        self.answer(waiter, Answer::Done(Status::NOT_FOUND));
                    }
                }
            }
        }
        self.review_gets(turn);
    }

    /// Keeps what a rank of another host has committed; `is_shared`: hosts above and beside do not have it.
    fn keep(&mut self, job: &Job, rank: Rank, pairs: Vec<Pair>, is_shared: bool) {
        let Some((first, own)) = self.place(job, rank) else { return };
        let universe = self.universe(first);
        let puts = pairs.into_iter().map(|pair| Put { scope: Scope::Remote, pair });
        if universe.modex.commit(own, puts).is_err() {
            log::warn!("rank {rank} has committed more than is kept");
        }
        if is_shared {
            universe.shared.insert(rank);
        }
    }

    // ----- with fences -----

    /// What a rank has committed goes to the other hosts with its next entry.
    pub(super) fn collect(&mut self, job: &Job, rank: Rank) {
        let Some(world) = job.worlds.of(rank) else { return };
        let universe = self.universe(world.numbers.first);
        if universe.fresh.remove(&rank) && world.is_spread {
            universe.shared.insert(rank);
        }
    }

    /// A contribution goes to the other hosts with the next entry.
    pub(super) fn share_contribution(
        &mut self,
        job: &Job,
        group: &FenceGroup,
        (rank, (context, pairs)): (Rank, Contribution),
    ) {
        if job.order.host_slices.len() > 1
            && let Some((first, _)) = self.place(job, rank)
        {
            let parcel = Parcel::Contribution(rank, group.clone(), context, pairs);
            self.universe(first).contributions.push(parcel);
        }
    }

    /// The frames with everything that the other hosts do not have.
    pub(in crate::manager::pmi) fn take_shared(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for (first, universe) in &mut self.universes {
            for rank in std::mem::take(&mut universe.shared) {
                let pairs = universe.modex.pairs(rank.0.saturating_sub(first.0), View::Remote);
                let parcel = Parcel::Commit(rank, pairs.unwrap_or_default());
                frames.extend(parcel.frames(Course::Shared));
            }
            for parcel in std::mem::take(&mut universe.contributions) {
                frames.extend(parcel.frames(Course::Shared));
            }
        }
        frames
    }
}
