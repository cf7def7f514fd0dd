//! Operations of several processes: fences, connects, disconnects, and groups that are constructed or destructed.
//!
//! Ranks that speak PMI and ranks that speak PMIx share the fence of a world. The job's machine decides when all members
//! have arrived. Other operations are fences of groups, with the kind in the group's name. A rank enters a
//! fence once; when it arrives again before the release, its next entry waits here.

use std::collections::BTreeMap;
use std::rc::Rc;

use mpd_job::manager::Input;
use mpd_wire::job::MpiLibrary;
use mpd_wire::message::{FenceGroup, FenceMembers};
use mpd_wire::{Rank, RankSet};
use pmix_proto::encoding::Value;
use pmix_proto::modex::qualified;
use pmix_proto::view::{Info, Pair, Proc, WILDCARD};
use pmix_proto::{Answer, Operation, Status};

use super::across_jobs::{is_across, own_among};
use super::collectives::{Collective, Contribution, Entry, MAX_COLLECTIVES, Purpose};
use super::waiter::Waiter;
use super::world_info::{FIRST_FOREIGN, Pending};
use super::{Pmix, describe};
use crate::job::Job;
use crate::output::Output;
use crate::turn::Turn;

/// Longest name of a group.
const MAX_NAME: usize = 256;

impl Pmix {
    /// A rank arrives.
    pub(super) fn arrive(
        &mut self,
        turn: &mut Turn<'_>,
        waiter: Waiter,
        rank: Rank,
        operation: Operation,
    ) {
        let (purpose, procs, timeout) = match &operation {
            Operation::Fence { procs, timeout, .. } => (Purpose::Fence, procs, timeout),
            Operation::Connect { procs, timeout } => (Purpose::Connect, procs, timeout),
            Operation::Disconnect { procs, timeout } => (Purpose::Disconnect, procs, timeout),
            Operation::Construct { procs, timeout, .. } => (Purpose::Construct, procs, timeout),
            Operation::Destruct { procs, timeout, .. } => (Purpose::Destruct, procs, timeout),
            _ => return,
        };
        if let Some(number) = self.unknown_among(turn.job, procs) {
            let pending = Pending::Operation(waiter, Box::new(operation));
            return self.await_world(turn, number, pending);
        }
        let collective = match self.collective_of(turn.job, rank, purpose, procs, &operation) {
            Ok(collective) => collective,
            Err(status) => return self.answer(waiter, Answer::Done(status)),
        };
        let bytes = self.size_of(waiter);
        if !self.has_budget(turn.job, rank, bytes) {
            return self.answer(waiter, Answer::Done(Status::OUT_OF_RESOURCE));
        }
        let members: Rc<[Proc]> = procs.as_slice().into();
        self.limit(turn, waiter, *timeout);
        if let Collective::Group(group) = &collective
            && group.is_across_jobs()
            && !self.collectives.waiting.contains_key(&collective)
        {
            self.call_roll(turn.job, rank, group, procs, *timeout);
        }
        if matches!(operation, Operation::Fence { collect: true, .. }) {
            self.collect(turn.job, rank);
        }
        if let (Operation::Construct { contribution, .. }, Collective::Group(group)) =
            (operation, &collective)
        {
            let given = contribution.into_iter().map(|info| Pair::new(info.key, info.value));
            let given = (self.collectives.propose(rank), given.collect::<Vec<_>>());
            self.share_contribution(turn.job, group, (rank, given.clone()));
            self.collectives.contribute(group.clone(), rank, given);
        }
        let entries = self.collectives.waiting.entry(collective.clone()).or_default();
        let entries = entries.entry(rank).or_default();
        entries.push_back(Entry { waiter: Some(waiter), purpose, members, bytes });
        if entries.len() == 1 {
            enter(turn, rank, &collective);
        }
    }

    /// Whether a client is of Open MPI. Its fence of several worlds disconnects them: it has no other fence of several
    /// worlds, and does not use the command.
    fn is_of_open_mpi(&self, number: usize) -> bool {
        let library = self.clients.connections.get(&number).and_then(|client| client.library);
        library.is_some_and(MpiLibrary::is_open_mpi)
    }

    /// The fence for these members.
    fn collective_of(
        &self,
        job: &Job,
        rank: Rank,
        purpose: Purpose,
        procs: &[Proc],
        operation: &Operation,
    ) -> Result<Collective, Status> {
        if is_across(job, procs) {
            return self.with_room(self.across_jobs(job, rank, purpose, procs)?);
        }
        let ranks = self.ranks_of(job, procs)?;
        if !ranks.contains(rank) {
            return Err(Status::BAD_PARAM);
        }
        let world = job.worlds.of(rank).ok_or(Status::ERROR)?;
        if purpose == Purpose::Fence && ranks == world.numbers.ranks() {
            return Ok(Collective::World(world.numbers.first));
        }
        let name = match (purpose, operation) {
            (Purpose::Fence, _) => "fence".to_owned(),
            (Purpose::Connect, _) => "connect".to_owned(),
            (Purpose::Disconnect, _) => "disconnect".to_owned(),
            (_, Operation::Construct { group, .. }) => format!("construct {}", name_of(group)?),
            (_, Operation::Destruct { group, .. }) => format!("destruct {}", name_of(group)?),
            _ => return Err(Status::ERROR),
        };
        let collective =
            Collective::Group(FenceGroup { members: FenceMembers::Ranks(ranks), tag: 0, name });
        self.with_room(collective)
    }

    /// The same collective, if ranks may wait in it.
    fn with_room(&self, collective: Collective) -> Result<Collective, Status> {
        let is_full = self.collectives.waiting.len() >= MAX_COLLECTIVES;
        match is_full && !self.collectives.waiting.contains_key(&collective) {
            true => Err(Status::OUT_OF_RESOURCE),
            false => Ok(collective),
        }
    }

    /// All members that live have arrived.
    pub(crate) fn release(&mut self, turn: &mut Turn<'_>, collective: &Collective) {
        let Some(mut waiting) = self.collectives.waiting.remove(collective) else { return };
        let mut released = Vec::new();
        waiting.retain(|rank, entries| {
            released.extend(entries.pop_front().map(|entry| (*rank, entry)));
            !entries.is_empty()
        });
        // Ranks that arrived twice enter the next fence of this kind.
        for rank in waiting.keys() {
            enter(turn, *rank, collective);
        }
        if !waiting.is_empty() {
            self.collectives.waiting.insert(collective.clone(), waiting);
        }
        let met = match collective {
            Collective::Group(group) => self.collectives.met.remove(group),
            Collective::World(_) => None,
        };
        let contributed = match collective {
            Collective::Group(group) if !group.is_across_jobs() => {
                self.collectives.contributions.remove(group).unwrap_or_default()
            }
            Collective::Group(_) | Collective::World(_) => BTreeMap::new(),
        };
        let context = contributed.first_key_value().map(|(_, (context, _))| *context);
        self.qualify(turn, contributed, context);
        for (rank, entry) in released {
            self.collectives.left(rank, &entry);
            self.recount(turn.job, rank);
            let Some(waiter) = entry.waiter else { continue };
            let status = met.unwrap_or_else(|| self.status_of(turn.job, &entry.members));
            self.answer_member(turn, waiter, rank, &entry, status, context);
            self.perform_operations(turn, waiter.0);
        }
        self.review_gets(turn);
    }

    fn answer_member(
        &mut self,
        turn: &mut Turn<'_>,
        waiter: Waiter,
        rank: Rank,
        entry: &Entry,
        status: Status,
        context: Option<u64>,
    ) {
        match entry.purpose {
            Purpose::Construct if status.is_success() => {
                let members = &self.expanded(turn.job, &entry.members)[..];
                self.answer(waiter, Answer::Group { members, context });
            }
            Purpose::Connect if status.is_success() => {
                let others = self.others(turn, waiter.0, rank, &entry.members);
                self.answer(waiter, Answer::Connected(&others));
                self.share_fate(turn, rank, &entry.members, true);
            }
            Purpose::Disconnect if status.is_success() => {
                self.answer(waiter, Answer::Done(status));
                self.share_fate(turn, rank, &entry.members, false);
            }
            Purpose::Fence if status.is_success() && self.is_of_open_mpi(waiter.0) => {
                self.answer(waiter, Answer::Done(status));
                self.share_fate(turn, rank, &entry.members, false);
            }
            _ => self.answer(waiter, Answer::Done(status)),
        }
    }

    /// What the other worlds of a connect are to a member.
    fn others(&self, turn: &Turn<'_>, number: usize, rank: Rank, members: &[Proc]) -> Vec<Vec<u8>> {
        let Some(connection) = self.clients.connections.get(&number) else { return Vec::new() };
        let encoding = connection.session.encoding();
        let others = self.others_among(turn.job, rank, members);
        let others = others.into_iter().filter_map(|number| self.info(turn.job, number));
        let described = others.map(|info| {
            let (facts, node) = describe::facts(turn.job, &info);
            let pairs = pmix_proto::job_info::describe(&facts, node, encoding);
            pmix_proto::job_info::answer(encoding, &facts.namespace, &pairs)
        });
        described.collect()
    }

    /// Connected worlds end together.
    fn share_fate(&self, turn: &mut Turn<'_>, rank: Rank, members: &[Proc], joined: bool) {
        // Other jobs have a fate of their own.
        let others = self.others_among(turn.job, rank, members);
        for number in others.into_iter().filter(|number| *number < FIRST_FOREIGN) {
            turn.post(Input::WorldConnection { from: rank, number, joined });
        }
    }

    /// Success, or that a member is gone.
    pub(super) fn status_of(&self, job: &Job, members: &[Proc]) -> Status {
        let ranks = self.ranks_of(job, &own_among(job, members)).unwrap_or_default();
        let mut dead = self.worlds_data.values().flat_map(|world_data| &world_data.dead);
        match dead.any(|rank| ranks.contains(*rank)) {
            true => Status::PARTIAL_SUCCESS,
            false => Status::SUCCESS,
        }
    }

    /// Adds the contributions of a group's members to what they have committed.
    fn qualify(
        &mut self,
        turn: &mut Turn<'_>,
        contributed: BTreeMap<Rank, Contribution>,
        context: Option<u64>,
    ) {
        let Some(context) = context.map(Value::size) else { return };
        for (rank, (_, given)) in contributed {
            let infos: Vec<Info> =
                given.into_iter().map(|pair| Info::new(pair.key, pair.value)).collect();
            let Some((first, own)) = self.collective(turn.job, rank) else { continue };
            for pair in qualified(&infos, &context) {
                if self.world_data(first).modex.qualify(own, pair).is_err() {
                    turn.warn(format!("the values of groups of rank {rank} are too large"));
                }
            }
        }
    }

    /// The ranks of these processes, numbered through the job.
    pub(super) fn ranks_of(&self, job: &Job, procs: &[Proc]) -> Result<RankSet, Status> {
        let mut ranges = Vec::with_capacity(procs.len());
        for proc in procs {
            let number = describe::number_of(job, &proc.namespace).ok_or(Status::NOT_FOUND)?;
            let numbers = self.known(job, number).ok_or(Status::NOT_FOUND)?.numbers;
            match proc.rank {
                WILDCARD => ranges.extend_from_slice(numbers.ranks().ranges()),
                own if own < numbers.size => {
                    let rank = numbers.in_job(Rank(own)).0;
                    ranges.push((rank, rank));
                }
                _ => return Err(Status::BAD_PARAM),
            }
        }
        Ok(RankSet::from_ranges(ranges))
    }

    /// The numbers of the worlds of these processes, without that of the rank.
    fn others_among(&self, job: &Job, rank: Rank, procs: &[Proc]) -> Vec<u32> {
        let own = self.known_of(job, rank).map(|world| world.numbers.number);
        let numbers = procs.iter().filter_map(|proc| self.others.number_of(job, &proc.namespace));
        let mut others: Vec<u32> = numbers.filter(|number| Some(*number) != own).collect();
        others.sort_unstable();
        others.dedup();
        others
    }

    /// These processes, each as a single one.
    fn expanded(&self, job: &Job, procs: &[Proc]) -> Vec<Proc> {
        let ranks = self.ranks_of(job, procs).unwrap_or_default();
        let single = |rank| Some(describe::proc_of(job, &self.known_of(job, rank)?.numbers, rank));
        ranks.ranks().filter_map(single).collect()
    }
}

fn enter(turn: &mut Turn<'_>, rank: Rank, collective: &Collective) {
    match collective {
        Collective::World(_) => {
            turn.report(Output::FenceBegins);
            turn.post(Input::EnteredFence(rank));
        }
        Collective::Group(group) => turn.post(Input::EnteredGroup(rank, group.clone())),
    }
}

fn name_of(group: &[u8]) -> Result<String, Status> {
    match std::str::from_utf8(group) {
        Ok(name) if name.len() <= MAX_NAME => Ok(name.to_owned()),
        _ => Err(Status::BAD_PARAM),
    }
}
