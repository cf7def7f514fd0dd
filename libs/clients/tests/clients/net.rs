//! Hosts of one job, each with a rank: their machines are connected, and fences end when all ranks have entered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mpd_job::manager::spawns::Announced;
use mpd_job::manager::{Input as JobInput, LinkEnd};
use mpd_sansio::Time;
use mpd_wire::job::{Parts, World as Numbers};
use mpd_wire::message::{Down, FenceGroup, ManagerReport, TreeKind, Up};
use mpd_wire::{Rank, RankSet};
use pmix_proto::connect::Introduction;
use pmix_proto::encoding::Encoding;
use pmix_proto::message::{Reply, Request};
use pmix_proto::transport::{HEADER, Header};
use pmix_proto::view::Proc;

use crate::fixture;
use mpd_clients::Job;
use mpd_clients::Room;
use mpd_clients::{Accepted, FromClient, FromJob, Input};
use mpd_clients::{Action, LinkOutput, Output};
use mpd_clients::{Caller, Clients};
use mpd_clients::{Client, ConnectionId};

/// The library of the clients.
#[derive(Clone, Copy)]
pub(super) struct Library {
    release: [u32; 3],
    encoding: Encoding,
    /// The name of the encoding in a connect message.
    name: &'static str,
}

/// The PMIx of Open MPI 5.
pub(super) const PMIX_5: Library =
    Library { release: [5, 0, 11], encoding: Encoding::Flexible, name: "v41" };
/// The PMIx of Open MPI 4.1.
pub(super) const PMIX_3: Library =
    Library { release: [3, 2, 2], encoding: Encoding::Fixed, name: "v3" };

/// Two hosts with a rank each. A host and its rank have the same number.
pub(super) struct Net {
    library: Library,
    hosts: [Host; 2],
    now: Time,
    entered: BTreeSet<Rank>,
    /// The ranks that wait in each fence of a group of both ranks.
    pub(super) groups: BTreeMap<FenceGroup, BTreeSet<Rank>>,
    /// The last client that wants further processes.
    pub(super) spawner: Option<Caller>,
    /// Pieces of data of PMIx clients that went over the link.
    pub(super) pieces: usize,
    /// All bytes of clients and all outputs, as lines.
    log: Vec<String>,
}

struct Host {
    job: Job,
    clients: Clients,
    /// Bytes for each PMIx connection that are not read.
    unread: BTreeMap<usize, Vec<u8>>,
    /// Bytes for the PMI client.
    lines: Vec<u8>,
    /// The command of each request, by its tag.
    commands: BTreeMap<u32, u8>,
    outputs: Vec<String>,
}

impl Net {
    pub(super) fn new() -> Self {
        Self::of(PMIX_5)
    }

    pub(super) fn of(library: Library) -> Self {
        let host = |tree_index| {
            let mut job = fixture::job_on_two_hosts();
            job.order.tree_index = tree_index;
            let world = mpd_clients::World::of_job(&job.spec, &job.order);
            job.worlds.insert(world);
            let clients = Clients::new(&job);
            let (unread, commands) = (BTreeMap::new(), BTreeMap::new());
            let (lines, outputs) = (Vec::new(), Vec::new());
            Host { job, clients, unread, lines, commands, outputs }
        };
        let mut net = Self {
            library,
            hosts: [host(0), host(1)],
            now: Time::ZERO,
            entered: BTreeSet::new(),
            groups: BTreeMap::new(),
            spawner: None,
            pieces: 0,
            log: Vec::new(),
        };
        for at in [0, 1] {
            net.give(at, Input::Connected(rank(at), Client::Program));
        }
        net
    }

    /// The same, with a connected PMIx client for each rank.
    pub(super) fn with_clients() -> Self {
        let mut net = Self::new();
        for at in [0, 1] {
            assert_eq!(net.connect(at, 7), [0; 4], "rank {at} is admitted");
            net.outputs(at);
        }
        net
    }

    /// A world of two ranks on the first host, which the process of its rank has spawned.
    pub(super) fn announce(&mut self) {
        let world = Numbers { number: 1, first: Rank(2), size: 2 };
        let parts = Parts(vec![(0, world.ranks())]);
        let job = &mut self.hosts[0].job;
        let announced = Announced { world, parts, order: None };
        let world = mpd_clients::World::announced(announced, (&job.spec, &job.order));
        job.worlds.insert(world);
    }

    /// A comment in the log.
    pub(super) fn note(&mut self, text: &str) {
        self.log.push(format!("# {text}"));
    }

    pub(super) fn log(&self) -> String {
        self.log.join("\n") + "\n"
    }

    pub(super) fn proc(&self, at: usize) -> Proc {
        Proc::new(format!("mpd-{}-0", self.hosts[0].job.pmix_secret), rank(at).0)
    }

    pub(super) fn all(&self) -> Proc {
        Proc::all(format!("mpd-{}-0", self.hosts[0].job.pmix_secret))
    }

    // ----- clients -----

    /// A PMIx connection of that number introduces itself as the rank of a host.
    pub(super) fn introduce(&mut self, at: usize, number: usize) {
        let Proc { namespace, rank } = self.proc(at);
        let introduction = Introduction {
            security: b"native".into(),
            user: Some((fixture::USER, 1)),
            role: 0,
            namespace,
            rank,
            version: self.library.release.map(|number| number.to_string()).join(".").into(),
            encoding: self.library.name.into(),
            buffers: 1,
            store: b"hash".into(),
        };
        let payload = introduction.write();
        let length = u32::try_from(payload.len()).unwrap();
        let header = [u32::MAX, u32::MAX, length, 0].map(u32::to_ne_bytes).concat();
        self.give(at, Input::Accepted(Accepted { own: vec![number], ..Accepted::default() }));
        self.receive(at, ConnectionId::Pmix(number), &[header, payload].concat());
    }

    /// The status of the answer to an introduction.
    pub(super) fn connect(&mut self, at: usize, number: usize) -> Vec<u8> {
        self.introduce(at, number);
        self.status(at, number)
    }

    pub(super) fn status(&mut self, at: usize, number: usize) -> Vec<u8> {
        let answer = self.hosts[at].unread.remove(&number).unwrap_or_default();
        answer.into_iter().take(4).collect()
    }

    /// The client of a host sends a request.
    pub(super) fn ask(&mut self, at: usize, tag: u32, request: &Request) {
        let payload = request.write(self.library.encoding);
        let length = u32::try_from(payload.len()).unwrap();
        let header = Header { index: 0, tag, length }.write();
        self.hosts[at].commands.insert(tag, request.command());
        self.receive(at, ConnectionId::Pmix(7), &[&header[..], &payload].concat());
    }

    /// The replies to the client of a host, by tag.
    pub(super) fn replies(&mut self, at: usize) -> Vec<(u32, Reply)> {
        let Library { release, encoding, .. } = self.library;
        let host = &mut self.hosts[at];
        let bytes = host.unread.remove(&7).unwrap_or_default();
        let (mut rest, mut replies) = (&bytes[..], Vec::new());
        while let Some((header, after)) = rest.split_first_chunk::<HEADER>() {
            let header = Header::read(*header);
            let (payload, after) = after.split_at(header.length as usize);
            // An event is no reply.
            if let Some(command) = host.commands.get(&header.tag) {
                let reply = Reply::read(encoding, *command, release, payload).unwrap();
                replies.push((header.tag, reply));
            } else {
                replies.push((header.tag, Reply::Data(vec![payload.to_vec()])));
            }
            rest = after;
        }
        replies
    }

    /// The PMI client of a host sends a line. Returns the answer, if there is one.
    pub(super) fn line(&mut self, at: usize, line: &str) -> String {
        self.receive(at, ConnectionId::Pmi(rank(at)), format!("{line}\n").as_bytes());
        String::from_utf8(std::mem::take(&mut self.hosts[at].lines)).unwrap()
    }

    fn receive(&mut self, at: usize, id: ConnectionId, bytes: &[u8]) {
        self.log.push(format!("> {at} {}", bytes.escape_ascii()));
        self.give(at, Input::Client(id, FromClient::Received(bytes)));
    }

    // ----- machines -----

    pub(super) fn give(&mut self, at: usize, input: Input<'_>) {
        let host = &mut self.hosts[at];
        host.clients.handle(self.now, &host.job, input);
        self.perform(at);
        self.write(at);
        if self.entered.len() == self.hosts.len() {
            self.entered.clear();
            self.release();
        }
        let full = self.groups.extract_if(.., |_, ranks| ranks.len() == 2).next();
        if let Some((group, ranks)) = full {
            let ranks = RankSet::from_ranges(ranks.iter().map(|rank| (rank.0, rank.0)).collect());
            self.release_group(&group, ranks);
        }
    }

    /// Texts and events of a host may be sent now.
    pub(super) fn give_room(&mut self, at: usize) {
        self.hosts[at].clients.set_room(Room { texts: 1 << 20, events: 1 << 20 });
    }

    /// Time passes on all hosts.
    pub(super) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        for at in [0, 1] {
            let host = &mut self.hosts[at];
            host.clients.handle_timeout(self.now, &host.job);
            self.perform(at);
            self.write(at);
        }
    }

    /// What the machine of a host had performed, except for data on links.
    pub(super) fn outputs(&mut self, at: usize) -> Vec<String> {
        std::mem::take(&mut self.hosts[at].outputs)
    }

    fn perform(&mut self, at: usize) {
        let clients = &mut self.hosts[at].clients;
        let outputs: Vec<Output> = std::iter::from_fn(|| clients.poll_output()).collect();
        for output in outputs {
            match &output {
                Output::Links(LinkOutput::Bytes(_, kind, bytes)) => {
                    self.log.push(format!("~ {at} {kind:?} {}", bytes.escape_ascii()));
                }
                output => self.log.push(format!("= {at} {}", text_of(output))),
            }
            match output {
                Output::Links(LinkOutput::Bytes(_, kind, bytes)) => {
                    let from = if at == 0 { LinkEnd::Parent } else { LinkEnd::Child(1) };
                    self.pieces += usize::from(kind == TreeKind::Pmix);
                    self.give(
                        1 - at,
                        match kind {
                            TreeKind::Pmix => Input::Piece(from, bytes),
                            _ => Input::Keys(from, bytes),
                        },
                    );
                }
                Output::Links(_) | Output::FenceBegins | Output::FenceEnds => {}
                Output::Act(Action::Log(..)) => {}
                Output::Job(JobInput::EnteredFence(rank)) => drop(self.entered.insert(rank)),
                Output::Job(JobInput::EnteredGroup(rank, group)) => {
                    self.groups.entry(group).or_default().insert(rank);
                }
                Output::Daemon(ManagerReport::Name { request, operation }) => {
                    let name = operation.name().clone();
                    self.hosts[at].outputs.push(format!("name {request} {name}"));
                }
                output => {
                    if let Output::Spawn(caller, _) = &output {
                        self.spawner = Some(*caller);
                    }
                    self.hosts[at].outputs.push(text_of(&output));
                }
            }
        }
    }

    fn write(&mut self, at: usize) {
        for id in [ConnectionId::Pmi(rank(at)), ConnectionId::Pmix(7), ConnectionId::Pmix(8)] {
            self.write_to(at, id);
        }
        while let Some(id) = self.hosts[at].clients.next_answering() {
            let host = &mut self.hosts[at];
            host.clients.handle(self.now, &host.job, Input::Client(id, FromClient::Writing));
            self.perform(at);
            self.write_to(at, id);
        }
    }

    fn write_to(&mut self, at: usize, id: ConnectionId) {
        let host = &mut self.hosts[at];
        let bytes = host.clients.output(id).to_vec();
        host.clients.consume(id, bytes.len());
        if !bytes.is_empty() {
            self.log.push(format!("< {at} {}", bytes.escape_ascii()));
        }
        match id {
            ConnectionId::Pmi(_) => host.lines.extend(bytes),
            ConnectionId::Pmix(number) => host.unread.entry(number).or_default().extend(bytes),
        }
        host.clients.handle(self.now, &host.job, Input::Client(id, FromClient::Written));
        self.perform(at);
    }

    /// All members of a group have arrived.
    fn release_group(&mut self, group: &FenceGroup, ranks: RankSet) {
        let (first, group) = (Rank(0), group.clone());
        let entered = Up::EnteredGroup { ranks, group: group.clone() };
        self.give(1, Input::Job(FromJob::Entered(entered)));
        let release = Down::ReleaseGroup { first, group: group.clone() };
        self.give(0, Input::Job(FromJob::ReleaseChildren(vec![1], first, release)));
        for at in [0, 1] {
            self.give(at, Input::Job(FromJob::ReleaseGroup(first, group.clone())));
        }
    }

    /// All ranks have entered the fence of their world.
    fn release(&mut self) {
        let first = Rank(0);
        let ranks = RankSet::from_ranges(vec![(1, 1)]);
        self.give(1, Input::Job(FromJob::Entered(Up::Entered { ranks })));
        let release = Down::Release { first };
        self.give(0, Input::Job(FromJob::ReleaseChildren(vec![1], first, release)));
        for at in [0, 1] {
            self.give(at, Input::Job(FromJob::ReleaseFence(first)));
        }
    }
}

pub(super) fn rank(at: usize) -> Rank {
    Rank(u32::try_from(at).unwrap())
}

/// An output, as transcripts show it.
pub(super) fn text_of(output: &Output) -> String {
    match output {
        Output::Act(action) => format!("{action:?}"),
        report => format!("{report:?}"),
    }
}
