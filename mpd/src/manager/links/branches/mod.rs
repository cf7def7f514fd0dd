//! The job links of this manager: to the manager above it in the job tree, and from those below.
//!
//! What is sent first and who is lost is decided by [`JobLink`], where to look for the manager above by
//! [`Seek`]; here are the sockets. A manager below comes by way of this host's daemon, which passes its
//! connection on; it is known by its instance, and the first link of each is its only one.
//!
//! | module | does |
//! |---|---|
//! | [`reach`] | connects to the manager above, and takes those from below |
//! | [`turn`] | reads, judges, writes |

mod reach;
#[cfg(test)]
mod tests;
mod turn;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use anyhow::{Context, Result};
use mpd_channel::{Instance, Key};
use mpd_io::link::Link;
use mpd_job::joblink::{Frame, JobLink, Seek, Side, Timing};
use mpd_machine::Time;
use mpd_wire::job::{JobKey, Share, Shares};
use mpd_wire::message::{Class, Down, TreeKind, Up};
use mpd_wire::{DaemonName, Stream};

/// Who is at the other end of a job link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The manager above.
    Parent,
    /// The manager below at this place.
    Child(usize),
}

/// What the links have to tell, in order of each link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The link is open. What was sent before is on its way now.
    Up(End),
    /// From above. Never a pulse.
    Down(Down),
    /// From the place below. Never a pulse.
    Word(usize, Up),
    /// Records of output from the place below.
    Output(usize, Stream, Vec<u8>),
    /// Standard input from above.
    Stdin(Vec<u8>),
    /// Keys and values.
    Keys(End, Vec<u8>),
    /// A piece of the specification.
    Spec(Vec<u8>),
    /// A piece of a program.
    File(Vec<u8>),
    /// A piece of what is to be known of a world.
    World(End, Vec<u8>),
    /// The link is over, or never came up: the last news of it. What is sent to it goes nowhere.
    Lost {
        /// Which.
        end: End,
        /// On which host.
        host: DaemonName,
        /// How that shows; reads well behind "host h3 is lost: ".
        problem: String,
    },
}

/// What the links must know.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) key: JobKey,
    pub(crate) shares: Shares,
    /// Which of the shares is this manager's.
    pub(crate) place: usize,
    pub(crate) timing: Timing,
    /// Tokens from here on are the links'; none is used twice.
    pub(crate) first_token: usize,
}

/// See the module. Each turn of the owner's loop: [`Branches::mark_ready`] for every event, then
/// [`Branches::turn`], [`Branches::pop`] until there is no news, [`Branches::flush`].
#[derive(Debug)]
pub(crate) struct Branches {
    key: Key,
    /// This manager.
    me: Instance,
    timing: Timing,
    branches: Vec<Branch>,
    lines: BTreeMap<usize, Line>,
    /// Where the daemon above is, the best address first.
    above: Vec<SocketAddr>,
    /// The way to the manager above, until it is found.
    seek: Option<Seek<SocketAddr>>,
    /// Whoever is below is there by then.
    start_by: Option<Time>,
    first_token: usize,
    next_token: usize,
    /// Links to read, and whether the peer hung up.
    ready: Vec<(usize, bool)>,
    buffer: Vec<u8>,
    news: VecDeque<News>,
    /// Of the turn under way.
    now: Time,
}

/// One of those next to us in the tree.
#[derive(Debug)]
struct Branch {
    end: End,
    host: DaemonName,
    instance: Instance,
    machine: JobLink,
    standing: Standing,
}

/// How far a branch has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Awaited,
    /// On the line of that token.
    Open(usize),
    /// By us, when all that waits is out.
    Closing(usize),
    Over,
}

/// One connection.
#[derive(Debug)]
struct Line {
    link: Link,
    stage: Stage,
    /// The socket took less than there was; an event will tell when it takes more.
    full: bool,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// To the manager above, not proved yet.
    Dialing,
    /// From somebody below, not proved yet.
    Knocking,
    /// Of the branch of that index.
    Open(usize),
    /// Saying its last words, until then.
    Leaving { until: Time },
}

impl Branches {
    /// Links of nobody yet.
    ///
    /// # Errors
    /// When `place` is none of the shares, or an instance in them is none.
    pub(crate) fn new(config: Config) -> Result<Self> {
        let Config { key, shares, place, timing, first_token } = config;
        let me = shares.get(place).context("this manager has no share of the job")?;
        let parent = Shares::parent(place).map(|above| (above, End::Parent, Side::Above));
        let children = shares.children(place).map(|below| (below, End::Child(below), Side::Below));
        let addresses = parent.and_then(|(above, ..)| shares.get(above)).map(|s| &s.addresses);
        let numeric = addresses.into_iter().flatten().filter_map(|a| a.as_str().parse().ok());
        let mut branches = Vec::new();
        for (place, end, side) in parent.into_iter().chain(children) {
            let share = shares.get(place).context("the job tree leads to nobody")?;
            branches.push(Branch {
                end,
                host: share.member.clone(),
                instance: instance(share)?,
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
            above: numeric.collect(),
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

    /// Another manager is to connect from below.
    ///
    /// # Errors
    /// Its instance is none.
    pub(crate) fn add_child(&mut self, now: Time, place: usize, share: &Share) -> Result<()> {
        self.branches.push(Branch {
            end: End::Child(place),
            host: share.member.clone(),
            instance: instance(share)?,
            machine: JobLink::new(Side::Below, self.timing.clone()),
            standing: Standing::Awaited,
        });
        self.start_by = Some(now + self.timing.start);
        Ok(())
    }

    /// The next news.
    pub(crate) fn pop(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// Queues a word to the manager at a place below. Like all that is sent it may be queued before the
    /// link is open, and [`Branches::flush`] sends it.
    pub(crate) fn send_down(&mut self, place: usize, word: &Down) {
        self.send(End::Child(place), Frame::down(word));
    }

    /// Queues a word to all below.
    pub(crate) fn send_down_all(&mut self, word: &Down) {
        self.send_all(&Frame::down(word));
    }

    /// Queues a word to the manager above.
    pub(crate) fn send_up(&mut self, word: &Up) {
        self.send(End::Parent, Frame::up(word));
    }

    /// Queues raw bytes: anything but control and fences, fewer than `MAX_TREE_FRAME`. Pieces of at
    /// most `MAX_SEALED` let control overtake them soonest.
    pub(crate) fn send_bytes(&mut self, to: End, kind: TreeKind, bytes: &[u8]) {
        self.send(to, Frame::raw(kind, bytes));
    }

    /// Queues raw bytes to all below. They are held once.
    pub(crate) fn send_bytes_down_all(&mut self, kind: TreeKind, bytes: &[u8]) {
        self.send_all(&Frame::raw(kind, bytes));
    }

    fn send_all(&mut self, frame: &Frame) {
        for index in 0..self.branches.len() {
            if self.branches[index].end != End::Parent {
                self.branches[index].machine.send(frame.clone());
                self.perform(index);
            }
        }
    }

    fn send(&mut self, to: End, frame: Frame) {
        if let Some(index) = self.index_of(to) {
            self.branches[index].machine.send(frame);
            self.perform(index);
        }
    }

    /// Whether that manager has not connected yet, and still may.
    pub(crate) fn awaits(&self, end: End) -> bool {
        let index = self.index_of(end);
        index.is_some_and(|index| matches!(self.branches[index].standing, Standing::Awaited))
    }

    /// Bytes of a class that wait for the link. What went before them cannot be overtaken any more:
    /// a control word that must come behind output is sent when this is 0 for the output's class.
    pub(crate) fn queued(&self, to: End, class: Class) -> usize {
        self.index_of(to).map_or(0, |index| self.branches[index].machine.queued(class))
    }

    /// Says bye when everything is out. Nothing more is heard of that link.
    pub(crate) fn close(&mut self, to: End) {
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

    /// Whether every link that was closed has said its last words, or will not get to.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.lines.values().any(|line| matches!(line.stage, Stage::Leaving { .. }))
    }

    fn index_of(&self, end: End) -> Option<usize> {
        self.branches.iter().position(|branch| branch.end == end)
    }

    /// Nothing more is sent to that branch or heard of it.
    fn give_up(&mut self, index: usize) {
        let branch = &mut self.branches[index];
        branch.machine.abandon();
        let standing = std::mem::replace(&mut branch.standing, Standing::Over);
        if let Standing::Open(token) | Standing::Closing(token) = standing {
            self.lines.remove(&token);
        }
        if branch.end == End::Parent {
            self.seek = None;
            self.lines.retain(|_, line| line.stage != Stage::Dialing);
        }
    }

    /// The branch is lost, to the knowledge of the owner.
    fn lose_branch(&mut self, index: usize, problem: String) {
        self.give_up(index);
        let Branch { end, host, .. } = &self.branches[index];
        log::info!("host {host} is lost: {problem}");
        self.news.push_back(News::Lost { end: *end, host: host.clone(), problem });
    }
}

fn instance(share: &Share) -> Result<Instance> {
    let instance = Instance::from_bytes(share.manager.to_bytes());
    instance.with_context(|| format!("the manager on host {} has no instance", share.member))
}
