//! The links of the job tree: what this manager says to the one above and those below, and what it receives from
//! them.
//!
//! | module | has |
//! |---|---|
//! | [`branches`] | the sockets, who is connected, who is lost |
//! | [`staging`] | programs on their way to hosts that lack them |

mod branches;
mod staging;

use std::os::fd::OwnedFd;

use mpd_job::manager::Input;
use mpd_machine::Time;
use mpd_wire::message::{Class, Down, TreeKind, Up};

pub(super) use self::branches::{Branches, Config, End, News};
pub(super) use self::staging::Staging;
use super::context::{Job, Turn};
use super::event::{Event, ForStdio};

/// Bytes of the specification in one frame.
const SPEC_CHUNK: usize = 64 * 1024;

/// Bytes that wait for the manager above beyond which what is not worth a link is left out.
const MAX_WAITING: usize = 512 * 1024;

/// See the module.
#[derive(Debug)]
pub(super) struct Links {
    branches: Branches,
    staging: Option<Staging>,
    buffer: Vec<u8>,
    /// The job ended before all managers below had connected.
    unlinked: bool,
}

impl Links {
    pub(super) fn new(branches: Branches) -> Self {
        Self { branches, staging: None, buffer: vec![0; 256 * 1024], unlinked: false }
    }

    /// An event came for that token. Whether it is one of the links'.
    pub(super) fn mark_ready(&mut self, token: usize, hung_up: bool) -> bool {
        self.branches.mark_ready(token, hung_up)
    }

    pub(super) fn has_work(&self) -> bool {
        self.branches.has_work() || self.has_staging_work()
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.branches.next_deadline()
    }

    /// Whether every link that was closed has sent what waited, or will not get to.
    pub(super) fn is_quiet(&self) -> bool {
        self.branches.is_quiet()
    }

    /// Whether the job ended before all managers below had connected.
    pub(super) const fn is_unlinked(&self) -> bool {
        self.unlinked
    }

    /// Programs on their way, if some have to be brought.
    pub(super) const fn staging(&self) -> Option<&Staging> {
        self.staging.as_ref()
    }

    /// Nothing more is started, so no programs are brought.
    pub(super) fn stop_staging(&mut self) {
        self.staging = None;
    }

    /// Writes what the sockets take.
    pub(super) fn flush(&mut self) {
        self.branches.flush();
    }

    // ----- what comes -----

    /// Reads the links, and reports what came.
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
            News::Down(command) => turn.post(Input::FromParent(command)),
            News::Word(place, message) => self.take_up(turn, place, message),
            News::Output(place, stream, bytes) => {
                turn.report(ForStdio::Output(place, stream, bytes));
            }
            News::File(bytes) => self.take_piece(turn, &bytes),
            News::Stdin(bytes) => turn.report(ForStdio::StdinPiece(bytes)),
            News::Keys(from, bytes) => turn.report(Event::Keys(from, bytes)),
            News::World(from, bytes) => turn.report(Event::WorldPiece(from, bytes)),
            News::Lost { end: End::Parent, problem, .. } => turn.post(Input::ParentLost(problem)),
            News::Lost { end: End::Child(place), problem, .. } => {
                self.lose_below(turn, place, problem);
            }
        }
    }

    fn take_up(&mut self, turn: &mut Turn<'_>, place: usize, message: Up) {
        match message {
            Up::StdinCredit { bytes } => turn.report(ForStdio::StdinCredit(place, bytes)),
            Up::StdinUnwanted { switches } => turn.report(ForStdio::StdinUnwanted(place, switches)),
            Up::Lacks { files } => self.take_lacks(place, files),
            Up::Trace { place: whose, heard_us, told_us, spans } => {
                let times = (heard_us, told_us);
                turn.report(Event::Spans { child: place, place: whose, times, spans });
            }
            Up::Drained => {
                turn.report(ForStdio::FlowDrained(place));
                turn.post(Input::FromChild(place, Up::Drained));
            }
            message => turn.post(Input::FromChild(place, message)),
        }
    }

    /// A manager of the job has connected by way of the daemon.
    pub(super) fn adopt(&mut self, turn: &Turn<'_>, connection: OwnedFd, hello: &[u8]) {
        self.branches.adopt(turn.registry, turn.now(), connection, hello);
    }

    /// The daemon has died: managers that have not connected by way of it cannot any more.
    pub(super) fn daemon_gone(&self, turn: &mut Turn<'_>) {
        let mut below = children(turn.job);
        if below.any(|place| self.branches.awaits(End::Child(place))) {
            turn.post(Input::CutOff);
        }
    }

    // ----- what is sent -----

    /// Those below get the specification, whenever they connect.
    pub(super) fn pass_on_specification(&mut self, encoded: &[u8]) {
        let bytes = u32::try_from(encoded.len()).unwrap_or(u32::MAX);
        self.branches.send_down_all(&Down::Spec { bytes });
        for chunk in encoded.chunks(SPEC_CHUNK) {
            self.branches.send_bytes_down_all(TreeKind::Spec, chunk);
        }
        // They look at their part while we look at ours.
        self.branches.flush();
    }

    /// Hosts have joined the job at the places from `known` on: those below this one are to connect.
    pub(super) fn grow(&mut self, turn: &mut Turn<'_>, known: usize) {
        let job = turn.job;
        let mine: Vec<usize> = children(job).filter(|place| *place >= known).collect();
        let encoded = if mine.is_empty() { Vec::new() } else { job.spec.encode() };
        for place in mine {
            let Some(share) = job.order.shares.get(place) else { continue };
            match self.branches.add_child(turn.now(), place, share) {
                Ok(()) => {
                    turn.report(ForStdio::BelowJoined(place));
                    self.send_specification(place, &encoded);
                }
                Err(e) => log::error!("{e:#}"),
            }
        }
    }

    /// One below that has joined gets the specification, whenever it connects.
    fn send_specification(&mut self, place: usize, encoded: &[u8]) {
        let bytes = u32::try_from(encoded.len()).unwrap_or(u32::MAX);
        self.branches.send_down(place, &Down::Spec { bytes });
        for chunk in encoded.chunks(SPEC_CHUNK) {
            self.branches.send_bytes(End::Child(place), TreeKind::Spec, chunk);
        }
    }

    /// Sends a command to all below, without delay: what this host does for it may take a while.
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

    /// Sends a command to some directly below, without delay.
    pub(super) fn send_down_now(&mut self, places: &[usize], command: &Down) {
        for &place in places {
            self.branches.send_down(place, command);
        }
        self.branches.flush();
    }

    pub(super) fn send_down(&mut self, place: usize, message: &Down) {
        self.branches.send_down(place, message);
    }

    pub(super) fn send_up(&mut self, mut message: Up) {
        message.shorten();
        self.branches.send_up(&message);
    }

    /// Sends it unless too much waits already.
    pub(super) fn send_up_if_room(&mut self, message: &Up) {
        if self.branches.queued(End::Parent, Class::Control) < MAX_WAITING {
            self.branches.send_up(message);
        } else {
            log::warn!("spans of the trace are left out: too much waits");
        }
    }

    pub(super) fn send_bytes(&mut self, to: End, kind: TreeKind, bytes: &[u8]) {
        self.branches.send_bytes(to, kind, bytes);
    }

    /// Whether all output that was handed over has gone up.
    pub(super) fn is_all_up(&self, job: &Job) -> bool {
        let nothing_waits = |class| self.branches.queued(End::Parent, class) == 0;
        job.is_root() || (nothing_waits(Class::Out) && nothing_waits(Class::Err))
    }

    // ----- the end of links -----

    /// A manager broke the protocol.
    pub(super) fn break_off(&mut self, turn: &mut Turn<'_>, end: End, problem: String) {
        self.branches.close(end);
        match end {
            End::Child(place) => self.lose_below(turn, place, problem),
            End::Parent => turn.post(Input::ParentLost(problem)),
        }
    }

    /// A manager that could not be told of the job will not come.
    pub(super) fn give_up_below(&mut self, turn: &mut Turn<'_>, place: usize) {
        self.branches.close(End::Child(place));
        self.expect_nothing_of(turn, place);
    }

    fn lose_below(&mut self, turn: &mut Turn<'_>, place: usize, problem: String) {
        self.expect_nothing_of(turn, place);
        turn.post(Input::ChildLost(place, problem));
    }

    fn expect_nothing_of(&mut self, turn: &mut Turn<'_>, place: usize) {
        if let Some(staging) = &mut self.staging {
            staging.stop_sending(place);
        }
        turn.report(ForStdio::BelowGone(place));
    }

    /// The job ends before all have connected: those that have not started nothing, and are not
    /// waited for. They end when they find no manager here.
    fn give_up_unlinked(&mut self, turn: &mut Turn<'_>) {
        let below = children(turn.job);
        let missing = below.filter(|&place| self.branches.awaits(End::Child(place)));
        for place in missing.collect::<Vec<_>>() {
            self.unlinked = true;
            let problem = "its manager had not connected when the job was ended".to_owned();
            self.break_off(turn, End::Child(place), problem);
        }
    }

    /// Nothing is left here and below.
    pub(super) fn leave(&mut self, turn: &mut Turn<'_>) {
        self.branches.close(End::Parent);
        turn.report(Event::Over(0));
    }
}

/// The places directly below this host.
fn children(job: &Job) -> std::ops::Range<usize> {
    job.order.shares.children(job.place())
}
