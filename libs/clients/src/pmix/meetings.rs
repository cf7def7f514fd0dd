//! Operations with processes of other jobs: the fences of the own members, and the meetings at the root.
//!
//! The members of this job meet in a fence of a group, whose name has a digest of all members. The root gets the list of
//! the members with their entries. It lets the machine of [`mpd_connect`] meet the other jobs. It sends the result to all
//! hosts before it releases the group.

use std::collections::BTreeSet;
use std::time::Duration;

use mpd_connect::{Assembly, Cause, Effect, Ended, Failure, Meetings, Output, Party};
use mpd_job::manager::Input;
use mpd_sansio::{Pump, Time};
use mpd_wire::frame::compact;
use mpd_wire::job::{members_mark, same_secret};
use mpd_wire::message::{FenceGroup, FenceMembers, ManagerReport};
use mpd_wire::{JobId, Rank, one_line};
use pmix_proto::encoding::{Data, Value};
use pmix_proto::view::{Info, Pair, Proc, WILDCARD};
use pmix_proto::{Range, Status};

use super::across_jobs::{Roll, own_among};
use super::collectives::{Collective, MAX_COLLECTIVES, Purpose};
use super::foreign_message::{Described, Description, ForeignMessage};
use super::notice::Notice;
use super::peer_message::{Found, PeerMessage, Route};
use super::pending_gets::Requester;
use super::routing::pass_down;
use super::world_info::{FIRST_FOREIGN, WorldInfo};
use super::{Pmix, describe, peer_message};
use crate::job::Job;
use crate::output::Level;
use crate::turn::Turn;

/// The key under which members tell the root the list of all members.
const ROLL: &str = "mpd.roll";

/// Most failed ranks of an ended job that are events of their own.
const MAX_RANK_EVENTS: usize = 256;

impl Pmix {
    // ----- the own members -----

    /// The fence of the members in this job.
    pub(super) fn across_jobs(
        &self,
        job: &Job,
        rank: Rank,
        purpose: Purpose,
        procs: &[Proc],
    ) -> Result<Collective, Status> {
        let kind = match purpose {
            Purpose::Fence => "fence",
            Purpose::Connect => "connect",
            Purpose::Disconnect => "disconnect",
            Purpose::Construct | Purpose::Destruct => return Err(Status::NOT_SUPPORTED),
        };
        let members = self.ranks_of(job, &own_among(job, procs))?;
        if !members.contains(rank) {
            return Err(Status::BAD_PARAM);
        }
        let mut text = String::new();
        for proc in procs {
            let namespace = std::str::from_utf8(&proc.namespace).map_err(|_| Status::NOT_FOUND)?;
            describe::secret_in(namespace).ok_or(Status::NOT_FOUND)?;
            text += &format!("{namespace} {};", proc.rank);
        }
        let name = format!("{}{kind} {}", FenceGroup::ACROSS_JOBS, members_mark(&text));
        let group = FenceGroup { members: FenceMembers::Ranks(members), tag: 0, name };
        Ok(Collective::Group(group))
    }

    /// The first member here tells the root the list of all members.
    pub(super) fn call_roll(
        &mut self,
        job: &Job,
        rank: Rank,
        group: &FenceGroup,
        procs: &[Proc],
        timeout: Option<u32>,
    ) {
        let name = |proc: &Proc| String::from_utf8_lossy(&proc.namespace).into_owned();
        let procs = procs.iter().map(|proc| (name(proc), proc.rank)).collect();
        let roll = compact::to_vec(&Roll { procs, timeout });
        let contribution = (0, vec![Pair::new(ROLL, Value::bytes(roll))]);
        if job.is_root() {
            self.collectives.contribute(group.clone(), rank, contribution);
        } else {
            self.share_contribution(job, group, (rank, contribution));
        }
    }

    // ----- the root -----

    /// All members in this job have arrived.
    pub(crate) fn assembled(&mut self, turn: &mut Turn<'_>, first: Rank, group: FenceGroup) {
        let called = self.collectives.contributions.remove(&group).unwrap_or_default();
        let called = called.into_values().flat_map(|(_, pairs)| pairs);
        let mut rolls = called.filter_map(|pair| {
            let Data::Bytes(roll) = pair.value.data() else { return None };
            let roll = Some(roll).filter(|_| pair.key == ROLL.as_bytes())?;
            compact::from_slice::<Roll>(roll).ok()
        });
        let key = group.name.strip_prefix(FenceGroup::ACROSS_JOBS).unwrap_or_default().to_owned();
        let Some(roll) = rolls.next() else {
            return self.conclude_meeting(turn, first, group, Err(Status::ERROR));
        };
        let procs: Vec<Proc> =
            roll.procs.iter().map(|(name, rank)| Proc::new(name.as_str(), *rank)).collect();
        let secrets = roll.procs.iter().filter_map(|(name, _)| describe::secret_in(name));
        let assembly = Assembly {
            secrets: secrets.map(str::to_owned).collect(),
            timeout: roll.timeout.map(|seconds| Duration::from_secs(seconds.into())),
            is_whole: self.status_of(turn.job, &procs).is_success(),
            info: self.description_of(turn.job, &procs),
            effect: match key.split(' ').next() {
                Some("connect") => Effect::Connect,
                Some("disconnect") => Effect::Disconnect,
                _ => Effect::None,
            },
            key: key.clone(),
        };
        self.across_jobs.waiting.insert(key, (first, group, roll));
        self.meet(turn, mpd_connect::Input::Assembled(assembly));
    }

    /// The worlds of this job among these processes, for other jobs.
    fn description_of(&self, job: &Job, procs: &[Proc]) -> Vec<u8> {
        let numbers = procs.iter().filter_map(|proc| describe::number_of(job, &proc.namespace));
        let numbers: BTreeSet<u32> = numbers.collect();
        let infos = numbers.into_iter().filter_map(|number| self.info(job, number));
        compact::to_vec(&Description(infos.map(|info| Described::of(job, &info)).collect()))
    }

    /// Gives the machine an event. Only the root has a machine.
    pub(crate) fn meet(&mut self, turn: &Turn<'_>, input: mpd_connect::Input) {
        let begins =
            matches!(input, mpd_connect::Input::Assembled(_) | mpd_connect::Input::Passed(..));
        if !turn.job.is_root() || (self.across_jobs.machine.is_none() && !begins) {
            return;
        }
        let secret = || turn.job.order.key.pmix_secret();
        let machine = &mut self.across_jobs.machine;
        machine.get_or_insert_with(|| Pump::new(Meetings::new(secret()))).post(input);
    }

    /// Lets time pass for the machine.
    pub(super) fn expire_meetings(&mut self, turn: &Turn<'_>) {
        let Some(machine) = &mut self.across_jobs.machine else { return };
        if machine.machine().poll_timeout().is_some_and(|at| at <= turn.now()) {
            machine.handle_timeout(turn.now());
        }
    }

    /// The next output of the machine.
    pub(crate) fn next_of_meetings(&mut self, now: Time) -> Option<Output> {
        self.across_jobs.machine.as_mut()?.next(now)
    }

    /// Performs an output of the machine.
    pub(crate) fn perform_meeting(&mut self, turn: &mut Turn<'_>, output: Output) {
        match output {
            Output::Ask(request, operation) => {
                turn.send_to_daemon(ManagerReport::Meeting { request, operation });
            }
            Output::Met(key, outcome) => self.met(turn, &key, outcome),
            Output::Told(job, bytes) => self.told(turn, &job, &bytes),
            Output::Disconnected(job) => self.part(turn, &job, None),
            Output::Gone(job, ended) => self.job_ended(turn, job, ended),
        }
    }

    /// Handles the end of another job that ranks here met. The machine of this job decides whether it ends too.
    fn job_ended(&mut self, turn: &mut Turn<'_>, job: JobId, ended: Ended) {
        turn.log(Level::Info, format!("job {job} has ended, which ranks here met"));
        let Ended { failure, was_connected } = ended;
        self.part(turn, &job, Some(failure.is_some()));
        if let Some(Cause { code, text }) = failure.filter(|_| was_connected) {
            let problem = one_line(&text);
            turn.post(Input::ConnectedFailed { job, code, problem });
        }
    }

    fn met(
        &mut self,
        turn: &mut Turn<'_>,
        key: &str,
        outcome: Result<Vec<(JobId, Party)>, Failure>,
    ) {
        let Some((first, group, roll)) = self.across_jobs.waiting.remove(key) else { return };
        let outcome = match outcome {
            Ok(parties) => self.number_worlds(&roll, parties),
            Err(Failure::Unknown) => Err(Status::NOT_FOUND),
            Err(Failure::Lost) => Err(Status::LOST_CONNECTION),
            Err(Failure::Timeout) => Err(Status::TIMEOUT),
            Err(Failure::Full) => Err(Status::OUT_OF_RESOURCE),
        };
        self.conclude_meeting(turn, first, group, outcome);
    }

    /// Gives the worlds of the other jobs numbers. Success, or that some members do not live.
    fn number_worlds(
        &mut self,
        roll: &Roll,
        parties: Vec<(JobId, Party)>,
    ) -> Result<(Status, Vec<WorldInfo>), Status> {
        let mut status = Status::SUCCESS;
        let mut worlds = Vec::new();
        for (job, party) in parties {
            if !party.is_whole {
                status = Status::PARTIAL_SUCCESS;
            }
            let described = compact::from_slice::<Description>(party.info.as_bytes());
            let Description(described) = described.map_err(|_| Status::UNPACK_FAILURE)?;
            for world in described {
                let is_member = roll.procs.iter().any(|(name, _)| *name == world.namespace);
                let is_its = describe::secret_in(&world.namespace)
                    .is_some_and(|of| same_secret(of.as_bytes(), party.secret.as_bytes()));
                if !is_member || !is_its {
                    return Err(Status::BAD_PARAM);
                }
                let size = world.checked_size().ok_or(Status::BAD_PARAM)?;
                worlds.push(match self.number_again(&job, &world.namespace, size) {
                    Some(first) => world.numbered(&job, first),
                    None => world.numbered(&job, self.next_numbers(size)?),
                });
            }
        }
        let is_known = |name: &String| {
            let is_it = |world: &WorldInfo| {
                world.foreign.as_ref().is_some_and(|foreign| foreign.namespace == *name)
            };
            worlds.iter().any(is_it)
        };
        let secrets: BTreeSet<_> = worlds.iter().filter_map(secret_of).collect();
        let mut foreign = roll.procs.iter().map(|(name, _)| name);
        let is_foreign =
            |name: &str| describe::secret_in(name).is_some_and(|of| secrets.contains(of));
        match foreign.all(|name| !is_foreign(name) || is_known(name)) {
            true => Ok((status, worlds)),
            false => Err(Status::NOT_FOUND),
        }
    }

    /// The numbers of a world that is known already.
    fn number_again(&self, job: &JobId, namespace: &str, size: u32) -> Option<u32> {
        let is_it = |info: &&WorldInfo| {
            let foreign = info.foreign.as_ref();
            info.numbers.size == size
                && foreign.is_some_and(|of| of.job == *job && of.namespace == namespace)
        };
        Some(self.others.foreign.values().find(is_it)?.numbers.first.0)
    }

    fn next_numbers(&mut self, size: u32) -> Result<u32, Status> {
        let numbered = self.across_jobs.numbered;
        let after = numbered.checked_add(size).filter(|after| *after < FIRST_FOREIGN - 1);
        self.across_jobs.numbered = after.ok_or(Status::OUT_OF_RESOURCE)?;
        Ok(FIRST_FOREIGN + numbered)
    }

    /// Tells all hosts the outcome, and releases the members.
    fn conclude_meeting(
        &mut self,
        turn: &mut Turn<'_>,
        first: Rank,
        group: FenceGroup,
        outcome: Result<(Status, Vec<WorldInfo>), Status>,
    ) {
        let (status, worlds) = outcome.unwrap_or_else(|status| (status, Vec::new()));
        let message = PeerMessage::Met(first, group.clone(), status.0, worlds.clone());
        for frame in message.frames(Route::Shared) {
            pass_down(turn, &frame);
        }
        self.take_met(&group, status, worlds);
        turn.post(Input::Met(first, group));
    }

    // ----- all hosts -----

    /// Takes the outcome of a meeting.
    pub(super) fn take_met(&mut self, group: &FenceGroup, status: Status, worlds: Vec<WorldInfo>) {
        for info in worlds {
            self.add_foreign(info);
        }
        let collective = Collective::Group(group.clone());
        if self.collectives.waiting.contains_key(&collective)
            && self.collectives.met.len() < MAX_COLLECTIVES
        {
            self.collectives.met.insert(group.clone(), status);
        }
    }

    /// The job is no longer connected: `Some` if it has ended, and whether because of a failure. At the root.
    fn part(&mut self, turn: &mut Turn<'_>, job: &JobId, ended: Option<bool>) {
        let is_it = |info: &&WorldInfo| info.foreign.as_ref().is_some_and(|of| of.job == *job);
        let numbers = self.others.foreign.values().filter(is_it).map(|info| info.numbers.number);
        let numbers: Vec<u32> = numbers.collect();
        self.gets.forget_job(job);
        for number in numbers {
            for frame in PeerMessage::Parted(number, ended).frames(Route::Shared) {
                pass_down(turn, &frame);
            }
            self.take_parted(turn, number, ended);
        }
    }

    /// Forgets a world of another job.
    pub(super) fn take_parted(&mut self, turn: &mut Turn<'_>, number: u32, ended: Option<bool>) {
        let Some(info) = self.others.foreign.remove(&number) else { return };
        self.worlds_data.remove(&info.numbers.first);
        self.gets.asked.retain(|(rank, _)| !info.numbers.contains(*rank));
        if let Some(has_failed) = ended {
            self.report_end(turn, &info, has_failed);
        }
        self.review_gets(turn);
    }

    /// Clients that registered for it get events about the end of another job, and those that register later.
    /// The root orders them.
    fn report_end(&mut self, turn: &mut Turn<'_>, info: &WorldInfo, has_failed: bool) {
        let Some(foreign) = info.foreign.as_ref().filter(|_| turn.job.is_root()) else { return };
        let event = |status, key: &str, proc: Proc| pmix_proto::Event {
            status,
            source: proc.clone(),
            range: Range::Session,
            targets: Vec::new(),
            info: vec![Info::new(key, proc.value())],
        };
        let proc = |rank| Proc::new(foreign.namespace.as_str(), rank);
        let failed = if has_failed { info.numbers.size } else { 0 };
        let failed = (0..failed).take(MAX_RANK_EVENTS);
        let mut events: Vec<pmix_proto::Event> = failed
            .map(|rank| event(Status::ABORTED_BY_SIGNAL, "pmix.evproc", proc(rank)))
            .collect();
        events.push(event(Status::JOB_TERMINATED, "pmix.evaffected", proc(WILDCARD)));
        for event in events {
            self.order(turn, info.numbers.first, Notice { host: 0, has_default: false, event });
        }
    }

    // ----- data -----

    /// Requests data of a rank of another job from its root manager. At the root.
    pub(super) fn ask_job(&mut self, turn: &mut Turn<'_>, rank: Rank, key: &[u8]) {
        let is_it = |info: &&WorldInfo| info.numbers.contains(rank);
        let Some(info) = self.others.foreign.values().find(is_it) else { return };
        let Some(foreign) = &info.foreign else { return };
        let (namespace, rank) = (foreign.namespace.clone(), info.numbers.own(rank).0);
        let message = ForeignMessage::Ask { namespace, rank, key: key.into() };
        let job = foreign.job.clone();
        self.tell(turn, job, &message);
    }

    /// Answers the root manager of another job.
    pub(super) fn answer_job(
        &mut self,
        turn: &mut Turn<'_>,
        job: JobId,
        rank: Rank,
        key: &[u8],
        found: Found,
    ) {
        let Some(world) = self.known_of(turn.job, rank) else { return };
        let namespace = describe::namespace(turn.job, world.numbers.number);
        let (found, status) = match found {
            Ok(pairs) => (Some(peer_message::encoded(&pairs)[..].into()), Status::SUCCESS),
            Err(status) => (None, status),
        };
        let status = status.0;
        let rank = world.numbers.own(rank).0;
        let message = ForeignMessage::Answer { namespace, rank, key: key.into(), found, status };
        self.tell(turn, job, &message);
    }

    fn tell(&mut self, turn: &Turn<'_>, job: JobId, message: &ForeignMessage) {
        self.meet(turn, mpd_connect::Input::Tell(job, compact::to_vec(message)));
    }

    /// Takes a message of the root manager of a connected job.
    fn told(&mut self, turn: &mut Turn<'_>, job: &JobId, bytes: &[u8]) {
        match compact::from_slice(bytes) {
            Ok(ForeignMessage::Ask { namespace, rank, key }) => {
                let number = describe::number_of(turn.job, namespace.as_bytes());
                let world = number.and_then(|number| self.known(turn.job, number));
                let numbers = world.map(|world| world.numbers);
                if let Some(numbers) = numbers.filter(|numbers| rank < numbers.size) {
                    let rank = numbers.in_job(Rank(rank));
                    let requester = Requester::Job(job.clone());
                    return self.asked(turn, requester, rank, key.as_bytes().to_vec());
                }
                let (found, status) = (None, Status::NOT_FOUND.0);
                let message = ForeignMessage::Answer { namespace, rank, key, found, status };
                self.tell(turn, job.clone(), &message);
            }
            Ok(ForeignMessage::Answer { namespace, rank, key, found, status }) => {
                let is_it = |info: &&WorldInfo| {
                    let foreign = info.foreign.as_ref();
                    foreign.is_some_and(|of| of.job == *job && of.namespace == namespace)
                };
                let info = self.others.foreign.values().find(is_it);
                let Some(info) = info.filter(|info| rank < info.numbers.size) else { return };
                let rank = info.numbers.in_job(Rank(rank));
                let pairs = found.and_then(|found| peer_message::decoded(found.as_bytes()));
                let status = Some(Status(status)).filter(|status| !status.is_success());
                let found = pairs.ok_or(status.unwrap_or(Status::NOT_FOUND));
                let key = key.as_bytes().to_vec();
                self.take_answer(turn, rank, key, found);
            }
            Err(e) => turn.warn(format!("job {job} sends what makes no sense: {e}")),
        }
    }
}

/// The secret part of the namespaces of a world's job, if that is another job.
fn secret_of(world: &WorldInfo) -> Option<&str> {
    describe::secret_in(&world.foreign.as_ref()?.namespace)
}
