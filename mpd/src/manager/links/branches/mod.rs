//! The job links of this manager: to its parent in the job tree, and from its children.
//!
//! [`JobLink`] decides the order of sending and the loss of a link. [`Seek`] decides where to look for the parent.
//! This module has the sockets. A child connects through the daemon of this host, which passes the connection on.
//! The instance of a child identifies it, and its first link is its only one.
//!
//! | module | does |
//! |---|---|
//! | [`reach`] | connects to the parent, and accepts children |
//! | [`turn`] | reads, checks deadlines, writes |

mod reach;
#[cfg(test)]
mod tests;
mod turn;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use mpd_channel::{Instance, Key};
use mpd_io::network::link::Link;
pub(crate) use mpd_job::manager::LinkEnd;
use mpd_joblink::{Frame, JobLink, Seek, Side, Timing};
use mpd_manager::News;
use mpd_sansio::Time;
use mpd_wire::DaemonName;
use mpd_wire::job::{HostSlice, HostSlices, JobKey};
use mpd_wire::message::{Class, Down, TreeKind, Up};

/// The configuration of the links.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) key: JobKey,
    pub(crate) host_slices: HostSlices,
    /// The index of this manager's host slice.
    pub(crate) tree_index: usize,
    pub(crate) timing: Timing,
    /// The tokens of links begin here; none is used twice.
    pub(crate) first_token: usize,
}

/// The job links of a manager. In each turn of its loop the owner calls [`Branches::mark_ready`] for every event,
/// then [`Branches::turn`], [`Branches::pop`] until there is no event, and [`Branches::flush`].
#[derive(Debug)]
pub(crate) struct Branches {
    key: Key,
    /// The instance of this manager.
    me: Instance,
    timing: Timing,
    branches: Vec<Branch>,
    lines: BTreeMap<usize, Line>,
    /// The addresses of the parent's daemon, the best first.
    parent: Vec<SocketAddr>,
    /// The search for the parent, until it is found.
    seek: Option<Seek<SocketAddr>>,
    /// The deadline for the connections of children.
    start_by: Option<Time>,
    first_token: usize,
    next_token: usize,
    /// Links to read, and whether their peers closed.
    ready: Vec<(usize, bool)>,
    buffer: Vec<u8>,
    news: VecDeque<News>,
    /// The time of the turn under way.
    now: Time,
}

/// A neighbour in the tree: the parent or a child.
#[derive(Debug)]
struct Branch {
    end: LinkEnd,
    host: DaemonName,
    instance: Instance,
    machine: JobLink,
    standing: Standing,
}

/// The state of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Awaited,
    /// Has the connection with this token.
    Open(usize),
    /// This manager closes it after sending everything that waits.
    Closing(usize),
    Over,
}

/// One connection.
#[derive(Debug)]
struct Line {
    link: Link,
    stage: Stage,
    /// The socket buffer is full; an event reports room.
    full: bool,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// To the parent, not proved yet.
    Dialing,
    /// From a child, not proved yet.
    Accepting,
    /// Of the branch with this index.
    Open(usize),
    /// Sending the last messages, at most until that time.
    Leaving { until: Time },
}

impl Branches {
    /// Branches without links.
    ///
    /// # Errors
    /// When `tree_index` is not in the host slices, or a manager in them has no instance.
    pub(crate) fn new(config: Config) -> Result<Self> {
        let Config { key, host_slices, tree_index, timing, first_token } = config;
        let me =
            host_slices.get(tree_index).context("this manager has no host slice of the job")?;
        let parent =
            HostSlices::parent(tree_index).map(|parent| (parent, LinkEnd::Parent, Side::Parent));
        let children = host_slices
            .children(tree_index)
            .map(|child| (child, LinkEnd::Child(child), Side::Child));
        let addresses =
            parent.and_then(|(parent, ..)| host_slices.get(parent)).map(|s| &s.addresses);
        let numeric = addresses.into_iter().flatten().filter_map(|a| a.as_str().parse().ok());
        let mut branches = Vec::new();
        for (tree_index, end, side) in parent.into_iter().chain(children) {
            let host_slice =
                host_slices.get(tree_index).context("the job tree names a missing host slice")?;
            branches.push(Branch {
                end,
                host: host_slice.member.clone(),
                instance: instance(host_slice)?,
                machine: JobLink::new(side, timing.clone()),
                standing: Standing::Awaited,
            });
        }
        Ok(Self {
            key: Key::from(&key),
            me: instance(me)?,
            timing,
            branches,
            lines: BTreeMap::new(),
            parent: numeric.collect(),
            seek: None,
            start_by: None,
            first_token,
            next_token: first_token,
            ready: Vec::new(),
            buffer: Vec::new(),
            news: VecDeque::new(),
            now: Time::ZERO,
        })
    }

    /// Changes the silence after which a neighbour's host is lost.
    pub(crate) fn set_host_lost(&mut self, host_lost: Duration) {
        self.timing = self.timing.clone().with_host_lost(host_lost);
        for branch in &mut self.branches {
            branch.machine.set_timing(self.timing.clone());
        }
        for line in self.lines.values() {
            // A link that is broken is found at its next use.
            let _ = line.link.set_user_timeout(host_lost);
        }
    }

    /// Adds a child that is to connect.
    ///
    /// # Errors
    /// The manager has no instance.
    pub(crate) fn add_child(
        &mut self,
        now: Time,
        tree_index: usize,
        host_slice: &HostSlice,
    ) -> Result<()> {
        self.branches.push(Branch {
            end: LinkEnd::Child(tree_index),
            host: host_slice.member.clone(),
            instance: instance(host_slice)?,
            machine: JobLink::new(Side::Child, self.timing.clone()),
            standing: Standing::Awaited,
        });
        self.start_by = Some(now + self.timing.start);
        Ok(())
    }

    /// The next event.
    pub(crate) fn pop(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// Queues a message to the child at `tree_index`. A message may be queued before its link is open.
    /// [`Branches::flush`] sends it.
    pub(crate) fn send_down(&mut self, tree_index: usize, message: &Down) {
        self.send(LinkEnd::Child(tree_index), Frame::down(message));
    }

    /// Queues a message to all children.
    pub(crate) fn send_down_all(&mut self, message: &Down) {
        self.send_all(&Frame::down(message));
    }

    /// Queues a message to the parent.
    pub(crate) fn send_up(&mut self, message: &Up) {
        self.send(LinkEnd::Parent, Frame::up(message));
    }

    /// Queues raw bytes of any kind except control and fences, fewer than `MAX_TREE_FRAME`. Control messages can
    /// overtake pieces of at most `MAX_SEALED` soonest.
    pub(crate) fn send_bytes(&mut self, to: LinkEnd, kind: TreeKind, bytes: &[u8]) {
        self.send(to, Frame::raw(kind, bytes));
    }

    /// Queues raw bytes to all children. One copy is kept for all.
    pub(crate) fn send_bytes_down_all(&mut self, kind: TreeKind, bytes: &[u8]) {
        self.send_all(&Frame::raw(kind, bytes));
    }

    fn send_all(&mut self, frame: &Frame) {
        for index in 0..self.branches.len() {
            if self.branches[index].end != LinkEnd::Parent {
                self.branches[index].machine.send(frame.clone());
                self.perform(index);
            }
        }
    }

    fn send(&mut self, to: LinkEnd, frame: Frame) {
        if let Some(index) = self.index_of(to) {
            self.branches[index].machine.send(frame);
            self.perform(index);
        }
    }

    /// Whether that manager has not connected yet, and still may.
    pub(crate) fn awaits(&self, end: LinkEnd) -> bool {
        let index = self.index_of(end);
        index.is_some_and(|index| matches!(self.branches[index].standing, Standing::Awaited))
    }

    /// Bytes of a class that wait for the link. Bytes that are already sent cannot be overtaken. So a control
    /// message that must follow output is sent when this is 0 for the output's class.
    pub(crate) fn queued(&self, to: LinkEnd, class: Class) -> usize {
        self.index_of(to).map_or(0, |index| self.branches[index].machine.queued(class))
    }

    /// The bytes of a class that wait for the link with the most.
    pub(crate) fn most_queued(&self, class: Class) -> usize {
        self.branches.iter().map(|branch| branch.machine.queued(class)).max().unwrap_or(0)
    }

    /// Closes a link after everything is sent. It has no further events.
    pub(crate) fn close(&mut self, to: LinkEnd) {
        let Some(index) = self.index_of(to) else { return };
        match self.branches[index].standing {
            Standing::Awaited => self.give_up(index),
            Standing::Open(token) => {
                self.branches[index].standing = Standing::Closing(token);
                if let Some(line) = self.lines.get_mut(&token) {
                    line.stage = Stage::Leaving { until: self.now + self.timing.host_lost };
                }
            }
            Standing::Closing(_) | Standing::Over => {}
        }
    }

    /// Whether every closed link has sent its last messages, or cannot send them any more.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.lines.values().any(|line| matches!(line.stage, Stage::Leaving { .. }))
    }

    fn index_of(&self, end: LinkEnd) -> Option<usize> {
        self.branches.iter().position(|branch| branch.end == end)
    }

    /// Sends nothing more to that branch and ignores its messages.
    fn give_up(&mut self, index: usize) {
        let branch = &mut self.branches[index];
        branch.machine.abandon();
        let standing = std::mem::replace(&mut branch.standing, Standing::Over);
        if let Standing::Open(token) | Standing::Closing(token) = standing {
            self.lines.remove(&token);
        }
        if branch.end == LinkEnd::Parent {
            self.seek = None;
            self.lines.retain(|_, line| line.stage != Stage::Dialing);
        }
    }

    /// Gives up a branch and reports it as lost.
    fn lose_branch(&mut self, index: usize, problem: String, closed: bool) {
        log::info!("host {} is lost: {problem}", self.branches[index].host);
        self.report_end(index, problem, closed);
    }

    /// Gives up a branch whose manager has closed the link. It does so when it has ended, after its last reports. The
    /// owner of the job decides if that is a loss.
    fn end_branch(&mut self, index: usize) {
        log::info!("the manager of host {} has closed its link", self.branches[index].host);
        self.report_end(index, "its manager closed the link".to_owned(), true);
    }

    fn report_end(&mut self, index: usize, problem: String, closed: bool) {
        self.give_up(index);
        let Branch { end, host, .. } = &self.branches[index];
        self.news.push_back(News::Lost { end: *end, host: host.clone(), problem, closed });
    }
}

fn instance(host_slice: &HostSlice) -> Result<Instance> {
    let instance = Instance::from_bytes(host_slice.manager.to_bytes());
    instance.with_context(|| format!("the manager on host {} has no instance", host_slice.member))
}
