//! The job links of a simulated manager: the machine of each end, and the search for the parent.

use std::collections::VecDeque;

use mpd_job::manager::LinkEnd;
use mpd_joblink::{Frame, Input, JobLink, Output, Seek, Side, Timing};
use mpd_manager::News;
use mpd_sansio::Time;
use mpd_wire::job::{HostSlice, HostSlices};
use mpd_wire::message::Class;
use mpd_wire::{DaemonName, Instance};

/// What a link carries.
#[derive(Clone, Debug)]
pub(super) enum Packet {
    /// The parent has accepted the link.
    Accepted,
    Frame(Vec<u8>),
    /// The sender has closed the link, or has ended.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Awaited,
    Open(u64),
    /// It closes after its last frame.
    Closing(u64),
    Over,
}

/// A neighbour in the job tree.
#[derive(Debug)]
struct Branch {
    end: LinkEnd,
    host: DaemonName,
    instance: Instance,
    machine: JobLink,
    standing: Standing,
}

#[derive(Debug)]
pub(super) struct Links {
    branches: Vec<Branch>,
    /// The search for the parent on its host.
    seek: Option<Seek<usize>>,
    /// The deadline for the connections of children.
    start_by: Option<Time>,
    news: VecDeque<News>,
    /// Links that were given up, for the network.
    dropped: Vec<u64>,
}

/// The number of a simulated host.
pub(super) fn host_of(name: &DaemonName) -> usize {
    name.as_str().trim_start_matches('h').parse().expect("a simulated host")
}

impl Links {
    pub(super) fn new(now: Time, host_slices: &HostSlices, tree_index: usize) -> Self {
        let until = now + Timing::default().start;
        let mut links = Self {
            branches: Vec::new(),
            seek: None,
            start_by: Some(until),
            news: VecDeque::new(),
            dropped: Vec::new(),
        };
        if let Some(parent) = HostSlices::parent(tree_index) {
            let parent = host_slices.get(parent).expect("a host slice");
            links.add(LinkEnd::Parent, Side::Parent, parent);
            links.seek = Some(Seek::new(now, vec![host_of(&parent.member)], until));
        }
        for child in host_slices.children(tree_index) {
            let host_slice = host_slices.get(child).expect("a host slice");
            links.add(LinkEnd::Child(child), Side::Child, host_slice);
        }
        links
    }

    fn add(&mut self, end: LinkEnd, side: Side, host_slice: &HostSlice) {
        self.branches.push(Branch {
            end,
            host: host_slice.member.clone(),
            instance: host_slice.manager,
            machine: JobLink::new(side, Timing::default()),
            standing: Standing::Awaited,
        });
    }

    pub(super) fn add_child(&mut self, now: Time, tree_index: usize, host_slice: &HostSlice) {
        self.add(LinkEnd::Child(tree_index), Side::Child, host_slice);
        self.start_by = Some(now + Timing::default().start);
    }

    fn index_of(&self, end: LinkEnd) -> Option<usize> {
        self.branches.iter().position(|branch| branch.end == end)
    }

    fn index_at(&self, connection: u64) -> Option<usize> {
        let is_it = |branch: &Branch| branch.standing == Standing::Open(connection);
        self.branches.iter().position(is_it)
    }

    pub(super) fn awaits(&self, end: LinkEnd) -> bool {
        let index = self.index_of(end);
        index.is_some_and(|index| self.branches[index].standing == Standing::Awaited)
    }

    /// Bytes of a class that wait for a link.
    pub(super) fn queued(&self, end: LinkEnd, class: Class) -> usize {
        self.index_of(end).map_or(0, |index| self.branches[index].machine.queued(class))
    }

    pub(super) fn pop(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    // ----- sending -----

    pub(super) fn send(&mut self, to: LinkEnd, frame: Frame) {
        if let Some(index) = self.index_of(to) {
            self.branches[index].machine.send(frame);
            self.perform(index);
        }
    }

    pub(super) fn send_to_children(&mut self, frame: &Frame) {
        for index in 0..self.branches.len() {
            if self.branches[index].end != LinkEnd::Parent {
                self.branches[index].machine.send(frame.clone());
                self.perform(index);
            }
        }
    }

    /// The packets to send now, by link.
    pub(super) fn flush(&mut self, now: Time) -> Vec<(u64, Packet)> {
        let mut packets = Vec::new();
        for branch in &mut self.branches {
            let (Standing::Open(connection) | Standing::Closing(connection)) = branch.standing
            else {
                continue;
            };
            while let Some(frame) = branch.machine.next_frame(now, 0) {
                packets.push((connection, Packet::Frame(frame.bytes().to_vec())));
            }
            if matches!(branch.standing, Standing::Closing(_)) && branch.machine.is_empty() {
                branch.standing = Standing::Over;
                branch.machine.abandon();
                packets.push((connection, Packet::End));
            }
        }
        packets.extend(self.dropped.drain(..).map(|connection| (connection, Packet::End)));
        packets
    }

    pub(super) fn close(&mut self, end: LinkEnd) {
        let Some(index) = self.index_of(end) else { return };
        match self.branches[index].standing {
            Standing::Awaited => self.give_up(index),
            Standing::Open(connection) => {
                self.branches[index].standing = Standing::Closing(connection);
            }
            Standing::Closing(_) | Standing::Over => {}
        }
    }

    // ----- the network -----

    /// A child has connected. Whether it may.
    pub(super) fn accept(&mut self, now: Time, child: Instance, connection: u64) -> bool {
        let is_it = |branch: &Branch| branch.end != LinkEnd::Parent && branch.instance == child;
        self.open(now, connection, is_it)
    }

    /// The parent has accepted this manager. Whether it still is awaited.
    pub(super) fn accepted(&mut self, now: Time, connection: u64) -> bool {
        self.seek = None;
        self.open(now, connection, |branch| branch.end == LinkEnd::Parent)
    }

    fn open(&mut self, now: Time, connection: u64, is_it: impl Fn(&Branch) -> bool) -> bool {
        let mut awaited = self.branches.iter_mut().filter(|it| it.standing == Standing::Awaited);
        let Some(branch) = awaited.find(|branch| is_it(branch)) else { return false };
        branch.standing = Standing::Open(connection);
        branch.machine.handle(now, Input::Opened);
        true
    }

    pub(super) fn receive(&mut self, now: Time, connection: u64, frame: Vec<u8>) {
        if let Some(index) = self.index_at(connection) {
            self.branches[index].machine.handle(now, Input::Received(frame));
            self.perform(index);
        }
    }

    /// The other end has closed the link, or its process has ended.
    pub(super) fn ended(&mut self, connection: u64) {
        if let Some(index) = self.index_at(connection) {
            self.lose(index, "the connection to it was closed".to_owned(), true);
        }
    }

    fn perform(&mut self, index: usize) {
        while let Some(output) = self.branches[index].machine.poll_output() {
            match output {
                Output::Act(message) => {
                    self.news.extend(News::of(self.branches[index].end, message));
                }
                Output::Lose(loss) => self.lose(index, loss.to_string(), false),
                Output::Skipped(_) | Output::Suspect(_) | Output::Clear => {}
            }
        }
    }

    fn lose(&mut self, index: usize, problem: String, closed: bool) {
        self.give_up(index);
        let Branch { end, host, .. } = &self.branches[index];
        self.news.push_back(News::Lost { end: *end, host: host.clone(), problem, closed });
    }

    fn give_up(&mut self, index: usize) {
        let branch = &mut self.branches[index];
        branch.machine.abandon();
        let standing = std::mem::replace(&mut branch.standing, Standing::Over);
        if let Standing::Open(connection) | Standing::Closing(connection) = standing {
            self.dropped.push(connection);
        }
        if branch.end == LinkEnd::Parent {
            self.seek = None;
        }
    }

    // ----- time -----

    pub(super) fn deadline(&self) -> Option<Time> {
        let branches = self.branches.iter().filter_map(|branch| match branch.standing {
            Standing::Awaited if branch.end != LinkEnd::Parent => self.start_by,
            Standing::Open(_) => branch.machine.poll_timeout(),
            Standing::Awaited | Standing::Closing(_) | Standing::Over => None,
        });
        branches.chain(self.seek.as_ref().map(Seek::poll_timeout)).min()
    }

    pub(super) fn expire(&mut self, now: Time) {
        for index in 0..self.branches.len() {
            if matches!(self.branches[index].standing, Standing::Open(_)) {
                self.branches[index].machine.handle_timeout(now);
                self.perform(index);
            }
        }
        if self.start_by.take_if(|at| *at <= now).is_some() {
            for index in 0..self.branches.len() {
                let Branch { end, standing, .. } = self.branches[index];
                if end != LinkEnd::Parent && standing == Standing::Awaited {
                    self.lose(index, "its manager did not connect".to_owned(), false);
                }
            }
        }
        if self.seek.as_ref().is_some_and(|seek| seek.given_up(now).is_some()) {
            let parent = self.index_of(LinkEnd::Parent).expect("it seeks its parent");
            self.lose(parent, "no link to its manager".to_owned(), false);
        }
    }

    /// The host to which this manager connects now, and the instance of its parent there.
    pub(super) fn next_dial(&mut self, now: Time) -> Option<(usize, Instance)> {
        let host = self.seek.as_mut()?.next_due(now)?;
        let parent = self.index_of(LinkEnd::Parent)?;
        Some((host, self.branches[parent].instance))
    }

    pub(super) fn missed(&mut self, now: Time, host: usize) {
        if let Some(seek) = &mut self.seek {
            seek.missed(now, &host, "refused".to_owned());
        }
    }
}
