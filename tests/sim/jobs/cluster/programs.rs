//! Ranks that speak PMI-1 or PMIx: they put, fence and get through the machine of the clients of their host.

use std::rc::Rc;
use std::time::Duration;

use mpd_clients::{
    Accepted, Action, Client, Clients, ConnectionId, FromClient, FromJob, Input, Job, Level,
    LinkOutput, Output, World,
};
use mpd_job::manager::{Input as JobInput, LinkEnd, Output as JobOutput};
use mpd_sansio::Time;
use mpd_wire::job::{Argset, Bytes, Cookie, HostSlices, JobKey, JobSpec, RankEnd};
use mpd_wire::message::{Down, HostLimits, StartJob, TreeKind, Up};
use mpd_wire::{JobId, Rank};

use super::links::Message;
use super::{Cluster, Pmi};
use crate::dialect::{Dialect, Heard, Words};
use crate::host_facts;

/// The time after which a get of PMIx ends.
const LONGEST_GET: Duration = Duration::from_secs(600);

/// The clients of one host, and the job as its manager knows it.
#[derive(Debug)]
pub(crate) struct Speakers {
    clients: Clients,
    job: Job,
    dialect: Dialect,
}

/// The program of a rank: init, then puts, fences and gets, finalize, exit.
#[derive(Debug, Default)]
pub(crate) struct Program {
    next: Step,
    /// How many fences it has left behind.
    round: u32,
    /// What it has said without an answer yet, and when.
    said: Option<(Time, Words)>,
    /// Bytes of an incomplete answer.
    unread: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Init,
    Put,
    Fence,
    Get,
    Finalize,
    Exit(u8),
}

impl Program {
    pub(super) const fn waits(&self) -> bool {
        self.said.is_some()
    }
}

impl Speakers {
    pub(super) fn new(
        (host_slices, tree_index): (&HostSlices, usize),
        size: u32,
        dialect: Dialect,
    ) -> Self {
        let argset = Argset {
            size,
            program: b"./rank".into(),
            directory: b"/work".into(),
            search: b"/bin".into(),
            umask: 0o22,
            ..Argset::default()
        };
        let (argsets, environments) = (vec![argset], vec![Vec::new()]);
        let spec = Rc::new(JobSpec { argsets, environments, ..JobSpec::default() });
        let order = StartJob {
            job: JobId::new(1, "h0").expect("a job"),
            cookie: Cookie::from_bytes([1; 16]),
            kvsname: "kvs".to_owned(),
            host: format!("h{tree_index}"),
            cgroup: None,
            rundir: None,
            tmpdir: "/tmp".to_owned(),
            key: JobKey::from_bytes([2; 32]),
            host_slices: host_slices.clone(),
            universe: Some(size),
            limits: HostLimits::default(),
            tree_index: u32::try_from(tree_index).expect("a host"),
            spec_bytes: 0,
            adopts: false,
            notices: Vec::new(),
            spans: Vec::new(),
        };
        let world = World::of_job(&spec, &order);
        let job = Job::new(spec, order, world, host_facts::of_host(1, "x86_64"));
        Self { clients: Clients::new(&job), job, dialect }
    }

    fn id_of(&self, rank: Rank) -> ConnectionId {
        match self.dialect {
            Dialect::Pmi | Dialect::Pmi2 => ConnectionId::Pmi(rank),
            Dialect::Pmix => ConnectionId::Pmix(rank.index()),
        }
    }

    /// The namespace of the world, or its key-value space.
    fn space(&self) -> String {
        match self.dialect {
            Dialect::Pmi | Dialect::Pmi2 => self.job.order.kvsname.clone(),
            Dialect::Pmix => format!("mpd-{}-0", self.job.pmix_secret),
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.clients.poll_timeout()
    }
}

impl Cluster {
    /// The ranks of the first world speak.
    pub(crate) fn with_programs(mut self, dialect: Dialect) -> Self {
        for (tree_index, host) in self.hosts.iter_mut().enumerate() {
            host.speakers =
                Some(Speakers::new((&self.host_slices, tree_index), self.size, dialect));
        }
        self
    }

    // ----- the machine of the clients -----

    /// Gives the machine of a host an input, if ranks speak.
    pub(super) fn give(&mut self, tree_index: usize, input: Input<'_>) {
        let now = self.now;
        let host = &mut self.hosts[tree_index];
        let Some(speakers) = host.speakers.as_mut().filter(|_| host.alive) else { return };
        speakers.clients.handle(now, &speakers.job, input);
        self.take_from_clients(tree_index);
    }

    fn take_from_clients(&mut self, tree_index: usize) {
        let next =
            |cluster: &mut Self| cluster.hosts[tree_index].speakers.as_mut()?.clients.poll_output();
        let outputs: Vec<Output> = std::iter::from_fn(|| next(self)).collect();
        for output in outputs {
            self.perform_of_clients(tree_index, output);
        }
    }

    pub(super) fn expire_clients(&mut self, tree_index: usize) {
        let now = self.now;
        if let Some(speakers) = &mut self.hosts[tree_index].speakers {
            speakers.clients.handle_timeout(now, &speakers.job);
            self.take_from_clients(tree_index);
        }
    }

    fn perform_of_clients(&mut self, tree_index: usize, output: Output) {
        match output {
            Output::Job(input) => {
                self.note_pmi(tree_index, &input);
                self.post(tree_index, input);
            }
            Output::Links(LinkOutput::Up(up)) => self.send_to_parent(tree_index, up),
            Output::Links(LinkOutput::DownNow(tree_indices, down)) => {
                self.send_down(tree_indices, &down);
            }
            Output::Links(LinkOutput::Bytes(LinkEnd::Parent, kind, bytes)) => {
                let host = &mut self.hosts[tree_index];
                if host.linked {
                    host.to_parent.push_back(Message::OfClients(kind, bytes));
                }
            }
            Output::Links(LinkOutput::Bytes(LinkEnd::Child(child), kind, bytes)) => {
                let child = &mut self.hosts[child];
                if child.linked {
                    child.from_parent.push_back(Message::OfClients(kind, bytes));
                }
            }
            Output::Speaks
            | Output::Aborts(_)
            | Output::Signal(..)
            | Output::FenceBegins
            | Output::FenceEnds
            | Output::Act(
                Action::MakeDirectory(_) | Action::Close(_) | Action::Log(Level::Debug, _),
            ) => {}
            output => panic!("h{tree_index}: {output:?}"),
        }
    }

    /// The machine of a host performs an output of the job's machine. Returns others, and all if ranks do not speak.
    pub(super) fn perform_by_clients(
        &mut self,
        tree_index: usize,
        output: JobOutput,
    ) -> Option<JobOutput> {
        let event = match output {
            output if self.hosts[tree_index].speakers.is_none() => return Some(output),
            JobOutput::ToParent(entered @ Up::Entered { .. }) => FromJob::Entered(entered),
            JobOutput::ToSome(tree_indices, release @ Down::Release { first }) => {
                FromJob::ReleaseChildren(tree_indices, first, release)
            }
            JobOutput::Dead(rank) => FromJob::Dead(rank),
            output => return Some(output),
        };
        self.give(tree_index, Input::Job(event));
        None
    }

    /// The machine of a host takes bytes of a neighbour.
    pub(super) fn give_bytes(
        &mut self,
        tree_index: usize,
        from: LinkEnd,
        (kind, bytes): (TreeKind, Bytes),
    ) {
        let input = match kind {
            TreeKind::Keys => Input::Keys(from, bytes),
            TreeKind::Pmix => Input::Piece(from, bytes),
            other => panic!("{other:?} is not for clients"),
        };
        self.give(tree_index, input);
    }

    fn note_pmi(&mut self, tree_index: usize, input: &JobInput) {
        let (rank, pmi) = match input {
            JobInput::Initialized(rank) => (rank, Pmi::Initialized),
            JobInput::Finalized(rank) => (rank, Pmi::Finalized),
            _ => return,
        };
        let process = self.hosts[tree_index].processes.get_mut(&rank.0);
        process.expect("it speaks").pmi = pmi;
    }

    pub(super) fn send_to_parent(&mut self, tree_index: usize, up: Up) {
        self.entries += usize::from(matches!(up, Up::Entered { .. }));
        let host = &mut self.hosts[tree_index];
        if host.linked {
            host.to_parent.push_back(Message::Control(up));
        }
    }

    /// Writes all answers.
    pub(super) fn write_answers(&mut self, tree_index: usize) {
        while let Some(speakers) = &mut self.hosts[tree_index].speakers
            && let Some(id) = speakers.clients.next_answering()
        {
            let rank = match id {
                ConnectionId::Pmi(rank) => rank,
                ConnectionId::Pmix(number) => Rank(u32::try_from(number).expect("a rank")),
            };
            self.give(tree_index, Input::Client(id, FromClient::Writing));
            self.write_to(tree_index, rank);
        }
    }

    /// Writes the answers of a client, which may accept only a part at a time.
    fn write_to(&mut self, tree_index: usize, rank: Rank) {
        let Some(speakers) = &mut self.hosts[tree_index].speakers else { return };
        let id = speakers.id_of(rank);
        let bytes = speakers.clients.output(id).to_vec();
        let some = self.dice.below(bytes.len() + 1);
        let accepted = if self.dice.one_in(8) { some } else { bytes.len() };
        speakers.clients.consume(id, accepted);
        if accepted < bytes.len() {
            speakers.clients.note_writable(id);
        }
        self.hear(tree_index, rank, &bytes[..accepted]);
        self.give(tree_index, Input::Client(id, FromClient::Written));
    }

    // ----- the programs -----

    /// The process of a rank begins.
    pub(super) fn begin_program(&mut self, tree_index: usize, rank: Rank) {
        self.give(tree_index, Input::Connected(rank, Client::Program));
    }

    /// The process of a rank has ended.
    pub(super) fn end_program(&mut self, tree_index: usize, rank: Rank) {
        if let Some(speakers) = &self.hosts[tree_index].speakers {
            let id = speakers.id_of(rank);
            self.give(tree_index, Input::Client(id, FromClient::Closed));
            self.give(tree_index, Input::Job(FromJob::Ended(rank)));
        }
    }

    /// A rank does its next step.
    pub(super) fn run_program(&mut self, tree_index: usize, rank: Rank) {
        let (aborts, collects) = (self.dice.one_in(400), self.dice.one_in(2));
        let peer = Rank(u32::try_from(self.dice.below(self.size as usize)).expect("a rank"));
        let process = self.hosts[tree_index].processes.get_mut(&rank.0).expect("it runs");
        let (program, fences) = (&mut process.program, process.fences);
        let round = program.round;
        let (words, next) = match program.next {
            Step::Put | Step::Fence | Step::Get if aborts => (Words::Abort, Step::Exit(5)),
            Step::Init => (Words::Init, if fences > 0 { Step::Put } else { Step::Finalize }),
            Step::Put => {
                let value = format!("value{:06}", self.puts.len());
                self.puts.insert((rank.0, round), value.clone());
                (Words::Put(format!("r{rank}-{round}"), value), Step::Fence)
            }
            Step::Fence => {
                process.inside = true;
                (Words::Fence(collects), Step::Get)
            }
            Step::Get => {
                program.round += 1;
                process.fences -= 1;
                let next = if process.fences > 0 { Step::Put } else { Step::Finalize };
                (Words::Get(peer, format!("r{peer}-{round}")), next)
            }
            Step::Finalize => (Words::Finalize, Step::Exit(0)),
            Step::Exit(code) => return self.end(tree_index, rank, RankEnd::Exited(code)),
        };
        program.next = next;
        if let Some(lines) = &mut self.lines {
            lines.push(format!("rank {rank}: {words:?}"));
        }
        program.said = Some((self.now, words.clone())).filter(|(_, words)| *words != Words::Abort);
        self.say(tree_index, rank, &words);
    }

    /// A rank writes its words, in one piece or in two.
    fn say(&mut self, tree_index: usize, rank: Rank, words: &Words) {
        let Some(speakers) = &self.hosts[tree_index].speakers else { return };
        let (id, space) = (speakers.id_of(rank), speakers.space());
        let bytes = speakers.dialect.write(words, rank, &space);
        if let (Words::Init, ConnectionId::Pmix(number)) = (words, id) {
            let accepted = Accepted { own: vec![number], ..Accepted::default() };
            self.give(tree_index, Input::Accepted(accepted));
        }
        let at = if self.dice.one_in(8) { self.dice.below(bytes.len()) } else { 0 };
        let (head, tail) = bytes.split_at(at);
        for piece in [head, tail] {
            self.give(tree_index, Input::Client(id, FromClient::Received(piece)));
        }
        // The owner writes at once, because the kernel wakes a client when its request is read.
        self.write_to(tree_index, rank);
    }

    /// A rank reads bytes.
    fn hear(&mut self, tree_index: usize, rank: Rank, bytes: &[u8]) {
        let host = &mut self.hosts[tree_index];
        let dialect = host.speakers.as_ref().expect("its rank speaks").dialect;
        let process = host.processes.get_mut(&rank.0).expect("it has run");
        if process.end.is_some() || bytes.is_empty() {
            return;
        }
        let program = &mut process.program;
        program.unread.extend_from_slice(bytes);
        let aborted = matches!(program.next, Step::Exit(code) if code > 0);
        let Some((since, words)) = program.said.take() else {
            assert!(aborted, "rank {rank} has not asked: {}", bytes.escape_ascii());
            return;
        };
        let Some(heard) = dialect.read(&mut program.unread, &words) else {
            program.said = Some((since, words));
            return;
        };
        assert!(program.unread.is_empty(), "rank {rank}: a second answer to {words:?}");
        process.inside &= !matches!(words, Words::Fence(_));
        match words {
            Words::Get(..) if heard == Heard::TimedOut => {
                assert!(self.now - since >= LONGEST_GET, "{words:?}");
            }
            Words::Get(peer, key) => self.check_value((peer, &key), &heard),
            words => assert_eq!(heard, Heard::Done, "{words:?}"),
        }
    }

    /// A rank that waits for a value while no event is possible, if no host is lost.
    pub(crate) fn waits_in_vain(&self) -> Option<(u32, &Program)> {
        let is_lost = (0..self.hosts.len()).any(|tree_index| self.is_out_of_reach(tree_index));
        let hosts = self.hosts.iter().filter(|host| host.alive && !is_lost);
        let processes = hosts.flat_map(|host| &host.processes);
        let programs = processes.filter(|(_, process)| process.end.is_none());
        let mut programs = programs.map(|(rank, process)| (*rank, &process.program));
        programs.find(|(_, program)| matches!(program.said, Some((_, Words::Get(..)))))
    }

    /// The answer to a get is the value that was put. It may be missing if the rank that has put it is gone.
    fn check_value(&self, (peer, key): (Rank, &str), heard: &Heard) {
        let round = key.rsplit('-').next().and_then(|round| round.parse().ok()).expect("a round");
        let put = self.puts.get(&(peer.0, round)).map(String::as_bytes);
        if let Heard::Found(bytes) = heard {
            let put = put.unwrap_or_else(|| panic!("{key} was not put"));
            let has_put = bytes.windows(put.len()).any(|part| part == put);
            return assert!(has_put, "{key}: {}", bytes.escape_ascii());
        }
        let at = self.host_slices.tree_index_of_rank(peer).expect("a rank of the job");
        let process = self.hosts[at].processes.get(&peer.0);
        let is_gone = process.is_none_or(|process| process.end.is_some());
        let is_lost = (0..self.hosts.len()).any(|tree_index| self.is_out_of_reach(tree_index));
        assert!(is_gone || is_lost, "rank {peer} has put {key}: {heard:?}");
    }
}
