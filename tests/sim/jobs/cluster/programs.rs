//! Ranks that speak PMI-1: they put, fence and get through the machine of the clients of their host.

use std::rc::Rc;

use mpd_clients::{
    Client, Clients, ConnectionId, FromClient, FromJob, HostFacts, Input, Job, Level, LinkOutput,
    Output, World,
};
use mpd_job::manager::{Input as JobInput, LinkEnd, Output as JobOutput};
use mpd_placement::locality::Topology;
use mpd_wire::job::{Argset, Bytes, Cookie, HostSlices, JobKey, JobSpec, RankEnd};
use mpd_wire::message::{Down, HostLimits, StartJob, TreeKind, Up};
use mpd_wire::{JobId, Rank};

use super::{Cluster, Message, Pmi};

/// The clients of one host, and the job as its manager knows it.
#[derive(Debug)]
pub(crate) struct Speakers {
    clients: Clients,
    job: Job,
}

#[derive(Debug)]
struct Facts(Topology);

impl HostFacts for Facts {
    fn topology(&self) -> &Topology {
        &self.0
    }

    fn cpus(&self) -> u32 {
        1
    }

    fn user(&self) -> u32 {
        1000
    }
}

/// The program of a rank: init, then puts, fences and gets, finalize, exit.
#[derive(Debug, Default)]
pub(crate) struct Program {
    next: Step,
    /// How many fences it has left.
    round: u32,
    /// The answer that it waits for.
    expects: Option<Expected>,
    /// Bytes of an incomplete line.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// A line that begins like this.
    Line(&'static str),
    /// The value that this rank has put in this round.
    Value(u32, u32),
}

impl Program {
    pub(super) const fn waits(&self) -> bool {
        self.expects.is_some()
    }
}

impl Speakers {
    pub(super) fn new(host_slices: &HostSlices, tree_index: usize, size: u32) -> Self {
        let argset = Argset {
            size,
            program: b"./rank".into(),
            args: Vec::new(),
            substitute: false,
            environment: 0,
            directory: b"/work".into(),
            search: b"/bin".into(),
            umask: 0o22,
            limits: Vec::new(),
            hosts: None,
            pty: None,
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
        let job = Job::new(spec, order, world, Rc::new(Facts(Topology::new(Vec::new()))));
        Self { clients: Clients::new(&job), job }
    }

    pub(super) fn poll_timeout(&self) -> Option<mpd_machine::Time> {
        self.clients.poll_timeout()
    }
}

impl Cluster {
    /// The ranks of the first world speak PMI-1.
    pub(crate) fn with_programs(mut self) -> Self {
        for (tree_index, host) in self.hosts.iter_mut().enumerate() {
            host.speakers = Some(Speakers::new(&self.host_slices, tree_index, self.size));
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
            | Output::Log(Level::Debug, _) => {}
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
            && let Some(ConnectionId::Pmi(rank)) = speakers.clients.next_answering()
        {
            self.give(tree_index, Input::Client(ConnectionId::Pmi(rank), FromClient::Writing));
            self.write_to(tree_index, rank);
        }
    }

    /// Writes the answers of a client, which may accept only a part at a time.
    fn write_to(&mut self, tree_index: usize, rank: Rank) {
        let Some(speakers) = &mut self.hosts[tree_index].speakers else { return };
        let id = ConnectionId::Pmi(rank);
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
        let id = ConnectionId::Pmi(rank);
        self.give(tree_index, Input::Client(id, FromClient::Closed));
        self.give(tree_index, Input::Job(FromJob::Ended(rank)));
    }

    /// A rank does its next step.
    pub(super) fn run_program(&mut self, tree_index: usize, rank: Rank) {
        let aborts = self.dice.one_in(400);
        let (peer, size) = (self.dice.below(self.size as usize), self.size);
        let process = self.hosts[tree_index].processes.get_mut(&rank.0).expect("it runs");
        let (program, fences) = (&mut process.program, process.fences);
        if aborts && matches!(program.next, Step::Put | Step::Fence | Step::Get) {
            program.next = Step::Exit(5);
            return self.say(tree_index, rank, "cmd=abort exitcode=5\n");
        }
        let round = program.round;
        let (line, expected, next) = match program.next {
            Step::Init => {
                let next = if fences > 0 { Step::Put } else { Step::Finalize };
                let line = "cmd=init pmi_version=1 pmi_subversion=1\n".to_owned();
                (line, Expected::Line("cmd=response_to_init "), next)
            }
            Step::Put => {
                let value = format!("v{}", self.puts.len());
                let line = format!("cmd=put kvsname=kvs key=r{rank}-{round} value={value}\n");
                self.puts.insert((rank.0, round), value);
                (line, Expected::Line("cmd=put_result rc=0"), Step::Fence)
            }
            Step::Fence => {
                process.inside = true;
                ("cmd=barrier_in\n".to_owned(), Expected::Line("cmd=barrier_out"), Step::Get)
            }
            Step::Get => {
                program.round += 1;
                process.fences -= 1;
                let next = if process.fences > 0 { Step::Put } else { Step::Finalize };
                let peer = u32::try_from(peer).expect("a rank") % size;
                let line = format!("cmd=get kvsname=kvs key=r{peer}-{round}\n");
                (line, Expected::Value(peer, round), next)
            }
            Step::Finalize => {
                let line = "cmd=finalize\n".to_owned();
                (line, Expected::Line("cmd=finalize_ack"), Step::Exit(0))
            }
            Step::Exit(code) => return self.end(tree_index, rank, RankEnd::Exited(code)),
        };
        program.next = next;
        program.expects = Some(expected);
        self.say(tree_index, rank, &line);
    }

    /// A rank writes a line, in one piece or in two.
    fn say(&mut self, tree_index: usize, rank: Rank, line: &str) {
        let at = if self.dice.one_in(8) { self.dice.below(line.len()) } else { 0 };
        let (head, tail) = line.as_bytes().split_at(at);
        for piece in [head, tail] {
            let received = FromClient::Received(piece);
            self.give(tree_index, Input::Client(ConnectionId::Pmi(rank), received));
        }
        // The owner writes at once, because the kernel wakes a client when its request is read.
        self.write_to(tree_index, rank);
    }

    /// A rank reads bytes.
    fn hear(&mut self, tree_index: usize, rank: Rank, bytes: &[u8]) {
        let process = self.hosts[tree_index].processes.get_mut(&rank.0).expect("it has run");
        if process.end.is_some() {
            return;
        }
        process.program.unread.extend_from_slice(bytes);
        while let process = self.hosts[tree_index].processes.get_mut(&rank.0).expect("it runs")
            && let Some(end) = process.program.unread.iter().position(|byte| *byte == b'\n')
        {
            let line: Vec<u8> = process.program.unread.drain(..=end).collect();
            let line = String::from_utf8(line).expect("a text");
            let expected = process.program.expects.take();
            let expected = expected.unwrap_or_else(|| panic!("rank {rank} has not asked: {line}"));
            process.inside &= expected != Expected::Line("cmd=barrier_out");
            match expected {
                Expected::Line(begin) => assert!(line.starts_with(begin), "rank {rank}: {line}"),
                Expected::Value(peer, round) => self.check_value((peer, round), line.trim()),
            }
        }
    }

    /// The answer to a get is the value that was put. It may be missing if the rank that has put it is gone.
    fn check_value(&self, (peer, round): (u32, u32), line: &str) {
        let value = line.strip_prefix("cmd=get_result rc=0 msg=success value=");
        if value.is_some() {
            return assert_eq!(value, self.puts.get(&(peer, round)).map(String::as_str));
        }
        assert!(line.starts_with("cmd=get_result rc=-1 msg=key_"), "{line}");
        let at = self.host_slices.tree_index_of_rank(Rank(peer)).expect("a rank of the job");
        let process = self.hosts[at].processes.get(&peer);
        let is_gone = process.is_none_or(|process| process.end.is_some());
        let is_lost = (0..self.hosts.len()).any(|tree_index| self.is_out_of_reach(tree_index));
        assert!(is_gone || is_lost, "rank {peer} has put in round {round}: {line}");
    }
}
