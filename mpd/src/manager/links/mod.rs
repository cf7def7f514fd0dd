//! The links of the job tree: the messages of this manager to its parent and its children, and their messages.
//!
//! | module | has |
//! |---|---|
//! | [`branches`] | the sockets, the connected and the lost managers |
//! | [`staging`], [`preload`] | programs on their way to hosts that lack them |

pub(super) mod branches;
mod preload;
pub(super) mod staging;

use std::os::fd::OwnedFd;

use mpd_sansio::Time;
use mpd_wire::message::{Class, Down, TreeKind, Up};

pub(super) use self::branches::{Branches, Config, LinkEnd};
pub(super) use self::staging::Staging;
use super::context::Turn;
use super::event::Event;

/// Bytes of the specification in one frame.
const SPEC_CHUNK: usize = 64 * 1024;

/// The links, and the programs on their way.
#[derive(Debug)]
pub(super) struct Links {
    branches: Branches,
    staging: Option<Staging>,
    buffer: Vec<u8>,
}

impl Links {
    pub(super) fn new(branches: Branches) -> Self {
        Self { branches, staging: None, buffer: vec![0; 256 * 1024] }
    }

    /// Marks the link of that token as ready. Whether the token belongs to a link.
    pub(super) fn mark_ready(&mut self, token: usize, hung_up: bool) -> bool {
        self.branches.mark_ready(token, hung_up)
    }

    pub(super) fn has_work(&self) -> bool {
        self.branches.has_work() || self.has_staging_work()
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.branches.next_deadline()
    }

    /// Whether every closed link has sent its last messages, or cannot send them any more.
    pub(super) fn is_quiet(&self) -> bool {
        self.branches.is_quiet()
    }

    /// The programs on their way, if the job preloads programs.
    pub(super) const fn staging(&self) -> Option<&Staging> {
        self.staging.as_ref()
    }

    /// Stops bringing programs, since nothing more is started.
    pub(super) fn stop_staging(&mut self) {
        self.staging = None;
    }

    /// Writes to the sockets as much as they accept.
    pub(super) fn flush(&mut self) {
        self.branches.flush();
    }

    // ----- receiving -----

    /// Reads the links and reports their news.
    pub(super) fn serve(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now();
        self.branches.turn(turn.registry, now);
        while let Some(news) = self.branches.pop() {
            turn.report(Event::News(news));
        }
    }

    /// Takes the connection of a manager of the job that the daemon accepted.
    pub(super) fn adopt(&mut self, turn: &Turn<'_>, connection: OwnedFd, hello: &[u8]) {
        self.branches.adopt(turn.registry, turn.now(), connection, hello);
    }

    // ----- sending -----

    /// Sends the specification to all children, also to those that connect later.
    pub(super) fn pass_on_specification(&mut self, encoded: &[u8]) {
        let bytes = u32::try_from(encoded.len()).unwrap_or(u32::MAX);
        self.branches.send_down_all(&Down::Spec { bytes });
        for chunk in encoded.chunks(SPEC_CHUNK) {
            self.branches.send_bytes_down_all(TreeKind::Spec, chunk);
        }
        // The children check their part while this manager checks its own.
        self.branches.flush();
    }

    /// Adds children that have joined the job.
    pub(super) fn join(&mut self, turn: &mut Turn<'_>, tree_indices: &[usize]) {
        let job = turn.job;
        let encoded = job.spec.encode();
        for &tree_index in tree_indices {
            let Some(host_slice) = job.order.host_slices.get(tree_index) else { continue };
            match self.branches.add_child(turn.now(), tree_index, host_slice) {
                Ok(()) => {
                    turn.report(mpd_stdio::machine::Input::ChildJoined(tree_index));
                    self.send_specification(tree_index, &encoded);
                }
                Err(e) => log::error!("{e:#}"),
            }
        }
    }

    /// Sends the specification to a child that has joined, also if it connects later.
    fn send_specification(&mut self, tree_index: usize, encoded: &[u8]) {
        let bytes = u32::try_from(encoded.len()).unwrap_or(u32::MAX);
        self.branches.send_down(tree_index, &Down::Spec { bytes });
        for chunk in encoded.chunks(SPEC_CHUNK) {
            self.branches.send_bytes(LinkEnd::Child(tree_index), TreeKind::Spec, chunk);
        }
    }

    /// Sends a command to all children without delay, since this host may need time for it.
    pub(super) fn send_down_all(&mut self, command: &Down) {
        self.branches.send_down_all(command);
        self.branches.flush();
    }

    /// Sends a command to some children without delay.
    pub(super) fn send_down_now(&mut self, tree_indices: &[usize], command: &Down) {
        for &tree_index in tree_indices {
            self.branches.send_down(tree_index, command);
        }
        self.branches.flush();
    }

    pub(super) fn send_down(&mut self, tree_index: usize, message: &Down) {
        self.branches.send_down(tree_index, message);
    }

    pub(super) fn send_up(&mut self, mut message: Up) {
        message.shorten();
        self.branches.send_up(&message);
    }

    pub(super) fn send_bytes(&mut self, to: LinkEnd, kind: TreeKind, bytes: &[u8]) {
        self.branches.send_bytes(to, kind, bytes);
    }

    /// The bytes of a class that wait for the link with the most.
    pub(super) fn most_queued(&self, class: Class) -> usize {
        self.branches.most_queued(class)
    }

    /// Bytes of a class that wait for a link.
    pub(super) fn queued(&self, to: LinkEnd, class: Class) -> usize {
        self.branches.queued(to, class)
    }

    /// Whether the manager of that child has not connected yet, and still may.
    pub(super) fn awaits(&self, tree_index: usize) -> bool {
        self.branches.awaits(LinkEnd::Child(tree_index))
    }

    // ----- the end of links -----

    /// Closes a link after everything is sent.
    pub(super) fn close(&mut self, end: LinkEnd) {
        self.branches.close(end);
    }

    /// Stops sending programs to a child that is lost.
    pub(super) fn stop_sending(&mut self, tree_index: usize) {
        if let Some(staging) = &mut self.staging {
            staging.stop_sending(tree_index);
        }
    }
}
