//! The job links of this manager: to the manager above it in the job tree, and from those below.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use anyhow::Result;
use mio::Registry;
use mpd_proto::Time;
use mpd_proto::job::{JobKey, Shares};
use mpd_proto::joblink::Timing;
use mpd_proto::message::{Class, Down, TreeKind, Up};
use mpd_proto::ring::DaemonName;
use mpd_proto::stdio::Stream;

/// Who is at the other end of a job link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The manager above.
    Parent,
    /// The manager below at this place.
    Child(usize),
}

/// What the links have to tell, in order of each link.
#[derive(Debug)]
pub(crate) enum News {
    /// The link is open. What was sent before is on its way now.
    Up(End),
    /// From above. Never a pulse.
    Down(Down),
    /// From the place below. Never a pulse.
    Word(usize, Up),
    /// Records of output from the place below.
    Output(usize, Stream, Vec<u8>),
    /// Standard input from above; empty means its end.
    Stdin(Vec<u8>),
    /// Keys and values.
    Keys(End, Vec<u8>),
    /// A piece of the specification.
    Spec(Vec<u8>),
    /// The link is over, or never came up: the last news of it, and nothing that is sent goes anywhere.
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
    config: Config,
    news: VecDeque<News>,
}

impl Branches {
    /// Links of nobody yet.
    ///
    /// # Errors
    /// When `place` is none of the shares.
    pub(crate) fn new(config: Config) -> Result<Self> {
        Ok(Self { config, news: VecDeque::new() })
    }

    /// Begins to look for the manager above, if there is one, and to wait for those below.
    pub(crate) fn begin(&mut self, _registry: &Registry, _now: Time) {}

    /// Takes a connection that the daemon accepted, and what was read from it.
    pub(crate) fn adopt(
        &mut self,
        _registry: &Registry,
        _now: Time,
        _connection: OwnedFd,
        _hello: &[u8],
    ) {
    }

    /// An event came for `token`; whether that is one of the links'.
    pub(crate) fn mark_ready(&mut self, token: usize, _hung_up: bool) -> bool {
        token >= self.config.first_token
    }

    /// Reads what is ready, a bounded amount, then lets time pass, then writes.
    pub(crate) fn turn(&mut self, _registry: &Registry, _now: Time) {}

    /// The next news.
    pub(crate) fn pop(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// Whether there is something to do without waiting.
    pub(crate) fn has_work(&self) -> bool {
        !self.news.is_empty()
    }

    /// When [`Branches::turn`] is due at the latest.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// Queues a word to the manager at a place below. Like all that is sent it may be queued before the
    /// link is open, and [`Branches::flush`] sends it.
    pub(crate) fn send_down(&mut self, _place: usize, _word: &Down) {}

    /// Queues a word to all below.
    pub(crate) fn send_down_all(&mut self, _word: &Down) {}

    /// Queues a word to the manager above.
    pub(crate) fn send_up(&mut self, _word: &Up) {}

    /// Queues raw bytes: anything but control and fences, less than `MAX_TREE_FRAME`.
    pub(crate) fn send_bytes(&mut self, _to: End, _kind: TreeKind, _bytes: &[u8]) {}

    /// Queues raw bytes to all below.
    pub(crate) fn send_bytes_down_all(&mut self, _kind: TreeKind, _bytes: &[u8]) {}

    /// Bytes of a class that wait for the link. What went before them cannot be overtaken any more:
    /// a control word that must come behind output is sent when this is 0 for the output's class.
    pub(crate) fn queued(&self, _to: End, _class: Class) -> usize {
        0
    }

    /// Writes what the sockets take.
    pub(crate) fn flush(&mut self) {}

    /// Says bye when everything is out. Nothing more is heard of that link.
    pub(crate) fn close(&mut self, _to: End) {}

    /// Whether every link that was closed has said its last words, or will not get to.
    pub(crate) fn is_quiet(&self) -> bool {
        true
    }
}
