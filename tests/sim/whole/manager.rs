//! A simulated manager: its links and its machines. Until its specification has come, it has only the links.

use std::collections::BTreeMap;
use std::rc::Rc;

use mpd_clients::{Job, World};
use mpd_job::manager::LinkEnd;
use mpd_joblink::Frame;
use mpd_manager::{Event, News};
use mpd_sansio::Time;
use mpd_wire::job::JobSpec;
use mpd_wire::message::{Down, JobInput, JobNews, ManagerOrder, ManagerReport, StartJob, TreeKind};
use mpd_wire::{Instance, Rank, Stream};

use super::links::{Links, Packet};
use super::machines::Machines;
use super::output::{Pipes, Terminal};
use crate::host_facts;
use crate::kernel::Kernel;

/// What reaches a manager.
#[derive(Clone, Debug)]
pub(super) enum ForManager {
    /// Its deadlines may have come.
    Time,
    Order(ManagerOrder),
    /// Whether a new daemon has adopted it.
    Registered(bool),
    DaemonGone,
    FromConsole(JobInput),
    ConsoleLost,
    /// A child connects by this link.
    Linked(Instance, u64),
    /// The parent's host has refused a connection.
    Missed(usize),
    Packet(u64, Packet),
    /// The connection of a rank has bytes.
    Readable(Rank),
    /// Children have ended.
    Child,
    /// A pipe of a rank has bytes.
    Written(Rank, Stream),
    /// No process can write to the pipes of a rank any more.
    HungUp(Rank),
    /// The output of that number accepts this number of further bytes.
    Room(usize, usize),
    /// The helper of this process id has looked at all processes.
    Helper(i32),
}

/// What a manager does outside of its host's kernel.
#[derive(Debug)]
pub(super) enum Effect {
    Packet(u64, Packet),
    /// It connects to its parent, which has this instance, on that host.
    Dial(usize, Instance),
    News(JobNews),
    Report(ManagerReport),
    /// It looks for a daemon and registers with it.
    Register,
    /// A rank gets bytes.
    Heard(i32, Vec<u8>),
    /// The process of a rank of the world with this first rank was started.
    Started {
        pid: i32,
        rank: Rank,
        first: Rank,
        own: Rank,
        space: [String; 2],
    },
    /// It has read this number of bytes of a rank.
    Read(Rank, Stream, usize),
    /// It has written these bytes to the output of that number.
    Shown(usize, Vec<u8>),
    /// SIGSTOP was sent to a process.
    Stops(i32),
    /// A helper was started.
    Helper(i32),
}

/// What a host refuses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusal {
    /// No process can be started.
    pub(super) forks: bool,
    /// There is no program of ranks.
    pub(super) programs: bool,
    /// No record can be written.
    pub(super) records: bool,
}

/// What a manager has in one turn.
pub(super) struct Turn<'a> {
    pub(super) now: Time,
    pub(super) kernel: &'a mut Kernel,
    pub(super) refusal: Refusal,
    pub(super) effects: &'a mut Vec<Effect>,
    pub(super) common: &'a mut Common,
}

/// What a manager has besides its machines.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) pid: i32,
    pub(super) tree_index: usize,
    pub(super) links: Links,
    /// What ranks have written and the manager has not read.
    pub(super) unread: BTreeMap<Rank, Vec<u8>>,
    pub(super) pipes: BTreeMap<Rank, Pipes>,
    /// Bytes that each output accepts now.
    pub(super) room: [usize; 2],
    /// Both streams have one output.
    pub(super) is_shared: bool,
    /// Whether the daemon of its host knows it.
    pub(super) is_registered: bool,
    /// The exit code, if the job is over before anything was begun here.
    over: Option<u8>,
    /// The same: whether some children had not connected.
    is_unlinked: bool,
}

#[derive(Debug)]
pub(super) struct Manager {
    pub(super) common: Common,
    order: StartJob,
    encoded: Vec<u8>,
    wanted: Option<usize>,
    early: Vec<News>,
    pub(super) machines: Option<Box<Machines>>,
    /// The console, at the root.
    pub(super) console: Option<usize>,
    /// The time of its next turn, in microseconds.
    pub(super) alarm: u64,
}

impl Manager {
    /// A manager with its order. The root has its console, its terminal and the encoded specification.
    pub(super) fn new(
        now: Time,
        pid: i32,
        order: StartJob,
        (root, terminal): (Option<(usize, Vec<u8>)>, Option<Terminal>),
    ) -> Self {
        let tree_index = order.tree_index as usize;
        let links = Links::new(now, &order.host_slices, tree_index);
        let (console, encoded) = root.unzip();
        Self {
            common: Common {
                pid,
                tree_index,
                links,
                unread: BTreeMap::new(),
                pipes: BTreeMap::new(),
                room: [terminal.map_or(0, |terminal| terminal.room); 2],
                is_shared: terminal.is_some_and(|terminal| terminal.is_shared),
                is_registered: true,
                over: None,
                is_unlinked: false,
            },
            wanted: encoded.as_ref().map(Vec::len),
            encoded: encoded.unwrap_or_default(),
            order,
            early: Vec::new(),
            machines: None,
            console,
            alarm: 0,
        }
    }

    pub(super) fn instance(&self) -> Instance {
        self.order.host_slices.get(self.common.tree_index).expect("its host slice").manager
    }

    pub(super) const fn order(&self) -> &StartJob {
        &self.order
    }

    pub(super) fn job(&self) -> &mpd_wire::JobId {
        &self.order.job
    }

    /// The exit code, once the job is over here.
    pub(super) fn over(&self) -> Option<u8> {
        self.common.over.or_else(|| self.machines.as_ref()?.node.over())
    }

    /// Whether the job ended before all children had connected.
    pub(super) fn is_unlinked(&self) -> bool {
        let node = self.machines.as_ref().map(|machines| &machines.node);
        self.common.is_unlinked || node.is_some_and(mpd_manager::Node::is_unlinked)
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let machines = self.machines.as_ref().and_then(|machines| machines.deadline());
        [self.common.links.deadline(), machines].into_iter().flatten().min()
    }

    /// Takes one input and performs one turn.
    pub(super) fn take(
        &mut self,
        (now, kernel): (Time, &mut Kernel),
        refusal: Refusal,
        effects: &mut Vec<Effect>,
        input: ForManager,
    ) {
        let turn = &mut Turn { now, kernel, refusal, effects, common: &mut self.common };
        let input = turn.take_by_links(input);
        match (&mut self.machines, input) {
            (Some(machines), Some(input)) => machines.take(turn, input),
            (None, Some(ForManager::Order(ManagerOrder::Kill))) => turn.common.over = Some(125),
            (None | Some(_), _) => {}
        }
        if self.machines.is_none() && self.common.over.is_none() {
            self.receive_specification((now, kernel), refusal, effects);
        }
        let turn = &mut Turn { now, kernel, refusal, effects, common: &mut self.common };
        if let Some(machines) = &mut self.machines {
            while let Some(news) = turn.common.links.pop() {
                machines.report(Event::News(news));
            }
            machines.end_turn(turn);
        }
        if turn.common.over.is_none() {
            while let Some((host, parent)) = turn.common.links.next_dial(now) {
                turn.effects.push(Effect::Dial(host, parent));
            }
        }
        turn.flush();
    }

    /// The first step of a manager: it waits for the specification, which the parent sends.
    fn receive_specification(
        &mut self,
        (now, kernel): (Time, &mut Kernel),
        refusal: Refusal,
        effects: &mut Vec<Effect>,
    ) {
        while let Some(news) = self.common.links.pop() {
            match news {
                News::Down(Down::Spec { bytes }) => self.wanted = Some(bytes as usize),
                News::Spec(bytes) => self.encoded.extend(bytes),
                News::Down(Down::Kill | Down::CleanUp) | News::Lost { .. } => {
                    let links = &self.common.links;
                    let children = self.order.host_slices.children(self.common.tree_index);
                    let mut children = children.into_iter().map(LinkEnd::Child);
                    self.common.is_unlinked = children.any(|child| links.awaits(child));
                    self.common.over = Some(125);
                    return;
                }
                news => self.early.push(news),
            }
        }
        if self.wanted.is_none_or(|wanted| self.encoded.len() < wanted) {
            return;
        }
        let spec = Rc::new(JobSpec::decode(&self.encoded).expect("a specification"));
        let bytes = u32::try_from(self.encoded.len()).expect("a short specification");
        self.common.links.send_to_children(&Frame::down(&Down::Spec { bytes }));
        self.common.links.send_to_children(&Frame::raw(TreeKind::Spec, &self.encoded));
        let world = World::of_job(&spec, &self.order);
        let facts = host_facts::of_host(2, "x");
        let job = Job::new(spec, self.order.clone(), world, facts);
        let turn = &mut Turn { now, kernel, refusal, effects, common: &mut self.common };
        let machines = self.machines.insert(Box::new(Machines::new(turn, job)));
        for news in std::mem::take(&mut self.early) {
            machines.report(Event::News(news));
        }
    }
}

impl Turn<'_> {
    /// The links take their inputs. Returns other ones.
    fn take_by_links(&mut self, input: ForManager) -> Option<ForManager> {
        let (now, links) = (self.now, &mut self.common.links);
        match input {
            ForManager::Time => links.expire(now),
            ForManager::Linked(child, connection) => {
                let is_accepted = links.accept(now, child, connection);
                let answer = if is_accepted { Packet::Accepted } else { Packet::End };
                self.effects.push(Effect::Packet(connection, answer));
            }
            ForManager::Missed(host) => links.missed(now, host),
            ForManager::Packet(connection, Packet::Accepted) => {
                if !links.accepted(now, connection) {
                    self.effects.push(Effect::Packet(connection, Packet::End));
                }
            }
            ForManager::Packet(connection, Packet::Frame(frame)) => {
                links.receive(now, connection, frame);
            }
            ForManager::Packet(connection, Packet::End) => links.ended(connection),
            other => return Some(other),
        }
        Some(ForManager::Time)
    }

    pub(super) fn flush(&mut self) {
        let packets = self.common.links.flush(self.now);
        self.effects.extend(packets.into_iter().map(|(link, packet)| Effect::Packet(link, packet)));
    }
}
