//! The worlds that this host knows: those with ranks in its subtree, and others that its clients have to do with, as the
//! root described them.

use mpd_wire::Rank;
use mpd_wire::job::World as Numbers;
use pmix_proto::view::Proc;
use pmix_proto::{Answer, Status, job_info};

use super::peer_message::PeerMessage;
use super::routing::send;
use super::waiter::Waiter;
use super::world_info::{OtherWorlds, Pending, ROOT, WorldInfo, WorldRanks};
use super::{Pmix, describe};
use crate::job::Job;
use crate::turn::Turn;

/// Most worlds without ranks here that are kept.
const MAX_FOREIGN: usize = 256;

/// Most operations that wait for the description of a world.
const MAX_PENDING: usize = 16 * 1024;

impl Pmix {
    /// The world of that number.
    pub(super) fn known<'a>(&'a self, job: &'a Job, number: u32) -> Option<WorldRanks<'a>> {
        let world = job.worlds.all().find(|world| world.numbers.number == number);
        let own = world.map(WorldRanks::here);
        own.or_else(|| self.others.foreign.get(&number).map(WorldRanks::of))
    }

    /// The world of a rank.
    pub(super) fn known_of<'a>(&'a self, job: &'a Job, rank: Rank) -> Option<WorldRanks<'a>> {
        let own = job.worlds.of(rank);
        let own = own.map(WorldRanks::here);
        let mut foreign = self.others.foreign.values();
        own.or_else(|| foreign.find(|info| info.numbers.contains(rank)).map(WorldRanks::of))
    }

    pub(super) fn info(&self, job: &Job, number: u32) -> Option<WorldInfo> {
        let world = job.worlds.all().find(|world| world.numbers.number == number);
        world
            .map(|world| WorldInfo::of(job, world))
            .or_else(|| self.others.foreign.get(&number).cloned())
    }

    /// A world of this job among these processes that is not known here.
    pub(super) fn unknown_among(&self, job: &Job, procs: &[Proc]) -> Option<u32> {
        let mut numbers = procs.iter().filter_map(|proc| describe::number_of(job, &proc.namespace));
        numbers.find(|number| self.known(job, *number).is_none())
    }

    /// An operation waits for the description of a world, which the root has.
    pub(super) fn await_world(&mut self, turn: &mut Turn<'_>, number: u32, pending: Pending) {
        let waiting: usize = self.others.pending.values().map(Vec::len).sum();
        if turn.job.is_root() || waiting >= MAX_PENDING {
            return self.answer(pending.waiter(), Answer::Done(Status::NOT_FOUND));
        }
        let waiting = self.others.pending.entry(number).or_default();
        waiting.push(pending);
        if waiting.len() == 1 {
            send(turn, ROOT, &PeerMessage::AskWorld(number));
        }
    }

    /// Describes a world to another host.
    pub(super) fn send_world(&self, turn: &mut Turn<'_>, to: u32, number: u32) {
        let info = self.info(turn.job, number).map(Box::new);
        send(turn, to as usize, &PeerMessage::World(number, info));
    }

    /// Performs what waited for the description of a world.
    pub(super) fn take_world(
        &mut self,
        turn: &mut Turn<'_>,
        number: u32,
        info: Option<Box<WorldInfo>>,
    ) {
        let is_known = info.is_some();
        if let Some(info) = info {
            self.add_foreign(*info);
        }
        for pending in self.others.pending.remove(&number).unwrap_or_default() {
            match pending {
                _ if !is_known => self.answer(pending.waiter(), Answer::Done(Status::NOT_FOUND)),
                Pending::Operation(waiter, operation) => self.perform(turn, waiter, *operation),
                Pending::Spawned(waiter) => self.answer_spawned(turn, waiter, number),
            }
        }
    }

    /// Keeps the description of a world without ranks here.
    pub(super) fn add_foreign(&mut self, info: WorldInfo) {
        let number = info.numbers.number;
        while self.others.foreign.len() >= MAX_FOREIGN && !self.others.foreign.contains_key(&number)
        {
            let oldest = self.others.foreign.pop_first();
            let first = oldest.map(|(_, info)| info.numbers.first);
            first.into_iter().for_each(|first| drop(self.worlds_data.remove(&first)));
        }
        self.others.foreign.insert(number, info);
    }

    /// Answers a spawn with the description of its world.
    pub(super) fn answer_spawned(&mut self, turn: &mut Turn<'_>, waiter: Waiter, number: u32) {
        let Some(info) = self.info(turn.job, number) else {
            return self.await_world(turn, number, Pending::Spawned(waiter));
        };
        let Some(connection) = self.clients.connections.get(&waiter.0) else { return };
        let encoding = connection.session.encoding();
        let (facts, node) = describe::facts(turn.job, &info);
        let info = job_info::describe(&facts, node, encoding);
        self.answer(waiter, Answer::Spawned { namespace: &facts.namespace, info: &info });
    }
}

impl OtherWorlds {
    /// The number of the world of a namespace.
    pub(super) fn number_of(&self, job: &Job, namespace: &[u8]) -> Option<u32> {
        describe::number_of(job, namespace).or_else(|| {
            let is_it = |info: &&WorldInfo| {
                info.foreign.as_ref().is_some_and(|of| of.namespace.as_bytes() == namespace)
            };
            Some(self.foreign.values().find(is_it)?.numbers.number)
        })
    }

    /// The process of a rank of any world.
    pub(super) fn proc_of(&self, job: &Job, numbers: &Numbers, rank: Rank) -> Proc {
        let foreign = self.foreign.get(&numbers.number).and_then(|info| info.foreign.as_ref());
        match foreign {
            Some(foreign) => Proc::new(foreign.namespace.as_str(), numbers.own(rank).0),
            None => describe::proc_of(job, numbers, rank),
        }
    }
}
