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

use mpd_clients as clients;
use mpd_job::manager::Input;
use mpd_job::manager::spawns::SpawnInput;
use mpd_machine::Time;
use mpd_wire::message::{Class, Down, TreeKind, Up, WorldPiece};

pub(super) use self::branches::{Branches, Config, LinkEnd, News};
pub(super) use self::staging::Staging;
use super::context::{Job, Turn};
use super::event::{Event, ForStdio};
use super::stdio::answer::Answer;

/// Bytes of the specification in one frame.
const SPEC_CHUNK: usize = 64 * 1024;

/// Most bytes that wait for the parent before unimportant messages are left out.
const MAX_WAITING: usize = 512 * 1024;

/// The links, and the programs on their way.
#[derive(Debug)]
pub(super) struct Links {
    branches: Branches,
    staging: Option<Staging>,
    buffer: Vec<u8>,
    /// The job ended before all children had connected.
    unlinked: bool,
}

impl Links {
    pub(super) fn new(branches: Branches) -> Self {
        Self { branches, staging: None, buffer: vec![0; 256 * 1024], unlinked: false }
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

    /// Whether the job ended before all children had connected.
    pub(super) const fn is_unlinked(&self) -> bool {
        self.unlinked
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
            self.take_news(turn, news);
        }
    }

    fn take_news(&mut self, turn: &mut Turn<'_>, news: News) {
        match news {
            News::Up(_) | News::Spec(_) => {}
            News::Down(Down::Preloads { files, more }) => self.take_list(turn, files, more),
            News::Down(Down::Spec { .. }) => {}
            News::Down(Down::OutputCredit { stream, bytes }) => {
                turn.report(ForStdio::OutputCredit(stream, bytes));
            }
            News::Down(Down::LookAt { stream, ranks }) => {
                turn.report(ForStdio::LookAt(stream, ranks));
            }
            News::Down(command) => turn.post(Input::FromParent(command)),
            News::Report(tree_index, message) => self.take_up(turn, tree_index, message),
            News::Output(tree_index, stream, bytes) => {
                turn.report(ForStdio::Output(tree_index, stream, bytes));
            }
            News::File(bytes) => self.take_piece(turn, &bytes),
            News::Stdin(bytes) => turn.report(ForStdio::StdinPiece(bytes)),
            News::Keys(from, bytes) => turn.report(clients::Input::Keys(from, bytes)),
            News::World(_, bytes) if WorldPiece::read(&bytes).is_none() => {
                log::warn!("received a malformed piece of a world");
            }
            News::World(from, bytes) => {
                turn.post(Input::Spawn(SpawnInput::Piece(from, bytes)));
            }
            News::Pmix(from, bytes) => turn.report(clients::Input::Piece(from, bytes)),
            News::Lost { end: LinkEnd::Parent, problem, .. } => {
                turn.post(Input::ParentLost(problem))
            }
            News::Lost { end: LinkEnd::Child(tree_index), problem, closed: false, .. } => {
                self.lose_child(turn, tree_index, problem);
            }
            News::Lost { end: LinkEnd::Child(tree_index), problem, closed: true, .. } => {
                self.forget_child(turn, tree_index);
                turn.post(Input::ChildClosed(tree_index, problem));
            }
        }
    }

    fn take_up(&mut self, turn: &mut Turn<'_>, tree_index: usize, message: Up) {
        match message {
            Up::StdinCredit { bytes } => turn.report(ForStdio::StdinCredit(tree_index, bytes)),
            Up::StdinUnwanted { switches } => {
                turn.report(ForStdio::StdinUnwanted(tree_index, switches))
            }
            Up::Looked { stream, behind, others } => {
                let answer = Answer { child: Some(tree_index), stream, behind, others };
                turn.report(ForStdio::Looked(answer));
            }
            Up::Lacks { files } => self.take_lacks(tree_index, files),
            Up::Trace { tree_index: origin, received_us, reported_us, spans } => {
                let times = (received_us, reported_us);
                turn.report(Event::Spans { child: tree_index, tree_index: origin, times, spans });
            }
            Up::Drained => {
                turn.report(ForStdio::FlowDrained(tree_index));
                turn.post(Input::FromChild(tree_index, Up::Drained));
            }
            message => turn.post(Input::FromChild(tree_index, message)),
        }
    }

    /// Takes the connection of a manager of the job that the daemon accepted.
    pub(super) fn adopt(&mut self, turn: &Turn<'_>, connection: OwnedFd, hello: &[u8]) {
        self.branches.adopt(turn.registry, turn.now(), connection, hello);
    }

    /// Handles the end of the daemon: managers that have not connected through it cannot connect any more.
    pub(super) fn daemon_gone(&self, turn: &mut Turn<'_>) {
        let mut children = children(turn.job);
        if children.any(|tree_index| self.branches.awaits(LinkEnd::Child(tree_index))) {
            turn.post(Input::CutOff);
        }
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

    /// Adds the children among the hosts that have joined the job at the tree indices from `known` on.
    pub(super) fn grow(&mut self, turn: &mut Turn<'_>, known: usize) {
        let job = turn.job;
        let mine: Vec<usize> = children(job).filter(|tree_index| *tree_index >= known).collect();
        let encoded = if mine.is_empty() { Vec::new() } else { job.spec.encode() };
        for tree_index in mine {
            let Some(host_slice) = job.order.host_slices.get(tree_index) else { continue };
            match self.branches.add_child(turn.now(), tree_index, host_slice) {
                Ok(()) => {
                    turn.report(ForStdio::ChildJoined(tree_index));
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
    pub(super) fn send_down_all(&mut self, turn: &mut Turn<'_>, command: &Down) {
        if *command == Down::Go {
            turn.report(Event::GoPassedOn(turn.now()));
        }
        self.branches.send_down_all(command);
        self.branches.flush();
        if *command == Down::Kill {
            self.give_up_unlinked(turn);
        }
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

    /// Sends a message unless too much waits already.
    pub(super) fn send_up_if_room(&mut self, message: &Up) {
        let has_room = |class| self.branches.queued(LinkEnd::Parent, class) < MAX_WAITING;
        if has_room(Class::Control) && has_room(Class::Out) {
            self.branches.send_up(message);
        } else {
            log::debug!("{message:?} is left out: too much waits for the parent");
        }
    }

    pub(super) fn send_bytes(&mut self, to: LinkEnd, kind: TreeKind, bytes: &[u8]) {
        self.branches.send_bytes(to, kind, bytes);
    }

    /// The bytes of a class that wait for the link with the most.
    pub(super) fn most_queued(&self, class: Class) -> usize {
        self.branches.most_queued(class)
    }

    /// Whether all output for the parent has been sent.
    pub(super) fn is_all_up(&self, job: &Job) -> bool {
        let nothing_waits = |class| self.branches.queued(LinkEnd::Parent, class) == 0;
        job.is_root() || (nothing_waits(Class::Out) && nothing_waits(Class::Err))
    }

    // ----- the end of links -----

    /// Closes the link of a manager that broke the protocol.
    pub(super) fn break_off(&mut self, turn: &mut Turn<'_>, end: LinkEnd, problem: String) {
        self.branches.close(end);
        match end {
            LinkEnd::Child(tree_index) => self.lose_child(turn, tree_index, problem),
            LinkEnd::Parent => turn.post(Input::ParentLost(problem)),
        }
    }

    /// Gives up the child at `tree_index`, which did not get the job, and its subtree.
    pub(super) fn give_up_children(&mut self, turn: &mut Turn<'_>, tree_index: usize) {
        self.branches.close(LinkEnd::Child(tree_index));
        self.forget_child(turn, tree_index);
    }

    fn lose_child(&mut self, turn: &mut Turn<'_>, tree_index: usize, problem: String) {
        self.forget_child(turn, tree_index);
        turn.post(Input::ChildLost(tree_index, problem));
    }

    fn forget_child(&mut self, turn: &mut Turn<'_>, tree_index: usize) {
        if let Some(staging) = &mut self.staging {
            staging.stop_sending(tree_index);
        }
        turn.report(ForStdio::ChildrenGone(tree_index));
    }

    /// Ends the wait for children that have not connected, since the job ends. They have started nothing. They end
    /// when they find no manager here.
    fn give_up_unlinked(&mut self, turn: &mut Turn<'_>) {
        let children = children(turn.job);
        let missing =
            children.filter(|&tree_index| self.branches.awaits(LinkEnd::Child(tree_index)));
        for tree_index in missing.collect::<Vec<_>>() {
            self.unlinked = true;
            let problem = "its manager had not connected when the job was ended".to_owned();
            self.break_off(turn, LinkEnd::Child(tree_index), problem);
        }
    }

    /// Ends this manager, since nothing is left in its subtree.
    pub(super) fn leave(&mut self, turn: &mut Turn<'_>) {
        self.branches.close(LinkEnd::Parent);
        turn.report(Event::Over(0));
    }
}

/// The tree indices of the children of this host.
fn children(job: &Job) -> std::ops::Range<usize> {
    job.order.host_slices.children(job.tree_index())
}
