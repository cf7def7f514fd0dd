//! What processes have committed, for those that get it: from this host, with a fence, or on request from the host of
//! the rank.

use mpd_wire::Rank;
use mpd_wire::message::FenceGroup;
use pmi_proto::limits::MAX_VALUE;
use pmix_proto::encoding::{Encoding, Value};
use pmix_proto::message::{Put, Scope, write_pairs};
use pmix_proto::modex::View;
use pmix_proto::view::{Pair, Proc, UNDEFINED_RANK, WILDCARD};
use pmix_proto::{Answer, Operation, Status, job_info};

use super::collectives::Contribution;
use super::peer_message::{Found, PeerMessage, Route, read_frame};
use super::pending_gets::{PendingGet, Requester};
use super::routing::{pass_down, pass_on, send};
use super::waiter::Waiter;
use super::world_info::{FIRST_FOREIGN, Pending};
use super::{Pmix, Timer, describe};
use crate::job::Job;
use crate::output::LinkOutput;
use crate::turn::Turn;
use mpd_job::manager::LinkEnd;

/// Most requests of other hosts that may wait here, and most requests to other hosts.
const MAX_REQUESTS: usize = 64 * 1024;

/// Most bytes of the data of a whole world that a client receives with its first get.
const MAX_AT_FIRST: usize = 128 * 1024;

/// How long a get without a timeout may wait, in seconds.
const LONGEST_GET_S: u32 = 600;

/// The number of the get whose answer also brings the data of further ranks, unless the first answer brought all.
const GETS_BEFORE_FURTHER: u32 = 8;

/// Most bytes of such data.
const MAX_FURTHER: usize = 256 * 1024;

/// Whether data are there.
enum Search {
    Found(Vec<u8>),
    Absent,
    NotYet,
}

impl Pmix {
    /// A client gets data that another process committed, or the facts about another world.
    pub(super) fn get(
        &mut self,
        turn: &mut Turn<'_>,
        waiter: Waiter,
        proc: Proc,
        key: Option<Vec<u8>>,
        is_immediate: bool,
    ) {
        let number = self.others.number_of(turn.job, &proc.namespace);
        let own = self.rank_of(waiter.0);
        let (Some(number), Some(own), Some(connection)) =
            (number, own, self.clients.connections.get(&waiter.0))
        else {
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
            && let Some(info) = self.info(turn.job, number)
        {
            let encoding = connection.session.encoding();
            let (facts, node) = describe::facts(turn.job, &info);
            let pairs = job_info::describe(&facts, node, encoding);
            let blob = job_info::blob(encoding, &proc, &pairs);
            return self.answer(waiter, Answer::Data(&blob));
        }
        // The own world is described already. Its ranks may have put the key by PMI.
        let rank = match proc.rank {
            own if own < numbers.size => Some(numbers.in_job(Rank(own))),
            UNDEFINED_RANK => {
                self.any_with_key(turn.job, number, key.as_deref().unwrap_or_default())
            }
            WILDCARD => None,
            _ => return self.answer(waiter, Answer::Done(Status::NOT_FOUND)),
        };
        let pending_get = PendingGet {
            requester: Requester::Client(waiter),
            first: numbers.first,
            rank,
            key: key.unwrap_or_default(),
            is_immediate,
            number: None,
        };
        match (self.find(turn.job, &pending_get), rank) {
            (Search::Found(data), Some(rank)) => self.answer_data(turn.job, waiter, rank, data),
            _ => self.gets.unsettled.push_back(pending_get),
        }
    }

    /// Looks for data on this host.
    fn find(&self, job: &Job, pending_get: &PendingGet) -> Search {
        let Requester::Client((number, _)) = pending_get.requester else { return Search::NotYet };
        let (Some(rank), is_immediate) = (pending_get.rank, pending_get.is_immediate) else {
            return Search::Absent;
        };
        let world = self.known_of(job, rank);
        let (Some(world), Some(connection)) = (world, self.clients.connections.get(&number)) else {
            return Search::Absent;
        };
        let is_here = world.has_here(job, rank);
        let view = if is_here { View::Local } else { View::Remote };
        let own = world.numbers.own(rank).0;
        let world_data = self.worlds_data.get(&world.numbers.first);
        let data = world_data.and_then(|world_data| {
            let is_there =
                pending_get.key.is_empty() || world_data.modex.has_key(own, &pending_get.key, view);
            let proc = self.others.proc_of(job, &world.numbers, rank);
            let data = || world_data.modex.data(&proc, view, connection.session.encoding());
            (is_there || is_immediate).then(data).flatten()
        });
        match data {
            Some(data) => Search::Found(data),
            None if is_immediate || self.is_gone(job, rank) => Search::Absent,
            None if self.has_committed_here(job, rank) => Search::Absent,
            None => Search::NotYet,
        }
    }

    /// Answers with the data of a rank. With the first answer, a client receives the data of a small world, which saves
    /// it the further requests. Of a large world, it receives those of further ranks when it has got many. Clients keep
    /// data until they get them with a refresh.
    fn answer_data(&mut self, job: &Job, waiter: Waiter, rank: Rank, data: Vec<u8>) {
        let Some(connection) = self.clients.connections.get_mut(&waiter.0) else { return };
        connection.gets += 1;
        let (gets, has_all) = (connection.gets, connection.has_all);
        if has_all || ![1, GETS_BEFORE_FURTHER].contains(&gets) {
            return self.answer(waiter, Answer::Data(&data));
        }
        let room = if gets == 1 { MAX_AT_FIRST } else { MAX_FURTHER };
        let encoding = connection.session.encoding();
        let (further, fits) = self.further_data(job, rank, encoding, room);
        let all: Vec<_> = match gets {
            1 if !fits => vec![data],
            _ => std::iter::once(data).chain(further).collect(),
        };
        let size = self.known_of(job, rank).map_or(0, |world| world.numbers.size as usize);
        if let Some(connection) = self.clients.connections.get_mut(&waiter.0) {
            connection.has_all = all.len() == size;
        }
        self.answer(waiter, Answer::AllData(&all));
    }

    /// The data of the other ranks of a rank's world, the next ranks first, and whether all of them fit.
    fn further_data(
        &self,
        job: &Job,
        rank: Rank,
        encoding: Encoding,
        mut room: usize,
    ) -> (Vec<Vec<u8>>, bool) {
        let mut further = Vec::new();
        let Some(world) = self.known_of(job, rank) else { return (further, true) };
        let Some(world_data) = self.worlds_data.get(&world.numbers.first) else {
            return (further, true);
        };
        let (own, size) = (world.numbers.own(rank).0, world.numbers.size);
        let mut proc = self.others.proc_of(job, &world.numbers, rank);
        for other in (own + 1..size).chain(0..own) {
            let rank = world.numbers.in_job(Rank(other));
            let view = if world.has_here(job, rank) { View::Local } else { View::Remote };
            proc.rank = other;
            let Some(data) = world_data.modex.data(&proc, view, encoding) else { continue };
            match room.checked_sub(data.len()) {
                Some(rest) => room = rest,
                None => return (further, false),
            }
            further.push(data);
        }
        (further, true)
    }

    /// Answers the requests that can be answered now.
    pub(super) fn review_gets(&mut self, turn: &mut Turn<'_>) {
        for pending_get in std::mem::take(&mut self.gets.waiting) {
            self.settle(turn, pending_get);
        }
    }

    /// Answers a request without data of PMI, or lets it wait.
    fn settle(&mut self, turn: &mut Turn<'_>, pending_get: PendingGet) {
        match (pending_get.requester.clone(), pending_get.rank) {
            (Requester::Client(waiter), Some(rank)) => match self.find(turn.job, &pending_get) {
                Search::Found(data) => self.answer_data(turn.job, waiter, rank, data),
                Search::Absent => self.answer(waiter, Answer::Done(Status::NOT_FOUND)),
                Search::NotYet if self.gets.asked.len() >= MAX_REQUESTS => {
                    self.answer(waiter, Answer::Done(Status::OUT_OF_RESOURCE));
                }
                Search::NotYet => {
                    self.limit_get(turn, waiter);
                    self.ask_host(turn, rank, &pending_get.key);
                    self.wait_for_key(turn, pending_get);
                }
            },
            (Requester::Client(waiter), None) => {
                self.answer(waiter, Answer::Done(Status::NOT_FOUND));
            }
            (requester, Some(rank)) => match self.known_here(turn.job, rank, &pending_get.key) {
                Some(found) => self.settle_other(turn, pending_get, rank, found),
                None => {
                    // Another host asks the host of the rank, or the root if the rank belongs to another job.
                    if matches!(requester, Requester::Job(_)) || rank.0 >= FIRST_FOREIGN {
                        self.ask_host(turn, rank, &pending_get.key);
                    }
                    self.wait_for_key(turn, pending_get);
                }
            },
            (Requester::Host(_) | Requester::Job(_), None) => {}
        }
    }

    /// A get that waits ends at last, unless a debugger may hold other ranks for hours.
    fn limit_get(&mut self, turn: &Turn<'_>, waiter: Waiter) {
        let is_debugged = self.rank_of(waiter.0).is_some_and(|own| self.running.is_debugged(own));
        if !is_debugged && !self.timers.is_set(Timer::Answer(waiter)) {
            self.limit(turn, waiter, Some(LONGEST_GET_S));
        }
    }

    // ----- keys of PMI -----

    /// Whether requests wait for keys.
    pub(crate) fn has_waiting_gets(&self) -> bool {
        !self.gets.waiting.is_empty()
    }

    /// The key-value space of a world has a new key, so requests that wait for it are looked for there again; `None`: all
    /// requests of the world.
    pub(crate) fn look_for_keys(&mut self, first: Rank, key: Option<&[u8]>) {
        let concerns = |pending_get: &mut PendingGet| {
            pending_get.first == first && key.is_none_or(|key| pending_get.key == key)
        };
        self.gets.unsettled.extend(self.gets.waiting.extract_if(.., concerns));
    }

    /// The next request that waits for a look into the key-value space of its world.
    pub(crate) fn next_unsettled(&mut self) -> Option<PendingGet> {
        self.gets.unsettled.pop_front()
    }

    /// Continues a request after that look, which found this value.
    pub(crate) fn looked(
        &mut self,
        turn: &mut Turn<'_>,
        pending_get: PendingGet,
        value: Option<&[u8]>,
    ) {
        let Some(value) = value else { return self.settle(turn, pending_get) };
        let pair = Pair::new(pending_get.key.as_slice(), Value::text(value));
        match (&pending_get.requester, pending_get.rank) {
            (Requester::Client(waiter), rank) => {
                let waiter = *waiter;
                let Some(world) = self.known_of(turn.job, pending_get.first) else { return };
                let Some(connection) = self.clients.connections.get(&waiter.0) else { return };
                let encoding = connection.session.encoding();
                let mut proc = describe::proc_of(turn.job, &world.numbers, pending_get.first);
                proc.rank = rank.map_or(WILDCARD, |rank| world.numbers.own(rank).0);
                let blob = job_info::blob(encoding, &proc, &write_pairs(encoding, &[pair]));
                self.answer(waiter, Answer::Data(&blob));
            }
            (Requester::Host(_) | Requester::Job(_), Some(rank)) => {
                self.settle_other(turn, pending_get, rank, Ok(vec![pair]));
            }
            (Requester::Host(_) | Requester::Job(_), None) => {}
        }
    }

    /// The text that a rank has committed with a key, for a client of PMI of its world. Its name is `pmix/RANK/KEY`. The
    /// rank runs here, or a fence has brought its data.
    pub(crate) fn committed_text(&self, job: &Job, rank: Rank, name: &[u8]) -> Option<&[u8]> {
        let (own, key) = split_name(name)?;
        let numbers = job.worlds.of(rank)?.numbers;
        let rank = numbers.in_job(Some(Rank(own)).filter(|own| own.0 < numbers.size)?);
        let is_here = self.known_of(job, rank)?.has_here(job, rank);
        let view = if is_here { View::Local } else { View::Remote };
        let value = self.worlds_data.get(&numbers.first)?.modex.value(own, key, view)?;
        value.as_text().filter(|text| is_for_pmi(text))
    }

    // ----- other hosts -----

    /// Requests data from the host of the rank, or from its job, unless that was done.
    fn ask_host(&mut self, turn: &mut Turn<'_>, rank: Rank, key: &[u8]) {
        let Some(world) = self.known_of(turn.job, rank) else { return };
        let Some(host) = world.host_of(rank) else { return };
        let is_elsewhere = host != turn.job.tree_index();
        let asks = is_elsewhere || world.is_foreign;
        if asks && self.gets.asked.insert((rank, key.to_vec())) {
            match is_elsewhere {
                true => send(turn, host, &PeerMessage::Ask(rank, key.to_vec())),
                false => self.ask_job(turn, rank, key),
            }
        }
    }

    /// Another host or job requests what a rank has committed.
    pub(super) fn asked(
        &mut self,
        turn: &mut Turn<'_>,
        requester: Requester,
        rank: Rank,
        key: Vec<u8>,
    ) {
        let has_room = self.gets.waiting.len() < MAX_REQUESTS;
        let world = self.collective(turn.job, rank).filter(|_| has_room);
        let found = self.known_here(turn.job, rank, &key);
        match (world, found) {
            (Some((first, _)), None | Some(Err(_))) => {
                let (rank, number) = (Some(rank), None);
                let is_immediate = false;
                let request = PendingGet { requester, first, rank, key, is_immediate, number };
                self.gets.unsettled.push_back(request);
            }
            (_, Some(found)) => self.reply(turn, &requester, rank, &key, found),
            (None, None) => {}
        }
    }

    /// What this host can answer another one or a job at once: the data, or that the rank has ended.
    fn known_here(&self, job: &Job, rank: Rank, key: &[u8]) -> Option<Found> {
        let is_gone = || self.is_gone(job, rank).then_some(Err(Status::NOT_FOUND));
        self.pairs_of(job, rank, key).map(Ok).or_else(is_gone)
    }

    /// Sends the data of a rank, or why there are none, to another host or job. Clients get theirs by `answer`.
    pub(super) fn reply(
        &mut self,
        turn: &mut Turn<'_>,
        requester: &Requester,
        rank: Rank,
        key: &[u8],
        found: Found,
    ) {
        match requester {
            Requester::Client(_) => {}
            Requester::Host(to) => {
                send(turn, *to as usize, &PeerMessage::Answer(rank, key.to_vec(), found));
            }
            Requester::Job(job) => self.answer_job(turn, job.clone(), rank, key, found),
        }
    }

    /// Whether a rank commits nothing more: it has ended, as far as this host knows, or its world is over. A rank that
    /// was not started yet is not gone.
    fn is_gone(&self, job: &Job, rank: Rank) -> bool {
        let Some((first, _)) = self.collective(job, rank) else { return true };
        let world_data = self.worlds_data.get(&first);
        world_data.is_some_and(|it| it.ended.contains(&rank) || it.dead.contains(&rank))
    }

    /// Data that a rank committed for other hosts, if the key is among it.
    fn pairs_of(&self, job: &Job, rank: Rank, key: &[u8]) -> Option<Vec<Pair>> {
        let (first, own) = self.collective(job, rank)?;
        let modex = &self.worlds_data.get(&first)?.modex;
        let is_there = key.is_empty() || modex.has_key(own, key, View::Remote);
        if is_there { modex.pairs(own, View::Remote) } else { None }
    }

    /// Takes a piece of a message from another manager, or passes it on.
    pub(crate) fn take_piece(&mut self, turn: &mut Turn<'_>, from: LinkEnd, frame: &[u8]) {
        let Some((route, piece)) = read_frame(frame) else {
            let problem = "its manager sent a malformed piece of PMIx data".to_owned();
            return turn.report(LinkOutput::Broken(from, problem));
        };
        let gathered = match route {
            Route::Routed { to, .. } if to as usize != turn.job.tree_index() => {
                return pass_on(turn, from, to as usize, frame);
            }
            Route::Routed { from: sender, .. } => self.gets.routed.take_from(sender, &piece),
            Route::Shared => {
                if from == LinkEnd::Parent {
                    pass_down(turn, frame);
                }
                self.gets.shared.take_from(from, &piece)
            }
        };
        let message = match gathered {
            Ok(None) => return,
            Ok(Some(bytes)) => PeerMessage::read(piece.of, &bytes),
            Err(e) => return turn.warn(format!("PMIx data of rank {}: {e}", piece.of)),
        };
        match message {
            Some(message) => self.take_message(turn, from, route, message),
            None => turn.warn(format!("PMIx data of rank {} that make no sense", piece.of)),
        }
    }

    /// Takes a message from another manager.
    fn take_message(
        &mut self,
        turn: &mut Turn<'_>,
        from: LinkEnd,
        route: Route,
        message: PeerMessage,
    ) {
        match (message, route) {
            (PeerMessage::Ask(rank, key), Route::Routed { from, .. }) => {
                self.asked(turn, Requester::Host(from), rank, key);
            }
            (PeerMessage::Answer(rank, key, found), Route::Routed { .. }) => {
                self.take_answer(turn, rank, key, found);
            }
            (PeerMessage::AskWorld(number), Route::Routed { from, .. }) => {
                self.send_world(turn, from, number);
            }
            (PeerMessage::World(number, info), Route::Routed { .. }) => {
                self.take_world(turn, number, info);
            }
            (PeerMessage::Commit(rank, pairs), Route::Shared) => {
                self.keep(turn, rank, pairs, from != LinkEnd::Parent);
                self.review_gets(turn);
            }
            (PeerMessage::Contribution(rank, group, context, pairs), Route::Shared) => {
                let is_for_root = group.is_across_jobs();
                if from != LinkEnd::Parent && !(is_for_root && turn.job.is_root()) {
                    self.share_contribution(turn.job, &group, (rank, (context, pairs.clone())));
                }
                if !is_for_root || turn.job.is_root() {
                    self.collectives.contribute(group, rank, (context, pairs));
                }
            }
            (PeerMessage::Met(_, group, status, worlds), Route::Shared) => {
                self.take_met(&group, Status(status), worlds);
            }
            (PeerMessage::Parted(number, ended), Route::Shared) => {
                self.take_parted(turn, number, ended);
            }
            (PeerMessage::Notify(rank, notice), Route::Routed { .. }) if turn.job.is_root() => {
                self.order(turn, rank, *notice);
            }
            (PeerMessage::Event(_, notice), Route::Shared) if from == LinkEnd::Parent => {
                self.take_event(turn, *notice);
            }
            _ => turn.warn(format!("PMIx data from {from:?} that came another way")),
        }
    }

    /// Takes the answer of another host, or of another job.
    pub(super) fn take_answer(
        &mut self,
        turn: &mut Turn<'_>,
        rank: Rank,
        key: Vec<u8>,
        found: Found,
    ) {
        self.gets.asked.remove(&(rank, key.clone()));
        match found {
            Ok(pairs) => self.keep(turn, rank, pairs, false),
            Err(status) => {
                let is_it = |one: &PendingGet| one.rank == Some(rank) && one.key == key;
                let missing: Vec<_> = self.gets.waiting.extract_if(.., |one| is_it(one)).collect();
                for pending_get in missing {
                    match pending_get.requester {
                        Requester::Client(waiter) => {
                            self.answer(waiter, Answer::Done(status));
                        }
                        // The rank belongs to another job, or the other job asks for one of this job.
                        Requester::Host(_) | Requester::Job(_) => {
                            self.settle_other(turn, pending_get, rank, Err(status));
                        }
                    }
                }
            }
        }
        self.review_gets(turn);
    }

    /// Keeps what a rank of another host has committed; `is_shared`: hosts above and beside do not have it.
    fn keep(&mut self, turn: &mut Turn<'_>, rank: Rank, pairs: Vec<Pair>, is_shared: bool) {
        let Some((first, own)) = self.collective(turn.job, rank) else { return };
        let world_data = self.world_data(first);
        let puts = pairs.into_iter().map(|pair| Put { scope: Scope::Remote, pair });
        if world_data.modex.commit(own, puts).is_err() {
            turn.warn(format!("rank {rank} has committed more than is kept"));
        }
        if is_shared {
            world_data.shared.insert(rank);
        }
    }

    // ----- with fences -----

    /// Data that a rank committed goes to the other hosts with its next entry.
    pub(super) fn collect(&mut self, job: &Job, rank: Rank) {
        let Some(world) = job.worlds.of(rank) else { return };
        let world_data = self.world_data(world.numbers.first);
        if world_data.fresh.remove(&rank) && world.is_spread {
            world_data.shared.insert(rank);
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
            && let Some((first, _)) = self.collective(job, rank)
        {
            let message = PeerMessage::Contribution(rank, group.clone(), context, pairs);
            self.world_data(first).contributions.push(message);
        }
    }

    /// The frames with everything that the other hosts do not have.
    pub(crate) fn take_shared(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for (first, world_data) in &mut self.worlds_data {
            for rank in std::mem::take(&mut world_data.shared) {
                let pairs = world_data.modex.pairs(rank.0.saturating_sub(first.0), View::Remote);
                let message = PeerMessage::Commit(rank, pairs.unwrap_or_default());
                frames.extend(message.frames(Route::Shared));
            }
            for message in std::mem::take(&mut world_data.contributions) {
                frames.extend(message.frames(Route::Shared));
            }
        }
        frames
    }
}

/// Whether a key of PMI names a value that a client of PMIx has committed.
pub(crate) fn is_of_pmix(name: &[u8]) -> bool {
    split_name(name).is_some()
}

/// The rank and the key in a name like `pmix/3/key`.
fn split_name(name: &[u8]) -> Option<(u32, &[u8])> {
    let rest = name.strip_prefix(b"pmix/")?;
    let at = rest.iter().position(|byte| *byte == b'/')?;
    let rank = std::str::from_utf8(&rest[..at]).ok()?.parse().ok()?;
    Some((rank, &rest[at + 1..]))
}

/// Whether a client of PMI could have put this value: it fits a line.
fn is_for_pmi(text: &[u8]) -> bool {
    text.len() < MAX_VALUE && !text.iter().any(|byte| matches!(byte, b'\n' | 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_for_pmi_have_a_rank_and_a_key() {
        assert_eq!(split_name(b"pmix/12/a/b"), Some((12, &b"a/b"[..])));
        for name in ["pmix/12", "pmix//a", "pmix/x/a", "pmix", "PMIX/1/a", "1/a"] {
            assert_eq!(split_name(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn values_for_pmi_fit_a_line() {
        assert!(is_for_pmi(b"") && is_for_pmi(&[b'x'; MAX_VALUE - 1]));
        assert!(!is_for_pmi(&[b'x'; MAX_VALUE]) && !is_for_pmi(b"two\nlines"));
    }
}
