//! Requests of ranks and users for further processes, and the daemon that places them.

use super::super::name;
use super::Cluster;
use super::links::Message;
use mpd_job::manager::spawns::order::SpawnOrder;
use mpd_job::manager::spawns::{Caller, SpawnInput, SpawnOutput};
use mpd_job::manager::{Input, LinkEnd};
use mpd_wire::job::{Argset, Bytes, HostSlice, JobSpec, RankEnd, SpawnBlock, SpawnPlacement};
use mpd_wire::message::Placing;
use mpd_wire::{Instance, Rank, RankSet};
use pmi_proto::Ticket;

/// The order of `size` processes of one program with this argument.
fn order(size: u32, argument: Bytes) -> SpawnOrder {
    let argset = Argset {
        size,
        program: b"./child".into(),
        args: vec![argument],
        directory: b"/work".into(),
        search: b"/bin".into(),
        umask: 0o22,
        ..Argset::default()
    };
    let preput = vec![b"PARENT_ROOT_PORT_NAME=tag#0$".to_vec()];
    SpawnOrder {
        spec: JobSpec {
            argsets: vec![argset],
            environments: vec![vec![b"TOKEN=secret".into()], preput],
            tmpdir: b"/tmp".into(),
            ..JobSpec::default()
        },
        parent: "kvs".to_owned(),
        rank: Rank(0),
        of_user: false,
        generation: 1,
        inherits: vec![0],
        appnums: vec![None],
        blocks: vec![SpawnBlock { size, hosts: None, policy: None }],
    }
}

impl Cluster {
    /// An encoded order. Some have many pieces.
    pub(super) fn order(&mut self, size: u32) -> Bytes {
        let length = if self.dice.one_in(4) { 200_000 } else { 6 };
        order(size, vec![b's'; length]).encode()
    }

    /// A rank of the first world spawns, if it runs. Its program waits for the answer.
    pub(super) fn spawn(&mut self, spawner: Rank, size: u32) {
        let tree_index = self.host_slices.tree_index_of_rank(spawner).expect("a rank of the job");
        let host = &mut self.hosts[tree_index];
        let process = host.processes.get_mut(&spawner.0);
        let Some(process) = process.filter(|process| process.end.is_none()) else { return };
        if !host.alive {
            return;
        }
        process.spawns += 1;
        let caller = (spawner, self.next_ticket(spawner));
        self.spawns.insert(caller, 0);
        let (order, errors) = (self.order(size), vec![0; size as usize]);
        self.turn(tree_index, Input::Spawn(SpawnInput::Asked { caller, order, errors }));
    }

    /// A rank has ended, so it awaits no answers.
    pub(super) fn forget_spawns(&mut self, spawner: Rank) {
        self.spawns.retain(|(rank, _), answers| *rank != spawner || *answers > 0);
    }

    fn next_ticket(&self, spawner: Rank) -> Ticket {
        let last = self.spawns.keys().rfind(|(rank, _)| *rank == spawner);
        last.map_or(Ticket::FIRST, |(_, ticket)| ticket.next())
    }

    pub(super) fn perform_spawn(&mut self, tree_index: usize, output: SpawnOutput) {
        match output {
            SpawnOutput::Piece(LinkEnd::Parent, piece) => {
                let host = &mut self.hosts[tree_index];
                if host.linked {
                    host.to_parent.push_back(Message::Piece(piece));
                }
            }
            SpawnOutput::Piece(LinkEnd::Child(child), piece) => {
                let child = &mut self.hosts[child];
                if child.linked {
                    child.from_parent.push_back(Message::Piece(piece));
                }
            }
            SpawnOutput::Answer(caller, outcome) => self.take_answer(caller, outcome.ok()),
            SpawnOutput::Place(number, placement) => self.questions.push((number, *placement)),
            SpawnOutput::Report(_) => {}
        }
    }

    /// A spawner gets its answer, at most once. The world of a success has been started, and has the size that it wants.
    fn take_answer(&mut self, caller: Caller, spawned: Option<(String, Vec<i32>)>) {
        if let Some((kvsname, errors)) = spawned {
            let number: u32 = kvsname.trim_start_matches('_').parse().expect("a number");
            let world = self.worlds.values().find(|world| world.number == number);
            let world = world.expect("a world that was started");
            assert_eq!(errors.len(), world.size as usize);
            // A lost host counts as having answered, and ends the job.
            let is_lost = (0..self.hosts.len()).any(|tree_index| self.is_out_of_reach(tree_index));
            assert!(is_lost || !self.failed.contains(&world.first), "{kvsname}");
        }
        let tree_index = self.host_slices.tree_index_of_rank(caller.0).expect("a rank of the job");
        let process = self.hosts[tree_index].processes.get_mut(&caller.0.0).expect("it has run");
        if process.end.is_some() {
            return;
        }
        process.spawns -= 1;
        let answers = self.spawns.get_mut(&caller).expect("an answer to a request");
        *answers += 1;
        assert_eq!(*answers, 1, "each request is answered once");
    }

    /// The daemon of the root answers a question. Or it dies, and the next daemon is asked, or none answers. The answer of
    /// the first one may still arrive.
    pub(super) fn answer_question(&mut self) -> bool {
        if !self.hosts[0].alive {
            return false;
        }
        if !self.late.is_empty() && self.dice.one_in(4) {
            let (number, placement) = self.late.remove(0);
            let placing = self.place(&placement);
            self.post(0, Input::Spawn(SpawnInput::Placed(number, placing)));
            return true;
        }
        if self.questions.is_empty() {
            return false;
        }
        let at = self.dice.below(self.questions.len());
        let (number, placement) = self.questions.remove(at);
        let placing = match self.dice.below(16) {
            0 => {
                self.late.push((number, placement));
                self.questions.clear();
                self.post(0, Input::Registered);
                return true;
            }
            1 => {
                self.unanswered = true;
                return true;
            }
            2..=5 => {
                self.end_a_spawner();
                Placing::Full
            }
            6 => Placing::Failed("no host takes it".to_owned()),
            _ => self.place(&placement),
        };
        self.post(0, Input::Spawn(SpawnInput::Placed(number, placing)));
        true
    }

    /// Sometimes, a rank that waits for an answer ends.
    fn end_a_spawner(&mut self) {
        let waiting = self.spawns.iter().find(|(_, answers)| **answers == 0);
        if let Some((&(spawner, _), _)) = waiting.filter(|_| self.dice.one_in(2)) {
            let tree_index =
                self.host_slices.tree_index_of_rank(spawner).expect("a rank of the job");
            self.end(tree_index, spawner, RankEnd::Exited(0));
            self.end_turn(tree_index);
        }
    }

    /// Some hosts that the job has not lost, and some that join it.
    fn place(&mut self, placement: &SpawnPlacement) -> Placing {
        placement.check().expect("a sound question");
        let known = self.host_slices.len();
        let mut hosts: Vec<usize> =
            (0..known + 2).filter(|&host| !placement.lost.contains(&name(host))).collect();
        let mut host_slices: Vec<HostSlice> = Vec::new();
        let (mut next, size) = (0, placement.size());
        while next < size {
            let low = next;
            next += 1 + u32::try_from(self.dice.below((size - low) as usize)).expect("a size");
            let mut at = self.dice.below(hosts.len());
            // Hosts join in the order of their numbers.
            if hosts[at] == known + 1 && hosts.contains(&known) {
                at -= 1;
            }
            host_slices.push(HostSlice {
                member: name(hosts.remove(at)),
                manager: Instance::from_bytes([2; 16]),
                addresses: Vec::new(),
                ranks: RankSet::from_ranges(vec![(low, next - 1)]),
            });
            if hosts.is_empty() {
                return Placing::Failed("too few hosts".to_owned());
            }
        }
        let last = host_slices.last().expect("a host").member.clone();
        Placing::Done { host_slices, last }
    }
}
